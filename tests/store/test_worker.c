/*
 * Workers and the end of processes: RC-13 (a dead worker is noticed at once, by kernel evidence),
 * LS-6 (nothing stays leased by one that has left), and what is held by time alone or tied to
 * another process.
 */
#include "support/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_LEASE_MS (10 * MINUTE_MS)

static struct tend_lease claim_long(tend *t, unsigned flags)
{
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = LONG_LEASE_MS;
    claim.flags = flags;
    return claim_with(t, &claim);
}

static struct tend_lock_request lock_request(const char *name)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = name;
    request.ttl_ms = LONG_LEASE_MS;
    return request;
}

/* --- bodies of processes that are killed --- */

static void hold_a_job(struct helper *parent, void *arg)
{
    tend *t = store_open_real("doomed");
    helper_say(parent, claim_long(t, arg == NULL ? 0 : *(unsigned *)arg).token);
    helper_hear(parent);
}

static void give_a_job_back(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("doomed");
    struct tend_lease lease = claim_long(t, 0);
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    helper_say(parent, lease.token);
    helper_hear(parent);
}

static void hold_a_lock(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("doomed");
    struct tend_lock_request request = lock_request("l");
    struct tend_lock lock;
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    helper_say(parent, lock.token);
    helper_hear(parent);
}

static void do_nothing(struct helper *parent, void *arg)
{
    (void)arg;
    helper_hear(parent);
}

/* Claims in a process of its own and says when it got something. */
static void wait_for_a_job(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("heir");
    struct tend_claim claim = claim_for("q");
    helper_say(parent, 0);
    claim.wait_ms = PATIENCE_MS;
    struct tend_lease lease = claim_with(t, &claim);
    helper_say(parent, test_clock_ms());
    helper_say(parent, lease.id);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

/* --- RC-13 --- */

TEST(worker, RC_13_a_waiting_process_gets_the_job_of_a_killed_one_long_before_its_lease_ends)
{
    tend *t = store_open_real("adder");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    helper_hear(&worker);
    struct helper heir = helper_start(wait_for_a_job, NULL);
    helper_hear(&heir);
    long long killed_ms = test_clock_ms();
    helper_kill(&worker);
    int64_t got_ms = helper_hear(&heir);
    check_int(helper_hear(&heir), ==, id);
    printf("# taken over %lld ms after the kill\n", (long long)got_ms - killed_ms);
    helper_join(&heir);
    check_int(job_of(t, id)->crashes, ==, 1);
    check_str(events_of(t, id), "job.added job.claimed job.recovered job.claimed job.completed");
    check_int(count_events("worker.died"), >=, 1);
}

TEST(worker, RC_13_a_claimer_waiting_in_this_process_gets_it_too)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    int64_t token = helper_hear(&worker);
    kill(worker.pid, SIGKILL); /* not reaped: a zombie is dead */
    claim.wait_ms = PATIENCE_MS;
    struct tend_lease lease = claim_with(t, &claim);
    check_int(lease.id, ==, id);
    check_int(lease.token, >, token);
    waitpid(worker.pid, NULL, 0);
}

TEST(worker, RC_13_a_process_that_ends_without_closing_is_as_dead)
{
    tend *t = store_open_real("w");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    helper_hear(&worker);
    helper_say(&worker, 0);
    helper_join(&worker);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->crashes, ==, 1);
}

/* RC-1: at the start of a worker. */
TEST(worker, RC_13_the_first_claim_of_a_new_worker_finds_the_dead)
{
    tend *t = store_open_real("adder");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    helper_hear(&worker);
    helper_kill(&worker);
    tend *fresh = store_open_real("fresh");
    check_int(claim_one(fresh, "q").id, ==, id);
}

/* LS-1 */
TEST(worker, a_job_that_was_not_started_is_charged_nothing_when_its_worker_is_killed)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    unsigned flags = TEND_CLAIM_UNSTARTED;
    spec.max_crashes = 1;
    int64_t id = add_spec(t, &spec);
    struct helper worker = helper_start(hold_a_job, &flags);
    helper_hear(&worker);
    helper_kill(&worker);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->crashes, ==, 0);
    check_int(job->attempts, ==, 0);
    check_contains(last_event_of(t, id)->why, "not started");
}

/* RC-12 */
TEST(worker, a_job_that_kills_its_workers_is_quarantined)
{
    tend *t = store_open_real("w");
    int64_t id = add_one(t, "q");
    for (int i = 0; i < 3; i++) {
        struct helper worker = helper_start(hold_a_job, NULL);
        helper_hear(&worker);
        helper_kill(&worker);
        check_int(recover_now(t).entries_reclaimed, ==, 1);
    }
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(job_of(t, id)->error_class, "poison");
}

TEST(worker, RC_13_a_lock_of_a_killed_process_goes_to_the_one_who_waits)
{
    tend *t = store_open_real("w");
    struct helper holder = helper_start(hold_a_lock, NULL);
    struct tend_lock_request request = lock_request("l");
    struct tend_lock lock;
    int64_t token = helper_hear(&holder);
    check_rc(t, tend_lock_acquire(t, &request, &lock), TEND_EBUSY);
    check_str(lock.owner, "doomed");
    helper_kill(&holder);
    request.wait_ms = PATIENCE_MS;
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    check_int(lock.token, >, token);
    check_str(lock.owner, "w");
}

TEST(worker, RC_13_a_lock_of_a_killed_process_can_be_had_without_waiting)
{
    tend *t = store_open_real("w");
    struct helper holder = helper_start(hold_a_lock, NULL);
    struct tend_lock_request request = lock_request("l");
    helper_hear(&holder);
    helper_kill(&holder);
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    check_int(count_events("lock.recovered"), ==, 1);
}

TEST(worker, RC_6_two_who_find_the_same_dead_worker_recover_it_once)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    helper_hear(&worker);
    helper_kill(&worker);
    int64_t total = recover_now(t).entries_reclaimed + recover_now(other).entries_reclaimed;
    check_int(total, ==, 1);
    check_int(count_events("worker.died"), ==, 1);
    check_int(count_events("job.recovered"), ==, 1);
}

/* RC-7 */
TEST(worker, the_death_of_a_worker_is_told_by_event_and_log)
{
    tend *t = store_open_real("healer");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    helper_hear(&worker);
    helper_kill(&worker);
    recover_now(t);
    check_contains(last_event_of(t, id)->why, "doomed");
    check_contains(last_event_of(t, id)->why, keep_text("pid %d", (int)worker.pid));
    check_contains(sql_rows("SELECT who, why FROM event WHERE what = 'worker.died'"), "healer|");
    check_contains(store_log(), "has died");
}

/* The normal end of a script's registered worker was told as a death. */
TEST(worker, the_end_of_a_worker_that_held_nothing_is_told_as_such)
{
    tend *t = store_open_real("healer");
    add_one(t, "q");
    struct helper worker = helper_start(give_a_job_back, NULL);
    helper_hear(&worker);
    helper_kill(&worker);
    recover_now(t);
    check_contains(sql_rows("SELECT why FROM event WHERE what = 'worker.died'"),
                   keep_text("process %d on", (int)worker.pid));
    check_contains(store_log(), "has ended; it held nothing");
}

/* --- by time alone --- */

TEST(worker, a_lease_held_by_time_is_not_touched_when_its_process_ends)
{
    tend *t = store_open_real("w");
    unsigned flags = TEND_CLAIM_BY_TIME;
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, &flags);
    int64_t token = helper_hear(&worker);
    helper_kill(&worker);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(job_of(t, id)->worker_id, ==, TEND_UNSET);
    /* Another process can go on with it: the lease is the token. */
    struct tend_lease lease = {.id = id, .token = token};
    check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

TEST(worker, a_lease_held_by_time_is_not_released_by_closing)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct tend_lock_request request = lock_request("l");
    claim_long(t, TEND_CLAIM_BY_TIME);
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    store_close(t);
    t = store_open("v");
    check_int(state_of(t, id), ==, TEND_RUNNING);
    check_int(tend_lock_get(t, "l", NULL), ==, 1);
    clock_advance(LONG_LEASE_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
}

static void hold_by_fake_time(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open("stopped");
    helper_say(parent, claim_long(t, 0).token);
    helper_hear(parent);
}

/* RC-10: a process that is stopped is not dead; its time decides. */
TEST(worker, a_stopped_worker_keeps_its_lease_until_that_expires)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_by_fake_time, NULL);
    helper_hear(&worker);
    int status;
    kill(worker.pid, SIGSTOP);
    check_int(waitpid(worker.pid, &status, WUNTRACED), ==, worker.pid);
    check(WIFSTOPPED(status));
    clock_advance(LONG_LEASE_MS - 1);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    clock_advance(1);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    helper_kill(&worker);
}

/* --- tied to another process --- */

static void claim_for_pid(struct helper *parent, void *arg)
{
    const pid_t *pid = arg;
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = LONG_LEASE_MS;
    claim.while_pid = *pid;
    tend *t = store_open_real("command");
    helper_say(parent, claim_with(t, &claim).token);
    store_close(t);
}

TEST(worker, a_lease_tied_to_a_process_outlives_the_command_that_took_it_and_ends_with_the_process)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    int64_t id = add_one(t, "q");
    struct helper script = helper_start(do_nothing, NULL);
    struct helper command = helper_start(claim_for_pid, &script.pid);
    int64_t token = helper_hear(&command);
    helper_join(&command);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    struct tend_lease lease = {.id = id, .token = token};
    check_ok(t, tend_heartbeat(t, &lease, 1, LONG_LEASE_MS, NULL));
    kill(script.pid, SIGKILL);
    claim.wait_ms = PATIENCE_MS;
    check_int(claim_with(t, &claim).id, ==, id);
    helper_kill(&script);
}

/* A process that the lock "l" is tied to. */
static struct helper lock_for_script(tend *t)
{
    struct tend_lock_request request = lock_request("l");
    struct helper script = helper_start(do_nothing, NULL);
    request.owner = "script";
    request.while_pid = script.pid;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    return script;
}

TEST(worker, a_lock_tied_to_a_process_ends_with_it)
{
    tend *t = store_open_real("w");
    struct helper script = lock_for_script(t);
    check_int(recover_now(t).locks_cleaned, ==, 0);
    helper_kill(&script);
    check_int(recover_now(t).locks_cleaned, ==, 1);
    check_int(tend_lock_get(t, "l", NULL), ==, 0);
}

/* Symptom: it was extended by the dead one's name, and the next who asked for the lock got it. */
TEST(worker, a_lock_of_a_dead_process_is_not_extended)
{
    tend *t = store_open_real("w");
    struct helper script = lock_for_script(t);
    check_int(tend_lock_extend(t, "l", "script", MINUTE_MS), ==, 1);
    helper_kill(&script);
    check_int(tend_lock_extend(t, "l", "script", MINUTE_MS), ==, 0);
}

TEST(worker, two_leases_tied_to_one_process_share_one_entry)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    struct helper script = helper_start(do_nothing, NULL);
    add_number(t, "q", 2);
    claim.while_pid = script.pid;
    struct tend_lease one = claim_with(t, &claim);
    struct tend_lease two = claim_with(t, &claim);
    check_int(job_of(t, one.id)->worker_id, ==, job_of(t, two.id)->worker_id);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 1);
    helper_kill(&script);
    check_int(recover_now(t).entries_reclaimed, ==, 2);
}

static void *lock_it(void *arg)
{
    struct tend_lock_request request = lock_request("l");
    tend *t = store_open_real("w");
    request.owner = "script";
    request.while_pid = *(int64_t *)arg;
    tend_lock_acquire(t, &request, NULL); /* one gets it, or all do, one after the other */
    return NULL;
}

/* Each had an entry of its own for the process, which was then refused its own lock. */
TEST(worker, LK_9_calls_for_one_process_that_come_together_share_one_entry)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    struct helper script = helper_start(do_nothing, NULL);
    int64_t pid = script.pid;
    tend *t = store_open_real("w");
    struct tend_lock_request request = lock_request("l");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, lock_it, &pid);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_int(sql_int("SELECT count(*) FROM worker WHERE pid = %lld", (long long)pid), ==, 1);
    request.owner = "script";
    request.while_pid = pid;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    helper_kill(&script);
}

TEST(worker, a_process_that_is_not_there_cannot_be_tied_to)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_lock_request request = lock_request("l");
    struct helper gone = helper_start(do_nothing, NULL);
    helper_kill(&gone);
    add_one(t, "q");
    const char *before = store_snapshot();
    claim.while_pid = gone.pid;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), keep_text("%d", (int)gone.pid));
    request.while_pid = gone.pid;
    check_rc(t, tend_lock_acquire(t, &request, NULL), TEND_EINVAL);
    check_str(store_snapshot(), before);
}

/* The pid is in use again, by another process: told by its start. */
TEST(worker, a_pid_that_was_given_to_another_process_is_seen_through)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    struct helper script = helper_start(do_nothing, NULL);
    int64_t id = add_one(t, "q");
    claim.while_pid = script.pid;
    claim_with(t, &claim);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    sql_exec("UPDATE worker SET start_ticks = start_ticks - 2");
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
    helper_kill(&script);
}

/* --- leaving: LS-6 --- */

TEST(worker, LS_6_closing_releases_what_the_handle_holds_free_of_charge)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    struct tend_lock_request request = lock_request("l");
    add_number(t, "q", 1100);
    int64_t kept = claim_long(other, 0).id;
    check_int(claim_many(t, "q", 1099, NULL), ==, 1099);
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    store_close(t);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, 1099);
    check_int(sql_int("SELECT max(attempts) + max(crashes) FROM job"), ==, 0);
    check_int(state_of(other, kept), ==, TEND_RUNNING);
    check_int(tend_lock_get(other, "l", NULL), ==, 0);
    check_int(count_events("job.released"), ==, 1099);
    check_int(count_events("lock.released"), ==, 1);
    check_int(count_events("worker.left"), ==, 1);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 1);
}

TEST(worker, a_handle_that_never_claimed_registers_no_worker)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_long(t, TEND_CLAIM_BY_TIME);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 0);
}

TEST(worker, workers_are_listed_with_what_they_hold_and_whether_they_live)
{
    tend *t = store_open_real("w");
    struct tend_workers *workers;
    struct tend_lock_request request = lock_request("l");
    add_number(t, "q", 3);
    struct helper doomed = helper_start(hold_a_job, NULL);
    helper_hear(&doomed);
    claim_many(t, "q", 2, NULL);
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    check_ok(t, tend_worker_list(t, &workers));
    check_int(workers->count, ==, 2);
    check_str(workers->items[0].name, "doomed");
    check_int(workers->items[0].pid, ==, doomed.pid);
    check_int(workers->items[0].leases, ==, 1);
    check_int(workers->items[0].locks, ==, 0);
    check_int(workers->items[0].alive, ==, 1);
    check_str(workers->items[1].name, "w");
    check_int(workers->items[1].pid, ==, getpid());
    check_int(workers->items[1].leases, ==, 2);
    check_int(workers->items[1].locks, ==, 1);
    check_int(workers->items[1].alive, ==, 1);
    tend_workers_free(workers);
    helper_kill(&doomed);
    check_ok(t, tend_worker_list(t, &workers));
    check_int(workers->items[0].alive, ==, 0);
    check_int(workers->items[1].alive, ==, 1);
    tend_workers_free(workers);
    recover_now(t);
    check_ok(t, tend_worker_list(t, &workers));
    check_int(workers->count, ==, 1);
    tend_workers_free(workers);
}

/* --- where the process cannot be looked at, the liveness lock decides --- */

static void hold_with_a_child(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open("elsewhere");
    helper_say(parent, claim_long(t, 0).token);
    if (fork() == 0) { /* a child of the worker must not keep its lock */
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    helper_say(parent, 0);
    helper_hear(parent);
}

TEST(worker, RC_13_a_worker_of_another_namespace_is_judged_by_its_liveness_lock)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_with_a_child, NULL);
    helper_hear(&worker);
    helper_hear(&worker);
    sql_exec("UPDATE worker SET pid_ns = pid_ns + 1");
    clock_advance(5000);
    recover_now(t);
    clock_advance(5000); /* PostgreSQL gives a lost session time to come back */
    recover_now(t);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    helper_kill(&worker);
    long long deadline_ms = test_clock_ms() + PATIENCE_MS;
    while (state_of(t, id) == TEND_RUNNING && test_clock_ms() < deadline_ms) {
        recover_now(t);
        clock_advance(1000);
        check_int(clock_now() - CLOCK_START_MS, <, LONG_LEASE_MS);
        test_pause();
    }
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* A container with a boot id of its own took living workers of the host for those of an earlier
 * boot. */
TEST(worker, BY_9_another_boot_id_is_no_death_while_the_liveness_lock_is_held)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_with_a_child, NULL);
    helper_hear(&worker);
    helper_hear(&worker);
    sql_exec("UPDATE worker SET boot_id = 'of-a-container'");
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    helper_kill(&worker);
}

/* One that was tied to a pid: without a lock, only the time of the boot tells. */
TEST(worker, BY_9_another_boot_id_without_a_lock_is_a_death_only_before_the_boot)
{
    tend *t = store_open_real("w");
    struct helper script = lock_for_script(t);
    struct tend_workers *workers;
    sql_exec("UPDATE worker SET boot_id = 'of-a-container'");
    check_int(recover_now(t).locks_cleaned, ==, 0);
    check_ok(t, tend_worker_list(t, &workers));
    check_int(workers->items[0].alive, ==, -1); /* cannot be told */
    tend_workers_free(workers);
    sql_exec("UPDATE worker SET since = 0"); /* long before the machine was booted */
    check_int(recover_now(t).locks_cleaned, ==, !store_is_postgres());
    helper_kill(&script);
}

/* On PostgreSQL a newcomer is entered before it can take its lock; nobody may bury it in between.
 * On SQLite both come in one, and what has no lock has had one (test_neighbour.c). */
TEST(worker, a_worker_that_has_just_registered_is_given_time_where_its_lock_comes_later)
{
    tend *t = store_open("w");
    add_one(t, "q");
    claim_long(t, 0);
    sql_exec("UPDATE worker SET pid_ns = pid_ns + 1, id = id + 1000");
    recover_now(t);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, store_is_postgres());
}
