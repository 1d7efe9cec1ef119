/*
 * Rows that another session has locked: a worker that is cut off while it sends much has locked
 * nothing yet, what recovery has to leave alone is named, and a sign of life that is being written,
 * or was written while others waited, counts. A sign of life for many leases waits for none of
 * them.
 */
#include "steps.h"
#include "support/proxy.h"
#include "support/session.h"

#include <pthread.h>
#include <stdlib.h>

enum { PATCH_BYTES = 4 << 20, STALL_BYTES = 400000, LEASE_MS = 5000 };

static tend *open_busy(const char *name, int64_t busy_ms)
{
    struct tend_options options = store_options(name);
    options.busy_ms = busy_ms;
    return store_open_with(&options);
}

/* A job claimed by time alone, as commands do. */
static struct tend_lease claim_by_time(tend *t)
{
    struct tend_claim claim = claim_for("q");
    claim.flags = TEND_CLAIM_BY_TIME;
    claim.ttl_ms = LEASE_MS;
    claim.owner = "owner";
    return claim_with(t, &claim);
}

/* A session of another program. */
static PGconn *stranger(void)
{
    PGconn *pg = session_open();
    session_run(pg, "SET application_name = stranger");
    return pg;
}

/* --- a worker that is cut off --- */

static void report_much(struct helper *parent, void *arg)
{
    struct tend_options options = store_options("cut off");
    tend *t;
    check_int(tend_open(&t, proxy_url(arg), &options), ==, 0);
    struct tend_lease lease = claim_by_time(t);
    struct tend_attempt_end end = end_of(begin_step(t, lease, 1, "build"), TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change change = {.ended = &end};
    char *patch = malloc(PATCH_BYTES);
    memset(patch, 'x', PATCH_BYTES);
    end.patch = patch;
    end.patch_bytes = PATCH_BYTES;
    helper_say(parent, lease.id);
    helper_hear(parent);
    helper_say(parent, -tend_step_next(t, lease, &change, NULL));
    free(patch);
}

/*
 * Before, the worker locked the job's row and then sent its patch. Cut off in the middle, it kept
 * the row locked, which no timeout ends: 'tend heal' said that nothing was stale, for ever.
 */
TEST_WITHIN(postgres_locked, a_worker_cut_off_while_it_sends_a_patch_does_not_keep_its_job, 120)
{
    struct proxy proxy = proxy_start();
    tend *t = store_open("w");
    add_one(t, "q");
    struct helper worker = helper_start(report_much, &proxy);
    int64_t id = helper_hear(&worker);
    proxy_stall_after(&proxy, STALL_BYTES);
    helper_say(&worker, 1);
    wait_until(proxy_is_stalled(&proxy), PATIENCE_MS);
    /* The server has all that has passed, and waits for the rest. */
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND "
                       "state = 'active' AND client_addr IS NOT NULL") > 0,
               PATIENCE_MS);
    clock_advance(LEASE_MS);
    struct tend_recovery recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.entries_skipped, ==, 0);
    check_int(state_of(t, id), ==, TEND_PENDING);
    /* What arrives late is fenced, and nothing of it stays. */
    proxy_resume(&proxy);
    check_int(-helper_hear(&worker), ==, TEND_ELEASELOST);
    check_int(sql_int("SELECT count(*) FROM checkpoint"), ==, 0);
    helper_join(&worker);
    proxy_stop(&proxy);
}

/* --- what is left alone is named --- */

/* Three expired leases; the rows of the first and the last are locked. */
static void hold_two_of_three(tend *t, PGconn *pg, struct tend_lease leases[3])
{
    add_number(t, "q", 3);
    for (int i = 0; i < 3; i++)
        leases[i] = claim_by_time(t);
    clock_advance(LEASE_MS);
    session_run(pg, "BEGIN");
    session_run(pg, keep_text("SELECT 1 FROM job WHERE id IN (%lld, %lld) FOR NO KEY UPDATE",
                              (long long)leases[0].id, (long long)leases[2].id));
}

TEST(postgres_locked, RC_2_what_recovery_had_to_leave_alone_is_counted_and_named)
{
    tend *t = open_busy("w", 300);
    PGconn *pg = stranger();
    struct tend_lease leases[3];
    hold_two_of_three(t, pg, leases);
    struct tend_recovery recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.entries_skipped, ==, 2);
    check_int(recovery.skipped_ids[0], ==, leases[0].id);
    check_int(recovery.skipped_ids[1], ==, leases[2].id);
    check_contains(recovery.skipped_by, keep_text("session %d", PQbackendPID(pg)));
    check_contains(recovery.skipped_by, "stranger");
    struct tend_explanation explanation;
    check_ok(t, tend_explain(t, leases[0].id, &explanation));
    check_contains(explanation.text, keep_text("session %d", PQbackendPID(pg)));
    check(strstr(explanation.hint, "at once") == NULL);
    check_rc(t, tend_act(t, TEND_CANCEL, leases[0].id, "ann", NULL), TEND_EBUSY);
    check_contains(tend_errmsg(t), "cannot be cancelled now: its row is locked by session");
    check_contains(tend_errmsg(t), "stranger");
    session_run(pg, "COMMIT");
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 2);
    check_int(recovery.entries_skipped, ==, 0);
    check_str(recovery.skipped_by, "");
    PQfinish(pg);
}

TEST(postgres_locked, RC_2_what_recovery_would_have_to_leave_alone_is_counted_and_named_before)
{
    tend *t = open_busy("w", 300);
    PGconn *pg = stranger();
    struct tend_recovery announced;
    struct tend_lease leases[3];
    hold_two_of_three(t, pg, leases);
    check_ok(t, tend_get_recovery_stats(t, &announced));
    struct tend_recovery recovery = recover_now(t);
    check_int(announced.entries_reclaimed, ==, 1);
    check_int(announced.entries_skipped, ==, 2);
    check_int(announced.skipped_ids[0], ==, leases[0].id);
    check_int(announced.skipped_ids[1], ==, leases[2].id);
    check_contains(announced.skipped_by, keep_text("session %d", PQbackendPID(pg)));
    check_int(recovery.entries_reclaimed, ==, announced.entries_reclaimed);
    check_int(recovery.entries_skipped, ==, announced.entries_skipped);
    PQfinish(pg);
}

/* --- dead workers --- */

/* A worker that holds a job, and another with a named lock. Says the ids. */
static void hold_two(struct helper *parent, void *arg)
{
    struct tend_claim claim = claim_for("locked");
    struct tend_jobs *jobs;
    (void)arg;
    tend *t = store_open("doomed");
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    helper_say(parent, jobs->items[0].id);
    helper_say(parent, claim_one(t, "q").id);
    helper_hear(parent);
}

struct dead {
    int64_t locked_id, id;
};

static struct dead kill_worker(tend *t)
{
    struct dead dead;
    add_one(t, "locked");
    add_one(t, "q");
    struct helper worker = helper_start(hold_two, NULL);
    dead.locked_id = helper_hear(&worker);
    dead.id = helper_hear(&worker);
    helper_kill(&worker);
    return dead;
}

static void lock_row(PGconn *pg, int64_t id)
{
    session_run(
        pg, keep_text("BEGIN; SELECT 1 FROM job WHERE id = %lld FOR NO KEY UPDATE", (long long)id));
}

static int64_t locks_held(void)
{
    return sql_int("SELECT count(*) FROM lock WHERE owner IS NOT NULL");
}

/* Symptom: the burial of a dead worker waited for the row of one of its jobs that a stopped session
 * had locked, and the whole recovery with it, again and again. */
TEST(postgres_locked, RC_2_a_dead_worker_is_buried_when_the_last_of_its_jobs_can_be_moved)
{
    tend *t = open_busy("w", 2000);
    PGconn *pg = stranger();
    struct tend_recovery recovery;
    struct dead dead = kill_worker(t);
    lock_row(pg, dead.locked_id);
    check_ok(t, tend_get_recovery_stats(t, &recovery));
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.entries_skipped, ==, 1);
    for (int i = 0; i < 2; i++) {
        recovery = recover_now(t);
        check_int(recovery.entries_reclaimed, ==, 1 - i);
        check_int(recovery.entries_skipped, ==, 1);
        check_int(recovery.skipped_ids[0], ==, dead.locked_id);
        check_contains(recovery.skipped_by, keep_text("session %d", PQbackendPID(pg)));
    }
    check_int(state_of(t, dead.id), ==, TEND_PENDING);
    check_int(state_of(t, dead.locked_id), ==, TEND_RUNNING);
    check_int(locks_held(), ==, 1); /* the job still runs under it */
    check_int(sql_int("SELECT count(*) FROM worker WHERE name = 'doomed'"), ==, 1);
    check_int(count_events("worker.died"), ==, 0);
    session_run(pg, "COMMIT");
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 1);
    check_int(recovery.locks_cleaned, ==, 1);
    check_int(recovery.entries_skipped, ==, 0);
    check_int(state_of(t, dead.locked_id), ==, TEND_PENDING);
    check_int(locks_held(), ==, 0);
    check_int(sql_int("SELECT count(*) FROM worker WHERE name = 'doomed'"), ==, 0);
    check_int(count_events("worker.died"), ==, 1);
    PQfinish(pg);
}

/* Of one that is known by its liveness lock alone, the row may be locked by its heartbeat. */
TEST(postgres_locked, RC_13_a_lost_worker_whose_job_is_being_written_keeps_all_of_its_jobs)
{
    tend *t = open_busy("w", 2000);
    PGconn *pg = stranger();
    struct tend_recovery recovery;
    add_number(t, "q", 2);
    struct tend_lease leases[] = {claim_by_time(t), claim_by_time(t)};
    sql_exec("INSERT INTO worker (id, name, host, boot_id, pid, pid_ns, start_ticks, session, "
             "since, registration, lost_at) VALUES (41, 'w', 'h', 'b', 1, 1, 1, 1, 1, 41, %lld)",
             (long long)clock_now());
    sql_exec("UPDATE job SET worker_id = 41, alarm_at = alarm_at + 3600000");
    clock_advance(HOUR_MS / 2);
    lock_row(pg, leases[0].id);
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.entries_skipped, ==, 1);
    check_int(recovery.skipped_ids[0], ==, leases[0].id);
    check_int(sql_int("SELECT count(*) FROM worker WHERE id = 41"), ==, 1);
    session_run(pg, "COMMIT");
    recovery = recover_now(t);
    check_int(recovery.entries_reclaimed, ==, 2);
    check_int(recovery.entries_skipped, ==, 0);
    check_int(sql_int("SELECT count(*) FROM worker WHERE id = 41"), ==, 0);
    PQfinish(pg);
}

/* Every transaction asks for the time. */
static int transactions;

static int64_t count_transactions(void *arg)
{
    (void)arg;
    transactions++;
    return clock_now();
}

/* Symptom: while one expired lease was locked, everybody who waited, whatever for, looked again
 * every millisecond: 2600 transactions in four seconds. */
TEST(postgres_locked, an_expired_lease_that_cannot_be_recovered_now_keeps_no_waiter_busy)
{
    struct tend_options options = store_options("w");
    options.clock_ms = count_transactions;
    tend *t = store_open_with(&options);
    PGconn *pg = stranger();
    struct tend_claim claim = claim_for("empty");
    struct tend_jobs *jobs = NULL;
    add_one(t, "q");
    struct tend_lease lease = claim_by_time(t);
    clock_advance(LEASE_MS);
    session_run(pg, "BEGIN; SELECT 1 FROM job FOR NO KEY UPDATE");
    claim.wait_ms = 2000;
    transactions = 0;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EEMPTY);
    check_int(transactions, <, 50);
    /* What is let go is recovered all the same. */
    session_run(pg, "COMMIT");
    claim.queue = "q";
    claim.wait_ms = PATIENCE_MS;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 1);
    check_int(jobs->items[0].id, ==, lease.id);
    tend_jobs_free(jobs);
    PQfinish(pg);
}

/* It is dead again and again, until its last job can be moved. */
TEST(postgres_locked, a_dead_worker_that_cannot_be_buried_now_keeps_no_waiter_busy)
{
    struct tend_options options = store_options("w");
    options.clock_ms = count_transactions;
    tend *t = store_open_with(&options);
    PGconn *pg = stranger();
    struct tend_claim claim = claim_for("empty");
    struct tend_jobs *jobs = NULL;
    struct dead dead = kill_worker(t);
    lock_row(pg, dead.locked_id);
    claim.wait_ms = 2000;
    transactions = 0;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EEMPTY);
    check_int(transactions, <, 50);
    check_contains(store_log(),
                   keep_text("1 job of dead workers (first job %lld) is locked by session %d",
                             (long long)dead.locked_id, PQbackendPID(pg)));
    session_run(pg, "COMMIT");
    claim.queue = "locked";
    claim.wait_ms = PATIENCE_MS;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 1);
    check_int(jobs->items[0].id, ==, dead.locked_id);
    tend_jobs_free(jobs);
    PQfinish(pg);
}

/* --- runs that a submission waits for --- */

static void *cancel_all(void *arg)
{
    struct tend_filter filter;
    tend_filter_init(&filter);
    check_ok(arg, tend_act_on_all(arg, TEND_CANCEL, &filter, "ann", NULL, NULL));
    return NULL;
}

/* Symptom: runs that a submission waited for were locked after all the others, so that two that
 * ended many runs could wait for each other. */
TEST(postgres_locked, CL_5_runs_that_a_submission_waits_for_are_locked_by_id_like_all)
{
    tend *t = store_open("w");
    PGconn *pg = stranger();
    PGconn *looker = stranger();
    pthread_t thread;
    struct tend_job_spec spec = spec_for("q");
    struct tend_lease leases[2];
    struct tend_added added;
    spec.unique_key = "k";
    add_spec(t, &spec);
    add_one(t, "q");
    for (int i = 0; i < 2; i++)
        leases[i] = claim_by_time(t);
    check_ok(t, tend_add(t, &spec, &added)); /* runs once more */
    session_run(pg, "BEGIN");
    session_run(pg, keep_text("SELECT 1 FROM job WHERE id = %lld FOR NO KEY UPDATE",
                              (long long)leases[0].id));
    check_int(pthread_create(&thread, NULL, cancel_all, t), ==, 0);
    wait_until(sql_int("SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                       "%d = ANY (pg_blocking_pids(pid))",
                       PQbackendPID(pg)) > 0,
               PATIENCE_MS);
    session_run(looker, keep_text("SELECT 1 FROM job WHERE id = %lld FOR NO KEY UPDATE NOWAIT",
                                  (long long)leases[1].id));
    session_run(pg, "COMMIT");
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        check_int(state_of(t, leases[i].id), ==, TEND_CANCELLED);
    PQfinish(looker);
    PQfinish(pg);
}

TEST(postgres_locked, a_job_that_others_have_locked_is_named_by_its_silence_too)
{
    tend *t = store_open("w");
    PGconn *pg = stranger();
    add_one(t, "q");
    struct tend_lease lease = claim_by_time(t);
    struct tend_recovery recovery;
    clock_advance(2000);
    session_run(pg, "BEGIN; SELECT 1 FROM job FOR UPDATE");
    check_ok(t, tend_reclaim_stale(t, 1000, &recovery));
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.entries_skipped, ==, 1);
    check_int(recovery.skipped_ids[0], ==, lease.id);
    PQfinish(pg);
}

/* --- signs of life --- */

struct call {
    tend *t;
    int64_t silent_ms; /* or TEND_UNSET */
    struct tend_recovery recovery;
    int done;
    pthread_t thread;
};

static void *recover(void *arg)
{
    struct call *call = arg;
    check_ok(call->t, call->silent_ms == TEND_UNSET
                          ? tend_detect_and_recover_stale(call->t, &call->recovery)
                          : tend_reclaim_stale(call->t, call->silent_ms, &call->recovery));
    __atomic_store_n(&call->done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/*
 * Somebody recovers while another session writes `sign` and has not committed yet: either that is
 * not waited for, or it is; then it is committed.
 */
static struct tend_recovery recover_during(PGconn *pg, const char *sign, int64_t silent_ms)
{
    struct call call = {.t = store_open("healer"), .silent_ms = silent_ms};
    session_run(pg, "BEGIN");
    session_run(pg, sign);
    check_int(pthread_create(&call.thread, NULL, recover, &call), ==, 0);
    wait_until(__atomic_load_n(&call.done, __ATOMIC_SEQ_CST) != 0 ||
                   sql_int("SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                           "%d = ANY (pg_blocking_pids(pid))",
                           PQbackendPID(pg)) > 0,
               PATIENCE_MS);
    session_run(pg, "COMMIT");
    pthread_join(call.thread, NULL);
    return call.recovery;
}

/* LS-5: before, 'heal --older-than' read the job without a lock, waited for the heartbeat that was
 * being written, and took a job that had just shown a sign of life. */
TEST(postgres_locked, LS_5_a_heartbeat_that_is_being_written_wins_over_a_threshold)
{
    tend *t = store_open("w");
    PGconn *pg = stranger();
    add_one(t, "q");
    struct tend_lease lease = claim_by_time(t);
    clock_advance(2000);
    const char *heartbeat = keep_text("UPDATE job SET seen_at = %lld, alarm_at = %lld",
                                      (long long)clock_now(), (long long)clock_now() + LEASE_MS);
    struct tend_recovery recovery = recover_during(pg, heartbeat, 1000);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_ok(t, tend_check(t, &lease, 1, NULL));
    PQfinish(pg);
}

static void hold_lock(struct helper *parent, void *arg)
{
    struct tend_lock_request request;
    (void)arg;
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.owner = "ann";
    tend *t = store_open("ann");
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    helper_say(parent, 1);
    helper_hear(parent);
}

/* A process of the same name refreshes a lock, which keeps its token. Before, the lock went with
 * the dead one who had held it before, and two thought that they had it. */
TEST(postgres_locked, LK_1_a_lock_refreshed_while_its_dead_holder_is_buried_stays)
{
    tend *t = store_open("w");
    PGconn *pg = stranger();
    struct helper holder = helper_start(hold_lock, NULL);
    struct tend_lock lock;
    helper_hear(&holder);
    helper_kill(&holder);
    struct tend_recovery recovery =
        recover_during(pg,
                       keep_text("UPDATE lock SET worker_id = NULL, expires_at = %lld",
                                 (long long)clock_now() + HOUR_MS),
                       TEND_UNSET);
    check_int(recovery.locks_cleaned, ==, 0);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 0); /* it was buried */
    check_int(tend_lock_get(t, "deploy", &lock), ==, 1);
    check_str(lock.owner, "ann");
    PQfinish(pg);
}

TEST(postgres_locked, LK_1_a_lock_extended_while_its_expiry_is_noticed_stays)
{
    tend *t = store_open("w");
    PGconn *pg = stranger();
    struct tend_lock_request request;
    struct tend_lock lock;
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.ttl_ms = 1000;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    clock_advance(1000);
    struct tend_recovery recovery = recover_during(
        pg, keep_text("UPDATE lock SET expires_at = %lld", (long long)clock_now() + HOUR_MS),
        TEND_UNSET);
    check_int(recovery.locks_cleaned, ==, 0);
    check_int(tend_lock_get(t, "deploy", &lock), ==, 1);
    PQfinish(pg);
}

static void claim_three(tend *t, struct tend_lease leases[3])
{
    add_number(t, "q", 3);
    for (int i = 0; i < 3; i++)
        leases[i] = claim_by_time(t);
}

/* Symptom: all leases of a worker are extended in one statement, which waited for the one row that
 * a stranger had locked and failed. Leases that nobody had locked ended, with a crash each. */
TEST(postgres_locked, LS_5_a_locked_row_keeps_no_other_lease_from_being_extended)
{
    tend *t = open_busy("w", 300);
    PGconn *pg = stranger();
    struct tend_lease leases[3];
    int each[3];
    claim_three(t, leases);
    int64_t until_ms = clock_now() + LEASE_MS;
    lock_row(pg, leases[1].id);
    clock_advance(1000);
    check_rc(t, tend_heartbeat(t, leases, 3, LEASE_MS, each), TEND_EBUSY);
    check_contains(tend_errmsg(t), keep_text("job %lld cannot be changed now: its row is locked by "
                                             "session %d",
                                             (long long)leases[1].id, PQbackendPID(pg)));
    for (int i = 0; i < 3; i++) {
        check_int(each[i], ==, i == 1 ? TEND_EBUSY : 0);
        check_int(job_of(t, leases[i].id)->until_ms, ==, until_ms + (i == 1 ? 0 : 1000));
    }
    check_rc(t, tend_start(t, leases, 3, each), TEND_EBUSY);
    check_int(each[0], ==, 0);
    check_int(each[1], ==, TEND_EBUSY);
    check_ok(t, tend_check(t, leases, 3, NULL)); /* it is held all the same */
    session_run(pg, "COMMIT");
    check_ok(t, tend_heartbeat(t, leases, 3, LEASE_MS, each));
    PQfinish(pg);
}

/* What is lost and what is locked are told apart, and the first of them is named. */
TEST(postgres_locked, LS_5_of_a_lost_and_a_locked_lease_each_has_its_answer)
{
    tend *t = open_busy("w", 300);
    PGconn *pg = stranger();
    struct tend_lease leases[3];
    int each[3];
    claim_three(t, leases);
    leases[1].token++;
    lock_row(pg, leases[2].id);
    check_rc(t, tend_heartbeat(t, leases, 3, LEASE_MS, each), TEND_ELEASELOST);
    check_contains(tend_errmsg(t), "is lost");
    check_int(each[0], ==, 0);
    check_int(each[1], ==, TEND_ELEASELOST);
    check_int(each[2], ==, TEND_EBUSY);
    PQfinish(pg);
}

struct beat {
    tend *t;
    struct tend_lease *leases;
    int rc;
};

static void *beat_two(void *arg)
{
    struct beat *beat = arg;
    beat->rc = tend_heartbeat(beat->t, beat->leases, 2, LEASE_MS, NULL);
    return NULL;
}

/* A row that is locked for a moment is waited for, as before, while the others are extended. */
TEST(postgres_locked, LS_5_a_heartbeat_waits_for_a_row_that_is_locked_for_a_moment)
{
    tend *t = store_open("w");
    PGconn *pg = stranger();
    pthread_t thread;
    struct tend_lease leases[2];
    struct beat beat = {.t = t, .leases = leases, .rc = 1};
    add_number(t, "q", 2);
    for (int i = 0; i < 2; i++)
        leases[i] = claim_by_time(t);
    lock_row(pg, leases[0].id);
    clock_advance(1000);
    check_int(pthread_create(&thread, NULL, beat_two, &beat), ==, 0);
    wait_until(sql_int("SELECT count(*) FROM job WHERE seen_at = %lld", (long long)clock_now()) ==
                   1,
               PATIENCE_MS);
    session_run(pg, "COMMIT");
    pthread_join(thread, NULL);
    check_int(beat.rc, ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE seen_at = %lld", (long long)clock_now()), ==,
              2);
    PQfinish(pg);
}

/* The same for the lock that a job was taken with. */
TEST(postgres_locked, LS_5_a_locked_processing_lock_keeps_no_lease_from_being_extended)
{
    tend *t = open_busy("w", 300);
    PGconn *pg = stranger();
    set_queue(t, "q", "serial", "on");
    add_one(t, "q");
    struct tend_lease lease = claim_by_time(t);
    session_run(pg, "BEGIN; SELECT 1 FROM lock FOR UPDATE");
    clock_advance(1000);
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    session_run(pg, "COMMIT");
    clock_advance(1000);
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    check_int(sql_int("SELECT count(*) FROM lock l JOIN job j ON j.id = l.job_id "
                      "WHERE l.expires_at = j.alarm_at"),
              ==, 1);
    PQfinish(pg);
}

/* The schedule that waited for a locked run ended it for all that were due. */
TEST(postgres_locked, BY_8_a_schedule_whose_run_is_locked_keeps_no_other_from_firing)
{
    tend *t = open_busy("w", 300);
    PGconn *pg = stranger();
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.cron = "@hourly";
    schedule.name = schedule.queue = "replaces";
    schedule.overlap = "replace";
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    clock_advance(HOUR_MS);
    check_int(claim_none(t, "other").code, ==, TEND_EEMPTY);
    lock_row(pg, sql_int("SELECT id FROM job WHERE queue = 'replaces'"));
    schedule.name = schedule.queue = "adds";
    schedule.overlap = "queue";
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    schedule.name = schedule.queue = "replaces-too";
    schedule.overlap = "replace";
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    clock_advance(HOUR_MS);
    claim_one(t, "adds");
    claim_one(t, "replaces-too");
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'replaces'"), ==, 1);
    session_run(pg, "ROLLBACK");
    wait_until(
        (claim_none(t, "other"), sql_int("SELECT count(*) FROM job WHERE queue = 'replaces'") == 2),
        PATIENCE_MS);
    PQfinish(pg);
}

/* Each of them kept a claim waiting for 30 s, and its lease was over when it was answered. */
TEST(postgres_locked, BY_8_a_claim_waits_for_no_run_that_is_to_be_replaced)
{
    enum { SCHEDULES = 3, AN_HOUR_MS = 3600000 };
    tend *t = open_busy("w", AN_HOUR_MS);
    PGconn *pg = stranger();
    for (int i = 0; i < SCHEDULES; i++) {
        struct tend_schedule schedule;
        tend_schedule_init(&schedule);
        schedule.cron = "@hourly";
        schedule.name = keep_text("replaces-%d", i);
        schedule.queue = "replaces";
        schedule.overlap = "replace";
        check_ok(t, tend_schedule_put(t, &schedule, NULL));
    }
    clock_advance(HOUR_MS);
    claim_none(t, "other");
    check_int(sql_int("SELECT count(*) FROM job"), ==, SCHEDULES);
    session_run(pg, "BEGIN");
    session_run(pg, keep_text("SELECT id FROM %s.job FOR UPDATE", store_schema()));
    clock_advance(HOUR_MS);
    claim_none(t, "other");
    check_int(sql_int("SELECT count(*) FROM job"), ==, SCHEDULES);
    session_run(pg, "ROLLBACK");
    wait_until((claim_none(t, "other"), sql_int("SELECT count(*) FROM job") == 2 * SCHEDULES),
               PATIENCE_MS);
    PQfinish(pg);
}
