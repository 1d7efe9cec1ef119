#include "queue/retain.h"

#include "base/clock.h"
#include "core/state.h"
#include "queue/settings.h"

#include <string.h>

enum {
    PURGE_CHUNK = 500,
    PURGE_EVERY_MS = 600000,
    /* A worker deletes for a tenth of its time at most while there is more to delete. */
    PURGE_AT_ONCE_MS = 100,
    PURGE_REST_MS = 900,
};

/* Events older than this go; those of jobs that are kept longer go too. */
#define EVENTS_KEPT_MS (30LL * 24 * 3600 * 1000)

struct purge_call {
    struct tend_purged gone;
    bool more;
    struct db_value *ids; /* of the jobs that go */
    size_t count, room;
};

/* What its retention says about the finished jobs of a queue: those of a state go after keep_ms. */
struct rule {
    const char *queue;
    int state;
    int64_t keep_ms; /* TEND_UNSET: never */
};

/* Calls use for every rule of every queue with finished jobs. */
static int each_rule(struct db_tx *tx, void *arg,
                     int (*use)(struct db_tx *tx, void *arg, const struct rule *rule))
{
    struct db_result queues;
    int rc = db_run(tx, Q_QUEUE_NAMES_RESTING, 0, NULL, &queues);
    for (size_t i = 0; rc >= 0 && i < queues.rows; i++) {
        const char *name = db_string(&queues, i, 0);
        struct queue_settings settings;
        if ((rc = settings_load(tx, name, false, &settings)) < 0)
            return rc;
        const struct tend_queue *queue = &settings.queue;
        const struct rule rules[] = {{name, JOB_DONE, queue->keep_done_ms},
                                     {name, JOB_CANCELLED, queue->keep_done_ms},
                                     {name, JOB_FAILED, queue->keep_failed_ms}};
        for (size_t k = 0; rc >= 0 && k < sizeof rules / sizeof *rules; k++)
            if (rules[k].keep_ms != TEND_UNSET)
                rc = use(tx, arg, &rules[k]);
    }
    return rc;
}

static int note_jobs(struct db_tx *tx, struct purge_call *call, const struct db_result *ids)
{
    if (call->count + ids->rows > call->room) {
        size_t room = 2 * (call->count + ids->rows);
        struct db_value *more = arena_alloc(db_arena(tx), room * sizeof *more);
        if (more == NULL)
            return err_set(db_err(tx), TEND_ENOMEM, "out of memory while deleting old jobs");
        if (call->count > 0)
            memcpy(more, call->ids, call->count * sizeof *more);
        call->ids = more;
        call->room = room;
    }
    for (size_t i = 0; i < ids->rows; i++)
        call->ids[call->count++] = *db_at(ids, i, 0);
    return 0;
}

/*
 * Those of all rules at once: each statement goes by an order of its own, by job or by total, so
 * two who clean up never have what the other waits for. A statement run again for the next rule
 * would begin that order anew.
 */
static int delete_jobs(struct db_tx *tx, struct purge_call *call)
{
    /* What hangs on a job goes if the job has gone: one that was redriven meanwhile keeps all. */
    static const enum db_query deletes[] = {Q_JOB_DELETE,     Q_STEP_TOTALS_KEEP,
                                            Q_ATTEMPT_DELETE, Q_CHECKPOINT_DELETE,
                                            Q_OUTPUT_DELETE,  Q_CONTROL_DELETE};
    int rc = 0;
    call->gone.jobs = (int64_t)call->count;
    for (size_t i = 0; call->count > 0 && rc >= 0 && i < sizeof deletes / sizeof *deletes; i++)
        rc = db_each(tx, deletes[i], DB_LATER, call->ids, call->count, NULL);
    return rc;
}

/* PURGE_CHUNK at most. On PostgreSQL they are locked, and those that others have locked left out.
 */
static int collect_by_rule(struct db_tx *tx, void *arg, const struct rule *rule)
{
    struct purge_call *call = arg;
    struct db_result ids;
    int64_t now_ms;
    int rc = db_time(tx, &now_ms);
    if (rc < 0)
        return rc;
    const struct db_value params[] = {db_text(rule->queue), db_int(rule->state),
                                      db_int(now_ms - rule->keep_ms), db_int(PURGE_CHUNK)};
    if ((rc = db_run(tx, Q_JOB_EXPIRED_FINISHED, 0, params, &ids)) < 0)
        return rc;
    call->more |= ids.rows == PURGE_CHUNK;
    return note_jobs(tx, call, &ids);
}

static int purge_body(struct db_tx *tx, void *arg)
{
    struct purge_call *call = arg;
    struct db_result events;
    int64_t now_ms;
    int rc;
    *call = (struct purge_call){0};
    if ((rc = each_rule(tx, call, collect_by_rule)) < 0 || (rc = delete_jobs(tx, call)) < 0 ||
        (rc = db_each(tx, Q_CONTROL_SETTLE, 0, NULL, 1, NULL)) < 0 ||
        (rc = db_time(tx, &now_ms)) < 0)
        return rc;
    const struct db_value params[] = {db_int(now_ms - EVENTS_KEPT_MS), db_int(PURGE_CHUNK)};
    if ((rc = db_run(tx, Q_EVENT_PURGE, 0, params, &events)) < 0)
        return rc;
    call->gone.events = (int64_t)events.rows;
    call->more |= events.rows == PURGE_CHUNK;
    return rc;
}

/* Deletes until nothing is left to delete or the time has come (monotonic); adds up into ret. */
static int purge_until(tend *t, int64_t until_ms, int64_t wait_ms, struct tend_purged *ret,
                       bool *ret_more)
{
    struct purge_call call = {0};
    do {
        int rc = handle_write_within(t, wait_ms, purge_body, &call);
        if (rc < 0)
            return rc;
        ret->jobs += call.gone.jobs;
        ret->events += call.gone.events;
    } while (call.more && clock_mono_ms() < until_ms);
    *ret_more = call.more;
    return 0;
}

int tend_purge(tend *t, struct tend_purged *ret)
{
    struct tend_purged gone = {0};
    bool more;
    int rc = purge_until(t, INT64_MAX, -1, &gone, &more);
    if (rc == 0 && ret != NULL)
        *ret = gone;
    return rc;
}

void retain_on_timer(tend *t, int64_t wait_ms)
{
    int64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&t->mutex);
    bool due = now_ms >= t->purge_next_ms;
    if (due)
        t->purge_next_ms = now_ms + PURGE_EVERY_MS;
    pthread_mutex_unlock(&t->mutex);
    if (!due)
        return;
    struct tend_purged gone = {0};
    bool more = false;
    if (purge_until(t, now_ms + PURGE_AT_ONCE_MS, wait_ms, &gone, &more) < 0)
        handle_log(t, "retention failed: %s", handle_err(t)->text);
    if (!more)
        return;
    pthread_mutex_lock(&t->mutex);
    t->purge_next_ms = clock_mono_ms() + PURGE_REST_MS;
    pthread_mutex_unlock(&t->mutex);
}

/* --- only looking --- */

static int count_by_rule(struct db_tx *tx, void *arg, const struct rule *rule)
{
    struct tend_purged *ret = arg;
    struct db_result count;
    int64_t now_ms;
    int rc = db_time(tx, &now_ms);
    if (rc < 0)
        return rc;
    const struct db_value params[] = {db_text(rule->queue), db_int(rule->state),
                                      db_int(now_ms - rule->keep_ms)};
    if ((rc = db_run(tx, Q_JOB_EXPIRED_COUNT, 0, params, &count)) < 0)
        return rc;
    ret->jobs += db_number(&count, 0, 0);
    return 0;
}

static int count_body(struct db_tx *tx, void *arg)
{
    struct tend_purged *ret = arg;
    struct db_result count;
    int64_t now_ms;
    int rc;
    *ret = (struct tend_purged){0};
    if ((rc = each_rule(tx, ret, count_by_rule)) < 0 || (rc = db_time(tx, &now_ms)) < 0)
        return rc;
    const struct db_value params[] = {db_int(now_ms - EVENTS_KEPT_MS)};
    if ((rc = db_run(tx, Q_EVENT_PURGE_COUNT, 0, params, &count)) < 0)
        return rc;
    ret->events = db_number(&count, 0, 0);
    return 0;
}

int tend_purge_count(tend *t, struct tend_purged *ret)
{
    return handle_read(t, count_body, ret);
}
