/*
 * The turnstile: the line at which the writers of all processes wait for their turn on an SQLite
 * store.
 *
 * Two bytes of the lock file, locked by open-file-description locks, which the kernel drops when
 * the process goes, however it ends. The turn is what counts; the door keeps the next one first in
 * line: take the door, then the turn, then give the door back. Both waits block in the kernel, so
 * that nobody polls and nobody is passed over.
 *
 * The kernel's wait has no time limit, and a stopped process may hold the turn. So whoever does not
 * get it at once has a thread of the turnstile's wait for it, and waits for that thread only as
 * long as it wants to.
 *
 * The lock file, in bytes of this machine's order. The notes are for sentences alone: they may be
 * wrong, and nothing that must be right depends on them.
 *
 *     0         locked: the turn
 *     1         locked: the door
 *     64..95    who has the turn, as noted by itself
 *     96..127   who has the door
 *     128..135  since when nobody could write (turnstile_take_blocked); 0: nothing noted
 *     256..     the store's clock; not the turnstile's
 */
#ifndef STORE_TURNSTILE_H
#define STORE_TURNSTILE_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum turn {
    TURN_IDLE,   /* the thread has nothing to do */
    TURN_WANTED, /* it stands in line */
    TURN_READY,  /* it is this process's turn, and nobody has taken it from the thread yet */
};

struct turnstile {
    int fd;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stop;
    enum turn turn;
    bool abandoned; /* who wanted the turn has given up waiting */
    int failure;    /* errno of the thread's wait, 0 */
};

/* fd is the lock file's; it stays the caller's. */
void turnstile_init(struct turnstile *turnstile, int fd);
void turnstile_done(struct turnstile *turnstile);

/* 0 when it is our turn; TEND_EBUSY after busy_ms, with the process that seems to have it. One
 * thread at a time. */
int turnstile_enter(struct turnstile *turnstile, int64_t busy_ms, struct err *err);
bool turnstile_try_enter(struct turnstile *turnstile);
void turnstile_leave(struct turnstile *turnstile);

/*
 * While nobody got the turn for more than a second, those who wait for it note since when. The next
 * one that has the turn asks here: for how many ms nobody could write, 0: there was no such time.
 * The note is gone then.
 */
int64_t turnstile_take_blocked(struct turnstile *turnstile);

#endif
