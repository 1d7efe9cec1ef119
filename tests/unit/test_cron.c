/* core/cron: schedules. (BY-4) */
#include "base/buf.h"
#include "base/civil.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/timetext.h"
#include "core/cron.h"
#include "unit/case.h"

#include <string.h>
#include <tend.h>
#include <time.h>

static int64_t at(const char *text)
{
    int64_t ms = 0;
    check_case_int(time_parse(text, 0, &ms, NULL), 0, text);
    return ms;
}

static struct cron cron_of(const char *text)
{
    struct cron cron;
    struct err err = {0};
    check_case(cron_parse(text, &cron, &err) == 0, text);
    return cron;
}

TEST(cron, finds_the_next_time)
{
    static const struct {
        const char *cron, *after, *next;
    } cases[] = {
        {"* * * * *", "2026-01-31T10:00:00Z", "2026-01-31T10:01:00Z"},
        {"* * * * *", "2026-01-31T10:00:59.999Z", "2026-01-31T10:01:00Z"},
        {"* * * * *", "2026-01-31T09:59:59.999Z", "2026-01-31T10:00:00Z"},
        {"0 * * * *", "2026-01-31T10:00:00Z", "2026-01-31T11:00:00Z"},
        {"*/15 * * * *", "2026-01-31T10:01:00Z", "2026-01-31T10:15:00Z"},
        {"*/15 * * * *", "2026-01-31T23:46:00Z", "2026-02-01T00:00:00Z"},
        {"5-20/5,50 * * * *", "2026-01-31T10:20:00Z", "2026-01-31T10:50:00Z"},
        {"15 3 * * *", "2026-01-31T03:14:00Z", "2026-01-31T03:15:00Z"},
        {"15 3 * * *", "2026-01-31T03:15:00Z", "2026-02-01T03:15:00Z"},
        {"0 9-17 * * mon-fri", "2026-01-30T17:00:00Z", "2026-02-02T09:00:00Z"},
        {"0 0 * * 0", "2026-01-31T00:00:00Z", "2026-02-01"},
        {"0 0 * * 7", "2026-01-31T00:00:00Z", "2026-02-01"},
        {"0 0 * * SUN", "2026-01-31T00:00:00Z", "2026-02-01"},
        {"0 0 * * fri-sun", "2026-02-01T00:00:00Z", "2026-02-06"},
        {"0 0 * * 5-7", "2026-01-31T00:00:00Z", "2026-02-01"},
        {"0 0 1 * *", "2026-01-31T00:00:00Z", "2026-02-01"},
        {"0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31"},
        {"0 0 1 jan *", "2026-01-31T00:00:00Z", "2027-01-01"},
        {"0 0 1 Jan-Mar,dec *", "2026-03-31T00:00:00Z", "2026-12-01"},
        /* Both days restricted: one is enough. */
        {"0 0 13 * fri", "2026-01-31T00:00:00Z", "2026-02-06"},
        {"0 0 13 * fri", "2026-06-12T00:00:00Z", "2026-06-13"},
        /* A field that begins with a star restricts nothing: both must match. */
        {"0 0 */2 * mon", "2026-01-31T00:00:00Z", "2026-02-09"},
        {"0 0 29 2 *", "2024-02-29T00:00:00Z", "2028-02-29"},
        {"0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29"},
        /* 29 February on a Sunday, over the missing leap year 2100. */
        {"0 0 29 2 */7", "2088-02-29T00:00:00Z", "2128-02-29"},
        {"59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"},
        {"0 0 1 1 *", "1969-06-01T00:00:00Z", "1970-01-01"},
        {"30 4 * * *", "1905-06-01T04:31:00Z", "1905-06-02T04:30:00Z"},
        {"@hourly", "2026-01-31T10:00:00Z", "2026-01-31T11:00:00Z"},
        {"@daily", "2026-01-31T10:00:00Z", "2026-02-01"},
        {"@midnight", "2026-01-31T10:00:00Z", "2026-02-01"},
        {"@weekly", "2026-01-31T10:00:00Z", "2026-02-01"},
        {"@monthly", "2026-01-31T10:00:00Z", "2026-02-01"},
        {"@yearly", "2026-01-31T10:00:00Z", "2027-01-01"},
        {"@annually", "2026-01-31T10:00:00Z", "2027-01-01"},
        {"@every 90s", "1970-01-01T00:00:00Z", "1970-01-01T00:01:30Z"},
        {"@every 90s", "1970-01-01T00:01:29.999Z", "1970-01-01T00:01:30Z"},
        {"@every 90s", "1969-12-31T23:59:59Z", "1970-01-01"},
        {"@every  1h", "2026-01-31T10:30:00Z", "2026-01-31T11:00:00Z"},
        {" \t0  0\t* * * ", "2026-01-31T10:00:00Z", "2026-02-01"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct cron cron = cron_of(cases[i].cron);
        check_case_int(cron_next(&cron, NULL, at(cases[i].after)), at(cases[i].next),
                       cases[i].cron);
    }
}

TEST(cron, knows_what_never_comes)
{
    static const char *const never[] = {"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 feb *",
                                        "* * 31 4 */2"};
    for (size_t i = 0; i < CASES(never); i++) {
        struct cron cron = cron_of(never[i]);
        check_case_int(cron_next(&cron, NULL, at("2026-01-31")), -1, never[i]);
    }
    struct cron cron = cron_of("* * * * *");
    check_int(cron_next(&cron, NULL, TIME_MAX_MS), ==, -1);
    check_int(cron_next(&cron, NULL, INT64_MAX), ==, -1);
    check_int(cron_next(&cron, NULL, INT64_MIN), ==, TIME_MIN_MS);
    cron = cron_of("@every 106751991167d");
    check_int(cron_next(&cron, NULL, 0), ==, -1);
    check_int(cron_next(&cron, NULL, TIME_MAX_MS), ==, -1);
    cron = cron_of("@every 1s");
    check_int(cron_next(&cron, NULL, INT64_MAX), ==, -1);
}

TEST(cron, refuses_the_rest_and_names_the_field)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "minute field"},
        {"   ", "minute field"},
        {"*", "hour field"},
        {"* * * *", "day of week field"},
        {"* * * * * *", "more than five"},
        {"60 * * * *", "minute field (0 to 59): a number is out of range"},
        {"* 24 * * *", "hour field (0 to 23): a number is out of range"},
        {"* * 0 * *", "day of month field (1 to 31): a number is out of range"},
        {"* * 32 * *", "day of month"},
        {"* * * 0 *", "month field (1 to 12)"},
        {"* * * 13 *", "month field (1 to 12)"},
        {"* * * * 8", "day of week field (0 to 7)"},
        {"99999999999999999999 * * * *", "out of range"},
        {"-1 * * * *", "minute field"},
        {"a * * * *", "minute field"},
        {"jan * * * *", "minute field"},
        {"* * * january *", "month field"},
        {"* * * mon *", "month field"},
        {"* * * * jan", "day of week field"},
        {"* * * * mond", "day of week field"},
        {"5-1 * * * *", "upwards"},
        {"* * * * sat-mon", "upwards"},
        {"1- * * * *", "needs an end"},
        {"1-2-3 * * * *", "do not belong"},
        {"1, * * * *", "number or *"},
        {",1 * * * *", "number or *"},
        {"1,,2 * * * *", "number or *"},
        {"*/0 * * * *", "at least 1"},
        {"*/ * * * *", "at least 1"},
        {"*/-1 * * * *", "at least 1"},
        {"*/x * * * *", "at least 1"},
        {"*/60 * * * *", "larger than the field"},
        {"5/10 * * * *", "needs a range"},
        {"** * * * *", "do not belong"},
        {"*5 * * * *", "do not belong"},
        {"? * * * *", "minute field"},
        {"* * L * *", "day of month field"},
        {"* * * * 5#2", "do not belong"},
        {"1.5 * * * *", "do not belong"},
        {"* * * *\n*", "month field"},
        {"@", "not known"},
        {"@reboot", "not known"},
        {"@Daily", "not known"},
        {"@daily x", "not known"},
        {"@every", "not known"},
        {"@every90s", "not known"},
        {"@every ", "after @every"},
        {"@every 90", "after @every"},
        {"@every -5s", "after @every"},
        {"@every 0", "too often"},
        {"@every 999ms", "too often"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct cron cron = {.every_ms = 77};
        struct err err = {0};
        check_case_int(cron_parse(cases[i].text, &cron, &err), TEND_EINVAL, cases[i].text);
        check_contains(err.text, cases[i].why);
        check_contains(err.text, "cron: ");
        check_int(cron.every_ms, ==, 77);
    }
}

TEST(cron, overlong_fields_are_refused)
{
    char text[2000];
    memset(text, '1', sizeof text);
    strcpy(text + 1000, " * * * *");
    struct cron cron;
    check_int(cron_parse(text, &cron, NULL), ==, TEND_EINVAL);
}

static void put_random_field(struct buf *out, struct rng *rng, int low, int high)
{
    uint64_t width = (uint64_t)(high - low) + 1;
    uint64_t kind = rng_below(rng, 6);
    if (kind < 2) {
        buf_putc(out, '*');
    } else if (kind == 2) {
        buf_printf(out, "*/%d", 1 + (int)rng_below(rng, width - 1));
    } else if (kind == 3) {
        int first = low + (int)rng_below(rng, width);
        int last = first + (int)rng_below(rng, (uint64_t)(high - first) + 1);
        buf_printf(out, "%d-%d/%d", first, last, 1 + (int)rng_below(rng, 4));
    } else {
        buf_printf(out, "%d", low + (int)rng_below(rng, width));
        for (uint64_t more = rng_below(rng, 3); more > 0; more--)
            buf_printf(out, ",%d", low + (int)rng_below(rng, width));
    }
    buf_putc(out, ' ');
}

/* The same question asked of the C library's calendar, one minute. */
static bool minute_matches(const struct cron *cron, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    bool day = cron->days >> tm.tm_mday & 1;
    bool weekday = cron->weekdays >> tm.tm_wday & 1;
    bool either = !cron->days_star && !cron->weekdays_star;
    return cron->minutes >> tm.tm_min & 1 && cron->hours >> tm.tm_hour & 1 &&
           cron->months >> (tm.tm_mon + 1) & 1 && (either ? day || weekday : day && weekday);
}

TEST(cron, agrees_with_trying_every_minute)
{
    struct rng rng;
    rng_seed(&rng, 7);
    struct buf text;
    buf_init(&text);
    for (int round = 0; round < 600; round++) {
        buf_clear(&text);
        put_random_field(&text, &rng, 0, 59);
        put_random_field(&text, &rng, 0, 23);
        put_random_field(&text, &rng, 1, 31);
        put_random_field(&text, &rng, 1, 12);
        put_random_field(&text, &rng, 0, 7);
        struct cron cron = cron_of(text.data);
        int64_t after_ms = (int64_t)rng_below(&rng, (uint64_t)at("2110-01-01"));
        int64_t horizon_ms = after_ms + 50 * MS_PER_DAY;
        int64_t tried_ms = (after_ms / MS_PER_MINUTE + 1) * MS_PER_MINUTE;
        while (tried_ms <= horizon_ms && !minute_matches(&cron, tried_ms))
            tried_ms += MS_PER_MINUTE;
        int64_t next_ms = cron_next(&cron, NULL, after_ms);
        if (tried_ms <= horizon_ms)
            check_case_int(next_ms, tried_ms, text.data);
        else
            check_case(next_ms == -1 || (next_ms > horizon_ms && minute_matches(&cron, next_ms)),
                       text.data);
    }
    buf_done(&text);
}

TEST(cron, is_described_in_plain_language)
{
    static const struct {
        const char *cron, *described;
    } cases[] = {
        {"* * * * *", "every minute"},
        {"0-59 0-23 * * *", "every minute"},
        {"*/5 * * * *", "every 5 minutes"},
        {"0,15,30,45 * * * *", "every 15 minutes"},
        {"0 * * * *", "every hour"},
        {"5 * * * *", "at minute 5 of every hour"},
        {"5,20 * * * *", "at minutes 5 and 20 of every hour"},
        {"*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"},
        {"15 3 * * *", "every day at 03:15 UTC"},
        {"0 6,12,18 * * *", "every day at 06:00, 12:00 and 18:00 UTC"},
        {"0 9 * * mon-fri", "on Monday to Friday at 09:00 UTC"},
        {"0 9 * * mon,wed", "on Monday and Wednesday at 09:00 UTC"},
        {"0 0 1 * *", "on day 1 of the month at 00:00 UTC"},
        {"0 0 1,15 * *", "on days 1 and 15 of the month at 00:00 UTC"},
        {"0 0 13 * fri", "on day 13 of the month or on Friday at 00:00 UTC"},
        {"0 0 13 * */5", "on day 13 of the month if that is Sunday or Friday at 00:00 UTC"},
        {"0 0 1-31 * fri", "every day at 00:00 UTC"},
        {"0 0 1 1 *", "on day 1 of the month in January at 00:00 UTC"},
        {"0 0 * jun-aug,dec *", "every day in June to August and December at 00:00 UTC"},
        {"*/10 9-17 * * 1-5", "every 10 minutes in the hours 9 to 17 UTC on Monday to Friday"},
        {"* 3 * * *", "every minute in the hour 3 UTC"},
        {"0 9-17 * * *", "at minute 0 in the hours 9 to 17 UTC"},
        {"@every 90s", "every 1m 30s"},
        {"@weekly", "on Sunday at 00:00 UTC"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct cron cron = cron_of(cases[i].cron);
        struct buf described;
        buf_init(&described);
        cron_describe(&cron, NULL, &described);
        check_str(described.data, cases[i].described);
        buf_done(&described);
    }
}
