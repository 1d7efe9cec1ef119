/*
 * What operations read (RC-8): as much as they find, however much else the store holds. It is
 * counted, not timed: on SQLite the steps of its machine, on PostgreSQL the rows and the entries of
 * indexes that its sessions have read.
 */
#include "support/store.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

enum { SOME = 10, RESTING = 4000, BATCH = 1000 };

/* --- counting --- */

static int64_t steps;
static int64_t statements;

static int add_steps(unsigned event, void *unused, void *statement, void *time)
{
    (void)event;
    (void)unused;
    (void)time;
    int count = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
    __atomic_fetch_add(&steps, count, __ATOMIC_RELAXED);
    __atomic_fetch_add(&statements, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Called for every connection that is opened in this process. */
static int count_steps(sqlite3 *sqlite, const char **message, const void *routines)
{
    (void)message;
    (void)routines;
    return sqlite3_trace_v2(sqlite, SQLITE_TRACE_PROFILE, add_steps, NULL);
}

static void count_from_now_on(void)
{
    setenv("PGAPPNAME", store_schema(), 1);
    sqlite3_auto_extension((void (*)(void))count_steps);
}

/* What was read so far by handles that are closed. A session of PostgreSQL tells at its end. */
static int64_t read_so_far(void)
{
    if (!store_is_postgres())
        return __atomic_load_n(&steps, __ATOMIC_RELAXED);
    wait_until(sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%s%%' "
                       "AND pid <> pg_backend_pid()",
                       store_schema()) == 0,
               PATIENCE_MS);
    sql_exec("SELECT pg_stat_force_next_flush()");
    return sql_int("SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables "
                   "        WHERE schemaname = '%s') + "
                   "       (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes "
                   "        WHERE schemaname = '%s')",
                   store_schema(), store_schema());
}

/* What an operation reads that finds what prepare has made, with the opening of a handle. */
static int64_t cost_of(void (*prepare)(tend *t, size_t count), void (*run)(tend *t, size_t count),
                       size_t count)
{
    tend *t = store_open("prepares");
    prepare(t, count);
    store_close(t);
    int64_t before = read_so_far();
    t = store_open("runs");
    run(t, count);
    store_close(t);
    return read_so_far() - before;
}

static void clean_up(void)
{
    sql_exec("%s", store_is_postgres() ? "VACUUM ANALYZE job, lock, event" : "ANALYZE");
}

/*
 * The least of several measurements, the first that is below the bound. On PostgreSQL, what was
 * deleted is read, too, until it can be removed, which an open transaction of another test prevents
 * for a while.
 */
static int64_t least_cost_of(void (*prepare)(tend *t, size_t count),
                             void (*run)(tend *t, size_t count), size_t count, int64_t bound)
{
    enum { TRIES = 20 };
    const struct timespec pause = {.tv_nsec = 300000000};
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES && least >= bound; i++) {
        if (i > 0) {
            nanosleep(&pause, NULL);
            clean_up();
        }
        int64_t cost = cost_of(prepare, run, count);
        least = cost < least ? cost : least;
    }
    return least;
}

/* --- operations --- */

static void finish_many(tend *t, const char *queue, size_t count)
{
    struct tend_lease leases[BATCH];
    for (size_t done = 0; done < count; done += BATCH) {
        size_t batch = count - done < BATCH ? count - done : BATCH;
        add_number(t, queue, batch);
        check_int(claim_many(t, queue, batch, leases), ==, (long long)batch);
        check_ok(t, tend_complete(t, leases, batch, NULL, NULL));
    }
}

static void nothing(tend *t, size_t count)
{
    (void)t;
    (void)count;
}

static void claim_from_an_empty_queue(tend *t, size_t count)
{
    (void)count;
    check_int(claim_none(t, "empty").code, ==, TEND_EEMPTY);
}

static void occupy_a_serial_queue(tend *t, size_t count)
{
    struct tend_claim claim = claim_for("serial");
    struct tend_jobs *jobs;
    (void)count;
    set_queue(t, "serial", "serial", "on");
    add_number(t, "serial", 2);
    claim.ttl_ms = DAY_MS;
    claim.flags = TEND_CLAIM_BY_TIME;
    if (tend_next_with_lock(t, &claim, &jobs, NULL) > 0)
        tend_jobs_free(jobs);
}

static void claim_from_a_busy_queue(tend *t, size_t count)
{
    (void)count;
    check_int(claim_none(t, "serial").code, ==, TEND_EBUSY);
}

static void let_leases_expire(tend *t, size_t count)
{
    struct tend_claim claim = claim_for("stale");
    struct tend_jobs *jobs;
    add_number(t, "stale", count);
    claim.count = count;
    claim.ttl_ms = 1000;
    claim.flags = TEND_CLAIM_BY_TIME;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), (int)count);
    tend_jobs_free(jobs);
    clock_advance(1000);
}

static void recover(tend *t, size_t count)
{
    check_int(recover_now(t).entries_reclaimed, ==, (long long)count);
}

static void count_stale(tend *t, size_t count)
{
    struct tend_recovery stale;
    (void)count;
    check_ok(t, tend_get_recovery_stats(t, &stale));
    check_int(stale.entries_reclaimed, ==, 0);
}

static void let_jobs_become_old(tend *t, size_t count)
{
    set_queue(t, "old", "keep-done", "1s");
    finish_many(t, "old", count);
    clock_advance(1000);
}

static void purge(tend *t, size_t count)
{
    struct tend_purged gone;
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, (long long)count);
}

static void purge_nothing(tend *t, size_t count)
{
    (void)count;
    purge(t, 0);
}

static void list_locks(tend *t, size_t count)
{
    struct tend_locks *locks;
    (void)count;
    check_int(tend_lock_list(t, &locks), >=, 0);
    tend_locks_free(locks);
}

static void count_all_events(tend *t, size_t count)
{
    (void)count;
    check_ok(t, tend_purge(t, NULL));
}

static void ask_for_counters(tend *t, size_t count)
{
    struct tend_event_totals *totals;
    (void)count;
    check_ok(t, tend_event_totals(t, &totals));
    check_int(totals->count, >, 0);
    tend_event_totals_free(totals);
}

/* --- the tests --- */

/* Finished and future jobs, also in the queue whose jobs become old, and locks that are free. */
static void fill(size_t count)
{
    tend *t = store_open("fills");
    struct tend_job_spec *specs = calloc(count, sizeof *specs);
    struct tend_added *added = calloc(count, sizeof *added);
    for (size_t i = 0; i < count; i++) {
        specs[i] = spec_for("future");
        specs[i].delay_ms = DAY_MS;
    }
    check_ok(t, tend_add_many(t, specs, count, added));
    free(specs);
    free(added);
    finish_many(t, "resting", count);
    finish_many(t, "old", count);
    store_close(t);
    sql_exec("UPDATE job SET finished_at = 9000000000000 WHERE queue = 'old' AND state = 4");
    sql_exec("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
             "INSERT INTO lock (name, token) SELECT 'lock-%d-' || i, 1 FROM n",
             (int)count, (int)count);
    clean_up();
}

/* RC-8. A claim of a busy serial queue and every recovery read all locks, and a purge all finished
 * jobs for each 500 it deleted, also when there was nothing to delete. */
TEST(costs, nothing_costs_more_in_a_store_that_holds_more)
{
    const struct {
        const char *name;
        void (*prepare)(tend *t, size_t count);
        void (*run)(tend *t, size_t count);
    } operations[] = {
        {"a claim that finds nothing", nothing, claim_from_an_empty_queue},
        {"a claim that finds its lock held", occupy_a_serial_queue, claim_from_a_busy_queue},
        {"a recovery", let_leases_expire, recover},
        {"a look at what is stale", nothing, count_stale},
        {"a purge of nothing", nothing, purge_nothing},
        {"a purge", let_jobs_become_old, purge},
        {"a list of locks", nothing, list_locks},
        {"a look at the counters (SH-14)", count_all_events, ask_for_counters},
    };
    enum { OPERATIONS = sizeof operations / sizeof *operations };
    int64_t before[OPERATIONS];
    count_from_now_on();
    fill(BATCH); /* a purge looks at the oldest 500 events: they are there from the beginning */
    for (size_t i = 0; i < OPERATIONS; i++)
        before[i] = cost_of(operations[i].prepare, operations[i].run, SOME);
    fill(RESTING);
    for (size_t i = 0; i < OPERATIONS; i++) {
        int64_t bound = before[i] + RESTING / 10;
        int64_t after = least_cost_of(operations[i].prepare, operations[i].run, SOME, bound);
        if (after >= bound)
            test_fail(__FILE__, __LINE__, "%s read %lld, and with %d more of everything %lld",
                      operations[i].name, (long long)before[i], RESTING, (long long)after);
    }
}

/* Ten times as much may cost ten times as much, and a little for the chunks. */
static void check_grows_evenly(void (*prepare)(tend *t, size_t count),
                               void (*run)(tend *t, size_t count))
{
    int64_t few = cost_of(prepare, run, 300);
    check_int(least_cost_of(prepare, run, 3000, 13 * few), <, 13 * few);
}

TEST(costs, recovery_and_retention_cost_by_what_they_find)
{
    count_from_now_on();
    fill(BATCH);
    check_grows_evenly(let_leases_expire, recover);
    check_grows_evenly(let_jobs_become_old, purge);
}

/* --- hooks --- */

static void let_jobs_become_poison(size_t count)
{
    tend *t = store_open("prepares");
    set_queue(t, "stale", "max-crashes", "1");
    let_leases_expire(t, count);
    store_close(t);
}

/* SQLite: the statements so far. PostgreSQL: those that looked at the hooks. */
static int64_t statements_so_far(void)
{
    if (!store_is_postgres())
        return __atomic_load_n(&statements, __ATOMIC_RELAXED);
    read_so_far();
    return sql_int("SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_user_tables "
                   "WHERE schemaname = '%s' AND relname = 'hook'",
                   store_schema());
}

static int64_t statements_of_recovery(size_t count)
{
    let_jobs_become_poison(count);
    int64_t before = statements_so_far();
    tend *t = store_open("recovers");
    check_int(recover_now(t).entries_quarantined, ==, (long long)count);
    store_close(t);
    return statements_so_far() - before;
}

/* RC-8. Each quarantined job was a few round trips more for each hook: 1,000 took 3 s. */
TEST(costs, recovery_calls_hooks_with_a_few_statements_however_many_jobs_it_gives_up)
{
    enum { JOBS = 300, HOOKS = 3 };
    count_from_now_on();
    int64_t without = statements_of_recovery(JOBS);
    tend *t = store_open("hooks");
    for (int i = 0; i < HOOKS; i++) {
        const struct tend_hook hook = {.name = keep_text("hook-%d", i),
                                       .on = "failed",
                                       .queue = "told",
                                       .payload = "{\"exec\":[\"tell\"]}"};
        check_ok(t, tend_hook_put(t, &hook, NULL));
    }
    store_close(t);
    check_int(statements_of_recovery(JOBS) - without, <, JOBS / 10);
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'told'"), ==, JOBS * HOOKS);
}
