/*
 * BY-9 on PostgreSQL, whose clock is the server's: it may be set, and while the server is away
 * nobody can renew a lease. A lease that has expired is no evidence against a worker that lives: it
 * is warned, and has a while to renew. To whoever looks for expired leases, a lease that was moved
 * back by ten minutes is the same as a server that nobody could reach for so long.
 *
 * A clock that is set is noticed by the time since boot of those who judge. For that the second
 * half of the tests has a server's clock and a time since boot of its own, which it moves apart.
 */
#include "clock_case.h"
#include "queue/handle.h"
#include "store/pg_db.h"

#include <pthread.h>
#include <string.h>

/* Time in which nobody could write. */
static void expire_all(void)
{
    sql_exec("UPDATE job SET alarm_at = alarm_at - 600000 WHERE state = 2");
    sql_exec("UPDATE lock SET expires_at = expires_at - 600000 WHERE expires_at IS NOT NULL");
}

TEST(postgres_clock, BY_9_an_expired_lease_is_not_taken_from_a_living_worker_at_once)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_for_a_minute(t, 0);
    for (int i = 1; i <= 4; i++) { /* a fourth one would make it poison */
        struct tend_explanation why;
        expire_all();
        check_int(recover_now(other).entries_reclaimed, ==, 0);
        check_int(claim_none(other, "q").code, ==, TEND_EEMPTY);
        check_int(count_events("job.warned"), ==, i);
        check_str(last_event_of(t, id)->what, "job.warned");
        check_int(left_of(t, id), >, 0);
        check_int(left_of(t, id), <=, 10 * SECOND_MS);
        check_ok(t, tend_explain(t, id, &why));
        check_str(why.reason, "warned");
        check_contains(why.text, "has been warned and has ");
        check_ok(t, tend_heartbeat(t, &lease, 1, MINUTE_MS, NULL));
        check_int(sql_int("SELECT count(*) FROM job WHERE warned = 1"), ==, 0);
        check_ok(t, tend_explain(t, id, &why));
        check_str(why.reason, "leased");
    }
    check_contains(store_log(), "may have been unable to renew it");
    check_int(job_of(t, id)->crashes, ==, 0);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

TEST(postgres_clock, BY_9_who_stays_silent_although_it_was_warned_loses_the_lease)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, 0);
    expire_all();
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    expire_all();
    check_int(recover_now(other).entries_reclaimed, ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->crashes, ==, 1);
    check_int(count_events("job.warned"), ==, 1);
    /* Its next lease begins without a warning. */
    claim_for_a_minute(t, 0);
    expire_all();
    check_int(recover_now(other).entries_reclaimed, ==, 0);
}

/* Half the lease, but a second at least and ten at most. */
TEST(postgres_clock, a_warning_lasts_half_the_lease)
{
    static const struct {
        int64_t lease_ms, most_ms;
    } cases[] = {{100, 1000}, {8000, 4000}, {60000, 10000}};
    tend *t = store_open_real("worker");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t id = add_one(t, "q");
        claim_for_a_minute(t, 0);
        sql_exec("UPDATE job SET lease_for_ms = %lld WHERE id = %lld", (long long)cases[i].lease_ms,
                 (long long)id);
        expire_all();
        recover_now(t);
        check_int(sql_int("SELECT alarm_at - (SELECT max(at) FROM event WHERE what = 'job.warned') "
                          "FROM job WHERE id = %lld",
                          (long long)id),
                  >=, cases[i].most_ms - 50);
        check_int(left_of(t, id), <=, cases[i].most_ms);
        sql_exec("UPDATE job SET alarm_at = alarm_at + 3600000 WHERE id = %lld", (long long)id);
    }
}

/* A lease judged by its time alone is over when it is over. */
TEST(postgres_clock, a_lease_by_time_is_not_warned)
{
    tend *t = store_open_real("worker");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    expire_all();
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(job_of(t, id)->crashes, ==, 1);
}

/* The lock of a serial queue stays with the job that is spared. */
TEST(postgres_clock, the_lock_of_a_warned_job_stays_with_it)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    set_queue(t, "q", "serial", "on");
    int64_t id = add_one(t, "q");
    add_one(t, "q");
    struct tend_lease lease = claim_for_a_minute(t, 0);
    check_int(lease.id, ==, id);
    expire_all();
    struct tend_recovery recovery = recover_now(other);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.locks_cleaned, ==, 0);
    check_int(claim_none(other, "q").code, ==, TEND_EBUSY);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(count_events("lock.recovered"), ==, 0);
    claim_one(other, "q");
}

/* A dry run counts what would be taken, which a warning does not. */
TEST(postgres_clock, a_dry_run_does_not_count_whom_it_would_warn)
{
    tend *t = store_open_real("worker");
    struct tend_recovery stats;
    add_one(t, "q");
    claim_for_a_minute(t, 0);
    expire_all();
    check_ok(t, tend_get_recovery_stats(t, &stats));
    check_int(stats.entries_reclaimed, ==, 0);
    recover_now(t);
    expire_all();
    check_ok(t, tend_get_recovery_stats(t, &stats));
    check_int(stats.entries_reclaimed, ==, 1);
}

static void claim_and_wait(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("doomed");
    claim_for_a_minute(t, 0);
    helper_say(parent, 0);
    helper_hear(parent);
}

/* Death is evidence: nobody is warned who is gone. */
TEST(postgres_clock, RC_13_a_dead_worker_is_not_warned)
{
    tend *t = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct helper doomed = helper_start(claim_and_wait, NULL);
    helper_hear(&doomed);
    helper_kill(&doomed);
    expire_all();
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(job_of(t, id)->crashes, ==, 1);
    check_int(count_events("job.warned"), ==, 0);
}

/* --- a clock that is set --- */

/* What was held by time alone was taken, with a crash, by a server whose clock was set forward. */
TEST(postgres_clock, BY_9_a_clock_that_is_set_forward_ends_no_lease_and_charges_nobody)
{
    struct held held = hold_all();
    for (int round = 1; round <= 3; round++) {
        live(LEASE_MS / 2);
        set_clock_by(2 * HOUR_MS);
        struct tend_recovery recovery = recover_now(held.other);
        check_int(recovery.entries_reclaimed, ==, 0);
        check_int(recovery.locks_cleaned, ==, 0);
        check_left(&held, LEASE_MS / 2);
        recover_now(held.t);
        check_left(&held, LEASE_MS / 2);
        check_int(count_events("clock.stepped"), ==, round);
        check_int(sql_int("SELECT clock_steps FROM store"), ==, round);
        const struct tend_lease leases[] = {held.registered, held.by_time};
        check_ok(held.t, tend_heartbeat(held.t, leases, 2, LEASE_MS, NULL));
        check_int(tend_lock_extend(held.t, "door", NULL, LEASE_MS), ==, 1);
    }
    check_str(sql_rows("SELECT DISTINCT data FROM event WHERE what = 'clock.stepped'"),
              "{\"by_ms\":7200000}\n");
    check_contains(store_log(), "the server's clock was set");
}

/* Symptom: who had used up its descriptors could not read which machine it is. It ignored the mark
 * of the machine, and took what was held by time alone. */
TEST(postgres_clock, BY_9_without_descriptors_a_clock_that_is_set_forward_ends_no_lease)
{
    struct held held = hold_all();
    struct tend_recovery recovery;
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    struct rlimit limit = leave_descriptors(0);
    int rc = tend_detect_and_recover_stale(held.other, &recovery);
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    check_ok(held.other, rc);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.locks_cleaned, ==, 0);
    check_left(&held, LEASE_MS / 2);
    check_int(count_events("clock.stepped"), ==, 1);
}

/* Where /proc cannot be read. */
TEST(postgres_clock, BY_9_who_cannot_name_its_machine_goes_by_what_it_has_seen_itself)
{
    struct held held = hold_all();
    ((struct pg_db *)held.other->db)->boot[0] = '\0';
    for (int round = 1; round <= 3; round++) {
        live(LEASE_MS / 2);
        recover_now(held.other);
        set_clock_by(2 * HOUR_MS);
        struct tend_recovery recovery = recover_now(held.other);
        check_int(recovery.entries_reclaimed, ==, 0);
        check_int(recovery.locks_cleaned, ==, 0);
        check_left(&held, LEASE_MS / 2);
        recover_now(held.other);
        check_int(count_events("clock.stepped"), ==, round);
        const struct tend_lease leases[] = {held.registered, held.by_time};
        check_ok(held.t, tend_heartbeat(held.t, leases, 2, LEASE_MS, NULL));
        check_int(tend_lock_extend(held.t, "door", NULL, LEASE_MS), ==, 1);
    }
    check_int(sql_int("SELECT count(*) FROM clock_mark WHERE boot = ''"), ==, 0);
}

/* Silence while the clock ran evenly is evidence, however often it was set. */
TEST(postgres_clock, BY_9_who_is_silent_for_the_time_of_its_lease_loses_it_all_the_same)
{
    struct held held = hold_all();
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    recover_now(held.other);
    live(LEASE_MS / 2 - 1);
    check_int(recover_now(held.other).entries_reclaimed, ==, 0);
    live(1);
    struct tend_recovery recovery = recover_now(held.other);
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.locks_cleaned, ==, 1);
    check_int(job_of(held.t, held.by_time.id)->crashes, ==, 1);
    check_int(count_events("job.warned"), ==, 1);
    check_int(count_events("clock.stepped"), ==, 1);
}

/* A machine that has never looked cannot tell, and does not keep what is over alive. */
TEST(postgres_clock, a_machine_without_a_mark_makes_one_and_takes_what_is_over)
{
    tend *t = open_here("worker");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    live(LEASE_MS);
    check_int(sql_int("SELECT count(*) FROM clock_mark"), ==, 0);
    check_int(claim_one(t, "q").id, ==, id);
    check_int(job_of(t, id)->crashes, ==, 1);
    check_int(sql_int("SELECT count(*) FROM clock_mark"), ==, 1);
    check_int(count_events("clock.stepped"), ==, 0);
}

/* A worker that has only just begun to wait would have had a minute in which it could not tell. */
TEST(postgres_clock, BY_9_whoever_waits_can_tell_from_the_beginning)
{
    tend *t = open_here("worker");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    tend_wait(t, 0);
    set_clock_by(2 * HOUR_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(left_of(t, id), ==, LEASE_MS);
}

/* Without a timer for recovery it could not tell. */
TEST(postgres_clock, BY_9_whoever_waits_without_a_recovery_timer_can_tell_from_the_beginning)
{
    struct tend_options options = store_options("worker");
    options.clock_ms = server_ms;
    options.uptime_ms = boot_ms;
    options.recovery_ms = 0;
    tend *t = store_open_with(&options);
    add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    tend_wait(t, 0);
    check_int(sql_int("SELECT count(*) FROM clock_mark"), ==, 1);
    set_clock_by(2 * HOUR_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
}

TEST(postgres_clock, BY_9_a_claim_takes_nothing_by_a_clock_that_was_set)
{
    struct held held = hold_all();
    set_clock_by(2 * HOUR_MS);
    check_int(claim_none(held.other, "q").code, ==, TEND_EEMPTY);
    check_left(&held, LEASE_MS);
    /* Nor while it finds work all the time, by the fast way. */
    add_number(held.t, "q", 2);
    set_clock_by(HOUR_MS);
    claim_one(held.other, "q");
    claim_one(held.t, "q");
    recover_now(held.other);
    check_left(&held, LEASE_MS);
    check_int(count_events("clock.stepped"), ==, 2);
}

TEST(postgres_clock, BY_9_a_lock_is_not_taken_over_by_a_clock_that_was_set)
{
    struct held held = hold_all();
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    check_rc(held.other, lock_door(held.other, TEND_CLAIM_BY_TIME), TEND_EBUSY);
    check_left(&held, LEASE_MS / 2);
    check_int(count_events("clock.stepped"), ==, 1);
    live(LEASE_MS / 2);
    check_ok(held.other, lock_door(held.other, TEND_CLAIM_BY_TIME));
}

/* Its holder was told that it had lost it, though nobody had taken it. */
TEST(postgres_clock, the_holder_of_a_lock_extends_it_after_the_clock_was_set)
{
    struct held held = hold_all();
    set_clock_by(2 * HOUR_MS);
    check_int(tend_lock_extend(held.t, "door", NULL, 2 * LEASE_MS), ==, 1);
    check_int(left_of_door(held.t), ==, 2 * LEASE_MS);
    /* A lock that is over stays so. */
    live(2 * LEASE_MS);
    check_int(tend_lock_extend(held.t, "door", NULL, LEASE_MS), ==, 0);
}

TEST(postgres_clock, a_threshold_by_hand_does_not_count_a_step_as_silence)
{
    struct held held = hold_all();
    struct tend_recovery recovery;
    live(SECOND_MS);
    set_clock_by(2 * HOUR_MS);
    check_ok(held.other, tend_reclaim_stale(held.other, 10 * SECOND_MS, &recovery));
    check_int(recovery.entries_reclaimed, ==, 0);
    check_left(&held, LEASE_MS - SECOND_MS);
    live(10 * SECOND_MS);
    check_ok(held.other, tend_reclaim_stale(held.other, 10 * SECOND_MS, &recovery));
    check_int(recovery.entries_reclaimed, ==, 2);
}

static void *recover_in_thread(void *t)
{
    recover_now(t);
    return NULL;
}

TEST(postgres_clock, BY_9_of_many_who_notice_a_step_one_moves_the_leases)
{
    enum { THREADS = 6, ROUNDS = 5 };
    struct held held = hold_all();
    pthread_t threads[THREADS];
    tend *handles[THREADS];
    for (int i = 0; i < THREADS; i++)
        handles[i] = open_here("many");
    live(LEASE_MS / 4);
    for (int round = 1; round <= ROUNDS; round++) {
        set_clock_by(LEASE_MS / 2); /* less than is left: a second move would show */
        for (int i = 0; i < THREADS; i++)
            check_int(pthread_create(&threads[i], NULL, recover_in_thread, handles[i]), ==, 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        check_int(count_events("clock.stepped"), ==, round);
        check_left(&held, LEASE_MS * 3 / 4);
    }
}

/* A mark that another makes between the step and its discovery must not undo the discovery. */
TEST(postgres_clock, marks_from_before_a_step_do_not_count_after_it)
{
    struct held held = hold_all();
    sql_exec("INSERT INTO clock_mark SELECT 'another', boottime_ms, store_ms, clock_steps "
             "FROM clock_mark");
    set_clock_by(2 * HOUR_MS);
    recover_now(held.other);
    check_int(sql_int("SELECT count(*) FROM clock_mark"), ==, 1);
    check_int(sql_int("SELECT clock_steps FROM clock_mark"), ==, 1);
    sql_exec("UPDATE clock_mark SET clock_steps = 0, store_ms = store_ms - 7200000");
    recover_now(held.other);
    check_int(count_events("clock.stepped"), ==, 1);
    check_left(&held, LEASE_MS);
}

TEST(postgres_clock, a_clock_that_is_set_back_makes_no_lease_longer_than_it_is)
{
    struct held held = hold_all();
    live(LEASE_MS / 2);
    set_clock_by(-HOUR_MS);
    recover_now(held.other);
    check_left(&held, LEASE_MS);
    check_str(sql_rows("SELECT data FROM event WHERE what = 'clock.stepped'"),
              "{\"by_ms\":-3600000}\n");
    live(LEASE_MS);
    check_int(recover_now(held.other).entries_reclaimed, ==, 1);
}

/* What was given by the new clock already is not moved as far as the rest. */
TEST(postgres_clock, a_lease_that_began_after_the_step_keeps_its_length)
{
    struct held held = hold_all();
    int64_t id = add_one(held.t, "later");
    set_clock_by(2 * HOUR_MS);
    struct tend_claim claim = claim_for("later");
    claim.ttl_ms = LEASE_MS;
    sql_exec("UPDATE job SET alarm_at = alarm_at + 7200000 WHERE state = 2"); /* nobody looks */
    sql_exec("UPDATE lock SET expires_at = expires_at + 7200000 WHERE expires_at IS NOT NULL");
    claim_with(held.t, &claim);
    check_int(count_events("clock.stepped"), ==, 0);
    recover_now(held.other);
    check_int(count_events("clock.stepped"), ==, 1);
    check_int(left_of(held.t, id), ==, LEASE_MS);
    check_left(&held, LEASE_MS);
}

/* 2 ms a second: 60 minutes make 7 s, of which no minute has enough for a step. */
TEST(postgres_clock, clocks_that_drift_apart_slowly_are_no_step)
{
    tend *t = open_here("worker");
    for (int minute = 0; minute < 60; minute++) {
        live(MINUTE_MS);
        set_clock_by(120);
        recover_now(t);
    }
    check_int(count_events("clock.stepped"), ==, 0);
}

static void keep_clock_text(void *arg, enum tend_verdict verdict, const char *what,
                            const char *text)
{
    (void)verdict;
    if (strcmp(what, "clock") == 0)
        *(const char **)arg = keep_text("%s", text);
}

TEST(postgres_clock, doctor_tells_how_often_leases_were_moved)
{
    struct held held = hold_all();
    const char *text = "";
    check_int(tend_doctor(held.t, keep_clock_text, &text), >=, 0);
    check(strstr(text, "moved") == NULL);
    set_clock_by(2 * HOUR_MS);
    recover_now(held.other);
    check_int(tend_doctor(held.t, keep_clock_text, &text), >=, 0);
    check_contains(text, "leases were moved 1 time:");
}

/* --- a server that was away --- */

/*
 * Leases by time that ended while no server was there were taken when the one that came then had
 * been started long before: a standby.
 */
TEST(postgres_clock, BY_9_after_another_server_has_taken_over_all_have_their_full_time_once)
{
    struct held held = hold_all();
    sql_exec("UPDATE store SET server_since = 1");
    live(10 * LEASE_MS);
    check_int(claim_none(held.other, "q").code, ==, TEND_EEMPTY);
    check_left(&held, LEASE_MS);
    recover_now(held.t);
    check_int(count_events("server.changed"), ==, 1);
    check_int(count_events("clock.stepped"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM store WHERE server_since = 1"), ==, 0);
    live(LEASE_MS);
    struct tend_recovery recovery = recover_now(held.other);
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.locks_cleaned, ==, 1);
}

/* The clock of the new server may be behind. */
TEST(postgres_clock, another_server_with_another_clock_gives_no_more_than_the_full_time)
{
    struct held held = hold_all();
    sql_exec("UPDATE store SET server_since = 1");
    set_clock_by(-HOUR_MS);
    recover_now(held.other);
    check_left(&held, LEASE_MS);
}

/* A job that is held under a serial queue's lock keeps it through all this. */
TEST(postgres_clock, the_lock_of_a_job_is_moved_along_with_it_once)
{
    tend *t = open_here("worker");
    tend *other = open_here("other");
    recover_now(other);
    set_queue(t, "q", "serial", "on");
    add_number(t, "q", 2);
    int64_t id = claim_for_a_minute(t, TEND_CLAIM_BY_TIME).id;
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    check_int(claim_none(other, "q").code, ==, TEND_EBUSY);
    check_int(left_of(t, id), ==, LEASE_MS / 2);
    check_int(sql_int("SELECT count(*) FROM lock l JOIN job j ON j.id = l.job_id "
                      "WHERE l.expires_at = j.alarm_at"),
              ==, 1);
    live(LEASE_MS / 2);
    check_int(claim_one(other, "q").id, ==, id);
}
