/* tend fail: the work failed; it is tried again later, or has failed for good. */
#include "base/timetext.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *class, *text;
    int64_t retry_in_ms;
    bool final;
} args = {.retry_in_ms = TEND_UNSET};

static const struct option options[] = {
    OPTION(
        "class", 0, "CLASS", OPTION_TEXT,
        "sort of failure, kept and shown; none of them ends the job, --final does: transient_runtime (the default), stuck_no_progress, deterministic_contract, "
        "deterministic_policy, deterministic_repo or a word of your own",
        &args.class),
    OPTION("text", 0, "TEXT", OPTION_TEXT, "what went wrong", &args.text, .redacted = true),
    OPTION("retry-in", 0, "DURATION", OPTION_DURATION,
           "try again after this time (else after the backoff: about 15s, doubling)",
           &args.retry_in_ms),
    OPTION("final", 0, NULL, OPTION_FLAG, "no retry, whatever attempts are left", &args.final),
    OPTION_END,
};

static void print_outcome(struct cli *cli, struct tend_lease lease, int64_t due_ms)
{
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_int(&cli->out, "id", lease.id);
        json_int(&cli->out, "token", lease.token);
        json_text(&cli->out, "state", due_ms == TEND_UNSET ? "failed" : "scheduled");
        json_int_or_null(&cli->out, "due_at_ms", due_ms);
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
        return;
    }
    char when[DURATION_TEXT_BYTES];
    if (due_ms == TEND_UNSET)
        buf_printf(&cli->out,
                   "%" PRId64 " failed for good; 'tend retry %" PRId64 "' starts it over\n",
                   lease.id, lease.id);
    else
        buf_printf(&cli->out, "%" PRId64 " failed; tried again %s\n", lease.id,
                   coming_text(due_ms, cli_now_ms(cli), when));
}

/* Steps that fail with such a class are not tried again; here the class is a word. */
static void note_class(struct cli *cli, int64_t due_ms)
{
    static const char deterministic[] = "deterministic_";
    if (due_ms != TEND_UNSET && args.class &&
        strncmp(args.class, deterministic, strlen(deterministic)) == 0)
        cli_note(cli, "fail: the class %s does not end the job, it is tried again; --final ends it",
                 args.class);
}

/* The exit status is that of the first that went wrong. */
static int fail_all(struct cli *cli, const struct tend_lease *leases, int count)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    if (args.class)
        failure.error_class = args.class;
    failure.text = args.text;
    failure.retry_in_ms = args.retry_in_ms;
    failure.final = args.final;
    int status = EXIT_DONE;
    for (int i = 0; i < count; i++) {
        int64_t due_ms = TEND_UNSET;
        int code = tend_fail(cli->store, leases[i], &failure, &due_ms);
        if (code == 0) {
            print_outcome(cli, leases[i], due_ms);
            note_class(cli, due_ms);
            cli_did(cli, "job %" PRId64 " has failed as told, but the answer", leases[i].id);
            continue;
        }
        int now = cli_fail_store(cli, code);
        status = status == EXIT_DONE ? now : status;
        if (code != TEND_ELEASELOST && code != TEND_ECONFLICT)
            break;
    }
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    if (args.final && args.retry_in_ms != TEND_UNSET)
        return cli_fail(cli, TEND_EINVAL,
                        "fail: --final and --retry-in exclude each other; give one");
    struct tend_lease *leases;
    int status = argument_leases(cli, argc, argv, &leases);
    if (status != EXIT_DONE)
        return status;
    status = fail_all(cli, leases, argc);
    free(leases);
    return status;
}

const struct command cmd_fail = {
    .name = "fail",
    .group = "Workers",
    .form = "ID:TOKEN…",
    .text = "the work failed: try again later, or never",
    .about =
        "Prints when the job is tried again. With the last attempt used up, or with --final, it has failed "
        "for good and stays as a dead letter. Repeating the command is harmless; with other options it is refused "
        "(exit status 4), and the first stays. What looks like a secret in the text is stored as [redacted]. With --json a line "
        "per lease.",
    .examples = "tend fail 12:3 --text 'server said 503' --retry-in 30s",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
