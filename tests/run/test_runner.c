/*
 * A runner with real processes: what a job says is done, what fails is healed, nothing is left
 * running or leased.
 */
#include "support/store.h"

#include "runner_case.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

TEST(runner, a_command_runs_and_its_job_is_done)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo hello > made\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("made"), "hello\n");
    check_str(events_of(t, id), "job.added job.claimed task.step.attempt.started "
                                "task.step.attempt.finished job.completed");
}

/* SH-1: steps run one after another, each in a process of its own. */
TEST(runner, SH_1_steps_run_in_their_order)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"steps\":[{\"run\":\"echo one >> made\"},"
                             "{\"exec\":[\"sh\",\"-c\",\"echo two >> made\"]},{\"sleep\":\"1ms\"},"
                             "{\"run\":\"echo three >> made\"}]}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("made"), "one\ntwo\nthree\n");
}

/* SH-6: a failure that passes is tried again in a fresh process. */
TEST(runner, SH_6_a_step_that_fails_once_is_tried_again)
{
    tend *t = store_open_real("w");
    int64_t id =
        add_plan(t, "{\"run\":\"echo x >> tries; test $(wc -l < tries) -ge 2 || exit 75\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("tries"), "x\nx\n");
    check_str(attempts_of(t, id), "1:failed:transient_runtime:exit.75 2:succeeded::");
}

/* SH-4: what another attempt cannot mend is not tried again. */
TEST(runner, SH_4_a_deterministic_failure_fails_the_job_at_once)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; exit 64\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(file_text("tries"), "x\n");
    check_str(job_of(t, id)->error_class, "deterministic_contract");
}

TEST(runner, a_command_that_does_not_exist_is_a_clear_failure)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"exec\":[\"no-such-command-here\"]}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(job_of(t, id)->error_class, "deterministic_contract");
    check_contains(job_of(t, id)->error_text, "no-such-command-here");
}

/* SH-2: idle time. What the step started goes with it. */
TEST(runner, SH_2_a_step_that_hangs_is_ended_and_tried_again)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; test $(wc -l < tries) -ge 2 && exit 0; "
                             "sleep 600 & echo $! > child; sleep 600\","
                             "\"idle_timeout\":\"3s\",\"grace\":\"100ms\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(attempts_of(t, id), "1:failed:transient_runtime:timeout.idle");
    check_contains(summaries_of(t, id), "no output for 3s (idle_timeout)");
    wait_until(kill((pid_t)file_number("child"), 0) < 0, PATIENCE_MS);
}

TEST(runner, SH_2_wall_time_counts_although_there_is_output)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; test $(wc -l < tries) -ge 2 && exit 0; "
                             "while :; do echo more; sleep 0.02; done\",\"timeout\":\"3s\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(attempts_of(t, id), "1:failed:transient_runtime:timeout.wall");
    check_contains(summaries_of(t, id), "wall timeout of 3s reached (\"timeout\" of the step");
}

/* SH-11: used up in the step, the queue's own attempts take over, and go on where it stopped. */
TEST(runner, SH_11_an_exhausted_step_fails_the_job_for_the_queue_to_retry)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"steps\":[{\"run\":\"echo a >> first\"},"
                             "{\"run\":\"echo x >> tries; test -f cured || exit 75\"}]}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_contains(events_of(t, id), "task.self_heal.exhausted");
    check_int(job_of(t, id)->attempts, ==, 1);
    check(file_text("tries") != NULL && system("touch cured") == 0);
    check_ok(t, tend_act(t, TEND_HOLD, id, "me", NULL));
    sql_exec("UPDATE job SET due_at = 1 WHERE id = %lld", (long long)id);
    check_ok(t, tend_act(t, TEND_RESUME, id, "me", NULL));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("first"), "a\n");
}

TEST(runner, a_handler_gets_the_payload_and_gives_the_result)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_handler handler = {.kind = "greet", .command = "sed s/world/you/"};
    struct tend_runner_options options = runner_options();
    spec.kind = "greet";
    spec.payload = "{\"hello\":\"world\"}";
    int64_t id = add_spec(t, &spec);
    options.handlers = &handler;
    options.handler_count = 1;
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(job_of(t, id)->result, "{\"hello\":\"you\"}");
}

/* Another worker may have the handler: the job is not failed by one that has not. */
TEST(runner, a_job_nobody_here_can_do_is_given_back_and_says_why)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    spec.kind = "unheard-of";
    int64_t id = add_spec(t, &spec);
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_contains(job_of(t, id)->changed_why, "no handler for kind 'unheard-of'");
}

/* Symptom: it failed for good, as a mistake of the job, on the first worker without the folder. */
TEST(runner, a_job_whose_folder_is_not_here_is_given_back_and_says_which)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    spec.by = "ann@laptop";
    spec.payload = "{\"run\":\"true\"}";
    spec.workspace = "/not/there";
    int64_t id = add_spec(t, &spec);
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_contains(job_of(t, id)->changed_why, "its folder \"/not/there\" cannot be entered on ");
    check_contains(job_of(t, id)->changed_why,
                   "No such file or directory. It was added by ann@laptop");
    /* A file is none, either; and what runs no process needs none. */
    spec.workspace = "/dev/null";
    id = add_spec(t, &spec);
    spec.payload = "{\"sleep\":\"1ms\"}";
    int64_t sleeps = add_spec(t, &spec);
    run_until_drained(t);
    check_contains(job_of(t, id)->changed_why, "it is not a folder");
    check_int(state_of(t, sleeps), ==, TEND_DONE);
}

static int said_of_kinds;

static void count_kinds(void *arg, const struct tend_runner_news *news)
{
    (void)arg;
    said_of_kinds += strstr(news->text, "no handler for") != NULL;
}

/* The worker said so every 30 seconds, for ever. */
TEST(runner, a_kind_without_a_handler_is_told_once)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    struct tend_job_spec spec = spec_for("q");
    for (int i = 0; i < 4; i++) {
        spec.kind = i % 2 == 0 ? "unheard-of" : "";
        add_spec(t, &spec);
    }
    options.tell = count_kinds;
    run_with(t, &options);
    check_int(count_events("job.released"), ==, 4);
    check_int(said_of_kinds, ==, 2);
}

/* Nothing is to be heard of it. */
TEST(runner, a_sleep_is_not_silent)
{
    tend *t = store_open_real("w");
    add_plan(t, "{\"sleep\":\"1h\"}");
    struct running_runner running = runner_start(t, NULL);
    struct tend_running steps[1];
    wait_until(tend_runner_look(running.runner, steps, 1) == 1 && steps[0].running_ms > 20,
               PATIENCE_MS);
    check_int(steps[0].silent_ms, ==, 0);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
}

/* SH-16: output is in the store, by attempt and stream. */
TEST(runner, SH_16_output_can_be_read)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo out; echo err >&2\"}");
    run_until_drained(t);
    check_str(output_of(t, id, 1), "out\n");
    check_str(output_of(t, id, 2), "err\n");
}

/* SH-15 */
TEST(runner, SH_15_secrets_of_the_job_are_not_stored)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo it is $MY_TOKEN; echo it is $MY_TOKEN >&2; exit 64\","
                             "\"env\":{\"MY_TOKEN\":\"hunter2hunter2\"}}");
    run_until_drained(t);
    check_str(output_of(t, id, 1), "it is [redacted]\n");
    check(strstr(job_of(t, id)->error_text, "hunter2hunter2") == NULL);
    check_int(sql_int("SELECT count(*) FROM event WHERE data LIKE '%%hunter2%%' OR why LIKE "
                      "'%%hunter2%%'"),
              ==, 0);
}

/* LS-6: nothing stays leased or running. */
TEST(runner, LS_6_a_stop_at_once_gives_the_job_back_free_of_charge)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"sleep 600 & echo $! > child; wait\",\"grace\":\"100ms\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(file_text("child") != NULL, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_int(job_of(t, id)->crashes, ==, 0);
    check(kill((pid_t)file_number("child"), 0) < 0);
    check_contains(attempts_of(t, id), "1:stopped");
    check_str(summaries_of(t, id), "worker w was told to stop\n");
    check_str(job_of(t, id)->changed_why, "worker w was told to stop");
}

TEST(runner, LS_6_a_stop_waits_for_what_runs)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"touch begun; while ! test -f go; do sleep 0.01; done\"}");
    int64_t later = add_plan(t, "{\"run\":\"true\"}");
    struct tend_runner_options options = runner_options();
    options.limit_others = 1;
    struct running_runner running = runner_start(t, &options);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    check_int(system("touch go"), ==, 0);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(state_of(t, later), ==, TEND_PENDING);
}

/* RC-11: the lease was taken away: the process goes. */
TEST(runner, RC_11_a_cancelled_job_is_stopped)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"sleep 600 & echo $! > child; wait\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(file_text("child") != NULL, PATIENCE_MS);
    check_ok(t, tend_act(t, TEND_CANCEL, id, "me", "enough"));
    wait_until(kill((pid_t)file_number("child"), 0) < 0, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_CANCELLED);
}

/*
 * Runs a step much longer than the lease. A machine that stands still for two thirds of a lease
 * must end the step, so one of several such jobs has to come through at its first attempt.
 */
static void outlive_a_lease_of(const char *lease, const char *seconds)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "lease", lease);
    for (int i = 0; i < 10; i++) {
        int64_t id = add_plan(t, keep_text("{\"run\":\"sleep %s\",\"attempts\":1}", seconds));
        run_until_drained(t);
        if (state_of(t, id) == TEND_DONE &&
            job_of(t, id)->token == sql_int("SELECT token_base + 1 FROM store"))
            return;
    }
    test_fail(__FILE__, __LINE__, "no lease of %s was held for %s s", lease, seconds);
}

/* A lease is held however long the step runs. */
TEST(runner, a_step_may_last_longer_than_its_lease)
{
    outlive_a_lease_of("1s", "3");
}

/* SH-12: pause takes hold before the next attempt; resumed, the job goes on. */
TEST(runner, SH_12_a_pause_takes_hold_at_the_boundary_and_resume_goes_on)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id =
        add_plan(t, "{\"steps\":[{\"run\":\"touch begun; while ! test -f go; do sleep 0.01; "
                    "done; echo a >> first\"},{\"run\":\"echo b >> second\"}]}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "pause", NULL, "lunch", "me", &result));
    wait_until(sql_int("SELECT count(*) FROM control WHERE taken_at IS NOT NULL") == 1,
               PATIENCE_MS);
    check_int(system("touch go"), ==, 0);
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    check_str(file_text("first"), "a\n");
    check(file_text("second") == NULL);
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text("first"), "a\n");
    check_str(file_text("second"), "b\n");
    check_int(job_of(t, id)->attempts, ==, 1);
}

TEST(runner, SH_12_retry_step_begins_the_step_anew)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; test $(wc -l < tries) -ge 2 && exit 0; "
                             "touch begun; sleep 600\",\"grace\":\"100ms\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "retry_step", NULL, "hangs", "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(attempts_of(t, id), "1:stopped:: 1:succeeded::");
    check_str(summaries_of(t, id), "retry_step by me: hangs\n\n");
}

/* WF-7 */
TEST(runner, WF_7_limits_hold_per_kind)
{
    tend *t = store_open_real("w");
    struct tend_kind_limit limit = {.kind = "shell", .limit = 2};
    struct tend_runner_options options = runner_options();
    options.limits = &limit;
    options.limit_count = 1;
    for (int i = 0; i < 8; i++)
        add_plan(t, "{\"run\":\"touch in.$$; ls in.* | wc -l >> counts; sleep 0.05; rm in.$$\"}");
    run_with(t, &options);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, 8);
    check(strchr(file_text("counts"), '3') == NULL);
}

TEST(runner, SH_12_a_pause_that_was_taken_back_does_not_hold_the_job)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_plan(
        t, "{\"steps\":[{\"run\":\"touch begun; while ! test -f go; do sleep 0.01; done\"},"
           "{\"run\":\"true\"}]}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "pause", NULL, NULL, "me", &result));
    wait_until(sql_int("SELECT count(*) FROM control WHERE taken_at IS NOT NULL") == 1,
               PATIENCE_MS);
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", &result));
    wait_until(sql_int("SELECT count(*) FROM control WHERE taken_at IS NOT NULL") == 2,
               PATIENCE_MS);
    check_int(system("touch go"), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* A step says when to come again, and is waited for. */
TEST(runner, retry_after_is_kept_before_the_next_attempt)
{
    tend *t = store_open_real("w");
    int64_t id =
        add_plan(t, "{\"run\":\"date +%s%N >> times; test $(wc -l < times) -ge 2 && exit 0; "
                    "echo retry_after=1s >> $TEND_OUTPUT; exit 75\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    long long first = file_number("times");
    long long second = strtoll(strchr(file_text("times"), '\n') + 1, NULL, 10);
    check_int(second - first, >=, 1000000000LL);
}

/* What a step prints may be nested as deeply as it likes. */
TEST(runner, deeply_nested_output_does_no_harm)
{
    tend *t = store_open_real("w");
    struct tend_handler handler = {
        .kind = "deep",
        .command = "printf '[%.0s' $(seq 2040); printf '{\"a\":%.0s' $(seq 2040) >> $TEND_OUTPUT"};
    struct tend_job_spec spec = spec_for("q");
    struct tend_runner_options options = runner_options();
    spec.kind = "deep";
    options.handlers = &handler;
    options.handler_count = 1;
    int64_t id = add_spec(t, &spec);
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
}

/* Redacting a result must not make it something the store refuses. */
TEST(runner, SH_15_a_result_with_a_secret_in_it_stays_json)
{
    tend *t = store_open_real("w");
    struct tend_handler handler = {
        .kind = "leak", .command = "echo '{\"m\":\"password=abcdef12 unclosed\",\"x\":1}'"};
    struct tend_job_spec spec = spec_for("q");
    struct tend_runner_options options = runner_options();
    spec.kind = "leak";
    options.handlers = &handler;
    options.handler_count = 1;
    int64_t id = add_spec(t, &spec);
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(job_of(t, id)->result, "\"x\":1");
    check(strstr(job_of(t, id)->result, "abcdef12") == NULL);
}

/* TEND_OUTPUT as a link to something endless. */
TEST(runner, a_report_without_end_does_not_hold_up_the_step)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"ln -s /dev/zero $TEND_OUTPUT; sleep 0.5\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
}

TEST(runner, a_lease_shorter_than_a_second_is_kept)
{
    outlive_a_lease_of("400ms", "2");
}

TEST(runner, a_lease_keeps_its_length_when_the_queue_gets_a_shorter_one)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x >> tries; touch begun; sleep 3\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    set_queue(t, "q", "lease", "500ms");
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text("tries"), "x\n");
}
