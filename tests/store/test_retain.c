/* Retention (BY-4): what is finished goes when its time is over, what is live never, and no id
 * comes back. */
#include "support/store.h"

#include "queue/handle.h"

#include <string.h>

#define EVENTS_KEPT_MS (30 * DAY_MS)

static int64_t purge(tend *t)
{
    struct tend_purged expected, gone;
    check_ok(t, tend_purge_count(t, &expected));
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, expected.jobs);
    check_int(gone.events, ==, expected.events);
    return gone.jobs;
}

static int64_t finish(tend *t, int state)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    if (state == TEND_DONE)
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    else if (state == TEND_FAILED)
        check_ok(t, tend_fail(t, lease, &failure, NULL));
    else
        check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    check_int(state_of(t, id), ==, state);
    return id;
}

static bool is_there(int64_t id)
{
    return sql_int("SELECT count(*) FROM job WHERE id = %lld", (long long)id) == 1;
}

TEST(retain, done_and_cancelled_jobs_go_after_seven_days_and_failed_ones_stay)
{
    tend *t = store_open("w");
    int64_t done = finish(t, TEND_DONE);
    int64_t cancelled = finish(t, TEND_CANCELLED);
    int64_t failed = finish(t, TEND_FAILED);
    clock_advance(7 * DAY_MS - 1);
    check_int(purge(t), ==, 0);
    clock_advance(1);
    check_int(purge(t), ==, 2);
    check(!is_there(done));
    check(!is_there(cancelled));
    check(is_there(failed));
    clock_advance(1000 * DAY_MS);
    check_int(purge(t), ==, 0);
    check(is_there(failed));
}

TEST(retain, the_queue_says_how_long)
{
    tend *t = store_open("w");
    set_queue(t, "q", "keep-done", "1h");
    set_queue(t, "q", "keep-failed", "2h");
    int64_t done = finish(t, TEND_DONE);
    int64_t failed = finish(t, TEND_FAILED);
    clock_advance(HOUR_MS);
    check_int(purge(t), ==, 1);
    check(!is_there(done));
    clock_advance(HOUR_MS);
    check_int(purge(t), ==, 1);
    check(!is_there(failed));
    set_queue(t, "q", "keep-done", "none");
    done = finish(t, TEND_DONE);
    clock_advance(5000 * DAY_MS);
    check_int(purge(t), ==, 0);
    check(is_there(done));
}

TEST(retain, nothing_that_lives_is_ever_deleted)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    set_queue(t, "q", "keep-done", "0s");
    set_queue(t, "q", "keep-failed", "0s");
    int64_t running = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    int64_t pending = add_one(t, "q");
    int64_t held = add_one(t, "q");
    check_ok(t, tend_act(t, TEND_HOLD, held, NULL, NULL));
    spec.delay_ms = 20000 * DAY_MS;
    int64_t scheduled = add_spec(t, &spec);
    clock_advance(10000 * DAY_MS);
    check_int(purge(t), ==, 0);
    check(is_there(running) && is_there(pending) && is_there(held) && is_there(scheduled));
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(purge(t), ==, 1);
}

TEST(retain, very_many_go_in_one_call)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    add_number(t, "q", 1700);
    add_number(t, "p", 600);
    tend_filter_init(&filter);
    check_ok(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, NULL));
    clock_advance(7 * DAY_MS);
    check_int(purge(t), ==, 2300);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 0);
}

/* Only some hundred events went per call, so that a busy store grew for ever. */
TEST(retain, all_events_older_than_thirty_days_go_in_one_call_but_the_newest)
{
    tend *t = store_open("w");
    add_number(t, "q", 1300);
    claim_many(t, "q", 1300, NULL);
    clock_advance(EVENTS_KEPT_MS - 1);
    int64_t kept = add_one(t, "p");
    clock_advance(1);
    purge(t);
    check_int(sql_int("SELECT count(*) FROM event"), ==, 1);
    check_str(events_of(t, kept), "job.added");
    clock_advance(EVENTS_KEPT_MS);
    purge(t);
    check_int(sql_int("SELECT count(*) FROM event"), ==, 1); /* ids go on from it */
    check_int(add_one(t, "q"), >, kept);
}

/* Events that were written while a clock was ahead are in front, and the others behind them stayed
 * as long as these. */
TEST(retain, old_events_behind_some_of_the_future_go_too)
{
    tend *t = store_open("w");
    int64_t last_ahead = add_one(t, "q");
    add_number(t, "q", 1300);
    last_ahead += 1200;
    sql_exec("DELETE FROM job"); /* which would be jobs without an event in the end */
    sql_exec("UPDATE event SET at = at + %lld WHERE id <= %lld", 400LL * DAY_MS,
             (long long)last_ahead);
    clock_advance(EVENTS_KEPT_MS);
    purge(t);
    check_int(sql_int("SELECT count(*) FROM event"), ==, 1202);
    check_int(sql_int("SELECT count(*) FROM event WHERE id <= %lld", (long long)last_ahead), ==,
              1201);
}

/* The timer has a tenth of a second at a time. It began with the first event each time, and never
 * got past more events of the future than it could read in that time. */
TEST_WITHIN(retain, the_timer_gets_past_however_many_events_of_the_future, 60)
{
    enum { AHEAD = 200000 };
    tend *t = store_open("w");
    const char *insert = "INSERT INTO event (id, at, who, what)";
    add_one(t, "q");
    if (store_is_postgres())
        sql_exec("%s SELECT nextval('event_id'), 0, 'x', 'x' FROM generate_series(1, %d)", insert,
                 AHEAD);
    else
        sql_exec("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
                 "%s SELECT (SELECT max(id) FROM event) + i, 0, 'x', 'x' FROM n",
                 AHEAD, insert);
    int64_t old = add_one(t, "q");
    clock_advance(EVENTS_KEPT_MS);
    add_one(t, "q"); /* the newest event stays */
    sql_exec("UPDATE event SET at = %lld WHERE what = 'x'", (long long)clock_now() + DAY_MS);
    sql_exec("DELETE FROM job"); /* which would be jobs without an event in the end */
    do
        t->purge_next_ms = 0; /* the timer is due, without its rest */
    while (tend_wait(t, 1) >= 0 &&
           sql_int("SELECT count(*) FROM event WHERE id = %lld", (long long)old) > 0);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'x'"), ==, AHEAD);
}

/* The jobs themselves live on, and their history begins where the events begin. */
TEST(retain, a_job_outlives_its_old_events)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    clock_advance(EVENTS_KEPT_MS);
    struct tend_lease lease = claim_one(t, "q");
    purge(t);
    check_str(events_of(t, id), "job.claimed");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_str(events_of(t, id), "job.claimed job.completed");
}

/* One entry stayed for every container in which something was tied to a pid. */
TEST(retain, workers_of_which_nothing_can_be_told_go_after_seven_days_unless_they_hold_something)
{
    tend *t = store_open("w");
    struct tend_purged gone;
    sql_exec(
        "INSERT INTO worker (id, name, host, boot_id, pid, pid_ns, start_ticks, session, since, "
        "registration) VALUES (71, 'old', 'h', 'b', 1, 1, 1, 0, 0, 71), "
        "(72, 'holds', 'h', 'b', 1, 1, 1, 0, 0, 72), (73, 'lock', 'h', 'b', 1, 1, 1, 1, 0, 73), "
        "(74, 'new', 'h', 'b', 1, 1, 1, 0, %lld, 74)",
        (long long)clock_now());
    sql_exec("INSERT INTO lock (name, token, owner, worker_id, acquired_at, expires_at) "
             "VALUES ('l', 1, 'o', 72, 0, %lld)",
             (long long)clock_now() + HOUR_MS);
    check_ok(t, tend_purge(t, &gone));
    check_str(sql_rows("SELECT name FROM worker ORDER BY id"), "holds\nlock\nnew\n");
}

TEST(retain, purging_an_empty_store_is_no_error)
{
    tend *t = store_open("w");
    check_int(purge(t), ==, 0);
    check_ok(t, tend_purge(t, NULL));
}

TEST(retain, a_worker_that_waits_sees_to_retention_by_itself)
{
    tend *t = store_open("w");
    int64_t done = finish(t, TEND_DONE);
    clock_advance(7 * DAY_MS);
    wait_until(tend_wait(t, 1) >= 0 && !is_there(done), PATIENCE_MS);
}

TEST(retain, counting_what_would_go_changes_nothing)
{
    tend *t = store_open("w");
    struct tend_purged would;
    finish(t, TEND_DONE);
    finish(t, TEND_FAILED);
    clock_advance(EVENTS_KEPT_MS);
    const char *before = store_snapshot();
    check_ok(t, tend_purge_count(t, &would));
    check_int(would.jobs, ==, 1);
    check_int(would.events, ==, sql_int("SELECT count(*) FROM event") - 1); /* the newest stays */
    check_str(store_snapshot(), before);
}

/* Retention was seen to only by a thread that slept: with news in every call nobody ever did. The
 * first call of a handle always has news. */
TEST(retain, a_worker_that_never_sleeps_sees_to_retention_too)
{
    tend *t = store_open("w");
    int64_t done = finish(t, TEND_DONE);
    clock_advance(7 * DAY_MS);
    check_int(tend_wait(t, PATIENCE_MS), ==, 1);
    check(!is_there(done));
}

/* Symptom: nobody could write, and the first tend_wait(t, 100), which has news, answered after
 * 30 s: it began with retention, which waited for busy_ms. */
TEST_WITHIN(retain, whoever_waits_is_not_kept_by_it, 120)
{
    enum { BUSY_MS = 50000, WELL_BELOW_MS = 25000 };
    tend *t = store_open_busy("w", BUSY_MS);
    int64_t done = finish(t, TEND_DONE);
    clock_advance(7 * DAY_MS);
    struct helper locker = sql_lock_start("job");
    long long begun_ms = test_clock_ms();
    check_rc(t, tend_wait(t, 100), 1);
    check_int(tend_wait(t, 100), >=, 0);
    check_int(test_clock_ms() - begun_ms, <, WELL_BELOW_MS);
    check(is_there(done));
    sql_lock_end(&locker);
    /* It is made up for soon, and was no failure. */
    wait_until(tend_wait(t, 1000) >= 0 && !is_there(done), PATIENCE_MS);
    check(strstr(store_log(), "retention failed") == NULL);
}
