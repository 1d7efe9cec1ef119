#include "queue/retain.h"

#include "base/clock.h"
#include "core/state.h"
#include "queue/event_totals.h"
#include "queue/settings.h"
#include "store/queries.h"

#include <stdio.h>
#include <string.h>

enum {
    /* In one transaction, over all queues: jobs deleted, events deleted, queues looked at. */
    PURGE_CHUNK = 500,
    PURGE_QUEUES = 25,
    PURGE_EVERY_MS = 600000,
    /* A worker deletes for a tenth of its time at most while there is more to delete. */
    PURGE_AT_ONCE_MS = 100,
    PURGE_REST_MS = 900,
    /* When it is tried again after it could not be done in the time there was. */
    PURGE_AGAIN_MS = 10000,
};

/* Events older than this go; those of jobs that are kept longer go too. */
#define EVENTS_KEPT_MS (30LL * 24 * 3600 * 1000)

/* Workers of which nobody can tell whether they live, and which hold nothing. */
#define UNKNOWN_KEPT_MS (7LL * 24 * 3600 * 1000)

/*
 * A purge is a row of short transactions, between which others can write. It goes from rule to rule
 * and from queue to queue, by name, and each transaction continues where the one before it stopped.
 * A rule that found more than there was room for has its next turn after all others.
 *
 * Events go by their ids, which are in the order of their times, but for those that were written
 * while a clock was wrong. A purge reads no more than it deletes: it ends with the first piece in
 * which nothing is old enough, unless that piece is from the future. What comes behind that may be
 * old. They are counted before (event_totals.h): one that is not counted yet stays.
 */
struct purge {
    struct retain_place place; /* where the next transaction begins */
    bool jobs_left;            /* not all rules have had their turn, or one has more */
    bool events_left;
};

struct purge_call {
    struct purge before; /* not changed by the body, which may be run again */
    struct purge after;
    struct tend_purged gone;
    int64_t now_ms;
    struct job_delete_params ids[PURGE_CHUNK]; /* of the jobs that go */
    size_t count;
};

enum { RULES = 3 };

/* What its retention says about the finished jobs of a queue: those of a state go after keep_ms. */
struct rule {
    const char *queue;
    int state;
    int64_t keep_ms; /* TEND_UNSET: never */
};

static int read_rules(struct db_tx *tx, const char *name, struct rule rules[RULES])
{
    struct queue_settings settings;
    int rc = settings_load(tx, name, false, &settings);
    if (rc < 0)
        return rc;
    const struct tend_queue *queue = &settings.queue;
    rules[0] = (struct rule){name, JOB_DONE, queue->keep_done_ms};
    rules[1] = (struct rule){name, JOB_CANCELLED, queue->keep_done_ms};
    rules[2] = (struct rule){name, JOB_FAILED, queue->keep_failed_ms};
    return 0;
}

/* Up to `most` queues with finished jobs, from this name on. */
static int read_queues(struct db_tx *tx, const char *from, int64_t most,
                       struct queue_names_resting_rows *ret)
{
    const struct queue_names_resting_params params = {.from_queue = db_text(from),
                                                      .limit = db_int(most)};
    return run_queue_names_resting(tx, 0, params, ret);
}

/* The statements of delete_jobs have the same parameters: the id of a job. */
_Static_assert(sizeof(struct job_delete_params) == sizeof(struct db_value) &&
                   sizeof(struct step_totals_keep_params) == sizeof(struct db_value) &&
                   sizeof(struct attempt_delete_params) == sizeof(struct db_value) &&
                   sizeof(struct checkpoint_delete_params) == sizeof(struct db_value) &&
                   sizeof(struct output_delete_params) == sizeof(struct db_value) &&
                   sizeof(struct control_delete_params) == sizeof(struct db_value) &&
                   sizeof(struct keep_patch_delete_params) == sizeof(struct db_value) &&
                   sizeof(struct edit_delete_params) == sizeof(struct db_value),
               "what is deleted is found by the id of the job");

/*
 * Those of all rules at once: each statement goes by an order of its own, by job or by total, so
 * two who clean up never have what the other waits for. A statement run again for the next rule
 * would begin that order anew.
 */
static int delete_jobs(struct db_tx *tx, struct purge_call *call)
{
    /* What hangs on a job goes if the job has gone: one that was redriven meanwhile keeps all. */
    static const enum db_query deletes[] = {
        Q_JOB_DELETE,    Q_STEP_TOTALS_KEEP, Q_ATTEMPT_DELETE,    Q_CHECKPOINT_DELETE,
        Q_OUTPUT_DELETE, Q_CONTROL_DELETE,   Q_KEEP_PATCH_DELETE, Q_EDIT_DELETE};
    int rc = 0;
    call->gone.jobs = (int64_t)call->count;
    for (size_t i = 0; call->count > 0 && rc >= 0 && i < sizeof deletes / sizeof *deletes; i++)
        rc = db_each(tx, deletes[i], DB_LATER, DB_VALUES(call->ids), call->count, NULL);
    return rc;
}

/* As many as there is room for. On PostgreSQL they are locked, and those that others have locked
 * left out. */
static int collect_by_rule(struct db_tx *tx, struct purge_call *call, const struct rule *rule)
{
    struct job_expired_finished_rows found;
    int64_t room = (int64_t)(PURGE_CHUNK - call->count);
    if (rule->keep_ms == TEND_UNSET)
        return 0;
    const struct job_expired_finished_params params = {.queue = db_text(rule->queue),
                                                       .state = db_int(rule->state),
                                                       .to_finished_at =
                                                           db_int(call->now_ms - rule->keep_ms),
                                                       .limit = db_int(room)};
    int rc = run_job_expired_finished(tx, 0, params, &found);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < found.count; i++)
        call->ids[call->count++].id = found.at[i].id;
    call->after.place.more |= (int64_t)found.count == room;
    return 0;
}

/* The rules of a queue from the one that is next; the place is then behind the last it came to. */
static int collect_from_queue(struct db_tx *tx, struct purge_call *call, const char *queue)
{
    struct retain_place *place = &call->after.place;
    struct rule rules[RULES];
    int rc = read_rules(tx, queue, rules);
    if (strcmp(place->queue, queue) != 0)
        place->rule = 0;
    snprintf(place->queue, sizeof place->queue, "%s", queue);
    while (rc >= 0 && place->rule < RULES && call->count < PURGE_CHUNK)
        rc = collect_by_rule(tx, call, &rules[place->rule++]);
    return rc;
}

static int collect(struct db_tx *tx, struct purge_call *call)
{
    struct purge *after = &call->after;
    struct queue_names_resting_rows queues;
    int rc = read_queues(tx, after->place.queue, PURGE_QUEUES, &queues);
    for (size_t i = 0; rc >= 0 && i < queues.count && call->count < PURGE_CHUNK; i++)
        rc = collect_from_queue(tx, call, db_str(queues.at[i].queue));
    if (rc < 0 || call->count == PURGE_CHUNK || queues.count == PURGE_QUEUES)
        return rc;
    /* This was the last queue: again from the first, if there may be more. */
    after->jobs_left = after->place.more;
    after->place = (struct retain_place){.event_id = after->place.event_id};
    return 0;
}

static int purge_jobs(struct db_tx *tx, struct purge_call *call)
{
    const struct worker_forget_params unknown = {.before = db_int(call->now_ms - UNKNOWN_KEPT_MS)};
    int rc;
    if ((rc = collect(tx, call)) < 0 || (rc = delete_jobs(tx, call)) < 0 ||
        (rc = each_worker_forget(tx, 0, &unknown, 1, NULL)) < 0)
        return rc;
    return db_each(tx, Q_CONTROL_SETTLE, 0, NULL, 1, NULL);
}

static int purge_events(struct db_tx *tx, struct purge_call *call)
{
    struct event_behind_rows piece;
    struct event_purge_rows gone;
    const struct event_behind_params from = {.after_id = db_int(call->before.place.event_id),
                                             .limit = db_int(PURGE_CHUNK)};
    int rc = run_event_behind(tx, 0, from, &piece);
    call->after.events_left = false;
    call->after.place.event_id = 0; /* the next purge begins with the first event */
    if (rc < 0 || piece.count == 0)
        return rc;
    const struct event_behind_row *last = &piece.at[piece.count - 1];
    const struct event_purge_params range = {.after_id = from.after_id,
                                             .to_id = last->id,
                                             .to_at = db_int(call->now_ms - EVENTS_KEPT_MS)};
    if ((rc = run_event_purge(tx, 0, range, &gone)) < 0)
        return rc;
    bool future = db_num(last->at) > call->now_ms;
    call->gone.events = (int64_t)gone.count;
    call->after.events_left = piece.count == PURGE_CHUNK && (gone.count > 0 || future);
    if (call->after.events_left)
        call->after.place.event_id = db_num(last->id);
    return 0;
}

static int purge_body(struct db_tx *tx, void *arg)
{
    struct purge_call *call = arg;
    int rc = db_time(tx, &call->now_ms);
    call->after = call->before;
    call->gone = (struct tend_purged){0};
    call->count = 0;
    if (rc >= 0 && call->before.jobs_left)
        rc = purge_jobs(tx, call);
    return rc < 0 || !call->before.events_left ? rc : purge_events(tx, call);
}

/* Deletes until nothing is left to delete or the time has come (monotonic); adds up into ret.
 * Begins at *place, and leaves there where it stopped. */
static int purge_until(tend *t, int64_t until_ms, int64_t wait_ms, struct retain_place *place,
                       struct tend_purged *ret, bool *ret_more)
{
    struct purge_call call = {
        .after = {.place = *place, .jobs_left = true, .events_left = true},
    };
    int rc = event_totals_count(t, until_ms, wait_ms);
    if (rc < 0)
        return rc;
    do {
        call.before = call.after;
        if ((rc = handle_write_within(t, wait_ms, purge_body, &call)) < 0)
            return rc;
        ret->jobs += call.gone.jobs;
        ret->events += call.gone.events;
        *place = call.after.place;
        *ret_more = call.after.jobs_left || call.after.events_left;
    } while (*ret_more && clock_mono_ms() < until_ms);
    return 0;
}

int tend_purge(tend *t, struct tend_purged *ret)
{
    struct retain_place place = {0};
    struct tend_purged gone = {0};
    bool more;
    int rc = purge_until(t, INT64_MAX, -1, &place, &gone, &more);
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
    struct retain_place place = t->purge_place;
    pthread_mutex_unlock(&t->mutex);
    if (!due)
        return;
    struct tend_purged gone = {0};
    bool more = false;
    int rc = purge_until(t, now_ms + PURGE_AT_ONCE_MS, wait_ms, &place, &gone, &more);
    bool put_off = rc == TEND_EBUSY && wait_ms >= 0;
    if (rc < 0 && !put_off)
        handle_log(t, "retention failed: %s", handle_err(t)->text);
    pthread_mutex_lock(&t->mutex);
    t->purge_place = place;
    if (more || put_off)
        t->purge_next_ms = clock_mono_ms() + (put_off ? PURGE_AGAIN_MS : PURGE_REST_MS);
    pthread_mutex_unlock(&t->mutex);
}

/* --- only looking --- */

static int count_by_rule(struct db_tx *tx, const struct rule *rule, int64_t now_ms,
                         struct tend_purged *ret)
{
    struct job_expired_count_rows expired;
    if (rule->keep_ms == TEND_UNSET)
        return 0;
    const struct job_expired_count_params params = {.queue = db_text(rule->queue),
                                                    .state = db_int(rule->state),
                                                    .to_finished_at =
                                                        db_int(now_ms - rule->keep_ms)};
    int rc = run_job_expired_count(tx, 0, params, &expired);
    if (rc < 0)
        return rc;
    ret->jobs += db_num(expired.at[0].jobs);
    return 0;
}

static int count_jobs(struct db_tx *tx, int64_t now_ms, struct tend_purged *ret)
{
    struct queue_names_resting_rows queues;
    struct rule rules[RULES];
    int rc = read_queues(tx, "", INT64_MAX, &queues);
    for (size_t i = 0; rc >= 0 && i < queues.count; i++) {
        rc = read_rules(tx, db_str(queues.at[i].queue), rules);
        for (size_t k = 0; rc >= 0 && k < RULES; k++)
            rc = count_by_rule(tx, &rules[k], now_ms, ret);
    }
    return rc;
}

static int count_body(struct db_tx *tx, void *arg)
{
    struct tend_purged *ret = arg;
    struct event_purge_count_rows old;
    int64_t now_ms;
    int rc;
    *ret = (struct tend_purged){0};
    if ((rc = db_time(tx, &now_ms)) < 0 || (rc = count_jobs(tx, now_ms, ret)) < 0)
        return rc;
    const struct event_purge_count_params params = {.to_at = db_int(now_ms - EVENTS_KEPT_MS)};
    if ((rc = run_event_purge_count(tx, 0, params, &old)) < 0)
        return rc;
    ret->events = db_num(old.at[0].events);
    return 0;
}

int tend_purge_count(tend *t, struct tend_purged *ret)
{
    return handle_read(t, count_body, ret);
}
