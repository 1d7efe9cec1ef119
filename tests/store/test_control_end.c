/*
 * What becomes of controls that nobody has answered (SH-12): they outlive a lease, but not the job
 * (queue/control_end.c has the table).
 */
#include "steps.h"

/* How the only control of a job ended, as everybody is told; "": it is open. */
static const char *outcome_of(tend *t, int64_t id)
{
    struct tend_controls *controls;
    check_ok(t, tend_controls(t, id, &controls));
    check_int(controls->count, ==, 1);
    check_int(controls->items[0].done_at_ms == TEND_UNSET, ==, controls->items[0].outcome == NULL);
    const char *outcome =
        keep_text("%s", controls->items[0].outcome == NULL ? "" : controls->items[0].outcome);
    tend_controls_free(controls);
    return outcome;
}

static struct tend_lease lease_with_control(tend *t, const char *action)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    check_ok(t, tend_control(t, lease.id, action,
                             strcmp(action, "resume_from_step") == 0 ? "build" : NULL, NULL, NULL,
                             NULL));
    return lease;
}

static const char *const left_open[] = {"pause", "takeover", "retry_step", "hard_reset_step",
                                        "resume_from_step"};
enum { LEFT_OPEN = sizeof left_open / sizeof *left_open };

static void end_by_complete(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

static void end_by_complete_and_claim(tend *t, struct tend_lease lease)
{
    struct tend_claim claim;
    struct tend_jobs *jobs = NULL;
    tend_claim_init(&claim);
    claim.queue = "empty";
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, &claim, &jobs, NULL),
             TEND_EEMPTY);
}

static void end_by_fail(tend *t, struct tend_lease lease)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    check_ok(t, tend_fail(t, lease, &failure, NULL));
}

static void end_by_cancel(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_act(t, TEND_CANCEL, lease.id, NULL, NULL));
}

static void end_by_quarantine(tend *t, struct tend_lease lease)
{
    sql_exec("UPDATE job SET max_crashes = 1 WHERE id = %lld", (long long)lease.id);
    check_ok(t, tend_start(t, &lease, 1, NULL));
    clock_advance(HOUR_MS);
    struct tend_recovery recovery;
    check_ok(t, tend_detect_and_recover_stale(t, &recovery));
    check_int(state_of(t, lease.id), ==, TEND_FAILED);
}

/* SH-12: a control belongs to the run it was given to; a run that comes later is not told. */
TEST_WITHIN(control_end, SH_12_what_is_open_ends_with_the_job_however_it_ends, 180)
{
    tend *t = store_open("w");
    void (*const ends[])(tend *, struct tend_lease) = {
        end_by_complete, complete_job,  end_by_complete_and_claim, end_by_fail,
        fail_job,        end_by_cancel, end_by_quarantine};
    for (size_t end = 0; end < sizeof ends / sizeof *ends; end++) {
        for (int i = 0; i < LEFT_OPEN; i++) {
            struct tend_lease lease = lease_with_control(t, left_open[i]);
            ends[end](t, lease);
            int64_t ended_ms = clock_now();
            check_str(outcome_of(t, lease.id), "the job ended before it");
            clock_advance(10);
            if (state_of(t, lease.id) != TEND_DONE) {
                check_ok(t, tend_act(t, TEND_REDRIVE, lease.id, NULL, NULL));
                struct tend_lease next = claim_one(t, "q");
                check_int(next.id, ==, lease.id);
                check_int(taken(t, next), ==, 0);
                check_str(outcome_of(t, lease.id), "the job ended before it");
                check_int(
                    sql_int("SELECT done_at FROM control WHERE job_id = %lld", (long long)lease.id),
                    ==, ended_ms);
                complete_job(t, next);
            }
        }
    }
}

TEST(control_end, all_that_are_redriven_at_once_leave_what_was_asked_of_them_behind)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    for (int i = 0; i < 5; i++)
        end_by_fail(t, lease_with_control(t, "takeover"));
    tend_filter_init(&filter);
    check_int(act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL), ==, 5);
    check_int(sql_int("SELECT count(*) FROM control WHERE outcome = 'the job ended before it'"), ==,
              5);
}

TEST(control_end, a_control_that_brings_a_job_back_does_not_bring_older_ones_back)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_control(t, "takeover");
    end_by_fail(t, lease);
    check_ok(t, tend_control(t, lease.id, "hard_reset_step", NULL, NULL, NULL, NULL));
    struct tend_lease next = claim_one(t, "q");
    struct tend_controls *controls = take(t, next);
    check_int(controls->count, ==, 1);
    check_str(controls->items[0].action, "hard_reset_step");
    tend_controls_free(controls);
    check_str(sql_rows("SELECT outcome FROM control WHERE action = 'takeover'"),
              "the job ended before it\n");
}

/* A worker that looks every half second must not look at them for ever. */
TEST(control_end, what_ended_with_a_job_is_written_down_by_the_next_purge)
{
    tend *t = store_open("w");
    struct tend_lease open = lease_with_control(t, "pause");
    struct tend_lease lease = lease_with_control(t, "pause");
    end_by_complete(t, lease);
    check_int(sql_int("SELECT count(*) FROM control WHERE done_at IS NULL"), ==, 2);
    clock_advance(10);
    check_ok(t, tend_purge(t, NULL));
    check_int(sql_int("SELECT job_id FROM control WHERE done_at IS NULL"), ==, open.id);
    check_int(sql_int("SELECT done_at FROM control WHERE job_id = %lld", (long long)lease.id), ==,
              clock_now() - 10);
    check_str(outcome_of(t, lease.id), "the job ended before it");
}

static void leave_by_release(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
}

static void leave_by_retry(tend *t, struct tend_lease lease)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = 1;
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    clock_advance(1);
}

static void leave_by_crash(tend *t, struct tend_lease lease)
{
    check_ok(t, tend_start(t, &lease, 1, NULL));
    clock_advance(HOUR_MS);
}

TEST_WITHIN(control_end, SH_12_what_is_open_when_a_lease_ends_is_told_to_who_is_next, 180)
{
    tend *t = store_open("w");
    void (*const leaves[])(tend *, struct tend_lease) = {leave_by_release, leave_by_retry,
                                                         leave_by_crash};
    for (size_t way = 0; way < sizeof leaves / sizeof *leaves; way++) {
        for (int i = 0; i < LEFT_OPEN; i++) {
            struct tend_lease lease = lease_with_control(t, left_open[i]);
            leaves[way](t, lease);
            struct tend_lease next = claim_one(t, "q");
            check_int(next.id, ==, lease.id);
            check_int(taken(t, next), ==, 1);
            check_str(outcome_of(t, lease.id), "");
            complete_job(t, next);
        }
    }
}

/* A job that is held and resumed by hand has been paused; it is not to be paused once more. What
 * says where to go on is still meant. */
TEST(control_end, SH_12_a_pause_ends_when_the_job_is_held_another_way)
{
    tend *t = store_open("w");
    for (int i = 0; i < LEFT_OPEN; i++) {
        struct tend_lease lease = lease_with_control(t, left_open[i]);
        bool pauses = i < 2;
        check_ok(t, tend_act(t, TEND_HOLD, lease.id, NULL, NULL));
        check_str(outcome_of(t, lease.id), pauses ? "the job was held" : "");
        check_ok(t, tend_act(t, TEND_RESUME, lease.id, NULL, NULL));
        struct tend_lease next = claim_one(t, "q");
        check_int(next.id, ==, lease.id);
        check_int(taken(t, next), ==, !pauses);
        complete_job(t, next);
    }
}

TEST(control_end, SH_12_where_to_go_on_is_still_meant_after_pause_and_resume)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_control(t, "resume_from_step");
    clock_advance(HOUR_MS); /* its worker died */
    struct tend_recovery recovery;
    check_ok(t, tend_detect_and_recover_stale(t, &recovery));
    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, NULL, NULL));
    check_ok(t, tend_control(t, lease.id, "resume", NULL, NULL, NULL, NULL));
    struct tend_lease next = claim_one(t, "q");
    struct tend_controls *controls = take(t, next);
    check_int(controls->count, ==, 1);
    check_str(controls->items[0].action, "resume_from_step");
    tend_controls_free(controls);
}

/* Two asked for a pause; one answer holds the job, and resumed it goes on. */
TEST(control_end, a_second_pause_does_not_outlive_the_first)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_control_result pause;
    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, NULL, &pause));
    check_ok(t, tend_control(t, lease.id, "takeover", NULL, NULL, NULL, NULL));
    const struct tend_step_close close = {
        .how = TEND_STEPS_HOLD, .control_id = pause.control_id, .outcome = "paused"};
    check_ok(t, tend_step_finish(t, lease, NULL, &close, NULL));
    check_str(sql_rows("SELECT outcome FROM control ORDER BY id"), "paused\nthe job was held\n");
}
