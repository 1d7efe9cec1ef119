/*
 * See workspace_inner.h: the objects of one store in another, without reading them.
 *
 * A file of objects never changes its content, so two stores can share it. The user may pack his
 * repository at the same time. Git then writes the new pack before it removes what is in it. So
 * loose objects are taken first and packs after them, and the packs are listed again when one has
 * gone in between: what was in the store at the beginning has been met somewhere.
 */
#include "base/buf.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

enum { LISTINGS_MAX = 10, COPY_AT_ONCE_BYTES = 64 << 20, SHA1_LOOSE = 38, SHA256_LOOSE = 62 };

struct linking {
    struct workspace_keeper *keeper;
    const char *from, *to; /* for messages */
    bool whole;            /* nothing was left behind */
    bool copied;           /* some are copies, and not on the disk yet */
};

/* One folder of each store. */
struct pair {
    DIR *from;
    int to;
};

static int fail(struct linking *linking, const char *what, const char *path, int problem,
                struct err *err)
{
    return workspace_file_fail(linking->keeper, files_fail(err, what, path, problem));
}

static int go_on(struct linking *linking, struct err *err)
{
    int rc = git_pause(&linking->keeper->limits, 0, err);
    return rc < 0 ? workspace_fail(linking->keeper, WORKSPACE_INTERRUPTED, rc) : 0;
}

/* 0 or an errno; *ret_rc when the caller is to stop. */
static int copy_bytes(struct linking *linking, int from, int to, int *ret_rc, struct err *err)
{
    for (;;) {
        ssize_t sent = sendfile(to, from, NULL, COPY_AT_ONCE_BYTES);
        if (sent == 0)
            return 0;
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        if ((*ret_rc = go_on(linking, err)) < 0)
            return 0;
    }
}

/* 0: copied, or left behind; 1: it has gone; or an error. */
static int copy_file(struct linking *linking, int from_folder, int to_folder, const char *name,
                     struct err *err)
{
    char part[NAME_MAX + 8];
    int rc = 0;
    int from = openat(from_folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 && errno == ENOENT)
        return 1;
    if (from < 0) {
        linking->whole = false;
        return 0;
    }
    /* Git takes no notice of a file that is called so. */
    snprintf(part, sizeof part, "tmp_%s", name);
    int to = openat(to_folder, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
    int problem = to < 0 ? errno : copy_bytes(linking, from, to, &rc, err);
    close(from);
    /* Before it has its name: nothing looks at a copy again, so it must not get lost with the
     * power. */
    if (to >= 0 && problem == 0 && rc == 0 && fsync(to) < 0)
        problem = errno;
    if (to >= 0 && close(to) < 0 && problem == 0)
        problem = errno;
    if (problem == 0 && rc == 0 && renameat(to_folder, part, to_folder, name) < 0)
        problem = errno;
    if (problem != 0 || rc < 0)
        unlinkat(to_folder, part, 0);
    linking->copied = true;
    return problem != 0 ? fail(linking, "copying objects to", linking->to, problem, err) : rc;
}

/* Whether the file of that name is whole: one that was cut by a power failure is not. */
static bool has_same_size(int folder, const char *name, off_t bytes)
{
    struct stat status;
    bool same = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(status.st_mode) && status.st_size == bytes;
    errno = EEXIST;
    return same;
}

/* As copy_file. One that is there with another size is replaced. */
static int take_file(struct linking *linking, const struct pair *pair, const struct dirent *entry,
                     struct err *err)
{
    struct stat status;
    int from = dirfd(pair->from);
    if (fstatat(from, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 1 : fail(linking, "reading", linking->from, errno, err);
    if (!S_ISREG(status.st_mode)) {
        linking->whole = false;
        return 0;
    }
    if (linkat(from, entry->d_name, pair->to, entry->d_name, 0) == 0)
        return 0;
    if (errno == EEXIST && has_same_size(pair->to, entry->d_name, status.st_size))
        return 0;
    if (errno == ENOENT)
        return 1;
    if (errno == ENOSPC || errno == EDQUOT || errno == EROFS)
        return fail(linking, "linking objects to", linking->to, errno, err);
    return copy_file(linking, from, pair->to, entry->d_name, err);
}

/* 0: open; 1: there is no such folder; or an error. The folder of the second store is made. */
static int open_pair(struct linking *linking, const char *name, struct pair *pair, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", linking->from, name);
    pair->from = opendir(path);
    if (pair->from == NULL && errno == ENOENT)
        return 1;
    if (pair->from == NULL)
        return fail(linking, "opening folder", path, errno, err);
    snprintf(path, sizeof path, "%s/%s", linking->to, name);
    int rc = files_make_folder(path, err);
    pair->to = rc == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (pair->to >= 0)
        return 0;
    closedir(pair->from);
    return rc < 0 ? workspace_file_fail(linking->keeper, rc)
                  : fail(linking, "opening folder", path, errno, err);
}

static void close_pair(struct pair *pair)
{
    closedir(pair->from);
    close(pair->to);
}

static int take_loose(struct linking *linking, struct err *err)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < 256; i++) {
        char name[3];
        struct pair pair;
        snprintf(name, sizeof name, "%02x", (unsigned)i);
        if ((rc = go_on(linking, err)) < 0 || (rc = open_pair(linking, name, &pair, err)) != 0)
            continue;
        for (struct dirent *entry; rc >= 0 && (entry = readdir(pair.from)) != NULL;) {
            size_t len = strspn(entry->d_name, "0123456789abcdef");
            if ((len == SHA1_LOOSE || len == SHA256_LOOSE) && entry->d_name[len] == '\0')
                rc = take_file(linking, &pair, entry, err);
        }
        close_pair(&pair);
    }
    return rc < 0 ? rc : 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    return len > strlen(end) && strcmp(name + len - strlen(end), end) == 0;
}

/* Whether the pack that an index belongs to has been taken. */
static bool has_pack(int folder, const char *index_name)
{
    char name[NAME_MAX + 8];
    snprintf(name, sizeof name, "%.*s.pack", (int)(strlen(index_name) - strlen(".idx")),
             index_name);
    return faccessat(folder, name, F_OK, 0) == 0;
}

/* Packs, or their indexes: a pack must not be seen before it is there. 1: list them again. */
static int take_packs(struct linking *linking, const struct pair *pair, bool indexes,
                      struct err *err)
{
    int rc = 0;
    rewinddir(pair->from);
    for (struct dirent *entry; rc == 0 && (entry = readdir(pair->from)) != NULL;) {
        const char *name = entry->d_name;
        bool index = ends_with(name, ".idx");
        bool wanted = index || ends_with(name, ".pack") || ends_with(name, ".rev") ||
                      ends_with(name, ".promisor");
        if (strncmp(name, "pack-", 5) != 0 || !wanted || index != indexes)
            continue;
        if (index && !has_pack(pair->to, name))
            rc = 1; /* it has come meanwhile */
        else if ((rc = go_on(linking, err)) == 0)
            rc = take_file(linking, pair, entry, err);
    }
    return rc;
}

static int take_all_packs(struct linking *linking, struct err *err)
{
    struct pair pair;
    int rc = open_pair(linking, "pack", &pair, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = 1;
    for (int i = 0; rc == 1 && i < LISTINGS_MAX; i++) {
        rc = take_packs(linking, &pair, false, err);
        if (rc == 0)
            rc = take_packs(linking, &pair, true, err);
    }
    close_pair(&pair);
    if (rc == 1)
        linking->whole = false;
    return rc < 0 ? rc : 0;
}

/* The names of the copies. */
static int sync_copies(struct linking *linking, struct err *err)
{
    int fd = open(linking->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int problem = fd < 0 || syncfs(fd) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return problem == 0 ? 0 : fail(linking, "writing objects to", linking->to, problem, err);
}

int workspace_link_objects(struct workspace_keeper *keeper, const char *from, const char *to,
                           struct err *err)
{
    struct linking linking = {.keeper = keeper, .from = from, .to = to, .whole = true};
    int rc = take_loose(&linking, err);
    if (rc == 0)
        rc = take_all_packs(&linking, err);
    if (rc == 0 && linking.copied)
        rc = sync_copies(&linking, err);
    return rc < 0 ? rc : linking.whole;
}

int workspace_own_objects(struct workspace_keeper *keeper, const struct workspace *workspace,
                          struct err *err)
{
    char objects[PATH_MAX];
    char alternates[PATH_MAX + 32];
    struct buf from;
    keeper->problem = WORKSPACE_FINE;
    buf_init(&from);
    int len = snprintf(objects, sizeof objects, "%s/.git/objects", workspace->folder);
    snprintf(alternates, sizeof alternates, "%s/info/alternates", objects);
    int rc = len < PATH_MAX ? files_read_line(alternates, &from, err)
                            : files_fail(err, "using", workspace->folder, ENAMETOOLONG);
    if (rc < 0)
        workspace_file_fail(keeper, rc);
    else if ((rc = workspace_link_objects(keeper, from.data, objects, err)) == 0)
        rc = workspace_fail(keeper, WORKSPACE_BROKEN,
                            err_set(err, TEND_EIO, "some objects in %s cannot be read", from.data));
    else if (rc == 1 && (rc = files_remove(alternates, err)) < 0)
        workspace_file_fail(keeper, rc);
    buf_done(&from);
    return rc;
}
