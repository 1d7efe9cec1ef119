/*
 * A program that has the write lock of an SQLite store and does not stand in tend's line: how long
 * callers wait for it (CL-5), who is named, and that no lease ends by it.
 */
#include "support/store.h"

#include "base/clock.h"
#include "queue/lease.h"
#include "store/holder.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* When it is told to, it locks the store until it is killed or hears something. */
static void lock_store(struct helper *parent, void *arg)
{
    (void)arg;
    helper_hear(parent);
    sql_exec("BEGIN IMMEDIATE");
    helper_say(parent, 0);
    helper_hear(parent);
    sql_exec("ROLLBACK");
}

/* Before the store is opened here: SQLite in the child of a process that has a file open believes
 * that it has the locks of its parent. */
static struct helper start_stranger(void)
{
    return helper_start(lock_store, NULL);
}

static void let_it_lock(struct helper *stranger)
{
    helper_say(stranger, 0);
    helper_hear(stranger);
}

static int try_add(tend *t)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    return tend_add(t, &spec, &added);
}

static int try_claim(tend *t, int64_t wait_ms)
{
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.wait_ms = wait_ms;
    return tend_claim_jobs(t, &claim, &jobs, NULL);
}

static void *add_in_thread(void *t)
{
    check_ok(t, try_add(t));
    return NULL;
}

static void check_names(tend *t, const struct helper *stranger)
{
    check_contains(tend_errmsg(t), keep_text("process %d (", (int)stranger->pid));
    check_contains(tend_errmsg(t), "has locked the file");
}

/* claim --wait 2s came back after 50 s: five waits of 10 s, whatever the caller had said. */
TEST_WITHIN(sqlite_stranger, a_call_waits_no_longer_than_it_says_and_names_the_program, 60)
{
    struct helper stranger = start_stranger();
    tend *t = store_open_busy("w", 40000);
    claim_none(t, "q");
    let_it_lock(&stranger);
    int64_t begun_ms = clock_mono_ms();
    check_rc(t, try_claim(t, 1500), TEND_EBUSY);
    check_int(clock_mono_ms() - begun_ms, >=, 1500);
    check_int(clock_mono_ms() - begun_ms, <, 25000);
    check_names(t, &stranger);
    store_close(t); /* and closing does not wait for it either */
    check_int(clock_mono_ms() - begun_ms, <, 25000);
    t = store_open_busy("v", 200);
    check_rc(t, try_add(t), TEND_EBUSY);
    check_names(t, &stranger);
    helper_say(&stranger, 0);
    helper_join(&stranger);
    check_ok(t, try_add(t));
}

/* They waited behind one thread that sat in SQLite, and were told that too many are in line. */
TEST_WITHIN(sqlite_stranger, those_who_wait_behind_others_know_why, 60)
{
    struct helper stranger = start_stranger();
    tend *t = store_open_busy("w", 50000);
    tend *other = store_open_busy("v", 50000);
    pthread_t thread;
    claim_none(t, "q");
    claim_none(other, "q");
    let_it_lock(&stranger);
    check_int(pthread_create(&thread, NULL, add_in_thread, t), ==, 0);
    wait_until(strstr(store_log(), "the store cannot be written") != NULL, PATIENCE_MS);
    check_contains(store_log(), keep_text("process %d (", (int)stranger.pid));
    check_rc(t, try_claim(t, 1), TEND_EBUSY); /* behind another thread of its handle */
    check_names(t, &stranger);
    check_rc(other, try_claim(other, 1), TEND_EBUSY); /* behind another handle, in line */
    check_names(other, &stranger);
    helper_say(&stranger, 0);
    helper_join(&stranger);
    pthread_join(thread, NULL);
    check_contains(store_log(), "the store can be written again");
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

static void *claim_shortly(void *t)
{
    check_rc(t, try_claim(t, 1), TEND_EBUSY);
    return NULL;
}

TEST_WITHIN(sqlite_stranger, one_that_gives_up_takes_nobody_with_it, 60)
{
    struct helper stranger = start_stranger();
    tend *t = store_open_busy("w", 50000);
    pthread_t claimer;
    pthread_t adder;
    claim_none(t, "q");
    let_it_lock(&stranger);
    check_int(pthread_create(&claimer, NULL, claim_shortly, t), ==, 0);
    check_int(pthread_create(&adder, NULL, add_in_thread, t), ==, 0);
    pthread_join(claimer, NULL);
    helper_say(&stranger, 0);
    helper_join(&stranger);
    pthread_join(adder, NULL);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

static size_t count_in_log(const char *part)
{
    size_t count = 0;
    for (const char *at = store_log(); (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* Since when the one has the turn who has found the stranger, as the lock file says. */
static int64_t met_stranger_ms(void)
{
    enum { STRANGER_AT = 176 };
    struct holder_note note = {0};
    int fd = open(test_path("tend.db-lock"), O_RDONLY | O_CLOEXEC);
    check_int(pread(fd, &note, sizeof note, STRANGER_AT), ==, sizeof note);
    close(fd);
    return note.since_ms;
}

static void *claim_for_a_while(void *t)
{
    check_rc(t, try_claim(t, 5000), TEND_EBUSY);
    return NULL;
}

/* One in line had said that nobody can write. When the one before it gave up and it got the turn,
 * it said that the store can be written again, with the stranger still there. */
TEST_WITHIN(sqlite_stranger, it_is_over_when_a_write_has_begun_and_not_before, 90)
{
    struct helper stranger = start_stranger();
    tend *t = store_open_busy("w", 50000);
    tend *other = store_open_busy("v", 60000);
    pthread_t claimer;
    pthread_t adder;
    claim_none(t, "q");
    claim_none(other, "q");
    let_it_lock(&stranger);
    check_int(pthread_create(&claimer, NULL, claim_for_a_while, t), ==, 0);
    wait_until(count_in_log("the store cannot be written") == 1, PATIENCE_MS);
    int64_t first_ms = met_stranger_ms();
    check_int(pthread_create(&adder, NULL, add_in_thread, other), ==, 0);
    wait_until(count_in_log("the store cannot be written") == 2, PATIENCE_MS);
    pthread_join(claimer, NULL);
    wait_until(met_stranger_ms() != first_ms, PATIENCE_MS);
    check_int(count_in_log("the store can be written again"), ==, 0);
    helper_say(&stranger, 0);
    helper_join(&stranger);
    pthread_join(adder, NULL);
    check_int(count_in_log("the store cannot be written"), ==, 2);
    check_int(count_in_log("the store can be written again"), ==, 1);
}

enum { LEASE_MS = 4000 };

static int64_t left_of(tend *t, int64_t id)
{
    int64_t now_ms;
    check_ok(t, tend_now(t, &now_ms));
    return job_of(t, id)->until_ms - now_ms;
}

/* A healthy worker lost its job, and a crash was charged: nobody knew that nobody could write. */
TEST_WITHIN(sqlite_stranger, BY_9_time_in_which_a_stranger_keeps_all_from_writing_ends_no_lease, 60)
{
    struct helper stranger = start_stranger();
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = LEASE_MS;
    struct tend_lease lease = claim_with(t, &claim);
    let_it_lock(&stranger);
    pthread_t thread;
    check_int(pthread_create(&thread, NULL, add_in_thread, other), ==, 0);
    wait_until(left_of(t, id) < -SECOND_MS, PATIENCE_MS);
    check_int(lease_blocked_ms(t), >=, SECOND_MS);
    helper_kill(&stranger);
    pthread_join(thread, NULL);
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    int64_t left_ms = left_of(other, id);
    check_int(left_ms, >, 0);
    /* Once: what the leases got back is not given to them again. */
    check_int(lease_blocked_ms(t), ==, 0);
    check_ok(other, try_add(other));
    check_int(left_of(other, id), <=, left_ms);
    check_int(count_events("clock.stepped"), ==, 1);
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    check_int(job_of(t, id)->crashes, ==, 0);
}
