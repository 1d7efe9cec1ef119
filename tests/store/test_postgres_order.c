/*
 * Rows are locked in one order by all (store/pg_order.c): whatever order callers have them in, the
 * server never has to end one of two transactions that wait for each other, and nobody is told that
 * others were in the way. Each test has a database of its own, whose count of deadlocks is its own.
 *
 * Before, statements over many rows locked them in the order of the caller, and single completions
 * that were put together in the order of their coming: 14 deadlocks, each of which holds up to 33
 * callers for a second, where there are none now.
 */
#include "support/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEASES = 240, THREADS = 8, PROCESSES = 4, KEYS = 40, BEATS = 25, ROUNDS = 8 };

/* --- a database and its deadlocks --- */

static struct {
    char server[512]; /* the URL outside */
    pid_t owner;
} own;

static void tell_server(const char *sql)
{
    PGconn *pg = PQconnectdb(own.server);
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
    PQfinish(pg);
}

static void drop_database(void)
{
    char sql[100];
    snprintf(sql, sizeof sql, "DROP DATABASE order_%d WITH (FORCE)", (int)own.owner);
    if (getpid() == own.owner)
        tell_server(sql);
}

/* From here on the store is in a database of its own, whose server looks for deadlocks soon. */
static void own_database(void)
{
    own.owner = getpid();
    snprintf(own.server, sizeof own.server, "%s", getenv("TEND_TEST_PG_URL"));
    const char *rest = strstr(own.server, "/postgres?");
    check(rest != NULL);
    atexit(drop_database); /* after the store has been closed: what is given last is done first */
    const char *name = keep_text("order_%d", (int)getpid());
    tell_server(keep_text("CREATE DATABASE %s", name));
    tell_server(keep_text("ALTER DATABASE %s SET deadlock_timeout = '20ms'", name));
    setenv("TEND_TEST_PG_URL",
           keep_text("%.*s/%s%s", (int)(rest - own.server), own.server, name,
                     rest + strlen("/postgres")),
           1);
}

static int64_t deadlocks(void)
{
    return sql_int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
}

/* Sessions tell what they have counted when they end. */
static void no_deadlock(void)
{
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                       "AND pid <> pg_backend_pid() AND backend_type = 'client backend'") == 0,
               PATIENCE_MS);
    check_int(deadlocks(), ==, 0);
}

static tend *open_real(int connections)
{
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    options.connections = connections;
    return store_open_with(&options);
}

/* A test that cannot fail is worse than none: a deadlock is seen when there is one. */
TEST_WITHIN(postgres_order, a_deadlock_would_be_seen, 300)
{
    PGconn *sessions[2];
    own_database();
    store_open("w");
    for (int i = 0; i < 2; i++) {
        sessions[i] = PQconnectdb(getenv("TEND_TEST_PG_URL"));
        PQclear(PQexec(sessions[i], "BEGIN"));
        PQclear(PQexec(sessions[i], keep_text("SELECT pg_advisory_xact_lock(%d)", i)));
    }
    check_int(PQsendQuery(sessions[0], "SELECT pg_advisory_xact_lock(1)"), ==, 1);
    PQclear(PQexec(sessions[1], "SELECT pg_advisory_xact_lock(0)"));
    for (int i = 0; i < 2; i++)
        PQfinish(sessions[i]);
    wait_until(deadlocks() == 1, PATIENCE_MS);
}

/* --- threads of one handle --- */

struct crew {
    tend *t;
    struct tend_lease leases[LEASES];
    int done;    /* leases completed; threads take the next */
    int running; /* threads that complete */
};

static void *complete_one_by_one(void *arg)
{
    struct crew *crew = arg;
    const char *result = "{\"said\":\"something\"}";
    int i;
    while ((i = __atomic_fetch_add(&crew->done, 1, __ATOMIC_SEQ_CST)) < LEASES) {
        /* The last are completed first, so that what is put together is not in order. */
        const struct tend_lease *lease = &crew->leases[LEASES - 1 - (i ^ 3)];
        check_ok(crew->t, tend_start(crew->t, lease, 1, NULL));
        check_ok(crew->t, tend_complete(crew->t, lease, 1, &result, NULL));
    }
    __atomic_sub_fetch(&crew->running, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void beat_all(struct crew *crew, size_t from)
{
    struct tend_lease turned[LEASES];
    for (size_t i = 0; i < LEASES; i++)
        turned[i] = crew->leases[LEASES - 1 - (from + i) % LEASES];
    int rc = tend_heartbeat(crew->t, turned, LEASES, MINUTE_MS, NULL);
    if (rc != 0)
        check_rc(crew->t, rc, TEND_ELEASELOST); /* some have been completed */
}

TEST_WITHIN(postgres_order, CL_5_threads_that_complete_beside_one_that_heartbeats_all, 120)
{
    static struct crew crew;
    pthread_t threads[THREADS];
    own_database();
    crew.t = open_real(8);
    add_number(crew.t, "q", LEASES);
    check_int(claim_many(crew.t, "q", LEASES, crew.leases), ==, LEASES);
    crew.running = THREADS;
    for (int i = 0; i < THREADS; i++)
        check_int(pthread_create(&threads[i], NULL, complete_one_by_one, &crew), ==, 0);
    for (size_t i = 0; __atomic_load_n(&crew.running, __ATOMIC_SEQ_CST) > 0; i++)
        beat_all(&crew, i * 7);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4 AND result IS NOT NULL"), ==,
              LEASES);
    store_close(crew.t);
    no_deadlock();
}

/* --- processes --- */

struct plan {
    void (*work)(tend *t, const struct plan *plan);
    int number;
    struct tend_lease leases[KEYS];
};

static void work_and_end(struct helper *parent, void *arg)
{
    const struct plan *plan = arg;
    tend *t = open_real(2);
    helper_say(parent, 1);
    helper_hear(parent); /* all at once */
    plan->work(t, plan);
    store_close(t);
}

static void run_processes(struct plan *plan)
{
    struct helper helpers[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        plan->number = i;
        helpers[i] = helper_start(work_and_end, plan);
        helper_hear(&helpers[i]);
    }
    for (int i = 0; i < PROCESSES; i++)
        helper_say(&helpers[i], 1);
    for (int i = 0; i < PROCESSES; i++)
        helper_join(&helpers[i]);
}

/* Every second one has them the other way round. */
static size_t turn(const struct plan *plan, size_t i, int round)
{
    size_t at = (i + (size_t)round) % KEYS;
    return plan->number % 2 == 0 ? at : KEYS - 1 - at;
}

static void heartbeat_in_its_order(tend *t, const struct plan *plan)
{
    for (int round = 0; round < BEATS; round++) {
        struct tend_lease leases[KEYS];
        for (size_t i = 0; i < KEYS; i++)
            leases[i] = plan->leases[turn(plan, i, round)];
        check_ok(t, tend_heartbeat(t, leases, KEYS, MINUTE_MS, NULL));
    }
}

TEST_WITHIN(postgres_order, CL_5_processes_that_heartbeat_the_same_leases_in_opposite_orders, 120)
{
    struct plan plan = {.work = heartbeat_in_its_order};
    own_database();
    tend *t = open_real(2);
    add_number(t, "q", KEYS);
    check_int(claim_many(t, "q", KEYS, plan.leases), ==, KEYS);
    run_processes(&plan);
    check_ok(t, tend_complete(t, plan.leases, KEYS, NULL, NULL));
    store_close(t);
    no_deadlock();
}

static void add_keys_in_its_order(tend *t, const struct plan *plan)
{
    struct tend_filter filter;
    tend_filter_init(&filter);
    for (int round = 0; round < ROUNDS; round++) {
        struct tend_job_spec specs[KEYS];
        struct tend_added added[KEYS];
        for (size_t i = 0; i < KEYS; i++) {
            specs[i] = spec_for("q");
            specs[i].unique_key = keep_text("key-%zu", turn(plan, i, round));
        }
        check_ok(t, tend_add_many(t, specs, KEYS, added));
        for (size_t i = 0; i < KEYS; i++)
            check_int(added[i].outcome, >=, 0);
        if (plan->number == round % PROCESSES)
            check_ok(t, tend_act_on_all(t, TEND_CANCEL, &filter, "ann", "enough", NULL));
    }
}

TEST_WITHIN(postgres_order, CL_5_processes_that_add_the_same_keys_in_opposite_orders_and_cancel,
            120)
{
    struct plan plan = {.work = add_keys_in_its_order};
    own_database();
    tend *t = open_real(2);
    run_processes(&plan);
    check_int(sql_int("SELECT count(DISTINCT unique_key) FROM job"), ==, KEYS);
    store_close(t);
    no_deadlock();
}

/* --- a batch beside somebody who brings jobs with the same keys back --- */

static void *add_batch(void *arg)
{
    static const char *const keys[] = {"second", "between", "first"};
    tend *t = arg;
    struct tend_job_spec specs[3];
    struct tend_added added[3];
    for (int i = 0; i < 3; i++) {
        specs[i] = spec_for("q");
        specs[i].unique_key = keys[i];
    }
    check_ok(t, tend_add_many(t, specs, 3, added));
    return NULL;
}

/* The batch gets both keys, after it was planned to bring both back: both are refused. */
static void *bring_back(void *arg)
{
    struct tend_filter filter;
    struct tend_acted *acted = NULL;
    tend_filter_init(&filter);
    filter.states = 1u << TEND_CANCELLED;
    check_ok(arg, tend_act_on_all(arg, TEND_REDRIVE, &filter, "ann", NULL, &acted));
    check_int(acted->count, ==, 0);
    check_int((int64_t)acted->refused_count, ==, 2);
    for (int i = 0; i < 2; i++)
        check_contains(acted->refused[i].text, "has its unique key");
    tend_acted_free(acted);
    return NULL;
}

static int64_t waiting(void)
{
    return sql_int("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                   "datname = current_database()");
}

/* The batch has the second key and is stopped before the first; who brings both back has the first
 * and waits for the second. */
TEST(postgres_order, CL_5_a_batch_beside_one_that_brings_jobs_with_its_keys_back)
{
    pthread_t threads[2];
    own_database();
    tend *t = open_real(2);
    tend *other = open_real(2);
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "first";
    int64_t first = add_spec(t, &spec);
    spec.unique_key = "second";
    int64_t second = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, first, "ann", NULL));
    check_ok(t, tend_act(t, TEND_CANCEL, second, "ann", NULL));
    PGconn *pg = session_open();
    session_run(pg, "BEGIN");
    session_run(pg, "INSERT INTO job (id, event_id, queue, kind, state, priority, due_at, payload, "
                    "unique_key, created_at, changed_at, changed_by, changed_what) VALUES "
                    "(1000, 1000, 'q', '', 1, 5, 0, '{}', 'between', 0, 0, 'x', 'job.added')");
    check_int(pthread_create(&threads[0], NULL, add_batch, other), ==, 0);
    wait_until(waiting() == 1, PATIENCE_MS);
    check_int(pthread_create(&threads[1], NULL, bring_back, t), ==, 0);
    wait_until(waiting() == 2, PATIENCE_MS);
    PQfinish(pg);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, 3);
    check_int(state_of(t, first), ==, TEND_CANCELLED);
    store_close(other);
    store_close(t);
    no_deadlock();
}

/* The even ones work, the odd ones do to all what operators do. */
static void work_or_operate(tend *t, const struct plan *plan)
{
    struct tend_claim claim = claim_for("q");
    struct tend_lease leases[5];
    struct tend_filter filter;
    size_t held = 0;
    claim.count = 5;
    tend_filter_init(&filter);
    for (int round = 0; round < 3 * ROUNDS; round++) {
        if (plan->number % 2 != 0) {
            enum tend_action action = (round + plan->number / 2) % 2 == 0 ? TEND_HOLD : TEND_RESUME;
            check_ok(t, tend_act_on_all(t, action, &filter, "ann", NULL, NULL));
            continue;
        }
        struct tend_jobs *jobs = NULL;
        int rc = tend_complete_and_claim(t, leases, held, NULL, NULL, &claim, &jobs, NULL);
        if (rc < 0 && rc != TEND_ELIMITED)
            check_rc(t, rc, TEND_EEMPTY);
        held = jobs == NULL ? 0 : jobs->count;
        for (size_t i = 0; i < held; i++)
            leases[i] = lease_of(&jobs->items[held - 1 - i]);
        tend_jobs_free(jobs);
    }
}

TEST_WITHIN(postgres_order, CL_5_processes_that_work_beside_those_that_hold_and_resume_all, 120)
{
    struct plan plan = {.work = work_or_operate};
    own_database();
    tend *t = open_real(2);
    set_queue(t, "q", "key-concurrency", "3");
    for (int i = 0; i < 200; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.priority = i % 7; /* not claimed by id */
        spec.concurrency_key = i % 2 == 0 ? keep_text("c-%d", i % 11) : NULL;
        add_spec(t, &spec);
    }
    run_processes(&plan);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 200);
    store_close(t);
    no_deadlock();
}

/* --- a claim beside a schedule that replaces its runs --- */

static void make_due(void)
{
    sql_exec("UPDATE schedule SET next_at = next_at - 3600000");
}

/*
 * Symptom: the claim fired the schedule in its own transaction. It had completed a job, and waited
 * for the run to be replaced, which has a lower id; whoever had that run and wanted the other job
 * waited for the claim. Now it waits for no run.
 */
TEST(postgres_order, CL_5_a_claim_beside_one_that_holds_the_run_a_schedule_replaces)
{
    struct tend_schedule schedule;
    struct tend_claim claim = claim_for("other");
    struct tend_jobs *jobs = NULL;
    own_database();
    tend *t = open_real(2);
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "* * * * *";
    schedule.queue = "s";
    schedule.overlap = "replace";
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    make_due();
    struct tend_lease run = claim_one(t, "s");
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_int(run.id, <, lease.id);
    make_due();
    PGconn *pg = session_open();
    session_run(pg, "BEGIN");
    session_run(pg, keep_text("SELECT 1 FROM job WHERE id = %lld FOR UPDATE", (long long)run.id));
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, &claim, &jobs, NULL),
             TEND_EEMPTY);
    session_run(pg, keep_text("SELECT 1 FROM job WHERE id = %lld FOR UPDATE", (long long)lease.id));
    session_run(pg, "COMMIT");
    PQfinish(pg);
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    check_int(state_of(t, run.id), ==, TEND_RUNNING);
    wait_until((claim_none(t, "other"), state_of(t, run.id) == TEND_CANCELLED), PATIENCE_MS);
    check_int(sql_int("SELECT count(*) FROM job WHERE schedule = 's' AND state = 1"), ==, 1);
    store_close(t);
    no_deadlock();
}

/* --- those who clean up --- */

/* A finished job whose only attempt counts as one that succeeded or failed. */
static int64_t finished_with_attempt(tend *t, const char *queue, bool succeeded)
{
    int64_t id = add_one(t, queue);
    struct tend_lease lease = claim_one(t, queue);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    sql_exec("INSERT INTO attempt (job_id, number, step_index, step_id, attempt, token, host, "
             "boot_id, marker, strategy, state, may_live, started_at, ended_at, failure_class) "
             "VALUES (%lld, 1, 1, 's', 1, 1, 'h', 'b', 'm', 'first', %d, 0, 1, 2, %s)",
             (long long)id, succeeded ? 1 : 2, succeeded ? "NULL" : "'transient_runtime'");
    return id;
}

struct cleaner {
    tend *t;
    struct tend_purged gone;
    pthread_t thread;
};

static void *clean_up(void *arg)
{
    struct cleaner *cleaner = arg;
    check_ok(cleaner->t, tend_purge(cleaner->t, &cleaner->gone));
    return NULL;
}

static void start_cleaner(struct cleaner *cleaner)
{
    *cleaner = (struct cleaner){.t = open_real(1)};
    check_int(pthread_create(&cleaner->thread, NULL, clean_up, cleaner), ==, 0);
}

/* In this database: other tests share the server. */
static int64_t sessions_waiting(void)
{
    return sql_int("SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN pg_stat_activity a "
                   "ON a.pid = l.pid WHERE NOT l.granted AND a.datname = current_database()");
}

/*
 * Symptom: each counted the attempts of one queue after the other, so two who had the same totals
 * in opposite orders waited for each other. Here either takes one job of each queue, and stops
 * before the second total that it writes.
 */
TEST(postgres_order, two_who_clean_up_do_not_wait_for_each_other)
{
    struct cleaner first, second;
    own_database();
    tend *t = open_real(1);
    set_queue(t, "a", "keep-done", "0s");
    set_queue(t, "b", "keep-done", "0s");
    finished_with_attempt(t, "a", true);
    finished_with_attempt(t, "b", false);
    int64_t other_a = finished_with_attempt(t, "a", false);
    int64_t other_b = finished_with_attempt(t, "b", true);
    sql_exec("CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "
             "IF EXISTS (SELECT 1 FROM %s.step_total WHERE xmin = pg_current_xact_id()::xid) THEN "
             "PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN NEW; END';"
             "CREATE TRIGGER stop BEFORE INSERT ON step_total FOR EACH ROW EXECUTE FUNCTION stop()",
             store_schema());
    PGconn *gate = session_open();
    PGconn *holder = session_open();
    session_run(gate, "BEGIN; SELECT pg_advisory_xact_lock(7)");
    session_run(holder, keep_text("BEGIN; SELECT 1 FROM job WHERE id IN (%lld, %lld) FOR UPDATE",
                                  (long long)other_a, (long long)other_b));
    start_cleaner(&first);
    wait_until(sessions_waiting() == 1, PATIENCE_MS);
    PQfinish(holder);
    start_cleaner(&second);
    wait_until(sessions_waiting() == 2, PATIENCE_MS);
    PQfinish(gate);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    check_int(first.gone.jobs, ==, 2);
    check_int(second.gone.jobs, ==, 2);
    check_int(sql_int("SELECT sum(attempts) FROM step_total"), ==, 4);
    check_int(sql_int("SELECT count(*) FROM step_total"), ==, 2);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, 0);
    store_close(first.t);
    store_close(second.t);
    store_close(t);
    no_deadlock();
}
