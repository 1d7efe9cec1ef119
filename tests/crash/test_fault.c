/*
 * BY-2: a disk that fails below SQLite, at every single call in turn: what was acknowledged is
 * there afterwards; what was not is there whole, with its event, or not at all; the store is sound
 * and goes on.
 */
#include "fault_story.h"
#include "verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers take several times as long: not every call then, but others each time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE_FACTOR = 5 };
#else
enum { STRIDE_FACTOR = 1 };
#endif

static void remove_store(void)
{
    static const char *const suffixes[] = {"",      "-wal",  "-shm",    "-journal",
                                           "-lock", "-bell", "-workers"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        unlink(keep_text("%s%s", store_path(), suffixes[i]));
}

/* Runs the story in a process of its own. True when the power went. */
static bool tell(const struct fault_plan *plan, struct diary *diary)
{
    int status;
    const char *url = store_url();
    memset(diary, 0, sizeof *diary);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        story_tell(url, plan, diary);
        exit(0); /* not _exit: a leak is to be told */
    }
    check_int(waitpid(pid, &status, 0), ==, pid);
    bool power = WIFEXITED(status) && WEXITSTATUS(status) == FAULT_POWER_STATUS;
    if (!power && status != 0)
        test_fail(__FILE__, __LINE__, "fault %d at call %u: the process ended with status 0x%x",
                  (int)plan->kind, plan->at, (unsigned)status);
    return power;
}

/* --- afterwards --- */

static void check_there(int64_t id, const char *kind)
{
    int64_t there = sql_int("SELECT count(*) FROM job WHERE kind = '%s'", kind);
    if (id != 0)
        check_int(sql_int("SELECT count(*) FROM job WHERE id = %lld AND kind = '%s'", (long long)id,
                          kind),
                  ==, 1);
    check_int(there, <=, 2); /* one that failed and one that did not */
}

static void check_acknowledged(const struct diary *diary)
{
    for (size_t i = 0; i < STORY_SINGLES; i++)
        check_there(diary->singles[i], keep_text("single-%zu", i));
    for (size_t thread = 0; thread < STORY_THREADS; thread++)
        for (size_t i = 0; i < STORY_PER_THREAD; i++)
            check_there(diary->group[thread][i], keep_text("group-%zu-%zu", thread, i));
    /* All of a batch or nothing; the same holds for one that was tried again. */
    int64_t batch = sql_int("SELECT count(*) FROM job WHERE kind = 'batch'");
    check_int(batch % STORY_BATCH, ==, 0);
    for (size_t i = 0; i < STORY_BATCH && diary->batch[0] != 0; i++)
        check_int(sql_int("SELECT count(*) FROM job WHERE id = %lld AND kind = 'batch'",
                          (long long)diary->batch[i]),
                  ==, 1);
    for (size_t i = 0; i < STORY_CLAIMED; i++)
        if (diary->completed[i] != 0)
            check_int(
                sql_int("SELECT state FROM job WHERE id = %lld", (long long)diary->completed[i]),
                ==, TEND_DONE);
}

/* The store is as good as any: everything that is left in it can be done. */
static void check_goes_on(tend *t)
{
    struct tend_lease leases[64];
    recover_now(t);
    add_one(t, "q");
    size_t count;
    while ((count = claim_many(t, "q", 64, leases)) > 0)
        check_ok(t, tend_complete(t, leases, count, NULL, NULL));
    check_int(sql_int("SELECT count(*) FROM job WHERE state <> 4"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.completed'"), ==,
              sql_int("SELECT count(*) FROM job"));
}

static void judge(const struct fault_plan *plan, const struct diary *diary)
{
    tend *t;
    int rc = tend_open(&t, store_url(), NULL);
    if (rc != 0)
        test_fail(__FILE__, __LINE__, "after fault %d at call %u: %s", (int)plan->kind, plan->at,
                  tend_errmsg(t));
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
    verdict_record_is_whole();
    check_acknowledged(diary);
    check_goes_on(t);
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
    tend_close(t);
    store_sql_close();
    remove_store();
}

static struct diary *new_diary(void)
{
    void *memory =
        mmap(NULL, sizeof(struct diary), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    return memory;
}

/* TEND_CRASH_SEED: other dice, for runs by hand. */
static uint64_t first_seed(void)
{
    const char *given = getenv("TEND_CRASH_SEED");
    return given != NULL ? strtoull(given, NULL, 10) * 1000000 : 0;
}

/* The story once for every stride-th call, the fault there. */
static void sweep(enum fault_kind kind, unsigned stride)
{
    struct fault_plan plan = {.kind = kind == FAULT_READ ? FAULT_READ : FAULT_NONE};
    struct diary *diary = new_diary();
    unsigned stories = 0;
    unsigned struck = 0;
    tell(&plan, diary);
    judge(&plan, diary);
    unsigned calls = diary->calls;
    check_int(diary->failures, ==, 0);
    check_int(calls, >, 40);
    plan.kind = kind;
    stride *= STRIDE_FACTOR;
    for (plan.at = 1 + (unsigned)getpid() % stride; plan.at <= calls; plan.at += stride) {
        plan.seed = first_seed() + plan.at;
        bool power = tell(&plan, diary);
        struck += power || diary->failures > 0;
        if (diary->failures == 1)
            printf("# at call %u: %s\n", plan.at, diary->first_failure);
        judge(&plan, diary);
        stories++;
    }
    printf("# %u calls, %u stories, %u of them told of the fault\n", calls, stories, struck);
    check_int(struck, >, 0);
    munmap(diary, sizeof *diary);
}

TEST_WITHIN(fault, a_call_that_fails_once_at_any_point_loses_nothing_and_the_handle_goes_on, 300)
{
    sweep(FAULT_ERROR, 1);
}

TEST_WITHIN(fault, space_that_is_short_once_at_any_point_loses_nothing_and_the_handle_goes_on, 300)
{
    sweep(FAULT_FULL, 3);
}

TEST_WITHIN(fault, a_read_that_fails_once_at_any_point_loses_nothing_and_the_handle_goes_on, 300)
{
    sweep(FAULT_READ, 1);
}

TEST_WITHIN(fault, a_disk_that_fails_for_good_at_any_point_keeps_what_was_acknowledged, 300)
{
    sweep(FAULT_ERRORS, 3);
}

TEST_WITHIN(fault, a_disk_that_is_full_for_good_at_any_point_keeps_what_was_acknowledged, 300)
{
    sweep(FAULT_FULL_ON, 3);
}

TEST_WITHIN(fault, power_lost_in_the_middle_of_any_write_keeps_what_was_acknowledged, 300)
{
    sweep(FAULT_TEAR, 1);
}

TEST_WITHIN(fault, power_lost_at_any_point_with_all_that_was_not_synced_keeps_what_was_acknowledged,
            300)
{
    sweep(FAULT_LOSE, 1);
}

TEST_WITHIN(fault,
            power_lost_at_any_point_with_some_of_what_was_not_synced_keeps_what_was_acknowledged,
            300)
{
    sweep(FAULT_LOSE_SOME, 1);
}
