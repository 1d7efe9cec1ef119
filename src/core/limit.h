/*
 * A rate limit, of one of two kinds.
 *
 * A bucket holds up to `count` tokens and regains `count` per `period_ms`. Over a long time exactly
 * the set rate; but a full bucket can be emptied at once and is refilled meanwhile, so that a
 * window of one period may see up to twice `count`.
 *
 * A strict limit lets no window of `period_ms`, wherever it begins, see more than `count`. It
 * counts what was taken in slots of a LIMIT_SLOTS-th of the period, and what is in a slot counts
 * until the whole slot is older than a period. So up to one slot of time is given away: at most 1 /
 * (LIMIT_SLOTS + 1) of the rate, and more only where a period is but a few milliseconds.
 *
 * Not a clock and not shared: the store keeps the numbers and lets one transaction at a time change
 * them. Invariants of a bucket: never more than `count` tokens; no drift, since the fraction gained
 * since at_ms is computed anew each time and never stored.
 */
#ifndef CORE_LIMIT_H
#define CORE_LIMIT_H

#include "base/rate.h"

#include <stdbool.h>
#include <stdint.h>

enum { LIMIT_SLOTS = 20, LIMIT_TEXT_BYTES = 512 };

struct limit {
    int64_t count;     /* tokens per period; 0 lets nothing through */
    int64_t period_ms; /* at least 1 */
    bool strict;       /* a window; what follows for a bucket is not used then */

    /*
     * Millionths of a token at at_ms. Negative when tokens gained after at_ms have been taken
     * already: at_ms moves only over whole periods or when the bucket is full, because only there
     * no fraction has to be rounded.
     */
    int64_t level_micro;
    int64_t at_ms;

    /* A strict limit: how many were taken in the newest slot and those before it. Slot n is the
     * time from n to n + 1 times a LIMIT_SLOTS-th of the period, rounded up. */
    int64_t slot; /* number of the newest */
    int64_t taken[LIMIT_SLOTS + 1];
};

/* Largest count a limit takes; much larger ones would not fit into level_micro. */
#define LIMIT_COUNT_MAX RATE_COUNT_MAX

/* A full bucket. */
void limit_init(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms);

/* The same, strict: nothing has been taken. */
void limit_init_strict(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms);

/*
 * Another rate, or kind, from now on. Tokens already there stay, as far as the new bucket holds
 * them; what was taken within the last period counts as taken now where the limit is strict.
 */
void limit_change(struct limit *limit, int64_t count, int64_t period_ms, bool strict,
                  int64_t now_ms);

/* Whole tokens that could be taken now. */
int64_t limit_available(const struct limit *limit, int64_t now_ms);

/*
 * Takes up to `want` tokens and returns how many. A clock that stands still or runs back gains
 * nothing; one that was set back by more than a period is believed, lest the limit stay shut.
 */
int64_t limit_take(struct limit *limit, int64_t now_ms, int64_t want);

/* The clock was set back so far since it was saved last. Until what limit_take makes of it (even of
 * no tokens) is saved, it stays shut. */
bool limit_is_ahead(const struct limit *limit, int64_t now_ms);

/* The earliest time >= now_ms at which a token is there; -1 when there never will be one. */
int64_t limit_next_ms(const struct limit *limit, int64_t now_ms);

/* The slots of a strict limit as text, "NEWEST:TAKEN,TAKEN,…", and back; false: that is none. */
const char *limit_slots_text(const struct limit *limit, char out[LIMIT_TEXT_BYTES]);
bool limit_slots_parse(struct limit *limit, const char *text);

#endif
