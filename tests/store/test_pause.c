/*
 * Recovery that keeps failing, and everything that has nothing to do with it: each kind of recovery
 * pauses for itself (queue/recover.h).
 */
#include "leap.h"

#include "base/clock.h"
#include "queue/wait.h"

#include <string.h>

static void put_schedule(tend *t, const char *name, const char *cron)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = schedule.queue = schedule.kind = name;
    schedule.cron = cron;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
}

/* From now on adding the jobs of a schedule fails. */
static void let_a_schedule_fail(tend *t)
{
    put_schedule(t, "bad", "@hourly");
    sql_forbid_jobs("NEW.kind = 'bad'");
    clock_advance(HOUR_MS);
    claim_none(t, "empty");
    check_contains(store_log(), "adding jobs of schedules failed");
}

static void hold_the_lock(struct helper *parent, void *arg)
{
    struct tend_lock_request request;
    (void)arg;
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.owner = "doomed";
    request.ttl_ms = DAY_MS;
    tend *t = store_open("doomed");
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    helper_say(parent, 1);
    helper_hear(parent);
}

/* Symptom: a schedule had just failed, so nobody looked for dead workers: the lock was "held". */
TEST(pause, RC_13_a_dead_worker_is_recovered_although_a_schedule_has_just_failed)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct helper holder = helper_start(hold_the_lock, NULL);
    helper_hear(&holder);
    let_a_schedule_fail(t);
    helper_kill(&holder);
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.owner = "next";
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    check_int(count_events("worker.died"), ==, 1);
}

/* Symptom: whoever waited watched nobody while a schedule failed, and noticed a death by the tick.
 */
TEST(pause, RC_13_workers_are_watched_although_a_schedule_has_just_failed)
{
    tend *t = store_open("w");
    struct wait_clock clock = wait_clock_start(-1);
    struct helper holder = helper_start(hold_the_lock, NULL);
    int news;
    helper_hear(&holder);
    let_a_schedule_fail(t);
    check_ok(t, wait_watch(t, &clock));
    helper_kill(&holder);
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    do
        news = db_wait(t->db, 0, 0, PATIENCE_MS, handle_err(t));
    while (news != DB_DEATH && clock_mono_ms() < until_ms);
    check_int(news, ==, DB_DEATH);
}

/* Symptom: while a schedule failed, delayed jobs came up to a second late. */
TEST(pause, a_delayed_job_is_in_time_beside_a_schedule_that_fails)
{
    tend *t = store_open("w");
    leap_over_waits(t);
    let_a_schedule_fail(t);
    check_a_delayed_job_is_in_time(t, 2330);
    check_a_delayed_job_is_in_time(t, 70);
}

/* Symptom: the runs of another schedule came up to a second late. */
TEST(pause, BY_8_a_schedule_is_in_time_beside_one_that_fails)
{
    enum { EVERY_MS = 3300, RUNS = 4 };
    tend *t = store_open("w");
    leap_over_waits(t);
    let_a_schedule_fail(t);
    put_schedule(t, "good", "@every 3300ms");
    for (int i = 0; i < RUNS; i++) {
        int64_t due_ms = (clock_now() / EVERY_MS + 1) * EVERY_MS;
        wait_for_one(t, "good");
        check_int(clock_now(), ==, due_ms);
    }
    check_int(sql_int("SELECT count(*) FROM job WHERE kind = 'good'"), ==, RUNS);
}

static int64_t allow_at_ms;

static void allow_when_it_is_time(void)
{
    if (allow_at_ms != 0 && clock_now() >= allow_at_ms) {
        sql_allow_jobs();
        allow_at_ms = 0;
    }
}

TEST(pause, BY_8_a_schedule_that_fails_is_tried_every_second_and_keeps_no_waiter_busy)
{
    enum { SECONDS = 60 };
    tend *t = store_open("w");
    leap_over_waits(t);
    let_a_schedule_fail(t);
    leap.on_wait = allow_when_it_is_time;
    int64_t allowed_ms = allow_at_ms = clock_now() + SECONDS * SECOND_MS;
    wait_for_one(t, "bad");
    check_int(clock_now(), >=, allowed_ms);
    check_int(clock_now(), <, allowed_ms + 2 * SECOND_MS);
    check_int(leap.waits, <, 3 * SECONDS);
    const char *told = strstr(store_log(), "adding jobs of schedules failed");
    check(strstr(told + 1, "adding jobs of schedules failed") == NULL);
    check_contains(told, "adding jobs of schedules works again");
}

/* Symptom: what stayed due was told once, and hid all that came after it. */
TEST(pause, BY_8_whoever_waits_for_news_is_told_of_what_is_due_beside_a_schedule_that_fails)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    leap_over_waits(t);
    let_a_schedule_fail(t);
    check_int(tend_wait(t, 0), ==, 1); /* the first has news always */
    spec.delay_ms = 2330;
    add_spec(t, &spec);
    int64_t now_ms = clock_now();
    check_int(tend_wait(t, HOUR_MS), ==, 1); /* the job that was added, or the schedule */
    /* A claim may try the schedule again. */
    while (clock_now() < now_ms + SECOND_MS)
        check_int(tend_wait(t, HOUR_MS), ==, 1);
    check_int(clock_now(), <=, now_ms + SECOND_MS + 1);
    /* Nobody does. */
    check_int(tend_wait(t, HOUR_MS), ==, 1);
    check_int(clock_now(), ==, now_ms + spec.delay_ms);
}

/* From now on taking back a job fails. */
static void let_alarms_fail(tend *t)
{
    struct tend_claim claim = claim_for("q");
    claim.flags = TEND_CLAIM_BY_TIME;
    claim.ttl_ms = SECOND_MS;
    add_one(t, "q");
    claim_with(t, &claim);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    clock_advance(SECOND_MS);
    claim_none(t, "empty");
    check_contains(store_log(), "recovery failed");
}

/* Symptom: no schedule was fired as long as an ended lease could not be taken back. */
TEST(pause, BY_8_a_schedule_is_in_time_although_alarms_fail)
{
    tend *t = store_open("w");
    leap_over_waits(t);
    let_alarms_fail(t);
    put_schedule(t, "good", "@every 1m");
    for (int i = 0; i < 2; i++) {
        int64_t due_ms = (clock_now() / MINUTE_MS + 1) * MINUTE_MS;
        wait_for_one(t, "good");
        check_int(clock_now(), ==, due_ms);
    }
    check_int(leap.waits, <, 3 * 2 * 60);
}

/* Symptom: while recovery failed, `tend work` looked for every single one of them, without a pause
 * in between: 2,600 looks in 5 s with 3,000 jobs. */
TEST(pause, many_times_that_are_past_are_told_at_once)
{
    enum { JOBS = 200, LOOKS = 60 };
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    for (int i = 0; i < JOBS; i++) {
        spec.delay_ms = SECOND_MS + i;
        add_spec(t, &spec);
    }
    sql_forbid_move(TEND_SCHEDULED, TEND_PENDING);
    leap_over_waits(t);
    clock_advance(HOUR_MS);
    int64_t begun_ms = clock_now();
    int looks = 0;
    for (; clock_now() - begun_ms < 10 * SECOND_MS && looks < LOOKS; looks++) {
        claim_none(t, "q");
        check_int(tend_wait(t, 5 * SECOND_MS), >=, 0);
    }
    check_int(looks, <, LOOKS / 2);
    check_int(looks, >=, 5); /* it is tried again every second */
}

/* Symptom: who was busy until the pause was over slept for all of its time, as if nothing had
 * failed. */
TEST(pause, what_can_be_tried_again_by_now_is_told_once)
{
    tend *t = store_open("w");
    leap_over_waits(t);
    let_a_schedule_fail(t);
    check_int(tend_wait(t, 1), ==, 1);   /* the first call has news */
    check_int(tend_wait(t, 100), ==, 1); /* the schedule is due */
    claim_none(t, "empty");
    clock_advance(1200);
    int64_t begun_ms = clock_now();
    check_int(tend_wait(t, 20 * SECOND_MS), ==, 1);
    check_int(clock_now() - begun_ms, <, 100);
    check_int(tend_wait(t, 20 * SECOND_MS), ==, 0);
    sql_allow_jobs();
    claim_one(t, "bad");
}
