/*
 * Claims from queues where more than priority and due time decides: paused, serial, or with limits
 * on concurrency, on concurrency per key, or on rate. Runs under the queue's row lock, so that
 * limits hold over all workers of all machines.
 */
#ifndef QUEUE_LIMITS_H
#define QUEUE_LIMITS_H

#include "queue/handle.h"
#include "store/queries.h"

/* Where a claim that passes over jobs has looked. Its body may be run again, from the same place.
 */
struct claim_look {
    struct passed before;        /* as remembered */
    struct claim_position begin; /* CLAIM_START, or where the transaction before has come to */
    bool passed_kind_before;     /* what the transactions before have passed over */
    bool passed_key_before;
    bool is_read;              /* what was behind the front was looked at without the write lock */
    bool used;                 /* it has looked, and what follows is set */
    bool to_read;              /* ... as should be done first: nothing is remembered yet */
    bool found;                /* nothing was to be claimed, but something could be */
    struct passed after;       /* what is to be remembered once it has committed */
    struct claim_position end; /* where it has come to */
    bool more;                 /* there is more behind that */
    bool passed_kind;          /* jobs of kinds that are not wanted were passed over ... */
    bool passed_key;           /* ... or jobs whose key is at its limit */
};

/* What a claim asks for, with everything looked up. */
struct claim_want {
    const char *queue, *owner;
    int64_t worker_id; /* TEND_UNSET: held by time alone */
    int64_t count;
    int64_t ttl_ms; /* TEND_UNSET: as the job or queue says */
    bool started;
    bool with_lock;               /* under the processing lock, serial queue or not */
    const char *const *not_kinds; /* to be passed over */
    size_t not_kind_count;
    int64_t job_id; /* > 0: only this one */
    bool
        unrecovered; /* nothing was recovered before: no lock may be over by a clock that was set */
    struct claim_look *look;
};

/* One plain claim; what was leased is in ret: whole jobs, as of job_claim_one. */
int limits_claim_plain(struct db_tx *tx, const struct claim_want *want,
                       const struct queue_settings *settings, int64_t count, unsigned how,
                       struct job_claim_one_rows *ret);

/*
 * Whether limits_claim would find something, or may, at this moment. Reads only, and needs no more
 * than a reading transaction. If not, none says until when.
 */
int limits_peek(struct db_tx *tx, const struct claim_want *want, bool *ret, struct tend_none *none);

/* As above within the limits. When ret has no rows, none says why. */
int limits_claim(struct db_tx *tx, const struct claim_want *want,
                 const struct queue_settings *settings, struct job_claim_one_rows *ret,
                 struct tend_none *none);

#endif
