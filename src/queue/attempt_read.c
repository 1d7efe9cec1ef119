/* Attempts as others see them, and the small things told of one that runs. */
#include "base/proc.h"
#include "core/state.h"
#include "queue/attempt.h"
#include "queue/lease.h"
#include "queue/row.h"

#include <stdlib.h>
#include <string.h>

const char *tend_attempt_state_name(int state)
{
    static const char *const names[] = {"running", "succeeded", "failed", "stopped", "lost"};
    return state >= 0 && state <= TEND_ATTEMPT_LOST ? names[state] : "?";
}

int attempt_machine(tend *t)
{
    char boot_id[PROC_BOOT_BYTES];
    int rc = 0;
    pthread_mutex_lock(&t->mutex);
    if (t->boot_id[0] == '\0') {
        if (proc_boot_id(boot_id) < 0 || proc_host(t->host, sizeof t->host) < 0)
            rc = handle_fail(t, TEND_EIO, "this machine cannot be identified; is /proc mounted?");
        else
            memcpy(t->boot_id, boot_id, sizeof t->boot_id);
    }
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

/* --- reading --- */

_Static_assert((int)SQL_ATTEMPT_RUNNING == TEND_ATTEMPT_RUNNING &&
                   (int)SQL_ATTEMPT_SUCCEEDED == TEND_ATTEMPT_SUCCEEDED &&
                   (int)SQL_ATTEMPT_FAILED == TEND_ATTEMPT_FAILED &&
                   (int)SQL_ATTEMPT_STOPPED == TEND_ATTEMPT_STOPPED &&
                   (int)SQL_ATTEMPT_LOST == TEND_ATTEMPT_LOST,
               "sql/job.sql and tend.h number the states of attempts alike");

/* An attempt whose lease has ended runs no more, although nobody was left to write that down. */
static int state_now(const struct attempt_columns *row)
{
    int state = (int)db_num(row->state);
    int64_t job_state = db_num(row->job_state);
    bool held = job_state == JOB_RUNNING && db_num(row->job_token) == db_num(row->token);
    if (state != TEND_ATTEMPT_RUNNING || held)
        return state;
    return job_state == JOB_HELD || job_state == JOB_CANCELLED ? TEND_ATTEMPT_STOPPED
                                                               : TEND_ATTEMPT_LOST;
}

static void read_attempt(struct tend_attempt *attempt, const struct attempt_columns *row)
{
    *attempt = (struct tend_attempt){
        .job_id = db_num(row->job_id),
        .number = db_num(row->number),
        .step_index = db_num(row->step_index),
        .attempt = db_num(row->attempt),
        .step_id = db_str(row->step_id),
        .strategy = db_str(row->strategy),
        .token = db_num(row->token),
        .worker_id = db_num(row->worker_id),
        .host = db_str(row->host),
        .boot_id = db_str(row->boot_id),
        .marker = db_str(row->marker),
        .pid = db_num(row->pid),
        .start_ticks = db_num(row->start_ticks),
        .state = state_now(row),
        .started_at_ms = db_num(row->started_at),
        .ended_at_ms = db_num(row->ended_at),
        .exit_code = db_num(row->exit_code),
        .signal = db_num(row->signal),
        .failure_class = db_str(row->failure_class),
        .rule = db_str(row->rule),
        .evidence = db_str(row->evidence),
        .summary = db_str(row->summary),
        .signature = db_str(row->signature),
        .diff_hash = db_str(row->diff_hash),
        .progress_percent = db_num(row->progress_percent),
        .progress_text = db_str(row->progress_text),
        .output_bytes = db_num(row->output_bytes),
        .output_dropped_bytes = db_num(row->output_dropped_bytes),
        .verdict = db_str(row->verdict),
        .no_progress = db_num(row->no_progress) == 1,
        .timeout = db_str(row->timeout),
        .retryable = db_num(row->retryable),
        .warnings = db_str(row->warnings),
        .failures = db_num(row->failures),
        .outside = db_num(row->outside) == 1,
        .next_at_ms = db_num(row->next_at),
        .earlier_life = db_num(row->token) <= db_num(row->job_life_token),
    };
}

struct attempts_box {
    struct tend_attempts attempts; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_attempts_free(struct tend_attempts *attempts)
{
    struct attempts_box *box = (struct attempts_box *)attempts;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct read_call {
    struct attempts_box *box;
    enum db_query query;           /* one whose rows are {attempt} */
    const struct db_value *params; /* of the query */
    struct db_value *now;          /* that of them which is the time, or NULL */
};

/* What the queries return is the same, and is read as the rows of attempt_list. */
_Static_assert(sizeof(struct attempt_list_row) == sizeof(struct attempt_columns) &&
                   sizeof(struct attempt_running_row) == sizeof(struct attempt_columns) &&
                   sizeof(struct attempt_waiting_row) == sizeof(struct attempt_columns) &&
                   sizeof(struct attempt_left_behind_row) == sizeof(struct attempt_columns) &&
                   sizeof(struct attempt_left_of_job_row) == sizeof(struct attempt_columns),
               "lists of attempts have the same columns");

static int read_body(struct db_tx *tx, void *arg)
{
    struct read_call *call = arg;
    struct attempt_list_rows rows;
    if (call->now != NULL)
        *call->now = db_now(tx);
    int rc = db_run(tx, call->query, DB_LAST, call->params, &rows.result);
    if (rc < 0)
        return rc;
    struct tend_attempt *items = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading attempts");
    for (size_t i = 0; i < rows.count; i++)
        read_attempt(&items[i], &rows.at[i].attempt);
    call->box->attempts = (struct tend_attempts){.count = rows.count, .items = items};
    return 0;
}

static int read_attempts(tend *t, struct read_call *call, struct tend_attempts **ret)
{
    call->box = calloc(1, sizeof *call->box);
    if (call->box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading attempts");
    arena_init(&call->box->arena);
    int rc = db_read(t->db, &call->box->arena, read_body, call, handle_err(t));
    if (rc < 0)
        tend_attempts_free(&call->box->attempts);
    else
        *ret = &call->box->attempts;
    return rc;
}

int tend_attempts(tend *t, int64_t job_id, struct tend_attempts **ret)
{
    const struct attempt_list_params params = {.job_id = db_int(job_id)};
    struct read_call call = {.query = Q_ATTEMPT_LIST, .params = DB_VALUES(&params)};
    return read_attempts(t, &call, ret);
}

int tend_attempts_running(tend *t, size_t limit, struct tend_attempts **ret)
{
    const struct attempt_running_params params = {.limit = db_int(page_limit(limit))};
    struct read_call call = {.query = Q_ATTEMPT_RUNNING, .params = DB_VALUES(&params)};
    return read_attempts(t, &call, ret);
}

int tend_attempts_waiting(tend *t, size_t limit, struct tend_attempts **ret)
{
    struct attempt_waiting_params params = {.limit = db_int(page_limit(limit))};
    struct read_call call = {
        .query = Q_ATTEMPT_WAITING, .params = DB_VALUES(&params), .now = &params.now};
    return read_attempts(t, &call, ret);
}

int tend_attempts_left_behind(tend *t, int64_t job_id, const struct tend_attempt *after,
                              size_t limit, struct tend_attempts **ret)
{
    int rc = attempt_machine(t);
    if (rc < 0)
        return rc;
    const struct attempt_left_behind_params of_all = {
        .boot_id = db_text(t->boot_id),
        .host = db_text(t->host),
        .after_job = db_int(after != NULL ? after->job_id : 0),
        .after_number = db_int(after != NULL ? after->number : 0),
        .limit = db_int(page_limit(limit))};
    const struct attempt_left_of_job_params of_job = {.boot_id = of_all.boot_id,
                                                      .host = of_all.host,
                                                      .job_id = db_int(job_id),
                                                      .after_number = of_all.after_number,
                                                      .limit = of_all.limit};
    struct read_call call = {.query = Q_ATTEMPT_LEFT_BEHIND, .params = DB_VALUES(&of_all)};
    if (job_id != 0)
        call = (struct read_call){.query = Q_ATTEMPT_LEFT_OF_JOB, .params = DB_VALUES(&of_job)};
    return read_attempts(t, &call, ret);
}

/* --- small writes --- */

struct small_call {
    enum db_query query;
    const struct db_value *params; /* of the query */
    const char *text;              /* cleaned it goes in as ... */
    struct db_value *clean;        /* ... this one of them; both may be NULL */
    int64_t changed;
};

static int small_body(struct db_tx *tx, void *arg)
{
    struct small_call *call = arg;
    if (call->text != NULL)
        *call->clean = db_text(handle_clean_text(db_arena(tx), call->text));
    return db_each(tx, call->query, DB_LAST, call->params, 1, &call->changed);
}

/* Under a lease that is held an attempt that runs no more is no error: it ended a moment ago. */
static int tell_of_attempt(tend *t, struct tend_lease lease, struct small_call *call)
{
    int rc = handle_write(t, small_body, call);
    return rc < 0 ? rc : lease_verdict(t, &lease, &call->changed, LEASE_LOOK);
}

int tend_attempt_started(tend *t, struct tend_lease lease, int64_t number, int64_t pid,
                         int64_t start_ticks)
{
    const struct attempt_started_params params = {.job_id = db_int(lease.id),
                                                  .token = db_int(lease.token),
                                                  .number = db_int(number),
                                                  .pid = db_int(pid),
                                                  .start_ticks = db_int(start_ticks)};
    struct small_call call = {.query = Q_ATTEMPT_STARTED, .params = DB_VALUES(&params)};
    return tell_of_attempt(t, lease, &call);
}

int tend_progress(tend *t, struct tend_lease lease, int64_t number, int64_t percent,
                  const char *text)
{
    if (percent != TEND_UNSET && (percent < 0 || percent > 100))
        return handle_fail(t, TEND_EINVAL, "progress is %lld; it must be from 0 to 100",
                           (long long)percent);
    struct attempt_progress_params params = {.job_id = db_int(lease.id),
                                             .token = db_int(lease.token),
                                             .number = db_int(number),
                                             .progress_percent = db_int_or_null(percent)};
    struct small_call call = {.query = Q_ATTEMPT_PROGRESS,
                              .params = DB_VALUES(&params),
                              .text = text,
                              .clean = &params.progress_text};
    return tell_of_attempt(t, lease, &call);
}

int tend_attempt_swept(tend *t, int64_t job_id, int64_t number)
{
    const struct attempt_swept_params params = {.job_id = db_int(job_id), .number = db_int(number)};
    struct small_call call = {.query = Q_ATTEMPT_SWEPT, .params = DB_VALUES(&params)};
    int rc = handle_write(t, small_body, &call);
    return rc < 0 ? rc : 0;
}
