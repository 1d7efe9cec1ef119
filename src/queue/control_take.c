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

void control_read(struct tend_control *control, const struct db_result *from, size_t row)
{
    *control = (struct tend_control){
        .id = db_number(from, row, 0),
        .job_id = db_number(from, row, 1),
        .action = db_string(from, row, 2),
        .step_index = db_number(from, row, 3),
        .step_id = db_string(from, row, 4),
        .reason = db_string(from, row, 5),
        .actor = db_string(from, row, 6),
        .at_ms = db_number(from, row, 7),
        .taken_at_ms = db_number(from, row, 8),
        .done_at_ms = db_number(from, row, 9),
        .outcome = db_string(from, row, 10),
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
    struct db_result found;
    struct tend_control control;
    const struct db_value id[] = {db_int(control_id)};
    int rc = db_run(tx, Q_CONTROL_GET, 0, id, &found);
    if (rc < 0)
        return rc;
    if (found.rows == 0 || db_number(&found, 0, 1) != job->id)
        return err_set(db_err(tx), TEND_ENOTFOUND, "job %lld has no control %lld",
                       (long long)job->id, (long long)control_id);
    control_read(&control, &found, 0);
    if (control.done_at_ms != TEND_UNSET)
        return 0;
    const char *text = outcome == NULL ? "done" : handle_clean_text(db_arena(tx), outcome);
    const struct db_value params[] = {id[0], db_int(job->id), db_now(tx), db_text(text)};
    if ((rc = db_each(tx, Q_CONTROL_DONE, DB_LATER, params, 1, NULL)) < 0)
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
    struct db_result fence;
    struct step_job job;
    const struct db_value params[] = {db_int(call->lease.id)};
    int rc = db_run(tx, Q_STEP_FENCE, 0, params, &fence);
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
    struct db_result rows;
    const struct db_value params[] = {db_int(call->job_id)};
    bool of_job = call->job_id != 0;
    int rc = db_run(tx, of_job ? Q_CONTROL_LIST : Q_CONTROL_OPEN, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    call->items = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *call->items);
    call->tokens = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *call->tokens);
    call->taken = arena_zalloc(db_arena(tx), (rows.rows + 1) * sizeof *call->taken);
    if (call->items == NULL || call->tokens == NULL || call->taken == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading controls");
    call->item_count = call->fresh = 0;
    for (size_t i = 0; i < rows.rows; i++) {
        struct tend_control *item = &call->items[call->item_count];
        control_read(item, &rows, i);
        int64_t token = of_job ? 0 : db_number(&rows, i, 11);
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
    struct db_value *params = arena_alloc(db_arena(tx), call->fresh * 4 * sizeof *params);
    size_t at = 0;
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while taking controls");
    for (size_t i = 0; i < call->item_count; i++) {
        struct db_value *row = &params[at * 4];
        if (call->items[i].taken_at_ms != TEND_UNSET)
            continue;
        row[0] = db_int(call->items[i].job_id);
        row[1] = db_int(call->tokens[i]);
        row[2] = db_int(call->items[i].id);
        row[3] = db_now(tx);
        at++;
    }
    return db_each(tx, Q_CONTROL_TAKEN, DB_LAST, params, call->fresh, call->taken);
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
