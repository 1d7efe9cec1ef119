/*
 * BY-2 below SQLite: a small workload is run again and again, and each time another one of its
 * calls that change a file fails, in each way a disk can fail. What was acknowledged is there
 * afterwards; what was not is there whole or not at all; the store is sound, and the same handle
 * goes on when the fault is over.
 */
#include "chaos.h"
#include "fault_vfs.h"

#include "queue/handle.h"
#include "store/sqlite_db.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SINGLES = 6, BATCH = 5, THREADS = 4, PER_THREAD = 2, MARKS = 64 };

/* What the workload was told. A mark is a number in the payload. */
struct told {
    int64_t id[MARKS]; /* acknowledged as this job; 0: not */
    bool completed[MARKS];
    int failures;
    bool heals; /* the disk has room again after the first failure */
};

/* Numbers of the marks: singles, the batch, then those of the threads. */
enum { BATCH_MARK = SINGLES, THREAD_MARK = SINGLES + BATCH };

static bool is_allowed(int rc)
{
    return rc == TEND_EIO || rc == TEND_EFULL || rc == TEND_EUNREACHABLE;
}

/* True when the call went through; otherwise it must have failed in a decent way, and because of
 * us. */
static bool went_through(struct told *told, tend *t, int rc)
{
    if (rc >= 0)
        return true;
    if (!fault_vfs_struck() || !is_allowed(rc))
        test_fail(__FILE__, __LINE__, "a call answers %d: %s", rc, tend_errmsg(t));
    check(tend_errmsg(t)[0] != '\0');
    __atomic_add_fetch(&told->failures, 1, __ATOMIC_RELAXED);
    if (told->heals)
        fault_vfs_heal();
    return false;
}

static tend *open_store(struct told *told, const char *path)
{
    char url[600];
    tend *t;
    snprintf(url, sizeof url, "sqlite:%s", path);
    for (int tries = 0; tries < 3; tries++) {
        int rc = tend_open(&t, url, NULL);
        if (told == NULL && rc < 0)
            test_fail(__FILE__, __LINE__, "opening %s: %s", url, tend_errmsg(t));
        if (told == NULL || went_through(told, t, rc)) {
            /* Checkpoints in between, not only at the end. */
            sqlite3_wal_autocheckpoint(((struct sqlite_db *)t->db)->writer.sqlite, 12);
            return t;
        }
        tend_close(t);
    }
    return NULL; /* the power is off */
}

/* --- the workload --- */

static void add_marks(struct told *told, tend *t, int mark, int count)
{
    struct tend_job_spec specs[BATCH];
    struct tend_added added[BATCH];
    char payloads[BATCH][2048];
    for (int i = 0; i < count; i++) {
        tend_job_spec_init(&specs[i]);
        snprintf(payloads[i], sizeof payloads[i], "{\"mark\":%d,\"text\":\"%0*d\"}", mark + i,
                 count > 1 ? 1900 : 10, 7);
        specs[i].payload = payloads[i];
    }
    if (!went_through(told, t, tend_add_many(t, specs, (size_t)count, added)))
        return;
    for (int i = 0; i < count; i++)
        told->id[mark + i] = added[i].id;
}

static int mark_of(const struct tend_job *job)
{
    return atoi(job->payload + strlen("{\"mark\":"));
}

static void work_off(struct told *told, tend *t, size_t count)
{
    struct tend_claim claim;
    struct tend_jobs *jobs;
    struct tend_lease leases[8];
    tend_claim_init(&claim);
    claim.count = count;
    int got = tend_claim_jobs(t, &claim, &jobs, NULL);
    if (got == TEND_EEMPTY || !went_through(told, t, got))
        return;
    for (int i = 0; i < got; i++)
        leases[i] = (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
    went_through(told, t, tend_heartbeat(t, leases, (size_t)got, 60000, NULL));
    if (went_through(told, t, tend_complete(t, leases, (size_t)got, NULL, NULL)))
        for (int i = 0; i < got; i++)
            told->completed[mark_of(&jobs->items[i])] = true;
    tend_jobs_free(jobs);
}

struct adder {
    struct told *told;
    tend *t;
    int mark;
};

static void *add_in_thread(void *arg)
{
    struct adder *adder = arg;
    for (int i = 0; i < PER_THREAD; i++)
        add_marks(adder->told, adder->t, adder->mark + i, 1);
    return NULL;
}

/* Group commit: those who come at the same time are committed together. */
static void add_in_threads(struct told *told, tend *t)
{
    pthread_t threads[THREADS];
    struct adder adders[THREADS];
    for (int i = 0; i < THREADS; i++) {
        adders[i] = (struct adder){told, t, THREAD_MARK + i * PER_THREAD};
        check_int(pthread_create(&threads[i], NULL, add_in_thread, &adders[i]), ==, 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void run_workload(struct told *told, const char *path)
{
    tend *t = open_store(told, path);
    if (t == NULL)
        return;
    for (int i = 0; i < 3; i++)
        add_marks(told, t, i, 1);
    add_marks(told, t, BATCH_MARK, BATCH);
    work_off(told, t, 3);
    tend_close(t); /* checkpoints and removes the write-ahead log */
    if ((t = open_store(told, path)) == NULL)
        return;
    for (int i = 3; i < SINGLES; i++)
        add_marks(told, t, i, 1);
    add_in_threads(told, t);
    work_off(told, t, 2);
    tend_close(t);
}

/* --- what must hold --- */

static void check_sound(const char *path)
{
    sqlite3 *sqlite;
    sqlite3_stmt *statement;
    check_int(sqlite3_open(path, &sqlite), ==, SQLITE_OK);
    check_int(sqlite3_prepare_v2(sqlite, "PRAGMA integrity_check", -1, &statement, NULL), ==,
              SQLITE_OK);
    check_int(sqlite3_step(statement), ==, SQLITE_ROW);
    check_str((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(sqlite);
}

/* The job is as its history says, from its first event on. */
static void check_whole(tend *t, const struct tend_job *job)
{
    struct tend_events *events;
    int state = -1;
    check_int(tend_job_events(t, job->id, &events), ==, 0);
    check_int(events->count, >, 0);
    check_str(events->items[0].what, "job.added");
    for (size_t i = 0; i < events->count; i++) {
        check_int(events->items[i].from_state, ==, state);
        state = events->items[i].to_state;
    }
    check_int(state, ==, job->state);
    tend_events_free(events);
}

static void check_store(const struct told *told, const char *path)
{
    struct tend_filter filter;
    struct tend_jobs *jobs;
    bool there[MARKS] = {false};
    int in_batch = 0;
    tend *t = open_store(NULL, path);
    tend_filter_init(&filter);
    check_int(tend_list(t, &filter, &jobs), ==, 0);
    for (size_t i = 0; i < jobs->count; i++) {
        int mark = mark_of(&jobs->items[i]);
        check(mark >= 0 && mark < MARKS && !there[mark]);
        there[mark] = true;
        check(told->id[mark] == 0 || told->id[mark] == jobs->items[i].id);
        if (told->completed[mark])
            check_int(jobs->items[i].state, ==, TEND_DONE);
        check_whole(t, &jobs->items[i]);
        in_batch += mark >= BATCH_MARK && mark < BATCH_MARK + BATCH;
    }
    tend_jobs_free(jobs);
    for (int mark = 0; mark < MARKS; mark++)
        check(told->id[mark] == 0 || there[mark]);
    check(in_batch == 0 || in_batch == BATCH);
    /* And it goes on. */
    struct told after = {0};
    add_marks(&after, t, MARKS - 1, 1);
    work_off(&after, t, 8);
    check_int(after.failures, ==, 0);
    tend_close(t);
    check_sound(path);
}

/* --- sweeps --- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static const char *fresh_folder(const char *name)
{
    const char *path = test_path(name);
    nftw(path, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
    check_int(mkdir(path, 0755), ==, 0);
    return path;
}

struct sweep {
    enum fault_kind kind;
    enum survival survival;
    bool power_goes; /* at the end, if not before: only what is synced counts */
    uint64_t seed;
};

/* One run with the fault at call number `at`; false when the workload has not that many. */
static bool run_with_fault(const struct sweep *sweep, long at)
{
    struct told told = {.heals = sweep->kind == FAULT_DISK_FULL};
    struct rng rng;
    char path[512];
    rng_seed(&rng, sweep->seed + (uint64_t)at);
    snprintf(path, sizeof path, "%s/tend.db", fresh_folder("store"));
    fault_vfs_install();
    fault_vfs_plan(sweep->kind, at, &rng);
    run_workload(&told, path);
    bool struck = fault_vfs_struck();
    if (sweep->power_goes) {
        const char *folder = fresh_folder("survivors");
        fault_vfs_survivors(folder, sweep->survival);
        snprintf(path, sizeof path, "%s/tend.db", folder);
    }
    fault_vfs_remove();
    check_store(&told, path);
    if (sweep->kind == FAULT_ERROR || sweep->kind == FAULT_DISK_FULL) /* then it was over */
        check_int(told.failures, <=, THREADS);
    return struck;
}

static void sweep_over(struct sweep sweep)
{
    long at = 1;
    while (run_with_fault(&sweep, at))
        at++;
    printf("%ld calls\n", at - 1);
    check_int(at, >, 50);
}

#define WITHIN_S 180

TEST_WITHIN(faults, an_error_at_any_call_loses_nothing_and_the_handle_goes_on, WITHIN_S)
{
    sweep_over((struct sweep){.kind = FAULT_ERROR});
}

/* As above, and in the end only what was synced is there; a failed sync may have dropped its pages
 * for good. */
TEST_WITHIN(faults, an_error_at_any_call_and_a_power_loss_later_lose_nothing, WITHIN_S)
{
    sweep_over((struct sweep){
        .kind = FAULT_ERROR, .power_goes = true, .survival = SURVIVES_SOMETHING, .seed = 100});
}

TEST_WITHIN(faults, a_full_disk_at_any_write_loses_nothing_and_the_handle_goes_on, WITHIN_S)
{
    sweep_over((struct sweep){.kind = FAULT_DISK_FULL});
}

TEST_WITHIN(faults, power_lost_at_any_call_with_nothing_unsynced_on_disk, WITHIN_S)
{
    sweep_over(
        (struct sweep){.kind = FAULT_POWER_OFF, .power_goes = true, .survival = SURVIVES_NOTHING});
}

TEST_WITHIN(faults, power_lost_at_any_call_with_everything_on_disk, WITHIN_S)
{
    sweep_over((struct sweep){
        .kind = FAULT_POWER_OFF, .power_goes = true, .survival = SURVIVES_EVERYTHING});
}

TEST_WITHIN(faults, power_lost_at_any_call_with_some_sectors_on_disk, WITHIN_S)
{
    sweep_over((struct sweep){
        .kind = FAULT_POWER_OFF, .power_goes = true, .survival = SURVIVES_SOMETHING, .seed = 200});
}

TEST_WITHIN(faults, a_write_torn_at_any_call, WITHIN_S)
{
    sweep_over((struct sweep){
        .kind = FAULT_TORN, .power_goes = true, .survival = SURVIVES_EVERYTHING, .seed = 300});
}
