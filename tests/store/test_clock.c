/*
 * BY-9 on SQLite: clocks that are set, machines that sleep, and stores that nobody can write. None
 * of it ends a lease or is charged to anybody, and store time keeps going.
 *
 * The tests have a wall clock and a time since boot of their own, which they move apart.
 */
#include "queue/handle.h"
#include "queue/lease.h"
#include "support/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAGE_AT = 256, PAGE_BYTES = 256, LEASE_MS = 60000 };

/* The clocks of one machine; wrong_ms: what one process sees. */
struct machine {
    int64_t wall_ms, awake_ms, slept_ms;
};

static struct machine machine = {.wall_ms = CLOCK_START_MS, .awake_ms = 1000000};
static int64_t right = 0;

static int64_t wall_ms(void *wrong_ms)
{
    return machine.wall_ms + *(int64_t *)wrong_ms;
}

/* Commits once, right after the clocks were read by another. */
static tend *intruder;

static void live(int64_t ms);

static int64_t uptime_ms(void *wrong_ms, int with_sleep)
{
    (void)wrong_ms;
    int64_t uptime = machine.awake_ms + (with_sleep ? machine.slept_ms : 0);
    tend *t = with_sleep ? NULL : intruder;
    if (t != NULL) {
        intruder = NULL;
        live(1);
        add_one(t, "between");
    }
    return uptime;
}

static tend *open_with_clock(const char *name, int64_t *wrong_ms)
{
    struct tend_options options = store_options(name);
    options.clock_ms = wall_ms;
    options.clock_arg = wrong_ms;
    options.uptime_ms = uptime_ms;
    return store_open_with(&options);
}

static tend *open_here(const char *name)
{
    return open_with_clock(name, &right);
}

static void live(int64_t ms)
{
    machine.wall_ms += ms;
    machine.awake_ms += ms;
}

static void set_clock_by(int64_t ms)
{
    machine.wall_ms += ms;
}

static void sleep_for(int64_t ms)
{
    machine.wall_ms += ms;
    machine.slept_ms += ms;
}

static int64_t now_of(tend *t)
{
    int64_t now_ms = -1;
    check_ok(t, tend_now(t, &now_ms));
    return now_ms;
}

static struct tend_lease claim_lease(tend *t, int64_t ttl_ms)
{
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = ttl_ms;
    return claim_with(t, &claim);
}

static int64_t left_of(tend *t, int64_t id)
{
    return job_of(t, id)->until_ms - now_of(t);
}

/* --- forward --- */

static void take_lock(tend *t, const char *name, int64_t ttl_ms)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = name;
    request.ttl_ms = ttl_ms;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
}

/* Four jobs of healthy workers were poison after three steps, though nobody had died. */
static void check_leases_outlive(void (*jump)(int64_t ms))
{
    tend *t = open_here("worker");
    tend *other = open_here("other");
    struct tend_lease leases[4];
    add_number(t, "q", 4);
    for (int i = 0; i < 4; i++)
        leases[i] = claim_lease(t, LEASE_MS);
    take_lock(t, "door", LEASE_MS);
    for (int round = 1; round <= 3; round++) {
        live(LEASE_MS / 4);
        check_ok(t, tend_heartbeat(t, leases, 4, LEASE_MS, NULL));
        live(LEASE_MS / 2);
        jump(600 * SECOND_MS);
        check_nothing_announced(other, leases[0].id); /* RC-3 */
        check_int(lease_blocked_ms(other), ==, 0);
        struct tend_recovery recovery = recover_now(other);
        check_int(recovery.entries_reclaimed, ==, 0);
        check_int(claim_none(other, "q").code, ==, TEND_EEMPTY);
        check_int(left_of(t, leases[0].id), ==, LEASE_MS / 2);
        check_int(now_of(t) - job_of(t, leases[0].id)->seen_at_ms, ==, LEASE_MS / 2);
        check_int(count_events("clock.stepped"), ==, round);
        check_int(tend_is_lock_stale(t, "door"), ==, 0);
        check_int(tend_lock_extend(t, "door", NULL, LEASE_MS), ==, 1);
    }
    check_str(sql_rows("SELECT DISTINCT data FROM event WHERE what = 'clock.stepped'"),
              "{\"by_ms\":600000}\n");
    check_int(sql_int("SELECT clock_steps FROM store"), ==, 3);
    check_int(sql_int("SELECT sum(crashes) FROM job"), ==, 0);
    check_ok(t, tend_complete(t, leases, 4, NULL, NULL));
}

TEST(clock, BY_9_a_clock_that_is_set_forward_ends_no_lease_and_charges_nobody)
{
    check_leases_outlive(set_clock_by);
}

TEST(clock, BY_9_a_machine_that_sleeps_ends_no_lease_and_charges_nobody)
{
    check_leases_outlive(sleep_for);
}

/* Silence while the clock ran evenly is evidence, however often it has jumped. */
TEST(clock, BY_9_who_is_silent_for_the_time_of_its_lease_loses_it_all_the_same)
{
    tend *t = open_here("worker");
    int64_t id = add_one(t, "q");
    claim_lease(t, LEASE_MS);
    live(LEASE_MS / 2);
    set_clock_by(600 * SECOND_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    live(LEASE_MS / 2 - 1);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    live(1);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(job_of(t, id)->crashes, ==, 1);
}

/* "At noon" is a time of the wall clock. */
TEST(clock, due_times_are_times_of_the_wall_clock_and_do_not_move)
{
    tend *t = open_here("worker");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = 300 * SECOND_MS;
    int64_t id = add_spec(t, &spec);
    live(SECOND_MS);
    sleep_for(400 * SECOND_MS);
    check_int(claim_one(t, "q").id, ==, id);
}

/* A reclaim by hand asks how long somebody was silent: asleep, nobody is. */
TEST(clock, a_threshold_by_hand_does_not_count_sleep_as_silence)
{
    tend *t = open_here("worker");
    struct tend_recovery recovery;
    add_one(t, "q");
    claim_lease(t, LEASE_MS);
    live(SECOND_MS);
    sleep_for(HOUR_MS);
    check_ok(t, tend_reclaim_stale(t, 10 * SECOND_MS, &recovery));
    check_int(recovery.entries_reclaimed, ==, 0);
    live(10 * SECOND_MS);
    check_ok(t, tend_reclaim_stale(t, 10 * SECOND_MS, &recovery));
    check_int(recovery.entries_reclaimed, ==, 1);
}

static void read_page(char page[PAGE_BYTES])
{
    int fd = open(keep_text("%s-lock", store_path()), O_RDWR | O_CLOEXEC);
    memset(page, 0, PAGE_BYTES);
    check_int(pread(fd, page, PAGE_BYTES, PAGE_AT), >, 0);
    close(fd);
}

static void write_page(const char page[PAGE_BYTES])
{
    int fd = open(keep_text("%s-lock", store_path()), O_RDWR | O_CLOEXEC);
    check_int(pwrite(fd, page, PAGE_BYTES, PAGE_AT), ==, PAGE_BYTES);
    close(fd);
}

/* A process that dies after it has moved the leases and before it could note that it has. */
TEST(clock, leases_are_moved_once_although_the_one_who_moved_them_died)
{
    char before[PAGE_BYTES];
    tend *t = open_here("worker");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_lease(t, LEASE_MS);
    read_page(before);
    set_clock_by(HOUR_MS);
    recover_now(t);
    check_int(left_of(t, id), ==, LEASE_MS);
    write_page(before);
    recover_now(t);
    check_int(left_of(t, id), ==, LEASE_MS);
    check_int(count_events("clock.stepped"), ==, 1);
    /* And the page is of use again. */
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    set_clock_by(HOUR_MS);
    recover_now(t);
    check_int(left_of(t, id), ==, LEASE_MS);
}

TEST(clock, a_page_that_is_garbage_is_made_anew)
{
    char garbage[PAGE_BYTES];
    tend *t = open_here("worker");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_lease(t, LEASE_MS);
    memset(garbage, 0xa5, sizeof garbage);
    write_page(garbage);
    live(SECOND_MS);
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    check_int(left_of(t, id), ==, LEASE_MS);
    set_clock_by(HOUR_MS);
    recover_now(t);
    check_int(left_of(t, id), ==, LEASE_MS);
}

/* --- back --- */

/* Store time stood still for two hours: leases, retries, delays and rates with it. */
TEST(clock, a_wrong_clock_in_one_command_does_not_stop_store_time)
{
    static int64_t wrong_ms = 2 * HOUR_MS;
    tend *t = open_here("worker");
    tend *wrong = open_with_clock("wrong", &wrong_ms);
    set_queue(t, "rated", "rate", "2/1s");
    int64_t before_ms = now_of(t);
    int64_t held = add_one(t, "q");
    claim_lease(t, 2 * SECOND_MS);
    add_one(wrong, "other");
    check_int(left_of(t, held), ==, 2 * SECOND_MS);
    int64_t now_ms = now_of(t);
    check_int(now_ms, ==, before_ms + 2 * HOUR_MS);

    struct tend_job_spec spec = spec_for("delayed");
    spec.delay_ms = 2 * SECOND_MS;
    add_spec(t, &spec);
    add_number(t, "rated", 3);
    check_int(claim_many(t, "rated", 3, NULL), ==, 2);
    struct tend_lease lease = claim_one(t, "other");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = SECOND_MS;
    check_ok(t, tend_fail(t, lease, &failure, NULL));

    live(1600);
    check_int(now_of(t), ==, now_ms + 1500);
    check_int(claim_one(t, "other").id, ==, lease.id);
    check_int(claim_many(t, "rated", 3, NULL), ==, 1);
    check_int(claim_none(t, "delayed").code, ==, TEND_EEMPTY);
    live(800);
    check_int(claim_many(t, "delayed", 1, NULL), ==, 1);
    check_int(claim_one(t, "q").id, ==, held);
    check_int(job_of(t, held)->crashes, ==, 1);
}

TEST(clock, store_time_ahead_of_the_wall_clock_meets_it_again_and_never_runs_back)
{
    tend *t = open_here("worker");
    add_one(t, "q");
    set_clock_by(-HOUR_MS);
    int64_t last_ms = now_of(t);
    for (int hour = 0; hour < 20; hour++) {
        live(HOUR_MS);
        add_one(t, "q");
        check_int(now_of(t), >, last_ms);
        last_ms = now_of(t);
        check_int(last_ms, >=, machine.wall_ms);
    }
    check_int(last_ms, ==, machine.wall_ms);
}

/* Also for one who only looks, and for a process that has just begun. */
TEST(clock, store_time_goes_on_for_readers_too)
{
    tend *t = open_here("worker");
    add_one(t, "q");
    int64_t before_ms = now_of(t);
    set_clock_by(-HOUR_MS);
    live(16 * SECOND_MS);
    check_int(now_of(t), ==, before_ms + 15 * SECOND_MS);
    check_int(now_of(open_here("new")), ==, before_ms + 15 * SECOND_MS);
}

/* The page was of a later time than the clocks, and was left aside: store time ran back to the
 * newest event. */
TEST(clock, a_commit_in_the_moment_of_reading_does_not_move_store_time)
{
    tend *t = open_here("worker");
    add_one(t, "q");
    int64_t before_ms = now_of(t);
    set_clock_by(-HOUR_MS);
    live(16 * SECOND_MS);
    tend *reader = open_here("reader");
    intruder = t;
    check_int(now_of(reader), >=, before_ms + 15 * SECOND_MS);
    check(intruder == NULL);
    check_int(count_events("job.added"), ==, 2);
}

/* A worker that waits sleeps by a clock that runs evenly; the time it waits for comes later. */
TEST(clock, a_wait_for_the_next_due_job_ends_when_it_is_due)
{
    struct timespec now;
    tend *t = store_open_real("worker");
    struct tend_job_spec spec = spec_for("q");
    add_one(t, "other");
    clock_gettime(CLOCK_REALTIME, &now);
    sql_exec("UPDATE event SET at = at + 3600000"); /* as a process with a wrong clock leaves it */
    store_close(t);
    unlink(keep_text("%s-lock", store_path()));
    t = store_open_real("worker");
    spec.delay_ms = SECOND_MS;
    int64_t id = add_spec(t, &spec);
    check_int(now_of(t) - now.tv_sec * 1000, >=, HOUR_MS);
    tend_wait(t, 0);
    check_int(tend_wait(t, PATIENCE_MS), ==, 1);
    check_int(claim_one(t, "q").id, ==, id);
}

struct clock_finding {
    int verdict;
    char text[512];
};

static void keep_clock_finding(void *arg, enum tend_verdict verdict, const char *what,
                               const char *text)
{
    struct clock_finding *finding = arg;
    if (strcmp(what, "clock") != 0)
        return;
    finding->verdict = (int)verdict;
    snprintf(finding->text, sizeof finding->text, "%s", text);
}

TEST(clock, doctor_tells_how_far_store_time_is_ahead_and_how_often_leases_were_moved)
{
    struct clock_finding finding = {.verdict = -1};
    tend *t = open_here("worker");
    add_one(t, "q");
    check_int(tend_doctor(t, keep_clock_finding, &finding), ==, 0);
    check_int(finding.verdict, ==, TEND_FINE);
    set_clock_by(2 * HOUR_MS);
    add_one(t, "q");
    set_clock_by(-2 * HOUR_MS);
    check_int(tend_doctor(t, keep_clock_finding, &finding), ==, 0);
    check_int(finding.verdict, ==, TEND_NOTE);
    check_contains(finding.text, "2h ahead of this machine's clock");
    check_contains(finding.text, "moved 1 time:");
}

/* --- nobody can write --- */

static void hold_the_turn(struct helper *parent, void *arg)
{
    (void)arg;
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    check_int(fcntl(fd, F_OFD_SETLKW, &lock), ==, 0);
    helper_say(parent, 0);
    helper_hear(parent);
}

static void *add_in_thread(void *t)
{
    add_one(t, "other");
    return NULL;
}

/*
 * A process that was stopped with the turn kept a healthy worker from its heartbeat, whose job was
 * taken, and charged, by the first who could write again.
 */
TEST(clock, BY_9_time_in_which_a_stopped_process_kept_all_from_writing_counts_against_no_lease)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_lease(t, 2 * SECOND_MS);
    struct helper holder = helper_start(hold_the_turn, NULL);
    pthread_t thread;
    helper_hear(&holder);
    check_int(pthread_create(&thread, NULL, add_in_thread, other), ==, 0);
    wait_until(left_of(other, id) < -SECOND_MS, PATIENCE_MS);
    check_nothing_announced(t, id);
    check_int(lease_blocked_ms(t), >, 0);
    helper_kill(&holder);
    pthread_join(thread, NULL);
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    check_int(left_of(other, id), >, 0);
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    check_int(job_of(t, id)->crashes, ==, 0);
}

/* As a disk without room. */
static ssize_t write_nothing(int fd, const void *bytes, size_t count, off_t at)
{
    (void)fd, (void)bytes, (void)count, (void)at;
    errno = ENOSPC;
    return -1;
}

static void let_sqlite_write(sqlite3_syscall_ptr writes)
{
    static const char *const names[] = {"pwrite", "pwrite64"};
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        vfs->xSetSystemCall(vfs, names[i], writes);
}

static void let_files_grow(bool may)
{
    let_sqlite_write(may ? NULL : (sqlite3_syscall_ptr)write_nothing);
}

/* The disk was full for longer than the lease; the first who could write again took the job. */
TEST(clock, BY_9_time_in_which_nothing_could_be_saved_counts_against_no_lease)
{
    tend *t = open_here("worker");
    tend *other = open_here("other");
    struct tend_claim claim = claim_for("empty");
    struct tend_jobs *jobs;
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_lease(t, LEASE_MS);
    live(LEASE_MS / 4);
    let_files_grow(false);
    for (int i = 0; i < 4; i++) {
        int rc = tend_heartbeat(t, &lease, 1, LEASE_MS, NULL);
        check(rc == TEND_EFULL || rc == TEND_EIO);
        /* Whoever finds nothing to do writes nothing: that does not show that one could. */
        check_int(tend_claim_jobs(other, &claim, &jobs, NULL), <, 0);
        live(LEASE_MS);
        check_nothing_announced(other, id);
        check_int(lease_blocked_ms(t), ==, (i + 1) * LEASE_MS);
    }
    let_files_grow(true);
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    check_int(left_of(t, id), ==, LEASE_MS - LEASE_MS / 4);
    check_ok(t, tend_heartbeat(t, &lease, 1, LEASE_MS, NULL));
    check_int(job_of(t, id)->crashes, ==, 0);
    /* It can be written again: from here on silence counts. */
    live(LEASE_MS);
    check_int(recover_now(other).entries_reclaimed, ==, 1);
}

/* A limit of one process on the size of files made the leases of all longer. */
TEST(clock, BY_9_that_one_process_cannot_write_does_not_show_that_nobody_can)
{
    tend *t = open_here("worker");
    tend *other = open_here("other");
    struct rlimit limit;
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    add_one(t, "q");
    claim_lease(t, LEASE_MS);
    live(LEASE_MS / 2);
    signal(SIGXFSZ, SIG_IGN);
    check_int(getrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    rlim_t usual = limit.rlim_cur;
    limit.rlim_cur = PAGE_AT + PAGE_BYTES;
    check_int(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    check_rc(other, tend_add(other, &spec, &added), TEND_EFULL);
    check_contains(tend_errmsg(other), "ulimit -f");
    limit.rlim_cur = usual;
    check_int(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    live(LEASE_MS / 2);
    check_int(recover_now(other).entries_reclaimed, ==, 1);
    check_int(count_events("clock.stepped"), ==, 0);
}

static void *claim_and_wait(void *t)
{
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.wait_ms = PATIENCE_MS;
    check_int(tend_claim_jobs(t, &claim, &jobs, NULL), ==, 1);
    tend_jobs_free(jobs);
    return NULL;
}

/* claim --wait on a full disk ended at once, with an error. */
TEST(clock, a_claim_that_waits_waits_for_room_on_the_disk_too)
{
    const char *said = "claiming from queue q failed and is tried again every second";
    tend *t = open_here("worker");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none = {.code = 1};
    pthread_t thread;
    add_one(t, "q");
    let_files_grow(false);
    int64_t begun_ms = db_mono_ms(t->db);
    claim.wait_ms = 1500;
    int rc = tend_claim_jobs(t, &claim, &jobs, &none);
    check(rc == TEND_EFULL || rc == TEND_EIO);
    check_contains(tend_errmsg(t), store_path());
    check_int(none.code, ==, 0);
    check_int(db_mono_ms(t->db) - begun_ms, >=, 1500);
    check_int(pthread_create(&thread, NULL, claim_and_wait, open_here("other")), ==, 0);
    wait_until(strstr(strstr(store_log(), said) + 1, said) != NULL, PATIENCE_MS);
    let_files_grow(true);
    pthread_join(thread, NULL);
    /* Each of the two has said it once. */
    check(strstr(strstr(strstr(store_log(), said) + 1, said) + 1, said) == NULL);
}

static int fail_by_itself(struct db_tx *tx, void *arg)
{
    (void)arg;
    return err_set(db_err(tx), TEND_EIO, "for a reason of its own");
}

/* One worker could not take its liveness lock, and the leases of all others were made longer. */
TEST(clock, BY_9_a_call_that_fails_by_itself_does_not_show_that_nothing_can_be_saved)
{
    tend *t = open_here("worker");
    tend *other = open_here("other");
    struct arena arena;
    struct err err;
    add_one(t, "q");
    claim_lease(t, LEASE_MS);
    live(LEASE_MS / 4);
    arena_init(&arena);
    check_int(db_write(other->db, &arena, fail_by_itself, NULL, &err), ==, TEND_EIO);
    arena_done(&arena);
    live(LEASE_MS);
    check_int(recover_now(other).entries_reclaimed, ==, 1);
}
