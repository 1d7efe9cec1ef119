/*
 * Durations and times as people write them, to and from int64 milliseconds.
 *
 * Not a calendar for people's zones: everything is UTC or says its offset. Invariants: what is
 * printed here is read back here to the same number; what is not understood is refused with a
 * sentence, never guessed.
 */
#ifndef BASE_TIMETEXT_H
#define BASE_TIMETEXT_H

#include <stdint.h>

struct err;

enum {
    DURATION_TEXT_BYTES = 40, /* longest duration or relative time, with its NUL */
    TIME_TEXT_BYTES = 40,     /* longest time, with its NUL */
    DURATION_RANGE_BYTES = 2 * DURATION_TEXT_BYTES + 24,
};

/* 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: the times that can be written. */
#define TIME_MIN_MS INT64_C(-62167219200000)
#define TIME_MAX_MS INT64_C(253402300799999)

/*
 * "250ms", "5s", "1h30m", "1h 30m", "1.5s", "0": units d h m s ms, largest first, each at most
 * once; a fraction only on the last, and no finer than a millisecond. 0 or TEND_EINVAL; err may be
 * NULL.
 */
int duration_parse(const char *text, int64_t *ret_ms, struct err *err);

/* A duration that somebody has set, exactly: "1h 30m", "1m 1.5s", "250ms", "0s". A negative one
 * gets a minus sign, which is not read back. */
const char *duration_text(int64_t ms, char out[DURATION_TEXT_BYTES]);

/* How long something has taken or will take, rounded for people: "250ms", "4.0s", "42s", "5m 3s",
 * "1h 59m", "3d 4h". A negative one is "0s". */
const char *span_text(int64_t ms, char out[DURATION_TEXT_BYTES]);

/* "a duration from 100ms to 366d": what a sentence says must be given. */
const char *duration_range_text(int64_t low_ms, int64_t high_ms, char out[DURATION_RANGE_BYTES]);

/*
 * "2026-01-31T10:00:00Z" (RFC 3339: offset, fraction, blank or small letters allowed; what is finer
 * than a millisecond is cut off), "2026-01-31" (midnight UTC), "@1767225600" (Unix seconds), "now".
 * 0 or TEND_EINVAL; err may be NULL.
 */
int time_parse(const char *text, int64_t now_ms, int64_t *ret_ms, struct err *err);

/* "2026-01-31T10:00:00.123Z". Beyond TIME_MIN_MS and TIME_MAX_MS the year has a sign. */
const char *time_text(int64_t ms, char out[TIME_TEXT_BYTES]);

/* "3m 12s ago", "in 5.0s", "in 1h 59m", as span_text; "now" is that millisecond. */
const char *relative_text(int64_t ms, int64_t now_ms, char out[DURATION_TEXT_BYTES]);

/* The same for a time that was still to come when it was read: "now" once it has passed. */
const char *coming_text(int64_t ms, int64_t now_ms, char out[DURATION_TEXT_BYTES]);

#endif
