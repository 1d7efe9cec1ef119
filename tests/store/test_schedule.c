/* Schedules (BY-4): jobs added by the clock, once, with catch-up. */
#include "support/store.h"

#include <string.h>

static void put(tend *t, const char *name, const char *cron, const char *catch_up)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = name;
    schedule.cron = cron;
    schedule.queue = "q";
    schedule.kind = "tick";
    schedule.payload = "{\"a\":1}";
    schedule.priority = 3;
    schedule.catch_up = catch_up;
    check_ok(t, tend_schedule_put(t, &schedule, "op"));
}

static int64_t next_of(tend *t, const char *name)
{
    struct tend_schedules *schedules;
    int64_t next_ms = -1;
    check_ok(t, tend_schedule_list(t, &schedules));
    for (size_t i = 0; i < schedules->count; i++)
        if (strcmp(schedules->items[i].name, name) == 0)
            next_ms = schedules->items[i].next_at_ms;
    tend_schedules_free(schedules);
    return next_ms;
}

static int64_t jobs_in_store(void)
{
    return sql_int("SELECT count(*) FROM job");
}

/* 2023-11-14 22:13:20 UTC is when the clock starts. */
TEST(schedule, a_schedule_adds_its_job_when_its_time_has_come_and_not_before)
{
    tend *t = store_open("w");
    put(t, "s", "15 22 * * *", NULL);
    check_int(next_of(t, "s"), ==, CLOCK_START_MS + 100 * SECOND_MS);
    clock_advance(100 * SECOND_MS - 1);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_advance(1);
    struct tend_lease lease = claim_one(t, "q");
    const struct tend_job *job = job_of(t, lease.id);
    check_str(job->schedule, "s");
    check_str(job->kind, "tick");
    check_str(job->payload, "{\"a\":1}");
    check_int(job->priority, ==, 3);
    check_int(job->created_at_ms, ==, clock_now());
    check_contains(sql_rows("SELECT who FROM event WHERE what = 'job.added'"), "schedule:s");
    check_int(next_of(t, "s"), ==, clock_now() + DAY_MS);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
}

TEST(schedule, every_so_often_counts_from_1970)
{
    tend *t = store_open("w");
    put(t, "s", "@every 90s", NULL);
    int64_t next_ms = next_of(t, "s");
    check_int(next_ms % (90 * SECOND_MS), ==, 0);
    for (int i = 0; i < 3; i++) {
        clock_set(next_ms + i * 90 * SECOND_MS);
        struct tend_lease lease = claim_one(t, "q");
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
        check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    }
}

TEST(schedule, catch_up_one_makes_up_for_all_that_was_missed_with_one)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", "one");
    clock_advance(10 * HOUR_MS);
    check_int(claim_many(t, "q", 100, NULL), ==, 1);
    check_int(next_of(t, "s"), >, clock_now());
    check_int(next_of(t, "s"), <=, clock_now() + HOUR_MS);
}

TEST(schedule, catch_up_all_adds_each_run_that_was_missed)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", "all");
    clock_advance(10 * HOUR_MS);
    check_int(claim_many(t, "q", 100, NULL), ==, 10);
    check_int(claim_many(t, "q", 100, NULL), ==, 0);
}

TEST(schedule, catch_up_none_drops_what_was_missed_and_goes_on)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", "none");
    clock_advance(10 * HOUR_MS);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_set(next_of(t, "s"));
    claim_one(t, "q");
}

/* Far behind: thousands of runs come in parts, none is lost and none comes twice. */
TEST(schedule, catch_up_all_far_behind_loses_none)
{
    tend *t = store_open("w");
    put(t, "s", "@every 1s", "all");
    int64_t first_ms = next_of(t, "s");
    clock_set(first_ms + 2499 * SECOND_MS);
    for (int i = 0; i < 10; i++)
        claim_many(t, "q", 5000, NULL);
    check_int(jobs_in_store(), ==, 2500);
    check_int(next_of(t, "s"), ==, clock_now() + SECOND_MS);
}

TEST(schedule, catch_up_one_far_behind_is_still_one)
{
    tend *t = store_open("w");
    put(t, "s", "@every 1s", "one");
    clock_advance(30 * DAY_MS);
    check_int(claim_many(t, "q", 100, NULL), ==, 1);
    check_int(next_of(t, "s"), >, clock_now());
}

TEST(schedule, two_claimers_fire_a_schedule_once)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    put(t, "s", "@hourly", NULL);
    clock_advance(HOUR_MS);
    check_int(claim_many(t, "q", 10, NULL) + claim_many(other, "q", 10, NULL), ==, 1);
    check_int(jobs_in_store(), ==, 1);
}

TEST(schedule, a_claim_on_any_queue_fires_what_is_due)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", NULL);
    clock_advance(HOUR_MS);
    check_int(claim_none(t, "elsewhere").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 1);
}

TEST(schedule, a_paused_schedule_does_not_fire)
{
    tend *t = store_open("w");
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@hourly";
    schedule.queue = "q";
    schedule.paused = 1;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    clock_advance(5 * HOUR_MS);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    schedule.paused = 0; /* goes on from now, without what the pause was meant to hold off */
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_set(next_of(t, "s"));
    claim_one(t, "q");
}

TEST(schedule, putting_again_replaces_and_removing_removes)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", NULL);
    put(t, "s", "@daily", "all");
    struct tend_schedules *schedules;
    check_ok(t, tend_schedule_list(t, &schedules));
    check_int(schedules->count, ==, 1);
    check_str(schedules->items[0].cron, "@daily");
    check_str(schedules->items[0].catch_up, "all");
    tend_schedules_free(schedules);
    check_ok(t, tend_schedule_remove(t, "s", "op"));
    check_rc(t, tend_schedule_remove(t, "s", "op"), TEND_ENOTFOUND);
    check_contains(tend_errmsg(t), "'s'");
    clock_advance(2 * DAY_MS);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(count_events("schedule.put"), ==, 2);
    check_int(count_events("schedule.removed"), ==, 1);
}

TEST(schedule, a_schedule_that_never_comes_is_refused)
{
    tend *t = store_open("w");
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "0 0 30 2 *";
    check_rc(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), "never comes");
    check_int(next_of(t, "s"), ==, -1);
}

TEST(schedule, a_schedule_for_the_default_queue_needs_only_a_name_and_a_time)
{
    tend *t = store_open("w");
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@every 1m";
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    clock_advance(MINUTE_MS);
    struct tend_lease lease = claim_one(t, "default");
    check_str(job_of(t, lease.id)->payload, "{}");
}
