/*
 * Cancel while a job runs: its step is stopped as any other is, with SIGTERM and its grace, nothing
 * it has said is lost, and the attempt's record is complete (SH-12, SH-16; 003 §12.4, §18 "cancel
 * during self-heal attempt").
 */
#include "runner_case.h"

#include <signal.h>
#include <unistd.h>

static void cancel(tend *t, int64_t id)
{
    struct tend_control_result result;
    check_ok(t, tend_control(t, id, "cancel", NULL, "enough", "ann", &result));
    check_int(state_of(t, id), ==, TEND_CANCELLED);
}

static void end_runner(struct running_runner *running)
{
    tend_runner_stop(running->runner, 0);
    runner_join(running);
}

/* The newest attempt has ended, as its row and its last event say. */
static void check_ended(tend *t, int64_t id, const char *attempts)
{
    check_str(attempts_of(t, id), attempts);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE state = 0 OR ended_at IS NULL OR "
                      "may_live = 1"),
              ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE summary = 'cancelled by ann: enough'"),
              ==, 1);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.step.attempt.failed' AND why "
                      "= 'cancelled by ann: enough'"),
              ==, 1);
    check_int(state_of(t, id), ==, TEND_CANCELLED);
}

/* Symptom: the step got SIGKILL at once, and what it had said last was lost. */
TEST(runner_cancel, SH_12_a_cancelled_step_gets_SIGTERM_and_its_last_words_are_kept)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"trap 'echo last words; exit 3' TERM; echo early; touch "
                             "begun; while :; do sleep 0.02; done\",\"grace\":\"30s\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    cancel(t, id);
    end_runner(&running);
    check_str(output_of(t, id, 1), "early\nlast words\n");
    check_ended(t, id, "1:stopped::");
    check_int(sql_int("SELECT exit_code FROM attempt"), ==, 3);
}

/* Symptom: it was killed at once, and its attempt was told as lost after the job was resumed: "its
 * worker died or lost the lease". */
TEST(runner_cancel, SH_12_a_held_step_is_stopped_as_a_cancelled_one_and_stays_so)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"test ! -e begun || exit 0; trap 'echo last words; exit 3' "
                             "TERM; echo early; touch begun; while :; do sleep 0.02; done\","
                             "\"grace\":\"30s\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_act(t, TEND_HOLD, id, "ann", "later"));
    wait_until(sql_int("SELECT count(*) FROM attempt WHERE state = 3") == 1, PATIENCE_MS);
    check_str(output_of(t, id, 1), "early\nlast words\n");
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.step.attempt.failed' AND why "
                      "= 'held by ann: later'"),
              ==, 1);
    check_int(state_of(t, id), ==, TEND_HELD);
    check_ok(t, tend_act(t, TEND_RESUME, id, "ann", NULL));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_str(attempts_of(t, id), "1:stopped:: 1:succeeded::");
    check_int(sql_int("SELECT count(*) FROM attempt WHERE summary = 'held by ann: later'"), ==, 1);
}

/* A step that does not care is killed after its grace, however short the lease. */
TEST(runner_cancel, SH_2_a_cancelled_step_that_ignores_SIGTERM_is_killed_after_its_grace)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "lease", "2s");
    int64_t id =
        add_plan(t, "{\"run\":\"trap 'date +%s%N > asked' TERM; echo $$ > pid; while :; do "
                    "sleep 0.02; date +%s%N > new; mv new alive; done\",\"grace\":\"2500ms\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("alive", F_OK) == 0, PATIENCE_MS);
    cancel(t, id);
    end_runner(&running);
    check(kill((pid_t)file_number("pid"), 0) < 0);
    check_int(file_number("alive") - file_number("asked"), >=, 1800000000LL);
    check_ended(t, id, "1:stopped::");
    check_int(sql_int("SELECT signal FROM attempt"), ==, SIGKILL);
}

/* 003 §18: cancel during a self-heal attempt. It preempts further ones. */
TEST(runner_cancel, SH_12_cancel_during_a_self_heal_attempt_ends_it_and_no_other_begins)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; test $(wc -l < tries) = 2 || exit 75; "
                             "touch begun; sleep 600\",\"grace\":\"100ms\",\"attempts\":5}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    cancel(t, id);
    end_runner(&running);
    check_ended(t, id, "1:failed:transient_runtime:exit.75 2:stopped::");
    check_str(file_text("tries"), "x\nx\n");
    check_int(count_events("task.step.attempt.started"), ==, 2);
}

/* Between two attempts: how the first failed is told all the same. */
TEST(runner_cancel, SH_12_cancel_between_attempts_leaves_the_failure_on_record)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo retry_after=50s >> $TEND_OUTPUT; exit 75\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(sql_int("SELECT count(*) FROM attempt WHERE state = 2") == 1, PATIENCE_MS);
    cancel(t, id);
    end_runner(&running);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:exit.75");
    check_int(count_events("task.step.attempt.started"), ==, 1);
    check_int(state_of(t, id), ==, TEND_CANCELLED);
}

/* RC-11, RC-14: brought back while its step is being stopped, the job is another's. */
TEST(runner_cancel, RC_11_a_job_that_is_redriven_during_the_grace_is_not_written_by_its_last_owner)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; test $(wc -l < tries) = 1 || exec echo "
                             "second; trap '' TERM; echo $$ > pid; echo first; while :; do sleep "
                             "0.02; done\",\"grace\":\"20s\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(file_text("pid") != NULL, PATIENCE_MS);
    cancel(t, id);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "ann", NULL));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    check(kill((pid_t)file_number("pid"), 0) < 0);
    end_runner(&running);
    check_str(attempts_of(t, id), "1:lost:transient_runtime:lease_lost 1:succeeded::");
    check_contains(output_of(t, id, 1), "second\n");
}

TEST(runner_cancel, SH_12_a_step_that_only_sleeps_is_cancelled_with_its_record)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"sleep\":\"600s\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(sql_int("SELECT count(*) FROM attempt") == 1, PATIENCE_MS);
    cancel(t, id);
    end_runner(&running);
    check_ended(t, id, "1:stopped::");
}
