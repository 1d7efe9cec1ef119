/*
 * A named query on its way: its parameters as libpq wants them, its rows as db.h promises them.
 *
 * Numbers are sent as text and texts as their bytes, which spares a copy. A query whose text takes
 * arrays (it says unnest) serves all rows of a db_each in one statement; any other is run once per
 * row. In an array every value is text; a column without any value is sent as an empty array, which
 * unnest fills up with NULLs.
 */
#include "store/pg_db.h"

#include "store/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum { NUMBER_BYTES = 24 };

/* Types of the server, from its pg_type.dat; they never change. */
enum { OID_BOOL = 16, OID_BYTEA = 17, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23 };

/* --- parameters --- */

static struct pg_call *new_call(struct db_tx *tx, enum db_query query)
{
    int params = db_query_texts[query].params;
    size_t width = (size_t)params;
    struct pg_call *call = arena_zalloc(tx->arena, sizeof *call);
    if (call == NULL)
        return NULL;
    *call = (struct pg_call){
        .tx = tx,
        .query = query,
        .asked = query,
        .waits = PG_WAITS_NOT,
        .params = params,
        .values = arena_zalloc(tx->arena, width * sizeof *call->values),
        .lengths = arena_zalloc(tx->arena, width * sizeof *call->lengths),
        .formats = arena_zalloc(tx->arena, width * sizeof *call->formats),
    };
    return call->values == NULL || call->lengths == NULL || call->formats == NULL ? NULL : call;
}

static bool put_scalar(struct pg_call *call, int index, const struct db_value *value, bool keep,
                       struct arena *arena)
{
    char *number;
    switch (value->type) {
    case DB_NULL:
        return true;
    case DB_INT:
        number = arena_alloc(arena, NUMBER_BYTES);
        if (number == NULL)
            return false;
        snprintf(number, NUMBER_BYTES, "%lld", (long long)value->number);
        call->values[index] = number;
        return true;
    case DB_TEXT:
    case DB_BYTES:
        call->values[index] = keep ? arena_strndup(arena, value->text, value->bytes) : value->text;
        call->lengths[index] = (int)value->bytes;
        call->formats[index] = 1;
        return call->values[index] != NULL;
    }
    return false;
}

struct pg_call *pg_call_run(struct db_tx *tx, enum db_query query, const struct db_value *params,
                            bool keep, struct db_result *result)
{
    struct pg_call *call = new_call(tx, query);
    if (call == NULL)
        return NULL;
    call->result = result;
    for (int i = 0; i < call->params; i++)
        if (!put_scalar(call, i, &params[i], keep, tx->arena))
            return NULL;
    return call;
}

bool pg_call_takes_arrays(enum db_query query)
{
    return strstr(db_query_texts[query].postgres, "unnest(") != NULL;
}

/* The forms of job_complete have the same parameters. */
_Static_assert(sizeof(struct job_complete_one_params) == sizeof(struct job_complete_params) &&
                   sizeof(struct job_complete_alike_params) == sizeof(struct job_complete_params),
               "the same parameters");

/* Whether leases to be completed have the same token, as first leases do, and no results. */
static bool complete_alike(const struct job_complete_params *leases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (leases[i].token.number != leases[0].token.number || leases[i].result.type != DB_NULL)
            return false;
    return true;
}

struct pg_call *pg_call_arrays(struct db_tx *tx, enum db_query query, const struct db_value *params,
                               size_t rows, int64_t *ret_each)
{
    bool alike =
        query == Q_JOB_COMPLETE && complete_alike((const struct job_complete_params *)params, rows);
    struct pg_call *call = new_call(tx, alike ? Q_JOB_COMPLETE_ALIKE : query);
    if (call == NULL || !pg_order_rows(query, params, rows, tx->arena, &call->order))
        return NULL;
    const struct db_value *sorted = pg_order_params(query, params, rows, call->order, tx->arena);
    call->asked = query;
    call->each = true;
    call->arrays = true;
    call->rows = rows;
    call->ret_each = ret_each;
    if (sorted == NULL || !pg_order_note(call, sorted, rows, tx->arena))
        return NULL;
    for (int i = 0; i < call->params; i++)
        if (!pg_array_put(call, i, sorted, rows, tx->arena))
            return NULL;
    return call;
}

/* One row through the shorter form of its query; NULL when there is none, or memory has run out. */
static struct pg_call *call_short(struct db_tx *tx, enum db_query query,
                                  const struct db_value *params, bool keep)
{
    if (query == Q_JOB_COMPLETE)
        return pg_call_run(tx, Q_JOB_COMPLETE_ONE, params, keep, NULL);
    if (query != Q_JOB_ADD_BASIC)
        return NULL;
    const struct job_add_basic_params *job = (const struct job_add_basic_params *)params;
    bool due_at_once =
        job->due_at.type == DB_NULL && job->delay_ms.type == DB_INT && job->delay_ms.number == 0;
    if (!due_at_once)
        return NULL;
    const struct job_add_one_params plain = {.now = job->now,
                                             .who = job->who,
                                             .queue = job->queue,
                                             .kind = job->kind,
                                             .priority = job->priority,
                                             .payload = job->payload};
    return pg_call_run(tx, Q_JOB_ADD_ONE, DB_VALUES(&plain), keep, NULL);
}

static struct pg_call *call_one(struct db_tx *tx, enum db_query query,
                                const struct db_value *params, bool keep, int64_t *ret_each)
{
    struct pg_call *call = call_short(tx, query, params, keep);
    if (call == NULL)
        call = pg_call_takes_arrays(query) ? pg_call_arrays(tx, query, params, 1, ret_each)
                                           : pg_call_run(tx, query, params, keep, NULL);
    if (call == NULL)
        return NULL;
    call->each = true;
    call->asked = query;
    call->rows = 1;
    call->ret_each = ret_each;
    return pg_order_note(call, params, 1, tx->arena) ? call : NULL;
}

/* A call for each row, in the order in which rows are locked. */
static struct pg_call *call_one_by_one(struct db_tx *tx, enum db_query query,
                                       const struct db_value *params, size_t rows, bool keep,
                                       int64_t *ret_each)
{
    size_t width = (size_t)db_query_texts[query].params;
    struct pg_call *first = NULL;
    struct pg_call **link = &first;
    const size_t *order;
    if (!pg_order_rows(query, params, rows, tx->arena, &order))
        return NULL;
    for (size_t i = 0; i < rows; i++) {
        size_t row = order == NULL ? i : order[i];
        *link = call_one(tx, query, params + row * width, keep,
                         ret_each == NULL ? NULL : ret_each + row);
        if (*link == NULL)
            return NULL;
        link = &(*link)->next;
    }
    return first;
}

struct pg_call *pg_call_each(struct db_tx *tx, enum db_query query, const struct db_value *params,
                             size_t rows, bool keep, int64_t *ret_each)
{
    struct pg_call *first = rows > 1 && pg_call_takes_arrays(query)
                                ? pg_call_arrays(tx, query, params, rows, ret_each)
                                : call_one_by_one(tx, query, params, rows, keep, ret_each);
    if (first != NULL && !keep && first->next == NULL)
        first->source = params;
    return first;
}

bool pg_call_send(struct pg_call *call, struct pg_conn *conn, bool pooler)
{
    const struct db_query_text *text = &db_query_texts[call->query];
    const char *const *values = (const char *const *)call->values;
    if (pooler)
        return PQsendQueryParams(conn->pg, text->postgres, call->params, NULL, values,
                                 call->lengths, call->formats, 0) == 1;
    call->prepares = conn->prepared[call->query] == 0;
    if (call->prepares) {
        if (PQsendPrepare(conn->pg, text->name, text->postgres, 0, NULL) != 1)
            return false;
        conn->prepared[call->query] = 1;
    }
    return PQsendQueryPrepared(conn->pg, text->name, call->params, values, call->lengths,
                               call->formats, 0) == 1;
}

/* --- rows --- */

static int64_t number_of(const char *text)
{
    bool negative = *text == '-';
    uint64_t number = 0;
    for (text += negative; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return (int64_t)(negative ? 0 - number : number);
}

static bool is_number(Oid type)
{
    return type == OID_INT8 || type == OID_INT4 || type == OID_INT2;
}

/* Bytes come written out as text, in whichever form the server is set to. */
static bool read_bytes(const char *text, struct arena *arena, struct db_value *out)
{
    size_t bytes = 0;
    unsigned char *data = PQunescapeBytea((const unsigned char *)text, &bytes);
    *out = db_bytes(data == NULL ? NULL : arena_strndup(arena, (const char *)data, bytes), bytes);
    PQfreemem(data);
    return out->type == DB_BYTES;
}

static bool read_value(const PGresult *result, int row, int column, Oid type, struct arena *arena,
                       struct db_value *out)
{
    if (PQgetisnull(result, row, column)) {
        *out = db_null();
        return true;
    }
    const char *text = PQgetvalue(result, row, column);
    if (is_number(type)) {
        *out = db_int(number_of(text));
        return true;
    }
    if (type == OID_BOOL) {
        *out = db_int(text[0] == 't');
        return true;
    }
    if (type == OID_BYTEA)
        return read_bytes(text, arena, out);
    size_t bytes = (size_t)PQgetlength(result, row, column);
    *out = db_text_n(arena_strndup(arena, text, bytes), bytes);
    return out->text != NULL;
}

static bool read_rows(const PGresult *result, struct arena *arena, struct db_result *ret)
{
    int rows = PQntuples(result);
    int columns = PQnfields(result);
    struct db_value *values =
        arena_alloc(arena, (size_t)rows * (size_t)columns * sizeof *values + 1);
    if (values == NULL)
        return false;
    *ret = (struct db_result){.rows = (size_t)rows, .columns = (size_t)columns, .values = values};
    Oid *types = arena_alloc(arena, (size_t)columns * sizeof *types + 1);
    if (types == NULL)
        return false;
    for (int column = 0; column < columns; column++)
        types[column] = PQftype(result, column);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            if (!read_value(result, row, column, types[column], arena, values++))
                return false;
    return true;
}

bool pg_call_looks(const struct pg_call *call)
{
    return call->each && (call->asked == Q_JOB_ADD || call->asked == Q_JOB_ADD_BASIC);
}

/* Where the row that was sent in place `at` stood in what was given. */
static size_t place_of(const struct pg_call *call, size_t at)
{
    return call->order == NULL ? at : call->order[at];
}

/* The ids of rows that were changed: mostly all, and in the order in which they were sent. */
static void read_ids(const struct pg_call *call, const PGresult *result)
{
    size_t at = 0;
    for (int i = 0; i < PQntuples(result); i++) {
        int64_t id = number_of(PQgetvalue(result, i, 0));
        for (size_t tries = 0; tries < call->rows; tries++, at = (at + 1) % call->rows) {
            if (call->keys[at] == id && call->ret_each[place_of(call, at)] == 0) {
                call->ret_each[place_of(call, at)] = 1;
                break;
            }
        }
    }
}

/* One value per row in order, or (ordinal, value) for those that there are. */
static void read_each(const struct pg_call *call, const PGresult *result)
{
    int found = PQntuples(result);
    if (!call->arrays) {
        bool returns = PQresultStatus(result) == PGRES_TUPLES_OK;
        call->ret_each[0] = returns ? (found > 0 ? number_of(PQgetvalue(result, 0, 0)) : 0)
                                    : number_of(PQcmdTuples((PGresult *)result)) > 0;
        return;
    }
    memset(call->ret_each, 0, call->rows * sizeof *call->ret_each);
    if (call->query == Q_JOB_COMPLETE_ALIKE) {
        read_ids(call, result);
        return;
    }
    bool ordinals = PQnfields(result) == 2 && !pg_call_looks(call);
    for (int i = 0; i < found; i++) {
        size_t row = ordinals ? (size_t)number_of(PQgetvalue(result, i, 0)) - 1 : (size_t)i;
        if (row < call->rows)
            call->ret_each[place_of(call, row)] =
                number_of(PQgetvalue(result, i, ordinals ? 1 : 0));
    }
}

/* Whether the query returns the id of each row that it was given. Of others a row may be missing,
 * which means that it was not changed. */
static bool returns_ids(const struct pg_call *call)
{
    return pg_call_looks(call) || (call->each && call->query == Q_WORKER_ADD);
}

/* An id that is not there is no answer: whoever got 0 for it would take its job for saved. */
static int say_missing(const struct pg_call *call, int found)
{
    return err_set(call->tx->err, TEND_EINTERNAL,
                   "%s: PostgreSQL returned %d ids for %zu rows; whether they were saved is not "
                   "known: look before trying again; do triggers of others or a pooler interfere?",
                   db_query_texts[call->query].doing, found, call->rows);
}

int pg_call_answer(struct pg_call *call, const PGresult *result)
{
    struct db_result rows;
    struct arena *arena = call->tx->arena;
    if (returns_ids(call) && (size_t)PQntuples(result) != call->rows)
        return say_missing(call, PQntuples(result));
    if (pg_call_looks(call))
        call->quiet = PQntuples(result) > 0 && PQgetvalue(result, 0, 1)[0] == 't';
    if (call->each) {
        if (call->ret_each != NULL)
            read_each(call, result);
        return 0;
    }
    if (call->result == NULL)
        return 0;
    if (!read_rows(result, arena, &rows) || (pg_claim_is(call) && !pg_claim_answer(call, &rows)))
        return err_set(call->tx->err, TEND_ENOMEM, "out of memory while reading %d rows",
                       PQntuples(result));
    *call->result = rows;
    return 0;
}
