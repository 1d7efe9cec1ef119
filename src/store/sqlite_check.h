/* SQLite's own check of a store's pages and indexes, as findings of the doctor. */
#ifndef STORE_SQLITE_CHECK_H
#define STORE_SQLITE_CHECK_H

#include "base/err.h"

#include <sqlite3.h>

/* As tend_doctor's; verdict is an enum tend_verdict. */
typedef void sqlite_check_report(void *arg, int verdict, const char *what, const char *text);

/* How many findings are wrong. TEND_ECORRUPT, and nothing is reported: it cannot even begin. */
int sqlite_check(sqlite3 *sqlite, sqlite_check_report *report, void *arg);

/*
 * The same for a file that is known to be damaged: a connection of its own, which only reads, takes
 * what SQLite would refuse to begin with. At least one finding is wrong.
 */
int sqlite_check_damaged(const char *path, sqlite_check_report *report, void *arg, struct err *err);

#endif
