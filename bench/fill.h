/*
 * Fills a store with very many jobs, far faster than they could be added, worked on or left to
 * expire: rows and their events are made by SQL, as tend itself would have left them.
 */
#ifndef BENCH_FILL_H
#define BENCH_FILL_H

#include "bench/place.h"

/* Jobs that are pending, finished or scheduled are of the queue all measurements use; those whose
 * lease has expired are of another. FILL_KEYED: pending with one key, of which one job is running,
 * as many as the queue lets run with it. Makes the store; it must not be there. */
int fill_store(const struct place *place, enum fill fill, size_t count);

#endif
