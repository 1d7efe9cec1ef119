/*
 * The turnstile: the line at which the writers of all processes wait for their turn on an SQLite
 * store.
 *
 * Two bytes of the lock file, locked by open-file-description locks, which the kernel drops when
 * the process goes, however it ends. The turn is what counts; the door keeps the next one first in
 * line: take the door, then the turn, then give the door back. Both waits block in the kernel, so
 * that nobody polls and nobody is passed over.
 *
 * The kernel's wait has no time limit, and a stopped process may hold the turn or the door. So:
 *
 *   - Whoever does not get the turn at once has a thread of the turnstile's wait for it, and waits
 *     for that thread only as long as it wants to. When its handle is told to hurry (hurry.h)
 *     meanwhile, it sees that within a second.
 *   - When the line before the door has not moved for a second, its head is stopped or hung. Then
 *     the turn is tried past the door, again and again. Fairness is lost, not exclusion. The lock
 *     file notes it, so that others go past the same one at once.
 *   - When the turn has not changed hands for a second, the log and the sentence say which process
 *     has it and what state that one is in (holder.c), and the lock file notes since when nobody
 *     could write.
 *   - A process that is stopped by Ctrl-Z is stopped outside of the turn (gate.c).
 *   - A stranger, a program that does not stand in line, may have locked the store in SQLite's own
 *     way. Whoever has the turn then waits for it (sqlite_stranger.c), and notes in the lock file
 *     that it does: those who wait for the turn say who is in the way of all, and time in which
 *     nobody could write is noted as above.
 *
 * The lock file, in bytes of this machine's order. Who has the turn and the door is noted for
 * sentences alone: these notes may be old, and nothing that must be right depends on them.
 *
 *     0         locked: the turn
 *     1         locked: the door
 *     2         locked: the store is open; not the turnstile's
 *     64..95    who has the turn, as noted by itself (struct holder_note)
 *     96..127   who has the door
 *     144..175  who had the door, as noted there, when somebody found that it does not move
 *     176..207  who had the turn, as noted there, when it found a stranger in its way
 *     208..231  since when nobody could write (struct blocked_note)
 *     256..     the store's clock; not the turnstile's
 */
#ifndef STORE_TURNSTILE_H
#define STORE_TURNSTILE_H

#include "base/err.h"
#include "store/holder.h"
#include "store/hurry.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum turn {
    TURN_IDLE,   /* the thread has nothing to do */
    TURN_WANTED, /* it waits for the door */
    TURN_NEXT,   /* it has the door and waits for the turn */
    TURN_READY,  /* it has the turn, and nobody has taken it from the thread yet */
};

/* After which time without movement somebody is taken to be stopped. */
enum { TURNSTILE_STILL_MS = 1000 };

/*
 * The time in which nobody could write. Whoever waits and sees that the turn has not changed hands
 * for a second writes it, and whoever has the turn removes it once the leases have got that time
 * back. A process that was stopped with the turn says itself when it has ended; one that was killed
 * cannot, so the time ends soon after somebody has seen it last. Whoever finds later that nobody
 * can write begins a new stretch of time; the length of the stretches before it is kept.
 */
struct blocked_note {
    int64_t since;   /* clock_boot_ms, and in the lowest bits which boot; 0: nothing noted */
    int64_t seen_ms; /* clock_boot_ms: until when, as far as anybody has seen */
    int64_t owed_ms; /* the length of the stretches before this one */
};

struct turnstile {
    int fd;
    void (*log)(void *arg, const char *line); /* NULL: nobody is told */
    void *log_arg;
    const struct hurry *hurry; /* the handle's; NULL: none */
    struct holder_note self;   /* pid 0: not looked at yet */
    bool told;                 /* the log has said that nobody can write */
    int64_t told_since_ms;     /* ... since when (clock_boot_ms) */
    int64_t entered_ms;        /* clock_boot_ms when it got the turn */
    struct blocked_note taken; /* told to the one who has the turn, and not settled yet */
    bool gave_up; /* the last one that wanted to write could not begin in time; atomic */

    /* The name of the program that has locked the store: "process 12 (sqlite3)". False: it cannot
     * be seen. NULL: nobody knows. */
    bool (*name_stranger)(void *arg, char *text, size_t size);
    void *name_arg;
    bool has_stranger; /* one was in the way when this handle last had the turn */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stop;
    enum turn turn;
    bool held;      /* a caller has the turn */
    bool abandoned; /* who wanted the turn has given up waiting, or has it without the thread */
    bool stuck;     /* the thread waits for a door at which nothing moves */
    int failure;    /* errno of the thread's wait, 0 */
};

/* fd is the lock file's; it stays the caller's. */
void turnstile_init(struct turnstile *turnstile, int fd);
void turnstile_done(struct turnstile *turnstile);

/* 0 when it is our turn; TEND_EBUSY after busy_ms, with the process that has it. One thread at a
 * time. */
int turnstile_enter(struct turnstile *turnstile, int64_t busy_ms, struct err *err);
bool turnstile_try_enter(struct turnstile *turnstile);
void turnstile_leave(struct turnstile *turnstile);

/* TEND_EBUSY with the sentence: who has the turn. For those who wait behind the one that waits. */
int turnstile_say_busy(const struct turnstile *turnstile, struct err *err);

/*
 * For the one who has the turn and finds that a stranger has locked the store. meet: notes it for
 * those who wait. wait: nobody can write because of it since since_ms (clock_boot_ms); to be called
 * every TURNSTILE_STILL_MS. give_up: TEND_EBUSY with the sentence.
 */
void turnstile_meet_stranger(struct turnstile *turnstile);
void turnstile_wait_for_stranger(struct turnstile *turnstile, int64_t since_ms);
int turnstile_give_up_on_stranger(struct turnstile *turnstile, struct err *err);

/* For the one who has the turn: its transaction has begun, so the store can be written. Only now
 * the log is told so, as a stranger may have been in the way; if one was, the turn begins now. */
void turnstile_begun(struct turnstile *turnstile);

/* Nobody has got the turn since somebody on this handle gave up waiting for it, or for a stranger.
 * Any thread. */
bool turnstile_gave_up(const struct turnstile *turnstile);

/*
 * Who keeps the writers waiting: has the turn, is stopped with the door, or is a stranger, also
 * when nobody waits for it. Waits up to wait_ms for that to pass. True: ret says who. Takes
 * nothing.
 */
bool turnstile_look(struct turnstile *turnstile, int64_t wait_ms, struct holder *ret);

/*
 * For how many ms nobody could write, as noted by those who wait for the turn and not given back
 * yet; 0: there was no such time. Any thread. Whoever gives it back says at least this much.
 */
int64_t turnstile_blocked_ms(const struct turnstile *turnstile);

/* The same for the one who has the turn, who calls turnstile_settle_blocked when it is saved that
 * the time was given back. If it dies before, the next one is told the same. */
int64_t turnstile_take_blocked(struct turnstile *turnstile);
void turnstile_settle_blocked(struct turnstile *turnstile);

#endif
