/*
 * Recovery: what the clock brings back (RC-1, RC-2, RC-4, RC-5, RC-9, RC-10, RC-15), that it counts
 * right (RC-3), tells of it (RC-7), caps crashes (RC-12) and is the same for two at once (RC-6, in
 * test_threads.c as well).
 */
#include "support/store.h"

#include <stdio.h>
#include <string.h>

static struct tend_lease claim_for_a_second(tend *t, const char *owner)
{
    struct tend_claim claim = claim_for("q");
    claim.owner = owner;
    claim.ttl_ms = 1000;
    return claim_with(t, &claim);
}

/* RC-5 */
TEST(recover, a_reclaimed_job_is_pending_again_with_all_it_had_and_nothing_of_the_lease)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = 0;
    spec.payload = "{\"keep\":[1,  2]}";
    spec.priority = 2;
    spec.workspace = "/w";
    spec.unique_key = "key";
    spec.subject = "s";
    spec.concurrency_key = "c";
    spec.tags = "[\"a\"]";
    spec.kind = "merge";
    int64_t id = add_spec(t, &spec);
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    struct tend_lease lease = claim_for_a_second(t, "gone");
    const struct tend_job *before = job_of(t, id);
    clock_advance(1000);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_PENDING);
    check_str(job->owner, NULL);
    check_int(job->until_ms, ==, TEND_UNSET);
    check_int(job->worker_id, ==, TEND_UNSET);
    check_int(job->started_at_ms, ==, TEND_UNSET);
    check_int(job->changed_at_ms, ==, clock_now());
    check_int(job->token, >, lease.token);
    check_str(job->payload, spec.payload);
    check_int(job->priority, ==, 2);
    check_str(job->workspace, "/w");
    check_str(job->unique_key, "key");
    check_str(job->subject, "s");
    check_str(job->concurrency_key, "c");
    check_str(job->tags, "[\"a\"]");
    check_str(job->kind, "merge");
    check_int(job->attempts, ==, 1);
    check_int(job->crashes, ==, 1);
    check_int(job->due_at_ms, ==, before->due_at_ms);
    check_int(job->created_at_ms, ==, before->created_at_ms);
    check_str(events_of(t, id), "job.added job.claimed job.retry_scheduled job.due job.claimed "
                                "job.recovered");
}

/* RC-10: expired is now >= until, to the millisecond. */
TEST(recover, a_lease_ends_at_its_time_and_not_before)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    claim_for_a_second(t, "w");
    clock_advance(999);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    clock_advance(1);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* RC-10 */
TEST(recover, a_job_that_heartbeats_is_never_reclaimed_however_long_it_runs)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_for_a_second(t, "w");
    for (int i = 0; i < 200; i++) {
        clock_advance(999);
        check_ok(t, tend_heartbeat(t, &lease, 1, 1000, NULL));
        check_int(recover_now(t).entries_reclaimed, ==, 0);
        check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    }
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

/* The lock "door", held by "gone". */
static void let_a_lock_expire(tend *t)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "door";
    request.owner = "gone";
    request.ttl_ms = 10;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    clock_advance(10);
}

/* RC-1 */
TEST(recover, a_claim_recovers_by_itself)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    int64_t id = add_one(t, "q");
    claim_for_a_second(t, "w");
    clock_advance(1000);
    check_int(claim_one(other, "q").id, ==, id);
    check_str(last_event_of(t, id)->what, "job.claimed");
    check_str(events_of(t, id), "job.added job.claimed job.recovered job.claimed");
}

/* RC-1: also when there is other work to be had in the queue. */
TEST(recover, a_claim_that_finds_work_recovers_as_well)
{
    tend *t = store_open("w");
    int64_t stale = add_one(t, "q");
    claim_for_a_second(t, "w");
    clock_advance(1000);
    add_number(t, "q", 200);
    for (int i = 0; i < 200 && state_of(t, stale) == TEND_RUNNING; i++)
        claim_one(t, "q");
    /* A store where looking costs a round trip looks by the second; an empty queue always looks. */
    while (claim_many(t, "q", 50, NULL) > 0)
        continue;
    check_contains(events_of(t, stale), "job.recovered");
}

/* RC-1: and a lock that has expired when nothing else has. */
TEST(recover, a_claim_cleans_expired_locks_on_its_way)
{
    tend *t = store_open("w");
    let_a_lock_expire(t);
    check_int(claim_many(t, "q", 1, NULL), ==, 0);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'lock.recovered'"), ==, 1);
}

/* RC-2 */
TEST(recover, detect_and_recover_tells_what_it_did_and_when)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct tend_recovery recovery;
    add_number(t, "q", 3);
    claim_for_a_second(t, "w");
    claim_for_a_second(t, "w");
    claim_one(t, "q"); /* this one has time */
    tend_lock_request_init(&request);
    request.name = "l";
    request.ttl_ms = 500;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    clock_advance(1000);
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 2);
    check_int(recovery.locks_cleaned, ==, 1);
    check_int(recovery.recovery_timestamp_ms, ==, clock_now());
    /* RC-6: idempotent. */
    const char *before = store_snapshot();
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.locks_cleaned, ==, 0);
    check_str(store_snapshot(), before);
}

static void check_stats_foretell_recovery(tend *t, int64_t entries, int64_t locks)
{
    struct tend_recovery stats = {.locks_cleaned = -1};
    const char *before = store_snapshot();
    check_ok(t, tend_get_recovery_stats(t, &stats));
    check_str(store_snapshot(), before);
    check_int(stats.entries_reclaimed, ==, entries);
    check_int(stats.locks_cleaned, ==, locks);
    check_int(stats.recovery_timestamp_ms, >, 0);
    struct tend_recovery done = recover_now(t);
    check_int(done.entries_reclaimed, ==, entries);
    check_int(done.locks_cleaned, ==, locks);
    check_ok(t, tend_get_recovery_stats(t, &stats));
    check_int(stats.entries_reclaimed, ==, 0);
    check_int(stats.locks_cleaned, ==, 0);
}

/* RC-3 */
TEST(recover, stats_are_what_recovery_then_does_and_change_nothing)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "l";
    request.ttl_ms = 1000;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    request.name = "other";
    request.ttl_ms = 2000;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    add_number(t, "q", 2);
    claim_for_a_second(t, "w");
    clock_advance(1000);
    check_stats_foretell_recovery(t, 1, 1);
}

/* RC-3: the processing lock counts once, whether it goes with its job or by itself. */
TEST(recover, stats_agree_for_a_job_under_the_processing_lock)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    add_one(t, "q");
    claim.ttl_ms = 1000;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
    clock_advance(1000);
    check_stats_foretell_recovery(t, 1, 1);
    check_int(count_events("lock.recovered"), ==, 1);
}

/* RC-3, RC-13: the holder is dead and the time is over: still one. */
static void claim_and_lock(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open("doomed");
    struct tend_lock_request request;
    claim_for_a_second(t, "doomed");
    claim_one(t, "q");
    tend_lock_request_init(&request);
    request.name = "l";
    request.ttl_ms = 1000;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    request.name = "long";
    request.ttl_ms = HOUR_MS;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    helper_say(parent, 0);
    helper_hear(parent);
}

TEST(recover, stats_count_once_what_is_both_expired_and_held_by_the_dead)
{
    tend *t = store_open("w");
    add_number(t, "q", 2);
    struct helper worker = helper_start(claim_and_lock, NULL);
    helper_hear(&worker);
    helper_kill(&worker);
    clock_advance(2000);
    check_stats_foretell_recovery(t, 2, 2);
}

static void add_fragile(tend *t)
{
    struct tend_job_spec spec = spec_for("q");
    spec.max_crashes = 1;
    struct tend_added added;
    check_ok(t, tend_add(t, &spec, &added));
}

/* RC-2, RC-12: the answer did not tell that jobs had failed for good. By time, by hand, and by the
 * death of a worker. */
TEST(recover, those_that_were_quarantined_are_counted)
{
    tend *t = store_open("w");
    struct tend_recovery recovery;
    add_fragile(t);
    add_one(t, "q");
    claim_for_a_second(t, "w");
    claim_for_a_second(t, "w");
    clock_advance(1000);
    check_ok(t, tend_get_recovery_stats(t, &recovery));
    check_int(recovery.entries_quarantined, ==, TEND_UNSET);
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 2);
    check_int(recovery.entries_quarantined, ==, 1);
    check_int(recover_now(t).entries_quarantined, ==, 0);

    add_fragile(t);
    check_int(claim_many(t, "q", 2, NULL), ==, 2);
    check_ok(t, tend_reclaim_stale(t, 0, &recovery));
    check_int(recovery.entries_reclaimed, ==, 2);
    check_int(recovery.entries_quarantined, ==, 1);

    add_fragile(t);
    struct helper worker = helper_start(claim_and_lock, NULL);
    helper_hear(&worker);
    helper_kill(&worker);
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 2);
    check_int(recovery.entries_quarantined, ==, 2); /* it was the third crash of the other one */
}

/* RC-4 */
TEST(recover, reclaim_by_hand_goes_by_the_last_sign_of_life)
{
    tend *t = store_open("w");
    struct tend_recovery recovery;
    add_number(t, "q", 2);
    struct tend_lease silent = claim_as(t, "q", "silent");
    struct tend_lease alive = claim_as(t, "q", "alive");
    clock_advance(20 * SECOND_MS);
    check_ok(t, tend_heartbeat(t, &alive, 1, TEND_UNSET, NULL));
    clock_advance(10 * SECOND_MS);
    check_ok(t, tend_reclaim_stale(t, 30 * SECOND_MS + 1, &recovery));
    check_int(recovery.entries_reclaimed, ==, 0);
    check_ok(t, tend_reclaim_stale(t, 30 * SECOND_MS, &recovery));
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.recovery_timestamp_ms, ==, clock_now());
    check_int(state_of(t, silent.id), ==, TEND_PENDING);
    check_int(state_of(t, alive.id), ==, TEND_RUNNING);
    check_str(last_event_of(t, silent.id)->what, "job.recovered");
}

/* RC-7 */
TEST(recover, each_recovery_leaves_an_event_and_a_log_line)
{
    tend *t = store_open("healer");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_for_a_second(t, "gone");
    clock_advance(1000);
    recover_now(t);
    const struct tend_event *event = last_event_of(t, id);
    check_str(event->what, "job.recovered");
    check_str(event->who, "healer");
    check_str(event->owner, "gone");
    check_int(event->token, >=, lease.token);
    check_int(event->from_state, ==, TEND_RUNNING);
    check_int(event->to_state, ==, TEND_PENDING);
    check_int(event->job_id, ==, id);
    check_contains(event->why, "expired");
    check_contains(event->why, "gone");
    check_contains(store_log(), keep_text("job %lld recovered", (long long)id));
}

/* RC-7: so do locks. */
TEST(recover, a_cleaned_lock_leaves_an_event_and_a_log_line)
{
    tend *t = store_open("healer");
    let_a_lock_expire(t);
    check_int(recover_now(t).locks_cleaned, ==, 1);
    const char *told = sql_rows("SELECT who, owner, why FROM event WHERE what = 'lock.recovered'");
    check_contains(told, "healer|gone|");
    check_contains(told, "door");
    check_contains(store_log(), "lock door");
}

/* RC-9, RC-15: whatever it was doing and whatever it is. */
TEST(recover, every_phase_and_kind_recovers_the_same)
{
    tend *t = store_open("w");
    const char *const phases[] = {NULL, "claimed", "rebasing", "testing", "merging", "step 3"};
    const char *const kinds[] = {"", "merge", "never heard of", "k"};
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.kind = kinds[i % 4];
        int64_t id = add_spec(t, &spec);
        struct tend_lease lease = claim_for_a_second(t, "w");
        if (phases[i] != NULL)
            check_ok(t, tend_phase(t, lease, phases[i]));
        clock_advance(1000);
        check_int(recover_now(t).entries_reclaimed, ==, 1);
        check_int(state_of(t, id), ==, TEND_PENDING);
        check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    }
}

/* RC-12 */
TEST(recover, the_third_crash_quarantines_with_class_poison_and_an_event)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    for (int i = 1; i <= 3; i++) {
        check_int(state_of(t, id), ==, TEND_PENDING);
        claim_for_a_second(t, "victim");
        clock_advance(1000);
        check_int(recover_now(t).entries_reclaimed, ==, 1);
        check_int(job_of(t, id)->crashes, ==, i);
        check_int(job_of(t, id)->attempts, ==, 0);
    }
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_FAILED);
    check_str(job->error_class, "poison");
    check_contains(job->error_text, "3 times");
    check_int(job->finished_at_ms, ==, clock_now());
    const struct tend_event *event = last_event_of(t, id);
    check_str(event->what, "job.quarantined");
    check_str(event->owner, "victim");
    check_contains(store_log(), keep_text("job %lld quarantined", (long long)id));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    /* Redriven, it has its full budgets again. */
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "op", "fixed"));
    check_int(job_of(t, id)->crashes, ==, 0);
    claim_for_a_second(t, "w");
    clock_advance(1000);
    recover_now(t);
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* RC-12: the cap is the job's, or the queue's. */
TEST(recover, the_cap_on_crashes_can_be_set_by_job_and_by_queue)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    set_queue(t, "q", "max-crashes", "1");
    int64_t by_queue = add_one(t, "q");
    claim_for_a_second(t, "w");
    clock_advance(1000);
    recover_now(t);
    check_int(state_of(t, by_queue), ==, TEND_FAILED);
    spec.max_crashes = 2;
    int64_t by_job = add_spec(t, &spec);
    claim_for_a_second(t, "w");
    clock_advance(1000);
    recover_now(t);
    check_int(state_of(t, by_job), ==, TEND_PENDING);
}

/* RC-12: failures and crashes do not add up. */
TEST(recover, crashes_are_counted_apart_from_failures)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = 0;
    int64_t id = add_one(t, "q");
    for (int i = 1; i <= 2; i++) {
        claim_for_a_second(t, "w");
        clock_advance(1000);
        recover_now(t);
        check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
        recover_now(t);
        check_int(job_of(t, id)->attempts, ==, i);
        check_int(job_of(t, id)->crashes, ==, i);
    }
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* RC-8: thousands at once, in several transactions. What that costs is in test_costs.c. */
TEST(recover, many_stale_entries_are_all_recovered_in_one_call)
{
    enum { COUNT = 2500 };
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    add_number(t, "q", COUNT);
    claim.count = COUNT;
    claim.ttl_ms = 1000;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), COUNT);
    tend_jobs_free(jobs);
    clock_advance(1000);
    check_int(recover_now(t).entries_reclaimed, ==, COUNT);
    check_int(count_events("job.recovered"), ==, COUNT);
    check_int(claim_many(t, "q", COUNT, NULL), ==, COUNT);
}

/* More expired locks than one transaction takes used to be left for the next recovery. */
TEST(recover, many_expired_locks_are_all_cleaned_in_one_call)
{
    enum { COUNT = 1200 };
    tend *t = store_open("w");
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.ttl_ms = 1000;
    request.flags = TEND_CLAIM_BY_TIME;
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "lock-%d", i);
        request.name = name;
        check_ok(t, tend_lock_acquire(t, &request, NULL));
    }
    clock_advance(1000);
    check_int(recover_now(t).locks_cleaned, ==, COUNT);
}

/* The clock of the machine jumps; store time must not run backwards, and nothing may be lost. */
TEST(recover, a_clock_that_jumps_ahead_ends_leases_and_nothing_else)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    clock_advance(365 * DAY_MS);
    struct tend_lease next = claim_one(t, "q");
    check_int(next.id, ==, id);
    check_rc(t, tend_complete(t, &lease, 1, NULL, NULL), TEND_ELEASELOST);
    check_ok(t, tend_complete(t, &next, 1, NULL, NULL));
}

TEST(recover, a_fault_in_recovery_on_demand_is_told)
{
    tend *t = store_open("w");
    struct tend_recovery recovery;
    add_one(t, "q");
    claim_for_a_second(t, "w");
    clock_advance(1000);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    const char *before = store_snapshot();
    check_int(tend_detect_and_recover_stale(t, &recovery), <, 0);
    check_contains(tend_errmsg(t), "forbidden by the test");
    check_str(store_snapshot(), before);
}

/* RC-1: whoever waits recovers by a timer; 0 is no timer. */
TEST(recover, a_worker_that_waits_recovers_by_its_timer)
{
    struct tend_options options = store_options("waits");
    struct tend_options without = store_options("waits without");
    options.recovery_ms = 1;
    without.recovery_ms = 0;
    tend *t = store_open_with(&options);
    tend *other = store_open_with(&without);
    int64_t id = add_one(t, "q");
    claim_for_a_second(t, "w");
    clock_advance(1000);
    for (int i = 0; i < 20; i++)
        check_int(tend_wait(other, 1), >=, 0);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    wait_until(tend_wait(t, 1) >= 0 && state_of(t, id) == TEND_PENDING, PATIENCE_MS);
}
