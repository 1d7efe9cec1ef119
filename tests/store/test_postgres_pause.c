/*
 * A row of a dead worker that another session keeps locked: its worker cannot be buried, and
 * nothing else waits for that. Schedules fire, leases that end are recovered, and the clock is
 * settled. Nor does anything wait for an ended lease whose row is locked.
 */
#include "clock_case.h"
#include "leap.h"
#include "support/session.h"

#include "queue/recover.h"

#include <string.h>

static void lock_row(PGconn *pg, int64_t id)
{
    session_run(
        pg, keep_text("BEGIN; SELECT 1 FROM job WHERE id = %lld FOR NO KEY UPDATE", (long long)id));
}

static void claim_and_wait(struct helper *parent, void *arg)
{
    (void)arg;
    helper_say(parent, claim_one(open_here("doomed"), "doomed").id);
    helper_hear(parent);
}

/* A dead worker with a job whose row is locked; t has found that out. */
static PGconn *lock_job_of_the_dead(tend *t)
{
    PGconn *pg = session_open();
    add_one(t, "doomed");
    struct helper worker = helper_start(claim_and_wait, NULL);
    lock_row(pg, helper_hear(&worker));
    helper_kill(&worker);
    wait_until((claim_none(t, "empty"), strstr(store_log(), "1 job of dead workers") != NULL),
               PATIENCE_MS);
    return pg;
}

static void put_schedule(tend *t, const char *name, const char *overlap)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.cron = "@hourly";
    schedule.name = schedule.queue = name;
    schedule.overlap = overlap;
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
}

/*
 * Symptom: after a schedule had failed once, none was fired any more by whoever waited, as long as
 * the job of the dead worker was locked, not even another one.
 */
TEST_WITHIN(postgres_pause, BY_8_a_dead_worker_that_cannot_be_buried_stops_no_schedule, 120)
{
    tend *t = open_here("w");
    PGconn *run = session_open();
    put_schedule(t, "replaces", "replace");
    put_schedule(t, "adds", "queue");
    live(HOUR_MS);
    lock_row(run, claim_one(t, "replaces").id);
    claim_one(t, "adds");
    PGconn *pg = lock_job_of_the_dead(t);
    live(HOUR_MS);
    wait_for_one(t, "adds");
    check_contains(store_log(), "adding jobs of schedules failed");
    live(HOUR_MS);
    wait_for_one(t, "adds");
    session_run(run, "ROLLBACK");
    wait_for_one(t, "replaces");
    PQfinish(run);
    PQfinish(pg);
}

/* Symptom: the clock was not settled, so claims left all leases that had ended alone. */
TEST(postgres_pause, BY_9_a_dead_worker_that_cannot_be_buried_keeps_no_clock_unsettled)
{
    struct held held = hold_all();
    PGconn *pg = lock_job_of_the_dead(held.other);
    set_clock_by(HOUR_MS);
    claim_none(held.other, "empty");
    check_int(left_of(held.t, held.by_time.id), ==, LEASE_MS);
    PQfinish(pg);
}

/* Symptom: recovery by the timer left all leases alone. */
TEST(postgres_pause, RC_1_a_dead_worker_that_cannot_be_buried_keeps_no_lease_that_has_ended)
{
    struct tend_recovery done;
    struct held held = hold_all();
    PGconn *pg = lock_job_of_the_dead(held.other);
    live(LEASE_MS);
    check_ok(held.t, tend_heartbeat(held.t, &held.registered, 1, LEASE_MS, NULL));
    recover_stale_quietly(held.other, -1, &done);
    check_int(state_of(held.t, held.by_time.id), ==, TEND_PENDING);
    check_int(state_of(held.t, held.registered.id), ==, TEND_RUNNING);
    PQfinish(pg);
}

/* Symptom: everything else that fell due came up to a second late. */
TEST(postgres_pause, RC_1_an_ended_lease_whose_row_is_locked_delays_no_other_job)
{
    tend *t = store_open("w");
    PGconn *pg = session_open();
    add_one(t, "q");
    lock_row(pg, claim_for_a_minute(t, TEND_CLAIM_BY_TIME).id);
    clock_advance(LEASE_MS);
    leap_over_waits(t);
    check_a_delayed_job_is_in_time(t, 2330);
    check_a_delayed_job_is_in_time(t, 70);
    check_int(leap.waits, <, 20);
    PQfinish(pg);
}

static PGconn *firing;
static int64_t let_go_at_ms;

static void let_go_when_it_is_time(void)
{
    if (let_go_at_ms != 0 && clock_now() >= let_go_at_ms) {
        session_run(firing, "ROLLBACK");
        let_go_at_ms = 0;
    }
}

/* Another session fires the schedule and does not end; alarms fail besides, or do not. */
static void check_a_schedule_that_another_fires(tend *t)
{
    enum { SECONDS = 60 };
    firing = session_open();
    put_schedule(t, "s", "queue");
    session_run(firing, "BEGIN; SELECT 1 FROM schedule FOR UPDATE");
    clock_advance(HOUR_MS);
    leap.on_wait = let_go_when_it_is_time;
    int64_t let_go_ms = let_go_at_ms = clock_now() + SECONDS * SECOND_MS;
    wait_for_one(t, "s");
    check_int(clock_now(), >=, let_go_ms);
    check_int(clock_now(), <, let_go_ms + 2 * SECOND_MS);
    check_int(leap.waits, <, 3 * SECONDS);
    PQfinish(firing);
}

TEST(postgres_pause, BY_8_a_schedule_that_another_session_fires_keeps_no_waiter_busy)
{
    tend *t = store_open("w");
    leap_over_waits(t);
    check_a_schedule_that_another_fires(t);
}

TEST(postgres_pause, BY_8_a_schedule_that_another_session_fires_keeps_no_waiter_busy_if_alarms_fail)
{
    tend *t = store_open("w");
    leap_over_waits(t);
    add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    clock_advance(LEASE_MS);
    check_a_schedule_that_another_fires(t);
    check_contains(store_log(), "recovery failed");
}
