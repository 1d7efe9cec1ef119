/*
 * An attempt that is a process: started through the tree pool, its output captured, its report
 * read, its time watched (SH-2, SH-15, SH-16).
 *
 * Three things end it: the process itself; time (wall or idle); somebody outside (a lost lease, a
 * stop, an order). In every case the attempt is over when the whole tree is gone and its pipes have
 * been read.
 */
#include "base/clock.h"
#include "queue/explain.h"
#include "run/attempt_env.h"
#include "run/job.h"
#include "run/payload_file.h"
#include "run/shell_word.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 * 1024,
    TICK_MS = 250,    /* how often the report is read and output is handed on */
    SETTLED_MS = 200, /* a process that has lived so long is worth to be recorded */
    LEFTOVER_GRACE_MS = 1000,
    CHILD_NICE = 5,
    EXIT_OF_SIGNAL = 128, /* a shell's exit status for a child that a signal has ended, with it */
    REPORT_AGAIN_MS =
        1000, /* how often it is tried to read it, when something is missing for that */
};

struct process {
    struct attempt *attempt;
    struct arena arena;
    struct tree *tree;
    int pipes[2];              /* stdout and stderr, to be read; -1: at their end */
    bool over;                 /* the tree is gone */
    bool stopping;             /* it was told to end */
    enum attempt_end ended_by; /* ... from outside: why; ATTEMPT_SUCCEEDED: not from outside */
    enum ending_kind timeout;  /* ... by time: which; ENDED_EXIT: not by time */
    bool recorded;             /* its pid is in the store */
    int64_t begun_ms, tick_ms, waits_until_ms;
    int64_t safe_until_ms;   /* as the tree knows it */
    struct tree_event event; /* the last */
};

/* --- starting --- */

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Where it runs. A link that leads out of the workspace is refused: NULL with last_error. */
static const char *working_folder(struct process *process)
{
    struct job_run *run = process->attempt->run;
    const char *cwd = process->attempt->step->cwd;
    const char *base = job_base_folder(run, &process->arena);
    if (cwd == NULL || base == NULL)
        return base;
    const char *path = arena_printf(&process->arena, "%s/%s", base, cwd);
    char real[4096];
    if (path == NULL || !run->has_workspace)
        return path;
    if (strlen(path) < sizeof real && realpath(path, real) != NULL && !is_below(real, base)) {
        snprintf(run->last_error, sizeof run->last_error,
                 "folder %s of the step leads out of the workspace", cwd);
        return NULL;
    }
    return path;
}

static int spawn(struct process *process, struct tree_spec *spec, struct err *err)
{
    tend_runner *runner = process->attempt->run->runner;
    int ends[2][2];
    for (int i = 0; i < 2; i++) {
        if (pipe2(ends[i], O_CLOEXEC) < 0) {
            if (i == 1) {
                close(ends[0][0]);
                close(ends[0][1]);
            }
            return err_set(err, TEND_EIO, "no pipe could be made: %s", strerror(errno));
        }
    }
    for (int i = 0; i < 2; i++) {
        process->pipes[i] = ends[i][0];
        fcntl(ends[i][0], F_SETFL, O_NONBLOCK);
        spec->fds[i + 1] = ends[i][1];
    }
    pthread_mutex_lock(&runner->pool_mutex);
    int rc = tree_spawn(runner->pool, spec, &process->tree, err);
    pthread_mutex_unlock(&runner->pool_mutex);
    close(ends[0][1]);
    close(ends[1][1]);
    return rc;
}

/* Others may stop it while this thread waits for the store. */
static void show_tree(struct process *process, struct tree *tree)
{
    struct task *task = process->attempt->run->task;
    pthread_mutex_lock(&task->runner->mutex);
    task->tree = tree;
    task->grace_ms = process->attempt->budgets.step_grace_ms;
    pthread_mutex_unlock(&task->runner->mutex);
}

static bool start(struct process *process)
{
    struct attempt *attempt = process->attempt;
    struct job_run *run = attempt->run;
    const char *const shell[] = {"sh", "-c", attempt->step->run, NULL};
    struct tree_spec spec;
    struct err err;
    tree_spec_init(&spec);
    spec.argv = attempt->step->kind == STEP_RUN ? shell : attempt->step->argv;
    spec.env = attempt_environment(attempt, &process->arena);
    spec.cwd = working_folder(process);
    spec.fds[0] = run->handler != NULL ? payload_file(run->task->job) : -1;
    spec.marker = attempt->marker;
    spec.nice = CHILD_NICE;
    spec.deadline_mono_ms = task_safe_until(run->task);
    spec.leftover_grace_ms = LEFTOVER_GRACE_MS;
    attempt->end = ATTEMPT_FAILED;
    if (spec.cwd == NULL) {
        attempt->ending = (struct ending){.kind = ENDED_BAD_PLAN};
        if (spec.fds[0] >= 0)
            close(spec.fds[0]);
        return false;
    }
    int rc = spec.env == NULL || (run->handler != NULL && spec.fds[0] < 0)
                 ? err_set(&err, TEND_ENOMEM, "no memory for the command and its payload")
                 : spawn(process, &spec, &err);
    if (spec.fds[0] >= 0)
        close(spec.fds[0]);
    if (rc == 0) {
        show_tree(process, process->tree);
        return true;
    }
    snprintf(run->last_error, sizeof run->last_error, "%s", err.text);
    attempt->ending = (struct ending){.kind = ENDED_NOT_STARTED, .number = E2BIG};
    if (rc != TEND_EINVAL) /* else the command itself cannot be started, by any worker */
        attempt_lacks(attempt, rc, err.text);
    return false;
}

/* --- while it runs --- */

static void stop(struct process *process, int64_t grace_ms)
{
    process->stopping = true;
    tree_stop(process->tree, grace_ms);
}

/* Reads what is there; true: there may be more. */
static bool read_pipe(struct process *process, int stream)
{
    char bytes[READ_BYTES];
    int *fd = &process->pipes[stream - 1];
    ssize_t len = read(*fd, bytes, sizeof bytes);
    if (len > 0) {
        attempt_hear(process->attempt, stream, bytes, (size_t)len);
        return true;
    }
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    close(*fd);
    *fd = -1;
    return false;
}

static void read_events(struct process *process)
{
    struct tree_event event;
    while (!process->over) {
        if (tree_read(process->tree, &event) < 0) {
            event = process->event;
            event.kind = TREE_LOST;
        }
        if (event.kind == TREE_NOTHING)
            return;
        if (event.kind == TREE_STARTED) {
            process->event.pid = event.pid;
            process->event.start_ticks = event.start_ticks;
            lack_over(process->attempt->run->runner, process->attempt->run->task->lease, false);
            continue;
        }
        process->event = event;
        process->over = true;
    }
}

/* How many bytes have come; 0: none. */
static size_t read_report(struct process *process)
{
    struct attempt *attempt = process->attempt;
    size_t bytes = report_file_read(&attempt->report_file, &attempt->report);
    if (bytes > 0)
        attempt_alive(attempt); /* whatever it reports, it is alive */
    if ((attempt->report.changed & REPORT_WAITING) != 0)
        process->waits_until_ms = clock_mono_ms() + attempt->report.waiting_ms;
    attempt_progress(attempt);
    attempt->report.changed = 0;
    return bytes;
}

/* What is done from time to time. */
static void tick(struct process *process)
{
    struct attempt *attempt = process->attempt;
    int64_t now_ms = clock_mono_ms();
    if (now_ms < process->tick_ms)
        return;
    process->tick_ms = now_ms + TICK_MS;
    read_report(process);
    attempt_flush(attempt);
    if (!process->recorded && process->event.pid > 0 && now_ms - process->begun_ms >= SETTLED_MS)
        process->recorded = tend_attempt_started(attempt->run->runner->t, attempt->run->task->lease,
                                                 attempt->number, process->event.pid,
                                                 process->event.start_ticks) >= 0;
}

/* No output and no report for too long, and it has not said that it waits. */
static bool is_idle(const struct process *process)
{
    int64_t limit_ms = process->attempt->budgets.step_idle_timeout_ms;
    int64_t heard_ms = attempt_heard_at(process->attempt);
    if (process->waits_until_ms > heard_ms)
        heard_ms = process->waits_until_ms;
    return limit_ms > 0 && clock_mono_ms() - heard_ms >= limit_ms;
}

static void watch_time(struct process *process)
{
    const struct budgets *budgets = &process->attempt->budgets;
    int64_t running_ms = clock_mono_ms() - process->begun_ms;
    if (process->stopping || process->over)
        return;
    if (is_idle(process))
        read_report(process); /* there may be more since the last tick */
    if (budgets->step_timeout_ms > 0 && running_ms >= budgets->step_timeout_ms)
        process->timeout = ENDED_WALL_TIMEOUT;
    else if (is_idle(process))
        process->timeout = ENDED_IDLE_TIMEOUT;
    else
        return;
    stop(process, budgets->step_grace_ms);
}

static void watch_signals(struct process *process)
{
    struct attempt *attempt = process->attempt;
    enum attempt_end end = attempt_signal(attempt);
    int64_t safe_until_ms = task_safe_until(attempt->run->task);
    if (process->over)
        return;
    if (safe_until_ms != process->safe_until_ms)
        tree_keep(process->tree, safe_until_ms);
    process->safe_until_ms = safe_until_ms;
    if (end == ATTEMPT_SUCCEEDED || process->ended_by == ATTEMPT_LOST)
        return;
    bool first = process->ended_by == ATTEMPT_SUCCEEDED;
    process->ended_by = end;
    if (first || end == ATTEMPT_LOST)
        stop(process, end == ATTEMPT_LOST ? 0 : attempt->budgets.step_grace_ms);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Until something must be done that no descriptor tells. */
static int sleep_ms(const struct process *process)
{
    const struct attempt *attempt = process->attempt;
    const struct budgets *budgets = &attempt->budgets;
    int64_t at_ms = process->tick_ms;
    if (!process->stopping && budgets->step_timeout_ms > 0)
        at_ms = earlier(at_ms, process->begun_ms + budgets->step_timeout_ms);
    int64_t left_ms = at_ms - clock_mono_ms();
    return left_ms < 0 ? 0 : (int)earlier(left_ms, TICK_MS);
}

static void wait_for_news(struct process *process)
{
    struct pollfd fds[] = {
        {.fd = process->pipes[0], .events = POLLIN},
        {.fd = process->pipes[1], .events = POLLIN},
        {.fd = tree_fd(process->tree), .events = POLLIN},
        {.fd = process->attempt->run->task->wake_fd, .events = POLLIN},
    };
    if (poll(fds, 4, sleep_ms(process)) <= 0)
        return;
    for (int stream = 1; stream <= 2; stream++)
        if (fds[stream - 1].revents != 0)
            read_pipe(process, stream);
    if (fds[2].revents != 0)
        read_events(process);
}

/* --- its end --- */

static void judge_not_started(struct process *process)
{
    struct attempt *attempt = process->attempt;
    const struct tree_event *event = &process->event;
    attempt->ending = (struct ending){.kind = ENDED_NOT_STARTED, .number = event->err_number};
    snprintf(attempt->run->last_error, sizeof attempt->run->last_error, "%s", event->text);
    if (event->fault == TREE_FAULT_SYSTEM)
        attempt_lacks(attempt, TEND_EIO, event->text);
}

/* Its minder was killed before the command was started. */
static void judge_no_helper(struct process *process)
{
    attempt_lacks(process->attempt, TEND_EIO, "the helper that starts commands has ended");
}

/* What it reported may be its result, or why it failed: without it nothing can be said. It was
 * waited for until somebody wanted to end it. */
static void judge_unread(struct process *process)
{
    attempt_lacks(process->attempt, TEND_ENOMEM,
                  "no descriptor to read what the step has reported");
}

/* Its minder was killed, and it was ended for that. */
static void judge_lost(struct process *process)
{
    struct attempt *attempt = process->attempt;
    attempt->ending = (struct ending){.kind = ENDED_SIGNAL, .number = SIGKILL};
    snprintf(attempt->run->last_error, sizeof attempt->run->last_error,
             "signal %d: the helper that watches over it was killed, so it was ended", SIGKILL);
}

/* The command of a handler is the worker's, not the job's. A script that was started and then
 * missed a tool of its own has failed. */
static bool has_no_command(const struct attempt *attempt)
{
    const struct job_run *run = attempt->run;
    struct arena arena;
    if (run->handler == NULL || !ending_is_no_command(attempt->ending))
        return false;
    arena_init(&arena);
    const char *line = attempt_command(attempt, &arena);
    bool lacks = line != NULL && shell_lacks_command(line, job_base_folder(run, &arena));
    arena_done(&arena);
    return lacks;
}

static void judge_no_command(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    const char *command = attempt_command(attempt, &run->arena);
    const char *line = capture_last_line(&attempt->capture);
    snprintf(run->last_error, sizeof run->last_error,
             NO_HANDLER_WHY "kind '%s' that can be started: \"%.200s\" ended with %d%s%.300s",
             run->task->job->kind, command != NULL ? command : "", (int)attempt->exit_code,
             line[0] != '\0' ? ": " : "", line);
    run->no_handler = true;
    attempt->end = ATTEMPT_UNFIT;
}

static void judge_exit(struct process *process)
{
    struct attempt *attempt = process->attempt;
    int status = process->event.wait_status;
    if (WIFSIGNALED(status)) {
        attempt->signal = WTERMSIG(status);
        attempt->ending = (struct ending){.kind = ENDED_SIGNAL, .number = WTERMSIG(status)};
    } else {
        attempt->exit_code = WEXITSTATUS(status);
        attempt->ending = (struct ending){.kind = ENDED_EXIT, .number = WEXITSTATUS(status)};
    }
}

/* Killed by SIGKILL: itself, or a process of it whose end a shell or a program has passed on. */
static bool looks_killed(struct attempt *attempt)
{
    size_t bytes;
    const char *tail = capture_tail(&attempt->capture, &bytes);
    return attempt->signal == SIGKILL || attempt->exit_code == EXIT_OF_SIGNAL + SIGKILL ||
           output_says_killed(tail, bytes);
}

/*
 * A counter that is the step's alone is proof. One that is shared says that somebody was killed:
 * the step, if it looks so.
 */
static bool ran_out_of_memory(const struct process *process)
{
    enum oom_kills kills = process->event.oom_kills;
    return kills == OOM_KILL_OF_STEP ||
           (kills == OOM_KILL_NEARBY && looks_killed(process->attempt));
}

static void judge(struct process *process)
{
    struct attempt *attempt = process->attempt;
    attempt->end = ATTEMPT_FAILED;
    attempt->may_live = process->event.alive > 0;
    if (process->event.kind == TREE_NOT_STARTED)
        judge_not_started(process);
    else if (process->event.kind == TREE_LOST && !process->event.begun)
        judge_no_helper(process);
    else if (process->event.kind == TREE_LOST)
        judge_lost(process);
    else
        judge_exit(process);
    bool by_itself = process->event.kind == TREE_EXITED && !process->event.stopped &&
                     !process->event.deadline_passed;
    if (process->ended_by == ATTEMPT_LOST)
        attempt->end = ATTEMPT_LOST;
    else if (by_itself && attempt->report_file.lacking)
        judge_unread(process);
    else if (by_itself && attempt->ending.kind == ENDED_EXIT && attempt->ending.number == 0)
        attempt->end = ATTEMPT_SUCCEEDED; /* whatever was noticed in the same moment */
    else if (process->ended_by != ATTEMPT_SUCCEEDED)
        attempt->end = process->ended_by;
    else if (process->event.deadline_passed ||
             (process->event.stopped && process->timeout == ENDED_EXIT))
        attempt->end = ATTEMPT_STOPPED;
    else if (!by_itself && process->timeout != ENDED_EXIT)
        attempt->ending = (struct ending){.kind = process->timeout};
    else if (by_itself && has_no_command(attempt))
        judge_no_command(attempt);
    else if (by_itself && ran_out_of_memory(process))
        attempt->ending = (struct ending){.kind = ENDED_OUT_OF_MEMORY};
}

/* Something was done to the file that a step is to append to. */
static void warn_of_file(struct attempt *attempt)
{
    const struct report_file *file = &attempt->report_file;
    if (file->anew)
        attempt_warn(attempt, "TEND_OUTPUT was written anew while the step ran: what was there "
                              "before may be lost; append to it (>>)");
    if (file->odd)
        attempt_warn(attempt, "TEND_OUTPUT is no plain file any more, or closed to its worker: "
                              "what was written to it since is lost");
    else if (!job_folder_is_there(attempt->run))
        attempt_warn(attempt, "the folder of TEND_OUTPUT was removed or replaced: what was written "
                              "to it since is lost");
}

/* A step that is misunderstood does not fail for it, but everybody can see it. */
static void take_warnings(struct process *process)
{
    struct attempt *attempt = process->attempt;
    const struct report *report = &attempt->report;
    size_t kept = report->warning_count;
    if (kept > REPORT_WARNINGS_MAX)
        kept = REPORT_WARNINGS_MAX;
    for (size_t i = 0; i < kept; i++)
        attempt_warn(attempt, "line %zu of TEND_OUTPUT: %s", report->warnings[i].line,
                     report->warnings[i].text);
    if (report->warning_count > kept)
        attempt_warn(attempt, "TEND_OUTPUT: %zu more lines were not understood",
                     report->warning_count - kept);
    warn_of_file(attempt);
    if (attempt->report_file.bytes >= REPORT_MOST_BYTES)
        attempt_warn(attempt, "TEND_OUTPUT: only the first %d MiB were read",
                     REPORT_MOST_BYTES >> 20);
}

/* Whether what this worker lacks to read the report is waited for: not when somebody wants to end
 * it. */
static bool wait_for_means(struct process *process, bool first)
{
    struct attempt *attempt = process->attempt;
    struct task *task = attempt->run->task;
    if (attempt_signal(attempt) != ATTEMPT_SUCCEEDED || !task_try_again(task, TEND_EFULL))
        return false;
    if (first)
        runner_tell(attempt->run->runner, TEND_NEWS_NOTE, task->job->id, -1,
                    "job %lld: step %s has ended, but no descriptor is left to read what it has "
                    "reported; it is tried again every second",
                    (long long)task->job->id, attempt->step->id);
    task_sleep(task, REPORT_AGAIN_MS);
    return attempt_signal(attempt) == ATTEMPT_SUCCEEDED;
}

static void read_whole_report(struct process *process)
{
    size_t bytes;
    for (bool first = true;; first = false) {
        for (size_t total = 0; total < REPORT_MOST_BYTES && (bytes = read_report(process)) > 0;)
            total += bytes;
        if (!process->attempt->report_file.lacking || !wait_for_means(process, first))
            return;
    }
}

static void finish(struct process *process)
{
    struct attempt *attempt = process->attempt;
    tend_runner *runner = attempt->run->runner;
    struct err err;
    for (int stream = 1; stream <= 2; stream++) {
        while (process->pipes[stream - 1] >= 0 && read_pipe(process, stream))
            ;
        if (process->pipes[stream - 1] >= 0)
            close(process->pipes[stream - 1]);
    }
    read_whole_report(process);
    report_end(&attempt->report, &err);
    take_warnings(process);
    show_tree(process, NULL);
    pthread_mutex_lock(&runner->pool_mutex);
    tree_free(process->tree);
    pthread_mutex_unlock(&runner->pool_mutex);
    judge(process);
    attempt_end_output(attempt);
}

void attempt_run_process(struct attempt *attempt)
{
    struct process process = {.attempt = attempt,
                              .pipes = {-1, -1},
                              .ended_by = ATTEMPT_SUCCEEDED,
                              .timeout = ENDED_EXIT,
                              .begun_ms = clock_mono_ms()};
    process.tick_ms = process.begun_ms + TICK_MS;
    arena_init(&process.arena);
    if (start(&process)) {
        while (!process.over) {
            wait_for_news(&process);
            watch_signals(&process); /* in every round: others may have emptied wake_fd */
            watch_time(&process);
            tick(&process);
        }
        finish(&process);
    } else {
        for (int i = 0; i < 2; i++)
            if (process.pipes[i] >= 0)
                close(process.pipes[i]);
    }
    arena_done(&process.arena);
}
