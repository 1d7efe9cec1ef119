/* tend start: work on leases claimed with --unstarted begins. */
#include "cli/arguments.h"
#include "cli/cli.h"

#include <stdlib.h>

static int run(struct cli *cli, int argc, char **argv)
{
    struct tend_lease *leases;
    int status = argument_leases(cli, argc, argv, &leases);
    if (status != EXIT_DONE)
        return status;
    int *each = calloc((size_t)argc, sizeof *each);
    if (each) {
        int code = tend_start(cli->store, leases, (size_t)argc, each);
        status = leases_report(cli, code, leases, each, (size_t)argc, "started");
    } else {
        status = cli_fail(cli, TEND_ENOMEM, "out of memory");
    }
    free(each);
    free(leases);
    return status;
}

const struct command cmd_start = {
    .name = "start",
    .group = "Workers",
    .form = "ID:TOKEN…",
    .text = "begin work on leases claimed with --unstarted",
    .about = "From here on a crash is charged to the job. Exit status 4 when a lease was lost.",
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
