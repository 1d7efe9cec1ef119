/*
 * The schema and its migrations. Everything lives in one schema of the database (tend_schema in the
 * URL, default "tend"); which migrations have run is in its table tend_schema_version.
 *
 * Invariant: migrations run in one transaction, one process at a time (advisory lock), all or none.
 */
#include "base/buf.h"
#include "store/older.h"
#include "store/pg_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    OLDEST_SERVER = 130000,
    MIGRATION_MS = 3600000, /* a large table may be rewritten, and another process may be first */
};

static int library_version(void)
{
    int count = 0;
    while (db_migrations_postgres[count].sql != NULL)
        count++;
    return count;
}

static int fail(const PGresult *result, int64_t limit_ms, const char *what,
                const struct pg_url *url, struct err *err)
{
    if (result == NULL) {
        pg_error_silent(url->where, limit_ms, err);
        return err->code;
    }
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state != NULL && strcmp(state, "42P07") == 0)
        return err_set(
            err, TEND_ENOTADB,
            "schema '%s' of PostgreSQL at %s holds tables that are not tend's; give another with "
            "tend_schema=NAME in the store URL (after ? or &)",
            url->schema, url->where);
    pg_error(result, what, url->where, err);
    return err->code;
}

/* The role may read the catalogue, but not make what is missing. */
static int fail_denied(const PGresult *result, const char *hint, const struct pg_url *url,
                       struct err *err)
{
    return err_set(
        err, TEND_EREADONLY, "this role may not set up schema '%s' of PostgreSQL at %s: %.120s; %s",
        url->schema, url->where, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), hint);
}

/* The first value of a query as a number, or `none` when there is no row. */
static int ask_number(PGconn *pg, const char *sql, int none, const struct pg_url *url,
                      int64_t limit_ms, int *ret, struct err *err)
{
    PGresult *result = pg_exec(pg, sql, limit_ms, NULL);
    int rc = 0;
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        rc = fail(result, limit_ms, "reading the version of the schema", url, err);
    else
        *ret = PQntuples(result) > 0 ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : none;
    PQclear(result);
    return rc;
}

/* denied_hint: what to do if the role lacks the right. */
static int run_or_hint(PGconn *pg, const char *sql, const char *denied_hint,
                       const struct pg_url *url, struct err *err)
{
    PGresult *result = pg_exec(pg, sql, MIGRATION_MS, NULL);
    ExecStatusType status = PQresultStatus(result);
    int rc = 0;
    if (pg_error_is_denied(result))
        rc = fail_denied(result, denied_hint, url, err);
    else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        rc = fail(result, MIGRATION_MS, "setting up the schema", url, err);
    PQclear(result);
    return rc;
}

static int run(PGconn *pg, const char *sql, const struct pg_url *url, struct err *err)
{
    return run_or_hint(pg, sql,
                       "grant it USAGE and CREATE on the schema, or let the owner of the tables "
                       "run 'tend migrate'",
                       url, err);
}

/* -1: there is none. */
static int read_version(PGconn *pg, const struct pg_url *url, int64_t limit_ms, int *ret_version,
                        struct err *err)
{
    char sql[256];
    int exists = 0;
    /* From the catalogue itself: to_regclass() may answer from before the lock was waited for. */
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
             "WHERE n.nspname = '%s' AND c.relname = 'tend_schema_version'",
             url->schema);
    int rc = ask_number(pg, sql, 0, url, limit_ms, &exists, err);
    if (rc < 0)
        return rc;
    if (!exists) {
        *ret_version = -1;
        return 0;
    }
    snprintf(sql, sizeof sql, "SELECT version FROM \"%s\".tend_schema_version", url->schema);
    return ask_number(pg, sql, 0, url, limit_ms, ret_version, err);
}

/* The text of a migration with {schema} and {bell} filled in. */
static int run_migration(PGconn *pg, const char *text, const struct pg_url *url, struct err *err)
{
    struct buf sql;
    buf_init(&sql);
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "{");
        buf_append(&sql, at, len);
        at += len;
        if (strncmp(at, "{schema}", 8) == 0) {
            buf_printf(&sql, "\"%s\"", url->schema);
            at += 8;
        } else if (strncmp(at, "{bell}", 6) == 0) {
            buf_int(&sql, pg_lock_class(url, PG_LOCK_BELL));
            at += 6;
        } else if (*at != '\0') {
            buf_putc(&sql, *at++);
        }
    }
    int rc = sql.failed ? err_set(err, TEND_ENOMEM, "out of memory while setting up the schema")
                        : run(pg, sql.data, url, err);
    buf_done(&sql);
    return rc;
}

static int make_schema(PGconn *pg, const struct pg_url *url, struct err *err)
{
    char sql[256];
    int exists = 0;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_namespace WHERE nspname = '%s'",
             url->schema);
    int rc = ask_number(pg, sql, 0, url, MIGRATION_MS, &exists, err);
    if (rc == 0 && !exists) {
        snprintf(sql, sizeof sql, "CREATE SCHEMA \"%s\"", url->schema);
        rc = run_or_hint(pg, sql,
                         "there is no such schema yet: grant it CREATE on the database, or make "
                         "the schema and grant it USAGE and CREATE there",
                         url, err);
    }
    snprintf(sql, sizeof sql, "SET LOCAL search_path = \"%s\"", url->schema);
    return rc < 0 ? rc : run(pg, sql, url, err);
}

/* Which migrations have run, and what they said: those that have no row yet. */
static int record_migrations(PGconn *pg, const struct pg_url *url, struct err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < library_version(); i++) {
        char sql[192];
        snprintf(sql, sizeof sql,
                 "INSERT INTO migration (version, checksum, at) VALUES (%d, '%s', store_clock()) "
                 "ON CONFLICT DO NOTHING",
                 i + 1, db_migrations_postgres[i].checksum);
        rc = run(pg, sql, url, err);
    }
    return rc;
}

/* Whether workers live by this schema, which is older: a session holds the liveness lock of each,
 * whose key has the lower half of its id. */
static int refuse_workers(struct pg_db *db, PGconn *pg, int version, struct err *err)
{
    const struct pg_url *url = &db->url;
    struct older_workers workers = {0};
    char where[160];
    char sql[640];
    if (version <= 0 || version >= library_version() || db->options.beside_workers)
        return 0;
    snprintf(
        sql, sizeof sql,
        "SELECT w.name, w.pid, w.host FROM \"%s\".worker w WHERE w.session = 1 AND EXISTS ("
        "SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = %d "
        "AND l.objid::bigint = (w.id & 4294967295) AND l.objsubid = 2 AND l.mode = 'ExclusiveLock' "
        "AND l.granted AND l.database = (SELECT oid FROM pg_database "
        "WHERE datname = current_database())) ORDER BY w.id",
        url->schema, (int)pg_lock_class(url, PG_LOCK_ALIVE));
    PGresult *result = pg_exec(pg, sql, MIGRATION_MS, NULL);
    int rc = PQresultStatus(result) == PGRES_TUPLES_OK
                 ? 0
                 : fail(result, MIGRATION_MS, "reading workers", url, err);
    for (int i = 0; rc == 0 && i < PQntuples(result); i++)
        older_add(&workers, PQgetvalue(result, i, 0), strtoll(PQgetvalue(result, i, 1), NULL, 10),
                  PQgetvalue(result, i, 2));
    PQclear(result);
    snprintf(where, sizeof where, "schema '%s'", url->schema);
    return rc < 0 ? rc : older_refuse(&workers, where, version, library_version(), err);
}

/* Inside the transaction and under the lock: what is missing. *ret_made: all was. */
static int migrate(struct pg_db *db, PGconn *pg, bool *ret_made, struct err *err)
{
    const struct pg_url *url = &db->url;
    char sql[128];
    int version = -1;
    int rc = read_version(pg, url, MIGRATION_MS, &version, err);
    *ret_made = version < 0;
    if (rc == 0)
        rc = refuse_workers(db, pg, version, err);
    if (rc == 0)
        rc = make_schema(pg, url, err);
    if (rc == 0 && version < 0) {
        rc = run(pg,
                 "CREATE TABLE tend_schema_version (version integer NOT NULL);"
                 "INSERT INTO tend_schema_version VALUES (0)",
                 url, err);
        version = 0;
    }
    for (; rc == 0 && version < library_version(); version++)
        rc = run_migration(pg, db_migrations_postgres[version].sql, url, err);
    if (rc == 0)
        rc = record_migrations(pg, url, err);
    snprintf(sql, sizeof sql, "UPDATE tend_schema_version SET version = %d", version);
    return rc < 0 ? rc : run(pg, sql, url, err);
}

static int check_writable(PGconn *pg, const struct pg_url *url, struct err *err)
{
    int why = PG_NOT_READONLY;
    int rc = ask_number(pg, PG_READONLY_SQL, PG_NOT_READONLY, url, MIGRATION_MS, &why, err);
    if (rc < 0 || why == PG_NOT_READONLY)
        return rc;
    err_set(err, TEND_EREADONLY, "schema '%s' of PostgreSQL at %s cannot be set up", url->schema,
            url->where);
    return pg_error_readonly((enum pg_readonly)why, err);
}

/* Who has mistyped the name of the schema sees it here. */
static void tell_made(const struct pg_db *db)
{
    char text[sizeof db->url.schema + sizeof db->url.where + 64];
    snprintf(text, sizeof text, "made store: schema '%s' of PostgreSQL at %s", db->url.schema,
             db->url.where);
    if (db->options.notice != NULL)
        db->options.notice(db->options.notice_arg, text);
}

static int migrate_alone(struct pg_db *db, PGconn *pg, struct err *err)
{
    const struct pg_url *url = &db->url;
    char sql[256];
    struct err ignored;
    bool made = false;
    int rc = check_writable(pg, url, err);
    if (rc < 0)
        return rc;
    snprintf(
        sql, sizeof sql,
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL client_min_messages = error; SET LOCAL lock_timeout = 0; "
        "SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(%d, 0)",
        (int)pg_lock_class(url, PG_LOCK_SCHEMA));
    rc = run(pg, sql, url, err);
    if (rc == 0)
        rc = migrate(db, pg, &made, err);
    if (rc == 0)
        rc = run(pg, "COMMIT", url, err);
    if (rc < 0)
        run(pg, "ROLLBACK", url, &ignored);
    else if (made)
        tell_made(db);
    return rc;
}

int pg_schema_update(struct pg_db *db, PGconn *pg, int64_t limit_ms, struct err *err)
{
    const struct pg_url *url = &db->url;
    int version = -1;
    if (PQserverVersion(pg) < OLDEST_SERVER)
        return err_set(err, TEND_ESCHEMA, "PostgreSQL at %s is version %d; tend needs 13 or newer",
                       url->where, PQserverVersion(pg) / 10000);
    int rc = read_version(pg, url, limit_ms, &version, err);
    if (rc < 0 || version == library_version())
        return rc;
    if (version > library_version())
        return err_set(
            err, TEND_ESCHEMA,
            "schema '%s' of PostgreSQL at %s has version %d and this tend knows %d; use a newer "
            "tend",
            url->schema, url->where, version, library_version());
    if (version < 0 && db->options.must_exist)
        return err_set(
            err, TEND_ENOTFOUND,
            "there is no store in schema '%s' of PostgreSQL at %s; 'tend migrate' with the same "
            "--store or TEND_STORE makes one; tend_schema=NAME in the URL (after ? or &) names "
            "another schema",
            url->schema, url->where);
    return migrate_alone(db, pg, err);
}
