/*
 * What becomes of a control that nobody has answered. It belongs to the run it was given to: it
 * outlives a lease, but not the job.
 *
 *                            the lease ends and the   the job is held   the job ends: done,
 *                            job goes on: released,   or resumed        failed or cancelled
 *                            tried again, recovered
 *     pause, takeover        told to who is next      closed            closed
 *     resume                 told to who is next      closed            closed
 *     retry_step,
 *     hard_reset_step,
 *     resume_from_step       told to who is next      told to who is    closed
 *                                                     next
 *     cancel                 is never open: the job is cancelled at once
 *
 * Being held is what a pause asks for, and whoever resumes a job wants no pause from before. A job
 * that ends closes all that is open without a word: sql/control.sql shows it so, and it is written
 * down when the job is brought back, or by the next purge.
 */
#include "queue/control.h"

static struct control_close_params fill(int64_t job_id, struct db_value at, const char *outcome,
                                        enum control_which which)
{
    return (struct control_close_params){.job_id = db_int(job_id),
                                         .now = at,
                                         .outcome = db_text(outcome),
                                         .pauses = db_int(which == CONTROL_PAUSES)};
}

int control_close(struct db_tx *tx, int64_t job_id, enum control_which which, const char *outcome)
{
    const struct control_close_params params = fill(job_id, db_now(tx), outcome, which);
    return each_control_close(tx, DB_LATER, &params, 1, NULL);
}

int control_follow(struct db_tx *tx, enum tend_action action, const struct tend_jobs *jobs,
                   const int64_t *moved)
{
    size_t count = 0;
    if (action == TEND_CANCEL)
        return 0; /* the job has ended */
    struct control_close_params *params =
        arena_alloc(db_arena(tx), (jobs->count + 1) * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while changing jobs");
    for (size_t i = 0; i < jobs->count; i++) {
        const struct tend_job *job = &jobs->items[i];
        if (moved[i] == 0)
            continue;
        params[count++] =
            action == TEND_REDRIVE
                ? fill(job->id, db_int(job->finished_at_ms), CONTROL_ENDED, CONTROL_ALL)
                : fill(job->id, db_now(tx),
                       action == TEND_HOLD ? CONTROL_HELD : "the job was resumed", CONTROL_PAUSES);
    }
    return each_control_close(tx, DB_LATER, params, count, NULL);
}
