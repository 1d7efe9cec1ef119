/*
 * See fill.h. The SQL is that of both engines. The triggers that write events and check moves are
 * off meanwhile: a finished job has three events, and the trigger would write only the first.
 */
#include "bench/fill.h"

#include "bench/postgres.h"
#include "bench/side.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

/* Expressions over t, the time now, and i, the number of the job. */
struct fill_kind {
    const char *queue, *state, *due, *alarm, *token, *owner, *started, *attempts, *finished;
    size_t
        events; /* of a job: added, claimed, completed, as far as it has come. Also its version */
    const char *what;
    const char *key;
    const char *then; /* a statement that follows, or NULL */
};

static const struct fill_kind kinds[] = {
    [FILL_PENDING] = {SIDE_QUEUE, "1", "t - 10000000 + i", "NULL", "0", "NULL", "NULL", "0", "NULL",
                      1, "job.added", "NULL", NULL},
    [FILL_FINISHED] = {SIDE_QUEUE, "4", "t - 10000000 + i", "NULL", "1", "NULL", "NULL", "1",
                       "t - 9000000 + i", 3, "job.completed", "NULL", NULL},
    [FILL_SCHEDULED] = {SIDE_QUEUE, "0", "t + 90000000 + i", "t + 90000000 + i", "0", "NULL",
                        "NULL", "0", "NULL", 1, "job.added", "NULL", NULL},
    [FILL_EXPIRED] = {"other", "2", "t - 10000000 + i", "t - 1000000 + i", "1", "'gone'",
                      "t - 2000000 + i", "0", "NULL", 2, "job.claimed", "NULL", NULL},
    [FILL_KEYED] = {SIDE_QUEUE, "1", "t - 10000000 + i", "NULL", "0", "NULL", "NULL", "0", "NULL",
                    1, "job.added", "'full'",
                    "INSERT INTO queue (name, key_concurrency) VALUES ('" SIDE_QUEUE "', 1);"
                    "UPDATE job SET state = 2, owner = 'bench', token = 1, started_at = due_at,"
                    " seen_at = due_at, alarm_at = due_at + 1000000000 WHERE id = 1"},
};

/* How a statement is run on either engine. 0, or -1 after bench_fail. */
typedef int run_sql(void *database, const char *sql);

/* A table n of numbers i below count, and c with the time t. */
static void numbers(char out[256], size_t count)
{
    snprintf(out, 256,
             "WITH RECURSIVE n (i) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT i + 1 FROM n"
             " WHERE i < %zu), c (t) AS (SELECT CAST(%" PRId64 " AS bigint))",
             count - 1, bench_now_ms());
}

/* Job i has the id of its first event, and its events follow one another. */
static int fill_jobs(const struct fill_kind *kind, size_t count, run_sql *run, void *database)
{
    char with[256];
    char sql[2048];
    numbers(with, count);
    snprintf(
        sql, sizeof sql,
        "%s INSERT INTO job (id, event_id, queue, kind, state, priority, due_at, alarm_at, token,"
        " owner, started_at, seen_at, attempts, finished_at, version, created_at, changed_at,"
        " changed_by, changed_what, payload, concurrency_key)"
        " SELECT i * %zu + 1, (i + 1) * %zu, '%s', '%s', %s, 5, %s, %s, %s, %s, %s, %s, %s, %s,"
        " %zu, t - 10000000 + i, t - 10000000 + i, 'bench', '%s', '%s', %s FROM n, c",
        with, kind->events, kind->events, kind->queue, SIDE_KIND, kind->state, kind->due,
        kind->alarm, kind->token, kind->owner, kind->started, kind->started, kind->attempts,
        kind->finished, kind->events, kind->what, SIDE_PAYLOAD, kind->key);
    return run(database, sql);
}

static int fill_events(const struct fill_kind *kind, size_t count, run_sql *run, void *database)
{
    char with[256];
    char sql[1024];
    size_t events = kind->events;
    numbers(with, count * events);
    snprintf(
        sql, sizeof sql,
        "%s INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state,"
        " token, owner)"
        " SELECT i + 1, CASE WHEN i %% %zu > 0 THEN i END, t - 10000000 + i / %zu,"
        " i / %zu * %zu + 1, '%s', 'bench',"
        " CASE i %% %zu WHEN 0 THEN 'job.added' WHEN 1 THEN 'job.claimed' ELSE 'job.completed' END,"
        " CASE i %% %zu WHEN 0 THEN NULL WHEN 1 THEN 1 ELSE 2 END,"
        " CASE i %% %zu WHEN 0 THEN %d WHEN 1 THEN 2 ELSE 4 END,"
        " CASE WHEN i %% %zu > 0 THEN 1 END, CASE WHEN i %% %zu > 0 THEN 'gone' END FROM n, c",
        with, events, events, events, events, kind->queue, events, events, events,
        kind->state[0] == '0' ? TEND_SCHEDULED : TEND_PENDING, events, events);
    return run(database, sql);
}

static int fill_both(const struct fill_kind *kind, size_t count, run_sql *run, void *database)
{
    if (fill_jobs(kind, count, run, database) < 0 || fill_events(kind, count, run, database) < 0)
        return -1;
    return kind->then == NULL ? 0 : run(database, kind->then);
}

/* --- SQLite --- */

static int run_sqlite(void *database, const char *sql)
{
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return bench_fail("filling a store: %s", sqlite3_errmsg(database));
}

static int fill_sqlite(const struct place *place, const struct fill_kind *kind, size_t count)
{
    char path[PLACE_URL_BYTES];
    sqlite3 *sqlite;
    place_path(place, path);
    int rc = sqlite3_open(path, &sqlite) == SQLITE_OK ? 0 : bench_fail("%s cannot be opened", path);
    sqlite3_db_config(sqlite, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    if (rc == 0)
        rc = run_sqlite(sqlite, "PRAGMA synchronous = OFF; PRAGMA cache_size = -64000;"
                                "PRAGMA journal_mode = OFF; BEGIN");
    if (rc == 0)
        rc = fill_both(kind, count, run_sqlite, sqlite);
    if (rc == 0)
        rc = run_sqlite(sqlite, "COMMIT; PRAGMA journal_mode = WAL");
    sqlite3_close(sqlite);
    sync(); /* or writing it out would disturb what is measured next */
    return rc;
}

/* --- PostgreSQL --- */

static int run_postgres(void *database, const char *sql)
{
    return postgres_run(database, sql);
}

static int fill_postgres(const struct place *place, const struct fill_kind *kind, size_t count)
{
    char sql[128];
    PGconn *pg;
    if (postgres_connect(&pg, place) < 0)
        return -1;
    snprintf(sql, sizeof sql, "SELECT setval('event_id', %zu)", count * kind->events);
    int rc = postgres_run(pg, "SET synchronous_commit = off; ALTER TABLE job DISABLE TRIGGER USER");
    if (rc == 0)
        rc = fill_both(kind, count, run_postgres, pg);
    if (rc == 0 && (rc = postgres_run(pg, sql)) == 0 &&
        (rc = postgres_run(pg, "ALTER TABLE job ENABLE TRIGGER USER")) == 0 &&
        (rc = postgres_run(pg, "VACUUM ANALYZE job")) == 0)
        rc = postgres_run(pg, "VACUUM ANALYZE event");
    if (rc == 0)
        PQclear(PQexec(pg, "CHECKPOINT")); /* only who may; it makes what follows calmer */
    PQfinish(pg);
    return rc;
}

int fill_store(const struct place *place, enum fill fill, size_t count)
{
    const struct fill_kind *kind = &kinds[fill];
    void *store = NULL;
    int rc = side_tend.open(&store, place, 1);
    if (store != NULL)
        side_tend.close(store);
    if (rc < 0)
        return -1;
    return place->engine == ENGINE_SQLITE ? fill_sqlite(place, kind, count)
                                          : fill_postgres(place, kind, count);
}
