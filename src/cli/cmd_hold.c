/* tend hold: keep jobs from running until they are resumed */
#include "cli/act.h"
#include "cli/cli.h"

static struct act_args args = ACT_ARGS_INIT;

static const struct option options[] = {
    ACT_OPTIONS(args, "every scheduled, pending and running job"), OPTION_END};

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct act act = {
        .action = TEND_HOLD,
        .done = "held",
        .all_text = "scheduled, pending and running",
    };
    return act_run(cli, &act, &args, argc, argv);
}

const struct command cmd_hold = {
    .name = "hold",
    .group = "Jobs",
    .form = "ID…",
    .text = "keep jobs from running until they are resumed",
    .about = "A running job loses its lease. The job stays held until it is resumed or cancelled.",
    .examples = "tend hold 12 --why 'waits for the new certificate'",
    .options = options,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
