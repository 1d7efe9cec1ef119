/*
 * Who has locked the row of a job. On PostgreSQL another session can be in the middle of writing
 * it: recovery leaves such a job alone, an operator waits for it. If that session is stopped or cut
 * off, nobody gets any further before the server ends it; then it should be named.
 */
#ifndef QUEUE_HOLDER_H
#define QUEUE_HOLDER_H

#include "queue/handle.h"

enum { HOLDER_BYTES = 128 };

/* The holder in words, "session 4711 of the server (tend on 10.0.0.3), for 14s"; "": there is none,
 * or it cannot be seen. */
int holder_read(struct db_tx *tx, int64_t job_id, char ret[HOLDER_BYTES]);

/* Stale jobs that recovery has left alone because they are locked, into ret. silent_ms: those too
 * that have shown no sign of life for so long; or TEND_UNSET. Inside a body that writes. */
int holder_read_skipped(struct db_tx *tx, int64_t silent_ms, struct tend_recovery *ret);

/* The same where nothing may be written: stale jobs that recovery would leave alone. */
int holder_read_held(struct db_tx *tx, struct tend_recovery *ret);

/* The leases of a worker whose rows are locked, added to ret; `all`: whatever leases it has were
 * left alone. Returns how many it has, or a negative code; 0 where nothing is ever left alone. */
int holder_read_left(struct db_tx *tx, int64_t worker_id, bool all, struct tend_recovery *ret);

/* Adds the jobs of `more` that ret does not name yet. */
void holder_add_skipped(struct tend_recovery *ret, const struct tend_recovery *more);

/* A moment, before what was locked is tried again. */
void holder_pause(void);

/* After a call about one job has failed with rc: if that was waiting for the row, says who has it.
 * Returns rc. `what` is what was to be done to the job: "cancelled". */
int holder_explain_busy(tend *t, int rc, int64_t job_id, const char *what);

#endif
