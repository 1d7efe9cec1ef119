#include "store/claim_row.h"

#include <tend.h>

void claimed_job(const struct claimed_columns *claimed, const struct job_claim_params *params,
                 struct job_columns *ret)
{
    *ret = (struct job_columns){
        .id = claimed->id,
        .queue = params->queue,
        .kind = claimed->kind,
        .state = db_int(TEND_RUNNING),
        .priority = claimed->priority,
        .due_at = claimed->due_at,
        .token = claimed->token,
        .owner = params->owner,
        .worker_id = params->worker_id,
        .alarm_at = claimed->alarm_at,
        .started_at = claimed->started_at,
        .seen_at = claimed->changed_at,
        .attempts = claimed->attempts,
        .crashes = claimed->crashes,
        .changed_at = claimed->changed_at,
        .changed_by = params->owner,
        .changed_what = db_text("job.claimed"),
        .changed_why = db_null(),
        .version = claimed->version,
        .created_at = claimed->created_at,
        .finished_at = db_null(),
        .phase = claimed->phase,
        .unique_key = claimed->unique_key,
        .subject = claimed->subject,
        .concurrency_key = claimed->concurrency_key,
        .tags = claimed->tags,
        .workspace = claimed->workspace,
        .schedule = claimed->schedule,
        .max_attempts = claimed->max_attempts,
        .max_crashes = claimed->max_crashes,
        .backoff_ms = claimed->backoff_ms,
        .backoff_max_ms = claimed->backoff_max_ms,
        .lease_ms = claimed->lease_ms,
        .error_class = claimed->error_class,
        .error_text = claimed->error_text,
        .result = claimed->result,
        .payload = claimed->payload,
        .stopped_token = db_null(),
        .nominal_at = claimed->nominal_at,
        .followed = db_null(),
        .hook = claimed->hook,
    };
    _Static_assert(sizeof *ret == 41 * sizeof(struct db_value),
                   "{job} has another number of columns: each has a line above");
}

_Static_assert(sizeof(struct job_claim_after_row) == sizeof(struct job_claim_row),
               "the same columns");

bool claim_rows_complete(struct db_result *rows, const struct job_claim_params *params,
                         struct arena *arena)
{
    const struct job_claim_rows answer = {.result = *rows};
    struct job_columns *jobs = arena_alloc(arena, answer.count * sizeof *jobs + 1);
    if (jobs == NULL)
        return false;
    for (size_t row = 0; row < answer.count; row++)
        claimed_job(&answer.at[row].claimed, params, &jobs[row]);
    rows->values = DB_VALUES(jobs);
    rows->columns = sizeof *jobs / sizeof *rows->values;
    return true;
}
