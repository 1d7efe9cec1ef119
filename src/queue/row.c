#include "queue/row.h"

#include "base/text.h"
#include "core/state.h"
#include "store/queries.h"

#include <stdlib.h>
#include <string.h>

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

/* The queries have the states by name, too. */
_Static_assert((int)SQL_SCHEDULED == JOB_SCHEDULED && (int)SQL_PENDING == JOB_PENDING &&
                   (int)SQL_RUNNING == JOB_RUNNING && (int)SQL_HELD == JOB_HELD &&
                   (int)SQL_DONE == JOB_DONE && (int)SQL_FAILED == JOB_FAILED &&
                   (int)SQL_CANCELLED == JOB_CANCELLED,
               "sql/job.sql and core/state.h number the states alike");

static void read_job(struct tend_job *job, const struct job_columns *from)
{
    int state = (int)db_num(from->state);
    *job = (struct tend_job){
        .id = db_num(from->id),
        .queue = db_str(from->queue),
        .kind = db_str(from->kind),
        .phase = db_str(from->phase),
        .payload = db_str(from->payload),
        .payload_bytes = from->payload.bytes,
        .state = state,
        .priority = (int)db_num(from->priority),
        .token = db_num(from->token),
        .due_at_ms = db_num(from->due_at),
        .created_at_ms = db_num(from->created_at),
        .changed_at_ms = db_num(from->changed_at),
        .until_ms = state == JOB_RUNNING ? db_num(from->alarm_at) : TEND_UNSET,
        .started_at_ms = db_num(from->started_at),
        .seen_at_ms = db_num(from->seen_at),
        .finished_at_ms = db_num(from->finished_at),
        .worker_id = db_num(from->worker_id),
        .owner = db_str(from->owner),
        .unique_key = db_str(from->unique_key),
        .subject = db_str(from->subject),
        .concurrency_key = db_str(from->concurrency_key),
        .tags = db_str(from->tags),
        .workspace = db_str(from->workspace),
        .schedule = db_str(from->schedule),
        .nominal_at_ms = db_num(from->nominal_at),
        .error_class = db_str(from->error_class),
        .error_text = db_str(from->error_text),
        .result = db_str(from->result),
        .changed_by = db_str(from->changed_by),
        .changed_what = db_str(from->changed_what),
        .changed_why = db_str(from->changed_why),
        .attempts = db_num(from->attempts),
        .crashes = db_num(from->crashes),
        .version = db_num(from->version),
        .max_attempts = db_num(from->max_attempts),
        .max_crashes = db_num(from->max_crashes),
        .backoff_ms = db_num(from->backoff_ms),
        .backoff_max_ms = db_num(from->backoff_max_ms),
        .lease_ms = db_num(from->lease_ms),
        .stopped_token = db_num(from->stopped_token),
        .followed = db_num(from->followed) == 1,
        .hook = db_str(from->hook),
    };
}

int jobs_read(struct arena *arena, const struct db_result *result, struct tend_jobs *ret)
{
    struct tend_job *items = arena_alloc(arena, (result->rows + 1) * sizeof *items);
    if (items == NULL)
        return TEND_ENOMEM;
    for (size_t row = 0; row < result->rows; row++)
        read_job(&items[row], (const struct job_columns *)&result->values[row * result->columns]);
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
    struct job_get_rows found;
    const struct job_get_params params = {.id = db_int(call->id), .now = db_now(tx)};
    int rc = run_job_get(tx, DB_LAST, params, &found);
    if (rc < 0)
        return rc;
    if (found.count == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND,
                       "there is no job %lld; 'tend jobs' lists those that are",
                       (long long)call->id);
    return jobs_box_fill(call->box, &found.result);
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

/* The queries of list_page have the same parameters; the first two also have the same columns. */
_Static_assert(sizeof(struct job_list_newest_params) == sizeof(struct job_list_params) &&
                   sizeof(struct job_chosen_params) == sizeof(struct job_list_params),
               "the same parameters");
_Static_assert(sizeof(struct job_list_newest_row) == sizeof(struct job_list_row),
               "the same columns");

int list_page(struct db_tx *tx, enum db_query query, const struct tend_filter *filter, unsigned how,
              struct db_result *ret)
{
    int64_t changed_to = TEND_UNSET;
    if (filter->older_than_ms != TEND_UNSET) {
        int64_t now_ms;
        int rc = db_time(tx, &now_ms);
        if (rc < 0)
            return rc;
        changed_to = now_ms - filter->older_than_ms;
    }
    const struct job_list_params params = {
        .queue = db_text(filter->queue),
        .states = db_int(filter->states),
        .kind = db_text(filter->kind),
        .tag = db_text(filter->tag),
        .changed_to = db_int_or_null(changed_to),
        .after_id = db_int(filter->after_id),
        .limit = db_int(page_limit(filter->limit)),
        .before_id = db_int(filter->before_id > 0 ? filter->before_id : INT64_MAX),
    };
    return db_run(tx, query, how, DB_VALUES(&params), ret);
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct job_list_rows found;
    enum db_query query = call->filter->newest_first ? Q_JOB_LIST_NEWEST : Q_JOB_LIST;
    int rc = list_page(tx, query, call->filter, DB_LAST, &found.result);
    return rc < 0 ? rc : jobs_box_fill(call->box, &found.result);
}

int tend_list(tend *t, const struct tend_filter *filter, struct tend_jobs **ret)
{
    struct list_call call = {.filter = filter};
    int rc = list_check_filter(t, filter);
    return rc < 0 ? rc : read_into_box(t, &call, list_body, ret);
}
