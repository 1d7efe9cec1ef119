/*
 * A schedule in plain language, for people who do not read cron. The sentence says what the
 * masks say, not how they were written: "0-59/15" and "0,15,30,45" are the same to it.
 */
#include "base/buf.h"
#include "base/timetext.h"
#include "core/cron.h"

enum {
    MOST_CLOCK_TIMES = 6,      /* more than these are described by hours and minutes apart */
    SHORTEST_RUN_AS_RANGE = 3, /* "1 to 3", but "1 and 2" */
};

static const uint64_t all_minutes = (UINT64_C(1) << 60) - 1;
static const uint64_t all_hours = (UINT64_C(1) << 24) - 1;
static const uint64_t all_days = UINT64_C(0xFFFFFFFE);
static const uint64_t all_months = 0x1FFE;
static const uint64_t all_weekdays = 0x7F;

typedef void put_value(struct buf *out, int value);

static void put_number(struct buf *out, int value)
{
    buf_int(out, value);
}

static void put_month(struct buf *out, int value)
{
    static const char *const names[] = {"",        "January",  "February", "March",  "April",
                                        "May",     "June",     "July",     "August", "September",
                                        "October", "November", "December"};
    buf_puts(out, names[value]);
}

static void put_weekday(struct buf *out, int value)
{
    static const char *const names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
    buf_puts(out, names[value]);
}

static void put_clock_time(struct buf *out, int minute_of_day)
{
    buf_printf(out, "%02d:%02d", minute_of_day / 60, minute_of_day % 60);
}

static int bit_count(uint64_t bits)
{
    return __builtin_popcountll(bits);
}

/* Takes the next item, a value or a run of them, off the mask. */
static void take_item(uint64_t *bits, int *ret_first, int *ret_last)
{
    int first = __builtin_ctzll(*bits);
    uint64_t above = ~(*bits >> first);
    int run = above ? __builtin_ctzll(above) : 64 - first;
    int last = run >= SHORTEST_RUN_AS_RANGE ? first + run - 1 : first;
    for (int value = first; value <= last; value++)
        *bits &= ~(UINT64_C(1) << value);
    *ret_first = first;
    *ret_last = last;
}

static void put_separator(struct buf *out, bool is_first, bool is_last, const char *last)
{
    if (!is_first)
        buf_puts(out, is_last ? last : ", ");
}

/* "1, 3 and 5 to 9" */
static void put_list(struct buf *out, uint64_t bits, put_value *put, const char *last_separator)
{
    for (bool is_first = true; bits != 0; is_first = false) {
        int first, last;
        take_item(&bits, &first, &last);
        put_separator(out, is_first, bits == 0, last_separator);
        put(out, first);
        if (last > first) {
            buf_puts(out, " to ");
            put(out, last);
        }
    }
}

/* n when the mask is 0, n, 2n, … and n divides 60; 0 otherwise. */
static int minute_step(uint64_t minutes)
{
    int count = bit_count(minutes);
    if (count < 2 || 60 % count != 0)
        return 0;
    int step = 60 / count;
    for (int minute = 0; minute < 60; minute += step) {
        if (!(minutes >> minute & 1))
            return 0;
    }
    return step;
}

static bool has_clock_times(const struct cron *cron)
{
    return cron->hours != all_hours &&
           bit_count(cron->minutes) * bit_count(cron->hours) <= MOST_CLOCK_TIMES;
}

static void put_zone(struct buf *out, const char *timezone)
{
    buf_printf(out, " %s", timezone != NULL ? timezone : "UTC");
}

/* "03:15, 09:15 and 15:15 UTC" */
static void put_clock_times(struct buf *out, const struct cron *cron, const char *timezone)
{
    int left = bit_count(cron->minutes) * bit_count(cron->hours);
    bool is_first = true;
    for (int at = 0; at < 24 * 60; at++) {
        if (!(cron->hours >> (at / 60) & 1) || !(cron->minutes >> (at % 60) & 1))
            continue;
        put_separator(out, is_first, --left == 0, " and ");
        put_clock_time(out, at);
        is_first = false;
    }
    put_zone(out, timezone);
}

/* "every 5 minutes in the hours 9 to 17 UTC" */
static void put_frequency(struct buf *out, const struct cron *cron, const char *timezone)
{
    bool every_hour = cron->hours == all_hours;
    int step = minute_step(cron->minutes);
    if (cron->minutes == all_minutes) {
        buf_puts(out, "every minute");
    } else if (step > 0) {
        buf_printf(out, "every %d minutes", step);
    } else if (cron->minutes == 1 && every_hour) {
        buf_puts(out, "every hour");
    } else {
        buf_puts(out, bit_count(cron->minutes) == 1 ? "at minute " : "at minutes ");
        put_list(out, cron->minutes, put_number, " and ");
        if (every_hour)
            buf_puts(out, " of every hour");
    }
    if (!every_hour) {
        buf_puts(out, bit_count(cron->hours) == 1 ? " in the hour " : " in the hours ");
        put_list(out, cron->hours, put_number, " and ");
        put_zone(out, timezone);
    }
}

static bool is_every_day(const struct cron *cron)
{
    bool days = cron->days == all_days;
    bool weekdays = cron->weekdays == all_weekdays;
    return cron->days_star || cron->weekdays_star ? days && weekdays : days || weekdays;
}

/* "on day 13 of the month or on Friday" */
static void put_days(struct buf *out, const struct cron *cron)
{
    bool by_day = cron->days != all_days;
    bool by_weekday = cron->weekdays != all_weekdays;
    if (by_day) {
        buf_puts(out, bit_count(cron->days) == 1 ? "on day " : "on days ");
        put_list(out, cron->days, put_number, " and ");
        buf_puts(out, " of the month");
    }
    if (!by_weekday)
        return;
    bool both = by_day && (cron->days_star || cron->weekdays_star);
    buf_puts(out, both ? " if that is " : by_day ? " or on " : "on ");
    put_list(out, cron->weekdays, put_weekday, both ? " or " : " and ");
}

void cron_describe(const struct cron *cron, const char *timezone, struct buf *out)
{
    if (cron->every_ms > 0) {
        char every[DURATION_TEXT_BYTES];
        buf_printf(out, "every %s", duration_text(cron->every_ms, every));
        return;
    }
    bool clock_times = has_clock_times(cron);
    bool every_day = is_every_day(cron);
    if (clock_times && every_day)
        buf_puts(out, "every day");
    if (!clock_times)
        put_frequency(out, cron, timezone);
    if (!every_day) {
        if (!clock_times)
            buf_putc(out, ' ');
        put_days(out, cron);
    }
    if (cron->months != all_months) {
        buf_puts(out, " in ");
        put_list(out, cron->months, put_month, " and ");
    }
    if (clock_times) {
        buf_puts(out, " at ");
        put_clock_times(out, cron, timezone);
    }
}
