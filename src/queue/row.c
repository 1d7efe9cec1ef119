#include "queue/row.h"

#include "base/text.h"
#include "core/state.h"

#include <stdlib.h>
#include <string.h>

/* The order of {job} in sql/job.sql. */
enum job_column {
    COL_ID,
    COL_QUEUE,
    COL_KIND,
    COL_STATE,
    COL_PRIORITY,
    COL_DUE_AT,
    COL_TOKEN,
    COL_OWNER,
    COL_WORKER_ID,
    COL_ALARM_AT,
    COL_STARTED_AT,
    COL_SEEN_AT,
    COL_ATTEMPTS,
    COL_CRASHES,
    COL_CHANGED_AT,
    COL_CHANGED_BY,
    COL_CHANGED_WHAT,
    COL_CHANGED_WHY,
    COL_VERSION,
    COL_CREATED_AT,
    COL_FINISHED_AT,
    COL_PHASE,
    COL_UNIQUE_KEY,
    COL_SUBJECT,
    COL_CONCURRENCY_KEY,
    COL_TAGS,
    COL_WORKSPACE,
    COL_SCHEDULE,
    COL_MAX_ATTEMPTS,
    COL_MAX_CRASHES,
    COL_BACKOFF_MS,
    COL_BACKOFF_MAX_MS,
    COL_LEASE_MS,
    COL_ERROR_CLASS,
    COL_ERROR_TEXT,
    COL_RESULT,
    COL_PAYLOAD,
    COL_STOPPED_TOKEN,
    COL_NOMINAL_AT,
    COL_FOLLOWED,
    COL_HOOK,
    JOB_COLUMNS
};

struct jobs_box *jobs_box_new(void)
{
    struct jobs_box *box = calloc(1, sizeof *box);
    if (box != NULL)
        arena_init(&box->arena);
    return box;
}

void tend_jobs_free(struct tend_jobs *jobs)
{
    struct jobs_box *box = (struct jobs_box *)jobs;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

static void read_job(struct tend_job *job, const struct db_result *from, size_t row)
{
    int state = (int)db_number(from, row, COL_STATE);
    *job = (struct tend_job){
        .id = db_number(from, row, COL_ID),
        .queue = db_string(from, row, COL_QUEUE),
        .kind = db_string(from, row, COL_KIND),
        .phase = db_string(from, row, COL_PHASE),
        .payload = db_string(from, row, COL_PAYLOAD),
        .payload_bytes = db_at(from, row, COL_PAYLOAD)->bytes,
        .state = state,
        .priority = (int)db_number(from, row, COL_PRIORITY),
        .token = db_number(from, row, COL_TOKEN),
        .due_at_ms = db_number(from, row, COL_DUE_AT),
        .created_at_ms = db_number(from, row, COL_CREATED_AT),
        .changed_at_ms = db_number(from, row, COL_CHANGED_AT),
        .until_ms = state == JOB_RUNNING ? db_number(from, row, COL_ALARM_AT) : TEND_UNSET,
        .started_at_ms = db_number(from, row, COL_STARTED_AT),
        .seen_at_ms = db_number(from, row, COL_SEEN_AT),
        .finished_at_ms = db_number(from, row, COL_FINISHED_AT),
        .worker_id = db_number(from, row, COL_WORKER_ID),
        .owner = db_string(from, row, COL_OWNER),
        .unique_key = db_string(from, row, COL_UNIQUE_KEY),
        .subject = db_string(from, row, COL_SUBJECT),
        .concurrency_key = db_string(from, row, COL_CONCURRENCY_KEY),
        .tags = db_string(from, row, COL_TAGS),
        .workspace = db_string(from, row, COL_WORKSPACE),
        .schedule = db_string(from, row, COL_SCHEDULE),
        .nominal_at_ms = db_number(from, row, COL_NOMINAL_AT),
        .error_class = db_string(from, row, COL_ERROR_CLASS),
        .error_text = db_string(from, row, COL_ERROR_TEXT),
        .result = db_string(from, row, COL_RESULT),
        .changed_by = db_string(from, row, COL_CHANGED_BY),
        .changed_what = db_string(from, row, COL_CHANGED_WHAT),
        .changed_why = db_string(from, row, COL_CHANGED_WHY),
        .attempts = db_number(from, row, COL_ATTEMPTS),
        .crashes = db_number(from, row, COL_CRASHES),
        .version = db_number(from, row, COL_VERSION),
        .max_attempts = db_number(from, row, COL_MAX_ATTEMPTS),
        .max_crashes = db_number(from, row, COL_MAX_CRASHES),
        .backoff_ms = db_number(from, row, COL_BACKOFF_MS),
        .backoff_max_ms = db_number(from, row, COL_BACKOFF_MAX_MS),
        .lease_ms = db_number(from, row, COL_LEASE_MS),
        .stopped_token = db_number(from, row, COL_STOPPED_TOKEN),
        .followed = db_number(from, row, COL_FOLLOWED) == 1,
        .hook = db_string(from, row, COL_HOOK),
    };
}

int jobs_read(struct arena *arena, const struct db_result *result, struct tend_jobs *ret)
{
    struct tend_job *items = arena_alloc(arena, (result->rows + 1) * sizeof *items);
    if (items == NULL)
        return TEND_ENOMEM;
    for (size_t row = 0; row < result->rows; row++)
        read_job(&items[row], result, row);
    *ret = (struct tend_jobs){.count = result->rows, .items = items};
    return 0;
}

int jobs_box_fill(struct jobs_box *box, const struct db_result *result)
{
    return jobs_read(&box->arena, result, &box->jobs);
}

const char *tend_state_name(int state)
{
    const char *name = state_name((enum job_state)state);
    return name != NULL && state >= 0 ? name : "?";
}

int tend_state_parse(const char *name)
{
    enum job_state state;
    int rc = state_parse(name, &state);
    return rc < 0 ? rc : (int)state;
}

/* --- reading jobs --- */

struct list_call {
    struct jobs_box *box;
    int64_t id;
    const struct tend_filter *filter;
};

static int get_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct db_result found;
    const struct db_value params[] = {db_int(call->id), db_now(tx)};
    int rc = db_run(tx, Q_JOB_GET, DB_LAST, params, &found);
    if (rc < 0)
        return rc;
    if (found.rows == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND,
                       "there is no job %lld; 'tend jobs' lists those that are",
                       (long long)call->id);
    return jobs_box_fill(call->box, &found);
}

static int read_into_box(tend *t, struct list_call *call, db_body *body, struct tend_jobs **ret)
{
    call->box = jobs_box_new();
    if (call->box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading jobs");
    int rc = db_read(t->db, &call->box->arena, body, call, handle_err(t));
    if (rc < 0)
        tend_jobs_free(&call->box->jobs);
    else
        *ret = &call->box->jobs;
    return rc;
}

int tend_get(tend *t, int64_t id, struct tend_jobs **ret)
{
    struct list_call call = {.id = id};
    return read_into_box(t, &call, get_body, ret);
}

void tend_filter_init(struct tend_filter *filter)
{
    *filter = (struct tend_filter){.older_than_ms = TEND_UNSET};
}

int64_t page_limit(size_t limit)
{
    return limit == 0 ? 1000 : limit > INT32_MAX ? INT32_MAX : (int64_t)limit;
}

int list_check_filter(tend *t, const struct tend_filter *filter)
{
    const char *const texts[][2] = {
        {"queue", filter->queue}, {"kind", filter->kind}, {"tag", filter->tag}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1] != NULL && !utf8_valid(texts[i][1], strlen(texts[i][1])))
            return handle_fail(t, TEND_EINVAL, "the %s to look for is not valid UTF-8 text",
                               texts[i][0]);
    if (filter->older_than_ms != TEND_UNSET && filter->older_than_ms < 0)
        return handle_fail(t, TEND_EINVAL, "older than %lld ms lies in the future; give 0 or more",
                           (long long)filter->older_than_ms);
    if (filter->states >> TEND_STATE_COUNT != 0)
        return handle_fail(t, TEND_EINVAL, "the states to look for (%#x) hold one that is none",
                           filter->states);
    return 0;
}

int list_page(struct db_tx *tx, enum db_query query, const struct tend_filter *filter, unsigned how,
              struct db_result *ret)
{
    int64_t changed_before = TEND_UNSET;
    if (filter->older_than_ms != TEND_UNSET) {
        int64_t now_ms;
        int rc = db_time(tx, &now_ms);
        if (rc < 0)
            return rc;
        changed_before = now_ms - filter->older_than_ms;
    }
    const struct db_value params[] = {
        db_text(filter->queue),
        db_int(filter->states),
        db_text(filter->kind),
        db_text(filter->tag),
        db_int_or_null(changed_before),
        db_int(filter->after_id),
        db_int(page_limit(filter->limit)),
        db_int(filter->before_id > 0 ? filter->before_id : INT64_MAX),
    };
    return db_run(tx, query, how, params, ret);
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct db_result found;
    enum db_query query = call->filter->newest_first ? Q_JOB_LIST_NEWEST : Q_JOB_LIST;
    int rc = list_page(tx, query, call->filter, DB_LAST, &found);
    return rc < 0 ? rc : jobs_box_fill(call->box, &found);
}

int tend_list(tend *t, const struct tend_filter *filter, struct tend_jobs **ret)
{
    struct list_call call = {.filter = filter};
    int rc = list_check_filter(t, filter);
    return rc < 0 ? rc : read_into_box(t, &call, list_body, ret);
}
