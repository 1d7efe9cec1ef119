/*
 * A step that goes on under another lease: after a pause, a stop, a killed worker. Its attempts and
 * its failures go on with it, so that no budget is given twice and no loop hidden (SH-1, SH-3,
 * SH-7, 003 §18 "pause/resume around retry boundary").
 */
#include "runner_case.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Counts its tries in "n", says "begun.N", waits for "go.N", and fails with $1 as its error. */
#define TRY                                                                                        \
    "n=$(cat $T/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > $T/n; touch $T/begun.$n; "         \
    "until test -e $T/go.$n; do sleep 0.01; done; "
/* Words, as numbers would be masked in the signature. */
#define FAIL_OTHERWISE "echo error: $(echo $n | tr 0-9 a-j)zz >&2; exit 75"
#define FAIL_ALIKE "echo error: the same >&2; exit 75"

static int64_t add_tries(tend *t, const char *command, const char *more)
{
    struct tend_job_spec spec = spec_for("q");
    spec.payload = keep_text("{\"env\":{\"T\":\"%s\"},\"run\":\"%s\",\"grace\":\"100ms\"%s}",
                             test_folder(), command, more);
    spec.max_attempts = 1;
    return add_spec(t, &spec);
}

static bool there_is(const char *name, int number)
{
    return access(keep_text("%s/%s.%d", test_folder(), name, number), F_OK) == 0;
}

static void let_go(int number)
{
    check_int(system(keep_text("touch %s/go.%d", test_folder(), number)), ==, 0);
}

/* Asks for a pause while try number runs, lets that end, and waits until the pause has hold. */
static void pause_after(tend *t, int64_t id, int number)
{
    struct tend_control_result result;
    wait_until(there_is("begun", number), PATIENCE_MS);
    check_ok(t, tend_control(t, id, "pause", NULL, NULL, "me", &result));
    wait_until(sql_int("SELECT count(*) FROM control WHERE id = %lld AND taken_at IS NOT NULL",
                       (long long)result.control_id) == 1,
               PATIENCE_MS);
    let_go(number);
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
}

static void resume(tend *t, int64_t id)
{
    struct tend_control_result result;
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", &result));
}

/* "1:first:failed 2:soft_reset:failed": number in the step, strategy, state. */
static const char *tries_of(tend *t, int64_t id)
{
    struct tend_attempts *attempts;
    const char *text = "";
    check_ok(t, tend_attempts(t, id, &attempts));
    for (size_t i = 0; i < attempts->count; i++)
        text = keep_text("%s%s%lld:%s:%s", text, i == 0 ? "" : " ",
                         (long long)attempts->items[i].attempt, attempts->items[i].strategy,
                         tend_attempt_state_name(attempts->items[i].state));
    tend_attempts_free(attempts);
    return text;
}

static void end_runner(struct running_runner *running)
{
    tend_runner_stop(running->runner, 0);
    runner_join(running);
}

/* Symptom: with a pause at each boundary every attempt was the first, for ever. */
TEST(runner_resume, SH_1_a_pause_at_each_retry_boundary_gives_no_attempt_more)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t, TRY FAIL_OTHERWISE, "");
    struct running_runner running = runner_start(t, NULL);
    for (int number = 1; number <= 2; number++) {
        pause_after(t, id, number);
        resume(t, id);
    }
    let_go(3);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:failed 3:soft_reset:failed");
    check_str(job_of(t, id)->error_class, "transient_runtime");
    check_contains(job_of(t, id)->error_text, "attempt 3 of 3");
    check_int(count_events("task.self_heal.exhausted"), ==, 1);
}

TEST(runner_resume, SH_3_no_progress_is_seen_over_a_pause)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t, TRY FAIL_ALIKE, ",\"attempts\":9");
    struct running_runner running = runner_start(t, NULL);
    pause_after(t, id, 1);
    resume(t, id);
    let_go(2);
    let_go(3);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:failed 3:soft_reset:failed");
    check_str(job_of(t, id)->error_class, "stuck_no_progress");
}

/* An unknown failure is transient once, under whatever lease it comes back. */
TEST(runner_resume, SH_5_an_unknown_failure_that_comes_back_after_a_pause_is_known_to_have)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t, TRY "echo odd >&2; exit 1", ",\"step_no_progress_limit\":9");
    struct running_runner running = runner_start(t, NULL);
    pause_after(t, id, 1);
    resume(t, id);
    let_go(2);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(attempts_of(t, id),
              "1:failed:transient_runtime:unknown 2:failed:stuck_no_progress:unknown.again");
}

/* SH-8: what went wrong is told to the next attempt, whoever makes it. */
TEST(runner_resume, SH_8_the_retry_context_goes_on_over_a_pause)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t,
                           TRY "test $n = 1 || exec cp $TEND_RETRY_CONTEXT $T/context; "
                               "echo error: the socket broke >&2; exit 75",
                           "");
    struct running_runner running = runner_start(t, NULL);
    pause_after(t, id, 1);
    resume(t, id);
    let_go(2);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_contains(file_text("context"), "the socket broke");
    check_contains(file_text("context"), "\"attempt\": 2");
    check_contains(file_text("context"), "\"strategy\": \"soft_reset\"");
}

/* A stop burns nothing, and gives nothing back. */
TEST(runner_resume, SH_1_an_attempt_that_was_stopped_is_made_again_and_the_failures_before_count)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t, TRY FAIL_OTHERWISE, "");
    struct running_runner running = runner_start(t, NULL);
    let_go(1);
    wait_until(there_is("begun", 2), PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_PENDING);
    for (int number = 2; number <= 9; number++)
        let_go(number);
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:stopped 2:soft_reset:failed "
                               "3:soft_reset:failed");
}

/* RC-3: a crash is counted apart from failures. */
TEST(runner_resume, SH_1_a_killed_worker_is_followed_by_one_that_goes_on_counting)
{
    tend *t = store_open_real("operator");
    int64_t id = add_tries(t, TRY FAIL_OTHERWISE, "");
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    struct helper worker = helper_start(runner_forever, "worker");
    helper_hear(&worker);
    let_go(1);
    wait_until(there_is("begun", 2), PATIENCE_MS);
    helper_kill(&worker);
    for (int number = 2; number <= 9; number++)
        let_go(number);
    wait_until((run_until_drained(t), state_of(t, id) == TEND_FAILED), PATIENCE_MS);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:lost 2:soft_reset:failed "
                               "3:soft_reset:failed");
    check_int(job_of(t, id)->crashes, ==, 1);
}

/* Killed while nothing runs: the step had asked not to be tried again at once. */
TEST(runner_resume, SH_1_a_worker_killed_between_attempts_is_followed_by_one_that_goes_on_counting)
{
    tend *t = store_open_real("operator");
    int64_t id = add_tries(
        t, TRY "test $n -gt 1 || echo retry_after=50s >> $TEND_OUTPUT; " FAIL_OTHERWISE, "");
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    struct helper worker = helper_start(runner_forever, "worker");
    helper_hear(&worker);
    for (int number = 1; number <= 9; number++)
        let_go(number);
    wait_until(sql_int("SELECT count(*) FROM attempt WHERE state = 2") == 1, PATIENCE_MS);
    helper_kill(&worker);
    sql_exec("UPDATE attempt SET next_at = 0"); /* the successor would wait for the rest, too */
    wait_until((run_until_drained(t), state_of(t, id) == TEND_FAILED), PATIENCE_MS);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:failed 3:soft_reset:failed");
}

/* A redriven job has a new life, and full budgets. */
TEST(runner_resume, SH_11_a_redriven_job_has_all_its_attempts_again)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t, TRY FAIL_OTHERWISE, ",\"attempts\":2");
    for (int number = 1; number <= 9; number++)
        let_go(number);
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "me", NULL));
    run_until_drained(t);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:failed 1:first:failed "
                               "2:soft_reset:failed");
}

/* ... and so has one that the queue tries again, also when it is paused in its second life. */
TEST(runner_resume, SH_11_a_retry_of_the_queue_gives_all_attempts_once_more_and_not_twice)
{
    tend *t = store_open_real("w");
    int64_t id = add_tries(t, TRY FAIL_OTHERWISE, ",\"attempts\":2");
    sql_exec("UPDATE job SET max_attempts = 2, backoff_ms = 1 WHERE id = %lld", (long long)id);
    struct running_runner running = runner_start(t, NULL);
    let_go(1);
    let_go(2);
    pause_after(t, id, 3);
    resume(t, id);
    let_go(4);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:failed 1:first:failed "
                               "2:soft_reset:failed");
}

TEST(runner_resume, SH_12_retry_step_of_a_held_job_begins_the_step_anew)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_tries(t, TRY FAIL_OTHERWISE, ",\"attempts\":2");
    struct running_runner running = runner_start(t, NULL);
    pause_after(t, id, 1);
    check_ok(t, tend_control(t, id, "retry_step", NULL, "mended", "me", &result));
    let_go(2);
    let_go(3);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(tries_of(t, id), "1:first:failed 1:first:failed 2:soft_reset:failed");
}

/* --- with a workspace --- */

static const char *in_workspace(const char *more)
{
    check_int(system(keep_text("cd %s && git init -q -b main repo && cd repo && git -c "
                               "user.email=a@b -c user.name=n commit -q --allow-empty -m one",
                               test_folder())),
              ==, 0);
    return keep_text(",\"workspace\":{\"repo\":\"%s/repo\"}%s", test_folder(), more);
}

/* A reset that was decided before the pause is made after it, and counts once. */
TEST(runner_resume, SH_7_a_hard_reset_decided_before_a_pause_is_made_after_it_and_counted_once)
{
    tend *t = store_open_real("w");
    int64_t id =
        add_tries(t, TRY FAIL_ALIKE, in_workspace(",\"attempts\":9,\"step_no_progress_limit\":1"));
    struct running_runner running = runner_start(t, NULL);
    let_go(1);
    pause_after(t, id, 2);
    check_int(count_events("task.self_heal.escalated"), ==, 1);
    resume(t, id);
    let_go(3);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(tries_of(t, id), "1:first:failed 2:soft_reset:failed 3:hard_reset:failed");
    check_str(job_of(t, id)->error_class, "stuck_no_progress");
    check_int(count_events("task.self_heal.escalated"), ==, 1);
}

/* Symptom: it was recorded as a first attempt, and the job had its own reset on top. */
TEST(runner_resume, SH_12_an_operators_hard_reset_is_recorded_as_one_and_counts)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_tries(t, TRY "pwd >> $T/places; " FAIL_ALIKE,
                           in_workspace(",\"step_no_progress_limit\":1"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(there_is("begun", 1), PATIENCE_MS);
    check_ok(t, tend_control(t, id, "hard_reset_step", NULL, "odd", "me", &result));
    pause_after(t, id, 2); /* also under another lease */
    resume(t, id);
    for (int number = 3; number <= 9; number++)
        let_go(number);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    end_runner(&running);
    check_str(tries_of(t, id), "1:first:stopped 1:hard_reset:failed 2:soft_reset:failed");
    check_str(job_of(t, id)->error_class, "stuck_no_progress");
    check_int(count_events("task.self_heal.escalated"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.step.attempt.started' AND "
                      "data LIKE '%%hard_reset%%'"),
              ==, 1);
}

/*
 * What earlier runs have left is asked for only where there may be one: a row that nobody could
 * have written is not seen by a first run. Symptom: every first run asked in vain, as it knew
 * itself by the token, and tokens begin anywhere.
 */
TEST(runner_resume, a_first_run_does_not_ask_for_earlier_attempts)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    int64_t again = add_plan(t, "{\"run\":\"true\"}");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    int64_t first = add_plan(t, "{\"run\":\"true\"}");
    sql_exec("INSERT INTO attempt (job_id, number, step_index, step_id, attempt, token, host, "
             "boot_id, marker, state, may_live, strategy, started_at, ended_at, failure_class) "
             "SELECT id, 1, 1, 'step-1', 1, 1, 'h', 'b', 'm', 2, 0, 'first', 1, 2, "
             "'transient_runtime' FROM job");
    run_with(t, &options);
    check_str(attempts_of(t, first), "1:failed:transient_runtime: 1:succeeded::");
    check_str(attempts_of(t, again), "1:failed:transient_runtime: 2:succeeded::");
}

/* Else the worker would hear of it when the step runs already, end that, and run it twice. */
TEST(runner_resume, what_is_asked_while_nobody_has_the_job_is_done_before_the_next_attempt)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"grace\":\"100ms\",\"run\":\"echo x >> ran; until test -e gate; do "
                             "sleep 0.01; done\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(file_text("ran") != NULL, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_ok(t, tend_control(t, id, "hard_reset_step", NULL, NULL, "me", NULL));
    running = runner_start(t, NULL);
    wait_until(strcmp(file_text("ran"), "x\nx\n") == 0, PATIENCE_MS);
    wait_until(sql_int("SELECT count(*) FROM control WHERE done_at IS NOT NULL") == 1, PATIENCE_MS);
    check_int(system("touch gate"), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_str(file_text("ran"), "x\nx\n");
    check_str(tries_of(t, id), "1:first:stopped 1:hard_reset:succeeded");
}

/* Symptom: "could not keep its lease in time" stood there, as if the worker had been too slow. */
TEST(runner_resume, SH_12_an_attempt_that_a_takeover_stopped_says_so_when_it_is_taken_back)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    int64_t id = add_plan(t, "{\"grace\":\"2s\",\"run\":\"test ! -e begun || exit 0; trap 'touch "
                             "told' TERM; touch begun; while :; do sleep 0.05; done\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "takeover", NULL, "let me", "me", &result));
    wait_until(access("told", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_contains(summaries_of(t, id), "takeover by me: let me");
    check_str(attempts_of(t, id), "1:stopped:: 1:succeeded::");
}
