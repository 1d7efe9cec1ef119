/* BY-1: why a job is not running, or what it is doing; read from the store as it is, nothing is
 * changed. */
#include "base/text.h"
#include "base/timetext.h"
#include "core/limit.h"
#include "queue/row.h"
#include "queue/settings.h"

#include <stdio.h>
#include <string.h>

struct explain_call {
    int64_t id;
    struct tend_explanation out;
    const struct tend_job *job;
    int64_t now_ms;
};

static void because(struct explain_call *call, const char *reason, const char *by, int64_t until_ms)
{
    snprintf(call->out.reason, sizeof call->out.reason, "%s", reason);
    snprintf(call->out.by, sizeof call->out.by, "%s", by != NULL ? by : "");
    call->out.until_ms = until_ms;
}

#define SAY(call, ...) snprintf((call)->out.text, sizeof(call)->out.text, __VA_ARGS__)
#define HINT(call, ...) snprintf((call)->out.hint, sizeof(call)->out.hint, __VA_ARGS__)

static const char *until_text(const struct explain_call *call, int64_t at_ms,
                              char out[DURATION_TEXT_BYTES])
{
    return duration_text(at_ms > call->now_ms ? at_ms - call->now_ms : 0, out);
}

static void explain_running(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    char left[DURATION_TEXT_BYTES];
    because(call, "leased", job->owner, job->until_ms);
    if (job->until_ms <= call->now_ms) {
        SAY(call, "It is held by %s, whose lease has expired; the next claim takes it back.",
            job->owner);
        HINT(call, "'tend heal' takes it back at once.");
        return;
    }
    SAY(call, "It is %s by %s; the lease ends in %s unless it is renewed%s.",
        job->started_at_ms != TEND_UNSET ? "being worked on" : "leased but not yet started",
        job->owner, until_text(call, job->until_ms, left),
        job->worker_id != TEND_UNSET ? ", or at once when that worker dies" : "");
}

static void explain_finished(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    because(call, "finished", job->changed_by, TEND_UNSET);
    if (job->state == TEND_DONE) {
        SAY(call, "It is done: %s completed it after %lld attempt(s).", job->changed_by,
            (long long)job->attempts);
    } else if (job->state == TEND_FAILED) {
        SAY(call, "It has failed (%s) after %lld attempt(s) and %lld crash(es): %.200s",
            job->error_class != NULL ? job->error_class : "?", (long long)job->attempts,
            (long long)job->crashes, job->error_text != NULL ? job->error_text : "");
        HINT(call, "'tend retry %lld' gives it a new life.", (long long)job->id);
    } else {
        SAY(call, "It was cancelled by %s%s%s.", job->changed_by,
            job->changed_why != NULL ? ": " : "", job->changed_why != NULL ? job->changed_why : "");
        HINT(call, "'tend retry %lld' gives it a new life.", (long long)job->id);
    }
}

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
    if (rc < 0 || lock.rows == 0 || db_number(&lock, 0, 4) <= call->now_ms)
        return rc;
    because(call, "lock", db_string(&lock, 0, 1), db_number(&lock, 0, 4));
    SAY(call, "Its queue takes one job at a time, and %s holds the lock for another %s.",
        db_string(&lock, 0, 1), until_text(call, db_number(&lock, 0, 4), left));
    *ret = true;
    return 0;
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
            because(call, "concurrency", "", db_number(&running, 0, 1));
            SAY(call, "Its queue runs %lld jobs, as many as it may at once.",
                (long long)db_number(&running, 0, 0));
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
            because(call, "key_concurrency", "", db_number(&running, i, 2));
            SAY(call, "%lld job(s) with its key '%s' are running, as many as may at once.",
                (long long)db_number(&running, i, 1), job->concurrency_key);
            *ret = true;
            return 0;
        }
    }
    if (queue->rate_count != TEND_UNSET && settings->rate_level != TEND_UNSET) {
        struct limit limit = {.count = queue->rate_count,
                              .period_ms = queue->rate_period_ms,
                              .level_micro = settings->rate_level,
                              .at_ms = settings->rate_at};
        char left[DURATION_TEXT_BYTES];
        if (limit_available(&limit, call->now_ms) <= 0) {
            int64_t next_ms = limit_next_ms(&limit, call->now_ms);
            because(call, "rate", "", next_ms);
            SAY(call, "Its queue has used up its rate; the next job is handed out in %s.",
                until_text(call, next_ms, left));
            *ret = true;
        }
    }
    return 0;
}

static int explain_pending(struct db_tx *tx, struct explain_call *call)
{
    const struct tend_job *job = call->job;
    struct queue_settings settings;
    bool explained = false;
    const struct db_value ahead[] = {db_text(job->queue), db_int(job->priority),
                                     db_int(job->due_at_ms), db_int(job->id)};
    int rc;
    if ((rc = settings_load(tx, job->queue, false, &settings)) < 0 ||
        (rc = count_of(tx, Q_JOB_AHEAD, ahead, &call->out.ahead)) < 0)
        return rc;
    if (settings.queue.paused) {
        because(call, "paused", settings.queue.paused_why, TEND_UNSET);
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
    because(call, call->out.ahead > 0 ? "behind" : "ready", "", TEND_UNSET);
    if (call->out.ahead > 0)
        SAY(call, "It is ready; %lld job(s) of its queue come first.", (long long)call->out.ahead);
    else
        SAY(call, "It is ready and first in its queue; no worker has asked for it yet.");
    HINT(call, "'tend workers' shows who is there.");
    return 0;
}

static int explain_body(struct db_tx *tx, void *arg)
{
    struct explain_call *call = arg;
    struct db_result found;
    struct tend_jobs jobs;
    char left[DURATION_TEXT_BYTES];
    const struct db_value params[] = {db_int(call->id), db_now(tx)};
    int rc = db_run(tx, Q_JOB_GET, 0, params, &found);
    if (rc < 0)
        return rc;
    if (found.rows == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND,
                       "there is no job %lld; 'tend jobs' lists those that are",
                       (long long)call->id);
    if ((rc = jobs_read(db_arena(tx), &found, &jobs)) < 0)
        return rc;
    call->job = &jobs.items[0];
    call->now_ms = db_number(&found, 0, found.columns - 1);
    call->out = (struct tend_explanation){.state = call->job->state, .until_ms = TEND_UNSET};
    call->out.waiting = call->job->state != TEND_RUNNING && call->job->state < TEND_DONE;
    switch (call->job->state) {
    case TEND_SCHEDULED:
        because(call, "due_later", "", call->job->due_at_ms);
        SAY(call, "It is due in %s%s%s.", until_text(call, call->job->due_at_ms, left),
            call->job->attempts > 0 ? ", after a failure: " : "",
            call->job->attempts > 0 && call->job->error_text != NULL ? call->job->error_text : "");
        return 0;
    case TEND_PENDING:
        return explain_pending(tx, call);
    case TEND_RUNNING:
        explain_running(call);
        return 0;
    case TEND_HELD:
        because(call, "held", call->job->changed_by, TEND_UNSET);
        SAY(call, "It is held by %s%s%s.", call->job->changed_by,
            call->job->changed_why != NULL ? ": " : "",
            call->job->changed_why != NULL ? call->job->changed_why : "");
        HINT(call, "'tend resume %lld' lets it go on.", (long long)call->id);
        return 0;
    default:
        explain_finished(call);
        return 0;
    }
}

/* A text that did not fit may have been cut inside a character. */
static void drop_half_character(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && !utf8_valid(text, len))
        text[--len] = '\0';
}

int tend_explain(tend *t, int64_t id, struct tend_explanation *ret)
{
    struct explain_call call = {.id = id};
    int rc = handle_read(t, explain_body, &call);
    drop_half_character(call.out.text);
    drop_half_character(call.out.by);
    if (rc >= 0)
        *ret = call.out;
    return rc < 0 ? rc : 0;
}
