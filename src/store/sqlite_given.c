#include "store/sqlite_given.h"

#include <stdlib.h>

/* As many as the widest query run over many rows has (job_add). */
#define GIVEN_COLUMNS                                                                              \
    "p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, event"
enum { COLUMN_EVENT = 20 };

struct given_table {
    sqlite3_vtab base;
    const struct sqlite_given *given;
};

struct given_cursor {
    sqlite3_vtab_cursor base;
    size_t row;
};

static int given_connect(sqlite3 *sqlite, void *given, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **error)
{
    (void)argc;
    (void)argv;
    (void)error;
    int rc = sqlite3_declare_vtab(sqlite, "CREATE TABLE given (" GIVEN_COLUMNS ")");
    if (rc != SQLITE_OK)
        return rc;
    struct given_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return SQLITE_NOMEM;
    table->given = given;
    *ret = &table->base;
    return SQLITE_OK;
}

static int given_disconnect(sqlite3_vtab *table)
{
    free(table);
    return SQLITE_OK;
}

/* Always read from the first row to the last; few rows, so that joins begin with it. */
static int given_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 10;
    info->estimatedRows = 10;
    return SQLITE_OK;
}

static int given_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret)
{
    (void)table;
    struct given_cursor *cursor = calloc(1, sizeof *cursor);
    if (cursor == NULL)
        return SQLITE_NOMEM;
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int given_close(sqlite3_vtab_cursor *cursor)
{
    free(cursor);
    return SQLITE_OK;
}

static int given_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int argc,
                        sqlite3_value **argv)
{
    (void)number;
    (void)text;
    (void)argc;
    (void)argv;
    ((struct given_cursor *)cursor)->row = 0;
    return SQLITE_OK;
}

static int given_next(sqlite3_vtab_cursor *cursor)
{
    ((struct given_cursor *)cursor)->row++;
    return SQLITE_OK;
}

static const struct sqlite_given *given_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct given_table *)cursor->pVtab)->given;
}

static int given_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct given_cursor *)cursor)->row >= given_of(cursor)->count;
}

static int given_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    const struct sqlite_given *given = given_of(cursor);
    size_t row = ((struct given_cursor *)cursor)->row;
    if (column == COLUMN_EVENT) {
        sqlite3_result_int64(context, given->first_event + (int64_t)row);
        return SQLITE_OK;
    }
    if ((size_t)column >= given->width)
        return SQLITE_OK; /* NULL */
    const struct db_value *value = &given->values[row * given->width + (size_t)column];
    if (value->type == DB_INT)
        sqlite3_result_int64(context, value->number);
    else if (value->type == DB_TEXT)
        sqlite3_result_text64(context, value->text, value->bytes, SQLITE_STATIC, SQLITE_UTF8);
    else if (value->type == DB_BYTES)
        sqlite3_result_blob64(context, value->text, value->bytes, SQLITE_STATIC);
    return SQLITE_OK;
}

static int given_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((struct given_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = given_connect, /* without xCreate it is there without being made */
    .xBestIndex = given_best_index,
    .xDisconnect = given_disconnect,
    .xOpen = given_open,
    .xClose = given_close,
    .xFilter = given_filter,
    .xNext = given_next,
    .xEof = given_eof,
    .xColumn = given_column,
    .xRowid = given_rowid,
};

int sqlite_given_register(sqlite3 *sqlite, struct sqlite_given *given)
{
    return sqlite3_create_module(sqlite, "given", &module, given);
}
