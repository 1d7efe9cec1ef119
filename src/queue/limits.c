#include "queue/limits.h"

#include "queue/choice.h"
#include "queue/recover.h"
#include "queue/settings.h"

#include <stdio.h>
#include <string.h>

enum { LOOKS_MOST = 5 };

static void say(struct tend_none *none, int code, const char *what, const char *by,
                int64_t until_ms)
{
    *none = (struct tend_none){.code = code, .until_ms = until_ms};
    snprintf(none->what, sizeof none->what, "%s", what);
    snprintf(none->by, sizeof none->by, "%s", by);
}

/* The engine makes whole jobs of the rows of job_claim (store/claim_row.h), hence not
 * run_job_claim. */
int limits_claim_plain(struct db_tx *tx, const struct claim_want *want,
                       const struct queue_settings *settings, int64_t count, unsigned how,
                       struct job_claim_one_rows *ret)
{
    const struct job_claim_params params = {
        .queue = db_text(want->queue),
        .count = db_int(count),
        .owner = db_text(want->owner),
        .worker_id = db_int_or_null(want->worker_id),
        .now = db_now(tx),
        .asked_ms = db_int_or_null(want->ttl_ms),
        .usual_ms = db_int(settings->queue.lease_ms),
        .starts = db_int(want->started),
        .settings_version = db_int(settings->queue.version),
    };
    return db_run(tx, Q_JOB_CLAIM, how, DB_VALUES(&params), &ret->result);
}

static bool any_pending(struct db_tx *tx, const char *queue, int *rc)
{
    struct claim_any_rows rows;
    *rc = run_claim_any(tx, 0, (struct claim_any_params){.queue = db_text(queue)}, &rows);
    return *rc == 0 && rows.count > 0;
}

/* --- limits on number and rate --- */

/* How many more may run; lowers *allowed, says why when that is none. */
static int allow(struct db_tx *tx, const struct queue_settings *settings, int64_t now_ms,
                 int64_t *allowed, struct tend_none *none)
{
    const struct tend_queue *queue = &settings->queue;
    const struct running_in_queue_params params = {.queue = db_text(queue->name)};
    if (queue->concurrency != TEND_UNSET) {
        struct running_in_queue_rows running;
        int rc = run_running_in_queue(tx, 0, params, &running);
        if (rc < 0)
            return rc;
        int64_t more = queue->concurrency - db_num(running.at[0].jobs);
        if (more < *allowed)
            *allowed = more;
        if (*allowed <= 0) {
            say(none, TEND_ELIMITED, "concurrency", "", db_num(running.at[0].first_end_at));
            return 0;
        }
    }
    if (queue->rate_count != TEND_UNSET) {
        struct limit limit = settings_limit(settings, now_ms);
        int64_t available = limit_available(&limit, now_ms);
        if (available < *allowed)
            *allowed = available;
        if (*allowed <= 0)
            say(none, TEND_ELIMITED, "rate", "", limit_next_ms(&limit, now_ms));
    }
    return 0;
}

static int take_tokens(struct db_tx *tx, const struct queue_settings *settings, int64_t now_ms,
                       int64_t count)
{
    if (settings->queue.rate_count == TEND_UNSET)
        return 0;
    struct limit limit = settings_limit(settings, now_ms);
    struct queue_settings after = *settings;
    limit_take(&limit, now_ms, count);
    settings_set_limit(&after, &limit);
    const struct queue_rate_params params = {.name = db_text(settings->queue.name),
                                             .rate_level = db_int_or_null(after.rate_level),
                                             .rate_at = db_int_or_null(after.rate_at),
                                             .rate_slots =
                                                 db_text(limit.strict ? after.rate_slots : NULL)};
    return each_queue_rate(tx, 0, &params, 1, NULL);
}

/* The store's clock was set back. Only a claim can save that; who only looks finds the limit shut.
 */
static bool rate_is_ahead(const struct queue_settings *settings, int64_t now_ms)
{
    if (settings->queue.rate_count == TEND_UNSET)
        return false;
    const struct limit limit = settings_limit(settings, now_ms);
    return limit_is_ahead(&limit, now_ms);
}

/* --- the processing lock --- */

/*
 * Whether the claim would get the lock, as lock_acquire decides: it is free, its time is over, or
 * the claimer holds it. If not, none says who does.
 */
static int look_at_lock(struct db_tx *tx, const struct claim_want *want, const char *name,
                        bool *ret, struct tend_none *none)
{
    struct lock_get_rows found;
    const struct lock_get_params params = {.name = db_text(name), .now = db_now(tx)};
    int rc = run_lock_get(tx, 0, params, &found);
    if (rc < 0)
        return rc;
    *ret = true;
    if (found.count == 0)
        return 0;
    const struct lock_columns *lock = &found.at[0].lock;
    bool expired = db_num(lock->expires_at) <= db_num(lock->now) &&
                   db_num(lock->left_alone) == 0; /* else the clock was set */
    bool own =
        strcmp(db_str(lock->owner), want->owner) == 0 && db_num(lock->worker_id) == want->worker_id;
    *ret = db_num(lock->job_id) == TEND_UNSET && (expired || own);
    if (!*ret)
        say(none, TEND_EBUSY, "lock", db_str(lock->owner),
            expired ? TEND_UNSET : db_num(lock->expires_at));
    return 0;
}

/* 1: the lock is held, and whether its time is over is not known, because the store's clock was set
 * and that could not be settled. *none says so. */
static int is_over_unknown(struct db_tx *tx, const struct claim_want *want, const char *lock_name,
                           struct tend_none *none)
{
    struct lock_get_rows lock;
    const struct lock_get_params params = {.name = db_text(lock_name), .now = db_now(tx)};
    int rc = want->unrecovered ? db_clock_look(tx) : 0;
    if (rc <= 0 || (rc = run_lock_get(tx, 0, params, &lock)) < 0)
        return rc;
    if (lock.count == 0)
        return 0;
    say(none, TEND_EBUSY, "lock", db_str(lock.at[0].lock.owner), TEND_UNSET);
    return 1;
}

/*
 * Something was pending a moment ago. On PostgreSQL a statement sees the jobs of its beginning, and
 * those may all go to others while it looks, who left as many that came later; or it has begun
 * behind a job that came back (store/pg_claim.c): so it looks again.
 */
static int claim_what_is_there(struct db_tx *tx, const struct claim_want *want,
                               const struct queue_settings *settings, int64_t count,
                               struct job_claim_one_rows *ret)
{
    int rc = 0;
    for (int looks = 0; looks < LOOKS_MOST && rc >= 0 && ret->count == 0; looks++)
        rc = limits_claim_plain(tx, want, settings, count, 0, ret);
    return rc;
}

/* As look_at_lock. What is in the way may also be damage, which nobody's end would mend. */
static int look_and_clean(struct db_tx *tx, const struct claim_want *want, const char *name,
                          bool *ret, struct tend_none *none)
{
    struct recovery recovery = {.by = want->owner};
    int rc = look_at_lock(tx, want, name, ret, none);
    if (rc < 0 || *ret || (rc = recover_untied_locks(tx, &recovery, name)) < 0)
        return rc;
    return recovery.locks_cleaned > 0 ? look_at_lock(tx, want, name, ret, none) : 0;
}

static int tie_lock(struct db_tx *tx, const struct claim_want *want,
                    const struct queue_settings *settings, const char *name, int64_t job_id,
                    struct tend_none *none)
{
    struct lock_acquire_rows taken;
    bool ignored;
    int64_t ttl_ms = want->ttl_ms != TEND_UNSET ? want->ttl_ms : settings->queue.lease_ms;
    const struct lock_acquire_params params = {.name = db_text(name),
                                               .owner = db_text(want->owner),
                                               .held_for_ms = db_int(ttl_ms),
                                               .worker_id = db_int_or_null(want->worker_id),
                                               .now = db_now(tx)};
    const struct job_tie_params job = {.lock_name = db_text(name), .id = db_int(job_id)};
    const struct lock_tie_params lock = {.name = db_text(name), .job_id = db_int(job_id)};
    int rc = run_lock_acquire(tx, 0, params, &taken);
    if (rc < 0)
        return rc;
    if (taken.count == 0) {
        want->look->used = false; /* it saw a job as claimed that is not */
        rc = look_at_lock(tx, want, name, &ignored, none);
        return rc < 0 ? rc : err_set(db_err(tx), TEND_EEMPTY, "lock %s was taken", name);
    }
    rc = each_job_tie(tx, 0, &job, 1, NULL);
    return rc < 0 ? rc : each_lock_tie(tx, 0, &lock, 1, NULL);
}

/*
 * CL-1: lock and best entry, or neither. The lock is acquired last, so that a claim that finds
 * nothing has nothing to undo: what was recovered before it in the same transaction would be undone
 * as well, and be due again at once. Only where somebody else gets the lock between the look and
 * the end (PostgreSQL), everything is undone: TEND_EEMPTY.
 */
static int claim_with_lock(struct db_tx *tx, const struct claim_want *want,
                           const struct queue_settings *settings, struct job_claim_one_rows *ret,
                           struct tend_none *none)
{
    const char *name = arena_printf(db_arena(tx), "queue:%s", want->queue);
    bool free;
    int rc = is_over_unknown(tx, want, name, none);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = look_and_clean(tx, want, name, &free, none);
    if (rc < 0 || !free)
        return rc;
    rc = choice_needed(want, settings) ? choice_claim(tx, want, settings, 1, ret, none)
                                       : claim_what_is_there(tx, want, settings, 1, ret);
    if (rc < 0 || ret->count == 0)
        return rc;
    return tie_lock(tx, want, settings, name, db_num(ret->at[0].job.id), none);
}

int limits_claim(struct db_tx *tx, const struct claim_want *want,
                 const struct queue_settings *settings, struct job_claim_one_rows *ret,
                 struct tend_none *none)
{
    const struct tend_queue *queue = &settings->queue;
    int64_t allowed = want->count;
    int64_t now_ms;
    int rc;
    *ret = (struct job_claim_one_rows){0};
    say(none, TEND_EEMPTY, "", "", TEND_UNSET);
    if (queue->paused) {
        say(none, TEND_EPAUSED, "queue", queue->paused_why, TEND_UNSET);
        return 0;
    }
    if (!any_pending(tx, want->queue, &rc) || (rc = db_time(tx, &now_ms)) < 0)
        return rc;
    if ((rc = allow(tx, settings, now_ms, &allowed, none)) < 0)
        return rc;
    if (allowed <= 0)
        return rate_is_ahead(settings, now_ms) ? take_tokens(tx, settings, now_ms, 0) : 0;
    if (queue->serial || want->with_lock)
        rc = claim_with_lock(tx, want, settings, ret, none);
    else if (choice_needed(want, settings))
        rc = choice_claim(tx, want, settings, allowed, ret, none);
    else
        rc = claim_what_is_there(tx, want, settings, allowed, ret);
    if (rc < 0 || ret->count == 0)
        return rc;
    return take_tokens(tx, settings, now_ms, (int64_t)ret->count);
}

int limits_peek(struct db_tx *tx, const struct claim_want *want, bool *ret, struct tend_none *none)
{
    struct queue_settings settings;
    int64_t allowed = want->count;
    int64_t now_ms;
    int rc;
    *ret = false;
    say(none, TEND_EEMPTY, "", "", TEND_UNSET);
    if (!any_pending(tx, want->queue, &rc) ||
        (rc = settings_load(tx, want->queue, false, &settings)) < 0 || settings.queue.paused)
        return rc;
    if ((rc = db_time(tx, &now_ms)) < 0 || (rc = allow(tx, &settings, now_ms, &allowed, none)) < 0)
        return rc;
    *ret = allowed > 0 || rate_is_ahead(&settings, now_ms);
    if (allowed <= 0)
        return 0;
    if (settings.queue.serial || want->with_lock)
        rc = look_at_lock(tx, want, arena_printf(db_arena(tx), "queue:%s", want->queue), ret, none);
    if (rc >= 0 && *ret && choice_needed(want, &settings))
        rc = choice_peek(tx, want, &settings, ret, none);
    return rc;
}
