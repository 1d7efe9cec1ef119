/*
 * BY-4, the bells: every change rings for those who wait for its queue or lock, and for nobody
 * else; who waits for another queue does not even look at the store. Names are made for a certain
 * bell, so that two never share one.
 */
#include "base/clock.h"
#include "queue/bell.h"
#include "queue/wait.h"
#include "support/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MARKER = DB_BELLS - 1 };

/* A name that has bell number `bell`. */
static const char *named(int bell)
{
    for (int i = 0;; i++) {
        char *name = keep_text("n%d.%d", bell, i);
        if (db_bell_of(name) == UINT64_C(1) << bell)
            return name;
    }
}

#define A named(0)
#define B named(1)
#define BELL_A UINT64_C(1)
#define BELL_B UINT64_C(2)

/* --- a handle that hears --- */

/* On PostgreSQL rings reach a handle only while one of its threads waits. */
struct listener {
    struct db *db;
    pthread_t thread;
    atomic_bool over;
};

static void *listen(void *arg)
{
    struct listener *listener = arg;
    struct err err;
    while (!atomic_load(&listener->over))
        db_wait(listener->db, DB_BELLS_ALL, db_bell(listener->db, DB_BELLS_ALL), 100, &err);
    return NULL;
}

static int ring_body(struct db_tx *tx, void *arg)
{
    db_ring(tx, *(uint64_t *)arg);
    const struct db_value key[] = {db_text("ring"), db_now(tx)};
    return db_run(tx, Q_LOCK_GET, DB_LAST, key, NULL);
}

static void ring(tend *t, uint64_t bells)
{
    check_ok(t, handle_write(t, ring_body, &bells));
}

/* What was rung before it through the same handle has been heard when this has. */
static void hear_marker(tend *from, struct db *db)
{
    uint64_t seen = db_bell(db, UINT64_C(1) << MARKER);
    ring(from, UINT64_C(1) << MARKER);
    wait_until(db_bell(db, UINT64_C(1) << MARKER) != seen, PATIENCE_MS);
}

static void listener_go(struct listener *listener, tend *from)
{
    listener->db = store_open("listener")->db;
    check_int(pthread_create(&listener->thread, NULL, listen, listener), ==, 0);
    for (int i = 0; i < 3; i++) /* that rings reach it counts as a ring of all */
        hear_marker(from, listener->db);
}

static void listener_end(struct listener *listener)
{
    atomic_store(&listener->over, true);
    pthread_join(listener->thread, NULL);
}

static void count_each(const struct listener *listener, uint64_t *ret)
{
    for (int i = 0; i < DB_BELLS; i++)
        ret[i] = db_bell(listener->db, UINT64_C(1) << i);
}

static void check_rung(const char *what, const struct listener *listener, tend *from,
                       const uint64_t *before, uint64_t expected)
{
    uint64_t after[DB_BELLS];
    for (int i = 0; i < DB_BELLS; i++)
        if (expected >> i & 1)
            wait_until(db_bell(listener->db, UINT64_C(1) << i) != before[i], PATIENCE_MS);
    hear_marker(from, listener->db);
    count_each(listener, after);
    printf("# %s\n", what);
    for (int i = 0; i < DB_BELLS; i++)
        if (i != MARKER)
            check_int(after[i] != before[i], ==, (expected >> i & 1) != 0);
}

/* The bells that an action through `from` rings. */
#define check_rings(listener, from, action, expected)                                              \
    do {                                                                                           \
        uint64_t before[DB_BELLS];                                                                 \
        count_each(listener, before);                                                              \
        action;                                                                                    \
        check_rung(#action, listener, from, before, expected);                                     \
    } while (0)

/* --- who rings which --- */

TEST(bell, a_ring_is_heard_at_its_bells_only)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    listener_go(&listener, t);
    check_rings(&listener, t, ring(t, BELL_A), BELL_A);
    check_rings(&listener, t, ring(t, BELL_A), BELL_A);
    check_rings(&listener, t, ring(t, BELL_A | BELL_B | UINT64_C(1) << 40),
                BELL_A | BELL_B | UINT64_C(1) << 40);
    check_rings(&listener, t, ring(t, 0), 0);
    check_rings(&listener, t, ring(t, DB_BELLS_ALL), DB_BELLS_ALL);
    listener_end(&listener);
}

static void add_to_both(tend *t)
{
    struct tend_added added[3];
    struct tend_job_spec specs[] = {spec_for(A), spec_for(B), spec_for(A)};
    specs[1].subject = "not basic";
    check_ok(t, tend_add_many(t, specs, 3, added));
}

static void add_later(tend *t)
{
    struct tend_job_spec spec = spec_for(A);
    spec.delay_ms = 100;
    add_spec(t, &spec);
}

TEST(bell, a_job_that_is_added_rings_for_its_queue)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    listener_go(&listener, t);
    check_rings(&listener, t, add_one(t, A), BELL_A);
    check_rings(&listener, t, add_one(t, B), BELL_B);
    check_rings(&listener, t, add_to_both(t), BELL_A | BELL_B);
    check_rings(&listener, t, add_later(t), BELL_A);
    listener_end(&listener);
}

static void complete(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

static void release(tend *t, struct tend_lease lease, int64_t delay_ms)
{
    check_ok(t, tend_release(t, &lease, 1, delay_ms, NULL, NULL));
}

static void fail(tend *t, struct tend_lease lease)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    check_ok(t, tend_fail(t, lease, &failure, NULL));
}

static void complete_and_claim(tend *t, struct tend_lease lease)
{
    struct tend_claim claim = claim_for(B);
    struct tend_jobs *jobs = NULL;
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
}

static void complete_both(tend *t, struct tend_lease one, struct tend_lease other)
{
    const struct tend_lease leases[] = {one, other};
    check_ok(t, tend_complete(t, leases, 2, NULL, NULL));
}

static void finish_steps(tend *t, struct tend_lease lease, int how)
{
    const struct tend_step_close close = {.how = how};
    check_ok(t, tend_step_finish(t, lease, NULL, &close, NULL));
}

TEST(bell, the_end_of_a_lease_rings_for_its_queue)
{
    tend *t = store_open("w");
    tend *stranger = store_open("stranger"); /* who has claimed nothing */
    struct listener listener = {0};
    set_queue(t, A, "concurrency", "50");
    set_queue(t, B, "concurrency", "50");
    add_number(t, A, 20);
    add_number(t, B, 20);
    struct tend_lease leases[12];
    for (int i = 0; i < 12; i++)
        leases[i] = claim_one(t, A);
    struct tend_lease of_b = claim_one(t, B);
    listener_go(&listener, t);
    check_rings(&listener, t, complete(t, leases[0]), BELL_A);
    check_rings(&listener, t, complete(stranger, leases[1]), BELL_A);
    check_rings(&listener, t, release(t, leases[2], 0), BELL_A);
    check_rings(&listener, t, release(stranger, leases[3], 0), BELL_A);
    check_rings(&listener, t, release(t, leases[4], 100), BELL_A);
    check_rings(&listener, t, fail(t, leases[5]), BELL_A);
    check_rings(&listener, t, fail(stranger, leases[6]), BELL_A);
    check_rings(&listener, t, complete_and_claim(t, leases[7]), BELL_A);
    check_rings(&listener, t, complete_both(t, leases[8], of_b), BELL_A | BELL_B);
    check_rings(&listener, t, finish_steps(t, leases[9], TEND_STEPS_COMPLETE), BELL_A);
    check_rings(&listener, t, finish_steps(t, leases[10], TEND_STEPS_RELEASE), BELL_A);
    check_rings(&listener, t, finish_steps(t, leases[11], TEND_STEPS_HOLD), BELL_A);
    listener_end(&listener);
}

/* After one plain claim a handle rang for no completion at all: whoever waited at the limit of
 * another queue slept until the slow tick. */
TEST(bell, a_completion_rings_for_leases_of_others_however_the_handle_has_claimed)
{
    tend *t = store_open("w");
    tend *plain = store_open("plain");
    struct listener listener = {0};
    set_queue(t, A, "concurrency", "50");
    add_number(t, A, 3);
    add_one(t, B);
    struct tend_lease leases[] = {claim_one(t, A), claim_one(t, A), claim_one(t, A)};
    claim_one(plain, B);
    listener_go(&listener, t);
    check_rings(&listener, t, complete(plain, leases[0]), BELL_A);
    check_rings(&listener, t, finish_steps(plain, leases[1], TEND_STEPS_COMPLETE), BELL_A);
    listener_end(&listener);
}

/* Jobs claimed before their queue had a limit: one that the handle knows of ... */
TEST(bell, a_completion_rings_where_the_queue_was_given_a_limit_since)
{
    tend *t = store_open("w");
    tend *admin = store_open("admin");
    struct listener listener = {0};
    add_number(t, A, 3);
    struct tend_lease leases[] = {claim_one(t, A), claim_one(t, A)};
    set_queue(admin, A, "concurrency", "3");
    claim_one(t, A);
    listener_go(&listener, t);
    check_rings(&listener, t, complete(t, leases[0]), BELL_A);
    check_rings(&listener, t, finish_steps(t, leases[1], TEND_STEPS_COMPLETE), BELL_A);
    listener_end(&listener);
}

/* ... and one that it cannot know of, once the lease is a second old. */
TEST(bell, the_completion_of_an_old_lease_rings)
{
    tend *t = store_open("w");
    tend *admin = store_open("admin");
    struct listener listener = {0};
    add_number(t, A, 2);
    struct tend_lease leases[] = {claim_one(t, A), claim_one(t, A)};
    int64_t claimed_ms = clock_mono_ms();
    set_queue(admin, A, "concurrency", "2");
    listener_go(&listener, t);
    wait_until(clock_mono_ms() - claimed_ms > 1000, PATIENCE_MS);
    check_rings(&listener, t, complete(t, leases[0]), BELL_A);
    check_rings(&listener, t, finish_steps(t, leases[1], TEND_STEPS_COMPLETE), BELL_A);
    listener_end(&listener);
}

/* Many short jobs must not wake everybody who waits for more of them. */
TEST(bell, the_completion_of_a_short_job_without_limits_is_quiet)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    int64_t claimed_ms;
    uint64_t before[DB_BELLS];
    add_number(t, A, 20);
    claim_one(t, A);
    listener_go(&listener, t);
    do { /* again where the machine was too slow */
        claimed_ms = clock_mono_ms();
        struct tend_lease lease = claim_one(t, A);
        count_each(&listener, before);
        complete(t, lease);
    } while (clock_mono_ms() - claimed_ms >= 1000);
    check_rung("complete", &listener, t, before, 0);
    listener_end(&listener);
}

static void submit(tend *t, const char *key)
{
    struct tend_job_spec spec = spec_for(A);
    struct tend_added added;
    spec.unique_key = key;
    check_ok(t, tend_add(t, &spec, &added));
}

/* A run for whose end a submission waits brings a job, in a queue without limits too. */
TEST(bell, what_follows_a_run_rings_for_its_queue)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    struct tend_lease leases[3];
    const char *const keys[] = {"k0", "k1", "k2"};
    for (int i = 0; i < 3; i++) {
        submit(t, keys[i]);
        leases[i] = claim_one(t, A);
        submit(t, keys[i]);
    }
    listener_go(&listener, t);
    check_rings(&listener, t, complete(t, leases[0]), BELL_A);
    check_rings(&listener, t, release(t, leases[1], 0), BELL_A);
    check_rings(&listener, t, finish_steps(t, leases[2], TEND_STEPS_COMPLETE), BELL_A);
    listener_end(&listener);
}

static void act(tend *t, enum tend_action action, int64_t id)
{
    check_ok(t, tend_act(t, action, id, "op", NULL));
}

TEST(bell, what_operators_do_rings_for_the_queue)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    struct tend_control_result result;
    int64_t id = add_one(t, A);
    listener_go(&listener, t);
    check_rings(&listener, t, act(t, TEND_HOLD, id), BELL_A);
    check_rings(&listener, t, act(t, TEND_RESUME, id), BELL_A);
    check_rings(&listener, t, act(t, TEND_CANCEL, id), BELL_A);
    check_rings(&listener, t, act(t, TEND_REDRIVE, id), BELL_A);
    check_rings(&listener, t, tend_control(t, id, "pause", NULL, NULL, "op", &result), BELL_A);
    check_rings(&listener, t, tend_control(t, id, "resume", NULL, NULL, "op", &result), BELL_A);
    check_rings(&listener, t, set_queue(t, A, "paused", "on"), BELL_A);
    check_rings(&listener, t, set_queue(t, A, "paused", "off"), BELL_A);
    listener_end(&listener);
}

static void lock(tend *t, const char *name, int64_t ttl_ms)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = name;
    request.ttl_ms = ttl_ms;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
}

static void unlock(tend *t, const char *name)
{
    check_rc(t, tend_lock_release(t, name, NULL), 1);
}

/* The processing lock of a queue may be taken as a named lock by anybody. */
TEST(bell, a_lock_that_is_released_rings_for_its_name_or_its_queue)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    const char *of_queue = keep_text("queue:%s", A);
    lock(t, named(7), HOUR_MS);
    lock(t, of_queue, HOUR_MS);
    listener_go(&listener, t);
    check_rings(&listener, t, unlock(t, named(7)), UINT64_C(1) << 7);
    check_rings(&listener, t, unlock(t, of_queue), BELL_A);
    listener_end(&listener);
}

static void extend(tend *t, const char *name, int64_t extra_ms)
{
    check_rc(t, tend_lock_extend(t, name, NULL, extra_ms), 1);
}

/* Whoever waited for it slept until it would have expired before. */
TEST(bell, a_lock_that_will_expire_earlier_rings_for_its_name)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    uint64_t bell = UINT64_C(1) << 7;
    lock(t, named(7), HOUR_MS);
    listener_go(&listener, t);
    check_rings(&listener, t, extend(t, named(7), HOUR_MS), 0);
    check_rings(&listener, t, extend(t, named(7), MINUTE_MS), bell);
    check_rings(&listener, t, extend(t, named(7), 2 * MINUTE_MS), 0);
    check_rings(&listener, t, lock(t, named(7), 2 * MINUTE_MS), 0);
    check_rings(&listener, t, lock(t, named(7), SECOND_MS), bell);
    listener_end(&listener);
}

static void recover_later(tend *t)
{
    clock_advance(MINUTE_MS);
    recover_now(t);
}

TEST(bell, recovery_rings_for_the_queues_and_locks_it_finds)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    struct tend_claim claim = claim_for(B);
    claim.flags = TEND_CLAIM_BY_TIME;
    claim.ttl_ms = SECOND_MS;
    listener_go(&listener, t);
    add_later(t);
    check_rings(&listener, t, recover_later(t), BELL_A);
    add_one(t, B);
    claim_with(t, &claim);
    check_rings(&listener, t, recover_later(t), BELL_B);
    lock(t, named(7), SECOND_MS);
    check_rings(&listener, t, recover_later(t), UINT64_C(1) << 7);
    listener_end(&listener);
}

TEST(bell, a_worker_that_leaves_rings_for_what_it_had)
{
    tend *t = store_open("w");
    tend *other = store_open("other");
    struct listener listener = {0};
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = named(7);
    add_one(t, A);
    claim_one(other, A);
    check_ok(other, tend_lock_acquire(other, &request, NULL));
    listener_go(&listener, t);
    check_rings(&listener, t, store_close(other), BELL_A | UINT64_C(1) << 7);
    listener_end(&listener);
}

static void put_schedule(tend *t)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@hourly";
    schedule.queue = A;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
}

/* Everybody who waits acts on the clock, and watches the workers. */
TEST(bell, a_schedule_and_a_new_worker_ring_for_all)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    add_one(t, A);
    listener_go(&listener, t);
    check_rings(&listener, t, put_schedule(t), DB_BELLS_ALL);
    check_rings(&listener, t, claim_one(t, A), DB_BELLS_ALL); /* the first registers it */
    listener_end(&listener);
}

/* --- who is woken --- */

struct adder {
    tend *t;
    const char *queue;
    pthread_t thread;
};

static void *add_some(void *arg)
{
    struct adder *adder = arg;
    for (int i = 0; i < 20; i++)
        add_one(adder->t, adder->queue);
    return NULL;
}

/* What several threads write is committed together. */
TEST(bell, of_writes_that_commit_together_all_bells_ring)
{
    tend *t = store_open("w");
    struct listener listener = {0};
    struct adder adders[8];
    uint64_t before[DB_BELLS];
    listener_go(&listener, t);
    count_each(&listener, before);
    for (int i = 0; i < 8; i++) {
        adders[i] = (struct adder){.t = t, .queue = named(2 * i)};
        check_int(pthread_create(&adders[i].thread, NULL, add_some, &adders[i]), ==, 0);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(adders[i].thread, NULL);
    check_rung("8 queues", &listener, t, before, 0x5555);
    listener_end(&listener);
}

struct sleeper {
    struct db *db;
    uint64_t bell, seen;
    pthread_t thread;
    atomic_bool woken;
    int news;
};

static void *sleep_at_bell(void *arg)
{
    struct sleeper *sleeper = arg;
    struct err err;
    /* On PostgreSQL the slow tick counts as a ring. */
    do {
        sleeper->news = db_wait(sleeper->db, sleeper->bell, sleeper->seen, PATIENCE_MS, &err);
    } while (sleeper->news == DB_RANG && db_bell(sleeper->db, sleeper->bell) == sleeper->seen);
    atomic_store(&sleeper->woken, true);
    return NULL;
}

TEST(bell, of_the_threads_of_a_handle_those_wake_whose_bell_rings)
{
    tend *t = store_open("w");
    tend *other = store_open("other");
    struct listener listener = {0};
    struct sleeper sleepers[8] = {0};
    listener_go(&listener, other);
    for (int i = 0; i < 8; i++) {
        sleepers[i].db = listener.db;
        sleepers[i].bell = UINT64_C(1) << i;
        sleepers[i].seen = db_bell(listener.db, sleepers[i].bell);
        check_int(pthread_create(&sleepers[i].thread, NULL, sleep_at_bell, &sleepers[i]), ==, 0);
    }
    for (int i = 7; i >= 0; i--) {
        ring(i % 2 == 0 ? t : other, sleepers[i].bell);
        pthread_join(sleepers[i].thread, NULL);
        check_int(sleepers[i].news, ==, DB_RANG);
        for (int k = 0; k < i; k++)
            check(!atomic_load(&sleepers[k].woken));
    }
    listener_end(&listener);
}

/* A handle's transactions ask its clock. */
static atomic_long looks;

static int64_t counting_clock(void *arg)
{
    atomic_fetch_add(&looks, 1);
    return clock_read(arg);
}

struct claimer {
    tend *t;
    pthread_t thread;
    int rc;
};

static void *wait_for_a(void *arg)
{
    struct claimer *claimer = arg;
    struct tend_claim claim = claim_for(A);
    struct tend_jobs *jobs = NULL;
    claim.wait_ms = PATIENCE_MS;
    claimer->rc = tend_claim_jobs(claimer->t, &claim, &jobs, NULL);
    tend_jobs_free(jobs);
    return NULL;
}

enum { CLAIMERS = 4, ADDED = 60, TICK_MS = 5000, LOOKS_A_TICK = 8 };

static bool all_asleep(tend *from, struct db *db)
{
    long before = atomic_load(&looks);
    for (int i = 0; i < 10; i++)
        hear_marker(from, db);
    return atomic_load(&looks) == before;
}

/*
 * Symptom: each job that was added to one queue made everybody look who waited for another, at all
 * its keys and jobs.
 */
TEST(bell, who_waits_for_a_queue_does_not_look_when_jobs_of_another_are_added)
{
    tend *t = store_open("w");
    struct tend_options options = store_options("claimers");
    options.clock_ms = counting_clock;
    tend *claimers_handle = store_open_with(&options);
    struct db *db = claimers_handle->db;
    struct claimer claimers[CLAIMERS];
    struct tend_job_spec spec = spec_for(A);
    spec.concurrency_key = "full";
    set_queue(t, A, "key-concurrency", "1");
    for (int i = 0; i < 600; i++)
        add_spec(t, &spec);
    claim_one(t, A);
    for (int i = 0; i < CLAIMERS; i++) {
        claimers[i] = (struct claimer){.t = claimers_handle};
        check_int(pthread_create(&claimers[i].thread, NULL, wait_for_a, &claimers[i]), ==, 0);
    }
    wait_until(count_events("worker.joined") == 2, PATIENCE_MS);
    wait_until(all_asleep(t, db), PATIENCE_MS);

    long long began_ms = test_clock_ms();
    long before = atomic_load(&looks);
    for (int i = 0; i < ADDED; i++) {
        uint64_t seen = db_bell(db, BELL_B);
        add_one(t, B);
        wait_until(db_bell(db, BELL_B) != seen, PATIENCE_MS);
    }
    long looked = atomic_load(&looks) - before;
    long ticks = (long)((test_clock_ms() - began_ms) / TICK_MS) + 1;
    printf("# looks: %ld\n", looked);
    check_int(looked, <=, ticks * CLAIMERS * LOOKS_A_TICK);

    spec.concurrency_key = NULL;
    for (int i = 0; i < CLAIMERS; i++)
        add_spec(t, &spec);
    for (int i = 0; i < CLAIMERS; i++) {
        pthread_join(claimers[i].thread, NULL);
        check_rc(claimers_handle, claimers[i].rc, 1);
    }
}

/* What a runner sleeps by. */
TEST(bell, waiting_for_some_bells_ends_by_a_ring_of_one_of_them)
{
    tend *t = store_open("w");
    tend *other = store_open("other");
    struct wait_seen seen = {0};
    check_rc(t, wait_for_bells(t, BELL_A, &seen, 0), 1); /* look first */
    wait_until(wait_for_bells(t, BELL_A, &seen, 0) == 0, PATIENCE_MS);
    hear_marker(other, t->db);
    uint64_t before = db_bell(t->db, BELL_B);
    add_one(other, B);
    wait_until(db_bell(t->db, BELL_B) != before, PATIENCE_MS);
    check_rc(t, wait_for_bells(t, BELL_A, &seen, 0), 0);
    add_one(other, A);
    check_rc(t, wait_for_bells(t, BELL_A, &seen, PATIENCE_MS), 1);
    check_rc(t, wait_for_bells(t, BELL_A, &seen, 0), 0);
}
