/* See corpus_case.h. */
#include "unit/corpus_case.h"

#include "unit/case.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "@@@ ";

static void read_file(const char *path, struct buf *ret)
{
    char block[8192];
    size_t got;
    FILE *file = fopen(path, "r");
    check_case(file != NULL, path);
    buf_init(ret);
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        buf_append(ret, block, got);
    fclose(file);
}

/* "policy exit=128 git clone: publickey": the line after the mark. */
static struct corpus_case read_head(char *line)
{
    static const char exit_label[] = " exit=";
    struct corpus_case made = {0};
    size_t len = strcspn(line, " ");
    check_case(len > 0 && len < CORPUS_WORD_BYTES, line);
    memcpy(made.answer, line, len);
    check_case(strncmp(line + len, exit_label, strlen(exit_label)) == 0, line);
    char *end;
    made.exit_code = (int)strtol(line + len + strlen(exit_label), &end, 10);
    check_case(*end == ' ' && end[1] != '\0', line);
    made.name = end + 1;
    return made;
}

/* Whether a case begins here: the mark, and no banner of ssh. */
static bool is_head(const char *line)
{
    return strncmp(line, mark, strlen(mark)) == 0;
}

static void read_cases(struct corpus *corpus, char *text, const char *path)
{
    struct corpus_case *open = NULL;
    for (char *line = text, *next; *line != '\0'; line = next) {
        char *end = strchr(line, '\n');
        check_case(end != NULL, path);
        next = end + 1;
        if (is_head(line)) {
            *end = '\0';
            corpus->cases = reallocarray(corpus->cases, corpus->count + 1, sizeof *corpus->cases);
            check(corpus->cases != NULL);
            open = &corpus->cases[corpus->count++];
            *open = read_head(line + strlen(mark));
            open->output = next;
        } else if (open) {
            open->output_bytes = (size_t)(next - open->output);
        }
    }
}

void corpus_load(struct corpus *corpus, const char *part)
{
    const char *root = getenv("TEND_SOURCE");
    char pattern[1000];
    glob_t found;
    *corpus = (struct corpus){0};
    snprintf(pattern, sizeof pattern, "%s/tests/corpus/%s/*.txt", root ? root : ".", part);
    int code = glob(pattern, 0, NULL, &found);
    check_case(code == 0 || code == GLOB_NOMATCH, pattern);
    corpus->texts = calloc(found.gl_pathc + 1, sizeof *corpus->texts);
    check(corpus->texts != NULL);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct buf *text = &corpus->texts[corpus->file_count++];
        read_file(found.gl_pathv[i], text);
        read_cases(corpus, text->data, found.gl_pathv[i]);
    }
    globfree(&found);
}

void corpus_done(struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->file_count; i++)
        buf_done(&corpus->texts[i]);
    free(corpus->texts);
    free(corpus->cases);
}
