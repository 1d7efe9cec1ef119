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

enum {
    NOT_REGULAR = EMEDIUMTYPE, /* an errno that no call here gives */
    CREATE_MOST = 8,           /* times that somebody else makes a file of the same name */
};

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
    if (problem == EXDEV)
        return err_set(err, TEND_EIO,
                       "%s %s: something is mounted there; unmount it (findmnt lists what is "
                       "mounted)",
                       what, path);
    if (problem == NOT_REGULAR)
        return err_set(err, TEND_EIO, "%s %s: it is not a regular file", what, path);
    return err_set(err, code_of(problem), "%s %s: %s", what, path, strerror(problem));
}

char *files_absolute(const char *path)
{
    return realpath(path, NULL);
}

/* What is missing above it is made for everybody, as mkdir -p does. */
static int make_folder(const char *path, mode_t mode, struct err *err)
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
        if (mkdir(copy, cut == '\0' ? mode : 0777) < 0 && errno != EEXIST)
            problem = errno;
        *at = cut;
    }
    struct stat status;
    if (problem == 0 && stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        problem = ENOTDIR;
    free(copy);
    return problem == 0 ? 0 : files_fail(err, "making folder", path, problem);
}

int files_make_folder(const char *path, struct err *err)
{
    return make_folder(path, 0777, err);
}

int files_make_private_folder(const char *path, struct err *err)
{
    return make_folder(path, 0700, err);
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
    int problem = file_tree_check_mount(fd);
    if (problem == 0)
        problem = chmod(path, 0700) < 0 ? errno : file_tree_open(NULL, fd, ".", ret_fd);
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

/* --- reading --- */

/* Opens a regular file of at most so many bytes. 0 or an errno. */
static int open_to_read(int folder, const char *name, int flags, size_t most_bytes, int *ret_fd)
{
    struct stat status;
    int problem = 0;
    /* O_NONBLOCK: the name may be that of a FIFO. */
    int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    if (fd < 0)
        return errno;
    if (fstat(fd, &status) < 0)
        problem = errno;
    else if (!S_ISREG(status.st_mode))
        problem = S_ISDIR(status.st_mode) ? EISDIR : NOT_REGULAR;
    else if ((uintmax_t)status.st_size > most_bytes)
        problem = EFBIG;
    *ret_fd = fd;
    if (problem != 0)
        close(fd);
    return problem;
}

/* Gives each piece of the file to `take`, which returns 0 or an errno. */
static int read_pieces(int fd, size_t most_bytes,
                       int (*take)(void *arg, const char *piece, size_t bytes), void *arg)
{
    char chunk[65536];
    size_t total = 0;
    int problem = 0;
    while (problem == 0) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got == 0)
            break;
        if (got < 0) {
            problem = errno == EINTR ? 0 : errno;
            continue;
        }
        total += (size_t)got;
        problem = total > most_bytes ? EFBIG : take(arg, chunk, (size_t)got);
    }
    return problem;
}

static int take_into_buf(void *arg, const char *piece, size_t bytes)
{
    struct buf *out = arg;
    buf_append(out, piece, bytes);
    return out->failed ? ENOMEM : 0;
}

static int read_at(int folder, const char *name, int flags, size_t most_bytes, struct buf *out)
{
    int fd = -1;
    int problem = open_to_read(folder, name, flags, most_bytes, &fd);
    if (problem != 0)
        return problem;
    problem = read_pieces(fd, most_bytes, take_into_buf, out);
    close(fd);
    return problem;
}

int files_read_at(int folder, const char *name, size_t most_bytes, struct buf *out)
{
    return read_at(folder, name, O_NOFOLLOW, most_bytes, out);
}

int files_read(const char *path, size_t most_bytes, struct buf *out, struct err *err)
{
    int problem = read_at(AT_FDCWD, path, O_NOFOLLOW, most_bytes, out);
    return problem == 0 ? 0 : files_fail(err, "reading", path, problem);
}

int files_read_linked(const char *path, size_t most_bytes, struct buf *out, struct err *err)
{
    int problem = read_at(AT_FDCWD, path, 0, most_bytes, out);
    return problem == 0 ? 0 : files_fail(err, "reading", path, problem);
}

int files_read_line_at(int folder, const char *name, struct buf *out)
{
    int problem = files_read_at(folder, name, FILES_SMALL_BYTES, out);
    while (problem == 0 && out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    return problem;
}

int files_read_line(const char *path, struct buf *out, struct err *err)
{
    int problem = files_read_line_at(AT_FDCWD, path, out);
    return problem == 0 ? 0 : files_fail(err, "reading", path, problem);
}

/* --- writing --- */

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

/* Makes the file anew; whatever had its name is removed and not written to. 0 or an errno. */
static int create(int folder, const char *name, mode_t mode, int *ret_fd)
{
    int problem = EEXIST;
    for (int i = 0; i < CREATE_MOST && problem == EEXIST; i++) { /* another may create it, too */
        if ((problem = files_remove_at(folder, name)) != 0)
            break;
        *ret_fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        problem = *ret_fd < 0 ? errno : 0;
    }
    return problem;
}

static int write_at(int folder, const char *name, mode_t mode, bool sync, const void *data,
                    size_t bytes)
{
    int fd = -1;
    int problem = create(folder, name, mode, &fd);
    if (problem != 0)
        return problem;
    problem = files_write_all(fd, data, bytes);
    if (problem == 0 && sync && fsync(fd) < 0)
        problem = errno;
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    return problem;
}

int files_write_at(int folder, const char *name, const void *data, size_t bytes)
{
    return write_at(folder, name, 0666, false, data, bytes);
}

int files_write(const char *path, const void *data, size_t bytes, struct err *err)
{
    int problem = write_at(AT_FDCWD, path, 0666, false, data, bytes);
    return problem == 0 ? 0 : files_fail(err, "writing", path, problem);
}

int files_write_private(const char *path, const void *data, size_t bytes, struct err *err)
{
    int problem = write_at(AT_FDCWD, path, 0600, false, data, bytes);
    return problem == 0 ? 0 : files_fail(err, "writing", path, problem);
}

int files_replace(const char *path, const void *data, size_t bytes, struct err *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s.new", path) >= PATH_MAX)
        return files_fail(err, "writing", path, ENAMETOOLONG);
    int problem = write_at(AT_FDCWD, part, 0666, true, data, bytes);
    if (problem == 0 && rename(part, path) < 0)
        problem = errno;
    return problem == 0 ? 0 : files_fail(err, "writing", path, problem);
}

static int take_into_file(void *arg, const char *piece, size_t bytes)
{
    return files_write_all(*(const int *)arg, piece, bytes);
}

int files_copy_at(int from_folder, const char *from, int to_folder, const char *to)
{
    struct stat status;
    int source = -1;
    int target = -1;
    int problem = open_to_read(from_folder, from, O_NOFOLLOW, FILES_LARGE_BYTES, &source);
    if (problem != 0)
        return problem;
    if (fstat(source, &status) < 0)
        problem = errno;
    if (problem == 0)
        problem = create(to_folder, to, 0666, &target);
    if (problem == 0)
        problem = read_pieces(source, FILES_LARGE_BYTES, take_into_file, &target);
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    if (problem == 0 && futimens(target, times) < 0)
        problem = errno;
    if (target >= 0 && close(target) < 0 && problem == 0)
        problem = errno;
    close(source);
    return problem;
}

int files_copy(const char *from, const char *to, struct err *err)
{
    int problem = files_copy_at(AT_FDCWD, from, AT_FDCWD, to);
    return problem == 0 ? 0 : files_fail(err, "copying", from, problem);
}
