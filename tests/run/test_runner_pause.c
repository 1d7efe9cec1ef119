/*
 * The pause before a step is tried again (SH-6), and what ends it: controls, a stop, a lost worker
 * (SH-12). A long pause keeps nothing from others.
 */
#include "runner_case.h"

#include <string.h>
#include <unistd.h>

enum { LONG_PAUSE_MS = 50000, STOP_MS = 30000 };

/* Fails until the file "cured" is there. */
#define UNTIL_CURED "echo x >> $T/tries; test -e $T/cured || exit 75"

static int64_t add_step(tend *t, const char *command, const char *more)
{
    return add_plan(t, keep_text("{\"env\":{\"T\":\"%s\"},\"run\":\"%s\",\"grace\":\"100ms\"%s}",
                                 test_folder(), command, more));
}

static void touch(const char *name)
{
    check_int(system(keep_text("touch %s/%s", test_folder(), name)), ==, 0);
}

static void end_runner(struct running_runner *running)
{
    tend_runner_stop(running->runner, 0);
    runner_join(running);
}

/* How long the job's step still pauses in this worker; 0: it does not. */
static int64_t pause_ms_of(tend_runner *runner, int64_t id)
{
    struct tend_running running[8];
    size_t count = tend_runner_look(runner, running, 8);
    for (size_t i = 0; i < count; i++)
        if (running[i].job_id == id)
            return running[i].pause_ms;
    return 0;
}

static int64_t tries(void)
{
    const char *text = file_text("tries");
    return text == NULL ? 0 : (int64_t)strlen(text) / 2;
}

/* From the end of attempt number - 1 to the beginning of the attempt. */
static int64_t gap_before(int64_t id, int number)
{
    return sql_int("SELECT b.started_at - a.ended_at FROM attempt a JOIN attempt b ON "
                   "b.job_id = a.job_id AND b.number = a.number + 1 WHERE a.job_id = %lld AND "
                   "b.number = %d",
                   (long long)id, number);
}

/* Symptom: three attempts within milliseconds, so that no failure had the time to pass. */
TEST(runner_pause, SH_6_attempts_after_transient_failures_begin_after_a_growing_pause)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t, "echo x >> $T/tries; test $(wc -l < $T/tries) -ge 4 || exit 75",
                          ",\"attempts\":4,\"pause\":\"100ms\",\"no_progress_limit\":9");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(gap_before(id, 2), >=, 80);
    check_int(gap_before(id, 3), >=, 160);
    check_int(gap_before(id, 4), >=, 320);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE next_at > ended_at"), ==, 3);
    check_contains(events_of(t, id), "task.self_heal.triggered");
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.self_heal.triggered' AND why "
                      "LIKE 'attempt 2 of 4 follows in %%ms'"),
              ==, 1);
}

TEST(runner_pause, SH_6_a_pause_of_0_is_none_and_no_pause_is_longer_than_the_longest)
{
    tend *t = store_open_real("w");
    int64_t none = add_step(t, "exit 75", ",\"attempts\":2,\"pause\":\"0s\"");
    int64_t cut =
        add_step(t, "exit 75", ",\"attempts\":2,\"pause\":\"1h\",\"pause_max\":\"100ms\"");
    run_until_drained(t);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE job_id = %lld AND next_at IS NOT NULL",
                      (long long)none),
              ==, 0);
    check_int(sql_int("SELECT next_at - ended_at FROM attempt WHERE job_id = %lld AND number = 1",
                      (long long)cut),
              <=, 100);
    check_int(gap_before(cut, 2), >=, 80);
}

/*
 * Symptom: a network that was away for a second used up the attempts and the job's only hard reset
 * within 0.64 s, and what the step had done was gone.
 */
TEST(runner_pause, SH_7_a_network_failure_is_waited_out_in_the_same_workspace)
{
    tend *t = store_open_real("w");
    check_int(system(keep_text("cd %s && git init -q -b main repo && cd repo && git -c "
                               "user.email=a@b -c user.name=n commit -q --allow-empty -m one",
                               test_folder())),
              ==, 0);
    int64_t id =
        add_step(t,
                 "echo x >> work; cp work $T/tries; test $(wc -l < work) -ge 4 || "
                 "{ echo curl: connect to api port 443 failed: Connection refused; exit 7; }",
                 keep_text(",\"attempts\":4,\"pause\":\"1ms\",\"no_progress_limit\":1,"
                           "\"workspace\":{\"repo\":\"%s/repo\"}",
                           test_folder()));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:text.network "
                                  "2:failed:transient_runtime:text.network "
                                  "3:failed:transient_runtime:text.network 4:succeeded::");
    check_int(sql_int("SELECT count(*) FROM attempt WHERE strategy = 'hard_reset'"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE outside = 1"), ==, 3);
    check_int(tries(), ==, 4);
}

/* An operator waits for nobody. */
TEST(runner_pause, SH_12_retry_step_ends_the_pause)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_step(t, UNTIL_CURED, ",\"pause\":\"50s\",\"pause_max\":\"50s\"");
    struct running_runner running = runner_start(t, NULL);
    wait_until(pause_ms_of(running.runner, id) > 0, PATIENCE_MS);
    check_int(pause_ms_of(running.runner, id), <=, LONG_PAUSE_MS);
    touch("cured");
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_int(tries(), ==, 2);
}

/* Symptom: a pause that was asked for took hold only when the wait was over. */
TEST(runner_pause, SH_12_pause_takes_hold_while_the_step_pauses)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_step(t, UNTIL_CURED, ",\"pause\":\"50s\",\"pause_max\":\"50s\"");
    struct running_runner running = runner_start(t, NULL);
    wait_until(pause_ms_of(running.runner, id) > 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "pause", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    end_runner(&running);
    check_int(tries(), ==, 1);
}

/* The job is due when the pause is over, and what it had come to is kept. */
static void check_waits_in_queue(tend *t, int64_t id)
{
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(sql_int("SELECT abs(job.due_at - attempt.next_at) FROM job JOIN attempt ON "
                      "attempt.job_id = job.id WHERE job.id = %lld",
                      (long long)id),
              <, 1000);
    check_contains(job_of(t, id)->changed_why, "was told to stop; step step-1 pauses ");
    check_contains(job_of(t, id)->changed_why, " before attempt 2");
    check_int(job_of(t, id)->attempts, ==, 0);
    check_int(tries(), ==, 1);
}

/* Symptom: after SIGTERM a worker waited for the end of the pause and began the next attempt. */
TEST(runner_pause, LS_6_a_stop_that_drains_ends_the_pause_and_the_job_goes_back)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t, UNTIL_CURED, ",\"pause\":\"50s\",\"pause_max\":\"50s\"");
    struct running_runner running = runner_start(t, NULL);
    wait_until(pause_ms_of(running.runner, id) > 0, PATIENCE_MS);
    long long begun_ms = test_clock_ms();
    end_runner(&running);
    check_int(test_clock_ms() - begun_ms, <, STOP_MS / 2);
    check_waits_in_queue(t, id);
    touch("cured");
    sql_exec("UPDATE job SET due_at = 1, alarm_at = 1");
    sql_exec("UPDATE attempt SET next_at = 1");
    wait_until((run_until_drained(t), state_of(t, id) == TEND_DONE), PATIENCE_MS);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:exit.75 2:succeeded::");
}

TEST(runner_pause, a_stop_at_once_ends_the_pause_and_the_job_goes_back)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t, UNTIL_CURED, ",\"pause\":\"50s\",\"pause_max\":\"50s\"");
    struct running_runner running = runner_start(t, NULL);
    wait_until(pause_ms_of(running.runner, id) > 0, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_waits_in_queue(t, id);
}

/* Symptom: an attempt that ended while the worker drained was followed by another. */
TEST(runner_pause, LS_6_an_attempt_that_fails_while_the_worker_drains_is_its_last)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t,
                          "echo x >> $T/tries; until test -e $T/cured; do sleep 0.05; done; "
                          "exit 75",
                          ",\"pause\":\"0s\",\"attempts\":5,\"no_progress_limit\":9");
    struct running_runner running = runner_start(t, NULL);
    wait_until(tries() == 1, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    touch("cured");
    runner_join(&running);
    check_int(tries(), ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:exit.75");
    check_str(job_of(t, id)->changed_why, "worker w was told to stop");
}

/* What is under way is brought to its end: a job whose steps succeed is done. */
TEST(runner_pause, LS_6_the_steps_after_one_that_succeeds_begin_while_the_worker_drains)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(
        t, keep_text("{\"env\":{\"T\":\"%s\"},\"steps\":[{\"run\":\"echo x >> $T/tries; until "
                     "test -e $T/cured; do sleep 0.05; done\"},{\"run\":\"true\"}]}",
                     test_folder()));
    struct running_runner running = runner_start(t, NULL);
    wait_until(tries() == 1, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    touch("cured");
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_DONE);
}

TEST(runner_pause, a_cancel_ends_the_pause)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t, UNTIL_CURED, ",\"pause\":\"50s\",\"pause_max\":\"50s\"");
    struct running_runner running = runner_start(t, NULL);
    wait_until(pause_ms_of(running.runner, id) > 0, PATIENCE_MS);
    check_ok(t, tend_act(t, TEND_CANCEL, id, "me", NULL));
    wait_until(pause_ms_of(running.runner, id) == 0, PATIENCE_MS);
    end_runner(&running);
    check_int(state_of(t, id), ==, TEND_CANCELLED);
    check_int(tries(), ==, 1);
}

/* The rest of the pause is the successor's: what was asked for by a server holds for it, too. */
TEST(runner_pause, a_pause_goes_on_in_the_worker_that_follows_a_killed_one)
{
    tend *t = store_open_real("operator");
    struct tend_control_result result;
    int64_t id =
        add_step(t, "echo retry_after=50s >> $TEND_OUTPUT; " UNTIL_CURED, ",\"pause\":\"0s\"");
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    struct helper worker = helper_start(runner_forever, "worker");
    helper_hear(&worker);
    wait_until(sql_int("SELECT count(*) FROM attempt WHERE state = 2") == 1, PATIENCE_MS);
    helper_kill(&worker);
    struct running_runner running = runner_start(t, NULL);
    wait_until(pause_ms_of(running.runner, id) > 0, PATIENCE_MS);
    check_int(tries(), ==, 1);
    touch("cured");
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
}

/* WF-7. Symptom: the only slot was kept for the whole pause. */
TEST(runner_pause, a_long_pause_gives_the_slot_to_others)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    static const struct tend_kind_limit one = {.kind = "shell", .limit = 1};
    options.limits = &one;
    options.limit_count = 1;
    int64_t pausing = add_step(t, UNTIL_CURED, ",\"pause\":\"50s\",\"pause_max\":\"50s\"");
    int64_t other = add_step(t, "true", "");
    struct running_runner running = runner_start(t, &options);
    wait_until(state_of(t, other) == TEND_DONE, PATIENCE_MS);
    wait_until(pause_ms_of(running.runner, pausing) > 0, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(tries(), ==, 1);
}

/* More than a minute is no time to hold a lease. The step goes on counting. */
TEST(runner_pause, a_pause_of_more_than_a_minute_is_spent_in_the_queue)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t, "echo retry_after=2m >> $TEND_OUTPUT; exit 75", ",\"attempts\":2");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_contains(job_of(t, id)->changed_why, "step step-1 pauses 2m before attempt 2");
    check_int(job_of(t, id)->attempts, ==, 0);
    sql_exec("UPDATE job SET due_at = 1, alarm_at = 1");
    sql_exec("UPDATE attempt SET next_at = 1");
    wait_until((run_until_drained(t), sql_int("SELECT count(*) FROM attempt") == 2), PATIENCE_MS);
    check_str(attempts_of(t, id),
              "1:failed:transient_runtime:exit.75 2:failed:transient_runtime:exit.75");
    check_int(job_of(t, id)->attempts, ==, 1);
}

/* Without a wish the job would wait for about 15 seconds. */
TEST(runner_pause, a_short_retry_after_does_not_shorten_the_wait_in_the_queue)
{
    tend *t = store_open_real("w");
    int64_t id = add_step(t, "echo retry_after=1s >> $TEND_OUTPUT; exit 75", ",\"attempts\":1");
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    const struct tend_job *job = job_of(t, id);
    check_int(job->due_at_ms - job->changed_at_ms, >, 10000);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}
