/*
 * The statements of several transactions that are committed together, as few as possible: those
 * that are alike become one. Statements over arrays are alike when they are the same query; claims
 * when they differ in nothing but how many jobs are wanted. What is like no other stays as it is.
 *
 * Answers are dealt out in the order in which the transactions came, which for claims is the order
 * in which jobs are handed out (CL-4).
 */
#include "store/pg_merge.h"

#include <string.h>
#include <tend.h>

static bool is_array(const struct pg_call *call)
{
    return call->each && call->source != NULL && pg_call_takes_arrays(call->asked);
}

/* Whether all of a transaction is one statement that others may join. */
static bool may_join(const struct pg_tx *tx)
{
    const struct pg_call *call = tx->first;
    return call->next == NULL && (is_array(call) || pg_claim_is(call));
}

static bool alike(const struct pg_tx *one, const struct pg_tx *other)
{
    const struct pg_call *a = one->first;
    const struct pg_call *b = other->first;
    if (!may_join(one) || !may_join(other) || pg_claim_is(a) != pg_claim_is(b))
        return false;
    return pg_claim_is(a) ? pg_claim_alike(a, b) : a->asked == b->asked;
}

/* --- together --- */

/* One statement for the rows of all members, or NULL: out of memory. */
static struct pg_call *arrays_of(struct pg_bundle *bundle)
{
    struct pg_tx *leader = bundle->members[0];
    struct arena *arena = leader->base.arena;
    enum db_query query = leader->first->asked;
    size_t width = (size_t)db_query_texts[query].params;
    size_t rows = 0;
    for (size_t i = 0; i < bundle->count; i++)
        rows += bundle->members[i]->first->rows;
    struct db_value *params = arena_alloc(arena, rows * width * sizeof *params);
    bundle->each = arena_zalloc(arena, rows * sizeof *bundle->each);
    if (params == NULL || bundle->each == NULL)
        return NULL;
    struct db_value *at = params;
    for (size_t i = 0; i < bundle->count; i++) {
        const struct pg_call *call = bundle->members[i]->first;
        memcpy(at, call->source, call->rows * width * sizeof *at);
        at += call->rows * width;
    }
    return pg_call_arrays(&leader->base, query, params, rows, bundle->each);
}

static struct pg_call *claim_of(struct pg_bundle *bundle)
{
    int64_t count = 0;
    for (size_t i = 0; i < bundle->count; i++)
        count += pg_claim_count(bundle->members[i]->first);
    return pg_claim_again(bundle->members[0]->first, count, &bundle->claimed);
}

/* The transactions that are like the first of those given, which are marked with NULL. */
static bool collect(struct pg_bundle *bundle, struct pg_tx **txs, size_t count, struct arena *arena)
{
    *bundle = (struct pg_bundle){0};
    bundle->members = arena_alloc(arena, count * sizeof(struct pg_tx *));
    if (bundle->members == NULL)
        return false;
    bundle->members[bundle->count++] = txs[0];
    for (size_t i = 1; i < count; i++) {
        if (txs[i] == NULL || !alike(txs[0], txs[i]))
            continue;
        bundle->members[bundle->count++] = txs[i];
        txs[i] = NULL;
    }
    return true;
}

struct pg_call *pg_merge(struct pg_tx *const *txs, size_t count, struct pg_bundle **ret_bundles)
{
    struct arena *arena = txs[0]->base.arena;
    struct pg_tx **left = arena_alloc(arena, count * sizeof(struct pg_tx *));
    struct pg_call *first = NULL;
    struct pg_call **tail = &first;
    *ret_bundles = NULL;
    if (left == NULL)
        return NULL;
    memcpy(left, txs, count * sizeof(struct pg_tx *));
    for (size_t i = 0; i < count; i++) {
        struct pg_bundle *bundle = arena_alloc(arena, sizeof *bundle);
        if (left[i] == NULL)
            continue;
        if (bundle == NULL || !collect(bundle, left + i, count - i, arena))
            return NULL;
        if (bundle->count == 1) {
            *tail = left[i]->first;
            tail = left[i]->tail;
            continue;
        }
        *tail = pg_claim_is(left[i]->first) ? claim_of(bundle) : arrays_of(bundle);
        if (*tail == NULL)
            return NULL;
        tail = &(*tail)->next;
        bundle->next = *ret_bundles;
        *ret_bundles = bundle;
    }
    return first;
}

void pg_merge_undo(struct pg_tx *const *txs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        *txs[i]->tail = NULL;
}

/* --- and apart again --- */

static void deal_each(const struct pg_bundle *bundle)
{
    const int64_t *each = bundle->each;
    for (size_t i = 0; i < bundle->count; i++) {
        const struct pg_call *call = bundle->members[i]->first;
        if (call->ret_each != NULL)
            memcpy(call->ret_each, each, call->rows * sizeof *each);
        each += call->rows;
    }
}

/* Rows as the transaction they are for may keep them. */
static bool copy_rows(const struct db_value *from, size_t rows, size_t columns, struct pg_tx *to)
{
    struct arena *arena = to->base.arena;
    struct db_value *values = arena_alloc(arena, rows * columns * sizeof *values + 1);
    if (values == NULL)
        return false;
    for (size_t i = 0; i < rows * columns; i++) {
        values[i] = from[i];
        if (from[i].type != DB_TEXT && from[i].type != DB_BYTES)
            continue;
        values[i].text = arena_strndup(arena, from[i].text, from[i].bytes);
        if (values[i].text == NULL)
            return false;
    }
    *to->first->result = (struct db_result){.rows = rows, .columns = columns, .values = values};
    return true;
}

static void deal_claimed(const struct pg_bundle *bundle)
{
    const struct db_result *all = &bundle->claimed;
    size_t at = 0;
    for (size_t i = 0; i < bundle->count; i++) {
        struct pg_tx *member = bundle->members[i];
        size_t rows = (size_t)pg_claim_count(member->first);
        if (rows > all->rows - at)
            rows = all->rows - at;
        /* Its jobs are leased to it all the same; they come back when the leases end. */
        if (!copy_rows(all->values + at * all->columns, rows, all->columns, member)) {
            member->failed = true;
            err_set(member->base.err, TEND_ENOMEM, "out of memory while reading %zu rows", rows);
        }
        at += rows;
    }
}

void pg_merge_deal(const struct pg_bundle *bundles)
{
    for (const struct pg_bundle *bundle = bundles; bundle != NULL; bundle = bundle->next) {
        if (bundle->each != NULL)
            deal_each(bundle);
        else
            deal_claimed(bundle);
    }
}
