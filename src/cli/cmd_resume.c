/* tend resume: let held jobs go on */
#include "cli/act.h"
#include "cli/cli.h"

static struct act_args args = ACT_ARGS_INIT;

static const struct option options[] = {ACT_OPTIONS(args, "every held job"), OPTION_END};

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct act act = {
        .action = TEND_RESUME,
        .done = "resumed",
        .all_text = "held",
    };
    return act_run(cli, &act, &args, argc, argv);
}

const struct command cmd_resume = {
    .name = "resume",
    .group = "Jobs",
    .form = "ID…",
    .text = "let held jobs go on",
    .about = "The job is pending again, or scheduled when its time is still to come.",
    .examples = "tend resume 12\ntend resume --queue mail",
    .options = options,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
