/*
 * fork() without exec, on both engines (RC-13): the child keeps nothing of its parent's alive, a
 * handle is dead in it, and it can open the store anew.
 */
#include "queue/handle.h"
#include "support/store.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What `body` makes of the handle in a child of this process; the child's exit status. */
static int in_child(int (*body)(tend *t), tend *t)
{
    int status;
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0)
        _exit(body(t));
    check_int(waitpid(pid, &status, 0), ==, pid);
    check(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int use_handle(tend *t)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    int64_t now_ms;
    claim.wait_ms = -1;
    if (tend_add(t, &spec, &added) != TEND_ESTATE || strstr(tend_errmsg(t), "fork") == NULL)
        return 1;
    if (tend_claim_jobs(t, &claim, &jobs, NULL) != TEND_ESTATE)
        return 2;
    /* The first said that there were news. */
    if (tend_wait(t, -1) != TEND_ESTATE || strstr(tend_errmsg(t), "fork") == NULL ||
        tend_wait(t, -1) != TEND_ESTATE)
        return 3;
    if (tend_now(t, &now_ms) != TEND_ESTATE)
        return 4;
    tend_interrupt(t);
    tend_close(t);
    return 0;
}

TEST(fork, every_call_on_an_inherited_handle_fails_and_says_why)
{
    tend *t = store_open("w");
    claim_none(t, "q");
    check_int(in_child(use_handle, t), ==, 0);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 0);
    add_one(t, "q"); /* nothing has happened to the parent's */
}

static int close_handle(tend *t)
{
    tend_close(t);
    return 0;
}

/* The child released the parent's leases, and said goodbye to the server on the parent's socket. */
TEST(fork, closing_in_the_child_does_nothing_to_the_store)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_int(in_child(close_handle, t), ==, 0);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(count_events("worker.left"), ==, 0);
}

static int open_again(tend *t)
{
    tend_close(t);
    tend *own = store_open("child");
    for (int i = 0; i < 20; i++)
        add_one(own, "q");
    claim_one(own, "q");
    store_close(own);
    return 0;
}

TEST(fork, a_child_can_open_the_store_anew)
{
    tend *t = store_open("w");
    add_one(t, "q");
    for (int i = 0; i < 5; i++) {
        check_int(in_child(open_again, t), ==, 0);
        add_one(t, "q");
    }
    check_int(sql_int("SELECT count(*) FROM job"), ==, 106);
}

/* --- a parent that is killed --- */

/* Has a child that only pauses, and writes until it is killed. */
static void write_beside_a_child(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("killed");
    add_one(t, "held");
    claim_one(t, "held");
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    helper_say(parent, child);
    for (;;)
        add_one(t, "q");
}

/* The store stayed locked, and the worker alive, until the child ended too. */
TEST_WITHIN(fork, a_killed_parent_lets_go_although_its_child_lives, 120)
{
    struct tend_options options = store_options("w");
    options.busy_ms = 20000;
    for (int round = 0; round < 3; round++) {
        struct helper parent = helper_start(write_beside_a_child, NULL);
        pid_t child = (pid_t)helper_hear(&parent);
        tend *t = store_open_with(&options);
        int64_t before = sql_int("SELECT count(*) FROM job");
        wait_until(sql_int("SELECT count(*) FROM job") > before + 20, PATIENCE_MS);
        helper_kill(&parent);
        add_one(t, "q");
        wait_until(recover_now(t).entries_reclaimed >= 0 &&
                       sql_int("SELECT count(*) FROM worker WHERE name = 'killed'") == 0,
                   PATIENCE_MS);
        check_int(count_events("worker.died"), ==, round + 1);
        check_int(kill(child, 0), ==, 0); /* it was there all the time */
        kill(child, SIGKILL);
        store_close(t);
    }
}

static int look_at_time(tend *t)
{
    int64_t now_ms;
    return tend_now(t, &now_ms) == TEND_ESTATE ? 0 : 1;
}

static void *fork_and_look(void *arg)
{
    check_int(in_child(look_at_time, arg), ==, 0);
    return NULL;
}

/* A thread new to the handle hung in the child for ever: another was just making its entry there.
 */
TEST(fork, a_child_uses_no_lock_that_a_thread_of_its_parent_held)
{
    tend *t = store_open("w");
    pthread_t thread;
    pthread_mutex_lock(&t->errors.mutex);
    check_int(pthread_create(&thread, NULL, fork_and_look, t), ==, 0);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&t->errors.mutex);
}
