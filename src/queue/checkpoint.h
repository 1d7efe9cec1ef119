/* Checkpoints from inside a transaction; whoever calls has the job's row locked. All DB_LATER. */
#ifndef QUEUE_CHECKPOINT_H
#define QUEUE_CHECKPOINT_H

#include "queue/attempt.h"

/* Of the attempt `last`, which has succeeded. */
int checkpoint_write(struct db_tx *tx, const struct step_job *job, const struct step_last *last,
                     const struct tend_attempt_end *ended);

/*
 * Large parts of a report: of an attempt that has succeeded, of the result of a job, of what is
 * kept of a failed attempt (keep.h). ended and close may be NULL. Before the job's row is locked
 * they are sent under `staged`, a number of the caller's own that is no job's id; then they are
 * taken from there (step_job.staged), and what is left there goes at the end.
 */
bool checkpoint_stages(const struct db_tx *tx, const struct tend_attempt_end *ended,
                       const struct tend_step_close *close);
int checkpoint_stage(struct db_tx *tx, int64_t staged, const struct tend_attempt_end *ended,
                     const struct tend_step_close *close);
int checkpoint_result(struct db_tx *tx, const struct step_job *job);
int checkpoint_unstage(struct db_tx *tx, int64_t staged, unsigned how);

int checkpoint_baseline(struct db_tx *tx, int64_t job_id, const char *repo, const char *commit);

/* Those of from_step and later ones go, and an operator's edits of later ones. */
int checkpoint_drop(struct db_tx *tx, int64_t job_id, int64_t from_step);

/* Those of another job before a step, and its baseline. */
int checkpoint_copy(struct db_tx *tx, int64_t to_job, int64_t from_job, int64_t before_step);

/* --- not inside a transaction --- */

/* The patch that the query finds by job and number. `what` is the word for it: "checkpoint of
 * step". TEND_ENOTFOUND: there is none. */
int patch_read(tend *t, enum db_query query, int64_t job_id, int64_t number, const char *what,
               struct tend_patch **ret);

#endif
