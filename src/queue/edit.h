/* An operator's edits from inside a transaction; whoever calls has the job's row locked, but for
 * staging. All DB_LATER. */
#ifndef QUEUE_EDIT_H
#define QUEUE_EDIT_H

#include "queue/attempt.h"

/* 0, or TEND_EINVAL with a sentence. */
int edit_check(tend *t, const struct tend_changes *edits);

/* Large edits are sent before the job's row is locked, under a number that is no job's id; see
 * checkpoint.h. 0: they are small and come with edit_put. */
int edit_stage(struct db_tx *tx, int64_t staged, const struct tend_changes *edits, const char *who);
bool edit_stages(const struct db_tx *tx, const struct tend_changes *edits);

/* Replaces the edits of a job; those of a step that has come so far. staged 0: they were not sent
 * before. An empty patch leaves none. */
int edit_put(struct db_tx *tx, int64_t job_id, int64_t step_index, int64_t staged,
             const struct tend_changes *edits, const char *who);

/* They are part of a checkpoint now. */
int edit_done(struct db_tx *tx, int64_t job_id);

/* The job goes back to a step: edits of later steps go. */
int edit_drop(struct db_tx *tx, int64_t job_id, int64_t from_step);

#endif
