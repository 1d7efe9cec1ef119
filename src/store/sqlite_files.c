#include "store/sqlite_files.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <tend.h>
#include <time.h>
#include <unistd.h>

enum { BEGIN_TRIES = 1000 };

static int set_lock(int fd, int command, short type, int64_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, command, &lock);
}

int sqlite_files_fail(const char *name, const char *did, int failed, struct err *err)
{
    bool full = failed == ENOSPC || failed == EDQUOT;
    bool missing = failed == ENOENT || failed == ENOTDIR;
    return err_set(err, full ? TEND_EFULL : TEND_EUNREACHABLE, "%s cannot be %s: %s; %s", name, did,
                   strerror(failed),
                   full      ? "make room and try again"
                   : missing ? "make the folder first or give another path"
                             : "the files of a store and their folder must be readable and "
                               "writable for you");
}

/* As SQLite does with its own companions. What is not ours stays as it is. */
static void follow(int fd, const struct stat *main)
{
    struct stat own;
    if (fstat(fd, &own) != 0)
        return;
    bool ignored =
        (geteuid() == 0 && (own.st_uid != main->st_uid || own.st_gid != main->st_gid) &&
         fchown(fd, main->st_uid, main->st_gid) != 0) ||
        ((own.st_mode & 0777) != (main->st_mode & 0666) && fchmod(fd, main->st_mode & 0666) != 0);
    (void)ignored;
}

static int open_beside(const char *path, const char *suffix, char **ret_name, struct err *err)
{
    char *name = NULL;
    struct stat main;
    if (asprintf(&name, "%s%s", path, suffix) < 0)
        return err_set(err, TEND_ENOMEM, "out of memory while opening %s", path);
    int fd = stat(path, &main) != 0 ? -1 : open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        int code = sqlite_files_fail(name, "opened for writing", errno, err);
        free(name);
        return code;
    }
    follow(fd, &main);
    if (ret_name != NULL)
        *ret_name = name;
    else
        free(name);
    return fd;
}

int sqlite_files_open(struct sqlite_files *files, const char *path, struct err *err)
{
    *files =
        (struct sqlite_files){.lock_fd = -1, .bell_fd = -1, .workers_fd = -1, .bell_watch_fd = -1};
    if ((files->lock_fd = open_beside(path, "-lock", NULL, err)) < 0 ||
        (files->workers_fd = open_beside(path, "-workers", NULL, err)) < 0 ||
        (files->bell_fd = open_beside(path, "-bell", &files->bell_path, err)) < 0) {
        sqlite_files_close(files);
        return err->code;
    }
    return 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void sqlite_files_close_fds(struct sqlite_files *files)
{
    close_fd(&files->lock_fd);
    close_fd(&files->bell_fd);
    close_fd(&files->workers_fd);
    close_fd(&files->bell_watch_fd);
}

void sqlite_files_close(struct sqlite_files *files)
{
    sqlite_files_close_fds(files);
    free(files->bell_path);
    files->bell_path = NULL;
}

void sqlite_files_ring(struct sqlite_files *files)
{
    int64_t now_ns = clock_mono_ns();
    ssize_t ignored = pwrite(files->bell_fd, &now_ns, sizeof now_ns, 0);
    (void)ignored; /* waiters have a slow tick as well */
}

int sqlite_files_watch_bell(struct sqlite_files *files, struct err *err)
{
    if (files->bell_watch_fd >= 0)
        return 0;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, files->bell_path, IN_MODIFY) < 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return err_set(err, TEND_EIO,
                       "%s cannot be watched: %s; raise fs.inotify.max_user_instances",
                       files->bell_path, strerror(failed));
    }
    files->bell_watch_fd = fd;
    return 0;
}

bool sqlite_files_heard_bell(struct sqlite_files *files)
{
    char events[4096];
    bool heard = false;
    while (read(files->bell_watch_fd, events, sizeof events) > 0)
        heard = true;
    return heard;
}

int sqlite_files_alive_begin(struct sqlite_files *files, int64_t worker_id, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int tries = 0; tries < BEGIN_TRIES; tries++) {
        if (set_lock(files->workers_fd, F_OFD_SETLK, F_WRLCK, worker_id) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            break;
        nanosleep(&pause, NULL); /* one who watched the byte gives it back at once */
    }
    return err_set(err, TEND_EIO, "the liveness lock of worker %lld cannot be taken: %s",
                   (long long)worker_id, strerror(errno));
}

void sqlite_files_alive_end(struct sqlite_files *files, int64_t worker_id)
{
    set_lock(files->workers_fd, F_OFD_SETLK, F_UNLCK, worker_id);
}

bool sqlite_files_is_alive(struct sqlite_files *files, int64_t worker_id)
{
    /* Not as a writer: the read locks of those who watch it are no sign of life. */
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = worker_id, .l_len = 1};
    /* When the kernel cannot tell, the lease's time must. */
    return fcntl(files->workers_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
