#include "queue/submission.h"

#include "queue/add.h"

int submission_event(struct db_tx *tx, int64_t job_id, const char *by, const char *what,
                     const char *why)
{
    const struct db_value params[] = {db_int(job_id), db_now(tx), db_text(by), db_text(what),
                                      db_text(why)};
    return db_each(tx, Q_EVENT_OF_SUBMISSION, 0, params, 1, NULL);
}

int submission_keep(struct db_tx *tx, int64_t job_id, const struct tend_job_spec *spec,
                    const char *by)
{
    struct db_value params[AGAIN_PARAMS];
    const struct db_value job[] = {db_int(job_id)};
    add_again_params(tx, job_id, spec, by, params);
    int rc = db_each(tx, Q_SUBMISSION_PUT, 0, params, 1, NULL);
    if (rc < 0 || (rc = submission_event(tx, job_id, by, "job.submitted",
                                         "runs once more when this run has ended")) < 0)
        return rc;
    return db_each(tx, Q_JOB_FOLLOW, 0, job, 1, NULL);
}

int submission_lift(struct db_tx *tx, struct tend_lease lease, int64_t *ret)
{
    const struct db_value params[] = {db_int(lease.id), db_int(lease.token)};
    return db_each(tx, Q_JOB_UNFOLLOW, 0, params, 1, ret);
}

/* The columns of submission_get. */
enum {
    COL_STATE,
    COL_OLD_PAYLOAD,
    COL_WHO,
    COL_KIND,
    COL_PRIORITY,
    COL_DUE_AT,
    COL_PAYLOAD,
    COL_CONCURRENCY_KEY,
    COL_TAGS,
    COL_WORKSPACE,
    COL_MAX_ATTEMPTS,
    COL_MAX_CRASHES,
    COL_BACKOFF_MS,
    COL_BACKOFF_MAX_MS,
    COL_LEASE_MS,
    COL_HOOK,
};

/* The job goes on and takes it over. */
static int refresh(struct db_tx *tx, int64_t job_id, const struct db_result *row)
{
    struct tend_job_spec spec;
    tend_job_spec_init(&spec);
    spec.kind = db_string(row, 0, COL_KIND);
    spec.priority = (int)db_number(row, 0, COL_PRIORITY);
    spec.due_at_ms = db_number(row, 0, COL_DUE_AT);
    spec.payload = db_string(row, 0, COL_PAYLOAD);
    spec.payload_bytes = db_at(row, 0, COL_PAYLOAD)->bytes;
    spec.concurrency_key = db_string(row, 0, COL_CONCURRENCY_KEY);
    spec.tags = db_string(row, 0, COL_TAGS);
    spec.workspace = db_string(row, 0, COL_WORKSPACE);
    spec.max_attempts = db_number(row, 0, COL_MAX_ATTEMPTS);
    spec.max_crashes = db_number(row, 0, COL_MAX_CRASHES);
    spec.backoff_ms = db_number(row, 0, COL_BACKOFF_MS);
    spec.backoff_max_ms = db_number(row, 0, COL_BACKOFF_MAX_MS);
    spec.lease_ms = db_number(row, 0, COL_LEASE_MS);
    spec.hook = db_string(row, 0, COL_HOOK);
    return add_refresh(tx, job_id, (enum job_state)db_number(row, 0, COL_STATE),
                       db_at(row, 0, COL_OLD_PAYLOAD), &spec, db_string(row, 0, COL_WHO));
}

static int add_follower(struct db_tx *tx, const struct db_value *params, int64_t *ret)
{
    struct db_result row;
    int rc = db_run(tx, Q_JOB_ADD_SUBMITTED, 0, params, &row);
    if (rc >= 0 && ret != NULL && row.rows > 0)
        *ret = db_number(&row, 0, 0);
    return rc;
}

int run_ended(struct db_tx *tx, int64_t job_id, int64_t *ret_follower)
{
    struct db_result row;
    const struct db_value params[] = {db_int(job_id), db_now(tx)};
    if (ret_follower != NULL)
        *ret_follower = 0;
    int rc = db_run(tx, Q_SUBMISSION_GET, 0, params, &row);
    if (rc < 0)
        return rc;
    if (row.rows == 0)
        return err_set(db_err(tx), TEND_EINTERNAL,
                       "the submission that waits for the end of job %lld is not there",
                       (long long)job_id);
    rc = state_is_finished((enum job_state)db_number(&row, 0, COL_STATE))
             ? add_follower(tx, params, ret_follower)
             : refresh(tx, job_id, &row);
    return rc < 0 ? rc : db_each(tx, Q_SUBMISSION_DROP, 0, params, 1, NULL);
}
