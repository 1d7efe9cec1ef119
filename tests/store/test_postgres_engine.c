/*
 * What is PostgreSQL's own about the store: schemas and URLs, what hand-written SQL can and cannot
 * do, the order of events, lost connections, transactions that go together. Waiting and liveness
 * are in test_postgres_wait.c.
 */
#include "support/session.h"

#include "store/db_engine.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The store's URL with more parameters. */
static const char *url_with(const char *more)
{
    return keep_text("%s&%s", store_url(), more);
}

static int try_open(const char *url, const char **ret_sentence)
{
    tend *t;
    int rc = tend_open(&t, url, NULL);
    *ret_sentence = keep_text("%s", tend_errmsg(t));
    tend_close(t);
    return rc;
}

static tend *open_named(const char *application)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    options.connections = 4;
    check_int(tend_open(&t, url_with(keep_text("application_name=%s", application)), &options), ==,
              0);
    return t;
}

/* Ends the server's side of all connections of that name, and waits until they are gone. */
static void terminate(const char *application)
{
    sql_rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '%s'",
             application);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'",
                       application) == 0,
               PATIENCE_MS);
}

/* --- schemas and URLs --- */

TEST(postgres, two_stores_in_one_database_know_nothing_of_each_other)
{
    tend *one = store_open("w");
    tend *two;
    const char *schema = keep_text("%s_b", store_schema());
    const char *url = keep_text("%s&tend_schema=%s", getenv("TEND_TEST_PG_URL"), schema);
    check_int(tend_open(&two, url, NULL), ==, 0);
    add_one(one, "q");
    claim_none(two, "q");
    int64_t id = add_one(two, "q");
    check_int(claim_one(two, "q").id, ==, id);
    claim_one(one, "q");
    claim_none(one, "q");
    tend_close(two);
    sql_exec("DROP SCHEMA %s CASCADE", schema);
}

static void open_and_add(struct helper *parent, void *arg)
{
    (void)arg;
    helper_hear(parent);
    add_one(store_open_real("w"), "q");
}

/* The second to come must not answer from what it knew before it waited for the first. */
TEST(postgres, many_processes_may_make_the_store_at_once)
{
    struct helper helpers[8];
    for (int i = 0; i < 8; i++)
        helpers[i] = helper_start(open_and_add, NULL);
    for (int i = 0; i < 8; i++)
        helper_say(&helpers[i], 1);
    for (int i = 0; i < 8; i++)
        helper_join(&helpers[i]);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 8);
}

TEST(postgres, tables_that_are_not_tends_are_left_alone)
{
    const char *sentence;
    sql_exec("CREATE SCHEMA %s; CREATE TABLE %s.job (mine text)", store_schema(), store_schema());
    check_int(try_open(store_url(), &sentence), ==, TEND_ENOTADB);
    check_contains(sentence, "tend_schema=NAME");
    check_int(sql_int("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                      "WHERE nspname = '%s'",
                      store_schema()),
              ==, 1);
}

TEST(postgres, a_store_that_must_exist_is_not_made)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.must_exist = 1;
    check_int(tend_open(&t, store_url(), &options), ==, TEND_ENOTFOUND);
    tend_close(t);
    check_int(sql_int("SELECT count(*) FROM pg_namespace WHERE nspname = '%s'", store_schema()), ==,
              0);
}

TEST(postgres, parameters_that_mean_nothing_are_refused_by_name)
{
    const char *sentence;
    check_int(try_open(url_with("tend_pool=1"), &sentence), ==, TEND_EINVAL);
    check_contains(sentence, "tend_pool");
    check_int(try_open(url_with("tend_schema=A;DROP"), &sentence), ==, TEND_EINVAL);
    check_contains(sentence, "tend_schema");
    check_int(try_open(url_with("tend_pooler=7"), &sentence), ==, TEND_EINVAL);
    check_contains(sentence, "tend_pooler in the store URL must be 0 or 1");
    check_int(try_open(url_with("connect_timeout=9?tend_pooler=1"), &sentence), ==, TEND_EINVAL);
    check_contains(sentence, "second '?'");
}

/* Our own settings travel beside them, and count where both say something. */
TEST(postgres, startup_options_from_the_url_or_the_environment_are_sent_too)
{
    tend *t = store_open("maker");
    sql_exec("CREATE TABLE seen (mem text, seqscan text);"
             "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO seen "
             "VALUES (current_setting(''work_mem''), current_setting(''enable_seqscan'')); "
             "RETURN NULL; END';"
             "CREATE TRIGGER see AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION see()");
    store_close(t);
    setenv("PGOPTIONS", "-c work_mem=7MB -c enable_seqscan=on", 1);
    add_one(open_named("environment"), "q");
    check_int(tend_open(&t, url_with("options=-c%20work_mem%3D9MB"), NULL), ==, 0);
    add_one(t, "q");
    tend_close(t);
    check_str(sql_rows("SELECT mem, seqscan FROM seen ORDER BY mem"), "7MB|off\n9MB|off\n");
}

/* It was told as a standby, for which another host would have to be named. */
TEST(postgres, a_primary_on_which_transactions_are_read_only_is_not_told_as_a_standby)
{
    const char *url = url_with("options=-c%20default_transaction_read_only%3Don");
    const char *sentence;
    struct tend_job_spec spec = spec_for("q");
    tend *t;
    check_int(try_open(url, &sentence), ==, TEND_EREADONLY);
    check_contains(sentence, "cannot be set up");
    check_contains(sentence, "default_transaction_read_only is on");
    store_close(store_open("maker"));
    check_int(tend_open(&t, url, NULL), ==, 0);
    check_int(tend_add(t, &spec, NULL), ==, TEND_EREADONLY);
    check_contains(tend_errmsg(t), "SQLSTATE 25006");
    check_contains(tend_errmsg(t), "default_transaction_read_only is on");
    check(strstr(tend_errmsg(t), "standby") == NULL);
    tend_close(t);
}

TEST(postgres, no_sentence_repeats_a_password)
{
    const char *urls[] = {
        "postgresql://bob:geheim@127.0.0.1:port/db",
        "postgresql://bob:geheim@127.0.0.1:1/db",
        "postgresql://bob:geheim@[::1/db",
        "postgresql://bob@127.0.0.1:1/db?password=geheim&nonsense",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        const char *sentence;
        check_int(try_open(urls[i], &sentence), <, 0);
        check(strstr(sentence, "geheim") == NULL);
        check_int(strlen(sentence), >, 20);
    }
}

TEST(postgres, a_server_that_is_not_there_is_named_at_once)
{
    const char *sentence;
    long long before_ms = test_clock_ms();
    check_int(try_open("postgresql://bob@127.0.0.1:1/db", &sentence), ==, TEND_EUNREACHABLE);
    check_contains(sentence, "127.0.0.1, port 1, database db");
    check_int(test_clock_ms() - before_ms, <, 5000);
}

/* --- what the database itself sees to --- */

TEST(postgres, a_job_that_is_changed_by_hand_still_leaves_an_event)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    sql_exec(
        "UPDATE job SET state = 6, finished_at = 1, event_id = next_event(), version = version + 1, "
        "changed_by = 'hand', changed_what = 'job.cancelled' WHERE id = %lld",
        (long long)id);
    check_str(events_of(t, id), "job.added job.cancelled");
    check_str(last_event_of(t, id)->who, "hand");
}

TEST(postgres, no_change_by_hand_gets_around_the_rules)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    add_number(t, "q", 3);
    const char *const wrong[] = {
        "UPDATE job SET state = 3",                                           /* without an event */
        "UPDATE job SET state = 4, finished_at = 1, event_id = next_event()", /* not by this way */
        "UPDATE job SET state = 3, alarm_at = 5, event_id = next_event()", /* against the facts */
        "UPDATE job SET owner = 'me'",
        "UPDATE job SET worker_id = 7",
        "UPDATE job SET priority = 10",
        "UPDATE job SET finished_at = 1",
        "UPDATE job SET id = id + 1000",
        "UPDATE job SET state = 7, event_id = next_event()",
        "INSERT INTO job (id, event_id, queue, kind, state, priority, due_at, payload, created_at, "
        "changed_at, changed_by, changed_what, finished_at) "
        "SELECT e, e, 'q', '', 4, 5, 1, '{}', 1, 1, 'me', 'x', 1 FROM next_event() AS e",
    };
    const char *before = store_snapshot();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (sql_try("%s", wrong[i]))
            test_fail(__FILE__, __LINE__, "accepted: %s", wrong[i]);
    check_str(store_snapshot(), before);
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* The trigger's plan is made for the first statement; it must suit the thousandth row as well. */
TEST(postgres, a_large_statement_after_a_small_one_is_not_slow)
{
    tend *t = store_open("w");
    struct tend_lease leases[2000];
    add_number(t, "q", 2001);
    struct tend_lease first = claim_one(t, "q");
    check_ok(t, tend_complete(t, &first, 1, NULL, NULL));
    check_int(claim_many(t, "q", 2000, leases), ==, 2000);
    long long before_ms = test_clock_ms();
    check_ok(t, tend_complete(t, leases, 2000, NULL, NULL));
    check_int(test_clock_ms() - before_ms, <, 3000); /* four million comparisons take longer */
}

TEST(postgres, claimed_jobs_come_in_their_order_also_from_one_batch)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    for (int i = 0; i < 30; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.priority = (i * 7) % 10;
        spec.due_at_ms = clock_now() - (i * 13) % 5;
        add_spec(t, &spec);
    }
    claim.count = 30;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 30);
    for (size_t i = 1; i < jobs->count; i++) {
        const struct tend_job *a = &jobs->items[i - 1];
        const struct tend_job *b = &jobs->items[i];
        check(a->priority < b->priority ||
              (a->priority == b->priority &&
               (a->due_at_ms < b->due_at_ms || (a->due_at_ms == b->due_at_ms && a->id < b->id))));
    }
    tend_jobs_free(jobs);
}

/* --- events --- */

static size_t events_after(tend *t, int64_t id, int64_t *ret_last)
{
    struct tend_events *events;
    check_ok(t, tend_events_since(t, id, 0, &events));
    size_t count = events->count;
    *ret_last = count == 0 ? id : events->items[count - 1].id;
    tend_events_free(events);
    return count;
}

static const char *const add_by_hand =
    "INSERT INTO job (id, event_id, queue, kind, state, priority, due_at, payload, created_at, "
    "changed_at, changed_by, changed_what) "
    "SELECT e, e, 'q', '', 1, 5, 1, '{}', 1, 1, 'hand', 'job.added' FROM next_event() AS e";

/* What tend's statements write themselves, the server writes for all others. */
TEST(postgres, a_job_added_by_hand_or_by_an_older_tend_has_its_event)
{
    tend *t = store_open("w");
    PGconn *hand = session_open();
    const char *const event =
        "SELECT count(*) FROM event JOIN job ON job_id = job.id AND event.id = job.event_id "
        "WHERE who = 'hand' AND what = 'job.added' AND event.queue = 'q' AND to_state = 1 "
        "AND at = 1 AND from_state IS NULL AND prev IS NULL";
    int64_t seen = 0;
    session_run(hand, add_by_hand);
    check_int(sql_int("%s", event), ==, 1);
    session_run(hand, "SET tend.engine = on");
    session_run(hand, add_by_hand);
    check_int(sql_int("%s", event), ==, 2);
    session_run(hand, "INSERT INTO job (id, event_id, queue, kind, state, priority, due_at, "
                      "payload, created_at, changed_at, changed_by, changed_what, recorded) "
                      "SELECT e, e, 'q', '', 1, 5, 1, '{}', 1, 1, 'hand', 'job.added', false "
                      "FROM next_event() AS e");
    check_int(sql_int("%s", event), ==, 3);
    check_int(events_after(t, 0, &seen), ==, 3);
    PQfinish(hand);
}

/* Who follows by id would never see an event that is committed after one with a larger id. */
TEST(postgres, no_event_is_passed_over_because_its_transaction_is_slow)
{
    tend *t = store_open("w");
    PGconn *slow = session_open();
    int64_t seen = 0;
    add_one(t, "q");
    check_int(events_after(t, 0, &seen), ==, 1);
    session_run(slow, "BEGIN");
    session_run(slow, add_by_hand);
    add_one(t, "q");
    check_int(events_after(t, seen, &seen), ==, 0);
    session_run(slow, "COMMIT");
    check_int(events_after(t, seen, &seen), ==, 2);
    check_int(events_after(t, seen, &seen), ==, 0);
    PQfinish(slow);
}

static void *add_singly(void *arg)
{
    for (int i = 0; i < 200; i++)
        add_one(arg, "q");
    return NULL;
}

static void *add_by_hand_slowly(void *arg)
{
    PGconn *pg = session_open();
    (void)arg;
    for (int i = 0; i < 100; i++) {
        session_run(pg, "BEGIN");
        session_run(pg, add_by_hand);
        session_run(pg, i % 3 == 0 ? "ROLLBACK" : "COMMIT");
    }
    PQfinish(pg);
    return NULL;
}

TEST_WITHIN(postgres, who_follows_events_sees_each_once_while_many_write, 120)
{
    tend *t = store_open_real("w");
    pthread_t threads[4];
    int64_t seen = 0;
    int64_t count = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? add_singly : add_by_hand_slowly, t);
    while (count < 400 + 132)
        count += (int64_t)events_after(t, seen, &seen);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    count += (int64_t)events_after(t, seen, &seen);
    check_int(count, ==, 400 + 132);
    check_int(sql_int("SELECT count(*) FROM event"), ==, count);
}

/* --- lost connections --- */

TEST(postgres, connections_that_the_server_has_closed_are_replaced_unnoticed)
{
    tend *t = open_named(store_schema());
    int64_t id = add_one(t, "q");
    terminate(store_schema());
    check_int(state_of(t, id), ==, TEND_PENDING);
    terminate(store_schema());
    add_one(t, "q");
    terminate(store_schema());
    claim_one(t, "q");
    check_int(sql_int("SELECT count(*) FROM job"), ==, 2);
    tend_close(t);
}

struct cut_body {
    const char *application;
    int runs;
};

/* Cuts its own connection between two statements, the first time. */
static int cut_body(struct db_tx *tx, void *arg)
{
    struct cut_body *call = arg;
    const struct db_value params[] = {db_now(tx), db_text("w"), db_text("q"), db_text(""),
                                      db_int(5),  db_null(),    db_int(0),    db_text("{}")};
    int64_t id;
    int64_t now_ms;
    int rc = db_each(tx, Q_JOB_ADD_BASIC, 0, params, 1, &id);
    if (rc < 0)
        return rc;
    if (call->runs++ == 0)
        terminate(call->application);
    return db_time(tx, &now_ms);
}

TEST(postgres, a_transaction_whose_connection_is_cut_before_its_end_is_run_again_and_counts_once)
{
    struct db *db;
    struct err err;
    struct arena arena;
    struct cut_body call = {.application = store_schema()};
    struct db_options options = {.connections = 2, .busy_ms = 10000};
    const char *url = url_with(keep_text("application_name=%s", store_schema()));
    check_int(db_open(&db, url, &options, &err), ==, 0);
    arena_init(&arena);
    check_int(db_write(db, &arena, cut_body, &call, &err), ==, 0);
    check_int(call.runs, ==, 2);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
    arena_done(&arena);
    db_close(db);
}

static void *add_and_be_cut(void *arg)
{
    tend *t = arg;
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    check_rc(t, tend_add(t, &spec, &added), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "not known");
    return NULL;
}

/* When the answer to the commit is lost, trying again could do it twice, and giving up could lose
 * it. */
TEST(postgres, a_commit_without_an_answer_is_told_as_unknown)
{
    tend *t = open_named(store_schema());
    pthread_t thread;
    sql_exec("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN PERFORM pg_sleep(60); RETURN NULL; END';"
             "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON job DEFERRABLE INITIALLY DEFERRED "
             "FOR EACH ROW EXECUTE FUNCTION slow()");
    pthread_create(&thread, NULL, add_and_be_cut, t);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND "
                       "wait_event = 'PgSleep'",
                       store_schema()) == 1,
               PATIENCE_MS);
    terminate(store_schema());
    pthread_join(thread, NULL);
    tend_close(t);
}

/* --- contention --- */

struct two_locks {
    struct db *db;
    const char *first, *second;
    pthread_barrier_t *both_hold_one;
    int runs;
    int rc;
};

static int two_locks_body(struct db_tx *tx, void *arg)
{
    struct two_locks *call = arg;
    const struct db_value one[] = {db_text(call->first)};
    const struct db_value other[] = {db_text(call->second)};
    struct db_result rows;
    int rc = db_run(tx, Q_QUEUE_LOCK, 0, one, &rows);
    if (rc == 0 && call->runs++ == 0)
        pthread_barrier_wait(call->both_hold_one);
    return rc < 0 ? rc : db_run(tx, Q_QUEUE_LOCK, 0, other, &rows);
}

static void *take_two_locks(void *arg)
{
    struct two_locks *call = arg;
    struct arena arena;
    struct err err;
    arena_init(&arena);
    call->rc = db_write(call->db, &arena, two_locks_body, call, &err);
    arena_done(&arena);
    return NULL;
}

/* CL-5: a deadlock is resolved by running the loser again. */
TEST(postgres, CL_5_a_deadlock_is_not_the_callers_business)
{
    struct db_options options = {.connections = 2, .busy_ms = 10000};
    struct err err;
    pthread_barrier_t barrier;
    struct two_locks calls[2] = {{.first = "a", .second = "b"}, {.first = "b", .second = "a"}};
    pthread_t threads[2];
    tend *t = store_open("w");
    set_queue(t, "a", "concurrency", "5");
    set_queue(t, "b", "concurrency", "5");
    pthread_barrier_init(&barrier, NULL, 2);
    check_int(db_open(&calls[0].db, store_url(), &options, &err), ==, 0);
    calls[1].db = calls[0].db;
    for (int i = 0; i < 2; i++) {
        calls[i].both_hold_one = &barrier;
        pthread_create(&threads[i], NULL, take_two_locks, &calls[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    check_int(calls[0].rc, ==, 0);
    check_int(calls[1].rc, ==, 0);
    check_int(calls[0].runs + calls[1].runs, ==, 3);
    db_close(calls[0].db);
}

/* --- answers that are none --- */

static void swallow_jobs(void)
{
    sql_exec("CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN RETURN NULL; END'");
    sql_exec("CREATE TRIGGER swallow BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION swallow()");
}

static void *add_to_nowhere(void *arg)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added = {0};
    for (int i = 0; i < 20; i++)
        check_rc(arg, tend_add(arg, &spec, &added), TEND_EINTERNAL);
    return NULL;
}

/* Symptom: a row that was missing in the server's answer became the id 0, and the job that was not
 * there was acknowledged. */
TEST(postgres, an_id_that_the_server_did_not_return_is_an_error_and_no_answer)
{
    tend *t = store_open_real("w");
    struct tend_job_spec specs[3] = {spec_for("q"), spec_for("q"), spec_for("q")};
    struct tend_added added[3];
    pthread_t threads[6];
    swallow_jobs();
    check_rc(t, tend_add(t, specs, added), TEND_EINTERNAL);
    check_contains(tend_errmsg(t), "returned 0 ids for 1 rows");
    check_rc(t, tend_add_many(t, specs, 3, added), TEND_EINTERNAL);
    specs[0].subject = "s";
    check_rc(t, tend_add(t, specs, added), TEND_EINTERNAL);
    /* Together with others, too, and none of them is run again. */
    int64_t events = sql_int("SELECT count(*) FROM event");
    for (int i = 0; i < 6; i++)
        check_int(pthread_create(&threads[i], NULL, add_to_nowhere, t), ==, 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    check_int(sql_int("SELECT count(*) FROM event") - events, <=, 6 * 20);
    sql_exec("DROP TRIGGER swallow ON job");
    check_int(add_one(t, "q"), >, 0);
}
