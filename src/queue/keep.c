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
    const struct db_value params[] = {db_int(job_id),
                                      db_int(number),
                                      db_now(tx),
                                      db_text(changes->changed_files),
                                      db_int(changes->dropped_bytes),
                                      db_bytes(changes->patch, changes->patch_bytes)};
    return db_each(tx, Q_KEEP_PATCH_ADD, DB_LATER, params, 1, NULL);
}

int keep_stage(struct db_tx *tx, int64_t staged, const struct tend_changes *changes)
{
    return add_patch(tx, staged, STAGED_NUMBER, changes);
}

int keep_unstage(struct db_tx *tx, int64_t staged)
{
    const struct db_value params[] = {db_int(staged)};
    return db_each(tx, Q_KEEP_PATCH_UNSTAGE, DB_LATER, params, 1, NULL);
}

static int write_patch(struct db_tx *tx, const struct step_job *job, int64_t number,
                       const struct tend_changes *changes)
{
    const struct db_value staged[] = {db_int(job->id), db_int(number), db_int(job->staged)};
    const struct db_value most[] = {db_int(job->id), db_int(KEEP_FAILED_MOST)};
    int rc = job->staged != 0 ? db_each(tx, Q_KEEP_PATCH_ADOPT, DB_LATER, staged, 1, NULL)
                              : add_patch(tx, job->id, number, changes);
    return rc < 0 ? rc : db_each(tx, Q_KEEP_PATCH_TRIM, DB_LATER, most, 1, NULL);
}

int keep_write(struct db_tx *tx, const struct step_job *job, const struct step_last *last,
               const struct tend_step_close *close)
{
    int rc = 0;
    if (last->number == 0 || last->token != job->token)
        return 0;
    const struct db_value params[] = {db_int(job->id), db_int(last->number),
                                      db_text(handle_clean_text(db_arena(tx), close->workspace))};
    if (close->workspace != NULL)
        rc = db_each(tx, Q_KEEP_WORKSPACE, DB_LATER, params, 1, NULL);
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

/* The order of keep_list in sql/keep.sql. */
enum keep_column {
    COL_NUMBER,
    COL_STEP_INDEX,
    COL_STEP_ID,
    COL_STATE,
    COL_TOKEN,
    COL_ENDED_AT,
    COL_HOST,
    COL_WORKSPACE,
    COL_CHANGED_FILES,
    COL_DROPPED_BYTES,
    COL_PATCH_BYTES,
    COL_JOB_STATE,
    COL_JOB_STOPPED_TOKEN,
    COL_JOB_CHANGED_AT,
    COL_JOB_QUEUE
};

struct list_call {
    struct keeps_box *box;
    int64_t job_id;
};

static void read_keep(struct tend_keep *keep, const struct db_result *from, size_t row)
{
    *keep = (struct tend_keep){
        .number = db_number(from, row, COL_NUMBER),
        .step_index = db_number(from, row, COL_STEP_INDEX),
        .step_id = db_string(from, row, COL_STEP_ID),
        .state = (int)db_number(from, row, COL_STATE),
        .ended_at_ms = db_number(from, row, COL_ENDED_AT),
        .host = db_string(from, row, COL_HOST),
        .workspace = db_string(from, row, COL_WORKSPACE),
        .until_ms = TEND_UNSET,
        .patch_bytes = db_number(from, row, COL_PATCH_BYTES),
        .dropped_bytes = db_number(from, row, COL_DROPPED_BYTES),
        .changed_files = db_string(from, row, COL_CHANGED_FILES),
    };
}

enum keep_why keep_why_of_attempt(int state)
{
    bool lost = state == TEND_ATTEMPT_LOST || state == TEND_ATTEMPT_RUNNING;
    return state == TEND_ATTEMPT_FAILED || lost ? KEEP_FAILED : KEEP_TAKEN_OVER;
}

/* Until when the folder is there, by the same rules by which it is removed. */
static void read_until(struct tend_keep *keep, const struct db_result *from, size_t row,
                       int64_t keep_ms, int64_t now_ms)
{
    enum keep_why why = keep_why_of_attempt(keep->state);
    const struct keep_job job = {.known = true,
                                 .state = (int)db_number(from, row, COL_JOB_STATE),
                                 .stopped_token = db_number(from, row, COL_JOB_STOPPED_TOKEN),
                                 .changed_at_ms = db_number(from, row, COL_JOB_CHANGED_AT),
                                 .keep_ms = keep_ms == TEND_UNSET ? -1 : keep_ms};
    const struct keep_lease lease = {
        .token = db_number(from, row, COL_TOKEN), .why = why, .failed_at_ms = keep->ended_at_ms};
    int64_t until_ms = keep_until(&job, &lease);
    keep->there = now_ms < until_ms;
    keep->until_ms = until_ms == INT64_MAX ? TEND_UNSET : until_ms;
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct list_call *call = arg;
    struct queue_settings settings;
    struct db_result rows;
    int64_t now_ms = 0;
    size_t failed = 0;
    const struct db_value params[] = {db_int(call->job_id)};
    int rc = db_run(tx, Q_KEEP_LIST, 0, params, &rows);
    if (rc < 0)
        return rc;
    struct tend_keep *items = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading what is kept");
    if (rows.rows > 0 &&
        ((rc = settings_load(tx, db_string(&rows, 0, COL_JOB_QUEUE), false, &settings)) < 0 ||
         (rc = db_time(tx, &now_ms)) < 0))
        return rc;
    for (size_t i = rows.rows; i-- > 0;) { /* the newest first: only so many are kept */
        read_keep(&items[i], &rows, i);
        if (items[i].workspace == NULL)
            continue;
        read_until(&items[i], &rows, i, settings.queue.keep_workspace_ms, now_ms);
        if (keep_why_of_attempt(items[i].state) == KEEP_FAILED && ++failed > KEEP_FAILED_MOST)
            items[i].there = 0;
    }
    call->box->keeps = (struct tend_keeps){.count = rows.rows, .items = items};
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
