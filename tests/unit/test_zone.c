/* core/zone and base/zone_file: the tz database's files, and what they say of a time. (BY-8) */
#include "base/err.h"
#include "base/rng.h"
#include "base/timetext.h"
#include "base/zone_file.h"
#include "core/zone_rule.h"
#include "unit/zone_case.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

enum { HOUR_S = 3600 };

static int32_t offset_at(const struct zone *zone, const char *time)
{
    int64_t ms = 0;
    check_case_int(time_parse(time, 0, &ms, NULL), 0, time);
    return zone_span_at(zone, ms / 1000).offset_s;
}

TEST(zone, changes_hold_from_their_second_on)
{
    static const struct made_change changes[] = {{-1000, HOUR_S}, {0, -2 * HOUR_S}, {500, 45 * 60}};
    for (int version = 0; version < 2; version++) {
        const struct zone *zone = zone_made(version == 0 ? '\0' : '2', 77, changes, 3, "");
        check_int(zone_span_at(zone, -1000000000000).offset_s, ==, 77);
        check_int(zone_span_at(zone, -1001).offset_s, ==, 77);
        check_int(zone_span_at(zone, -1000).offset_s, ==, HOUR_S);
        check_int(zone_span_at(zone, -1).offset_s, ==, HOUR_S);
        check_int(zone_span_at(zone, 0).offset_s, ==, -2 * HOUR_S);
        struct zone_span span = zone_span_at(zone, 499);
        check_int(span.begin_s, ==, 0);
        check_int(span.end_s, ==, 500);
        span = zone_span_at(zone, 500); /* without a rule the last stays */
        check_int(span.offset_s, ==, 45 * 60);
        check_int(span.end_s, ==, INT64_MAX);
    }
}

TEST(zone, without_a_zone_it_is_utc)
{
    char text[ZONE_TIME_BYTES];
    check_int(zone_span_at(NULL, 12345).offset_s, ==, 0);
    check_str(zone_time_text(NULL, 1700000000123, text), "2023-11-14T22:13:20Z");
    check_str(zone_time_text(system_zone("Asia/Kolkata"), 1700000000123, text),
              "2023-11-15T03:43:20+05:30");
    check_str(zone_time_text(system_zone("America/New_York"), 1700000000123, text),
              "2023-11-14T17:13:20-05:00");
}

/* All that lies behind the last change is by the rule, for ever. */
TEST(zone, the_far_future_is_by_the_rule)
{
    const struct zone *berlin = system_zone("Europe/Berlin");
    check_int(offset_at(berlin, "2026-03-29T00:59:59Z"), ==, HOUR_S);
    check_int(offset_at(berlin, "2026-03-29T01:00:00Z"), ==, 2 * HOUR_S);
    check_int(offset_at(berlin, "2026-10-25T00:59:59Z"), ==, 2 * HOUR_S);
    check_int(offset_at(berlin, "2026-10-25T01:00:00Z"), ==, HOUR_S);
    check_int(offset_at(berlin, "9876-01-15T12:00:00Z"), ==, HOUR_S);
    check_int(offset_at(berlin, "9876-07-15T12:00:00Z"), ==, 2 * HOUR_S);
    const struct zone *howe = system_zone("Australia/Lord_Howe");
    check_int(offset_at(howe, "7000-01-15T12:00:00Z"), ==, 11 * HOUR_S);
    check_int(offset_at(howe, "7000-07-15T12:00:00Z"), ==, 10 * HOUR_S + 1800);
}

static const char *const zones[] = {"Europe/Berlin",
                                    "America/New_York",
                                    "Australia/Lord_Howe",
                                    "Asia/Kolkata",
                                    "Pacific/Apia",
                                    "Africa/Casablanca",
                                    "Europe/Dublin",
                                    "America/Sao_Paulo",
                                    "Pacific/Auckland",
                                    "America/St_Johns",
                                    "Asia/Gaza",
                                    "Antarctica/Troll",
                                    "UTC",
                                    "Etc/GMT+12",
                                    "Pacific/Kiritimati",
                                    "America/Nuuk"};

TEST(zone, the_c_library_says_the_same_at_any_time)
{
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < CASES(zones); i++) {
        const struct zone *zone = system_zone(zones[i]);
        other_use_zone(zones[i]);
        for (int k = 0; k < 3000; k++) {
            /* 1850 to 2500, and the second at which each span begins */
            int64_t at_s = -3786825600 + (int64_t)(rng_u64(&rng) % UINT64_C(20500000000));
            struct zone_span span = zone_span_at(zone, at_s);
            check_case_int(span.offset_s, other_offset(at_s), zones[i]);
            check_case(span.begin_s <= at_s && at_s < span.end_s, zones[i]);
            if (span.begin_s == INT64_MIN || span.begin_s < -5000000000)
                continue;
            check_case_int(span.offset_s, other_offset(span.begin_s), zones[i]);
            check_case_int(zone_span_at(zone, span.begin_s - 1).offset_s,
                           other_offset(span.begin_s - 1), zones[i]);
        }
    }
}

TEST(zone, rules)
{
    static const struct {
        const char *rule, *time;
        int32_t offset_s;
    } cases[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", "2030-07-01", 2 * HOUR_S},
        {"<+0330>-3:30", "2030-07-01", 3 * HOUR_S + 1800},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2030-03-30T23:00:00Z", -2 * HOUR_S},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2030-03-31T01:00:00Z", -HOUR_S},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2030-01-01", 11 * HOUR_S},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2030-06-01", 10 * HOUR_S},
        /* Negative daylight saving time, as Ireland's law has it. */
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2030-07-01", HOUR_S},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2030-01-01", 0},
        {"EST5EDT,0/0,J365/25", "2030-01-01", -4 * HOUR_S}, /* all year */
        {"EST5EDT,0/0,J365/25", "2030-07-01", -4 * HOUR_S},
        {"EST5EDT,0/0,J365/25", "2030-01-01T05:00:00Z", -4 * HOUR_S},
        /* 29 February is not counted by J, and is by n. */
        {"AAA0BBB,J60/0,J61/0", "2028-03-01T12:00:00Z", HOUR_S},
        {"AAA0BBB,60/0,61/0", "2028-03-01T12:00:00Z", HOUR_S},
        {"AAA0BBB,J60/0,J61/0", "2027-03-01T12:00:00Z", HOUR_S},
        {"AAA0BBB,59/0,60/0", "2027-03-01T12:00:00Z", HOUR_S},
        {"QQQ-14:00:30", "2030-01-01", 14 * HOUR_S + 30},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        const struct zone *zone = zone_made('3', 0, NULL, 0, cases[i].rule);
        check_case_int(offset_at(zone, cases[i].time), cases[i].offset_s, cases[i].rule);
    }
    static const char *const wrong[] = {"",
                                        "CET",
                                        "CE-1",
                                        "CET-1CEST",
                                        "CET-25",
                                        "CET-1:60",
                                        "<CET-1",
                                        "CET-1x",
                                        "CET-1CEST,M3.5",
                                        "CET-1CEST,M3.5.0",
                                        "CET-1CEST,",
                                        "CET-1CE,0,1",
                                        "A1B0-1",
                                        "CET-1CEST,M13.5.0,M10.5.0",
                                        "CET-1CEST,M3.6.0,M10.5.0",
                                        "CET-1CEST,J0,J1",
                                        "CET-1CEST,M3.5.0,366",
                                        "CET-1CEST,M3.5.0/168,1",
                                        "CET-1CEST,M3.5.0,M10.5.0/3 "};
    for (size_t i = 0; i < CASES(wrong); i++) {
        struct zone_rule rule;
        check_case(!zone_rule_parse(wrong[i], &rule), wrong[i]);
    }
}

static int parse_part(const struct buf *bytes, size_t len, struct err *err)
{
    struct arena arena;
    struct zone zone;
    void *copy = malloc(len + 1); /* of its own size: a byte read behind it is seen */
    memcpy(copy, bytes->data, len);
    arena_init(&arena);
    int rc = zone_parse(copy, len, &arena, &zone, err);
    arena_done(&arena);
    free(copy);
    return rc;
}

TEST(zone, a_file_that_is_cut_off_is_refused)
{
    struct buf bytes;
    struct err err;
    buf_init(&bytes);
    check_int(zone_file_read("Europe/Berlin", &bytes, &err), ==, 0);
    check_int(parse_part(&bytes, bytes.len, &err), ==, 0);
    for (size_t len = 0; len < bytes.len; len++)
        check_int(parse_part(&bytes, len, &err), ==, TEND_EINVAL);
    buf_done(&bytes);
}

TEST(zone, damaged_files_are_refused_with_what_is_wrong)
{
    static const struct made_change far[] = {{0, 27 * HOUR_S}};
    static const struct made_change back[] = {{10, 0}, {10, 1}};
    struct buf bytes;
    struct err err;
    buf_init(&bytes);
    zone_make(&bytes, '2', 0, far, 1, "");
    check_int(parse_part(&bytes, bytes.len, &err), ==, TEND_EINVAL);
    check_contains(err.text, "offset");
    buf_clear(&bytes);
    zone_make(&bytes, '2', 0, back, 2, "");
    check_int(parse_part(&bytes, bytes.len, &err), ==, TEND_EINVAL);
    check_contains(err.text, "damaged");
    buf_clear(&bytes);
    zone_make(&bytes, '2', 0, NULL, 0, "what is this");
    check_int(parse_part(&bytes, bytes.len, &err), ==, TEND_EINVAL);
    check_contains(err.text, "rule");
    buf_clear(&bytes);
    zone_make(&bytes, '\0', 0, NULL, 0, "");
    bytes.data[31] = 1; /* a leap second */
    buf_append(&bytes, "12345678", 8);
    check_int(parse_part(&bytes, bytes.len, &err), ==, TEND_EINVAL);
    check_contains(err.text, "leap");
    buf_done(&bytes);
}

TEST(zone, names_lead_nowhere_else)
{
    static const char *const good[] = {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires",
                                       "Etc/GMT+12", "a.b"};
    static const char *const bad[] = {"",     "/etc/passwd", "../x",    "a/../b", "a//b",
                                      "a/",   "./a",         ".hidden", "a/.b",   "a b",
                                      "a\nb", "ä",           "a/..",    "$HOME",  "a."};
    for (size_t i = 0; i < CASES(good); i++)
        check_case(zone_name_ok(good[i]), good[i]);
    for (size_t i = 0; i < CASES(bad); i++) {
        struct buf out;
        struct err err = {0};
        buf_init(&out);
        check_case(!zone_name_ok(bad[i]), bad[i]);
        check_case_int(zone_file_read(bad[i], &out, &err), TEND_EINVAL, bad[i]);
        buf_done(&out);
    }
}

static int read_named(const char *name, struct err *err)
{
    struct buf out;
    buf_init(&out);
    int rc = zone_file_read(name, &out, err);
    buf_done(&out);
    return rc;
}

TEST(zone, an_unknown_name_is_told_with_what_is_near)
{
    struct err err = {0};
    check_int(read_named("Europe/Berln", &err), ==, TEND_ENOTFOUND);
    check_str(err.text, "'Europe/Berln' is not a time zone of this machine (/usr/share/zoneinfo); "
                        "did you mean Europe/Berlin?");
    check_int(read_named("America/Argentina/Buenos_Airs", &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "did you mean America/Argentina/Buenos_Aires?");
    check_int(read_named("Nowhere", &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "names are like Europe/Berlin");
    check_int(read_named("Europe", &err), ==, TEND_ENOTFOUND); /* a folder */
}

TEST(zone, the_folder_is_the_one_TZDIR_names)
{
    struct err err = {0};
    setenv("TZDIR", test_folder(), 1);
    check_int(read_named("Europe/Berlin", &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, test_folder());
    check_int(mkdir(test_path("Europe"), 0700), ==, 0);
    check_int(symlink("/usr/share/zoneinfo/Asia/Kolkata", test_path("Europe/Berlin")), ==, 0);
    check_int(offset_at(system_zone("Europe/Berlin"), "2026-01-01"), ==, 5 * HOUR_S + 1800);
    check_int(mkfifo(test_path("Pipe"), 0600), ==, 0); /* nobody waits for its other end */
    check_int(read_named("Pipe", &err), ==, TEND_ENOTFOUND);
    setenv("TZDIR", test_path("none"), 1);
    check_int(read_named("Europe/Berlin", &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "install tzdata");
}
