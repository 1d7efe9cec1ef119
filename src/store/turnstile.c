#include "store/turnstile.h"

#include "base/clock.h"
#include "base/proc.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <tend.h>
#include <unistd.h>

enum { TURN_BYTE = 0, DOOR_BYTE = 1, HOLDER_AT = 64, LONGEST_MS = 86400000 };

static int set_lock(int fd, int command, short type, int64_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, command, &lock);
}

/* --- time in which nobody could write --- */

enum { BLOCKED_AT = 128, BOOT_BITS = 16 };

/* A time of this boot: what was noted before the machine went down says nothing now. */
static int64_t stamp(int64_t boot_ms)
{
    struct proc_id self;
    uint64_t hash = 0;
    if (proc_self(&self) == 0)
        for (const char *at = self.boot_id; *at != '\0'; at++)
            hash = hash * 31 + (unsigned char)*at;
    hash &= (1u << BOOT_BITS) - 1;
    return (int64_t)(((uint64_t)boot_ms << BOOT_BITS | hash) & INT64_MAX);
}

static int64_t read_number(const struct turnstile *turnstile, int64_t at)
{
    int64_t number = 0;
    return pread(turnstile->fd, &number, sizeof number, at) == (ssize_t)sizeof number ? number : 0;
}

static void write_number(const struct turnstile *turnstile, int64_t at, int64_t number)
{
    ssize_t ignored = pwrite(turnstile->fd, &number, sizeof number, at);
    (void)ignored;
}

/* since_ms: clock_boot_ms when this process began to wait. The first note counts. */
static void note_blocked(const struct turnstile *turnstile, int64_t since_ms)
{
    if (read_number(turnstile, BLOCKED_AT) == 0)
        write_number(turnstile, BLOCKED_AT, stamp(since_ms));
}

int64_t turnstile_take_blocked(struct turnstile *turnstile)
{
    int64_t noted = read_number(turnstile, BLOCKED_AT);
    if (noted == 0)
        return 0;
    write_number(turnstile, BLOCKED_AT, 0);
    int64_t since_ms = noted >> BOOT_BITS;
    int64_t now_ms = clock_boot_ms();
    return noted == stamp(since_ms) && since_ms < now_ms ? now_ms - since_ms : 0;
}

void turnstile_init(struct turnstile *turnstile, int fd)
{
    pthread_condattr_t attr;
    *turnstile = (struct turnstile){.fd = fd};
    pthread_mutex_init(&turnstile->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&turnstile->changed, &attr);
    pthread_condattr_destroy(&attr);
}

/* --- the thread that stands in line --- */

static int wait_for_byte(int fd, int64_t byte)
{
    int ignored;
    int rc;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE,
                           &ignored); /* turnstile_done need not wait for it */
    do
        rc = set_lock(fd, F_OFD_SETLKW, F_WRLCK, byte);
    while (rc != 0 && errno == EINTR);
    int failed = rc != 0 ? errno : 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    return failed;
}

static int stand_in_line(int fd)
{
    int failed = wait_for_byte(fd, DOOR_BYTE);
    if (failed == 0) {
        failed = wait_for_byte(fd, TURN_BYTE);
        set_lock(fd, F_OFD_SETLK, F_UNLCK, DOOR_BYTE);
    }
    return failed;
}

static void *serve(void *arg)
{
    struct turnstile *turnstile = arg;
    int ignored;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    pthread_mutex_lock(&turnstile->mutex);
    while (!turnstile->stop) {
        if (turnstile->turn != TURN_WANTED) {
            pthread_cond_wait(&turnstile->changed, &turnstile->mutex);
            continue;
        }
        pthread_mutex_unlock(&turnstile->mutex);
        int failed = stand_in_line(turnstile->fd);
        pthread_mutex_lock(&turnstile->mutex);
        turnstile->failure = failed;
        turnstile->turn = TURN_READY;
        if (turnstile->abandoned) {
            set_lock(turnstile->fd, F_OFD_SETLK, F_UNLCK, TURN_BYTE);
            turnstile->turn = TURN_IDLE;
        }
        pthread_cond_broadcast(&turnstile->changed);
    }
    pthread_mutex_unlock(&turnstile->mutex);
    return NULL;
}

/* Under the mutex. */
static int start(struct turnstile *turnstile, struct err *err)
{
    if (turnstile->running)
        return 0;
    int failed = thread_start(&turnstile->thread, 0, serve, turnstile);
    if (failed != 0)
        return err_set(err, TEND_ENOMEM, "no thread could be started: %s", strerror(failed));
    turnstile->running = true;
    return 0;
}

void turnstile_done(struct turnstile *turnstile)
{
    pthread_mutex_lock(&turnstile->mutex);
    turnstile->stop = true;
    pthread_cond_broadcast(&turnstile->changed);
    pthread_mutex_unlock(&turnstile->mutex);
    if (turnstile->running) {
        pthread_cancel(turnstile->thread);
        pthread_join(turnstile->thread, NULL);
    }
    pthread_cond_destroy(&turnstile->changed);
    pthread_mutex_destroy(&turnstile->mutex);
}

/* --- entering and leaving --- */

/* Only for the sentence when somebody has to wait too long; wrong at worst, never harmful. */
static void note_holder(const struct turnstile *turnstile)
{
    int64_t pid = getpid();
    ssize_t ignored = pwrite(turnstile->fd, &pid, sizeof pid, HOLDER_AT);
    (void)ignored;
}

static int say_busy(const struct turnstile *turnstile, struct err *err)
{
    int64_t pid = 0;
    if (pread(turnstile->fd, &pid, sizeof pid, HOLDER_AT) != (ssize_t)sizeof pid)
        pid = 0;
    return err_set(
        err, TEND_EBUSY,
        "process %lld has held the store's write lock for too long; it is stopped or hung: "
        "continue it (kill -CONT %lld) or end it",
        (long long)pid, (long long)pid);
}

/* Nobody is in line: the door and the turn are free. Otherwise nothing is taken. */
static bool take_at_once(const struct turnstile *turnstile)
{
    if (set_lock(turnstile->fd, F_OFD_SETLK, F_WRLCK, DOOR_BYTE) != 0)
        return false;
    bool taken = set_lock(turnstile->fd, F_OFD_SETLK, F_WRLCK, TURN_BYTE) == 0;
    set_lock(turnstile->fd, F_OFD_SETLK, F_UNLCK, DOOR_BYTE);
    return taken;
}

/* Has the thread stand in line. Under the mutex, which is given up meanwhile. */
static int wait_for_turn(struct turnstile *turnstile, int64_t busy_ms, struct err *err)
{
    int64_t until_ns = clock_mono_ns() + (busy_ms < LONGEST_MS ? busy_ms : LONGEST_MS) * 1000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int rc = start(turnstile, err);
    if (rc < 0)
        return rc;
    turnstile->abandoned = false; /* one that was given up may still be in line, and is as good */
    if (turnstile->turn == TURN_IDLE)
        turnstile->turn = TURN_WANTED;
    pthread_cond_broadcast(&turnstile->changed);
    int64_t since_ms = clock_boot_ms();
    struct timespec told = {.tv_sec = clock_mono_ns() / 1000000000 + 1, .tv_nsec = 0};
    while (turnstile->turn == TURN_WANTED &&
           pthread_cond_timedwait(&turnstile->changed, &turnstile->mutex, &told) != ETIMEDOUT)
        ;
    if (turnstile->turn == TURN_WANTED)
        note_blocked(turnstile, since_ms);
    while (turnstile->turn == TURN_WANTED)
        if (pthread_cond_timedwait(&turnstile->changed, &turnstile->mutex, &until) == ETIMEDOUT)
            break;
    if (turnstile->turn == TURN_WANTED) {
        turnstile->abandoned = true;
        return say_busy(turnstile, err);
    }
    turnstile->turn = TURN_IDLE;
    if (turnstile->failure != 0)
        return err_set(err, TEND_EIO, "locking the store failed: %s", strerror(turnstile->failure));
    return 0;
}

int turnstile_enter(struct turnstile *turnstile, int64_t busy_ms, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&turnstile->mutex);
    /* While the thread is in line its locks are this descriptor's too, and a try would succeed
     * falsely. */
    if (turnstile->turn != TURN_IDLE || !take_at_once(turnstile))
        rc = wait_for_turn(turnstile, busy_ms, err);
    pthread_mutex_unlock(&turnstile->mutex);
    if (rc == 0)
        note_holder(turnstile);
    return rc;
}

bool turnstile_try_enter(struct turnstile *turnstile)
{
    pthread_mutex_lock(&turnstile->mutex);
    bool taken = turnstile->turn == TURN_IDLE && take_at_once(turnstile);
    pthread_mutex_unlock(&turnstile->mutex);
    return taken;
}

void turnstile_leave(struct turnstile *turnstile)
{
    set_lock(turnstile->fd, F_OFD_SETLK, F_UNLCK, TURN_BYTE);
}
