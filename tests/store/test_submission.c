/*
 * CL-7: what is submitted under the key of a running or held job. It was answered "refreshed" and
 * dropped.
 */
#include "steps.h"

#include <poll.h>
#include <stdlib.h>

/* A running job under the key "k", and what is submitted under it. */
static struct tend_job_spec spec_with_key(const char *payload)
{
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "k";
    spec.subject = "s";
    spec.payload = payload;
    spec.by = "adder";
    return spec;
}

static struct tend_lease running_with_key(tend *t)
{
    struct tend_job_spec spec = spec_with_key("1");
    add_spec(t, &spec);
    return claim_one(t, "q");
}

static void submit(tend *t, int64_t id, const char *payload)
{
    struct tend_job_spec spec = spec_with_key(payload);
    struct tend_added added;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_AGAIN);
    check_int(added.id, ==, id);
}

/* Nothing waits any more, and nothing is left of it. */
static void check_settled(tend *t, int64_t id)
{
    check_int(job_of(t, id)->followed, ==, 0);
    check_int(sql_int("SELECT count(*) FROM submission"), ==, 0);
}

/* The job that has come of the submission; there is one. */
static const struct tend_job *follower_of(tend *t, int64_t id)
{
    check_settled(t, id);
    const struct tend_job *job = job_of(
        t, sql_int("SELECT id FROM job WHERE unique_key = 'k' AND id <> %lld", (long long)id));
    check_str(job->unique_key, "k");
    check_str(job->subject, "s");
    return job;
}

TEST(submission, the_newest_under_the_key_of_a_running_job_runs_once_more_after_it)
{
    tend *t = store_open("w");
    struct tend_lease lease = running_with_key(t);
    submit(t, lease.id, "2");
    clock_advance(10);
    struct tend_job_spec newest = spec_with_key("3");
    struct tend_added added;
    newest.kind = "build";
    newest.priority = 2;
    newest.tags = "[\"t\"]";
    newest.concurrency_key = "c";
    newest.workspace = "/w";
    newest.max_attempts = 7;
    newest.max_crashes = 8;
    newest.backoff_ms = 9;
    newest.backoff_max_ms = 10;
    newest.lease_ms = 11000;
    check_ok(t, tend_add(t, &newest, &added));
    check_int(added.outcome, ==, TEND_AGAIN);
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->followed, ==, 1);
    check_str(job->payload, "1"); /* not under its owner's hands */
    check_str(events_of(t, lease.id), "job.added job.claimed job.submitted job.submitted");
    check_str(last_event_of(t, lease.id)->who, "adder");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_advance(10);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    const struct tend_job *next = follower_of(t, lease.id);
    check_int(next->state, ==, TEND_PENDING);
    check_str(next->payload, "3");
    check_str(next->kind, "build");
    check_int(next->priority, ==, 2);
    check_str(next->tags, "[\"t\"]");
    check_str(next->concurrency_key, "c");
    check_str(next->workspace, "/w");
    check_int(next->max_attempts, ==, 7);
    check_int(next->max_crashes, ==, 8);
    check_int(next->backoff_ms, ==, 9);
    check_int(next->backoff_max_ms, ==, 10);
    check_int(next->lease_ms, ==, 11000);
    check_str(next->changed_by, "adder");
    check_contains(next->changed_why,
                   keep_text("submitted while job %lld ran", (long long)lease.id));
    check_str(events_of(t, next->id), "job.added");
    check_contains(last_event_of(t, next->id)->why, "submitted while job");
    check_int(claim_one(t, "q").id, ==, next->id);
    /* Repeated, it is answered as the first and adds nothing. */
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(sql_int("SELECT count(*) FROM job"), ==, 2);
}

TEST(submission, another_subject_is_refused_also_while_one_waits)
{
    tend *t = store_open("w");
    struct tend_lease lease = running_with_key(t);
    submit(t, lease.id, "2");
    struct tend_job_spec other = spec_with_key("3");
    struct tend_added added;
    other.subject = "other";
    check_rc(t, tend_add(t, &other, &added), TEND_ECONFLICT);
    check_int(added.id, ==, lease.id);
    /* Who wants nothing changed changes nothing of what waits either. */
    struct tend_job_spec keep = spec_with_key("4");
    keep.if_running = TEND_IF_RUNNING_KEEP;
    check_ok(t, tend_add(t, &keep, &added));
    check_int(added.outcome, ==, TEND_UNCHANGED);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_str(follower_of(t, lease.id)->payload, "2");
}

/* --- every way in which a run ends --- */

static void end_complete(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}
static void end_complete_and_claim(tend *t, struct tend_lease lease)
{
    struct tend_claim claim = claim_for("elsewhere");
    struct tend_jobs *jobs;
    int each = -99;
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, &each, &claim, &jobs, NULL),
             TEND_EEMPTY);
    check_int(each, ==, 0);
}
static void end_fail(tend *t, struct tend_lease lease, int final)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = final;
    check_ok(t, tend_fail(t, lease, &failure, NULL));
}
static void end_fail_for_good(tend *t, struct tend_lease lease)
{
    end_fail(t, lease, 1);
}
static void end_retry_later(tend *t, struct tend_lease lease)
{
    end_fail(t, lease, 0);
}
static void end_release(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
}
static void end_release_later(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_release(t, &lease, 1, HOUR_MS, NULL, NULL));
}
static void end_cancel(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_act(t, TEND_CANCEL, lease.id, NULL, NULL));
}
static void end_cancel_all(tend *t, struct tend_lease lease)
{
    struct tend_filter filter;
    (void)lease;
    tend_filter_init(&filter);
    check_ok(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, NULL));
}
static void end_control_cancel(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_control(t, lease.id, "cancel", NULL, NULL, NULL, NULL));
}
static void end_hold(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, "op", "look"));
}
static void end_recover(tend *t, struct tend_lease lease)
{
    (void)lease;
    clock_advance(2 * HOUR_MS);
    recover_now(t);
}
static void end_reclaim(tend *t, struct tend_lease lease)
{
    struct tend_recovery recovery;
    (void)lease;
    check_ok(t, tend_reclaim_stale(t, 0, &recovery));
    check_int(recovery.entries_reclaimed, ==, 1);
}
static void end_quarantine(tend *t, struct tend_lease lease)
{
    sql_exec("UPDATE job SET max_crashes = 1 WHERE id = %lld", (long long)lease.id);
    end_recover(t, lease);
}
static void end_steps(tend *t, struct tend_lease lease, enum tend_step_how how)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    const struct tend_step_close close = {.how = how, .failure = &failure};
    check_ok(t, tend_step_finish(t, lease, NULL, &close, NULL));
}
static void end_steps_complete(tend *t, struct tend_lease lease)
{
    end_steps(t, lease, TEND_STEPS_COMPLETE);
}
static void end_steps_fail(tend *t, struct tend_lease lease)
{
    end_steps(t, lease, TEND_STEPS_FAIL);
}
static void end_steps_release(tend *t, struct tend_lease lease)
{
    end_steps(t, lease, TEND_STEPS_RELEASE);
}
static void end_steps_hold(tend *t, struct tend_lease lease)
{
    end_steps(t, lease, TEND_STEPS_HOLD);
}

TEST_WITHIN(submission, CL_7_it_is_carried_out_however_the_run_ends, 120)
{
    const struct {
        void (*end)(tend *t, struct tend_lease lease);
        int state; /* of the job then; finished: the submission is a job of its own */
    } ends[] = {
        {end_complete, TEND_DONE},         {end_complete_and_claim, TEND_DONE},
        {end_fail_for_good, TEND_FAILED},  {end_cancel, TEND_CANCELLED},
        {end_cancel_all, TEND_CANCELLED},  {end_control_cancel, TEND_CANCELLED},
        {end_quarantine, TEND_FAILED},     {end_steps_complete, TEND_DONE},
        {end_steps_fail, TEND_FAILED},     {end_retry_later, TEND_PENDING},
        {end_release, TEND_PENDING},       {end_release_later, TEND_PENDING},
        {end_recover, TEND_PENDING},       {end_reclaim, TEND_PENDING},
        {end_steps_release, TEND_PENDING}, {end_hold, TEND_HELD},
        {end_steps_hold, TEND_HELD},
    };
    tend *t = store_open("w");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct tend_lease lease = running_with_key(t);
        submit(t, lease.id, "2");
        ends[i].end(t, lease);
        check_int(state_of(t, lease.id), ==, ends[i].state);
        check_settled(t, lease.id);
        const struct tend_job *job =
            ends[i].state >= TEND_DONE ? follower_of(t, lease.id) : job_of(t, lease.id);
        check_str(job->payload, "2");
        check_int(sql_int("SELECT count(*) FROM job"), ==, ends[i].state >= TEND_DONE ? 2 : 1);
        sql_exec("DELETE FROM job");
    }
    /* A worker that leaves gives back what it has. */
    struct tend_lease lease = running_with_key(t);
    submit(t, lease.id, "2");
    store_close(t);
    t = store_open("v");
    check_str(job_of(t, lease.id)->payload, "2");
    check_settled(t, lease.id);
}

/* Symptom: whoever cancelled jobs was not told that others had come to life in their place. */
TEST(submission, cancelling_tells_which_jobs_the_submissions_have_become)
{
    tend *t = store_open("w");
    struct tend_acted *acted;
    struct tend_lease lease = running_with_key(t);
    check_ok(t, tend_act_on_one(t, TEND_CANCEL, lease.id, NULL, NULL, &acted));
    check_int(acted->count, ==, 1);
    check_int(acted->follower_count, ==, 0); /* nothing was submitted */
    tend_acted_free(acted);

    lease = running_with_key(t);
    submit(t, lease.id, "2");
    check_ok(t, tend_act_on_one(t, TEND_HOLD, lease.id, NULL, NULL, &acted));
    check_int(acted->follower_count, ==, 0); /* the job itself has taken it over */
    tend_acted_free(acted);
    check_ok(t, tend_act(t, TEND_RESUME, lease.id, NULL, NULL));
    lease = claim_one(t, "q");
    submit(t, lease.id, "3");
    check_ok(t, tend_act_on_one(t, TEND_CANCEL, lease.id, NULL, NULL, &acted));
    check_int(acted->count, ==, 1);
    check_int(acted->follower_count, ==, 1);
    check_str(job_of(t, acted->followers[0])->payload, "3");
    check_int(state_of(t, acted->followers[0]), ==, TEND_PENDING);
    tend_acted_free(acted);
    check_rc(t, tend_act_on_one(t, TEND_CANCEL, lease.id, NULL, NULL, &acted), TEND_ESTATE);

    lease = claim_one(t, "q");
    submit(t, lease.id, "4");
    struct tend_control_result result;
    check_ok(t, tend_control(t, lease.id, "cancel", NULL, NULL, NULL, &result));
    check_str(job_of(t, result.follower)->payload, "4");
    check_ok(t, tend_control(t, result.follower, "cancel", NULL, NULL, NULL, &result));
    check_int(result.follower, ==, 0);
}

/* More than one page of them. */
TEST(submission, cancelling_many_tells_all_the_jobs_that_come_of_it)
{
    enum { RUNNING = 1100, FOLLOWED = 1050 };
    tend *t = store_open("w");
    struct tend_filter filter;
    struct tend_acted *acted;
    struct tend_job_spec *specs = calloc(RUNNING, sizeof *specs);
    struct tend_added *added = calloc(RUNNING, sizeof *added);
    for (int i = 0; i < RUNNING; i++) {
        specs[i] = spec_for("q");
        specs[i].unique_key = keep_text("key %d", i);
    }
    check_ok(t, tend_add_many(t, specs, RUNNING, added));
    check_int(claim_many(t, "q", RUNNING, NULL), ==, RUNNING);
    check_ok(t, tend_add_many(t, specs, FOLLOWED, added));
    tend_filter_init(&filter);
    filter.queue = "q";
    check_ok(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, &acted));
    check_int(acted->count, ==, RUNNING); /* and not what has come of them */
    check_int(acted->follower_count, ==, FOLLOWED);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, FOLLOWED);
    int64_t told = 0;
    for (size_t i = 0; i < acted->follower_count; i++)
        told += acted->followers[i];
    check_int(told, ==,
              sql_int("SELECT sum(job_id) FROM event WHERE why LIKE 'submitted while%%'"));
    tend_acted_free(acted);
    free(specs);
    free(added);
}

/* A handle that has claimed under a limit completes in another way. */
TEST(submission, it_is_carried_out_in_batches_and_under_a_lock_too)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_lease leases[3];
    int each[3];
    struct tend_job_spec spec = spec_with_key("1");
    add_spec(t, &spec);
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    leases[1] = lease_of(&jobs->items[0]);
    tend_jobs_free(jobs);
    add_number(t, "p", 2);
    leases[0] = claim_one(t, "p");
    leases[2] = claim_one(t, "p");
    submit(t, leases[1].id, "2");
    /* Symptom: the lock was given up in a commit before the one that ended the run. */
    if (!store_is_postgres())
        sql_exec("CREATE TRIGGER unlocked AFTER UPDATE OF lock_name ON job "
                 "WHEN new.lock_name IS NULL AND new.state = 2 AND new.followed IS NOT NULL "
                 "BEGIN SELECT RAISE(ABORT, 'it runs without its lock'); END");
    check_ok(t, tend_complete(t, leases, 3, NULL, each));
    check_str(follower_of(t, leases[1].id)->payload, "2");
    check_int(tend_lock_get(t, "queue:q", NULL), ==, 0);
    leases[1] = claim_one(t, "q");
    submit(t, leases[1].id, "3");
    check_ok(t, tend_release(t, leases + 1, 1, 0, NULL, NULL));
    check_str(job_of(t, leases[1].id)->payload, "3");
}

/* Symptom: a new payload had only the attempts that the old one had left. */
TEST(submission, a_new_payload_has_all_attempts_and_crashes_again)
{
    tend *t = store_open("w");
    struct tend_lease lease = running_with_key(t);
    struct tend_job_spec spec = spec_with_key("1");
    struct tend_added added;
    sql_exec("UPDATE job SET attempts = 2, crashes = 1");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_ok(t, tend_add(t, &spec, &added)); /* the same payload */
    check_int(job_of(t, lease.id)->attempts, ==, 2);
    check_int(job_of(t, lease.id)->crashes, ==, 1);
    spec = spec_with_key("2");
    check_ok(t, tend_add(t, &spec, &added));
    check_int(job_of(t, lease.id)->attempts, ==, 0);
    check_int(job_of(t, lease.id)->crashes, ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE life_token = token"), ==, 1);
}

TEST(submission, one_that_is_due_later_becomes_a_scheduled_job)
{
    tend *t = store_open("w");
    struct tend_lease lease = running_with_key(t);
    struct tend_job_spec spec = spec_with_key("2");
    struct tend_added added;
    spec.delay_ms = HOUR_MS;
    check_ok(t, tend_add(t, &spec, &added));
    int64_t due_ms = clock_now() + HOUR_MS;
    clock_advance(MINUTE_MS / 2);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    const struct tend_job *next = follower_of(t, lease.id);
    check_int(next->state, ==, TEND_SCHEDULED);
    check_int(next->due_at_ms, ==, due_ms);
}

/* What was done for the old payload says nothing about the new one. */
TEST(submission, a_job_that_goes_on_with_another_payload_begins_with_its_first_step)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_with_key("{\"steps\":" THREE_STEPS "}");
    add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "q");
    pass_step(t, lease, 1, "build");
    struct tend_added added;
    check_ok(t, tend_add(t, &spec, &added)); /* the same again keeps what was done */
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_str(steps_done(lease.id), "1 ");
    lease = claim_one(t, "q");
    submit(t, lease.id, "{\"run\":\"other\"}");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_str(steps_done(lease.id), "");
}

/* A lost owner's call ends nothing, and carries nothing out. */
TEST(submission, RC_11_a_zombie_carries_nothing_out)
{
    tend *t = store_open("w");
    struct tend_lease lost = running_with_key(t);
    clock_advance(HOUR_MS);
    recover_now(t);
    struct tend_lease lease = claim_one(t, "q");
    submit(t, lease.id, "2");
    const char *before = store_snapshot();
    check_rc(t, tend_complete(t, &lost, 1, NULL, NULL), TEND_ELEASELOST);
    check_rc(t, tend_release(t, &lost, 1, 0, NULL, NULL), TEND_ELEASELOST);
    struct tend_failure failure;
    tend_failure_init(&failure);
    check_rc(t, tend_fail(t, lost, &failure, NULL), TEND_ELEASELOST);
    check_str(store_snapshot(), before);
    check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
    check_ok(t, tend_phase(t, lease, "halfway"));
    check_int(job_of(t, lease.id)->followed, ==, 1);
}

/* --- held --- */

/* It stopped every recovery of every queue. */
TEST(submission, RC_9_a_run_whose_submission_is_missing_is_recovered_all_the_same)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    int64_t other = add_one(t, "other");
    struct tend_claim claim = claim_for("q");
    claim.flags = TEND_CLAIM_BY_TIME;
    claim_with(t, &claim);
    claim.queue = "other";
    claim_with(t, &claim);
    sql_exec("UPDATE job SET followed = 1 WHERE id = %lld", (long long)id);
    clock_advance(HOUR_MS);
    recover_now(t);
    check_int(state_of(t, other), ==, TEND_PENDING);
    check_int(state_of(t, id), ==, TEND_PENDING);
}

TEST(submission, a_held_job_is_refreshed_and_stays_held_for_the_same_reason)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_with_key("1");
    struct tend_added added;
    int64_t id = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_HOLD, id, "op", "look at it"));
    spec.payload = "2";
    spec.kind = "build";
    spec.delay_ms = HOUR_MS;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_HELD);
    check_str(job->payload, "2");
    check_str(job->kind, "build");
    check_str(job->changed_by, "op");
    check_str(job->changed_why, "look at it");
    check_str(events_of(t, id), "job.added job.held job.refreshed");
    check_str(last_event_of(t, id)->who, "adder");
    check_ok(t, tend_act(t, TEND_RESUME, id, NULL, NULL));
    check_int(state_of(t, id), ==, TEND_SCHEDULED); /* the due time is the new one */
}

/* --- many at once --- */

TEST(submission, in_a_batch_each_is_answered_for_itself)
{
    tend *t = store_open("w");
    struct tend_lease lease = running_with_key(t);
    struct tend_job_spec specs[4] = {spec_with_key("2"), spec_for("q"), spec_with_key("3"),
                                     spec_with_key("4")};
    struct tend_added added[4];
    specs[3].if_running = TEND_IF_RUNNING_KEEP;
    check_ok(t, tend_add_many(t, specs, 4, added));
    check_int(added[0].outcome, ==, TEND_AGAIN);
    check_int(added[1].outcome, ==, TEND_OK);
    check_int(added[2].outcome, ==, TEND_AGAIN);
    check_int(added[3].outcome, ==, TEND_UNCHANGED);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_str(
        job_of(t, sql_int("SELECT id FROM job WHERE unique_key = 'k' AND state = 1"))->payload,
        "3");
    specs[0].if_running = (enum tend_if_running)7;
    check_rc(t, tend_add(t, &specs[0], added), TEND_EINVAL);
}

enum { SUBMITTERS = 4, EACH = 60 };

static void submitter(struct helper *parent, void *arg)
{
    tend *t = store_open_real("submitter");
    int64_t number = *(int *)arg;
    for (int64_t i = 1; i <= EACH; i++) {
        struct tend_job_spec spec = spec_with_key(keep_text("%lld", (long long)number * 1000 + i));
        struct tend_added added;
        check_ok(t, tend_add(t, &spec, &added));
    }
    helper_say(parent, 1);
}

/* They say so at the end; what they said stays to be heard. */
static bool have_all_submitted(const struct helper *helpers)
{
    struct pollfd fds[SUBMITTERS];
    int ready = 0;
    for (int i = 0; i < SUBMITTERS; i++)
        fds[i] = (struct pollfd){.fd = helpers[i].read_fd, .events = POLLIN};
    if (poll(fds, SUBMITTERS, 0) < 0)
        return false;
    for (int i = 0; i < SUBMITTERS; i++)
        ready += (fds[i].revents & POLLIN) != 0;
    return ready == SUBMITTERS;
}

/*
 * Submitters against a worker that completes and releases. Only what a newer submission has
 * overtaken need not run, so the newest of all, the last one of some submitter, runs last.
 */
TEST_WITHIN(submission, BY_2_the_newest_is_never_lost_however_runs_end_meanwhile, 120)
{
    struct helper helpers[SUBMITTERS];
    int numbers[SUBMITTERS];
    tend *t = store_open_real("worker");
    struct tend_claim claim = claim_for("q");
    const char *last = "";
    for (int i = 0; i < SUBMITTERS; i++) {
        numbers[i] = i + 1;
        helpers[i] = helper_start(submitter, &numbers[i]);
    }
    bool all_submitted = false;
    for (int round = 0;; round++) {
        struct tend_jobs *jobs;
        bool last_look = all_submitted;
        all_submitted = have_all_submitted(helpers);
        claim.wait_ms = 0;
        int rc = tend_claim_jobs(t, &claim, &jobs, NULL);
        if (rc == TEND_EEMPTY && last_look)
            break;
        if (rc == TEND_EEMPTY)
            continue;
        check_rc(t, rc, 1);
        struct tend_lease lease = lease_of(&jobs->items[0]);
        last = keep_text("%s", jobs->items[0].payload);
        tend_jobs_free(jobs);
        if (round % 3 == 0)
            check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
        else
            check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    }
    for (int i = 0; i < SUBMITTERS; i++)
        helper_join(&helpers[i]);
    check_int(sql_int("SELECT count(*) FROM submission"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE followed IS NOT NULL OR state <> 4"), ==, 0);
    /* The newest of all was the last one of some submitter. */
    check_int(strtoll(last, NULL, 10) % 1000, ==, EACH);
}
