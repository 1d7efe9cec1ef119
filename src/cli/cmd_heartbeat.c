/* tend heartbeat: the owner of leases is alive, and hears what is asked of its jobs (SH-12). */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "queue/recover.h"

#include <inttypes.h>
#include <stdlib.h>

static struct {
    int64_t ttl_ms, control_id;
    const char *outcome;
} args = {.ttl_ms = TEND_UNSET, .control_id = TEND_UNSET};

static const struct option options[] = {
    OPTION("ttl", 0, "DURATION", OPTION_DURATION,
           "new length of the lease, from now and with each later heartbeat: 1ms to 366d "
           "(else it keeps its length)",
           &args.ttl_ms),
    OPTION("done", 0, "CONTROL", OPTION_INT,
           "a control, by its id, has been carried out: it is not reported any more",
           &args.control_id, .min = 1, .max = INT64_MAX),
    OPTION("outcome", 0, "TEXT", OPTION_TEXT, "what came of it, with --done", &args.outcome,
           .redacted = true),
    OPTION_END,
};

/* Lines behind "12 extended"; with --json they are part of the document. */
static void print_controls(struct cli *cli, const struct tend_controls *controls)
{
    for (size_t i = 0; !cli->json && i < controls->count; i++) {
        const struct tend_control *control = &controls->items[i];
        buf_printf(&cli->out, "%" PRId64 " is asked to %s%s%s, by %s (control %" PRId64 ")",
                   control->job_id, control->action, control->step_id ? " " : "",
                   control->step_id ? control->step_id : "", control->actor, control->id);
        if (control->reason) {
            buf_puts(&cli->out, ": ");
            put_clean(&cli->out, control->reason);
        }
        buf_putc(&cli->out, '\n');
    }
}

/* Each lease is extended before anything else is asked: that must not fail for a lack of answers.
 */
static int beat(struct cli *cli, const struct tend_lease *leases, size_t count, int *each)
{
    struct tend_controls *controls = NULL;
    /* A lease that is tied to a process is over when that one has died; nobody may have noticed. */
    recover_dead_quietly(cli->store, -1);
    int code = tend_heartbeat(cli->store, leases, count, args.ttl_ms, each);
    if (code < 0 && code != TEND_ELEASELOST)
        return cli_fail_store(cli, code);
    if (args.control_id != TEND_UNSET && each[0] == 0) {
        int done = tend_control_done(cli->store, leases[0], args.control_id, args.outcome);
        if (done < 0 && done != TEND_ELEASELOST)
            return cli_fail_store(cli, done);
    }
    int taken = tend_controls_take(cli->store, leases, count, &controls);
    if (taken < 0)
        return cli_fail_store(cli, taken);
    int status = leases_report_controls(cli, code, leases, each, count, "extended", controls);
    print_controls(cli, controls);
    tend_controls_free(controls);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct tend_lease *leases;
    if (args.control_id != TEND_UNSET && argc != 1)
        return cli_fail(cli, TEND_EINVAL,
                        "heartbeat: --done is about one job; give the one lease it was told to");
    if (args.outcome && args.control_id == TEND_UNSET)
        return cli_fail(cli, TEND_EINVAL, "heartbeat: --outcome needs --done CONTROL");
    int status = argument_leases(cli, argc, argv, &leases);
    if (status != EXIT_DONE)
        return status;
    int *each = calloc((size_t)argc, sizeof *each);
    status =
        each ? beat(cli, leases, (size_t)argc, each) : cli_fail(cli, TEND_ENOMEM, "out of memory");
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
        "All are extended at once. A lease that was lost is named, the others are extended, "
        "and the exit status is 4: stop work on the lost ones.\n"
        "What operators ask of the jobs with 'tend control' is told along with it, until --done says that "
        "it has been carried out, 'tend hold' has paused the job, or the job has ended. With --json each "
        "lease that is held has \"liveControl\": \"paused\", \"takeover\" and \"recovery\", which is what is to be "
        "done first (id, action, stepId, reason, actor, updatedAt) or null.",
    .examples = "tend heartbeat 12:3\n"
                "tend heartbeat 12:3 --done 7 --outcome 'began the step anew' --json",
    .options = options,
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
