/* run/tree: bombs, deadlines, and what is left when workers, minders and nurseries are killed. */
#include "run/tree_case.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

static const int64_t long_ms = 1000 * 1000;

/* --- bombs --- */

TEST(tree, a_tree_that_grows_while_it_is_killed_ends)
{
    enum { LEAST = 30, MOST = 4096 };
    struct tree_pool *pool = open_pool();
    const char *path = test_path("pids");
    struct tree_spec spec = actor_spec("grow", path, "4");
    struct tree *tree = spawn(pool, &spec);
    static int64_t pids[MOST];
    read_pids(path, pids, MOST, LEAST);
    tree_stop(tree, 20);
    expect(tree, TREE_STARTED);
    struct tree_event event = expect(tree, TREE_EXITED);
    check(event.forced);
    check_int(event.alive, ==, 0);
    size_t count = read_pids(path, pids, MOST, LEAST);
    for (size_t i = 0; i < count; i++) {
        struct proc_id id;
        check(proc_of(pids[i], &id) == TEND_ENOTFOUND || proc_fate(&id) == PROC_DEAD);
    }
    tree_free(tree);
    tree_pool_close(pool);
}

TEST(tree, processes_that_fork_and_end_for_ever_are_caught)
{
    struct tree_pool *pool = open_pool();
    const char *path = test_path("pid");
    for (int left = 0; left < 2; left++) { /* stopped from outside; left behind by the step */
        unlink(path);
        struct tree_spec spec = actor_spec("comets", path, "8", left ? "leave" : NULL);
        struct tree *tree = spawn(pool, &spec);
        expect(tree, TREE_STARTED);
        int64_t pid;
        read_pids(path, &pid, 1, 1);
        if (!left)
            tree_stop(tree, 0);
        struct tree_event event = expect(tree, TREE_EXITED);
        check(event.forced);
        check_int(event.alive, ==, 0);
        check_int(count_with_argument(path), ==, 0);
        tree_free(tree);
    }
    tree_pool_close(pool);
}

/* --- deadlines --- */

TEST(tree, it_is_killed_when_its_deadline_passes)
{
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("stubborn", test_path("pid"));
    int64_t before_ms = clock_mono_ms();
    spec.deadline_mono_ms = before_ms + 300;
    struct tree_event event = run_to_end(pool, &spec);
    check_int(clock_mono_ms() - before_ms, >=, 300);
    check(event.deadline_passed && event.forced && !event.stopped);
    check_int(WTERMSIG(event.wait_status), ==, SIGKILL);
    tree_pool_close(pool);
}

TEST(tree, keeping_moves_the_deadline)
{
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("stubborn", test_path("pid"));
    int64_t deadline_ms = clock_mono_ms() + long_ms;
    spec.deadline_mono_ms = deadline_ms;
    struct tree *tree = spawn(pool, &spec);
    expect(tree, TREE_STARTED);
    tree_keep(tree, deadline_ms + long_ms);
    int64_t before_ms = clock_mono_ms();
    tree_keep(tree, before_ms + 200);
    check(expect(tree, TREE_EXITED).deadline_passed);
    check_int(clock_mono_ms() - before_ms, >=, 200);
    tree_free(tree);
    tree_pool_close(pool);
}

/* --- a worker of its own, to be killed --- */

struct worker {
    struct proc_id self, nursery, first, daemon, marked, stubborn, minders[3];
};

static struct worker start_worker(const char *deadline_ms)
{
    struct worker worker;
    setenv("TREE_ACTOR", actor_path(), 1);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(actor_path(), "tree_actor", "worker", helper_path(), test_folder(), deadline_ms,
              (char *)NULL);
        _exit(3);
    }
    worker.self = wait_for_process(test_path("ready"));
    worker.nursery = wait_for_process(test_path("nursery"));
    worker.first = wait_for_process(test_path("first"));
    worker.daemon = wait_for_process(test_path("daemon"));
    worker.stubborn = wait_for_process(test_path("stubborn"));
    worker.marked = wait_for_process(test_path("marked"));
    check_int(worker.self.pid, ==, pid);
    const struct proc_id *children[] = {&worker.daemon, &worker.marked, &worker.stubborn};
    for (size_t i = 0; i < 3; i++)
        check_int(proc_of(parent_of(children[i]->pid), &worker.minders[i]), ==, 0);
    check_int(parent_of(worker.minders[0].pid), ==, worker.nursery.pid);
    check_int(parent_of(worker.first.pid), ==, worker.minders[0].pid);
    return worker;
}

static void reap_worker(const struct worker *worker)
{
    int status;
    check_int(waitpid((pid_t)worker->self.pid, &status, 0), ==, worker->self.pid);
    check_int(WTERMSIG(status), ==, SIGKILL);
}

static void check_all_gone(const struct worker *worker)
{
    wait_until_gone(worker->first);
    wait_until_gone(worker->daemon);
    wait_until_gone(worker->marked);
    wait_until_gone(worker->stubborn);
}

TEST(tree, nothing_outlives_a_worker_that_is_killed)
{
    /* RC-14 */
    struct worker worker = start_worker(NULL);
    check_int(proc_fate(&worker.daemon), ==, PROC_ALIVE);
    kill((pid_t)worker.self.pid, SIGKILL);
    reap_worker(&worker);
    check_all_gone(&worker);
    for (size_t i = 0; i < 3; i++)
        wait_until_gone(worker.minders[i]);
    wait_until_gone(worker.nursery);
}

/* The signals that were sent to it and are blocked, a bit each. */
static unsigned long long pending_signals(int64_t pid)
{
    char path[64], line[256];
    unsigned long long pending = 0;
    snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "ShdPnd:", 7) == 0)
            pending = strtoull(line + 7, NULL, 16);
    if (file)
        fclose(file);
    return pending;
}

TEST(tree, what_a_terminal_sends_is_not_for_the_nursery_and_its_minders)
{
    struct worker worker = start_worker(NULL);
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    const struct proc_id *helpers[] = {&worker.nursery, &worker.minders[0]};
    for (size_t i = 0; i < 8; i++)
        kill((pid_t)helpers[i / 4]->pid, signals[i % 4]);
    for (size_t i = 0; i < 8; i++)
        check(pending_signals(helpers[i / 4]->pid) & 1ull << (signals[i % 4] - 1));
    check(getpgid((pid_t)worker.nursery.pid) != getpgid((pid_t)worker.self.pid));
    kill((pid_t)worker.self.pid, SIGKILL);
    reap_worker(&worker);
    check_all_gone(&worker);
    wait_until_gone(worker.nursery);
}

TEST(tree, a_stopped_minder_does_not_save_its_tree_from_the_end_of_the_worker)
{
    struct worker worker = start_worker(NULL);
    kill((pid_t)worker.minders[0].pid, SIGSTOP);
    kill((pid_t)worker.self.pid, SIGKILL);
    reap_worker(&worker);
    check_all_gone(&worker);
    wait_until_gone(worker.nursery);
}

TEST(tree, a_deadline_passes_while_the_worker_is_frozen)
{
    struct worker worker = start_worker("1500");
    kill((pid_t)worker.self.pid, SIGSTOP);
    check_all_gone(&worker);
    check_int(proc_fate(&worker.self), ==, PROC_ALIVE);
    check_int(proc_fate(&worker.minders[0]), ==, PROC_ALIVE);
    kill((pid_t)worker.self.pid, SIGKILL);
    reap_worker(&worker);
    wait_until_gone(worker.nursery);
}

TEST(tree, a_sweep_finds_what_is_left_when_all_were_killed_at_once)
{
    /* RC-14 */
    struct worker worker = start_worker(NULL);
    const struct proc_id *all[] = {&worker.self, &worker.nursery, &worker.minders[0],
                                   &worker.minders[1], &worker.minders[2]};
    for (size_t i = 0; i < 5; i++) /* so that none acts on the death of another */
        kill((pid_t)all[i]->pid, SIGSTOP);
    for (size_t i = 0; i < 5; i++)
        kill((pid_t)all[i]->pid, SIGKILL);
    reap_worker(&worker);
    /* The first processes die with their minders; the daemons got away. */
    wait_until_gone(worker.first);
    wait_until_gone(worker.stubborn);
    check_int(proc_fate(&worker.marked), ==, PROC_ALIVE);
    struct tree_record record = {.id = worker.first, .marker = test_folder()};
    size_t killed = 0;
    struct err err;
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, 0);
    check_int(killed, >=, 1); /* it, and what started it, if that is not dead yet */
    check_int(proc_fate(&worker.marked), ==, PROC_DEAD);
    check_int(tree_sweep(&record, 1, WAIT_MS, &killed, &err), ==, 0);
    check_int(killed, ==, 0);
    /* No marker, no parent, no group: nothing but a control group would show whose this was. */
    kill((pid_t)worker.daemon.pid, SIGKILL);
}

/* Symptom: a worker whose helper was gone told that the command was wrong. */
TEST(tree, a_helper_that_is_gone_is_no_fault_of_the_command)
{
    struct tree_pool *pool;
    struct tree *tree;
    struct err err;
    const char *helper = test_path("tend");
    const char *argv[] = {"true", NULL};
    const char *env[] = {NULL};
    struct tree_spec spec;
    tree_spec_init(&spec);
    spec.argv = argv;
    spec.env = env;
    char tend_path[4096];
    snprintf(tend_path, sizeof tend_path, "%s/tend", getenv("TEND_BUILD"));
    check_int(symlink(tend_path, helper), ==, 0);
    check_int(tree_pool_open(&pool, helper, &err), ==, 0);
    check_int(unlink(helper), ==, 0);
    pid_t nursery = (pid_t)tree_pool_nursery_pid(pool);
    siginfo_t info;
    check_int(kill(nursery, SIGKILL), ==, 0);
    check_int(waitid(P_PID, (id_t)nursery, &info, WEXITED | WNOWAIT), ==, 0);
    check_int(tree_spawn(pool, &spec, &tree, &err), ==, TEND_EIO);
    check_contains(err.text, "cannot start the helper for steps");
    tree_pool_close(pool);
}
