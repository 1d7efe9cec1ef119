/*
 * tend run: a flow file of one stage, started and followed to its end.
 *
 * The stage becomes a job like any other (flow_file.h). Without a queue of its own it goes to the
 * queue "run", of which this process takes that job and no other; with one, the workers of that
 * queue run it. In both cases its output is read from the store, as anybody could.
 */
#include "base/err.h"
#include "base/timetext.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/flow_file.h"
#include "cli/input.h"
#include "cli/json_out.h"
#include "cli/logs.h"
#include "cli/run_screen.h"
#include "cli/store_place.h"
#include "cli/waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct text_list params;
    bool detach;
    const char *resume, *folder;
} args;

static const struct option options[] = {
    OPTION("param", 0, "NAME=VALUE", OPTION_LIST,
           "a parameter of the flow, for its steps TEND_PARAM_NAME; may be given again",
           &args.params),
    OPTION("detach", 'd', NULL, OPTION_FLAG,
           "only add the job, to the stage's queue or \"default\", and print its id", &args.detach),
    OPTION("resume", 0, "ID", OPTION_TEXT,
           "go on with a job that 'tend run' began and did not finish; takes no FILE",
           &args.resume),
    OPTION(
        "folder", 0, "FOLDER", OPTION_TEXT,
        "for workspaces and files of attempts (default: run beside a store in .tend, else .tend/run)",
        &args.folder),
    OPTION_END,
};

/* Of jobs that are run by the command that added them. */
static const char own_queue[] = "run";

/* --- how it ended --- */

static void put_end(struct cli *cli, const struct tend_job *job)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_text(out, "event", "end");
    json_int(out, "job_id", job->id);
    json_ending_members(out, job);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static int tell_end(struct cli *cli, const struct tend_job *job)
{
    char time[DURATION_TEXT_BYTES];
    int64_t id = job->id;
    bool done = job->state == TEND_DONE;
    if (cli->json)
        put_end(cli, job);
    else if (done)
        buf_printf(&cli->out, "job %" PRId64 " is done, %s after it was added\n", id,
                   span_text(job->finished_at_ms - job->created_at_ms, time));
    else
        note_bad_end(cli, job, job_has_output(cli->store, id));
    return done ? EXIT_DONE : EXIT_FAILED;
}

/* The exit status of the whole: by the job's end, or by the signal that came before it. */
static int conclude(struct cli *cli, int64_t id, bool drawn, const char *unfinished)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, id, &jobs);
    if (code < 0)
        return cli_fail_store(cli, code);
    int status = signals_exit_status();
    /* Where steps were drawn, their output has only been seen line by line. */
    if (drawn && jobs->items[0].state == TEND_FAILED)
        logs_print_tail(cli, id);
    if (job_has_ended(jobs->items[0].state))
        status = tell_end(cli, &jobs->items[0]);
    else
        cli_note(cli, "job %" PRId64 " is %s; %s", id, tend_state_name(jobs->items[0].state),
                 unfinished);
    tend_jobs_free(jobs);
    return status;
}

/* --- run here --- */

struct watch {
    struct cli *cli;
    int64_t job_id;
    struct run_screen screen;
    struct logs_reading logs; /* the screen's thread's own, while the runner works */
    bool told_held;
};

static struct logs_wish output_wish(int64_t id)
{
    return (struct logs_wish){.job_id = id, .headers = true, .events = true};
}

static void show_output(void *arg, int64_t number, bool line_follows)
{
    struct watch *watch = arg;
    (void)logs_more(&watch->logs, number); /* what cannot be read now is read the next time */
    if (line_follows && !watch->cli->json)
        logs_break(&watch->logs);
}

/* On the screen's thread: the runner stops when the job is over, whoever ended it. */
static void look(void *arg)
{
    struct watch *watch = arg;
    struct tend_jobs *jobs;
    int code = tend_get(watch->cli->store, watch->job_id, &jobs);
    if (code == TEND_ENOTFOUND)
        tend_runner_stop(watch->screen.runner, 0);
    if (code < 0)
        return; /* the next look may go better */
    int state = jobs->items[0].state;
    tend_jobs_free(jobs);
    if (job_has_ended(state))
        tend_runner_stop(watch->screen.runner, 0);
    if (state == TEND_HELD && !watch->told_held)
        run_screen_say(&watch->screen,
                       "job %" PRId64 " is held until 'tend control %" PRId64 " resume'",
                       watch->job_id, watch->job_id);
    watch->told_held = state == TEND_HELD;
}

/* How the job has ended is said once, by the last line (tell_end). */
static void tell(void *arg, const struct tend_runner_news *news)
{
    struct watch *watch = arg;
    struct tend_runner_news told = *news;
    if (!watch->cli->json && news->kind == TEND_NEWS_JOB_ENDS && job_has_ended(news->state))
        told.text = "";
    run_screen_tell(&watch->screen, &told);
}

static struct tend_runner_options runner_options(struct watch *watch)
{
    static const char *const queues[] = {own_queue};
    struct tend_runner_options wanted;
    tend_runner_options_init(&wanted);
    wanted.queues = queues;
    wanted.queue_count = 1;
    wanted.job_id = watch->job_id;
    wanted.folder = args.folder ? args.folder : store_place_run_folder();
    const char *statsd = getenv("TEND_STATSD");
    wanted.statsd = statsd && *statsd ? statsd : NULL;
    wanted.tell = tell;
    wanted.tell_arg = watch;
    return wanted;
}

static int run_here(struct cli *cli, int64_t id)
{
    struct watch watch = {.cli = cli, .job_id = id};
    const struct logs_wish wish = output_wish(id);
    tend_runner *runner = NULL;
    char hint[96];
    run_screen_init(&watch.screen, cli);
    watch.screen.stops_at_once = true;
    watch.screen.look = look;
    watch.screen.output = show_output;
    watch.screen.look_arg = &watch;
    logs_begin(&watch.logs, cli, &wish);
    struct tend_runner_options wanted = runner_options(&watch);
    int code = tend_runner_new(&runner, cli->store, &wanted);
    int status = code < 0 ? cli_fail_store(cli, code) : run_screen_run(&watch.screen, runner);
    tend_runner_free(runner);
    logs_end(&watch.logs);
    bool drawn = watch.screen.live;
    run_screen_done(&watch.screen);
    snprintf(hint, sizeof hint, "'tend run --resume %" PRId64 "' goes on with it", id);
    return status == EXIT_DONE ? conclude(cli, id, drawn, hint) : status;
}

static int resume(struct cli *cli)
{
    int64_t id;
    struct tend_jobs *jobs;
    int status = argument_id(cli, args.resume, &id);
    if (status == EXIT_DONE)
        status = cli_open_store(cli, STORE_EXISTING);
    if (status != EXIT_DONE)
        return status;
    int code = tend_get(cli->store, id, &jobs);
    if (code < 0)
        return cli_fail_store(cli, code);
    const struct tend_job *job = &jobs->items[0];
    if (strcmp(job->queue, own_queue) != 0)
        status = cli_fail(cli, TEND_ESTATE,
                          "run: job %" PRId64 " is in the queue %s, whose workers run it", id,
                          job->queue);
    else if (job->state == TEND_DONE)
        status = cli_fail(cli, TEND_ESTATE,
                          "run: job %" PRId64 " is done, nothing is left to resume; 'tend control "
                          "%" PRId64 " resume_from_step --step STEP' makes a new job that goes on "
                          "from that step, which 'tend run --resume' with its id runs",
                          id, id);
    else if (job_has_ended(job->state))
        status = cli_fail(cli, TEND_ESTATE,
                          "run: job %" PRId64 " %s; 'tend retry %" PRId64
                          "' brings it back, then 'tend run --resume %" PRId64 "' goes on with it",
                          id, job->state == TEND_FAILED ? "has failed" : "was cancelled", id, id);
    else
        status = run_here(cli, id);
    tend_jobs_free(jobs);
    return status;
}

/* --- a new job --- */

static int follow(struct cli *cli, int64_t id)
{
    struct logs_wish wish = output_wish(id);
    wish.follow = true;
    int status = logs_print(cli, &wish);
    if (status != EXIT_DONE && !signals_seen())
        return status;
    char hint[96];
    snprintf(hint, sizeof hint, "it goes on without you; 'tend logs -f %" PRId64 "' follows it",
             id);
    return conclude(cli, id, false, hint);
}

static void tell_added(struct cli *cli, int64_t id, const char *queue)
{
    struct buf *out = &cli->out;
    if (cli->json) {
        json_open(out, NULL, '{');
        if (!args.detach)
            json_text(out, "event", "added");
        json_int(out, args.detach ? "id" : "job_id", id);
        json_text(out, "queue", queue);
        json_close(out, '}');
        buf_putc(out, '\n');
    } else if (args.detach) {
        buf_printf(out, "%" PRId64 "\n", id);
    }
}

static int add_and_run(struct cli *cli, const struct flow_job *flow)
{
    const char *queue = flow->queue ? flow->queue : args.detach ? "default" : own_queue;
    struct tend_job_spec spec;
    struct tend_added added;
    tend_job_spec_init(&spec);
    spec.queue = queue;
    spec.kind = flow->kind;
    spec.payload = flow->payload;
    spec.payload_bytes = flow->payload_bytes;
    spec.priority = flow->priority;
    spec.max_attempts = flow->max_attempts;
    spec.backoff_ms = flow->backoff_ms;
    spec.backoff_max_ms = flow->backoff_max_ms;
    int code = tend_add(cli->store, &spec, &added);
    if (code < 0)
        return cli_fail_store(cli, code);
    tell_added(cli, added.id, queue);
    if (args.detach)
        return EXIT_DONE;
    if (!flow->queue)
        return run_here(cli, added.id);
    cli_note(cli, "job %" PRId64 " is in the queue %s; its workers run it", added.id, queue);
    return follow(cli, added.id);
}

static int start(struct cli *cli, const char *path)
{
    struct buf text;
    struct err err;
    struct flow_job flow = {.payload = NULL};
    buf_init(&text);
    int status = EXIT_DONE;
    int code = input_read(path, &text, &err);
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (code >= 0)
        code = flow_file_read(name, text.data, text.len, &args.params, &flow, &err);
    if (code < 0)
        status = cli_fail_as(cli, code == TEND_ENOMEM ? EXIT_FAILED : EXIT_USAGE, code, "run: %s",
                             err.text);
    if (status == EXIT_DONE)
        status = cli_open_store(cli, STORE_MADE);
    if (status == EXIT_DONE)
        status = add_and_run(cli, &flow);
    flow_job_done(&flow);
    buf_done(&text);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    if (args.resume && (argc > 0 || args.detach || args.params.count > 0))
        return cli_fail(cli, TEND_EINVAL,
                        "run: --resume goes on with a job as it is; leave out everything else");
    if (!args.resume && argc != 1)
        return cli_fail(cli, TEND_EINVAL, "run: which flow? usage: tend run FILE");
    return args.resume ? resume(cli) : start(cli, argv[0]);
}

const struct command cmd_run = {
    .name = "run",
    .group = "Running",
    .form = "FILE",
    .text = "start a flow and follow it to its end",
    .about =
        "FILE (YAML or JSON; - is standard input) has one stage with steps; flows of several stages "
        "are not supported yet. A stage without a queue is run by this command itself: its job is in "
        "the queue \"run\", of which this command takes only that job. One with a queue is run by that "
        "queue's workers. The output of the steps is shown as it comes; on a terminal a running step "
        "has a line with its last output, and of one that failed the end is shown. With --json an "
        "object per event: added, job_begins, output, step, job_ends, note, end. What fails is tried "
        "again as 'retry' says, and waited for.\n"
        "The exit status is 0 when the job is done, 1 when it has failed or was cancelled. ^C stops "
        "it and gives the job back; --resume goes on with it at the step where it was.",
    .examples = "tend run release.yaml --param version=1.4\n"
                "tend run release.yaml --detach\n"
                "tend run --resume 12",
    .options = options,
    .args_max = 1,
    .store = STORE_NONE,
    .run = run,
};
