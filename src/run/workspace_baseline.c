/*
 * See workspace_inner.h: the tree that the first checkpoint is compared with.
 *
 * Git's index of a fresh checkout says what is in the repository, and tend wants what is on the
 * disk. Both are the same unless attributes convert a file on its way (eol=crlf, ident,
 * working-tree-encoding, filter; `text` alone does not, for core.eol is fixed). So tend takes the
 * index over, with the time and size of each file, and hashes only files that such an attribute
 * names. In a repository whose attributes mention no conversion not even that is looked for.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

#define ATTRIBUTES_FILE ".gitattributes"

/* The attributes that convert, and the words of files that set them. */
static const char *const converting[] = {"eol", "ident", "working-tree-encoding", "filter"};
static const char *const words[] = {"eol=crlf", "ident", "working-tree-encoding", "filter"};
enum { CONVERTING = sizeof converting / sizeof *converting };

static bool mentions_conversion(const char *path)
{
    struct buf text;
    bool found = false;
    buf_init(&text);
    (void)files_read_linked(path, FILES_SMALL_BYTES, &text, NULL); /* git does without it, too */
    for (size_t i = 0; text.len > 0 && i < sizeof words / sizeof *words; i++)
        found = found || strstr(text.data, words[i]) != NULL;
    buf_done(&text);
    return found;
}

/* The account's file of attributes, for all its repositories. */
static bool account_mentions_conversion(struct workspace_keeper *keeper,
                                        const struct workspace *workspace)
{
    char path[PATH_MAX];
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    struct git_call call =
        workspace_step_call(workspace, (const char *const[]){"config", "--type=path", "--get",
                                                             "core.attributesFile", NULL});
    if (workspace_git_line(keeper, &call, NULL, path, sizeof path, NULL) == 0)
        return mentions_conversion(path);
    keeper->problem = WORKSPACE_FINE; /* it is not set, mostly */
    if (config != NULL && config[0] != '\0')
        snprintf(path, sizeof path, "%s/git/attributes", config);
    else
        snprintf(path, sizeof path, "%s/.config/git/attributes", home != NULL ? home : "");
    return mentions_conversion(path);
}

/* "100644 ID 0\tpath\0…": the path, or NULL for what is no file, such as a submodule. */
static const char *path_of_file(const char *line)
{
    const char *tab = strchr(line, '\t');
    return tab != NULL && strncmp(line, "100", 3) == 0 ? tab + 1 : NULL;
}

bool workspace_is_attributes_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, ATTRIBUTES_FILE) == 0;
}

/* Whether any file of attributes mentions a conversion. lines: of git ls-files --stage -z. */
static bool may_convert(struct workspace_keeper *keeper, const struct workspace *workspace,
                        const struct buf *lines)
{
    char path[2 * PATH_MAX];
    for (const char *at = lines->data; at < lines->data + lines->len; at += strlen(at) + 1) {
        const char *name = path_of_file(at);
        if (name == NULL || !workspace_is_attributes_file(name))
            continue;
        snprintf(path, sizeof path, "%s/%s", workspace->folder, name);
        if (mentions_conversion(path))
            return true;
    }
    snprintf(path, sizeof path, "%s/.git/info/attributes", workspace->folder);
    return mentions_conversion(path) || account_mentions_conversion(keeper, workspace);
}

/* "path\0attribute\0value\0…": appends each path that is converted, with its NUL, once. */
static void collect(const struct buf *answers, struct buf *paths)
{
    const char *last = "";
    for (const char *at = answers->data; at < answers->data + answers->len;) {
        const char *path = at;
        const char *attribute = path + strlen(path) + 1;
        const char *value = attribute + strlen(attribute) + 1;
        bool none = strcmp(value, "unspecified") == 0 || strcmp(value, "unset") == 0 ||
                    strcmp(value, "lf") == 0;
        if (!none && strcmp(path, last) != 0) {
            buf_append(paths, path, strlen(path) + 1);
            last = path;
        }
        at = value + strlen(value) + 1;
    }
}

static int find_converted(struct workspace_keeper *keeper, const struct workspace *workspace,
                          const struct buf *lines, struct buf *ret_paths, struct err *err)
{
    struct buf all;
    struct buf answers;
    buf_init(&all);
    buf_init(&answers);
    for (const char *at = lines->data; at < lines->data + lines->len; at += strlen(at) + 1) {
        const char *path = path_of_file(at);
        if (path != NULL)
            buf_append(&all, path, strlen(path) + 1);
    }
    struct git_call call = workspace_step_call(
        workspace, (const char *const[]){"check-attr", "--stdin", "-z", converting[0],
                                         converting[1], converting[2], converting[3], NULL});
    call.input = all.data;
    call.input_bytes = all.len;
    int rc = workspace_git_text(keeper, &call, &answers, err);
    if (rc == 0)
        collect(&answers, ret_paths);
    if (rc == 0 && (all.failed || ret_paths->failed))
        rc = workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    buf_done(&all);
    buf_done(&answers);
    return rc;
}

/*
 * Takes the files out of the index and in again: as long as git knows one by its time and size it
 * does not look at its content.
 */
static int hash_again(struct workspace_keeper *keeper, struct workspace *workspace,
                      const struct buf *paths, struct err *err)
{
    static const char *const commands[][6] = {
        {"update-index", "--force-remove", "-z", "--stdin", NULL},
        {"update-index", "--add", "-z", "--stdin", NULL}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof commands / sizeof *commands; i++) {
        struct git_call call = workspace_call(workspace, commands[i]);
        call.input = paths->data;
        call.input_bytes = paths->len;
        rc = workspace_git(keeper, &call, NULL, err);
    }
    if (rc < 0)
        return rc;
    struct git_call call = workspace_call(workspace, (const char *const[]){"write-tree", NULL});
    return workspace_git_line(keeper, &call, NULL, workspace->tree, sizeof workspace->tree, err);
}

int workspace_take_baseline(struct workspace_keeper *keeper, struct workspace *workspace,
                            struct err *err)
{
    char path[PATH_MAX];
    struct buf lines;
    struct buf paths;
    buf_init(&lines);
    buf_init(&paths);
    /* The index git has just written knows the time and size of every file. */
    snprintf(path, sizeof path, "%s/.git/index", workspace->folder);
    int rc = files_copy(path, workspace->index_path, err);
    if (rc < 0)
        return workspace_file_fail(keeper, rc);
    struct git_call call =
        workspace_call(workspace, (const char *const[]){"ls-files", "--stage", "-z", NULL});
    rc = workspace_git_text(keeper, &call, &lines, err);
    if (rc == 0)
        workspace->converts = may_convert(keeper, workspace, &lines);
    if (rc == 0 && workspace->converts)
        rc = find_converted(keeper, workspace, &lines, &paths, err);
    if (rc == 0 && paths.len > 0)
        rc = hash_again(keeper, workspace, &paths, err);
    buf_done(&lines);
    buf_done(&paths);
    return rc;
}
