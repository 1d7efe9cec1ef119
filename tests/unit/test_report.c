/* core/report: what a step says through TEND_OUTPUT. */
#include "base/rng.h"
#include "core/report.h"
#include "unit/case.h"

#include <string.h>

static void read_text(struct report *report, const char *text)
{
    check_int(report_init(report, NULL), ==, 0);
    check_int(report_feed(report, text, strlen(text), NULL), ==, 0);
    check_int(report_end(report, NULL), ==, 0);
}

static const char *output(const struct report *report, const char *name)
{
    return json_string_value(json_object_get(report->outputs, name));
}

TEST(report, a_step_that_says_nothing)
{
    struct report report;
    read_text(&report, "");
    check_int(json_object_size(report.outputs), ==, 0);
    check(report.result == NULL);
    check_int(report.progress_percent, ==, -1);
    check_int(report.class, ==, CLASS_NONE);
    check_int(report.retry_after_ms, ==, -1);
    check_int(report.waiting_ms, ==, -1);
    check_int(report.changed, ==, 0);
    check_int(report.warning_count, ==, 0);
    report_done(&report);
}

TEST(report, pairs_give_outputs_as_text)
{
    struct report report;
    read_text(&report, "version=1.2\n\n  \nempty=\r\nurl=http://x/?a=b c \nversion=1.3\nlast=one");
    check_int(json_object_size(report.outputs), ==, 4);
    check_str(output(&report, "version"), "1.3");
    check_str(output(&report, "empty"), "");
    check_str(output(&report, "url"), "http://x/?a=b c ");
    check_str(output(&report, "last"), "one");
    check_int(report.warning_count, ==, 0);
    check_int(report.changed, ==, REPORT_OUTPUT);
    report_done(&report);
}

TEST(report, json_lines_give_typed_values)
{
    struct report report;
    read_text(&report, "{\"count\": 3, \"files\": [\"a\", null], \"text\": \"t\"}\n"
                       " {\"result\": {\"ok\": true}}\n{}\n");
    check_int(json_integer_value(json_object_get(report.outputs, "count")), ==, 3);
    check_int(json_array_size(json_object_get(report.outputs, "files")), ==, 2);
    check_str(output(&report, "text"), "t");
    check(json_is_true(json_object_get(report.result, "ok")));
    check_int(report.changed, ==, REPORT_OUTPUT | REPORT_RESULT);
    check_int(report.warning_count, ==, 0);
    report_done(&report);
    read_text(&report, "result=just text\n");
    check_str(json_string_value(report.result), "just text");
    report_done(&report);
}

TEST(report, progress_is_taken_in_both_ways)
{
    static const struct {
        const char *line;
        int percent;
        const char *text;
    } cases[] = {
        {"progress=40 compiling it", 40, "compiling it"},
        {"progress=0", 0, ""},
        {"progress=100%", 100, ""},
        {"progress= 99.9 \t x", 99, "x"},
        {"{\"progress\":40,\"text\":\"a\\nb\"}", 40, "a b"},
        {"progress=50 \033[32mhalf\033[0m of it", 50, "half of it"},
        {"{\"text\":\"first\",\"progress\":12.7}", 12, "first"},
        {"{\"progress\":\"33\"}", 33, ""},
        {"progress=101", -1, ""},
        {"progress=100.5", -1, ""},
        {"progress=-1", -1, ""},
        {"progress=", -1, ""},
        {"progress=half", -1, ""},
        {"{\"progress\":true}", -1, ""},
        {"{\"progress\":1e300}", -1, ""},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct report report;
        read_text(&report, cases[i].line);
        check_case_int(report.progress_percent, cases[i].percent, cases[i].line);
        check_case(strcmp(report.progress_text, cases[i].text) == 0, cases[i].line);
        check_case_int(report.changed, cases[i].percent < 0 ? REPORT_WARNING : REPORT_PROGRESS,
                       cases[i].line);
        check_case_int(json_object_size(report.outputs), 0, cases[i].line);
        report_done(&report);
    }
}

TEST(report, durations_are_text_or_seconds)
{
    static const struct {
        const char *value, *json;
        int64_t ms;
    } cases[] = {
        {"30s", "\"30s\"", 30000},
        {"1h30m", "\"1h30m\"", 5400000},
        {"90", "90", 90000},
        {"1.5", "1.5", 1500},
        {"0", "0", 0},
        {"-1", "-1", -1},
        {"soon", "null", -1},
        {"", "[]", -1},
        {"1e3", "1e300", -1},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        for (int kind = 0; kind < 4; kind++) {
            char line[100];
            const char *key = kind % 2 ? "waiting" : "retry_after";
            snprintf(line, sizeof line, kind < 2 ? "%s=%s\n" : "{\"%s\":%s}\n", key,
                     kind < 2 ? cases[i].value : cases[i].json);
            struct report report;
            read_text(&report, line);
            check_case_int(kind % 2 ? report.waiting_ms : report.retry_after_ms, cases[i].ms, line);
            check_case_int(kind % 2 ? report.retry_after_ms : report.waiting_ms, -1, line);
            check_case_int(report.warning_count, cases[i].ms < 0, line);
            report_done(&report);
        }
    }
}

/* Symptom: the store refused such a time, and with it how the attempt had ended. */
TEST(report, a_duration_longer_than_a_year_is_taken_as_one_and_that_is_said)
{
    static const char *const values[] = {"999999999999", "\"36601d\"", "1e12", "\"365d1ms\""};
    const int64_t year_ms = INT64_C(365) * 24 * 3600 * 1000;
    for (size_t i = 0; i < CASES(values); i++) {
        char line[100];
        snprintf(line, sizeof line, "{\"waiting\":%s,\"retry_after\":%s}\n", values[i], values[i]);
        struct report report;
        read_text(&report, line);
        check_case_int(report.waiting_ms, year_ms, line);
        check_case_int(report.retry_after_ms, year_ms, line);
        check_case_int(report.warning_count, 2, line);
        check_contains(report.warnings[0].text, "is longer than 365 days");
        report_done(&report);
    }
}

TEST(report, waiting_has_a_reason_and_ends_with_0)
{
    struct report report;
    read_text(&report, "waiting=10m for the approval\n");
    check_int(report.waiting_ms, ==, 600000);
    check_str(report.waiting_text, "for the approval");
    check_int(report.changed, ==, REPORT_WAITING);
    report.changed = 0;
    check_int(report_feed(&report, "waiting=0\n", 10, NULL), ==, 0);
    check_int(report.waiting_ms, ==, 0);
    check_str(report.waiting_text, "");
    check_int(report.changed, ==, REPORT_WAITING);
    report_done(&report);
}

TEST(report, the_class_is_one_of_the_five)
{
    /* SH-4, SH-5: what the step itself declared comes first */
    for (int class = CLASS_TRANSIENT_RUNTIME; class < CLASS_COUNT; class ++) {
        char line[100];
        snprintf(line, sizeof line, "class=%s\n", failure_class_name((enum failure_class) class));
        struct report report;
        read_text(&report, line);
        check_case_int(report.class, class, line);
        check_case_int(report.changed, REPORT_CLASS, line);
        report_done(&report);
    }
    struct report report;
    read_text(&report, "class=bad luck\n{\"class\": 3}\n");
    check_int(report.class, ==, CLASS_NONE);
    check_int(report.warning_count, ==, 2);
    check_contains(report.warnings[0].text, "transient_runtime");
    report_done(&report);
}

TEST(report, only_whole_lines_count_until_the_end)
{
    struct report report;
    check_int(report_init(&report, NULL), ==, 0);
    check_int(report_feed(&report, "progress=1", 10, NULL), ==, 0);
    check_int(report.progress_percent, ==, -1);
    check_int(report_feed(&report, "5 x", 3, NULL), ==, 0);
    check_int(report.changed, ==, 0);
    check_int(report_feed(&report, "y\nprog", 6, NULL), ==, 0);
    check_int(report.progress_percent, ==, 15);
    check_str(report.progress_text, "xy");
    check_int(report_feed(&report, "ress=16", 7, NULL), ==, 0);
    check_int(report_end(&report, NULL), ==, 0);
    check_int(report.progress_percent, ==, 16);
    check_int(report_end(&report, NULL), ==, 0);
    check_int(report.line_number, ==, 2);
    report_done(&report);
}

TEST(report, what_is_not_understood_is_a_warning_with_its_line)
{
    struct report report;
    read_text(&report, "a=1\nnonsense\n{\"b\": }\n1x=2\n =3\n{\"a b\": 1}\n[1]\nc=2\n");
    check_int(report.warning_count, ==, 6);
    check_int(report.warnings[0].line, ==, 2);
    check_contains(report.warnings[0].text, "key=value");
    check_int(report.warnings[1].line, ==, 3);
    check_contains(report.warnings[1].text, "JSON");
    check_int(report.warnings[5].line, ==, 7);
    check_str(output(&report, "a"), "1");
    check_str(output(&report, "c"), "2");
    check_int(json_object_size(report.outputs), ==, 2);
    report_done(&report);
}

TEST(report, bytes_that_are_no_text_are_replaced)
{
    struct report report;
    static const char bytes[] = "a=x\xFFy\0z\xC3\nb=\xC3\xA4\n";
    check_int(report_init(&report, NULL), ==, 0);
    check_int(report_feed(&report, bytes, sizeof bytes - 1, NULL), ==, 0);
    check_str(output(&report, "a"), "x\xEF\xBF\xBDy\xEF\xBF\xBDz\xEF\xBF\xBD");
    check_str(output(&report, "b"), "\xC3\xA4");
    report_done(&report);
}

TEST(report, long_texts_are_cut_between_characters)
{
    struct report report;
    struct buf line;
    buf_init(&line);
    buf_puts(&line, "progress=1 x");
    for (int i = 0; i < 300; i++)
        buf_puts(&line, "\xC3\xA4");
    read_text(&report, line.data);
    check_int(strlen(report.progress_text), ==, 199);
    report_done(&report);
    buf_done(&line);
}

TEST(report, everything_is_bounded)
{
    struct report report;
    char block[4096];
    memset(block, 'x', sizeof block);
    check_int(report_init(&report, NULL), ==, 0);
    /* one endless line */
    check_int(report_feed(&report, "a=", 2, NULL), ==, 0);
    for (int i = 0; i < 1000; i++)
        check_int(report_feed(&report, block, sizeof block, NULL), ==, 0);
    check_int(report.line.cap, <=, 2 * REPORT_LINE_BYTES);
    check_int(report_feed(&report, "\nb=1\n", 5, NULL), ==, 0);
    check_int(report.warning_count, ==, 1);
    check_contains(report.warnings[0].text, "longer than");
    check_str(output(&report, "b"), "1");
    /* many outputs, then large ones */
    for (int i = 0; i < 3000; i++) {
        char line[40];
        int len = snprintf(line, sizeof line, "n%d=v\n", i);
        check_int(report_feed(&report, line, (size_t)len, NULL), ==, 0);
    }
    check_int(json_object_size(report.outputs), ==, REPORT_OUTPUTS_MAX);
    check_int(report.warning_count, ==, 1 + 3000 - (REPORT_OUTPUTS_MAX - 1));
    for (int i = 0; i < 400; i++) {
        char line[40];
        int len = snprintf(line, sizeof line, "n%d=", i);
        check_int(report_feed(&report, line, (size_t)len, NULL), ==, 0);
        check_int(report_feed(&report, block, sizeof block, NULL), ==, 0);
        check_int(report_feed(&report, "\n", 1, NULL), ==, 0);
    }
    check_int(report.output_bytes, <=, REPORT_OUTPUT_BYTES);
    check_int(report.output_bytes, >, REPORT_OUTPUT_BYTES - 8192);
    /* a smaller value makes room again */
    size_t full = report.output_bytes;
    check_int(report_feed(&report, "n0=s\n", 5, NULL), ==, 0);
    check_int(report.output_bytes, ==, full - sizeof block + 1);
    report_done(&report);
}

TEST(report, any_cutting_of_the_file_gives_the_same)
{
    static const char text[] = "a=1\n{\"b\": [1, 2]}\nprogress=5 x\nbad\nwaiting=3s w\r\nclass=no\n"
                               "retry_after=2\n{\"result\": 7}\nlast=\xC3\xA4";
    struct report whole;
    read_text(&whole, text);
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < 2000; round++) {
        struct report report;
        check_int(report_init(&report, NULL), ==, 0);
        for (size_t at = 0; at < strlen(text);) {
            size_t len = rng_below(&rng, 9);
            len = len < strlen(text) - at ? len : strlen(text) - at;
            check_int(report_feed(&report, text + at, len, NULL), ==, 0);
            at += len;
        }
        check_int(report_end(&report, NULL), ==, 0);
        check(json_equal(report.outputs, whole.outputs));
        check(json_equal(report.result, whole.result));
        check_int(report.changed, ==, whole.changed);
        check_int(report.warning_count, ==, 2);
        check_int(report.warnings[1].line, ==, whole.warnings[1].line);
        check_int(report.waiting_ms, ==, 3000);
        report_done(&report);
    }
    report_done(&whole);
}
