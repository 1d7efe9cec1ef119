/*
 * How many events of each name there ever were: counters that outlive the events.
 *
 * Nothing is counted while jobs move, which would make all workers write one row. Events up to
 * store.counted_to are in event_total; the later ones are counted when somebody asks, and are added
 * to event_total from time to time, some at a time. An event is deleted only when it is counted.
 *
 * On PostgreSQL transactions do not end in the order of their ids. So only events that nothing can
 * come before any more are added (events_within in the schema).
 */
#ifndef QUEUE_EVENT_TOTALS_H
#define QUEUE_EVENT_TOTALS_H

#include "queue/handle.h"

/*
 * Adds all events that can be added, until the time has come (monotonic). 0 or a negative code.
 * wait_ms as in db_write_within.
 */
int event_totals_count(tend *t, int64_t until_ms, int64_t wait_ms);

/* The same when it is time to, if many wait for it. Errors are logged only; what cannot be done
 * within wait_ms is left for the next time. */
void event_totals_on_timer(tend *t, int64_t wait_ms);

#endif
