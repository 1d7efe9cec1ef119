/* tend complete: the work is done. */
#include "cli/arguments.h"
#include "cli/cli.h"

#include <stdlib.h>

static struct {
    struct document result;
} args;

static const struct option options[] = {
    OPTION("result", 0, "JSON|@FILE|-", OPTION_JSON,
           "what came of it; the same for all leases given", &args.result, .redacted = true),
    OPTION_END,
};

static int complete(struct cli *cli, const struct tend_lease *leases, size_t count)
{
    int *each = calloc(count, sizeof *each);
    const char **results = calloc(count, sizeof *results);
    int status;
    if (each && results) {
        for (size_t i = 0; i < count; i++)
            results[i] = args.result.text;
        int code =
            tend_complete(cli->store, leases, count, args.result.text ? results : NULL, each);
        status = leases_report(cli, code, leases, each, count, "completed");
    } else {
        status = cli_fail(cli, TEND_ENOMEM, "out of memory");
    }
    free(results);
    free(each);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct tend_lease *leases;
    int status = argument_leases(cli, argc, argv, &leases);
    if (status != EXIT_DONE)
        return status;
    status = complete(cli, leases, (size_t)argc);
    free(leases);
    return status;
}

const struct command cmd_complete = {
    .name = "complete",
    .group = "Workers",
    .form = "ID:TOKEN…",
    .text = "the work is done",
    .about =
        "A lease that was lost is named and its job is left alone; the others are completed, "
        "and the exit status is 4. Repeating the command is harmless; with another --result it is refused "
        "(exit status 4), and the first result stays. What looks like a secret in it is stored as [redacted].",
    .examples = "tend complete 12:3 --result '{\"pages\": 4}'",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
