/* What is kept of attempts for people, and what the store knows about the folders of jobs. */
#ifndef QUEUE_KEEP_H
#define QUEUE_KEEP_H

#include "core/keep.h"
#include "queue/attempt.h"

/* --- inside a transaction, all DB_LATER --- */

/* The patch of a report, sent before the job's row is locked; see checkpoint.h. */
int keep_stage(struct db_tx *tx, int64_t staged, const struct tend_changes *changes);
int keep_unstage(struct db_tx *tx, int64_t staged);

/* What an ending keeps, with the newest attempt under the job's lease; nothing where it has none.
 */
int keep_write(struct db_tx *tx, const struct step_job *job, const struct step_last *last,
               const struct tend_step_close *close);

/* Why the workspace of an attempt in this state is kept. */
enum keep_why keep_why_of_attempt(int state);

/* --- keep_folder.c --- */

/* A number that no other store has; a store that was restored from a backup has another one. */
int keep_store_id(tend *t, int64_t *ret);

/* What the store knows about the folders of one job. */
struct keep_folder {
    int64_t job_id; /* given by the caller */
    struct keep_job job;
    struct keep_lease *leases; /* by token; those of which nothing is known are not there */
    size_t lease_count;
};

/* Fills those of all the jobs, as they are at one moment of store time; the leases live in the
 * arena. */
int keep_look(tend *t, struct arena *arena, struct keep_folder *folders, size_t count,
              int64_t *ret_now_ms);

/* Notes the workspace of the newest attempt under a lease whose worker was lost. */
int keep_note_lost(tend *t, int64_t job_id, int64_t token, const char *workspace);

/* What is known of a lease; all zero but for its token where that is nothing. */
struct keep_lease keep_lease_of(const struct keep_folder *folder, int64_t token);

#endif
