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
    limit_change(&limit, 10, 1000, false, 0);
    check_int(limit_available(&limit, 0), ==, 10);
    check_int(limit_take(&limit, 0, 10), ==, 10);
    limit_change(&limit, 1000, 1000, false, 0);
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

/* --- strict --- */

enum { GRANTS = 20000 };

/* What was granted, and when; in no window of one period more than count. */
struct history {
    int64_t at_ms[GRANTS], granted[GRANTS];
    size_t count;
};

static void check_no_window_sees_more(const struct history *history, int64_t count,
                                      int64_t period_ms)
{
    int64_t sum = 0;
    size_t first = 0;
    for (size_t last = 0; last < history->count; last++) {
        sum += history->granted[last];
        for (; history->at_ms[last] - history->at_ms[first] >= period_ms; first++)
            sum -= history->granted[first];
        check_int(sum, <=, count);
    }
}

TEST(limit, a_strict_one_grants_no_more_than_count_in_any_window)
{
    static struct history history;
    struct rng rng;
    rng_seed(&rng, 24);
    for (int round = 0; round < 300; round++) {
        int64_t count = 1 + (int64_t)rng_below(&rng, 100);
        int64_t period_ms = 1 + (int64_t)rng_below(&rng, round % 3 == 0 ? 30 : 60000);
        int64_t now_ms = (int64_t)rng_below(&rng, 1000000);
        struct limit limit;
        limit_init_strict(&limit, count, period_ms, now_ms);
        history.count = 0;
        for (int i = 0; i < 2000; i++) {
            char text[LIMIT_TEXT_BYTES];
            int64_t available = limit_available(&limit, now_ms);
            int64_t want = 1 + (int64_t)rng_below(&rng, (uint64_t)count + 2);
            int64_t granted = limit_take(&limit, now_ms, want);
            check_int(granted, ==, want < available ? want : available);
            history.at_ms[history.count] = now_ms;
            history.granted[history.count++] = granted;
            check(
                limit_slots_parse(&limit, limit_slots_text(&limit, text))); /* as the store does */
            int64_t next_ms = limit_next_ms(&limit, now_ms);
            check_int(next_ms, >=, now_ms);
            check_int(limit_available(&limit, next_ms), >, 0);
            if (next_ms > now_ms)
                check_int(limit_available(&limit, next_ms - 1), ==, 0);
            now_ms = rng_below(&rng, 2) == 0
                         ? next_ms
                         : now_ms + (int64_t)rng_below(&rng, (uint64_t)(period_ms / 3 + 2));
        }
        check_no_window_sees_more(&history, count, period_ms);
    }
}

/* Whoever takes what there is as soon as it is there gets nearly the set rate. */
TEST(limit, a_strict_one_gives_nine_tenths_of_the_rate)
{
    static const struct {
        int64_t count, period_ms;
    } cases[] = {{50, 1000}, {1, 1000}, {20, 60000}, {1, 50}, {1000, 1000}, {7, 9973}, {3, 100}};
    for (size_t i = 0; i < CASES(cases); i++) {
        struct limit limit;
        int64_t now_ms = 12345;
        int64_t end_ms = now_ms + 200 * cases[i].period_ms;
        int64_t granted = 0;
        limit_init_strict(&limit, cases[i].count, cases[i].period_ms, now_ms);
        while (now_ms < end_ms) {
            granted += limit_take(&limit, now_ms, 1);
            now_ms = limit_next_ms(&limit, now_ms);
        }
        check_int(granted * 10, >=, 200 * cases[i].count * 9);
    }
}

TEST(limit, a_strict_one_that_is_changed_keeps_what_was_taken)
{
    struct limit limit;
    limit_init_strict(&limit, 10, 1000, 0);
    check_int(limit_take(&limit, 0, 10), ==, 10);
    limit_change(&limit, 15, 1000, true, 500);
    check_int(limit_take(&limit, 500, 100), ==, 5);
    limit_change(&limit, 15, 2000, true, 600);
    check_int(limit_available(&limit, 600), ==, 0);
    limit_change(&limit, 15, 2000, false, 700);
    check_int(limit_available(&limit, 700), ==, 0);
    limit_change(&limit, 30, 1000, true, 700);
    check_int(limit_take(&limit, 700, 100), ==, 15);
}

TEST(limit, a_strict_one_outlives_a_clock_that_is_set_back)
{
    struct limit limit;
    limit_init_strict(&limit, 10, 1000, 1000000);
    check_int(limit_take(&limit, 1000000, 10), ==, 10);
    check_int(limit_take(&limit, 999900, 10), ==, 0);
    check_int(limit_take(&limit, 500000, 10), ==, 0);
    check_int(limit_take(&limit, 502000, 10), ==, 10);
}

/* Symptom: what was looked at and not saved was looked at from the old time again and again. */
TEST(limit, tells_when_it_must_be_saved_because_the_clock_was_set_back)
{
    for (int strict = 0; strict <= 1; strict++) {
        struct limit limit;
        if (strict)
            limit_init_strict(&limit, 10, 1000, 1000000);
        else
            limit_init(&limit, 10, 1000, 1000000);
        check_int(limit_take(&limit, 1000000, 10), ==, 10);
        check(!limit_is_ahead(&limit, 1000000));
        check(!limit_is_ahead(&limit, 999500));
        check(limit_is_ahead(&limit, 500000));
        int64_t next_ms = limit_next_ms(&limit, 500000);
        check_int(next_ms, <=, 502000);
        check_int(limit_take(&limit, 500000, 0), ==, 0);
        check(!limit_is_ahead(&limit, 500000));
        check_int(limit_available(&limit, next_ms), >, 0);
    }
}

TEST(limit, slots_that_are_none_are_refused)
{
    static const char *const texts[] = {
        "", "1", "1:", "1:1,2", "x:0", "1:0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,-1"};
    for (size_t i = 0; i < CASES(texts); i++) {
        struct limit limit;
        limit_init_strict(&limit, 1, 1000, 0);
        check(!limit_slots_parse(&limit, texts[i]));
        check_int(limit_available(&limit, 0), ==, 1);
    }
}
