/*
 * A step that is killed for want of memory (SH-5). Where this machine lets the test make a control
 * group with a memory limit, the kernel really kills; everywhere the test covers a SIGKILL that
 * nobody explains.
 */
#include "run/cgroup.h"
#include "runner_case.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Room for a sanitizer, and little enough to be filled in a moment. */
#define LIMIT_BYTES "600000000"
/* Keeps all it reads, as there is no line end in it. */
#define EAT "head -c 3000000000 /dev/zero | tail"

static char group[600]; /* "": none could be made */

static bool write_text(const char *folder, const char *name, const char *text)
{
    char path[800];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* A group with a limit below the one that a line of /proc/self/cgroup names. */
static bool make_group(const char *mount, const char *line, const char *limit_file)
{
    const char *path = line == NULL ? NULL : strchr(line, '/');
    if (path == NULL)
        return false;
    snprintf(group, sizeof group, "%s%.*s/tend-oom-%d", mount, (int)strcspn(path, "\n"), path,
             (int)getpid());
    if (mkdir(group, 0755) < 0)
        return false;
    if (write_text(group, limit_file, LIMIT_BYTES)) {
        /* Swap would only delay it; where there is none, these are not there or fail. */
        write_text(group, "memory.memsw.limit_in_bytes", LIMIT_BYTES);
        write_text(group, "memory.swap.max", "0");
        return true;
    }
    rmdir(group);
    return false;
}

/* A group with a memory limit, if this machine allows it. */
static bool find_group(void)
{
    char self[CGROUP_SELF_BYTES];
    cgroup_read_self(self, sizeof self);
    if (make_group("/sys/fs/cgroup", strstr(self, "0::/"), "memory.max") ||
        make_group("/sys/fs/cgroup/memory", strstr(self, ":memory:/"), "memory.limit_in_bytes"))
        return true;
    group[0] = '\0';
    return false;
}

enum { CANNOT_ENTER = 77 };

/* In a process of its own, so that the group is removed however it ends. */
static int run_in_group(void (*body)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        if (!write_text(group, "cgroup.procs", "0"))
            _exit(CANNOT_ENTER);
        body();
        fflush(stdout);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child);
    wait_until(rmdir(group) == 0, PATIENCE_MS);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void run_out_of_memory(void)
{
    tend *t = store_open_real("w");
    static const char memory[] = "1:failed:transient_runtime:memory";
    int64_t itself = add_plan(t, "{\"run\":\"" EAT "\",\"attempts\":1}");
    int64_t hidden = add_plan(t, "{\"run\":\"sh -c '" EAT "; echo Killed >&2; exit 1'\","
                                 "\"attempts\":1}");
    int64_t silent =
        add_plan(t, "{\"run\":\"sh -c '" EAT "' 2>/dev/null; exit 3\",\"attempts\":1}");
    int64_t fine = add_plan(t, "{\"run\":\"" EAT " || true\",\"attempts\":1}");
    struct tend_runner_options options = runner_options();
    static const struct tend_kind_limit one = {.kind = "shell", .limit = 1};
    options.limits = &one;
    options.limit_count = 1;
    run_with(t, &options);
    check_str(attempts_of(t, itself), memory);
    check_contains(summaries_of(t, itself),
                   "out of memory: the kernel killed a process of the step");
    check_str(attempts_of(t, hidden), memory);
    /* A counter that is shared with others is no proof where the step does not look killed. */
    check_str(attempts_of(t, silent), "1:failed:transient_runtime:unknown");
    check_int(state_of(t, fine), ==, TEND_DONE); /* what the step copes with is no failure */
}

/* Symptom: rule signal.9, or exit 1: "Killed", and nothing said that memory had run out. */
TEST(runner_oom, SH_5_a_step_that_the_kernel_kills_for_memory_says_so_where_a_limit_can_be_set)
{
    int status = find_group() ? run_in_group(run_out_of_memory) : CANNOT_ENTER;
    if (status == CANNOT_ENTER)
        test_skip("no memory limit can be set here");
    else
        check_int(status, ==, 0);
}

TEST(runner_oom, SH_5_a_SIGKILL_that_nobody_explains_says_that_it_may_be_memory)
{
    static const char may_be[] = "killed by SIGKILL that tend did not send; possibly out of memory";
    tend *t = store_open_real("w");
    int64_t itself = add_plan(t, "{\"run\":\"kill -KILL $$\",\"attempts\":1}");
    int64_t child = add_plan(t, "{\"run\":\"sh -c 'kill -KILL $$'\",\"attempts\":1}");
    int64_t shell = add_plan(t, "{\"run\":\"exit 137\",\"attempts\":1}");
    run_until_drained(t);
    check_str(attempts_of(t, itself), "1:failed:transient_runtime:signal.9");
    check_contains(summaries_of(t, itself), keep_text("signal 9: %s", may_be));
    check_str(attempts_of(t, child), "1:failed:transient_runtime:exit.137");
    check_contains(summaries_of(t, child), keep_text("exit 137: %s", may_be));
    check_contains(summaries_of(t, shell), may_be);
}

/* What tend kills itself is told as what it is. */
TEST(runner_oom, a_step_that_tend_has_killed_is_not_told_as_short_of_memory)
{
    tend *t = store_open_real("w");
    int64_t slow = add_plan(t, "{\"run\":\"trap '' TERM; sleep 600 & wait; wait\",\"attempts\":1,"
                               "\"timeout\":\"200ms\",\"grace\":\"100ms\"}");
    run_until_drained(t);
    check_str(attempts_of(t, slow), "1:failed:transient_runtime:timeout.wall");
    check(strstr(summaries_of(t, slow), "memory") == NULL);
}
