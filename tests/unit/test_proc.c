/* base/proc: is that process still alive? (RC-13) */
#include "base/clock.h"
#include "base/proc.h"
#include "unit/case.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

/* A child that waits to be killed. */
static pid_t start_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    check(child > 0);
    return child;
}

TEST(proc, knows_itself_and_is_alive)
{
    struct proc_id id;
    check_int(proc_self(&id), ==, 0);
    check_int(id.pid, ==, getpid());
    check_int(id.start_ticks, >, 0);
    check_int(id.pid_ns, >, 0);
    check_int(strlen(id.boot_id), ==, 36);
    check_int(proc_fate(&id), ==, PROC_ALIVE);
}

/* Symptom: without descriptors people were asked whether /proc is mounted. */
TEST(proc, without_descriptors_it_is_not_proc_that_is_missing)
{
    struct rlimit limit;
    struct proc_id id;
    check_int(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    check_int(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    int rc = proc_self(&id);
    int problem = errno;
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    check_int(rc, ==, TEND_ENOMEM);
    check_int(problem, ==, EMFILE);
}

/* Symptom: a process that had used up its descriptors took the notes of others for those of another
 * boot, and its own clocks for those of another time namespace. */
TEST(proc, without_descriptors_it_still_knows_its_boot_and_its_clocks)
{
    char before[PROC_BOOT_BYTES], without[PROC_BOOT_BYTES], unread[PROC_BOOT_BYTES] = "";
    uint64_t pid_ns = 0;
    struct rlimit limit = leave_descriptors(0);
    int unknown = proc_boot_id(unread); /* nobody has asked for it before */
    int problem = errno;
    uint64_t time_namespace = clock_namespace();
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    check_int(unknown, ==, TEND_ENOMEM);
    check_int(problem, ==, EMFILE);
    check_str(unread, "");
    check_int(time_namespace, ==, 0);
    check_int(proc_boot_id(before), ==, 0); /* that it failed once is not kept */
    limit = leave_descriptors(0);
    int known = proc_boot_id(without);
    int seen = proc_pid_ns(&pid_ns);
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    check_int(known, ==, 0);
    check_str(without, before);
    check_int(seen, ==, 0);
    check_int(pid_ns, >, 0);
}

TEST(proc, a_killed_child_is_dead_as_zombie_and_after)
{
    pid_t child = start_child();
    struct proc_id id;
    check_int(proc_of(child, &id), ==, 0);
    check_int(proc_fate(&id), ==, PROC_ALIVE);
    kill(child, SIGKILL);
    siginfo_t info;
    check_int(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), ==, 0);
    check_int(proc_fate(&id), ==, PROC_DEAD);
    waitpid(child, NULL, 0);
    check_int(proc_fate(&id), ==, PROC_DEAD);
    check_int(proc_of(child, &id), ==, TEND_ENOTFOUND);
}

/* --- time namespaces --- */

enum { NOT_PERMITTED = 77, SHIFT_S = 1000000 };

/* Ends with what the function says, in a process of a new time namespace. */
_Noreturn static void enter_time_namespace(int (*inside)(const void *arg), const void *arg)
{
    int fd =
        unshare(CLONE_NEWTIME) == 0 ? open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        _exit(NOT_PERMITTED);
    if (dprintf(fd, "boottime %d 509999999\nmonotonic %d 0\n", SHIFT_S, SHIFT_S) < 0)
        _exit(1);
    close(fd);
    pid_t first = fork(); /* in the namespace */
    if (first == 0)
        _exit(inside(arg));
    int status;
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

/* The status of its process. */
static int in_time_namespace(int (*inside)(const void *arg), const void *arg)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        enter_time_namespace(inside, arg);
    check_int(waitpid(child, &status, 0), ==, child);
    check(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_inside(int (*inside)(const void *arg), const void *arg)
{
    int status = in_time_namespace(inside, arg);
    if (status == NOT_PERMITTED)
        printf("# no time namespace can be made here\n");
    else
        check_int(status, ==, 0);
}

static int sees_it_alive(const void *arg)
{
    return proc_fate(arg) == PROC_ALIVE ? 0 : 2;
}

/* A process in another time namespace took every living one for another use of its pid. */
TEST(proc, it_is_the_same_process_seen_from_another_time_namespace)
{
    struct proc_id id;
    check_int(proc_self(&id), ==, 0);
    check_inside(sees_it_alive, &id);
}

static int has_same_clocks(const void *arg)
{
    const struct clock_look *outside = arg;
    const int64_t minute_us = 60000000;
    struct clock_look look;
    clock_look(&look);
    bool same = look.boottime_us >= outside->boottime_us &&
                look.boottime_us < outside->boottime_us + minute_us &&
                look.monotonic_us >= outside->monotonic_us &&
                look.monotonic_us < outside->monotonic_us + minute_us;
    return same && clock_boot_ms() >= look.boottime_us / 1000 &&
                   clock_boot_ms() < (look.boottime_us + minute_us) / 1000
               ? 0
               : 2;
}

/* Symptom: what one had noted of the clocks meant nothing to the other. */
TEST(proc, the_clocks_of_the_machine_are_the_same_in_another_time_namespace)
{
    struct clock_look here;
    clock_look(&here);
    check_inside(has_same_clocks, &here);
}

/* Another program, in a group of its own: a sanitizer gives threads to what is only forked. */
static pid_t start_program(void)
{
    char *words[] = {"sleep", "1000", NULL};
    posix_spawnattr_t attr;
    pid_t pid;
    check_int(posix_spawnattr_init(&attr), ==, 0);
    check_int(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP), ==, 0);
    check_int(posix_spawnp(&pid, words[0], NULL, &attr, words, environ), ==, 0);
    posix_spawnattr_destroy(&attr);
    return pid;
}

TEST(proc, stat_tells_parent_group_and_end)
{
    pid_t child = start_program();
    struct proc_stat stat;
    check_int(proc_stat(child, &stat), ==, 0);
    check_int(stat.parent_pid, ==, getpid());
    check_int(stat.group, ==, child);
    check_int(stat.threads, ==, 1);
    check(!proc_has_ended(&stat));
    kill(child, SIGKILL);
    siginfo_t info;
    check_int(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), ==, 0);
    check_int(proc_stat(child, &stat), ==, 0);
    check_int(stat.state, ==, 'Z');
    check(proc_has_ended(&stat));
    waitpid(child, NULL, 0);
    check_int(proc_stat(child, &stat), ==, TEND_ENOTFOUND);
}

TEST(proc, a_stopped_process_is_alive)
{
    pid_t child = start_child();
    struct proc_id id;
    check_int(proc_of(child, &id), ==, 0);
    kill(child, SIGSTOP);
    int status;
    check_int(waitpid(child, &status, WUNTRACED), ==, child);
    check_int(proc_fate(&id), ==, PROC_ALIVE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(proc, a_reused_pid_and_another_boot_are_dead_another_namespace_is_unknown)
{
    struct proc_id id, other;
    check_int(proc_self(&id), ==, 0);
    other = id;
    other.start_ticks -= 2;
    check_int(proc_fate(&other), ==, PROC_DEAD);
    other.start_ticks++; /* as seen from a time namespace whose shift ends within a tick */
    check_int(proc_fate(&other), ==, PROC_ALIVE);
    other = id;
    other.boot_id[0] = other.boot_id[0] == 'a' ? 'b' : 'a';
    check_int(proc_fate(&other), ==, PROC_DEAD);
    other.pid_ns++;
    check_int(proc_fate(&other), ==, PROC_DEAD);
    other = id;
    other.pid_ns++;
    check_int(proc_fate(&other), ==, PROC_UNKNOWN);
    other = id;
    other.pid = 0;
    check_int(proc_fate(&other), ==, PROC_UNKNOWN);
}

TEST(proc, a_command_name_with_parentheses_and_blanks_is_read_over)
{
    int ready[2];
    check_int(pipe(ready), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "a) Z 1 (b");
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    struct proc_id before, after;
    check_int(proc_of(child, &before), ==, 0);
    char byte;
    check_int(read(ready[0], &byte, 1), ==, 1);
    check_int(proc_of(child, &after), ==, 0);
    check_int(after.start_ticks, ==, before.start_ticks);
    check_int(proc_fate(&after), ==, PROC_ALIVE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void *wait_for_ever(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static char state_letter(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stream = fopen(path, "r");
    if (!stream)
        return '?';
    char *got = fgets(line, sizeof line, stream);
    fclose(stream);
    char *end = got ? strrchr(line, ')') : NULL;
    return end ? end[2] : '?';
}

TEST(proc, is_alive_while_a_thread_outlives_the_leader)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, wait_for_ever, NULL);
        pthread_exit(NULL);
    }
    struct proc_id id;
    check_int(proc_of(child, &id), ==, 0);
    wait_until(state_letter(child) == 'Z', 10000);
    check_int(proc_fate(&id), ==, PROC_ALIVE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    check_int(proc_fate(&id), ==, PROC_DEAD);
}

TEST(proc, pidfd_tells_the_end_and_does_not_pass_to_children)
{
    pid_t child = start_child();
    int fd = proc_pidfd(child);
    check_int(fd, >=, 0);
    check(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    check_int(poll(&ended, 1, 0), ==, 0);
    kill(child, SIGKILL);
    check_int(poll(&ended, 1, 10000), ==, 1);
    close(fd);
    waitpid(child, NULL, 0);
    check_int(proc_pidfd(child), ==, TEND_ENOTFOUND);
    check_int(proc_pidfd(-1), <, 0);
}

TEST(proc, host_is_cut_to_size)
{
    char host[256], small[2] = "zz";
    check_int(proc_host(host, sizeof host), ==, 0);
    check(strlen(host) > 0);
    check_int(proc_host(small, sizeof small), ==, 0);
    check_int(strnlen(small, sizeof small), <=, 1);
    check_int(proc_host(host, 0), ==, TEND_EIO);
}
