/*
 * See workspace_inner.h: workspaces of earlier versions.
 *
 * Those were worktrees of the user's repository, or of the copy of another machine's. The private
 * folder has a file that names the repository; the repository has an entry below worktrees/ that
 * is called like the workspace. A workspace of today has neither, and nothing is done for it.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REPOSITORY_FILE "repository"

/* Whether an entry of a repository leads back to another folder. Half-made, it leads nowhere. */
static bool leads_elsewhere(const char *entry, const char *folder)
{
    char path[PATH_MAX + 16];
    char expected[PATH_MAX + 16];
    struct buf back;
    buf_init(&back);
    snprintf(path, sizeof path, "%s/gitdir", entry);
    snprintf(expected, sizeof expected, "%s/.git", folder);
    bool elsewhere =
        files_read_line(path, &back, NULL) == 0 && back.len > 0 && strcmp(back.data, expected) != 0;
    buf_done(&back);
    return elsewhere;
}

static int remove_entry(const char *repository, const char *folder, struct err *err)
{
    char entries[PATH_MAX];
    char entry[PATH_MAX];
    const char *slash = strrchr(folder, '/'); /* always there: the path is absolute */
    int len = snprintf(entries, sizeof entries, "%s/worktrees", repository);
    if (slash == NULL || len >= PATH_MAX ||
        snprintf(entry, sizeof entry, "%s%s", entries, slash) >= PATH_MAX)
        return files_fail(err, "removing", folder, ENAMETOOLONG);
    int rc = leads_elsewhere(entry, folder) ? 0 : files_remove(entry, err);
    if (rc == 0)
        (void)rmdir(entries); /* fails while there are others, as it should */
    return rc;
}

int workspace_forget_worktree(const char *folder, const char *private_folder, struct err *err)
{
    char path[PATH_MAX];
    struct buf repository;
    int rc = 0;
    buf_init(&repository);
    snprintf(path, sizeof path, "%s/" REPOSITORY_FILE, private_folder);
    if (files_read_line(path, &repository, NULL) == 0)
        rc = remove_entry(repository.data, folder, err);
    buf_done(&repository);
    return rc;
}
