/* See rng.h. */
#include "base/rng.h"

#include "base/clock.h"

#include <sys/random.h>
#include <sys/types.h>

/* One step of splitmix64: spreads a small seed over many bits. */
static uint64_t spread(uint64_t *seed)
{
    *seed += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = *seed;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ mixed >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->state[i] = spread(&seed);
}

void rng_seed_random(struct rng *rng)
{
    uint64_t seed;
    /* Eight bytes come whole or, on a kernel without the call or before its pool is filled, not at
     * all; then two clocks and an address must do: this is jitter, not a key. */
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint64_t)clock_mono_ns() ^ (uint64_t)clock_wall_ms() << 32 ^ (uintptr_t)&seed;
    rng_seed(rng, seed);
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

uint64_t rng_u64(struct rng *rng)
{
    uint64_t *state = rng->state;
    uint64_t result = rotate_left(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate_left(state[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    if (bound == 0)
        return 0;
    /* The lowest 2^64 mod bound values would make small results likelier: draw again. */
    uint64_t unfair = (0 - bound) % bound;
    uint64_t drawn;
    do
        drawn = rng_u64(rng);
    while (drawn < unfair);
    return drawn % bound;
}

double rng_double(struct rng *rng)
{
    return (double)(rng_u64(rng) >> 11) * 0x1.0p-53;
}
