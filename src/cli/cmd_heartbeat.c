/* tend heartbeat: the owner of leases is alive. */
#include "cli/arguments.h"
#include "cli/cli.h"

#include <stdlib.h>

static struct {
    int64_t ttl_ms;
} args = {.ttl_ms = TEND_UNSET};

static const struct option options[] = {
    OPTION("ttl", 0, "DURATION", OPTION_DURATION,
           "the lease holds so long from now (else as job or queue say)", &args.ttl_ms),
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
        int code = tend_heartbeat(cli->store, leases, (size_t)argc, args.ttl_ms, each);
        status = leases_report(cli, code, leases, each, (size_t)argc, "extended");
    } else {
        status = cli_fail(cli, TEND_ENOMEM, "out of memory");
    }
    free(each);
    free(leases);
    return status;
}

const struct command cmd_heartbeat = {
    .name = "heartbeat",
    .group = "Workers",
    .form = "ID:TOKEN…",
    .text = "keep leases: their owner is alive",
    .about =
        "All are extended at once. A lease that was lost is named, the others are extended all the same, "
        "and the exit status is 4: stop work on the lost ones.",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
