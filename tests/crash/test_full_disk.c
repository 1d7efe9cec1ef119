/*
 * A disk that is full for real: a small file system where this process may mount one, else a limit
 * on the size of files. Nothing acknowledged is lost, the answer is a code and a sentence, and once
 * there is room the same handle works again.
 */
#include "base/clock.h"
#include "ledger.h"
#include "support/mounts.h"
#include "verdict.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DISK_BYTES = 3 << 20, BALLAST_BYTES = 1 << 20, PAYLOAD_BYTES = 20000, ENOUGH = 2000 };
enum { LEASE_MS = 3000 };

/*
 * The folder of the store. Mounted in a namespace of the test's own, it goes with the test's
 * process.
 */
static bool mount_small_disk(void)
{
    return mounts_own() && mounts_disk(test_folder(), keep_text("%d", DISK_BYTES));
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    check_int(getrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    limit.rlim_cur = bytes;
    check_int(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
}

/* Something to delete when room is wanted. */
static void write_ballast(void)
{
    static char zeroes[BALLAST_BYTES];
    int fd = open(test_path("ballast"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    check_int(write(fd, zeroes, sizeof zeroes), ==, sizeof zeroes);
    close(fd);
}

struct disk {
    bool mounted;
};

static struct disk prepare(void)
{
    struct disk disk = {.mounted = mount_small_disk()};
    printf("# the disk is full by %s\n", disk.mounted ? "a small file system" : "a limit on files");
    signal(SIGXFSZ, SIG_IGN);
    if (disk.mounted)
        write_ballast();
    else
        limit_file_size(DISK_BYTES);
    return disk;
}

static void make_room(const struct disk *disk)
{
    if (disk->mounted)
        check_int(unlink(test_path("ballast")), ==, 0);
    else
        limit_file_size(RLIM_INFINITY);
}

/* Adds until it is refused; ids go to acked, their number comes back. */
static size_t add_until_full(tend *t, int64_t *acked, int *ret_code)
{
    static char payload[PAYLOAD_BYTES];
    struct tend_job_spec spec = spec_for("q");
    memset(payload, '5', sizeof payload);
    spec.payload = payload;
    spec.payload_bytes = sizeof payload;
    for (size_t count = 0; count < ENOUGH; count++) {
        struct tend_added added;
        int rc = tend_add(t, &spec, &added);
        if (rc < 0) {
            *ret_code = rc;
            return count;
        }
        acked[count] = added.id;
    }
    test_fail(__FILE__, __LINE__, "the disk never gets full");
}

static void check_refusal(tend *t, int code, const struct disk *disk)
{
    printf("# %s\n", tend_errmsg(t));
    check_int(code, ==, TEND_EFULL);
    check_contains(tend_errmsg(t), disk->mounted ? "make room" : "ulimit -f");
    check_contains(tend_errmsg(t), store_path());
}

static void check_all_there(const int64_t *acked, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_int(sql_int("SELECT count(*) FROM job WHERE id = %lld", (long long)acked[i]), ==, 1);
    check_int(sql_int("SELECT count(*) FROM job"), >=, count);
    verdict_record_is_whole();
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}

TEST(full_disk, nothing_acknowledged_is_lost_and_the_same_handle_works_again_once_there_is_room)
{
    static int64_t acked[ENOUGH];
    struct disk disk = prepare();
    int code;
    tend *t = store_open_real("w");
    size_t count = add_until_full(t, acked, &code);
    check_int(count, >, 10);
    check_refusal(t, code, &disk);
    check_all_there(acked, count);
    make_room(&disk);
    acked[count++] = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_all_there(acked, count);
    store_close(t);
    store_sql_close();
    store_open_real("v");
    check_all_there(acked, count);
}

TEST(full_disk, claims_heartbeats_and_completions_are_refused_or_done_but_never_half)
{
    static int64_t acked[ENOUGH];
    struct disk disk = prepare();
    struct tend_lease leases[4];
    int code;
    int done = 0;
    tend *t = store_open_real("w");
    add_number(t, "q", 4);
    check_int(claim_many(t, "q", 4, leases), ==, 4);
    size_t count = add_until_full(t, acked, &code);
    check_refusal(t, code, &disk);
    /* Small changes may still find a little room. */
    for (int i = 0; i < 4; i++) {
        int rc = tend_heartbeat(t, &leases[i], 1, 60000, NULL);
        check(rc == 0 || rc == TEND_EFULL || rc == TEND_EIO);
        rc = tend_complete(t, &leases[i], 1, NULL, NULL);
        check(rc == 0 || rc == TEND_EFULL || rc == TEND_EIO);
        done += rc == 0;
    }
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, done);
    check_int(count_events("job.completed"), ==, done);
    make_room(&disk);
    check_ok(t, tend_complete(t, leases, 4, NULL, NULL)); /* also those that were done already */
    check_int(count_events("job.completed"), ==, 4);
    check_all_there(acked, count);
}

/* To the last byte. */
static void fill(const struct disk *disk)
{
    static char zeroes[4096];
    if (!disk->mounted) {
        limit_file_size(16384);
        return;
    }
    int fd = open(test_path("filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    while (write(fd, zeroes, sizeof zeroes) > 0)
        continue;
    close(fd);
}

static void check_does_not_open(const struct disk *disk)
{
    tend *t;
    int code = tend_open(&t, store_url(), NULL);
    check_refusal(t, code, disk);
    tend_close(t);
}

/* Reading needs a little room, for the index of the log. */
TEST(full_disk, a_store_that_cannot_be_read_for_want_of_room_can_be_read_later)
{
    struct disk disk = prepare();
    tend *t = store_open_real("w");
    int64_t id = add_one(t, "q");
    store_close(t); /* which removes the log */
    fill(&disk);
    check_does_not_open(&disk);
    make_room(&disk);
    t = store_open_real("v");
    check_int(job_of(t, id)->id, ==, id);
}

/* A lease of LEASE_MS that somebody has who is not there now. Its end. */
static int64_t leave_lease(int64_t *ret_id)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    *ret_id = add_one(t, "q");
    claim.flags = TEND_CLAIM_BY_TIME;
    claim.ttl_ms = LEASE_MS;
    check_int(tend_claim_jobs(t, &claim, &jobs, NULL), ==, 1);
    int64_t ends_ms = jobs->items[0].until_ms;
    tend_jobs_free(jobs);
    store_close(t);
    return ends_ms;
}

static void outlive_lease(void)
{
    int64_t until_ms = clock_wall_ms() + LEASE_MS + 1000;
    wait_until(clock_wall_ms() > until_ms, PATIENCE_MS);
}

static void check_lease_was_moved(int64_t id, int64_t ends_ms)
{
    tend *t = store_open_real("v");
    check_int(claim_many(t, "q", 1, NULL), ==, 0);
    check_int(job_of(t, id)->state, ==, TEND_RUNNING);
    check_int(job_of(t, id)->crashes, ==, 0);
    check_int(job_of(t, id)->until_ms, >=, ends_ms + LEASE_MS);
}

/* Whoever came failed to open the store, and nobody wrote down that nobody could write. */
TEST_WITHIN(full_disk, BY_9_no_lease_ends_while_the_store_cannot_be_opened_for_want_of_room, 60)
{
    struct disk disk = prepare();
    int64_t id;
    if (!disk.mounted) /* a limit on files is this process's own */
        return;
    int64_t ends_ms = leave_lease(&id);
    fill(&disk);
    check_does_not_open(&disk);
    outlive_lease();
    make_room(&disk);
    check_lease_was_moved(id, ends_ms);
}

/* The same where there is space, but no files can be made; which was told as a missing folder. */
TEST_WITHIN(full_disk, BY_9_no_lease_ends_while_there_are_no_inodes, 60)
{
    enum { INODES = 40 };
    int64_t id;
    if (!mounts_own() ||
        !mounts_disk(test_folder(), keep_text("%d,nr_inodes=%d", DISK_BYTES, INODES)))
        return;
    int64_t ends_ms = leave_lease(&id);
    for (int i = 0, fd; i < INODES; i++)
        if ((fd = open(test_path(keep_text("filler-%d", i)), O_WRONLY | O_CREAT | O_CLOEXEC,
                       0666)) >= 0)
            close(fd);
    check_does_not_open(&(struct disk){.mounted = true});
    outlive_lease();
    check_int(unlink(test_path("filler-0")), ==, 0);
    check_int(unlink(test_path("filler-1")), ==, 0);
    check_lease_was_moved(id, ends_ms);
}

/* Locks the store when it is told to, until it is told to let go. */
static void lock_store(struct helper *parent, void *arg)
{
    (void)arg;
    helper_hear(parent);
    sql_exec("BEGIN IMMEDIATE");
    helper_say(parent, 0);
    helper_hear(parent);
    sql_exec("ROLLBACK");
    store_sql_close(); /* which removes the log */
}

/* Tries to write for as long as a lease lasts, and a second longer. */
static void fail_to_write(void)
{
    struct tend_options options = store_options("w");
    struct tend_job_spec spec = spec_for("other");
    struct tend_added added;
    options.clock_ms = NULL;
    options.busy_ms = LEASE_MS;
    tend *t = store_open_with(&options);
    int64_t until_ms = clock_wall_ms() + LEASE_MS + 1000;
    while (clock_wall_ms() < until_ms)
        check_rc(t, tend_add(t, &spec, &added), TEND_EBUSY);
    store_close(t);
}

/* Another program had locked the store, and then the disk was full: only the time of the second was
 * given back to the lease. */
TEST_WITHIN(full_disk, BY_9_time_in_which_the_store_was_locked_counts_also_when_opening_fails, 60)
{
    struct disk disk = prepare();
    int64_t id;
    if (!disk.mounted)
        return;
    struct helper stranger = helper_start(lock_store, NULL);
    int64_t ends_ms = leave_lease(&id);
    helper_say(&stranger, 0);
    helper_hear(&stranger);
    fail_to_write();
    helper_say(&stranger, 0);
    helper_join(&stranger);
    fill(&disk);
    check_does_not_open(&disk);
    make_room(&disk);
    check_lease_was_moved(id, ends_ms);
}

TEST(full_disk, a_store_that_cannot_be_made_for_want_of_room_can_be_made_later)
{
    tend *t;
    struct disk disk = prepare();
    fill(&disk);
    check_does_not_open(&disk);
    make_room(&disk);
    t = store_open_real("w");
    add_one(t, "q");
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}
