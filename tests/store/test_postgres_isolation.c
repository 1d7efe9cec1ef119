/*
 * PostgreSQL sessions whose default isolation level is another than tend relies on, behind a
 * pooler, where nothing can be set for a session (store/pg_settings.c).
 */
#include "queue/handle.h"
#include "store/pg_db.h"
#include "support/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A URL of this schema by which sessions begin with this level and are not tend's own. */
static const char *pooled_url(const char *schema, const char *level)
{
    return keep_text("%s&tend_schema=%s&tend_pooler=1&application_name=pooled"
                     "&options=-c%%20default_transaction_isolation%%3D%s",
                     getenv("TEND_TEST_PG_URL"), schema, level);
}

#define REPEATABLE_READ "repeatable%5C%20read"

static tend *open_url(const char *url)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    int rc = tend_open(&t, url, &options);
    check_ok(t, rc);
    return t;
}

static PGconn *begin(const char *sql)
{
    PGconn *pg = session_open();
    session_run(pg, keep_text("BEGIN; %s", sql));
    return pg;
}

struct reader {
    tend *t;
    int64_t after;
    struct tend_events *events;
    pthread_t thread;
};

/* Events that others are just writing are left for later when that takes long. */
static void *read_events(void *arg)
{
    struct reader *reader = arg;
    for (;;) {
        check_ok(reader->t, tend_events_since(reader->t, reader->after, 10, &reader->events));
        if (reader->events->count > 0)
            return NULL;
        tend_events_free(reader->events);
    }
}

/* Symptom: the reader waited for the writer of an event, then did not see it, because it read as of
 * before the wait; it went on after the next event and never saw the first. */
TEST(postgres_isolation, an_event_that_was_waited_for_is_seen)
{
    store_close(store_open("w"));
    struct reader reader = {.t = open_url(pooled_url(store_schema(), REPEATABLE_READ))};
    add_one(reader.t, "q");
    reader.after = sql_int("SELECT max(id) FROM event");
    PGconn *writer = begin("INSERT INTO event (id, at, who, what) "
                           "VALUES (next_event(), 1, 'slow', 'slow.writer')");
    add_one(reader.t, "q");
    check_int(pthread_create(&reader.thread, NULL, read_events, &reader), ==, 0);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity "
                       "WHERE application_name = 'pooled' AND wait_event = 'PgSleep'") > 0,
               PATIENCE_MS);
    session_run(writer, "COMMIT");
    pthread_join(reader.thread, NULL);
    PQfinish(writer);
    check_str(reader.events->items[0].what, "slow.writer");
    check_int(reader.events->count, ==, 2);
    tend_events_free(reader.events);
    tend_close(reader.t);
}

/* Symptom: the level of whoever set up the database. With a stricter one, calls that met each other
 * failed with EBUSY. */
TEST(postgres_isolation, every_write_is_read_committed)
{
    store_close(store_open("w"));
    tend *t = open_url(pooled_url(store_schema(), "serializable"));
    sql_exec("CREATE TABLE seen (level text);"
             "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO %s.seen "
             "VALUES (current_setting(''transaction_isolation'')); RETURN NULL; END';"
             "CREATE TRIGGER see AFTER INSERT OR UPDATE ON job FOR EACH ROW EXECUTE FUNCTION see()",
             store_schema());
    add_number(t, "q", 3);
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q"); /* in several flights */
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    lease = claim_one(t, "q"); /* in one */
    check_ok(t, tend_release(t, &lease, 1, 0, "not wanted", NULL));
    check_int(sql_int("SELECT count(*) FROM seen"), >=, 8);
    check_int(sql_int("SELECT count(*) FROM seen WHERE level <> 'read committed'"), ==, 0);
    tend_close(t);
}

/* Symptom: the first claim failed with EBUSY when the entry of its worker was changed at that
 * moment. */
TEST(postgres_isolation, a_worker_that_meets_another_when_it_registers_tries_again)
{
    store_close(store_open("w"));
    tend *t = open_url(pooled_url(store_schema(), REPEATABLE_READ));
    sql_exec("CREATE SEQUENCE met;"
             "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "
             "IF nextval(''%s.met'') = 1 THEN RAISE SQLSTATE ''40001''; END IF; RETURN NEW; END';"
             "CREATE TRIGGER meet BEFORE UPDATE ON worker FOR EACH ROW EXECUTE FUNCTION meet()",
             store_schema());
    add_one(t, "q");
    check_int(claim_one(t, "q").id, >, 0);
    check_int(sql_int("SELECT last_value FROM met"), ==, 2);
    tend_close(t);
}

/* --- making the store --- */

struct maker {
    const char *url;
    int rc;
    const char *said;
    pthread_t thread;
};

static void *make(void *arg)
{
    struct maker *maker = arg;
    tend *t;
    maker->rc = tend_open(&t, maker->url, NULL);
    maker->said = keep_text("%s", tend_errmsg(t));
    tend_close(t);
    return NULL;
}

/* Symptom: the second waited for the first, then did not see what it had made, and failed. */
TEST(postgres_isolation, of_two_who_make_the_store_the_second_finds_it)
{
    struct maker makers[2];
    struct pg_url parsed;
    struct err err;
    const char *schema = keep_text("%s_two", store_schema());
    const char *url = pooled_url(schema, REPEATABLE_READ);
    check_int(pg_url_parse(&parsed, url, &err), ==, 0);
    int32_t class = pg_lock_class(&parsed, PG_LOCK_SCHEMA);
    pg_url_done(&parsed);
    store_close(store_open("w"));
    PGconn *pg = begin(keep_text("SELECT pg_advisory_xact_lock(%d, 0)", (int)class));
    for (int i = 0; i < 2; i++) {
        makers[i] = (struct maker){.url = url};
        check_int(pthread_create(&makers[i].thread, NULL, make, &makers[i]), ==, 0);
    }
    wait_until(sql_int("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
                       "AND classid = %u",
                       (unsigned)class) == 2,
               PATIENCE_MS);
    PQfinish(pg);
    for (int i = 0; i < 2; i++)
        pthread_join(makers[i].thread, NULL);
    sql_exec("DROP SCHEMA %s CASCADE", schema);
    for (int i = 0; i < 2; i++) {
        check_str(makers[i].said, "");
        check_int(makers[i].rc, ==, 0);
    }
}
