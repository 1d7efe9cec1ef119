#include "store/sqlite_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

static bool is_missing(int failed)
{
    return failed == ENOENT || failed == ENOTDIR;
}

int sqlite_path_fail(const char *name, const char *did, int failed, struct err *err)
{
    bool full = failed == ENOSPC || failed == EDQUOT;
    const char *lack = err_lack(failed);
    return err_set(err,
                   full           ? TEND_EFULL
                   : lack != NULL ? TEND_ENOMEM
                                  : TEND_EUNREACHABLE,
                   "%s cannot be %s: %s; %s", name, did, strerror(failed),
                   full                 ? "make room and try again"
                   : lack != NULL       ? lack
                   : is_missing(failed) ? "make the folder first or give another path"
                                        : "the files of a store and their folder must be readable "
                                          "and writable for you");
}

int sqlite_path_refuse(const char *name, const char *why, struct err *err)
{
    return err_set(
        err, TEND_EUNREACHABLE,
        "%s %s, so tend does not touch it; see who put it there, remove it and try again", name,
        why);
}

static int no_store(const char *given, struct err *err)
{
    return err_set(err, TEND_ENOTFOUND,
                   "there is no store at %s; check the path, or make one there: 'tend migrate' "
                   "with the same --store or TEND_STORE",
                   given);
}

/* Who makes no store at all and who would make one, but not there, are told the same. */
static int refuse_link(const char *given, bool must_exist, struct err *err)
{
    return err_set(err, must_exist ? TEND_ENOTFOUND : TEND_EUNREACHABLE,
                   "%s is a symlink to a file that is not there, and tend makes no store through "
                   "a link; remove the link or give the path it should lead to",
                   given);
}

/* The path of a file that is not there: its folder's, and its name. NULL: errno tells why. */
static char *resolve_missing(const char *given)
{
    const char *slash = strrchr(given, '/');
    const char *name = slash == NULL ? given : slash + 1;
    char *folder = slash == NULL    ? strdup(".")
                   : slash == given ? strdup("/")
                                    : strndup(given, (size_t)(slash - given));
    char *resolved = folder == NULL ? NULL : realpath(folder, NULL);
    char *path = NULL;
    if (resolved != NULL && *name == '\0')
        errno = ENOENT;
    else if (resolved != NULL &&
             asprintf(&path, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved, name) < 0)
        path = NULL;
    free(folder);
    free(resolved);
    return path;
}

/*
 * The file is made for its owner alone, as payloads and output may hold secrets; SQLite's
 * companions follow its mode, and so do ours. mknod does not follow symlinks. Not opened for that:
 * closing a descriptor of the file would drop the locks that SQLite holds on it for other handles
 * of this process.
 */
static int make_file(const char *path, struct err *err)
{
    if (mknod(path, S_IFREG | 0600, 0) == 0 || errno == EEXIST)
        return 0;
    return sqlite_path_fail(path, "made", errno, err);
}

static int make_missing(const char *given, bool must_exist, char **ret_path, struct err *err)
{
    struct stat link;
    if (lstat(given, &link) == 0 && S_ISLNK(link.st_mode))
        return refuse_link(given, must_exist, err);
    if (must_exist)
        return no_store(given, err);
    char *path = resolve_missing(given);
    if (path == NULL)
        return sqlite_path_fail(given, "made", errno, err);
    int rc = make_file(path, err);
    if (rc < 0)
        free(path);
    else
        *ret_path = path;
    return rc;
}

/* A file can be mounted over another one. False also where the kernel does not tell. */
static bool is_mounted_alone(const char *path)
{
    struct statx status;
    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &status) == 0 &&
           (status.stx_attributes_mask & status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int sqlite_path_check_names(const char *path, struct err *err)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return sqlite_path_fail(path, "reached", errno, err);
    if (status.st_nlink > 1)
        return err_set(err, TEND_EUNREACHABLE,
                       "%s has more than one name (hard links): opened by different names, it has "
                       "several logs and locks and is damaged; remove the other names ('find / "
                       "-xdev -samefile %s' lists them) and open it by its own",
                       path, path);
    if (is_mounted_alone(path))
        return err_set(err, TEND_EUNREACHABLE,
                       "%s is mounted as a single file: here it has another log and other locks "
                       "than in its own folder, and is damaged; mount its folder instead",
                       path);
    return 0;
}

/* What is there must be a file that can be read and written; said better here than by SQLite. */
static int look_at_file(const char *path, struct err *err)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return sqlite_path_fail(path, "reached", errno, err);
    if (!S_ISREG(status.st_mode))
        return err_set(err, TEND_ENOTADB, "%s is not a file; give the path of a tend store", path);
    if (euidaccess(path, R_OK | W_OK) != 0)
        return sqlite_path_fail(path, "read and written", errno, err);
    return sqlite_path_check_names(path, err);
}

/*
 * SQLite makes these itself, and as root gives them the owner of the store. It does not follow
 * symlinks, but its sentence would name the wrong file; and a second name of another file would
 * hand that one over.
 */
static int look_beside(const char *path, struct err *err)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof suffixes / sizeof *suffixes; i++) {
        struct stat status;
        char *name = NULL;
        if (asprintf(&name, "%s%s", path, suffixes[i]) < 0)
            return err_set(err, TEND_ENOMEM, "out of memory while opening %s", path);
        if (lstat(name, &status) == 0 && (!S_ISREG(status.st_mode) || status.st_nlink > 1))
            rc = sqlite_path_refuse(name,
                                    S_ISLNK(status.st_mode)    ? "is a symlink"
                                    : !S_ISREG(status.st_mode) ? "is not a file"
                                                               : "has a second name (a hard link)",
                                    err);
        free(name);
    }
    return rc;
}

int sqlite_path_find(const char *given, bool must_exist, char **ret_path, struct err *err)
{
    if (given[0] == '\0' || given[0] == ':')
        return err_set(err, TEND_EINVAL,
                       "'sqlite:%s' names no file; give sqlite:PATH, e.g. sqlite:.tend/tend.db",
                       given);
    int rc = 0;
    char *path = realpath(given, NULL);
    if (path == NULL && is_missing(errno))
        rc = make_missing(given, must_exist, &path, err);
    else if (path == NULL)
        rc = sqlite_path_fail(given, "reached", errno, err);
    if (rc == 0 && (rc = look_at_file(path, err)) == 0)
        rc = look_beside(path, err);
    if (rc < 0)
        free(path);
    else
        *ret_path = path;
    return rc;
}
