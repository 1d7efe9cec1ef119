/* What the calls of a lease's owner have in common: who lost what, and answers to repeated calls.
 */
#ifndef QUEUE_LEASE_H
#define QUEUE_LEASE_H

#include "queue/handle.h"

/* A mask of states in which the job may be found when the same call has gone through before. */
#define LEASE_ENDED_IN(state) (1u << (state))

/*
 * Turns what a query changed (changed[i] != 0) into ret_each[i]: 0 or TEND_ELEASELOST. A lease that
 * did not match is looked at once more: when its token is still the job's and the job is in one of
 * `replayed`, the owner itself has ended it, by the same call whose answer got lost, and is
 * answered 0. Returns 0, or TEND_ELEASELOST with a sentence about the first that is lost, or
 * another negative code.
 */
int lease_verdicts(tend *t, const struct tend_lease *leases, size_t count, const int64_t *changed,
                   unsigned replayed, int *ret_each);

/*
 * Whether leases ended through this handle may be under a limit or lock: then others may wait for
 * their end. Not so for a handle all of whose claims were plain.
 */
bool lease_end_matters(tend *t);

/* Completes inside a transaction; changed has count entries. */
struct completion {
    const struct tend_lease *leases;
    size_t count;
    const char *const *results;
    int64_t *changed;
    bool matters;   /* lease_end_matters */
    bool committed; /* set by who runs it along with something else */
};
int lease_complete(struct db_tx *tx, const struct completion *completion, unsigned how);

/* After the commit: lease_verdicts for a completion. */
int lease_complete_verdicts(tend *t, struct completion *completion, int *ret_each);
int lease_check_results(tend *t, const char *const *results, size_t count);

#endif
