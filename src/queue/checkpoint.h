/* Checkpoints from inside a transaction; whoever calls has the job's row locked. All DB_LATER. */
#ifndef QUEUE_CHECKPOINT_H
#define QUEUE_CHECKPOINT_H

#include "queue/attempt.h"

/* Of the attempt `last`, which has succeeded. */
int checkpoint_write(struct db_tx *tx, int64_t job_id, const struct step_last *last,
                     const struct tend_attempt_end *ended);
int checkpoint_baseline(struct db_tx *tx, int64_t job_id, const char *repo, const char *commit);

/* Those of from_step and later ones go. */
int checkpoint_drop(struct db_tx *tx, int64_t job_id, int64_t from_step);

/* Those of another job before a step, and its baseline. */
int checkpoint_copy(struct db_tx *tx, int64_t to_job, int64_t from_job, int64_t before_step);

#endif
