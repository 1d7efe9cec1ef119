/* See workspace_files.h. */
#include "run/workspace_files.h"

#include "base/buf.h"
#include "run/file_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

static int code_of(int problem)
{
    switch (problem) {
    case ENOENT:
        return TEND_ENOTFOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return TEND_EREADONLY;
    default:
        return err_lack(problem) != NULL ? TEND_ENOMEM : TEND_EIO;
    }
}

int files_fail(struct err *err, const char *what, const char *path, int problem)
{
    if (problem == ENOSPC || problem == EDQUOT)
        return err_set(err, TEND_EFULL, "%s %s: no space left on the disk; free some and try again",
                       what, path);
    return err_set(err, code_of(problem), "%s %s: %s", what, path, strerror(problem));
}

char *files_absolute(const char *path)
{
    return realpath(path, NULL);
}

int files_make_folder(const char *path, struct err *err)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return files_fail(err, "making folder", path, ENOMEM);
    int problem = 0;
    for (char *at = copy; problem == 0 && *at != '\0';) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char cut = *at;
        *at = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            problem = errno;
        *at = cut;
    }
    struct stat status;
    if (problem == 0 && stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        problem = ENOTDIR;
    free(copy);
    return problem == 0 ? 0 : files_fail(err, "making folder", path, problem);
}

/* --- removing --- */

enum { AGAIN_MOST = 64 }; /* folders that somebody has put something into meanwhile */

static int remove_file(void *arg, int folder, const char *name)
{
    (void)arg;
    /* EISDIR: it has just become a folder, and the one it is in will not be empty. */
    return unlinkat(folder, name, 0) == 0 || errno == ENOENT || errno == EISDIR ? 0 : errno;
}

/* A folder that its owner may not even read. By /proc, as a descriptor of it cannot be had in
 * another way, and by name it could be a link to elsewhere. */
static int open_closed(int parent, const char *name, int *ret_fd)
{
    char path[64];
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int problem = chmod(path, 0700) < 0 ? errno : file_tree_open(NULL, fd, ".", ret_fd);
    close(fd);
    return problem;
}

/* Opens a folder from which everything can be removed. */
static int open_to_empty(void *arg, int parent, const char *name, int *ret_fd)
{
    struct stat status;
    int problem = file_tree_open(NULL, parent, name, ret_fd);
    if (problem == ENOTDIR || problem == ELOOP) {
        problem = remove_file(arg, parent, name); /* it was a folder a moment ago */
        return problem == 0 ? ENOENT : problem;
    }
    if (problem == EACCES)
        problem = open_closed(parent, name, ret_fd);
    if (problem != 0)
        return problem;
    if (fstat(*ret_fd, &status) == 0 && (status.st_mode & 0700) != 0700 &&
        fchmod(*ret_fd, (status.st_mode & 07777) | 0700) < 0)
        return errno;
    return 0;
}

/* Whoever still writes there may add files behind our back. */
static int remove_folder(void *arg, int parent, const char *name)
{
    int *again = arg;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOTDIR)
        return remove_file(NULL, parent, name);
    return (errno == ENOTEMPTY || errno == EEXIST) && (*again)++ < AGAIN_MOST ? EAGAIN : errno;
}

int files_remove_at(int parent, const char *name)
{
    int again = 0;
    const struct file_tree tree = {
        .open = open_to_empty, .file = remove_file, .leave = remove_folder, .arg = &again};
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    int problem = errno;
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : problem; /* somebody else removes it, too */
    return S_ISDIR(status.st_mode) ? file_tree_walk(parent, name, &tree) : problem;
}

int files_remove(const char *path, struct err *err)
{
    int problem = files_remove_at(AT_FDCWD, path);
    return problem == 0 ? 0 : files_fail(err, "removing", path, problem);
}

/* --- reading and writing --- */

static int read_all(int fd, struct buf *out)
{
    char chunk[65536];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got == 0)
            return out->failed ? ENOMEM : 0;
        if (got < 0 && errno != EINTR)
            return errno;
        if (got > 0)
            buf_append(out, chunk, (size_t)got);
    }
}

int files_read(const char *path, struct buf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return files_fail(err, "reading", path, errno);
    int problem = read_all(fd, out);
    close(fd);
    return problem == 0 ? 0 : files_fail(err, "reading", path, problem);
}

int files_read_line(const char *path, struct buf *out, struct err *err)
{
    int rc = files_read(path, out, err);
    while (rc == 0 && out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    return rc;
}

int files_write_all(int fd, const char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write(fd, data + done, bytes - done);
        if (wrote < 0 && errno != EINTR)
            return errno;
        if (wrote > 0)
            done += (size_t)wrote;
    }
    return 0;
}

static int write_file(const char *path, mode_t mode, bool sync, const void *data, size_t bytes,
                      struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return files_fail(err, "writing", path, errno);
    int problem = files_write_all(fd, data, bytes);
    if (problem == 0 && sync && fsync(fd) < 0)
        problem = errno;
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    return problem == 0 ? 0 : files_fail(err, "writing", path, problem);
}

int files_write(const char *path, const void *data, size_t bytes, struct err *err)
{
    return write_file(path, 0666, false, data, bytes, err);
}

int files_write_private(const char *path, const void *data, size_t bytes, struct err *err)
{
    return write_file(path, 0600, false, data, bytes, err);
}

int files_replace(const char *path, const void *data, size_t bytes, struct err *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s.new", path) >= PATH_MAX)
        return files_fail(err, "writing", path, ENAMETOOLONG);
    int rc = write_file(part, 0666, true, data, bytes, err);
    if (rc == 0 && rename(part, path) < 0)
        rc = files_fail(err, "writing", path, errno);
    return rc;
}

int files_copy(const char *from, const char *to, struct err *err)
{
    struct buf data;
    struct stat status;
    buf_init(&data);
    if (stat(from, &status) < 0)
        return files_fail(err, "reading", from, errno);
    int rc = files_read(from, &data, err);
    if (rc == 0)
        rc = files_write(to, data.data, data.len, err);
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    if (rc == 0 && utimensat(AT_FDCWD, to, times, 0) < 0)
        rc = files_fail(err, "setting the time of", to, errno);
    buf_done(&data);
    return rc;
}
