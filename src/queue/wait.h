/* Waiting: how long a thread may sleep, what wakes it, and what it sees to when it wakes by itself.
 */
#ifndef QUEUE_WAIT_H
#define QUEUE_WAIT_H

#include "queue/limits.h"

/* The slow tick behind the bell: nothing should depend on it. */
enum { WAIT_TICK_MS = 5000 };

/* How long the caller is willing to wait, on the monotonic clock. */
struct wait_clock {
    int64_t deadline_ms;    /* INT64_MAX: for ever */
    struct proc_id process; /* ... and only while it lives; pid 0: none */
    bool waits;             /* more than not at all */
    bool told;              /* the log has said that the store fails meanwhile */
};
struct wait_clock wait_clock_start(int64_t wait_ms);
/* For db_write_within: who waits for a job or a lock waits no longer for the store either, but at
 * least a second; who does not wait at all lets the options say. Every call to the store that is
 * made on the way gets it, recovery (recover.h) too. */
int64_t wait_clock_patience(const struct wait_clock *clock);
bool wait_clock_over(const struct wait_clock *clock);
/* How long to sleep of timeout_ms: not beyond the deadline, nor long without a look at the process.
 */
int64_t wait_clock_limit(const struct wait_clock *clock, int64_t timeout_ms);

/*
 * A call could not be made. If that may pass by itself (the disk is full, or fails), whoever waits
 * waits for it too: sleeps until it is time to try again, and says once that it does. 0: try again;
 * otherwise the answer: what failed, or TEND_EINTERRUPTED. what: "claiming from queue".
 */
int wait_out(tend *t, struct wait_clock *clock, int failed, const char *what, const char *name);

/* When the clock will act next in this store. */
struct wait_hint {
    int64_t next_alarm_ms, next_schedule_ms, now_ms; /* store time; TEND_UNSET: none */
    bool alarms_failed;                              /* just now: not to be tried again at once */
    bool nothing_moved; /* ... nor alarms that were due just now, none of which could be moved */
    int64_t unfired_ms; /* ... nor schedules that were due by then; TEND_UNSET: none */
};

/* What is due up to these times is not asked for; TEND_UNSET: all is. */
struct wait_after {
    int64_t alarm_ms, schedule_ms;
};
extern const struct wait_after wait_after_none;

int wait_hint_read(struct db_tx *tx, const struct wait_after *after, struct wait_hint *ret);

/* What db_wait reports is brought up to date, as worker_watch_all. Not while their recovery pauses:
 * then nobody is watched, and the number of ms comes back after which it is to be called again. */
int wait_watch(tend *t, const struct wait_clock *clock);

/*
 * Sleeps until a claim may get something: the bell rang and there is a job that it could have, an
 * alarm is due, a worker died, none->until_ms has come, or the clock is over. 0 or a negative code
 * (TEND_EINTERRUPTED, TEND_ESTATE: the clock's process has ended).
 */
int wait_for_queue(tend *t, const struct claim_want *want, uint64_t seen,
                   const struct wait_clock *clock, const struct wait_hint *hint,
                   const struct tend_none *none);

/* tend_wait for news of some bells only. last is under the handle's mutex. */
int wait_for_bells(tend *t, uint64_t bells, struct wait_seen *last, int64_t timeout_ms);

#endif
