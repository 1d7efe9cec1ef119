/* Failing a job from inside a transaction: for tend_fail, and along with the end of its last step.
 */
#ifndef QUEUE_FINISH_H
#define QUEUE_FINISH_H

#include "queue/move.h"

struct fail_call {
    struct tend_lease lease;
    const struct tend_failure *failure; /* checked */
    double random;                      /* for the jitter of the backoff */
    bool exhausted;   /* its step has used up all attempts: hooks hear of it (queue/hook.h) */
    int64_t changed;  /* 0: the lease is not held, or a submission waits; nothing was written */
    bool held;        /* it was when it was looked at */
    int64_t delay_ms; /* until it is tried again; TEND_UNSET: failed for good */
};

int finish_fail(struct db_tx *tx, struct fail_call *call, unsigned how);

/* 0, or TEND_EINVAL with a sentence. */
int finish_check_failure(tend *t, const struct tend_failure *failure);

/* After the commit: when the job is tried again, or TEND_UNSET when it has failed for good. */
int finish_due(tend *t, const struct fail_call *call, int64_t *ret_due_ms);

/* A release of one lease from inside a transaction. */
struct move finish_release_move(struct db_tx *tx, struct tend_lease lease, int64_t delay_ms,
                                const char *why, uint64_t bells);

#endif
