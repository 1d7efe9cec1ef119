/* See limit.h. */
#include "core/limit.h"

#define MICRO INT64_C(1000000)

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t capacity_micro(const struct limit *limit)
{
    return limit->count * MICRO;
}

void limit_init(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms)
{
    limit->count = clamp(count, 0, LIMIT_COUNT_MAX);
    limit->period_ms = period_ms > 0 ? period_ms : 1;
    limit->level_micro = capacity_micro(limit);
    limit->at_ms = now_ms;
}

/* Moves at_ms up to now as far as that needs no rounding. */
static void advance(struct limit *limit, int64_t now_ms)
{
    __int128 elapsed_ms = (__int128)now_ms - limit->at_ms;
    if (elapsed_ms < 0) {
        if (elapsed_ms < -limit->period_ms)
            limit->at_ms = now_ms;
        return;
    }
    /* Two periods fill any bucket: taken tokens never reach below minus one bucket. */
    __int128 periods = elapsed_ms / limit->period_ms;
    if (periods >= 2) {
        limit->level_micro = capacity_micro(limit);
        limit->at_ms = now_ms;
    } else if (periods == 1) {
        limit->level_micro += capacity_micro(limit);
        limit->at_ms += limit->period_ms;
    }
}

/* Level now; elapsed time is below one period after advance. */
static int64_t level_at(const struct limit *limit, int64_t now_ms)
{
    int64_t elapsed_ms = now_ms > limit->at_ms ? now_ms - limit->at_ms : 0;
    __int128 gained = (__int128)elapsed_ms * capacity_micro(limit) / limit->period_ms;
    return limit->level_micro + (int64_t)gained;
}

static void settle(struct limit *limit, int64_t now_ms)
{
    advance(limit, now_ms);
    if (level_at(limit, now_ms) >= capacity_micro(limit)) {
        limit->level_micro = capacity_micro(limit);
        if (now_ms > limit->at_ms)
            limit->at_ms = now_ms;
    }
}

void limit_change(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms)
{
    settle(limit, now_ms);
    int64_t level = level_at(limit, now_ms);
    limit_init(limit, count, period_ms, now_ms > limit->at_ms ? now_ms : limit->at_ms);
    limit->level_micro = clamp(level, -capacity_micro(limit), capacity_micro(limit));
}

int64_t limit_available(const struct limit *limit, int64_t now_ms)
{
    struct limit copy = *limit;
    settle(&copy, now_ms);
    int64_t level = level_at(&copy, now_ms);
    return level > 0 ? level / MICRO : 0;
}

int64_t limit_take(struct limit *limit, int64_t now_ms, int64_t want)
{
    settle(limit, now_ms);
    int64_t level = level_at(limit, now_ms);
    int64_t granted = clamp(want, 0, level > 0 ? level / MICRO : 0);
    limit->level_micro -= granted * MICRO;
    return granted;
}

int64_t limit_next_ms(const struct limit *limit, int64_t now_ms)
{
    if (limit->count <= 0)
        return -1;
    struct limit copy = *limit;
    settle(&copy, now_ms);
    if (level_at(&copy, now_ms) >= MICRO)
        return now_ms;
    __int128 missing = (__int128)(MICRO - copy.level_micro) * copy.period_ms;
    __int128 capacity = capacity_micro(&copy);
    __int128 due_ms = copy.at_ms + (missing + capacity - 1) / capacity;
    return due_ms > INT64_MAX ? -1 : (int64_t)due_ms;
}
