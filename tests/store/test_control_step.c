/* Controls that name a step: which one is meant, and going on from it (SH-10) in failed and in done
 * jobs. */
#include "steps.h"

/* --- steps --- */

TEST(control, an_unknown_step_is_told_with_those_there_are)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_FAILED);
    const char *before = store_snapshot();
    check_rc(t, tend_control(t, id, "resume_from_step", "buidl", NULL, NULL, NULL), TEND_ENOTFOUND);
    check_contains(tend_errmsg(t), "build, step-2, ship");
    check_str(store_snapshot(), before);

    struct tend_job_spec spec = spec_for("handled");
    spec.payload = "[1, 2]"; /* for a handler: nothing is known of its steps before it runs */
    id = add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "handled");
    begin_step(t, lease, 1, "the-handler");
    check_rc(t, tend_control(t, id, "retry_step", "other", NULL, NULL, NULL), TEND_ENOTFOUND);
    check_contains(tend_errmsg(t), "the-handler");
    check_ok(t, tend_control(t, id, "retry_step", "the-handler", NULL, NULL, NULL));
    check_int(sql_int("SELECT step_index FROM control"), ==, 1);
}

TEST(control, steps_are_known_by_the_payload_before_they_have_run)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_FAILED);
    check_ok(t, tend_control(t, id, "hard_reset_step", "step-2", NULL, NULL, NULL));
    check_int(sql_int("SELECT step_index FROM control WHERE job_id = %lld", (long long)id), ==, 2);
    struct tend_job_spec spec = spec_for("short");
    spec.payload = "{\"run\":\"make\"}"; /* one step, without a name */
    id = add_spec(t, &spec);
    claim_one(t, "short");
    check_ok(t, tend_control(t, id, "hard_reset_step", "step-1", NULL, NULL, NULL));
    spec.payload = "{\"run\":\"make\",\"id\":\"mk\"}";
    id = add_spec(t, &spec);
    claim_one(t, "short");
    check_ok(t, tend_control(t, id, "hard_reset_step", "mk", NULL, NULL, NULL));
    check_rc(t, tend_control(t, id, "hard_reset_step", "step-1", NULL, NULL, NULL), TEND_ENOTFOUND);
}

TEST(control, a_step_that_has_succeeded_or_was_not_reached_cannot_be_retried)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_FAILED);
    const char *before = store_snapshot();
    check_rc(t, tend_control(t, id, "retry_step", "build", NULL, NULL, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "resume_from_step");
    check_rc(t, tend_control(t, id, "hard_reset_step", "build", NULL, NULL, NULL), TEND_ESTATE);
    check_rc(t, tend_control(t, id, "retry_step", "ship", NULL, NULL, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "step 2 before it has not succeeded");
    check_rc(t, tend_control(t, id, "resume_from_step", "ship", NULL, NULL, NULL), TEND_ESTATE);
    check_str(store_snapshot(), before);
    check_ok(t, tend_control(t, id, "retry_step", "step-2", NULL, NULL, NULL));
}

/* --- failed jobs --- */

TEST(control, retry_step_brings_a_failed_job_back_with_its_checkpoints)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_FAILED);
    check_ok(t, tend_control(t, id, "retry_step", NULL, "fixed the disk", "ann", NULL));
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->attempts, ==, 0);
    check_str(steps_done(id), "1 ");
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.id, ==, id);
    check_int(begin_step(t, lease, 2, "step-2"), ==, 2);
}

TEST(control, SH_10_resume_from_step_forgets_that_step_and_all_behind_it)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_step_change base = {.baseline_commit = "abc"};
    check_ok(t, tend_step_next(t, lease, &base, NULL));
    pass_step(t, lease, 1, "build");
    pass_step(t, lease, 2, "step-2");
    fail_job(t, lease);
    struct tend_control_result result;
    check_ok(t, tend_control(t, lease.id, "resume_from_step", "step-2", NULL, "ann", &result));
    check_int(result.job_id, ==, lease.id);
    check_int(result.state, ==, TEND_PENDING);
    check_str(steps_done(lease.id), "0 1 ");
    check_str(data_of(lease.id, "task.resume.from_step"),
              "{\"stepId\":\"step-2\",\"stepIndex\":2,\"attempt\":null,\"failureClass\":null,"
              "\"failureSignature\":null,\"diffHash\":null,\"strategy\":null}");
    const char *events = events_of(t, lease.id);
    check_contains(events, "job.failed task.control.resume_from_step task.resume.from_step "
                           "job.redriven");
}

TEST(control, hard_reset_step_is_left_for_the_worker_that_gets_the_job)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_FAILED);
    struct tend_control_result result;
    check_ok(t, tend_control(t, id, "hard_reset_step", "step-2", "stuck", "ann", &result));
    check_int(result.open, ==, 1);
    struct tend_lease lease = claim_one(t, "q");
    struct tend_controls *controls;
    check_ok(t, tend_controls_take(t, &lease, 1, &controls));
    check_int(controls->count, ==, 1);
    check_int(controls->items[0].id, ==, result.control_id);
    check_str(controls->items[0].action, "hard_reset_step");
    check_str(controls->items[0].step_id, "step-2");
    check_int(controls->items[0].step_index, ==, 2);
    check_str(controls->items[0].reason, "stuck");
    check_str(controls->items[0].actor, "ann");
    tend_controls_free(controls);
}

TEST(control, a_job_whose_unique_key_is_taken_stays_as_it_is)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("u");
    spec.unique_key = "key";
    int64_t failed = add_spec(t, &spec);
    fail_job(t, claim_one(t, "u"));
    int64_t done = add_spec(t, &spec);
    complete_job(t, claim_one(t, "u"));
    add_spec(t, &spec);
    const char *before = store_snapshot();
    check_rc(t, tend_control(t, failed, "retry_step", NULL, NULL, NULL, NULL), TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "unique key");
    check_rc(t, tend_control(t, done, "resume_from_step", "step-1", NULL, NULL, NULL),
             TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "unique key");
    check_str(store_snapshot(), before);
}

/* --- done jobs --- */

TEST(control, SH_10_a_done_job_stays_done_and_a_new_one_goes_on_from_the_step)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "{\"steps\":" THREE_STEPS "}";
    spec.kind = "deploy";
    spec.priority = 3;
    spec.tags = "[\"x\"]";
    spec.concurrency_key = "ck";
    spec.unique_key = "uk";
    spec.subject = "s";
    spec.workspace = "ws";
    spec.max_attempts = 4;
    spec.lease_ms = 7000;
    int64_t id = add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "q");
    struct tend_attempt_end end = end_of(0, TEND_ATTEMPT_SUCCEEDED);
    end.patch = "\0patch";
    end.patch_bytes = 6;
    end.outputs = "{\"a\":1}";
    const struct tend_step_change base = {.baseline_repo = "r", .baseline_commit = "abc"};
    check_ok(t, tend_step_next(t, lease, &base, NULL));
    for (int64_t i = 1; i <= 3; i++) {
        end.number = begin_step(t, lease, i, i == 1 ? "build" : i == 2 ? "step-2" : "ship");
        const struct tend_step_change change = {.ended = &end};
        check_ok(t, tend_step_next(t, lease, &change, NULL));
    }
    complete_job(t, lease);
    const char *was = sql_rows("SELECT state, result, finished_at, attempts, version FROM job");

    struct tend_control_result result;
    check_ok(t, tend_control(t, id, "resume_from_step", "ship", "again", "ann", &result));
    check_int(result.job_id, >, id);
    check_int(result.state, ==, TEND_PENDING);
    check_int(result.open, ==, 0);
    check_str(sql_rows("SELECT state, result, finished_at, attempts, version FROM job WHERE id = "
                       "%lld",
                       (long long)id),
              was);
    check_str(steps_done(id), "0 1 2 3 ");
    check_str(steps_done(result.job_id), "0 1 2 ");
    const struct tend_job *job = job_of(t, result.job_id);
    const struct tend_job *old = job_of(t, id);
    check_str(job->payload, old->payload);
    check_str(job->kind, "deploy");
    check_int(job->priority, ==, 3);
    check_str(job->tags, "[\"x\"]");
    check_str(job->concurrency_key, "ck");
    check_str(job->unique_key, "uk");
    check_str(job->subject, "s");
    check_str(job->workspace, "ws");
    check_int(job->max_attempts, ==, 4);
    check_int(job->lease_ms, ==, 7000);
    check_str(job->result, NULL);
    struct tend_patch *patch;
    check_ok(t, tend_checkpoint_patch(t, job->id, 2, &patch));
    check_int(patch->bytes, ==, 6);
    check(memcmp(patch->data, "\0patch", 6) == 0);
    tend_patch_free(patch);
    struct tend_checkpoints *checkpoints;
    check_ok(t, tend_checkpoints(t, job->id, &checkpoints));
    check_str(checkpoints->items[0].commit, "abc");
    check_int(checkpoints->items[1].number, ==, 0);
    check_str(checkpoints->items[1].outputs, "{\"a\":1}");
    tend_checkpoints_free(checkpoints);
    check_str(events_of(t, job->id), "job.added task.resume.from_step");
    check_str(last_event_of(t, job->id)->why, keep_text("goes on from job %lld", (long long)id));
    check_contains(events_of(t, id), "job.completed task.control.resume_from_step");
    lease = claim_one(t, "q");
    check_int(lease.id, ==, job->id);
    check_int(begin_step(t, lease, 3, "ship"), ==, 1);
}
