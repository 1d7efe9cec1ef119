/*
 * Which bell rings for what (store/db.h):
 *
 * - a job is added, moved or ends, or settings change: the bell of its queue;
 * - a named lock is released, or made to expire earlier: the bell of its name. The lock
 *   queue:NAME, under which a queue is processed, has the bell of queue NAME;
 * - a schedule is put, a worker joins: all bells, as everybody who waits acts on the next time of
 *   the clock and watches the workers.
 *
 * Limits, keys and unique keys belong to one queue, so nothing that happens in a queue gives work
 * to those who wait for another.
 *
 * The end of a lease comes with no more than the job's id. So a handle remembers the bells of the
 * jobs it has claimed; of others, the store says which queue they are in, or all bells ring.
 *
 * A completion makes no job pending. It rings only where somebody may wait for the lease's end: at
 * a limit, or for a lock. It need not where the job was claimed through this handle, from a queue
 * without limits, whose settings have not changed since. The handle sees a change when it claims
 * again, and does not ask the store for it: so a lease that is older than a second rings in any
 * case. Short jobs in large numbers stay quiet.
 */
#ifndef QUEUE_BELL_H
#define QUEUE_BELL_H

#include "queue/handle.h"
#include "store/queries.h"

uint64_t bell_of_lock(const char *name);

/* Jobs were claimed; plain: under no limit and no lock. Under the handle's mutex. */
void bell_remember(tend *t, const struct tend_jobs *jobs, bool plain);

/* DB_BELLS_ALL when one of them was not claimed through this handle, or long ago. */
uint64_t bell_of_leases(tend *t, const struct tend_lease *leases, size_t count);

/* The same for leases that are completed, without those whose end nobody waits for. */
uint64_t bell_of_ends(tend *t, const struct tend_lease *leases, size_t count);

/*
 * In a body, before it ends leases: where *bells is not known better, and the answer costs no round
 * trip, the store is asked for the queue (*ret). *bells is then 0, and bell_ring_asked rings once
 * the answer is there.
 */
int bell_ask(struct db_tx *tx, const struct tend_lease *leases, size_t count, uint64_t *bells,
             struct job_queue_rows *ret);
void bell_ring_asked(struct db_tx *tx, const struct job_queue_rows *asked);

#endif
