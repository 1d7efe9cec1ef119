/* See minder.h. */
#include "run/minder.h"

#include "base/clock.h"
#include "run/tree_census.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FIRST_ROUND_MS = 2, /* from one round of killing to the next; doubles */
    LONGEST_ROUND_MS = 250,
    PATIENCE_MS = 10000, /* what SIGKILL has not ended by then is reported and left */
};

static const char unreadable[] = "the minder was sent a command it cannot read";
static const char no_memory[] = "the minder has no memory for the command";

struct minder {
    int socket;
    int signals; /* SIGCHLD */
    const struct minder_setting *setting;
    struct cgroup group;
    bool worker_gone;
    bool running;
    bool reported; /* EXITED was sent although something is alive */

    /* Of the running tree: */
    pid_t first; /* also the id of its group */
    bool first_ended;
    bool leftovers_seen;  /* something was alive when the first had ended */
    bool leftovers_count; /* and the end was its own, so that it is worth telling */
    int64_t deadline_ms;
    int64_t leftover_grace_ms;
    int64_t kill_at_ms;       /* INT64_MAX: nobody is to be killed */
    int64_t killing_since_ms; /* 0 before the first round */
    int64_t round_ms;         /* to the next round */
    int64_t oom_before;       /* the counter when it began; -1: there is none */
    struct wire_answer answer;

    char oom_path[OOM_PATH_BYTES]; /* the counter that is looked at; "": none */
    enum oom_kills oom_about;      /* what it says when it goes up */
    _Alignas(struct wire_spawn) char packet[sizeof(struct wire_spawn) + WIRE_INLINE_BYTES];
};

static void answer_worker(struct minder *minder)
{
    if (minder->worker_gone)
        return;
    /* A worker that cannot take a few packets is as good as gone; its socket will tell. */
    wire_send(minder->socket, &minder->answer, sizeof minder->answer, NULL, 0, NULL, 0);
}

/* --- the end of a tree --- */

/* The counter of the group that is the step's alone, where memory is counted there. */
static void find_oom_counter(struct minder *minder)
{
    snprintf(minder->oom_path, sizeof minder->oom_path, "%s/memory.events", minder->group.path);
    minder->oom_about = OOM_KILL_OF_STEP;
    if (*minder->group.path && oom_read(minder->oom_path) >= 0)
        return;
    snprintf(minder->oom_path, sizeof minder->oom_path, "%s", minder->setting->oom_path);
    minder->oom_about = OOM_KILL_NEARBY;
}

static void finish(struct minder *minder)
{
    minder->running = false;
    if (minder->oom_before >= 0 && oom_read(minder->oom_path) > minder->oom_before)
        minder->answer.oom_kills = (uint8_t)minder->oom_about;
    minder->answer.type = WIRE_EXITED;
    if (!minder->reported)
        answer_worker(minder);
    minder->reported = false;
}

static void add_usage(struct minder *minder, const struct rusage *usage)
{
    struct wire_answer *sum = &minder->answer;
    sum->user_us += (int64_t)usage->ru_utime.tv_sec * 1000000 + usage->ru_utime.tv_usec;
    sum->system_us += (int64_t)usage->ru_stime.tv_sec * 1000000 + usage->ru_stime.tv_usec;
    if ((int64_t)usage->ru_maxrss * 1024 > sum->max_rss_bytes)
        sum->max_rss_bytes = (int64_t)usage->ru_maxrss * 1024;
}

static void kill_by(struct minder *minder, int64_t at_ms)
{
    if (at_ms < minder->kill_at_ms)
        minder->kill_at_ms = at_ms;
}

/* SIGTERM to each process once; the group of the first gets it in one go while it is there. */
static void tell_to_end(struct minder *minder)
{
    struct census census;
    census_init_children(&census);
    if (!minder->first_ended) {
        kill(-minder->first, SIGTERM);
        kill(-minder->first, SIGCONT); /* what is stopped could not hear it */
    }
    census_take(&census, 0);
    for (size_t i = 0; i < census.count; i++) {
        if (!minder->first_ended && census.found[i].group == minder->first)
            continue;
        census_signal(&census.found[i], SIGTERM);
        census_signal(&census.found[i], SIGCONT);
    }
    census_done(&census);
}

static void end_leftovers(struct minder *minder)
{
    minder->leftovers_seen = true;
    if (minder->kill_at_ms != INT64_MAX) /* they know already, or need not */
        return;
    minder->leftovers_count = true;
    minder->kill_at_ms = clock_mono_ms() + minder->leftover_grace_ms;
    if (minder->leftover_grace_ms > 0)
        tell_to_end(minder);
}

static void reap(struct minder *minder)
{
    int status;
    struct rusage usage;
    pid_t ended;
    while ((ended = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        add_usage(minder, &usage);
        if (ended == minder->first && !minder->first_ended) {
            minder->first_ended = true;
            minder->answer.wait_status = status;
        } else if (minder->leftovers_count) {
            minder->answer.left++;
        }
    }
    if (!minder->running || !minder->first_ended)
        return;
    if (ended < 0)
        finish(minder);
    else if (!minder->leftovers_seen)
        end_leftovers(minder);
}

static void kill_round(struct minder *minder, int64_t now_ms)
{
    struct census census;
    census_init_children(&census);
    if (minder->killing_since_ms == 0) {
        minder->killing_since_ms = now_ms;
        minder->round_ms = FIRST_ROUND_MS;
    }
    minder->answer.forced = 1;
    cgroup_kill(&minder->group);
    if (!minder->first_ended)
        kill(-minder->first, SIGKILL);
    int found = census_kill(&census);
    census_done(&census);

    if (now_ms - minder->killing_since_ms >= PATIENCE_MS && !minder->reported) {
        minder->answer.type = WIRE_EXITED;
        minder->answer.alive = found > 0 ? (uint32_t)found : 1;
        answer_worker(minder);
        minder->reported = true;
    }
    minder->kill_at_ms = clock_mono_ms() + minder->round_ms;
    if (minder->round_ms < LONGEST_ROUND_MS)
        minder->round_ms *= 2;
}

static void look_at_clock(struct minder *minder)
{
    int64_t now_ms = clock_mono_ms();
    if (now_ms >= minder->deadline_ms) {
        reap(minder); /* it may have ended in time, and only what it left has not */
        if (!minder->first_ended)
            minder->answer.deadline_passed = 1;
        minder->deadline_ms = INT64_MAX;
        kill_by(minder, now_ms);
    }
    if (minder->running && now_ms >= minder->kill_at_ms)
        kill_round(minder, now_ms);
}

/* --- what the worker says --- */

/* The next string of the body; NULL when there is none. */
static char *next_string(char **body, const char *end)
{
    char *string = *body;
    char *nul = memchr(string, '\0', (size_t)(end - string));
    if (!nul)
        return NULL;
    *body = nul + 1;
    return string;
}

/* The strings one after the other: cwd, argv, environment. False when they do not add up. */
static bool split_body(struct minder_command *command, char *body)
{
    const struct wire_spawn *spawn = command->spawn;
    const char *end = body + spawn->body_bytes;
    size_t argc = spawn->argc;
    if (argc == 0 || !(command->cwd = next_string(&body, end)))
        return false;
    for (size_t i = 0; i < argc; i++)
        if (!(command->argv[i] = next_string(&body, end)))
            return false;
    for (size_t i = 0; i < spawn->envc; i++)
        if (!(command->env[i] = next_string(&body, end)))
            return false;
    memcpy(command->shell_argv + 2, command->argv + 1, argc * sizeof(char *)); /* with the NULL */
    return body == end;
}

static void refuse(struct minder *minder, int err_number, const char *text)
{
    minder->answer.fault = TREE_FAULT_SYSTEM;
    minder->answer.err_number = err_number;
    strncpy(minder->answer.text, text, sizeof minder->answer.text - 1);
}

/* The tables are mapped, not taken from the heap: a heap that is shared with the nursery until it
 * is written to would become the minder's own, bit by bit. */
static pid_t start_body(struct minder *minder, const struct wire_spawn *spawn, char *body,
                        const int *fds)
{
    size_t argc = spawn->argc, envc = spawn->envc;
    size_t bytes = ((argc + 1) + (envc + 1) + (argc + 2)) * sizeof(char *);
    char **tables = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tables == MAP_FAILED) {
        refuse(minder, errno, no_memory);
        return -1;
    }
    struct minder_command command = {
        .spawn = spawn,
        .argv = tables,
        .env = tables + argc + 1,
        .shell_argv = tables + argc + 1 + envc + 1,
        .setting = minder->setting,
        .group = &minder->group,
    };
    for (int i = 0; i < 3; i++)
        command.fds[i] = spawn->given_fds & 1u << i ? *fds++ : -1;
    pid_t pid = -1;
    if (split_body(&command, body))
        pid = minder_start(&command, &minder->answer);
    else
        refuse(minder, EINVAL, unreadable);
    munmap(tables, bytes);
    return pid;
}

static pid_t start(struct minder *minder, const struct wire_spawn *spawn, char *inline_body,
                   size_t inline_bytes, const int *fds, size_t fd_count)
{
    size_t needed = (size_t)__builtin_popcount(spawn->given_fds & 7) + (spawn->body_in_file != 0);
    if (fd_count != needed || spawn->limit_count > TREE_LIMITS ||
        (!spawn->body_in_file && spawn->body_bytes != inline_bytes)) {
        refuse(minder, EINVAL, unreadable);
        return -1;
    }
    if (!spawn->body_in_file)
        return start_body(minder, spawn, inline_body, fds);
    char *body = mmap(NULL, spawn->body_bytes, PROT_READ, MAP_PRIVATE, fds[fd_count - 1], 0);
    if (body == MAP_FAILED) {
        refuse(minder, errno, no_memory);
        return -1;
    }
    pid_t pid = start_body(minder, spawn, body, fds);
    munmap(body, spawn->body_bytes);
    return pid;
}

static void take_spawn(struct minder *minder, size_t bytes, const int *fds, size_t fd_count)
{
    const struct wire_spawn *spawn = (const void *)minder->packet;
    pid_t pid = -1;
    memset(&minder->answer, 0, sizeof minder->answer);
    minder->oom_before = oom_read(minder->oom_path);
    minder->answer.type = WIRE_BEGINS;
    answer_worker(minder);
    if (bytes < sizeof *spawn)
        refuse(minder, EINVAL, unreadable);
    else
        pid = start(minder, spawn, minder->packet + sizeof *spawn, bytes - sizeof *spawn, fds,
                    fd_count);
    wire_close_all(fds, fd_count); /* or a pipe would never end */
    if (pid < 0) {
        minder->answer.type = WIRE_NOT_STARTED;
        answer_worker(minder);
        return;
    }
    minder->running = true;
    minder->first = pid;
    minder->first_ended = minder->leftovers_seen = minder->leftovers_count = false;
    minder->deadline_ms = spawn->deadline_ms;
    minder->leftover_grace_ms = spawn->leftover_grace_ms;
    minder->kill_at_ms = INT64_MAX;
    minder->killing_since_ms = 0;
    minder->answer.type = WIRE_STARTED;
    minder->answer.pid = pid;
    struct proc_stat stat;
    if (proc_stat(pid, &stat) == 0) /* it is there until it is waited for */
        minder->answer.start_ticks = stat.start_ticks;
    answer_worker(minder);
}

/* What comes after the end of the first process is about its leftovers alone: it has ended by
 * itself, and that counts. */
static void take_stop(struct minder *minder, int64_t grace_ms)
{
    reap(minder);
    if (!minder->running)
        return;
    bool first_time = !minder->answer.stopped && !minder->first_ended;
    if (first_time)
        minder->answer.stopped = 1;
    kill_by(minder, grace_ms > 0 ? clock_mono_ms() + grace_ms : 0);
    if (grace_ms > 0 && first_time)
        tell_to_end(minder);
}

static void lose_worker(struct minder *minder)
{
    minder->worker_gone = true;
    kill_by(minder, 0);
}

static void take_packet(struct minder *minder)
{
    int fds[WIRE_FDS];
    size_t fd_count = 0;
    const struct wire_order *order = (const void *)minder->packet;
    ssize_t got =
        wire_receive(minder->socket, minder->packet, sizeof minder->packet, fds, &fd_count);
    if (got == -EAGAIN)
        return;
    if (got < (ssize_t)sizeof *order) {
        lose_worker(minder);
        return;
    }
    if (order->type == WIRE_SPAWN && !minder->running) {
        take_spawn(minder, (size_t)got, fds, fd_count);
        return;
    }
    wire_close_all(fds, fd_count);
    /* A word about a tree that has ended meanwhile is late, not wrong. */
    if (!minder->running)
        return;
    if (order->type == WIRE_STOP)
        take_stop(minder, order->time_ms);
    else if (order->type == WIRE_KEEP && !minder->answer.deadline_passed)
        minder->deadline_ms = order->time_ms;
}

/* --- the loop --- */

static int wait_ms(const struct minder *minder)
{
    int64_t at_ms =
        minder->deadline_ms < minder->kill_at_ms ? minder->deadline_ms : minder->kill_at_ms;
    if (!minder->running || at_ms == INT64_MAX)
        return -1;
    int64_t left_ms = at_ms - clock_mono_ms();
    return left_ms <= 0 ? 0 : left_ms < 60000 ? (int)left_ms : 60000;
}

static void look_around(struct minder *minder)
{
    struct pollfd ready[] = {
        {.fd = minder->signals, .events = POLLIN},
        {.fd = minder->worker_gone ? -1 : minder->socket, .events = POLLIN},
    };
    if (poll(ready, 2, wait_ms(minder)) < 0)
        return;
    struct signalfd_siginfo info;
    if (ready[0].revents && read(minder->signals, &info, sizeof info) > 0)
        reap(minder);
    if (ready[1].revents)
        take_packet(minder);
    if (minder->running)
        look_at_clock(minder);
}

int minder_run(int socket, const struct minder_setting *setting)
{
    static struct minder minder; /* the process is nothing else; only touched pages cost memory */
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    minder.socket = socket;
    minder.setting = setting;
    minder.signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_NAME, CGROUP_MINDER);
    if (minder.signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return 1;
    cgroup_open(&minder.group, setting->cgroup, getpid());
    find_oom_counter(&minder);
    while (minder.running ? !(minder.worker_gone && minder.reported) : !minder.worker_gone)
        look_around(&minder);
    cgroup_close(&minder.group);
    return minder.running;
}
