/*
 * What follows the end of a run.
 *
 * A job that is added under the key of a running job must not get lost, and the run must not be
 * disturbed: the newest submission is kept beside the job (table submission), and job.followed says
 * so. In the transaction in which the job leaves running, the submission is carried out: a job that
 * has finished is followed by a new one under its key and subject; one that goes back to waiting,
 * or is held, takes it over.
 *
 * Invariant: nobody ends a run past its submission. The statements that do end runs leave rows
 * alone that have followed set; whoever finds that one did not match lifts the mark
 * (submission_lift), runs it again, and calls run_ended, all in one transaction.
 */
#ifndef QUEUE_SUBMISSION_H
#define QUEUE_SUBMISSION_H

#include "queue/handle.h"

/* The newest submission under the key of a running job, whose row this transaction has locked. */
int submission_keep(struct db_tx *tx, int64_t job_id, const struct tend_job_spec *spec,
                    const char *by);

/* An event of a job that does not move; goes into its chain with the next update of event_id. */
int submission_event(struct db_tx *tx, int64_t job_id, const char *by, const char *what,
                     const char *why);

/* Before the end of a run: *ret is 1 when a submission waits for it, which is then up to run_ended.
 */
int submission_lift(struct db_tx *tx, struct tend_lease lease, int64_t *ret);

/* After the end of a run for which submission_lift has found one: it is carried out. *ret_follower:
 * the job it has become, 0: none, the job itself takes it over; may be NULL. Whoever ends the run
 * rings for the queue. */
int run_ended(struct db_tx *tx, int64_t job_id, int64_t *ret_follower);

#endif
