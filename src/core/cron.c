/*
 * See cron.h. The calendar repeats exactly every 400 years (146097 days, a whole number of weeks),
 * so a search over that many days that finds nothing is a proof that there is nothing.
 */
#include "core/cron.h"

#include "base/civil.h"
#include "base/err.h"
#include "base/timetext.h"
#include "core/zone.h"

#include <string.h>
#include <strings.h>
#include <tend.h>

enum {
    DAYS_PER_400_YEARS = 146097,
    FIELD_BYTES = 256, /* longest field that is read */
};

struct field {
    const char *title;
    int low, high;
    const char *const *names; /* for low, low + 1, …; NULL-terminated, or NULL */
};

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

enum { FIELD_MINUTE, FIELD_HOUR, FIELD_DAY, FIELD_MONTH, FIELD_WEEKDAY, FIELDS };

static const struct field fields[FIELDS] = {
    [FIELD_MINUTE] = {"minute", 0, 59, NULL},
    [FIELD_HOUR] = {"hour", 0, 23, NULL},
    [FIELD_DAY] = {"day of month", 1, 31, NULL},
    [FIELD_MONTH] = {"month", 1, 12, month_names},
    [FIELD_WEEKDAY] = {"day of week", 0, 7, weekday_names}, /* 7 is Sunday as well */
};

static const struct {
    const char *name, *meaning;
} nicknames[] = {
    {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
};

/* ---- reading ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* A number in digits; -1 when there is none, and a number too large for any field stays so. */
static int read_number(const char **at)
{
    if (!is_digit(**at))
        return -1;
    int number = 0;
    for (; is_digit(**at); (*at)++) {
        if (number < 10000)
            number = number * 10 + (**at - '0');
    }
    return number;
}

/* A number or a name of the field; -1 when there is neither. */
static int read_value(const char **at, const struct field *field)
{
    size_t len = 0;
    while (is_letter((*at)[len]))
        len++;
    for (int i = 0; len == 3 && field->names && field->names[i]; i++) {
        if (strncasecmp(*at, field->names[i], len) == 0) {
            *at += len;
            return field->low + i;
        }
    }
    return read_number(at);
}

struct span {
    int first, last, step;
};

static int refuse_field(const struct field *field, const char *text, const char *wrong,
                        struct err *err)
{
    return err_set(err, TEND_EINVAL, "cron: \"%s\" in the %s field (%d to %d): %s", text,
                   field->title, field->low, field->high, wrong);
}

/* "*", "5", "1-5", each but the second with "/2". NULL, or what is wrong. */
static const char *read_span(const char **at, const struct field *field, struct span *span)
{
    bool single = false;
    *span = (struct span){field->low, field->high, 1};
    if (**at == '*') {
        (*at)++;
    } else {
        span->first = span->last = read_value(at, field);
        if (span->first < 0)
            return field->names ? "a number, a name of three letters or * is expected"
                                : "a number or * is expected";
        single = **at != '-';
        if (!single) {
            (*at)++;
            span->last = read_value(at, field);
            if (span->last < 0)
                return "a range needs an end";
        }
    }
    /* "fri-sun": as the end of a range Sunday comes after Saturday. */
    if (field == &fields[FIELD_WEEKDAY] && span->last == 0 && span->first > 0)
        span->last = 7;
    if (span->first < field->low || span->last > field->high || span->first > field->high)
        return "a number is out of range";
    if (span->first > span->last)
        return "a range must go upwards";
    if (**at != '/')
        return NULL;
    (*at)++;
    if (single)
        return "a step needs a range or * before it";
    span->step = read_number(at);
    if (span->step < 1)
        return "a step must be a number of at least 1";
    return span->step > field->high - field->low ? "the step is larger than the field" : NULL;
}

static int read_field(const struct field *field, const char *text, uint64_t *ret_bits,
                      struct err *err)
{
    uint64_t bits = 0;
    const char *at = text;
    for (;;) {
        struct span span;
        const char *wrong = read_span(&at, field, &span);
        if (!wrong && *at && *at != ',')
            wrong = "it has characters that do not belong there";
        if (wrong)
            return refuse_field(field, text, wrong, err);
        for (int value = span.first; value <= span.last; value += span.step)
            bits |= UINT64_C(1) << value;
        if (!*at)
            break;
        at++;
    }
    *ret_bits = bits;
    return 0;
}

static int parse_every(const char *text, struct cron *ret_cron, struct err *err)
{
    while (is_blank(*text))
        text++;
    struct err why;
    int64_t every_ms;
    if (duration_parse(text, &every_ms, &why) < 0)
        return err_set(err, TEND_EINVAL, "cron: after @every: %s", why.text);
    if (every_ms < MS_PER_SECOND)
        return err_set(err, TEND_EINVAL, "cron: @every %s is too often: at least 1s", text);
    *ret_cron = (struct cron){.every_ms = every_ms};
    return 0;
}

static int parse_nickname(const char *text, struct cron *ret_cron, struct err *err)
{
    if (strncmp(text, "@every", 6) == 0 && is_blank(text[6]))
        return parse_every(text + 7, ret_cron, err);
    for (size_t i = 0; i < sizeof nicknames / sizeof *nicknames; i++) {
        if (strcmp(text, nicknames[i].name) == 0)
            return cron_parse(nicknames[i].meaning, ret_cron, err);
    }
    return err_set(err, TEND_EINVAL,
                   "cron: \"%s\" is not known; there are @hourly, @daily, @weekly, @monthly, "
                   "@yearly and \"@every 90s\"",
                   text);
}

/* Copies the next field to out. False when there is none, or it is longer than any real one. */
static bool next_field(const char **at, char out[FIELD_BYTES])
{
    while (is_blank(**at))
        (*at)++;
    size_t len = strcspn(*at, " \t");
    if (len == 0 || len >= FIELD_BYTES)
        return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len;
    return true;
}

int cron_parse(const char *text, struct cron *ret_cron, struct err *err)
{
    const char *at = text + strspn(text, " \t");
    if (*at == '@')
        return parse_nickname(at, ret_cron, err);

    uint64_t bits[FIELDS];
    bool star[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        char field[FIELD_BYTES];
        if (!next_field(&at, field))
            return err_set(err, TEND_EINVAL,
                           "cron: \"%s\" has no usable %s field; five are needed: minute, hour, "
                           "day of month, month, day of week",
                           text, fields[i].title);
        int r = read_field(&fields[i], field, &bits[i], err);
        if (r < 0)
            return r;
        star[i] = field[0] == '*';
    }
    if (at[strspn(at, " \t")] != '\0')
        return err_set(err, TEND_EINVAL, "cron: \"%s\" has more than five fields", text);
    *ret_cron = (struct cron){
        .minutes = bits[FIELD_MINUTE],
        .hours = (uint32_t)bits[FIELD_HOUR],
        .days = (uint32_t)bits[FIELD_DAY],
        .months = (uint32_t)bits[FIELD_MONTH],
        .weekdays = (uint32_t)((bits[FIELD_WEEKDAY] | bits[FIELD_WEEKDAY] >> 7) & 0x7F),
        .hours_star = star[FIELD_HOUR],
        .days_star = star[FIELD_DAY],
        .weekdays_star = star[FIELD_WEEKDAY],
    };
    return 0;
}

/* ---- reckoning ---- */

static bool day_matches(const struct cron *cron, int64_t day, const struct civil *date)
{
    bool by_day = cron->days >> date->day & 1;
    bool by_weekday = cron->weekdays >> civil_weekday(day) & 1;
    if (cron->days_star || cron->weekdays_star)
        return by_day && by_weekday;
    return by_day || by_weekday;
}

/* First matching minute of a day from `from` on; -1 when there is none left. */
static int minute_of_day(const struct cron *cron, int from)
{
    int minute = from % 60;
    for (int hour = from / 60; hour < 24; hour++, minute = 0) {
        uint64_t left = cron->minutes >> minute;
        if (cron->hours >> hour & 1 && left)
            return hour * 60 + minute + __builtin_ctzll(left);
    }
    return -1;
}

static int64_t next_every(int64_t every_ms, int64_t after_ms)
{
    int64_t next_ms;
    if (__builtin_mul_overflow(floor_div(after_ms, every_ms) + 1, every_ms, &next_ms) ||
        next_ms > TIME_MAX_MS)
        return -1;
    return next_ms;
}

/* The first matching minute from a minute on, both counted from 1970 on the calendar alone, without
 * a zone. False when there is none. */
static bool next_minute(const struct cron *cron, int64_t first_minute, int64_t *ret_minute)
{
    int64_t day = floor_div(first_minute, 24 * 60);
    int from = (int)(first_minute - day * 24 * 60);
    /* One day more than the cycle: on the first one part of the day is over already. */
    int64_t last_day = day + DAYS_PER_400_YEARS;
    while (day <= last_day) {
        struct civil date = civil_from_days(day);
        if (!(cron->months >> date.month & 1)) {
            day += civil_month_days(date.year, date.month) - date.day + 1;
            from = 0;
            continue;
        }
        int minute = day_matches(cron, day, &date) ? minute_of_day(cron, from) : -1;
        if (minute >= 0) {
            *ret_minute = day * 24 * 60 + minute;
            return true;
        }
        day++;
        from = 0;
    }
    return false;
}

/* The latest time that the clock on the wall has shown up to a moment. Only the hours before it can
 * have shown a later one than the moment itself. */
static int64_t clock_has_shown(const struct zone *zone, int64_t at_s)
{
    int64_t latest_s = INT64_MIN;
    for (int64_t end_s = at_s; end_s > at_s - 2 * ZONE_OFFSET_MAX_S;) {
        struct zone_span span = zone_span_at(zone, end_s);
        if (end_s + span.offset_s > latest_s)
            latest_s = end_s + span.offset_s;
        if (span.begin_s == INT64_MIN)
            break;
        end_s = span.begin_s - 1;
    }
    return latest_s;
}

/* The first moment at which the clock on the wall shows a time or a later one. */
static int64_t clock_shows(const struct zone *zone, int64_t local_s)
{
    int64_t at_s = local_s - ZONE_OFFSET_MAX_S;
    for (;;) {
        struct zone_span span = zone_span_at(zone, at_s);
        if (local_s - span.offset_s > at_s)
            at_s = local_s - span.offset_s;
        if (at_s < span.end_s)
            return at_s;
        at_s = span.end_s;
    }
}

/* The first moment from at_s on at which the clock shows a time that matches. */
static bool next_shown(const struct cron *cron, const struct zone *zone, int64_t at_s,
                       int64_t *ret_s)
{
    while (at_s <= TIME_MAX_MS / 1000) {
        struct zone_span span = zone_span_at(zone, at_s);
        int64_t minute;
        if (!next_minute(cron, floor_div(at_s + span.offset_s - 1, 60) + 1, &minute))
            return false;
        *ret_s = minute * 60 - span.offset_s;
        if (*ret_s < span.end_s)
            return true;
        at_s = span.end_s;
    }
    return false;
}

int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t after_ms)
{
    int64_t next_s;
    int64_t minute;
    if (after_ms > TIME_MAX_MS)
        return -1;
    if (after_ms < TIME_MIN_MS)
        after_ms = TIME_MIN_MS - 1;
    if (cron->every_ms > 0)
        return next_every(cron->every_ms, after_ms);
    int64_t after_s = floor_div(after_ms, 1000);
    if (cron->hours_star) {
        if (!next_shown(cron, zone, after_s + 1, &next_s))
            return -1;
    } else {
        if (!next_minute(cron, floor_div(clock_has_shown(zone, after_s), 60) + 1, &minute))
            return -1;
        next_s = clock_shows(zone, minute * 60);
    }
    return next_s <= TIME_MAX_MS / 1000 ? next_s * 1000 : -1;
}
