/*
 * RC-13: a worker in another pid namespace (a container that shares the file) is killed: its jobs
 * come back at once, not at some tick, although no pidfd can be had of it. On SQLite, where the
 * kernel's lock on the worker's byte tells.
 */
#include "support/store.h"

#include "base/clock.h"
#include "store/neighbour.h"
#include "support/mounts.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void claim_and_pause(struct helper *parent)
{
    tend *t = store_open_real("elsewhere");
    claim_one(t, "q");
    helper_say(parent, getpid());
    for (;;)
        pause();
}

static void come_and_go(struct helper *parent)
{
    for (int i = 0; i < 30; i++) {
        tend *t = store_open_real("elsewhere");
        claim_none(t, "empty");
        store_close(t);
    }
    helper_say(parent, getpid());
}

/* Says its pid out here, and what it does in there says the one it has there. */
static void enter_namespace(struct helper *parent, void *arg)
{
    void (**inside)(struct helper *) = arg;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 &&
        unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0)
        test_fail(__FILE__, __LINE__, "no pid namespace can be made: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        if (!mounts_private() || !mounts_proc())
            test_fail(__FILE__, __LINE__, "no /proc can be mounted: %s", strerror(errno));
        (*inside)(parent);
        _exit(0);
    }
    helper_say(parent, pid);
    waitpid(pid, NULL, 0);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* From the kill to the claim of what it held, which waits for nothing else. */
static int64_t kill_one_ms(tend *t)
{
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    void (*inside)(struct helper *) = claim_and_pause;
    struct helper helper = helper_start(enter_namespace, &inside);
    int64_t pid = helper_hear(&helper);
    int64_t inner = helper_hear(&helper);
    if (inner > pid) { /* they came in the other order */
        int64_t swapped = pid;
        pid = inner;
        inner = swapped;
    }
    check_int(inner, ==, 1);
    pid_t killer = fork();
    if (killer == 0) { /* while this process waits */
        struct timespec soon = {.tv_nsec = 300000000};
        nanosleep(&soon, NULL);
        int64_t now_ns = clock_mono_ns();
        FILE *file = fopen(test_path("killed"), "we");
        fwrite(&now_ns, sizeof now_ns, 1, file);
        fclose(file);
        kill((pid_t)pid, SIGKILL);
        _exit(0);
    }
    claim.wait_ms = PATIENCE_MS;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 1);
    int64_t noticed_ns = clock_mono_ns();
    struct tend_lease lease = lease_of(&jobs->items[0]);
    tend_jobs_free(jobs);
    int64_t killed_ns = 0;
    FILE *file = fopen(test_path("killed"), "re");
    check_int(fread(&killed_ns, sizeof killed_ns, 1, file), ==, 1);
    fclose(file);
    waitpid(killer, NULL, 0);
    helper_join(&helper);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    return (noticed_ns - killed_ns) / 1000000;
}

/* It took 4.4 s. */
TEST_WITHIN(neighbour, a_death_in_another_pid_namespace_is_noticed_at_once, 120)
{
    enum { ROUNDS = 9 };
    struct tend_options options = store_options("w");
    int64_t took_ms[ROUNDS];
    options.clock_ms = NULL;
    options.recovery_ms = 0; /* no timer looks for it */
    tend *t = store_open_with(&options);
    for (int i = 0; i < ROUNDS; i++) {
        add_one(t, "q");
        took_ms[i] = kill_one_ms(t);
    }
    check_int(count_events("worker.died"), ==, ROUNDS);
    qsort(took_ms, ROUNDS, sizeof *took_ms, compare);
    printf("# noticed after %lld ms (median), %lld ms (longest)\n", (long long)took_ms[ROUNDS / 2],
           (long long)took_ms[ROUNDS - 1]);
    check_int(took_ms[ROUNDS / 2], <, 1000);
}

/* A worker was entered before it had its lock, and given two seconds for that; in them its death
 * was not seen. Entry and lock come together now: nobody who looks takes a newcomer for dead. */
TEST_WITHIN(neighbour, one_that_registers_is_at_no_moment_taken_for_dead, 120)
{
    void (*inside)(struct helper *) = come_and_go;
    tend *t = store_open_real("w");
    claim_none(t, "q");
    struct helper helper = helper_start(enter_namespace, &inside);
    while (waitpid(helper.pid, NULL, WNOHANG) == 0)
        recover_now(t);
    check_int(count_events("worker.joined"), ==, 31);
    check_int(count_events("worker.died"), ==, 0);
}

/* --- who watches whom --- */

enum { MOST = 12 };

/* Workers 1 to count; every `per` of them share a container. Whom does `own` watch? */
static int64_t choice_of(int64_t own, int64_t count, int64_t per)
{
    struct db_watched workers[MOST];
    bool seen[MOST];
    size_t others = 0;
    for (int64_t id = count; id >= 1; id--) { /* in no order */
        if (id == own)
            continue;
        workers[others] = (struct db_watched){.id = id};
        seen[others++] = (id - 1) / per == (own - 1) / per;
    }
    return neighbour_choose(workers, seen, others, own);
}

TEST(neighbour, where_each_has_a_container_of_its_own_each_is_watched_by_one)
{
    for (int64_t count = 2; count <= MOST; count++) {
        int watchers[MOST + 1] = {0};
        for (int64_t own = 1; own <= count; own++)
            watchers[choice_of(own, count, 1)]++;
        check_int(watchers[0], ==, 0);
        for (int64_t id = 1; id <= count; id++)
            check_int(watchers[id], ==, 1);
    }
}

TEST(neighbour, of_two_containers_all_are_watched_from_the_other)
{
    for (int64_t per = 1; per <= MOST / 2; per++) {
        int watchers[MOST + 1] = {0};
        for (int64_t own = 1; own <= 2 * per; own++)
            watchers[choice_of(own, 2 * per, per)]++;
        for (int64_t id = 1; id <= 2 * per; id++)
            check_int(watchers[id], ==, 1);
    }
}

TEST(neighbour, nobody_is_watched_whom_a_descriptor_tells_of)
{
    check_int(choice_of(1, 5, 5), ==, 0);
    check_int(neighbour_choose(NULL, NULL, 0, 0), ==, 0);
}
