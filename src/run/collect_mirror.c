/*
 * See collect.h: copies of repositories in the cache (workspace.h).
 *
 * Only what has a mark of tend's is a copy; whatever else lies in the cache is left alone.
 *
 * A copy goes when it was not used for a long time, by the time of its folder, which every use sets
 * (workspace_mirror.c), and when no workspace borrows objects from it. It is renamed first, under
 * the lock that those who use it take (NAME.lock): whoever comes later makes a new one.
 */
#include "base/buf.h"
#include "run/collect.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE "cache"
#define GONE ".gone" /* the end of the name of a copy that is being removed */
/* In the cache: folders elsewhere that borrow from it, by line. Earlier versions made such for
 * people. */
#define BORROWERS "borrowers"

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    return len >= strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

/* --- who borrows --- */

/* Appends a file. One that is there and cannot be read may name any copy: then out has failed. A
 * folder of that name is the user's, and names none. */
static void read_one(const char *path, size_t most_bytes, struct buf *out)
{
    int problem = files_read_at(AT_FDCWD, path, most_bytes, out);
    out->failed |= problem != 0 && problem != ENOENT && problem != EISDIR;
}

/* For glob, about a folder that cannot be read. */
static int stop_unless_gone(const char *path, int problem)
{
    (void)path;
    return problem != ENOENT && problem != ENOTDIR;
}

/* What the files say that match the pattern below the folder, one after the other. */
static void read_matching(const char *folder, const char *pattern, struct buf *out)
{
    struct buf path;
    glob_t found;
    buf_init(&path);
    for (const char *at = folder; *at != '\0'; at++) {
        if (strchr("*?[\\", *at) != NULL)
            buf_putc(&path, '\\');
        buf_putc(&path, *at);
    }
    buf_printf(&path, "/%s", pattern);
    int rc = path.failed ? GLOB_NOSPACE : glob(path.data, GLOB_NOSORT, stop_unless_gone, &found);
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        read_one(found.gl_pathv[i], FILES_SMALL_BYTES, out);
    if (!path.failed)
        globfree(&found);
    out->failed |= rc == GLOB_NOSPACE || rc == GLOB_ABORTED;
    buf_done(&path);
}

/* Where a workspace, or what tend has beside it, says from where it borrows. */
static void read_borrowings(const char *folder, const char *workspaces, struct buf *out)
{
    static const char *const places[] = {".git/objects/info/alternates", "objects/info/alternates",
                                         "git/objects/info/alternates", "repository"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char pattern[PATH_MAX];
        snprintf(pattern, sizeof pattern, "%s%s", workspaces, places[i]);
        read_matching(folder, pattern, out);
    }
}

/* All that is borrowed by the workspaces in the runner's folder, of any store, and by those that
 * people had made elsewhere. */
static void read_all_borrowings(const struct collect *collect, struct buf *out)
{
    char path[PATH_MAX];
    char *saved = NULL;
    struct buf borrowers;
    buf_init(&borrowers);
    read_borrowings(collect->folder, "job-*/lease-*/workspace-*/", out);
    snprintf(path, sizeof path, "%s/" CACHE "/" BORROWERS, collect->folder);
    read_one(path, FILES_LARGE_BYTES, &borrowers);
    out->failed |= borrowers.failed;
    for (char *line = strtok_r(borrowers.data, "\n", &saved); line != NULL;
         line = strtok_r(NULL, "\n", &saved))
        read_borrowings(line, "", out);
    buf_done(&borrowers);
}

static bool is_borrowed(const struct collect *collect, const char *name)
{
    char part[NAME_MAX + 3];
    struct buf borrowings;
    buf_init(&borrowings);
    read_all_borrowings(collect, &borrowings);
    snprintf(part, sizeof part, "/%s", name);
    bool borrowed = strstr(borrowings.data, part) != NULL || borrowings.failed;
    buf_done(&borrowings);
    return borrowed;
}

/* --- removing --- */

/* Takes its name away, so that nobody begins to use it. False: somebody uses it now. */
static bool set_aside(const char *path, const char *gone)
{
    int lock = workspace_mirror_try_lock(path);
    if (lock < 0)
        return false;
    bool set = workspace_mirror_is_unused(path) && rename(path, gone) == 0;
    if (set) /* one of an earlier version has none; a disk that is full is no reason to keep it */
        (void)workspace_mirror_mark(gone, NULL);
    close(lock);
    return set;
}

static void visit_mirror(struct collect *collect, const char *folder, const char *name)
{
    char path[PATH_MAX + NAME_MAX + 2];
    char gone[sizeof path + sizeof GONE];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || !workspace_mirror_is_own(path))
        return;
    if (ends_with(name, GONE)) {
        collect_take(collect, TEND_DISK_OLD_MIRRORS, path, WORKSPACE_COPY_MARK);
        return;
    }
    bool old = workspace_mirror_is_unused(path) && !is_borrowed(collect, name);
    snprintf(gone, sizeof gone, "%s" GONE, path);
    bool aside = old && collect->removes && set_aside(path, gone);
    if (old && collect->removes && !aside)
        old = false;
    collect_take(collect, old ? TEND_DISK_OLD_MIRRORS : TEND_DISK_MIRRORS, aside ? gone : path,
                 WORKSPACE_COPY_MARK);
}

void collect_mirrors(struct collect *collect)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" CACHE, collect->folder);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (ends_with(entry->d_name, ".git") || ends_with(entry->d_name, ".git" GONE))
            visit_mirror(collect, path, entry->d_name);
    if (folder != NULL)
        closedir(folder);
}
