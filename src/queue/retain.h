/*
 * Retention: what is finished is kept as long as its queue says, events as long as retain.c does.
 * Deleting happens in every process that waits, in every runner however busy it is, and on demand
 * (tend_purge); in small transactions, between which others can write.
 */
#ifndef QUEUE_RETAIN_H
#define QUEUE_RETAIN_H

#include "queue/handle.h"

/*
 * Deletes some of what is over when it is time to. Errors are logged only. It is housekeeping, for
 * which nobody is kept waiting: what cannot be done within wait_ms (as in db_write_within) is tried
 * again some seconds later, and nobody is told.
 */
void retain_on_timer(tend *t, int64_t wait_ms);

#endif
