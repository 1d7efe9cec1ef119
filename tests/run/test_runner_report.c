/*
 * What a step says through TEND_OUTPUT while it runs: progress is a sign of life (SH-2), and what
 * was wrong with it can be seen by everybody (SH-13, SH-16).
 */
#include "repo_case.h"
#include "runner_case.h"

#include <string.h>
#include <unistd.h>

/* How long after the beginning of the only step the last sign of life came; -1: none runs. */
static int64_t alive_until(tend_runner *runner)
{
    struct tend_running running[4];
    if (tend_runner_look(runner, running, 4) != 1)
        return -1;
    return running[0].running_ms - running[0].silent_ms;
}

static int64_t running_ms(tend_runner *runner)
{
    struct tend_running running[4];
    return tend_runner_look(runner, running, 4) != 1 ? -1 : running[0].running_ms;
}

/* Symptom: a step that said every 0.4 s how far it was, and printed nothing, was killed as idle. */
TEST(runner_report, SH_2_progress_is_a_sign_of_life)
{
    tend *t = store_open_real("w");
    int64_t id =
        add_plan(t, "{\"run\":\"until test -e one; do sleep 0.02; done; echo progress=1 >> "
                    "$TEND_OUTPUT; until test -e two; do sleep 0.02; done\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(running_ms(running.runner) > 500, PATIENCE_MS);
    check_int(alive_until(running.runner), ==, 0);
    check_int(system("touch one"), ==, 0);
    wait_until(alive_until(running.runner) > 500, PATIENCE_MS);
    check_int(system("touch two"), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* The same with the timer: it reports for longer than it may be silent. */
TEST(runner_report, SH_2_a_step_that_reports_is_not_idle)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do "
                             "echo progress=$i >> $TEND_OUTPUT; sleep 0.25; done\","
                             "\"idle_timeout\":\"4s\",\"attempts\":1}");
    run_until_drained(t);
    check_str(attempts_of(t, id), "1:succeeded::");
    check_int(sql_int("SELECT count(*) FROM attempt WHERE ended_at - started_at >= 4000"), ==, 1);
}

TEST(runner_report, SH_2_a_step_that_ends_its_reports_is_idle_after_all)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo progress=1 >> $TEND_OUTPUT; sleep 600\","
                             "\"idle_timeout\":\"700ms\",\"grace\":\"100ms\",\"attempts\":1}");
    run_until_drained(t);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:timeout.idle");
}

static const char *warnings_of(tend *t, int64_t id)
{
    struct tend_attempts *attempts;
    check_ok(t, tend_attempts(t, id, &attempts));
    const char *warnings = attempts->items[0].warnings;
    warnings = warnings == NULL ? "" : keep_text("%s", warnings);
    tend_attempts_free(attempts);
    return warnings;
}

static int64_t count_warnings(int64_t id, const char *part)
{
    return sql_int("SELECT count(*) FROM event WHERE job_id = %lld AND what = 'task.step.warning' "
                   "AND why LIKE '%%%s%%'",
                   (long long)id, part);
}

/* A warning is in the output, with the attempt, and an event. */
static void check_warned(tend *t, int64_t id, const char *part)
{
    check_contains(output_of(t, id, 0), part);
    check_contains(warnings_of(t, id), part);
    check_int(count_warnings(id, part), ==, 1);
}

/* Symptom: they were on the worker's console only; for everybody else the result was just not
 * there. */
TEST(runner_report,
     SH_16_what_is_wrong_with_a_report_is_in_the_output_with_the_attempt_and_an_event)
{
    tend *t = store_open_real("w");
    int64_t class =
        add_plan(t, "{\"run\":\"echo class=transient >> $TEND_OUTPUT; exit 75\",\"attempts\":1}");
    int64_t line = add_plan(t, "{\"run\":\"echo what is this >> $TEND_OUTPUT\"}");
    int64_t large =
        add_plan(t, "{\"run\":\"{ printf result=; head -c 2000000 /dev/zero | tr '\\\\0' "
                    "x; } >> $TEND_OUTPUT\"}");
    int64_t many =
        add_plan(t, "{\"run\":\"i=0; while [ $i -lt 1003 ]; do i=$((i+1)); echo n$i=$i; done >> "
                    "$TEND_OUTPUT\"}");
    run_until_drained(t);
    check_warned(t, class, "line 1 of TEND_OUTPUT: class must be one of transient_runtime");
    check_warned(t, line, "line 1 of TEND_OUTPUT: neither key=value nor a JSON object");
    check_warned(t, large, "line 1 of TEND_OUTPUT: the line is longer than 1048576 bytes");
    check_warned(t, many, "line 1001 of TEND_OUTPUT: n1001 is left out");
    check_contains(warnings_of(t, many), "n1003 is left out");
    check_int(count_warnings(many, "(and 2 more)"), ==, 1);
    check_int(state_of(t, line), ==, TEND_DONE);
    check_str(attempts_of(t, class), "1:failed:transient_runtime:exit.75");
}

/* Symptom: what the step had cloned was missing in the next workspace, and nothing had said so. */
TEST(runner_report, SH_10_repositories_that_no_checkpoint_has_are_a_warning)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"git clone -q $T/repo dep; git init -q "
                                            "gen; echo made > gen/out\"},{\"run\":\"true\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(warnings_of(t, id), "lacks what is in them: gen, dep");
    check_warned(t, id, "git repositories in the workspace are not in its checkpoint");
}

/* Also where there are more than are kept. Nothing secret is in them. */
TEST(runner_report, SH_15_warnings_are_bounded_and_redacted)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(
        t, "{\"env\":{\"API_TOKEN\":\"hunter2-and-more\"},\"run\":\"i=0; while [ $i -lt 30 "
           "]; do i=$((i+1)); echo nonsense; done >> $TEND_OUTPUT; i=0; while [ $i -lt "
           "1000 ]; do i=$((i+1)); echo n$i=$i; done >> $TEND_OUTPUT\"}");
    int64_t secret =
        add_plan(t, "{\"env\":{\"API_TOKEN\":\"hunter2-and-more\"},\"run\":\"i=0; while [ $i -lt "
                    "1000 ]; do i=$((i+1)); echo n$i=$i; done >> $TEND_OUTPUT; echo "
                    "$API_TOKEN=1 >> $TEND_OUTPUT\"}");
    run_until_drained(t);
    check_contains(warnings_of(t, id), "line 20 of TEND_OUTPUT");
    check_contains(warnings_of(t, id), "10 more lines were not understood");
    check(strstr(warnings_of(t, id), "line 21 of") == NULL);
    check_contains(warnings_of(t, secret), "line 1001 of TEND_OUTPUT: [redacted] is left out");
    check(strstr(output_of(t, secret, 0), "hunter2") == NULL);
    check_int(sql_int("SELECT count(*) FROM event WHERE why LIKE '%%hunter2%%'"), ==, 0);
}

/* A note of the worker says nothing about the failure: the same failure stays the same. */
TEST(runner_report, SH_3_a_warning_is_no_part_of_the_failure)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo x$TEND_STEP_ATTEMPT: forbidden >> $TEND_OUTPUT; echo "
                             "error: broken >&2; exit 75\"}");
    run_until_drained(t);
    check_contains(attempts_of(t, id), "3:failed:stuck_no_progress:no_progress");
}

static bool shows(tend_runner *runner, const char *line, const char *text)
{
    struct tend_running running[4];
    return tend_runner_look(runner, running, 4) == 1 && strcmp(running[0].line, line) == 0 &&
           strcmp(running[0].text, text) == 0;
}

/* Symptom: " [31mred text [0m". */
TEST(runner_report, SH_16_colours_do_not_show_in_live_lines_and_progress)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(
        t,
        "{\"run\":\"printf '\\\\033[31mred text\\\\033[0m\\\\n'; printf 'progress=40 "
        "\\\\033[1mhalf\\\\033[0m\\\\n' >> $TEND_OUTPUT; until test -e go; do sleep 0.02; done\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(shows(running.runner, "red text", "half"), PATIENCE_MS);
    check_int(system("touch go"), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_contains(output_of(t, id, 1), "\033[31mred text\033[0m\n"); /* kept as it was printed */
}

static const char *outputs_of(tend *t, int64_t id)
{
    const char *result = job_of(t, id)->result;
    return result == NULL ? "" : result;
}

/* Symptom: only x was there, and nothing said so. */
TEST(runner_report, SH_16_a_report_that_is_written_anew_is_read_again_and_a_warning)
{
    static const char *const ways[] = {
        "echo y=2 > $TEND_OUTPUT",
        "echo y=2 > new; mv new $TEND_OUTPUT",
        "rm $TEND_OUTPUT; echo y=2 >> $TEND_OUTPUT",
        "rm $TEND_OUTPUT; (echo long=0123456789; echo y=2) > $TEND_OUTPUT",
    };
    tend *t = store_open_real("w");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int64_t id =
            add_plan(t, keep_text("{\"run\":\"echo x=1 > $TEND_OUTPUT; sleep 0.6; %s\"}", ways[i]));
        run_until_drained(t);
        check_contains(outputs_of(t, id), "\"x\":\"1\"");
        check_contains(outputs_of(t, id), "\"y\":\"2\"");
        check_warned(t, id, "TEND_OUTPUT was written anew while the step ran");
    }
}

/* A file that is replaced by one that has it all, or before anything was read, is no mistake. */
TEST(runner_report, SH_16_a_report_that_is_replaced_without_a_loss_is_no_warning)
{
    tend *t = store_open_real("w");
    int64_t once = add_plan(t, "{\"run\":\"echo x=1 > once; mv once $TEND_OUTPUT\"}");
    int64_t twice =
        add_plan(t, "{\"run\":\"echo x=1 >> $TEND_OUTPUT; sleep 0.6; cp $TEND_OUTPUT twice; echo "
                    "y=2 >> twice; mv twice $TEND_OUTPUT\"}");
    int64_t removed = add_plan(t, "{\"run\":\"echo x=1 >> $TEND_OUTPUT; rm $TEND_OUTPUT\"}");
    run_until_drained(t);
    check_contains(outputs_of(t, once), "\"x\":\"1\"");
    check_contains(outputs_of(t, twice), "\"y\":\"2\"");
    check_contains(outputs_of(t, removed), "\"x\":\"1\"");
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.step.warning'"), ==, 0);
}

/* Symptom: a folder in its place made the next step fail on every attempt. */
TEST(runner_report, SH_16_what_a_step_puts_in_the_place_of_its_report_is_a_warning_and_goes)
{
    tend *t = store_open_real("w");
    int64_t folder =
        add_plan(t, "{\"steps\":[{\"run\":\"rm $TEND_OUTPUT; mkdir $TEND_OUTPUT; touch "
                    "$TEND_OUTPUT/file\"},{\"run\":\"echo y=2 >> $TEND_OUTPUT\"}]}");
    int64_t link = add_plan(t, "{\"run\":\"echo x=1 > other; ln -sf $PWD/other $TEND_OUTPUT\"}");
    int64_t gone = add_plan(t, "{\"run\":\"d=$(dirname $TEND_OUTPUT); rm -r $d; mkdir $d; echo x=1 "
                               ">> $TEND_OUTPUT\"}");
    run_until_drained(t);
    check_str(outputs_of(t, folder), "{\"step-2\":{\"y\":\"2\"}}");
    check_warned(t, folder, "TEND_OUTPUT is no plain file any more");
    check_str(outputs_of(t, link), "");
    check_warned(t, link, "TEND_OUTPUT is no plain file any more");
    check_warned(t, gone, "the folder of TEND_OUTPUT was removed or replaced");
}

/* Symptom: the failure could not be stored, the lease ran out, three times, and the job was poison.
 */
TEST(runner_report, SH_6_a_retry_after_of_ages_is_shortened_and_a_warning)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo run >> f; echo retry_after=999999999999 >> "
                             "$TEND_OUTPUT; exit 1\"}");
    run_until_drained(t);
    check_str(file_text("f"), "run\n");
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_warned(t, id, "retry_after is longer than 365 days");
}

/* What the store refuses, whatever it is, must not keep a job until its lease runs out. */
TEST(runner_report, LS_1_a_job_whose_end_is_refused_fails_at_once)
{
    static const char *const steps[] = {"exit 64", "true",
                                        "echo retry_after=90s >> $TEND_OUTPUT; exit 75"};
    tend *t = store_open_real("w");
    if (store_is_postgres())
        sql_exec("ALTER TABLE attempt ADD CONSTRAINT no_end CHECK (ended_at IS NULL)");
    else
        sql_exec("CREATE TRIGGER no_end BEFORE UPDATE OF ended_at ON attempt BEGIN SELECT "
                 "RAISE(ABORT, 'no end'); END");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int64_t id = add_plan(t, keep_text("{\"run\":\"%s\"}", steps[i]));
        run_until_drained(t);
        check_int(state_of(t, id), ==, TEND_FAILED);
        check_contains(job_of(t, id)->error_text, "cannot be stored");
    }
}
