/* See store.h: the database behind tend's back, by a connection of the test's own. */
#include "support/session.h"

#include "base/buf.h"
#include "store/sqlite_conn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pid_t owner; /* a forked process needs a connection of its own */
    struct sqlite_conn sqlite;
    PGconn *postgres;
} raw;

static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static void connect_postgres(void)
{
    raw.postgres = PQconnectdb(getenv("TEND_TEST_PG_URL"));
    if (PQstatus(raw.postgres) != CONNECTION_OK)
        test_fail(__FILE__, __LINE__, "%s", PQerrorMessage(raw.postgres));
    PQsetNoticeProcessor(raw.postgres, ignore_notice, NULL);
    PQclear(PQexec(raw.postgres, keep_text("SET search_path TO %s", store_schema())));
}

static void connect_once(void)
{
    struct err err;
    if (raw.owner == getpid())
        return;
    memset(&raw, 0, sizeof raw);
    raw.owner = getpid();
    if (store_is_postgres())
        connect_postgres();
    else if (sqlite_conn_open(&raw.sqlite, store_path(), SQLITE_OPEN_CREATE, &err) < 0)
        test_fail(__FILE__, __LINE__, "%s", err.text);
}

/* Fails when there are jobs that the condition holds for. */
static void check_no_job(const char *condition, const char *what)
{
    PGresult *result = PQexec(
        raw.postgres, keep_text("SELECT count(*), min(id) FROM job AS j WHERE %s", condition));
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        test_fail(__FILE__, __LINE__, "%s", PQresultErrorMessage(result));
    if (strcmp(PQgetvalue(result, 0, 0), "0") != 0)
        test_fail(__FILE__, __LINE__, "%s jobs %s, the first is %s", PQgetvalue(result, 0, 0), what,
                  PQgetvalue(result, 0, 1));
    PQclear(result);
}

/* The server takes tend's own statements at their word for the facts of a state (001.postgres.sql)
 * and for the event of an add (003.postgres.sql); here it is looked at, after every test. */
static void check_facts(void)
{
    PGresult *result = PQexec(raw.postgres, "SELECT 1 WHERE to_regclass('job_pending') IS NULL");
    bool no_store = PQntuples(result) == 1; /* the test has had none, or another's tables */
    PQclear(result);
    if (no_store)
        return;
    check_no_job("NOT job_facts_hold(j)", "are not as their state says");
    check_no_job("NOT EXISTS (SELECT FROM event AS e WHERE e.id = j.event_id AND e.job_id = j.id) "
                 "AND event_id > (SELECT min(id) FROM event)", /* older ones were purged */
                 "have no event");
}

void store_sql_close(void)
{
    if (store_is_postgres()) { /* the schema goes with the test */
        connect_once();
        check_facts();
        PQclear(
            PQexec(raw.postgres, keep_text("DROP SCHEMA IF EXISTS %s CASCADE", store_schema())));
        PQfinish(raw.postgres);
    } else if (raw.owner == getpid()) {
        sqlite_conn_close(&raw.sqlite);
    }
    raw.owner = 0;
}

/* Runs one or more statements; rows of the last go into out. False with the reason in why. */
static bool run_sqlite(const char *sql, struct buf *out, const char **why)
{
    sqlite3 *sqlite = raw.sqlite.sqlite;
    while (sql[strspn(sql, " \n;")] != '\0') {
        sqlite3_stmt *statement = NULL;
        int rc = sqlite3_prepare_v2(sqlite, sql, -1, &statement, &sql);
        buf_clear(out);
        while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(statement); i++) {
                const char *text = (const char *)sqlite3_column_text(statement, i);
                buf_printf(out, "%s%s", i == 0 ? "" : "|", text != NULL ? text : "NULL");
            }
            buf_putc(out, '\n');
            rc = SQLITE_OK;
        }
        sqlite3_finalize(statement);
        if (rc != SQLITE_DONE && rc != SQLITE_OK) {
            *why = sqlite3_errmsg(sqlite);
            return false;
        }
    }
    return true;
}

static bool run_postgres(const char *sql, struct buf *out, const char **why)
{
    PGresult *result = PQexec(raw.postgres, sql);
    ExecStatusType status = PQresultStatus(result);
    bool fine = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    *why = fine ? "" : keep_text("%s", PQresultErrorMessage(result));
    for (int row = 0; row < PQntuples(result); row++) {
        for (int i = 0; i < PQnfields(result); i++)
            buf_printf(out, "%s%s", i == 0 ? "" : "|",
                       PQgetisnull(result, row, i) ? "NULL" : PQgetvalue(result, row, i));
        buf_putc(out, '\n');
    }
    PQclear(result);
    return fine;
}

static const char *run_formatted(bool must, const char *format, va_list args)
{
    char *sql = NULL;
    struct buf out;
    const char *why = "";
    const char *rows = NULL;
    if (vasprintf(&sql, format, args) < 0)
        test_fail(__FILE__, __LINE__, "out of memory");
    buf_init(&out);
    connect_once();
    if (store_is_postgres() ? run_postgres(sql, &out, &why) : run_sqlite(sql, &out, &why))
        rows = keep_text("%s", out.data);
    else if (must)
        test_fail(__FILE__, __LINE__, "%s: %s", sql, why);
    buf_done(&out);
    free(sql);
    return rows;
}

void sql_exec(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    run_formatted(true, format, args);
    va_end(args);
}

bool sql_try(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool fine = run_formatted(false, format, args) != NULL;
    va_end(args);
    return fine;
}

int64_t sql_int(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *rows = run_formatted(true, format, args);
    va_end(args);
    return strtoll(rows, NULL, 10);
}

const char *sql_rows(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *rows = run_formatted(true, format, args);
    va_end(args);
    return rows;
}

const char *store_snapshot(void)
{
    return keep_text(
        "jobs:\n%sevents:\n%slocks:\n%squeues:\n%sschedules:\n%sattempts:\n%scheckpoints:\n%s"
        "outputs:\n%scontrols:\n%spatches:\n%sedits:\n%s",
        sql_rows("SELECT * FROM job ORDER BY id"), sql_rows("SELECT * FROM event ORDER BY id"),
        sql_rows("SELECT * FROM lock ORDER BY name"), sql_rows("SELECT * FROM queue ORDER BY name"),
        sql_rows("SELECT * FROM schedule ORDER BY name"),
        sql_rows("SELECT * FROM attempt ORDER BY job_id, number"),
        sql_rows("SELECT * FROM checkpoint ORDER BY job_id, step_index"),
        sql_rows("SELECT * FROM output ORDER BY job_id, number, seq"),
        sql_rows("SELECT * FROM control ORDER BY id"),
        sql_rows("SELECT * FROM attempt_patch ORDER BY job_id, number"),
        sql_rows("SELECT * FROM edit ORDER BY job_id"));
}

void sql_forbid_move(int from_state, int to_state)
{
    if (store_is_postgres())
        sql_exec("CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$BEGIN RAISE EXCEPTION 'forbidden by the test'; END$$;"
                 "CREATE TRIGGER forbidden BEFORE UPDATE ON job FOR EACH ROW "
                 "WHEN (OLD.state = %d AND NEW.state = %d) EXECUTE FUNCTION forbid()",
                 from_state, to_state);
    else
        sql_exec("CREATE TRIGGER forbidden BEFORE UPDATE OF state ON job "
                 "WHEN OLD.state = %d AND NEW.state = %d "
                 "BEGIN SELECT RAISE(ABORT, 'forbidden by the test'); END",
                 from_state, to_state);
}

static void keep_locked(struct helper *parent, void *table)
{
    if (store_is_postgres())
        sql_exec("BEGIN; LOCK TABLE %s IN EXCLUSIVE MODE", (char *)table);
    else
        sql_exec("BEGIN IMMEDIATE");
    helper_say(parent, 0);
    helper_hear(parent);
    sql_exec("COMMIT");
}

struct helper sql_lock_start(const char *table)
{
    struct helper locker = helper_start(keep_locked, (void *)table);
    helper_hear(&locker);
    return locker;
}

void sql_lock_end(struct helper *locker)
{
    helper_say(locker, 0);
    helper_join(locker);
}

void sql_forbid_jobs(const char *condition)
{
    if (store_is_postgres())
        sql_exec("CREATE FUNCTION forbid_job() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$BEGIN IF %s THEN RAISE EXCEPTION 'forbidden by the test'; END IF; "
                 "RETURN NEW; END$$;"
                 "CREATE TRIGGER forbidden_job BEFORE INSERT ON job FOR EACH ROW "
                 "EXECUTE FUNCTION forbid_job()",
                 condition);
    else
        sql_exec("CREATE TRIGGER forbidden_job BEFORE INSERT ON job WHEN %s "
                 "BEGIN SELECT RAISE(ABORT, 'forbidden by the test'); END",
                 condition);
}

void sql_allow_jobs(void)
{
    sql_exec("DROP TRIGGER forbidden_job%s", store_is_postgres() ? " ON job" : "");
}

/* --- session.h --- */

PGconn *session_open(void)
{
    PGconn *pg = PQconnectdb(getenv("TEND_TEST_PG_URL"));
    check_int(PQstatus(pg), ==, CONNECTION_OK);
    PQclear(PQexec(pg, keep_text("SET search_path TO %s", store_schema())));
    return pg;
}

void session_run(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
}
