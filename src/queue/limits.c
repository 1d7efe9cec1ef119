#include "queue/limits.h"

#include "core/limit.h"

#include <stdio.h>
#include <string.h>

/* A page of candidates, and how many of them a claim that passes over kinds looks at. */
enum { CANDIDATES = 256, PAGES_FOR_KINDS = 8 };

static void say(struct tend_none *none, int code, const char *what, const char *by,
                int64_t until_ms)
{
    *none = (struct tend_none){.code = code, .until_ms = until_ms};
    snprintf(none->what, sizeof none->what, "%s", what);
    snprintf(none->by, sizeof none->by, "%s", by);
}

/* Parameters $3 to $9 of job_claim, the same for job_claim_one. */
static void claim_params(struct db_tx *tx, const struct claim_want *want,
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
    claim_params(tx, want, settings, params);
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

static struct limit bucket_of(const struct queue_settings *settings, int64_t now_ms)
{
    struct limit limit;
    limit_init(&limit, settings->queue.rate_count, settings->queue.rate_period_ms, now_ms);
    if (settings->rate_level != TEND_UNSET) {
        limit.level_micro = settings->rate_level;
        limit.at_ms = settings->rate_at;
    }
    return limit;
}

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
        struct limit limit = bucket_of(settings, now_ms);
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
    struct limit limit = bucket_of(settings, now_ms);
    limit_take(&limit, now_ms, count);
    const struct db_value params[] = {db_text(settings->queue.name), db_int(limit.level_micro),
                                      db_int(limit.at_ms)};
    return db_each(tx, Q_QUEUE_RATE, 0, params, 1, NULL);
}

/* --- limits per key, and kinds that are passed over: candidates are looked at one by one --- */

struct key_count {
    const char *key;
    int64_t running;
};

struct choice {
    const struct claim_want *want;
    const struct queue_settings *settings;
    struct key_count *keys; /* those running or chosen; room for one more per job wanted */
    size_t key_count;
    int64_t first_end_ms;  /* when the first lease with a key ends */
    struct db_value at[3]; /* position of the last candidate */
    int64_t *ids;
    size_t seen, chosen;
};

static int load_keys(struct db_tx *tx, struct choice *by, int64_t wanted)
{
    struct db_result rows;
    const struct db_value params[] = {db_text(by->want->queue)};
    int rc = db_run(tx, Q_RUNNING_BY_KEY, 0, params, &rows);
    if (rc < 0)
        return rc;
    by->ids = arena_alloc(db_arena(tx), (size_t)wanted * sizeof *by->ids);
    by->keys = arena_alloc(db_arena(tx), (rows.rows + (size_t)wanted) * sizeof *by->keys);
    if (by->ids == NULL || by->keys == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while claiming");
    by->first_end_ms = TEND_UNSET;
    for (size_t i = 0; i < rows.rows; i++) {
        by->keys[by->key_count++] =
            (struct key_count){.key = db_string(&rows, i, 0), .running = db_number(&rows, i, 1)};
        if (by->first_end_ms == TEND_UNSET || db_number(&rows, i, 2) < by->first_end_ms)
            by->first_end_ms = db_number(&rows, i, 2);
    }
    return 0;
}

static bool is_passed_over(const struct claim_want *want, const char *kind)
{
    for (size_t i = 0; i < want->not_kind_count; i++)
        if (strcmp(want->not_kinds[i], kind) == 0)
            return true;
    return false;
}

/* Whether one more with this key may run; counts it when so. */
static bool key_allows(struct choice *by, const char *key)
{
    struct key_count *entry = NULL;
    if (key == NULL || by->settings->queue.key_concurrency == TEND_UNSET)
        return true;
    for (size_t i = 0; i < by->key_count && entry == NULL; i++)
        if (strcmp(by->keys[i].key, key) == 0)
            entry = &by->keys[i];
    if (entry == NULL) {
        entry = &by->keys[by->key_count++];
        *entry = (struct key_count){.key = key};
    }
    if (entry->running >= by->settings->queue.key_concurrency)
        return false;
    entry->running++;
    return true;
}

static int next_page(struct db_tx *tx, const struct choice *by, struct db_result *ret)
{
    const struct db_value one[] = {db_text(by->want->queue), db_int(by->want->job_id)};
    const struct db_value many[] = {db_text(by->want->queue), by->at[0], by->at[1], by->at[2],
                                    db_int(CANDIDATES)};
    return by->want->job_id > 0 ? db_run(tx, Q_CLAIM_CANDIDATE, 0, one, ret)
                                : db_run(tx, Q_CLAIM_CANDIDATES, 0, many, ret);
}

/* Looks at the next candidates in order; *ret_more: there may be others behind them. */
static int choose_from_page(struct db_tx *tx, struct choice *by, int64_t wanted, bool *ret_more)
{
    struct db_result page;
    int rc = next_page(tx, by, &page);
    if (rc < 0)
        return rc;
    by->seen += page.rows;
    for (size_t i = 0; i < page.rows && (int64_t)by->chosen < wanted; i++) {
        if (!is_passed_over(by->want, db_string(&page, i, 4)) &&
            key_allows(by, db_string(&page, i, 3)))
            by->ids[by->chosen++] = db_number(&page, i, 0);
        by->at[0] = *db_at(&page, i, 1);
        by->at[1] = *db_at(&page, i, 2);
        by->at[2] = *db_at(&page, i, 0);
    }
    *ret_more = page.rows == CANDIDATES;
    return 0;
}

/* Claims the chosen one by one and puts the rows together. */
static int claim_chosen(struct db_tx *tx, const struct choice *by, struct db_result *ret)
{
    struct db_value *values = NULL;
    struct db_value params[9] = {db_null(), db_int(1)};
    claim_params(tx, by->want, by->settings, params);
    *ret = (struct db_result){0};
    for (size_t i = 0; i < by->chosen; i++) {
        struct db_result one;
        params[0] = db_int(by->ids[i]);
        int rc = db_run(tx, Q_JOB_CLAIM_ONE, 0, params, &one);
        if (rc < 0)
            return rc;
        if (one.rows == 0)
            continue;
        if (values == NULL)
            values = arena_alloc(db_arena(tx), by->chosen * one.columns * sizeof *values);
        if (values == NULL)
            return err_set(db_err(tx), TEND_ENOMEM, "out of memory while claiming");
        memcpy(&values[ret->rows * one.columns], one.values, one.columns * sizeof *values);
        ret->columns = one.columns;
        ret->values = values;
        ret->rows++;
    }
    return 0;
}

static bool must_choose(const struct claim_want *want, const struct queue_settings *settings)
{
    return want->not_kind_count > 0 || want->job_id > 0 ||
           settings->queue.key_concurrency != TEND_UNSET;
}

static int claim_by_choice(struct db_tx *tx, const struct claim_want *want,
                           const struct queue_settings *settings, int64_t count,
                           struct db_result *ret, struct tend_none *none)
{
    struct choice by = {
        .want = want, .settings = settings, .at = {db_int(-1), db_int(0), db_int(0)}};
    bool more = true;
    int pages = 0;
    int rc = load_keys(tx, &by, count);
    while (rc >= 0 && more && (int64_t)by.chosen < count) {
        rc = choose_from_page(tx, &by, count, &more);
        more &= want->not_kind_count == 0 || ++pages < PAGES_FOR_KINDS;
    }
    if (rc < 0 || (rc = claim_chosen(tx, &by, ret)) < 0)
        return rc;
    if (ret->rows == 0 && by.seen > 0)
        say(none, TEND_ELIMITED, want->not_kind_count > 0 ? "kind" : "key-concurrency", "",
            by.first_end_ms);
    return 0;
}

/* --- the processing lock --- */

static int say_held(struct db_tx *tx, const char *lock_name, struct tend_none *none)
{
    struct db_result lock;
    const struct db_value params[] = {db_text(lock_name), db_now(tx)};
    int rc = db_run(tx, Q_LOCK_GET, 0, params, &lock);
    if (rc < 0)
        return rc;
    say(none, TEND_EBUSY, "lock", lock.rows > 0 ? db_string(&lock, 0, 1) : "",
        lock.rows > 0 ? db_number(&lock, 0, 4) : TEND_UNSET);
    return 0;
}

/* CL-1: lock and best entry, or neither. */
static int claim_with_lock(struct db_tx *tx, const struct claim_want *want,
                           const struct queue_settings *settings, struct db_result *ret,
                           struct tend_none *none)
{
    struct db_result taken;
    const char *name = arena_printf(db_arena(tx), "queue:%s", want->queue);
    int64_t ttl_ms = want->ttl_ms != TEND_UNSET ? want->ttl_ms : settings->queue.lease_ms;
    const struct db_value params[] = {db_text(name),  db_text(want->owner),
                                      db_int(ttl_ms), db_int_or_null(want->worker_id),
                                      db_null(),      db_now(tx)};
    int rc = db_run(tx, Q_LOCK_ACQUIRE, 0, params, &taken);
    if (rc < 0)
        return rc;
    if (taken.rows == 0)
        return say_held(tx, name, none);
    rc = must_choose(want, settings) ? claim_by_choice(tx, want, settings, 1, ret, none)
                                     : limits_claim_plain(tx, want, settings, 1, 0, ret);
    if (rc < 0)
        return rc;
    if (ret->rows ==
        0) /* taken from under us on the way, or limited: undo the lock with everything else */
        return err_set(db_err(tx), none->code, "nothing to claim in queue %s", want->queue);
    const struct db_value tie[] = {db_text(name), db_int(db_number(ret, 0, 0))};
    rc = db_each(tx, Q_JOB_TIE, 0, tie, 1, NULL);
    return rc < 0 ? rc : db_each(tx, Q_LOCK_TIE, 0, tie, 1, NULL);
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
    if ((rc = allow(tx, settings, now_ms, &allowed, none)) < 0 || allowed <= 0)
        return rc;
    if (queue->serial || want->with_lock)
        rc = claim_with_lock(tx, want, settings, ret, none);
    else if (must_choose(want, settings))
        rc = claim_by_choice(tx, want, settings, allowed, ret, none);
    else
        rc = limits_claim_plain(tx, want, settings, allowed, 0, ret);
    if (rc < 0 || ret->rows == 0)
        return rc;
    return take_tokens(tx, settings, now_ms, (int64_t)ret->rows);
}
