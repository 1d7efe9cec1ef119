/* The named queries: every one prepares on this engine, and none reads a whole table or a whole
 * index but those that are named here (RC-8). What they read is counted in test_costs.c. */
#include "base/err.h"
#include "store/db_engine.h"
#include "store/sqlite_conn.h"
#include "support/store.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

/* Which engine reads so. MAYBE: PostgreSQL, as it judges by its statistics. */
enum { MAYBE = 0, SQLITE = 1, POSTGRES = 2, BOTH = 3 };

#define SORT "its result" /* instead of a table */

/*
 * What a query may read from end to end, or sort. Every row must be needed on its engines, which
 * also shows that a scan is seen when there is one.
 */
static const struct {
    enum db_query query;
    const char *table;
    int engines;
} whole[] = {
    /* Figures and lists, for people who ask for them. */
    {Q_QUEUE_COUNTS, "job", BOTH},
    {Q_QUEUE_OLDEST, "job", BOTH},
    {Q_QUEUE_LIST, "queue", BOTH},
    {Q_SCHEDULE_LIST, "schedule", BOTH},
    /* A sequence has one row. */
    {Q_STORE_NEWEST_ID, "event_id", POSTGRES},
    /* Hooks are few. */
    {Q_HOOK_LIST, "hook", BOTH},
    {Q_HOOK_ANY, "hook", BOTH},
    {Q_STORE_COUNTS, "schedule", BOTH},
    {Q_STORE_COUNTS, "worker", BOTH},
    {Q_STEP_TOTALS, "attempt", BOTH},
    {Q_STEP_TOTALS, "step_total", BOTH},
    {Q_EVENT_TOTALS, "event_total", BOTH}, /* a row per queue and name */
    {Q_LOCK_LIST, SORT, SQLITE},
    {Q_STEP_IDS, SORT, SQLITE},
    /* A store that is copied or restored becomes a generation of its own. */
    {Q_STORE_GENERATION, "job", BOTH},
    {Q_STORE_GENERATION, "lock", POSTGRES},
    {Q_STORE_GENERATION, "event_id", POSTGRES}, /* one row, as all sequences */
    /* Workers that are registered now, migrations, restores, machines, the counter of each table:
       few. */
    {Q_WORKER_LIST, "worker", BOTH},
    {Q_WORKER_LIST, "tend_schema_version", POSTGRES}, /* one row */
    {Q_WORKER_FORGET, "worker", BOTH},
    {Q_WORKER_LIST, "clock_mark", POSTGRES}, /* one per machine */
    {Q_CLOCK_MOVE_NEWCOMERS, "worker", BOTH},
    {Q_JOB_ALARMS, "worker", MAYBE},
    {Q_WORKER_SKIP_IDS, "sqlite_sequence", SQLITE},
    {Q_MIGRATION_LIST, "migration", BOTH},
    {Q_STORE_COUNTS, "generation", BOTH},
    {Q_CLOCK_FORGET, "clock_mark", POSTGRES},
    {Q_CLOCK_LOOK, "clock_left", POSTGRES}, /* whether there is one */
    {Q_CLOCK_GIVE_LEASES, "clock_left", MAYBE},
    {Q_CLOCK_GIVE_LOCKS, "clock_left", MAYBE},
    {Q_LOCK_EXPIRED, "clock_left", MAYBE},
    /* In the order of an index, until a limit is reached. */
    {Q_EVENT_TAIL, "event", BOTH},
    {Q_STORE_LAST_EVENT, "event", BOTH},
    {Q_STORE_BEGIN, "event", BOTH},
    /* The whole of an index that has only what is held or open; SQLite calls that a search. */
    {Q_LOCK_LIST, "lock", POSTGRES},
    {Q_LOCK_EXPIRED_COUNT, "lock", POSTGRES},
    {Q_LOCK_UNTIED, "lock", MAYBE},
    {Q_STORE_COUNTS, "lock", POSTGRES},
    {Q_WORKER_HOLDINGS, "lock", POSTGRES},
    {Q_WORKER_EXPIRED, "lock", POSTGRES},
    {Q_CLOCK_MOVE_LOCKS, "lock", POSTGRES},
    {Q_CLOCK_GIVE_LOCKS, "lock", POSTGRES},
    /* A few rows that were found by an index in another order. */
    {Q_LOCK_EXPIRED, SORT, SQLITE},
    {Q_LOCK_OF_WORKER, SORT, SQLITE},
    {Q_EVENT_OF_JOB, SORT, SQLITE},
    {Q_CONTROL_OPEN_OF_JOB, SORT, SQLITE},
};
enum { WHOLE = sizeof whole / sizeof *whole };

/* --- a store with some of everything, so that the planner has something to think about --- */

enum { ROWS = 2000 };

static void fill_jobs(tend *t)
{
    struct tend_lease leases[300];
    struct tend_job_spec specs[100];
    struct tend_added added[100];
    for (int i = 0; i < 100; i++) {
        specs[i] = spec_for("q");
        specs[i].unique_key = keep_text("key-%d", i);
        specs[i].concurrency_key = keep_text("c-%d", i % 20);
        specs[i].priority = 1;
    }
    add_number(t, "q", ROWS);
    claim_many(t, "q", 300, leases);
    check_ok(t, tend_complete(t, leases, 200, NULL, NULL));
    check_ok(t, tend_release(t, &leases[200], 50, HOUR_MS, NULL, NULL));
    check_ok(t, tend_add_many(t, specs, 100, added));
}

#define NUMBERS                                                                                    \
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO "

static void fill_tables(void)
{
    sql_exec(NUMBERS "lock (name, token) SELECT 'free-' || i, 1 FROM n", ROWS);
    sql_exec(NUMBERS "lock (name, token, owner, worker_id, job_id, acquired_at, expires_at) "
                     "SELECT 'held-' || i, 1, 'o', i, i, 0, 9000000000000 + i FROM n",
             20);
    sql_exec(NUMBERS "queue (name, keep_done_ms) SELECT 'queue-' || i, 1 FROM n", ROWS);
    sql_exec(NUMBERS "worker (name, host, boot_id, pid, pid_ns, start_ticks, session, since, "
                     "registration) SELECT 'w', 'h', 'b', i, 1, 1, 1, 0, i FROM n",
             ROWS);
    sql_exec(NUMBERS "schedule (name, cron, queue, kind, priority, payload, catch_up, next_at) "
                     "SELECT 's-' || i, '* * * * *', 'q', '', 5, '{}', 'one', 9000000000000 + i "
                     "FROM n",
             ROWS);
    sql_exec(NUMBERS "attempt (job_id, number, step_index, step_id, attempt, token, host, boot_id, "
                     "marker, state, may_live, strategy, started_at, ended_at) "
                     "SELECT i, 1, 1, 's', 1, 1, 'h', 'b-' || i %% 50, 'm', 1, "
                     "CASE WHEN i < 50 THEN 1 ELSE 0 END, 'first', 0, 1 FROM n",
             ROWS);
    sql_exec(NUMBERS "checkpoint (job_id, step_index, step_id, number, at) "
                     "SELECT i, 1, 's', 1, 0 FROM n",
             ROWS);
    sql_exec(NUMBERS "attempt_patch (job_id, number, at, dropped_bytes, patch) "
                     "SELECT i, 1, 0, 0, '' FROM n",
             ROWS);
    sql_exec(NUMBERS "edit (job_id, step_index, at, who, patch) SELECT i, 1, 0, 'w', '' FROM n",
             ROWS);
    sql_exec(NUMBERS "output (job_id, number, seq, at, stream, dropped_bytes, text) "
                     "SELECT i, 1, 1, 0, 1, 0, 't' FROM n",
             ROWS);
    sql_exec(NUMBERS "control (job_id, action, actor, at, done_at, outcome) "
                     "SELECT i, 'pause', 'a', 0, CASE WHEN i > 50 THEN 1 END, "
                     "CASE WHEN i > 50 THEN 'done' END FROM n",
             ROWS);
    sql_exec(NUMBERS "submission (job_id, at, who, kind, priority, due_at, payload) "
                     "SELECT i, 0, 'w', '', 5, 0, '{}' FROM n",
             ROWS);
    sql_exec(NUMBERS "clock_left (job_id, token) SELECT i, 1 FROM n", 20);
    sql_exec(NUMBERS "clock_left (lock_name, token) SELECT 'l-' || i, 1 FROM n", 20);
    sql_exec(NUMBERS "clock_mark (boot, boottime_ms, store_ms, clock_steps) "
                     "SELECT 'b-' || i, 0, 0, 0 FROM n",
             ROWS);
}

static void fill(void)
{
    fill_jobs(store_open("w"));
    fill_tables();
}

/* --- both engines --- */

static bool met[WHOLE];

/* The query reads this table, or what an index has of it, from end to end; or it sorts. */
static void found(const char *name, const char *table, const char *step)
{
    for (size_t i = 0; i < WHOLE; i++)
        if (strcmp(db_query_texts[whole[i].query].name, name) == 0 &&
            strcmp(whole[i].table, table) == 0) {
            met[i] = true;
            return;
        }
    test_fail(__FILE__, __LINE__, "%s reads all of %s: %s", name, table, step);
}

static void check_all_met(int engine)
{
    for (size_t i = 0; i < WHOLE; i++)
        if ((whole[i].engines & engine) != 0 && !met[i])
            test_fail(__FILE__, __LINE__, "%s need not read all of %s",
                      db_query_texts[whole[i].query].name, whole[i].table);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* --- SQLite --- */

static sqlite3 *open_sqlite(struct sqlite_conn *conn)
{
    struct err err;
    if (sqlite_conn_open(conn, store_path(), 0, &err) < 0)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    return conn->sqlite;
}

static void check_prepares_on_sqlite(sqlite3 *sqlite, const char *name, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    test_count_check();
    if (sql == NULL)
        return;
    if (sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL) != SQLITE_OK)
        test_fail(__FILE__, __LINE__, "%s: %s\n%s", name, sqlite3_errmsg(sqlite), sql);
    sqlite3_finalize(statement);
}

/* Whether the words come one after the other somewhere in the text. */
static bool has_words(const char *text, const char *words)
{
    size_t length = strlen(words);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        if ((at == text || !is_word(at[-1])) && !is_word(at[length]))
            return true;
    return false;
}

/* The table that a name stands for in a query, NULL when it is of a part of the query itself. */
static const char *table_of(sqlite3 *sqlite, const char *sql, const char *name)
{
    const char *ret = NULL;
    sqlite3_stmt *tables = NULL;
    check_int(sqlite3_prepare_v2(sqlite, "SELECT name FROM sqlite_master WHERE type = 'table'", -1,
                                 &tables, NULL),
              ==, SQLITE_OK);
    while (ret == NULL && sqlite3_step(tables) == SQLITE_ROW) {
        const char *table = (const char *)sqlite3_column_text(tables, 0);
        if (strcmp(table, name) == 0 || has_words(sql, keep_text("%s %s", table, name)) ||
            has_words(sql, keep_text("%s AS %s", table, name)))
            ret = keep_text("%s", table);
    }
    sqlite3_finalize(tables);
    return ret;
}

/*
 * The table that a step of a plan reads from end to end, also by an index; or NULL. A search that
 * uses no index is for the smallest or largest value of a column, and looks at all; of event nobody
 * asks but for the largest id, which is at the end of the table.
 */
static const char *scanned_on_sqlite(sqlite3 *sqlite, const char *sql, const char *step)
{
    size_t length = 0;
    bool searches = strncmp(step, "SEARCH ", 7) == 0;
    const char *name = searches ? step + 7 : step + 5;
    if (searches ? strstr(step, " USING ") != NULL : strncmp(step, "SCAN ", 5) != 0)
        return NULL;
    while (is_word(name[length]))
        length++;
    const char *table = table_of(sqlite, sql, keep_text("%.*s", (int)length, name));
    return searches && table != NULL && strcmp(table, "event") == 0 ? NULL : table;
}

static void check_plan_on_sqlite(sqlite3 *sqlite, const char *name, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sql == NULL)
        return;
    const char *explain = keep_text("EXPLAIN QUERY PLAN %s", sql);
    check_int(sqlite3_prepare_v2(sqlite, explain, -1, &statement, NULL), ==, SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *step = (const char *)sqlite3_column_text(statement, 3);
        const char *table = scanned_on_sqlite(sqlite, sql, step);
        if (table != NULL)
            found(name, table, step);
        if (strncmp(step, "USE TEMP B-TREE FOR ORDER BY", 28) == 0)
            found(name, SORT, step);
    }
    sqlite3_finalize(statement);
}

/* --- PostgreSQL --- */

/* As tend's own sessions are set (store/pg_settings.c). */
static PGconn *open_postgres(void)
{
    PGconn *connection = PQconnectdb(getenv("TEND_TEST_PG_URL"));
    check_int(PQstatus(connection), ==, CONNECTION_OK);
    PQclear(PQexec(connection, keep_text("SET search_path TO %s", store_schema())));
    PQclear(PQexec(connection, "SET plan_cache_mode = force_generic_plan; "
                               "SET enable_seqscan = off; SET enable_bitmapscan = off; "
                               "SET enable_hashjoin = off; SET enable_mergejoin = off"));
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

/* How many parameters a statement as prepared has. */
static int params_of(PGconn *connection, const char *name)
{
    PGresult *result = PQdescribePrepared(connection, name);
    int params = PQnparams(result);
    PQclear(result);
    return params;
}

/* Whether the step of a plan in this row, which reads by an index, has a condition on it: that is
 * in the rows up to the next step. */
static bool has_index_condition(PGresult *plan, int row)
{
    while (++row < PQntuples(plan) && strstr(PQgetvalue(plan, row, 0), "->") == NULL)
        if (strstr(PQgetvalue(plan, row, 0), "Index Cond:") != NULL)
            return true;
    return false;
}

/* As scanned_on_sqlite. What is computed for each row of the recursive part of a WITH is not in
 * the plan of a statement that did not run. */
static const char *scanned_on_postgres(PGresult *plan, int row)
{
    const char *step = PQgetvalue(plan, row, 0);
    const char *table = strstr(step, " on ");
    size_t length = 0;
    if (table == NULL || (strstr(step, "Seq Scan on ") == NULL &&
                          (strstr(step, "Index") == NULL || has_index_condition(plan, row))))
        return NULL;
    while (is_word(table[4 + length]))
        length++;
    return keep_text("%.*s", (int)length, table + 4);
}

static void check_plan_on_postgres(PGconn *connection, const char *name, const char *sql)
{
    const char *nulls = "";
    if (sql == NULL)
        return;
    check_prepares_on_postgres(connection, name, sql);
    int params = params_of(connection, name);
    for (int i = 0; i < params; i++)
        nulls = keep_text("%s%sNULL", nulls, i == 0 ? "(" : ", ");
    PGresult *result = PQexec(
        connection, keep_text("EXPLAIN EXECUTE %s%s%s", name, nulls, params == 0 ? "" : ")"));
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", name, PQresultErrorMessage(result));
    check_int(PQntuples(result), >, 0);
    for (int row = 0; row < PQntuples(result); row++) {
        const char *table = scanned_on_postgres(result, row);
        if (table != NULL)
            found(name, table, PQgetvalue(result, row, 0));
    }
    PQclear(result);
}

/* --- the tests --- */

static void each_on_sqlite(void (*use)(sqlite3 *sqlite, const char *name, const char *sql))
{
    struct sqlite_conn conn;
    sqlite3 *sqlite = open_sqlite(&conn);
    for (int i = 0; i < DB_QUERIES; i++) {
        const struct db_query_text *text = &db_query_texts[i];
        use(sqlite, text->name, text->sqlite);
        use(sqlite, text->name, text->sqlite_each);
        use(sqlite, text->name, text->sqlite_many);
    }
    sqlite_conn_close(&conn);
}

static void each_on_postgres(void (*use)(PGconn *connection, const char *name, const char *sql))
{
    PGconn *connection = open_postgres();
    for (int i = 0; i < DB_QUERIES; i++)
        use(connection, db_query_texts[i].name, db_query_texts[i].postgres);
    PQfinish(connection);
}

TEST(queries, every_named_query_prepares)
{
    store_open("w");
    if (store_is_postgres())
        each_on_postgres(check_prepares_on_postgres);
    else
        each_on_sqlite(check_prepares_on_sqlite);
}

/* Where the generated structs of queries.h say a column is, the engine must return it. */
static void check_columns_on_sqlite(sqlite3 *sqlite, const struct db_query_text *text)
{
    sqlite3_stmt *statement = NULL;
    const char *names = "";
    if (strstr(text->sqlite, " WHERE 0") != NULL) /* of a query that only PostgreSQL has */
        return;
    check_int(sqlite3_prepare_v2(sqlite, text->sqlite, -1, &statement, NULL), ==, SQLITE_OK);
    for (int i = 0; i < sqlite3_column_count(statement); i++)
        names = keep_text("%s%s%s", names, i == 0 ? "" : " ", sqlite3_column_name(statement, i));
    sqlite3_finalize(statement);
    check_str(names, text->columns);
}

static void check_columns_on_postgres(PGconn *connection, const struct db_query_text *text)
{
    const char *names = "";
    check_prepares_on_postgres(connection, text->name, text->postgres);
    PGresult *result = PQdescribePrepared(connection, text->name);
    for (int i = 0; i < PQnfields(result); i++)
        names = keep_text("%s%s%s", names, i == 0 ? "" : " ", PQfname(result, i));
    PQclear(result);
    check_str(names, text->columns);
}

TEST(queries, return_the_columns_that_their_structs_have)
{
    struct sqlite_conn conn;
    store_open("w");
    PGconn *connection = store_is_postgres() ? open_postgres() : NULL;
    sqlite3 *sqlite = store_is_postgres() ? NULL : open_sqlite(&conn);
    for (int i = 0; i < DB_QUERIES; i++) {
        if (db_query_texts[i].columns[0] == '\0')
            continue;
        if (connection != NULL)
            check_columns_on_postgres(connection, &db_query_texts[i]);
        else
            check_columns_on_sqlite(sqlite, &db_query_texts[i]);
    }
    if (connection != NULL)
        PQfinish(connection);
    else
        sqlite_conn_close(&conn);
}

TEST(queries, none_reads_a_whole_table_or_index_but_those_that_are_named)
{
    fill();
    if (store_is_postgres()) {
        sql_exec("ANALYZE");
        each_on_postgres(check_plan_on_postgres);
        check_all_met(POSTGRES);
        return;
    }
    each_on_sqlite(check_plan_on_sqlite);
    sql_exec("ANALYZE"); /* some do, and SQLite plans by it */
    each_on_sqlite(check_plan_on_sqlite);
    check_all_met(SQLITE);
}
