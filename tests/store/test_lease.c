/*
 * What the owner of a lease does with it: start, heartbeat (LS-2, LS-5, LS-8), complete, fail,
 * release (LS-3), phase; who has lost it is told and changes nothing (RC-11); a repeated call is
 * answered as the first.
 */
#include "support/store.h"

#include <string.h>

static struct tend_failure failure_of(const char *class, const char *text)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.error_class = class;
    failure.text = text;
    return failure;
}

/* --- zombies: every call after every way to lose a lease (RC-11) --- */

static int zombie_start(tend *t, struct tend_lease lease)
{
    return tend_start(t, &lease, 1, NULL);
}
static int zombie_heartbeat(tend *t, struct tend_lease lease)
{
    return tend_heartbeat(t, &lease, 1, HOUR_MS, NULL);
}
static int zombie_complete(tend *t, struct tend_lease lease)
{
    const char *const results[] = {"\"zombie\""};
    return tend_complete(t, &lease, 1, results, NULL);
}
static int zombie_release(tend *t, struct tend_lease lease)
{
    return tend_release(t, &lease, 1, 0, "zombie", NULL);
}
static int zombie_release_later(tend *t, struct tend_lease lease)
{
    return tend_release(t, &lease, 1, 1000, "zombie", NULL);
}
static int zombie_fail(tend *t, struct tend_lease lease)
{
    struct tend_failure failure = failure_of("zombie", "zombie");
    return tend_fail(t, lease, &failure, NULL);
}
static int zombie_fail_for_good(tend *t, struct tend_lease lease)
{
    struct tend_failure failure = failure_of("zombie", "zombie");
    failure.final = 1;
    return tend_fail(t, lease, &failure, NULL);
}
static int zombie_phase(tend *t, struct tend_lease lease)
{
    return tend_phase(t, lease, "zombie");
}

static int (*const zombie_calls[])(tend *, struct tend_lease) = {
    zombie_start,         zombie_heartbeat, zombie_complete,      zombie_release,
    zombie_release_later, zombie_fail,      zombie_fail_for_good, zombie_phase,
};
enum { ZOMBIE_CALLS = sizeof zombie_calls / sizeof *zombie_calls };

static void check_zombie_is_told(tend *t, struct tend_lease lost)
{
    const char *before = store_snapshot();
    for (size_t i = 0; i < ZOMBIE_CALLS; i++) {
        check_rc(t, zombie_calls[i](t, lost), TEND_ELEASELOST);
        check_contains(tend_errmsg(t),
                       keep_text("%lld:%lld", (long long)lost.id, (long long)lost.token));
        check_str(store_snapshot(), before);
    }
}

static struct tend_lease lease_for_zombie(tend *t)
{
    struct tend_claim claim = claim_for("q");
    add_one(t, "q");
    claim.owner = "zombie";
    claim.ttl_ms = 1000;
    return claim_with(t, &claim);
}

TEST(lease, RC_11_a_zombie_after_recovery_is_told_and_nothing_it_does_lands)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_for_zombie(t);
    clock_advance(1000);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_zombie_is_told(t, lost);
}

TEST(lease, RC_11_a_zombie_after_a_takeover_is_told_and_by_whom)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_for_zombie(t);
    clock_advance(1000);
    struct tend_lease taken = claim_as(t, "q", "successor");
    check_int(taken.id, ==, lost.id);
    check_zombie_is_told(t, lost);
    check_rc(t, zombie_heartbeat(t, lost), TEND_ELEASELOST);
    check_contains(tend_errmsg(t), "successor");
    check_ok(t, tend_complete(t, &taken, 1, NULL, NULL));
    check_zombie_is_told(t, lost);
}

/* Duplicate owner names: it is the token that counts. */
TEST(lease, RC_11_a_zombie_of_the_same_name_is_told)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_for_zombie(t);
    clock_advance(1000);
    claim_as(t, "q", "zombie");
    check_zombie_is_told(t, lost);
}

TEST(lease, RC_11_a_zombie_after_cancel_is_told)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_for_zombie(t);
    check_ok(t, tend_act(t, TEND_CANCEL, lost.id, "op", "not needed"));
    check_zombie_is_told(t, lost);
}

TEST(lease, RC_11_a_zombie_after_hold_is_told_also_after_resume)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_for_zombie(t);
    check_ok(t, tend_act(t, TEND_HOLD, lost.id, "op", "look at it"));
    check_zombie_is_told(t, lost);
    check_ok(t, tend_act(t, TEND_RESUME, lost.id, "op", NULL));
    check_zombie_is_told(t, lost);
}

TEST(lease, RC_11_a_zombie_after_quarantine_is_told_also_after_redrive)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.max_crashes = 1;
    int64_t id = add_spec(t, &spec);
    struct tend_lease lost = claim_one(t, "q");
    clock_advance(HOUR_MS);
    recover_now(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_zombie_is_told(t, lost);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, NULL, NULL));
    check_zombie_is_told(t, lost);
}

TEST(lease, RC_11_a_zombie_is_told_after_reclaim_by_hand)
{
    tend *t = store_open("w");
    struct tend_recovery recovery;
    struct tend_lease lost = lease_for_zombie(t);
    clock_advance(500);
    check_ok(t, tend_reclaim_stale(t, 500, &recovery));
    check_int(recovery.entries_reclaimed, ==, 1);
    check_zombie_is_told(t, lost);
}

TEST(lease, a_wrong_token_or_a_job_that_is_not_there_is_a_lost_lease)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_for_zombie(t);
    struct tend_lease wrong = {.id = lease.id, .token = lease.token + 1};
    check_zombie_is_told(t, wrong);
    wrong.token = 0;
    check_zombie_is_told(t, wrong);
    wrong = (struct tend_lease){.id = 987654321, .token = 1};
    check_zombie_is_told(t, wrong);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

/* --- heartbeat --- */

/* LS-2 */
TEST(lease, a_heartbeat_extends_all_and_says_which_are_lost)
{
    tend *t = store_open("w");
    struct tend_lease leases[3];
    int each[3] = {-99, -99, -99};
    add_number(t, "q", 3);
    check_int(claim_many(t, "q", 3, leases), ==, 3);
    check_ok(t, tend_act(t, TEND_CANCEL, leases[1].id, NULL, NULL));
    clock_advance(30 * SECOND_MS);
    check_rc(t, tend_heartbeat(t, leases, 3, 45 * SECOND_MS, each), TEND_ELEASELOST);
    check_int(each[0], ==, 0);
    check_int(each[1], ==, TEND_ELEASELOST);
    check_int(each[2], ==, 0);
    check_int(job_of(t, leases[0].id)->until_ms, ==, clock_now() + 45 * SECOND_MS);
    check_int(job_of(t, leases[0].id)->seen_at_ms, ==, clock_now());
    check_int(job_of(t, leases[2].id)->until_ms, ==, clock_now() + 45 * SECOND_MS);
}

/* On PostgreSQL the second of two places was told that the lease was lost. */
TEST(lease, a_lease_that_is_named_twice_has_the_same_answer_twice)
{
    tend *t = store_open("worker");
    int each[3] = {1, 1, 1};
    add_number(t, "q", 2);
    struct tend_lease one = claim_one(t, "q");
    struct tend_lease other = claim_one(t, "q");
    const struct tend_lease leases[] = {one, other, one};
    check_ok(t, tend_start(t, leases, 3, each));
    check_ok(t, tend_heartbeat(t, leases, 3, MINUTE_MS, each));
    for (int i = 0; i < 3; i++)
        check_int(each[i], ==, 0);
    const struct tend_lease stale[] = {one, {one.id, one.token + 1}, one};
    check_rc(t, tend_heartbeat(t, stale, 3, MINUTE_MS, each), TEND_ELEASELOST);
    check_int(each[0], ==, 0);
    check_int(each[1], ==, TEND_ELEASELOST);
    check_int(each[2], ==, 0);
}

TEST(lease, a_heartbeat_without_a_duration_takes_that_of_the_job_or_queue)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    set_queue(t, "q", "lease", "20s");
    add_one(t, "q");
    spec.lease_ms = 3000;
    add_spec(t, &spec);
    add_one(t, "plain");
    struct tend_lease by_queue = claim_one(t, "q");
    struct tend_lease by_job = claim_one(t, "q");
    struct tend_lease plain = claim_one(t, "plain");
    clock_advance(1000);
    const struct tend_lease leases[] = {by_queue, by_job, plain};
    check_ok(t, tend_heartbeat(t, leases, 3, TEND_UNSET, NULL));
    check_int(job_of(t, by_queue.id)->until_ms, ==, clock_now() + 20 * SECOND_MS);
    check_int(job_of(t, by_job.id)->until_ms, ==, clock_now() + 3000);
    check_int(job_of(t, plain.id)->until_ms, ==, clock_now() + MINUTE_MS);
}

/* A lease of ten minutes was cut to the queue's 60 s, and who beat every five minutes lost the job.
 */
TEST(lease, a_heartbeat_without_a_duration_keeps_the_length_the_lease_was_given)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_job_spec spec = spec_for("q");
    spec.lease_ms = 3000;
    add_spec(t, &spec);
    add_one(t, "q");
    claim.ttl_ms = 10 * MINUTE_MS;
    const struct tend_lease leases[] = {claim_with(t, &claim), claim_with(t, &claim)};
    set_queue(t, "q", "lease", "20s");
    for (int i = 0; i < 3; i++) {
        clock_advance(5 * MINUTE_MS);
        check_ok(t, tend_heartbeat(t, leases, 2, TEND_UNSET, NULL));
        check_int(job_of(t, leases[0].id)->until_ms, ==, clock_now() + 10 * MINUTE_MS);
        check_int(job_of(t, leases[1].id)->until_ms, ==, clock_now() + 10 * MINUTE_MS);
    }
    /* One that is given is the length from then on; the next claim has its own. */
    check_ok(t, tend_heartbeat(t, leases, 2, 2 * MINUTE_MS, NULL));
    clock_advance(MINUTE_MS);
    check_ok(t, tend_start(t, leases, 2, NULL));
    check_ok(t, tend_heartbeat(t, leases, 2, TEND_UNSET, NULL));
    check_int(job_of(t, leases[0].id)->until_ms, ==, clock_now() + 2 * MINUTE_MS);
    check_ok(t, tend_release(t, leases, 2, 0, NULL, NULL));
    const struct tend_lease next[] = {claim_one(t, "q"), claim_one(t, "q")};
    clock_advance(1000);
    check_ok(t, tend_heartbeat(t, next, 2, TEND_UNSET, NULL));
    check_int(job_of(t, next[0].id)->until_ms, ==, clock_now() + 3000);
    check_int(job_of(t, next[1].id)->until_ms, ==, clock_now() + 20 * SECOND_MS);
}

/* LS-5: one that comes before recovery makes recovery skip the job, one that comes after fails. */
TEST(lease, a_heartbeat_before_recovery_saves_the_lease_and_one_after_it_does_not)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_for_zombie(t);
    clock_advance(1500);
    check_ok(t, tend_heartbeat(t, &lease, 1, 1000, NULL));
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(state_of(t, lease.id), ==, TEND_RUNNING);
    clock_advance(1000);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_rc(t, tend_heartbeat(t, &lease, 1, 1000, NULL), TEND_ELEASELOST);
}

/* LS-8: leased but not begun, they are kept by the same heartbeat. */
TEST(lease, unstarted_members_of_a_batch_are_heartbeated_too)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_lease leases[4];
    add_number(t, "q", 4);
    claim.count = 4;
    claim.ttl_ms = 1000;
    claim.flags = TEND_CLAIM_UNSTARTED;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 4);
    for (size_t i = 0; i < 4; i++)
        leases[i] = lease_of(&jobs->items[i]);
    tend_jobs_free(jobs);
    check_ok(t, tend_start(t, leases, 1, NULL));
    for (int i = 0; i < 5; i++) {
        clock_advance(900);
        check_ok(t, tend_heartbeat(t, leases, 4, 1000, NULL));
        check_int(recover_now(t).entries_reclaimed, ==, 0);
    }
    for (size_t i = 1; i < 4; i++)
        check_int(job_of(t, leases[i].id)->started_at_ms, ==, TEND_UNSET);
}

/* --- start: LS-1 --- */

TEST(lease, start_marks_the_begin_once)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    add_one(t, "q");
    claim.flags = TEND_CLAIM_UNSTARTED;
    struct tend_lease lease = claim_with(t, &claim);
    check_int(job_of(t, lease.id)->started_at_ms, ==, TEND_UNSET);
    clock_advance(100);
    check_ok(t, tend_start(t, &lease, 1, NULL));
    int64_t started = clock_now();
    clock_advance(100);
    check_ok(t, tend_start(t, &lease, 1, NULL)); /* repeated: as the first */
    check_int(job_of(t, lease.id)->started_at_ms, ==, started);
}

TEST(lease, LS_1_an_unstarted_lease_is_charged_nothing_however_it_ends)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_job_spec spec = spec_for("q");
    spec.max_crashes = 1;
    spec.max_attempts = 1;
    int64_t id = add_spec(t, &spec);
    claim.flags = TEND_CLAIM_UNSTARTED;
    claim.ttl_ms = 1000;
    struct tend_lease lease = claim_with(t, &claim);
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    claim_with(t, &claim);
    clock_advance(2000);
    recover_now(t);
    claim_with(t, &claim);
    struct tend_recovery recovery;
    check_ok(t, tend_reclaim_stale(t, 0, &recovery));
    claim_with(t, &claim);
    store_close(t);
    t = store_open("w");
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->attempts, ==, 0);
    check_int(job->crashes, ==, 0);
}

/* --- complete --- */

TEST(lease, complete_finishes_the_job_with_its_result)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_as(t, "q", "me");
    const char *const results[] = {"[1, 2]"};
    clock_advance(5);
    check_ok(t, tend_complete(t, &lease, 1, results, NULL));
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->state, ==, TEND_DONE);
    check_str(job->result, "[1, 2]");
    check_int(job->attempts, ==, 1);
    check_int(job->finished_at_ms, ==, clock_now());
    check_str(job->owner, NULL);
    check_str(job->changed_by, "me");
    check_str(events_of(t, lease.id), "job.added job.claimed job.completed");
}

TEST(lease, a_repeated_complete_is_answered_as_the_first_and_changes_nothing)
{
    tend *t = store_open("w");
    add_number(t, "q", 2);
    struct tend_lease leases[2];
    int each[2] = {-99, -99};
    claim_many(t, "q", 2, leases);
    check_ok(t, tend_complete(t, leases, 1, NULL, NULL));
    const char *before = store_snapshot();
    check_ok(t, tend_complete(t, leases, 1, NULL, NULL));
    check_str(store_snapshot(), before);
    check_ok(t, tend_complete(t, leases, 2, NULL, each));
    check_int(each[0], ==, 0);
    check_int(each[1], ==, 0);
}

/* It was answered 0, and the result that had been given was dropped. */
TEST(lease, a_second_complete_with_another_result_says_that_the_first_stays)
{
    tend *t = store_open("w");
    add_number(t, "q", 3);
    struct tend_lease leases[3];
    int each[3] = {-99, -99, -99};
    claim_many(t, "q", 3, leases);
    const char *const first[] = {"\"first\"", NULL};
    check_ok(t, tend_complete(t, leases, 2, first, NULL));
    const char *const again[] = {"\"other\"", NULL, "\"third\""};
    check_rc(t, tend_complete(t, leases, 3, again, each), TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "the first result stays");
    check_int(each[0], ==, TEND_ECONFLICT);
    check_int(each[1], ==, 0);
    check_int(each[2], ==, 0);
    check_str(job_of(t, leases[0].id)->result, "\"first\"");
    check_str(job_of(t, leases[2].id)->result, "\"third\"");
    check_ok(t, tend_complete(t, leases, 2, first, NULL));
    const char *const late[] = {NULL, "\"late\""};
    check_rc(t, tend_complete(t, leases, 2, late, each), TEND_ECONFLICT);
    check_int(each[0], ==, 0); /* nothing that was given is dropped */
    check_int(each[1], ==, TEND_ECONFLICT);
}

/* Along with a claim the answer is about the claim; what stands is told per lease. */
TEST(lease, complete_and_claim_tells_of_another_result_per_lease)
{
    tend *t = store_open("w");
    add_number(t, "q", 3);
    struct tend_lease leases[2];
    int each[2] = {-99, -99};
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    const char *const first[] = {"1"};
    const char *const again[] = {"2", "2"};
    claim_many(t, "q", 2, leases);
    check_ok(t, tend_complete(t, leases, 1, first, NULL));
    check_rc(t, tend_complete_and_claim(t, leases, 2, again, each, &claim, &jobs, NULL), 1);
    check_int(each[0], ==, TEND_ECONFLICT);
    check_int(each[1], ==, 0);
    check_str(job_of(t, leases[0].id)->result, "1");
    tend_jobs_free(jobs);
}

TEST(lease, the_others_of_a_batch_are_completed_when_one_is_lost)
{
    tend *t = store_open("w");
    add_number(t, "q", 3);
    struct tend_lease leases[3];
    int each[3];
    claim_many(t, "q", 3, leases);
    check_ok(t, tend_act(t, TEND_HOLD, leases[0].id, NULL, NULL));
    check_rc(t, tend_complete(t, leases, 3, NULL, each), TEND_ELEASELOST);
    check_int(each[0], ==, TEND_ELEASELOST);
    check_int(each[1], ==, 0);
    check_int(state_of(t, leases[0].id), ==, TEND_HELD);
    check_int(state_of(t, leases[1].id), ==, TEND_DONE);
    check_int(state_of(t, leases[2].id), ==, TEND_DONE);
}

/* A batch this large goes to SQLite as one statement. */
TEST(lease, in_a_large_batch_each_lease_has_an_answer_and_an_event_of_its_own)
{
    tend *t = store_open("w");
    add_number(t, "q", 20);
    struct tend_lease leases[21];
    int each[21];
    claim_many(t, "q", 20, leases);
    leases[20] = leases[4];            /* named twice: the second time it has been done already */
    for (size_t i = 0; i < 20; i += 7) /* 0, 7 and 14 */
        check_ok(t, tend_act(t, TEND_CANCEL, leases[i].id, NULL, NULL));
    check_rc(t, tend_complete(t, leases, 21, NULL, each), TEND_ELEASELOST);
    for (size_t i = 0; i < 21; i++) {
        bool lost = i < 20 && i % 7 == 0;
        check_int(each[i], ==, lost ? TEND_ELEASELOST : 0);
        check_int(state_of(t, leases[i].id), ==, lost ? TEND_CANCELLED : TEND_DONE);
        check_str(events_of(t, leases[i].id), lost ? "job.added job.claimed job.cancelled"
                                                   : "job.added job.claimed job.completed");
    }
    check_int(count_events("job.completed"), ==, 17);
}

TEST(lease, no_leases_at_all_is_no_error)
{
    tend *t = store_open("w");
    check_ok(t, tend_start(t, NULL, 0, NULL));
    check_ok(t, tend_heartbeat(t, NULL, 0, TEND_UNSET, NULL));
    check_ok(t, tend_complete(t, NULL, 0, NULL, NULL));
    check_ok(t, tend_release(t, NULL, 0, 0, NULL, NULL));
}

/* --- release: LS-3 --- */

TEST(lease, LS_3_release_gives_back_at_once_and_free_of_charge)
{
    tend *t = store_open("w");
    struct tend_lease leases[3];
    int each[3];
    add_number(t, "q", 3);
    claim_many(t, "q", 3, leases);
    struct tend_lease wrong[3] = {leases[0], {leases[1].id, leases[1].token + 7}, leases[2]};
    check_rc(t, tend_release(t, wrong, 3, 0, "drain", each), TEND_ELEASELOST);
    check_int(each[0], ==, 0);
    check_int(each[1], ==, TEND_ELEASELOST);
    check_int(each[2], ==, 0);
    check_int(state_of(t, leases[1].id), ==, TEND_RUNNING);
    const struct tend_job *job = job_of(t, leases[0].id);
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->attempts, ==, 0);
    check_int(job->crashes, ==, 0);
    check_str(job->owner, NULL);
    check_int(job->started_at_ms, ==, TEND_UNSET);
    check_str(last_event_of(t, job->id)->what, "job.released");
    check_str(last_event_of(t, job->id)->why, "drain");
    check_int(claim_one(t, "q").id, ==, leases[0].id);
}

/* LS-4: with the time the next token is due. */
TEST(lease, LS_4_release_until_later_is_scheduled_for_then)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 2500, "rate limit", NULL));
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->state, ==, TEND_SCHEDULED);
    check_int(job->due_at_ms, ==, clock_now() + 2500);
    check_int(job->attempts, ==, 0);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_advance(2500);
    check_int(claim_one(t, "q").id, ==, lease.id);
}

TEST(lease, a_repeated_release_is_answered_as_the_first)
{
    tend *t = store_open("w");
    add_number(t, "q", 2);
    struct tend_lease now = claim_one(t, "q");
    struct tend_lease later = claim_one(t, "q");
    check_ok(t, tend_release(t, &now, 1, 0, NULL, NULL));
    check_ok(t, tend_release(t, &later, 1, 1000, NULL, NULL));
    const char *before = store_snapshot();
    check_ok(t, tend_release(t, &now, 1, 0, NULL, NULL));
    check_ok(t, tend_release(t, &later, 1, 1000, NULL, NULL));
    check_str(store_snapshot(), before);
    clock_advance(1000);
    recover_now(t); /* due meanwhile */
    check_ok(t, tend_release(t, &later, 1, 1000, NULL, NULL));
    /* Claimed by somebody else meanwhile: then it is lost. */
    claim_many(t, "q", 2, NULL);
    check_rc(t, tend_release(t, &now, 1, 0, NULL, NULL), TEND_ELEASELOST);
}

/* A failure after one's own release was answered 0 with a due time, and nothing was recorded. */
TEST(lease, another_call_than_the_one_that_ended_the_lease_is_told_which_that_was)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of("x", "y");
    int64_t due_ms = 0;
    add_number(t, "q", 3);
    struct tend_lease released = claim_one(t, "q");
    check_ok(t, tend_release(t, &released, 1, 1000, NULL, NULL));
    struct tend_lease failed = claim_one(t, "q");
    failure.retry_in_ms = 1000;
    check_ok(t, tend_fail(t, failed, &failure, NULL));
    struct tend_lease done = claim_one(t, "q");
    check_ok(t, tend_complete(t, &done, 1, NULL, NULL));
    for (int due = 0; due < 2; due++) { /* the second time both have become due meanwhile */
        const char *before = store_snapshot();
        check_rc(t, tend_fail(t, released, &failure, &due_ms), TEND_ELEASELOST);
        check_contains(tend_errmsg(t), "its owner has released the job");
        check_rc(t, tend_complete(t, &released, 1, NULL, NULL), TEND_ELEASELOST);
        check_rc(t, tend_release(t, &failed, 1, 0, NULL, NULL), TEND_ELEASELOST);
        check_contains(tend_errmsg(t), "its owner has failed the job");
        check_rc(t, tend_fail(t, done, &failure, NULL), TEND_ELEASELOST);
        check_contains(tend_errmsg(t), "its owner has completed the job");
        check_ok(t, tend_release(t, &released, 1, 1000, NULL, NULL));
        check_ok(t, tend_fail(t, failed, &failure, NULL));
        check_str(store_snapshot(), before);
        clock_advance(1000);
        recover_now(t);
    }
    check_int(due_ms, ==, 0);
    check_ok(t, tend_release(t, &released, 1, 1000, NULL, NULL));
}

/* --- phase: RC-9 --- */

TEST(lease, a_phase_is_told_with_an_event_and_is_a_sign_of_life)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_as(t, "q", "merger");
    clock_advance(10);
    check_ok(t, tend_phase(t, lease, "rebasing"));
    check_ok(t, tend_phase(t, lease, "testing"));
    const struct tend_job *job = job_of(t, lease.id);
    check_str(job->phase, "testing");
    check_int(job->seen_at_ms, ==, clock_now());
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_str(events_of(t, lease.id), "job.added job.claimed job.phase job.phase job.completed");
    const char *told = sql_rows("SELECT who, why FROM event WHERE what = 'job.phase' ORDER BY id");
    check_str(told, "merger|rebasing\nmerger|testing\n");
}
