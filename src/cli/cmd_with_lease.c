/* tend with-lease: a command that keeps a lease while it runs, and ends its job as it ends. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/with_lease.h"

static struct {
    int64_t grace_ms;
    bool result;
} args = {.grace_ms = WITH_LEASE_GRACE_MS};

static const struct option options[] = {
    OPTION("grace", 0, "DURATION", OPTION_DURATION,
           "from the signal to stop to SIGKILL (default 10s)", &args.grace_ms),
    OPTION("result-from-stdout", 0, NULL, OPTION_FLAG,
           "what the command prints is the job's result: JSON as it is, anything else as a string",
           &args.result),
    OPTION_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    int words = cli->argc_before;
    struct with_lease wish = {.argv = (const char *const *)argv + words,
                              .grace_ms = args.grace_ms,
                              .takes_result = args.result};
    if (words != 1 || argc == words)
        return cli_fail(cli, TEND_EINVAL,
                        "with-lease: give one lease and, behind --, the command to run: 'tend "
                        "with-lease 12:3 -- make'");
    int status = argument_lease(cli, argv[0], &wish.lease);
    return status == EXIT_DONE ? with_lease(cli, &wish) : status;
}

const struct command cmd_with_lease = {
    .name = "with-lease",
    .group = "Workers",
    .form = "ID:TOKEN -- CMD ARG…",
    .text = "run a command that keeps a lease, and ends its job as it ends",
    .about =
        "Heartbeats are sent while CMD runs, four in the time of the lease. When CMD ends with 0, the job is completed. "
        "Otherwise it fails, and its exit status says whether it is tried again, as in a step: 64 to 68, 72, 73, 77, "
        "78, 126 and 127 fail the job for good, 75 and others are tried again; see the class in 'tend show'. When the lease is lost, CMD and everything it has "
        "started is killed; when the job is cancelled or held, it is stopped with its grace. HUP, INT, QUIT and TERM are "
        "passed on; then the job is given back, free of charge, unless CMD ends with 0. If this command is killed, CMD ends "
        "with it. CMD has TEND_JOB_ID, TEND_QUEUE, TEND_KIND and TEND_LEASE in its environment. "
        "Exit status: 0 completed, 1 failed, 4 the lease is lost, 2 CMD cannot be started and the job is given back, 69 the "
        "store is out of reach, 128+N given back after signal N.",
    .examples = "job=$(tend claim -q mail)\n"
                "tend with-lease \"$(echo \"$job\" | jq -r .lease)\" -- ./send-mail",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .then_command = true,
    .store = STORE_EXISTING,
    .run = run,
};
