/* What tend doctor says about a PostgreSQL store. Reads only. */
#include "base/buf.h"
#include "base/civil.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/timetext.h"
#include "store/pg_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    OPEN_TOO_LONG_S = 60, /* a transaction that keeps dead rows from being removed */
    DEAD_ROWS_NOTE = 200000,
    CLOCK_DIFFERENCE_MS = 2000,
};

struct examination {
    struct pg_db *db;
    void (*report)(void *arg, int verdict, const char *what, const char *text);
    void *arg;
    int wrong;
};

static void say(struct examination *exam, enum tend_verdict verdict, const char *what,
                const char *text)
{
    exam->wrong += verdict == TEND_WRONG;
    exam->report(exam->arg, (int)verdict, what, text);
}

static const char *value(const PGresult *row, int column)
{
    return PQntuples(row) > 0 ? PQgetvalue(row, 0, column) : "";
}

static long long number(const PGresult *row, int column)
{
    return strtoll(value(row, column), NULL, 10);
}

static void look_at_settings(struct examination *exam, const PGresult *row)
{
    char text[384];
    snprintf(text, sizeof text, "PostgreSQL %s at %s, schema %s", value(row, 0),
             exam->db->url.where, exam->db->url.schema);
    say(exam, TEND_FINE, "server", text);
    bool waits = strcmp(value(row, 1), "off") != 0;
    const char *commit = value(row, 1);
    /* Behind a pooler each transaction sees to it, and this question is none. */
    if (exam->db->url.pooler && !exam->db->options.durability_normal && !waits) {
        commit = "on";
        waits = true;
    }
    snprintf(text, sizeof text, "synchronous_commit = %s%s", commit,
             waits ? ": what is acknowledged survives a crash of the server"
                   : ": a crash of the server may take the last commits with it");
    say(exam, waits ? TEND_FINE : TEND_WRONG, "durability", text);
    bool fsync = strcmp(value(row, 2), "on") == 0;
    say(exam, fsync ? TEND_FINE : TEND_WRONG, "fsync",
        fsync ? "on" : "off: a loss of power can destroy the store; set fsync = on");
    bool whole = strcmp(value(row, 3), "on") == 0;
    say(exam, whole ? TEND_FINE : TEND_NOTE, "full_page_writes",
        whole ? "on" : "off: safe only where the disk writes whole pages");
    if (exam->db->url.pooler)
        say(exam, TEND_NOTE, "pooler",
            exam->db->url.pooler_given
                ? "tend_pooler=1: new work is noticed by a tick, and workers are known by their "
                  "leases alone"
                : "a pooler lends the sessions to others, so tend does as with tend_pooler=1: new "
                  "work is noticed by a tick, and workers are known by their leases alone");
}

/* Whether this session could write, if its role may. */
static int look_at_writing(struct examination *exam, enum pg_readonly *ret_why, struct err *err)
{
    char text[320];
    PGresult *row;
    int rc = pg_db_ask(exam->db, -1, PG_READONLY_SQL, &row, err);
    if (rc < 0)
        return rc;
    *ret_why = (enum pg_readonly)number(row, 0);
    PQclear(row);
    snprintf(text, sizeof text, "nothing can be written: %s", pg_readonly_text(*ret_why));
    if (*ret_why == PG_NOT_READONLY)
        say(exam, TEND_FINE, "writing", "the server takes writes");
    else
        say(exam, TEND_WRONG, "writing", text);
    return 0;
}

/*
 * Which rights the role lacks on which tables (r) and sequences (S): a row for each set of rights.
 * Tables that only migrations write need to be read alone.
 */
static const char lacking_sql[] =
    "SELECT kind, rights, string_agg(name, ', ' ORDER BY name), quote_ident(current_user) FROM ("
    "SELECT c.relkind AS kind, quote_ident(c.relname) AS name, "
    "string_agg(r.name, ', ' ORDER BY r.nr) AS rights "
    "FROM pg_class c JOIN (VALUES ('r', 1, 'SELECT'), ('r', 2, 'INSERT'), ('r', 3, 'UPDATE'), "
    "('r', 4, 'DELETE'), ('S', 1, 'SELECT'), ('S', 2, 'USAGE'), ('S', 3, 'UPDATE')) "
    "AS r (kind, nr, name) ON r.kind = c.relkind::text "
    "WHERE c.relnamespace = '\"%s\"'::regnamespace "
    "AND NOT (c.relname IN ('migration', 'tend_schema_version') AND r.nr > 1) "
    "AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, r.name) "
    "ELSE has_table_privilege(c.oid, r.name) END "
    "GROUP BY c.oid, c.relkind, c.relname) AS lacking "
    "GROUP BY kind, rights ORDER BY kind DESC, rights";

static void say_lacking(struct examination *exam, const PGresult *rows, int row)
{
    struct buf text;
    bool sequences = PQgetvalue(rows, row, 0)[0] == 'S';
    const char *role = PQgetvalue(rows, row, 3);
    buf_init(&text);
    buf_printf(&text,
               "role %s lacks %s on the %s %s: GRANT ALL ON ALL %s IN SCHEMA %s TO %s (SELECT is "
               "enough for a role that only reads)",
               role, PQgetvalue(rows, row, 1), sequences ? "sequences" : "tables",
               PQgetvalue(rows, row, 2), sequences ? "SEQUENCES" : "TABLES", exam->db->url.schema,
               role);
    say(exam, TEND_WRONG, "permissions", text.failed ? "this role lacks rights" : text.data);
    buf_done(&text);
}

static int look_at_permissions(struct examination *exam, struct err *err)
{
    char sql[sizeof lacking_sql + PG_SCHEMA_BYTES];
    PGresult *rows;
    snprintf(sql, sizeof sql, lacking_sql, exam->db->url.schema);
    int rc = pg_db_ask(exam->db, -1, sql, &rows, err);
    if (rc < 0)
        return rc;
    for (int row = 0; row < PQntuples(rows); row++)
        say_lacking(exam, rows, row);
    if (PQntuples(rows) == 0)
        say(exam, TEND_FINE, "permissions", "this role may read and write all tables");
    PQclear(rows);
    return 0;
}

/* A copy without its sequences begins to count anew. */
static int look_at_ids(struct examination *exam, struct err *err)
{
    char text[256];
    PGresult *row;
    snprintf(text, sizeof text,
             "SELECT (SELECT last_value FROM \"%s\".event_id), coalesce(max(id), 0) FROM "
             "\"%s\".event",
             exam->db->url.schema, exam->db->url.schema);
    int rc = pg_db_ask(exam->db, -1, text, &row, err);
    if (rc < 0)
        return rc == TEND_EREADONLY ? 0 : rc; /* a right is missing, which was said */
    bool behind = number(row, 0) < number(row, 1);
    snprintf(text, sizeof text,
             "the sequence event_id is at %lld and the newest event has id %lld: ids are given out "
             "twice; run 'tend migrate --after-restore'",
             number(row, 0), number(row, 1));
    PQclear(row);
    say(exam, behind ? TEND_WRONG : TEND_FINE, "ids",
        behind ? text : "the next one is above all that were given out");
    return 0;
}

static void look_at_replication(struct examination *exam, const PGresult *row)
{
    char text[256];
    long long standbys = number(row, 4);
    long long synchronous = number(row, 5);
    bool wanted = value(row, 6)[0] != '\0';
    if (wanted && synchronous == 0) {
        say(exam, TEND_WRONG, "replication",
            "synchronous_standby_names is set and no such standby is there: commits wait for it");
        return;
    }
    snprintf(text, sizeof text, "%lld standby%s, %lld of them synchronous%s", standbys,
             plural(standbys), synchronous,
             standbys > 0 && synchronous == 0 ? ": a failover may lose the last commits" : "");
    say(exam, standbys > 0 && synchronous == 0 ? TEND_NOTE : TEND_FINE, "replication", text);
}

static void look_at_load(struct examination *exam, const PGresult *row)
{
    char text[256];
    char span[DURATION_TEXT_BYTES];
    long long open_s = number(row, 7);
    if (open_s >= OPEN_TOO_LONG_S)
        snprintf(
            text, sizeof text,
            "one has been open for %s (pid %s): dead rows cannot be removed, and claims slow down",
            span_text(open_s * MS_PER_SECOND, span), value(row, 8));
    else
        snprintf(text, sizeof text, "the longest has been open for %s",
                 span_text(open_s * MS_PER_SECOND, span));
    say(exam, open_s >= OPEN_TOO_LONG_S ? TEND_NOTE : TEND_FINE, "open transactions", text);

    long long dead = number(row, 9);
    snprintf(text, sizeof text, "%lld dead row%s in table job%s", dead, plural(dead),
             dead >= DEAD_ROWS_NOTE ? "; is autovacuum on?" : "");
    say(exam, dead >= DEAD_ROWS_NOTE ? TEND_NOTE : TEND_FINE, "dead rows", text);

    long long used = number(row, 10);
    long long limit = number(row, 11);
    snprintf(text, sizeof text, "%lld of %lld connections in use", used, limit);
    say(exam, used * 10 >= limit * 9 ? TEND_NOTE : TEND_FINE, "connections", text);
}

static void look_at_schema(struct examination *exam, const PGresult *row)
{
    char text[128];
    int library = db_library_schema();
    long long store = number(row, 12);
    snprintf(text, sizeof text, "version %lld, this tend makes %d", store, library);
    say(exam, store == library ? TEND_FINE : TEND_WRONG, "schema", text);
}

static void look_at_clock(struct examination *exam, const PGresult *row, int64_t before_ms)
{
    char text[320];
    char span[DURATION_TEXT_BYTES];
    int64_t after_ms = clock_wall_ms();
    long long steps = number(row, 14);
    int64_t difference_ms = number(row, 13) - (before_ms + after_ms) / 2;
    int used = snprintf(
        text, sizeof text, "the server's clock differs by %s from this machine's%s",
        span_text(llabs((long long)difference_ms), span),
        llabs((long long)difference_ms) >= CLOCK_DIFFERENCE_MS ? "; the server's counts" : "");
    if (steps > 0)
        snprintf(text + used, sizeof text - (size_t)used,
                 "; leases were moved %lld time%s: it was set, or the server was away (events "
                 "clock.stepped and server.changed)",
                 steps, plural(steps));
    say(exam, llabs((long long)difference_ms) >= CLOCK_DIFFERENCE_MS ? TEND_NOTE : TEND_FINE,
        "clock", text);
}

int pg_db_doctor(struct db *base, void (*report)(void *, int, const char *, const char *),
                 void *arg, struct err *err)
{
    struct examination exam = {.db = (struct pg_db *)base, .report = report, .arg = arg};
    char sql[2048];
    PGresult *row;
    enum pg_readonly why;
    int rc;
    if ((rc = look_at_writing(&exam, &why, err)) < 0 ||
        (rc = look_at_permissions(&exam, err)) < 0 || (rc = look_at_ids(&exam, err)) < 0)
        return rc;
    snprintf(
        sql, sizeof sql,
        "SELECT current_setting('server_version'), current_setting('synchronous_commit'), "
        "current_setting('fsync'), current_setting('full_page_writes'), "
        "(SELECT count(*) FROM pg_stat_replication), "
        "(SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')), "
        "current_setting('synchronous_standby_names'), oldest.s, oldest.pid, "
        "(SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = '%s' AND relname = 'job'), "
        "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
        "current_setting('max_connections'), "
        "(SELECT version FROM \"%s\".tend_schema_version), \"%s\".store_clock(), "
        "(SELECT clock_steps FROM \"%s\".store) "
        "FROM (SELECT 1) AS one LEFT JOIN ("
        "SELECT extract(epoch FROM clock_timestamp() - xact_start)::bigint AS s, pid "
        "FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND "
        "backend_type = 'client backend' AND datname = current_database() "
        "ORDER BY xact_start LIMIT 1) AS oldest ON true",
        exam.db->url.schema, exam.db->url.schema, exam.db->url.schema, exam.db->url.schema);
    int64_t before_ms = clock_wall_ms();
    rc = pg_db_ask(exam.db, -1, sql, &row, err);
    if (rc < 0)
        return rc;
    look_at_settings(&exam, row);
    if (why != PG_STANDBY) /* its settings are those of the primary */
        look_at_replication(&exam, row);
    look_at_load(&exam, row);
    look_at_schema(&exam, row);
    look_at_clock(&exam, row, before_ms);
    PQclear(row);
    return exam.wrong;
}
