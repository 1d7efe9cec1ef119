/*
 * Copies of repositories, one bare repository for each below the cache folder. Workspaces borrow
 * their objects there, not from the user: what the user does to his repository cannot take them
 * away, and nothing is written to it.
 *
 * Invariants: one process at a time writes to a copy (a lock file beside it, held by flock, so
 * that it ends with its holder; what git commands of a killed holder have left is ended before the
 * next one writes, see workspace_left.c); no object ever leaves a copy; the URL is never written
 * there, for it may hold a password. A commit is noted in a copy (a file below KNOWN) only when all
 * that belongs to it is there; an object alone proves nothing, for git may have been killed while
 * it wrote the others.
 *
 * A copy has a mark from its first moment on (WORKSPACE_COPY_MARK). A folder in the cache without
 * one is somebody else's: it is neither used nor removed.
 *
 * A copy in which a killed git left lock files, or in which objects are missing, is not repaired,
 * because workspaces may be using it: it is marked, and another one takes its place.
 *
 * Whoever is about to use a copy sets the time of its folder, while holding the lock. The collector
 * (collect_mirror.c) looks at this time under the same lock before it removes a copy, so a copy
 * that was just handed out stays.
 */
#include "run/file_tree.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include "base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tend.h>
#include <time.h>
#include <unistd.h>

#define STUCK_MARK "tend-stuck"
#define DOUBT_MARK "tend-doubtful"
#define KNOWN "tend-known"

enum {
    COPIES_MAX = 100,
    LOCK_PAUSE_MS = 20,
    PACKS_MAX = 50, /* the same as for git gc --auto, as is the next: 6,700 in 256 folders */
    LOOSE_IN_ONE_FOLDER_MAX = 27,
    UNUSED_S = 30 * 24 * 3600,
    DOUBT_S = 24 * 3600,
};

/* --- names --- */

/* FNV-1a: names a folder; two names with one number would share objects and take turns, no more. */
static uint64_t name_number(const char *name)
{
    uint64_t number = 14695981039346656037u;
    for (; *name != '\0'; name++)
        number = (number ^ (unsigned char)*name) * 1099511628211u;
    return number;
}

static size_t without_slashes(const char *name, size_t end)
{
    while (end > 0 && name[end - 1] == '/')
        end--;
    return end;
}

/* Without the parameters of a URL, which may hold a token. Where an @ comes after them they may be
 * part of a password: then nothing of it is shown. */
static size_t without_parameters(const char *name)
{
    size_t end = name[0] == '/' ? strlen(name) : strcspn(name, "?#");
    return strchr(name + end, '@') == NULL ? end : 0;
}

/* The last part of the name, for people who look into the cache folder. User and password, before
 * an @, are never part of it. */
static void readable_part(const char *name, char *out, size_t size)
{
    size_t end = without_slashes(name, without_parameters(name));
    if (end > 4 && strncmp(name + end - 4, ".git", 4) == 0)
        end = without_slashes(name, end - 4);
    size_t start = end;
    while (start > 0 && strchr("/:@", name[start - 1]) == NULL)
        start--;
    size_t len = 0;
    for (; start < end && len < size - 1; start++)
        out[len++] = isalnum((unsigned char)name[start]) ? name[start] : '-';
    out[len] = '\0';
}

/* -1: too long. */
static int mirror_path(const char *cache_folder, const char *name, bool sha256, int copy,
                       char out[PATH_MAX])
{
    char readable[41];
    char number[16] = "";
    readable_part(name, readable, sizeof readable);
    if (copy > 0)
        snprintf(number, sizeof number, "-%d", copy);
    int len = snprintf(out, PATH_MAX, "%s/%s-%016llx%s%s.git", cache_folder, readable,
                       (unsigned long long)name_number(name), sha256 ? "-sha256" : "", number);
    return len < 0 || len >= PATH_MAX - 64 ? -1 : 0; /* there is room for what lies in it */
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX + GIT_ID_BYTES + 16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* --- whose it is --- */

/* Copies made before there was the mark are known by what tend has noted in them. */
bool workspace_mirror_is_own(const char *path)
{
    static const char *const marks[] = {WORKSPACE_COPY_MARK, KNOWN, STUCK_MARK, DOUBT_MARK};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has_file(path, marks[i]))
            return true;
    return false;
}

/* Whether there is a folder that tend has not made. An empty one may be marked in a moment. */
static bool is_somebody_elses(const char *path)
{
    bool empty = true;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && empty && (entry = readdir(folder)) != NULL;)
        empty = file_tree_is_dots(entry->d_name);
    if (folder != NULL)
        closedir(folder);
    return !empty && !workspace_mirror_is_own(path);
}

int workspace_mirror_mark(const char *path, struct err *err)
{
    char mark[PATH_MAX + sizeof WORKSPACE_COPY_MARK + 8];
    snprintf(mark, sizeof mark, "%s/" WORKSPACE_COPY_MARK, path);
    return access(mark, F_OK) == 0 ? 0 : files_write(mark, "", 0, err);
}

/* --- commits --- */

bool workspace_mirror_knows(const char *folder, const char *commit)
{
    char name[GIT_ID_BYTES + sizeof KNOWN + 1];
    snprintf(name, sizeof name, KNOWN "/%s", commit);
    return has_file(folder, name);
}

int workspace_mirror_note(const char *folder, const char *commit, struct err *err)
{
    char path[PATH_MAX + GIT_ID_BYTES + 16];
    snprintf(path, sizeof path, "%s/" KNOWN, folder);
    int rc = files_make_folder(path, err);
    snprintf(path, sizeof path, "%s/" KNOWN "/%s", folder, commit);
    return rc < 0 ? rc : files_write(path, "", 0, err);
}

/* --- use --- */

/* The caller holds the lock of the copy. */
static void note_use(const char *path)
{
    (void)utimensat(AT_FDCWD, path, NULL, 0);
}

bool workspace_mirror_is_unused(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && time(NULL) - status.st_mtime > UNUSED_S;
}

static int open_lock(const char *path)
{
    char lock_path[PATH_MAX + 8];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    return open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

int workspace_mirror_try_lock(const char *path)
{
    int fd = open_lock(path);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * Whether the copy has the commit and stays for now. Where somebody else has the lock, a copy that
 * was used lately stays too: the collector does not remove it, and others only add to it.
 */
static bool take_into_use(const char *path, const char *commit)
{
    int lock = workspace_mirror_try_lock(path);
    if (lock < 0)
        return !workspace_mirror_is_unused(path) && workspace_mirror_knows(path, commit);
    bool known = workspace_mirror_knows(path, commit);
    if (known)
        note_use(path);
    close(lock);
    return known;
}

bool workspace_mirror_find(struct workspace_keeper *keeper, const char *name, const char *commit,
                           char **ret_folder)
{
    bool sha256 = strlen(commit) == GIT_ID_BYTES - 1;
    char path[PATH_MAX];
    char *cache_folder = files_absolute(keeper->cache_folder);
    bool found = false;
    for (int copy = 0; cache_folder != NULL && !found && copy < COPIES_MAX; copy++) {
        if (mirror_path(cache_folder, name, sha256, copy, path) < 0 || access(path, F_OK) < 0)
            break;
        found = take_into_use(path, commit) && (*ret_folder = strdup(path)) != NULL;
    }
    free(cache_folder);
    return found;
}

/* --- one copy --- */

/* A descriptor that holds the lock until it is closed, or an error. */
static int lock_mirror(struct workspace_keeper *keeper, const char *path, struct err *err)
{
    int fd = open_lock(path);
    if (fd < 0)
        return workspace_file_fail(keeper, files_fail(err, "opening the lock of", path, errno));
    int64_t started_ms = clock_mono_ms();
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int rc = errno == EWOULDBLOCK || errno == EINTR
                     ? git_pause(&keeper->limits, LOCK_PAUSE_MS, err)
                     : files_fail(err, "locking", path, errno);
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

static void put_mark(const char *folder, const char *name)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)files_write(path, "", 0, NULL);
}

void workspace_mirror_doubt(const char *folder)
{
    put_mark(folder, DOUBT_MARK);
}

bool workspace_mirror_give_up(struct workspace_keeper *keeper, const char *folder)
{
    char path[PATH_MAX + 16];
    struct stat status;
    snprintf(path, sizeof path, "%s/" DOUBT_MARK, folder);
    if (stat(path, &status) == 0 && time(NULL) - status.st_mtime < DOUBT_S)
        return false;
    int lock = lock_mirror(keeper, folder, NULL);
    if (lock < 0)
        return false;
    snprintf(path, sizeof path, "%s/" KNOWN, folder);
    bool done = files_remove(path, NULL) == 0; /* nothing that it says is there can be trusted */
    put_mark(folder, STUCK_MARK);
    close(lock);
    return done && has_file(folder, STUCK_MARK);
}

static size_t count_entries(const char *folder, const char *name, const char *end)
{
    char path[PATH_MAX + 16];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/objects/%s", folder, name);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        count +=
            len > 2 && len >= strlen(end) && strcmp(entry->d_name + len - strlen(end), end) == 0;
    }
    if (dir != NULL)
        closedir(dir);
    return count;
}

/*
 * Every fetch leaves some files of objects, and git would look through thousands of them one day.
 * Small packs and loose objects become one pack, those that nothing refers to as well; a large pack
 * is not written again. Whoever reads meanwhile finds the new pack. Where objects are fetched on
 * demand, git would forget which, so there it is left undone.
 */
static void tidy(struct workspace_keeper *keeper, const char *folder)
{
    struct git_call call = {.limits = &keeper->limits,
                            .folder = folder,
                            .git_dir = folder,
                            .args =
                                (const char *const[]){"repack", "--geometric=2", "-d", "-q", NULL}};
    bool many = count_entries(folder, "17", "") > LOOSE_IN_ONE_FOLDER_MAX ||
                count_entries(folder, "pack", ".pack") > PACKS_MAX;
    if (many && count_entries(folder, "pack", ".promisor") == 0)
        (void)git_run(&call, NULL, NULL);
}

struct copy {
    const char *cache_folder;
    char path[PATH_MAX];
    bool sha256;
    mirror_update *update;
    void *arg;
};

static int make_copy(struct workspace_keeper *keeper, const struct copy *copy, struct err *err)
{
    const struct git_folder folder = {
        .path = copy->path, .head = "ref: refs/heads/none", .bare = true, .sha256 = copy->sha256};
    int rc = files_make_folder(copy->path, err);
    if (rc == 0)
        rc = workspace_mirror_mark(copy->path, err);
    if (rc == 0)
        rc = workspace_make_git_folder(&folder, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : 0;
}

static int bring_up_to_date(struct workspace_keeper *keeper, const struct copy *copy,
                            struct err *err)
{
    int rc = 0;
    int lock = lock_mirror(keeper, copy->path, err);
    if (lock < 0)
        return lock;
    rc = workspace_end_left(keeper, copy->cache_folder, err);
    if (rc == 0 && !has_file(copy->path, "HEAD"))
        rc = make_copy(keeper, copy, err);
    note_use(copy->path);
    if (rc == 0)
        rc = copy->update(keeper, copy->path, copy->arg, err);
    if (rc == 0)
        tidy(keeper, copy->path);
    close(lock);
    return rc;
}

/* Tries one copy after another, until one is not stuck. */
static int bring_one_up_to_date(struct workspace_keeper *keeper, const char *name,
                                struct copy *copy, struct err *err)
{
    int rc = TEND_EBUSY;
    for (int i = 0; rc == TEND_EBUSY && i < COPIES_MAX; i++) {
        if (mirror_path(copy->cache_folder, name, copy->sha256, i, copy->path) < 0)
            return workspace_file_fail(
                keeper, files_fail(err, "naming a copy in", copy->cache_folder, ENAMETOOLONG));
        if (has_file(copy->path, STUCK_MARK) || is_somebody_elses(copy->path))
            continue;
        rc = bring_up_to_date(keeper, copy, err);
        if (rc == TEND_EBUSY && access(copy->path, F_OK) == 0)
            put_mark(copy->path, STUCK_MARK);
    }
    return rc;
}

int workspace_mirror(struct workspace_keeper *keeper, const char *name, bool sha256,
                     mirror_update *update, void *arg, char **ret_folder, struct err *err)
{
    struct copy copy = {.sha256 = sha256, .update = update, .arg = arg};
    int rc = files_make_private_folder(keeper->cache_folder, err);
    char *cache_folder = rc == 0 ? files_absolute(keeper->cache_folder) : NULL;
    if (rc == 0 && cache_folder == NULL)
        rc = files_fail(err, "looking for", keeper->cache_folder, errno);
    if (rc < 0)
        return workspace_file_fail(keeper, rc);
    copy.cache_folder = cache_folder;
    rc = bring_one_up_to_date(keeper, name, &copy, err);
    free(cache_folder);
    if (rc == 0 && (*ret_folder = strdup(copy.path)) == NULL)
        rc = workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    return rc;
}
