/* The named queries: every one prepares on this engine, and the hot ones are carried by an index
 * (RC-8). */
#include "store/db_engine.h"
#include "support/store.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Run on every claim, completion or wait, or over what can be millions of rows. */
static const enum db_query hot[] = {
    Q_JOB_CLAIM,
    Q_JOB_CLAIM_ONE,
    Q_JOB_ALARMS,
    Q_JOB_COMPLETE,
    Q_JOB_HEARTBEAT,
    Q_JOB_START,
    Q_JOB_MOVE,
    Q_JOB_DUE,
    Q_JOB_BY_KEY,
    Q_JOB_GET,
    Q_JOB_FENCE,
    Q_JOB_AHEAD,
    Q_JOB_LAST_END,
    Q_QUEUE_COUNTS,
    Q_QUEUE_OLDEST,
    Q_JOB_POLICY,
    Q_CLAIM_ANY,
    Q_CLAIM_CANDIDATES,
    Q_CLAIM_CUT_IN,
    Q_CLAIM_KEYS,
    Q_LOCK_ACQUIRE,
    Q_QUEUE_GET,
    Q_SCHEDULE_DUE,
    Q_EVENT_SINCE,
    Q_EVENT_OF_JOB,
    Q_JOB_NEXT_ALARM,
    Q_JOB_STALE_COUNT,
    Q_JOB_OF_WORKER,
    Q_JOB_EXPIRED_FINISHED,
    Q_RUNNING_IN_QUEUE,
    Q_RUNNING_BY_KEY,
    Q_JOB_LIST,
    Q_STEP_FENCE,
    Q_STEP_CHAIN,
    Q_ATTEMPT_LAST,
    Q_ATTEMPT_END,
    Q_ATTEMPT_STARTED,
    Q_ATTEMPT_PROGRESS,
    Q_ATTEMPT_LIST,
    Q_ATTEMPT_RUNNING,
    Q_ATTEMPT_LEFT_BEHIND,
    Q_ATTEMPT_SWEPT,
    Q_CHECKPOINT_DROP,
    Q_CHECKPOINT_LIST,
    Q_CHECKPOINT_PATCH,
    Q_OUTPUT_ADD,
    Q_OUTPUT_READ,
    Q_OUTPUT_DISCARD,
    Q_OUTPUT_NOTE_DISCARD,
    Q_CONTROL_OPEN,
    Q_CONTROL_OPEN_OF_JOB,
    Q_CONTROL_CLOSE,
    Q_CONTROL_SETTLE,
    Q_CONTROL_DONE,
    Q_CONTROL_TAKEN,
};

/* A store with some of everything, so that the planner has something to think about. */
static void fill(tend *t)
{
    struct tend_lease leases[300];
    add_number(t, "q", 1000);
    claim_many(t, "q", 300, leases);
    check_ok(t, tend_complete(t, leases, 200, NULL, NULL));
    check_ok(t, tend_release(t, &leases[200], 50, HOUR_MS, NULL, NULL));
    sql_exec("ANALYZE");
}

/* --- SQLite --- */

static sqlite3 *open_sqlite(void)
{
    sqlite3 *sqlite;
    check_int(sqlite3_open_v2(store_path(), &sqlite, SQLITE_OPEN_READWRITE, NULL), ==, SQLITE_OK);
    return sqlite;
}

/* Statements that need tables only a tend connection has ("given") are prepared by the tests that
 * run them. */
static bool is_for_tend_connections(const char *sql)
{
    return strstr(sql, "given") != NULL;
}

static void check_prepares_on_sqlite(sqlite3 *sqlite, const char *name, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    test_count_check();
    if (sql == NULL || is_for_tend_connections(sql))
        return;
    if (sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL) != SQLITE_OK)
        test_fail(__FILE__, __LINE__, "%s: %s\n%s", name, sqlite3_errmsg(sqlite), sql);
    sqlite3_finalize(statement);
}

/* A scan is told as "SCAN job" or, under its alias, "SCAN j"; with an index there is more behind
 * it. */
static bool is_full_scan(const char *step)
{
    const char *const bare[] = {"SCAN job",     "SCAN j",         "SCAN event",  "SCAN e",
                                "SCAN attempt", "SCAN a",         "SCAN output", "SCAN control",
                                "SCAN ctl",     "SCAN checkpoint"};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(step, bare[i]) == 0)
            return true;
    return false;
}

static void check_plan_on_sqlite(sqlite3 *sqlite, const char *name, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sql == NULL || is_for_tend_connections(sql))
        return;
    const char *explain = keep_text("EXPLAIN QUERY PLAN %s", sql);
    check_int(sqlite3_prepare_v2(sqlite, explain, -1, &statement, NULL), ==, SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(statement, 3);
        if (is_full_scan(step))
            test_fail(__FILE__, __LINE__, "%s: %s", name, step);
        if (strncmp(step, "USE TEMP B-TREE FOR ORDER BY", 28) == 0 &&
            strcmp(name, "event_of_job") != 0)
            test_fail(__FILE__, __LINE__, "%s sorts: %s", name, step);
    }
    sqlite3_finalize(statement);
}

/* --- PostgreSQL --- */

static PGconn *open_postgres(void)
{
    PGconn *connection = PQconnectdb(getenv("TEND_TEST_PG_URL"));
    check_int(PQstatus(connection), ==, CONNECTION_OK);
    PQclear(PQexec(connection, keep_text("SET search_path TO %s", store_schema())));
    return connection;
}

static void check_prepares_on_postgres(PGconn *connection, const char *name, const char *sql)
{
    test_count_check();
    if (sql == NULL)
        return;
    PGresult *result = PQprepare(connection, name, sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        test_fail(__FILE__, __LINE__, "%s: %s\n%s", name, PQresultErrorMessage(result), sql);
    PQclear(result);
}

/* With sequential scans made dear, one in the plan means that no index can carry the query. */
static void check_plan_on_postgres(PGconn *connection, const char *name, int params)
{
    const char *nulls = "";
    for (int i = 0; i < params; i++)
        nulls = keep_text("%s%sNULL", nulls, i == 0 ? "" : ", ");
    PGresult *result =
        PQexec(connection, params == 0 ? keep_text("EXPLAIN EXECUTE %s", name)
                                       : keep_text("EXPLAIN EXECUTE %s(%s)", name, nulls));
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", name, PQresultErrorMessage(result));
    for (int row = 0; row < PQntuples(result); row++) {
        const char *step = PQgetvalue(result, row, 0);
        if (strstr(step, "Seq Scan on ") != NULL)
            test_fail(__FILE__, __LINE__, "%s: %s", name, step);
    }
    check_int(PQntuples(result), >, 0);
    PQclear(result);
}

/* How many parameters a statement as prepared has. */
static int params_of(PGconn *connection, const char *name)
{
    PGresult *result = PQdescribePrepared(connection, name);
    int params = PQnparams(result);
    PQclear(result);
    return params;
}

/* --- the tests --- */

TEST(queries, every_named_query_prepares)
{
    store_open("w");
    if (store_is_postgres()) {
        PGconn *connection = open_postgres();
        for (int i = 0; i < DB_QUERIES; i++)
            check_prepares_on_postgres(connection, db_query_texts[i].name,
                                       db_query_texts[i].postgres);
        PQfinish(connection);
        return;
    }
    sqlite3 *sqlite = open_sqlite();
    for (int i = 0; i < DB_QUERIES; i++) {
        check_prepares_on_sqlite(sqlite, db_query_texts[i].name, db_query_texts[i].sqlite);
        check_prepares_on_sqlite(sqlite, db_query_texts[i].name, db_query_texts[i].sqlite_each);
    }
    sqlite3_close(sqlite);
}

TEST(queries, no_hot_query_scans_the_jobs_or_the_events)
{
    fill(store_open("w"));
    if (store_is_postgres()) {
        PGconn *connection = open_postgres();
        PQclear(PQexec(connection, "SET enable_seqscan = off"));
        PQclear(PQexec(connection, "SET plan_cache_mode = force_generic_plan"));
        for (size_t i = 0; i < sizeof hot / sizeof *hot; i++) {
            const struct db_query_text *text = &db_query_texts[hot[i]];
            check_prepares_on_postgres(connection, text->name, text->postgres);
            check_plan_on_postgres(connection, text->name, params_of(connection, text->name));
        }
        PQfinish(connection);
        return;
    }
    sqlite3 *sqlite = open_sqlite();
    for (size_t i = 0; i < sizeof hot / sizeof *hot; i++) {
        const struct db_query_text *text = &db_query_texts[hot[i]];
        check_plan_on_sqlite(sqlite, text->name, text->sqlite);
        check_plan_on_sqlite(sqlite, text->name, text->sqlite_each);
    }
    sqlite3_close(sqlite);
}

/* A test that cannot fail is worse than none: a scan is seen when there is one. */
TEST(queries, a_scan_would_be_seen)
{
    check(is_full_scan("SCAN job"));
    check(is_full_scan("SCAN j"));
    check(!is_full_scan("SCAN job USING COVERING INDEX job_pending"));
    check(!is_full_scan("SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"));
    fill(store_open("w"));
    if (store_is_postgres()) {
        check_contains(sql_rows("EXPLAIN SELECT * FROM job WHERE kind = 'x'"), "Seq Scan on job");
        return;
    }
    check_contains(sql_rows("EXPLAIN QUERY PLAN SELECT * FROM job WHERE kind = 'x'"), "SCAN job");
}
