/* Retention: what is finished is kept as long as its queue says, events as long as anything. */
#ifndef QUEUE_RETAIN_H
#define QUEUE_RETAIN_H

#include "queue/handle.h"

/* Events older than this go with the jobs; those of jobs that are kept longer go too. */
#define EVENTS_KEPT_MS (30LL * 24 * 3600 * 1000)

#endif
