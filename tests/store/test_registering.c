/*
 * A handle registers its worker at the first claim or lock, once, however many threads use it. Here
 * the store cannot be written while one of them does.
 */
#include "support/store.h"

#include "queue/handle.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a write waits, and what is much less on a busy machine too. */
enum { BUSY_MS = 50000, WELL_BELOW_MS = 25000 };

/* A thread that claims. */
struct claimer {
    tend *t;
    int64_t wait_ms;
    int expected;
    pthread_t thread;
};

static void *try_claim(void *arg)
{
    const struct claimer *claimer = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs = NULL;
    claim.wait_ms = claimer->wait_ms;
    check_rc(claimer->t, tend_claim_jobs(claimer->t, &claim, &jobs, NULL), claimer->expected);
    if (claimer->expected > 0)
        tend_jobs_free(jobs);
    return NULL;
}

static void start_claimer(struct claimer *claimer)
{
    check_int(pthread_create(&claimer->thread, NULL, try_claim, claimer), ==, 0);
}

/* Somebody waits in the store to register. */
static bool one_waits_in_store(void)
{
    return store_is_postgres() ? sql_int("SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                                         "relation = 'worker'::regclass") > 0
                               : strstr(store_log(), "the store cannot be written") != NULL;
}

static bool is_registering(tend *t)
{
    pthread_mutex_lock(&t->mutex);
    bool registering = t->registering;
    pthread_mutex_unlock(&t->mutex);
    return registering;
}

/* Symptom: a claim with wait_ms of 2 s took 31.7 s: another thread of the handle was registering,
 * with the handle's mutex held, and had busy_ms for that. */
TEST_WITHIN(registering, a_thread_that_waits_shortly_is_not_kept_by_one_that_registers, 120)
{
    tend *t = store_open_busy("w", BUSY_MS);
    struct helper locker = sql_lock_start("worker");
    struct claimer patient = {.t = t, .expected = TEND_EEMPTY};
    struct claimer hurried = {.t = t, .wait_ms = 1500, .expected = TEND_EBUSY};
    start_claimer(&patient);
    wait_until(one_waits_in_store(), PATIENCE_MS);
    long long begun_ms = test_clock_ms();
    try_claim(&hurried);
    check_int(test_clock_ms() - begun_ms, <, WELL_BELOW_MS);
    if (!store_is_postgres()) /* the sentence is the store's */
        check_contains(tend_errmsg(t), keep_text("process %d (", (int)locker.pid));
    sql_lock_end(&locker);
    pthread_join(patient.thread, NULL);
    hurried.expected = TEND_EEMPTY;
    try_claim(&hurried);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 1);
    store_close(t);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 0);
}

TEST_WITHIN(registering, when_the_one_that_registers_gives_up_another_one_does, 120)
{
    tend *t = store_open_busy("w", BUSY_MS);
    add_one(t, "q");
    struct helper locker = sql_lock_start("worker");
    struct claimer hurried = {.t = t, .wait_ms = 1, .expected = TEND_EBUSY};
    struct claimer patient = {.t = t, .wait_ms = -1, .expected = 1};
    start_claimer(&hurried);
    wait_until(is_registering(t), PATIENCE_MS);
    start_claimer(&patient);
    pthread_join(hurried.thread, NULL);
    wait_until(is_registering(t), PATIENCE_MS);
    sql_lock_end(&locker);
    pthread_join(patient.thread, NULL);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 1);
    check_int(count_events("worker.joined"), ==, 1);
}

/* The child would wait for a thread that it does not have, and closing for those that waited. */
TEST_WITHIN(registering, a_child_forked_meanwhile_waits_for_nobody, 120)
{
    tend *t = store_open_busy("w", BUSY_MS);
    struct helper locker = sql_lock_start("worker");
    struct claimer claimers[] = {{.t = t, .expected = TEND_EEMPTY},
                                 {.t = t, .wait_ms = 1500, .expected = TEND_EBUSY}};
    struct claimer inherited = {.t = t, .wait_ms = -1, .expected = TEND_ESTATE};
    int status;
    start_claimer(&claimers[0]);
    wait_until(is_registering(t), PATIENCE_MS);
    start_claimer(&claimers[1]);
    long long begun_ms = test_clock_ms();
    pid_t child = fork();
    if (child == 0) {
        try_claim(&inherited);
        tend_close(t);
        _exit(test_clock_ms() - begun_ms < WELL_BELOW_MS ? 0 : 1);
    }
    check_int(waitpid(child, &status, 0), ==, child);
    check(WIFEXITED(status));
    check_int(WEXITSTATUS(status), ==, 0);
    pthread_join(claimers[1].thread, NULL);
    sql_lock_end(&locker);
    pthread_join(claimers[0].thread, NULL);
}
