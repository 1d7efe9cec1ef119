/* An empty store between two histories: faster than a new one. */
#include "sim.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Those with rows of a history, with a text between them. */
#define TABLES(between)                                                                            \
    "job" between "event" between "lock" between "queue" between "worker" between                  \
    "schedule" between "attempt" between "checkpoint" between "output" between "control" between   \
    "submission" between "generation"

/* Drawn when a store is made; a history must be the same when it is run again. */
#define SET_TOKEN_BASE "UPDATE store SET token_base = %lld"

_Noreturn static void give_up(const char *what, const char *text)
{
    fprintf(stderr, "sim: %s: %s\n", what, text);
    _exit(2);
}

static bool is_sqlite(const char *url)
{
    return strncmp(url, "sqlite:", strlen("sqlite:")) == 0;
}

/* One connection for all histories, as the next. */
static sqlite3 *open_sqlite(const char *path)
{
    static sqlite3 *sqlite;
    if (sqlite == NULL && sqlite3_open(path, &sqlite) != SQLITE_OK)
        give_up("opening the store", path);
    return sqlite;
}

static void run_sqlite(const char *path, const char *what, const char *sql)
{
    char *text = NULL;
    if (sqlite3_exec(open_sqlite(path), sql, NULL, NULL, &text) != SQLITE_OK)
        give_up(what, text);
}

/* The page of the store's clock in the lock file (sqlite_clock.c): a new store has none. */
void wipe_clock(const char *url)
{
    static const char nothing[256];
    char lock[1024];
    snprintf(lock, sizeof lock, "%s-lock", url + strlen("sqlite:"));
    int fd = open(lock, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, nothing, sizeof nothing, 256) != (ssize_t)sizeof nothing)
        give_up("emptying", lock);
    close(fd);
}

static void wipe_sqlite(const char *path, int64_t token_base)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "PRAGMA synchronous = OFF; BEGIN IMMEDIATE; DELETE FROM " TABLES(
                 "; DELETE FROM ") ";"
                                   "DELETE FROM sqlite_sequence; " SET_TOKEN_BASE "; COMMIT",
             (long long)token_base);
    run_sqlite(path, "emptying the store", sql);
}

void undo_step(const char *url, int64_t last_event_id)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "UPDATE job SET alarm_at = alarm_at - json_extract(event.data, '$.by_ms') FROM event "
             "WHERE event.id > %lld AND event.what = 'clock.stepped' AND job.state = 2 "
             "AND job.event_id <= %lld",
             (long long)last_event_id, (long long)last_event_id);
    run_sqlite(url + strlen("sqlite:"), "undoing a step", sql);
}

static void run_postgres(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        give_up("emptying the store", PQerrorMessage(connection));
    PQclear(result);
}

/* The URL as libpq knows it, and the schema named in it. */
static PGconn *connect_postgres(const char *url)
{
    char server[1024];
    char sql[256];
    const char *schema = strstr(url, SCHEMA_IN_URL);
    if (schema == NULL)
        give_up("no schema in the URL", url);
    snprintf(server, sizeof server, "%.*s", (int)(schema - url), url);
    PGconn *connection = PQconnectdb(server);
    /* The server itself is never killed. One of those that say so at the same moment may be
     * refused, which makes no difference. */
    PQclear(PQexec(connection, "ALTER ROLE CURRENT_USER SET synchronous_commit = off"));
    snprintf(sql, sizeof sql, "SET search_path = %s", schema + strlen(SCHEMA_IN_URL));
    run_postgres(connection, sql);
    return connection;
}

static PGconn *keep_postgres(const char *url)
{
    static PGconn *connection;
    if (connection == NULL)
        connection = connect_postgres(url);
    return connection;
}

/* A history writes few rows, which are deleted sooner than tables are truncated; what is left of
 * them in the files goes now and then. */
static void wipe_postgres(const char *url, int64_t token_base)
{
    enum { HISTORIES_A_TRUNCATION = 50 };
    static unsigned histories;
    char sql[128];
    PGconn *connection = keep_postgres(url);
    bool truncates = histories++ % HISTORIES_A_TRUNCATION == 0;
    run_postgres(connection,
                 truncates ? "TRUNCATE " TABLES(", ") : "DELETE FROM " TABLES("; DELETE FROM "));
    run_postgres(connection,
                 "ALTER SEQUENCE event_id RESTART; ALTER SEQUENCE worker_id_seq RESTART;"
                 "ALTER SEQUENCE control_id_seq RESTART");
    snprintf(sql, sizeof sql, SET_TOKEN_BASE, (long long)token_base);
    run_postgres(connection, sql);
}

/* What hangs on jobs that are not there. */
static const char orphans[] =
    "SELECT (SELECT count(*) FROM attempt WHERE job_id NOT IN (SELECT id FROM job))"
    " + (SELECT count(*) FROM checkpoint WHERE job_id NOT IN (SELECT id FROM job))"
    " + (SELECT count(*) FROM output WHERE job_id NOT IN (SELECT id FROM job))"
    " + (SELECT count(*) FROM control WHERE job_id NOT IN (SELECT id FROM job))"
    " + (SELECT count(*) FROM submission WHERE job_id NOT IN (SELECT id FROM job))";

static int64_t count_sqlite(const char *path)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *sqlite = open_sqlite(path);
    if (sqlite3_prepare_v2(sqlite, orphans, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        give_up("counting rows", sqlite3_errmsg(sqlite));
    int64_t count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return count;
}

static int64_t count_postgres(const char *url)
{
    PGconn *connection = keep_postgres(url);
    PGresult *result = PQexec(connection, orphans);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        give_up("counting rows", PQerrorMessage(connection));
    int64_t count = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return count;
}

int64_t count_orphans(const char *url)
{
    return is_sqlite(url) ? count_sqlite(url + strlen("sqlite:")) : count_postgres(url);
}

void drop_store(const char *url)
{
    char sql[256];
    PGconn *connection = connect_postgres(url);
    snprintf(sql, sizeof sql, "SET client_min_messages = warning; DROP SCHEMA %s CASCADE",
             strstr(url, SCHEMA_IN_URL) + strlen(SCHEMA_IN_URL));
    run_postgres(connection, sql);
    PQfinish(connection);
}

void wipe_store(const char *url, int64_t token_base)
{
    if (is_sqlite(url)) {
        wipe_clock(url);
        wipe_sqlite(url + strlen("sqlite:"), token_base);
    } else {
        wipe_postgres(url, token_base);
    }
}
