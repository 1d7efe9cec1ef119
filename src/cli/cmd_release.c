/* tend release: give leases back, free of charge. */
#include "cli/arguments.h"
#include "cli/cli.h"

#include <stdlib.h>

static struct {
    int64_t delay_ms;
    const char *why;
} args;

static const struct option options[] = {
    OPTION("delay", 0, "DURATION", OPTION_DURATION, "due again after this time (default at once)",
           &args.delay_ms),
    OPTION("why", 0, "TEXT", OPTION_TEXT, "the reason, kept with the event", &args.why,
           .redacted = true),
    OPTION_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    struct tend_lease *leases;
    int status = argument_leases(cli, argc, argv, &leases);
    if (status != EXIT_DONE)
        return status;
    int *each = calloc((size_t)argc, sizeof *each);
    if (each) {
        int code = tend_release(cli->store, leases, (size_t)argc, args.delay_ms, args.why, each);
        status = leases_report(cli, code, leases, each, (size_t)argc, "released");
    } else {
        status = cli_fail(cli, TEND_ENOMEM, "out of memory");
    }
    free(each);
    free(leases);
    return status;
}

const struct command cmd_release = {
    .name = "release",
    .group = "Workers",
    .form = "ID:TOKEN…",
    .text = "give jobs back, free of charge",
    .about =
        "No attempt is counted; somebody else may claim the jobs at once or after --delay. Repeating the "
        "command is harmless; with another --delay or --why it is refused (exit status 4), and the first stays.",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
