/*
 * Limits of a queue (BY-4): concurrency over all workers, concurrency per key, rate; the answers
 * that name the limit and when to ask again (CL-2); and that none of them burns an attempt (LS-4).
 */
#include "support/store.h"

#include <string.h>

static int64_t add_keyed(tend *t, const char *key)
{
    struct tend_job_spec spec = spec_for("q");
    spec.concurrency_key = key;
    return add_spec(t, &spec);
}

/* CL-2, BY-4 */
TEST(limits, concurrency_counts_over_all_workers_and_says_until_when)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    struct tend_claim claim = claim_for("q");
    struct tend_lease leases[5];
    set_queue(t, "q", "concurrency", "3");
    add_number(t, "q", 5);
    claim.ttl_ms = 5000;
    struct tend_lease first = claim_with(t, &claim);
    check_int(claim_many(other, "q", 5, leases), ==, 2);
    struct tend_none none = claim_none(t, "q");
    check_int(none.code, ==, TEND_ELIMITED);
    check_str(none.what, "concurrency");
    check_int(none.until_ms, ==, clock_now() + 5000); /* the first lease to end */
    check_contains(tend_errmsg(t), "concurrency");
    check_ok(t, tend_complete(t, &first, 1, NULL, NULL));
    claim_one(other, "q");
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}

TEST(limits, a_lease_that_ends_in_any_way_makes_room)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    set_queue(t, "q", "concurrency", "1");
    add_number(t, "q", 6);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, HOUR_MS, NULL, NULL));
    lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    lease = claim_one(t, "q");
    check_ok(t, tend_act(t, TEND_CANCEL, lease.id, NULL, NULL));
    lease = claim_one(t, "q");
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, NULL, NULL));
    claim_one(t, "q");
    clock_advance(HOUR_MS - 1);
    claim_one(t, "q"); /* recovered on the way */
}

TEST(limits, an_empty_queue_is_empty_and_not_limited)
{
    tend *t = store_open("w");
    set_queue(t, "q", "concurrency", "1");
    set_queue(t, "q", "rate", "1/60s");
    add_one(t, "q");
    claim_one(t, "q");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
}

TEST(limits, a_limit_that_is_lifted_is_lifted_for_all_handles)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    set_queue(t, "q", "concurrency", "1");
    add_number(t, "q", 3);
    claim_one(t, "q");
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    set_queue(other, "q", "concurrency", "none");
    check_int(claim_many(t, "q", 3, NULL), ==, 2);
}

/* BY-4: per key. */
TEST(limits, jobs_of_one_key_are_limited_and_others_pass_them)
{
    tend *t = store_open("w");
    set_queue(t, "q", "key-concurrency", "1");
    int64_t a1 = add_keyed(t, "a");
    int64_t a2 = add_keyed(t, "a");
    int64_t b1 = add_keyed(t, "b");
    int64_t free1 = add_one(t, "q");
    int64_t free2 = add_one(t, "q");
    struct tend_lease leases[10];
    check_int(claim_many(t, "q", 10, leases), ==, 4);
    check_int(leases[0].id, ==, a1);
    check_int(leases[1].id, ==, b1);
    check_int(leases[2].id, ==, free1);
    check_int(leases[3].id, ==, free2);
    struct tend_none none = claim_none(t, "q");
    check_int(none.code, ==, TEND_ELIMITED);
    check_str(none.what, "key-concurrency");
    check_int(none.until_ms, ==, clock_now() + MINUTE_MS);
    check_ok(t, tend_complete(t, &leases[0], 1, NULL, NULL));
    check_int(claim_one(t, "q").id, ==, a2);
}

TEST(limits, a_key_limit_of_several_lets_as_many_run)
{
    tend *t = store_open("w");
    set_queue(t, "q", "key-concurrency", "3");
    for (int i = 0; i < 5; i++)
        add_keyed(t, "a");
    check_int(claim_many(t, "q", 2, NULL), ==, 2);
    check_int(claim_many(t, "q", 5, NULL), ==, 1);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}

/* More keys in one claim than fit into a small table used to be passed over for ever. */
TEST(limits, a_claim_may_take_jobs_of_very_many_keys)
{
    enum { KEYS = 300 };
    tend *t = store_open("w");
    set_queue(t, "q", "key-concurrency", "1");
    for (int i = 0; i < KEYS; i++)
        add_keyed(t, keep_text("key-%d", i));
    for (int i = 0; i < KEYS; i++)
        add_keyed(t, keep_text("key-%d", i));
    check_int(claim_many(t, "q", 2 * KEYS, NULL), ==, KEYS);
    check_int(sql_int("SELECT count(*) FROM (SELECT concurrency_key FROM job WHERE state = 2 "
                      "GROUP BY concurrency_key HAVING count(*) > 1) AS x"),
              ==, 0);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}

/* Blocked ones in front, more than any page or table holds: what is behind them must still be
 * found. */
TEST(limits, many_blocked_keys_in_front_do_not_hide_what_can_run)
{
    enum { KEYS = 150, PER_KEY = 4 };
    tend *t = store_open("w");
    set_queue(t, "q", "key-concurrency", "1");
    for (int i = 0; i < KEYS; i++)
        add_keyed(t, keep_text("key-%d", i));
    check_int(claim_many(t, "q", KEYS, NULL), ==, KEYS);
    for (int i = 0; i < KEYS * PER_KEY; i++)
        add_keyed(t, keep_text("key-%d", i % KEYS));
    int64_t last = add_keyed(t, "another");
    int64_t plain = add_one(t, "q");
    check_int(claim_one(t, "q").id, ==, last);
    check_int(claim_one(t, "q").id, ==, plain);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}

TEST(limits, key_and_queue_concurrency_hold_together)
{
    tend *t = store_open("w");
    set_queue(t, "q", "key-concurrency", "1");
    set_queue(t, "q", "concurrency", "2");
    add_keyed(t, "a");
    add_keyed(t, "a");
    add_keyed(t, "b");
    add_keyed(t, "c");
    check_int(claim_many(t, "q", 10, NULL), ==, 2);
    struct tend_none none = claim_none(t, "q");
    check_str(none.what, "concurrency");
}

/* CL-2, BY-4: the time of the next token to the millisecond. */
TEST(limits, a_rate_hands_out_so_many_and_says_exactly_when_the_next_is_due)
{
    tend *t = store_open("w");
    set_queue(t, "q", "rate", "3/60s");
    add_number(t, "q", 6);
    check_int(claim_many(t, "q", 10, NULL), ==, 3);
    struct tend_none none = claim_none(t, "q");
    check_int(none.code, ==, TEND_ELIMITED);
    check_str(none.what, "rate");
    check_int(none.until_ms, ==, clock_now() + 20 * SECOND_MS);
    clock_set(none.until_ms - 1);
    check_int(claim_none(t, "q").until_ms, ==, clock_now() + 1);
    clock_advance(1);
    check_int(claim_many(t, "q", 10, NULL), ==, 1);
    check_int(claim_none(t, "q").until_ms, ==, clock_now() + 20 * SECOND_MS);
}

TEST(limits, a_rate_holds_over_all_handles_and_time)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    size_t taken = 0;
    set_queue(t, "q", "rate", "10/1s");
    add_number(t, "q", 200);
    for (int ms = 0; ms <= 5000; ms += 50) {
        taken += claim_many(ms % 100 == 0 ? t : other, "q", 100, NULL);
        clock_advance(50);
    }
    check_int(taken, ==, 10 + 50); /* a full bucket, and ten for each second */
}

/* LS-4: what was claimed in excess goes back free of charge until the next token is due. */
TEST(limits, LS_4_a_batch_over_the_rate_is_given_back_with_the_time_of_the_next_token)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_lease leases[4];
    add_number(t, "q", 5);
    claim.count = 4;
    claim.flags = TEND_CLAIM_UNSTARTED;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 4);
    for (size_t i = 0; i < 4; i++)
        leases[i] = lease_of(&jobs->items[i]);
    tend_jobs_free(jobs);
    check_ok(t, tend_start(t, leases, 1, NULL));
    set_queue(t, "q", "rate", "1/60s");
    claim_one(t, "q"); /* the only token */
    int64_t next_ms = clock_now() + MINUTE_MS;
    check_ok(t, tend_release(t, &leases[1], 3, next_ms - clock_now(), "rate limit", NULL));
    for (size_t i = 1; i < 4; i++) {
        const struct tend_job *job = job_of(t, leases[i].id);
        check_int(job->state, ==, TEND_SCHEDULED);
        check_int(job->due_at_ms, ==, next_ms);
        check_int(job->attempts, ==, 0);
    }
    /* The one that runs goes on, and its heartbeat too. */
    check_ok(t, tend_heartbeat(t, leases, 1, TEND_UNSET, NULL));
    check_ok(t, tend_complete(t, leases, 1, NULL, NULL));
}

TEST(limits, a_rate_that_is_changed_keeps_what_was_used)
{
    tend *t = store_open("w");
    set_queue(t, "q", "rate", "5/60s");
    add_number(t, "q", 20);
    check_int(claim_many(t, "q", 5, NULL), ==, 5);
    set_queue(t, "q", "rate", "10/60s");
    check_int(claim_none(t, "q").until_ms, ==, clock_now() + 6 * SECOND_MS);
    set_queue(t, "q", "rate", "none");
    check_int(claim_many(t, "q", 10, NULL), ==, 10);
    set_queue(t, "q", "rate", "2/60s");
    check_int(claim_many(t, "q", 10, NULL), ==, 2);
}

/* Symptom: 50/1s handed out 100 within a second: a full bucket, and its refill. */
TEST(limits, a_strict_rate_hands_out_no_more_in_any_window)
{
    tend *t = store_open("w");
    size_t second = 0;
    set_queue(t, "q", "rate", "50/1s");
    set_queue(t, "q", "rate-strict", "on");
    add_number(t, "q", 300);
    check_int(claim_many(t, "q", 40, NULL), ==, 40);
    for (int i = 0; i < 9; i++) {
        clock_advance(100);
        second += claim_many(t, "q", 100, NULL);
    }
    check_int(second, ==, 10);
    struct tend_none none = claim_none(t, "q");
    check_str(none.what, "rate");
    struct tend_explanation why;
    check_ok(t, tend_explain(t, sql_int("SELECT min(id) FROM job WHERE state = 1"), &why));
    check_str(why.reason, "rate");
    check_int(why.until_ms, ==, none.until_ms);
    clock_set(none.until_ms);
    check_int(claim_many(t, "q", 100, NULL), ==, 40);
    set_queue(t, "q", "rate-strict", "off");
    set_queue(t, "q", "rate-strict", "on");
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}

TEST(limits, settings_that_do_not_touch_the_rate_leave_its_tokens_alone)
{
    tend *t = store_open("w");
    set_queue(t, "q", "rate", "2/60s");
    add_number(t, "q", 5);
    check_int(claim_many(t, "q", 5, NULL), ==, 2);
    set_queue(t, "q", "lease", "30s");
    check_int(claim_none(t, "q").until_ms, ==, clock_now() + 30 * SECOND_MS);
}

/* A serial queue with a rate: neither limit hides the other, and a refused claim locks nothing. */
TEST(limits, a_serial_queue_over_its_rate_is_limited_and_left_unlocked)
{
    tend *t = store_open("w");
    set_queue(t, "q", "serial", "on");
    set_queue(t, "q", "rate", "1/60s");
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    check_int(tend_lock_get(t, "queue:q", NULL), ==, 0);
}

TEST(limits, a_limited_queue_does_not_slow_another)
{
    tend *t = store_open("w");
    set_queue(t, "q", "concurrency", "1");
    add_number(t, "q", 2);
    claim_one(t, "q");
    add_one(t, "p");
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
    claim_one(t, "p");
}

TEST(limits, priority_decides_also_among_keys)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    set_queue(t, "q", "key-concurrency", "1");
    add_keyed(t, "a");
    spec.priority = 0;
    spec.concurrency_key = "a";
    int64_t urgent = add_spec(t, &spec);
    check_int(claim_one(t, "q").id, ==, urgent);
    check_int(claim_none(t, "q").code, ==, TEND_ELIMITED);
}
