/*
 * The order in which rows are locked. Two transactions that lock the same rows in opposite orders
 * wait for each other, and the server ends one of them after a second. So all lock in one order:
 *
 *     the row of the store, or of a queue  ->  jobs by id  ->  named locks by name
 *
 *   - A statement over many rows takes them by the first parameter of its query, whatever order the
 *     caller gave: it is the id of the job, or the name of the lock. The rows of a db_each are
 *     sorted here, and the answers go back to where each row stood. The server follows: it joins
 *     the list with the table in the order of the list, because it may not do otherwise (the
 *     settings of a session, pg_conn.c), and a list after = ANY it sorts itself.
 *   - Statements that commit together (pg_merge.c) are put in that order too: what waits for jobs,
 *     then signs of life, which skip the jobs that others have locked, then what waits for locks,
 *     then what waits for nobody: claims skip what is locked, adds meet nobody. If two of the first
 *     kind overlap, their jobs are locked before all of them.
 *   - A body that runs several statements keeps the order itself; queue/claim.c has it in one
 *     place. What it cannot know beforehand it locks with SKIP LOCKED. What it has to wait for all
 *     the same, the runs that a schedule replaces, is a transaction of its own.
 *   - Those who clean up (queue/retain.c) lock finished jobs with SKIP LOCKED, then what belongs to
 *     them, the totals, open controls and old events, each kind in one statement and its own order.
 *   - Who holds a job may change what belongs to it (attempts, checkpoints, controls, and the lock
 *     it was taken with), because all others lock the job first.
 *
 * Adds are left as they are: ids follow the order of the batch. Keys of a batch: queue/add.c.
 */
#include "store/pg_db.h"

#include <stdlib.h>
#include <string.h>

/* --- the rows of one statement --- */

static bool adds(enum db_query query)
{
    return query == Q_JOB_ADD || query == Q_JOB_ADD_BASIC;
}

/* Whoever is alive says so for many jobs at once: one that another session has locked must not hold
 * up the others. */
static bool skips(enum db_query query)
{
    return query == Q_JOB_HEARTBEAT || query == Q_JOB_START;
}

static int compare_keys(const struct db_value *a, const struct db_value *b)
{
    if (a->type != b->type || a->type == DB_NULL)
        return 0;
    if (a->type == DB_INT)
        return (a->number > b->number) - (a->number < b->number);
    int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

struct placed {
    const struct db_value *key;
    size_t row;
};

static int compare_placed(const void *one, const void *other)
{
    const struct placed *a = one;
    const struct placed *b = other;
    int order = compare_keys(a->key, b->key);
    return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
}

static bool is_sorted(const struct db_value *params, size_t rows, size_t width)
{
    for (size_t row = 1; row < rows; row++)
        if (compare_keys(&params[(row - 1) * width], &params[row * width]) > 0)
            return false;
    return true;
}

bool pg_order_rows(enum db_query query, const struct db_value *params, size_t rows,
                   struct arena *arena, const size_t **ret_order)
{
    size_t width = (size_t)db_query_texts[query].params;
    *ret_order = NULL;
    if (width == 0 || adds(query) || is_sorted(params, rows, width))
        return true;
    struct placed *placed = arena_alloc(arena, rows * sizeof *placed);
    size_t *order = arena_alloc(arena, rows * sizeof *order);
    if (placed == NULL || order == NULL)
        return false;
    for (size_t row = 0; row < rows; row++)
        placed[row] = (struct placed){.key = &params[row * width], .row = row};
    qsort(placed, rows, sizeof *placed, compare_placed);
    for (size_t row = 0; row < rows; row++)
        order[row] = placed[row].row;
    *ret_order = order;
    return true;
}

const struct db_value *pg_order_params(enum db_query query, const struct db_value *params,
                                       size_t rows, const size_t *order, struct arena *arena)
{
    size_t width = (size_t)db_query_texts[query].params;
    if (order == NULL)
        return params;
    struct db_value *sorted = arena_alloc(arena, rows * width * sizeof *sorted);
    for (size_t row = 0; sorted != NULL && row < rows; row++)
        memcpy(&sorted[row * width], &params[order[row] * width], width * sizeof *sorted);
    return sorted;
}

bool pg_order_note(struct pg_call *call, const struct db_value *params, size_t rows,
                   struct arena *arena)
{
    size_t width = (size_t)db_query_texts[call->asked].params;
    int64_t *keys = &call->key;
    if (width == 0 || adds(call->asked) || params[0].type == DB_NULL)
        return true;
    if (params[0].type != DB_INT) {
        call->waits = PG_WAITS_FOR_LOCK;
        return true;
    }
    call->waits = skips(call->asked) ? PG_SKIPS_JOBS : PG_WAITS_FOR_JOBS;
    if (rows > 1 && (keys = arena_alloc(arena, rows * sizeof *keys)) == NULL)
        return false;
    for (size_t row = 0; row < rows; row++)
        keys[row] = params[row * width].number;
    call->keys = keys;
    return true;
}

/* --- statements that commit together --- */

static int compare_names(const struct pg_call *a, const struct pg_call *b)
{
    const struct db_value one = db_text_n(a->values[0], (size_t)a->lengths[0]);
    const struct db_value other = db_text_n(b->values[0], (size_t)b->lengths[0]);
    return compare_keys(&one, &other);
}

static int compare_calls(const struct pg_call *a, const struct pg_call *b)
{
    if (a->waits != b->waits)
        return a->waits < b->waits ? -1 : 1;
    if (a->waits == PG_WAITS_FOR_JOBS)
        return (a->keys[0] > b->keys[0]) - (a->keys[0] < b->keys[0]);
    return a->waits == PG_WAITS_FOR_LOCK ? compare_names(a, b) : 0;
}

/* Whether two statements wait for jobs such that together they do not go by id. */
static bool overlap(struct pg_call *const *calls, size_t count, size_t *ret_rows)
{
    bool any = false;
    size_t rows = 0;
    for (size_t i = 0; i < count && calls[i]->waits == PG_WAITS_FOR_JOBS; i++) {
        const struct pg_call *before = i == 0 ? NULL : calls[i - 1];
        any |= before != NULL && before->keys[before->rows - 1] >= calls[i]->keys[0];
        rows += calls[i]->rows;
    }
    *ret_rows = rows;
    return any;
}

bool pg_order_calls(struct pg_call **calls, size_t count, struct arena *arena,
                    struct pg_call **ret_first)
{
    size_t rows;
    /* Few, and mostly in order; those that are equal stay in the order in which they came. */
    for (size_t i = 1; i < count; i++)
        for (size_t at = i; at > 0 && compare_calls(calls[at - 1], calls[at]) > 0; at--) {
            struct pg_call *later = calls[at - 1];
            calls[at - 1] = calls[at];
            calls[at] = later;
        }
    *ret_first = NULL;
    if (!overlap(calls, count, &rows))
        return true;
    struct db_value *ids = arena_alloc(arena, rows * sizeof *ids);
    if (ids == NULL)
        return false;
    for (size_t i = 0, at = 0; at < rows; i++)
        for (size_t row = 0; row < calls[i]->rows; row++)
            ids[at++] = db_int(calls[i]->keys[row]);
    *ret_first = pg_call_arrays(calls[0]->tx, Q_JOB_LOCK_ROWS, ids, rows, NULL);
    return *ret_first != NULL;
}

bool pg_order_kept(const struct pg_call *calls)
{
    for (const struct pg_call *call = calls; call != NULL && call->next != NULL; call = call->next)
        if (call->waits > call->next->waits)
            return false;
    return true;
}
