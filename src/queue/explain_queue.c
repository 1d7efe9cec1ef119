/* What a queue lets go on: paused, locked, limited, or first come, first served. */
#include "base/text.h"
#include "queue/explain.h"
#include "queue/settings.h"

#include <string.h>

static int count_of(struct db_tx *tx, enum db_query query, const struct db_value *params,
                    int64_t *ret)
{
    struct db_result rows;
    int rc = db_run(tx, query, 0, params, &rows);
    if (rc == 0)
        *ret = db_number(&rows, 0, 0);
    return rc;
}

/* The lock of a serial queue. *ret: it explains the waiting. */
static int explain_lock(struct db_tx *tx, struct explain_call *call, bool *ret)
{
    struct db_result lock;
    char left[DURATION_TEXT_BYTES];
    const char *name = arena_printf(db_arena(tx), "queue:%s", call->job->queue);
    const struct db_value params[] = {db_text(name), db_now(tx)};
    int rc = db_run(tx, Q_LOCK_GET, 0, params, &lock);
    if (rc < 0 || lock.rows == 0)
        return rc;
    int64_t length_ms = db_number(&lock, 0, 9);
    bool left_alone = db_number(&lock, 0, 8) == 1;
    int64_t until_ms =
        left_alone ? call->now_ms + length_ms
                   : db_owed_end(&call->owed, db_number(&lock, 0, 4), call->now_ms, length_ms);
    if (until_ms <= call->now_ms)
        return 0;
    explain_because(call, "lock", db_string(&lock, 0, 1), until_ms);
    SAY(call, "Its queue takes one job at a time, and %s holds the lock for another %s.",
        db_string(&lock, 0, 1), explain_left(call, until_ms, left));
    *ret = true;
    return 0;
}

/* The first end of leases, from column `at`; TEND_UNSET also when all of them begin anew, each with
 * a length of its own. */
static int64_t first_end(const struct explain_call *call, const struct db_result *running,
                         size_t row, size_t at)
{
    int64_t until_ms = db_number(running, row, at);
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

static int explain_limits(struct db_tx *tx, struct explain_call *call,
                          const struct queue_settings *settings, bool *ret)
{
    const struct tend_queue *queue = &settings->queue;
    const struct tend_job *job = call->job;
    const struct db_value params[] = {db_text(job->queue)};
    struct db_result running;
    int rc;
    if (queue->concurrency != TEND_UNSET) {
        if ((rc = db_run(tx, Q_RUNNING_IN_QUEUE, 0, params, &running)) < 0)
            return rc;
        if (db_number(&running, 0, 0) >= queue->concurrency) {
            int64_t until_ms = first_end(call, &running, 0, 1);
            explain_because(call, "concurrency", "", until_ms);
            SAY(call, "Its queue runs %lld job%s, as many as it may at once.",
                (long long)db_number(&running, 0, 0), plural(db_number(&running, 0, 0)));
            add_first_end(call, until_ms);
            HINT(call, "'tend queue set %s --concurrency N' changes the limit.", job->queue);
            *ret = true;
            return 0;
        }
    }
    if (queue->key_concurrency != TEND_UNSET && job->concurrency_key != NULL) {
        if ((rc = db_run(tx, Q_RUNNING_BY_KEY, 0, params, &running)) < 0)
            return rc;
        for (size_t i = 0; i < running.rows; i++) {
            if (strcmp(db_string(&running, i, 0), job->concurrency_key) != 0 ||
                db_number(&running, i, 1) < queue->key_concurrency)
                continue;
            int64_t until_ms = first_end(call, &running, i, 2);
            explain_because(call, "key_concurrency", "", until_ms);
            int64_t count = db_number(&running, i, 1);
            SAY(call, "%lld %s with its key '%s' %s running, as many as may at once.",
                (long long)count, count == 1 ? "job" : "jobs", job->concurrency_key,
                count == 1 ? "is" : "are");
            add_first_end(call, until_ms);
            *ret = true;
            return 0;
        }
    }
    if (queue->rate_count != TEND_UNSET) {
        struct limit limit = settings_limit(settings, call->now_ms);
        char left[DURATION_TEXT_BYTES];
        if (limit_available(&limit, call->now_ms) <= 0) {
            int64_t next_ms = limit_next_ms(&limit, call->now_ms);
            explain_because(call, "rate", "", next_ms);
            SAY(call, "Its queue has used up its rate; the next job is handed out in %s.",
                explain_left(call, next_ms, left));
            *ret = true;
        }
    }
    return 0;
}

int explain_pending(struct db_tx *tx, struct explain_call *call)
{
    const struct tend_job *job = call->job;
    struct queue_settings settings;
    bool explained = false;
    const struct db_value ahead[] = {db_text(job->queue), db_int(job->priority),
                                     db_int(job->due_at_ms), db_int(job->id), db_now(tx)};
    int rc;
    if ((rc = settings_load(tx, job->queue, false, &settings)) < 0 ||
        (rc = count_of(tx, Q_JOB_AHEAD, ahead, &call->out.ahead)) < 0)
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
