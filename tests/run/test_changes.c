/* What was changed in a workspace, as people get to see it (SH-9, SH-15). */
#include "run/changes.h"

#include "base/arena.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static struct redactor *redactor(void)
{
    static const struct redact_variable secrets[] = {{"API_TOKEN", "s3cr3t-value-of-api"}};
    struct redactor *made;
    struct err err;
    const struct redact_known known = {.variables = secrets, .variable_count = 1};
    check_int(redactor_new(&known, &made, &err), ==, 0);
    return made;
}

/* SH-15: what is kept for people has no secrets. */
TEST(changes, SH_15_a_patch_is_kept_without_secrets)
{
    struct redactor *clean = redactor();
    struct buf patch;
    struct buf out;
    int64_t dropped;
    buf_init(&patch);
    buf_init(&out);
    buf_puts(&patch, "diff --git a/x b/x\n+key = s3cr3t-value-of-api\n+fine\n");
    changes_redact(&patch, clean, 1000, &out, &dropped);
    check_str(out.data, "diff --git a/x b/x\n+key = [redacted]\n+fine\n");
    check_int(dropped, ==, 0);
    buf_done(&patch);
    buf_done(&out);
    redactor_free(clean);
}

/* Also where the secret lies across the cut. */
TEST(changes, a_patch_that_is_too_long_is_cut_behind_a_line_and_says_how_much_is_missing)
{
    enum { MOST = 1000, LINE = 20, LINES = 100000 };
    struct redactor *clean = redactor();
    struct buf patch;
    struct buf out;
    int64_t dropped;
    buf_init(&patch);
    buf_init(&out);
    for (int i = 0; i < LINES; i++)
        buf_puts(&patch, i == MOST / LINE - 1 ? "+s3cr3t-value-of-api" : "+234567890123456789\n");
    changes_redact(&patch, clean, MOST, &out, &dropped);
    check_int(out.len, <=, MOST);
    check_int(out.data[out.len - 1], ==, '\n');
    check(strstr(out.data, "s3cr") == NULL);
    /* A mark is shorter than the secret. */
    check_int((int64_t)out.len + dropped, ==, (int64_t)patch.len - (LINE - 1) + 10);
    buf_done(&patch);
    buf_done(&out);
    redactor_free(clean);
}

TEST(changes, names_of_files_are_json_without_secrets_whatever_their_bytes)
{
    struct redactor *clean = redactor();
    struct workspace_file files[] = {
        {'A', "a \"b\".c"}, {'M', "\xff.txt"}, {'D', "dir/s3cr3t-value-of-api"}};
    struct workspace_change change = {.file_count = 3, .files = files};
    struct arena arena;
    arena_init(&arena);
    check_str(changes_files(&change, clean, &arena),
              "[\"a \\\"b\\\".c\",\"\xef\xbf\xbd.txt\",\"dir/[redacted]\"]");
    change.file_count = 0;
    check_str(changes_files(&change, NULL, &arena), "[]");
    arena_done(&arena);
    redactor_free(clean);
}

TEST(changes, SH_9_very_many_names_are_cut)
{
    enum { FILES = 100000 };
    struct workspace_file *files = calloc(FILES, sizeof *files);
    struct workspace_change change = {.file_count = FILES, .files = files};
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < FILES; i++)
        files[i].path = "a/name/of/some/length.c";
    const char *json = changes_files(&change, NULL, &arena);
    check_int(strlen(json), <, 300000);
    check_int(json[strlen(json) - 1], ==, ']');
    arena_done(&arena);
    free(files);
}
