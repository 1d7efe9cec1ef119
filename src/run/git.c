/* See git.h. One process, its pipes and its end; git_start.c starts it, git_said.c reads what it
 * said. */
#include "run/git.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/timetext.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

/* After TERM, so that git can take its lock files away. */
#define STOP_GRACE_MS 2000

/* A disk with less is full for a git that could not write. */
#define SPARE_BYTES ((uint64_t)1 << 20)

struct running {
    const struct git_call *call;
    struct git_outcome *outcome;
    pid_t pid;
    int pidfd;
    int out_fd; /* read ends; -1 when closed */
    int log_fd;
    int64_t deadline_ms; /* INT64_MAX: none */
    bool stopping;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A file in memory, so that a git that stops reading cannot raise SIGPIPE here. */
static int open_input(const struct git_call *call)
{
    if (call->input == NULL || call->input_bytes == 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("git input", MFD_CLOEXEC);
    const char *from = call->input;
    for (size_t done = 0; fd >= 0 && done < call->input_bytes;) {
        ssize_t wrote = write(fd, from + done, call->input_bytes - done);
        if (wrote < 0 && errno != EINTR)
            close_fd(&fd);
        else if (wrote > 0)
            done += (size_t)wrote;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/*
 * Whether git is a child of this process that nobody has waited for: only then its number, and that
 * of its group, are no other's. Where SIGCHLD is ignored, the kernel waits for it at its end.
 */
static bool is_own(const struct running *run)
{
    siginfo_t info;
    return waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void kill_group(const struct running *run)
{
    if (is_own(run))
        kill(-run->pid, SIGKILL);
}

/* 0, or an errno. A git that was waited for by somebody else has ended: finish() tells of it. */
static int watch_for_end(struct running *run)
{
    run->pidfd = proc_pidfd(run->pid);
    if (run->pidfd >= 0 || run->pidfd == TEND_ENOTFOUND)
        return 0;
    int problem = errno;
    kill_group(run);
    waitpid(run->pid, NULL, 0);
    return problem;
}

/* 0, or an errno. */
static int start(struct running *run)
{
    int out[2] = {-1, -1};
    int log[2] = {-1, -1};
    bool to_file = run->call->output_fd > 0;
    int in_fd = open_input(run->call);
    int rc = in_fd < 0 ? errno : 0;
    if (rc == 0 && ((!to_file && pipe2(out, O_CLOEXEC) < 0) || pipe2(log, O_CLOEXEC) < 0))
        rc = errno;
    if (rc == 0)
        rc = git_start(run->call,
                       (const int[]){in_fd, to_file ? run->call->output_fd : out[1], log[1]},
                       &run->pid);
    close_fd(&in_fd);
    close_fd(&out[1]);
    close_fd(&log[1]);
    run->out_fd = out[0];
    run->log_fd = log[0];
    if (rc == 0)
        rc = watch_for_end(run);
    if (rc != 0) {
        close_fd(&run->out_fd);
        close_fd(&run->log_fd);
        return rc;
    }
    if (run->out_fd >= 0)
        fcntl(run->out_fd, F_SETFL, O_NONBLOCK);
    fcntl(run->log_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* Begins to stop the process; the first reason counts. */
static void stop(struct running *run, enum git_end why)
{
    if (run->stopping)
        return;
    run->stopping = true;
    run->outcome->end = why;
    run->deadline_ms = clock_mono_ms() + STOP_GRACE_MS;
    kill(-run->pid, SIGTERM);
}

/* The end of a long log tells more than its beginning. */
static void keep_log(struct git_outcome *outcome, const char *data, size_t len)
{
    const size_t room = sizeof outcome->log - 1;
    if (outcome->log_bytes + len > room) {
        size_t keep = outcome->log_bytes < room / 2 ? outcome->log_bytes : room / 2;
        memmove(outcome->log, outcome->log + outcome->log_bytes - keep, keep);
        outcome->log_bytes = keep;
        outcome->log_cut = true;
    }
    memcpy(outcome->log + outcome->log_bytes, data, len);
    outcome->log_bytes += len;
}

static void keep_output(struct running *run, const char *data, size_t len)
{
    struct buf *output = run->call->output;
    if (output == NULL || run->stopping)
        return;
    if (output->len + len > run->call->output_max_bytes)
        stop(run, GIT_TOO_MUCH);
    else
        buf_append(output, data, len);
}

/* What is there now; closes the pipe at its end. */
static void drain(struct running *run, int *fd)
{
    char chunk[65536];
    while (*fd >= 0) {
        size_t size = fd == &run->log_fd ? GIT_LOG_BYTES / 4 : sizeof chunk;
        ssize_t got = read(*fd, chunk, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0)
            close_fd(fd);
        else if (fd == &run->log_fd)
            keep_log(run->outcome, chunk, (size_t)got);
        else
            keep_output(run, chunk, (size_t)got);
    }
}

static int time_left(const struct running *run)
{
    if (run->deadline_ms == INT64_MAX)
        return -1;
    int64_t left_ms = run->deadline_ms - clock_mono_ms();
    return left_ms < 0 ? 0 : left_ms > 60000 ? 60000 : (int)left_ms;
}

/* Until the process has ended. Pipes that it left to others are not waited for. */
static void watch(struct running *run)
{
    const struct git_limits *limits = run->call->limits;
    int cancel_fd = limits != NULL ? limits->cancel_fd : -1;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = run->pidfd, .events = POLLIN},
            {.fd = run->out_fd, .events = POLLIN},
            {.fd = run->log_fd, .events = POLLIN},
            {.fd = run->stopping ? -1 : cancel_fd, .events = POLLIN},
        };
        (void)poll(fds, 4, run->pidfd < 0 ? 0 : time_left(run));
        drain(run, &run->out_fd);
        drain(run, &run->log_fd);
        if (run->pidfd < 0 || fds[0].revents != 0)
            return;
        if (fds[3].revents != 0)
            stop(run, GIT_CANCELLED);
        else if (clock_mono_ms() < run->deadline_ms)
            continue;
        else if (run->stopping)
            kill(-run->pid, SIGKILL);
        else
            stop(run, GIT_TIMED_OUT);
    }
}

static enum git_end end_of(int status)
{
    if (WIFSIGNALED(status))
        return GIT_KILLED;
    return WEXITSTATUS(status) == 0 ? GIT_DONE : GIT_FAILED;
}

static void finish(struct running *run)
{
    int status = 0;
    pid_t ended;
    /* Before the pid is given back: the group's number cannot belong to others yet. */
    kill_group(run);
    do
        ended = waitpid(run->pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    drain(run, &run->out_fd);
    drain(run, &run->log_fd);
    close_fd(&run->out_fd);
    close_fd(&run->log_fd);
    close_fd(&run->pidfd);
    struct git_outcome *outcome = run->outcome;
    outcome->log[outcome->log_bytes] = '\0';
    outcome->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (!run->stopping)
        outcome->end = ended < 0 ? GIT_UNSEEN : end_of(status);
}

static int fail_to_start(const struct git_call *call, int problem, struct git_outcome *outcome,
                         struct err *err)
{
    outcome->end = problem == ENOENT ? GIT_MISSING : GIT_UNSTARTED;
    if (problem == ENOENT)
        return err_set(err, TEND_ENOTFOUND,
                       "there is no git command in PATH; install git to work in repositories");
    return err_set(err, problem == ENOMEM ? TEND_ENOMEM : TEND_EIO,
                   "git %s could not be started: %s", call->args[0], strerror(problem));
}

static bool said_one_of(const struct git_outcome *outcome, const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (git_said(outcome, *texts))
            return true;
    return false;
}

static bool is_full(const char *path)
{
    struct statvfs disk;
    if (path == NULL || path[0] != '/' || statvfs(path, &disk) < 0)
        return false;
    bool no_files = disk.f_files > 0 && disk.f_favail == 0;
    return no_files || disk.f_bavail * disk.f_frsize < SPARE_BYTES;
}

/* It could not write to a file, and has not said why: its standard output says it so only when the
 * write that failed was not the last. */
static bool lost_file(const struct git_call *call, const struct git_outcome *outcome)
{
    return git_said(outcome, "unable to write file") ||
           (call->output_fd > 0 && git_said(outcome, "write failure on standard output"));
}

/*
 * Whether git failed because a disk or a quota is full. Of some writes it does not say why they
 * failed ("unable to write file big"): then the disks are asked, and where they have space it was
 * a quota, unless git gave another reason.
 */
static bool lacks_space(const struct git_call *call, const struct git_outcome *outcome)
{
    static const char *const certain[] = {"No space left on device", "Disk quota exceeded", NULL};
    static const char *const writes[] = {
        "nable to write", "ould not write",  "ailed to write", "write error",
        "write failure",  "nable to create", "cannot mkdir",   NULL};
    static const char *const other[] = {"Input/output error",
                                        "ermission denied",
                                        "peration not permitted",
                                        "Read-only file system",
                                        "File too large",
                                        "File exists",
                                        NULL};
    if (said_one_of(outcome, certain))
        return true;
    if (!said_one_of(outcome, writes) || said_one_of(outcome, other))
        return false;
    return lost_file(call, outcome) || is_full(call->folder) || is_full(call->work_tree) ||
           is_full(call->git_dir) || is_full(call->object_folder);
}

static int judge(const struct git_call *call, const struct git_outcome *outcome, struct err *err)
{
    char line[300];
    char limit[DURATION_TEXT_BYTES];
    int64_t timeout_ms = call->limits != NULL ? call->limits->timeout_ms : 0;
    git_telling_line(outcome, line, sizeof line);
    switch (outcome->end) {
    case GIT_DONE:
        if (call->output != NULL && call->output->failed)
            return err_set(err, TEND_ENOMEM, "out of memory while reading from git %s",
                           call->args[0]);
        return 0;
    case GIT_CANCELLED:
        return err_set(err, TEND_EINTERRUPTED, "git %s was interrupted", call->args[0]);
    case GIT_TIMED_OUT:
        return err_set(err, TEND_EIO, "git %s did not end within %s and was stopped%s%s",
                       call->args[0], duration_text(timeout_ms, limit), line[0] != '\0' ? ": " : "",
                       line);
    case GIT_TOO_MUCH:
        return err_set(err, TEND_EIO, "git %s wrote more than %zu bytes and was stopped",
                       call->args[0], call->output_max_bytes);
    case GIT_KILLED:
        return err_set(err, TEND_EIO, "git %s was killed by signal %d", call->args[0],
                       outcome->status);
    case GIT_UNSEEN:
        return err_set(err, TEND_EIO,
                       "git %s has ended, but whether it succeeded is not known: this program "
                       "ignores SIGCHLD, or waits for children that are not its own%s%s",
                       call->args[0], line[0] != '\0' ? ": " : "", line);
    default:
        break;
    }
    bool full = lacks_space(call, outcome);
    return err_set(err, full ? TEND_EFULL : TEND_EIO, "git %s failed (status %d): %s%s",
                   call->args[0], outcome->status, line[0] != '\0' ? line : "it did not say why",
                   full ? "; no space left on the disk, or in a quota" : "");
}

int git_run(const struct git_call *call, struct git_outcome *ret_outcome, struct err *err)
{
    struct git_outcome own = {0};
    struct git_outcome *outcome = ret_outcome != NULL ? ret_outcome : &own;
    struct running run = {
        .call = call, .outcome = outcome, .pidfd = -1, .out_fd = -1, .log_fd = -1};
    outcome->end = GIT_DONE;
    outcome->status = 0;
    outcome->log_cut = false;
    outcome->log_bytes = 0;
    outcome->log[0] = '\0';
    const struct git_limits *limits = call->limits;
    bool timed = limits != NULL && limits->timeout_ms > 0;
    run.deadline_ms = timed ? clock_mono_ms() + limits->timeout_ms : INT64_MAX;
    int problem = start(&run);
    if (problem != 0)
        return fail_to_start(call, problem, outcome, err);
    watch(&run);
    finish(&run);
    return judge(call, outcome, err);
}

int git_pause(const struct git_limits *limits, int64_t pause_ms, struct err *err)
{
    struct pollfd fd = {.fd = limits != NULL ? limits->cancel_fd : -1, .events = POLLIN};
    if (poll(&fd, 1, (int)pause_ms) > 0)
        return err_set(err, TEND_EINTERRUPTED, "interrupted while waiting for another git process");
    return 0;
}
