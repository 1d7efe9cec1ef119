/*
 * What an operator changed in the workspace of a job. It belongs to the step the job had come to:
 * every workspace that is made for that step has it, also after a hard reset and on another
 * machine, and the step's checkpoint takes it in. It goes with that checkpoint, when the job goes
 * back to an earlier step, and with the job.
 */
#include "queue/edit.h"

#include <stdlib.h>

enum { STAGE_BYTES = 64 * 1024 };

int edit_check(tend *t, const struct tend_changes *edits)
{
    if (edits->dropped_bytes != 0)
        return handle_fail(t, TEND_EINVAL,
                           "edits must be whole: %lld bytes of the patch are missing",
                           (long long)edits->dropped_bytes);
    return step_check_changes(t, edits, TEND_PATCH_BYTES_MAX);
}

static int add(struct db_tx *tx, int64_t job_id, int64_t step_index,
               const struct tend_changes *edits, const char *who)
{
    const struct edit_add_params params = {.job_id = db_int(job_id),
                                           .step_index = db_int(step_index),
                                           .now = db_now(tx),
                                           .who = db_text(who),
                                           .changed_files = db_text(edits->changed_files),
                                           .patch = db_bytes(edits->patch, edits->patch_bytes)};
    return each_edit_add(tx, DB_LATER, &params, 1, NULL);
}

bool edit_stages(const struct db_tx *tx, const struct tend_changes *edits)
{
    return db_concurrent(tx) && edits->patch_bytes > STAGE_BYTES;
}

int edit_stage(struct db_tx *tx, int64_t staged, const struct tend_changes *edits, const char *who)
{
    return add(tx, staged, 0, edits, who);
}

int edit_put(struct db_tx *tx, int64_t job_id, int64_t step_index, int64_t staged,
             const struct tend_changes *edits, const char *who)
{
    int rc = edit_done(tx, job_id);
    if (rc < 0 || edits->patch_bytes == 0)
        return rc;
    if (staged == 0)
        return add(tx, job_id, step_index, edits, who);
    const struct edit_adopt_params params = {
        .job_id = db_int(job_id), .step_index = db_int(step_index), .staged_id = db_int(staged)};
    return each_edit_adopt(tx, DB_LATER, &params, 1, NULL);
}

int edit_done(struct db_tx *tx, int64_t job_id)
{
    const struct edit_remove_params params = {.job_id = db_int(job_id)};
    return each_edit_remove(tx, DB_LATER, &params, 1, NULL);
}

int edit_drop(struct db_tx *tx, int64_t job_id, int64_t from_step)
{
    const struct edit_drop_params params = {.job_id = db_int(job_id),
                                            .after_step = db_int(from_step)};
    return each_edit_drop(tx, DB_LATER, &params, 1, NULL);
}

/* --- reading --- */

struct edit_box {
    struct tend_edit edit; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_edit_free(struct tend_edit *edit)
{
    struct edit_box *box = (struct edit_box *)edit;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct get_call {
    struct edit_box *box;
    int64_t job_id;
};

static int get_body(struct db_tx *tx, void *arg)
{
    struct get_call *call = arg;
    struct edit_get_rows found;
    const struct edit_get_params params = {.job_id = db_int(call->job_id)};
    int rc = run_edit_get(tx, DB_LAST, params, &found);
    if (rc < 0)
        return rc;
    if (found.count == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND, "job %lld has no edits of an operator",
                       (long long)call->job_id);
    const struct edit_get_row *row = &found.at[0];
    call->box->edit = (struct tend_edit){.step_index = db_num(row->step_index),
                                         .at_ms = db_num(row->at),
                                         .by = db_str(row->who),
                                         .changes = {.changed_files = db_str(row->changed_files),
                                                     .patch = row->patch.text,
                                                     .patch_bytes = row->patch.bytes}};
    return 0;
}

int tend_edit_get(tend *t, int64_t job_id, struct tend_edit **ret)
{
    struct get_call call = {.box = calloc(1, sizeof *call.box), .job_id = job_id};
    if (call.box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading edits");
    arena_init(&call.box->arena);
    int rc = db_read(t->db, &call.box->arena, get_body, &call, handle_err(t));
    if (rc < 0)
        tend_edit_free(&call.box->edit);
    else
        *ret = &call.box->edit;
    return rc;
}
