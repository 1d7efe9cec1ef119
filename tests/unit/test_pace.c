/* BY-9, core/pace: store time beside clocks that are set, and machines that sleep. */
#include "core/pace.h"
#include "unit/case.h"

#define S INT64_C(1000000)

static const struct pace_mark start = {
    .store_us = 1000 * S, .boottime_us = 70 * S, .monotonic_us = 50 * S};

/* The mark after a while: how far store time, the time since boot and the time awake have come. */
static struct pace_mark later(int64_t store_us, int64_t boottime_us, int64_t monotonic_us)
{
    return (struct pace_mark){.store_us = start.store_us + store_us,
                              .boottime_us = start.boottime_us + boottime_us,
                              .monotonic_us = start.monotonic_us + monotonic_us};
}

TEST(pace, goes_on_a_sixteenth_slower_than_the_time_since_boot_and_never_back)
{
    check_int(pace_since(&start, start.boottime_us), ==, start.store_us);
    check_int(pace_since(&start, start.boottime_us + 16 * S), ==, start.store_us + 15 * S);
    check_int(pace_since(&start, start.boottime_us - 5 * S), ==, start.store_us);
}

/* Commits come faster than a millisecond apart: rounding must not make time stand still. */
TEST(pace, many_short_steps_come_as_far_as_a_long_one)
{
    struct pace_mark mark = start;
    for (int i = 0; i < 100000; i++) {
        int64_t store_us = pace_since(&mark, mark.boottime_us + 100);
        check_int(store_us, >, mark.store_us);
        mark = (struct pace_mark){.store_us = store_us, .boottime_us = mark.boottime_us + 100};
    }
    check_int(mark.store_us - start.store_us, >=, 10 * S * 15 / 16);
    check_int(mark.store_us - start.store_us, <, 10 * S * 95 / 100);
}

TEST(pace, what_the_machine_was_not_awake_for_is_unlived)
{
    struct pace_mark even = later(60 * S, 60 * S, 60 * S);
    struct pace_mark stepped = later(660 * S, 60 * S, 60 * S);
    struct pace_mark slept = later(660 * S, 660 * S, 60 * S);
    struct pace_mark behind = later(56 * S, 60 * S, 60 * S);
    check_int(pace_unlived(&start, &even), ==, 0);
    check_int(pace_unlived(&start, &stepped), ==, 600 * S);
    check_int(pace_unlived(&start, &slept), ==, 600 * S);
    check_int(pace_unlived(&start, &behind), ==, 0);
}

/* A day at the rate at which NTP adjusts a clock, and a step too small for any lease. */
TEST(pace, a_clock_that_is_adjusted_slowly_is_even)
{
    const int64_t day_us = 86400 * S;
    struct pace_mark adjusted = later(day_us + day_us / 2000, day_us, day_us);
    struct pace_mark nudged = later(S + S / 4, S, S);
    check_int(pace_unlived(&start, &adjusted), ==, 0);
    check_int(pace_unlived(&start, &nudged), ==, 0);
}

TEST(pace, time_in_which_nobody_could_write_is_owed_but_once)
{
    struct pace_mark frozen = later(40 * S, 40 * S, 40 * S);
    struct pace_mark frozen_asleep = later(640 * S, 640 * S, 40 * S);
    struct pace_mark at_once = later(S / 100, S / 100, S / 100);
    check_int(pace_owed(&start, &frozen, 0), ==, 0);
    check_int(pace_owed(&start, &frozen, 39 * S), ==, 39 * S);
    /* Measured with the sleep in it: no lease gets it twice. */
    check_int(pace_owed(&start, &frozen_asleep, 640 * S), ==, 640 * S);
    /* One has waited long, but others wrote meanwhile. */
    check_int(pace_owed(&start, &at_once, 5 * S), ==, 0);
}

/* What the machines slept is in both clocks. */
TEST(pace, a_clock_elsewhere_has_jumped_when_it_differs_by_more_than_its_error)
{
    struct pace_mark even = later(60 * S, 60 * S, 10 * S);
    struct pace_mark little = later(61 * S, 60 * S, 60 * S);
    struct pace_mark forward = later(70 * S, 60 * S, 60 * S);
    struct pace_mark back = later(50 * S, 60 * S, 60 * S);
    check_int(pace_jump(&start, &even, 0), ==, 0);
    check_int(pace_jump(&start, &little, 0), ==, 0);
    check_int(pace_jump(&start, &forward, 0), ==, 10 * S);
    check_int(pace_jump(&start, &back, 0), ==, -10 * S);
    check_int(pace_jump(&start, &forward, 9 * S), ==, 0);
    check_int(pace_jump(&start, &forward, 8 * S), ==, 10 * S);
    check_int(pace_jump(&start, &back, 9 * S), ==, 0);
}

TEST(pace, clocks_that_drift_have_not_jumped)
{
    struct pace_mark drifted = later(100030 * S, 100000 * S, 0);
    struct pace_mark stepped = later(100200 * S, 100000 * S, 0);
    check_int(pace_jump(&start, &drifted, 0), ==, 0);
    check_int(pace_jump(&start, &stepped, 0), ==, 200 * S);
}
