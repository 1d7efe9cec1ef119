/* Waiting costs next to nothing, whatever it is that one waits for; and waiting for locks. */
#include "support/store.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CPU_MAX_MS 400
#else
#define CPU_MAX_MS 50
#endif

static long long cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void check_a_second_of_waiting_is_cheap(tend *t, int expected)
{
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs = NULL;
    claim.wait_ms = 1000;
    long long before_ms = cpu_ms();
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), expected);
    long long used_ms = cpu_ms() - before_ms;
    printf("# %lld ms of CPU for a second of waiting\n", used_ms);
    check_int(used_ms, <, CPU_MAX_MS);
}

TEST(idle, waiting_for_an_empty_queue_does_not_spin)
{
    check_a_second_of_waiting_is_cheap(store_open_real("w"), TEND_EEMPTY);
}

TEST(idle, waiting_for_a_paused_queue_with_jobs_does_not_spin)
{
    tend *t = store_open_real("w");
    add_number(t, "q", 3);
    set_queue(t, "q", "paused", "on");
    check_a_second_of_waiting_is_cheap(t, TEND_EPAUSED);
}

TEST(idle, waiting_for_a_busy_queue_does_not_spin)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "serial", "on");
    add_number(t, "q", 3);
    claim_one(t, "q");
    check_a_second_of_waiting_is_cheap(t, TEND_EBUSY);
}

TEST(idle, waiting_at_a_limit_does_not_spin)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "concurrency", "1");
    set_queue(t, "q", "key-concurrency", "1");
    add_number(t, "q", 300);
    claim_one(t, "q");
    check_a_second_of_waiting_is_cheap(t, TEND_ELIMITED);
}

TEST(idle, waiting_at_a_rate_does_not_spin)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "rate", "1/60s");
    add_number(t, "q", 3);
    claim_one(t, "q");
    check_a_second_of_waiting_is_cheap(t, TEND_ELIMITED);
}

/* LS-7: a recovery that keeps failing must not be tried without end in between. */
TEST(idle, waiting_while_recovery_keeps_failing_does_not_spin)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("other");
    add_one(t, "other");
    claim.ttl_ms = 1;
    claim.flags = TEND_CLAIM_BY_TIME; /* a registered worker that lives would be warned first */
    claim_with(t, &claim);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    check_a_second_of_waiting_is_cheap(t, TEND_EEMPTY);
    check_contains(store_log(), "recovery failed");
}

static size_t count_lines(const char *part)
{
    size_t count = 0;
    for (const char *at = store_log(); (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void claim_and_pause(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("doomed");
    claim_one(t, "other");
    helper_say(parent, 0);
    for (;;)
        pause();
}

/* A worker that is dead and cannot be buried. */
static void leave_a_body(tend *t)
{
    add_one(t, "other");
    struct helper doomed = helper_start(claim_and_pause, NULL);
    helper_hear(&doomed);
    sql_forbid_move(TEND_RUNNING, TEND_PENDING);
    helper_kill(&doomed);
}

/* Every waiter used a whole core and logged thousands of lines in a second. */
TEST(idle, waiting_while_a_dead_worker_cannot_be_buried_does_not_spin)
{
    tend *t = store_open_real("w");
    leave_a_body(t);
    check_a_second_of_waiting_is_cheap(t, TEND_EEMPTY);
    check_a_second_of_waiting_is_cheap(t, TEND_EEMPTY);
    check_int(count_lines("looking for dead workers failed"), <=, 1);
    check_int(count_lines("works again"), ==, 0);
}

TEST(idle, waiting_for_news_while_a_dead_worker_cannot_be_buried_does_not_spin)
{
    tend *t = store_open_real("w");
    leave_a_body(t);
    check_int(tend_wait(t, 0), ==, 1); /* the first has news always */
    long long before_ms = cpu_ms();
    int64_t until_ms = clock_mono_ms() + 2500;
    while (clock_mono_ms() < until_ms)
        check_int(tend_wait(t, 500), >=, 0);
    check_int(cpu_ms() - before_ms, <, 3 * CPU_MAX_MS);
    check_int(count_lines("looking for dead workers failed"), ==, 1);
    /* It is buried as soon as that is possible, and the log says so once. */
    sql_exec(store_is_postgres() ? "DROP TRIGGER forbidden ON job" : "DROP TRIGGER forbidden");
    wait_until(tend_wait(t, 500) >= 0 &&
                   sql_int("SELECT count(*) FROM worker WHERE name = 'doomed'") == 0,
               PATIENCE_MS);
    check_int(count_lines("looking for dead workers works again"), ==, 1);
}

/* --- processes of which no descriptor can be had --- */

/* As in a sandbox that does not know pidfd_open. */
static void forbid_pidfd_open(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    check_int(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
    check_int(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==, 0);
}

/* pidfd_open refused was taken for a death, at once and again: a whole core for an idle worker. */
TEST(idle, waiting_without_pidfd_open_does_not_spin_and_notices_a_death)
{
    tend *t = store_open_real("w");
    add_one(t, "other");
    struct helper doomed = helper_start(claim_and_pause, NULL);
    helper_hear(&doomed);
    forbid_pidfd_open();
    check_a_second_of_waiting_is_cheap(t, TEND_EEMPTY);
    check_int(count_events("worker.died"), ==, 0);
    helper_kill(&doomed);
    struct tend_claim claim = claim_for("other");
    claim.wait_ms = PATIENCE_MS;
    claim_with(t, &claim);
    check_int(count_events("worker.died"), ==, 1);
}

/* A process that is out of descriptors cannot read /proc either: it took all others for workers of
 * an earlier boot. */
TEST(idle, without_descriptors_nobody_is_taken_for_dead)
{
    tend *t = store_open_real("w");
    struct rlimit limit;
    struct helper healthy[3];
    claim_none(t, "q");
    for (int i = 0; i < 3; i++) {
        add_one(t, "other");
        healthy[i] = helper_start(claim_and_pause, NULL);
        helper_hear(&healthy[i]);
    }
    claim_none(t, "q");
    int next_fd = dup(STDOUT_FILENO);
    close(next_fd);
    check_int(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)next_fd;
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    struct tend_recovery done;
    int rc = tend_detect_and_recover_stale(t, &done);
    limit.rlim_cur = before;
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    if (rc == 0)
        check_int(done.entries_reclaimed, ==, 0);
    check_int(count_events("worker.died"), ==, 0);
    for (int i = 0; i < 3; i++)
        helper_kill(&healthy[i]);
}

/* --- locks --- */

struct lock_waiter {
    tend *t;
    pthread_t thread;
    int rc;
    struct tend_lock lock;
};

static void *wait_for_lock(void *arg)
{
    struct lock_waiter *waiter = arg;
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "l";
    request.owner = "waiter";
    request.wait_ms = PATIENCE_MS;
    waiter->rc = tend_lock_acquire(waiter->t, &request, &waiter->lock);
    return NULL;
}

static void hold(tend *t, int64_t ttl_ms)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "l";
    request.owner = "holder";
    request.ttl_ms = ttl_ms;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
}

static void waiter_go(struct lock_waiter *waiter)
{
    int64_t before = count_events("worker.joined");
    check_int(pthread_create(&waiter->thread, NULL, wait_for_lock, waiter), ==, 0);
    wait_until(count_events("worker.joined") > before, PATIENCE_MS);
}

static void waiter_gets_the_lock(struct lock_waiter *waiter)
{
    pthread_join(waiter->thread, NULL);
    check_rc(waiter->t, waiter->rc, 0);
    check_str(waiter->lock.owner, "waiter");
}

TEST(idle, a_lock_comes_to_the_one_who_waits_when_it_is_released)
{
    tend *t = store_open_real("a");
    struct lock_waiter waiter = {.t = store_open_real("b")};
    hold(t, HOUR_MS);
    waiter_go(&waiter);
    check_int(tend_lock_release(t, "l", "holder"), ==, 1);
    waiter_gets_the_lock(&waiter);
}

TEST(idle, a_lock_comes_to_the_one_who_waits_when_it_expires)
{
    tend *t = store_open_real("a");
    struct lock_waiter waiter = {.t = store_open_real("b")};
    hold(t, 300);
    waiter_go(&waiter);
    waiter_gets_the_lock(&waiter);
}

/* Closing used to free locks without waking those who wait for them. */
TEST(idle, a_lock_comes_to_the_one_who_waits_when_its_holder_closes)
{
    tend *t = store_open_real("a");
    struct lock_waiter waiter = {.t = store_open_real("b")};
    hold(t, HOUR_MS);
    waiter_go(&waiter);
    store_close(t);
    waiter_gets_the_lock(&waiter);
}

TEST(idle, an_interrupt_ends_waiting_for_a_lock)
{
    tend *t = store_open_real("a");
    struct lock_waiter waiter = {.t = store_open_real("b")};
    hold(t, HOUR_MS);
    waiter_go(&waiter);
    tend_interrupt(waiter.t);
    pthread_join(waiter.thread, NULL);
    check_int(waiter.rc, ==, TEND_EINTERRUPTED);
}

TEST(idle, waiting_for_a_lock_ends_with_its_time_and_does_not_spin)
{
    tend *t = store_open_real("a");
    struct tend_lock_request request;
    hold(t, HOUR_MS);
    tend_lock_request_init(&request);
    request.name = "l";
    request.owner = "other";
    request.wait_ms = 1000;
    long long begin_ms = test_clock_ms();
    long long before_ms = cpu_ms();
    check_rc(t, tend_lock_acquire(t, &request, NULL), TEND_EBUSY);
    check_int(test_clock_ms() - begin_ms, >=, 1000);
    check_int(cpu_ms() - before_ms, <, CPU_MAX_MS);
}
