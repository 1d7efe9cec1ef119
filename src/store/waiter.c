#include "store/waiter.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <tend.h>
#include <unistd.h>

/* How often a process is looked at that no descriptor tells of. */
enum { UNSEEN_LOOK_MS = 1000 };

int waiter_init(struct waiter *waiter, void (*on_readable)(struct waiter *, size_t, void *),
                void *arg, struct err *err)
{
    *waiter = (struct waiter){.on_readable = on_readable, .arg = arg};
    waiter->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    waiter->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (size_t i = 0; i < WAITER_ENGINE_FDS; i++)
        waiter->engine_fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    waiter->engine_fd_count = WAITER_ENGINE_FDS;

    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&waiter->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&waiter->mutex, NULL);

    if (waiter->interrupt_fd < 0 || waiter->nudge_fd < 0) {
        waiter_done(waiter);
        return err_set(err, TEND_EIO, "no event descriptor could be made: %s", strerror(errno));
    }
    return 0;
}

static void close_pidfds(struct waiter *waiter)
{
    for (size_t i = 0; i < waiter->process_count; i++)
        if (waiter->processes[i].pidfd >= 0)
            close(waiter->processes[i].pidfd);
    free(waiter->processes);
    waiter->processes = NULL;
    waiter->process_count = waiter->unseen_count = 0;
}

void waiter_done(struct waiter *waiter)
{
    close_pidfds(waiter);
    if (waiter->interrupt_fd >= 0)
        close(waiter->interrupt_fd);
    if (waiter->nudge_fd >= 0)
        close(waiter->nudge_fd);
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->mutex);
}

void waiter_after_fork(struct waiter *waiter)
{
    for (size_t i = 0; i < waiter->process_count; i++) {
        if (waiter->processes[i].pidfd >= 0)
            close(waiter->processes[i].pidfd);
        waiter->processes[i].pidfd = -1;
    }
    if (waiter->interrupt_fd >= 0)
        close(waiter->interrupt_fd);
    if (waiter->nudge_fd >= 0)
        close(waiter->nudge_fd);
    waiter->interrupt_fd = waiter->nudge_fd = -1;
}

static void signal_fd(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one); /* full means signalled already */
    (void)ignored;
}

static bool drain_fd(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof count) == (ssize_t)sizeof count;
}

void waiter_set_fd(struct waiter *waiter, size_t index, int fd)
{
    pthread_mutex_lock(&waiter->mutex);
    waiter->engine_fds[index].fd = fd;
    pthread_mutex_unlock(&waiter->mutex);
    signal_fd(waiter->nudge_fd);
}

void waiter_interrupt(struct waiter *waiter)
{
    int saved = errno;
    signal_fd(waiter->interrupt_fd);
    errno = saved;
}

/* The descriptor it was watched by before, which is being polled, or a new one. Under the mutex. */
static int take_pidfd(struct waiter *waiter, const struct proc_id *id)
{
    for (size_t i = 0; i < waiter->process_count; i++) {
        struct waiter_process *old = &waiter->processes[i];
        if (old->pidfd >= 0 && old->id.pid == id->pid && old->id.start_ticks == id->start_ticks) {
            int pidfd = old->pidfd;
            old->pidfd = -1;
            return pidfd;
        }
    }
    return proc_pidfd(id->pid);
}

/* Under the mutex. */
static void watch_process(struct waiter *waiter, struct waiter_process *process)
{
    int pidfd = take_pidfd(waiter, &process->id);
    process->pidfd = pidfd < 0 ? -1 : pidfd;
    /* It may have ended before the descriptor was there, or its pid be another's by now. Asked
     * after the descriptor was opened: if the process lives, the descriptor is its own. */
    bool dead = pidfd == TEND_ENOTFOUND || proc_fate(&process->id) == PROC_DEAD;
    process->unseen = pidfd < 0 && !dead;
    if (dead)
        waiter->deaths++;
}

int waiter_watch(struct waiter *waiter, const struct db_watched *workers, size_t count,
                 bool *ret_seen, struct err *err)
{
    struct waiter_process *processes = calloc(count + 1, sizeof *processes);
    size_t unseen_count = 0;
    if (processes == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while watching %zu processes", count);
    pthread_mutex_lock(&waiter->mutex);
    for (size_t i = 0; i < count; i++) {
        processes[i] = (struct waiter_process){.id = workers[i].process, .pidfd = -1};
        if (processes[i].id.pid > 0)
            watch_process(waiter, &processes[i]);
        unseen_count += processes[i].unseen;
        if (ret_seen != NULL)
            ret_seen[i] = processes[i].id.pid > 0 && !processes[i].unseen;
    }
    close_pidfds(waiter);
    waiter->processes = processes;
    waiter->process_count = count;
    waiter->unseen_count = unseen_count;
    pthread_cond_broadcast(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
    signal_fd(waiter->nudge_fd);
    return 0;
}

void waiter_death(struct waiter *waiter)
{
    pthread_mutex_lock(&waiter->mutex);
    waiter->deaths++;
    pthread_cond_broadcast(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
    signal_fd(waiter->nudge_fd);
}

/* Those that no descriptor tells of. Under the mutex. */
static void look_at_unseen(struct waiter *waiter)
{
    int64_t now_ms = clock_mono_ms();
    if (waiter->unseen_count == 0 || now_ms < waiter->look_ms)
        return;
    waiter->look_ms = now_ms + UNSEEN_LOOK_MS;
    for (size_t i = 0; i < waiter->process_count; i++) {
        struct waiter_process *process = &waiter->processes[i];
        if (!process->unseen || proc_fate(&process->id) != PROC_DEAD)
            continue;
        process->unseen = false;
        waiter->unseen_count--;
        waiter->deaths++;
    }
}

/* Asked again: the number that was polled may be another descriptor's by now. */
static bool has_ended(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

/* Everything that can be heard at this moment goes into the counters. Under the mutex. */
static void hear(struct waiter *waiter, const struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i].fd < 0 || fds[i].revents == 0)
            continue;
        if (fds[i].fd == waiter->interrupt_fd) {
            if (drain_fd(waiter->interrupt_fd))
                waiter->interrupts++;
        } else if (fds[i].fd == waiter->nudge_fd) {
            drain_fd(waiter->nudge_fd);
        } else {
            for (size_t k = 0; k < waiter->engine_fd_count; k++)
                if (waiter->engine_fds[k].fd == fds[i].fd)
                    waiter->on_readable(waiter, k, waiter->arg);
            for (size_t k = 0; k < waiter->process_count; k++) {
                if (waiter->processes[k].pidfd == fds[i].fd && has_ended(fds[i].fd)) {
                    waiter->deaths++;
                    close(waiter->processes[k].pidfd);
                    waiter->processes[k].pidfd = -1;
                }
            }
        }
    }
}

/* The thread that sleeps for all: one poll. Called and returns with the mutex held. */
static int poll_once(struct waiter *waiter, int64_t timeout_ms, struct err *err)
{
    size_t count = 2 + waiter->engine_fd_count + waiter->process_count;
    struct pollfd *fds = calloc(count, sizeof *fds);
    if (fds == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while waiting");
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = waiter->interrupt_fd, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = waiter->nudge_fd, .events = POLLIN};
    for (size_t i = 0; i < waiter->engine_fd_count; i++)
        fds[n++] = waiter->engine_fds[i];
    for (size_t i = 0; i < waiter->process_count; i++)
        fds[n++] = (struct pollfd){.fd = waiter->processes[i].pidfd, .events = POLLIN};
    if (waiter->unseen_count > 0 && (timeout_ms < 0 || timeout_ms > UNSEEN_LOOK_MS))
        timeout_ms = UNSEEN_LOOK_MS;

    waiter->polling = true;
    pthread_mutex_unlock(&waiter->mutex);
    int timeout = timeout_ms < 0 ? -1 : timeout_ms > 3600000 ? 3600000 : (int)timeout_ms;
    int rc = poll(fds, n, timeout);
    int failed = rc < 0 && errno != EINTR ? errno : 0;
    pthread_mutex_lock(&waiter->mutex);
    waiter->polling = false;
    if (rc > 0)
        hear(waiter, fds, n);
    look_at_unseen(waiter);
    pthread_cond_broadcast(&waiter->changed);
    free(fds);
    return failed == 0 ? 0 : err_set(err, TEND_EIO, "poll failed: %s", strerror(failed));
}

void waiter_ring(struct waiter *waiter, uint64_t bells)
{
    for (int i = 0; i < DB_BELLS; i++)
        waiter->bells[i] += bells >> i & 1;
}

/* Under the mutex. */
static uint64_t count_rings(const struct waiter *waiter, uint64_t bells)
{
    uint64_t count = 0;
    for (int i = 0; i < DB_BELLS; i++)
        count += (bells >> i & 1) * waiter->bells[i];
    return count;
}

uint64_t waiter_bell(struct waiter *waiter, uint64_t bells)
{
    pthread_mutex_lock(&waiter->mutex);
    if (!waiter->polling) {
        struct pollfd fds[WAITER_ENGINE_FDS];
        memcpy(fds, waiter->engine_fds, sizeof fds);
        if (poll(fds, waiter->engine_fd_count, 0) > 0)
            hear(waiter, fds, waiter->engine_fd_count);
    }
    uint64_t rings = count_rings(waiter, bells);
    pthread_mutex_unlock(&waiter->mutex);
    return rings;
}

static void wait_for_poller(struct waiter *waiter, int64_t timeout_ms)
{
    if (timeout_ms < 0) {
        pthread_cond_wait(&waiter->changed, &waiter->mutex);
        return;
    }
    int64_t until_ns = clock_mono_ns() + timeout_ms * 1000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_cond_timedwait(&waiter->changed, &waiter->mutex, &until);
}

int waiter_wait(struct waiter *waiter, uint64_t bells, uint64_t seen, int64_t timeout_ms,
                struct err *err)
{
    int64_t until_ms = timeout_ms < 0 ? INT64_MAX : clock_mono_ms() + timeout_ms;
    int rc = 0;
    pthread_mutex_lock(&waiter->mutex);
    uint64_t interrupts = waiter->interrupts;
    for (;;) {
        if (waiter->interrupts != interrupts)
            rc = DB_INTERRUPTED;
        else if (waiter->deaths_told != waiter->deaths)
            rc = DB_DEATH;
        else if (count_rings(waiter, bells) != seen)
            rc = DB_RANG;
        if (rc == DB_DEATH)
            waiter->deaths_told = waiter->deaths;
        if (rc != 0)
            break;
        int64_t left_ms = timeout_ms < 0 ? -1 : until_ms - clock_mono_ms();
        if (timeout_ms >= 0 && left_ms <= 0)
            break;
        if (waiter->polling)
            wait_for_poller(waiter, left_ms);
        else if ((rc = poll_once(waiter, left_ms, err)) < 0)
            break;
    }
    pthread_mutex_unlock(&waiter->mutex);
    return rc;
}
