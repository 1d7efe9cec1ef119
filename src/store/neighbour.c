#include "store/neighbour.h"

#include "base/thread.h"
#include "store/byte_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

static void *wait_for_end(void *arg)
{
    struct neighbour *neighbour = arg;
    int ignored;
    int rc;
    do
        rc = byte_lock_wait(neighbour->fd, neighbour->id, F_RDLCK);
    while (rc != 0 && errno == EINTR);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    byte_lock_set(neighbour->fd, neighbour->id, F_UNLCK);
    __atomic_store_n(&neighbour->gone, true, __ATOMIC_RELAXED);
    if (rc == 0)
        neighbour->on_end(neighbour->arg);
    return NULL;
}

void neighbour_init(struct neighbour *neighbour, void (*on_end)(void *arg), void *arg)
{
    *neighbour = (struct neighbour){.fd = -1, .on_end = on_end, .arg = arg};
}

static void stop(struct neighbour *neighbour)
{
    if (neighbour->id == 0)
        return;
    pthread_cancel(neighbour->thread);
    pthread_join(neighbour->thread, NULL);
    byte_lock_set(neighbour->fd, neighbour->id,
                  F_UNLCK); /* it may have been ended with the lock in hand */
    neighbour->id = 0;
}

void neighbour_done(struct neighbour *neighbour)
{
    stop(neighbour);
    if (neighbour->fd >= 0)
        close(neighbour->fd);
    neighbour->fd = -1;
}

void neighbour_after_fork(struct neighbour *neighbour)
{
    neighbour->id = 0;
    neighbour_done(neighbour);
}

int64_t neighbour_choose(const struct db_watched *workers, const bool *seen, size_t count,
                         int64_t own_id)
{
    size_t candidates = 0;
    size_t above = 0; /* how many of them have a larger id than our own */
    size_t rank = 0;  /* how many of those with us have a smaller one */
    for (size_t i = 0; i < count; i++) {
        bool candidate = workers[i].id != 0 && !seen[i];
        candidates += candidate;
        above += candidate && workers[i].id > own_id;
        rank += workers[i].id != 0 && seen[i] && workers[i].id < own_id;
    }
    if (candidates == 0)
        return 0;
    /* The one with `wanted` candidates below it. */
    size_t wanted = (candidates - above + rank) % candidates;
    for (size_t i = 0; i < count; i++) {
        size_t below = 0;
        for (size_t k = 0; k < count; k++)
            below += workers[k].id != 0 && !seen[k] && workers[k].id < workers[i].id;
        if (workers[i].id != 0 && !seen[i] && below == wanted)
            return workers[i].id;
    }
    return 0;
}

void neighbour_watch(struct neighbour *neighbour, int workers_fd, int64_t id)
{
    if (id == neighbour->id && !__atomic_load_n(&neighbour->gone, __ATOMIC_RELAXED))
        return;
    stop(neighbour);
    if (id == 0)
        return;
    if (neighbour->fd < 0) {
        char path[48];
        snprintf(path, sizeof path, "/proc/self/fd/%d", workers_fd);
        neighbour->fd = open(path, O_RDWR | O_CLOEXEC);
        if (neighbour->fd < 0)
            return;
    }
    neighbour->id = id;
    neighbour->gone = false;
    if (thread_start(&neighbour->thread, STACK_BYTES, wait_for_end, neighbour) != 0)
        neighbour->id = 0;
}
