/* Schedules: jobs added by the clock, each run once whoever notices that it is time. */
#ifndef QUEUE_SCHEDULE_H
#define QUEUE_SCHEDULE_H

#include "queue/handle.h"

/* Adds the jobs of all schedules that are due. */
int schedule_fire_due(struct db_tx *tx);

#endif
