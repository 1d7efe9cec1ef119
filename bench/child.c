/* See child.h. */
#include "bench/child.h"

#include "bench/side.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000 };

/* --- from outside --- */

static int spawn(struct child *child, char *const argv[], int in, int out)
{
    posix_spawn_file_actions_t files;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed != 0)
        return failed;
    /* The ends of the pipes are close-on-exec; what is put in place of a standard stream is not. */
    failed = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    if (failed == 0)
        failed = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (failed == 0)
        failed = posix_spawn(&child->pid, "/proc/self/exe", &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

int child_spawn(struct child *child, char *const argv[])
{
    int in[2];
    int out[2];
    *child = (struct child){.pid = 0};
    if (pipe2(in, O_CLOEXEC) < 0)
        return bench_fail("no pipe: %s", strerror(errno));
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(in[0]);
        close(in[1]);
        return bench_fail("no pipe: %s", strerror(errno));
    }
    int failed = spawn(child, argv, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    child->to = in[1];
    child->from = out[0];
    if (failed == 0)
        return 0;
    close(child->to);
    close(child->from);
    child->pid = 0;
    return bench_fail("a process cannot be started: %s", strerror(failed));
}

int child_start(struct child *child, const char *role, const char *url)
{
    char parent[16];
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char *argv[] = {"tend", "__bench-child", (char *)role, (char *)url, parent, NULL};
    return child_spawn(child, argv);
}

int child_ask(struct child *child)
{
    return write(child->to, "?", 1) == 1 ? 0 : bench_fail("a child process has ended too early");
}

int child_hear(struct child *child, int64_t *ret_answer)
{
    struct pollfd fd = {.fd = child->from, .events = POLLIN};
    double until = bench_seconds() + PATIENCE_MS / 1000.0;
    int rc;
    do
        rc = poll(&fd, 1, PATIENCE_MS);
    while (rc < 0 && errno == EINTR && bench_seconds() < until);
    if (rc <= 0)
        return bench_fail("a child process does not answer");
    if (read(child->from, ret_answer, sizeof *ret_answer) != (ssize_t)sizeof *ret_answer)
        return bench_fail("a child process has ended too early");
    return 0;
}

void child_kill(struct child *child)
{
    kill(child->pid, SIGKILL);
}

void child_done(struct child *child)
{
    if (child->pid == 0)
        return;
    close(child->to);
    close(child->from);
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    child->pid = 0;
}

int64_t child_peak_kib(pid_t pid)
{
    char path[64];
    char line[256];
    long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    if (status == NULL)
        return 0;
    while (kib == 0 && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoll(line + 6, NULL, 10);
    fclose(status);
    return kib;
}

/* --- from inside --- */

static int answer(int64_t number)
{
    return write(STDOUT_FILENO, &number, sizeof number) == (ssize_t)sizeof number ? 0 : -1;
}

static int64_t moment_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* False at the end of the input. */
static bool is_asked(void)
{
    char byte;
    ssize_t got;
    while ((got = read(STDIN_FILENO, &byte, 1)) < 0 && errno == EINTR)
        ;
    return got == 1;
}

static int claim(tend *t, size_t count, struct tend_jobs **ret)
{
    struct tend_claim want;
    tend_claim_init(&want);
    want.queue = SIDE_QUEUE;
    want.count = count;
    want.wait_ms = -1;
    return tend_claim_jobs(t, &want, ret, NULL);
}

static int be_waiter(tend *t)
{
    while (is_asked()) {
        struct tend_jobs *jobs;
        int rc = claim(t, 1, &jobs);
        int64_t started_ns = moment_ns();
        if (rc < 0)
            return rc;
        struct tend_lease lease = {.id = jobs->items[0].id, .token = jobs->items[0].token};
        tend_jobs_free(jobs);
        if (answer(started_ns) < 0)
            return 0;
        if ((rc = tend_complete(t, &lease, 1, NULL, NULL)) < 0)
            return rc;
        if (answer(0) < 0)
            return 0;
    }
    return 0;
}

static int be_holder(tend *t)
{
    struct tend_jobs *jobs;
    int rc = claim(t, 1, &jobs);
    if (rc < 0)
        return rc;
    if (answer(moment_ns()) == 0)
        is_asked();
    tend_jobs_free(jobs);
    return 0;
}

/* The jobs are kept, as by a worker that has them in hand. */
static int be_hoarder(tend *t)
{
    static struct tend_lease leases[ROLE_HOARD];
    size_t count = 0;
    while (count < ROLE_HOARD) {
        struct tend_jobs *jobs;
        int rc = claim(t, SIDE_BATCH_MAX, &jobs);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < jobs->count && count < ROLE_HOARD; i++)
            leases[count++] =
                (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
    }
    int rc = tend_heartbeat(t, leases, count, 60000, NULL);
    if (rc < 0)
        return rc;
    if (answer(child_peak_kib(getpid())) == 0)
        is_asked();
    return 0;
}

static const struct {
    const char *name;
    int (*be)(tend *t);
} roles[] = {
    {ROLE_WAITER, be_waiter},
    {ROLE_HOLDER, be_holder},
    {ROLE_HOARDER, be_hoarder},
};

int bench_child_main(int argc, char **argv)
{
    tend *t = NULL;
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)strtol(argv[2], NULL, 10))
        return 1;
    int rc = tend_open(&t, argv[1], NULL);
    for (size_t i = 0; rc >= 0 && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(argv[0], roles[i].name) == 0)
            rc = roles[i].be(t);
    if (rc < 0 && t != NULL)
        dprintf(STDERR_FILENO, "tend: bench, %s: %s\n", argv[0], tend_errmsg(t));
    tend_close(t);
    return rc < 0;
}
