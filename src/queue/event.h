/* Events that are not a job's move: locks, workers, queues, schedules. (Moves leave theirs by
 * trigger.) */
#ifndef QUEUE_EVENT_H
#define QUEUE_EVENT_H

#include "queue/handle.h"

/*
 * The ids of a generation (generation.c) begin at a multiple of this. Every job and every event
 * takes an id: more than a store gives out between two backups. Ids stay below 2^53, which JSON
 * numbers hold.
 */
enum { GENERATION_IDS = 1000000000 };

struct event_note {
    const char *queue; /* NULL where it does not apply, as all but who and what */
    const char *who, *what;
    int64_t token; /* 0: none */
    const char *owner, *why, *data;
};

int event_add(struct db_tx *tx, const struct event_note *event, unsigned how);

#endif
