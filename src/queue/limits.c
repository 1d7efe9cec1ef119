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

void limits_claim_params(struct db_tx *tx, const struct claim_want *want,
                         const struct queue_settings *settings, struct db_value *params)
{
    params[2] = db_text(want->owner);
    params[3] = db_int_or_null(want->worker_id);
    params[4] = db_now(tx);
    params[5] = db_int_or_null(want->ttl_ms);
    params[6] = db_int(settings->queue.lease_ms);
    params[7] = db_int(want->started);
    params[8] = db_int(settings->queue.version);
}

int limits_claim_plain(struct db_tx *tx, const struct claim_want *want,
                       const struct queue_settings *settings, int64_t count, unsigned how,
                       struct db_result *ret)
{
    struct db_value params[9] = {db_text(want->queue), db_int(count)};
    limits_claim_params(tx, want, settings, params);
    return db_run(tx, Q_JOB_CLAIM, how, params, ret);
}

static bool any_pending(struct db_tx *tx, const char *queue, int *rc)
{
    struct db_result rows;
    const struct db_value params[] = {db_text(queue)};
    *rc = db_run(tx, Q_CLAIM_ANY, 0, params, &rows);
    return *rc == 0 && rows.rows > 0;
}

/* --- limits on number and rate --- */

/* How many more may run; lowers *allowed, says why when that is none. */
static int allow(struct db_tx *tx, const struct queue_settings *settings, int64_t now_ms,
                 int64_t *allowed, struct tend_none *none)
{
    const struct tend_queue *queue = &settings->queue;
    const struct db_value params[] = {db_text(queue->name)};
    if (queue->concurrency != TEND_UNSET) {
        struct db_result running;
        int rc = db_run(tx, Q_RUNNING_IN_QUEUE, 0, params, &running);
        if (rc < 0)
            return rc;
        if (queue->concurrency - db_number(&running, 0, 0) < *allowed)
            *allowed = queue->concurrency - db_number(&running, 0, 0);
        if (*allowed <= 0) {
            say(none, TEND_ELIMITED, "concurrency", "", db_number(&running, 0, 1));
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
    const struct db_value params[] = {
        db_text(settings->queue.name), db_int_or_null(after.rate_level),
        db_int_or_null(after.rate_at), db_text(limit.strict ? after.rate_slots : NULL)};
    return db_each(tx, Q_QUEUE_RATE, 0, params, 1, NULL);
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
    struct db_result lock;
    const struct db_value params[] = {db_text(name), db_now(tx)};
    int rc = db_run(tx, Q_LOCK_GET, 0, params, &lock);
    if (rc < 0)
        return rc;
    *ret = true;
    if (lock.rows == 0)
        return 0;
    bool expired = db_number(&lock, 0, 4) <= db_number(&lock, 0, 7) &&
                   db_number(&lock, 0, 8) == 0; /* else the clock was set, and it was left alone */
    bool own = strcmp(db_string(&lock, 0, 1), want->owner) == 0 &&
               db_number(&lock, 0, 5) == want->worker_id;
    *ret = db_number(&lock, 0, 6) == TEND_UNSET && (expired || own);
    if (!*ret)
        say(none, TEND_EBUSY, "lock", db_string(&lock, 0, 1),
            expired ? TEND_UNSET : db_number(&lock, 0, 4));
    return 0;
}

/* 1: the lock is held, and whether its time is over is not known, because the store's clock was set
 * and that could not be settled. *none says so. */
static int is_over_unknown(struct db_tx *tx, const struct claim_want *want, const char *lock_name,
                           struct tend_none *none)
{
    struct db_result lock;
    const struct db_value params[] = {db_text(lock_name), db_now(tx)};
    int rc = want->unrecovered ? db_clock_look(tx) : 0;
    if (rc <= 0 || (rc = db_run(tx, Q_LOCK_GET, 0, params, &lock)) < 0)
        return rc;
    if (lock.rows == 0)
        return 0;
    say(none, TEND_EBUSY, "lock", db_string(&lock, 0, 1), TEND_UNSET);
    return 1;
}

/*
 * Something was pending a moment ago. On PostgreSQL a statement sees the jobs of its beginning, and
 * those may all go to others while it looks, who left as many that came later; or it has begun
 * behind a job that came back (store/pg_claim.c): so it looks again.
 */
static int claim_what_is_there(struct db_tx *tx, const struct claim_want *want,
                               const struct queue_settings *settings, int64_t count,
                               struct db_result *ret)
{
    int rc = 0;
    for (int looks = 0; looks < LOOKS_MOST && rc >= 0 && ret->rows == 0; looks++)
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
    struct db_result taken;
    bool ignored;
    int64_t ttl_ms = want->ttl_ms != TEND_UNSET ? want->ttl_ms : settings->queue.lease_ms;
    const struct db_value params[] = {db_text(name),  db_text(want->owner),
                                      db_int(ttl_ms), db_int_or_null(want->worker_id),
                                      db_null(),      db_now(tx)};
    const struct db_value tie[] = {db_text(name), db_int(job_id)};
    int rc = db_run(tx, Q_LOCK_ACQUIRE, 0, params, &taken);
    if (rc < 0)
        return rc;
    if (taken.rows == 0) {
        want->look->used = false; /* it saw a job as claimed that is not */
        rc = look_at_lock(tx, want, name, &ignored, none);
        return rc < 0 ? rc : err_set(db_err(tx), TEND_EEMPTY, "lock %s was taken", name);
    }
    rc = db_each(tx, Q_JOB_TIE, 0, tie, 1, NULL);
    return rc < 0 ? rc : db_each(tx, Q_LOCK_TIE, 0, tie, 1, NULL);
}

/*
 * CL-1: lock and best entry, or neither. The lock is acquired last, so that a claim that finds
 * nothing has nothing to undo: what was recovered before it in the same transaction would be undone
 * as well, and be due again at once. Only where somebody else gets the lock between the look and
 * the end (PostgreSQL), everything is undone: TEND_EEMPTY.
 */
static int claim_with_lock(struct db_tx *tx, const struct claim_want *want,
                           const struct queue_settings *settings, struct db_result *ret,
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
    if (rc < 0 || ret->rows == 0)
        return rc;
    return tie_lock(tx, want, settings, name, db_number(ret, 0, 0), none);
}

int limits_claim(struct db_tx *tx, const struct claim_want *want,
                 const struct queue_settings *settings, struct db_result *ret,
                 struct tend_none *none)
{
    const struct tend_queue *queue = &settings->queue;
    int64_t allowed = want->count;
    int64_t now_ms;
    int rc;
    *ret = (struct db_result){0};
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
    if (rc < 0 || ret->rows == 0)
        return rc;
    return take_tokens(tx, settings, now_ms, (int64_t)ret->rows);
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
