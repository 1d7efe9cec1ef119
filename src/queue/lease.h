/* What the calls of a lease's owner have in common: who lost what, and answers to repeated calls.
 */
#ifndef QUEUE_LEASE_H
#define QUEUE_LEASE_H

#include "queue/handle.h"

/* What the owner of a lease asked for: decides which repeated call is answered as the first was. */
enum lease_asked {
    LEASE_CHANGE,   /* needs the lease, whatever was before */
    LEASE_LOOK,     /* needs the lease; when it is held, the same was done before */
    LEASE_COMPLETE, /* the three that end it */
    LEASE_FAIL,
    LEASE_RELEASE,
};

struct lease_answers {
    const struct tend_lease *leases;
    size_t count;
    const int64_t *changed; /* by the query; 0: it did not match */
    enum lease_asked asked;
    const char *const *results;         /* of LEASE_COMPLETE, or NULL */
    const struct tend_failure *failure; /* of LEASE_FAIL */
    int64_t delay_ms;                   /* of LEASE_RELEASE */
    const char *why;                    /* ... or NULL */
};

/*
 * Turns what a query changed into ret_each[i] (may be NULL). A lease that did not match is looked
 * at once more. When its owner itself has ended it by the same call, whose answer got lost, the
 * answer is 0. When it has ended it by another call, or somebody else has, the answer is
 * TEND_ELEASELOST; when it has asked for something else by the same call (another result; another
 * error, delay or end of a failure; another delay or reason of a release), TEND_ECONFLICT. Returns
 * 0, or the code of the first that is not 0, with a sentence about what stands, or another negative
 * code.
 */
int lease_verdicts(tend *t, const struct lease_answers *answers, int *ret_each);

/* Instead of a verdict, when the call fails with rc: ret_each (may be NULL) is 0 for what was
 * changed, else rc. Answers with rc. changed may be NULL: nothing was. */
int lease_unknown(const int64_t *changed, size_t count, int rc, int *ret_each);
/* The same when there is no memory for so many leases. */
int lease_no_memory(tend *t, size_t count, int *ret_each);

/* The same for one lease, for calls that do not end it. */
int lease_verdict(tend *t, const struct tend_lease *lease, const int64_t *changed,
                  enum lease_asked asked);

/*
 * tend_heartbeat for one that waits for the store no longer than wait_ms (db_write_within), and for
 * no row that another session has locked: of that lease ret_each says TEND_EBUSY at once. If the
 * call as a whole fails, ret_each says so of all.
 */
int lease_heartbeat(tend *t, int64_t wait_ms, const struct tend_lease *leases, size_t count,
                    int64_t ttl_ms, int *ret_each);

/* tend_check in the same way. */
int lease_check(tend *t, int64_t wait_ms, const struct tend_lease *leases, size_t count,
                int *ret_each);

/* For how long, until now, nobody could write, so that no lease can be lost by this time: see
 * db_owed. 0: that is not certain. */
int64_t lease_blocked_ms(tend *t);

/* Completes inside a transaction; changed has count entries. */
struct completion {
    const struct tend_lease *leases;
    size_t count;
    const char *const *results;
    int64_t *changed;
    uint64_t bells; /* bell_of_ends; 0: nobody waits for their end */
    bool followed;  /* one lease, for whose end a submission may wait (submission.h) */
    bool committed; /* set by who runs it along with something else */
};
int lease_complete(struct db_tx *tx, const struct completion *completion, unsigned how);

/* After the commit: lease_verdicts for a completion. */
int lease_complete_verdicts(tend *t, struct completion *completion, int *ret_each);
int lease_check_results(tend *t, const char *const *results, size_t count);

#endif
