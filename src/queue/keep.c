/*
 * What is kept of attempts for people: where the workspace is, and what an attempt that gave its
 * job up had changed. Nothing here is ever used to go on with a job: that is what checkpoints are
 * for, which are whole and not redacted.
 */
#include "queue/keep.h"

#include "core/state.h"
#include "queue/checkpoint.h"
#include "queue/settings.h"

#include <stdlib.h>

enum { STAGED_NUMBER = 1 };

static int add_patch(struct db_tx *tx, int64_t job_id, int64_t number,
                     const struct tend_changes *changes)
{
    const struct keep_patch_add_params params = {
        .job_id = db_int(job_id),
        .number = db_int(number),
        .now = db_now(tx),
        .changed_files = db_text(changes->changed_files),
        .dropped_bytes = db_int(changes->dropped_bytes),
        .patch = db_bytes(changes->patch, changes->patch_bytes)};
    return each_keep_patch_add(tx, DB_LATER, &params, 1, NULL);
}

int keep_stage(struct db_tx *tx, int64_t staged, const struct tend_changes *changes)
{
    return add_patch(tx, staged, STAGED_NUMBER, changes);
}

int keep_unstage(struct db_tx *tx, int64_t staged)
{
    const struct keep_patch_unstage_params params = {.job_id = db_int(staged)};
    return each_keep_patch_unstage(tx, DB_LATER, &params, 1, NULL);
}

static int write_patch(struct db_tx *tx, const struct step_job *job, int64_t number,
                       const struct tend_changes *changes)
{
    const struct keep_patch_adopt_params staged = {
        .job_id = db_int(job->id), .number = db_int(number), .staged_id = db_int(job->staged)};
    const struct keep_patch_trim_params most = {.job_id = db_int(job->id),
                                                .kept = db_int(KEEP_FAILED_MOST)};
    int rc = job->staged != 0 ? each_keep_patch_adopt(tx, DB_LATER, &staged, 1, NULL)
                              : add_patch(tx, job->id, number, changes);
    return rc < 0 ? rc : each_keep_patch_trim(tx, DB_LATER, &most, 1, NULL);
}

int keep_write(struct db_tx *tx, const struct step_job *job, const struct step_last *last,
               const struct tend_step_close *close)
{
    int rc = 0;
    if (last->number == 0 || last->token != job->token)
        return 0;
    const struct keep_workspace_params params = {
        .job_id = db_int(job->id),
        .number = db_int(last->number),
        .workspace = db_text(handle_clean_text(db_arena(tx), close->workspace))};
    if (close->workspace != NULL)
        rc = each_keep_workspace(tx, DB_LATER, &params, 1, NULL);
    return rc < 0 || close->changes == NULL ? rc
                                            : write_patch(tx, job, last->number, close->changes);
}

/* --- reading --- */

struct keeps_box {
    struct tend_keeps keeps; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_keeps_free(struct tend_keeps *keeps)
{
    struct keeps_box *box = (struct keeps_box *)keeps;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct list_call {
    struct keeps_box *box;
    int64_t job_id;
};

static void read_keep(struct tend_keep *keep, const struct keep_list_row *row)
{
    *keep = (struct tend_keep){
        .number = db_num(row->number),
        .step_index = db_num(row->step_index),
        .step_id = db_str(row->step_id),
        .state = (int)db_num(row->state),
        .ended_at_ms = db_num(row->ended_at),
        .host = db_str(row->host),
        .workspace = db_str(row->workspace),
        .until_ms = TEND_UNSET,
        .patch_bytes = db_num(row->patch_bytes),
        .dropped_bytes = db_num(row->dropped_bytes),
        .changed_files = db_str(row->changed_files),
    };
}

enum keep_why keep_why_of_attempt(int state)
{
    bool lost = state == TEND_ATTEMPT_LOST || state == TEND_ATTEMPT_RUNNING;
    return state == TEND_ATTEMPT_FAILED || lost ? KEEP_FAILED : KEEP_TAKEN_OVER;
}

/* Until when the folder is there, by the same rules by which it is removed. */
static void read_until(struct tend_keep *keep, const struct keep_list_row *row, int64_t keep_ms,
                       int64_t now_ms)
{
    enum keep_why why = keep_why_of_attempt(keep->state);
    const struct keep_job job = {.known = true,
                                 .state = (int)db_num(row->job_state),
                                 .stopped_token = db_num(row->stopped_token),
                                 .changed_at_ms = db_num(row->changed_at),
                                 .keep_ms = keep_ms == TEND_UNSET ? -1 : keep_ms};
    const struct keep_lease lease = {
        .token = db_num(row->token), .why = why, .failed_at_ms = keep->ended_at_ms};
    int64_t until_ms = keep_until(&job, &lease);
    keep->there = now_ms < until_ms;
    keep->until_ms = until_ms == INT64_MAX ? TEND_UNSET : until_ms;
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct queue_settings settings;
    struct keep_list_rows rows;
    int64_t now_ms = 0;
    size_t failed = 0;
    const struct keep_list_params params = {.job_id = db_int(call->job_id)};
    int rc = run_keep_list(tx, 0, params, &rows);
    if (rc < 0)
        return rc;
    struct tend_keep *items = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading what is kept");
    if (rows.count > 0 &&
        ((rc = settings_load(tx, db_str(rows.at[0].queue), false, &settings)) < 0 ||
         (rc = db_time(tx, &now_ms)) < 0))
        return rc;
    for (size_t i = rows.count; i-- > 0;) { /* the newest first: only so many are kept */
        read_keep(&items[i], &rows.at[i]);
        if (items[i].workspace == NULL)
            continue;
        read_until(&items[i], &rows.at[i], settings.queue.keep_workspace_ms, now_ms);
        if (keep_why_of_attempt(items[i].state) == KEEP_FAILED && ++failed > KEEP_FAILED_MOST)
            items[i].there = 0;
    }
    call->box->keeps = (struct tend_keeps){.count = rows.count, .items = items};
    return 0;
}

int tend_keeps(tend *t, int64_t job_id, struct tend_keeps **ret)
{
    struct list_call call = {.box = calloc(1, sizeof *call.box), .job_id = job_id};
    if (call.box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading what is kept");
    arena_init(&call.box->arena);
    int rc = db_read(t->db, &call.box->arena, list_body, &call, handle_err(t));
    if (rc < 0)
        tend_keeps_free(&call.box->keeps);
    else
        *ret = &call.box->keeps;
    return rc;
}

int tend_keep_patch(tend *t, int64_t job_id, int64_t number, struct tend_patch **ret)
{
    return patch_read(t, Q_KEEP_PATCH, job_id, number, "kept patch of attempt", ret);
}
