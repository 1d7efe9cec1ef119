/* core/cron in time zones: times that the clock shows twice or never. (BY-8) */
#include "base/civil.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/timetext.h"
#include "core/cron.h"
#include "unit/zone_case.h"

#include <stdio.h>
#include <string.h>
#include <tend.h>

static int64_t at(const char *text)
{
    int64_t ms = 0;
    check_case_int(time_parse(text, 0, &ms, NULL), 0, text);
    return ms;
}

static struct cron cron_of(const char *text)
{
    struct cron cron;
    check_case(cron_parse(text, &cron, NULL) == 0, text);
    return cron;
}

/* The next runs after a time, as the clock there shows them: "03-29 03:00+02 03-30 02:30+02". */
static const char *runs(const char *zone_name, const char *text, const char *after, int count)
{
    static char out[1000];
    const struct zone *zone = system_zone(zone_name);
    struct cron cron = cron_of(text);
    int64_t ms = at(after);
    out[0] = '\0';
    for (int i = 0; i < count; i++) {
        char time[ZONE_TIME_BYTES];
        size_t len = strlen(out);
        ms = cron_next(&cron, zone, ms);
        zone_time_text(zone, ms, time);
        snprintf(out + len, sizeof out - len, "%s%.5s %.5s%s", i > 0 ? " " : "", time + 5,
                 time + 11, time + 19);
    }
    return out;
}

TEST(cron_zone, a_time_of_the_day_is_that_of_the_zone)
{
    check_str(runs("Europe/Berlin", "15 3 * * *", "2026-01-10T00:00:00Z", 2),
              "01-10 03:15+01:00 01-11 03:15+01:00");
    check_str(runs("Asia/Kolkata", "15 3 * * *", "2026-01-10T00:00:00Z", 1), "01-11 03:15+05:30");
    check_str(runs("America/New_York", "30 22 31 12 *", "2026-01-10T00:00:00Z", 1),
              "12-31 22:30-05:00");
}

/* The clock goes from 02:00 to 03:00. */
TEST(cron_zone, what_falls_into_the_gap_runs_once_when_it_ends)
{
    const char *before = "2026-03-28T12:00:00Z";
    check_str(runs("Europe/Berlin", "30 2 * * *", before, 2),
              "03-29 03:00+02:00 03-30 02:30+02:00");
    check_str(runs("Europe/Berlin", "0 2 * * *", before, 2), "03-29 03:00+02:00 03-30 02:00+02:00");
    check_str(runs("Europe/Berlin", "*/20 2 * * *", before, 2),
              "03-29 03:00+02:00 03-30 02:00+02:00");
    check_str(runs("Europe/Berlin", "0 2,3 * * *", before, 3),
              "03-29 03:00+02:00 03-30 02:00+02:00 03-30 03:00+02:00");
    check_str(runs("Europe/Berlin", "30 1-4 29 3 *", before, 3),
              "03-29 01:30+01:00 03-29 03:00+02:00 03-29 03:30+02:00");
    check_str(runs("America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", 2),
              "03-08 03:00-04:00 03-09 02:30-04:00");
    /* Half an hour: from 02:00 to 02:30. */
    check_str(runs("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00:00Z", 2),
              "10-04 02:30+11:00 10-05 02:15+11:00");
    check_str(runs("Australia/Lord_Howe", "45 2 * * *", "2026-10-03T00:00:00Z", 1),
              "10-04 02:45+11:00");
    /* Samoa had no 30 December 2011. */
    check_str(runs("Pacific/Apia", "30 9 * * *", "2011-12-29T00:00:00Z", 3),
              "12-29 09:30-10:00 12-31 00:00+14:00 12-31 09:30+14:00");
}

/* The clock goes from 03:00 back to 02:00. */
TEST(cron_zone, what_comes_twice_runs_when_it_comes_first)
{
    const char *before = "2026-10-24T12:00:00Z";
    check_str(runs("Europe/Berlin", "30 2 * * *", before, 2),
              "10-25 02:30+02:00 10-26 02:30+01:00");
    check_str(runs("Europe/Berlin", "0 3 * * *", before, 2), "10-25 03:00+01:00 10-26 03:00+01:00");
    check_str(runs("Europe/Berlin", "*/30 2 * * *", before, 3),
              "10-25 02:00+02:00 10-25 02:30+02:00 10-26 02:00+01:00");
    check_str(runs("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00:00Z", 2),
              "04-05 01:45+11:00 04-06 01:45+10:30");
    /* Asked from within the hour that has come again. */
    check_str(runs("Europe/Berlin", "30 2 * * *", "2026-10-25T01:10:00Z", 1), "10-26 02:30+01:00");
}

TEST(cron_zone, every_hour_and_quarter_go_by_the_time_that_passes)
{
    check_str(runs("Europe/Berlin", "0 * * * *", "2026-10-24T23:30:00Z", 4),
              "10-25 02:00+02:00 10-25 02:00+01:00 10-25 03:00+01:00 10-25 04:00+01:00");
    check_str(runs("Europe/Berlin", "15 * * * *", "2026-03-28T23:30:00Z", 3),
              "03-29 01:15+01:00 03-29 03:15+02:00 03-29 04:15+02:00");
    struct cron quarter = cron_of("*/15 * * * *");
    const struct zone *zone = system_zone("Europe/Berlin");
    int64_t ms = at("2026-10-24T22:00:00Z");
    for (int i = 0; i < 24; i++) {
        check_int(cron_next(&quarter, zone, ms), ==, ms + 15 * MS_PER_MINUTE);
        ms += 15 * MS_PER_MINUTE;
    }
}

TEST(cron_zone, every_so_often_knows_no_zone)
{
    struct cron cron = cron_of("@every 7h");
    int64_t ms = at("2026-03-28T12:00:00Z");
    check_int(cron_next(&cron, system_zone("Europe/Berlin"), ms), ==, cron_next(&cron, NULL, ms));
}

TEST(cron_zone, the_far_future_and_what_never_comes)
{
    check_str(runs("Europe/Berlin", "30 2 * * *", "2400-03-25T12:00:00Z", 2),
              "03-26 03:00+02:00 03-27 02:30+02:00");
    const struct zone *zone = system_zone("America/New_York");
    struct cron never = cron_of("0 0 30 2 *");
    struct cron never_hourly = cron_of("0 * 30 2 *");
    struct cron daily = cron_of("@daily");
    check_int(cron_next(&never, zone, at("2026-01-01")), ==, -1);
    check_int(cron_next(&never_hourly, zone, at("2026-01-01")), ==, -1);
    check_int(cron_next(&daily, zone, TIME_MAX_MS), ==, -1);
    check_int(cron_next(&daily, zone, INT64_MAX), ==, -1);
    check_int(cron_next(&daily, zone, INT64_MIN), >=, TIME_MIN_MS);
}

/* --- against minute by minute --- */

static bool matches(const struct cron *cron, int64_t local_minute)
{
    int64_t day = floor_div(local_minute, 24 * 60);
    int minute = (int)(local_minute - day * 24 * 60);
    struct civil date = civil_from_days(day);
    bool by_day = cron->days >> date.day & 1;
    bool by_weekday = cron->weekdays >> civil_weekday(day) & 1;
    bool day_fits =
        cron->days_star || cron->weekdays_star ? by_day && by_weekday : by_day || by_weekday;
    return day_fits && cron->months >> date.month & 1 && cron->hours >> minute / 60 & 1 &&
           cron->minutes >> minute % 60 & 1;
}

/* The rule of cron.h, in its own words, with what the C library says of the zone. */
static int64_t step_by_step(const struct cron *cron, int64_t after_ms, int64_t until_ms)
{
    int64_t minute = floor_div(after_ms, MS_PER_MINUTE);
    int64_t shown = INT64_MIN; /* the latest that the clock has shown */
    for (int64_t i = minute - 3 * 24 * 60; i <= minute; i++) {
        int64_t local = i + other_offset(i * 60) / 60;
        shown = local > shown ? local : shown;
    }
    for (minute++; minute * MS_PER_MINUTE <= until_ms; minute++) {
        int64_t local = minute + other_offset(minute * 60) / 60;
        if (cron->hours_star && matches(cron, local))
            return minute * MS_PER_MINUTE;
        for (int64_t i = shown + 1; !cron->hours_star && i <= local; i++)
            if (matches(cron, i))
                return minute * MS_PER_MINUTE;
        shown = local > shown ? local : shown;
    }
    return -1;
}

static void make_field(struct rng *rng, int low, int high, bool star, char *out, size_t size)
{
    int span = high - low + 1;
    int first = low + (int)(rng_u64(rng) % (uint64_t)span);
    int second = low + (int)(rng_u64(rng) % (uint64_t)span);
    if (star)
        snprintf(out, size, rng_u64(rng) % 2 ? "*" : "*/%d", 1 + first % (span - 1));
    else if (first <= second)
        snprintf(out, size, "%d-%d", first, second);
    else
        snprintf(out, size, "%d,%d", first, second);
}

TEST_WITHIN(cron_zone, the_answer_is_the_first_that_a_search_by_minutes_finds, 120)
{
    /* Just before changes of each zone. */
    static const struct {
        const char *zone, *near;
    } places[] = {
        {"Europe/Berlin", "2026-03-28T20:00:00Z"},
        {"Europe/Berlin", "2026-10-24T20:00:00Z"},
        {"America/New_York", "2026-03-07T20:00:00Z"},
        {"America/New_York", "2026-10-31T20:00:00Z"},
        {"Australia/Lord_Howe", "2026-04-04T06:00:00Z"},
        {"Australia/Lord_Howe", "2026-10-03T06:00:00Z"},
        {"Asia/Kolkata", "2026-05-01T00:00:00Z"},
        {"Pacific/Apia", "2011-12-29T20:00:00Z"},
        {"Europe/Berlin", "2345-03-24T20:00:00Z"},
        {"America/New_York", "2345-11-04T20:00:00Z"},
        {"Africa/Casablanca", "2027-02-06T20:00:00Z"},
        {"America/Nuuk", "2027-03-27T10:00:00Z"},
    };
    struct rng rng;
    rng_seed(&rng, 11);
    for (size_t i = 0; i < CASES(places); i++) {
        const struct zone *zone = system_zone(places[i].zone);
        other_use_zone(places[i].zone);
        for (int k = 0; k < 60; k++) {
            char minute[16], hour[16], weekday[16], text[80];
            make_field(&rng, 0, 59, rng_u64(&rng) % 3 == 0, minute, sizeof minute);
            make_field(&rng, 0, 5, rng_u64(&rng) % 3 == 0, hour, sizeof hour);
            make_field(&rng, 0, 6, rng_u64(&rng) % 2 == 0, weekday, sizeof weekday);
            snprintf(text, sizeof text, "%s %s * * %s", minute, hour, weekday);
            struct cron cron = cron_of(text);
            int64_t after_ms =
                at(places[i].near) + (int64_t)(rng_u64(&rng) % (uint64_t)(12 * MS_PER_HOUR));
            int64_t until_ms = after_ms + 8 * MS_PER_DAY;
            int64_t expected_ms = step_by_step(&cron, after_ms, until_ms);
            int64_t next_ms = cron_next(&cron, zone, after_ms);
            char name[160];
            snprintf(name, sizeof name, "%s %s after %lld", places[i].zone, text,
                     (long long)after_ms);
            if (expected_ms < 0)
                check_case(next_ms > until_ms, name);
            else
                check_case_int(next_ms, expected_ms, name);
        }
    }
}
