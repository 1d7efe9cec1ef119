/* core/limit: the token bucket. */
#include "base/rng.h"
#include "core/limit.h"
#include "unit/case.h"

TEST(limit, a_new_one_is_full_and_gives_no_more_than_it_has)
{
    struct limit limit;
    limit_init(&limit, 20, 60000, 1000);
    check_int(limit_available(&limit, 1000), ==, 20);
    check_int(limit_take(&limit, 1000, 5), ==, 5);
    check_int(limit_take(&limit, 1000, 100), ==, 15);
    check_int(limit_take(&limit, 1000, 1), ==, 0);
    check_int(limit_take(&limit, 1000, 0), ==, 0);
    check_int(limit_take(&limit, 1000, -5), ==, 0);
}

TEST(limit, says_when_the_next_token_is_due_and_keeps_its_word)
{
    /* LS-4 */
    static const struct {
        int64_t count, period_ms;
    } cases[] = {{20, 60000},   {1, 1000}, {3, 1000},    {7, 60000}, {1000, 1000},
                 {1, 86400000}, {7, 9973}, {5000, 1000}, {1, 1},     {999983, 86399999}};
    for (size_t i = 0; i < CASES(cases); i++) {
        struct limit limit;
        int64_t now_ms = 1000000;
        limit_init(&limit, cases[i].count, cases[i].period_ms, now_ms);
        check_int(limit_next_ms(&limit, now_ms), ==, now_ms);
        check_int(limit_take(&limit, now_ms, cases[i].count), ==, cases[i].count);
        for (int round = 0; round < 1000; round++) {
            int64_t next_ms = limit_next_ms(&limit, now_ms);
            check_int(next_ms, >, now_ms);
            check_int(limit_available(&limit, next_ms - 1), ==, 0);
            check_int(limit_take(&limit, next_ms - 1, 1), ==, 0);
            int64_t granted = limit_take(&limit, next_ms, INT64_MAX);
            check_int(granted, >=, 1);
            now_ms = next_ms;
        }
    }
}

TEST(limit, never_drifts)
{
    /* 7 per 60 s: 8571.43 ms each. Asked every millisecond, a week gives exactly its share. */
    struct limit limit;
    limit_init(&limit, 7, 60000, 0);
    int64_t granted = limit_take(&limit, 0, 7);
    int64_t end_ms = INT64_C(7) * 86400000 / 60;
    for (int64_t now_ms = 1; now_ms <= end_ms; now_ms++)
        granted += limit_take(&limit, now_ms, 10);
    check_int(granted, ==, 7 + end_ms * 7 / 60000);
}

TEST(limit, grants_are_exact_however_the_time_is_cut)
{
    struct rng rng;
    rng_seed(&rng, 11);
    for (int round = 0; round < 200; round++) {
        int64_t count = 2 + (int64_t)rng_below(&rng, 1000);
        int64_t period_ms = 1 + (int64_t)rng_below(&rng, 100000);
        struct limit limit;
        limit_init(&limit, count, period_ms, 0);
        int64_t granted = limit_take(&limit, 0, count);
        int64_t now_ms = 0;
        /* The bucket never fills up: all whole tokens are taken within half a period. */
        for (int step = 0; step < 500; step++) {
            now_ms += (int64_t)rng_below(&rng, (uint64_t)period_ms / 2 + 1);
            granted += limit_take(&limit, now_ms, INT64_MAX);
        }
        check_int(granted, ==, count + (int64_t)((__int128)now_ms * count / period_ms));
    }
}

TEST(limit, is_capped_after_a_long_pause)
{
    struct limit limit;
    limit_init(&limit, 10, 1000, 0);
    check_int(limit_take(&limit, 0, 10), ==, 10);
    check_int(limit_available(&limit, INT64_C(1) << 60), ==, 10);
    check_int(limit_take(&limit, 1000000, 100), ==, 10);
    check_int(limit_take(&limit, 1000000, 100), ==, 0);
    check_int(limit_take(&limit, 1000100, 100), ==, 1);
}

TEST(limit, gains_nothing_from_a_clock_that_stands_still_or_runs_back)
{
    struct limit limit;
    limit_init(&limit, 10, 1000, 5000);
    check_int(limit_take(&limit, 5000, 10), ==, 10);
    for (int i = 0; i < 1000; i++)
        check_int(limit_take(&limit, 5000, 10), ==, 0);
    check_int(limit_take(&limit, 4500, 10), ==, 0);
    check_int(limit_take(&limit, 5100, 10), ==, 1);
    check_int(limit_take(&limit, 5000, 10), ==, 0);
    check_int(limit_take(&limit, 5100, 10), ==, 0);
    check_int(limit_take(&limit, 5200, 10), ==, 1);
}

TEST(limit, opens_again_after_the_clock_was_set_back_far)
{
    struct limit limit;
    limit_init(&limit, 10, 1000, 1000000);
    check_int(limit_take(&limit, 1000000, 10), ==, 10);
    check_int(limit_take(&limit, 5000, 10), ==, 0);
    int64_t next_ms = limit_next_ms(&limit, 5000);
    check_int(next_ms, ==, 5100);
    check_int(limit_take(&limit, next_ms, 10), ==, 1);
}

TEST(limit, a_new_rate_keeps_the_tokens_it_can_hold)
{
    struct limit limit;
    limit_init(&limit, 100, 1000, 0);
    check_int(limit_take(&limit, 0, 50), ==, 50);
    limit_change(&limit, 10, 1000, 0);
    check_int(limit_available(&limit, 0), ==, 10);
    check_int(limit_take(&limit, 0, 10), ==, 10);
    limit_change(&limit, 1000, 1000, 0);
    check_int(limit_available(&limit, 0), ==, 0);
    check_int(limit_available(&limit, 100), ==, 100);
}

TEST(limit, of_nothing_lets_nothing_through)
{
    struct limit limit;
    limit_init(&limit, 0, 1000, 0);
    check_int(limit_take(&limit, 1000000, 1), ==, 0);
    check_int(limit_next_ms(&limit, 0), ==, -1);
}

TEST(limit, the_largest_ones_do_not_overflow)
{
    struct limit limit;
    limit_init(&limit, INT64_MAX, INT64_MAX, INT64_MIN);
    check_int(limit.count, ==, LIMIT_COUNT_MAX);
    check_int(limit_take(&limit, INT64_MIN, INT64_MAX), ==, LIMIT_COUNT_MAX);
    check_int(limit_take(&limit, 0, INT64_MAX), ==, LIMIT_COUNT_MAX);
    check_int(limit_take(&limit, INT64_MAX, INT64_MAX), >, 0);
    check_int(limit_next_ms(&limit, INT64_MAX), ==, -1);
    limit_init(&limit, LIMIT_COUNT_MAX, 1, 0);
    check_int(limit_take(&limit, 0, INT64_MAX), ==, LIMIT_COUNT_MAX);
    check_int(limit_take(&limit, 1, INT64_MAX), ==, LIMIT_COUNT_MAX);
}
