/* base/rng and base/clock: chance and time. */
#include "base/clock.h"
#include "base/rng.h"
#include "unit/case.h"

TEST(rng, follows_the_published_algorithm)
{
    /* xoshiro256** from the state 1, 2, 3, 4. */
    static const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
    };
    struct rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < CASES(expected); i++)
        check(rng_u64(&rng) == expected[i]);
    /* splitmix64 from 0. */
    rng_seed(&rng, 0);
    check(rng.state[0] == UINT64_C(0xE220A8397B1DCDAF));
    check(rng.state[1] == UINT64_C(0x6E789E6AA1B965F4));
}

TEST(rng, the_same_seed_gives_the_same_sequence)
{
    struct rng one, two, other;
    rng_seed(&one, 42);
    rng_seed(&two, 42);
    rng_seed(&other, 43);
    bool differs = false;
    for (int i = 0; i < 1000; i++) {
        uint64_t drawn = rng_u64(&one);
        check(drawn == rng_u64(&two));
        differs |= drawn != rng_u64(&other);
    }
    check(differs);
}

TEST(rng, random_seeds_differ)
{
    struct rng one, two;
    rng_seed_random(&one);
    rng_seed_random(&two);
    check(rng_u64(&one) != rng_u64(&two));
}

TEST(rng, below_reaches_every_value_about_equally_often)
{
    struct rng rng;
    rng_seed(&rng, 1);
    int seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t drawn = rng_below(&rng, 7);
        check(drawn < 7);
        seen[drawn]++;
    }
    for (int i = 0; i < 7; i++)
        check(seen[i] > 9500 && seen[i] < 10500);
    check_int(rng_below(&rng, 0), ==, 0);
    check_int(rng_below(&rng, 1), ==, 0);
    /* Half of all draws have to be thrown away here. */
    uint64_t bound = (UINT64_C(1) << 63) + 1;
    for (int i = 0; i < 1000; i++)
        check(rng_below(&rng, bound) < bound);
}

TEST(rng, doubles_are_from_0_to_below_1)
{
    struct rng rng;
    rng_seed(&rng, 5);
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double drawn = rng_double(&rng);
        check(drawn >= 0.0 && drawn < 1.0);
        sum += drawn;
    }
    check(sum > 49000 && sum < 51000);
}

TEST(clock, monotonic_time_never_runs_back_and_wall_time_is_this_century)
{
    int64_t last_ns = clock_mono_ns();
    for (int i = 0; i < 10000; i++) {
        int64_t now_ns = clock_mono_ns();
        check(now_ns >= last_ns);
        last_ns = now_ns;
    }
    check(clock_mono_ms() >= last_ns / 1000000);
    check(clock_wall_ms() > INT64_C(1600000000000));
    check(clock_wall_ms() < INT64_C(4102444800000));
}
