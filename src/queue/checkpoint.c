/*
 * Checkpoints: what a step that succeeded leaves behind, so that any machine can go on after it.
 *
 * A patch can be large, and a worker can be cut off in the middle of sending it. On PostgreSQL the
 * server then waits for the rest with everything locked that the transaction has locked so far. So
 * large parts are sent first, under a number that nobody else knows, when nothing is locked yet;
 * the job's row is locked once they have arrived, and they are put where they belong.
 */
#include "queue/checkpoint.h"

#include "queue/edit.h"
#include "queue/keep.h"

#include <stdlib.h>
#include <string.h>

enum { STAGE_BYTES = 64 * 1024, STAGED_CHECKPOINT = 1, STAGED_RESULT = 2 };

int checkpoint_write(struct db_tx *tx, const struct step_job *job, const struct step_last *last,
                     const struct tend_attempt_end *ended)
{
    const char *diff_hash = handle_clean_text(db_arena(tx), ended->diff_hash);
    const struct checkpoint_put_params whole = {
        .job_id = db_int(job->id),
        .step_index = db_int(last->step_index),
        .step_id = db_text(last->step_id),
        .number = db_int(last->number),
        .now = db_now(tx),
        .diff_hash = db_text(diff_hash),
        .changed_files = db_text(ended->changed_files),
        .outputs = db_text(ended->outputs),
        .patch = db_bytes(ended->patch, ended->patch_bytes),
    };
    int rc = ended->with_edits ? edit_done(tx, job->id) : 0;
    if (rc < 0 || job->staged == 0)
        return rc < 0 ? rc : each_checkpoint_put(tx, DB_LATER, &whole, 1, NULL);
    const struct checkpoint_remove_params place = {.job_id = whole.job_id,
                                                   .step_index = whole.step_index};
    const struct checkpoint_adopt_params rest = {.job_id = whole.job_id,
                                                 .step_index = whole.step_index,
                                                 .step_id = whole.step_id,
                                                 .number = whole.number,
                                                 .now = whole.now,
                                                 .diff_hash = whole.diff_hash,
                                                 .staged_id = db_int(job->staged)};
    rc = each_checkpoint_remove(tx, DB_LATER, &place, 1, NULL);
    return rc < 0 ? rc : each_checkpoint_adopt(tx, DB_LATER, &rest, 1, NULL);
}

static size_t bytes_of(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

bool checkpoint_stages(const struct db_tx *tx, const struct tend_attempt_end *ended,
                       const struct tend_step_close *close)
{
    size_t bytes = close == NULL ? 0 : bytes_of(close->result);
    if (close != NULL && close->changes != NULL)
        bytes += close->changes->patch_bytes;
    if (ended != NULL && ended->state == TEND_ATTEMPT_SUCCEEDED)
        bytes += (ended->patch == NULL ? 0 : ended->patch_bytes) + bytes_of(ended->outputs) +
                 bytes_of(ended->changed_files);
    return db_concurrent(tx) && bytes > STAGE_BYTES;
}

int checkpoint_stage(struct db_tx *tx, int64_t staged, const struct tend_attempt_end *ended,
                     const struct tend_step_close *close)
{
    const char *result = close == NULL ? NULL : close->result;
    int rc = 0;
    if (close != NULL && close->changes != NULL &&
        (rc = keep_stage(tx, staged, close->changes)) < 0)
        return rc;
    if (ended != NULL && ended->state == TEND_ATTEMPT_SUCCEEDED) {
        const struct checkpoint_stage_params parts = {
            .job_id = db_int(staged),
            .step_index = db_int(STAGED_CHECKPOINT),
            .changed_files = db_text(ended->changed_files),
            .outputs = db_text(ended->outputs),
            .patch = db_bytes(ended->patch, ended->patch_bytes)};
        rc = each_checkpoint_stage(tx, DB_LATER, &parts, 1, NULL);
    }
    const struct checkpoint_stage_params part = {
        .job_id = db_int(staged), .step_index = db_int(STAGED_RESULT), .outputs = db_text(result)};
    return rc < 0 || result == NULL ? rc : each_checkpoint_stage(tx, DB_LATER, &part, 1, NULL);
}

int checkpoint_result(struct db_tx *tx, const struct step_job *job)
{
    const struct checkpoint_result_params params = {.id = db_int(job->id),
                                                    .staged_id = db_int(job->staged)};
    return each_checkpoint_result(tx, DB_LATER, &params, 1, NULL);
}

int checkpoint_unstage(struct db_tx *tx, int64_t staged, unsigned how)
{
    const struct checkpoint_unstage_params params = {.job_id = db_int(staged)};
    int rc = keep_unstage(tx, staged);
    return rc < 0 ? rc : each_checkpoint_unstage(tx, how, &params, 1, NULL);
}

int checkpoint_baseline(struct db_tx *tx, int64_t job_id, const char *repo, const char *commit)
{
    const struct checkpoint_baseline_params params = {
        .job_id = db_int(job_id),
        .now = db_now(tx),
        .repo = db_text(handle_clean_text(db_arena(tx), repo)),
        .commit_id = db_text(handle_clean_text(db_arena(tx), commit))};
    return each_checkpoint_baseline(tx, DB_LATER, &params, 1, NULL);
}

int checkpoint_drop(struct db_tx *tx, int64_t job_id, int64_t from_step)
{
    const struct checkpoint_drop_params params = {.job_id = db_int(job_id),
                                                  .from_step = db_int(from_step)};
    int rc = edit_drop(tx, job_id, from_step);
    return rc < 0 ? rc : each_checkpoint_drop(tx, DB_LATER, &params, 1, NULL);
}

int checkpoint_copy(struct db_tx *tx, int64_t to_job, int64_t from_job, int64_t before_step)
{
    const struct checkpoint_copy_params params = {
        .job_id = db_int(to_job), .from_id = db_int(from_job), .before_step = db_int(before_step)};
    return each_checkpoint_copy(tx, DB_LATER, &params, 1, NULL);
}

/* --- reading --- */

struct checkpoints_box {
    struct tend_checkpoints checkpoints; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_checkpoints_free(struct tend_checkpoints *checkpoints)
{
    struct checkpoints_box *box = (struct checkpoints_box *)checkpoints;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct list_call {
    struct checkpoints_box *box;
    int64_t job_id;
};

static struct tend_checkpoint read_checkpoint(const struct checkpoint_list_row *row)
{
    return (struct tend_checkpoint){
        .step_index = db_num(row->step_index),
        .step_id = db_str(row->step_id),
        .number = db_num(row->number),
        .at_ms = db_num(row->at),
        .diff_hash = db_str(row->diff_hash),
        .changed_files = db_str(row->changed_files),
        .outputs = db_str(row->outputs),
        .repo = db_str(row->repo),
        .commit = db_str(row->commit_id),
        .patch_bytes = db_num(row->patch_bytes),
    };
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct checkpoint_list_rows rows;
    const struct checkpoint_list_params params = {.job_id = db_int(call->job_id)};
    int rc = run_checkpoint_list(tx, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    struct tend_checkpoint *items = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading checkpoints");
    for (size_t i = 0; i < rows.count; i++)
        items[i] = read_checkpoint(&rows.at[i]);
    call->box->checkpoints = (struct tend_checkpoints){.count = rows.count, .items = items};
    return 0;
}

int tend_checkpoints(tend *t, int64_t job_id, struct tend_checkpoints **ret)
{
    struct list_call call = {.box = calloc(1, sizeof *call.box), .job_id = job_id};
    if (call.box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading checkpoints");
    arena_init(&call.box->arena);
    int rc = db_read(t->db, &call.box->arena, list_body, &call, handle_err(t));
    if (rc < 0)
        tend_checkpoints_free(&call.box->checkpoints);
    else
        *ret = &call.box->checkpoints;
    return rc;
}

/* --- patches --- */

struct patch_box {
    struct tend_patch patch; /* first, as above */
    struct arena arena;
};

void tend_patch_free(struct tend_patch *patch)
{
    struct patch_box *box = (struct patch_box *)patch;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

/* The queries that find a patch have the same parameters and columns: job, number, patch. */
_Static_assert(sizeof(struct checkpoint_patch_params) == sizeof(struct keep_patch_params) &&
                   sizeof(struct checkpoint_patch_row) == sizeof(struct keep_patch_row),
               "patches are found the same way");

struct patch_call {
    struct patch_box *box;
    enum db_query query;
    int64_t job_id, number;
    const char *what;
};

static int patch_body(struct db_tx *tx, void *arg)
{
    struct patch_call *call = arg;
    struct keep_patch_rows rows;
    const struct keep_patch_params params = {.job_id = db_int(call->job_id),
                                             .number = db_int(call->number)};
    int rc = db_run(tx, call->query, DB_LAST, DB_VALUES(&params), &rows.result);
    if (rc < 0)
        return rc;
    if (rows.count == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND, "job %lld has no %s %lld",
                       (long long)call->job_id, call->what, (long long)call->number);
    const struct db_value *patch = &rows.at[0].patch;
    call->box->patch = (struct tend_patch){0};
    if (patch->type == DB_BYTES)
        call->box->patch = (struct tend_patch){.data = patch->text, .bytes = patch->bytes};
    return 0;
}

int patch_read(tend *t, enum db_query query, int64_t job_id, int64_t number, const char *what,
               struct tend_patch **ret)
{
    struct patch_call call = {.box = calloc(1, sizeof *call.box),
                              .query = query,
                              .job_id = job_id,
                              .number = number,
                              .what = what};
    if (call.box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading a patch");
    arena_init(&call.box->arena);
    int rc = db_read(t->db, &call.box->arena, patch_body, &call, handle_err(t));
    if (rc < 0)
        tend_patch_free(&call.box->patch);
    else
        *ret = &call.box->patch;
    return rc;
}

int tend_checkpoint_patch(tend *t, int64_t job_id, int64_t step_index, struct tend_patch **ret)
{
    return patch_read(t, Q_CHECKPOINT_PATCH, job_id, step_index, "checkpoint of step", ret);
}
