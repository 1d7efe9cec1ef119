/* See workspace_box.h. */
#include "run/workspace_box.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct workspace_keeper box_keeper;

/* Freed at the end, so that the leak checker sees only what is really lost. */
struct kept {
    struct kept *next;
    void *memory;
    struct workspace_change *change;
};
static struct kept *all_kept;

static void free_kept(void)
{
    while (all_kept != NULL) {
        struct kept *one = all_kept;
        all_kept = one->next;
        if (one->change != NULL)
            workspace_change_done(one->change);
        free(one->memory);
        free(one);
    }
}

static void *keep(void *memory, struct workspace_change *change)
{
    struct kept *one = calloc(1, sizeof *one);
    check(one != NULL && memory != NULL);
    *one = (struct kept){all_kept, memory, change};
    all_kept = one;
    return memory;
}

void box_init(void)
{
    atexit(free_kept);
    setenv("HOME", test_folder(), 1);
    unsetenv("XDG_CONFIG_HOME");
    setenv("GIT_CONFIG_GLOBAL", test_path("gitconfig"), 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    check_int(chdir(test_folder()), ==, 0);
    FILE *file = fopen(test_path("gitconfig"), "w");
    check(file != NULL);
    fputs("[user]\n\tname = Test\n\temail = test@example.org\n[init]\n\tdefaultBranch = main\n"
          "[protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n",
          file);
    check_int(fclose(file), ==, 0);
    workspace_keeper_init(&box_keeper, test_path("cache"));
    box_keeper.limits.timeout_ms = 60000;
}

static int run_line(const char *format, va_list args, FILE **ret_pipe)
{
    char *line = NULL;
    check_int(vasprintf(&line, format, args), >=, 0);
    keep(line, NULL);
    fflush(NULL);
    *ret_pipe = popen(line, "r");
    check(*ret_pipe != NULL);
    return 0;
}

static int end_line(FILE *pipe)
{
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const char *read_pipe(FILE *pipe)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    char chunk[4096];
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, pipe)) > 0;)
        fwrite(chunk, 1, got, out);
    fclose(out);
    while (size > 0 && text[size - 1] == '\n')
        text[--size] = '\0';
    return keep(text, NULL);
}

void box_sh(const char *format, ...)
{
    FILE *pipe;
    va_list args;
    va_start(args, format);
    run_line(format, args, &pipe);
    va_end(args);
    const char *output = read_pipe(pipe);
    int status = end_line(pipe);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "status %d: %s\n%s", status, format, output);
}

int box_status(const char *format, ...)
{
    FILE *pipe;
    va_list args;
    va_start(args, format);
    run_line(format, args, &pipe);
    va_end(args);
    (void)read_pipe(pipe);
    return end_line(pipe);
}

const char *box_out(const char *format, ...)
{
    FILE *pipe;
    va_list args;
    va_start(args, format);
    run_line(format, args, &pipe);
    va_end(args);
    const char *output = read_pipe(pipe);
    check_int(end_line(pipe), ==, 0);
    return output;
}

const char *box_repository(const char *name)
{
    box_sh("set -e; git init -q '%s'; cd '%s'; mkdir dir; printf 'one\\ntwo\\nthree\\n' >a.txt; "
           "echo b >dir/b.txt; printf '#!/bin/sh\\n' >run.sh; chmod 755 run.sh; ln -s a.txt link; "
           "echo '*.log' >.gitignore; git add -A; git commit -qm start",
           name, name);
    return test_path(name);
}

const char *box_content(const char *folder)
{
    return box_out(
        "cd '%s' && find . -path ./.git -prune -o ! -type d -printf '%%y %%m %%P -> %%l\\n' "
        "| sort && find . -path ./.git -prune -o -type f -print0 | sort -z | "
        "xargs -0 -r sha256sum",
        folder);
}

const char *box_repository_state(const char *path)
{
    return box_out("cd '%s' && find . -printf '%%y %%m %%s %%P -> %%l\\n' | sort && "
                   "find . -type f -print0 | sort -z | xargs -0 -r sha256sum",
                   path);
}

void test_check_fine(const char *file, int line, const char *what, int rc, const struct err *err)
{
    test_count_check();
    if (rc < 0)
        test_fail(file, line, "%s: %d: %s", what, rc, err->text);
}

struct workspace box_workspace(const char *repo, const char *ref)
{
    struct err err = {0};
    struct workspace_source source;
    struct workspace workspace;
    check_fine(workspace_resolve(&box_keeper, repo, ref, &source, &err), &err);
    check_fine(workspace_make(&box_keeper, &source, test_path("work"), &workspace, &err), &err);
    check_str(workspace.commit, source.commit);
    workspace_source_done(&source);
    return workspace;
}

void box_drop(struct workspace *workspace)
{
    struct err err = {0};
    check_fine(workspace_remove(&box_keeper, workspace, &err), &err);
    check_int(access(workspace->folder, F_OK), <, 0);
    check_int(access(workspace->private_folder, F_OK), <, 0);
    workspace_done(workspace);
}

struct workspace_change *box_checkpoint(struct workspace *workspace)
{
    struct err err = {0};
    struct workspace_change *change = calloc(1, sizeof *change);
    check(change != NULL);
    check_fine(workspace_checkpoint(&box_keeper, workspace, change, &err), &err);
    check_str(change->tree, workspace->tree);
    keep(change, change);
    return change;
}

void box_check_replay(const char *repo, const char *ref, const struct workspace *original,
                      struct workspace_change *const *changes, size_t count)
{
    struct err err = {0};
    struct workspace fresh = box_workspace(repo, ref);
    struct workspace_patch *patches = calloc(count + 1, sizeof *patches);
    check(patches != NULL);
    for (size_t i = 0; i < count; i++)
        patches[i] =
            (struct workspace_patch){"some", changes[i]->patch.data, changes[i]->patch.len};
    check_fine(workspace_replay(&box_keeper, &fresh, patches, count, NULL, &err), &err);
    check_str(fresh.tree, original->tree);
    check_str(box_content(fresh.folder), box_content(original->folder));
    /* What the index says is what is there: a look at the files finds no further change. */
    check_str(box_checkpoint(&fresh)->hash, "");
    check_str(fresh.tree, original->tree);
    free(patches);
    box_drop(&fresh);
}

size_t box_diff_hash(struct workspace *workspace, char ret_hash[GIT_ID_BYTES])
{
    struct err err = {0};
    struct workspace_change change;
    check_fine(workspace_diff_hash(&box_keeper, workspace, &change, &err), &err);
    check_int(change.patch.len, ==, 0);
    memcpy(ret_hash, change.hash, sizeof change.hash);
    size_t count = change.file_count;
    workspace_change_done(&change);
    return count;
}
