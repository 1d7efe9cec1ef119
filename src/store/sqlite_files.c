#include "store/sqlite_files.h"

#include "base/clock.h"
#include "base/timetext.h"
#include "store/byte_lock.h"
#include "store/sqlite_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <tend.h>
#include <time.h>
#include <unistd.h>

enum { BEGIN_TRIES = 100 };

/* --- opening --- */

enum { OPEN_TRIES = 100 };

/* Why an open file is not taken for one of tend's, or NULL. */
static const char *why_foreign(const struct stat *own, const struct stat *main)
{
    if (!S_ISREG(own->st_mode))
        return "is not a file";
    if (own->st_nlink > 1)
        return "has a second name (a hard link)";
    /* Whoever of the group comes first makes what is missing. */
    bool of_group = (main->st_mode & S_IWGRP) != 0 && own->st_gid == main->st_gid;
    if (own->st_uid != main->st_uid && own->st_uid != 0 && own->st_uid != geteuid() && !of_group)
        return "belongs neither to the owner of the store nor to you";
    return NULL;
}

/* Opens what is there. -1: errno is ENOENT, or err is set. */
static int open_present(const char *name, const struct stat *main, struct err *err)
{
    struct stat own;
    /* O_NONBLOCK: a pipe in its place keeps nobody waiting. */
    int fd = open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ELOOP)
            sqlite_path_refuse(name, "is a symlink", err);
        else if (errno == EISDIR || errno == ENXIO)
            sqlite_path_refuse(name, "is not a file", err);
        else if (errno != ENOENT)
            sqlite_path_fail(name, "opened for writing", errno, err);
        return -1;
    }
    if (fstat(fd, &own) != 0) {
        sqlite_path_fail(name, "read", errno, err);
    } else if (own.st_nlink == 0) { /* removed in this moment */
        close(fd);
        errno = ENOENT;
        return -1;
    } else {
        const char *why = why_foreign(&own, main);
        if (why == NULL)
            return fd;
        sqlite_path_refuse(name, why, err);
    }
    close(fd);
    return -1;
}

/* Makes what is missing, as SQLite does with its own companions. -1: errno is EEXIST, or err is
 * set. */
static int open_new(const char *name, const struct stat *main, struct err *err)
{
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        if (errno != EEXIST)
            sqlite_path_fail(name, "made", errno, err);
        return -1;
    }
    uid_t owner = geteuid() == 0 ? main->st_uid : (uid_t)-1;
    int failed = fchown(fd, owner, main->st_gid) + fchmod(fd, main->st_mode & 0666);
    (void)failed; /* whoever is not of the group cannot give it to the group */
    return fd;
}

static int make_named(const char *name, const struct stat *main, struct err *err)
{
    for (int i = 0; i < OPEN_TRIES; i++) { /* others may make it, or remove it, at the same time */
        int fd = open_present(name, main, err);
        if (fd < 0 && err->code == 0)
            fd = open_new(name, main, err);
        if (fd >= 0 || err->code != 0)
            return fd >= 0 ? fd : err->code;
    }
    return err_set(err, TEND_EUNREACHABLE,
                   "%s is made and removed again and again by another program; stop that one",
                   name);
}

/* A file beside the store. */
struct companion {
    const char *suffix;
    int *fd;
    char **name;
    int64_t present_byte; /* locked for reading by all who have the store open */
};

enum { COMPANIONS = 3 };

static void list_companions(struct sqlite_files *files, struct companion ret[COMPANIONS])
{
    ret[0] = (struct companion){"-lock", &files->lock_fd, &files->lock_path, LOCK_FILE_PRESENT};
    ret[1] = (struct companion){"-workers", &files->workers_fd, &files->workers_path, 0};
    ret[2] = (struct companion){"-bell", &files->bell_fd, &files->bell_path, 0};
}

/* Those that are not open yet; makes what is missing, or leaves it. 0 or a negative code. */
static int open_companions(const char *path, const struct companion all[COMPANIONS], bool makes,
                           struct err *err)
{
    struct stat main;
    err_clear(err);
    if (stat(path, &main) != 0)
        return sqlite_path_fail(path, "reached", errno, err);
    for (size_t i = 0; i < COMPANIONS; i++) {
        if (*all[i].fd >= 0)
            continue;
        if (*all[i].name == NULL && asprintf(all[i].name, "%s%s", path, all[i].suffix) < 0) {
            *all[i].name = NULL;
            return err_set(err, TEND_ENOMEM, "out of memory while opening %s", path);
        }
        int fd =
            makes ? make_named(*all[i].name, &main, err) : open_present(*all[i].name, &main, err);
        if (err->code != 0)
            return err->code;
        *all[i].fd = fd;
    }
    return 0;
}

/* One that the others who have the store open do not have open; NULL: they have the same ones. */
static const char *find_odd(const struct companion all[COMPANIONS])
{
    const char *odd = NULL;
    bool others = false;
    for (size_t i = 0; i < COMPANIONS; i++) {
        if (*all[i].fd >= 0 && byte_lock_ask(*all[i].fd, all[i].present_byte, F_WRLCK) != 0)
            others = true;
        else if (odd == NULL)
            odd = all[i].suffix;
    }
    return others ? odd : NULL;
}

/* Whether this process is seen by others that open the store. */
static void set_present(struct sqlite_files *files, bool present)
{
    struct companion all[COMPANIONS];
    list_companions(files, all);
    for (size_t i = 0; i < COMPANIONS; i++)
        byte_lock_set(*all[i].fd, all[i].present_byte, present ? F_RDLCK : F_UNLCK);
}

void sqlite_files_init(struct sqlite_files *files, const char *path)
{
    *files = (struct sqlite_files){.path = path,
                                   .lock_fd = -1,
                                   .bell_fd = -1,
                                   .workers_fd = -1,
                                   .log_fd = -1,
                                   .index_fd = -1,
                                   .bell_watch_fd = -1,
                                   .bell_timer_fd = -1};
}

int sqlite_files_know_store(struct sqlite_files *files, struct err *err)
{
    struct stat status;
    if (stat(files->path, &status) != 0)
        return sqlite_path_fail(files->path, "reached", errno, err);
    files->device = status.st_dev;
    files->inode = status.st_ino;
    return 0;
}

int sqlite_files_know_log(struct sqlite_files *files, struct err *err)
{
    if (asprintf(&files->log_path, "%s-wal", files->path) < 0)
        files->log_path = NULL;
    if (asprintf(&files->index_path, "%s-shm", files->path) < 0)
        files->index_path = NULL;
    if (files->log_path == NULL || files->index_path == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while opening %s", files->path);
    files->log_fd = open(files->log_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    files->index_fd = open(files->index_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return 0;
}

int sqlite_files_open(struct sqlite_files *files, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct companion all[COMPANIONS];
    const char *odd;
    int rc;
    list_companions(files, all);
    for (int tries = 0;; tries++) {
        if ((rc = open_companions(files->path, all, false, err)) < 0)
            return rc;
        if ((odd = find_odd(all)) == NULL)
            break;
        if (tries == OPEN_TRIES)
            return err_set(err, TEND_EUNREACHABLE,
                           "%s%s was renamed, deleted or replaced while other programs have the "
                           "store open: this one would not see them; give the file its name back, "
                           "or end all programs that have the store open ('fuser %s' shows which)",
                           files->path, odd, files->path);
        nanosleep(&pause, NULL); /* one that is opening or closing it does so file by file */
    }
    if ((rc = open_companions(files->path, all, true, err)) < 0)
        return rc;
    set_present(files, true);
    return 0;
}

bool sqlite_files_has_lock(const struct sqlite_files *files)
{
    char *name = NULL;
    struct stat status;
    if (asprintf(&name, "%s-lock", files->path) < 0)
        return true;
    bool has = lstat(name, &status) == 0;
    free(name);
    return has;
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
    close_fd(&files->log_fd);
    close_fd(&files->index_fd);
    close_fd(&files->bell_watch_fd);
    close_fd(&files->bell_timer_fd);
}

void sqlite_files_close(struct sqlite_files *files)
{
    sqlite_files_close_fds(files);
    free(files->lock_path);
    free(files->workers_path);
    free(files->bell_path);
    free(files->log_path);
    free(files->index_path);
    files->lock_path = files->workers_path = files->bell_path = NULL;
    files->log_path = files->index_path = NULL;
}

/* --- still there? --- */

bool sqlite_files_gone(const struct sqlite_files *files)
{
    return __atomic_load_n(&files->gone, __ATOMIC_RELAXED) != NULL;
}

/* The first thing that is found missing counts. what: what became of what was to be saved. */
static int say_gone(struct sqlite_files *files, const char *suffix, const char *what,
                    struct err *err)
{
    const char *first = NULL;
    if (!__atomic_compare_exchange_n(&files->gone, &first, suffix, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        suffix = first;
    set_present(files, false); /* nothing is done here any more: others may begin anew */
    if (*suffix == '\0')
        return err_set(err, TEND_EUNREACHABLE,
                       "the store %s was deleted or replaced while it was open: %s; restart this "
                       "program, which then opens the one that is there",
                       files->path, what);
    return err_set(
        err, TEND_EUNREACHABLE,
        "%s%s was deleted or replaced while the store was open: %s; restart all programs "
        "that have this store open",
        files->path, suffix, what);
}

static const char nothing_saved[] = "nothing was saved";

static bool is_in_place(const struct sqlite_files *files)
{
    struct stat now;
    return !sqlite_files_gone(files) && stat(files->path, &now) == 0 &&
           now.st_ino == files->inode && now.st_dev == files->device;
}

/* It was deleted or replaced. No path is looked up. */
static bool has_no_name(int fd)
{
    struct stat own;
    return fd >= 0 && fstat(fd, &own) == 0 && own.st_nlink == 0;
}

int sqlite_files_check_store(struct sqlite_files *files, struct err *err)
{
    return is_in_place(files) ? 0 : say_gone(files, "", nothing_saved, err);
}

int sqlite_files_check_saved(struct sqlite_files *files, struct err *err)
{
    static const char saved[] =
        "this write is in the file that was opened, which may not be the one that is there now";
    return is_in_place(files) ? 0 : say_gone(files, "", saved, err);
}

/* A file that was only renamed still has a name: so it is asked for by the one it should have. */
static bool is_named(int fd, const char *name)
{
    struct stat own;
    struct stat named;
    return fstat(fd, &own) == 0 && lstat(name, &named) == 0 && own.st_ino == named.st_ino &&
           own.st_dev == named.st_dev;
}

/* The same of SQLite's own files. */
static const char *misplaced_log(const struct sqlite_files *files)
{
    if (files->log_fd >= 0 && !is_named(files->log_fd, files->log_path))
        return "-wal";
    return files->index_fd >= 0 && !is_named(files->index_fd, files->index_path) ? "-shm" : NULL;
}

int sqlite_files_look_beside(struct sqlite_files *files, struct err *err)
{
    const char *missing = !is_named(files->lock_fd, files->lock_path)         ? "-lock"
                          : !is_named(files->workers_fd, files->workers_path) ? "-workers"
                          : !is_named(files->bell_fd, files->bell_path)       ? "-bell"
                                                                        : misplaced_log(files);
    if (missing == NULL)
        return 0;
    int rc = sqlite_files_check_store(files, err); /* often all of them have been removed */
    return rc < 0 ? rc : say_gone(files, missing, nothing_saved, err);
}

int sqlite_files_check_beside(struct sqlite_files *files, struct err *err)
{
    int64_t now_ms = clock_mono_ms();
    if (now_ms < files->beside_next_ms && !has_no_name(files->index_fd))
        return 0;
    files->beside_next_ms = now_ms + BESIDE_CHECK_MS;
    int rc = sqlite_files_check_store(files, err);
    return rc < 0 ? rc : sqlite_files_look_beside(files, err);
}

/* --- the bell --- */

/* No two rings write the same number: the time is another each time in one handle, the salt in each
 * handle. Waiters have a slow tick as well, should this fail. */
void sqlite_files_ring(struct sqlite_files *files, uint64_t bells)
{
    uint64_t numbers[DB_BELLS];
    uint64_t number = (uint64_t)clock_mono_ns() + files->bell_salt;
    ssize_t ignored = 0;
    if (bells == DB_BELLS_ALL) {
        for (int i = 0; i < DB_BELLS; i++)
            numbers[i] = number;
        ignored = pwrite(files->bell_fd, numbers, sizeof numbers, 0);
        bells = 0;
    }
    for (; bells != 0; bells &= bells - 1)
        ignored = pwrite(files->bell_fd, &number, sizeof number,
                         (off_t)__builtin_ctzll(bells) * (off_t)sizeof number);
    (void)ignored;
}

/* Which have changed since the last time. */
static uint64_t look_at_bells(struct sqlite_files *files)
{
    uint64_t numbers[DB_BELLS] = {0};
    uint64_t changed = 0;
    if (pread(files->bell_fd, numbers, sizeof numbers, 0) < 0)
        return DB_BELLS_ALL;
    for (int i = 0; i < DB_BELLS; i++)
        changed |= (uint64_t)(numbers[i] != files->bells_read[i]) << i;
    memcpy(files->bells_read, numbers, sizeof numbers);
    return changed;
}

int sqlite_files_watch_bell(struct sqlite_files *files, struct err *err)
{
    if (files->bell_watch_fd >= 0)
        return 0;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, files->bell_path, IN_MODIFY) < 0) {
        int failed = errno;
        char tick[DURATION_TEXT_BYTES];
        if (fd >= 0)
            close(fd);
        return err_set(
            err, TEND_EIO,
            "%s cannot be watched (inotify: %s), so waiting processes look at it every "
            "%s instead of being woken; raise fs.inotify.max_user_instances or ulimit -n",
            files->bell_path, strerror(failed), duration_text(BELL_TICK_MS, tick));
    }
    if (files->bell_timer_fd < 0)
        look_at_bells(files);
    files->bell_watch_fd = fd;
    return 0;
}

bool sqlite_files_time_bell(struct sqlite_files *files)
{
    const struct itimerspec every = {.it_interval.tv_nsec = BELL_TICK_MS * 1000000L,
                                     .it_value.tv_nsec = BELL_TICK_MS * 1000000L};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return false;
    look_at_bells(files);
    timerfd_settime(fd, 0, &every, NULL);
    files->bell_timer_fd = fd;
    return true;
}

void sqlite_files_untime_bell(struct sqlite_files *files)
{
    const struct itimerspec once = {.it_value.tv_nsec = 1};
    timerfd_settime(files->bell_timer_fd, 0, &once, NULL);
}

/* A ring after the descriptor is emptied makes it readable again, so none is missed. */
uint64_t sqlite_files_heard_bells(struct sqlite_files *files, int fd)
{
    char events[4096];
    while (read(fd, events, sizeof events) > 0)
        continue;
    return look_at_bells(files);
}

/* --- liveness --- */

int sqlite_files_alive_begin(struct sqlite_files *files, int64_t worker_id, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int tries = 0; tries < BEGIN_TRIES; tries++) {
        if (byte_lock_set(files->workers_fd, worker_id, F_WRLCK) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            break;
        nanosleep(&pause, NULL); /* one who watched the byte gives it back at once */
    }
    if (errno != EAGAIN && errno != EACCES)
        return err_set(err, TEND_EIO, "the liveness lock of worker %lld cannot be taken: %s",
                       (long long)worker_id, strerror(errno));
    return err_set(err, TEND_EBUSY,
                   "the liveness lock of worker %lld cannot be taken: another process holds it, "
                   "which opened an earlier store at this path; restart that process ('fuser "
                   "%s-workers' shows who has the file open)",
                   (long long)worker_id, files->path);
}

void sqlite_files_alive_end(struct sqlite_files *files, int64_t worker_id)
{
    byte_lock_set(files->workers_fd, worker_id, F_UNLCK);
}

bool sqlite_files_is_alive(struct sqlite_files *files, int64_t worker_id)
{
    /* Not as a writer: the read locks of those who watch it are no sign of life. When the kernel
     * cannot tell, the lease's time must. */
    return byte_lock_ask(files->workers_fd, worker_id, F_RDLCK) != 0;
}
