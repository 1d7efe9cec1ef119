/*
 * Chance for jitter, sampling and simulation: xoshiro256** of Blackman and Vigna.
 *
 * Not for secrets: whoever sees a few outputs can compute the rest. The same seed gives the same
 * sequence on every machine, which is what lets a failing simulation be repeated.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state[4]; /* never all zero */
};

/* Every seed is good, 0 included. */
void rng_seed(struct rng *rng, uint64_t seed);

/* Seeded by the kernel. */
void rng_seed_random(struct rng *rng);

uint64_t rng_u64(struct rng *rng);

/* 0 to bound - 1, each equally likely; 0 when bound is 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* At least 0.0, below 1.0. */
double rng_double(struct rng *rng);

#endif
