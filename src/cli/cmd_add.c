/* tend add: one job from options, or many from JSON lines. */
#include "base/err.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/batch.h"
#include "cli/cli.h"
#include "cli/command_job.h"
#include "cli/json_out.h"
#include "cli/plan.h"
#include "cli/waiting.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *queue, *kind, *unique, *subject, *if_running, *key, *batch;
    struct command_job_args command;
    struct text_list tags;
    int64_t priority, in_ms, at_ms;
    int64_t max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms;
    struct document payload;
    bool wait, result;
    int64_t timeout_ms;
} args = {
    .priority = TEND_PRIORITY_DEFAULT,
    .in_ms = TEND_UNSET,
    .at_ms = TEND_UNSET,
    .max_attempts = TEND_UNSET,
    .max_crashes = TEND_UNSET,
    .backoff_ms = TEND_UNSET,
    .backoff_max_ms = TEND_UNSET,
    .lease_ms = TEND_UNSET,
    .timeout_ms = TEND_UNSET,
};

static const struct option options[] = {
    OPTION("queue", 'q', "QUEUE", OPTION_TEXT, "queue to add to (default \"default\")",
           &args.queue),
    OPTION("kind", 'k', "KIND", OPTION_TEXT, "what sort of work it is", &args.kind),
    OPTION("payload", 0, "JSON|@FILE|-", OPTION_JSON,
           "what the job is about, kept byte for byte (default {})", &args.payload),
    OPTION("priority", 'p', "0-9", OPTION_INT, "0 is most urgent (default 5)", &args.priority,
           .min = 0, .max = 9),
    OPTION("in", 0, "DURATION", OPTION_DURATION, "due after this time: 90s, 1h30m", &args.in_ms),
    OPTION("at", 0, "TIME", OPTION_TIME, "due at a time: 2026-01-31T10:00:00Z, @1767225600",
           &args.at_ms),
    OPTION("unique", 0, "KEY", OPTION_TEXT, "one unfinished job per queue and key", &args.unique),
    OPTION(
        "subject", 0, "TEXT", OPTION_TEXT,
        "what --unique stands for: adding again with the same subject updates the waiting job; with another "
        "subject it is refused (exit 4)",
        &args.subject),
    OPTION(
        "if-running", 0, "again|keep", OPTION_CHOICE,
        "when the job with the key is running: run once more with what is submitted now (again, the "
        "default), or change nothing (keep)",
        &args.if_running, .choices = "again|keep"),
    OPTION("key", 0, "KEY", OPTION_TEXT, "counts against the queue's key-concurrency", &args.key),
    OPTION("tag", 0, "TAG", OPTION_LIST, "a tag; may be given again; a comma is part of it",
           &args.tags),
    COMMAND_JOB_OPTIONS(args.command),
    OPTION("max-attempts", 0, "N", OPTION_INT,
           "how often the queue tries the job (else as the queue says); see --attempts for its "
           "command",
           &args.max_attempts, .min = 1, .max = 1000000),
    OPTION("max-crashes", 0, "N", OPTION_INT,
           "crashes until it is quarantined (else as the queue says)", &args.max_crashes, .min = 1,
           .max = 1000000),
    OPTION("backoff", 0, "DURATION", OPTION_DURATION, "wait before the second attempt; doubles",
           &args.backoff_ms),
    OPTION("backoff-max", 0, "DURATION", OPTION_DURATION, "no wait is longer",
           &args.backoff_max_ms),
    OPTION("lease", 0, "DURATION", OPTION_DURATION,
           "how long a claim holds without a heartbeat: 100ms to 366d (else as the queue says)",
           &args.lease_ms),
    OPTION("batch", 0, "FILE|-", OPTION_TEXT,
           "a job for each line of JSON; the other options are its defaults; see tend-batch(5)",
           &args.batch),
    OPTION(
        "wait", 0, NULL, OPTION_FLAG,
        "wait until the job has ended, as 'tend wait': exit status 0 when it is done, 1 when it failed or was cancelled",
        &args.wait, .timed_by = "timeout"),
    OPTION("timeout", 0, "DURATION", OPTION_DURATION,
           "with --wait: give up waiting after this time, with exit status 5", &args.timeout_ms),
    OPTION("result", 0, NULL, OPTION_FLAG, "with --wait: print the job's result, and not its id",
           &args.result),
    OPTION_END,
};

static int tags_json(struct cli *cli, struct buf *out)
{
    json_open(out, NULL, '[');
    for (size_t i = 0; i < args.tags.count; i++) {
        const char *tag = args.tags.items[i];
        if (!utf8_valid(tag, strlen(tag)))
            return cli_fail(cli, TEND_EINVAL, "add: the tag \"%s\" is not UTF-8 and cannot be kept",
                            tag);
        if (!*tag)
            return cli_fail(cli, TEND_EINVAL, "add: a tag cannot be empty");
        json_text(out, NULL, tag);
    }
    json_close(out, ']');
    return EXIT_DONE;
}

static void spec_of_args(struct tend_job_spec *spec)
{
    tend_job_spec_init(spec);
    if (args.queue)
        spec->queue = args.queue;
    if (args.kind)
        spec->kind = args.kind;
    if (args.payload.text) {
        spec->payload = args.payload.text;
        spec->payload_bytes = args.payload.bytes;
    }
    spec->priority = (int)args.priority;
    spec->due_at_ms = args.at_ms;
    spec->delay_ms = args.in_ms;
    spec->unique_key = args.unique;
    spec->subject = args.subject;
    if (args.if_running && strcmp(args.if_running, "keep") == 0)
        spec->if_running = TEND_IF_RUNNING_KEEP;
    spec->concurrency_key = args.key;
    spec->max_attempts = args.max_attempts;
    spec->max_crashes = args.max_crashes;
    spec->backoff_ms = args.backoff_ms;
    spec->backoff_max_ms = args.backoff_max_ms;
    spec->lease_ms = args.lease_ms;
}

/* A held job stays held, however often it is submitted. */
static void note_refreshed(struct cli *cli, int64_t id)
{
    struct tend_jobs *jobs = NULL;
    if (cli->json || tend_get(cli->store, id, &jobs) < 0)
        return;
    if (jobs->items[0].state == TEND_HELD)
        cli_note(cli,
                 "add: job %" PRId64
                 " had this key already and took over what was submitted; it is "
                 "held until 'tend resume %" PRId64 "'",
                 id, id);
    else
        cli_note(cli, "add: job %" PRId64 " had this key already and took over what was submitted",
                 id);
    tend_jobs_free(jobs);
}

/* What else is to be known than the id. */
static void note_outcome(struct cli *cli, const struct tend_added *added)
{
    if (added->outcome == TEND_AGAIN)
        cli_note(cli,
                 "add: job %" PRId64
                 " is running under this key; what was submitted runs when that "
                 "has ended",
                 added->id);
    if (added->outcome == TEND_REFRESHED)
        note_refreshed(cli, added->id);
    if (added->outcome == TEND_UNCHANGED)
        cli_note(
            cli, "add: job %" PRId64 " is running under this key; nothing was changed%s", added->id,
            args.wait ? ", and the result is that of the running job, not of what was submitted"
                      : "");
}

static int refuse(struct cli *cli, int64_t id)
{
    char members[32];
    snprintf(members, sizeof members, "\"id\":%" PRId64, id);
    return cli_fail_more(cli, EXIT_REFUSED, TEND_ECONFLICT, members, "%s", tend_errmsg(cli->store));
}

static void print_added(struct cli *cli, const struct tend_added *added)
{
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_int(&cli->out, "id", added->id);
        json_text(&cli->out, "outcome", json_outcome(added->outcome));
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
    } else if (!args.result) {
        buf_int(&cli->out, added->id);
        buf_putc(&cli->out, '\n');
    }
    if (added->outcome != TEND_UNCHANGED)
        cli_did(cli, "job %" PRId64 " was %s, but its %s", added->id,
                added->outcome == TEND_OK ? "added" : "submitted again",
                args.result ? "result" : "id");
    note_outcome(cli, added);
}

/* Whoever gives up waiting, by ^C, leaves the job alone. last_event: from before it was added. */
static int wait_for(struct cli *cli, const struct tend_added *added, int64_t last_event)
{
    int64_t id = added->id;
    const struct waiting_wish wish = {.ids = &added->id,
                                      .count = 1,
                                      .timeout_ms = args.timeout_ms,
                                      .result = args.result,
                                      .submitted_from =
                                          added->outcome == TEND_AGAIN ? last_event + 1 : 0,
                                      .ret_id = &id};
    if (cli_flush(cli) != EXIT_DONE)
        return EXIT_DONE; /* main tells it, with what was done */
    if (!args.result)
        cli_did(cli, "%s", ""); /* the id was written */
    int status = wait_for_jobs(cli, &wish);
    if (signals_seen() && status > EXIT_SIGNAL)
        cli_note(cli,
                 "add: job %" PRId64 " goes on without you; 'tend wait %" PRId64
                 "' waits for it again",
                 id, id);
    return status;
}

static int add_one(struct cli *cli, const struct tend_job_spec *spec)
{
    int status = cli_open_store(cli, STORE_MADE);
    if (status != EXIT_DONE)
        return status;
    plan_hint(cli, spec);
    struct tend_added added = {.id = 0};
    int64_t last_event = 0;
    int code = args.wait && args.unique ? tend_last_event(cli->store, &last_event) : 0;
    if (code >= 0)
        code = tend_add(cli->store, spec, &added);
    if (code == TEND_ECONFLICT)
        return refuse(cli, added.id);
    if (code < 0)
        return cli_fail_store(cli, code);
    print_added(cli, &added);
    return args.wait ? wait_for(cli, &added, last_event) : EXIT_DONE;
}

static int check_args(struct cli *cli, int argc)
{
    if (args.in_ms != TEND_UNSET && args.at_ms != TEND_UNSET)
        return cli_fail(cli, TEND_EINVAL, "add: --in and --at exclude each other; give one");
    if (args.batch && strcmp(args.batch, "-") == 0 && args.payload.from_stdin)
        return cli_fail(
            cli, TEND_EINVAL,
            "add: --payload - and --batch - cannot both read standard input; give one a file");
    if (argc > 0 && args.batch)
        return cli_fail(cli, TEND_EINVAL,
                        "add: --batch and a command exclude each other; give one");
    if (argc > 0 && args.payload.text)
        return cli_fail(cli, TEND_EINVAL,
                        "add: a command makes the payload itself; leave out --payload");
    int status = command_job_check(cli, &args.command, argc > 0);
    if (status != EXIT_DONE)
        return status;
    if (args.wait && args.batch)
        return cli_fail(cli, TEND_EINVAL,
                        "add: --wait is for one job; 'tend wait ID…' waits for those of a batch");
    if (!args.wait && (args.result || args.timeout_ms != TEND_UNSET))
        return cli_fail(cli, TEND_EINVAL, "add: --%s is about waiting; give --wait too",
                        args.result ? "result" : "timeout");
    if (args.if_running && !args.unique && !args.batch)
        return cli_fail(cli, TEND_EINVAL,
                        "add: --if-running is about a job with a key; give --unique KEY too");
    if (args.subject && !args.unique && !args.batch)
        return cli_fail(cli, TEND_EINVAL,
                        "add: --subject says what a key stands for; give --unique KEY too");
    return EXIT_DONE;
}

/* A plan with a mistake is refused now, not by the worker. The lines of a batch, for which this one
 * is the default, find their kinds themselves. */
static int check_plan(struct cli *cli, struct tend_job_spec *spec)
{
    struct err err;
    const char *kind = spec->kind;
    int code = plan_check(spec->payload, spec->payload_bytes, &kind, &err);
    if (code < 0)
        return cli_fail(cli, code, "add: %s: %s", args.payload.text ? "--payload" : "the command",
                        err.text);
    if (!args.batch)
        spec->kind = kind;
    return EXIT_DONE;
}

/* As the library would, but before a store is made. */
static int check_spec(struct cli *cli, const struct tend_job_spec *spec)
{
    struct tend_spec_fault fault;
    int code = tend_job_spec_check(spec, &fault);
    return code < 0 ? cli_fail(cli, code, "add: %s", fault.text) : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    int status = check_args(cli, argc);
    struct tend_job_spec spec;
    char workspace[PATH_MAX];
    spec_of_args(&spec);
    if (status == EXIT_DONE)
        status = command_job_folder(cli, &args.command,
                                    argc > 0 || command_job_has_near_repo(args.payload.text),
                                    workspace, &spec.workspace);
    struct buf payload, tags;
    buf_init(&payload);
    buf_init(&tags);
    if (status == EXIT_DONE && args.tags.count > 0) {
        status = tags_json(cli, &tags);
        spec.tags = tags.data;
    }
    if (status == EXIT_DONE && argc > 0) {
        status = command_job_plan(cli, &args.command, argc, argv, &payload);
        spec.payload = payload.data;
        spec.payload_bytes = payload.len;
    }
    if (status == EXIT_DONE && (payload.failed || tags.failed))
        status = cli_fail(cli, TEND_ENOMEM, "out of memory");
    if (status == EXIT_DONE)
        status = check_plan(cli, &spec);
    if (status == EXIT_DONE)
        status = check_spec(cli, &spec);
    if (status == EXIT_DONE && argc > 0)
        command_job_hint(cli, argv[0], spec.workspace);
    if (status == EXIT_DONE)
        status = args.batch ? batch_add(cli, args.batch, &spec) : add_one(cli, &spec);
    buf_done(&payload);
    buf_done(&tags);
    return status;
}

const struct command cmd_add = {
    .name = "add",
    .group = "Jobs",
    .form = "[-- CMD ARG…]",
    .text = "add a job and print its id",
    .about =
        "The job is on disk when the id is printed. A command after -- becomes a job that 'tend work' "
        "runs, with the payload {\"exec\": […]}; 'tend logs' shows what it prints. It runs in the folder in "
        "which it was added: a worker that does not have this folder gives the job back and says so. "
        "--env-from takes variables from the worker's environment when the job runs; a secret is never "
        "stored. A payload that says "
        "what to do (run, exec, http, sleep or steps) is checked, and without --kind the job is of kind "
        "shell, http or sleep, by its first step. With --batch the ids of all jobs are printed, in "
        "the order of their lines. A file with a bad line is rejected as a whole; from a pipe, the lines before the "
        "bad one have been added.\n"
        "With --wait the command ends when the job whose id it prints has ended: exit status 0 when it is "
        "done, 1 when it has failed or was cancelled, 5 when --timeout is over. A worker must run it. For a "
        "submission under the key of a running job (--unique) it waits for that job and then for the one "
        "that the submission becomes, and the exit status is about this one; with --if-running keep, about the running "
        "job. ^C leaves the job alone. With --json there are two objects: {id, outcome}, then that of 'tend wait'.",
    .examples =
        "tend add -q mail -k welcome --payload '{\"to\": \"ann@example.org\"}'\n"
        "tend add --in 10m -- make report\n"
        "tend add --wait --timeout 1h -- make test\n"
        "tend add --attempts 1 --max-attempts 1 -- ./send-once  # not again after a failure\n"
        "tend add -q build --unique main --subject 4f2a91c\n"
        "generate-jobs | tend add -q crawl --batch -",
    .options = options,
    .args_max = ARGS_ANY,
    .behind_dashes = true,
    .store = STORE_NONE,
    .run = run,
};
