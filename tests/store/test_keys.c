/*
 * BY-4: limits per key in long queues. What a claim passes over costs it nothing, hides nothing,
 * and changes nothing about the order of the rest.
 */
#include "support/store.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MANY = 6000 };

static struct tend_job_spec keyed(const char *key)
{
    struct tend_job_spec spec = spec_for("q");
    spec.concurrency_key = key;
    return spec;
}

static int64_t add_keyed(tend *t, const char *key)
{
    struct tend_job_spec spec = keyed(key);
    return add_spec(t, &spec);
}

static void add_many_keyed(tend *t, const char *key, size_t count)
{
    struct tend_job_spec *specs = calloc(count, sizeof *specs);
    struct tend_added *added = calloc(count, sizeof *added);
    for (size_t i = 0; i < count; i++)
        specs[i] = keyed(key);
    check_ok(t, tend_add_many(t, specs, count, added));
    free(specs);
    free(added);
}

/* Key "full" is at its limit of one, and has many jobs in front. */
static struct tend_lease fill_a_key(tend *t, size_t count)
{
    set_queue(t, "q", "key-concurrency", "1");
    add_keyed(t, "full");
    struct tend_lease lease = claim_one(t, "q");
    add_many_keyed(t, "full", count);
    clock_advance(MINUTE_MS / 2); /* the lease lasts a minute */
    return lease;
}

TEST(keys, what_is_behind_a_long_line_of_a_full_key_is_found_in_its_order)
{
    tend *t = store_open("w");
    fill_a_key(t, MANY);
    int64_t first = add_keyed(t, "b");
    int64_t plain = add_one(t, "q");
    int64_t same = add_keyed(t, "b");
    int64_t last = add_keyed(t, "a");
    (void)same;
    check_int(claim_one(t, "q").id, ==, first);
    check_int(claim_one(t, "q").id, ==, plain);
    check_int(claim_one(t, "q").id, ==, last);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}

/* Each claim by a process of its own, as a script makes them. */
TEST(keys, a_handle_that_remembers_nothing_finds_it_too)
{
    tend *t = store_open("w");
    fill_a_key(t, MANY);
    int64_t plain = add_one(t, "q");
    int64_t other = add_keyed(t, "b");
    check_int(claim_one(store_open("v"), "q").id, ==, plain);
    check_int(claim_one(store_open("u"), "q").id, ==, other);
    check_int(claim_none(store_open("s"), "q").code, ==, TEND_ELIMITED);
}

TEST(keys, a_key_that_is_free_again_goes_on_with_its_first_job)
{
    tend *t = store_open("w");
    struct tend_lease lease = fill_a_key(t, MANY);
    add_one(t, "q");
    claim_one(t, "q");
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    struct tend_lease next = claim_one(t, "q");
    check_int(next.id, ==,
              sql_int("SELECT min(id) FROM job WHERE concurrency_key = 'full' AND "
                      "state <> 4"));
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    check_ok(t, tend_release(t, &next, 1, 0, NULL, NULL));
    check_int(claim_one(t, "q").id, ==, next.id);
}

TEST(keys, a_job_without_a_key_that_comes_back_is_next)
{
    tend *t = store_open("w");
    fill_a_key(t, MANY / 2);
    int64_t id = add_one(t, "q");
    add_many_keyed(t, "full", MANY / 2);
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.id, ==, id);
    clock_advance(10 * SECOND_MS);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    int64_t later = add_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_int(claim_one(t, "q").id, ==, id);
    check_int(claim_one(t, "q").id, ==, later);
}

/* Kinds and keys together. */
TEST(keys, kinds_that_are_passed_over_hide_no_key)
{
    static const char *const full[] = {"full"};
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    fill_a_key(t, MANY);
    struct tend_job_spec spec = keyed("b");
    spec.kind = "full";
    add_spec(t, &spec);
    int64_t id = add_keyed(t, "b");
    claim.not_kinds = full;
    claim.not_kind_count = 1;
    check_int(claim_with(t, &claim).id, ==, id);
}

/* More keys than one claim looks at, all behind the line of a full one. */
TEST(keys, very_many_keys_are_all_served)
{
    enum { KEYS = 1300 };
    tend *t = store_open("w");
    size_t claimed = 0;
    fill_a_key(t, MANY);
    for (int i = 0; i < KEYS; i++)
        add_keyed(t, keep_text("key-%d", i));
    clock_advance(10 * SECOND_MS);
    for (size_t got; (got = claim_many(t, "q", 100, NULL)) > 0;)
        claimed += got;
    check_int(claimed, ==, KEYS);
}

/* fresh: each claim finds a job that has just been added; otherwise none. */
static long long best_of_claims_us(tend *t, bool fresh)
{
    long long best_us = 1000000000;
    for (int i = 0; i < 30; i++) {
        int64_t added = fresh ? add_one(t, "q") : 0;
        long long begun_us = clock_mono_ns() / 1000;
        if (fresh)
            check_int(claim_one(t, "q").id, ==, added);
        else
            check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
        if (clock_mono_ns() / 1000 - begun_us < best_us)
            best_us = clock_mono_ns() / 1000 - begun_us;
    }
    return best_us;
}

static void check_cost_of_claims(bool fresh)
{
    tend *t = store_open("w");
    fill_a_key(t, 1000);
    long long short_us = best_of_claims_us(t, fresh);
    for (int i = 0; i < 5; i++)
        add_many_keyed(t, "full", 2 * MANY);
    clock_advance(10 * SECOND_MS);
    long long long_us = best_of_claims_us(t, fresh);
    printf("# 1,000 pending: %lld us, 61,000 pending: %lld us\n", short_us, long_us);
    check_int(long_us, <, 4 * short_us);
}

/* Symptom: with 300,000 pending each claim read them all under the write lock, for 0.3 s. */
TEST(keys, a_claim_costs_what_it_finds_however_long_the_line_of_a_full_key_is)
{
    check_cost_of_claims(false);
}

/* Symptom: as long as all that was found was younger than two seconds, nothing was remembered, and
 * each claim went through the index of the whole line. */
TEST(keys, so_does_a_claim_of_a_job_that_has_just_been_added)
{
    check_cost_of_claims(true);
}

/* A handle's transactions ask its clock. */
static atomic_long transactions;

static int64_t counting_clock(void *arg)
{
    atomic_fetch_add(&transactions, 1);
    return clock_read(arg);
}

static long transactions_of_new_handle(void)
{
    struct tend_options options = store_options("new");
    options.clock_ms = counting_clock;
    tend *t = store_open_with(&options);
    long before = atomic_load(&transactions);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    long count = atomic_load(&transactions) - before;
    store_close(t);
    return count;
}

/*
 * Symptom: the first claim of a handle read the rows of the whole line, 2,000 in a transaction, for
 * 2 s with 300,000 pending; and each 'tend claim' is a new handle.
 */
TEST(keys, the_first_claim_of_a_handle_does_not_read_the_line_of_a_full_key)
{
    fill_a_key(store_open("w"), 1000);
    long few = transactions_of_new_handle();
    add_many_keyed(store_open("v"), "full", 2 * MANY);
    clock_advance(10 * SECOND_MS);
    long many = transactions_of_new_handle();
    printf("# 1,000 pending: %ld transactions, 13,000 pending: %ld\n", few, many);
    check_int(many, ==, few);
}

/* Jobs without a key are looked for in each priority. */
TEST(keys, order_holds_over_priorities_behind_lines_of_a_full_key)
{
    enum { LINE = 300 };
    tend *t = store_open("w");
    struct tend_job_spec spec = keyed("full");
    int64_t expected[6];
    size_t count = 0;
    fill_a_key(t, LINE);
    for (int priority = 3; priority <= 7; priority += 2) {
        spec = keyed("full");
        spec.priority = priority;
        for (int i = 0; i < LINE; i++)
            add_spec(t, &spec);
        spec.concurrency_key = NULL;
        expected[count++] = add_spec(t, &spec);
        spec.concurrency_key = keep_text("key-%d", priority);
        expected[count++] = add_spec(t, &spec);
    }
    clock_advance(10 * SECOND_MS);
    for (size_t i = 0; i < count; i++) /* one by a new handle, one by one that remembers */
        check_int(claim_one(i % 2 == 0 ? store_open("v") : t, "q").id, ==, expected[i]);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    check_int(claim_none(store_open("v"), "q").code, ==, TEND_ELIMITED);
}

/* More of one key than a claim finds by the key. */
TEST(keys, a_new_handle_gets_all_it_wants_of_a_key_with_a_high_limit)
{
    enum { LINE = 300, LIMIT = 20 };
    tend *t = store_open("w");
    set_queue(t, "q", "key-concurrency", "20");
    add_many_keyed(t, "full", LINE + LIMIT);
    check_int(claim_many(t, "q", LIMIT, NULL), ==, LIMIT);
    add_many_keyed(t, "b", LINE);
    clock_advance(10 * SECOND_MS);
    check_int(claim_many(store_open("v"), "q", LIMIT, NULL), ==, LIMIT);
}

/* --- waiting --- */

struct waiter {
    tend *t;
    pthread_t thread;
    int rc;
};

static void *wait_for_job(void *arg)
{
    struct waiter *waiter = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.wait_ms = PATIENCE_MS;
    waiter->rc = tend_claim_jobs(waiter->t, &claim, &jobs, NULL);
    if (waiter->rc > 0)
        tend_jobs_free(jobs);
    return NULL;
}

/*
 * Symptom: six who waited for a queue whose key was full made an add to another queue take seconds:
 * each ring had each of them claim in vain, under the write lock. They look first, without it, and
 * still miss nothing.
 */
TEST(keys, who_waits_for_a_full_key_gets_the_next_job_and_only_that)
{
    enum { WAITERS = 3, ADDS = 50 };
    struct waiter waiters[WAITERS];
    tend *t = store_open_real("w");
    set_queue(t, "q", "key-concurrency", "1");
    add_keyed(t, "full");
    struct tend_lease lease = claim_one(t, "q");
    add_many_keyed(t, "full", MANY);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.t = store_open_real(keep_text("waiter-%d", i))};
        check_int(pthread_create(&waiters[i].thread, NULL, wait_for_job, &waiters[i]), ==, 0);
    }
    wait_until(sql_int("SELECT count(*) FROM worker") == WAITERS + 1, PATIENCE_MS);
    add_number(t, "p", ADDS);
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'q' AND state = 2"), ==, 1);
    /* One of them gets each job that the key lets go on. */
    for (int i = 0; i < WAITERS; i++) {
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
        wait_until(sql_int("SELECT count(*) FROM job WHERE queue = 'q' AND state = 2") == 1,
                   PATIENCE_MS);
        lease.id = sql_int("SELECT id FROM job WHERE queue = 'q' AND state = 2");
        lease.token = sql_int("SELECT token FROM job WHERE queue = 'q' AND state = 2");
    }
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        check_rc(waiters[i].t, waiters[i].rc, 1);
    }
}
