/* See workspace_files.h. */
#include "run/workspace_files.h"

#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

static int remove_entry(int parent, const char *name);

/* Everything in the folder; 0 or an errno. Takes the descriptor. */
static int remove_content(int fd)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int problem = errno;
        close(fd);
        return problem;
    }
    int problem = 0;
    for (struct dirent *entry; problem == 0 && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            problem = remove_entry(dirfd(dir), entry->d_name);
    closedir(dir);
    return problem;
}

/* 0 or an errno. */
static int remove_entry(int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM && errno != EACCES)
        return errno;
    int problem = errno;
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode))
        return problem;
    /* Several times: whoever still writes there may add files behind our back. */
    for (int attempt = 0; attempt < 5; attempt++) {
        if ((status.st_mode & 0700) != 0700 &&
            fchmodat(parent, name, (status.st_mode & 07777) | 0700, 0) < 0)
            return errno;
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return errno == ENOENT ? 0 : errno;
        problem = remove_content(fd);
        if (problem != 0)
            return problem;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        problem = errno;
        if (problem != ENOTEMPTY && problem != EEXIST)
            return problem;
    }
    return problem;
}

int files_remove(const char *path, struct err *err)
{
    int problem = remove_entry(AT_FDCWD, path);
    return problem == 0 ? 0 : files_fail(err, "removing", path, problem);
}

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

int files_write(const char *path, const void *data, size_t bytes, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return files_fail(err, "writing", path, errno);
    int problem = files_write_all(fd, data, bytes);
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    return problem == 0 ? 0 : files_fail(err, "writing", path, problem);
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
