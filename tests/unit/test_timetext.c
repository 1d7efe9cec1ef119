/* base/timetext and base/civil: durations and times as people write them. */
#include "base/civil.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/timetext.h"
#include "unit/case.h"

#include <string.h>
#include <tend.h>
#include <time.h>

TEST(duration, reads_what_people_write)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"0ms", 0},
        {"250ms", 250},
        {"5s", 5000},
        {"10m", 600000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"1h30m", 5400000},
        {"1h 30m", 5400000},
        {"1d 2h 3m 4s 5ms", 93784005},
        {"1d2h3m4s5ms", 93784005},
        {"1.5s", 1500},
        {"0.25h", 900000},
        {"1h0.5m", 3630000},
        {"1.500000000000000000000000s", 1500},
        {"0.0000000115740740d", -1}, /* not whole milliseconds */
        {"0.0009765625d", 84375},
        {"007s", 7000},
        {"9223372036854775807ms", INT64_MAX},
        {"106751991167d7h12m55.807s", INT64_MAX},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        int64_t ms = -1;
        int expected = cases[i].ms < 0 ? TEND_EINVAL : 0;
        check_case_int(duration_parse(cases[i].text, &ms, NULL), expected, cases[i].text);
        check_case_int(ms, cases[i].ms, cases[i].text);
    }
}

TEST(duration, refuses_the_rest_and_says_why)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "empty"},
        {"5", "needs a unit"},
        {"00", "needs a unit"},
        {"-5s", "negative"},
        {"-0", "negative"},
        {"+5s", "number is expected"},
        {" 5s", "number is expected"},
        {"5s ", "number is expected"},
        {"1h  30m", "number is expected"},
        {"1h m", "number is expected"},
        {"5 s", "needs a unit"},
        {"s", "number is expected"},
        {".5s", "number is expected"},
        {"5.s", "needs a unit"},
        {"1.5.5s", "needs a unit"},
        {"5x", "needs a unit"},
        {"5S", "needs a unit"},
        {"5sec", "number is expected"},
        {"5us", "needs a unit"},
        {"1m1h", "large to small"},
        {"1s1s", "large to small"},
        {"1ms1s", "large to small"},
        {"1.5h30m", "fraction"},
        {"1h30", "needs a unit"},
        {"1e3s", "needs a unit"},
        {"0x10s", "needs a unit"},
        {"1.5ms", "finer"},
        {"0.0001s", "finer"},
        {"0.00000000000000000000000000001d", "finer"},
        {"9223372036854775808ms", "too long"},
        {"106751991167d7h12m55.808s", "too long"},
        {"106751991168d", "too long"},
        {"99999999999999999999999999s", "too long"},
        {"1\xC2\xB5s", "needs a unit"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        int64_t ms = 77;
        struct err err;
        check_case_int(duration_parse(cases[i].text, &ms, &err), TEND_EINVAL, cases[i].text);
        check_int(ms, ==, 77);
        check_contains(err.text, cases[i].why);
        check_contains(err.text, cases[i].text);
    }
}

TEST(duration, is_printed_exactly)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {250, "250ms"},
        {999, "999ms"},
        {1000, "1s"},
        {1500, "1.5s"},
        {1050, "1.05s"},
        {1001, "1.001s"},
        {60000, "1m"},
        {61500, "1m 1.5s"},
        {60250, "1m 0.25s"},
        {90000, "1m 30s"},
        {5400000, "1h 30m"},
        {3600000, "1h"},
        {86400000, "1d"},
        {90000000, "1d 1h"},
        {-250, "-250ms"},
        {-90000, "-1m 30s"},
        {INT64_MAX, "106751991167d 7h 12m 55.807s"},
        {INT64_MIN, "-106751991167d 7h 12m 55.808s"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        char text[DURATION_TEXT_BYTES];
        check_str(duration_text(cases[i].ms, text), cases[i].text);
    }
}

TEST(duration, printed_ones_are_read_back)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < 100000; i++) {
        int64_t ms = (int64_t)(rng_u64(&rng) >> (1 + rng_below(&rng, 63)));
        char text[DURATION_TEXT_BYTES];
        int64_t back;
        check_case_int(duration_parse(duration_text(ms, text), &back, NULL), 0, text);
        check_case_int(back, ms, text);
    }
}

/* Symptom: the same time was "in 2h", "1h59m59.9s" and "7199 s", by where it was read. */
TEST(duration, a_span_is_told_in_two_units_at_most)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {-5, "0s"},
        {1, "1ms"},
        {999, "999ms"},
        {1000, "1.0s"},
        {1049, "1.0s"},
        {1050, "1.1s"},
        {4016, "4.0s"},
        {9949, "9.9s"},
        {9950, "10s"},
        {42499, "42s"},
        {59499, "59s"},
        {59500, "1m"},
        {303000, "5m 3s"},
        {299950, "5m"},
        {3599499, "59m 59s"},
        {3599500, "1h"},
        {7140000, "1h 59m"},
        {7169999, "1h 59m"},
        {7170000, "2h"},
        {86369999, "23h 59m"},
        {86370000, "1d"},
        {INT64_C(76) * 3600000, "3d 4h"},
        {INT64_C(76) * 3600000 + 1800000, "3d 5h"},
        {INT64_MAX, "106751991166d 7h"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        char text[DURATION_TEXT_BYTES];
        check_str(span_text(cases[i].ms, text), cases[i].text);
    }
}

TEST(duration, relative_times_are_told_as_spans)
{
    static const struct {
        int64_t ms, now_ms;
        const char *text;
    } cases[] = {
        {1000, 1000, "now"},
        /* Symptom: a lock of 1s "expires now", as 999 ms were left of it. */
        {1000, 1999, "999ms ago"},
        {1999, 1000, "in 999ms"},
        {1001, 1000, "in 1ms"},
        {1000, 2000, "1.0s ago"},
        {6000, 1000, "in 5.0s"},
        {0, 3 * 60000 + 29499, "3m 29s ago"},
        {3599500, 0, "in 1h"},
        {2 * 3600000 - 60000, 0, "in 1h 59m"},
        {2 * 3600000 + 1, 0, "in 2h"},
        {0, INT64_C(40) * 86400000, "40d ago"},
        {INT64_MIN, INT64_MAX, "106751991166d 7h ago"},
        {INT64_MAX, INT64_MIN, "in 106751991166d 7h"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        char text[DURATION_TEXT_BYTES];
        check_str(relative_text(cases[i].ms, cases[i].now_ms, text), cases[i].text);
    }
}

/* Symptom: "tried again 55ms ago" of a job that is to be tried at once. */
TEST(duration, what_is_to_come_is_never_ago)
{
    char text[DURATION_TEXT_BYTES];
    check_str(coming_text(6000, 1000, text), "in 5.0s");
    check_str(coming_text(1000, 1000, text), "now");
    check_str(coming_text(945, 1000, text), "now");
}

TEST(civil, agrees_with_the_c_library_and_with_itself_over_800_years)
{
    int64_t first = civil_to_days(1700, 1, 1);
    struct civil last = civil_from_days(first - 1);
    for (int64_t day = first; day < civil_to_days(2500, 1, 1); day++) {
        time_t seconds = (time_t)(day * 86400);
        struct tm tm;
        gmtime_r(&seconds, &tm);
        struct civil date = civil_from_days(day);
        check_int(date.year, ==, tm.tm_year + 1900);
        check_int(date.month, ==, tm.tm_mon + 1);
        check_int(date.day, ==, tm.tm_mday);
        check_int(civil_weekday(day), ==, tm.tm_wday);
        check_int(civil_to_days(date.year, date.month, date.day), ==, day);
        if (date.day == 1)
            check_int(last.day, ==, civil_month_days(last.year, last.month));
        last = date;
    }
}

TEST(civil, works_far_from_today)
{
    for (int64_t day = INT64_C(-106751991168); day < INT64_C(106751991167); day += 86028121) {
        struct civil date = civil_from_days(day);
        check_int(civil_to_days(date.year, date.month, date.day), ==, day);
        check(date.month >= 1 && date.month <= 12);
        check(date.day >= 1 && date.day <= civil_month_days(date.year, date.month));
    }
    check_int(floor_div(-1, 1000), ==, -1);
    check_int(floor_div(-1000, 1000), ==, -1);
    check_int(floor_div(-1001, 1000), ==, -2);
    check_int(floor_div(999, 1000), ==, 0);
}

TEST(time, reads_rfc_3339_and_unix_seconds)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"now", 123456},
        {"@0", 0},
        {"@1767225600", INT64_C(1767225600000)},
        {"@1767225600.25", INT64_C(1767225600250)},
        {"@-1", -1000},
        {"@-0.5", -500},
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01", 0},
        {"2026-01-31", INT64_C(1769817600000)},
        {"2026-01-31T10:00:00Z", INT64_C(1769853600000)},
        {"2026-01-31t10:00:00z", INT64_C(1769853600000)},
        {"2026-01-31 10:00:00Z", INT64_C(1769853600000)},
        {"2026-01-31T10:00:00.123Z", INT64_C(1769853600123)},
        {"2026-01-31T10:00:00.1Z", INT64_C(1769853600100)},
        {"2026-01-31T10:00:00.1239999999999999999Z", INT64_C(1769853600123)},
        {"2026-01-31T10:00:00+01:00", INT64_C(1769850000000)},
        {"2026-01-31T10:00:00-05:30", INT64_C(1769873400000)},
        {"2026-01-31T10:00:00-00:00", INT64_C(1769853600000)},
        {"2026-01-31T00:30:00+01:00", INT64_C(1769815800000)},
        {"2024-02-29", INT64_C(1709164800000)},
        {"2000-02-29", INT64_C(951782400000)},
        {"1969-12-31T23:59:59.999Z", -1},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)},
        {"2017-01-01T00:59:60+01:00", INT64_C(1483228800000)},
        {"0000-01-01", TIME_MIN_MS},
        {"9999-12-31T23:59:59.999Z", TIME_MAX_MS},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        int64_t ms = 77;
        check_case_int(time_parse(cases[i].text, 123456, &ms, NULL), 0, cases[i].text);
        check_case_int(ms, cases[i].ms, cases[i].text);
    }
}

TEST(time, refuses_the_rest_and_says_why)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "a date is written"},
        {"Now", "a date is written"},
        {"now ", "a date is written"},
        {"tomorrow", "a date is written"},
        {"10:00", "a date is written"},
        {"5m", "a date is written"},
        {"2026", "a date is written"},
        {"2026-1-31", "a date is written"},
        {"26-01-31", "a date is written"},
        {"20260131", "a date is written"},
        {"2026/01/31", "a date is written"},
        {" 2026-01-31", "a date is written"},
        {"-2026-01-31", "a date is written"},
        {"2026-00-31", "no such month"},
        {"2026-13-01", "no such month"},
        {"2026-01-00", "no such day"},
        {"2026-01-32", "no such day"},
        {"2026-02-29", "no such day"},
        {"2100-02-29", "no such day"},
        {"2026-04-31", "no such day"},
        {"2026-01-31Z", "more text"},
        {"2026-01-31x", "more text"},
        {"2026-01-31T", "time of day is written"},
        {"2026-01-31T10:00Z", "time of day is written"},
        {"2026-01-31T10:00:00.Z", "time of day is written"},
        {"2026-01-31T1:00:00Z", "time of day is written"},
        {"2026-01-31T24:00:00Z", "no such time of day"},
        {"2026-01-31T10:60:00Z", "no such time of day"},
        {"2026-01-31T10:00:61Z", "no such time of day"},
        {"2026-01-31T10:00:60Z", "leap second"},
        {"2026-01-31T10:00:00", "add Z"},
        {"2026-01-31T10:00:00 Z", "comes Z or an offset"},
        {"2026-01-31T10:00:00CET", "comes Z or an offset"},
        {"2026-01-31T10:00:00+1", "offset is written"},
        {"2026-01-31T10:00:00+0100", "offset is written"},
        {"2026-01-31T10:00:00+24:00", "offset is written"},
        {"2026-01-31T10:00:00+01:60", "offset is written"},
        {"2026-01-31T10:00:00Zx", "more text"},
        {"0000-01-01T00:00:00+00:01", "years 0000 to 9999"},
        {"9999-12-31T23:59:59-00:01", "years 0000 to 9999"},
        {"@", "seconds since 1970"},
        {"@-", "seconds since 1970"},
        {"@+5", "seconds since 1970"},
        {"@x", "seconds since 1970"},
        {"@5x", "seconds since 1970"},
        {"@5.", "seconds since 1970"},
        {"@999999999999", "years 0000 to 9999"},
        {"@99999999999999999999999", "years 0000 to 9999"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        int64_t ms = 77;
        struct err err;
        check_case_int(time_parse(cases[i].text, 0, &ms, &err), TEND_EINVAL, cases[i].text);
        check_int(ms, ==, 77);
        check_contains(err.text, cases[i].why);
    }
}

TEST(time, is_printed_in_utc_with_milliseconds)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {INT64_C(1769853600123), "2026-01-31T10:00:00.123Z"},
        {TIME_MIN_MS, "0000-01-01T00:00:00.000Z"},
        {TIME_MAX_MS, "9999-12-31T23:59:59.999Z"},
        {TIME_MAX_MS + 1, "+10000-01-01T00:00:00.000Z"},
        {TIME_MIN_MS - 1, "-0001-12-31T23:59:59.999Z"},
        {INT64_MAX, "+292278994-08-17T07:12:55.807Z"},
        {INT64_MIN, "-292275055-05-16T16:47:04.192Z"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        char text[TIME_TEXT_BYTES];
        check_str(time_text(cases[i].ms, text), cases[i].text);
    }
}

TEST(time, printed_ones_are_read_back)
{
    struct rng rng;
    rng_seed(&rng, 2);
    for (int i = 0; i < 200000; i++) {
        uint64_t width = (uint64_t)(TIME_MAX_MS - TIME_MIN_MS) + 1;
        int64_t ms = TIME_MIN_MS + (int64_t)rng_below(&rng, width);
        char text[TIME_TEXT_BYTES];
        int64_t back;
        check_case_int(time_parse(time_text(ms, text), 0, &back, NULL), 0, text);
        check_case_int(back, ms, text);
    }
}
