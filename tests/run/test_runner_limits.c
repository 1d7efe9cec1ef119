/* Queues with limits: a runner comes back when the claim said it may. */
#include "runner_case.h"

enum { JOBS = 8, LOOK_MS = 5000 };

static void add_quick_jobs(tend *t)
{
    for (int i = 0; i < JOBS; i++)
        add_plan(t, "{\"sleep\":\"0s\"}");
}

/* Symptom: with --rate 1/50ms a worker ran a job every five seconds, when it looked by itself. */
TEST(runner_limits, a_rate_is_used_although_nothing_rings)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "rate", "1/50ms");
    add_quick_jobs(t);
    long long begun_ms = test_clock_ms();
    run_until_drained(t);
    long long took_ms = test_clock_ms() - begun_ms;
    check_int(count_events("job.completed"), ==, JOBS);
    check_int(took_ms, >=, (JOBS - 1) * 50);
    check_int(took_ms, <, 2 * LOOK_MS);
}

/* Symptom: eight workers under 20/1s reached 4/s together. */
TEST(runner_limits, runners_that_share_a_rate_reach_it_together)
{
    enum { RUNNERS = 4 };
    struct running_runner running[RUNNERS];
    tend *t = store_open_real("w");
    set_queue(t, "q", "rate", "1/50ms");
    add_quick_jobs(t);
    long long begun_ms = test_clock_ms();
    for (int i = 0; i < RUNNERS; i++)
        running[i] = runner_start(store_open_real(keep_text("w%d", i)), NULL);
    wait_until(count_events("job.completed") == JOBS, PATIENCE_MS);
    check_int(test_clock_ms() - begun_ms, <, 2 * LOOK_MS);
    for (int i = 0; i < RUNNERS; i++) {
        tend_runner_stop(running[i].runner, 0);
        runner_join(&running[i]);
    }
}

/* The lock of a serial queue that nobody releases ends by its time. */
TEST(runner_limits, the_end_of_a_foreign_lock_is_not_slept_through)
{
    tend *t = store_open_real("w");
    struct tend_lock_request request;
    set_queue(t, "q", "serial", "on");
    tend_lock_request_init(&request);
    request.name = "queue:q";
    request.owner = "somebody";
    request.ttl_ms = 300;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    add_plan(t, "{\"sleep\":\"0s\"}");
    long long begun_ms = test_clock_ms();
    run_until_drained(t);
    check_int(count_events("job.completed"), ==, 1);
    check_int(test_clock_ms() - begun_ms, <, LOOK_MS);
}
