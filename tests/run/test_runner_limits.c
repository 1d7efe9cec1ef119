/* Queues with limits: a runner comes back when the claim said it may. */
#include "queue/handle.h"
#include "runner_case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

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

/* A handle's transactions ask its clock. */
static atomic_long looks;

static int64_t counting_clock(void *arg)
{
    struct timespec now;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    atomic_fetch_add(&looks, 1);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Symptom: every job of every queue made all runners look for work. */
TEST(runner_limits, a_runner_does_not_look_when_jobs_of_other_queues_are_added)
{
    enum { ADDED = 60, PULSE_MS = 400 };
    tend *t = store_open_real("w");
    struct tend_options options = store_options("runner");
    options.clock_ms = counting_clock;
    tend *own = store_open_with(&options);
    uint64_t bell = db_bell_of("unrelated");
    check_int(bell, !=, db_bell_of("q"));
    struct running_runner running = runner_start(own, NULL);
    add_plan(t, "{\"sleep\":\"0s\"}");
    wait_until(count_events("job.completed") == 1, PATIENCE_MS);

    long before = atomic_load(&looks);
    long long begun_ms = test_clock_ms();
    for (int i = 0; i < ADDED; i++) {
        uint64_t seen = db_bell(own->db, bell);
        add_one(t, "unrelated");
        wait_until(db_bell(own->db, bell) != seen, PATIENCE_MS);
    }
    long looked = atomic_load(&looks) - before;
    printf("# looks: %ld\n", looked);
    check_int(looked, <, ADDED / 2 + 4 * (test_clock_ms() - begun_ms) / PULSE_MS);

    add_plan(t, "{\"sleep\":\"0s\"}");
    wait_until(count_events("job.completed") == 2, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}
