#include "queue/event.h"

#include "queue/row.h"

#include <stdlib.h>

int event_add(struct db_tx *tx, const struct event_note *event, unsigned how)
{
    const struct db_value params[] = {
        db_now(tx),
        db_null(),
        db_text(event->queue),
        db_text(event->who),
        db_text(event->what),
        event->token == 0 ? db_null() : db_int(event->token),
        db_text(event->owner),
        db_text(event->why),
        db_text(event->data),
    };
    return db_each(tx, Q_EVENT_ADD, how, params, 1, NULL);
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
    enum db_query query;
    int64_t number; /* after_id or job_id */
    size_t limit;
};

static int state_or_none(int64_t state)
{
    return state == TEND_UNSET ? -1 : (int)state;
}

static int events_body(struct db_tx *tx, void *arg)
{
    struct events_call *call = arg;
    struct db_result found;
    const struct db_value params[] = {db_int(call->number), db_int(page_limit(call->limit))};
    int rc = db_run(tx, call->query, DB_LAST, params, &found);
    if (rc < 0)
        return rc;
    struct tend_event *items = arena_alloc(db_arena(tx), (found.rows + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading events");
    for (size_t i = 0; i < found.rows; i++)
        items[i] = (struct tend_event){
            .id = db_number(&found, i, 0),
            .at_ms = db_number(&found, i, 1),
            .job_id = db_number(&found, i, 2),
            .queue = db_string(&found, i, 3),
            .who = db_string(&found, i, 4),
            .what = db_string(&found, i, 5),
            .from_state = state_or_none(db_number(&found, i, 6)),
            .to_state = state_or_none(db_number(&found, i, 7)),
            .token = db_number(&found, i, 8),
            .owner = db_string(&found, i, 9),
            .why = db_string(&found, i, 10),
            .data = db_string(&found, i, 11),
        };
    call->box->events = (struct tend_events){.count = found.rows, .items = items};
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
    struct events_call call = {.query = Q_EVENT_SINCE, .number = after_id, .limit = limit};
    return read_events(t, &call, ret);
}

int tend_job_events(tend *t, int64_t job_id, struct tend_events **ret)
{
    struct events_call call = {.query = Q_EVENT_OF_JOB, .number = job_id};
    struct tend_events *events = NULL;
    int rc = read_events(t, &call, &events);
    if (rc >= 0 && events != NULL && events->count == 0) {
        tend_events_free(events);
        call.query = Q_EVENT_OF_GONE_JOB;
        rc = read_events(t, &call, &events);
    }
    if (rc >= 0)
        *ret = events;
    return rc;
}

static int last_body(struct db_tx *tx, void *arg)
{
    struct db_result found;
    int rc = db_run(tx, Q_EVENT_LAST, DB_LAST, NULL, &found);
    if (rc == 0)
        *(int64_t *)arg = db_number(&found, 0, 0);
    return rc;
}

struct tail_call {
    int64_t count, after_id;
};

static int tail_body(struct db_tx *tx, void *arg)
{
    struct tail_call *call = arg;
    struct db_result found;
    const struct db_value params[] = {db_int(call->count)};
    int rc = db_run(tx, Q_EVENT_TAIL, DB_LAST, params, &found);
    if (rc == 0)
        call->after_id = db_number(&found, 0, 0);
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
