#include "queue/submission.h"

#include "queue/add.h"

int submission_event(struct db_tx *tx, int64_t job_id, const char *by, const char *what,
                     const char *why)
{
    const struct event_of_submission_params params = {.id = db_int(job_id),
                                                      .now = db_now(tx),
                                                      .who = db_text(by),
                                                      .what = db_text(what),
                                                      .why = db_text(why)};
    return each_event_of_submission(tx, 0, &params, 1, NULL);
}

/* submission_put has the same parameters as job_refresh. */
_Static_assert(sizeof(struct submission_put_params) == sizeof(struct job_refresh_params),
               "the same parameters");

int submission_keep(struct db_tx *tx, int64_t job_id, const struct tend_job_spec *spec,
                    const char *by)
{
    const struct job_refresh_params params = add_again_params(tx, job_id, spec, by);
    const struct job_follow_params job = {.id = db_int(job_id)};
    int rc = db_each(tx, Q_SUBMISSION_PUT, 0, DB_VALUES(&params), 1, NULL);
    if (rc < 0 || (rc = submission_event(tx, job_id, by, "job.submitted",
                                         "runs once more when this run has ended")) < 0)
        return rc;
    return each_job_follow(tx, 0, &job, 1, NULL);
}

int submission_lift(struct db_tx *tx, struct tend_lease lease, int64_t *ret)
{
    const struct job_unfollow_params params = {.id = db_int(lease.id),
                                               .token = db_int(lease.token)};
    return each_job_unfollow(tx, 0, &params, 1, ret);
}

/* The job goes on and takes it over. */
static int refresh(struct db_tx *tx, int64_t job_id, const struct submission_get_row *row)
{
    struct tend_job_spec spec;
    tend_job_spec_init(&spec);
    spec.kind = db_str(row->kind);
    spec.priority = (int)db_num(row->priority);
    spec.due_at_ms = db_num(row->due_at);
    spec.payload = db_str(row->payload);
    spec.payload_bytes = row->payload.bytes;
    spec.concurrency_key = db_str(row->concurrency_key);
    spec.tags = db_str(row->tags);
    spec.workspace = db_str(row->workspace);
    spec.max_attempts = db_num(row->max_attempts);
    spec.max_crashes = db_num(row->max_crashes);
    spec.backoff_ms = db_num(row->backoff_ms);
    spec.backoff_max_ms = db_num(row->backoff_max_ms);
    spec.lease_ms = db_num(row->lease_ms);
    spec.hook = db_str(row->hook);
    return add_refresh(tx, job_id, (enum job_state)db_num(row->state), &row->old_payload, &spec,
                       db_str(row->who));
}

static int add_follower(struct db_tx *tx, int64_t job_id, int64_t *ret)
{
    struct job_add_submitted_rows added;
    const struct job_add_submitted_params params = {.job_id = db_int(job_id), .now = db_now(tx)};
    int rc = run_job_add_submitted(tx, 0, params, &added);
    if (rc >= 0 && ret != NULL && added.count > 0)
        *ret = db_num(added.at[0].id);
    return rc;
}

int run_ended(struct db_tx *tx, int64_t job_id, int64_t *ret_follower)
{
    struct submission_get_rows found;
    const struct submission_drop_params kept = {.job_id = db_int(job_id)};
    if (ret_follower != NULL)
        *ret_follower = 0;
    int rc =
        run_submission_get(tx, 0, (struct submission_get_params){.job_id = db_int(job_id)}, &found);
    if (rc < 0)
        return rc;
    if (found.count == 0)
        return 0; /* only damage does that: the run ends all the same, and recovery is not stopped
                   */
    rc = state_is_finished((enum job_state)db_num(found.at[0].state))
             ? add_follower(tx, job_id, ret_follower)
             : refresh(tx, job_id, &found.at[0]);
    return rc < 0 ? rc : each_submission_drop(tx, 0, &kept, 1, NULL);
}
