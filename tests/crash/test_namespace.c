/*
 * BY-2, RC-13: workers and adders in several pid namespaces over one SQLite file, as containers
 * that share a folder, where the same pids are in use, and none can see the processes of another.
 * They are killed and stopped at random: by the record every job is done exactly once, nothing is
 * lost, and nobody is recorded as dead who was not killed.
 */
#include "load.h"
#include "verdict.h"

enum { PLACES = 2, WORKERS = 3, ADDERS = 1, KILLS_LEAST = 10, LONGER_MS = 60000 };

static const struct crowd_fate unrest = {
    .every_ms = 120, .stop_share = 20, .leave_share = 10, .stop_ms = 900, .stopped_max = 1};

TEST_WITHIN(namespace, RC_13_over_one_file_the_killed_are_replaced_and_no_living_one_is_buried, 300)
{
    struct crowd crowd;
    load_begin(&crowd);
    crowd_add(&crowd, "adder", ADDERS);
    crowd_add(&crowd, "worker", WORKERS);
    for (int i = 0; i < PLACES; i++) {
        int place_fd = crowd_make_place();
        crowd_add_at(&crowd, place_fd, "adder", ADDERS);
        crowd_add_at(&crowd, place_fd, "worker", WORKERS);
    }
    load_goes_on(&crowd);
    crowd_live(&crowd, &unrest, crash_ms(15));
    long long longer_ms = test_clock_ms() + LONGER_MS;
    while (crowd.kills < KILLS_LEAST && test_clock_ms() < longer_ms)
        crowd_live(&crowd, &unrest, SECOND_MS);
    load_goes_on(&crowd);
    load_end(&crowd);
    check_int(crowd.kills, >=, KILLS_LEAST);
    check_int(verdict_only_killed_are_dead(), >, 0);
}
