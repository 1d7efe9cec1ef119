/*
 * Recovery that keeps failing, and everything that has nothing to do with it: each kind of recovery
 * pauses for itself (queue/recover.h).
 */
#include "support/store.h"

#include "base/clock.h"
#include "queue/handle.h"
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
