/* What steps are given by their worker, and what they leave: environment, results, files. */
#include "runner_case.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* SH-9: what a plain step has done is in the store; files of every attempt would cost more than
 * many a command itself. Where something went wrong the attempts are told. */
TEST(runner_files, SH_9_plain_steps_leave_files_only_about_trouble)
{
    tend *t = store_open_real("w");
    int64_t fine = add_plan(t, "{\"steps\":[{\"run\":\"true\"},{\"run\":\"true\"}]}");
    int64_t bad = add_plan(t, "{\"steps\":[{\"run\":\"true\"},{\"run\":\"exit 64\"}]}");
    run_until_drained(t);
    check_int(state_of(t, fine), ==, TEND_DONE);
    check_int(state_of(t, bad), ==, TEND_FAILED);
    check(access(keep_text(".tend/run/job-%lld", (long long)fine), F_OK) < 0);
    check_contains(file_text(keep_text(".tend/run/job-%lld/state/self_heal/attempt-0002.json",
                                       (long long)bad)),
                   "deterministic_contract");
    check_int(sql_int("SELECT count(*) FROM checkpoint WHERE step_index > 0"), ==, 3);
}

/* Where tend is run by a step of tend, what that step was told is not told on. */
TEST(runner_files, a_first_attempt_has_no_context_of_anybody_else)
{
    tend *t = store_open_real("w");
    setenv("TEND_RETRY_CONTEXT", "outer.json", 1);
    setenv("TEND_WORKSPACE", "/outer", 1);
    setenv("TEND_WORKSPACES", "mine", 1);
    int64_t id = add_plan(t, "{\"run\":\"echo ${TEND_RETRY_CONTEXT-none} ${TEND_WORKSPACE-none} "
                             "$TEND_WORKSPACES\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(output_of(t, id, 1), "none none mine\n");
}

static int64_t run_handler(tend *t, const char *command)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_handler handler = {.kind = "print", .command = command};
    struct tend_runner_options options = runner_options();
    spec.kind = "print";
    int64_t id = add_spec(t, &spec);
    options.handlers = &handler;
    options.handler_count = 1;
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    return id;
}

TEST(runner_files, a_long_result_is_whole)
{
    tend *t = store_open_real("w");
    int64_t id = run_handler(t, "printf '[\"'; head -c 200000 /dev/zero | tr '\\0' x; echo '\"]'");
    const char *result = job_of(t, id)->result;
    check_int(strlen(result), ==, 200004);
    check_contains(result, "xx\"]");
    check_str(output_of(t, id, 2), "");
}

/* Half of it would be no result, least of all if it was JSON. */
TEST(runner_files, a_result_that_is_too_long_is_left_out_and_that_is_said)
{
    tend *t = store_open_real("w");
    int64_t id = run_handler(t, "printf '[\"'; head -c 1048576 /dev/zero | tr '\\0' x; echo '\"]'");
    check(job_of(t, id)->result == NULL);
    check_contains(output_of(t, id, 0), "longer than 1024 KiB, too much for a result");
    id =
        run_handler(t, "head -c 1048577 /dev/zero | tr '\\0' x; echo result=short >> $TEND_OUTPUT");
    check_str(job_of(t, id)->result, "\"short\"");
    check_str(output_of(t, id, 2), "");
}

/* A step that puts a link to "victim" in the place of its lease's folder. */
#define REPLACE_FOLDER "d=$(dirname $TEND_OUTPUT); rm -rf $d; ln -s $HERE/victim $d"

static void make_victim(void)
{
    setenv("HERE", test_folder(), 1);
    check_int(system("mkdir -p $HERE/victim/workspace-1 && cd $HERE/victim && "
                     "touch output input.json retry.json lock .git workspace-1/file"),
              ==, 0);
}

static void check_victim(void)
{
    check_int(system("cd victim && [ \"$(find . | sort | tr '\\n' ' ')\" = '. ./.git ./input.json "
                     "./lock ./output ./retry.json ./workspace-1 ./workspace-1/file ' ]"),
              ==, 0);
}

/* Symptom: the files of the other folder were deleted when the job had ended, and before that its
 * input.json was replaced. */
TEST(runner_files, a_link_in_the_place_of_the_leases_folder_is_never_followed)
{
    tend *t = store_open_real("w");
    make_victim();
    int64_t id = add_plan(t, "{\"steps\":[{\"run\":\"" REPLACE_FOLDER "\"},{\"run\":\"cat "
                             "$TEND_INPUT; echo a=1 >> $TEND_OUTPUT\"},{\"run\":\"cat $TEND_INPUT; "
                             "" REPLACE_FOLDER "\"}]}");
    int64_t failed = add_plan(t, "{\"run\":\"" REPLACE_FOLDER "; exit 75\",\"attempts\":2,"
                                 "\"pause\":\"0s\"}");
    run_until_drained(t);
    check_victim();
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(output_of(t, id, 1), "\"outputs\":{}");
    check_contains(output_of(t, id, 1), "\"outputs\":{\"step-2\":{\"a\":\"1\"}}");
    check(access(keep_text(".tend/run/job-%lld", (long long)id), F_OK) < 0);
    check_contains(attempts_of(t, failed), "2:failed:transient_runtime:exit.75");
}

/* Symptom: its records went where the link leads. */
TEST(runner_files, a_link_in_the_place_of_the_jobs_folder_is_never_followed)
{
    tend *t = store_open_real("w");
    make_victim();
    int64_t id = add_plan(t, "{\"run\":\"d=$(dirname $(dirname $TEND_OUTPUT)); rm -rf $d; "
                             "ln -s $HERE/victim $d; exit 64\"}");
    run_until_drained(t);
    check_victim();
    check_int(state_of(t, id), ==, TEND_FAILED);
}
