/* Plans and circumstances at the edge: nothing to do, very much of it, a worker that is frozen. */
#include "runner_case.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(runner_luck, a_job_without_steps_is_done)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"steps\":[]}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
}

TEST_WITHIN(runner_luck, ten_thousand_steps_are_done_in_order, 200)
{
    enum { STEPS = 10000 };
    tend *t = store_open_real("w");
    char *plan = malloc(STEPS * 24 + 64);
    size_t len = (size_t)sprintf(plan, "{\"steps\":[");
    for (int i = 0; i < STEPS; i++)
        len += (size_t)sprintf(plan + len, "%s{\"sleep\":\"0s\"}", i == 0 ? "" : ",");
    sprintf(plan + len, "]}");
    int64_t id = add_plan(t, plan);
    free(plan);
    struct tend_runner_options options = runner_options();
    options.tell = NULL;
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(sql_int("SELECT count(*) FROM checkpoint WHERE job_id = %lld AND step_index > 0",
                      (long long)id),
              ==, STEPS);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE state = 1 AND number <> step_index"), ==,
              0);
}

/* SH-16: what is kept stays bounded, and says what it left out. */
TEST_WITHIN(runner_luck, SH_16_a_gigabyte_of_output_is_kept_at_both_ends, 150)
{
    tend *t = store_open_real("w");
    int64_t id =
        add_plan(t, "{\"run\":\"echo the first line; yes in the middle of it all | head -c "
                    "1073741824; echo; echo the last line\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    int64_t kept = sql_int("SELECT sum(length(text)) FROM output");
    int64_t dropped = sql_int("SELECT sum(dropped_bytes) FROM output");
    check_int(kept, <, 1 << 20);
    check_int(kept + dropped, ==, 1073741824 + 15 + 1 + 14);
    const char *text = output_of(t, id, 1);
    check_int(strncmp(text, "the first line\n", 15), ==, 0);
    check_str(text + strlen(text) - 14, "the last line\n");
}

TEST(runner_luck, output_that_is_no_text_is_kept_as_text)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"printf 'a\\\\000b\\\\377c\\\\n'\"}");
    run_until_drained(t);
    check_str(output_of(t, id, 1), "a\xef\xbf\xbd"
                                   "b\xef\xbf\xbd"
                                   "c\n");
}

/*
 * RC-11: a worker that is frozen past its lease. Its step is ended before the lease is, the job is
 * done once elsewhere, and nothing it does afterwards counts.
 */
TEST(runner_luck, RC_11_a_frozen_worker_does_no_harm)
{
    tend *t = store_open_real("operator");
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    set_queue(t, "q", "lease", "2s");
    int64_t id =
        add_plan(t, "{\"run\":\"echo $$ >> ran; test $(wc -l < ran) -ge 2 || sleep 600\"}");
    struct helper frozen = helper_start(runner_forever, "frozen");
    helper_hear(&frozen);
    wait_until(file_text("ran") != NULL, PATIENCE_MS);
    kill(frozen.pid, SIGSTOP);
    pid_t step = (pid_t)file_number("ran");
    wait_until(kill(step, 0) < 0, PATIENCE_MS);
    check_int(state_of(t, id), !=, TEND_DONE);
    struct tend_runner_options options = runner_options();
    options.drain = 0;
    struct running_runner running = runner_start(t, &options);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    kill(frozen.pid, SIGCONT);
    int64_t events = sql_int("SELECT count(*) FROM event WHERE job_id = %lld", (long long)id);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    wait_until(sql_int("SELECT count(*) FROM worker WHERE name = 'frozen'") <= 1, PATIENCE_MS);
    check_int(sql_int("SELECT count(*) FROM event WHERE job_id = %lld", (long long)id), ==, events);
    check_int(job_of(t, id)->crashes, ==, 1);
    helper_kill(&frozen);
}
