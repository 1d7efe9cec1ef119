#include "queue/choice.h"

#include "base/clock.h"
#include "queue/passed.h"

#include <stdio.h>
#include <string.h>

/* A page of candidates, and how many of them are looked at in one transaction for kinds alone. */
enum { CANDIDATES = 256, PAGES_FOR_KINDS = 8 };

struct key_count {
    const char *key;
    int64_t running;
};

struct choice {
    const struct claim_want *want;
    const struct queue_settings *settings;
    struct key_count *keys; /* those running or chosen; room for one more per job wanted */
    size_t key_count;
    int64_t first_end_ms; /* when the first lease with a key ends */
    int64_t now_ms;
    struct claim_position at; /* the last candidate */
    struct passed *passed;    /* NULL: keys decide too, and may be free again any time */
    bool second_look;
    int64_t *ids;
    size_t seen, chosen, wanted;
};

bool choice_needed(const struct claim_want *want, const struct queue_settings *settings)
{
    return want->not_kind_count > 0 || want->job_id > 0 ||
           settings->queue.key_concurrency != TEND_UNSET;
}

/* --- keys and kinds --- */

static int load_keys(struct db_tx *tx, struct choice *by)
{
    struct db_result rows;
    const struct db_value params[] = {db_text(by->want->queue)};
    int rc = db_run(tx, Q_RUNNING_BY_KEY, 0, params, &rows);
    if (rc < 0)
        return rc;
    by->keys = arena_alloc(db_arena(tx), (rows.rows + by->wanted) * sizeof *by->keys);
    if (by->keys == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while claiming");
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

/* --- looking --- */

static int next_page(struct db_tx *tx, const struct choice *by, struct db_result *ret)
{
    const struct db_value one[] = {db_text(by->want->queue), db_int(by->want->job_id)};
    const struct db_value many[] = {db_text(by->want->queue), db_int(by->at.priority),
                                    db_int(by->at.due_at), db_int(by->at.id), db_int(CANDIDATES)};
    return by->want->job_id > 0 ? db_run(tx, Q_CLAIM_CANDIDATE, 0, one, ret)
                                : db_run(tx, Q_CLAIM_CANDIDATES, 0, many, ret);
}

/* Looks at the next candidates in order; *ret_more: there may be others behind them. */
static int choose_from_page(struct db_tx *tx, struct choice *by, bool *ret_more)
{
    struct db_result page;
    int rc = next_page(tx, by, &page);
    if (rc < 0)
        return rc;
    by->seen += page.rows;
    for (size_t i = 0; i < page.rows && by->chosen < by->wanted; i++) {
        if (!is_passed_over(by->want, db_string(&page, i, 4)) &&
            key_allows(by, db_string(&page, i, 3)))
            by->ids[by->chosen++] = db_number(&page, i, 0);
        by->at = (struct claim_position){db_number(&page, i, 1), db_number(&page, i, 2),
                                         db_number(&page, i, 0)};
        if (by->passed != NULL && !by->second_look)
            passed_note(by->passed, &by->at, by->now_ms);
    }
    if (by->passed != NULL && !by->second_look)
        by->at = passed_jump(by->passed, &by->at);
    *ret_more = page.rows == CANDIDATES;
    return 0;
}

/* Page after page until enough are chosen; for kinds alone not more than a piece. */
static int look(struct db_tx *tx, struct choice *by, bool *ret_more)
{
    int rc = 0;
    *ret_more = true;
    for (int pages = 0; rc >= 0 && *ret_more && by->chosen < by->wanted &&
                        (by->passed == NULL || pages < PAGES_FOR_KINDS);
         pages++)
        rc = choose_from_page(tx, by, ret_more);
    return rc;
}

/* The whole queue behind what is remembered, then, when it is time, a piece of what is. */
static int look_for_kinds(struct db_tx *tx, struct choice *by)
{
    struct claim_look *where = by->want->look;
    where->after = where->before;
    by->passed = &where->after;
    by->at = where->begin;
    int rc = look(tx, by, &where->more);
    where->end = by->at;
    if (rc < 0 || by->chosen > 0 || where->more)
        return rc;
    int64_t begun_ms = clock_mono_ms();
    if (!passed_any(by->passed) || begun_ms < by->passed->again_ms)
        return rc;
    bool more;
    by->second_look = true;
    by->at = by->passed->again;
    if ((rc = look(tx, by, &more)) >= 0)
        passed_looked(by->passed, more ? &by->at : NULL, begun_ms);
    return rc;
}

/* --- the whole --- */

/* Claims the chosen one by one and puts the rows together. */
static int claim_chosen(struct db_tx *tx, const struct choice *by, struct db_result *ret)
{
    struct db_value *values = NULL;
    struct db_value params[9] = {db_null(), db_int(1)};
    limits_claim_params(tx, by->want, by->settings, params);
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

static void say_why(const struct choice *by, struct tend_none *none)
{
    bool kinds = by->want->not_kind_count > 0;
    *none = (struct tend_none){.code = TEND_ELIMITED, .until_ms = by->first_end_ms};
    snprintf(none->what, sizeof none->what, "%s", kinds ? "kind" : "key-concurrency");
    if (by->passed != NULL && passed_any(by->passed))
        none->until_ms = by->now_ms + by->passed->again_ms - clock_mono_ms();
}

int choice_claim(struct db_tx *tx, const struct claim_want *want,
                 const struct queue_settings *settings, int64_t count, struct db_result *ret,
                 struct tend_none *none)
{
    struct choice by = {.want = want,
                        .settings = settings,
                        .first_end_ms = TEND_UNSET,
                        .at = CLAIM_START,
                        .wanted = (size_t)count};
    bool has_keys = settings->queue.key_concurrency != TEND_UNSET;
    bool more;
    int rc = db_time(tx, &by.now_ms);
    if (rc < 0 || (has_keys && (rc = load_keys(tx, &by)) < 0))
        return rc;
    by.ids = arena_alloc(db_arena(tx), by.wanted * sizeof *by.ids);
    if (by.ids == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while claiming");
    rc = has_keys || want->job_id > 0 ? look(tx, &by, &more) : look_for_kinds(tx, &by);
    if (rc < 0 || (rc = claim_chosen(tx, &by, ret)) < 0)
        return rc;
    if (ret->rows == 0 && (by.seen > 0 || by.passed != NULL))
        say_why(&by, none);
    return 0;
}
