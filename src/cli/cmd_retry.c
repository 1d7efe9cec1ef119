/* tend retry: start failed or cancelled jobs over */
#include "cli/act.h"
#include "cli/cli.h"

static struct act_args args = ACT_ARGS_INIT;

static const struct option options[] = {
    ACT_OPTIONS(args, "every failed job; with --state cancelled, every cancelled one"), OPTION_END};

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct act act = {
        .action = TEND_REDRIVE,
        .done = "started over",
        .all_text = "failed",
    };
    return act_run(cli, &act, &args, argc, argv);
}

const struct command cmd_retry = {
    .name = "retry",
    .aliases = "redrive",
    .group = "Jobs",
    .form = "ID…",
    .text = "start failed or cancelled jobs over",
    .about =
        "Attempts and crashes are counted anew. A job with steps continues at the first step that is not "
        "done; 'tend control ID resume_from_step --step STEP' repeats earlier ones. Instead of ids, options "
        "choose jobs: those that have failed, or with --state cancelled those that were cancelled; the count is "
        "printed. A cancelled job that is not due yet keeps its due time. A job whose unique key another job that has not "
        "finished has is not started over, and of several with one key only the newest is; both are told, by "
        "--dry-run before.",
    .examples = "tend retry 12\ntend retry --queue mail",
    .options = options,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
