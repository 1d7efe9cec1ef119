/*
 * See workspace_inner.h: git folders made without git.
 *
 * `git init` would take a process, a template with hooks, and settings of the account into
 * account. What a repository needs is five lines: HEAD, config, objects/, refs/ and, where objects
 * are borrowed, objects/info/alternates.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

static int path_below(const char *folder, const char *name, char out[PATH_MAX], struct err *err)
{
    int len = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return len < 0 || len >= PATH_MAX ? files_fail(err, "using", folder, ENAMETOOLONG) : 0;
}

/* Of a workspace, readable by its owner alone: URLs and headers may hold passwords. */
static int write_config(const struct git_folder *what, struct err *err)
{
    char path[PATH_MAX];
    struct buf text;
    int rc = path_below(what->path, "config", path, err);
    if (rc < 0)
        return rc;
    buf_init(&text);
    buf_printf(&text, "[core]\n\trepositoryformatversion = %d\n\tbare = %s\n", what->sha256,
               what->bare ? "true" : "false");
    if (what->sha256)
        buf_puts(&text, "[extensions]\n\tobjectFormat = sha256\n");
    if (what->config != NULL)
        buf_puts(&text, what->config);
    /* Whoever works here does not want to wait for it, and a copy must never lose an object. */
    buf_puts(&text, "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
    rc = text.failed  ? files_fail(err, "writing", path, ENOMEM)
         : what->bare ? files_replace(path, text.data, text.len, err)
                      : files_write_private(path, text.data, text.len, err);
    buf_done(&text);
    return rc;
}

static int write_alternates(const struct git_folder *what, struct err *err)
{
    char path[PATH_MAX];
    char line[PATH_MAX + 1];
    if (strchr(what->borrows, '\n') != NULL)
        return err_set(err, TEND_EINVAL,
                       "%s has a line break in its name, which git cannot write down; rename it",
                       what->borrows);
    int rc = path_below(what->path, "objects/info/alternates", path, err);
    int len = snprintf(line, sizeof line, "%s\n", what->borrows);
    return rc < 0 ? rc : files_write(path, line, (size_t)len, err);
}

int workspace_make_git_folder(const struct git_folder *what, struct err *err)
{
    static const char *const folders[] = {"objects/info", "objects/pack", "refs/heads", "info"};
    char path[PATH_MAX];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof folders / sizeof *folders; i++)
        if ((rc = path_below(what->path, folders[i], path, err)) == 0)
            rc = files_make_folder(path, err);
    if (rc == 0)
        rc = write_config(what, err);
    if (rc == 0 && what->borrows != NULL)
        rc = write_alternates(what, err);
    char line[256];
    int len = snprintf(line, sizeof line, "%s\n", what->head);
    if (rc == 0 && (rc = path_below(what->path, "HEAD", path, err)) == 0)
        rc = (what->bare ? files_replace : files_write)(path, line, (size_t)len, err);
    return rc;
}

int workspace_write_below(const char *git_folder, const char *name, const struct buf *text,
                          struct err *err)
{
    char path[PATH_MAX];
    if (text->len == 0)
        return 0;
    int rc = path_below(git_folder, name, path, err);
    char *slash = strrchr(path, '/');
    if (rc == 0 && slash != NULL && strchr(name, '/') != NULL) {
        *slash = '\0';
        rc = files_make_folder(path, err);
        *slash = '/';
    }
    return rc < 0 ? rc : files_write(path, text->data, text->len, err);
}
