#include "queue/event.h"

#include "queue/row.h"
#include "store/queries.h"

#include <stdlib.h>

int event_add(struct db_tx *tx, const struct event_note *event, unsigned how)
{
    const struct event_add_params params = {
        .now = db_now(tx),
        .queue = db_text(event->queue),
        .who = db_text(event->who),
        .what = db_text(event->what),
        .token = event->token == 0 ? db_null() : db_int(event->token),
        .owner = db_text(event->owner),
        .why = db_text(event->why),
        .data = db_text(event->data),
    };
    return each_event_add(tx, how, &params, 1, NULL);
}

struct events_box {
    struct tend_events events; /* first: a struct tend_events pointer is a pointer to its box */
    struct arena arena;
};

void tend_events_free(struct tend_events *events)
{
    struct events_box *box = (struct events_box *)events;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct events_call {
    struct events_box *box;
    enum db_query query;           /* one whose rows are {event} */
    const struct db_value *params; /* of the query */
};

/* What the queries return is the same, and is read as the rows of event_since. */
_Static_assert(sizeof(struct event_since_row) == sizeof(struct event_columns) &&
                   sizeof(struct event_of_job_row) == sizeof(struct event_columns) &&
                   sizeof(struct event_of_gone_job_row) == sizeof(struct event_columns),
               "lists of events have the same columns");

static int state_or_none(int64_t state)
{
    return state == TEND_UNSET ? -1 : (int)state;
}

static struct tend_event read_event(const struct event_columns *row)
{
    return (struct tend_event){
        .id = db_num(row->id),
        .at_ms = db_num(row->at),
        .job_id = db_num(row->job_id),
        .queue = db_str(row->queue),
        .who = db_str(row->who),
        .what = db_str(row->what),
        .from_state = state_or_none(db_num(row->from_state)),
        .to_state = state_or_none(db_num(row->to_state)),
        .token = db_num(row->token),
        .owner = db_str(row->owner),
        .why = db_str(row->why),
        .data = db_str(row->data),
    };
}

static int events_body(struct db_tx *tx, void *arg)
{
    struct events_call *call = arg;
    struct event_since_rows found;
    int rc = db_run(tx, call->query, DB_LAST, call->params, &found.result);
    if (rc < 0)
        return rc;
    struct tend_event *items = arena_alloc(db_arena(tx), (found.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading events");
    for (size_t i = 0; i < found.count; i++)
        items[i] = read_event(&found.at[i].event);
    call->box->events = (struct tend_events){.count = found.count, .items = items};
    return 0;
}

static int read_events(tend *t, struct events_call *call, struct tend_events **ret)
{
    call->box = calloc(1, sizeof *call->box);
    if (call->box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading events");
    arena_init(&call->box->arena);
    int rc = db_read(t->db, &call->box->arena, events_body, call, handle_err(t));
    if (rc < 0)
        tend_events_free(&call->box->events);
    else
        *ret = &call->box->events;
    return rc;
}

int tend_events_since(tend *t, int64_t after_id, size_t limit, struct tend_events **ret)
{
    const struct event_since_params params = {.after_id = db_int(after_id),
                                              .limit = db_int(page_limit(limit))};
    struct events_call call = {.query = Q_EVENT_SINCE, .params = DB_VALUES(&params)};
    return read_events(t, &call, ret);
}

int tend_job_events(tend *t, int64_t job_id, struct tend_events **ret)
{
    const struct event_of_job_params of_job = {.id = db_int(job_id)};
    const struct event_of_gone_job_params of_gone_job = {.job_id = db_int(job_id)};
    struct events_call call = {.query = Q_EVENT_OF_JOB, .params = DB_VALUES(&of_job)};
    struct tend_events *events = NULL;
    int rc = read_events(t, &call, &events);
    if (rc >= 0 && events != NULL && events->count == 0) {
        tend_events_free(events);
        call =
            (struct events_call){.query = Q_EVENT_OF_GONE_JOB, .params = DB_VALUES(&of_gone_job)};
        rc = read_events(t, &call, &events);
    }
    if (rc >= 0)
        *ret = events;
    return rc;
}

static int last_body(struct db_tx *tx, void *arg)
{
    struct event_last_rows found;
    int rc = run_event_last(tx, DB_LAST, &found);
    if (rc == 0)
        *(int64_t *)arg = db_num(found.at[0].id);
    return rc;
}

struct tail_call {
    int64_t count, after_id;
};

static int tail_body(struct db_tx *tx, void *arg)
{
    struct tail_call *call = arg;
    struct event_tail_rows found;
    const struct event_tail_params params = {.limit = db_int(call->count)};
    int rc = run_event_tail(tx, DB_LAST, params, &found);
    if (rc == 0)
        call->after_id = db_num(found.at[0].after_id);
    return rc;
}

int tend_events_tail(tend *t, int64_t count, int64_t *ret_after_id)
{
    struct tail_call call = {.count = count};
    int rc = count < 0
                 ? handle_fail(t, TEND_EINVAL, "there are no last %lld events", (long long)count)
                 : handle_read(t, tail_body, &call);
    if (rc == 0)
        *ret_after_id = call.after_id;
    return rc;
}

int tend_last_event(tend *t, int64_t *ret_id)
{
    return handle_read(t, last_body, ret_id);
}
