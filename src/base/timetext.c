/* See timetext.h. */
#include "base/timetext.h"

#include "base/civil.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

struct unit {
    const char *name;
    int64_t ms;
};

/* Largest first: the order in which they may follow each other. */
static const struct unit units[] = {
    {"d", MS_PER_DAY}, {"h", MS_PER_HOUR}, {"m", MS_PER_MINUTE}, {"s", MS_PER_SECOND}, {"ms", 1},
};

enum { UNITS = sizeof units / sizeof *units };

/* Longer spans are told as this one. */
#define LONGEST_MS (INT64_MAX - MS_PER_DAY)

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* ---- durations ---- */

/* A decimal number, split so that no digit is lost: whole + fraction / scale. */
struct decimal {
    int64_t whole;
    int64_t fraction;
    int64_t scale;
    bool has_fraction;
    bool too_fine; /* more digits than any unit can use */
    bool too_large;
};

/* A day has 2^10 · 3^3 · 5^5 milliseconds: no fraction with more than ten digits, the last of them
 * not 0, makes whole milliseconds of any unit. */
static const int64_t finest_scale = INT64_C(10000000000);

/* Reads "1", "1.5"; returns at itself when there is no digit. */
static const char *read_decimal(const char *at, struct decimal *number)
{
    *number = (struct decimal){.scale = 1};
    if (!is_digit(*at))
        return at;
    for (; is_digit(*at); at++) {
        int64_t digit = *at - '0';
        if (__builtin_mul_overflow(number->whole, 10, &number->whole) ||
            __builtin_add_overflow(number->whole, digit, &number->whole))
            number->too_large = true;
    }
    if (at[0] != '.' || !is_digit(at[1]))
        return at;
    number->has_fraction = true;
    int64_t zeros = 0; /* zeros not yet known to matter */
    for (at++; is_digit(*at); at++) {
        if (*at == '0') {
            zeros++;
            continue;
        }
        for (; zeros >= 0 && !number->too_fine; zeros--) {
            if (number->scale >= finest_scale)
                number->too_fine = true;
            number->scale *= 10;
            number->fraction *= 10;
        }
        zeros = 0;
        number->fraction += *at - '0';
    }
    return at;
}

static int find_unit(const char *at)
{
    /* "ms" would be taken for "m" otherwise. */
    if (at[0] == 'm' && at[1] == 's')
        return UNITS - 1;
    for (int i = 0; i < UNITS - 1; i++) {
        if (at[0] == units[i].name[0])
            return i;
    }
    return -1;
}

/* Milliseconds of number × unit; NULL, or what is wrong with it. */
static const char *scale_number(const struct decimal *number, int64_t unit_ms, int64_t *ret_ms)
{
    int64_t whole_ms;
    if (number->too_large || __builtin_mul_overflow(number->whole, unit_ms, &whole_ms))
        return "it is too long";
    if (number->too_fine || number->fraction * unit_ms % number->scale != 0)
        return "it is finer than a millisecond";
    int64_t ms;
    if (__builtin_add_overflow(whole_ms, number->fraction * unit_ms / number->scale, &ms))
        return "it is too long";
    *ret_ms = ms;
    return NULL;
}

/* NULL, or what is wrong. */
static const char *read_duration(const char *at, int64_t *ret_ms)
{
    if (strcmp(at, "0") == 0) {
        *ret_ms = 0;
        return NULL;
    }
    if (*at == '\0')
        return "it is empty";
    if (*at == '-')
        return "it must not be negative";
    int64_t total_ms = 0;
    int last_unit = -1;
    bool had_fraction = false;
    while (*at) {
        struct decimal number;
        const char *number_start = at;
        at = read_decimal(at, &number);
        if (at == number_start)
            return "a number is expected, then d, h, m, s or ms";
        int unit = find_unit(at);
        if (unit < 0)
            return "each number needs a unit: d, h, m, s or ms";
        if (unit <= last_unit)
            return "the units must go from large to small, each at most once";
        if (had_fraction)
            return "only the last number may have a fraction";
        int64_t ms;
        const char *wrong = scale_number(&number, units[unit].ms, &ms);
        if (wrong)
            return wrong;
        if (__builtin_add_overflow(total_ms, ms, &total_ms))
            return "it is too long";
        had_fraction = number.has_fraction;
        last_unit = unit;
        at += strlen(units[unit].name);
        if (at[0] == ' ' && is_digit(at[1])) /* "1h 30m", as it is printed */
            at++;
    }
    *ret_ms = total_ms;
    return NULL;
}

int duration_parse(const char *text, int64_t *ret_ms, struct err *err)
{
    const char *wrong = read_duration(text, ret_ms);
    if (wrong)
        return err_set(err, TEND_EINVAL, "\"%s\" is not a duration like 250ms, 5s or 1h30m: %s",
                       text, wrong);
    return 0;
}

const char *duration_text(int64_t ms, char out[DURATION_TEXT_BYTES])
{
    uint64_t rest = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    int len = snprintf(out, DURATION_TEXT_BYTES, "%s", ms < 0 ? "-" : "");
    if (rest < MS_PER_SECOND) {
        snprintf(out + len, (size_t)(DURATION_TEXT_BYTES - len), "%d%s", (int)rest,
                 rest == 0 ? "s" : "ms");
        return out;
    }
    for (int i = 0; i < UNITS - 2; i++) {
        uint64_t unit_ms = (uint64_t)units[i].ms;
        uint64_t count = rest / unit_ms;
        rest %= unit_ms;
        if (count > 0)
            len += snprintf(out + len, (size_t)(DURATION_TEXT_BYTES - len), "%llu%s%s",
                            (unsigned long long)count, units[i].name, rest > 0 ? " " : "");
    }
    if (rest == 0)
        return out;
    char fraction[8] = "";
    if (rest % MS_PER_SECOND != 0) {
        int digits = snprintf(fraction, sizeof fraction, ".%03d", (int)(rest % MS_PER_SECOND));
        while (fraction[digits - 1] == '0')
            fraction[--digits] = '\0';
    }
    snprintf(out + len, (size_t)(DURATION_TEXT_BYTES - len), "%d%ss", (int)(rest / MS_PER_SECOND),
             fraction);
    return out;
}

const char *duration_range_text(int64_t low_ms, int64_t high_ms, char out[DURATION_RANGE_BYTES])
{
    char low[DURATION_TEXT_BYTES];
    char high[DURATION_TEXT_BYTES];
    snprintf(out, DURATION_RANGE_BYTES, "a duration from %s to %s", duration_text(low_ms, low),
             duration_text(high_ms, high));
    return out;
}

/* How finely a span is told: in steps of step_ms below below_ms. */
static const struct {
    int64_t below_ms, step_ms;
} steps[] = {
    {MS_PER_SECOND, 1},          {10 * MS_PER_SECOND, 100}, {MS_PER_HOUR, MS_PER_SECOND},
    {MS_PER_DAY, MS_PER_MINUTE}, {INT64_MAX, MS_PER_HOUR},
};

enum { STEPS = sizeof steps / sizeof *steps };

/* To the nearest step; what reaches the next range is told as finely as that one. */
static int64_t round_span(int64_t ms)
{
    for (int i = 0; i < STEPS - 1; i++) {
        if (ms >= steps[i].below_ms)
            continue;
        ms = (ms + steps[i].step_ms / 2) / steps[i].step_ms * steps[i].step_ms;
        if (ms < steps[i].below_ms)
            return ms;
    }
    int64_t coarse_ms = steps[STEPS - 1].step_ms;
    return ms / coarse_ms * coarse_ms + (ms % coarse_ms * 2 >= coarse_ms ? coarse_ms : 0);
}

const char *span_text(int64_t ms, char out[DURATION_TEXT_BYTES])
{
    int64_t told_ms = round_span(ms < 0 ? 0 : ms < LONGEST_MS ? ms : LONGEST_MS);
    if (told_ms < MS_PER_SECOND || told_ms >= 10 * MS_PER_SECOND)
        return duration_text(told_ms, out);
    snprintf(out, DURATION_TEXT_BYTES, "%d.%ds", (int)(told_ms / MS_PER_SECOND),
             (int)(told_ms % MS_PER_SECOND / 100));
    return out;
}

const char *relative_text(int64_t ms, int64_t now_ms, char out[DURATION_TEXT_BYTES])
{
    bool past = ms < now_ms;
    uint64_t apart = past ? (uint64_t)now_ms - (uint64_t)ms : (uint64_t)ms - (uint64_t)now_ms;
    char span[DURATION_TEXT_BYTES];
    if (apart == 0)
        snprintf(out, DURATION_TEXT_BYTES, "now");
    else
        snprintf(out, DURATION_TEXT_BYTES, past ? "%s ago" : "in %s",
                 span_text(apart > INT64_MAX ? INT64_MAX : (int64_t)apart, span));
    return out;
}

const char *coming_text(int64_t ms, int64_t now_ms, char out[DURATION_TEXT_BYTES])
{
    return relative_text(ms < now_ms ? now_ms : ms, now_ms, out);
}

/* ---- times ---- */

/* Exactly `digits` digits; -1 when there are fewer. Moves *at behind them. */
static int read_digits(const char **at, int digits)
{
    int number = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (!is_digit(**at))
            return -1;
        number = number * 10 + (**at - '0');
    }
    return number;
}

static bool read_char(const char **at, char expected)
{
    if (**at != expected)
        return false;
    (*at)++;
    return true;
}

/* ".123…" as milliseconds, 0 without a fraction; -1 for a point with no digit. */
static int read_fraction_ms(const char **at)
{
    if (!read_char(at, '.'))
        return 0;
    if (!is_digit(**at))
        return -1;
    int ms = 0;
    for (int weight = 100; is_digit(**at); weight /= 10, (*at)++)
        ms += weight * (**at - '0');
    return ms;
}

/* "2026-01-31" as days; NULL, or what is wrong. */
static const char *read_date(const char **at, int64_t *ret_days)
{
    int year = read_digits(at, 4);
    bool dash = year >= 0 && read_char(at, '-');
    int month = dash ? read_digits(at, 2) : -1;
    dash = month >= 0 && read_char(at, '-');
    int day = dash ? read_digits(at, 2) : -1;
    if (day < 0)
        return "a date is written 2026-01-31";
    if (month < 1 || month > 12)
        return "there is no such month";
    if (day < 1 || day > civil_month_days(year, month))
        return "there is no such day in that month";
    *ret_days = civil_to_days(year, month, day);
    return NULL;
}

/* "Z" or "+01:30" as milliseconds east of Greenwich; NULL, or what is wrong. */
static const char *read_offset(const char **at, int64_t *ret_ms)
{
    if (read_char(at, 'Z') || read_char(at, 'z')) {
        *ret_ms = 0;
        return NULL;
    }
    if (**at == '\0')
        return "it does not say its zone: add Z or an offset like +01:00";
    int sign = **at == '+' ? 1 : **at == '-' ? -1 : 0;
    if (sign == 0)
        return "after the time comes Z or an offset like +01:00";
    (*at)++;
    int hours = read_digits(at, 2);
    int minutes = hours >= 0 && read_char(at, ':') ? read_digits(at, 2) : -1;
    if (minutes < 0 || hours > 23 || minutes > 59)
        return "an offset is written +01:00";
    *ret_ms = sign * (hours * MS_PER_HOUR + minutes * MS_PER_MINUTE);
    return NULL;
}

/* "10:00:00.123" as milliseconds since midnight; NULL, or what is wrong. */
static const char *read_clock(const char **at, int64_t *ret_ms, bool *ret_leap_second)
{
    int hour = read_digits(at, 2);
    int minute = hour >= 0 && read_char(at, ':') ? read_digits(at, 2) : -1;
    int second = minute >= 0 && read_char(at, ':') ? read_digits(at, 2) : -1;
    int fraction_ms = second >= 0 ? read_fraction_ms(at) : -1;
    if (fraction_ms < 0)
        return "a time of day is written 10:00:00 or 10:00:00.123";
    if (hour > 23 || minute > 59 || second > 60)
        return "there is no such time of day";
    *ret_leap_second = second == 60;
    *ret_ms = hour * MS_PER_HOUR + minute * MS_PER_MINUTE + second * MS_PER_SECOND + fraction_ms;
    return NULL;
}

/* NULL, or what is wrong. */
static const char *read_rfc3339(const char *at, int64_t *ret_ms)
{
    int64_t days;
    int64_t clock_ms = 0;
    int64_t offset_ms = 0;
    bool leap_second = false;
    const char *wrong = read_date(&at, &days);
    if (wrong)
        return wrong;
    if (*at == 'T' || *at == 't' || *at == ' ') {
        at++;
        wrong = read_clock(&at, &clock_ms, &leap_second);
        if (!wrong)
            wrong = read_offset(&at, &offset_ms);
        if (wrong)
            return wrong;
    }
    if (*at)
        return "there is more text after it";
    int64_t ms = days * MS_PER_DAY + clock_ms - offset_ms;
    /* 23:59:60Z is the same moment as the midnight after it: Unix time has no leap seconds. */
    if (leap_second && ms - floor_div(ms, MS_PER_DAY) * MS_PER_DAY >= MS_PER_SECOND)
        return "a leap second can only be 23:59:60 UTC";
    *ret_ms = ms;
    return NULL;
}

/* Behind the "@". NULL, or what is wrong. */
static const char *read_unix(const char *at, int64_t *ret_ms)
{
    bool negative = read_char(&at, '-');
    if (!is_digit(*at))
        return "after the @ come seconds since 1970";
    int64_t seconds = 0;
    for (; is_digit(*at); at++) {
        seconds = seconds * 10 + (*at - '0');
        if (seconds > TIME_MAX_MS)
            return "it is not in the years 0000 to 9999";
    }
    int fraction_ms = read_fraction_ms(&at);
    if (fraction_ms < 0 || *at)
        return "after the @ come seconds since 1970";
    int64_t ms = seconds * 1000 + fraction_ms;
    *ret_ms = negative ? -ms : ms;
    return NULL;
}

int time_parse(const char *text, int64_t now_ms, int64_t *ret_ms, struct err *err)
{
    int64_t ms = 0;
    const char *wrong = NULL;
    if (strcmp(text, "now") == 0)
        ms = now_ms;
    else if (text[0] == '@')
        wrong = read_unix(text + 1, &ms);
    else
        wrong = read_rfc3339(text, &ms);
    if (!wrong && (ms < TIME_MIN_MS || ms > TIME_MAX_MS))
        wrong = "it is not in the years 0000 to 9999";
    if (wrong)
        return err_set(err, TEND_EINVAL,
                       "\"%s\" is not a time like 2026-01-31T10:00:00Z, @1767225600 or now: %s",
                       text, wrong);
    *ret_ms = ms;
    return 0;
}

const char *time_text(int64_t ms, char out[TIME_TEXT_BYTES])
{
    int64_t days = floor_div(ms, MS_PER_DAY);
    /* Not ms - days * MS_PER_DAY: the first day of all begins before the smallest int64. */
    int in_day_ms = (int)((ms % MS_PER_DAY + MS_PER_DAY) % MS_PER_DAY);
    struct civil date = civil_from_days(days);
    bool plain_year = ms >= TIME_MIN_MS && ms <= TIME_MAX_MS;
    int len =
        snprintf(out, TIME_TEXT_BYTES, plain_year ? "%04lld" : "%+05lld", (long long)date.year);
    snprintf(out + len, (size_t)(TIME_TEXT_BYTES - len), "-%02d-%02dT%02d:%02d:%02d.%03dZ",
             date.month, date.day, in_day_ms / 3600000, in_day_ms / 60000 % 60,
             in_day_ms / 1000 % 60, in_day_ms % 1000);
    return out;
}
