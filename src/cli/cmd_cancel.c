/* tend cancel: end jobs that have not finished */
#include "cli/act.h"
#include "cli/cli.h"

static struct act_args args = ACT_ARGS_INIT;

static const struct option options[] = {ACT_OPTIONS(args, "every unfinished job"), OPTION_END};

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct act act = {
        .action = TEND_CANCEL,
        .done = "cancelled",
        .all_text = "unfinished",
    };
    return act_run(cli, &act, &args, argc, argv);
}

const struct command cmd_cancel = {
    .name = "cancel",
    .group = "Jobs",
    .form = "ID…",
    .text = "end jobs that have not finished",
    .about =
        "A running job loses its lease; its worker learns it with its next call. A job that was added under its key while it ran "
        "(tend add --unique) becomes a job of its own, and the answer names it. Instead of ids, options choose jobs; those "
        "whose state does not allow it are left alone, and the count is printed.",
    .examples =
        "tend cancel 12 13 --why 'ordered by mistake'\ntend cancel --queue crawl --state pending,scheduled --dry-run",
    .options = options,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
