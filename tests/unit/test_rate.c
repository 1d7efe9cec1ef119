/* base/rate: "20/60s". */
#include "base/err.h"
#include "base/rate.h"
#include "unit/case.h"

#include <tend.h>

TEST(rate, reads_counts_per_period)
{
    static const struct {
        const char *text;
        int64_t count, period_ms;
        const char *printed;
    } cases[] = {
        {"20/60s", 20, 60000, "20/1m"},      {"5/s", 5, 1000, "5/1s"},
        {"100/1m", 100, 60000, "100/1m"},    {"1/ms", 1, 1, "1/1ms"},
        {"7/1h30m", 7, 5400000, "7/1h 30m"}, {"3/0.5s", 3, 500, "3/500ms"},
        {"2/d", 2, 86400000, "2/1d"},        {"1000000000/s", 1000000000, 1000, "1000000000/1s"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        int64_t count = 0, period_ms = 0;
        char text[RATE_TEXT_BYTES];
        check_case_int(rate_parse(cases[i].text, &count, &period_ms, NULL), 0, cases[i].text);
        check_case_int(count, cases[i].count, cases[i].text);
        check_case_int(period_ms, cases[i].period_ms, cases[i].text);
        check_str(rate_text(count, period_ms, text), cases[i].printed);
        check_case_int(rate_parse(text, &count, &period_ms, NULL), 0, text);
        check_case_int(period_ms, cases[i].period_ms, text);
    }
}

TEST(rate, refuses_the_rest_and_says_why)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "count is expected"},
        {"20", "count is expected"},
        {"/s", "count is expected"},
        {"-5/s", "count is expected"},
        {"1.5/s", "count is expected"},
        {" 5/s", "count is expected"},
        {"5 /s", "count is expected"},
        {"0/s", "pause it"},
        {"5/", "duration or a unit"},
        {"5/60", "duration or a unit"},
        {"5/x", "duration or a unit"},
        {"5/ s", "duration or a unit"},
        {"5/sec", "duration or a unit"},
        {"5/s/s", "duration or a unit"},
        {"5/.5", "duration or a unit"},
        {"5/-1s", "duration or a unit"},
        {"5/0", "longer than 0"},
        {"5/0s", "longer than 0"},
        {"1000000001/s", "above 1000000000"},
        {"99999999999999999999999/s", "above 1000000000"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        int64_t count = 77, period_ms = 78;
        struct err err;
        check_case_int(rate_parse(cases[i].text, &count, &period_ms, &err), TEND_EINVAL,
                       cases[i].text);
        check_int(count, ==, 77);
        check_int(period_ms, ==, 78);
        check_contains(err.text, cases[i].why);
    }
}
