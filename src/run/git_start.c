/*
 * See git.h: one git process is started.
 *
 * The kernel kills it when the thread that has started it ends, and so when this process is killed.
 * What git has started itself (ssh, helpers of transports, filters) carries a mark and a variable
 * that name this process; workspace_left.c finds it by them.
 *
 * vfork, because a signal at the parent's death cannot be asked for by posix_spawn. The child makes
 * only system calls and changes nothing of the memory it shares: it tells its failure through a
 * pipe that closes when it becomes git.
 */
#include "run/git.h"

#include "base/arena.h"
#include "base/proc.h"
#include "run/tree.h"
#include "run/tree_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct launch {
    char *const *args;
    char *const *environment;
    const int *fds;
    uint64_t mark;
    pid_t parent;
    int failure_fd; /* the child's end of the pipe */
};

void git_marker(const struct proc_id *id, char out[GIT_MARKER_BYTES])
{
    snprintf(out, GIT_MARKER_BYTES, "git-%s-%llx-%lld-%lld", id->boot_id,
             (unsigned long long)id->pid_ns, (long long)id->pid, (long long)id->start_ticks);
}

bool git_marker_parse(const char *marker, struct proc_id *ret_id)
{
    enum { BEGIN = sizeof "git-" - 1, BOOT = 36 };
    char again[GIT_MARKER_BYTES];
    char *end;
    if (strlen(marker) < BEGIN + BOOT + 1)
        return false;
    *ret_id = (struct proc_id){0};
    memcpy(ret_id->boot_id, marker + BEGIN, BOOT);
    ret_id->pid_ns = strtoull(marker + BEGIN + BOOT + 1, &end, 16);
    ret_id->pid = strtoll(end + (*end == '-'), &end, 10);
    ret_id->start_ticks = strtoll(end + (*end == '-'), &end, 10);
    git_marker(ret_id, again);
    return strcmp(again, marker) == 0;
}

/* In the child. Comes back only on failure, with errno. */
static void become_git(const struct launch *launch)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return;
    if (getppid() != launch->parent) /* it was killed before the line above */
        _exit(127);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(launch->fds[fd], fd) < 0)
            return;
    tree_mark_set(launch->mark);
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &usual, NULL);
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return;
    execvpe("git", launch->args, launch->environment);
}

/* 0, or an errno. Signals are blocked: none of this program's handlers runs in the child. */
static int launch_git(const struct launch *launch, pid_t *ret_pid)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
    if (child == 0) {
        become_git(launch); /* NOLINT(clang-analyzer-unix.Vfork) */
        int problem = errno;
        ssize_t ignored = write(launch->failure_fd, &problem, sizeof problem);
        (void)ignored;
        _exit(127);
    }
    int problem = child < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *ret_pid = child;
    return problem;
}

/* 0 when the child has become git. */
static int hear_of_failure(int fd)
{
    int problem = 0;
    ssize_t got;
    do
        got = read(fd, &problem, sizeof problem);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof problem ? problem : 0;
}

int git_start(const struct git_call *call, const int fds[3], pid_t *ret_pid)
{
    int ends[2];
    struct arena arena;
    struct proc_id self;
    char text[GIT_MARKER_BYTES];
    const char *marker = NULL;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    if (proc_self(&self) == 0) {
        git_marker(&self, text);
        marker = text;
    }
    arena_init(&arena);
    struct launch launch = {.args = git_arguments(&arena, call),
                            .environment = git_environment(&arena, call, marker),
                            .fds = fds,
                            .mark = marker != NULL ? tree_mark_make(marker) : 0,
                            .parent = getpid(),
                            .failure_fd = ends[1]};
    int problem =
        launch.args == NULL || launch.environment == NULL ? ENOMEM : launch_git(&launch, ret_pid);
    close(ends[1]);
    if (problem == 0 && (problem = hear_of_failure(ends[0])) != 0)
        waitpid(*ret_pid, NULL, 0);
    close(ends[0]);
    arena_done(&arena);
    return problem;
}
