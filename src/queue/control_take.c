/*
 * Controls at the worker: what is open for its jobs, and its answers.
 *
 * To take is only to read, once everything has been taken: a worker asks every second, and what is
 * open in the whole store is little. An answer lost does no harm: what is open is told again.
 */
#include "base/buf.h"
#include "core/state.h"
#include "queue/control.h"
#include "queue/lease.h"

#include <stdlib.h>
#include <string.h>

void control_read(struct tend_control *control, const struct control_columns *row)
{
    *control = (struct tend_control){
        .id = db_num(row->id),
        .job_id = db_num(row->job_id),
        .action = db_str(row->action),
        .step_index = db_num(row->step_index),
        .step_id = db_str(row->step_id),
        .reason = db_str(row->reason),
        .actor = db_str(row->actor),
        .at_ms = db_num(row->at),
        .taken_at_ms = db_num(row->taken_at),
        .done_at_ms = db_num(row->done_at),
        .outcome = db_str(row->outcome),
    };
}

const char *control_json(struct db_tx *tx, const struct tend_control *control, const char *outcome)
{
    struct buf json;
    buf_init(&json);
    step_put_text(&json, "action", control->action);
    step_put_text(&json, "stepId", control->step_id);
    step_put_text(&json, "reason", control->reason);
    step_put_text(&json, "actor", control->actor);
    if (outcome != NULL)
        step_put_text(&json, "outcome", outcome);
    buf_putc(&json, '}');
    const char *text = json.failed ? NULL : arena_strndup(db_arena(tx), json.data, json.len);
    buf_done(&json);
    return text;
}

/* --- answering --- */

int control_answer(struct db_tx *tx, struct step_job *job, int64_t control_id, const char *outcome)
{
    struct control_get_rows found;
    struct tend_control control;
    const struct control_get_params id = {.id = db_int(control_id)};
    int rc = run_control_get(tx, 0, id, &found);
    if (rc < 0)
        return rc;
    if (found.count == 0 || db_num(found.at[0].control.job_id) != job->id)
        return err_set(db_err(tx), TEND_ENOTFOUND, "job %lld has no control %lld",
                       (long long)job->id, (long long)control_id);
    control_read(&control, &found.at[0].control);
    if (control.done_at_ms != TEND_UNSET)
        return 0;
    const char *text = outcome == NULL ? "done" : handle_clean_text(db_arena(tx), outcome);
    const struct control_done_params done = {.id = db_int(control_id),
                                             .job_id = db_int(job->id),
                                             .now = db_now(tx),
                                             .outcome = db_text(text)};
    if ((rc = each_control_done(tx, DB_LATER, &done, 1, NULL)) < 0)
        return rc;
    rc = step_event_write(tx, job, job->owner, "task.control.done", text,
                          control_json(tx, &control, text));
    return rc < 0 ? rc : 1;
}

struct done_call {
    struct tend_lease lease;
    int64_t control_id;
    const char *outcome;
    int64_t held;
};

static int done_body(struct db_tx *tx, void *arg)
{
    struct done_call *call = arg;
    struct step_fence_rows fence;
    struct step_job job;
    const struct step_fence_params params = {.id = db_int(call->lease.id)};
    int rc = run_step_fence(tx, 0, params, &fence);
    if (rc < 0)
        return rc;
    step_job_read(&job, call->lease.id, &fence);
    call->held = step_job_held(&job, call->lease);
    if (!call->held)
        return 0;
    rc = control_answer(tx, &job, call->control_id, call->outcome);
    return rc < 0 ? rc : step_chain(tx, &job, DB_LAST);
}

int tend_control_done(tend *t, struct tend_lease lease, int64_t control_id, const char *outcome)
{
    struct done_call call = {.lease = lease, .control_id = control_id, .outcome = outcome};
    int rc = handle_write(t, done_body, &call);
    return rc < 0 ? rc : lease_verdict(t, &lease, &call.held, LEASE_CHANGE);
}

/* --- reading and taking --- */

struct controls_box {
    struct tend_controls controls; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_controls_free(struct tend_controls *controls)
{
    struct controls_box *box = (struct controls_box *)controls;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct read_call {
    struct controls_box *box;
    int64_t job_id; /* 0: those open under the leases */
    const struct tend_lease *leases;
    size_t count;
    int64_t wait_ms; /* as in db_write_within */
    struct tend_control *items;
    int64_t *tokens; /* of the lease of each */
    size_t item_count;
    size_t fresh;   /* how many of them have not been taken yet */
    int64_t *taken; /* by index of the fresh ones: 0: it is open no more */
};

static bool leased(const struct read_call *call, int64_t id, int64_t token)
{
    for (size_t i = 0; i < call->count; i++)
        if (call->leases[i].id == id && call->leases[i].token == token)
            return true;
    return false;
}

static int read_body(struct db_tx *tx, void *arg)
{
    struct read_call *call = arg;
    struct control_list_rows listed = {0};
    struct control_open_rows open = {0};
    const struct control_list_params params = {.job_id = db_int(call->job_id)};
    bool of_job = call->job_id != 0;
    int rc = of_job ? run_control_list(tx, DB_LAST, params, &listed)
                    : run_control_open(tx, DB_LAST, &open);
    if (rc < 0)
        return rc;
    size_t rows = of_job ? listed.count : open.count;
    call->items = arena_alloc(db_arena(tx), (rows + 1) * sizeof *call->items);
    call->tokens = arena_alloc(db_arena(tx), (rows + 1) * sizeof *call->tokens);
    call->taken = arena_zalloc(db_arena(tx), (rows + 1) * sizeof *call->taken);
    if (call->items == NULL || call->tokens == NULL || call->taken == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading controls");
    call->item_count = call->fresh = 0;
    for (size_t i = 0; i < rows; i++) {
        struct tend_control *item = &call->items[call->item_count];
        control_read(item, of_job ? &listed.at[i].control : &open.at[i].control);
        int64_t token = of_job ? 0 : db_num(open.at[i].token);
        if (!of_job && !leased(call, item->job_id, token))
            continue;
        call->tokens[call->item_count++] = token;
        call->fresh += !of_job && item->taken_at_ms == TEND_UNSET;
    }
    return 0;
}

static int take_body(struct db_tx *tx, void *arg)
{
    struct read_call *call = arg;
    struct control_taken_params *params = arena_alloc(db_arena(tx), call->fresh * sizeof *params);
    size_t at = 0;
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while taking controls");
    for (size_t i = 0; i < call->item_count; i++) {
        if (call->items[i].taken_at_ms != TEND_UNSET)
            continue;
        params[at++] = (struct control_taken_params){.job_id = db_int(call->items[i].job_id),
                                                     .token = db_int(call->tokens[i]),
                                                     .id = db_int(call->items[i].id),
                                                     .now = db_now(tx)};
    }
    return each_control_taken(tx, DB_LAST, params, call->fresh, call->taken);
}

/* Leaves out those that were withdrawn between the look and the mark. */
static void leave_out_closed(struct read_call *call)
{
    size_t kept = 0;
    size_t fresh = 0;
    for (size_t i = 0; i < call->item_count; i++) {
        if (call->items[i].taken_at_ms == TEND_UNSET && call->taken[fresh++] == 0)
            continue;
        call->items[kept++] = call->items[i];
    }
    call->item_count = kept;
}

static int read_controls(tend *t, struct read_call *call, struct tend_controls **ret)
{
    call->box = calloc(1, sizeof *call->box);
    if (call->box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading controls");
    arena_init(&call->box->arena);
    int rc =
        db_read_within(t->db, call->wait_ms, &call->box->arena, read_body, call, handle_err(t));
    if (rc >= 0 && call->fresh > 0) {
        rc = handle_write_within(t, call->wait_ms, take_body, call);
        leave_out_closed(call);
    }
    if (rc < 0) {
        tend_controls_free(&call->box->controls);
        return rc;
    }
    call->box->controls = (struct tend_controls){.count = call->item_count, .items = call->items};
    *ret = &call->box->controls;
    return 0;
}

int control_take(tend *t, int64_t wait_ms, const struct tend_lease *leases, size_t count,
                 struct tend_controls **ret)
{
    struct read_call call = {.leases = leases, .count = count, .wait_ms = wait_ms};
    return read_controls(t, &call, ret);
}

int tend_controls_take(tend *t, const struct tend_lease *leases, size_t count,
                       struct tend_controls **ret)
{
    return control_take(t, -1, leases, count, ret);
}

int tend_controls(tend *t, int64_t job_id, struct tend_controls **ret)
{
    struct read_call call = {.job_id = job_id, .wait_ms = -1};
    if (job_id < 1)
        return handle_fail(t, TEND_ENOTFOUND, "there is no job %lld", (long long)job_id);
    return read_controls(t, &call, ret);
}
