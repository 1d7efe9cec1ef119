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
    int64_t locks_cleaned, entries_reclaimed, jobs_due;
    struct recovery_note *notes; /* in the arena of the call */
};

/* At most `limit` alarms: jobs due, leases and locks expired. Returns how many there were. */
int recover_alarms(struct db_tx *tx, struct recovery *recovery, int64_t limit);

/*
 * Locks that are tied to a job which does not run under them: one of this name, or all (NULL). Only
 * damage leaves such a lock, and nothing else would ever free it.
 */
int recover_untied_locks(struct db_tx *tx, struct recovery *recovery, const char *name);

/* Everything worker_id held, and its entry. Does nothing when somebody else has done so before. */
int recover_worker(struct db_tx *tx, struct recovery *recovery, int64_t worker_id, const char *why);

/* Log lines of a committed recovery. */
void recover_log(tend *t, const struct recovery *recovery);

/* Finds dead workers and recovers what they held. Their number, or a negative code. */
int recover_dead_workers(tend *t, struct recovery *total);

/* The timers of a thread that waits: dead workers, alarms, schedules, retention. Errors are logged
 * only. */
void recover_on_timer(tend *t);

#endif
