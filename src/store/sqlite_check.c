#include "store/sqlite_check.h"

#include "store/forks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

/* More lines than that tell nobody more. */
#define LINES_MAX "20"
enum { LINES = 20, LINE_BYTES = 512 };

static const char integrity[] = "integrity";

/* A row may have several lines, and a heading: "*** in database main ***". How many were reported.
 */
static int report_lines(const char *row, int most, sqlite_check_report *report, void *arg)
{
    int count = 0;
    for (size_t len; *row != '\0' && count < most; row += len + (row[len] == '\n')) {
        char line[LINE_BYTES];
        len = strcspn(row, "\n");
        if (len == 0 || strncmp(row, "***", 3) == 0)
            continue;
        snprintf(line, sizeof line, "%.*s", (int)len, row);
        report(arg, TEND_WRONG, integrity, line);
        count++;
    }
    return count;
}

static bool is_damage(int code)
{
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

/* A page that could not be read for want of memory, or because the disk failed, may be whole. */
static bool tells_damage(const char *row)
{
    const char *code = strstr(row, "error code=");
    return code == NULL || is_damage((int)strtol(strchr(code, '=') + 1, NULL, 10));
}

static void advise(bool damaged, int wrong, sqlite_check_report *report, void *arg)
{
    char text[256];
    snprintf(text, sizeof text,
             damaged ? "the store is damaged%s; stop all programs that use it, put a backup in its "
                       "place and run 'tend migrate --after-restore'"
                     : "parts of the store could not be read%s; look after the disk and the memory "
                       "of this machine, then check it again",
             wrong >= LINES ? " (the check ends after " LINES_MAX " lines)" : "");
    report(arg, TEND_WRONG, integrity, text);
}

int sqlite_check(sqlite3 *sqlite, sqlite_check_report *report, void *arg)
{
    sqlite3_stmt *statement = NULL;
    char text[LINE_BYTES];
    int wrong = 0;
    bool fine = false;
    bool damaged = false;
    int rc =
        sqlite3_prepare_v2(sqlite, "PRAGMA integrity_check(" LINES_MAX ")", -1, &statement, NULL);
    if (is_damage(rc))
        return TEND_ECORRUPT;
    while (statement != NULL && wrong < LINES && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *row = (const char *)sqlite3_column_text(statement, 0);
        if (row != NULL && sqlite3_stricmp(row, "ok") == 0)
            fine = true;
        else if (row != NULL) {
            wrong += report_lines(row, LINES - wrong, report, arg);
            damaged |= tells_damage(row);
        }
    }
    if (wrong < LINES && rc != SQLITE_DONE) {
        snprintf(text, sizeof text, "the check could not go on: %s", sqlite3_errmsg(sqlite));
        report(arg, TEND_WRONG, integrity, text);
        wrong++;
        fine = false;
        damaged |= is_damage(rc);
    }
    sqlite3_finalize(statement);
    if (fine)
        report(arg, TEND_FINE, integrity, "every page and index is whole");
    if (wrong == 0)
        return 0;
    advise(damaged, wrong, report, arg);
    return wrong + 1;
}

/* What was found damaged elsewhere, and not here. */
static int say_unfound(const char *why, sqlite_check_report *report, void *arg)
{
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "what is damaged cannot be listed: %s", why);
    report(arg, TEND_WRONG, integrity, text);
    advise(true, 0, report, arg);
    return 2;
}

int sqlite_check_damaged(const char *path, sqlite_check_report *report, void *arg, struct err *err)
{
    enum { BUSY_MS = 1000 };
    sqlite3 *sqlite = NULL;
    forks_begin_change();
    int rc = sqlite3_open_v2(
        path, &sqlite, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(sqlite, BUSY_MS);
    /* Without it, SQLite refuses to look into a file that ends too early, or whose schema it cannot
     * read. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(sqlite, "PRAGMA writable_schema = ON; PRAGMA temp_store = MEMORY", NULL,
                          NULL, NULL);
    int wrong = rc == SQLITE_OK ? sqlite_check(sqlite, report, arg) : TEND_ECORRUPT;
    if (sqlite == NULL)
        wrong = err_set(err, TEND_ENOMEM, "out of memory while checking %s", path);
    else if (wrong == TEND_ECORRUPT)
        wrong = say_unfound(sqlite3_errmsg(sqlite), report, arg);
    else if (wrong == 0)
        wrong = say_unfound("SQLite's own check finds nothing", report, arg);
    sqlite3_close(sqlite);
    forks_end_change();
    return wrong;
}
