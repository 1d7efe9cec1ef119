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
    const struct db_value place[] = {db_int(job->id), db_int(last->step_index)};
    const struct db_value whole[] = {
        place[0],
        place[1],
        db_text(last->step_id),
        db_int(last->number),
        db_now(tx),
        db_text(diff_hash),
        db_text(ended->changed_files),
        db_text(ended->outputs),
        db_bytes(ended->patch, ended->patch_bytes),
    };
    int rc = ended->with_edits ? edit_done(tx, job->id) : 0;
    if (rc < 0 || job->staged == 0)
        return rc < 0 ? rc : db_each(tx, Q_CHECKPOINT_PUT, DB_LATER, whole, 1, NULL);
    const struct db_value rest[] = {whole[0], whole[1], whole[2],           whole[3],
                                    whole[4], whole[5], db_int(job->staged)};
    rc = db_each(tx, Q_CHECKPOINT_REMOVE, DB_LATER, place, 1, NULL);
    return rc < 0 ? rc : db_each(tx, Q_CHECKPOINT_ADOPT, DB_LATER, rest, 1, NULL);
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
        const struct db_value parts[] = {db_int(staged), db_int(STAGED_CHECKPOINT),
                                         db_text(ended->changed_files), db_text(ended->outputs),
                                         db_bytes(ended->patch, ended->patch_bytes)};
        rc = db_each(tx, Q_CHECKPOINT_STAGE, DB_LATER, parts, 1, NULL);
    }
    const struct db_value parts[] = {db_int(staged), db_int(STAGED_RESULT), db_null(),
                                     db_text(result), db_null()};
    return rc < 0 || result == NULL ? rc
                                    : db_each(tx, Q_CHECKPOINT_STAGE, DB_LATER, parts, 1, NULL);
}

int checkpoint_result(struct db_tx *tx, const struct step_job *job)
{
    const struct db_value params[] = {db_int(job->id), db_int(job->staged)};
    return db_each(tx, Q_CHECKPOINT_RESULT, DB_LATER, params, 1, NULL);
}

int checkpoint_unstage(struct db_tx *tx, int64_t staged, unsigned how)
{
    const struct db_value params[] = {db_int(staged)};
    int rc = keep_unstage(tx, staged);
    return rc < 0 ? rc : db_each(tx, Q_CHECKPOINT_UNSTAGE, how, params, 1, NULL);
}

int checkpoint_baseline(struct db_tx *tx, int64_t job_id, const char *repo, const char *commit)
{
    const struct db_value params[] = {db_int(job_id), db_now(tx),
                                      db_text(handle_clean_text(db_arena(tx), repo)),
                                      db_text(handle_clean_text(db_arena(tx), commit))};
    return db_each(tx, Q_CHECKPOINT_BASELINE, DB_LATER, params, 1, NULL);
}

int checkpoint_drop(struct db_tx *tx, int64_t job_id, int64_t from_step)
{
    const struct db_value params[] = {db_int(job_id), db_int(from_step)};
    int rc = edit_drop(tx, job_id, from_step);
    return rc < 0 ? rc : db_each(tx, Q_CHECKPOINT_DROP, DB_LATER, params, 1, NULL);
}

int checkpoint_copy(struct db_tx *tx, int64_t to_job, int64_t from_job, int64_t before_step)
{
    const struct db_value params[] = {db_int(to_job), db_int(from_job), db_int(before_step)};
    return db_each(tx, Q_CHECKPOINT_COPY, DB_LATER, params, 1, NULL);
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

static int list_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct db_result rows;
    const struct db_value params[] = {db_int(call->job_id)};
    int rc = db_run(tx, Q_CHECKPOINT_LIST, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    struct tend_checkpoint *items = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading checkpoints");
    for (size_t i = 0; i < rows.rows; i++)
        items[i] = (struct tend_checkpoint){
            .step_index = db_number(&rows, i, 0),
            .step_id = db_string(&rows, i, 1),
            .number = db_number(&rows, i, 2),
            .at_ms = db_number(&rows, i, 3),
            .diff_hash = db_string(&rows, i, 4),
            .changed_files = db_string(&rows, i, 5),
            .outputs = db_string(&rows, i, 6),
            .repo = db_string(&rows, i, 7),
            .commit = db_string(&rows, i, 8),
            .patch_bytes = db_number(&rows, i, 9),
        };
    call->box->checkpoints = (struct tend_checkpoints){.count = rows.rows, .items = items};
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

struct patch_call {
    struct patch_box *box;
    enum db_query query;
    int64_t job_id, number;
    const char *what;
};

static int patch_body(struct db_tx *tx, void *arg)
{
    struct patch_call *call = arg;
    struct db_result rows;
    const struct db_value params[] = {db_int(call->job_id), db_int(call->number)};
    int rc = db_run(tx, call->query, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    if (rows.rows == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND, "job %lld has no %s %lld",
                       (long long)call->job_id, call->what, (long long)call->number);
    const struct db_value *patch = db_at(&rows, 0, 0);
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
