/* tend logs: what the steps of a job have printed, from any machine that shares the store. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/logs.h"

static struct {
    bool follow, timestamps, verbose;
    int64_t attempt;
    const char *step;
} args;

static const struct option options[] = {
    OPTION("follow", 'f', NULL, OPTION_FLAG, "go on with what comes, until the job has ended",
           &args.follow),
    OPTION("attempt", 0, "N", OPTION_INT, "only this attempt, by the number 'tend show' gives it",
           &args.attempt, .min = 1, .max = INT64_MAX),
    OPTION("step", 0, "STEP", OPTION_TEXT, "only the attempts of this step, by its id", &args.step),
    OPTION("timestamps", 't', NULL, OPTION_FLAG, "print its time before each line",
           &args.timestamps),
    OPTION("verbose", 'v', NULL, OPTION_FLAG,
           "a line before the output of each attempt; on a terminal always", &args.verbose),
    OPTION_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    struct logs_wish wish = {.number = args.attempt,
                             .step_id = args.step,
                             .follow = args.follow,
                             .stamps = args.timestamps,
                             .headers = args.verbose};
    int status = argument_id(cli, argv[0], &wish.job_id);
    return status == EXIT_DONE ? logs_print(cli, &wish) : status;
}

const struct command cmd_logs = {
    .name = "logs",
    .aliases = "log",
    .group = "Running",
    .form = "ID",
    .text = "what the steps of a job have printed",
    .about =
        "Standard output goes to standard output, and standard error to standard error; on a "
        "terminal both are shown in order, in different colours. Secrets were taken out before the "
        "output was kept, and the middle of a very long one was left out, which a line in brackets "
        "says. With -f lines appear while the step still runs, wherever its worker is; when the job waits for its retry, or "
        "is held, a line on standard error says so and until when, and so it does while the store is away. With --json "
        "an object per piece: number, step_id, attempt, seq, at_ms, stream, dropped_bytes, text.",
    .examples = "tend logs 12\n"
                "tend logs -f 12\n"
                "tend logs 12 --step build --timestamps",
    .options = options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run,
};
