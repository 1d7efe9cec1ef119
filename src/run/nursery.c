/* See nursery.h. */
#include "run/nursery.h"

#include "base/clock.h"
#include "run/minder.h"
#include "run/tree_census.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FIRST_ROUND_MS = 2, /* from one round of killing orphans to the next */
    LATE_ROUND_MS = 1000,
    PATIENCE_MS = 10000,        /* for orphans that not even SIGKILL ends */
    MINDER_PATIENCE_MS = 20000, /* for minders to end after the worker has */
};

struct nursling {
    pid_t pid;
    int socket;
    bool ended; /* and its orphans are being killed */
};

struct nursery {
    int signals;
    bool worker_gone;
    int64_t worker_gone_ms;
    struct nursling *minders;
    size_t count, capacity;
    bool orphans; /* there may be children that are no minders */
    int64_t orphans_since_ms;
    uint32_t orphans_found; /* at once */
    struct minder_setting setting;
};

/* --- minders --- */

static bool make_room(struct nursery *nursery)
{
    if (nursery->count < nursery->capacity)
        return true;
    size_t capacity = nursery->capacity > 0 ? nursery->capacity * 2 : 16;
    struct nursling *minders = realloc(nursery->minders, capacity * sizeof *minders);
    if (!minders)
        return false;
    nursery->minders = minders;
    nursery->capacity = capacity;
    return true;
}

/* Of the others a minder keeps nothing: a socket held twice never ends. */
_Noreturn static void become_minder(const struct nursery *nursery, int socket)
{
    if (dup3(socket, WIRE_NURSERY_FD, O_CLOEXEC) < 0)
        _exit(1);
    close_range(WIRE_NURSERY_FD + 1, ~0u, 0);
    _exit(minder_run(WIRE_NURSERY_FD, &nursery->setting));
}

static void hatch(struct nursery *nursery, int socket)
{
    pid_t pid = -1;
    errno = ENOMEM;
    if (make_room(nursery))
        pid = _Fork(); /* without threads there is nothing for the libraries to put in order */
    if (pid == 0)
        become_minder(nursery, socket);
    if (pid > 0) {
        nursery->minders[nursery->count++] = (struct nursling){.pid = pid, .socket = socket};
        return;
    }
    struct wire_answer sorry = {
        .type = WIRE_NOT_STARTED, .fault = TREE_FAULT_SYSTEM, .err_number = errno};
    snprintf(sorry.text, sizeof sorry.text, "cannot make another process: %s", strerror(errno));
    wire_send(socket, &sorry, sizeof sorry, NULL, 0, NULL, 0);
    close(socket);
}

static void take_packet(struct nursery *nursery)
{
    struct wire_order order = {0};
    int fds[WIRE_FDS];
    size_t fd_count = 0;
    ssize_t got = wire_receive(WIRE_NURSERY_FD, &order, sizeof order, fds, &fd_count);
    if (got == -EAGAIN)
        return;
    if (got == (ssize_t)sizeof order && order.type == WIRE_HATCH && fd_count == 1) {
        hatch(nursery, fds[0]);
        return;
    }
    wire_close_all(fds, fd_count);
    if (got > 0)
        return;
    nursery->worker_gone = true;
    nursery->worker_gone_ms = clock_mono_ms();
    close(WIRE_NURSERY_FD);
    /* They end by themselves now, unless a step has stopped them. */
    for (size_t i = 0; i < nursery->count; i++)
        if (!nursery->minders[i].ended)
            kill(nursery->minders[i].pid, SIGCONT);
}

/* NULL when there is no such minder, or no more. */
static struct nursling *find_minder(const struct nursery *nursery, int64_t pid)
{
    for (size_t i = 0; i < nursery->count; i++)
        if (nursery->minders[i].pid == pid && !nursery->minders[i].ended)
            return &nursery->minders[i];
    return NULL;
}

static void note_end(struct nursery *nursery, pid_t pid, int status)
{
    struct nursling *minder = find_minder(nursery, pid);
    if (!minder) /* an orphan */
        return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) { /* by itself, with nothing left */
        close(minder->socket);
        *minder = nursery->minders[--nursery->count];
        return;
    }
    minder->ended = true;
    if (!nursery->orphans) {
        nursery->orphans_since_ms = clock_mono_ms();
        nursery->orphans_found = 0;
    }
    nursery->orphans = true;
    cgroup_clear(nursery->setting.cgroup, pid);
}

/* Whether there are children at all. */
static bool reap(struct nursery *nursery)
{
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        note_end(nursery, ended, status);
    return ended == 0;
}

/* --- orphans --- */

static bool is_orphan(void *arg, const struct census *census, int64_t pid,
                      const struct proc_stat *stat)
{
    const struct nursery *nursery = arg;
    (void)census;
    return stat->parent_pid == getpid() && !find_minder(nursery, pid);
}

/* Answers for the minders that are no more. */
static void let_go(struct nursery *nursery, uint32_t alive)
{
    struct wire_answer gone = {
        .type = WIRE_GONE, .left = nursery->orphans_found, .alive = alive, .forced = 1};
    for (size_t i = 0; i < nursery->count;) {
        struct nursling *minder = &nursery->minders[i];
        if (!minder->ended) {
            i++;
            continue;
        }
        cgroup_clear(nursery->setting.cgroup, minder->pid);
        wire_send(minder->socket, &gone, sizeof gone, NULL, 0, NULL, 0);
        close(minder->socket);
        *minder = nursery->minders[--nursery->count];
    }
}

static void kill_orphans(struct nursery *nursery)
{
    struct census census = {.is_root = is_orphan, .arg = nursery};
    int found = census_kill(&census);
    census_done(&census);
    if (found > (int)nursery->orphans_found)
        nursery->orphans_found = (uint32_t)found;
    if (found == 0) {
        let_go(nursery, 0);
        nursery->orphans = false;
    } else if (clock_mono_ms() - nursery->orphans_since_ms >= PATIENCE_MS) {
        let_go(nursery, found > 0 ? (uint32_t)found : 1);
    }
}

/* --- the loop --- */

static int wait_ms(const struct nursery *nursery)
{
    if (nursery->orphans) { /* the longer it takes, the less often; their end wakes us anyway */
        int64_t pause_ms = (clock_mono_ms() - nursery->orphans_since_ms) / 4;
        return pause_ms < FIRST_ROUND_MS  ? FIRST_ROUND_MS
               : pause_ms < LATE_ROUND_MS ? (int)pause_ms
                                          : LATE_ROUND_MS;
    }
    return nursery->worker_gone ? LATE_ROUND_MS : -1;
}

/* After the worker's end nobody is left to wait for them for ever. */
static void lose_patience(struct nursery *nursery)
{
    if (!nursery->worker_gone || clock_mono_ms() - nursery->worker_gone_ms < MINDER_PATIENCE_MS)
        return;
    for (size_t i = 0; i < nursery->count; i++)
        if (!nursery->minders[i].ended)
            kill(nursery->minders[i].pid, SIGKILL);
}

static bool has_given_up(const struct nursery *nursery)
{
    return nursery->worker_gone && nursery->orphans && nursery->count == 0 &&
           clock_mono_ms() - nursery->orphans_since_ms >= PATIENCE_MS;
}

static void look_after(struct nursery *nursery)
{
    for (;;) {
        struct pollfd ready[] = {
            {.fd = nursery->signals, .events = POLLIN},
            {.fd = nursery->worker_gone ? -1 : WIRE_NURSERY_FD, .events = POLLIN},
        };
        struct signalfd_siginfo info;
        if (poll(ready, 2, wait_ms(nursery)) < 0)
            continue;
        if (ready[1].revents)
            take_packet(nursery);
        while (read(nursery->signals, &info, sizeof info) > 0)
            continue;
        bool children = reap(nursery);
        if (nursery->orphans) {
            kill_orphans(nursery);
            children = reap(nursery);
        }
        lose_patience(nursery);
        if (nursery->worker_gone && (!children || has_given_up(nursery)))
            return;
    }
}

static void raise_open_files(struct rlimit *ret_before)
{
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, ret_before);
    most = *ret_before;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

/* Nothing open but the socket. A group of its own, and every signal blocked and at its default, is
 * how the worker has started us; the defaults are passed on to the steps. */
static bool settle(struct nursery *nursery)
{
    int kind = 0;
    socklen_t size = sizeof kind;
    char self_cgroup[CGROUP_SELF_BYTES];
    if (getsockopt(WIRE_NURSERY_FD, SOL_SOCKET, SO_TYPE, &kind, &size) < 0 ||
        kind != SOCK_SEQPACKET)
        return false;
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    fcntl(WIRE_NURSERY_FD, F_SETFD, FD_CLOEXEC);
    close_range(WIRE_NURSERY_FD + 1, ~0u, 0);
    nursery->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    raise_open_files(&nursery->setting.open_files);
    cgroup_find_own(nursery->setting.cgroup, sizeof nursery->setting.cgroup);
    cgroup_read_self(self_cgroup, sizeof self_cgroup);
    oom_find("", self_cgroup, nursery->setting.oom_path, sizeof nursery->setting.oom_path);
    /* Not "tend-…": whoever kills all that is called tend should not hit the ones that clean up. */
    prctl(PR_SET_NAME, "step-nursery");
    return nursery->signals >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

int nursery_main(int argc, char **argv)
{
    struct nursery nursery = {0};
    if (argc != 1 || strcmp(argv[0], WIRE_PROTOCOL) != 0 || !settle(&nursery))
        return NURSERY_NOT_STARTED_BY_WORKER;
    struct wire_order hello = {.type = WIRE_HELLO};
    if (wire_send(WIRE_NURSERY_FD, &hello, sizeof hello, NULL, 0, NULL, 0) == 0)
        look_after(&nursery);
    free(nursery.minders);
    return 0;
}
