/*
 * The table "given": the rows of parameters of the running call, as (p1, p2, ..., event), so that
 * one statement can work on all of them. In SQLite a statement once per row costs far more: each
 * run opens every index anew and allocates every register.
 *
 * Column event is the id of the event the row will leave. Nothing is copied: values are read where
 * they are.
 */
#ifndef STORE_SQLITE_GIVEN_H
#define STORE_SQLITE_GIVEN_H

#include "store/db.h"

#include <sqlite3.h>

struct sqlite_given {
    const struct db_value *values; /* row by row */
    size_t width, count;
    int64_t first_event; /* of the first row; the others follow */
};

/* Statements of this connection that name the table read *given. */
int sqlite_given_register(sqlite3 *sqlite, struct sqlite_given *given);

#endif
