/*
 * RC-3 and BY-9 on PostgreSQL: what readers say of leases and locks before somebody has moved them
 * along with a clock that was set, or after a restart of the server. Whoever only looks foretells
 * what the next writer does, and changes nothing.
 */
#include "clock_case.h"
#include "support/session.h"

#include <string.h>

static struct tend_explanation explain(tend *t, int64_t id)
{
    struct tend_explanation why;
    check_ok(t, tend_explain(t, id, &why));
    return why;
}

static void keep_recovery_text(void *arg, enum tend_verdict verdict, const char *what,
                               const char *text)
{
    (void)verdict;
    if (strcmp(what, "recovery") == 0)
        *(const char **)arg = keep_text("%s", text);
}

/* What those who look say of a lease and a lock that have so much time left. */
static void check_foretold(const struct held *held, int64_t left_ms, const char *left)
{
    tend *t = held->other;
    const char *before = store_snapshot();
    const char *doctor = "";
    check_nothing_announced(t, held->by_time.id);
    check_nothing_announced(t, held->registered.id);
    struct tend_explanation why = explain(t, held->by_time.id);
    check_str(why.reason, "leased");
    check_int(why.until_ms, ==, now.server_ms + left_ms);
    check_contains(why.text, keep_text("the lease ends in %s unless", left));
    check_int(tend_is_lock_stale(t, "door"), ==, 0);
    check_int(left_of_door(t), ==, left_ms);
    tend_doctor(t, keep_recovery_text, &doctor);
    check_str(doctor, "nothing is stale");
    check_str(store_snapshot(), before);
}

static void restart_server(void)
{
    sql_exec("UPDATE store SET server_since = 1");
}

/* Symptom: after a restart "1 job would be reclaimed, 1 lock would be cleaned"; then heal said,
 * rightly, that nothing was stale. */
TEST(postgres_owed, RC_3_after_a_restart_readers_call_nothing_expired_that_begins_anew)
{
    struct held held = hold_all();
    restart_server();
    live(10 * LEASE_MS);
    check_foretold(&held, LEASE_MS, "1m");
    struct tend_recovery recovery = recover_now(held.other);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.locks_cleaned, ==, 0);
    check_left(&held, LEASE_MS);
}

TEST(postgres_owed, RC_3_readers_call_nothing_expired_by_a_clock_that_was_set_forward)
{
    struct held held = hold_all();
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    check_foretold(&held, LEASE_MS / 2, "30s");
    recover_now(held.other);
    check_left(&held, LEASE_MS / 2);
}

/* The same by the server's own clock, which no parameter carries. */
TEST(postgres_owed, RC_3_readers_foretell_by_the_clock_of_the_server_too)
{
    tend *t = store_open_real("worker");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    check_ok(t, lock_door(t, TEND_CLAIM_BY_TIME));
    recover_now(t);
    restart_server();
    sql_exec("UPDATE job SET alarm_at = alarm_at - 600000");
    sql_exec("UPDATE lock SET expires_at = expires_at - 600000");
    check_nothing_announced(t, id);
    check_int(tend_is_lock_stale(t, "door"), ==, 0);
    check_int(left_of_door(t), >, 0);
    check_int(left_of_door(t), <=, LEASE_MS);
    check_int(count_events("server.changed"), ==, 0);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(count_events("server.changed"), ==, 1);
}

/* Silence is foretold as it is found: the same figures, of what a step has not excused. */
TEST(postgres_owed, RC_3_what_has_expired_is_announced_although_the_clock_was_set)
{
    struct held held = hold_all();
    struct tend_recovery announced;
    live(LEASE_MS);
    set_clock_by(2 * HOUR_MS);
    check_ok(held.other, tend_get_recovery_stats(held.other, &announced));
    check_int(announced.entries_reclaimed, ==, 1); /* the other is warned first */
    check_int(announced.locks_cleaned, ==, 1);
    check_int(announced.recovery_timestamp_ms, ==, now.server_ms - 2 * HOUR_MS);
    check_contains(explain(held.other, held.by_time.id).text, "whose lease has expired");
    check_int(tend_is_lock_stale(held.other, "door"), ==, 1);
    struct tend_recovery recovery = recover_now(held.other);
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.locks_cleaned, ==, 1);
}

/* A clock that was set back excuses nothing, and makes no lease longer than it is. */
TEST(postgres_owed, a_clock_that_was_set_back_owes_nothing)
{
    struct held held = hold_all();
    struct tend_recovery announced;
    live(LEASE_MS);
    check_int(tend_is_lock_stale(held.other, "door"), ==, 1);
    set_clock_by(-10 * SECOND_MS);
    check_int(tend_is_lock_stale(held.other, "door"), ==, 0);
    live(10 * SECOND_MS);
    check_ok(held.other, tend_get_recovery_stats(held.other, &announced));
    check_int(announced.locks_cleaned, ==, 1);
    check_int(announced.recovery_timestamp_ms, ==, now.server_ms);
}

/* What waits for a lease or a lock waits for its new end. */
TEST(postgres_owed, who_waits_is_told_the_end_that_the_next_writer_makes)
{
    tend *t = open_here("worker");
    recover_now(t);
    set_queue(t, "q", "serial", "on");
    set_queue(t, "few", "concurrency", "1");
    add_one(t, "q");
    int64_t behind = add_one(t, "q");
    add_one(t, "few");
    int64_t limited = add_one(t, "few");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    struct tend_claim claim = claim_for("few");
    claim.ttl_ms = LEASE_MS;
    claim.flags = TEND_CLAIM_BY_TIME;
    claim_with(t, &claim);
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    struct tend_explanation why = explain(t, behind);
    check_str(why.reason, "lock");
    check_contains(why.text, "holds the lock for another 30s");
    why = explain(t, limited);
    check_str(why.reason, "concurrency");
    check_int(why.until_ms, ==, now.server_ms + LEASE_MS / 2);
    check_contains(why.text, "the first lease ends in 30s");
    restart_server();
    check_contains(explain(t, behind).text, "holds the lock for another 1m");
    why = explain(t, limited);
    check_str(why.text, "Its queue runs 1 job, as many as it may at once.");
    check_int(why.until_ms, ==, TEND_UNSET);
}

/* Two machines that go by one name: whoever settles the clock moves nothing then. */
TEST(postgres_owed, a_mark_that_is_not_believed_owes_nothing)
{
    struct held held = hold_all();
    set_clock_by(-2 * HOUR_MS);
    recover_now(held.other);
    live(LEASE_MS);
    sql_exec("UPDATE clock_mark SET boottime_ms = boottime_ms + 7200000");
    tend *command = open_here("command");
    struct tend_recovery announced;
    check_ok(command, tend_get_recovery_stats(command, &announced));
    check_int(announced.locks_cleaned, ==, 1);
    check_int(announced.entries_reclaimed, ==, 1);
    struct tend_recovery recovery = recover_now(command);
    check_int(sql_int("SELECT count(*) FROM clock_mark WHERE doubtful = 1"), ==, 1);
    check_int(recovery.locks_cleaned, ==, 1);
    check_int(recovery.entries_reclaimed, ==, 1);
}

/* Symptom: what a move had left alone, because its row was locked, counted as stale until somebody
 * had given it its time. */
TEST(postgres_owed, RC_3_readers_do_not_announce_what_a_move_has_left_alone)
{
    struct held held = hold_all();
    PGconn *pg = session_open();
    session_run(pg, "BEGIN; SELECT 1 FROM job FOR UPDATE; SELECT 1 FROM lock FOR UPDATE");
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    recover_now(held.other);
    check_int(sql_int("SELECT count(*) FROM clock_left"), ==, 3);
    session_run(pg, "COMMIT");
    check_nothing_announced(held.other, held.by_time.id);
    check_contains(explain(held.other, held.by_time.id).text, "the lease ends in 1m unless");
    recover_now(held.other);
    check_left(&held, LEASE_MS);
    PQfinish(pg);
}
