/*
 * tend work: runs jobs. A client of tend_runner_* with options in front and a screen behind
 * (run_screen.h).
 */
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/run_screen.h"
#include "cli/store_place.h"
#include "run/shell_word.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE_MOST = 10000 };

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
        "end when nothing is due now: jobs that wait for a retry or a later time stay, and the exit status is 0 "
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
    if (status == EXIT_DONE) {
        say_queues(&screen);
        status = run_screen_run(&screen, runner);
        struct tend_runner_totals totals;
        tend_runner_count(runner, &totals);
        print_totals(cli, &totals);
        if (status == EXIT_DONE)
            status = check_drained(cli, &totals);
    }
    tend_runner_free(runner);
    run_screen_done(&screen);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct plan plan = {.handler_count = 0};
    int status = read_plan(cli, &plan);
    cli->who = args.name;
    cli->waits_for_room = true;
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
