/*
 * Schedules: five-field cron expressions, in UTC or in a time zone.
 *
 *     ┌ minute 0-59   ┌ hour 0-23   ┌ day of month 1-31   ┌ month 1-12, jan-dec
 *     15              3             *                     *       1-5 ── day of week 0-7, sun-sat
 *
 * Each field is * or a list of numbers, ranges and steps (1,15  9-17  * /10  0-30/5, without the
 * blank). As in Debian's cron: when both day fields are restricted, one of them has to match; a
 * field that begins with * is not a restriction, and then both have to match. Also @hourly @daily
 * @midnight @weekly @monthly @yearly @annually, and "@every 90s".
 *
 * In a time zone there are times that the clock on the wall shows twice or never. The rule:
 * - A schedule that names hours ("15 3 * * *") runs at the first moment when the clock shows its
 *   time or a later one. A time that is skipped is thus run at the end of the gap, all that are
 *   skipped together once; a time that comes twice is run when it comes first.
 * - A schedule whose hour field begins with * ("0 * * * *") goes by the time that passes: it runs
 *   whenever the clock shows a time that matches, also in the hour that comes again, and at no time
 *   that is skipped.
 * - @every knows no zone.
 *
 * Not a timer: cron_next computes, others wait.
 */
#ifndef CORE_CRON_H
#define CORE_CRON_H

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct err;
struct zone;

struct cron {
    /* Bit n is set when value n matches. */
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;     /* of the month; bits 1 to 31 */
    uint32_t months;   /* bits 1 to 12 */
    uint32_t weekdays; /* bits 0 (Sunday) to 6 */
    bool hours_star;   /* the field began with *: see the rule for time zones above */
    bool days_star;    /* ... it does not count as a restriction */
    bool weekdays_star;

    int64_t every_ms; /* @every; 0 for all others, and then the fields above count */
};

/*
 * 0, or TEND_EINVAL with a sentence that names the field. err may be NULL. A schedule that never
 * comes (30 February) parses; cron_next says so.
 */
int cron_parse(const char *text, struct cron *ret_cron, struct err *err);

/*
 * The first time to run after after_ms, never after_ms itself; -1 when there is none up to the end
 * of the year 9999. A zone of NULL is UTC. @every counts from 1970, not from when it was set up, so
 * that all who ask agree and a pause in between does not shift it.
 */
int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t after_ms);

/* Appends the schedule in plain language: "every day at 03:15 Europe/Berlin"; NULL: UTC. */
void cron_describe(const struct cron *cron, const char *timezone, struct buf *out);

#endif
