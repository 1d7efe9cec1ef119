/*
 * Claiming: order (CL-4), one job per lease (CL-3), what a lease consists of (LS-1), the answers
 * when there is nothing (CL-2), next_with_lock (CL-1), and that a failing recovery does not stop it
 * (CL-6).
 */
#include "support/store.h"

#include <stdlib.h>
#include <string.h>

/* CL-4 */
TEST(claim, priority_comes_first_then_due_time_then_id)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    int64_t now = clock_now();
    spec.priority = 9;
    spec.due_at_ms = now - 1000;
    int64_t last = add_spec(t, &spec);
    spec.priority = 5;
    spec.due_at_ms = now;
    int64_t fourth = add_spec(t, &spec);
    int64_t fifth = add_spec(t, &spec);
    spec.due_at_ms = now - 1;
    int64_t third = add_spec(t, &spec);
    spec.priority = 0;
    spec.due_at_ms = now;
    int64_t first = add_spec(t, &spec);
    int64_t second = add_spec(t, &spec);
    const int64_t order[] = {first, second, third, fourth, fifth, last};
    struct tend_lease leases[6];
    check_int(claim_one(t, "q").id, ==, first);
    check_int(claim_many(t, "q", 10, leases), ==, 5);
    for (size_t i = 0; i < 5; i++)
        check_int(leases[i].id, ==, order[i + 1]);
}

/* CL-4: a job that was scheduled stands in line by when it was due, not by when it was looked at.
 */
TEST(claim, scheduled_jobs_stand_in_line_by_their_due_time)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = 2000;
    int64_t second = add_spec(t, &spec);
    spec.delay_ms = 1000;
    int64_t first = add_spec(t, &spec);
    clock_advance(5000);
    int64_t third = add_one(t, "q");
    recover_now(t);
    check_int(claim_one(t, "q").id, ==, first);
    check_int(claim_one(t, "q").id, ==, second);
    check_int(claim_one(t, "q").id, ==, third);
}

TEST(claim, only_the_queue_that_was_asked_for_is_looked_at)
{
    tend *t = store_open("w");
    add_one(t, "a");
    check_int(claim_none(t, "b").code, ==, TEND_EEMPTY);
    check_int(claim_many(t, "a", 10, NULL), ==, 1);
}

/* CL-3: who asks for one job gets that one or none, and within the limits of its queue. */
TEST(claim, a_job_that_is_asked_for_comes_alone_wherever_it_stands)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none;
    int64_t first = add_one(t, "q");
    int64_t second = add_one(t, "q");
    int64_t elsewhere = add_one(t, "other");
    claim.count = 10;
    claim.job_id = second;
    struct tend_lease lease = claim_with(t, &claim);
    check_int(lease.id, ==, second);
    check_int(tend_claim_jobs(t, &claim, &jobs, &none), ==, TEND_EEMPTY); /* it is leased */
    check_int(state_of(t, first), ==, TEND_PENDING);
    claim.job_id = elsewhere;
    check_int(tend_claim_jobs(t, &claim, &jobs, &none), ==, TEND_EEMPTY);
    claim.job_id = first;
    set_queue(t, "q", "concurrency", "1");
    check_int(tend_claim_jobs(t, &claim, &jobs, &none), ==, TEND_ELIMITED);
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_int(claim_with(t, &claim).id, ==, first);
    claim.job_id = -1;
    check_int(tend_claim_jobs(t, &claim, &jobs, &none), ==, TEND_EINVAL);
}

/* CL-3 */
TEST(claim, a_leased_job_is_not_handed_out_again)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    add_one(t, "q");
    claim_one(t, "q");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(claim_none(other, "q").code, ==, TEND_EEMPTY);
}

/* LS-1 */
TEST(claim, up_to_n_jobs_come_in_one_call_with_owner_and_duration)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    add_number(t, "q", 5);
    claim.count = 3;
    claim.owner = "me";
    claim.ttl_ms = 7000;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct tend_job *job = &jobs->items[i];
        check_str(job->owner, "me");
        check_int(job->until_ms, ==, clock_now() + 7000);
        check_int(job->started_at_ms, ==, clock_now());
        check_int(job->seen_at_ms, ==, clock_now());
        check_int(job->token, ==, sql_int("SELECT token_base FROM store") + 1);
        check_int(job->attempts, ==, 0);
        const struct tend_job *stored = job_of(t, job->id);
        check_str(stored->owner, "me");
        check_int(stored->until_ms, ==, job->until_ms);
        check_int(stored->started_at_ms, ==, job->started_at_ms);
        check_int(stored->token, ==, job->token);
        check_int(stored->version, ==, job->version);
        check_int(stored->worker_id, ==, job->worker_id);
        check_str(stored->changed_what, job->changed_what);
    }
    tend_jobs_free(jobs);
    check_int(claim_many(t, "q", 10, NULL), ==, 2);
}

TEST(claim, the_lease_lasts_as_the_claim_the_job_or_the_queue_says_in_this_order)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_claim claim = claim_for("q");
    int64_t plain = add_one(t, "q");
    claim_one(t, "q");
    check_int(job_of(t, plain)->until_ms, ==, clock_now() + MINUTE_MS);
    set_queue(t, "q", "lease", "90s");
    plain = add_one(t, "q");
    claim_one(t, "q");
    check_int(job_of(t, plain)->until_ms, ==, clock_now() + 90 * SECOND_MS);
    spec.lease_ms = 20 * SECOND_MS;
    int64_t own = add_spec(t, &spec);
    claim_one(t, "q");
    check_int(job_of(t, own)->until_ms, ==, clock_now() + 20 * SECOND_MS);
    own = add_spec(t, &spec);
    claim.ttl_ms = 5 * SECOND_MS;
    claim_with(t, &claim);
    check_int(job_of(t, own)->until_ms, ==, clock_now() + 5 * SECOND_MS);
}

TEST(claim, every_lease_of_a_job_has_a_higher_token)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    int64_t token = 0;
    for (int i = 0; i < 5; i++) {
        struct tend_lease lease = claim_one(t, "q");
        check_int(lease.id, ==, id);
        check_int(lease.token, >, token);
        token = lease.token;
        check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    }
}

/* CL-2 */
TEST(claim, an_empty_queue_answers_empty)
{
    tend *t = store_open("w");
    struct tend_none none = claim_none(t, "nowhere");
    check_int(none.code, ==, TEND_EEMPTY);
    check_int(none.until_ms, ==, TEND_UNSET);
    check_contains(tend_errmsg(t), "nowhere");
}

/* CL-2, BY-4 */
TEST(claim, a_paused_queue_answers_paused_with_the_reason)
{
    tend *t = store_open("w");
    const struct tend_setting settings[] = {{"paused", "on"}, {"why", "migration"}};
    int64_t id = add_one(t, "q");
    check_ok(t, tend_queue_set(t, "q", settings, 2, "operator"));
    struct tend_none none = claim_none(t, "q");
    check_int(none.code, ==, TEND_EPAUSED);
    check_str(none.by, "migration");
    check_contains(tend_errmsg(t), "migration");
    set_queue(t, "q", "paused", "off");
    check_int(claim_one(t, "q").id, ==, id);
}

TEST(claim, a_pause_is_seen_by_a_handle_that_has_claimed_before)
{
    tend *t = store_open("w");
    tend *other = store_open("operator");
    add_number(t, "q", 3);
    claim_one(t, "q");
    claim_one(t, "q");
    set_queue(other, "q", "paused", "on");
    check_int(claim_none(t, "q").code, ==, TEND_EPAUSED);
    set_queue(other, "q", "paused", "off");
    claim_one(t, "q");
}

/* LS-1, LS-3: a pause burns nothing. */
TEST(claim, pausing_leaves_running_jobs_alone)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    set_queue(t, "q", "paused", "on");
    check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

/* CL-1 */
TEST(claim, next_with_lock_gives_the_best_entry_and_the_lock_with_it)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_lock lock;
    add_one(t, "q");
    struct tend_job_spec spec = spec_for("q");
    spec.priority = 0;
    int64_t best = add_spec(t, &spec);
    claim.owner = "merger";
    claim.ttl_ms = 9000;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    check_int(jobs->items[0].id, ==, best);
    tend_jobs_free(jobs);
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 1);
    check_str(lock.owner, "merger");
    check_int(lock.job_id, ==, best);
    check_int(lock.expires_at_ms, ==, clock_now() + 9000);
}

/* CL-1 */
TEST(claim, next_with_lock_leaves_nothing_locked_when_there_is_nothing)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs = NULL;
    struct tend_none none;
    struct tend_lock lock;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, &none), TEND_EEMPTY);
    check_int(none.code, ==, TEND_EEMPTY);
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 0);
    /* A job that is due later is nothing, too. */
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = 1000;
    add_spec(t, &spec);
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, &none), TEND_EEMPTY);
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 0);
    check_int(sql_int("SELECT count(*) FROM lock WHERE owner IS NOT NULL"), ==, 0);
}

/* CL-1, CL-2 */
TEST(claim, next_with_lock_answers_busy_with_who_and_until_when)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs = NULL;
    struct tend_none none;
    add_number(t, "q", 2);
    claim.owner = "first";
    claim.ttl_ms = 8000;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
    jobs = NULL;
    claim.owner = "second";
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, &none), TEND_EBUSY);
    check(jobs == NULL);
    check_int(none.code, ==, TEND_EBUSY);
    check_str(none.by, "first");
    check_int(none.until_ms, ==, clock_now() + 8000);
    check_contains(tend_errmsg(t), "first");
    /* Also for one that calls itself the same: the lock is held with a job. */
    claim.owner = "first";
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, &none), TEND_EBUSY);
}

/* CL-1: a queue that is serial does the same for every claim. */
TEST(claim, a_serial_queue_hands_out_one_at_a_time)
{
    tend *t = store_open("w");
    set_queue(t, "q", "serial", "on");
    add_number(t, "q", 3);
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.count = 10;
    for (int i = 0; i < 3; i++) {
        check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 1);
        struct tend_lease lease = lease_of(&jobs->items[0]);
        tend_jobs_free(jobs);
        check_int(claim_none(t, "q").code, ==, i < 2 ? TEND_EBUSY : TEND_EEMPTY);
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    }
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
}

/* CL-1: recovery first. */
TEST(claim, next_with_lock_first_recovers_a_holder_whose_time_is_over)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    int64_t id = add_one(t, "q");
    claim.owner = "gone";
    claim.ttl_ms = 1000;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    int64_t token = jobs->items[0].token;
    tend_jobs_free(jobs);
    clock_advance(1000);
    claim.owner = "next";
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    check_int(jobs->items[0].id, ==, id);
    check_int(jobs->items[0].token, >, token);
    tend_jobs_free(jobs);
    check_str(events_of(t, id), "job.added job.claimed job.recovered job.claimed");
}

/* CL-6, LS-7 */
TEST(claim, a_failing_recovery_is_logged_and_does_not_stop_the_claim)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    int64_t stale = add_one(t, "q");
    claim.ttl_ms = 1000;
    claim_with(t, &claim);
    int64_t fresh = add_one(t, "q");
    clock_advance(2000);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    check_int(claim_one(t, "q").id, ==, fresh);
    check_int(state_of(t, stale), ==, TEND_RUNNING);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_contains(store_log(), "recovery failed");
    check_contains(store_log(), "forbidden by the test");
    /* Nor a claim under the processing lock, in a queue of its own. */
    struct tend_jobs *jobs;
    claim = claim_for("serial");
    int64_t other = add_one(t, "serial");
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    check_int(jobs->items[0].id, ==, other);
    tend_jobs_free(jobs);
}

/* LS-7, RC-7: once the fault is gone the next claim recovers. */
TEST(claim, recovery_goes_on_when_what_hindered_it_is_gone)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    int64_t stale = add_one(t, "q");
    claim.ttl_ms = 1000;
    claim_with(t, &claim);
    clock_advance(2000);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    sql_exec(store_is_postgres() ? "DROP TRIGGER forbidden ON job" : "DROP TRIGGER forbidden");
    check_int(claim_one(t, "q").id, ==, stale);
}

TEST(claim, complete_and_claim_does_both_or_neither)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none;
    int each = -99;
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    const char *const results[] = {"{\"ok\":true}"};
    check_rc(t, tend_complete_and_claim(t, &lease, 1, results, &each, &claim, &jobs, &none), 1);
    check_int(each, ==, 0);
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    check_str(job_of(t, lease.id)->result, results[0]);
    struct tend_lease second = lease_of(&jobs->items[0]);
    check_int(second.id, !=, lease.id);
    tend_jobs_free(jobs);
    /* Nothing left: completed all the same, and the answer is about the claim. */
    each = -99;
    check_rc(t, tend_complete_and_claim(t, &second, 1, NULL, &each, &claim, &jobs, &none),
             TEND_EEMPTY);
    check_int(none.code, ==, TEND_EEMPTY);
    check_int(each, ==, 0);
    check_int(state_of(t, second.id), ==, TEND_DONE);
}

/* RC-11 */
TEST(claim, complete_and_claim_tells_of_a_lost_lease_and_claims_all_the_same)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    int each[2] = {-99, -99};
    add_number(t, "q", 3);
    struct tend_lease leases[2];
    check_int(claim_many(t, "q", 2, leases), ==, 2);
    check_ok(t, tend_act(t, TEND_CANCEL, leases[0].id, NULL, NULL));
    check_rc(t, tend_complete_and_claim(t, leases, 2, NULL, each, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
    check_int(each[0], ==, TEND_ELEASELOST);
    check_int(each[1], ==, 0);
    check_int(state_of(t, leases[0].id), ==, TEND_CANCELLED);
    check_int(state_of(t, leases[1].id), ==, TEND_DONE);
}

/* CL-6 with a completion on board: it must not be lost with the recovery that failed. */
TEST(claim, complete_and_claim_completes_although_recovery_fails)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    add_number(t, "q", 3);
    struct tend_lease lease = claim_one(t, "q");
    claim.ttl_ms = 1000;
    claim_with(t, &claim);
    clock_advance(2000);
    check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    check_str(events_of(t, lease.id), "job.added job.claimed job.completed");
}

TEST(claim, complete_and_claim_under_a_lock_frees_and_takes_it)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_lock lock;
    set_queue(t, "q", "serial", "on");
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, &claim, &jobs, NULL), 1);
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 1);
    check_int(lock.job_id, ==, jobs->items[0].id);
    tend_jobs_free(jobs);
}

static struct tend_outlook outlook_of(tend *t, const char *queue)
{
    struct tend_outlook outlook;
    check_ok(t, tend_queue_outlook(t, queue, &outlook));
    return outlook;
}

/* Symptom: "nothing to claim: it is empty", of a queue with jobs for tomorrow. */
TEST(claim, CL_2_a_queue_without_pending_jobs_tells_what_it_has)
{
    tend *t = store_open("w");
    struct tend_job_spec later = spec_for("q");
    struct tend_lease leases[2];
    check_int(outlook_of(t, "q").known, ==, 0);
    later.delay_ms = HOUR_MS;
    int64_t now_ms = clock_now();
    add_spec(t, &later);
    later.delay_ms = 2 * HOUR_MS;
    int64_t held = add_spec(t, &later);
    struct tend_outlook outlook = outlook_of(t, "q");
    check_int(outlook.known, ==, 1);
    check_int(outlook.due_ms, ==, now_ms + HOUR_MS);
    check_int(outlook.running, ==, 0);
    check_int(outlook.held, ==, 0);
    check_int(outlook_of(t, "other").known, ==, 0);
    check_ok(t, tend_act(t, TEND_HOLD, held, NULL, NULL));
    add_number(t, "q", 2);
    claim_many(t, "q", 2, leases);
    outlook = outlook_of(t, "q");
    check_int(outlook.running, ==, 2);
    check_int(outlook.held, ==, 1);
    /* One whose jobs have all ended, and one that has only settings. */
    int64_t done = add_one(t, "past");
    check_ok(t, tend_act(t, TEND_CANCEL, done, NULL, NULL));
    outlook = outlook_of(t, "past");
    check_int(outlook.known, ==, 1);
    check_int(outlook.due_ms, ==, TEND_UNSET);
    const struct tend_setting paused = {.name = "paused", .value = "on"};
    check_ok(t, tend_queue_set(t, "set", &paused, 1, NULL));
    check_int(outlook_of(t, "set").known, ==, 1);
    check_int(tend_queue_outlook(t, "", &outlook), ==, TEND_EINVAL);
}

/* A queue was called empty because 10,000 jobs of others were due before its own. */
TEST(claim, the_outlook_of_a_queue_knows_its_next_job_whatever_others_have_scheduled)
{
    enum { OTHERS = 12000 };
    tend *t = store_open("w");
    struct tend_job_spec *specs = calloc(OTHERS, sizeof *specs);
    struct tend_added *added = calloc(OTHERS, sizeof *added);
    for (size_t i = 0; i < OTHERS; i++) {
        specs[i] = spec_for("other");
        specs[i].delay_ms = HOUR_MS;
    }
    check_ok(t, tend_add_many(t, specs, OTHERS, added));
    free(specs);
    free(added);
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = DAY_MS;
    add_spec(t, &spec);
    check_int(outlook_of(t, "q").due_ms, ==, CLOCK_START_MS + DAY_MS);
    check_int(outlook_of(t, "other").due_ms, ==, CLOCK_START_MS + HOUR_MS);
}
