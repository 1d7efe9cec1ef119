/*
 * Which bell rings for what (store/db.h):
 *
 * - a job is added, moved or ends, or settings change: the bell of its queue;
 * - a named lock is released: the bell of its name. The lock queue:NAME, under which a queue is
 *   processed, has the bell of queue NAME;
 * - a schedule is put, a worker joins: all bells, as everybody who waits acts on the next time of
 *   the clock and watches the workers.
 *
 * Limits, keys and unique keys belong to one queue, so nothing that happens in a queue gives work
 * to those who wait for another.
 *
 * The end of a lease comes with no more than the job's id. So a handle remembers the bells of the
 * jobs it has claimed; of others, the store says which queue they are in, or all bells ring.
 */
#ifndef QUEUE_BELL_H
#define QUEUE_BELL_H

#include "queue/handle.h"

uint64_t bell_of_lock(const char *name);

/* Jobs were claimed. Under the handle's mutex. */
void bell_remember(tend *t, const struct tend_jobs *jobs);

/* DB_BELLS_ALL when one of them was not claimed through this handle, or long ago. */
uint64_t bell_of_leases(tend *t, const struct tend_lease *leases, size_t count);

/*
 * In a body, before it ends leases: where *bells is not known better, and the answer costs no round
 * trip, the store is asked for the queue (*ret). *bells is then 0, and bell_ring_asked rings once
 * the answer is there.
 */
int bell_ask(struct db_tx *tx, const struct tend_lease *leases, size_t count, uint64_t *bells,
             struct db_result *ret);
void bell_ring_asked(struct db_tx *tx, const struct db_result *asked);

#endif
