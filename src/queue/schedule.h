/* Schedules: jobs added by the clock, each run once whoever notices that it is time. */
#ifndef QUEUE_SCHEDULE_H
#define QUEUE_SCHEDULE_H

#include "queue/handle.h"

/* The order of {firing} in sql/schedule.sql. */
enum firing_column {
    FIRING_NAME,
    FIRING_CRON,
    FIRING_QUEUE,
    FIRING_KIND,
    FIRING_PAYLOAD,
    FIRING_PRIORITY,
    FIRING_CATCH_UP,
    FIRING_NEXT_AT,
    FIRING_VERSION,
    FIRING_TIMEZONE,
    FIRING_ZONE,
    FIRING_OVERLAP,
    FIRING_PAUSED,
    FIRING_LAST_AT
};

/*
 * Adds the jobs of schedules that are due, up to the first that replaces its runs, and returns how
 * many that were, or a negative code. To be called until none is left, each time in a transaction
 * of its own: jobs are locked by id (store/pg_order.c), and the next may replace lower ones.
 */
int schedule_fire_due(struct db_tx *tx);

/* The same for the one of a row, which is due; of a catch-up over many runs, some at a time. */
int schedule_fire(struct db_tx *tx, const struct db_result *rows, size_t row);

#endif
