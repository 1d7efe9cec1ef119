/*
 * The statements of several transactions that are committed together, as few as possible: those
 * that are alike become one. Statements over arrays are alike when they are the same query; claims
 * when they differ in nothing but how many jobs are wanted. What is like no other stays as it is.
 * They go out in the order in which rows are locked (pg_order.c).
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

static bool alike(const struct pg_call *a, const struct pg_call *b)
{
    if (pg_claim_is(a) || pg_claim_is(b))
        return pg_claim_is(a) && pg_claim_is(b) && pg_claim_alike(a, b);
    return a->asked == b->asked && is_array(a) && is_array(b);
}

/* --- together --- */

/* One statement for the rows of all members, or NULL: out of memory. */
static struct pg_call *arrays_of(struct pg_bundle *bundle)
{
    struct db_tx *tx = bundle->members[0]->tx;
    enum db_query query = bundle->members[0]->asked;
    size_t width = (size_t)db_query_texts[query].params;
    size_t rows = 0;
    for (size_t i = 0; i < bundle->count; i++)
        rows += bundle->members[i]->rows;
    struct db_value *params = arena_alloc(tx->arena, rows * width * sizeof *params);
    bundle->each = arena_zalloc(tx->arena, rows * sizeof *bundle->each);
    if (params == NULL || bundle->each == NULL)
        return NULL;
    struct db_value *at = params;
    for (size_t i = 0; i < bundle->count; i++) {
        const struct pg_call *call = bundle->members[i];
        memcpy(at, call->source, call->rows * width * sizeof *at);
        at += call->rows * width;
    }
    return pg_call_arrays(tx, query, params, rows, bundle->each);
}

static struct pg_call *claim_of(struct pg_bundle *bundle)
{
    int64_t count = 0;
    for (size_t i = 0; i < bundle->count; i++)
        count += pg_claim_count(bundle->members[i]);
    return pg_claim_again(bundle->members[0], count, &bundle->claimed);
}

/* The calls that are like the first of those given, which are marked with NULL. */
static struct pg_bundle *collect(struct pg_call **calls, size_t count, struct arena *arena)
{
    struct pg_bundle *bundle = arena_zalloc(arena, sizeof *bundle);
    if (bundle == NULL ||
        (bundle->members = arena_alloc(arena, count * sizeof(struct pg_call *))) == NULL)
        return NULL;
    bundle->members[bundle->count++] = calls[0];
    for (size_t i = 1; i < count; i++) {
        if (calls[i] == NULL || !alike(calls[0], calls[i]))
            continue;
        bundle->members[bundle->count++] = calls[i];
        calls[i] = NULL;
    }
    return bundle;
}

/* Remembers the calls of all transactions, and what follows each. */
static bool remember(struct pg_tx *const *txs, size_t count, struct arena *arena,
                     struct pg_merged *ret)
{
    size_t calls = 0;
    *ret = (struct pg_merged){0};
    for (size_t i = 0; i < count; i++)
        for (const struct pg_call *call = txs[i]->first; call != NULL; call = call->next)
            calls++;
    ret->calls = arena_alloc(arena, calls * sizeof(struct pg_call *));
    ret->nexts = arena_alloc(arena, calls * sizeof(struct pg_call *));
    if (ret->calls == NULL || ret->nexts == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        for (struct pg_call *call = txs[i]->first; call != NULL; call = call->next) {
            ret->calls[ret->count] = call;
            ret->nexts[ret->count++] = call->next;
        }
    return true;
}

/* The statements that are left when those that are alike have become one; -1: out of memory. */
static ssize_t put_together(struct pg_merged *merged, struct pg_call **left,
                            struct pg_call **statements, struct arena *arena)
{
    ssize_t count = 0;
    for (size_t i = 0; i < merged->count; i++) {
        struct pg_call *statement = left[i];
        if (statement == NULL)
            continue;
        struct pg_bundle *bundle = collect(left + i, merged->count - i, arena);
        if (bundle == NULL)
            return -1;
        if (bundle->count > 1) {
            statement = pg_claim_is(statement) ? claim_of(bundle) : arrays_of(bundle);
            bundle->statement = statement;
            bundle->next = merged->bundles;
            merged->bundles = bundle;
        }
        if (statement == NULL)
            return -1;
        statements[count++] = statement;
    }
    return count;
}

bool pg_merge(struct pg_tx *const *txs, size_t count, struct pg_merged *ret)
{
    struct arena *arena = txs[0]->base.arena;
    if (!remember(txs, count, arena, ret))
        return false;
    struct pg_call **left = arena_alloc(arena, ret->count * sizeof(struct pg_call *));
    struct pg_call **statements = arena_alloc(arena, ret->count * sizeof(struct pg_call *));
    if (left == NULL || statements == NULL)
        return false;
    memcpy(left, ret->calls, ret->count * sizeof(struct pg_call *));
    ssize_t together = put_together(ret, left, statements, arena);
    if (together < 0 || !pg_order_calls(statements, (size_t)together, arena, &ret->first))
        return false;
    struct pg_call **tail = ret->first == NULL ? &ret->first : &ret->first->next;
    for (ssize_t i = 0; i < together; i++) {
        *tail = statements[i];
        tail = &statements[i]->next;
    }
    *tail = NULL;
    return true;
}

void pg_merge_undo(const struct pg_merged *merged)
{
    for (size_t i = 0; i < merged->count; i++)
        merged->calls[i]->next = merged->nexts[i];
}

/* --- and apart again --- */

static void deal_each(const struct pg_bundle *bundle)
{
    const int64_t *each = bundle->each;
    for (size_t i = 0; i < bundle->count; i++) {
        const struct pg_call *call = bundle->members[i];
        if (call->ret_each != NULL)
            memcpy(call->ret_each, each, call->rows * sizeof *each);
        each += call->rows;
    }
}

/* Rows as the transaction they are for may keep them. */
static bool copy_rows(const struct db_value *from, size_t rows, size_t columns, struct pg_call *to)
{
    struct arena *arena = to->tx->arena;
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
    *to->result = (struct db_result){.rows = rows, .columns = columns, .values = values};
    return true;
}

static void deal_claimed(const struct pg_bundle *bundle)
{
    const struct db_result *all = &bundle->claimed;
    size_t at = 0;
    for (size_t i = 0; i < bundle->count; i++) {
        struct pg_call *member = bundle->members[i];
        size_t rows = (size_t)pg_claim_count(member);
        if (rows > all->rows - at)
            rows = all->rows - at;
        /* Its jobs are leased to it all the same; they come back when the leases end. */
        if (!copy_rows(all->values + at * all->columns, rows, all->columns, member)) {
            err_set(member->tx->err, TEND_ENOMEM, "out of memory while reading %zu rows", rows);
            pg_tx_unread((struct pg_tx *)member->tx);
        }
        at += rows;
    }
}

/* Nobody can tell whose part of the answer was which. */
static void deal_unread(const struct pg_bundle *bundle)
{
    const struct err *why = bundle->statement->tx->err;
    for (size_t i = 0; i < bundle->count; i++) {
        struct db_tx *tx = bundle->members[i]->tx;
        if (tx->err != why)
            *tx->err = *why;
        pg_tx_unread((struct pg_tx *)tx);
    }
}

void pg_merge_deal(const struct pg_merged *merged)
{
    for (size_t i = 0; i < merged->count; i++)
        if (merged->calls[i]->unread)
            pg_tx_unread((struct pg_tx *)merged->calls[i]->tx);
    for (const struct pg_bundle *bundle = merged->bundles; bundle != NULL; bundle = bundle->next) {
        if (bundle->statement->unread)
            deal_unread(bundle);
        else if (bundle->each != NULL)
            deal_each(bundle);
        else
            deal_claimed(bundle);
    }
}
