/*
 * The pace of store time where the machine's clock gives it (SQLite). The wall clock is set by
 * people and by NTP, and the machine sleeps; store time must never run backwards, never stand
 * still, and no lease may end by time that nobody has lived through.
 *
 * Store time follows the wall clock when that is ahead. When the wall clock is behind, because it
 * was set back, or because one process saw a wrong one, store time goes on from the newest that was
 * given out, a sixteenth slower than the time since boot, until the wall clock has caught up.
 *
 * Time that nobody has lived through: store time has moved on by more than the machine was awake.
 *
 * Pure: times are arguments, in microseconds, so that many short steps lose nothing to rounding.
 */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include <stdint.h>

/* What is less than this is not worth a word: clocks differ by a little all the time. */
enum { PACE_SLACK_US = 500000 };

/* Store time at one moment, and the clocks that run evenly. */
struct pace_mark {
    int64_t store_us;
    int64_t boottime_us;  /* since boot, with sleep */
    int64_t monotonic_us; /* since boot, without */
};

/* What store time has come to since the mark, by its pace alone. */
int64_t pace_since(const struct pace_mark *mark, int64_t boottime_us);

/*
 * How much of the time between two marks nobody has lived through: the wall clock was set forward,
 * or the machine slept. 0 when it is not worth a word: clocks differ by a little all the time.
 */
int64_t pace_unlived(const struct pace_mark *from, const struct pace_mark *to);

/*
 * By how much the leases are to be moved: unlived_us, and blocked_us in which nobody could write.
 * Both may tell of the same time, and blocked_us of time in which somebody wrote after all: never
 * more than store time moved on between the marks, and 0 when it is too little to matter.
 */
int64_t pace_owed(const struct pace_mark *from, const struct pace_mark *to, int64_t blocked_us);

/*
 * By how much a clock elsewhere (store_us) was set between two marks, against the time since boot
 * here; below 0: back. It was read with an error of error_us at most. 0 when it is not worth a
 * word. What either machine slept does not count: both clocks go on meanwhile.
 */
int64_t pace_jump(const struct pace_mark *from, const struct pace_mark *to, int64_t error_us);

#endif
