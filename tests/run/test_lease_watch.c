/* How long a lease keeps what runs under it, and how long its end is told (run/lease_watch.h). */
#include "run/lease_watch.h"

#include "support/test.h"

#include <tend.h>

enum { LEASE_MS = 60000, SHORT_MS = 5999, BEGIN_MS = 1000 };

static struct lease_watch watch_of(int64_t lease_ms)
{
    struct lease_watch watch = {.lease_ms = lease_ms};
    lease_watch_beat(&watch, BEGIN_MS);
    return watch;
}

TEST(lease_watch, a_heartbeat_gives_two_thirds_of_the_lease_to_what_runs)
{
    struct lease_watch watch = watch_of(LEASE_MS);
    check_int(watch.safe_until_ms, ==, BEGIN_MS + 40000);
    check_int(lease_watch_held_until(&watch), ==, BEGIN_MS + LEASE_MS);
    lease_watch_beat(&watch, BEGIN_MS + 15000);
    check_int(watch.safe_until_ms, ==, BEGIN_MS + 55000);
}

TEST(lease_watch, BY_9_time_in_which_nobody_can_write_is_given_back)
{
    struct lease_watch watch = watch_of(LEASE_MS);
    check(lease_watch_blocked(&watch, 70000));
    check_int(watch.safe_until_ms, ==, BEGIN_MS + 110000);
    check_int(lease_watch_held_until(&watch), ==, BEGIN_MS + LEASE_MS + 70000);
}

/* Symptom: with-lease moved its limit back when the store was less certain of the time, and killed
 * its command while nobody could write. */
TEST(lease_watch, BY_9_what_was_given_back_is_not_taken_away_again)
{
    struct lease_watch watch = watch_of(LEASE_MS);
    check(lease_watch_blocked(&watch, 30000));
    check(!lease_watch_blocked(&watch, 10000));
    check(!lease_watch_blocked(&watch, 0));
    check_int(watch.safe_until_ms, ==, BEGIN_MS + 70000);
    lease_watch_beat(&watch, BEGIN_MS + 1);
    check_int(watch.safe_until_ms, ==, BEGIN_MS + 40001);
}

TEST(lease_watch, a_short_lease_is_not_kept_while_nobody_can_write)
{
    struct lease_watch watch = watch_of(SHORT_MS);
    check(!lease_watch_blocked(&watch, 30000));
    check_int(lease_watch_held_until(&watch), ==, BEGIN_MS + SHORT_MS);
}

TEST(lease_watch, the_store_is_waited_for_a_part_of_the_lease_but_long_enough_to_see_who_has_it)
{
    check_int(lease_patience_ms(LEASE_MS), ==, 7500);
    check_int(lease_patience_ms(300), ==, 1200);
    check_int(lease_beat_pause_ms(LEASE_MS), ==, 15000);
}

TEST(lease_watch, an_end_is_told_until_the_store_answers)
{
    struct lease_telling telling = {0};
    check(lease_tells_again(&telling, TEND_EUNREACHABLE, false, BEGIN_MS));
    check(lease_tells_again(&telling, TEND_EFULL, false, BEGIN_MS + 86400000));
    check(!lease_tells_again(&telling, TEND_ELEASELOST, false, BEGIN_MS));
    check(!lease_tells_again(&telling, TEND_EINVAL, false, BEGIN_MS));
}

TEST(lease_watch, who_is_to_end_tells_two_seconds_more)
{
    struct lease_telling telling = {0};
    check(lease_tells_again(&telling, TEND_EBUSY, true, BEGIN_MS));
    check(lease_tells_again(&telling, TEND_EBUSY, true, BEGIN_MS + 1999));
    check(!lease_tells_again(&telling, TEND_EBUSY, true, BEGIN_MS + 2000));
}
