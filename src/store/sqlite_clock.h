/*
 * Store time on SQLite (rules: core/pace.h), and leases that outlive time nobody has lived through.
 *
 * What all processes must know of it is a page in the lock file, written after a commit by whoever
 * has the turn: store time as last given out, and what the clocks that run evenly said then. It
 * counts for this boot and this time namespace only; otherwise store time goes on from the newest
 * event or the wall clock, and the next commit makes a new page.
 *
 * Before the bodies of a group run, the page tells how much time has passed since the last commit
 * that nobody has lived through (the wall clock was set forward, the machine slept), or in which
 * nobody could write (a stopped process had the turn, another program had locked the file, the disk
 * was full). By so much all running
 * leases and held locks are moved, in the transaction of the group: such time counts against no
 * lease. Due times and schedules are times of the wall clock and stay.
 *
 * store.clock_steps counts these moves. The page has the number too: if they differ, a process has
 * moved the leases and died before it could write the page, which is then too old to tell anything.
 *
 * Until somebody commits, readers still find the old ends of the leases. They compare them with a
 * time that lacks what the next commit will give back (sqlite_clock_owed). It is also what tells
 * the owner of a lease that it cannot lose it while nobody can write. What is owed is forgotten by
 * nobody: the turnstile's note is removed after the page or the commit has taken it over, and a
 * note is given back also where no page of this boot, or one that is too old, is found.
 *
 * With a test's clock and no uptime, store time is that clock, never backwards, and no page is
 * read or written.
 */
#ifndef STORE_SQLITE_CLOCK_H
#define STORE_SQLITE_CLOCK_H

#include "base/clock.h"
#include "core/pace.h"
#include "store/db_engine.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct sqlite_db;
struct sqlite_tx;

/* As it is in the file. */
struct clock_page {
    uint64_t magic;   /* and the layout's version */
    char boot_id[40]; /* to whose clocks the mark belongs, as the next */
    uint64_t time_namespace;
    struct pace_mark mark;    /* of the last commit */
    int64_t failing_since_us; /* monotonic: nothing could be saved from then on; 0: it can */
    int64_t blocked_us;       /* in which nobody could write, with no lease moved for it yet */
    int64_t clock_steps;
    uint64_t checksum; /* of all before it: readers do not wait for writers */
};

/* What became of a transaction. */
enum clock_outcome {
    CLOCK_UNDONE,     /* for a reason of its own */
    CLOCK_UNWRITABLE, /* the store cannot be written */
    CLOCK_UNCHANGED,  /* committed, and had nothing to write */
    CLOCK_WRITTEN,
};

struct sqlite_clock {
    const struct db_options *options;
    int fd;
    bool has_page;           /* false: a test's clock alone */
    struct clock_page blank; /* magic, boot, namespace */

    pthread_mutex_t mutex;  /* guards the next */
    struct pace_mark given; /* the newest store time this handle has given out */

    /* Of the transaction that is running; whoever has the turn touches it. */
    bool begun, known; /* known: the page was of use */
    struct clock_look look;
    struct clock_page page, next; /* as found; as it will be */
    int64_t blocked_us;           /* told by the turnstile in this turn */
};

/* options must outlive the clock. */
void sqlite_clock_init(struct sqlite_clock *clock, const struct db_options *options);
void sqlite_clock_done(struct sqlite_clock *clock);

/* From now on with the page in the lock file; fd stays the caller's. */
void sqlite_clock_open(struct sqlite_clock *clock, int fd);

/* Store time for a reader, not before the newest event it can see. */
int64_t sqlite_clock_read(struct sqlite_clock *clock, int64_t newest_ms);

/* db_owed; ret is all 0 before. */
int sqlite_clock_owed(struct sqlite_db *db, struct sqlite_tx *tx, struct db_owed *ret);

/*
 * In a write transaction, before anything else in it: store time. Moves leases and locks where time
 * has passed that counts against none. 0 or a negative code.
 */
int sqlite_clock_begin(struct sqlite_db *db, struct db_tx *tx, int64_t newest_ms,
                       int64_t *ret_now_ms);

/* After it, while the turn is held; also when it could not begin. */
void sqlite_clock_end(struct sqlite_db *db, enum clock_outcome outcome);

/* By how much a store time is ahead of this machine's wall clock. */
int64_t sqlite_clock_ahead_ms(const struct sqlite_clock *clock, int64_t now_ms);

#endif
