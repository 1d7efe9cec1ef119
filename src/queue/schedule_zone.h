/*
 * The time zone of a schedule: as this machine's tz database has it, and else as the store keeps
 * it.
 *
 * The store keeps a copy of the zone's file since the schedule was put, or fired by somebody whose
 * database had a newer one. So a worker in a container without the database fires on time, and an
 * update of the database takes effect with the next run.
 */
#ifndef QUEUE_SCHEDULE_ZONE_H
#define QUEUE_SCHEDULE_ZONE_H

#include "core/zone.h"

struct err;

struct schedule_zone {
    const struct zone *zone; /* NULL: UTC */
    const char *copy;        /* for the store to keep, in hexadecimal; NULL: UTC */
};

/* timezone: NULL is UTC. kept: the store's copy, or NULL. All lives in the arena. 0, TEND_EINVAL
 * (neither is of use; the sentence is about this machine's) or TEND_ENOMEM. */
int schedule_zone_load(const char *timezone, const char *kept, struct arena *arena,
                       struct schedule_zone *ret, struct err *err);

#endif
