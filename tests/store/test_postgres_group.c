/*
 * Transactions of several threads that are committed together on PostgreSQL (store/pg_group.c), and
 * claims with dead entries in their way (store/pg_claim.c).
 */
#include "queue/handle.h"
#include "store/pg_db.h"
#include "support/store.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 12, EACH = 60 };

struct member {
    tend *t;
    int number;
    int64_t ids[EACH];
    int failures;
    int successes;
    int claims;
    pthread_t thread;
};

static void crowd(tend *t, struct member *members, void *(*body)(void *))
{
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.t = t, .number = i};
        check_int(pthread_create(&members[i].thread, NULL, body, &members[i]), ==, 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
}

static tend *open_with_connections(int connections)
{
    struct tend_options options = store_options("w");
    options.connections = connections;
    options.clock_ms = NULL;
    return store_open_with(&options);
}

static void *add_its_own(void *arg)
{
    struct member *member = arg;
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.kind = keep_text("kind-%d", member->number);
    for (int i = 0; i < EACH; i++) {
        spec.payload = keep_text("{\"n\":%d,\"text\":\"\\\\ \\\"quoted\\\" {},\"}", i);
        spec.delay_ms = i % 7 == 0 ? HOUR_MS : TEND_UNSET;
        check_ok(member->t, tend_add(member->t, &spec, &added));
        member->ids[i] = added.id;
    }
    return NULL;
}

TEST_WITHIN(postgres_group, each_thread_gets_the_ids_of_its_own_jobs, 120)
{
    tend *t = open_with_connections(3);
    static struct member members[THREADS];
    crowd(t, members, add_its_own);
    check_int(sql_int("SELECT count(*) FROM job"), ==, THREADS * EACH);
    for (int i = 0; i < THREADS; i++) {
        const char *kind = keep_text("kind-%d", i);
        for (int k = 0; k < EACH; k++) {
            const struct tend_job *job = job_of(t, members[i].ids[k]);
            check_str(job->kind, kind);
            check_contains(job->payload, keep_text("{\"n\":%d,", k));
            check_int(job->state, ==, k % 7 == 0 ? TEND_SCHEDULED : TEND_PENDING);
        }
    }
    /* Fewer transactions than jobs: some went together. */
    check_int(sql_int("SELECT count(DISTINCT xmin::text) FROM job"), <, THREADS * EACH);
}

static void *claim_and_complete(void *arg)
{
    struct member *member = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.owner = keep_text("owner-%d", member->number);
    int rc;
    while ((rc = tend_claim_jobs(member->t, &claim, &jobs, NULL)) > 0) {
        struct tend_lease lease = lease_of(&jobs->items[0]);
        check_str(jobs->items[0].owner, claim.owner);
        tend_jobs_free(jobs);
        if (tend_complete(member->t, &lease, 1, NULL, NULL) == 0)
            member->successes++;
        else
            member->failures++;
    }
    check_rc(member->t, rc, TEND_EEMPTY);
    return NULL;
}

/* What is refused to one must not fall on those who happened to go along. */
TEST_WITHIN(postgres_group, a_refusal_concerns_only_the_one_who_caused_it, 120)
{
    tend *t = open_with_connections(8);
    struct member members[THREADS];
    int failures = 0;
    int successes = 0;
    add_number(t, "q", 300);
    sql_exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN RAISE EXCEPTION ''not this one''; END';"
             "CREATE TRIGGER refuse BEFORE UPDATE ON job FOR EACH ROW "
             "WHEN (NEW.state = 4 AND NEW.id %% 10 = 0) EXECUTE FUNCTION refuse()");
    crowd(t, members, claim_and_complete);
    for (int i = 0; i < THREADS; i++) {
        failures += members[i].failures;
        successes += members[i].successes;
    }
    check_int(failures, ==, sql_int("SELECT count(*) FROM job WHERE id %% 10 = 0"));
    check_int(failures + successes, ==, 300);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, successes);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.completed'"), ==, successes);
}

static void *complete_and_claim(void *arg)
{
    struct member *member = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_lease lease;
    size_t held = 0;
    for (;;) {
        struct tend_jobs *jobs;
        int each = 0;
        int rc = tend_complete_and_claim(member->t, &lease, held, NULL, &each, &claim, &jobs, NULL);
        member->successes += held > 0 && each == 0;
        if (rc == TEND_EEMPTY)
            return NULL;
        check_rc(member->t, rc, 1);
        lease = lease_of(&jobs->items[0]);
        held = 1;
        tend_jobs_free(jobs);
    }
}

TEST_WITHIN(postgres_group, every_job_is_done_once_by_threads_that_complete_and_claim_together, 120)
{
    tend *t = open_with_connections(8);
    struct member members[THREADS];
    int successes = 0;
    add_number(t, "q", 600);
    crowd(t, members, complete_and_claim);
    for (int i = 0; i < THREADS; i++)
        successes += members[i].successes;
    check_int(successes, ==, 600);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4 AND attempts = 1"), ==, 600);
}

static void *claim_in_numbers_and_complete(void *arg)
{
    struct member *member = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.count = 1 + (size_t)member->number % 3;
    int rc;
    while ((rc = tend_claim_jobs(member->t, &claim, &jobs, NULL)) > 0) {
        struct tend_lease leases[3];
        check_int(jobs->count, <=, claim.count);
        for (size_t i = 0; i < jobs->count; i++) {
            const struct tend_job *job = &jobs->items[i];
            leases[i] = lease_of(job);
            check_str(job->queue, "q");
            check_str(job->owner, "w");
            check_contains(job->payload, keep_text("\"n\":%lld}", (long long)job->due_at_ms));
            check(i == 0 || job->due_at_ms > jobs->items[i - 1].due_at_ms);
        }
        check_ok(member->t, tend_complete(member->t, leases, jobs->count, NULL, NULL));
        member->successes += (int)jobs->count;
        member->claims++;
        tend_jobs_free(jobs);
    }
    check_rc(member->t, rc, TEND_EEMPTY);
    return NULL;
}

/* CL-4: claims of several threads may be one statement; each gets its own jobs, whole and in order.
 */
TEST_WITHIN(postgres_group, claims_that_are_put_together_hand_out_every_job_once, 120)
{
    tend *t = open_with_connections(4);
    static struct member members[THREADS];
    static struct tend_job_spec specs[900];
    static struct tend_added added[900];
    int successes = 0;
    int claims = 0;
    for (int i = 0; i < 900; i++) {
        specs[i] = spec_for("q");
        specs[i].due_at_ms = 1000 + i;
        specs[i].payload = keep_text("{\"n\":%d}", 1000 + i);
    }
    check_ok(t, tend_add_many(t, specs, 900, added));
    crowd(t, members, claim_in_numbers_and_complete);
    for (int i = 0; i < THREADS; i++) {
        successes += members[i].successes;
        claims += members[i].claims;
    }
    check_int(successes, ==, 900);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4 AND attempts = 1"), ==, 900);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.claimed'"), ==, 900);
    /* Fewer transactions than claims: some went together. */
    check_int(sql_int("SELECT count(DISTINCT xmin::text) FROM event WHERE what = 'job.claimed'"), <,
              claims);
}

/* The answer to a completion of many tells which, whatever their order; the rest is lost. */
TEST(postgres_group, of_leases_completed_together_each_is_told_its_own_fate)
{
    tend *t = open_with_connections(1);
    struct tend_lease held[6];
    int each[6];
    add_number(t, "q", 6);
    check_int(claim_many(t, "q", 6, held), ==, 6);
    check_ok(t, tend_release(t, &held[2], 1, 0, "not wanted", NULL));
    check_ok(t, tend_complete(t, &held[4], 1, NULL, NULL)); /* and once more below */
    struct tend_lease leases[] = {held[5], held[2], held[0], held[0], held[4], held[1]};
    check_rc(t, tend_complete(t, leases, 6, NULL, each), TEND_ELEASELOST);
    for (int i = 0; i < 6; i++)
        check_int(each[i], ==, i == 1 ? TEND_ELEASELOST : 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4 AND attempts = 1"), ==, 4);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 1);
}

static void *complete_one(void *arg)
{
    struct member *member = arg;
    struct tend_lease lease = {.id = member->ids[0], .token = member->ids[1]};
    member->successes = tend_complete(member->t, &lease, 1, NULL, NULL) == 0;
    return NULL;
}

/* Threads behind rows that are locked must not hold up those who come later. */
TEST(postgres_group, a_statement_that_waits_for_a_lock_does_not_hold_up_the_others)
{
    tend *t = open_with_connections(8);
    PGconn *pg = PQconnectdb(getenv("TEND_TEST_PG_URL"));
    struct member stuck[4];
    add_number(t, "stuck", 4);
    for (int i = 0; i < 4; i++) {
        struct tend_lease lease = claim_one(t, "stuck");
        stuck[i] = (struct member){.t = t, .ids = {lease.id, lease.token}};
    }
    PQclear(PQexec(pg, keep_text("BEGIN; SELECT * FROM %s.job FOR UPDATE", store_schema())));
    for (int i = 0; i < 4; i++)
        pthread_create(&stuck[i].thread, NULL, complete_one, &stuck[i]);
    wait_until(sql_int("SELECT count(*) FROM pg_locks WHERE NOT granted") >= 2, PATIENCE_MS);
    for (int i = 0; i < 10; i++)
        add_one(t, "q");
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'q'"), ==, 10);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, 0);
    PQclear(PQexec(pg, "COMMIT"));
    for (int i = 0; i < 4; i++) {
        pthread_join(stuck[i].thread, NULL);
        check_int(stuck[i].successes, ==, 1);
    }
    PQfinish(pg);
}

/* --- dead entries --- */

struct held_open {
    PGconn *pg;
};

static struct held_open hold_a_transaction_open(void)
{
    struct held_open held = {PQconnectdb(getenv("TEND_TEST_PG_URL"))};
    PQclear(
        PQexec(held.pg, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"));
    return held;
}

static void drain(tend *t, size_t count)
{
    struct tend_lease leases[100];
    for (size_t done = 0; done < count;) {
        size_t got = claim_many(t, "q", 100, leases);
        check_int(got, >, 0);
        check_ok(t, tend_complete(t, leases, got, NULL, NULL));
        done += got;
    }
}

static int64_t entries_read(void)
{
    sql_rows("SELECT pg_stat_force_next_flush()");
    return sql_int("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = '%s' AND "
                   "indexrelname = 'job_pending'",
                   store_schema());
}

/* Without a position every claim would read all entries before it again: about a million in all. */
TEST_WITHIN(postgres_group,
            a_transaction_held_open_elsewhere_does_not_make_claims_read_everything_again, 120)
{
    tend *t = open_with_connections(1);
    struct held_open held = hold_a_transaction_open();
    for (int i = 0; i < 10; i++)
        add_number(t, "q", 1500);
    drain(t, 15000);
    store_close(t); /* its counts go to the server */
    wait_until(entries_read() > 0, PATIENCE_MS);
    check_int(entries_read(), <, 500000);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, 15000);
    PQfinish(held.pg);
}

/* CL-4 holds again within a moment, and no job is forgotten in front of the position. */
TEST_WITHIN(postgres_group, CL_4_a_more_urgent_job_is_overtaken_for_a_moment_at_most, 120)
{
    tend *t = open_with_connections(1);
    struct held_open held = hold_a_transaction_open();
    struct tend_job_spec urgent = spec_for("q");
    urgent.priority = 0;
    for (int i = 0; i < 3; i++)
        add_number(t, "q", 1500);
    drain(t, 3000);
    int64_t id = add_spec(t, &urgent);
    long long before_ms = test_clock_ms();
    while (claim_one(t, "q").id != id)
        ;
    check_int(test_clock_ms() - before_ms, <, 1000);
    /* The rest comes, whatever came in between. */
    urgent.priority = 3;
    add_spec(t, &urgent);
    struct tend_lease leases[100];
    while (claim_many(t, "q", 100, leases) > 0)
        ;
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, 0);
    PQfinish(held.pg);
}

/* CL-4: in a store where nothing is in the way, the order is strict. */
TEST(postgres_group, CL_4_without_dead_entries_the_next_claim_always_gets_the_most_urgent)
{
    tend *t = open_with_connections(1);
    add_number(t, "q", 400);
    for (int i = 0; i < 100; i++) {
        struct tend_job_spec urgent = spec_for("q");
        claim_one(t, "q");
        urgent.priority = i % 5;
        int64_t id = add_spec(t, &urgent);
        check_int(claim_one(t, "q").id, ==, id);
    }
}

/* --- bells that are rung after the commit --- */

struct stage {
    tend *t, *listener;
    atomic_bool held, go_on, over;
};

static int hold_body(struct db_tx *tx, void *arg)
{
    struct stage *stage = arg;
    const struct db_value key[] = {db_text("l"), db_now(tx)};
    int rc = db_run(tx, Q_LOCK_GET, 0, key, NULL);
    atomic_store(&stage->held, true);
    wait_until(atomic_load(&stage->go_on), PATIENCE_MS);
    return rc;
}

static void *hold_the_connection(void *arg)
{
    struct stage *stage = arg;
    check_ok(stage->t, handle_write(stage->t, hold_body, stage));
    return NULL;
}

static void *hear(void *arg)
{
    struct stage *stage = arg;
    while (!atomic_load(&stage->over))
        check_int(tend_wait(stage->listener, 100), >=, 0);
    return NULL;
}

static void ring_and_be_heard(struct stage *stage, uint64_t bell)
{
    uint64_t before = db_bell(stage->listener->db, bell);
    pg_pool_ring((struct pg_db *)stage->t->db, bell);
    wait_until(db_bell(stage->listener->db, bell) != before, PATIENCE_MS);
}

/* Whoever was committed on the connection of another waited for one of its own to ring, for as long
 * as the others held all of them; then the bell was not rung at all. */
TEST(postgres_group, bells_do_not_wait_for_a_connection_and_are_not_lost)
{
    struct stage stage = {.t = open_with_connections(1), .listener = store_open_real("listener")};
    pthread_t holder;
    pthread_t ear;
    add_one(stage.t, "q");
    check_int(pthread_create(&ear, NULL, hear, &stage), ==, 0);
    for (int i = 0; i < 3; i++) /* that rings reach it counts as a ring of all */
        ring_and_be_heard(&stage, 2);
    check_int(pthread_create(&holder, NULL, hold_the_connection, &stage), ==, 0);
    wait_until(atomic_load(&stage.held), PATIENCE_MS);
    uint64_t before = db_bell(stage.listener->db, 4);
    pg_pool_ring((struct pg_db *)stage.t->db, 4);
    atomic_store(&stage.go_on, true);
    wait_until(db_bell(stage.listener->db, 4) != before, PATIENCE_MS);
    pthread_join(holder, NULL);
    atomic_store(&stage.over, true);
    pthread_join(ear, NULL);
}
