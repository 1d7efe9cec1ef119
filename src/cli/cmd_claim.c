/*
 * tend claim: lease jobs for a script, one line of JSON each.
 *
 * The command ends and the lease goes on: it is held by its time alone, or by the life of the
 * process named with --while-pid. Jobs whose line could not be written are given back.
 */
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/queue_text.h"
#include "cli/with_lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *queue, *worker, *exec;
    int64_t count, ttl_ms, wait_ms, while_pid, grace_ms;
    bool unstarted, result;
} args = {.count = 1, .ttl_ms = TEND_UNSET, .grace_ms = TEND_UNSET};

static const struct option options[] = {
    OPTION("queue", 'q', "QUEUE", OPTION_TEXT, "queue to claim from (default \"default\")",
           &args.queue),
    OPTION("worker", 'w', "NAME", OPTION_TEXT,
           "who claims (default user@host); use one per process, as $(hostname):$$", &args.worker),
    OPTION("count", 'n', "N", OPTION_INT, "how many jobs at most (default 1)", &args.count,
           .min = 1, .max = 100000),
    OPTION(
        "ttl", 0, "DURATION", OPTION_DURATION,
        "how long the lease holds without a heartbeat: 1ms to 366d (else as job or queue say, 60s)",
        &args.ttl_ms),
    OPTION("wait", 0, "DURATION", OPTION_WAIT,
           "wait for a job; without a duration for ever; also --wait DURATION", &args.wait_ms),
    OPTION("while-pid", 0, "PID", OPTION_INT,
           "the lease, and the wait for it, end with this process", &args.while_pid, .min = 1,
           .max = INT32_MAX),
    OPTION("unstarted", 0, NULL, OPTION_FLAG, "lease only: nothing is charged before 'tend start'",
           &args.unstarted),
    OPTION("exec", 0, "COMMAND", OPTION_TEXT,
           "run this shell command for the job, with the payload on its standard input, as 'tend "
           "with-lease' does",
           &args.exec),
    OPTION("grace", 0, "DURATION", OPTION_DURATION,
           "with --exec: from the signal to stop to SIGKILL (default 10s)", &args.grace_ms),
    OPTION("result-from-stdout", 0, NULL, OPTION_FLAG,
           "with --exec: what the command prints is the job's result", &args.result),
    OPTION_END,
};

/* "the next job is due in 12s", where that is known. */
static void put_until(struct cli *cli, struct buf *out, const struct tend_none *none,
                      const char *words)
{
    char when[DURATION_TEXT_BYTES];
    if (none->until_ms != TEND_UNSET)
        buf_printf(out, "%s %s", words, coming_text(none->until_ms, cli_now_ms(cli), when));
}

/* What a limit waits for. Jobs that run may end before, and go on longer; a rate goes by the clock.
 */
static void put_limit(struct cli *cli, struct buf *out, const struct tend_none *none)
{
    buf_printf(out, "its %s limit is reached", none->what);
    if (strcmp(none->what, "rate") == 0) {
        put_until(cli, out, none, "; the next may start");
        return;
    }
    buf_puts(out, "; the next may start when one ends");
    put_until(cli, out, none, "; the first lease ends");
    if (none->until_ms != TEND_UNSET)
        buf_puts(out, " unless it is renewed");
}

/* Nothing is pending: what the queue has instead. The reason for machines. */
static const char *say_empty(struct cli *cli, const char *queue, struct buf *why,
                             struct tend_none *none)
{
    struct tend_outlook outlook;
    if (tend_queue_outlook(cli->store, queue, &outlook) < 0) {
        buf_puts(why, "it is empty");
        return "empty";
    }
    if (!outlook.known && queue_unknown_text(cli, queue, "", why))
        return "unknown_queue";
    none->until_ms = outlook.due_ms;
    put_until(cli, why, none, "the next job is due");
    if (outlook.running > 0)
        buf_printf(why, "%s%" PRId64 " %s running", why->len > 0 ? ", and " : "", outlook.running,
                   outlook.running == 1 ? "job is" : "jobs are");
    else if (why->len == 0)
        buf_puts(why, "it is empty");
    if (outlook.held)
        buf_printf(why, "; some jobs are held: 'tend jobs -q %s -s held'", queue);
    return outlook.due_ms != TEND_UNSET ? "scheduled"
           : outlook.running > 0        ? "running"
           : outlook.held               ? "held"
                                        : "empty";
}

/* What it says of a queue, and the reason for machines. */
static const char *say_why(struct cli *cli, const char *queue, struct buf *why,
                           struct tend_none *none)
{
    switch (none->code) {
    case TEND_EBUSY:
        buf_printf(why, "it is busy: the lock is held by %s", none->by);
        put_until(cli, why, none, " and expires");
        if (none->until_ms != TEND_UNSET)
            buf_puts(why, " unless it is renewed");
        return "busy";
    case TEND_EPAUSED:
        buf_printf(why, "it is paused%s%s; 'tend queue set %s --paused off' lets it go on",
                   *none->by ? ": " : "", none->by, queue);
        return "paused";
    case TEND_ELIMITED:
        put_limit(cli, why, none);
        return "limited";
    default:
        return say_empty(cli, queue, why, none);
    }
}

/* The answers that are no job (CL-2). */
static int nothing_claimed(struct cli *cli, struct tend_none *none)
{
    const char *queue = args.queue ? args.queue : "default";
    struct buf why, members;
    buf_init(&why);
    buf_init(&members);
    const char *reason = say_why(cli, queue, &why, none);
    json_text(&members, "reason", reason);
    json_text(&members, "what", *none->what ? none->what : NULL);
    bool paused = none->code == TEND_EPAUSED; /* then the library has the reason in its place */
    json_text(&members, "by", *none->by && !paused ? none->by : NULL);
    json_text(&members, "why", *none->by && paused ? none->by : NULL);
    json_int_or_null(&members, "until_ms", none->until_ms);
    int status =
        strcmp(reason, "unknown_queue") == 0
            ? cli_fail_more(cli, EXIT_NOTHING, none->code, members.data, "claim: %s", why.data)
            : cli_fail_more(cli, EXIT_NOTHING, none->code, members.data,
                            "nothing to claim in queue \"%s\": %s", queue, why.data);
    buf_done(&why);
    buf_done(&members);
    return status;
}

/* Nobody has seen these leases, so nobody will work on them. */
static void give_back(struct cli *cli, const struct tend_jobs *jobs)
{
    struct tend_lease *leases = calloc(jobs->count + 1, sizeof *leases);
    if (!leases)
        return;
    for (size_t i = 0; i < jobs->count; i++)
        leases[i] = (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
    int code = tend_release(cli->store, leases, jobs->count, 0,
                            "the claimer's output could not be written", NULL);
    /* Who has closed its end does not want to know, unless something is left. */
    if (code < 0 || cli->out_errno != EPIPE)
        cli_did(cli, "%zu %s claimed and %s, because the leases", jobs->count,
                jobs->count == 1 ? "job was" : "jobs were",
                code == 0 ? "given back" : "could not be given back");
    free(leases);
}

/* The command of --exec works on the one job that was claimed. */
static int run_command(struct cli *cli, const struct tend_job *job)
{
    const char *const shell[] = {"sh", "-c", args.exec, NULL};
    const struct with_lease wish = {.lease = {.id = job->id, .token = job->token},
                                    .argv = shell,
                                    .shell_line = args.exec,
                                    .grace_ms = args.grace_ms == TEND_UNSET ? WITH_LEASE_GRACE_MS
                                                                            : args.grace_ms,
                                    .takes_result = args.result,
                                    .gives_payload = true};
    return with_lease(cli, &wish);
}

/* The lines of the jobs. */
static int hand_out(struct cli *cli, const struct tend_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++) {
        json_job(&cli->out, NULL, &jobs->items[i], true);
        buf_putc(&cli->out, '\n');
    }
    int status = cli_answer(cli);
    if (status != EXIT_DONE)
        give_back(cli, jobs);
    return status;
}

static int check_options(struct cli *cli)
{
    if (args.exec && (args.count != 1 || args.while_pid || args.unstarted))
        return cli_fail(cli, TEND_EINVAL,
                        "claim: --exec works on one job while it runs; leave out --count, "
                        "--while-pid and --unstarted");
    if (!args.exec && (args.result || args.grace_ms != TEND_UNSET))
        return cli_fail(cli, TEND_EINVAL, "claim: %s needs --exec COMMAND",
                        args.result ? "--result-from-stdout" : "--grace");
    return EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int status = check_options(cli);
    if (status != EXIT_DONE)
        return status;
    struct tend_claim claim;
    tend_claim_init(&claim);
    if (args.queue)
        claim.queue = args.queue;
    claim.owner = args.worker;
    claim.count = (size_t)args.count;
    claim.ttl_ms = args.ttl_ms;
    claim.wait_ms = args.wait_ms;
    claim.while_pid = args.while_pid;
    claim.flags = (args.while_pid || args.exec ? 0 : TEND_CLAIM_BY_TIME) |
                  (args.unstarted ? TEND_CLAIM_UNSTARTED : 0);
    struct tend_jobs *jobs = NULL;
    struct tend_none none = {.until_ms = TEND_UNSET};
    if (args.wait_ms != 0)
        signals_interrupt(cli->store);
    int code = tend_claim_jobs(cli->store, &claim, &jobs, &none);
    if (code < 0 && code == none.code)
        return nothing_claimed(cli, &none);
    if (code < 0) /* also TEND_EBUSY, when it is the store that is busy */
        return cli_fail_store(cli, code);
    status = args.exec ? run_command(cli, &jobs->items[0]) : hand_out(cli, jobs);
    tend_jobs_free(jobs);
    return status;
}

const struct command cmd_claim = {
    .name = "claim",
    .group = "Workers",
    .text = "lease jobs for a script: one line of JSON per job",
    .about =
        "Each line has the job's id, token, payload and the rest, and \"lease\" (ID:TOKEN), which "
        "heartbeat, complete, fail and release take. The most urgent job comes first, then the one due "
        "longest. The lease ends with its time (--ttl, else 60 s) unless heartbeats are sent; with "
        "--while-pid it also ends, at once, with that process. When there is nothing to claim the exit "
        "status is 5 and the answer says why; with --json its member reason is scheduled, running, "
        "held, empty, unknown_queue, paused (with \"why\"), limited or busy (with \"by\"), and until_ms is when it is "
        "worth asking again: not before, unless a job ends, and later if its lease is renewed. With --exec one job is claimed and worked "
        "on, and the exit status is that of 'tend with-lease'.",
    .examples =
        "job=$(tend claim -q mail -w $(hostname):$$ --while-pid $$ --wait)\n"
        "tend complete \"$(echo \"$job\" | jq -r .lease)\"\n"
        "tend claim -q mail --wait --exec ./send-mail  # claims one job, and completes or fails it",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
