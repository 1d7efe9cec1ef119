/*
 * BY-9 on PostgreSQL where a step of the server's clock meets something else: rows that others have
 * locked, machines that go by one name, and workers whose session was lost.
 */
#include "clock_case.h"
#include "support/session.h"

#include <string.h>

/* --- rows that others have locked while the clock is set --- */

static PGconn *lock_rows(const char *sql)
{
    PGconn *pg = session_open();
    session_run(pg, keep_text("BEGIN; %s FOR UPDATE", sql));
    return pg;
}

static tend *open_impatient(const char *name)
{
    struct tend_options options = store_options(name);
    options.clock_ms = server_ms;
    options.uptime_ms = boot_ms;
    options.busy_ms = 300;
    return store_open_with(&options);
}

/* Symptom: the move waited for one row that a stranger had locked, and nothing was recovered until
 * that one let go. */
TEST(postgres_step, BY_9_a_locked_row_keeps_no_other_lease_from_being_moved)
{
    struct held held = hold_all();
    tend *judge = open_impatient("judge");
    PGconn *pg =
        lock_rows(keep_text("SELECT 1 FROM job WHERE id = %lld", (long long)held.by_time.id));
    live(LEASE_MS / 2);
    set_clock_by(2 * HOUR_MS);
    struct tend_recovery recovery = recover_now(judge);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.entries_skipped, ==, 1);
    check_int(recovery.skipped_ids[0], ==, held.by_time.id);
    check_int(left_of(held.t, held.registered.id), ==, LEASE_MS / 2);
    check_int(left_of_door(held.t), ==, LEASE_MS / 2);
    check_int(count_events("clock.stepped"), ==, 1);
    /* What is over by then is recovered all the same. */
    live(LEASE_MS / 2);
    recovery = recover_now(judge);
    check_int(recovery.locks_cleaned, ==, 1);
    check_int(count_events("job.warned"), ==, 1);
    /* The one that was locked has not lost anything. */
    session_run(pg, "COMMIT");
    check_int(recover_now(judge).entries_reclaimed, ==, 0);
    check_int(left_of(held.t, held.by_time.id), ==, LEASE_MS);
    check_int(sql_int("SELECT count(*) FROM clock_left"), ==, 0);
    check_int(job_of(held.t, held.by_time.id)->crashes, ==, 0);
    live(LEASE_MS);
    check_int(recover_now(judge).entries_reclaimed, ==, 2);
    PQfinish(pg);
}

/* A claim comes first to the row that was left alone. */
TEST(postgres_step, BY_9_a_claim_takes_no_lease_that_was_left_alone_when_the_clock_was_set)
{
    struct held held = hold_all();
    tend *judge = open_impatient("judge");
    PGconn *pg = lock_rows("SELECT 1 FROM job");
    set_clock_by(2 * HOUR_MS);
    check_int(claim_none(judge, "q").code, ==, TEND_EEMPTY);
    recover_now(judge);
    check_int(sql_int("SELECT count(*) FROM clock_left"), ==, 2);
    session_run(pg, "COMMIT");
    check_int(claim_none(judge, "q").code, ==, TEND_EEMPTY);
    check_left(&held, LEASE_MS);
    struct tend_recovery recovery;
    check_ok(judge, tend_reclaim_stale(judge, 10 * SECOND_MS, &recovery));
    check_int(recovery.entries_reclaimed, ==, 0);
    PQfinish(pg);
}

/* What has ended before it could be moved is forgotten. */
TEST(postgres_step, a_lease_that_was_left_alone_and_has_ended_is_forgotten)
{
    struct held held = hold_all();
    tend *judge = open_impatient("judge");
    PGconn *pg = lock_rows("SELECT 1 FROM job");
    set_clock_by(2 * HOUR_MS);
    recover_now(judge);
    session_run(pg, "COMMIT");
    const struct tend_lease leases[] = {held.registered, held.by_time};
    check_ok(held.t, tend_complete(held.t, leases, 2, NULL, NULL));
    recover_now(judge);
    check_int(sql_int("SELECT count(*) FROM clock_left"), ==, 0);
    PQfinish(pg);
}

TEST(postgres_step, BY_9_a_lock_that_was_left_alone_when_the_clock_was_set_is_not_taken_over)
{
    struct held held = hold_all();
    tend *judge = open_impatient("judge");
    struct tend_lock lock;
    PGconn *pg = lock_rows("SELECT 1 FROM lock");
    set_clock_by(2 * HOUR_MS);
    recover_now(judge);
    check_int(left_of(held.t, held.registered.id), ==, LEASE_MS);
    check_int(tend_lock_get(judge, "door", &lock), ==, 1);
    check_int(lock.expired, ==, 0);
    session_run(pg, "COMMIT");
    check_rc(judge, lock_door(judge, TEND_CLAIM_BY_TIME), TEND_EBUSY);
    check_int(tend_lock_extend(held.t, "door", NULL, LEASE_MS), ==, 1);
    check_left(&held, LEASE_MS);
    PQfinish(pg);
}

/* Symptom: while a step of the clock could not be settled, a claim took the lock of a serial queue
 * from whoever held it, by the time that had not passed. */
TEST(postgres_step, LK_1_a_claim_takes_no_lock_by_a_clock_that_cannot_be_settled)
{
    tend *t = open_here("worker");
    tend *judge = open_impatient("judge");
    struct tend_lock_request request;
    struct tend_none none;
    recover_now(judge);
    set_queue(t, "q", "serial", "on");
    add_one(t, "q");
    tend_lock_request_init(&request);
    request.name = "queue:q";
    request.owner = "operator";
    request.ttl_ms = LEASE_MS;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    PGconn *pg = lock_rows("SELECT 1 FROM store"); /* nobody can note anything */
    set_clock_by(2 * HOUR_MS);
    none = claim_none(judge, "q");
    check_int(none.code, ==, TEND_EBUSY);
    check_str(none.by, "operator");
    session_run(pg, "COMMIT");
    check_int(claim_none(judge, "q").code, ==, TEND_EBUSY);
    check_int(tend_lock_extend(t, "queue:q", "operator", LEASE_MS), ==, 1);
    PQfinish(pg);
}

/* --- two machines that go by one name --- */

static int64_t copy_boot_ms(void *apart_ms, int with_sleep)
{
    (void)with_sleep;
    return now.boot_ms + *(int64_t *)apart_ms;
}

/* A process on a copy of this machine, whose time since boot is another. */
static tend *open_on_copy(int64_t *apart_ms)
{
    struct tend_options options = store_options("copy");
    options.clock_ms = server_ms;
    options.uptime_ms = copy_boot_ms;
    options.clock_arg = apart_ms;
    return store_open_with(&options);
}

/* Symptom: each moved all leases by the other's mark whenever it looked, and none ever ended. */
TEST(postgres_step, BY_9_two_machines_with_one_boot_id_do_not_move_leases_for_ever)
{
    static int64_t apart_ms = 4000 * SECOND_MS;
    tend *machines[] = {open_here("machine"), open_on_copy(&apart_ms)};
    int64_t id = add_one(machines[0], "q");
    claim_for_a_minute(machines[0], TEND_CLAIM_BY_TIME);
    for (int i = 0; i < 12; i++) {
        live(LEASE_MS / 6);
        recover_now(machines[i % 2]);
    }
    check_int(count_events("clock.stepped"), <=, 1);
    check_int(state_of(machines[0], id), ==, TEND_PENDING);
    /* A clock that is set is noticed all the same, by both. */
    for (int i = 0; i < 2; i++) {
        claim_for_a_minute(machines[0], TEND_CLAIM_BY_TIME);
        set_clock_by(2 * HOUR_MS);
        check_int(recover_now(machines[i]).entries_reclaimed, ==, 0);
        check_int(recover_now(machines[1 - i]).entries_reclaimed, ==, 0);
        live(2 * LEASE_MS);
        check_int(recover_now(machines[i]).entries_reclaimed, ==, 1);
    }
    check_int(count_events("clock.stepped"), <=, 5);
}

/* The same with commands, each of which knows nothing but the mark it finds. */
TEST(postgres_step, BY_9_commands_on_two_machines_with_one_boot_id_do_not_move_leases_for_ever)
{
    static int64_t apart_ms = 4000 * SECOND_MS;
    tend *t = open_here("worker");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    for (int i = 0; i < 12; i++) {
        tend *command = i % 2 == 0 ? open_here("machine") : open_on_copy(&apart_ms);
        live(LEASE_MS / 6);
        recover_now(command);
        store_close(command);
    }
    check_int(count_events("clock.stepped"), ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_contains(store_log(), "two machines with the same boot id use this store");
    /* A process that stays can tell by itself. */
    recover_now(t);
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    set_clock_by(2 * HOUR_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(left_of(t, id), ==, LEASE_MS);
    check_int(count_events("clock.stepped"), ==, 2);
}

/* A server whose clock was set wrong and right again is one clock. */
TEST(postgres_step, a_clock_that_is_set_forth_and_back_is_no_reason_for_doubt)
{
    struct held held = hold_all();
    for (int i = 0; i < 2; i++) {
        set_clock_by(i == 0 ? 2 * HOUR_MS : -2 * HOUR_MS);
        tend *command = open_here("command");
        recover_now(command);
        store_close(command);
        check_int(count_events("clock.stepped"), ==, i + 1);
    }
    check_left(&held, LEASE_MS);
    check_int(sql_int("SELECT count(*) FROM clock_mark WHERE doubtful = 1"), ==, 0);
}

/* --- rates --- */

/* Symptom: it handed out nothing for as long as the clock was set back. */
static void check_rate_goes_on(const char *strict)
{
    struct held held = hold_all();
    tend *t = held.other;
    set_queue(t, "r", "rate", "5/2s");
    set_queue(t, "r", "rate-strict", strict);
    add_number(t, "r", 12);
    check_int(claim_many(t, "r", 12, NULL), ==, 5);
    set_clock_by(-HOUR_MS);
    struct tend_none none = claim_none(t, "r");
    check_int(none.code, ==, TEND_ELIMITED);
    check_int(none.until_ms, <=, now.server_ms + 4 * SECOND_MS);
    live(4 * SECOND_MS);
    check_int(claim_many(t, "r", 12, NULL), ==, 5);
}

TEST(postgres_step, a_rate_goes_on_after_the_clock_was_set_back)
{
    check_rate_goes_on("off");
}

TEST(postgres_step, a_strict_rate_goes_on_after_the_clock_was_set_back)
{
    check_rate_goes_on("on");
}

/* --- workers whose session was lost --- */

/* A worker elsewhere, whose session was lost at this moment, with a lease. */
static void lose_session(struct tend_lease lease)
{
    sql_exec("INSERT INTO worker (id, name, host, boot_id, pid, pid_ns, start_ticks, session, "
             "since, registration, lost_at) VALUES (41, 'w', 'h', 'b', 1, 1, 1, 1, 1, 41, %lld)",
             (long long)now.server_ms);
    sql_exec("UPDATE job SET worker_id = 41 WHERE id = %lld", (long long)lease.id);
}

/* Symptom: the time by which the clock was set counted as grace, and a worker whose session was
 * about to come back was buried. */
static void check_grace_begins_anew(void (*jump)(void))
{
    struct held held = hold_all();
    lose_session(held.registered);
    live(SECOND_MS);
    jump();
    recover_now(held.other);
    check_int(sql_int("SELECT count(*) FROM worker WHERE id = 41"), ==, 1);
    check_int(sql_int("SELECT lost_at FROM worker WHERE id = 41"), ==, now.server_ms);
    check_int(count_events("worker.died"), ==, 0);
    /* Who stays away is buried. */
    live(LEASE_MS - 1);
    recover_now(held.other);
    check_int(count_events("worker.died"), ==, 1);
}

static void set_clock(void)
{
    set_clock_by(2 * HOUR_MS);
}

static void change_server(void)
{
    sql_exec("UPDATE store SET server_since = 1");
    live(2 * HOUR_MS);
}

TEST(postgres_step, RC_13_the_grace_of_a_lost_session_begins_anew_when_the_clock_was_set)
{
    check_grace_begins_anew(set_clock);
}

TEST(postgres_step, RC_13_the_grace_of_a_lost_session_begins_anew_with_another_server)
{
    check_grace_begins_anew(change_server);
}

/* Symptom: who had registered, or taken a lock, at a time that is still to come since the clock was
 * set back counted as a newcomer, or as alive, for that long; only its leases' time freed its jobs.
 */
TEST(postgres_step, RC_13_a_death_is_noticed_by_a_lost_session_after_the_clock_was_set_back)
{
    struct held held = hold_all();
    lose_session(held.registered);
    sql_exec("UPDATE worker SET lost_at = NULL, since = %lld WHERE id = 41",
             (long long)now.server_ms);
    sql_exec(
        "INSERT INTO lock (name, token, owner, worker_id, acquired_at, expires_at, held_for_ms) "
        "VALUES ('gate', 1, 'w', 41, %lld, %lld, %d)",
        (long long)now.server_ms, (long long)now.server_ms + HOUR_MS, (int)HOUR_MS);
    set_clock_by(-HOUR_MS);
    recover_now(held.other); /* the clock is seen to, the worker is marked as lost */
    recover_now(held.other);
    check_int(count_events("worker.died"), ==, 0);
    live(3 * SECOND_MS);
    recover_now(held.other);
    check_int(count_events("worker.died"), ==, 1);
    check_int(state_of(held.other, held.registered.id), ==, TEND_PENDING);
}

/* Symptom: a copy of a virtual machine, which does not see the process, buried a worker whose
 * session was there all the time. */
TEST(postgres_step, RC_13_a_worker_whose_session_is_there_is_alive_although_its_process_is_not_seen)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    sql_exec("UPDATE worker SET pid = 3999999");
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    check_int(count_events("worker.died"), ==, 0);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
}
