/*
 * A rate limit: a bucket that holds up to `count` tokens and regains `count` per `period_ms`.
 *
 * Not a clock and not shared: the store keeps the four numbers and lets one transaction at a time
 * change them. Invariants: never more than `count` tokens; over any stretch of time exactly the
 * set rate, since the fraction gained since at_ms is computed anew each time and never stored.
 */
#ifndef CORE_LIMIT_H
#define CORE_LIMIT_H

#include "base/rate.h"

#include <stdint.h>

struct limit {
    int64_t count;     /* size of the bucket, tokens per period; 0 lets nothing through */
    int64_t period_ms; /* at least 1 */

    /*
     * Millionths of a token at at_ms. Negative when tokens gained after at_ms have been taken
     * already: at_ms moves only over whole periods or when the bucket is full, because only there
     * no fraction has to be rounded.
     */
    int64_t level_micro;
    int64_t at_ms;
};

/* Largest count a limit takes; much larger ones would not fit into level_micro. */
#define LIMIT_COUNT_MAX RATE_COUNT_MAX

/* A full bucket. */
void limit_init(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms);

/* Another rate from now on; tokens already there stay, as far as the new bucket holds them. */
void limit_change(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms);

/* Whole tokens that could be taken now. */
int64_t limit_available(const struct limit *limit, int64_t now_ms);

/*
 * Takes up to `want` tokens and returns how many. A clock that stands still or runs back gains
 * nothing; one that was set back by more than a period is believed, lest the limit stay shut.
 */
int64_t limit_take(struct limit *limit, int64_t now_ms, int64_t want);

/* The earliest time >= now_ms at which a token is there; -1 when there never will be one. */
int64_t limit_next_ms(const struct limit *limit, int64_t now_ms);

#endif
