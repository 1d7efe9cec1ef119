/* Where budgets come from: step before job before queue before environment before default (SH-17).
 */
#include "runner_case.h"

#include <stdio.h>
#include <string.h>

/* What the job's failure says of an attempt: "attempt 1 of 5". */
static void check_attempts(tend *t, const char *of_step, const char *of_job, const char *expected)
{
    int64_t id = add_plan(t, keep_text("{\"steps\":[{\"run\":\"exit 64\"%s}]%s}", of_step, of_job));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_contains(job_of(t, id)->error_text, expected);
}

TEST(runner_budgets, SH_17_the_nearest_of_step_job_queue_and_environment_counts)
{
    tend *t = store_open_real("w");
    check_attempts(t, "", "", "attempt 1 of 3:");
    setenv("TEND_STEP_MAX_ATTEMPTS", "4", 1);
    check_attempts(t, "", "", "attempt 1 of 4:");
    set_queue(t, "q", "step-max-attempts", "5");
    check_attempts(t, "", "", "attempt 1 of 5:");
    check_attempts(t, "", ",\"step_max_attempts\":6", "attempt 1 of 6:");
    check_attempts(t, ",\"attempts\":7", ",\"step_max_attempts\":6", "attempt 1 of 7:");
}

static const char *why_it_ended(tend *t, const char *step)
{
    int64_t id = add_plan(t, step);
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    return job_of(t, id)->error_text;
}

TEST(runner_budgets, SH_17_times_of_queue_and_environment_bound_a_step)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "step-max-attempts", "1");
    setenv("TEND_STEP_GRACE_SECONDS", "0", 1);
    set_queue(t, "q", "step-timeout", "150ms");
    check_contains(why_it_ended(t, "{\"run\":\"sleep 600\"}"), "wall timeout of 150ms");
    set_queue(t, "q", "step-timeout", "default");
    setenv("TEND_STEP_IDLE_TIMEOUT_SECONDS", "0.25", 1);
    check_contains(why_it_ended(t, "{\"run\":\"echo start; sleep 600\"}"),
                   "no output for 250ms (idle_timeout); last line: start");
}

/* A worker that cannot do as it is told does not begin. */
TEST(runner_budgets, SH_17_an_environment_out_of_range_is_refused)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    tend_runner *runner = NULL;
    setenv("TEND_STEP_MAX_ATTEMPTS", "0", 1);
    check_rc(t, tend_runner_new(&runner, t, &options), TEND_EINVAL);
    check_contains(tend_errmsg(t), "TEND_STEP_MAX_ATTEMPTS");
    tend_runner_free(runner);
}
