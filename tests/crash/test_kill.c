/*
 * BY-2: real processes, killed and stopped at random moments (RC-11, RC-13, CL-3, LS-5): by the
 * record every job is done exactly once, nothing is lost, and only those are dead that were killed.
 * TEND_CRASH_SECONDS says for how long; a minute without; longer on a machine where there were not
 * thousands of jobs, a hundred kills and a completion that came too late by then. For longer runs
 * lift the time limit with TEND_TEST_TIMEOUT_S=0.
 */
#include "actor.h"
#include "crowd.h"
#include "verdict.h"

#include <stdio.h>

enum { WORKERS = 8, ADDERS = 3, JOBS_LEAST = 3000, KILLS_LEAST = 100, LONGER_MS = 180000 };

/*
 * A stopped process may hold SQLite's write lock, and then stops all: never for as long as a
 * second.
 */
static struct crowd_fate fate(void)
{
    return store_is_postgres() ? (struct crowd_fate){.every_ms = 40,
                                                     .stop_share = 40,
                                                     .leave_share = 10,
                                                     .stop_ms = 2500,
                                                     .stopped_max = 4}
                               : (struct crowd_fate){.every_ms = 60,
                                                     .stop_share = 25,
                                                     .leave_share = 10,
                                                     .stop_ms = 900,
                                                     .stopped_max = 2};
}

/* On a busy machine it can take a while until somebody comes back too late. */
static bool is_enough(const struct crowd *crowd)
{
    return crowd->kills >= KILLS_LEAST && verdict_late_completions() > 0 &&
           sql_int("SELECT count(*) FROM job WHERE state = 4") >= JOBS_LEAST;
}

TEST_WITHIN(kill, every_job_is_done_once_by_the_record_though_processes_are_killed_and_stopped, 480)
{
    static const struct crowd_fate peace = {0};
    struct crowd_fate war = fate();
    struct crowd crowd;
    tend *t = store_open_real("judge");
    set_queue(t, SERIAL_QUEUE, "serial", "on");
    crowd_init(&crowd, store_url());
    crowd_add(&crowd, "follower", 1);
    crowd_add(&crowd, "adder", ADDERS);
    crowd_add(&crowd, "worker", WORKERS);
    crowd_live(&crowd, &war, crash_ms(100));
    long long longer_ms = test_clock_ms() + LONGER_MS;
    while (!is_enough(&crowd) && test_clock_ms() < longer_ms)
        crowd_live(&crowd, &war, SECOND_MS);
    crowd_leave(&crowd, "adder");
    long long deadline_ms = test_clock_ms() + 100 * SECOND_MS;
    while (verdict_open_jobs() > 0 && test_clock_ms() < deadline_ms)
        crowd_live(&crowd, &peace, 50);
    crowd_leave(&crowd, "worker");
    recover_now(t); /* writes the last events, if any */
    crowd_leave(&crowd, "follower");
    int64_t jobs = verdict_all_done_once(t);
    verdict_serial_queue_was_serial();
    verdict_follower_saw_everything();
    check_int(verdict_only_killed_are_dead(), >, 0);
    size_t refused = verdict_late_completions();
    printf("# %lld jobs, %u kills, %u stops, %u told to leave, %lld recovered, %zu refused\n",
           (long long)jobs, crowd.kills, crowd.stops, crowd.leaves,
           (long long)count_events("job.recovered"), refused);
    check_int(crowd.kills, >=, KILLS_LEAST);
    check_int(count_events("job.recovered"), >, 0);
    check_int(refused, >, 0);
    check_int(jobs, >=, JOBS_LEAST);
}
