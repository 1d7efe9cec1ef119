#include "run/leased.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/timetext.h"
#include "core/classify.h"
#include "queue/lease.h"
#include "run/json_redact.h"
#include "run/lease_watch.h"
#include "run/runner.h"
#include "run/secret.h"
#include "run/shell_word.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 1000, /* how often it looks whether the lease is still held */
    TELL_AGAIN_MS = 500,
    LEFTOVER_GRACE_MS = 1000,
    NOT_STARTED_MS = 15000, /* for so long the job is left to others that can start the command */
};

/* Who has taken the lease. */
enum taken { TAKEN_BY_NOBODY, TAKEN_BY_OPERATOR, TAKEN_BY_OTHERS };

struct leased {
    tend *t;
    const struct leased_command *command;
    struct tend_jobs *jobs; /* the job, once the lease is known to be held */
    struct leased_result *ret;
    struct tree_pool *pool;
    struct tree *tree;
    int out_fd;                /* what becomes the result; -1: nothing does, or it has ended */
    struct buf answer;         /* ... so far */
    struct redactor *redactor; /* ... loses its secrets by this; NULL: no result is taken */
    struct lease_watch watch;
    struct lease_telling telling;
    int64_t look_ms;         /* monotonic: when the lease is looked at next */
    int64_t kill_ms;         /* ... when everything is killed; INT64_MAX: never */
    int64_t pid;             /* of its process group; 0: not started yet */
    bool over;               /* nothing of it is left */
    bool hurried;            /* ... and since then a signal to stop has come */
    struct tree_event event; /* ... its last */
    enum taken taken;
    char taken_why[256];
};

/* --- the lease --- */

/* An operator has cancelled or held the job, and it is nobody else's yet. */
static bool is_stopped(struct leased *leased)
{
    struct tend_jobs *jobs;
    if (tend_get(leased->t, leased->command->lease.id, &jobs) < 0)
        return false;
    const struct tend_job *job = &jobs->items[0];
    bool stopped = (job->state == TEND_CANCELLED || job->state == TEND_HELD) &&
                   job->stopped_token == leased->command->lease.token;
    bool told = job->changed_why != NULL && job->changed_why[0] != '\0';
    if (stopped)
        snprintf(leased->taken_why, sizeof leased->taken_why, "was %s by %.100s%s%.100s",
                 job->state == TEND_HELD ? "held" : "cancelled", job->changed_by, told ? ": " : "",
                 told ? job->changed_why : "");
    tend_jobs_free(jobs);
    return stopped;
}

static void lose(struct leased *leased)
{
    leased->taken = is_stopped(leased) ? TAKEN_BY_OPERATOR : TAKEN_BY_OTHERS;
    tree_keep(leased->tree, INT64_MAX); /* it is stopped now, in its own way */
    tree_stop(leased->tree, leased->taken == TAKEN_BY_OPERATOR ? leased->command->grace_ms : 0);
}

/* The lease could not be extended. While nobody can write, the command may go on. */
static void outlast(struct leased *leased)
{
    if (lease_watch_blocked(&leased->watch, lease_blocked_ms(leased->t)))
        tree_keep(leased->tree, leased->watch.safe_until_ms);
}

/* Extends the lease when it is time to, else only looks whether it is held. */
static void look_after_lease(struct leased *leased)
{
    int64_t now_ms = clock_mono_ms();
    const struct tend_lease *lease = &leased->command->lease;
    struct lease_watch *watch = &leased->watch;
    int64_t wait_ms = lease_patience_ms(watch->lease_ms);
    int64_t pause_ms = lease_beat_pause_ms(watch->lease_ms);
    int each = TEND_EUNREACHABLE;
    if (leased->taken != TAKEN_BY_NOBODY || now_ms < leased->look_ms)
        return;
    bool beats = now_ms >= watch->beat_ms + pause_ms;
    if (beats)
        lease_heartbeat(leased->t, wait_ms, lease, 1, watch->lease_ms, &each);
    else
        lease_check(leased->t, wait_ms, lease, 1, &each);
    if (each == TEND_ELEASELOST) {
        lose(leased);
    } else if (beats && each == 0) {
        lease_watch_beat(watch, now_ms);
        tree_keep(leased->tree, watch->safe_until_ms);
    } else if (each != 0) {
        outlast(leased);
    }
    leased->look_ms = clock_mono_ms() + (pause_ms < LOOK_MS ? pause_ms : LOOK_MS);
    if (each == 0 && watch->beat_ms + pause_ms < leased->look_ms)
        leased->look_ms = watch->beat_ms + pause_ms;
}

/* Knows the secrets of this process and those that the job's payload names. */
static int make_redactor(struct leased *leased, const struct tend_job *job, struct err *err)
{
    struct known_secret *secrets = NULL;
    struct arena arena;
    arena_init(&arena);
    int rc = secrets_of_payload(job->payload, job->payload_bytes, &arena, &secrets);
    if (rc < 0)
        err_set(err, rc, "no memory or descriptors for the secrets of the job");
    else
        rc = runner_redactor(NULL, secrets, &leased->redactor, err);
    arena_done(&arena);
    return rc;
}

/* The first sign of life: whether the lease is held, how long it is, and which job it is of. */
static int begin_lease(struct leased *leased)
{
    const struct tend_lease *lease = &leased->command->lease;
    int64_t now_ms = clock_mono_ms(); /* before the heartbeat, whose answer may take long */
    int rc;
    if ((rc = tend_start(leased->t, lease, 1, NULL)) < 0 ||
        (rc = tend_heartbeat(leased->t, lease, 1, TEND_UNSET, NULL)) < 0 ||
        (rc = tend_get(leased->t, lease->id, &leased->jobs)) < 0)
        return rc;
    const struct tend_job *job = &leased->jobs->items[0];
    leased->watch.lease_ms = job->until_ms - job->seen_at_ms; /* of that heartbeat */
    lease_watch_beat(&leased->watch, now_ms);
    leased->look_ms = leased->watch.beat_ms;
    bool held = job->state == TEND_RUNNING && job->token == lease->token;
    return held && leased->watch.lease_ms > 0
               ? 0
               : handle_fail(leased->t, TEND_ELEASELOST, "lease %lld:%lld is no longer held",
                             (long long)lease->id, (long long)lease->token);
}

/* --- the command --- */

static int spawn(struct leased *leased, struct err *err)
{
    const struct leased_command *command = leased->command;
    int ends[2] = {-1, -1};
    struct tree_spec spec;
    char marker[LEASE_MARKER_BYTES];
    lease_marker(command->lease, marker);
    if (command->takes_result && pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, TEND_EIO, "no pipe could be made: %s", strerror(errno));
    if (command->takes_result)
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    leased->out_fd = ends[0];
    tree_spec_init(&spec);
    spec.argv = command->argv;
    spec.env = command->env;
    spec.fds[0] = command->stdin_fd;
    spec.fds[1] = command->takes_result ? ends[1] : STDOUT_FILENO;
    spec.fds[2] = STDERR_FILENO;
    spec.marker = marker;
    spec.deadline_mono_ms = leased->watch.safe_until_ms;
    spec.leftover_grace_ms = LEFTOVER_GRACE_MS;
    int rc = tree_spawn(leased->pool, &spec, &leased->tree, err);
    if (ends[1] >= 0)
        close(ends[1]);
    return rc;
}

static void read_output(struct leased *leased)
{
    char bytes[65536];
    ssize_t len;
    while (leased->out_fd >= 0 && (len = read(leased->out_fd, bytes, sizeof bytes)) != 0) {
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return;
        size_t room = RESULT_BYTES + 1 - leased->answer.len;
        buf_append(&leased->answer, bytes, (size_t)len < room ? (size_t)len : room);
    }
    if (leased->out_fd >= 0)
        close(leased->out_fd);
    leased->out_fd = -1;
}

static void read_events(struct leased *leased)
{
    struct tree_event event;
    while (!leased->over) {
        if (tree_read(leased->tree, &event) < 0)
            event = (struct tree_event){.kind = TREE_LOST};
        if (event.kind == TREE_NOTHING)
            return;
        if (event.kind == TREE_STARTED) {
            leased->pid = event.pid;
            continue;
        }
        leased->event = event;
        leased->over = true;
    }
}

static bool is_to_stop(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

/* To the process group of the command. The second that is to stop it kills. */
static void pass_signals_on(struct leased *leased)
{
    unsigned char number;
    while (leased->command->signal_fd >= 0 && read(leased->command->signal_fd, &number, 1) == 1) {
        if (leased->pid > 0)
            kill((pid_t)-leased->pid, number);
        if (!is_to_stop(number))
            continue;
        if (leased->pid == 0) /* it is being started */
            tree_stop(leased->tree, leased->command->grace_ms);
        bool again = leased->ret->signal != 0;
        leased->ret->signal = again ? leased->ret->signal : number;
        leased->kill_ms = again ? 0 : clock_mono_ms() + leased->command->grace_ms;
    }
    if (clock_mono_ms() >= leased->kill_ms) {
        tree_stop(leased->tree, 0);
        leased->kill_ms = INT64_MAX;
    }
}

static void wait_for_news(const struct leased *leased)
{
    struct pollfd fds[] = {
        {.fd = tree_fd(leased->tree), .events = POLLIN},
        {.fd = leased->out_fd, .events = POLLIN},
        {.fd = leased->command->signal_fd, .events = POLLIN},
    };
    int64_t at_ms = leased->taken == TAKEN_BY_NOBODY ? leased->look_ms : INT64_MAX;
    if (leased->kill_ms < at_ms)
        at_ms = leased->kill_ms;
    int64_t left_ms = at_ms == INT64_MAX ? LOOK_MS : at_ms - clock_mono_ms();
    poll(fds, sizeof fds / sizeof *fds, left_ms < 0 ? 0 : (int)left_ms);
}

/* --- its end --- */

static void say(struct leased *leased, enum leased_end end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(struct leased *leased, enum leased_end end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    leased->ret->end = end;
    vsnprintf(leased->ret->text, sizeof leased->ret->text, format, args);
    va_end(args);
}

/* Whether somebody wants this process to end, after the command has. */
static bool is_hurried(struct leased *leased)
{
    unsigned char number;
    while (leased->command->signal_fd >= 0 && read(leased->command->signal_fd, &number, 1) == 1)
        leased->hurried |= is_to_stop(number);
    return leased->hurried;
}

/* Whether the store is told again what it did not hear: until the lease is over, which it is not
 * while nobody can write. */
static bool tell_again(struct leased *leased, int rc)
{
    const struct timespec pause = {.tv_nsec = TELL_AGAIN_MS * 1000000L};
    int64_t blocked_ms = lease_blocked_ms(leased->t);
    int64_t now_ms = clock_mono_ms();
    lease_watch_blocked(&leased->watch, blocked_ms);
    bool over = blocked_ms == 0 && now_ms >= lease_watch_held_until(&leased->watch);
    if (db_gone(leased->t->db) ||
        !lease_tells_again(&leased->telling, rc, is_hurried(leased) || over, now_ms))
        return false;
    nanosleep(&pause, NULL);
    return true;
}

/* What the store has answered to the end of the job. */
static void judge_answer(struct leased *leased, int rc, const char *what, const char *repeat)
{
    long long id = (long long)leased->command->lease.id;
    if (rc == TEND_ELEASELOST || rc == TEND_ECONFLICT)
        say(leased, LEASED_LOST, "the command %s, but the lease is lost: %s", what,
            tend_errmsg(leased->t));
    else if (rc < 0)
        say(leased, LEASED_UNTOLD,
            "the command %s, but the store could not be told: %.200s; "
            "'tend %s %lld:%lld' tells it",
            what, tend_errmsg(leased->t), repeat, id, (long long)leased->command->lease.token);
    leased->ret->code = rc;
}

static const char *completed_text(int result_code)
{
    switch (result_code) {
    case 0:
        return "completed";
    case TEND_EINVAL:
        return "completed; what the command printed is longer than 1024 KiB, too much for a "
               "result: none is stored";
    default:
        return "completed; out of memory for what the command printed: no result is stored";
    }
}

static void complete(struct leased *leased)
{
    char *result = NULL;
    int rc =
        leased->redactor == NULL ? 0 : result_of_output(leased->redactor, &leased->answer, &result);
    const char *results[] = {result};
    say(leased, LEASED_COMPLETED, "%s", completed_text(rc));
    do
        rc = tend_complete(leased->t, &leased->command->lease, 1, results, NULL);
    while (rc < 0 && tell_again(leased, rc));
    free(result);
    judge_answer(leased, rc, "has succeeded", "complete");
}

static void fail(struct leased *leased, struct ending ending)
{
    const struct evidence evidence = {.ending = ending};
    struct classification class;
    struct tend_failure failure;
    char how[ENDING_TEXT_BYTES];
    char text[256];
    int rc;
    classify(NULL, &evidence, &class);
    snprintf(text, sizeof text, "%s%s%s", ending_text(ending, how), class.unknown ? "" : ": ",
             class.unknown ? "" : class.meaning);
    tend_failure_init(&failure);
    failure.error_class = failure_class_name(class.class);
    failure.text = text;
    failure.final = !class.retryable;
    say(leased, LEASED_FAILED, "failed (%s): %s", failure.error_class, text);
    do
        rc = tend_fail(leased->t, leased->command->lease, &failure, &leased->ret->due_ms);
    while (rc < 0 && tell_again(leased, rc));
    judge_answer(leased, rc, "has failed", "fail");
}

static void give_back(struct leased *leased, int64_t delay_ms, const char *why, const char *what)
{
    int rc;
    do
        rc = tend_release(leased->t, &leased->command->lease, 1, delay_ms, why, NULL);
    while (rc < 0 && tell_again(leased, rc));
    judge_answer(leased, rc, what, "release");
}

static void give_back_stopped(struct leased *leased)
{
    const char *name = sigabbrev_np(leased->ret->signal);
    char why[128];
    snprintf(why, sizeof why, "its worker was stopped by SIG%s", name != NULL ? name : "?");
    say(leased, LEASED_GIVEN_BACK, "given back: %s", why);
    give_back(leased, 0, why, "was stopped");
}

static void give_back_late(struct leased *leased)
{
    say(leased, LEASED_GIVEN_BACK,
        "given back: the lease could not be extended in time, and the command was killed");
    give_back(leased, 0, "its worker could not keep its lease in time", "was killed");
}

static void give_back_not_started(struct leased *leased, const char *why)
{
    say(leased, LEASED_NOT_STARTED, "given back: %.400s", why);
    give_back(leased, NOT_STARTED_MS, why, "was not started");
}

/* The caller has named the command, not the job. What the shell says about it has gone where the
 * caller's output goes. */
static void end_by_exit(struct leased *leased, int code)
{
    const struct ending ending = {.kind = ENDED_EXIT, .number = code};
    char why[64];
    if (leased->command->shell_line == NULL || !ending_is_no_command(ending) ||
        !shell_lacks_command(leased->command->shell_line, ".")) {
        fail(leased, ending);
        return;
    }
    snprintf(why, sizeof why, "the shell cannot start the command: exit %d", code);
    give_back_not_started(leased, why);
}

static void judge(struct leased *leased)
{
    const struct tree_event *event = &leased->event;
    int status = event->wait_status;
    bool done = event->kind == TREE_EXITED && WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                !event->deadline_passed;
    if (leased->taken == TAKEN_BY_OPERATOR)
        say(leased, LEASED_LOST, "%s; the command was stopped", leased->taken_why);
    else if (leased->taken == TAKEN_BY_OTHERS)
        say(leased, LEASED_LOST, "the lease is lost; the command was killed");
    else if (done)
        complete(leased);
    else if (event->kind == TREE_NOT_STARTED)
        give_back_not_started(leased, event->text);
    else if (event->deadline_passed)
        give_back_late(leased);
    else if (leased->ret->signal != 0)
        give_back_stopped(leased);
    else if (event->kind == TREE_LOST)
        fail(leased, (struct ending){.kind = ENDED_SIGNAL, .number = SIGKILL});
    else if (WIFSIGNALED(status))
        fail(leased, (struct ending){.kind = ENDED_SIGNAL, .number = WTERMSIG(status)});
    else
        end_by_exit(leased, WEXITSTATUS(status));
}

/* --- the whole --- */

/* All that may fail for want of something here, before the command is started. */
static int start(struct leased *leased, struct err *err)
{
    const struct leased_command *command = leased->command;
    const struct tend_job *job = &leased->jobs->items[0];
    int rc = 0;
    if (!sweep_before_run(leased->t, &command->ear, job))
        return err_set(err, TEND_ESTATE, "what an earlier run left running could not be ended");
    if (command->takes_result)
        rc = make_redactor(leased, job, err);
    if (rc == 0)
        rc = tree_pool_open(&leased->pool, command->helper_path, err);
    return rc < 0 ? rc : spawn(leased, err);
}

static void run(struct leased *leased)
{
    while (!leased->over) {
        wait_for_news(leased);
        read_output(leased);
        read_events(leased);
        if (leased->over)
            break;
        pass_signals_on(leased);
        look_after_lease(leased);
    }
    read_output(leased);
    judge(leased);
}

int leased_run(tend *t, const struct leased_command *command, struct leased_result *ret)
{
    struct leased leased = {
        .t = t, .command = command, .ret = ret, .out_fd = -1, .kill_ms = INT64_MAX};
    *ret = (struct leased_result){.due_ms = TEND_UNSET};
    struct err err;
    buf_init(&leased.answer);
    int rc = begin_lease(&leased);
    bool refused = rc < 0 && !lease_trouble_passes(rc);
    if (rc < 0)
        err_set(&err, rc, "%s", tend_errmsg(t));
    else
        rc = start(&leased, &err);
    if (rc == 0)
        run(&leased);
    else if (!refused)
        give_back_not_started(&leased, err.text);
    tend_jobs_free(leased.jobs);
    if (leased.tree != NULL)
        tree_free(leased.tree);
    if (leased.pool != NULL)
        tree_pool_close(leased.pool);
    if (leased.out_fd >= 0)
        close(leased.out_fd);
    buf_done(&leased.answer);
    redactor_free(leased.redactor);
    return refused ? rc : 0;
}

void leased_give_back(tend *t, struct tend_lease lease, const char *why, struct leased_result *ret)
{
    const struct leased_command command = {.lease = lease, .signal_fd = -1};
    struct leased leased = {.t = t, .command = &command, .ret = ret};
    *ret = (struct leased_result){.due_ms = TEND_UNSET};
    give_back_not_started(&leased, why);
}
