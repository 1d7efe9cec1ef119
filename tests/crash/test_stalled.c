/*
 * BY-2: a crowd whose lines to PostgreSQL stall at random, in the middle of a message too, go on or
 * are cut, and whose processes are killed: nothing acknowledged is lost, by the record every job is
 * done exactly once, and every call ends in its time (actor.h), also on a line that stays silent.
 */
#include "actor.h"
#include "load.h"
#include "support/proxy.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LINES = 3,
    WORKERS = 2,
    ADDERS = 1,
    BUSY_MS = 1000,
    STALL_MS = 1500,
    SILENT_MS = ACTOR_LONGEST_MS(BUSY_MS) + 2000,
    STALL_BYTES = 5000,
    STALLS_LEAST = 10,
};

static const struct crowd_fate unrest = {.every_ms = 400, .leave_share = 20};

/* A stall somewhere within what the clients say next, and its end. */
static void stall(struct crowd *crowd, struct proxy *line)
{
    proxy_stall_after(line, (int64_t)rng_below(&crowd->rng, STALL_BYTES));
    crowd_live(crowd, &unrest, (int64_t)rng_below(&crowd->rng, STALL_MS));
    if (rng_below(&crowd->rng, 2) == 0)
        proxy_cut(line);
    proxy_resume(line);
}

TEST_WITHIN(stalled, lines_to_the_server_that_stall_and_break_lose_nothing_and_hang_no_call, 300)
{
    struct proxy lines[LINES];
    struct crowd crowd;
    unsigned stalls = 0;
    setenv("CRASH_BUSY_MS", keep_text("%d", (int)BUSY_MS), 1);
    load_begin(&crowd);
    for (int i = 0; i < LINES; i++) {
        lines[i] = proxy_start();
        crowd.url = proxy_url(&lines[i]);
        crowd_add(&crowd, "adder", ADDERS);
        crowd_add(&crowd, "worker", WORKERS);
    }
    load_goes_on(&crowd);
    proxy_stall_after(&lines[0], STALL_BYTES); /* for so long that nobody can wait for its end */
    long long end_ms = test_clock_ms() + SILENT_MS;
    for (; test_clock_ms() < end_ms || stalls < STALLS_LEAST; stalls++)
        stall(&crowd, &lines[1 + rng_below(&crowd.rng, LINES - 1)]);
    check(proxy_is_stalled(&lines[0]));
    proxy_cut(&lines[0]);
    proxy_resume(&lines[0]);
    load_goes_on(&crowd);
    load_end(&crowd);
    printf("# %u stalls\n", stalls);
    for (int i = 0; i < LINES; i++)
        proxy_stop(&lines[i]);
}
