/* What a queue lets go on: paused, locked, limited, or first come, first served. */
#include "base/text.h"
#include "queue/explain.h"
#include "queue/settings.h"
#include "store/queries.h"

#include <string.h>

static int count_ahead(struct db_tx *tx, const struct tend_job *job, int64_t *ret)
{
    struct job_ahead_rows ahead;
    const struct job_ahead_params params = {.queue = db_text(job->queue),
                                            .priority = db_int(job->priority),
                                            .due_at = db_int(job->due_at_ms),
                                            .id = db_int(job->id),
                                            .now = db_now(tx)};
    int rc = run_job_ahead(tx, 0, params, &ahead);
    if (rc == 0)
        *ret = db_num(ahead.at[0].jobs);
    return rc;
}

/* The lock of a serial queue. *ret: it explains the waiting. */
static int explain_lock(struct db_tx *tx, struct explain_call *call, bool *ret)
{
    struct lock_get_rows rows;
    char left[DURATION_TEXT_BYTES];
    const char *name = arena_printf(db_arena(tx), "queue:%s", call->job->queue);
    const struct lock_get_params params = {.name = db_text(name), .now = db_now(tx)};
    int rc = run_lock_get(tx, 0, params, &rows);
    if (rc < 0 || rows.count == 0)
        return rc;
    const struct lock_columns *lock = &rows.at[0].lock;
    int64_t length_ms = db_num(lock->length_ms);
    bool left_alone = db_num(lock->left_alone) == 1;
    int64_t until_ms =
        left_alone ? call->now_ms + length_ms
                   : db_owed_end(&call->owed, db_num(lock->expires_at), call->now_ms, length_ms);
    if (until_ms <= call->now_ms)
        return 0;
    explain_because(call, "lock", db_str(lock->owner), until_ms);
    SAY(call,
        "Its queue takes one job at a time, and %s holds the lock for another %s "
        "unless it is renewed.",
        db_str(lock->owner), explain_left(call, until_ms, left));
    *ret = true;
    return 0;
}

/* The first end of leases, as it is stored; TEND_UNSET also when all of them begin anew, each with
 * a length of its own. */
static int64_t first_end(const struct explain_call *call, struct db_value stored)
{
    int64_t until_ms = db_num(stored);
    return until_ms == TEND_UNSET || call->owed.all_ms > LEASE_MOST_MS
               ? TEND_UNSET
               : until_ms + call->owed.all_ms;
}

/* Jobs that run keep it waiting; one of them may end with its lease. */
static void add_first_end(struct explain_call *call, int64_t until_ms)
{
    char left[DURATION_TEXT_BYTES];
    if (until_ms == TEND_UNSET)
        return;
    if (until_ms <= call->now_ms)
        explain_add(call, " A lease has expired; the next claim takes that job back.");
    else
        explain_add(call,
                    " The next can start when one ends; the first lease ends in %s unless it is "
                    "renewed.",
                    explain_left(call, until_ms, left));
}

static int explain_concurrency(struct db_tx *tx, struct explain_call *call,
                               const struct tend_queue *queue, bool *ret)
{
    struct running_in_queue_rows running;
    const struct running_in_queue_params params = {.queue = db_text(call->job->queue)};
    int rc = run_running_in_queue(tx, 0, params, &running);
    if (rc < 0)
        return rc;
    int64_t count = db_num(running.at[0].jobs);
    if (count < queue->concurrency)
        return 0;
    int64_t until_ms = first_end(call, running.at[0].first_end_at);
    explain_because(call, "concurrency", "", until_ms);
    SAY(call, "Its queue runs %lld job%s, as many as it may at once.", (long long)count,
        plural(count));
    add_first_end(call, until_ms);
    HINT(call, "'tend queue set %s --concurrency N' changes the limit.", call->job->queue);
    *ret = true;
    return 0;
}

static int explain_key_concurrency(struct db_tx *tx, struct explain_call *call,
                                   const struct tend_queue *queue, bool *ret)
{
    struct running_by_key_rows running;
    const char *key = call->job->concurrency_key;
    const struct running_by_key_params params = {.queue = db_text(call->job->queue)};
    int rc = run_running_by_key(tx, 0, params, &running);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < running.count; i++) {
        const struct running_by_key_row *row = &running.at[i];
        int64_t count = db_num(row->jobs);
        if (strcmp(db_str(row->concurrency_key), key) != 0 || count < queue->key_concurrency)
            continue;
        int64_t until_ms = first_end(call, row->first_end_at);
        explain_because(call, "key_concurrency", "", until_ms);
        SAY(call, "%lld %s with its key '%s' %s running, as many as may at once.", (long long)count,
            count == 1 ? "job" : "jobs", key, count == 1 ? "is" : "are");
        add_first_end(call, until_ms);
        *ret = true;
        return 0;
    }
    return 0;
}

static void explain_rate(struct explain_call *call, const struct queue_settings *settings,
                         bool *ret)
{
    struct limit limit = settings_limit(settings, call->now_ms);
    char left[DURATION_TEXT_BYTES];
    if (limit_available(&limit, call->now_ms) > 0)
        return;
    int64_t next_ms = limit_next_ms(&limit, call->now_ms);
    explain_because(call, "rate", "", next_ms);
    SAY(call, "Its queue has used up its rate; the next job is handed out in %s.",
        explain_left(call, next_ms, left));
    *ret = true;
}

/* *ret, which is false: a limit explains the waiting. */
static int explain_limits(struct db_tx *tx, struct explain_call *call,
                          const struct queue_settings *settings, bool *ret)
{
    const struct tend_queue *queue = &settings->queue;
    int rc = 0;
    if (queue->concurrency != TEND_UNSET)
        rc = explain_concurrency(tx, call, queue, ret);
    if (rc == 0 && !*ret && queue->key_concurrency != TEND_UNSET &&
        call->job->concurrency_key != NULL)
        rc = explain_key_concurrency(tx, call, queue, ret);
    if (rc == 0 && !*ret && queue->rate_count != TEND_UNSET)
        explain_rate(call, settings, ret);
    return rc;
}

int explain_pending(struct db_tx *tx, struct explain_call *call)
{
    const struct tend_job *job = call->job;
    struct queue_settings settings;
    bool explained = false;
    int rc;
    if ((rc = settings_load(tx, job->queue, false, &settings)) < 0 ||
        (rc = count_ahead(tx, job, &call->out.ahead)) < 0)
        return rc;
    if (settings.queue.paused) {
        explain_because(call, "paused", settings.queue.paused_why, TEND_UNSET);
        SAY(call, "Its queue is paused%s%s.", settings.queue.paused_why[0] != '\0' ? ": " : "",
            settings.queue.paused_why);
        HINT(call, "'tend queue set %s --paused off' lets it go on.", job->queue);
        return 0;
    }
    if (settings.queue.serial && (rc = explain_lock(tx, call, &explained)) < 0)
        return rc;
    if (!explained && (rc = explain_limits(tx, call, &settings, &explained)) < 0)
        return rc;
    if (explained)
        return 0;
    explain_because(call, call->out.ahead > 0 ? "behind" : "ready", "", TEND_UNSET);
    if (call->out.ahead > 0)
        SAY(call, "It is ready; %lld %s first.", (long long)call->out.ahead,
            call->out.ahead == 1 ? "job of its queue comes" : "jobs of its queue come");
    else
        SAY(call, "It is ready and first in its queue; no worker has asked for it %s.",
            call->leased_before ? "again yet" : "yet");
    return 0;
}
