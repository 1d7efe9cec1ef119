/* run/tree: a command, its tree and its end. */
#include "run/tree_case.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

enum { LARGE_BYTES = 512 * 1024, VARIABLE_BYTES = 32 * 1024 };

static const int64_t long_ms = 1000 * 1000;

TEST(tree, exit_status_and_signal_are_reported)
{
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("end", "status", "7");
    struct tree *tree = spawn(pool, &spec);
    struct tree_event started = expect(tree, TREE_STARTED);
    check_int(started.pid, >, 1);
    check_int(started.start_ticks, >, 0);
    struct tree_event event = expect(tree, TREE_EXITED);
    check(WIFEXITED(event.wait_status));
    check_int(WEXITSTATUS(event.wait_status), ==, 7);
    check_int(event.pid, ==, started.pid);
    check_int(event.max_rss_bytes, >, 0);
    check(!event.stopped && !event.forced && !event.deadline_passed);
    check_int(event.left, ==, 0);
    check_int(event.alive, ==, 0);
    check_int(tree_read(tree, &event), ==, 0);
    check_int(event.kind, ==, TREE_NOTHING);
    tree_free(tree);

    spec = actor_spec("end", "signal", "12");
    event = run_to_end(pool, &spec);
    check(WIFSIGNALED(event.wait_status));
    check_int(WTERMSIG(event.wait_status), ==, SIGUSR2);
    tree_pool_close(pool);
}

static struct tree_event cannot_start(struct tree_pool *pool, const struct tree_spec *spec)
{
    struct tree *tree = spawn(pool, spec);
    struct tree_event event = expect(tree, TREE_NOT_STARTED);
    tree_free(tree);
    return event;
}

static const char *make_file(const char *name, mode_t mode, const char *text)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "we");
    check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    check_int(chmod(path, mode), ==, 0);
    return path;
}

TEST(tree, what_cannot_be_started_is_told_apart)
{
    struct tree_pool *pool = open_pool();
    const char *argv[] = {"tend-has-no-such-command", NULL};
    struct tree_spec spec = actor_spec("state");
    spec.argv = argv;
    struct tree_event event = cannot_start(pool, &spec);
    check_int(event.fault, ==, TREE_FAULT_NO_COMMAND);
    check_str(event.text, "no command 'tend-has-no-such-command' in PATH");

    argv[0] = test_path("nothing");
    event = cannot_start(pool, &spec);
    check_int(event.fault, ==, TREE_FAULT_NO_COMMAND);

    argv[0] = make_file("plain", 0644, "#!/bin/sh\n");
    event = cannot_start(pool, &spec);
    check_int(event.fault, ==, TREE_FAULT_NOT_EXECUTABLE);
    check_int(event.err_number, ==, EACCES);

    argv[0] = make_file("orphaned", 0755, "#!/no/such/interpreter\n");
    event = cannot_start(pool, &spec);
    check_int(event.fault, ==, TREE_FAULT_NOT_EXECUTABLE);
    check_contains(event.text, "interpreter");

    argv[0] = test_folder();
    check_int(cannot_start(pool, &spec).fault, ==, TREE_FAULT_NOT_EXECUTABLE);

    argv[0] = "true";
    spec.cwd = test_path("no-folder");
    event = cannot_start(pool, &spec);
    check_int(event.fault, ==, TREE_FAULT_NO_FOLDER);
    check_contains(event.text, "no-folder");
    check_int(tree_pool_minders(pool), ==, 1);
    tree_pool_close(pool);
}

TEST(tree, command_is_looked_up_in_the_path_it_is_given)
{
    struct tree_pool *pool = open_pool();
    make_file("answer", 0755, "exit 42\n"); /* no #! either: the shell runs it */
    char path[5000];
    snprintf(path, sizeof path, "PATH=/no/such/folder::%s:/bin", test_folder());
    const char *argv[] = {"answer", NULL};
    const char *env[] = {path, NULL};
    struct tree_spec spec = actor_spec("state");
    spec.argv = argv;
    spec.env = env;
    check_int(WEXITSTATUS(run_to_end(pool, &spec).wait_status), ==, 42);
    env[0] = "PATH=/bin";
    check_int(cannot_start(pool, &spec).fault, ==, TREE_FAULT_NO_COMMAND);
    env[0] = NULL; /* then the usual folders are meant */
    argv[0] = "true";
    check_int(run_to_end(pool, &spec).wait_status, ==, 0);
    tree_pool_close(pool);
}

TEST(tree, bad_specs_and_bad_helpers_are_refused)
{
    struct tree_pool *pool = open_pool(), *none = NULL;
    struct tree *tree = NULL;
    struct err err;
    const char *const nothing[] = {NULL}, *const empty[] = {"", NULL};
    struct tree_spec spec = actor_spec("state");
    spec.argv = nothing;
    check_int(tree_spawn(pool, &spec, &tree, &err), ==, TEND_EINVAL);
    spec.argv = empty;
    check_int(tree_spawn(pool, &spec, &tree, &err), ==, TEND_EINVAL);
    spec = actor_spec("state");
    spec.limit_count = TREE_LIMITS + 1;
    check_int(tree_spawn(pool, &spec, &tree, &err), ==, TEND_EINVAL);
    spec.limit_count = 0;
    spec.marker = "";
    check_int(tree_spawn(pool, &spec, &tree, &err), ==, TEND_EINVAL);
    check(tree == NULL);
    tree_pool_close(pool);

    check_int(tree_pool_open(&none, "/no/such/tend", &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "/no/such/tend");
    check_int(tree_pool_open(&none, "/bin/true", &err), ==, TEND_EINVAL);
    check_contains(err.text, "/bin/true");
    check(none == NULL);
}

TEST(tree, starts_in_its_folder_with_default_signals_and_lower_priority)
{
    signal(SIGPIPE, SIG_IGN); /* what the worker does to its signals is its own affair */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("state");
    spec.cwd = test_folder();
    spec.nice = 5;
    spec.limits[0] = (struct tree_limit){.resource = RLIMIT_CORE};
    spec.limit_count = 1;
    char expected[5000], folder[4096];
    check(realpath(test_folder(), folder) != NULL);
    int nice_value = getpriority(PRIO_PROCESS, 0) + 5;
    snprintf(expected, sizeof expected,
             "cwd=%s nice=%d core=0 ignored=0 blocked=0 leads_group=1 death=%d\n", folder,
             nice_value > 19 ? 19 : nice_value, SIGKILL);
    char *output = read_output(pool, &spec, NULL, NULL);
    check_str(output, expected);
    free(output);
    tree_pool_close(pool);
}

TEST(tree, no_descriptor_but_the_three_is_inherited)
{
    int leaked = open("/dev/null", O_RDONLY); /* not close-on-exec, as in programs around us */
    check(leaked >= 0);
    struct tree_pool *pool = open_pool();
    const char *argv[] = {"ls", "/proc/self/fd", NULL};
    struct tree_spec spec = actor_spec("state");
    spec.argv = argv;
    for (int again = 0; again < 2; again++) {
        char *output = read_output(pool, &spec, NULL, NULL);
        check_str(output, "0\n1\n2\n3\n"); /* 3 is the folder that ls reads */
        free(output);
    }
    tree_pool_close(pool);
    close(leaked);
}

TEST(tree, odd_bytes_in_arguments_and_environment_arrive_intact)
{
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("command", "", "\xff\xfe\n\t", "a b\"'\\$x`", "\x1b[0m=");
    static const char *const env[] = {"=", "A=\n\xff", "NOEQUALS", "TEND_ATTEMPT=other", "", NULL};
    static const char expected[] =
        "\0\xff\xfe\n\t\0a b\"'\\$x`\0\x1b[0m=\0--\0=\0A=\n\xff\0NOEQUALS\0\0TEND_ATTEMPT=mine";
    spec.env = env;
    spec.marker = "mine";
    size_t len;
    char *output = read_output(pool, &spec, &len, NULL);
    check_int(len, ==, sizeof expected);
    check_int(memcmp(output, expected, len), ==, 0);
    free(output);
    tree_pool_close(pool);
}

TEST(tree, large_environment_arrives_and_one_too_large_says_why)
{
    struct tree_pool *pool = open_pool();
    static char variables[LARGE_BYTES / VARIABLE_BYTES][VARIABLE_BYTES];
    static const char *env[LARGE_BYTES / VARIABLE_BYTES + 1];
    for (size_t i = 0; i < LARGE_BYTES / VARIABLE_BYTES; i++) {
        memset(variables[i], (int)('a' + i), VARIABLE_BYTES - 1);
        variables[i][1] = '=';
        env[i] = variables[i];
    }
    struct tree_spec spec = actor_spec("command");
    spec.env = env;
    size_t len;
    char *output = read_output(pool, &spec, &len, NULL);
    check_int(len, ==, LARGE_BYTES + 3); /* and "--" */
    check_int(memcmp(output + 3, variables, LARGE_BYTES), ==, 0);
    free(output);

    /* One string of more than 128 KiB is what no Linux takes. */
    static char huge[256 * 1024];
    memset(huge, 'x', sizeof huge - 1);
    const char *const huge_env[] = {huge, NULL};
    spec.env = huge_env;
    struct tree_event event = cannot_start(pool, &spec);
    check_int(event.fault, ==, TREE_FAULT_TOO_LARGE);
    check_contains(event.text, "larger than the kernel takes");
    tree_pool_close(pool);
}

TEST(tree, a_daemon_without_environment_dies_with_its_step)
{
    /* SH-2: forked twice, own session, env -i */
    struct tree_pool *pool = open_pool();
    const char *path = test_path("daemon");
    struct tree_spec spec = actor_spec("daemon", path);
    spec.leftover_grace_ms = long_ms;
    struct tree_event event = run_to_end(pool, &spec);
    int64_t daemon;
    struct proc_id id;
    read_pids(path, &daemon, 1, 1);
    check_int(proc_of(daemon, &id), ==, TEND_ENOTFOUND);
    check_int(event.left, ==, 1);
    check(!event.forced); /* it listened to SIGTERM */
    check_int(event.wait_status, ==, 0);
    tree_pool_close(pool);
}

TEST(tree, one_that_ignores_term_is_killed_after_the_grace_and_not_before)
{
    /* SH-2 */
    struct tree_pool *pool = open_pool();
    const char *path = test_path("stubborn");
    struct tree_spec spec = actor_spec("stubborn", path);
    struct tree *tree = spawn(pool, &spec);
    wait_for_process(path);
    int64_t before_ms = clock_mono_ms();
    tree_stop(tree, 400);
    expect(tree, TREE_STARTED);
    struct tree_event event = expect(tree, TREE_EXITED);
    check_int(clock_mono_ms() - before_ms, >=, 400);
    check_int(WTERMSIG(event.wait_status), ==, SIGKILL);
    check(event.stopped && event.forced && !event.deadline_passed);
    tree_free(tree);

    /* A second word may only shorten it. */
    const char *path2 = test_path("stubborn2");
    spec = actor_spec("stubborn", path2);
    tree = spawn(pool, &spec);
    wait_for_process(path2);
    tree_stop(tree, long_ms);
    tree_stop(tree, 0);
    expect(tree, TREE_STARTED);
    check_int(WTERMSIG(expect(tree, TREE_EXITED).wait_status), ==, SIGKILL);
    tree_free(tree);
    tree_pool_close(pool);
}

/* One that has ended with 0, and has left a process that does not listen to SIGTERM. */
static struct tree *with_leftover(struct tree_pool *pool)
{
    static const char *const argv[] = {"sh", "-c", "(trap '' TERM; sleep 600) & exit 0", NULL};
    struct tree_spec spec = actor_spec("exit");
    spec.argv = argv;
    spec.leftover_grace_ms = long_ms;
    struct tree *tree = spawn(pool, &spec);
    int64_t first = expect(tree, TREE_STARTED).pid;
    struct proc_id id;
    wait_until(proc_of(first, &id) == TEND_ENOTFOUND, WAIT_MS);
    return tree;
}

/* Symptom: a command that had paid was run again, because it was "stopped" while what it had left
 * was being ended. */
TEST(tree, SH_2_a_stop_after_the_end_of_the_first_process_is_about_its_leftovers)
{
    struct tree_pool *pool = open_pool();
    struct tree *tree = with_leftover(pool);
    tree_stop(tree, 100);
    struct tree_event event = expect(tree, TREE_EXITED);
    check_int(event.wait_status, ==, 0);
    check(event.forced && event.left > 0);
    check(!event.stopped);
    tree_free(tree);
    tree_pool_close(pool);
}

TEST(tree, SH_2_a_deadline_after_the_end_of_the_first_process_is_about_its_leftovers)
{
    struct tree_pool *pool = open_pool();
    struct tree *tree = with_leftover(pool);
    tree_keep(tree, clock_mono_ms());
    struct tree_event event = expect(tree, TREE_EXITED);
    check_int(event.wait_status, ==, 0);
    check(event.forced && event.left > 0);
    check(!event.deadline_passed);
    tree_free(tree);
    tree_pool_close(pool);
}

TEST(tree, one_that_listens_to_term_ends_long_before_the_grace)
{
    struct tree_pool *pool = open_pool();
    const char *path = test_path("pid");
    struct tree_spec spec = actor_spec("linger", path);
    struct tree *tree = spawn(pool, &spec);
    struct proc_id id = wait_for_process(path);
    kill((pid_t)id.pid, SIGSTOP); /* it can be told even so */
    tree_stop(tree, long_ms);
    expect(tree, TREE_STARTED);
    struct tree_event event = expect(tree, TREE_EXITED);
    check_int(WTERMSIG(event.wait_status), ==, SIGTERM);
    check(event.stopped && !event.forced);
    tree_free(tree);
    tree_pool_close(pool);
}

TEST(tree, stopping_reaches_the_daemon_and_the_step)
{
    struct tree_pool *pool = open_pool();
    const char *path = test_path("daemon");
    struct tree_spec spec = actor_spec("daemon", path, "stay");
    struct tree *tree = spawn(pool, &spec);
    struct proc_id daemon = wait_for_process(path);
    check_int(proc_fate(&daemon), ==, PROC_ALIVE);
    tree_stop(tree, long_ms);
    expect(tree, TREE_STARTED);
    struct tree_event event = expect(tree, TREE_EXITED);
    check_int(proc_fate(&daemon), ==, PROC_DEAD);
    check(!event.forced);
    tree_free(tree);
    tree_pool_close(pool);
}

TEST(tree, one_that_closes_its_pipes_is_waited_for)
{
    struct tree_pool *pool = open_pool();
    int pipe_fds[2];
    check_int(pipe2(pipe_fds, O_CLOEXEC), ==, 0);
    const char *path = test_path("pid"), *go = test_path("go");
    struct tree_spec spec = actor_spec("closed", path, go);
    spec.fds[1] = spec.fds[2] = pipe_fds[1];
    struct tree *tree = spawn(pool, &spec);
    close(pipe_fds[1]);
    expect(tree, TREE_STARTED);
    char byte;
    check_int(read(pipe_fds[0], &byte, 1), ==, 0); /* the end of its output, nobody holds it */
    struct proc_id id = wait_for_process(path);
    check_int(proc_fate(&id), ==, PROC_ALIVE);
    struct tree_event event;
    check_int(tree_read(tree, &event), ==, 0);
    check_int(event.kind, ==, TREE_NOTHING);
    make_file("go", 0600, "go");
    check_int(WEXITSTATUS(expect(tree, TREE_EXITED).wait_status), ==, 5);
    tree_free(tree);
    tree_pool_close(pool);
    close(pipe_fds[0]);
}

TEST(tree, one_that_writes_for_ever_is_stopped)
{
    struct tree_pool *pool = open_pool();
    int pipe_fds[2];
    check_int(pipe2(pipe_fds, O_CLOEXEC), ==, 0);
    struct tree_spec spec = actor_spec("writer");
    spec.fds[1] = pipe_fds[1];
    struct tree *tree = spawn(pool, &spec);
    close(pipe_fds[1]);
    expect(tree, TREE_STARTED);
    char some[65536];
    for (int i = 0; i < 100; i++)
        check(read(pipe_fds[0], some, sizeof some) > 0);
    tree_stop(tree, long_ms); /* it sits in write() on a full pipe now, as like as not */
    check_int(WTERMSIG(expect(tree, TREE_EXITED).wait_status), ==, SIGTERM);
    while (read(pipe_fds[0], some, sizeof some) > 0)
        continue; /* and the pipe has an end */
    tree_free(tree);
    tree_pool_close(pool);
    close(pipe_fds[0]);
}

TEST(tree, two_hundred_in_a_row_use_one_minder)
{
    struct tree_pool *pool = open_pool();
    struct tree_spec spec = actor_spec("end", "status", "3");
    int64_t minder = 0;
    for (int i = 0; i < 200; i++) {
        struct tree *tree = spawn(pool, &spec);
        expect(tree, TREE_STARTED);
        check_int(WEXITSTATUS(expect(tree, TREE_EXITED).wait_status), ==, 3);
        tree_free(tree);
        check_int(tree_pool_minders(pool), ==, 1);
    }
    const char *path = test_path("pid");
    for (int i = 0; i < 2; i++) { /* seen from below it is the same one, too */
        spec = actor_spec("linger", path);
        struct tree *tree = spawn(pool, &spec);
        struct tree_event started = expect(tree, TREE_STARTED);
        int64_t parent = parent_of(started.pid);
        check(minder == 0 || minder == parent);
        minder = parent;
        tree_stop(tree, 0);
        expect(tree, TREE_EXITED);
        tree_free(tree);
    }
    tree_pool_close(pool);
}

TEST(tree, a_hundred_at_once)
{
    enum { COUNT = 100 };
    struct tree_pool *pool = open_pool();
    struct tree *trees[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char status[16];
        snprintf(status, sizeof status, "%d", i);
        struct tree_spec spec = actor_spec("end", "status", status);
        trees[i] = spawn(pool, &spec);
    }
    check_int(tree_pool_minders(pool), ==, COUNT);
    for (int i = 0; i < COUNT; i++) {
        expect(trees[i], TREE_STARTED);
        check_int(WEXITSTATUS(expect(trees[i], TREE_EXITED).wait_status), ==, i);
    }
    for (int i = 0; i < COUNT; i++)
        tree_free(trees[i]);
    tree_pool_close(pool);
}
