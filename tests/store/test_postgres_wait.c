/*
 * Waiting and liveness on PostgreSQL: no wake-up is lost, nobody rings for nobody, a session that
 * is lost is taken up again or missed at once.
 */
#include "leap.h"

#include "base/clock.h"
#include "queue/handle.h"
#include "store/db_engine.h"
#include "store/pg_db.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Nothing may depend on the tick behind the bell, which comes after five seconds. */
enum { WELL_BELOW_THE_TICK_MS = 3000, ROUNDS = 1500 };

static tend *open_named(const char *application)
{
    tend *t;
    struct tend_options options = store_options(application);
    options.clock_ms = NULL;
    check_int(
        tend_open(&t, keep_text("%s&application_name=%s", store_url(), application), &options), ==,
        0);
    return t;
}

static int64_t sessions(const char *application)
{
    return sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'",
                   application);
}

static void terminate(const char *application)
{
    int64_t pid =
        sql_int("SELECT pid FROM pg_stat_activity WHERE application_name = '%s'", application);
    sql_rows("SELECT pg_terminate_backend(%lld)", (long long)pid);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE pid = %lld", (long long)pid) ==
                   0,
               PATIENCE_MS);
}

/* --- the bell --- */

static tend *open_url(const char *url)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    check_int(tend_open(&t, url, &options), ==, 0);
    return t;
}

/* A process that claims and waits; says the id of each job it got. arg: the store's URL, or NULL
 * for that of the test. */
static void claim_for_ever(struct helper *parent, void *arg)
{
    tend *t = arg != NULL ? open_url(arg) : store_open_real("waiter");
    struct tend_claim claim = claim_for("q");
    claim.wait_ms = -1;
    for (;;) {
        struct tend_lease lease = claim_with(t, &claim);
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
        helper_say(parent, lease.id);
    }
}

/* The adder comes at every moment of the waiter's going to sleep; a lost wake-up would cost five
 * seconds. */
TEST_WITHIN(postgres_wait, no_wake_up_is_lost_however_the_moments_fall, 180)
{
    tend *t = store_open_real("adder");
    struct helper waiter = helper_start(claim_for_ever, NULL);
    add_one(t, "q");
    helper_hear(&waiter);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin_ns = clock_mono_ns();
        while (clock_mono_ns() - begin_ns < (i * 7919) % 1500 * 1000)
            ;
        long long before_ms = test_clock_ms();
        int64_t id = add_one(t, "q");
        check_int(helper_hear(&waiter), ==, id);
        check_int(test_clock_ms() - before_ms, <, WELL_BELOW_THE_TICK_MS);
    }
    helper_kill(&waiter);
}

/* The channel of NOTIFY had a name that was too long, and waiters slept until their slow tick. */
TEST(postgres_wait, a_store_whose_schema_has_a_long_name_wakes_who_waits)
{
    char schema[64];
    store_open("w");
    snprintf(schema, sizeof schema, "%.60s", keep_text("%s_%063d", store_schema(), 0));
    char *url = (char *)keep_text("%s&tend_schema=%s", getenv("TEND_TEST_PG_URL"), schema);
    tend *t = open_url(url);
    struct helper waiter = helper_start(claim_for_ever, url);
    add_one(t, "q");
    helper_hear(&waiter);
    for (int i = 0; i < 3; i++) {
        long long before_ms = test_clock_ms();
        int64_t id = add_one(t, "q");
        check_int(helper_hear(&waiter), ==, id);
        check_int(test_clock_ms() - before_ms, <, WELL_BELOW_THE_TICK_MS);
    }
    helper_kill(&waiter);
    tend_close(t);
    sql_exec("DROP SCHEMA %s CASCADE", schema);
}

/* The same for news that come by another way than adding: the bell behind the commit. */
TEST_WITHIN(postgres_wait, no_wake_up_by_a_resumed_job_is_lost, 180)
{
    tend *t = store_open_real("operator");
    struct helper waiter = helper_start(claim_for_ever, NULL);
    add_one(t, "q");
    helper_hear(&waiter);
    for (int i = 0; i < ROUNDS / 3; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.delay_ms = HOUR_MS;
        int64_t id = add_spec(t, &spec);
        check_ok(t, tend_act(t, TEND_HOLD, id, "me", "test"));
        int64_t begin_ns = clock_mono_ns();
        while (clock_mono_ns() - begin_ns < (i * 7919) % 1500 * 1000)
            ;
        long long before_ms = test_clock_ms();
        sql_exec("UPDATE job SET due_at = 1 WHERE id = %lld", (long long)id);
        check_ok(t, tend_act(t, TEND_RESUME, id, "me", NULL));
        check_int(helper_hear(&waiter), ==, id);
        check_int(test_clock_ms() - before_ms, <, WELL_BELOW_THE_TICK_MS);
    }
    helper_kill(&waiter);
}

struct listener {
    PGconn *pg;
    int64_t rings;
};

static struct listener listen_for_rings(void)
{
    struct listener listener = {.pg = PQconnectdb(getenv("TEND_TEST_PG_URL"))};
    PQclear(PQexec(listener.pg, keep_text("LISTEN \"tend_%s\"", store_schema())));
    return listener;
}

static int64_t count_rings(struct listener *listener)
{
    PQclear(PQexec(listener->pg, "SELECT 1")); /* whatever was notified before has come now */
    PQconsumeInput(listener->pg);
    for (PGnotify *note; (note = PQnotifies(listener->pg)) != NULL; PQfreemem(note))
        listener->rings += note->extra[0] == '\0';
    return listener->rings;
}

TEST(postgres_wait, nobody_rings_when_nobody_waits)
{
    tend *t = store_open_real("adder");
    struct listener listener = listen_for_rings();
    for (int i = 0; i < 50; i++)
        add_one(t, "q");
    add_number(t, "q", 100);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_int(count_rings(&listener), ==, 0);
    PQfinish(listener.pg);
}

TEST(postgres_wait, a_waiter_that_was_killed_costs_nobody_a_ring)
{
    tend *t = store_open_real("adder");
    struct helper waiter = helper_start(claim_for_ever, NULL);
    add_one(t, "q");
    helper_hear(&waiter);
    wait_until(sql_int("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = "
                       "'ShareLock'") > 0,
               PATIENCE_MS);
    helper_kill(&waiter);
    wait_until(sql_int("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = "
                       "'ShareLock'") == 0,
               PATIENCE_MS);
    struct listener listener = listen_for_rings();
    for (int i = 0; i < 20; i++)
        add_one(t, "q");
    check_int(count_rings(&listener), ==, 0);
    PQfinish(listener.pg);
}

static void *wait_for_ever(void *arg)
{
    tend *t = arg;
    int rc;
    while ((rc = tend_wait(t, -1)) == 1)
        ;
    check_rc(t, rc, TEND_EINTERRUPTED);
    return NULL;
}

/* A snapshot held while waiting would keep every dead row in the database. */
TEST(postgres_wait, who_waits_holds_no_snapshot)
{
    tend *other = open_named("other");
    tend *t = open_named(store_schema());
    pthread_t thread;
    struct tend_claim claim = claim_for("q");
    add_one(other, "q");
    claim_with(other, &claim); /* a worker to look after */
    pthread_create(&thread, NULL, wait_for_ever, t);
    wait_until(sessions(keep_text("%s keeper", store_schema())) == 1, PATIENCE_MS);
    for (int i = 0; i < 200; i++)
        check_int(
            sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%s%%' "
                    "AND state = 'active' AND query_start < now() - interval '1 second'",
                    store_schema()),
            ==, 0);
    tend_interrupt(t);
    pthread_join(thread, NULL);
    tend_close(t);
    tend_close(other);
}

TEST(postgres_wait, a_waiter_whose_session_is_cut_still_hears_the_next_ring)
{
    tend *t = open_named(store_schema());
    const char *keeper = keep_text("%s keeper", store_schema());
    pthread_t thread;
    struct helper waiter = helper_start(claim_for_ever, NULL);
    add_one(t, "q");
    helper_hear(&waiter);
    pthread_create(&thread, NULL, wait_for_ever, t);
    wait_until(sessions(keeper) == 1, PATIENCE_MS);
    for (int i = 0; i < 5; i++) {
        terminate(keeper);
        wait_until(sessions(keeper) == 1, PATIENCE_MS);
        long long before_ms = test_clock_ms();
        add_one(t, "q");
        helper_hear(&waiter);
        check_int(test_clock_ms() - before_ms, <, WELL_BELOW_THE_TICK_MS);
    }
    tend_interrupt(t);
    pthread_join(thread, NULL);
    helper_kill(&waiter);
    tend_close(t);
}

/* --- liveness --- */

static struct db *db_with(const char *application, int64_t busy_ms)
{
    struct db *db;
    struct err err;
    struct db_options options = {.connections = 2, .busy_ms = busy_ms};
    check_int(
        db_open(&db, keep_text("%s&application_name=%s", store_url(), application), &options, &err),
        ==, 0);
    return db;
}

static struct db *db_named(const char *application)
{
    return db_with(application, 10000);
}

static bool is_alive(struct db *db, int64_t worker_id)
{
    struct err err;
    bool alive = false;
    check_int(db_alive_check(db, &worker_id, 1, -1, &alive, &err), ==, 0);
    return alive;
}

/* Only who is registered holds a liveness lock. */
static void enter_worker(int64_t id)
{
    sql_exec(
        "INSERT INTO worker (id, name, host, boot_id, pid, pid_ns, start_ticks, session, since, "
        "registration) VALUES (%lld, 'w', 'h', 'b', 1, 1, 1, 1, 1, %lld)",
        (long long)id, (long long)id);
}

TEST(postgres_wait, a_liveness_lock_is_seen_by_others_and_comes_back_after_a_cut)
{
    struct err err;
    const char *name = store_schema();
    struct db *worker = db_named(name);
    struct db *other = db_named("other");
    enter_worker(41);
    enter_worker(42);
    check(!is_alive(other, 41));
    check_int(db_alive_begin(worker, 41, -1, &err), ==, 0);
    check_int(db_alive_begin(worker, 42, -1, &err), ==, 0);
    check(is_alive(other, 41) && is_alive(other, 42) && !is_alive(other, 43));
    terminate(keep_text("%s keeper", name));
    /* Nobody waits or calls: the keeper does it by itself. */
    wait_until(is_alive(other, 41) && is_alive(other, 42), 2000);
    db_alive_end(worker, 41);
    check(!is_alive(other, 41) && is_alive(other, 42));
    db_close(worker);
    wait_until(!is_alive(other, 42), PATIENCE_MS);
    db_close(other);
}

/* It finds out by itself, and its next death is again noticed at once. */
TEST(postgres_wait, RC_13_a_worker_taken_for_dead_while_it_was_cut_off_registers_anew)
{
    tend *t = open_named(store_schema());
    const char *keeper = keep_text("%s keeper", store_schema());
    add_number(t, "q", 2);
    int64_t first = job_of(t, claim_one(t, "q").id)->worker_id;
    sql_exec("DELETE FROM worker WHERE id = %lld", (long long)first);
    terminate(keeper);
    wait_until(sessions(keeper) == 1 && db_alive_buried(t->db, first), PATIENCE_MS);
    int64_t second = job_of(t, claim_one(t, "q").id)->worker_id;
    check_int(second, >, first);
    check_int(sql_int("SELECT id FROM worker"), ==, second);
    check(is_alive(t->db, second));
    /* LS-6: what it claimed before it found out is given back, too. */
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 2);
    tend_close(t);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1 AND changed_what = 'job.released'"),
              ==, 2);
}

struct denial {
    int64_t worker_id;
    int answer;
    struct db *worker; /* tries to come back meanwhile; may be NULL */
};

static int deny_body(struct db_tx *tx, void *arg)
{
    struct denial *denial = arg;
    struct err err;
    denial->answer = db_alive_deny(tx, denial->worker_id);
    if (denial->worker != NULL)
        check_int(db_alive_begin(denial->worker, denial->worker_id, -1, &err), ==, TEND_EBUSY);
    return 0;
}

static int deny(struct db *db, int64_t worker_id, struct db *worker)
{
    struct arena arena;
    struct err err;
    struct denial denial = {.worker_id = worker_id, .worker = worker};
    arena_init(&arena);
    check_int(db_write(db, &arena, deny_body, &denial, &err), ==, 0);
    arena_done(&arena);
    return denial.answer;
}

/* RC-13: between the look at its lock and the record of its death. */
TEST(postgres_wait, a_worker_that_is_back_is_not_taken_for_dead_nor_comes_one_back_meanwhile)
{
    struct err err;
    struct db *worker = db_with(store_schema(), 1000);
    struct db *other = db_named("other");
    enter_worker(41);
    check_int(deny(other, 41, worker), ==, 1);
    check_int(db_alive_begin(worker, 41, -1, &err), ==, 0);
    check_int(deny(other, 41, NULL), ==, 0);
    db_close(worker);
    db_close(other);
}

static void hold_liveness(struct helper *parent, void *arg)
{
    struct err err;
    struct db *db = db_named("holder");
    check_int(db_alive_begin(db, *(int64_t *)arg, -1, &err), ==, 0);
    helper_say(parent, 1);
    helper_hear(parent);
}

static void lose_both_neighbours(int64_t base)
{
    struct err err;
    int64_t ids[] = {base + 5, base + 9};
    struct helper helpers[2];
    store_close(store_open("maker"));
    enter_worker(base + 7);
    for (int i = 0; i < 2; i++) {
        enter_worker(ids[i]);
        helpers[i] = helper_start(hold_liveness, &ids[i]);
        helper_hear(&helpers[i]);
    }
    struct db *db = db_named("watcher");
    check_int(db_alive_begin(db, base + 7, -1, &err), ==, 0);
    for (int i = 1; i >= 0; i--) { /* first the one above, then, going around, the one below */
        while (db_wait(db, DB_BELLS_ALL, db_bell(db, DB_BELLS_ALL), 800, &err) != DB_TIMEOUT)
            ;
        helper_kill(&helpers[i]);
        long long before_ms = test_clock_ms();
        uint64_t seen = db_bell(db, DB_BELLS_ALL);
        int news;
        while ((news = db_wait(db, DB_BELLS_ALL, seen, 10000, &err)) == DB_RANG)
            seen = db_bell(db, DB_BELLS_ALL);
        check_int(news, ==, DB_DEATH);
        check_int(test_clock_ms() - before_ms, <, 1000);
        check(!is_alive(db, ids[i]));
        while ((news = db_wait(db, DB_BELLS_ALL, seen, 10000, &err)) == DB_RANG)
            seen = db_bell(db, DB_BELLS_ALL);
        check_int(news, ==, DB_DEATH);
        check_int(test_clock_ms() - before_ms, >=, db_alive_grace_ms(db));
        check_int(test_clock_ms() - before_ms, <, db_alive_grace_ms(db) + 1500);
    }
    db_close(db);
}

/* RC-13: the loss of a session is noticed at once, and told again when its grace is over. */
TEST(postgres_wait, RC_13_the_neighbour_of_a_lost_worker_is_told_at_once_and_after_the_grace)
{
    lose_both_neighbours(0);
}

/* The server knows 32 bits of an id. Symptom: a worker with a larger one looked after the lowest of
 * all, and nobody after the one above it. */
TEST(postgres_wait, RC_13_workers_with_large_ids_have_neighbours_too)
{
    lose_both_neighbours(INT64_C(3) << 33);
}

/*
 * Symptom: after a restart of the server a worker was buried whose heartbeats had come through the
 * whole time, because its session was back a little later than the grace allows.
 */
TEST(postgres_wait, RC_13_who_has_given_a_sign_of_life_since_it_was_missed_is_not_buried)
{
    tend *t = store_open("w");
    tend *other = store_open("other");
    struct tend_recovery announced;
    int64_t grace_ms = db_alive_grace_ms(t->db);
    int64_t job = add_one(t, "q");
    struct tend_claim claim = claim_for("q");
    claim.flags = TEND_CLAIM_BY_TIME;
    struct tend_lease lease = claim_with(t, &claim);
    /* A worker of another machine whose session is gone. */
    enter_worker(41);
    sql_exec("UPDATE job SET worker_id = 41 WHERE id = %lld", (long long)job);
    recover_now(other);
    check_int(sql_int("SELECT lost_at FROM worker WHERE id = 41"), ==, clock_now());
    clock_advance(grace_ms - 1);
    check_ok(t, tend_heartbeat(t, &lease, 1, 60000, NULL));
    clock_advance(1);
    /* Symptom: it was announced that its job would be recovered. */
    check_ok(other, tend_get_recovery_stats(other, &announced));
    check_int(announced.entries_reclaimed, ==, 0);
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    check_int(state_of(t, job), ==, TEND_RUNNING);
    /* The grace has begun anew, and this time nothing is heard of it. */
    check_int(sql_int("SELECT lost_at FROM worker WHERE id = 41"), ==, clock_now());
    clock_advance(grace_ms - 1);
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    clock_advance(1);
    check_int(recover_now(other).entries_reclaimed, ==, 1);
    check_int(sql_int("SELECT count(*) FROM worker WHERE id = 41"), ==, 0);
    check_rc(t, tend_heartbeat(t, &lease, 1, 60000, NULL), TEND_ELEASELOST);
}

/* Taking a lock is a sign of life, too. */
TEST(postgres_wait, RC_13_who_has_taken_a_lock_since_it_was_missed_is_not_buried)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct tend_lock lock;
    enter_worker(41);
    recover_now(t);
    clock_advance(1);
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    sql_exec("UPDATE lock SET worker_id = 41 WHERE name = 'deploy'");
    clock_advance(db_alive_grace_ms(t->db));
    check_int(recover_now(t).locks_cleaned, ==, 0);
    clock_advance(db_alive_grace_ms(t->db));
    check_int(recover_now(t).locks_cleaned, ==, 1);
}

/* The sign was the time when it was first taken: who only extended it was buried. */
TEST(postgres_wait, LK_2_who_extends_its_lock_since_it_was_missed_is_not_buried)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct tend_lock lock;
    enter_worker(41);
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    sql_exec("UPDATE lock SET worker_id = 41 WHERE name = 'deploy'");
    recover_now(t);
    for (int i = 0; i < 3; i++) {
        clock_advance(1);
        check_int(tend_lock_extend(t, "deploy", lock.owner, MINUTE_MS), ==, 1);
        clock_advance(db_alive_grace_ms(t->db));
        check_int(recover_now(t).locks_cleaned, ==, 0);
    }
    clock_advance(db_alive_grace_ms(t->db));
    check_int(recover_now(t).locks_cleaned, ==, 1);
}

/* Copies of a virtual machine have one boot id, and do not see each other's processes. */
TEST(postgres_wait, BY_9_where_two_machines_have_one_boot_id_no_missing_process_is_a_death)
{
    tend *t = store_open("w");
    struct proc_id self;
    enter_worker(41);
    check_int(proc_self(&self), ==, 0);
    sql_exec("UPDATE worker SET boot_id = '%s', pid = 999999999, pid_ns = %llu WHERE id = 41",
             self.boot_id, (unsigned long long)self.pid_ns);
    sql_exec("INSERT INTO clock_mark (boot, boottime_ms, store_ms, clock_steps, doubtful) "
             "VALUES ('%s:0', 1, 1, 0, 1)",
             self.boot_id);
    recover_now(t); /* its session is not there: that is noted, and it has the grace */
    check_int(sql_int("SELECT count(*) FROM worker WHERE id = 41"), ==, 1);
    clock_advance(db_alive_grace_ms(t->db));
    recover_now(t);
    check_int(sql_int("SELECT count(*) FROM worker WHERE id = 41"), ==, 0);
}

/* --- behind a pooler --- */

TEST(postgres_wait, behind_a_pooler_everything_but_sessions_works)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    store_close(store_open("maker"));
    const char *url =
        keep_text("%s&tend_pooler=1&application_name=%s", store_url(), store_schema());
    check_int(tend_open(&t, url, &options), ==, 0);
    int64_t id = add_one(t, "q");
    add_number(t, "q", 20);
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.id, ==, id);
    check_ok(t, tend_heartbeat(t, &lease, 1, 60000, NULL));
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    set_queue(t, "q", "concurrency", "1");
    claim_one(t, "q");
    claim_none(t, "q");
    check_str(events_of(t, id), "job.added job.claimed job.completed");
    check_int(tend_wait(t, 0), >=, 0);
    /* No lock to miss: its worker is known by pid and leases alone. */
    check_int(sql_int("SELECT count(*) FROM worker WHERE session = 0"), ==, 1);
    check_int(sessions(keep_text("%s keeper", store_schema())), ==, 0);
    tend_close(t);
}

/* --- a waiter that cannot register yet --- */

static void *wait_for_a_job(void *arg)
{
    struct tend_claim claim = claim_for("q");
    claim.wait_ms = PATIENCE_MS;
    struct tend_lease lease = claim_with(arg, &claim);
    check_ok(arg, tend_complete(arg, &lease, 1, NULL, NULL));
    return NULL;
}

/* Symptom: when the waits for all the slots of the bell took too long together, the server ended
 * the statement, and the session was dropped for it, with the locks that say that its workers live.
 */
TEST(postgres_wait, a_session_that_waits_too_long_for_the_bell_stays)
{
    const char *keeper = "SELECT pid FROM pg_stat_activity WHERE application_name = 'w keeper'";
    tend *t = open_named("w");
    tend *adder = open_named("adder");
    pthread_t thread;
    PGconn *pg = PQconnectdb(getenv("TEND_TEST_PG_URL"));
    PQclear(PQexec(pg, keep_text("SELECT pg_advisory_lock(%d, 0)",
                                 (int)pg_lock_class(&((struct pg_db *)t->db)->url, PG_LOCK_BELL))));
    check_int(pthread_create(&thread, NULL, wait_for_a_job, t), ==, 0);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'w keeper' "
                       "AND wait_event = 'advisory'") == 1,
               PATIENCE_MS);
    int64_t pid = sql_int("%s", keeper);
    /* As the timeout does. */
    sql_rows("SELECT pg_cancel_backend(%lld)", (long long)pid);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'w keeper' "
                       "AND wait_event = 'advisory'") == 0,
               PATIENCE_MS);
    PQfinish(pg);
    add_one(adder, "q");
    pthread_join(thread, NULL);
    check_int(sql_int("%s", keeper), ==, pid);
    store_close(adder);
    store_close(t);
}

/* Adds a job that is due after delay_ms, and waits until whoever waits for news is told of it: in
 * that moment. */
static void check_told_when_due(tend *t, int64_t delay_ms)
{
    struct tend_job_spec spec = spec_for("q");
    int64_t due_ms = clock_now() + delay_ms;
    spec.delay_ms = delay_ms;
    add_spec(t, &spec);
    do /* that it was added is news, too */
        check_int(tend_wait(t, 2 * HOUR_MS), ==, 1);
    while (clock_now() < due_ms);
    check_int(clock_now(), ==, due_ms);
}

/* The clock was ahead for a moment, and nothing that fell due until it had caught up was told. */
TEST(postgres_wait, what_falls_due_is_told_after_the_clock_was_set_back)
{
    struct tend_options options = store_options("w");
    options.recovery_ms = 0;
    tend *t = store_open_with(&options);
    leap_over_waits(t);
    check_told_when_due(t, HOUR_MS);
    clock_advance(-HOUR_MS / 2);
    check_told_when_due(t, 1500);
}
