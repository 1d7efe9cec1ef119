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

/* The order of {attempt} in sql/attempt.sql. */
enum attempt_column {
    COL_JOB_ID,
    COL_NUMBER,
    COL_STEP_INDEX,
    COL_STEP_ID,
    COL_ATTEMPT,
    COL_TOKEN,
    COL_WORKER_ID,
    COL_HOST,
    COL_BOOT_ID,
    COL_PID,
    COL_START_TICKS,
    COL_MARKER,
    COL_STATE,
    COL_STRATEGY,
    COL_STARTED_AT,
    COL_ENDED_AT,
    COL_EXIT_CODE,
    COL_SIGNAL,
    COL_FAILURE_CLASS,
    COL_RULE,
    COL_EVIDENCE,
    COL_SUMMARY,
    COL_SIGNATURE,
    COL_DIFF_HASH,
    COL_PROGRESS_PERCENT,
    COL_PROGRESS_TEXT,
    COL_OUTPUT_BYTES,
    COL_OUTPUT_DROPPED_BYTES,
    COL_VERDICT,
    COL_NO_PROGRESS,
    COL_TIMEOUT,
    COL_RETRYABLE,
    COL_WARNINGS,
    COL_FAILURES,
    COL_OUTSIDE,
    COL_NEXT_AT,
    COL_JOB_STATE,
    COL_JOB_TOKEN,
    COL_JOB_LIFE_TOKEN
};

/* An attempt whose lease has ended runs no more, although nobody was left to write that down. */
static int state_now(const struct db_result *from, size_t row)
{
    int state = (int)db_number(from, row, COL_STATE);
    int64_t job_state = db_number(from, row, COL_JOB_STATE);
    bool held = job_state == JOB_RUNNING &&
                db_number(from, row, COL_JOB_TOKEN) == db_number(from, row, COL_TOKEN);
    if (state != TEND_ATTEMPT_RUNNING || held)
        return state;
    return job_state == JOB_HELD || job_state == JOB_CANCELLED ? TEND_ATTEMPT_STOPPED
                                                               : TEND_ATTEMPT_LOST;
}

static void read_attempt(struct tend_attempt *attempt, const struct db_result *from, size_t row)
{
    *attempt = (struct tend_attempt){
        .job_id = db_number(from, row, COL_JOB_ID),
        .number = db_number(from, row, COL_NUMBER),
        .step_index = db_number(from, row, COL_STEP_INDEX),
        .attempt = db_number(from, row, COL_ATTEMPT),
        .step_id = db_string(from, row, COL_STEP_ID),
        .strategy = db_string(from, row, COL_STRATEGY),
        .token = db_number(from, row, COL_TOKEN),
        .worker_id = db_number(from, row, COL_WORKER_ID),
        .host = db_string(from, row, COL_HOST),
        .boot_id = db_string(from, row, COL_BOOT_ID),
        .marker = db_string(from, row, COL_MARKER),
        .pid = db_number(from, row, COL_PID),
        .start_ticks = db_number(from, row, COL_START_TICKS),
        .state = state_now(from, row),
        .started_at_ms = db_number(from, row, COL_STARTED_AT),
        .ended_at_ms = db_number(from, row, COL_ENDED_AT),
        .exit_code = db_number(from, row, COL_EXIT_CODE),
        .signal = db_number(from, row, COL_SIGNAL),
        .failure_class = db_string(from, row, COL_FAILURE_CLASS),
        .rule = db_string(from, row, COL_RULE),
        .evidence = db_string(from, row, COL_EVIDENCE),
        .summary = db_string(from, row, COL_SUMMARY),
        .signature = db_string(from, row, COL_SIGNATURE),
        .diff_hash = db_string(from, row, COL_DIFF_HASH),
        .progress_percent = db_number(from, row, COL_PROGRESS_PERCENT),
        .progress_text = db_string(from, row, COL_PROGRESS_TEXT),
        .output_bytes = db_number(from, row, COL_OUTPUT_BYTES),
        .output_dropped_bytes = db_number(from, row, COL_OUTPUT_DROPPED_BYTES),
        .verdict = db_string(from, row, COL_VERDICT),
        .no_progress = db_number(from, row, COL_NO_PROGRESS) == 1,
        .timeout = db_string(from, row, COL_TIMEOUT),
        .retryable = db_number(from, row, COL_RETRYABLE),
        .warnings = db_string(from, row, COL_WARNINGS),
        .failures = db_number(from, row, COL_FAILURES),
        .outside = db_number(from, row, COL_OUTSIDE) == 1,
        .next_at_ms = db_number(from, row, COL_NEXT_AT),
        .earlier_life = db_number(from, row, COL_TOKEN) <= db_number(from, row, COL_JOB_LIFE_TOKEN),
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
    enum db_query query;
    struct db_value params[5];
    bool needs_now; /* as the second parameter */
};

static int read_body(struct db_tx *tx, void *arg)
{
    struct read_call *call = arg;
    struct db_result rows;
    if (call->needs_now)
        call->params[1] = db_now(tx);
    int rc = db_run(tx, call->query, DB_LAST, call->params, &rows);
    if (rc < 0)
        return rc;
    struct tend_attempt *items = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading attempts");
    for (size_t i = 0; i < rows.rows; i++)
        read_attempt(&items[i], &rows, i);
    call->box->attempts = (struct tend_attempts){.count = rows.rows, .items = items};
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
    struct read_call call = {.query = Q_ATTEMPT_LIST, .params = {db_int(job_id)}};
    return read_attempts(t, &call, ret);
}

int tend_attempts_running(tend *t, size_t limit, struct tend_attempts **ret)
{
    struct read_call call = {.query = Q_ATTEMPT_RUNNING, .params = {db_int(page_limit(limit))}};
    return read_attempts(t, &call, ret);
}

int tend_attempts_waiting(tend *t, size_t limit, struct tend_attempts **ret)
{
    struct read_call call = {
        .query = Q_ATTEMPT_WAITING, .params = {db_int(page_limit(limit))}, .needs_now = true};
    return read_attempts(t, &call, ret);
}

int tend_attempts_left_behind(tend *t, int64_t job_id, const struct tend_attempt *after,
                              size_t limit, struct tend_attempts **ret)
{
    int rc = attempt_machine(t);
    if (rc < 0)
        return rc;
    int64_t after_job = job_id != 0 ? job_id : after != NULL ? after->job_id : 0;
    struct read_call call = {.query = job_id != 0 ? Q_ATTEMPT_LEFT_OF_JOB : Q_ATTEMPT_LEFT_BEHIND,
                             .params = {db_text(t->boot_id), db_text(t->host), db_int(after_job),
                                        db_int(after != NULL ? after->number : 0),
                                        db_int(page_limit(limit))}};
    return read_attempts(t, &call, ret);
}

/* --- small writes --- */

struct small_call {
    enum db_query query;
    struct db_value params[5];
    const char *text; /* goes in as the fifth, or NULL */
    int64_t changed;
};

static int small_body(struct db_tx *tx, void *arg)
{
    struct small_call *call = arg;
    if (call->text != NULL)
        call->params[4] = db_text(handle_clean_text(db_arena(tx), call->text));
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
    struct small_call call = {.query = Q_ATTEMPT_STARTED,
                              .params = {db_int(lease.id), db_int(lease.token), db_int(number),
                                         db_int(pid), db_int(start_ticks)}};
    return tell_of_attempt(t, lease, &call);
}

int tend_progress(tend *t, struct tend_lease lease, int64_t number, int64_t percent,
                  const char *text)
{
    if (percent != TEND_UNSET && (percent < 0 || percent > 100))
        return handle_fail(t, TEND_EINVAL, "progress is %lld; it must be from 0 to 100",
                           (long long)percent);
    struct small_call call = {.query = Q_ATTEMPT_PROGRESS,
                              .params = {db_int(lease.id), db_int(lease.token), db_int(number),
                                         db_int_or_null(percent), db_null()},
                              .text = text};
    return tell_of_attempt(t, lease, &call);
}

int tend_attempt_swept(tend *t, int64_t job_id, int64_t number)
{
    struct small_call call = {.query = Q_ATTEMPT_SWEPT, .params = {db_int(job_id), db_int(number)}};
    int rc = handle_write(t, small_body, &call);
    return rc < 0 ? rc : 0;
}
