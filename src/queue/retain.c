#include "queue/retain.h"

#include "core/state.h"
#include "queue/settings.h"

enum { PURGE_CHUNK = 500 };

struct purge_call {
    int64_t deleted;
    bool more;
};

static int delete_jobs(struct db_tx *tx, const struct db_result *ids, int64_t *deleted)
{
    struct db_value *params = arena_alloc(db_arena(tx), (ids->rows + 1) * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while deleting old jobs");
    for (size_t i = 0; i < ids->rows; i++)
        params[i] = *db_at(ids, i, 0);
    *deleted += (int64_t)ids->rows;
    /* What hangs on a job goes if the job has gone: one that was redriven meanwhile keeps all. */
    static const enum db_query deletes[] = {Q_JOB_DELETE,     Q_STEP_TOTALS_KEEP,
                                            Q_ATTEMPT_DELETE, Q_CHECKPOINT_DELETE,
                                            Q_OUTPUT_DELETE,  Q_CONTROL_DELETE};
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < sizeof deletes / sizeof *deletes; i++)
        rc = db_each(tx, deletes[i], DB_LATER, params, ids->rows, NULL);
    return rc;
}

/* Finished jobs of one queue and state that are older than keep_ms; PURGE_CHUNK at most. */
static int purge_queue(struct db_tx *tx, struct purge_call *call, const char *queue, int state,
                       int64_t keep_ms, int64_t now_ms)
{
    struct db_result ids;
    if (keep_ms == TEND_UNSET)
        return 0;
    const struct db_value params[] = {db_text(queue), db_int(state), db_int(now_ms - keep_ms),
                                      db_int(PURGE_CHUNK)};
    int rc = db_run(tx, Q_JOB_EXPIRED_FINISHED, 0, params, &ids);
    if (rc < 0)
        return rc;
    call->more |= ids.rows == PURGE_CHUNK;
    return delete_jobs(tx, &ids, &call->deleted);
}

static int purge_body(struct db_tx *tx, void *arg)
{
    struct purge_call *call = arg;
    struct db_result queues;
    int64_t now_ms;
    int rc;
    *call = (struct purge_call){0};
    if ((rc = db_each(tx, Q_CONTROL_SETTLE, 0, NULL, 1, NULL)) < 0 ||
        (rc = db_time(tx, &now_ms)) < 0 ||
        (rc = db_run(tx, Q_QUEUE_NAMES_RESTING, 0, NULL, &queues)) < 0)
        return rc;
    for (size_t i = 0; i < queues.rows; i++) {
        const char *name = db_string(&queues, i, 0);
        struct queue_settings settings;
        if ((rc = settings_load(tx, name, false, &settings)) < 0)
            return rc;
        const struct tend_queue *queue = &settings.queue;
        if ((rc = purge_queue(tx, call, name, JOB_DONE, queue->keep_done_ms, now_ms)) < 0 ||
            (rc = purge_queue(tx, call, name, JOB_CANCELLED, queue->keep_done_ms, now_ms)) < 0 ||
            (rc = purge_queue(tx, call, name, JOB_FAILED, queue->keep_failed_ms, now_ms)) < 0)
            return rc;
    }
    const struct db_value events[] = {db_int(now_ms - EVENTS_KEPT_MS), db_int(PURGE_CHUNK)};
    struct db_result gone;
    rc = db_run(tx, Q_EVENT_PURGE, 0, events, &gone);
    call->more |= rc >= 0 && gone.rows == PURGE_CHUNK;
    return rc;
}

int tend_purge(tend *t, int64_t *ret_count)
{
    struct purge_call call = {0};
    int64_t deleted = 0;
    do {
        int rc = handle_write(t, purge_body, &call);
        if (rc < 0)
            return rc;
        deleted += call.deleted;
    } while (call.more);
    if (ret_count != NULL)
        *ret_count = deleted;
    return 0;
}
