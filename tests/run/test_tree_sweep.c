/* run/tree: minders and nurseries that are killed under a living worker; sweeping. */
#include "run/tree_case.h"
#include "run/tree_mark.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

static struct tree *start_daemon(struct tree_pool *pool, const char *path, struct proc_id *ret_id)
{
    struct tree_spec spec = actor_spec("daemon", path, "stay");
    spec.marker = test_folder();
    struct tree *tree = spawn(pool, &spec);
    expect(tree, TREE_STARTED);
    *ret_id = wait_for_process(path);
    return tree;
}

/* And waits until it is dead: a command on its way to a dying nursery is lost. Its pid. */
static int64_t kill_nursery(struct tree_pool *pool)
{
    struct proc_id nursery;
    check_int(proc_of(tree_pool_nursery_pid(pool), &nursery), ==, 0);
    kill((pid_t)nursery.pid, SIGKILL);
    wait_until_gone(nursery);
    return nursery.pid;
}

TEST(tree, a_killed_minder_takes_its_tree_along_and_the_next_spawn_works)
{
    struct tree_pool *pool = open_pool();
    struct proc_id daemon;
    struct tree *other = NULL;
    struct tree_spec spec = actor_spec("linger", test_path("other"));
    struct tree *tree = start_daemon(pool, test_path("daemon"), &daemon);
    other = spawn(pool, &spec);
    struct tree_event others = expect(other, TREE_STARTED);
    kill((pid_t)parent_of(daemon.pid), SIGKILL);
    struct tree_event event = expect(tree, TREE_LOST);
    check_int(proc_fate(&daemon), ==, PROC_DEAD); /* before we were told */
    check_int(event.left, >=, 1); /* the first process may have died with its minder */
    check_int(event.alive, ==, 0);
    tree_free(tree);
    check_int(tree_pool_minders(pool), ==, 1);

    spec = actor_spec("end", "status", "6");
    check_int(WEXITSTATUS(run_to_end(pool, &spec).wait_status), ==, 6);
    check_int(kill((pid_t)others.pid, 0), ==, 0); /* and the other one was left alone */
    tree_stop(other, 0);
    expect(other, TREE_EXITED);
    tree_free(other);
    tree_pool_close(pool);
}

TEST(tree, an_idle_minder_that_was_killed_is_replaced)
{
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("linger", test_path("pid"));
    struct tree *tree = spawn(pool, &spec);
    struct tree_event event = expect(tree, TREE_STARTED);
    struct proc_id minder;
    check_int(proc_of(parent_of(event.pid), &minder), ==, 0);
    tree_stop(tree, 0);
    expect(tree, TREE_EXITED);
    tree_free(tree);
    kill((pid_t)minder.pid, SIGKILL);
    wait_until(kill((pid_t)minder.pid, 0) < 0, WAIT_MS); /* its nursery has waited for it */

    /* The nursery may be about to say so: then this attempt is lost before it has started. */
    spec = actor_spec("end", "status", "8");
    for (int lost = 0;; lost++) {
        check_int(lost, <, 2);
        tree = spawn(pool, &spec);
        do
            check_int(tree_read(tree, &event), ==, 0);
        while (event.kind == TREE_NOTHING);
        if (event.kind != TREE_LOST)
            break;
        check_int(event.pid, ==, 0);
        tree_free(tree);
    }
    check_int(event.kind, ==, TREE_STARTED);
    check_int(WEXITSTATUS(expect(tree, TREE_EXITED).wait_status), ==, 8);
    tree_free(tree);
    check_int(tree_pool_minders(pool), ==, 1);
    tree_pool_close(pool);
}

TEST(tree, trees_go_on_without_their_nursery_and_a_new_one_is_started)
{
    struct tree_pool *pool = open_pool();
    struct proc_id daemon, second;
    struct tree *tree = start_daemon(pool, test_path("daemon"), &daemon);
    int64_t nursery = kill_nursery(pool);
    struct tree *next = start_daemon(pool, test_path("second"), &second);
    check_int(tree_pool_nursery_pid(pool), !=, nursery);
    check_int(proc_fate(&daemon), ==, PROC_ALIVE);
    tree_stop(tree, 0);
    expect(tree, TREE_EXITED);
    check_int(proc_fate(&daemon), ==, PROC_DEAD);
    tree_free(tree);
    tree_free(next); /* still running: it is killed */
    wait_until_gone(second);
    tree_pool_close(pool);
}

TEST(tree, a_minder_killed_after_its_nursery_is_swept_up_after_by_the_worker)
{
    enum { COUNT = 7 }; /* in a tree of depth two */
    struct tree_pool *pool = open_pool();
    const char *path = test_path("pids");
    struct tree_spec spec = actor_spec("grow", path, "2");
    spec.marker = test_folder();
    struct tree *tree = spawn(pool, &spec);
    struct tree_event started = expect(tree, TREE_STARTED);
    int64_t pids[COUNT];
    struct proc_id ids[COUNT];
    read_pids(path, pids, COUNT, COUNT);
    for (int i = 0; i < COUNT; i++)
        check_int(proc_of(pids[i], &ids[i]), ==, 0);
    pid_t minder = (pid_t)parent_of(started.pid);
    kill((pid_t)tree_pool_nursery_pid(pool), SIGKILL);
    kill(minder, SIGKILL);
    struct tree_event event = expect(tree, TREE_LOST);
    check_int(event.alive, ==, 0);
    for (int i = 0; i < COUNT; i++)
        check_int(proc_fate(&ids[i]), ==, PROC_DEAD);
    tree_free(tree);
    tree_pool_close(pool);
}

TEST(tree, closing_the_pool_ends_everything_and_waits)
{
    struct tree_pool *pool = open_pool();
    struct proc_id daemon, old;
    start_daemon(pool, test_path("old"), &old);
    kill_nursery(pool);
    start_daemon(pool, test_path("daemon"), &daemon);
    int64_t nursery = tree_pool_nursery_pid(pool);
    tree_pool_close(pool);
    check_int(proc_fate(&daemon), ==, PROC_DEAD);
    check_int(proc_fate(&old), ==, PROC_DEAD);
    check(kill((pid_t)nursery, 0) < 0);
}

/* --- sweeping --- */

/* A child of this test that lingers, with a marker in its environment or without. */
static struct proc_id start_stray(const char *name, const char *role, const char *entry)
{
    const char *path = test_path(name);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        char *const argv[] = {"tree_actor", (char *)role, (char *)path, NULL};
        char *const env[] = {"A=1", (char *)entry, NULL};
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execve(actor_path(), argv, env);
        _exit(3);
    }
    struct proc_id id;
    setpgid(pid, pid);
    wait_for_process(path);
    check_int(proc_of(pid, &id), ==, 0);
    return id;
}

static size_t sweep(const struct proc_id *id, const char *with_marker)
{
    struct tree_record record = {.marker = with_marker};
    struct err err;
    size_t killed = 0;
    if (id)
        record.id = *id;
    if (tree_sweep(&record, 1, WAIT_MS, &killed, &err) < 0)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    return killed;
}

/* Markers are sought on the whole machine: the test's folder makes them its own. */
static const char *variable(char *out, size_t size, const char *name, const char *suffix)
{
    snprintf(out, size, "%s=%s%s", name, test_folder(), suffix);
    return out;
}

TEST(tree_sweep, finds_by_marker_and_nothing_else)
{
    char text[5000];
    struct proc_id marked =
        start_stray("marked", "linger", variable(text, sizeof text, "TEND_ATTEMPT", ""));
    struct proc_id longer =
        start_stray("longer", "linger", variable(text, sizeof text, "TEND_ATTEMPT", "2"));
    struct proc_id other =
        start_stray("other", "linger", variable(text, sizeof text, "XTEND_ATTEMPT", ""));
    check_int(sweep(NULL, test_folder()), ==, 1);
    check_int(proc_fate(&marked), ==, PROC_DEAD);
    check_int(proc_fate(&longer), ==, PROC_ALIVE);
    check_int(proc_fate(&other), ==, PROC_ALIVE);
    kill((pid_t)longer.pid, SIGKILL);
    kill((pid_t)other.pid, SIGKILL);
}

TEST(tree_sweep, finds_the_recorded_process_and_all_below_it)
{
    struct proc_id stray = start_stray("child", "child", NULL);
    struct proc_id child = wait_for_process(test_path("child"));
    check_int(sweep(&stray, NULL), ==, 2);
    check_int(proc_fate(&stray), ==, PROC_DEAD);
    check_int(proc_fate(&child), ==, PROC_DEAD);
}

TEST(tree_sweep, a_reused_pid_another_boot_and_another_namespace_are_left_alone)
{
    struct proc_id stray = start_stray("stray", "linger", NULL), wrong = stray;
    wrong.start_ticks -= 2; /* one may be the rounding of a time namespace */
    check_int(sweep(&wrong, NULL), ==, 0);
    wrong = stray;
    wrong.boot_id[0] = wrong.boot_id[0] == 'a' ? 'b' : 'a';
    check_int(sweep(&wrong, NULL), ==, 0);
    wrong = stray;
    wrong.pid_ns++;
    check_int(sweep(&wrong, NULL), ==, 0);
    check_int(proc_fate(&stray), ==, PROC_ALIVE);
    check_int(sweep(&stray, NULL), ==, 1);
}

TEST(tree_sweep, finds_the_group_of_a_process_that_has_ended)
{
    /* The first has ended; in its group are one with the marker and one without a trace. */
    struct proc_id first = start_stray("child", "child", NULL);
    struct proc_id child = wait_for_process(test_path("child"));
    const char *path = test_path("marked");
    pid_t marked = fork();
    check(marked >= 0);
    if (marked == 0) {
        char *const argv[] = {"tree_actor", "linger", (char *)path, NULL};
        char text[5000];
        char *const env[] = {(char *)variable(text, sizeof text, "TEND_ATTEMPT", ""), NULL};
        setpgid(0, (pid_t)first.pid);
        execve(actor_path(), argv, env);
        _exit(3);
    }
    wait_for_process(path);
    kill((pid_t)first.pid, SIGKILL);
    check_int(waitpid((pid_t)first.pid, NULL, 0), ==, first.pid);
    check_int(proc_fate(&child), ==, PROC_ALIVE);
    check_int(sweep(&first, NULL), ==, 0); /* a group alone might be anybody's by now */
    check_int(sweep(&first, test_folder()), ==, 2);
    check_int(proc_fate(&child), ==, PROC_DEAD);
}

TEST(tree_sweep, never_kills_the_one_who_asks_or_those_above_it)
{
    struct proc_id self;
    check_int(proc_self(&self), ==, 0);
    check_int(sweep(&self, NULL), ==, 0);
    check_int(proc_of(getppid(), &self), ==, 0);
    check_int(sweep(&self, NULL), ==, 0);
}

/* As a worker on a copy of the store would. */
TEST(tree_sweep, what_has_a_living_minder_is_left_to_it)
{
    struct tree_pool *pool = open_pool();
    struct proc_id daemon;
    struct tree *tree = start_daemon(pool, test_path("daemon"), &daemon);
    struct tree_record record = {.marker = test_folder(), .minded = true};
    struct err err;
    size_t killed = 0;
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, TEND_ESTATE);
    check_contains(err.text, "worker lives");
    record.id = daemon;
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, TEND_ESTATE);
    check_int(killed, ==, 0);
    check_int(proc_fate(&daemon), ==, PROC_ALIVE);

    pid_t minder = (pid_t)parent_of(daemon.pid); /* the daemon has left its own parent */
    check_int(kill(minder, SIGSTOP), ==, 0);     /* nobody is left who would end it */
    struct proc_stat stat;
    wait_until(proc_stat(minder, &stat) == 0 && proc_is_stopped(&stat), WAIT_MS);
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, 0);
    check_int(killed, >=, 1);
    check_int(proc_fate(&daemon), ==, PROC_DEAD);
    kill(minder, SIGCONT);
    expect(tree, TREE_EXITED);
    tree_free(tree);
    tree_pool_close(pool);
}

/* The worker of the inner attempt ran in the step of the outer one, whose minder lives. */
TEST(tree_sweep, the_minder_of_another_attempt_spares_nothing)
{
    struct tree_pool *pool = open_pool();
    const char *path = test_path("daemon");
    const char *outer = test_path("outer");
    struct tree_spec spec = actor_spec("daemon", path, "stay");
    spec.marker = outer;
    struct tree *tree = spawn(pool, &spec);
    expect(tree, TREE_STARTED);
    struct proc_id daemon = wait_for_process(path);
    tree_mark_set(tree_mark_read(daemon.pid)); /* as that worker has it */
    uint64_t mark = tree_mark_make(test_folder());
    const struct rlimit both = {.rlim_cur = mark, .rlim_max = mark};
    check_int(prlimit((pid_t)daemon.pid, RLIMIT_RTTIME, &both, NULL), ==, 0);

    struct tree_record record = {.marker = outer, .minded = true};
    struct err err;
    size_t killed = 0;
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, TEND_ESTATE);
    check_int(proc_fate(&daemon), ==, PROC_ALIVE);
    record.marker = test_folder();
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, 0);
    check_int(killed, ==, 1);
    check_int(proc_fate(&daemon), ==, PROC_DEAD);
    tree_free(tree);
    tree_pool_close(pool);
}
