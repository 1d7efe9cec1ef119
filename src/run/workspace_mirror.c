/*
 * Copies of repositories of other machines, one bare repository per URL below the cache folder.
 *
 * Invariants: one process at a time fetches into a copy (a lock file beside it, held by flock, so
 * that it ends with its holder); the URL is never written there, for it may hold a password;
 * branches are kept below refs/remotes/origin/, single refs asked for below refs/tend/. A copy in
 * which a killed git left lock files is not repaired, because workspaces may be using it: it is
 * marked, and another one takes its place.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <tend.h>
#include <unistd.h>

#define STUCK_MARK "tend-stuck"

enum { COPIES_MAX = 100, LOCK_PAUSE_MS = 20 };

/* FNV-1a: names a folder; two URLs with one number would share objects and take turns, no more. */
static uint64_t url_number(const char *url)
{
    uint64_t number = 14695981039346656037u;
    for (; *url != '\0'; url++)
        number = (number ^ (unsigned char)*url) * 1099511628211u;
    return number;
}

/* The last part of the URL, for people who look into the cache folder. */
static void readable_part(const char *url, char *out, size_t size)
{
    size_t end = strlen(url);
    while (end > 0 && url[end - 1] == '/')
        end--;
    if (end > 4 && strncmp(url + end - 4, ".git", 4) == 0)
        end -= 4;
    size_t start = end;
    while (start > 0 && strchr("/:@", url[start - 1]) == NULL)
        start--;
    size_t len = 0;
    for (; start < end && len < size - 1; start++)
        out[len++] = isalnum((unsigned char)url[start]) ? url[start] : '-';
    out[len] = '\0';
}

static int mirror_path(const struct workspace_keeper *keeper, const char *url, int copy, char *out,
                       size_t size)
{
    char name[41];
    char number[16] = "";
    readable_part(url, name, sizeof name);
    if (copy > 0)
        snprintf(number, sizeof number, "-%d", copy);
    int len = snprintf(out, size, "%s/%s-%016llx%s.git", keeper->cache_folder, name,
                       (unsigned long long)url_number(url), number);
    return len < 0 || (size_t)len >= size ? -1 : 0;
}

/* A descriptor that holds the lock until it is closed, or an error. */
static int lock_mirror(struct workspace_keeper *keeper, const char *path, struct err *err)
{
    char lock_path[PATH_MAX + 8];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return workspace_file_fail(keeper, files_fail(err, "opening", lock_path, errno));
    int64_t started_ms = clock_mono_ms();
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int rc = errno == EWOULDBLOCK || errno == EINTR
                     ? git_pause(&keeper->limits, LOCK_PAUSE_MS, err)
                     : files_fail(err, "locking", lock_path, errno);
        if (rc == TEND_EINTERRUPTED)
            workspace_fail(keeper, WORKSPACE_INTERRUPTED, rc);
        else if (rc < 0)
            workspace_file_fail(keeper, rc);
        else if (keeper->limits.timeout_ms > 0 &&
                 clock_mono_ms() - started_ms > keeper->limits.timeout_ms)
            rc = workspace_fail(keeper, WORKSPACE_BUSY,
                                err_set(err, TEND_EIO,
                                        "%s was being fetched by another process all the time",
                                        path));
        if (rc < 0) {
            close(fd);
            return rc;
        }
    }
    return fd;
}

static bool is_commit_id(const char *ref)
{
    size_t len = strlen(ref);
    return (len == 40 || len == 64) && strspn(ref, "0123456789abcdef") == len;
}

static bool has_commit(struct workspace_keeper *keeper, const char *path, const char *id)
{
    char asked[GIT_ID_BYTES + 16];
    snprintf(asked, sizeof asked, "%s^{commit}", id);
    struct git_call call = {.limits = &keeper->limits,
                            .git_dir = path,
                            .args = (const char *const[]){"cat-file", "-e", asked, NULL}};
    return git_run(&call, NULL, NULL) == 0;
}

static int fetch(struct workspace_keeper *keeper, const char *path, const char *url,
                 const char *const refspecs[3], struct err *err)
{
    const char *args[] = {
        "fetch", "--quiet", "--force",   "--prune",   "--no-tags", "--no-write-fetch-head",
        "--",    url,       refspecs[0], refspecs[1], refspecs[2], NULL};
    struct git_outcome outcome;
    struct git_call call = {.folder = path, .git_dir = path, .args = args};
    int rc = workspace_git(keeper, &call, &outcome, err);
    if (rc < 0 && git_said(&outcome, "couldn't find remote ref"))
        return workspace_fail(keeper, WORKSPACE_REF_MISSING, rc);
    if (rc < 0 && keeper->problem == WORKSPACE_BROKEN)
        keeper->problem = WORKSPACE_OUT_OF_REACH;
    return rc;
}

/* All branches and tags, and the one ref asked for where it is neither. */
static int fetch_all(struct workspace_keeper *keeper, const char *path, const char *url,
                     const char *ref, struct err *err)
{
    static const char branches[] = "+refs/heads/*:refs/remotes/origin/*";
    static const char tags[] = "+refs/tags/*:refs/tags/*";
    char asked[2200];
    int len = (int)strcspn(ref, "~^@:"); /* HEAD~2 needs HEAD */
    bool other = strncmp(ref, "refs/", 5) == 0 && strncmp(ref, "refs/heads/", 11) != 0 &&
                 strncmp(ref, "refs/tags/", 10) != 0;
    bool single = len < 1024 && (other || (len == 4 && strncmp(ref, "HEAD", 4) == 0));
    snprintf(asked, sizeof asked, "+%.*s:refs/tend/%.*s", len, ref, len, ref);
    int rc =
        fetch(keeper, path, url, (const char *const[]){branches, tags, single ? asked : NULL}, err);
    if (rc < 0 && keeper->problem == WORKSPACE_REF_MISSING)
        rc = fetch(keeper, path, url, (const char *const[]){branches, tags, NULL}, err);
    /* A commit that no branch leads to, such as an abandoned one: some hosts give it by its id. */
    if (rc == 0 && is_commit_id(ref) && !has_commit(keeper, path, ref))
        (void)fetch(keeper, path, url, (const char *const[]){ref, NULL, NULL}, NULL);
    return rc;
}

static int bring_up_to_date(struct workspace_keeper *keeper, const char *path, const char *url,
                            const char *ref, struct err *err)
{
    int lock = lock_mirror(keeper, path, err);
    if (lock < 0)
        return lock;
    int rc = 0;
    char head[PATH_MAX + 8];
    snprintf(head, sizeof head, "%s/HEAD", path);
    if (access(head, F_OK) < 0) {
        struct git_call call = {
            .args = (const char *const[]){"init", "--quiet", "--bare", "--", path, NULL}};
        rc = workspace_git(keeper, &call, NULL, err);
    }
    if (rc == 0 && !(is_commit_id(ref) && has_commit(keeper, path, ref)))
        rc = fetch_all(keeper, path, url, ref, err);
    close(lock);
    return rc;
}

int workspace_mirror(struct workspace_keeper *keeper, const char *url, const char *ref,
                     char **ret_folder, struct err *err)
{
    int rc = files_make_folder(keeper->cache_folder, err);
    if (rc < 0)
        return workspace_file_fail(keeper, rc);
    rc = TEND_EBUSY;
    for (int copy = 0; rc == TEND_EBUSY && copy < COPIES_MAX; copy++) {
        char path[PATH_MAX];
        char mark[PATH_MAX + 16];
        if (mirror_path(keeper, url, copy, path, sizeof path) < 0)
            return workspace_file_fail(
                keeper, files_fail(err, "naming a copy in", keeper->cache_folder, ENAMETOOLONG));
        snprintf(mark, sizeof mark, "%s/%s", path, STUCK_MARK);
        if (access(mark, F_OK) == 0)
            continue;
        rc = bring_up_to_date(keeper, path, url, ref, err);
        if (rc == TEND_EBUSY && access(path, F_OK) == 0)
            (void)files_write(mark, "", 0, NULL);
        if (rc == 0 && (*ret_folder = files_absolute(path)) == NULL)
            rc = workspace_file_fail(keeper, files_fail(err, "looking for", path, errno));
    }
    return rc;
}
