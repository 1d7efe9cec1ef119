/*
 * Waiting for news, shared by the engines: any number of threads sleep on one handle, one of them
 * in poll(2) for all. The engine adds a descriptor of its own (the bell) and says what it means
 * when it is readable.
 *
 * Invariant: descriptors are read only by the polling thread, or under the mutex while nobody
 * polls; what they said is kept in counters, so that no thread can take news away from another.
 */
#ifndef STORE_WAITER_H
#define STORE_WAITER_H

#include "base/proc.h"
#include "store/db.h"

#include <poll.h>
#include <pthread.h>

enum { WAITER_ENGINE_FDS = 4 };

struct waiter_process {
    struct proc_id id; /* pid 0: not one of ours to look at */
    int pidfd;         /* -1: reported, or there is none */
    bool unseen;       /* there is none: looked at from time to time */
};

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool polling;             /* a thread is in poll */
    uint64_t bells[DB_BELLS]; /* how often each rang */
    uint64_t deaths;          /* how often a watched process ended */
    uint64_t deaths_told; /* how many of them a waiting thread was told of; one thread is enough */
    uint64_t interrupts;  /* how often db_interrupt was seen */
    int interrupt_fd;     /* eventfd written by db_interrupt */
    int nudge_fd;         /* eventfd: the set of descriptors has changed */
    struct waiter_process *processes; /* the watched ones */
    size_t process_count;
    size_t unseen_count;                         /* how many of them no descriptor tells of */
    int64_t look_ms;                             /* monotonic: when those are looked at next */
    struct pollfd engine_fds[WAITER_ENGINE_FDS]; /* the engine's own */
    size_t engine_fd_count;
    /* Called under the mutex when an engine fd is readable; adds to bells or deaths. */
    void (*on_readable)(struct waiter *waiter, size_t engine_fd, void *arg);
    void *arg;
};

int waiter_init(struct waiter *waiter, void (*on_readable)(struct waiter *, size_t, void *),
                void *arg, struct err *err);
void waiter_done(struct waiter *waiter);
void waiter_after_fork(struct waiter *waiter); /* in the child: closes descriptors, no more */

/* Sets the engine's descriptor number `index`; -1: none. */
void waiter_set_fd(struct waiter *waiter, size_t index, int fd);

/* How often these bells rang, all in all. */
uint64_t waiter_bell(struct waiter *waiter, uint64_t bells);
int waiter_wait(struct waiter *waiter, uint64_t bells, uint64_t seen, int64_t timeout_ms,
                struct err *err);
/* They rang. Under the mutex; who sleeps is not woken by this. */
void waiter_ring(struct waiter *waiter, uint64_t bells);
void waiter_interrupt(struct waiter *waiter); /* async-signal-safe */
/*
 * The processes whose end is news. Only one that is known to have ended is told of: of a process
 * that no descriptor can be had of (no pidfd_open in this kernel or sandbox, too many descriptors)
 * the end is looked for every second. ret_seen (or NULL): which of them a descriptor tells of.
 */
int waiter_watch(struct waiter *waiter, const struct db_watched *workers, size_t count,
                 bool *ret_seen, struct err *err);
/* News of the same kind from elsewhere: somebody has ended. */
void waiter_death(struct waiter *waiter);

#endif
