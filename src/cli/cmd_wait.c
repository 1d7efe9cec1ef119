/* tend wait: waits until jobs have ended; the exit status says whether all are done. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/waiting.h"

#include <stdlib.h>

static struct {
    int64_t timeout_ms;
    bool result;
} args = {.timeout_ms = TEND_UNSET};

static const struct option options[] = {
    OPTION("timeout", 0, "DURATION", OPTION_DURATION,
           "give up after this time, with exit status 5; 0: only look", &args.timeout_ms),
    OPTION(
        "result", 0, NULL, OPTION_FLAG,
        "print the results: a line of JSON each, in the order of the ids; null where there is none",
        &args.result),
    OPTION_END,
};

/* An id that is given again is the same job, and counts once. */
static int read_ids(struct cli *cli, int argc, char **argv, int64_t *ids, size_t *ret_count)
{
    *ret_count = 0;
    for (int i = 0; i < argc; i++) {
        size_t before = 0;
        int status = argument_id(cli, argv[i], &ids[*ret_count]);
        if (status != EXIT_DONE)
            return status;
        while (ids[before] != ids[*ret_count])
            before++;
        *ret_count += before == *ret_count;
    }
    return EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    size_t count = 0;
    int64_t *ids = calloc((size_t)argc, sizeof *ids);
    int status =
        ids ? read_ids(cli, argc, argv, ids, &count) : cli_fail(cli, TEND_ENOMEM, "out of memory");
    const struct waiting_wish wish = {
        .ids = ids, .count = count, .timeout_ms = args.timeout_ms, .result = args.result};
    if (status == EXIT_DONE)
        status = wait_for_jobs(cli, &wish);
    free(ids);
    return status;
}

const struct command cmd_wait = {
    .name = "wait",
    .group = "Jobs",
    .form = "ID…",
    .text = "wait until jobs have ended: exit status 0 when all are done, 1 when one is not",
    .about =
        "The exit status is 0 when all are done, 1 when one has failed or was cancelled (which, and "
        "why, is said on standard error), 3 when there is no such job, and 5 when --timeout is over. "
        "An id that is given again counts once. A job that is tried again later is waited for, and so is a held one; both are said on standard error. "
        "Nothing runs the jobs here: that is what workers do; after a second without any, that is said, too, and of a job that is due later, when. A job that is deleted after its end, "
        "as its queue's retention says, counts as it ended, but its result is gone. On a terminal a "
        "line shows what is waited for. With --json an object per job: id, state, error_class, "
        "error_text, result, and of a cancelled one why (an error from before a 'tend retry' is left out). ^C ends the wait and leaves the jobs alone.",
    .examples = "tend wait 12 13\n"
                "tend wait 12 --timeout 10m --result | jq .version",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
