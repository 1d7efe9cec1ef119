/*
 * Which jobs a claim gets where order alone does not decide: keys may be at their limit, and kinds
 * may not be wanted. The cost of a claim must not grow with the jobs it passes over (BY-4, WF-7),
 * so it does not walk over them. Its candidates come from
 *
 *     the front     the first CANDIDATES jobs of the queue;
 *     the rest      behind what this handle remembers as passed over (passed.h), in pieces; where
 *                   the keys (see below) leave nothing out, only jobs without a key;
 *     cut in        jobs that came before that place since: those given back, recovered, resumed,
 *                   due late, or added with a time in the past (index job_cut_in);
 *     keys          the first PER_KEY jobs of each key (index job_pending_key), KEYS of them in a
 *                   claim; where there are more keys the next claim goes on behind them;
 *     second look   a piece of what was passed over, when it is time: a net below the others.
 *
 * All but the front are merged in the order of claims, so that the order is strict (CL-4) as long
 * as the bounds above hold: a claim sees all keys and all that cut in. Beyond the bounds a job may
 * be overtaken for as long as the second look takes to come around.
 *
 * A handle that remembers nothing yet looks behind the front in a reading transaction before it
 * claims: however long that takes, others can write meanwhile.
 *
 * A candidate is claimed as soon as it is found. On PostgreSQL it may have gone to somebody else
 * since: the claim then takes the next one, and looks again when it has seen nothing else. That a
 * limit is reached is said only of jobs that were seen and passed over.
 */
#include "queue/choice.h"

#include "queue/passed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES = 256, /* a page */
    PAGES = 8,        /* of the rest, or of the second look, in one transaction */
    KEYS = 512,
    PER_KEY = 8,
    LOOKS_MOST = 5,
};

struct key_count {
    const char *key;
    int64_t running;
};

struct candidate {
    struct claim_position at;
    const char *key, *kind;
};

struct choice {
    const struct claim_want *want;
    const struct queue_settings *settings;
    bool has_keys;
    struct key_count *keys; /* those running or chosen; room for one more per job wanted */
    size_t key_count;
    int64_t first_end_ms; /* when the first lease with a key ends */
    int64_t now_ms;
    struct claim_position at; /* the last candidate of the front or the rest */
    struct passed *passed;    /* NULL: one job is wanted, and nothing is remembered */
    struct candidate *aside;  /* cut in, of keys, of the second look; in order */
    size_t aside_count, aside_next;
    bool keys_complete; /* what was put aside by keys is all that can be had of jobs with one */
    bool unseen;        /* a bound was reached: a later claim may find more */
    size_t taken;       /* candidates that went to others */
    struct job_claim_one_rows *claimed;
    size_t wanted;
    bool peeks; /* nothing is claimed; found: something could be */
    bool found;
};

bool choice_needed(const struct claim_want *want, const struct queue_settings *settings)
{
    return want->not_kind_count > 0 || want->job_id > 0 ||
           settings->queue.key_concurrency != TEND_UNSET;
}

static int no_memory(struct db_tx *tx)
{
    return err_set(db_err(tx), TEND_ENOMEM, "out of memory while claiming");
}

static bool is_enough(const struct choice *by)
{
    return by->found || by->claimed->count >= by->wanted;
}

/* --- keys and kinds --- */

static int load_keys(struct db_tx *tx, struct choice *by)
{
    struct running_by_key_rows rows;
    const struct running_by_key_params params = {.queue = db_text(by->want->queue)};
    int rc = run_running_by_key(tx, 0, params, &rows);
    if (rc < 0)
        return rc;
    by->keys = arena_alloc(db_arena(tx), (rows.count + by->wanted) * sizeof *by->keys);
    if (by->keys == NULL)
        return no_memory(tx);
    for (size_t i = 0; i < rows.count; i++) {
        const struct running_by_key_row *row = &rows.at[i];
        by->keys[by->key_count++] =
            (struct key_count){.key = db_str(row->concurrency_key), .running = db_num(row->jobs)};
        if (by->first_end_ms == TEND_UNSET || db_num(row->first_end_at) < by->first_end_ms)
            by->first_end_ms = db_num(row->first_end_at);
    }
    return 0;
}

static bool is_unwanted(const struct claim_want *want, const char *kind)
{
    for (size_t i = 0; i < want->not_kind_count; i++)
        if (strcmp(want->not_kinds[i], kind) == 0)
            return true;
    return false;
}

/* NULL: none is running, nor was chosen. */
static struct key_count *find_key(const struct choice *by, const char *key)
{
    for (size_t i = 0; i < by->key_count; i++)
        if (strcmp(by->keys[i].key, key) == 0)
            return &by->keys[i];
    return NULL;
}

static bool key_is_full(const struct choice *by, const char *key)
{
    if (!by->has_keys || key == NULL)
        return false;
    const struct key_count *entry = find_key(by, key);
    return entry != NULL && entry->running >= by->settings->queue.key_concurrency;
}

static void count_key(struct choice *by, const char *key)
{
    if (!by->has_keys || key == NULL)
        return;
    struct key_count *entry = find_key(by, key);
    if (entry == NULL) {
        entry = &by->keys[by->key_count++];
        *entry = (struct key_count){.key = key};
    }
    entry->running++;
}

/* --- one candidate --- */

/* All queries that look for candidates have the same columns: their rows are read as those of
 * claim_candidates. */
_Static_assert(sizeof(struct claim_unkeyed_row) == sizeof(struct claim_candidates_row) &&
                   sizeof(struct claim_cut_in_row) == sizeof(struct claim_candidates_row) &&
                   sizeof(struct claim_keys_row) == sizeof(struct claim_candidates_row) &&
                   sizeof(struct claim_candidate_row) == sizeof(struct claim_candidates_row),
               "the same columns");

static struct candidate candidate_of(const struct claim_candidates_row *row)
{
    return (struct candidate){.at = {.priority = db_num(row->priority),
                                     .due_at = db_num(row->due_at),
                                     .id = db_num(row->id)},
                              .key = db_str(row->concurrency_key),
                              .kind = db_str(row->kind)};
}

/* Leases it; its row goes behind those claimed before. 1, or 0 when somebody else has it. */
static int claim_it(struct db_tx *tx, struct choice *by, const struct candidate *candidate)
{
    const struct job_claim_one_params params = {
        .id = db_int(candidate->at.id),
        .count = db_int(1),
        .owner = db_text(by->want->owner),
        .worker_id = db_int_or_null(by->want->worker_id),
        .now = db_now(tx),
        .asked_ms = db_int_or_null(by->want->ttl_ms),
        .usual_ms = db_int(by->settings->queue.lease_ms),
        .starts = db_int(by->want->started),
        .kind = db_text(candidate->kind),
        .key = db_text(candidate->key),
    };
    struct job_claim_one_rows one;
    struct job_claim_one_rows *all = by->claimed;
    int rc = run_job_claim_one(tx, 0, params, &one);
    if (rc < 0 || one.count == 0)
        return rc;
    if (all->count == 0) {
        all->at = arena_alloc(db_arena(tx), by->wanted * sizeof *all->at);
        if (all->at == NULL)
            return no_memory(tx);
        all->columns = one.columns;
    }
    struct job_claim_one_row *jobs = (struct job_claim_one_row *)all->at; /* they are ours */
    jobs[all->count++] = one.at[0];
    return 1;
}

static int consider(struct db_tx *tx, struct choice *by, const struct candidate *candidate)
{
    struct claim_look *look = by->want->look;
    if (is_unwanted(by->want, candidate->kind)) {
        look->passed_kind = true;
        return 0;
    }
    if (key_is_full(by, candidate->key)) {
        look->passed_key = true;
        return 0;
    }
    if (by->peeks) {
        by->found = true;
        return 0;
    }
    int rc = claim_it(tx, by, candidate);
    if (rc > 0)
        count_key(by, candidate->key);
    else if (rc == 0)
        by->taken++;
    return rc;
}

/* --- candidates from aside --- */

static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;
    return position_is_before(&a->at, &b->at) ? -1 : position_is_before(&b->at, &a->at);
}

/* Those that can be had, behind the place that the front has come to. */
static int put_aside(struct db_tx *tx, struct choice *by, const struct claim_candidates_rows *rows)
{
    struct candidate *all =
        arena_alloc(db_arena(tx), (by->aside_count + rows->count + 1) * sizeof *all);
    if (all == NULL)
        return no_memory(tx);
    if (by->aside_count > 0)
        memcpy(all, by->aside, by->aside_count * sizeof *all);
    by->aside = all;
    for (size_t i = 0; i < rows->count; i++) {
        struct candidate one = candidate_of(&rows->at[i]);
        if (position_is_before(&by->at, &one.at) && !is_unwanted(by->want, one.kind) &&
            !key_is_full(by, one.key))
            all[by->aside_count++] = one;
    }
    return 0;
}

/* claim_cut_in has the same parameters as claim_candidates. */
_Static_assert(sizeof(struct claim_cut_in_params) == sizeof(struct claim_candidates_params),
               "the same parameters");

static int page_of(struct db_tx *tx, const struct choice *by, enum db_query query,
                   const struct claim_position *at, struct claim_candidates_rows *ret)
{
    const struct claim_candidates_params params = {.queue = db_text(by->want->queue),
                                                   .after_priority = db_int(at->priority),
                                                   .after_due_at = db_int(at->due_at),
                                                   .after_id = db_int(at->id),
                                                   .limit = db_int(CANDIDATES)};
    return db_run(tx, query, 0, DB_VALUES(&params), &ret->result);
}

/* A piece of the jobs behind *at, which moves on; *ret_more: there may be others behind them. */
static int put_piece_aside(struct db_tx *tx, struct choice *by, enum db_query query,
                           struct claim_position *at, bool *ret_more)
{
    struct claim_candidates_rows page = {.count = CANDIDATES};
    int rc = 0;
    for (int pages = 0; rc >= 0 && page.count == CANDIDATES && pages < PAGES; pages++) {
        if ((rc = page_of(tx, by, query, at, &page)) < 0)
            return rc;
        if (page.count > 0)
            *at = candidate_of(&page.at[page.count - 1]).at;
        rc = put_aside(tx, by, &page);
    }
    *ret_more = page.count == CANDIDATES;
    return rc;
}

static int put_cut_in_aside(struct db_tx *tx, struct choice *by)
{
    struct claim_position at = by->at;
    bool more = false;
    int rc = passed_any(by->passed) ? put_piece_aside(tx, by, Q_CLAIM_CUT_IN, &at, &more) : 0;
    by->unseen |= more;
    return rc;
}

/* How many keys the rows have, which come key by key. */
static size_t count_keys(const struct claim_candidates_rows *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++)
        count += i == 0 || strcmp(db_str(rows->at[i].concurrency_key),
                                  db_str(rows->at[i - 1].concurrency_key)) != 0;
    return count;
}

/* How many jobs of one key a claim can take, if it need not pass over any. */
static int64_t per_key_most(const struct choice *by)
{
    int64_t limit = by->settings->queue.key_concurrency;
    if (by->want->not_kind_count > 0)
        return INT64_MAX;
    return (int64_t)by->wanted < limit ? (int64_t)by->wanted : limit;
}

static int put_keys_aside(struct db_tx *tx, struct choice *by)
{
    struct claim_candidates_rows rows = {0};
    char *from = by->passed->key;
    int64_t most = per_key_most(by);
    int64_t per_key = most < PER_KEY ? most : PER_KEY;
    bool again;
    do { /* from the first key again when those behind the last claim were fewer than may be seen */
        again = from[0] != '\0';
        const struct claim_keys_params params = {.queue = db_text(by->want->queue),
                                                 .after_key = db_text(from),
                                                 .keys = db_int(KEYS),
                                                 .per_key = db_int(per_key)};
        int rc = db_run(tx, Q_CLAIM_KEYS, 0, DB_VALUES(&params), &rows.result);
        if (rc < 0 || (rc = put_aside(tx, by, &rows)) < 0)
            return rc;
        from[0] = '\0';
    } while (again && count_keys(&rows) < KEYS);
    by->keys_complete = count_keys(&rows) < KEYS && most <= PER_KEY;
    by->unseen |= count_keys(&rows) == KEYS || by->want->not_kind_count > 0;
    if (count_keys(&rows) == KEYS)
        snprintf(from, sizeof by->passed->key, "%s",
                 db_str(rows.at[rows.count - 1].concurrency_key));
    return 0;
}

/* A piece of what was passed over is looked at again. */
static int look_again(struct db_tx *tx, struct choice *by)
{
    struct claim_position at = by->passed->again;
    bool more;
    if (!passed_is_time(by->passed, by->now_ms))
        return 0;
    int rc = put_piece_aside(tx, by, Q_CLAIM_CANDIDATES, &at, &more);
    if (rc >= 0)
        passed_looked(by->passed, more ? &at : NULL, by->now_ms);
    return rc;
}

/* Those that come before a position; NULL: all. */
static int consider_aside(struct db_tx *tx, struct choice *by, const struct claim_position *until)
{
    int rc = 0;
    for (; rc >= 0 && by->aside_next < by->aside_count && !is_enough(by); by->aside_next++) {
        const struct candidate *next = &by->aside[by->aside_next];
        if (until != NULL && !position_is_before(&next->at, until))
            break;
        if (by->aside_next == 0 || compare_candidates(next - 1, next) != 0)
            rc = consider(tx, by, next);
    }
    return rc;
}

static void skip_aside(struct choice *by, const struct claim_position *at)
{
    while (by->aside_next < by->aside_count &&
           !position_is_before(at, &by->aside[by->aside_next].at))
        by->aside_next++;
}

/* --- the queue in its order --- */

/* Jobs without a key are looked for priority by priority. *ret_next: the beginning of the next, of
 * priority -1 when there is none. */
static int page_of_unkeyed(struct db_tx *tx, const struct choice *by,
                           struct claim_candidates_rows *ret, struct claim_position *ret_next)
{
    struct claim_next_priority_rows next;
    const struct claim_next_priority_params behind = {.queue = db_text(by->want->queue),
                                                      .after_priority = db_int(by->at.priority)};
    const struct claim_unkeyed_params params = {.queue = db_text(by->want->queue),
                                                .priority = db_int(by->at.priority),
                                                .after_due_at = db_int(by->at.due_at),
                                                .after_id = db_int(by->at.id),
                                                .limit = db_int(CANDIDATES)};
    int rc = run_claim_next_priority(tx, DB_LATER, behind, &next);
    if (rc < 0 || (rc = db_run(tx, Q_CLAIM_UNKEYED, 0, DB_VALUES(&params), &ret->result)) < 0)
        return rc;
    *ret_next = CLAIM_START;
    if (next.count > 0)
        *ret_next =
            (struct claim_position){.priority = db_num(next.at[0].priority), .due_at = INT64_MIN};
    return 0;
}

/* Looks at the next candidates; *ret_more: there may be others behind them. */
static int choose_from_page(struct db_tx *tx, struct choice *by, bool *ret_more)
{
    struct claim_candidates_rows page = {0};
    struct claim_position next = CLAIM_START;
    int rc = by->keys_complete ? page_of_unkeyed(tx, by, &page, &next)
                               : page_of(tx, by, Q_CLAIM_CANDIDATES, &by->at, &page);
    for (size_t i = 0; rc >= 0 && i < page.count && !is_enough(by); i++) {
        struct candidate one = candidate_of(&page.at[i]);
        if ((rc = consider_aside(tx, by, &one.at)) < 0 || is_enough(by))
            break;
        skip_aside(by, &one.at);
        rc = consider(tx, by, &one);
        if (by->found)
            break;
        by->at = one.at;
        if (by->taken == 0) /* it may come back when the others' transaction fails */
            passed_note(by->passed, &by->at, by->now_ms);
    }
    if (rc >= 0 && by->keys_complete && page.count < CANDIDATES && !is_enough(by)) {
        if (by->taken == 0)
            passed_note_end(by->passed, by->at.priority, by->now_ms);
        if (next.priority >= 0 && (rc = consider_aside(tx, by, &next)) >= 0)
            by->at = next;
    }
    *ret_more = rc >= 0 && (page.count == CANDIDATES || next.priority >= 0);
    return rc;
}

static int look_at_front(struct db_tx *tx, struct choice *by, bool *ret_more)
{
    by->at = CLAIM_START;
    return choose_from_page(tx, by, ret_more);
}

/* Behind the front, a piece. */
static int look_at_rest(struct db_tx *tx, struct choice *by, bool *ret_more)
{
    int rc;
    if ((rc = put_cut_in_aside(tx, by)) < 0 || (rc = look_again(tx, by)) < 0 ||
        (by->has_keys && (rc = put_keys_aside(tx, by)) < 0))
        return rc;
    if (by->aside_count > 0)
        qsort(by->aside, by->aside_count, sizeof *by->aside, compare_candidates);
    by->at = passed_jump(by->passed, &by->at);
    for (int pages = 0; rc >= 0 && *ret_more && !is_enough(by) && pages < PAGES; pages++) {
        rc = choose_from_page(tx, by, ret_more);
        by->at = passed_jump(by->passed, &by->at);
    }
    if (rc >= 0 && !*ret_more)
        rc = consider_aside(tx, by, NULL);
    return rc;
}

static int look(struct db_tx *tx, struct choice *by)
{
    struct claim_look *where = by->want->look;
    bool more = true;
    int rc = 0;
    where->after = where->before;
    passed_set_keyed(&where->after, by->has_keys);
    const struct passed begun = where->after;
    by->passed = &where->after;
    by->at = where->begin;
    by->taken = by->aside_count = by->aside_next = 0;
    by->keys_complete = false;
    if (where->begin.priority == CLAIM_START.priority)
        rc = look_at_front(tx, by, &more);
    where->to_read = more && !is_enough(by) && by->claimed->count == 0 && !by->peeks &&
                     !where->is_read && !passed_any(&where->before);
    if (rc >= 0 && more && !is_enough(by) && !where->to_read)
        rc = look_at_rest(tx, by, &more);
    if (by->found) /* the claim that follows is to find it in the same place */
        passed_turn_back(&where->after, &begun);
    where->used = true;
    where->more = more;
    where->found = by->found;
    where->end = where->to_read ? where->begin : by->at;
    return rc;
}

static int look_at_one(struct db_tx *tx, struct choice *by)
{
    struct claim_candidates_rows rows;
    const struct claim_candidate_params params = {.queue = db_text(by->want->queue),
                                                  .id = db_int(by->want->job_id)};
    int rc = db_run(tx, Q_CLAIM_CANDIDATE, 0, DB_VALUES(&params), &rows.result);
    if (rc < 0 || rows.count == 0)
        return rc;
    struct candidate one = candidate_of(&rows.at[0]);
    return consider(tx, by, &one);
}

/* --- the whole --- */

static void say_why(const struct choice *by, struct tend_none *none)
{
    const struct claim_look *look = by->want->look;
    *none = (struct tend_none){.code = TEND_ELIMITED, .until_ms = by->first_end_ms};
    snprintf(none->what, sizeof none->what, "%s", look->passed_kind ? "kind" : "key-concurrency");
    if (by->passed != NULL && passed_any(by->passed) && by->passed->again_ms > by->now_ms &&
        (none->until_ms == TEND_UNSET || by->passed->again_ms < none->until_ms))
        none->until_ms = by->passed->again_ms;
}

static int begin(struct db_tx *tx, struct choice *by)
{
    struct claim_look *where = by->want->look;
    *by->claimed = (struct job_claim_one_rows){0};
    by->has_keys = by->settings->queue.key_concurrency != TEND_UNSET;
    by->first_end_ms = TEND_UNSET;
    where->passed_kind = where->passed_kind_before;
    where->passed_key = where->passed_key_before;
    int rc = db_time(tx, &by->now_ms);
    return rc < 0 || !by->has_keys ? rc : load_keys(tx, by);
}

int choice_claim(struct db_tx *tx, const struct claim_want *want,
                 const struct queue_settings *settings, int64_t count,
                 struct job_claim_one_rows *ret, struct tend_none *none)
{
    struct choice by = {
        .want = want, .settings = settings, .claimed = ret, .wanted = (size_t)count};
    int rc = begin(tx, &by);
    for (int looks = 0; rc >= 0 && ret->count == 0 && looks < LOOKS_MOST; looks++) {
        rc = want->job_id > 0 ? look_at_one(tx, &by) : look(tx, &by);
        if (by.taken == 0)
            break;
    }
    if (rc >= 0 && ret->count == 0 && (want->look->passed_kind || want->look->passed_key))
        say_why(&by, none);
    return rc < 0 ? rc : 0;
}

int choice_peek(struct db_tx *tx, const struct claim_want *want,
                const struct queue_settings *settings, bool *ret, struct tend_none *none)
{
    struct job_claim_one_rows nothing;
    struct choice by = {.want = want,
                        .settings = settings,
                        .claimed = &nothing,
                        .wanted = (size_t)want->count,
                        .peeks = true};
    int rc = begin(tx, &by);
    if (rc >= 0)
        rc = want->job_id > 0 ? look_at_one(tx, &by) : look(tx, &by);
    *ret = by.found || by.unseen || (want->job_id == 0 && want->look->more);
    if (rc >= 0 && !*ret && (want->look->passed_kind || want->look->passed_key))
        say_why(&by, none);
    return rc < 0 ? rc : 0;
}
