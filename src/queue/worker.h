/*
 * The registry of workers: processes whose end can be seen, so that what they hold is recovered at
 * once and not when its time is over. A worker holds a liveness lock in the store; one that was
 * named by pid only (while_pid) is known by that process alone.
 */
#ifndef QUEUE_WORKER_H
#define QUEUE_WORKER_H

#include "queue/handle.h"

/*
 * Gives back, free of charge, the jobs that are leased to this handle's worker under leases other
 * than these: after a claim whose answer was lost. Nobody may claim meanwhile. Returns how many.
 */
int worker_release_unknown(tend *t, const struct tend_lease *known, size_t count);

/* The id of this handle's worker, registered at the first call. wait_ms as in db_write_within. */
int worker_self(tend *t, int64_t wait_ms, int64_t *ret_id);

/* The id of a worker that lives as long as process pid. TEND_EINVAL when there is none. */
int worker_of_pid(tend *t, int64_t pid, const char *name, int64_t wait_ms,
                  struct proc_id *ret_process, int64_t *ret_id);

/*
 * 0, or TEND_ESTATE when the process that a call is made for has ended; pid 0: there is none, 0.
 * what is for the sentence: "claimed". Asked before and after something is taken for it: whoever
 * buries its worker in between does so after its end, so that one of the two sees it.
 */
int worker_check_process(tend *t, const struct proc_id *process, const char *what);

/* On closing: what this handle's worker still holds is released free of charge, and its entry
 * removed. */
void worker_leave(tend *t);

/* The processes of this machine behind registered workers become the ones db_wait watches. */
int worker_watch_all(tend *t, int64_t wait_ms);

/*
 * What recovery would find beyond what has expired: held by dead workers, and less what living ones
 * would be given more time for. Of the first, what it would have to leave alone.
 */
int worker_count_stale(tend *t, struct tend_recovery *ret);

#endif
