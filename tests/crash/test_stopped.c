/*
 * Writers of an SQLite store that are stopped at random moments, in line, at the door and in the
 * middle of a write, and continued: nothing acknowledged is lost, nothing is added twice, nobody
 * fails. TEND_CRASH_SECONDS says for how long.
 */
#include "actor.h"
#include "crowd.h"
#include "verdict.h"

#include <stdio.h>

enum { ADDERS = 5, WORKERS = 4, STOPS_LEAST = 10, LONGER_MS = 60000 };

TEST_WITHIN(stopped, writers_that_are_stopped_anywhere_lose_nothing, 300)
{
    static const struct crowd_fate peace = {0};
    static const struct crowd_fate stops = {
        .every_ms = 100, .stop_share = 100, .stop_ms = 2500, .stopped_max = 2};
    struct crowd crowd;
    tend *t = store_open_real("judge");
    set_queue(t, SERIAL_QUEUE, "serial", "on");
    crowd_init(&crowd, store_url());
    crowd_add(&crowd, "adder", ADDERS);
    crowd_live(&crowd, &stops, crash_ms(25));
    long long longer_ms = test_clock_ms() + LONGER_MS;
    while (crowd.stops < STOPS_LEAST && test_clock_ms() < longer_ms)
        crowd_live(&crowd, &stops, SECOND_MS);
    crowd_leave(&crowd, "adder");
    check_int(crowd.stops, >=, STOPS_LEAST);
    check_int(crowd.kills, ==, 0);
    crowd_add(&crowd, "worker", WORKERS);
    long long deadline_ms = test_clock_ms() + 120 * SECOND_MS;
    while (verdict_open_jobs() > 0 && test_clock_ms() < deadline_ms)
        crowd_live(&crowd, &peace, 50);
    crowd_leave(&crowd, "worker");
    int64_t jobs = verdict_all_done_once(t);
    printf("# %lld jobs, %u stops\n", (long long)jobs, crowd.stops);
    check_int(jobs, >, 0);
}
