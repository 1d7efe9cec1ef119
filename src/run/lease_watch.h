/*
 * When a lease must be extended, how long what runs under it may go on, and how long its end is
 * told to a store that does not answer. Pure decisions from times on the monotonic clock: the
 * runner's pulse and a command under a lease (leased.h) take them alike.
 *
 *     extended          beats 1…4                   2/3                        the whole lease
 *        |───────────────|──────|──────|─────────────|──────────────────────────|
 *        beat_ms                                     safe_until_ms              held_until
 *                                                    what runs is killed        others may have it
 *
 * While nobody can write to the store, because a stopped process has the write lock or the disk is
 * full, no lease ends: whoever writes first gives that time back to all leases, before it can take
 * one (db_owed). So safe_until_ms moves on by the time that is known to be given back, and no
 * further. It never moves back but by a heartbeat. That time is known to a second. The last third
 * of the lease has room for this second where the lease is long enough; what runs under a shorter
 * one is ended as if only this process could not write.
 *
 * Invariant: safe_until_ms is not before two thirds of the lease after beat_ms.
 */
#ifndef RUN_LEASE_WATCH_H
#define RUN_LEASE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LEASE_BEATS = 4 /* heartbeats in the time of a lease */ };

struct lease_watch {
    int64_t lease_ms;      /* its length */
    int64_t beat_ms;       /* when it was last extended */
    int64_t safe_until_ms; /* what runs under it must have ended then */
};

/* The lease was extended then. */
void lease_watch_beat(struct lease_watch *watch, int64_t at_ms);

/* Nobody could write for so long until now. True: what runs may go on longer than it was told. */
bool lease_watch_blocked(struct lease_watch *watch, int64_t blocked_ms);

/* From then on the lease may be another's, as far as can be known here. */
int64_t lease_watch_held_until(const struct lease_watch *watch);

/* From one heartbeat to the next. */
int64_t lease_beat_pause_ms(int64_t lease_ms);

/* How long a call that keeps the lease waits for the store: a part of the lease, for a connection
 * can die without a word, but long enough to see that nobody can write. */
int64_t lease_patience_ms(int64_t lease_ms);

/* --- telling how it ended --- */

/*
 * Whether a failure with this code passes: the store is out of reach, busy, full or read-only for a
 * while, or memory is short. It says nothing about what was asked, and is never taken for a
 * refusal.
 */
bool lease_trouble_passes(int rc);

/* What is to be told may be finished work: it is told until the store answers. */
struct lease_telling {
    int64_t give_up_ms; /* 0: it need not end yet */
};

/* Whether a call that failed with rc is repeated. ends: its owner is to stop, or the lease is
 * over; then it is repeated for two seconds more. */
bool lease_tells_again(struct lease_telling *telling, int rc, bool ends, int64_t now_ms);

#endif
