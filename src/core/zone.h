/*
 * Time zones: what the wall clocks of a place show, from the tz database's files (TZif, RFC 8536).
 *
 * A zone is a list of changes with the offset from UTC that holds after each, and a rule for all
 * times after the last of them (the POSIX TZ text in the file's footer). Offsets are seconds to be
 * added to UTC. Files that count leap seconds ("right/...") are refused: store time does not.
 *
 * Pure: takes the bytes, whoever read them (base/zone_file.h).
 */
#ifndef CORE_ZONE_H
#define CORE_ZONE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* No clock is farther from UTC than this. */
enum { ZONE_OFFSET_MAX_S = 26 * 3600 };

struct zone_change {
    int64_t at_s;     /* since 1970, UTC */
    int32_t offset_s; /* from then on */
};

/* When in a year daylight saving time begins or ends. */
struct zone_day {
    enum { ZONE_DAY_JULIAN, ZONE_DAY_ZERO_BASED, ZONE_DAY_WEEKDAY } form;
    int day;         /* 1-365 without 29 February; 0-365; or the weekday, 0 is Sunday */
    int month, week; /* ZONE_DAY_WEEKDAY: week 5 is the last */
    int32_t time_s;  /* on the clock that is in force before; may lie days away */
};

struct zone_rule {
    int32_t offset_s; /* of standard time */
    bool has_dst;
    int32_t dst_offset_s;
    struct zone_day dst_begins, dst_ends;
};

struct zone {
    const struct zone_change *changes; /* in order of time */
    size_t change_count;
    int32_t first_offset_s; /* before the first change */
    bool has_rule;          /* for the time after the last change; false: its offset stays */
    struct zone_rule rule;
};

/* A file's content. 0, or TEND_EINVAL (not TZif, damaged, leap seconds) or TEND_ENOMEM. The zone
 * lives in the arena; bytes are not needed afterwards. err may be NULL. */
int zone_parse(const void *bytes, size_t size, struct arena *arena, struct zone *ret,
               struct err *err);

/* A stretch of time with one offset; begin_s belongs to it, end_s does not. The offset may be the
 * same before and after it. */
struct zone_span {
    int64_t begin_s, end_s; /* INT64_MIN and INT64_MAX: without end */
    int32_t offset_s;
};

/* The one at_s lies in. A zone of NULL is UTC. */
struct zone_span zone_span_at(const struct zone *zone, int64_t at_s);

enum { ZONE_TIME_BYTES = 48 };

/* The time there, with its offset: "2026-03-29T03:15:00+02:00"; "…Z" when zone is NULL. */
const char *zone_time_text(const struct zone *zone, int64_t ms, char out[ZONE_TIME_BYTES]);

#endif
