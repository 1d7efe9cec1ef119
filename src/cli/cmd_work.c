/*
 * tend work: runs jobs. A client of tend_runner_* with options in front and a screen behind
 * (run_screen.h).
 */
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/queue_text.h"
#include "cli/run_screen.h"
#include "cli/store_place.h"
#include "run/shell_word.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE_MOST = 10000,
    DRAIN_ROOM_MS = 7000, /* as the runner waits for what it lacks: LACK_TRIES_MOST in run/lack.h */
};

static struct {
    struct text_list queues, limits, handlers;
    int64_t at_once, stop_after_ms;
    bool drain;
    const char *name, *folder, *statsd;
} args = {.at_once = TEND_UNSET, .stop_after_ms = TEND_UNSET};

static const struct option options[] = {
    OPTION("queue", 'q', "QUEUE", OPTION_LIST,
           "a queue to work on (default \"default\"); may be given again", &args.queues),
    OPTION("concurrency", 'c', "N", OPTION_INT,
           "steps of each kind at once (default shell 5, http 10, others 5)", &args.at_once,
           .min = 1, .max = AT_ONCE_MOST),
    OPTION("limit", 0, "KIND=N", OPTION_LIST,
           "steps of this kind at once: shell (run and exec), http, sleep, or a handler's; may be "
           "given again",
           &args.limits),
    OPTION("handler", 0, "KIND=COMMAND", OPTION_LIST,
           "jobs of this kind are run by a shell command with the payload on its standard input; "
           "may be given again",
           &args.handlers),
    OPTION(
        "name", 0, "NAME", OPTION_TEXT,
        "name of this worker in 'tend workers', leases and events (default user@host); use one per process, as $(hostname):$$",
        &args.name),
    OPTION(
        "drain", 0, NULL, OPTION_FLAG,
        "end when nothing is due now: jobs that wait for a retry or a later time stay, and so do those of a paused queue, which is said; "
        "jobs that are due and kept back by a limit of their queue (rate, concurrency, serial) are waited for, which is said once. The exit status is 0 "
        "also when jobs have failed; it is 1 when there were jobs and this worker could run none, for want of "
        "a handler, a folder or room",
        &args.drain),
    OPTION("stop-after", 0, "DURATION", OPTION_DURATION,
           "how long running jobs are waited for after a signal (default 30s)",
           &args.stop_after_ms),
    OPTION(
        "folder", 0, "FOLDER", OPTION_TEXT,
        "for workspaces and files of attempts (default: run beside a store in .tend, else .tend/run)",
        &args.folder),
    OPTION("statsd", 0, "HOST:PORT", OPTION_TEXT,
           "send metrics there by UDP (else TEND_STATSD, else nowhere)", &args.statsd),
    OPTION_END,
};

/* "KIND=REST": the kind, for free(), and what stands behind the sign. NULL: *ret_status says how
 * that ends. */
static char *split(struct cli *cli, const char *option, const char *form, const char *text,
                   const char **ret_rest, int *ret_status)
{
    const char *equals = strchr(text, '=');
    *ret_rest = equals ? equals + 1 : "";
    if (!equals || equals == text || !equals[1]) {
        *ret_status = cli_fail(cli, TEND_EINVAL, "work: --%s: \"%s\" is not of the form %s", option,
                               text, form);
        return NULL;
    }
    char *kind = strndup(text, (size_t)(equals - text));
    if (!kind)
        *ret_status = cli_fail(cli, TEND_ENOMEM, "out of memory");
    return kind;
}

/* What the options come to, for the library. */
struct plan {
    struct tend_handler *handlers;
    struct tend_kind_limit *limits;
    size_t handler_count, limit_count;
};

static void plan_done(struct plan *plan)
{
    for (size_t i = 0; i < plan->handler_count; i++)
        free((char *)plan->handlers[i].kind);
    for (size_t i = 0; i < plan->limit_count; i++)
        free((char *)plan->limits[i].kind);
    free(plan->handlers);
    free(plan->limits);
}

static int read_handlers(struct cli *cli, struct plan *plan)
{
    for (size_t i = 0; i < args.handlers.count; i++) {
        int status = EXIT_DONE;
        const char *command;
        char *kind =
            split(cli, "handler", "KIND=COMMAND", args.handlers.items[i], &command, &status);
        if (!kind)
            return status;
        plan->handlers[plan->handler_count++] =
            (struct tend_handler){.kind = kind, .command = command};
        if (shell_lacks_command(command, NULL))
            return cli_fail(cli, TEND_EINVAL,
                            "work: --handler %s=%s: there is no such command here, and every job "
                            "of this kind would be given back",
                            kind, command);
        for (size_t j = 0; j + 1 < plan->handler_count; j++)
            if (strcmp(plan->handlers[j].kind, kind) == 0)
                return cli_fail(cli, TEND_EINVAL, "work: --handler: kind %s has two commands",
                                kind);
    }
    return EXIT_DONE;
}

static int read_limits(struct cli *cli, struct plan *plan)
{
    for (size_t i = 0; i < args.limits.count; i++) {
        int status = EXIT_DONE;
        char *end;
        const char *number;
        char *kind = split(cli, "limit", "KIND=N", args.limits.items[i], &number, &status);
        if (!kind)
            return status;
        errno = 0;
        long long limit = strtoll(number, &end, 10);
        plan->limits[plan->limit_count++] = (struct tend_kind_limit){.kind = kind, .limit = limit};
        if (errno || *end || limit < 1 || limit > AT_ONCE_MOST)
            return cli_fail(cli, TEND_EINVAL,
                            "work: --limit: \"%s\" is not a whole number from 1 to %d", number,
                            AT_ONCE_MOST);
    }
    return EXIT_DONE;
}

/* A limit on a kind that nothing here runs would do nothing, and is a slip. */
static int check_limits(struct cli *cli, const struct plan *plan)
{
    static const char *const ours[] = {"shell", "http", "sleep"};
    enum { OURS = sizeof ours / sizeof *ours };
    for (size_t i = 0; i < plan->limit_count; i++) {
        const char *kind = plan->limits[i].kind;
        struct suggestion near;
        bool known = false;
        suggestion_init(&near, kind);
        for (size_t j = 0; j < OURS + plan->handler_count; j++) {
            const char *other = j < OURS ? ours[j] : plan->handlers[j - OURS].kind;
            known |= strcmp(other, kind) == 0;
            suggestion_offer(&near, other);
        }
        if (!known)
            return cli_fail(cli, TEND_EINVAL,
                            "work: --limit: no step here is of kind \"%s\"; there are shell, http, "
                            "sleep and those with a --handler%s%s%s",
                            kind, near.best ? "; did you mean \"" : "", near.best ? near.best : "",
                            near.best ? "\"?" : "");
    }
    return EXIT_DONE;
}

static int read_plan(struct cli *cli, struct plan *plan)
{
    plan->handlers = calloc(args.handlers.count + 1, sizeof *plan->handlers);
    plan->limits = calloc(args.limits.count + 1, sizeof *plan->limits);
    if (!plan->handlers || !plan->limits)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    int status = read_handlers(cli, plan);
    if (status == EXIT_DONE)
        status = read_limits(cli, plan);
    return status == EXIT_DONE ? check_limits(cli, plan) : status;
}

static const char *statsd_address(void)
{
    const char *address = args.statsd ? args.statsd : getenv("TEND_STATSD");
    return address && *address ? address : NULL;
}

static struct tend_runner_options runner_options(const struct plan *plan, struct run_screen *screen)
{
    struct tend_runner_options wanted;
    tend_runner_options_init(&wanted);
    wanted.queues = args.queues.items;
    wanted.queue_count = args.queues.count;
    wanted.handlers = plan->handlers;
    wanted.handler_count = plan->handler_count;
    wanted.limits = plan->limits;
    wanted.limit_count = plan->limit_count;
    wanted.limit_others = args.at_once;
    wanted.drain = args.drain;
    if (args.stop_after_ms != TEND_UNSET)
        wanted.stop_ms = args.stop_after_ms;
    wanted.folder = args.folder ? args.folder : store_place_run_folder();
    wanted.statsd = statsd_address();
    wanted.tell = run_screen_tell;
    wanted.tell_arg = screen;
    return wanted;
}

/* --- what is said of the queues --- */

static size_t queue_count(void)
{
    return args.queues.count > 0 ? args.queues.count : 1;
}

static const char *queue_at(size_t i)
{
    return args.queues.count > 0 ? args.queues.items[i] : "default";
}

/* A queue that was named and is not there may be misspelt, or its first job comes later. */
static void say_unknown(struct run_screen *screen)
{
    for (size_t i = 0; i < args.queues.count; i++) {
        struct buf text;
        buf_init(&text);
        if (queue_unknown_text(screen->cli, args.queues.items[i], " yet", &text))
            run_screen_say(screen, "%s", text.data);
        buf_done(&text);
    }
}

/* A worker that is to drain waits for what is due and may not start yet. */
struct drain {
    struct run_screen *screen;
    bool *told; /* for each queue: that it is waited for */
};

static bool is_limit(const char *reason)
{
    static const char *const limits[] = {"rate", "concurrency", "key_concurrency", "lock"};
    bool is = false;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        is |= strcmp(reason, limits[i]) == 0;
    return is;
}

/* Whether a job of the queue is due and kept from starting; says by what. */
static bool say_limit(struct run_screen *screen, const char *queue)
{
    struct tend_filter filter;
    struct tend_explanation why;
    struct tend_jobs *jobs;
    tend_filter_init(&filter);
    filter.queue = queue;
    filter.states = 1u << TEND_PENDING;
    filter.limit = 1;
    if (tend_list(screen->cli->store, &filter, &jobs) < 0)
        return false; /* the next look may go better */
    bool limited = jobs->count > 0 &&
                   tend_explain(screen->cli->store, jobs->items[0].id, &why) == 0 &&
                   is_limit(why.reason);
    if (limited)
        run_screen_say(screen, "--drain waits for the queue %s: job %" PRId64 " is due. %s", queue,
                       jobs->items[0].id, why.text);
    tend_jobs_free(jobs);
    return limited;
}

/* On the screen's thread, while nothing runs here. */
static void look_at_limits(void *arg)
{
    const struct drain *drain = arg;
    struct tend_running one;
    if (tend_runner_look(drain->screen->runner, &one, 1) > 0)
        return;
    for (size_t i = 0; i < queue_count(); i++)
        drain->told[i] = drain->told[i] || say_limit(drain->screen, queue_at(i));
}

static bool works_on(const char *queue)
{
    for (size_t i = 0; i < queue_count(); i++)
        if (strcmp(queue, queue_at(i)) == 0)
            return true;
    return false;
}

/* At the end: jobs that stay because their queue is paused. */
static void note_paused(struct cli *cli)
{
    struct tend_stats *stats;
    if (!args.drain || tend_stats(cli->store, &stats) < 0)
        return;
    for (size_t i = 0; i < stats->count; i++) {
        const struct tend_queue *settings = &stats->items[i].settings;
        int64_t jobs = stats->items[i].jobs[TEND_PENDING];
        if (!settings->paused || jobs == 0 || !works_on(settings->name))
            continue;
        cli_note(cli,
                 "work: %" PRId64 " %s in the queue %s, which is paused%s%s; 'tend queue set %s "
                 "--paused off' lets it go on",
                 jobs, jobs == 1 ? "job stays" : "jobs stay", settings->name,
                 *settings->paused_why ? ": " : "", settings->paused_why, settings->name);
    }
    tend_stats_free(stats);
}

static void say_queues(struct run_screen *screen)
{
    struct buf names;
    buf_init(&names);
    for (size_t i = 0; i < args.queues.count; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", args.queues.items[i]);
    run_screen_say(screen, "working on %s %s", args.queues.count > 1 ? "the queues" : "the queue",
                   args.queues.count ? names.data : "default");
    buf_done(&names);
}

static void print_totals(struct cli *cli, const struct tend_runner_totals *totals)
{
    struct buf *out = &cli->out;
    if (!cli->json) {
        buf_printf(out,
                   "%" PRId64 " done, %" PRId64 " failed, %" PRId64 " tried again later, %" PRId64
                   " held, %" PRId64 " given back\n",
                   totals->done, totals->failed, totals->retried, totals->held, totals->given_back);
        return;
    }
    json_open(out, NULL, '{');
    json_text(out, "event", "end");
    json_int(out, "done", totals->done);
    json_int(out, "failed", totals->failed);
    json_int(out, "retried", totals->retried);
    json_int(out, "held", totals->held);
    json_int(out, "given_back", totals->given_back);
    json_close(out, '}');
    buf_putc(out, '\n');
}

/* Jobs were there to be drained, and this worker is not fit for any of them. */
static int check_drained(struct cli *cli, const struct tend_runner_totals *totals)
{
    bool none = totals->done + totals->failed + totals->retried + totals->held == 0 &&
                totals->given_back == totals->unfit;
    if (!args.drain || totals->unfit == 0 || !none)
        return EXIT_DONE;
    return cli_fail_as(cli, EXIT_FAILED, TEND_ENOTFOUND,
                       "work: no job could be run here, for want of a handler or of a job's "
                       "folder; 'tend explain ID' says what is missing");
}

static int work(struct cli *cli, const struct plan *plan)
{
    struct run_screen screen;
    tend_runner *runner = NULL;
    run_screen_init(&screen, cli);
    struct tend_runner_options wanted = runner_options(plan, &screen);
    int code = tend_runner_new(&runner, cli->store, &wanted);
    int status = code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
    bool *told = calloc(queue_count(), sizeof *told);
    struct drain drain = {.screen = &screen, .told = told};
    if (args.drain && told) {
        screen.look = look_at_limits;
        screen.look_arg = &drain;
    }
    if (status == EXIT_DONE) {
        say_queues(&screen);
        say_unknown(&screen);
        status = run_screen_run(&screen, runner);
        struct tend_runner_totals totals;
        tend_runner_count(runner, &totals);
        if (status == EXIT_DONE)
            note_paused(cli);
        print_totals(cli, &totals);
        if (status == EXIT_DONE)
            status = check_drained(cli, &totals);
    }
    tend_runner_free(runner);
    run_screen_done(&screen);
    free(told);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct plan plan = {.handler_count = 0};
    int status = read_plan(cli, &plan);
    cli->who = args.name;
    cli->room_ms = args.drain ? DRAIN_ROOM_MS : INT64_MAX;
    if (status == EXIT_DONE)
        status = cli_open_store(cli, STORE_EXISTING);
    if (status == EXIT_DONE)
        status = work(cli, &plan);
    plan_done(&plan);
    return status;
}

const struct command cmd_work = {
    .name = "work",
    .group = "Running",
    .text = "run jobs: claim, run their steps, heal what fails, complete",
    .about =
        "A job says in its payload what to do: {\"run\": \"make\"}, {\"exec\": [\"make\", \"-j2\"]}, "
        "{\"http\": {…}}, {\"sleep\": \"5s\"} or {\"steps\": […]}; jobs of a kind with a handler are "
        "run by its command, whose output is the result. On a terminal each running step has a line "
        "with job, step, time, silence, attempt and its last output; elsewhere a line is printed "
        "per event, with --json an object.\n"
        "SIGTERM or SIGINT: no more jobs are claimed and no step is tried again: a job that is between "
        "two attempts of a step goes back to the queue at once, due when its pause is over. A step that "
        "runs, and the steps after it in the same job, are waited for (--stop-after); a second signal "
        "ends them at once. What was not finished is given back, free of charge. A server that does not answer, "
        "and whoever keeps an SQLite store from being written, is waited for no longer than "
        "--stop-after and a few seconds; what could not be given back is said, and its lease ends "
        "by itself. SIGHUP changes nothing, as the settings of a queue are read for every job. Under systemd (Type=notify) readiness, "
        "status and the watchdog are served.",
    .examples = "tend work -q build -q mail\n"
                "tend work -c 2 --limit http=20\n"
                "tend work --handler welcome=./send-welcome --drain",
    .options = options,
    .store = STORE_NONE,
    .run = run,
};
