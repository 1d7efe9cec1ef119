/*
 * BY-4: limits per key in long queues. What a claim passes over costs it nothing, hides nothing,
 * and changes nothing about the order of the rest.
 */
#include "support/store.h"

#include "base/clock.h"

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

static long long best_of_claims_us(tend *t)
{
    long long best_us = 1000000000;
    for (int i = 0; i < 30; i++) {
        long long begun_us = clock_mono_ns() / 1000;
        check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
        if (clock_mono_ns() / 1000 - begun_us < best_us)
            best_us = clock_mono_ns() / 1000 - begun_us;
    }
    return best_us;
}

/* Symptom: with 300,000 pending each claim read them all under the write lock, for 0.3 s. */
TEST(keys, a_claim_costs_what_it_finds_however_long_the_line_of_a_full_key_is)
{
    tend *t = store_open("w");
    fill_a_key(t, 1000);
    long long short_us = best_of_claims_us(t);
    for (int i = 0; i < 5; i++)
        add_many_keyed(t, "full", 2 * MANY);
    clock_advance(10 * SECOND_MS);
    long long long_us = best_of_claims_us(t);
    printf("# 1,000 pending: %lld us, 61,000 pending: %lld us\n", short_us, long_us);
    check_int(long_us, <, 8 * short_us);
}
