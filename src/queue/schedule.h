/* Schedules: jobs added by the clock, each run once whoever notices that it is time. */
#ifndef QUEUE_SCHEDULE_H
#define QUEUE_SCHEDULE_H

#include "queue/handle.h"
#include "store/queries.h"

/* What one transaction may add. Whoever has room for nothing still adds one run. */
struct schedule_room {
    int64_t runs;
    int64_t bytes; /* of payload */
    bool lacked;   /* the bytes were too few for all runs that are due */
};
#define SCHEDULE_ROOM ((struct schedule_room){.runs = 1000, .bytes = 4 << 20})

/*
 * Adds jobs of schedules that are due, as many as one transaction has room for, and returns how
 * many schedules that were. To be called until it returns 0, each time in a transaction of its own:
 * jobs are locked by id (store/pg_order.c), so one schedule that replaces its runs is the last, as
 * the next may replace lower ones. It also returns 0 when the bytes were too few: the caller sees
 * to its own work before it calls again. A schedule that fails is passed over. A negative code:
 * none was fired, and one failed.
 */
int schedule_fire_due(struct db_tx *tx);

/* The same for one, which is due at now_ms. Takes what it adds off the room. */
int schedule_fire(struct db_tx *tx, const struct firing_columns *schedule, int64_t now_ms,
                  struct schedule_room *room);

#endif
