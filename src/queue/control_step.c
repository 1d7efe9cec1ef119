/*
 * Which step an operator means, and how far the job has come.
 *
 * A step is known by the job's payload: {"steps":[{"id":...}]}, where one without an id is
 * "step-N"; else by what it has left behind, which may be of an earlier payload. The payload is
 * looked at for ids alone; what else a plan may say is not asked here.
 */
#include "base/buf.h"
#include "queue/control.h"

#include <jansson.h>
#include <string.h>

enum { IDS_TOLD = 20 };

/* The n-th id (from 1) of the payload's steps, NULL behind the last. A payload without a list of
 * steps is one step itself. */
static const char *payload_step(const json_t *payload, int64_t number, struct arena *arena)
{
    const json_t *steps = json_object_get(payload, "steps");
    const json_t *step = json_is_array(steps) ? json_array_get(steps, (size_t)number - 1)
                         : number == 1        ? payload
                                              : NULL;
    if (step == NULL)
        return NULL;
    const char *id = json_string_value(json_object_get(step, "id"));
    return id != NULL ? id : arena_printf(arena, "step-%lld", (long long)number);
}

static int64_t find_in_payload(const json_t *payload, const char *step_id, struct arena *arena)
{
    const char *id;
    for (int64_t i = 1; (id = payload_step(payload, i, arena)) != NULL; i++)
        if (strcmp(id, step_id) == 0)
            return i;
    return TEND_UNSET;
}

static int find_in_rows(struct db_tx *tx, struct control_call *call)
{
    struct step_by_id_rows found;
    const struct step_by_id_params params = {.job_id = db_int(call->job_id),
                                             .step_id = db_text(call->step_id)};
    int rc = run_step_by_id(tx, 0, params, &found);
    if (rc == 0 && found.count > 0)
        call->step_index = db_num(found.at[0].step_index);
    return rc;
}

/* TEND_ENOTFOUND with the ids there are: by the payload, else those that were tried. */
static int unknown_step(struct db_tx *tx, const struct control_call *call, const json_t *payload)
{
    struct step_ids_rows rows = {0};
    struct buf ids;
    const char *id;
    const struct step_ids_params params = {.job_id = db_int(call->job_id),
                                           .limit = db_int(IDS_TOLD)};
    int rc = run_step_ids(tx, 0, params, &rows);
    if (rc < 0)
        return rc;
    buf_init(&ids);
    bool by_payload = json_is_array(json_object_get(payload, "steps")) || rows.count == 0;
    for (int64_t i = 1; by_payload && (id = payload_step(payload, i, db_arena(tx))) != NULL; i++) {
        if (i > IDS_TOLD) {
            buf_puts(&ids, ", …");
            break;
        }
        buf_printf(&ids, "%s%s", i == 1 ? "" : ", ", id);
    }
    for (size_t i = 0; !by_payload && i < rows.count; i++)
        buf_printf(&ids, "%s%s", i == 0 ? "" : ", ", db_str(rows.at[i].step_id));
    rc = err_set(db_err(tx), TEND_ENOTFOUND, "job %lld has no step '%s'; its steps are: %s",
                 (long long)call->job_id, call->step_id, ids.data);
    buf_done(&ids);
    return rc;
}

static int find_index(struct db_tx *tx, struct control_call *call, const struct tend_job *job)
{
    int rc = 0;
    json_t *payload = json_loadb(job->payload, job->payload_bytes, JSON_DECODE_ANY, NULL);
    call->step_index = find_in_payload(payload, call->step_id, db_arena(tx));
    if (call->step_index == TEND_UNSET)
        rc = find_in_rows(tx, call);
    if (rc == 0 && call->step_index == TEND_UNSET)
        rc = unknown_step(tx, call, payload);
    json_decref(payload);
    return rc;
}

/* The first step without a checkpoint: where a worker goes on. */
int control_find_first_open(struct db_tx *tx, struct control_call *call)
{
    struct checkpoint_steps_rows rows;
    const struct checkpoint_steps_params params = {.job_id = db_int(call->job_id)};
    int rc = run_checkpoint_steps(tx, 0, params, &rows);
    if (rc < 0)
        return rc;
    call->first_open = 1;
    for (size_t i = 0; i < rows.count && db_num(rows.at[i].step_index) == call->first_open; i++)
        call->first_open++;
    return 0;
}

static int check_reached(struct db_tx *tx, const struct control_call *call)
{
    bool of_present = call->action == CONTROL_RETRY_STEP || call->action == CONTROL_HARD_RESET_STEP;
    if (of_present && call->step_index < call->first_open)
        return err_set(db_err(tx), TEND_ESTATE,
                       "step '%s' of job %lld has succeeded; to run it again with all that follow "
                       "use resume_from_step",
                       call->step_id, (long long)call->job_id);
    if ((of_present || call->action == CONTROL_RESUME_FROM_STEP) &&
        call->step_index > call->first_open)
        return err_set(db_err(tx), TEND_ESTATE,
                       "job %lld has not come to step '%s' yet: step %lld before it has not "
                       "succeeded",
                       (long long)call->job_id, call->step_id, (long long)call->first_open);
    return 0;
}

int control_find_step(struct db_tx *tx, struct control_call *call, const struct tend_job *job)
{
    call->step_index = TEND_UNSET;
    if (call->step_id == NULL)
        return 0;
    int rc = find_index(tx, call, job);
    if (rc < 0 || (rc = control_find_first_open(tx, call)) < 0)
        return rc;
    return check_reached(tx, call);
}
