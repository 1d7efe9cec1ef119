#include "core/zone_rule.h"

#include "base/civil.h"

enum {
    DAY_S = 86400,
    DEFAULT_TIME_S = 2 * 3600,
    OFFSET_HOURS_MAX = 24,
    TIME_HOURS_MAX = 167, /* a week, either way */
};

/* Three million years: what lies beyond is answered as this. Sums of such times stay in range. */
static const int64_t FAR_S = INT64_C(100000000000000);

/* --- reading; *at moves on; false: it is not there, or wrong --- */

static bool read_number(const char **at, int low, int high, int *ret)
{
    int number = 0;
    const char *start = *at;
    while (**at >= '0' && **at <= '9' && *at - start < 4)
        number = number * 10 + *(*at)++ - '0';
    if (*at == start || number < low || number > high)
        return false;
    *ret = number;
    return true;
}

static bool read_char(const char **at, char expected)
{
    if (**at != expected)
        return false;
    (*at)++;
    return true;
}

static bool is_name_letter(char byte, bool quoted)
{
    bool letter = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    return letter || (quoted && ((byte >= '0' && byte <= '9') || byte == '+' || byte == '-'));
}

/* "CET" or "<+0330>". */
static bool skip_name(const char **at)
{
    bool quoted = read_char(at, '<');
    const char *start = *at;
    while (is_name_letter(**at, quoted))
        (*at)++;
    return *at - start >= 3 && (!quoted || read_char(at, '>'));
}

/* [+-]hh[:mm[:ss]] */
static bool read_time(const char **at, int hours_max, int32_t *ret_s)
{
    int sign = **at == '-' ? -1 : 1;
    int hours;
    int minutes = 0;
    int seconds = 0;
    if (**at == '-' || **at == '+')
        (*at)++;
    if (!read_number(at, 0, hours_max, &hours))
        return false;
    if (read_char(at, ':')) {
        if (!read_number(at, 0, 59, &minutes))
            return false;
        if (read_char(at, ':') && !read_number(at, 0, 59, &seconds))
            return false;
    }
    *ret_s = sign * (hours * 3600 + minutes * 60 + seconds);
    return true;
}

/* "Jn", "n" or "Mm.w.d", and "/time". */
static bool read_day(const char **at, struct zone_day *ret)
{
    bool read;
    *ret = (struct zone_day){.time_s = DEFAULT_TIME_S};
    if (read_char(at, 'M')) {
        ret->form = ZONE_DAY_WEEKDAY;
        read = read_number(at, 1, 12, &ret->month) && read_char(at, '.') &&
               read_number(at, 1, 5, &ret->week) && read_char(at, '.') &&
               read_number(at, 0, 6, &ret->day);
    } else if (read_char(at, 'J')) {
        ret->form = ZONE_DAY_JULIAN;
        read = read_number(at, 1, 365, &ret->day);
    } else {
        ret->form = ZONE_DAY_ZERO_BASED;
        read = read_number(at, 0, 365, &ret->day);
    }
    return read && (!read_char(at, '/') || read_time(at, TIME_HOURS_MAX, &ret->time_s));
}

bool zone_rule_parse(const char *text, struct zone_rule *ret)
{
    struct zone_rule rule = {0};
    const char *at = text;
    int32_t west_s; /* POSIX counts to the west */
    if (!skip_name(&at) || !read_time(&at, OFFSET_HOURS_MAX, &west_s))
        return false;
    rule.offset_s = -west_s;
    if (*at != '\0') {
        rule.has_dst = true;
        rule.dst_offset_s = rule.offset_s + 3600;
        if (!skip_name(&at))
            return false;
        if (*at != ',') {
            if (!read_time(&at, OFFSET_HOURS_MAX, &west_s))
                return false;
            rule.dst_offset_s = -west_s;
        }
        if (!read_char(&at, ',') || !read_day(&at, &rule.dst_begins) || !read_char(&at, ',') ||
            !read_day(&at, &rule.dst_ends))
            return false;
    }
    *ret = rule;
    return *at == '\0';
}

/* --- asking --- */

static int64_t day_in_year(const struct zone_day *day, int64_t year)
{
    int64_t first = civil_to_days(year, 1, 1);
    if (day->form == ZONE_DAY_ZERO_BASED)
        return first + day->day;
    if (day->form == ZONE_DAY_JULIAN)
        return first + day->day - 1 + (civil_is_leap(year) && day->day > 59);
    int64_t of_month = civil_to_days(year, day->month, 1);
    int64_t date = of_month + (day->day - civil_weekday(of_month) + 7) % 7 + (day->week - 1) * 7;
    return date < of_month + civil_month_days(year, day->month) ? date : date - 7;
}

/* The changes of a year and of two before and after it, in order of time: its first and last days
 * may belong to those of another year. Of two at the same moment the one of the earlier year comes
 * first: a daylight saving time that lasts all year ends and begins at once. */
enum { YEARS = 5, CHANGES = 2 * YEARS };

static void find_changes(const struct zone_rule *rule, int64_t year,
                         struct zone_change changes[CHANGES])
{
    size_t count = 0;
    for (int64_t i = year - YEARS / 2; i <= year + YEARS / 2; i++) {
        const struct zone_change both[] = {
            {day_in_year(&rule->dst_begins, i) * DAY_S + rule->dst_begins.time_s - rule->offset_s,
             rule->dst_offset_s},
            {day_in_year(&rule->dst_ends, i) * DAY_S + rule->dst_ends.time_s - rule->dst_offset_s,
             rule->offset_s},
        };
        for (size_t k = 0; k < 2; k++) {
            size_t place = count++;
            for (; place > 0 && changes[place - 1].at_s > both[k].at_s; place--)
                changes[place] = changes[place - 1];
            changes[place] = both[k];
        }
    }
}

struct zone_span zone_rule_span(const struct zone_rule *rule, int64_t at_s)
{
    if (!rule->has_dst)
        return (struct zone_span){INT64_MIN, INT64_MAX, rule->offset_s};
    struct zone_change changes[CHANGES] = {0};
    if (at_s > FAR_S)
        at_s = FAR_S;
    if (at_s < -FAR_S)
        at_s = -FAR_S;
    find_changes(rule, civil_from_days(floor_div(at_s, DAY_S)).year, changes);
    size_t next = 1; /* the first is two years back */
    while (next < CHANGES - 1 && changes[next].at_s <= at_s)
        next++;
    return (struct zone_span){
        .begin_s = changes[next - 1].at_s,
        .end_s = changes[next].at_s,
        .offset_s = changes[next - 1].offset_s,
    };
}
