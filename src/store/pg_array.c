/*
 * Parameters of a statement over many rows: each column as an array in PostgreSQL's binary form,
 * which the server takes in without parsing. The element type is the one the query casts to
 * ($3::text[]).
 *
 * Two shortcuts: a column without any value is an empty array, which unnest fills up with NULLs;
 * and where the query allows for it (coalesce(u.queue, c.queue)), a column that is the same in all
 * rows is an array of one.
 */
#include "store/pg_db.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* From the server's pg_type.dat; they never change. */
enum { OID_INT8 = 20, OID_INT2 = 21, OID_TEXT = 25 };
enum { HEADER_BYTES = 20, LENGTH_BYTES = 4 };

/* The type that parameter `number` is cast to; 0: none. */
static uint32_t element_type(const char *sql, int number)
{
    static const struct {
        const char *name;
        uint32_t oid;
    } types[] = {{"text[]", OID_TEXT}, {"bigint[]", OID_INT8}, {"smallint[]", OID_INT2}};
    char cast[16];
    snprintf(cast, sizeof cast, "$%d::", number);
    for (const char *at = sql; (at = strstr(at, cast)) != NULL; at++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            if (strncmp(at + strlen(cast), types[i].name, strlen(types[i].name)) == 0)
                return types[i].oid;
    return 0;
}

static char *put_32(char *at, uint32_t number)
{
    uint32_t big_endian = htonl(number);
    memcpy(at, &big_endian, sizeof big_endian);
    return at + sizeof big_endian;
}

static char *put_number(char *at, int64_t number, uint32_t type)
{
    if (type == OID_INT2) {
        uint16_t big_endian = htons((uint16_t)number);
        at = put_32(at, sizeof big_endian);
        memcpy(at, &big_endian, sizeof big_endian);
        return at + sizeof big_endian;
    }
    at = put_32(at, sizeof number);
    at = put_32(at, (uint32_t)((uint64_t)number >> 32));
    return put_32(at, (uint32_t)number);
}

static char *put_element(char *at, const struct db_value *value, uint32_t type)
{
    if (value->type == DB_NULL)
        return put_32(at, UINT32_MAX);
    if (value->type == DB_INT)
        return put_number(at, value->number, type);
    at = put_32(at, (uint32_t)value->bytes);
    memcpy(at, value->text, value->bytes);
    return at + value->bytes;
}

static bool same(const struct db_value *a, const struct db_value *b)
{
    return a->type == b->type && a->number == b->number && a->bytes == b->bytes &&
           (a->text == b->text || memcmp(a->text, b->text, a->bytes) == 0);
}

/* Columns of the adding queries that one value can stand for: who, queue, kind, priority, delay;
 * and the token of leases completed together. */
static bool may_be_one(enum db_query query, size_t column)
{
    if (query == Q_JOB_COMPLETE_ALIKE)
        return column == 1;
    return (query == Q_JOB_ADD || query == Q_JOB_ADD_BASIC) &&
           (column == 1 || column == 2 || column == 3 || column == 4 || column == 6);
}

/* How many elements are needed for a column; *ret_bytes: the most they can take. */
static size_t measure(enum db_query query, const struct db_value *params, size_t rows, size_t width,
                      size_t column, size_t *ret_bytes)
{
    const struct db_value *first = &params[column];
    bool all_same = may_be_one(query, column) && first->type != DB_NULL;
    bool any = false;
    size_t bytes = 0;
    for (size_t row = 0; row < rows; row++) {
        const struct db_value *value = &params[row * width + column];
        all_same = all_same && same(value, first);
        any |= value->type != DB_NULL;
        bytes += LENGTH_BYTES + (value->type == DB_INT ? sizeof value->number : value->bytes);
    }
    *ret_bytes = bytes;
    return !any ? 0 : all_same ? 1 : rows;
}

bool pg_array_put(struct pg_call *call, int index, const struct db_value *params, size_t rows,
                  struct arena *arena)
{
    size_t width = (size_t)call->params;
    size_t column = (size_t)index;
    size_t bytes;
    size_t elements = measure(call->query, params, rows, width, column, &bytes);
    uint32_t type = element_type(db_query_texts[call->query].postgres, index + 1);
    char *data = arena_alloc(arena, HEADER_BYTES + bytes);
    if (data == NULL)
        return false;
    char *at = put_32(data, elements > 0); /* dimensions */
    at = put_32(at, 1);                    /* there may be NULLs */
    at = put_32(at, type);
    if (elements > 0) {
        at = put_32(at, (uint32_t)elements);
        at = put_32(at, 1); /* the first index */
    }
    for (size_t row = 0; row < elements; row++)
        at = put_element(at, &params[row * width + column], type);
    call->values[index] = data;
    call->lengths[index] = (int)(at - data);
    call->formats[index] = 1;
    return true;
}
