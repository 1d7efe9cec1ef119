/* See limit.h. */
#include "core/limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    *limit = (struct limit){0};
    limit->count = clamp(count, 0, LIMIT_COUNT_MAX);
    limit->period_ms = period_ms > 0 ? period_ms : 1;
    limit->level_micro = capacity_micro(limit);
    limit->at_ms = now_ms;
}

/* --- strict --- */

static int64_t slot_ms(const struct limit *limit)
{
    return (limit->period_ms + LIMIT_SLOTS - 1) / LIMIT_SLOTS;
}

static int64_t slot_of(const struct limit *limit, int64_t at_ms)
{
    int64_t slot = at_ms / slot_ms(limit);
    return at_ms % slot_ms(limit) < 0 ? slot - 1 : slot;
}

void limit_init_strict(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms)
{
    limit_init(limit, count, period_ms, now_ms);
    limit->strict = true;
    limit->slot = slot_of(limit, now_ms);
}

/* When what was taken in a slot no longer counts: its last millisecond is a period ago. */
static int64_t slot_over_ms(const struct limit *limit, int64_t back)
{
    return (limit->slot - back + 1) * slot_ms(limit) - 1 + limit->period_ms;
}

/* What counts at a time. */
static int64_t taken_at(const struct limit *limit, int64_t now_ms)
{
    int64_t sum = 0;
    for (int64_t back = 0; back <= LIMIT_SLOTS; back++)
        if (slot_over_ms(limit, back) > now_ms)
            sum += limit->taken[back];
    return sum;
}

/*
 * Makes the slot of now the newest. Behind a clock that was set back the newest stays; by more than
 * all slots, it is believed, and what was taken counts as taken now.
 */
static void move_slots(struct limit *limit, int64_t now_ms)
{
    int64_t slot = slot_of(limit, now_ms);
    int64_t moved[LIMIT_SLOTS + 1] = {0};
    if (slot <= limit->slot && limit->slot - slot <= LIMIT_SLOTS)
        return;
    if (slot < limit->slot) {
        for (int i = 0; i <= LIMIT_SLOTS; i++)
            moved[0] += limit->taken[i];
        moved[0] = clamp(moved[0], 0, limit->count);
    }
    for (int64_t i = slot - limit->slot; i >= 0 && i <= LIMIT_SLOTS; i++)
        moved[i] = limit->taken[i - (slot - limit->slot)];
    memcpy(limit->taken, moved, sizeof moved);
    limit->slot = slot;
}

static int64_t strict_available(const struct limit *limit, int64_t now_ms)
{
    struct limit copy = *limit;
    move_slots(&copy, now_ms);
    return clamp(copy.count - taken_at(&copy, now_ms), 0, copy.count);
}

static int64_t strict_take(struct limit *limit, int64_t now_ms, int64_t want)
{
    move_slots(limit, now_ms);
    int64_t granted = clamp(want, 0, strict_available(limit, now_ms));
    limit->taken[0] += granted;
    return granted;
}

static int64_t strict_next_ms(const struct limit *limit, int64_t now_ms)
{
    struct limit copy = *limit;
    move_slots(&copy, now_ms);
    int64_t left = taken_at(&copy, now_ms);
    if (left < copy.count)
        return now_ms;
    for (int64_t back = LIMIT_SLOTS; back >= 0; back--) {
        int64_t over_ms = slot_over_ms(&copy, back);
        if (over_ms <= now_ms)
            continue;
        left -= copy.taken[back];
        if (left < copy.count)
            return over_ms;
    }
    return -1;
}

const char *limit_slots_text(const struct limit *limit, char out[LIMIT_TEXT_BYTES])
{
    int len = snprintf(out, LIMIT_TEXT_BYTES, "%lld:", (long long)limit->slot);
    for (int i = 0; i <= LIMIT_SLOTS; i++)
        len += snprintf(out + len, LIMIT_TEXT_BYTES - (size_t)len, "%s%lld", i == 0 ? "" : ",",
                        (long long)limit->taken[i]);
    return out;
}

bool limit_slots_parse(struct limit *limit, const char *text)
{
    int64_t numbers[LIMIT_SLOTS + 2];
    char *end;
    for (int i = 0; i < LIMIT_SLOTS + 2; i++, text = end + 1) {
        char after = (char)(i == 0 ? ':' : i == LIMIT_SLOTS + 1 ? '\0' : ',');
        errno = 0;
        numbers[i] = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != after ||
            (i > 0 && (numbers[i] < 0 || numbers[i] > LIMIT_COUNT_MAX)))
            return false;
    }
    limit->slot = numbers[0];
    memcpy(limit->taken, &numbers[1], sizeof limit->taken);
    return true;
}

/* --- the bucket --- */

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

static int64_t bucket_available(const struct limit *limit, int64_t now_ms)
{
    struct limit copy = *limit;
    settle(&copy, now_ms);
    int64_t level = level_at(&copy, now_ms);
    return level > 0 ? level / MICRO : 0;
}

static int64_t bucket_take(struct limit *limit, int64_t now_ms, int64_t want)
{
    settle(limit, now_ms);
    int64_t level = level_at(limit, now_ms);
    int64_t granted = clamp(want, 0, level > 0 ? level / MICRO : 0);
    limit->level_micro -= granted * MICRO;
    return granted;
}

static int64_t bucket_next_ms(const struct limit *limit, int64_t now_ms)
{
    struct limit copy = *limit;
    settle(&copy, now_ms);
    if (level_at(&copy, now_ms) >= MICRO)
        return now_ms;
    __int128 missing = (__int128)(MICRO - copy.level_micro) * copy.period_ms;
    __int128 capacity = capacity_micro(&copy);
    __int128 due_ms = copy.at_ms + (missing + capacity - 1) / capacity;
    return due_ms > INT64_MAX ? -1 : (int64_t)due_ms;
}

/* --- either --- */

static void change_bucket(struct limit *limit, int64_t count, int64_t period_ms, int64_t now_ms)
{
    settle(limit, now_ms);
    int64_t level = level_at(limit, now_ms);
    limit_init(limit, count, period_ms, now_ms > limit->at_ms ? now_ms : limit->at_ms);
    limit->level_micro = clamp(level, -capacity_micro(limit), capacity_micro(limit));
}

void limit_change(struct limit *limit, int64_t count, int64_t period_ms, bool strict,
                  int64_t now_ms)
{
    if (!limit->strict && !strict) {
        change_bucket(limit, count, period_ms, now_ms);
        return;
    }
    int64_t taken = limit->count - limit_available(limit, now_ms);
    bool kept = limit->strict && strict && limit->period_ms == period_ms;
    if (kept) {
        limit->count = clamp(count, 0, LIMIT_COUNT_MAX);
    } else if (strict) {
        limit_init_strict(limit, count, period_ms, now_ms);
        limit->taken[0] = clamp(taken, 0, limit->count);
    } else {
        limit_init(limit, count, period_ms, now_ms);
        limit->level_micro -= clamp(taken, 0, limit->count) * MICRO;
    }
}

int64_t limit_available(const struct limit *limit, int64_t now_ms)
{
    return limit->strict ? strict_available(limit, now_ms) : bucket_available(limit, now_ms);
}

int64_t limit_take(struct limit *limit, int64_t now_ms, int64_t want)
{
    return limit->strict ? strict_take(limit, now_ms, want) : bucket_take(limit, now_ms, want);
}

bool limit_is_ahead(const struct limit *limit, int64_t now_ms)
{
    return limit->strict ? limit->slot - slot_of(limit, now_ms) > LIMIT_SLOTS
                         : limit->at_ms > now_ms && limit->at_ms - now_ms > limit->period_ms;
}

int64_t limit_next_ms(const struct limit *limit, int64_t now_ms)
{
    if (limit->count <= 0)
        return -1;
    return limit->strict ? strict_next_ms(limit, now_ms) : bucket_next_ms(limit, now_ms);
}
