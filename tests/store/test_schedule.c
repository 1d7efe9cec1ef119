/* Schedules (BY-4, BY-8): jobs added by the clock, once, with catch-up. */
#include "support/store.h"

#include <stdlib.h>
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

static struct tend_schedule schedule_in(const char *cron, const char *queue)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = cron;
    schedule.queue = queue;
    return schedule;
}

static void put_overlap(tend *t, const char *cron, const char *catch_up, const char *overlap)
{
    struct tend_schedule schedule = schedule_in(cron, "q");
    schedule.catch_up = catch_up;
    schedule.overlap = overlap;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
}

static int put_zone(tend *t, const char *cron, const char *timezone)
{
    struct tend_schedule schedule = schedule_in(cron, "q");
    schedule.timezone = timezone;
    return tend_schedule_put(t, &schedule, NULL);
}

/* -1: there is none of the name. */
static void times_of(tend *t, const char *name, int64_t *last_ms, int64_t *next_ms)
{
    struct tend_schedules *schedules;
    *last_ms = *next_ms = -1;
    check_ok(t, tend_schedule_list(t, &schedules));
    for (size_t i = 0; i < schedules->count; i++) {
        if (strcmp(schedules->items[i].name, name) != 0)
            continue;
        *last_ms = schedules->items[i].last_at_ms;
        *next_ms = schedules->items[i].next_at_ms;
    }
    tend_schedules_free(schedules);
}

static int64_t next_of(tend *t, const char *name)
{
    int64_t last_ms, next_ms;
    times_of(t, name, &last_ms, &next_ms);
    return next_ms;
}

static int64_t last_of(tend *t, const char *name)
{
    int64_t last_ms, next_ms;
    times_of(t, name, &last_ms, &next_ms);
    return last_ms;
}

static int64_t jobs_in_store(void)
{
    return sql_int("SELECT count(*) FROM job");
}

enum { MANY = 100 };

/* Claims and completes all there is; nominal: the times of the runs, or NULL. */
static size_t run_all(tend *t, int64_t *nominal)
{
    struct tend_lease leases[MANY];
    size_t count = claim_many(t, "q", MANY, leases);
    for (size_t i = 0; i < count; i++) {
        if (nominal != NULL)
            nominal[i] = job_of(t, leases[i].id)->nominal_at_ms;
        check_ok(t, tend_complete(t, &leases[i], 1, NULL, NULL));
    }
    return count;
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

TEST(schedule, its_jobs_run_in_the_folder_it_names)
{
    tend *t = store_open("w");
    struct tend_schedules *schedules;
    struct tend_schedule schedule = schedule_in("@every 1m", "q");
    schedule.workspace = "/srv/project";
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    check_ok(t, tend_schedule_list(t, &schedules));
    check_str(schedules->items[0].workspace, "/srv/project");
    tend_schedules_free(schedules);
    clock_advance(MINUTE_MS);
    struct tend_lease lease = claim_one(t, "q");
    check_str(job_of(t, lease.id)->workspace, "/srv/project");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    /* Put again without one, it names none. */
    schedule.workspace = NULL;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    clock_advance(MINUTE_MS);
    check(job_of(t, claim_one(t, "q").id)->workspace == NULL);
    schedule.workspace = "\xff";
    check_int(tend_schedule_put(t, &schedule, NULL), ==, TEND_EINVAL);
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
    check_int(count_events("schedule.skipped"), ==, 1);
    check_int(last_of(t, "s"), ==, TEND_UNSET); /* it was the last that was missed */
    int64_t run_ms = next_of(t, "s");
    clock_set(run_ms);
    claim_one(t, "q");
    check_int(count_events("schedule.skipped"), ==, 1);
    check_int(last_of(t, "s"), ==, run_ms);
    clock_advance(10 * HOUR_MS);
    claim_many(t, "q", 100, NULL);
    check_int(count_events("schedule.skipped"), ==, 2);
    check_int(last_of(t, "s"), ==, run_ms);
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
    check_ok(t, tend_schedule_resume(t, "s", NULL));
    claim_one(t, "q");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_set(next_of(t, "s"));
    claim_one(t, "q");
}

/* Symptom: pausing added the runs that were due; with overlap "replace" it cancelled a running
 * job. */
TEST(schedule, pausing_adds_nothing_and_cancels_nothing)
{
    tend *t = store_open("w");
    put_overlap(t, "@hourly", "one", "replace");
    clock_set(next_of(t, "s"));
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_heartbeat(t, &lease, 1, 10 * HOUR_MS, NULL));
    clock_advance(2 * HOUR_MS);
    check_ok(t, tend_schedule_pause(t, "s", "op"));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 1);
    check_int(state_of(t, lease.id), ==, TEND_RUNNING);
    check_ok(t, tend_schedule_pause(t, "s", "op")); /* it is so already */
    check_str(sql_rows("SELECT who, why FROM event WHERE what = 'schedule.paused'"), "op|s\n");
    check_rc(t, tend_schedule_pause(t, "none", NULL), TEND_ENOTFOUND);
    check_contains(tend_errmsg(t), "there is no schedule 'none'");
    check_rc(t, tend_schedule_resume(t, "none", NULL), TEND_ENOTFOUND);
}

/* The same when it is paused by being put, which is how it was done before. */
TEST(schedule, putting_it_paused_adds_nothing_that_is_due)
{
    tend *t = store_open("w");
    struct tend_schedule schedule = schedule_in("@hourly", "q");
    put(t, "s", "@hourly", "all");
    clock_advance(3 * HOUR_MS);
    schedule.catch_up = "all";
    schedule.paused = 1;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 0);
    check_ok(t, tend_schedule_resume(t, "s", NULL));
    check_int(claim_many(t, "q", 100, NULL), ==, 3);
}

TEST(schedule, resuming_catches_up_as_after_a_time_without_anybody)
{
    static const struct {
        const char *catch_up;
        size_t runs;
    } cases[] = {{"none", 0}, {"one", 1}, {"all", 5}};
    tend *t = store_open("w");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(t, cases[i].catch_up, "@hourly", cases[i].catch_up);
        clock_advance(HOUR_MS + MINUTE_MS);
        check_ok(t, tend_schedule_pause(t, cases[i].catch_up, NULL)); /* one run is due */
        clock_advance(4 * HOUR_MS);
        check_int(run_all(t, NULL), ==, 0);
        check_ok(t, tend_schedule_resume(t, cases[i].catch_up, "op"));
        check_int(run_all(t, NULL), ==, cases[i].runs);
        check_int(next_of(t, cases[i].catch_up), >, clock_now());
        check_ok(t, tend_schedule_remove(t, cases[i].catch_up, NULL));
    }
    check_int(count_events("schedule.resumed"), ==, 3);
}

/* Symptom: a deploy that put its schedules again resumed those that somebody had paused. */
TEST(schedule, a_paused_schedule_stays_paused_when_it_is_put_again)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", "all");
    int64_t first_ms = next_of(t, "s");
    check_ok(t, tend_schedule_pause(t, "s", NULL));
    clock_advance(3 * HOUR_MS);
    put(t, "s", "@hourly", "all");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 0);
    check_int(next_of(t, "s"), ==, first_ms); /* what it missed is not lost */
    check_ok(t, tend_schedule_resume(t, "s", NULL));
    check_int(claim_many(t, "q", 100, NULL), ==, 3);
}

TEST(schedule, other_times_drop_what_a_paused_schedule_has_missed)
{
    tend *t = store_open("w");
    check_ok(t, put_zone(t, "0 * * * *", "Europe/Berlin"));
    check_ok(t, tend_schedule_pause(t, "s", NULL));
    clock_advance(3 * HOUR_MS);
    check_ok(t, put_zone(t, "0 * * * *", NULL)); /* another zone is other times, too */
    check_int(next_of(t, "s"), >, clock_now());
    clock_advance(3 * HOUR_MS);
    check_ok(t, put_zone(t, "@daily", NULL));
    check_int(next_of(t, "s"), >, clock_now());
    check_ok(t, tend_schedule_resume(t, "s", NULL));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
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
    check_contains(tend_errmsg(t), "never runs");
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

/* --- put again --- */

/* A run that was due when nobody was there was dropped by a deploy that put the same schedule. */
TEST(schedule, putting_again_keeps_a_run_that_is_due)
{
    tend *t = store_open("w");
    put(t, "s", "@hourly", NULL);
    int64_t first_ms = next_of(t, "s");
    clock_set(first_ms + MINUTE_MS);
    put(t, "s", "@hourly", NULL);
    check_int(jobs_in_store(), ==, 1);
    put(t, "s", "@hourly", NULL); /* and does not add it twice */
    check_int(next_of(t, "s"), ==, first_ms + HOUR_MS);
    struct tend_lease lease = claim_one(t, "q");
    check_int(job_of(t, lease.id)->nominal_at_ms, ==, first_ms);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
}

TEST(schedule, a_run_that_is_due_is_added_as_the_schedule_was_before)
{
    tend *t = store_open("w");
    struct tend_schedule schedule = schedule_in("@daily", "elsewhere");
    put(t, "s", "@hourly", "all");
    clock_advance(3 * HOUR_MS);
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    check_int(claim_many(t, "q", 100, NULL), ==, 3);
    check_int(claim_none(t, "elsewhere").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 3);
}

TEST(schedule, putting_again_far_behind_loses_none)
{
    tend *t = store_open("w");
    put(t, "s", "@every 1s", "all");
    clock_set(next_of(t, "s") + 2499 * SECOND_MS);
    put(t, "s", "@every 1s", "all");
    check_int(jobs_in_store(), ==, 2500);
}

/* --- the time a run is named for --- */

static const char *nominal_times(void)
{
    return sql_rows("SELECT nominal_at - %lld FROM job ORDER BY id", (long long)CLOCK_START_MS);
}

/* With catch-up "all" the jobs were all alike. */
TEST(schedule, every_run_knows_its_own_time)
{
    tend *t = store_open("w");
    put(t, "s", "15 * * * *", "all");
    int64_t first_ms = next_of(t, "s");
    clock_set(first_ms + 3 * HOUR_MS + 5);
    struct tend_lease leases[10];
    check_int(claim_many(t, "q", 10, leases), ==, 4);
    for (int i = 0; i < 4; i++)
        check_int(job_of(t, leases[i].id)->nominal_at_ms, ==, first_ms + i * HOUR_MS);
    check_str(events_of(t, leases[0].id), "job.added job.claimed");
    add_one(t, "p");
    struct tend_lease other = claim_one(t, "p");
    check_int(job_of(t, other.id)->nominal_at_ms, ==, TEND_UNSET);
}

TEST(schedule, one_run_for_many_has_the_time_of_the_newest)
{
    tend *t = store_open("w");
    put(t, "s", "15 22 * * *", "one");
    int64_t first_ms = next_of(t, "s");
    clock_set(first_ms + 10 * DAY_MS + HOUR_MS);
    check_int(claim_many(t, "q", 10, NULL), ==, 1);
    check_str(nominal_times(), keep_text("%lld\n", (long long)(100 * SECOND_MS + 10 * DAY_MS)));
    /* Also when there are too many to count: the newest, and not the time of the look. */
    put(t, "s", "0-9 3 * * *", "one");
    clock_set(first_ms + 2000 * DAY_MS);
    claim_many(t, "q", 10, NULL);
    int64_t newest_ms = sql_int("SELECT max(nominal_at) FROM job");
    check_int(newest_ms % DAY_MS, ==, 3 * HOUR_MS + 9 * MINUTE_MS);
    check_int(newest_ms, >, clock_now() - DAY_MS);
    check_int(newest_ms, <=, clock_now());
}

/* --- overlap --- */

TEST(schedule, overlap_queue_adds_a_run_whatever_the_earlier_one_does)
{
    tend *t = store_open("w");
    put_overlap(t, "@hourly", NULL, NULL);
    for (int i = 0; i < 3; i++) {
        clock_advance(HOUR_MS);
        check_int(claim_none(t, "elsewhere").code, ==, TEND_EEMPTY);
    }
    check_int(jobs_in_store(), ==, 3);
    check_int(claim_many(t, "q", 10, NULL), ==, 3);
}

TEST(schedule, overlap_skip_adds_no_run_while_an_earlier_one_is_unfinished_and_says_so)
{
    tend *t = store_open("w");
    put_overlap(t, "@hourly", NULL, "skip");
    int64_t first_ms = next_of(t, "s");
    clock_set(first_ms);
    struct tend_lease lease = claim_one(t, "q");
    clock_set(first_ms + HOUR_MS);
    check_ok(t, tend_heartbeat(t, &lease, 1, 3 * HOUR_MS, NULL));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 1);
    check_int(next_of(t, "s"), ==, first_ms + 2 * HOUR_MS); /* it has moved on */
    check_int(last_of(t, "s"), ==, first_ms);               /* what is skipped is no run */
    check_str(
        sql_rows("SELECT who, why FROM event WHERE what = 'schedule.skipped'"),
        keep_text("schedule:s|the run of 2023-11-15T00:00:00.000Z: job %lld of an earlier run "
                  "has not finished\n",
                  (long long)lease.id));
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    clock_set(first_ms + 2 * HOUR_MS);
    claim_one(t, "q");
    check_int(count_events("schedule.skipped"), ==, 1);
}

/* What waits or is held has not finished either. */
TEST(schedule, overlap_skip_counts_pending_and_held_jobs)
{
    tend *t = store_open("w");
    put_overlap(t, "@hourly", NULL, "skip");
    clock_advance(HOUR_MS);
    check_int(claim_none(t, "elsewhere").code, ==, TEND_EEMPTY);
    clock_advance(HOUR_MS);
    check_int(claim_none(t, "elsewhere").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 1);
    check_ok(t, tend_act(t, TEND_HOLD, sql_int("SELECT id FROM job"), NULL, NULL));
    clock_advance(HOUR_MS);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(jobs_in_store(), ==, 1);
    check_int(count_events("schedule.skipped"), ==, 2);
}

TEST(schedule, overlap_replace_cancels_what_is_unfinished_and_adds_the_run)
{
    tend *t = store_open("w");
    put_overlap(t, "@hourly", NULL, "replace");
    int64_t first_ms = next_of(t, "s");
    clock_set(first_ms);
    struct tend_lease lease = claim_one(t, "q");
    clock_set(first_ms + HOUR_MS);
    check_ok(t, tend_heartbeat(t, &lease, 1, 3 * HOUR_MS, NULL));
    struct tend_lease next = claim_one(t, "q");
    check_int(next.id, !=, lease.id);
    const struct tend_job *old = job_of(t, lease.id);
    check_int(old->state, ==, TEND_CANCELLED);
    check_str(old->changed_by, "schedule:s");
    check_str(old->changed_why, "replaced by the run of 2023-11-15T00:00:00.000Z");
    check_rc(t, tend_complete(t, &lease, 1, NULL, NULL), TEND_ELEASELOST);
    check_int(job_of(t, next.id)->nominal_at_ms, ==, first_ms + HOUR_MS);
    /* Jobs of others are none of its business. */
    int64_t other = add_one(t, "q");
    clock_set(first_ms + 2 * HOUR_MS);
    claim_none(t, "elsewhere");
    check_int(state_of(t, next.id), ==, TEND_CANCELLED);
    check_int(state_of(t, other), ==, TEND_PENDING);
}

TEST(schedule, with_skip_and_replace_catching_up_on_all_is_one)
{
    static const char *const overlaps[] = {"skip", "replace"};
    tend *t = store_open("w");
    for (int i = 0; i < 2; i++) {
        put_overlap(t, "@hourly", "all", overlaps[i]);
        clock_advance(5 * HOUR_MS);
        struct tend_lease lease = claim_one(t, "q");
        check_int(job_of(t, lease.id)->nominal_at_ms, ==, clock_now() / HOUR_MS * HOUR_MS);
        check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    }
    check_int(jobs_in_store(), ==, 2);
}

/* --- time zones --- */

/* 2024-03-31: the clocks of Berlin go from 02:00 to 03:00, at 01:00 UTC. */
TEST(schedule, a_schedule_goes_by_the_clocks_of_its_zone)
{
    tend *t = store_open("w");
    struct tend_schedules *schedules;
    clock_set(1711800000000); /* 2024-03-30T12:00:00Z */
    check_ok(t, put_zone(t, "30 2 * * *", "Europe/Berlin"));
    check_int(next_of(t, "s"), ==, 1711846800000); /* 2024-03-31T01:00:00Z, when the gap ends */
    check_ok(t, tend_schedule_list(t, &schedules));
    check_str(schedules->items[0].timezone, "Europe/Berlin");
    check_str(schedules->items[0].overlap, "queue");
    check_str(schedules->items[0].next_local, "2024-03-31T03:00:00+02:00");
    tend_schedules_free(schedules);
    clock_set(1711846800000);
    struct tend_lease lease = claim_one(t, "q");
    check_int(job_of(t, lease.id)->nominal_at_ms, ==, 1711846800000);
    check_int(next_of(t, "s"), ==, 1711931400000); /* 2024-04-01T00:30:00Z */
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
}

TEST(schedule, a_zone_that_is_none_is_refused)
{
    tend *t = store_open("w");
    check_rc(t, put_zone(t, "@daily", "Europe/Berln"), TEND_EINVAL);
    check_contains(tend_errmsg(t), "did you mean Europe/Berlin?");
    check_rc(t, put_zone(t, "@daily", "../../../etc/passwd"), TEND_EINVAL);
    check_rc(t, put_zone(t, "@daily", "zone.tab"), TEND_EINVAL);
    check_contains(tend_errmsg(t), "not a time zone file");
    check_rc(t, put_zone(t, "@daily", ""), TEND_EINVAL);
    check_rc(t, put_zone(t, "@every 1h", "Europe/Berlin"), TEND_EINVAL);
    check_contains(tend_errmsg(t), "cannot have a time zone");
    check_int(next_of(t, "s"), ==, -1);
}

TEST(schedule, an_unknown_overlap_is_refused)
{
    tend *t = store_open("w");
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@daily";
    schedule.overlap = "ignore";
    check_rc(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), "queue, skip or replace");
}

/* A container may have no tz database: the store keeps what it needs. */
TEST(schedule, a_machine_without_zones_fires_on_time_and_may_pause)
{
    tend *t = store_open("w");
    clock_set(1711800000000);
    check_ok(t, put_zone(t, "30 2 * * *", "Europe/Berlin"));
    setenv("TZDIR", test_path("none"), 1);
    clock_set(1711846800000);
    claim_one(t, "q");
    check_int(next_of(t, "s"), ==, 1711931400000);
    check_ok(t, put_zone(t, "30 3 * * *", "Europe/Berlin"));
    check_rc(t, put_zone(t, "30 3 * * *", "Europe/Paris"), TEND_EINVAL);
    check_contains(tend_errmsg(t), "install tzdata");
    check_ok(t, put_zone(t, "30 3 * * *", "UTC"));
    unsetenv("TZDIR");
}

/* Symptom: where the zone could not be read the schedule ran once more and then never again, and
 * nothing said so. */
TEST(schedule, a_zone_that_cannot_be_read_is_told_and_looked_for_again)
{
    tend *t = store_open("w");
    clock_set(1711800000000);
    check_ok(t, put_zone(t, "30 2 * * *", "Europe/Berlin"));
    int64_t due_ms = next_of(t, "s");
    sql_exec("UPDATE schedule SET zone = NULL");
    setenv("TZDIR", test_path("none"), 1);
    clock_set(due_ms);
    struct tend_lease lease = claim_one(t, "q"); /* when this one was due is known */
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    int64_t next_ms = next_of(t, "s");
    check_int(next_ms, >, due_ms);
    check_int(count_events("schedule.failed"), ==, 1);
    check_contains(sql_rows("SELECT who, why FROM event WHERE what = 'schedule.failed'"),
                   "install tzdata");
    clock_set(next_ms);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(count_events("schedule.failed"), ==, 2);
    check_int(next_of(t, "s"), >, next_ms);
    unsetenv("TZDIR");
    clock_set(next_of(t, "s"));
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(next_of(t, "s"), ==, 1711931400000);
    clock_set(1711931400000);
    claim_one(t, "q");
    check_int(count_events("schedule.failed"), ==, 2);
}

/* Symptom: the time of the second look was taken for a run of its own, or those that came while
 * the zone could not be read were lost. */
TEST(schedule, a_zone_that_can_be_read_again_is_caught_up_on)
{
    static const struct {
        const char *catch_up;
        size_t count;
        int64_t hours[2]; /* of the runs, after the last one that was known */
    } cases[] = {{"all", 2, {1, 2}}, {"one", 1, {2}}, {"none", 0, {0}}};
    tend *t = store_open("w");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tend_schedule schedule;
        tend_schedule_init(&schedule);
        schedule.name = cases[i].catch_up;
        schedule.cron = "30 * * * *"; /* on the hour in UTC */
        schedule.timezone = "Asia/Kolkata";
        schedule.queue = "q";
        schedule.catch_up = cases[i].catch_up;
        check_ok(t, tend_schedule_put(t, &schedule, NULL));
        int64_t due_ms = next_of(t, schedule.name);
        check_int(due_ms % HOUR_MS, ==, 0);
        sql_exec("UPDATE schedule SET zone = NULL");
        setenv("TZDIR", test_path("none"), 1);
        clock_set(due_ms);
        check_int(run_all(t, NULL), ==, 1); /* when this one was due is known */
        clock_set(next_of(t, schedule.name));
        check_int(run_all(t, NULL), ==, 0);
        unsetenv("TZDIR");
        clock_set(next_of(t, schedule.name));
        int64_t nominal[MANY];
        check_int(run_all(t, nominal), ==, cases[i].count);
        for (size_t run = 0; run < cases[i].count; run++)
            check_int(nominal[run], ==, due_ms + cases[i].hours[run] * HOUR_MS);
        check_int(next_of(t, schedule.name), ==, due_ms + 3 * HOUR_MS);
        check_ok(t, tend_schedule_remove(t, schedule.name, NULL));
    }
}

/* The tz database changes: what this machine has counts, and the store's copy follows. */
TEST(schedule, a_newer_database_counts_from_the_next_run_on)
{
    tend *t = store_open("w");
    clock_set(1711800000000);
    check_ok(t, put_zone(t, "30 2 * * *", "Asia/Kolkata"));
    const char *zone = sql_rows("SELECT zone FROM schedule");
    sql_exec("UPDATE schedule SET timezone = 'Europe/Berlin'"); /* as if Berlin had changed */
    clock_set(next_of(t, "s"));
    claim_one(t, "q");
    check(strcmp(sql_rows("SELECT zone FROM schedule"), zone) != 0);
    check_int(next_of(t, "s"), ==, 1711846800000);
}
