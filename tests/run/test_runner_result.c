/*
 * The result of a job whose first step gives it and whose second does not: the same, whatever comes
 * in between (SH-10, SH-12).
 */
#include "runner_case.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char first[] =
    "echo '{\"result\":{\"files\":[3,0.1],\"of\":\"\u00e4\"}}' >> $TEND_OUTPUT\n"
    "echo v=1 >> $TEND_OUTPUT\n"
    "touch begun\n"
    "while ! test -f go; do sleep 0.01; done\n";
static const char second[] = "cp $TEND_INPUT seen\n"
                             "touch second\n"
                             "while ! test -f on; do sleep 0.01; done\n";

static const char plan[] = "{\"steps\":[{\"id\":\"a\",\"run\":\"sh ./first.sh\"},"
                           "{\"id\":\"b\",\"run\":\"sh ./second.sh\",\"grace\":\"100ms\"}]}";

static void write_script(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");
    check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* What the job comes to when nothing disturbs it. Nothing is left of it but the scripts. */
static const char *undisturbed(tend *t)
{
    struct tend_runner_options options = runner_options();
    write_script("first.sh", first);
    write_script("second.sh", second);
    check_int(system("touch go on"), ==, 0);
    int64_t id = add_plan(t, plan);
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(file_text("seen"), "\"outputs\":{\"a\":{\"v\":\"1\"}}");
    check_int(system("rm go on begun second seen"), ==, 0);
    check_contains(job_of(t, id)->result, "files");
    return keep_text("%s", job_of(t, id)->result);
}

static void check_same(tend *t, int64_t id, const char *result)
{
    check_str(job_of(t, id)->result, result);
    check_contains(file_text("seen"), "\"outputs\":{\"a\":{\"v\":\"1\"}}");
}

static void end_runner(struct running_runner *running)
{
    tend_runner_stop(running->runner, 0);
    runner_join(running);
}

/* A job whose worker has heard of the pause, while the first step runs. */
static int64_t pause_in_first_step(tend *t)
{
    int64_t id = add_plan(t, plan);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "pause", NULL, NULL, "me", NULL));
    wait_until(sql_int("SELECT count(*) FROM control WHERE taken_at IS NOT NULL") == 1,
               PATIENCE_MS);
    return id;
}

/* Symptom: what a step before the pause had given as the result was lost. */
TEST(runner_result, SH_10_a_pause_between_steps_does_not_change_it)
{
    tend *t = store_open_real("w");
    const char *result = undisturbed(t);
    struct running_runner running = runner_start(t, NULL);
    int64_t id = pause_in_first_step(t);
    check_int(system("touch go on"), ==, 0);
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    check(access("second", F_OK) != 0);
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", NULL));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_same(t, id, result);
}

static const char *outputs_of_step(int64_t id, int step_index)
{
    return sql_rows("SELECT outputs FROM checkpoint WHERE job_id = %lld AND step_index = %d",
                    (long long)id, step_index);
}

/*
 * The step ends after the pause was taken back, and before its worker hears of that. Symptom: the
 * hold was refused, and the checkpoint was written without outputs and result (SH-9).
 */
TEST(runner_result, SH_10_a_pause_that_is_taken_back_as_a_step_ends_does_not_change_it)
{
    tend *t = store_open_real("w");
    const char *result = undisturbed(t);
    struct running_runner running = runner_start(t, NULL);
    int64_t id = pause_in_first_step(t);
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", NULL));
    check_int(system("touch go"), ==, 0);
    wait_until(access("second", F_OK) == 0, PATIENCE_MS);
    check_contains(outputs_of_step(id, 1), "\"v\":\"1\"");
    check_contains(outputs_of_step(id, 1), "\"result\":{\"files\"");
    check_int(system("touch on"), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_same(t, id, result);
}

/* A script that puts out "deep", an array in arrays. */
static void write_deep_script(int levels)
{
    write_script("deep.sh", keep_text("open=$(printf '[%%.0s' $(seq %d))\n"
                                      "close=$(printf ']%%.0s' $(seq %d))\n"
                                      "echo \"{\\\"deep\\\":$open$close}\" >> $TEND_OUTPUT\n"
                                      "echo v=1 >> $TEND_OUTPUT\n",
                                      levels, levels));
}

/*
 * Outputs are the result of a job that gives no other, two levels deeper than they are themselves.
 * Symptom: the job failed because of that.
 */
TEST(runner_result, an_output_that_is_too_deep_for_a_result_is_left_out_and_a_warning)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    check_int(chdir(test_folder()), ==, 0);
    write_deep_script(511);
    int64_t id = add_plan(t, "{\"run\":\"sh ./deep.sh\"}");
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(job_of(t, id)->result, "{\"step-1\":{\"v\":\"1\"}}");
    check_contains(output_of(t, id, 0), "deep is left out: it is nested deeper than 510 levels");
    write_deep_script(510);
    id = add_plan(t, "{\"run\":\"sh ./deep.sh\"}");
    run_with(t, &options);
    check_contains(job_of(t, id)->result, "{\"step-1\":{\"deep\":[[[");
}

/* What an earlier version has taken of a step that is done. */
TEST(runner_result, outputs_that_are_too_deep_for_a_result_leave_the_job_done_without_one)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    int64_t id = add_plan(t, "{\"steps\":[{\"id\":\"a\",\"run\":\"echo v=1 >> $TEND_OUTPUT\"},"
                             "{\"id\":\"b\",\"run\":\"echo w=1 >> $TEND_OUTPUT; test -e go || exit "
                             "64\"}]}");
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_FAILED);
    char deep[2 * 511 + 1] = "";
    memset(deep, '[', 511);
    memset(deep + 511, ']', 511);
    sql_exec("UPDATE checkpoint SET outputs = '{\"deep\":%s}' WHERE step_index = 1", deep);
    check_int(system("touch go"), ==, 0);
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", NULL));
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(job_of(t, id)->result, NULL);
    check_contains(outputs_of_step(id, 1), "{\"deep\":[[[");
    check_contains(outputs_of_step(id, 2), "\"w\":\"1\"");
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.step.warning' AND why LIKE "
                      "'no result is stored: %%512 levels%%'"),
              ==, 1);
}

TEST(runner_result, SH_10_a_worker_killed_in_a_later_step_does_not_change_it)
{
    tend *t = store_open_real("w");
    const char *result = undisturbed(t);
    int64_t id = add_plan(t, plan);
    check_int(system("touch go"), ==, 0);
    struct helper worker = helper_start(runner_forever, "doomed");
    helper_hear(&worker);
    wait_until(access("second", F_OK) == 0, PATIENCE_MS);
    helper_kill(&worker);
    check_int(system("rm seen; touch on"), ==, 0);
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_same(t, id, result);
}

TEST(runner_result, SH_12_going_back_to_a_later_step_does_not_change_it)
{
    tend *t = store_open_real("w");
    const char *result = undisturbed(t);
    int64_t id = add_plan(t, plan);
    check_int(system("touch go"), ==, 0);
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("second", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "resume_from_step", "b", NULL, "me", NULL));
    wait_until(sql_int("SELECT count(*) FROM control WHERE done_at IS NOT NULL") == 1, PATIENCE_MS);
    check_int(system("touch on"), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    end_runner(&running);
    check_same(t, id, result);
}
