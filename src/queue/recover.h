/*
 * Recovery: the one place where a lease ends against its owner's will by itself. The clock (expired
 * leases, jobs that are due, expired locks), the kernel (dead workers) and operators (a threshold
 * by hand) all come through here. Knows nothing of kinds or phases.
 */
#ifndef QUEUE_RECOVER_H
#define QUEUE_RECOVER_H

#include "queue/handle.h"

/* What a recovery did; kept until the commit, then logged. */
struct recovery {
    const char *by;
    const char *idle_why; /* recover_worker: the sentence for one that held nothing, or NULL */
    int64_t locks_cleaned, entries_reclaimed, jobs_due, jobs_warned;
    int64_t entries_quarantined; /* of those reclaimed */
    struct recovery_note *notes; /* in the arena of the call */
    int64_t wait_ms;             /* as in db_write_within */
    bool clock_unsettled;        /* nothing was taken by its time: recover_settle_clock first */
    struct tend_recovery left;   /* jobs of dead workers that were left alone: see there */
};

/*
 * Recovery that goes along with something else (a claim, a wait) must not keep that from happening:
 * it waits for SQLite's write lock only so long, takes at most half of the time of whoever has
 * little of it (wait_ms, as in db_write_within), and pauses after a failure. A worker that cannot
 * be buried stays dead, an alarm or a schedule stays due; without the pause whoever waits would try
 * again at once, for ever.
 *
 * Rule: each kind has a pause of its own. Only a failure of the same kind begins or renews it, and
 * a success of the same kind ends it. A pause keeps nobody from trying another kind, and wakes only
 * those who will try its own kind: one row that stays locked must not stop or delay what has
 * nothing to do with it. For the same reason a schedule that falls due later than those that have
 * failed is fired in time. The log says once per kind when it begins to fail, and when it works
 * again. A claim's first look at the alarms is not held up by a pause.
 */
enum { RECOVERY_WAIT_MS = 1000, RECOVERY_RETRY_MS = 1000 };

/* How long until again_ms (of db_mono_ms, RECOVERY_RETRY_MS ahead at most); 0: it is over. */
int64_t recover_left_ms(const tend *t, int64_t again_ms);
/* How long until this kind may be tried; 0: now. */
int64_t recover_pause_ms(const tend *t, enum recovery_kind kind);
/* When it may be tried again, also if that is past (db_mono_ms); 0: the last try has not failed. */
int64_t recover_again_at(const tend *t, enum recovery_kind kind);
/* The last try of this kind has failed. */
bool recover_is_failing(const tend *t, enum recovery_kind kind);
/* What became of a try: rc, with the sentence in handle_err when it is negative. */
void recover_told(tend *t, enum recovery_kind kind, int rc);
/* Dead workers, unless that kind pauses. True: it went well or was not needed. */
bool recover_dead_quietly(tend *t, int64_t wait_ms);
/* Dead workers and alarms, each unless it pauses itself. */
void recover_stale_quietly(tend *t, int64_t wait_ms, struct tend_recovery *ret);
/* How long such a recovery waits for the store. */
int64_t recover_wait_ms(const tend *t, int64_t wait_ms);

/* At most `limit` alarms: jobs due, leases and locks expired. Returns how many there were. An
 * expired lease whose owner may not have been able to renew it is extended once instead of taken.
 * While the clock is unsettled, nothing is taken by its time.
 */
int recover_alarms(struct db_tx *tx, struct recovery *recovery, int64_t limit);

/*
 * Where the clock may be set (PostgreSQL): moves leases and locks along with it, in a transaction
 * of its own (store/pg_clock.h). 1: something was moved. To be called before anything is judged by
 * its time, and when that has found the clock unsettled. wait_ms as in db_write_within.
 */
int recover_settle_clock(tend *t, int64_t wait_ms);

/*
 * Locks that are tied to a job which does not run under them: one of this name, or all (NULL). Only
 * damage leaves such a lock, and nothing else would ever free it.
 */
int recover_untied_locks(struct db_tx *tx, struct recovery *recovery, const char *name);

/*
 * Everything worker_id held, and its entry; 1: there is more, which is for the next transaction.
 * Does nothing when somebody else has done so before. A
 * job whose row another session has locked is left alone, with its lock, and named in
 * recovery->left; then the entry stays, by which the worker is found dead again, until all of its
 * jobs are moved.
 */
int recover_worker(struct db_tx *tx, struct recovery *recovery, int64_t worker_id, const char *why);

/* Log lines of a committed recovery. */
void recover_log(tend *t, const struct recovery *recovery);

/* Finds dead workers and recovers what they held. Their number, or a negative code. */
int recover_dead_workers(tend *t, struct recovery *total);

/*
 * The timers of a thread that waits or claims in a loop: what is stale, retention. Errors are
 * logged only. Recovery has wait_ms, as in db_write_within. Retention can wait, the caller need
 * not: it has spare_ms, the time for which the caller would sleep anyway; -1: for ever.
 */
void recover_on_timer(tend *t, int64_t wait_ms, int64_t spare_ms);

#endif
