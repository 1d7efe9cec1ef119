/* tend control: ask something of a job that runs, waits or has ended (SH-12). */
#include "base/suggest.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *step, *reason;
} args;

static const struct option options[] = {
    OPTION("step", 0, "STEP", OPTION_TEXT, "the step that is meant, by its id", &args.step),
    OPTION("reason", 0, "TEXT", OPTION_TEXT, "kept with the event", &args.reason, .redacted = true),
    OPTION_END,
};

/* An action, and what is said of it. */
struct action {
    const char *name;
    const char *open; /* "its worker …": what the job's owner does once it has heard of it */
    const char *done; /* where no worker was needed: "job 12 is held: …" */
};

static const struct action actions[] = {
    {"pause", "pauses it before the next attempt, if there is one", "it waits until it is resumed"},
    {"resume", "goes on with it, the pause is taken back", "it goes on"},
    {"takeover", "stops the attempt and leaves the job to you", "it is yours until it is resumed"},
    {"retry_step", "stops the attempt and begins the step anew", "its step is tried again"},
    {"hard_reset_step", "begins the step anew in a fresh workspace",
     "its step begins in a fresh workspace"},
    {"resume_from_step", "goes on from that step", "it goes on from that step"},
    {"cancel", "stops it", "whatever of it still runs is stopped"},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

/* ... of a job that has none. */
static const struct action reset_without_workspace = {
    "hard_reset_step", "begins the step anew; the job has no workspace to reset",
    "its step begins anew; the job has no workspace to reset"};

static const struct action *find_action(const char *name)
{
    for (int i = 0; i < ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static int unknown_action(struct cli *cli, const char *name)
{
    struct suggestion near;
    suggestion_init(&near, name);
    for (int i = 0; i < ACTIONS; i++)
        suggestion_offer(&near, actions[i].name);
    if (near.best)
        return cli_fail(cli, TEND_EINVAL, "control: there is no action \"%s\"; did you mean %s?",
                        name, near.best);
    return cli_fail(cli, TEND_EINVAL,
                    "control: there is no action \"%s\"; there are pause, resume, takeover, "
                    "retry_step, hard_reset_step, resume_from_step and cancel",
                    name);
}

/* It need not be a worker, as far as the store knows. */
static void describe_asked(const struct action *action, int64_t id, char *out, size_t size)
{
    if (strcmp(action->name, "resume") == 0)
        snprintf(out, size,
                 "job %" PRId64
                 " runs: the pause is taken back; its owner is told with its next heartbeat",
                 id);
    else
        snprintf(out, size,
                 "job %" PRId64
                 " runs, but its owner has begun no step: it is told with its next heartbeat and "
                 "may not act on it ('tend with-lease' and 'tend claim --exec' hear only of cancel "
                 "and hold); 'tend hold %" PRId64 "' takes the job away from it",
                 id, id);
}

/* "job 12 runs: its worker pauses it before the next attempt" */
static void describe(const struct action *action, int64_t asked_of,
                     const struct tend_control_result *result, char *out, size_t size)
{
    const char *state = tend_state_name(result->state);
    if (result->job_id != asked_of)
        snprintf(out, size,
                 "job %" PRId64 " stays as it is; the new job %" PRId64 " goes on from that step",
                 asked_of, result->job_id);
    else if (result->open && result->state == TEND_RUNNING && !result->has_step)
        describe_asked(action, asked_of, out, size);
    else if (result->open && result->state == TEND_RUNNING)
        snprintf(out, size, "job %" PRId64 " runs: its worker %s", asked_of, action->open);
    else if (result->open)
        snprintf(out, size, "job %" PRId64 " is %s: the worker that takes it %s", asked_of, state,
                 action->open);
    else
        snprintf(out, size, "job %" PRId64 " is %s: %s", asked_of, state, action->done);
    size_t used = strlen(out);
    if (result->follower != 0)
        snprintf(out + used, size - used, "; what was submitted under its key is now job %" PRId64,
                 result->follower);
}

static bool has_workspace(struct cli *cli, int64_t id)
{
    struct tend_jobs *jobs;
    if (tend_get(cli->store, id, &jobs) < 0)
        return false;
    bool has = plan_has_repo(jobs->items[0].payload, jobs->items[0].payload_bytes);
    tend_jobs_free(jobs);
    return has;
}

/* Whoever takes over a job with a workspace has to say that the changes are to stay. */
static void add_keep_edits(int64_t id, char *out, size_t size)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used,
             "; 'tend resume %" PRId64
             " --keep-edits' keeps your changes; without it the step begins afresh",
             id);
}

static void print_result(struct cli *cli, const struct action *action, int64_t asked_of,
                         const struct tend_control_result *result)
{
    struct buf *out = &cli->out;
    char sentence[512];
    bool takes_over = strcmp(action->name, "takeover") == 0 && result->open && result->has_step;
    if (strcmp(action->name, "hard_reset_step") == 0 && !has_workspace(cli, asked_of))
        action = &reset_without_workspace;
    describe(action, asked_of, result, sentence, sizeof sentence);
    if (takes_over && has_workspace(cli, asked_of))
        add_keep_edits(asked_of, sentence, sizeof sentence);
    if (!cli->json) {
        buf_printf(out, "%s\n", sentence);
        return;
    }
    json_open(out, NULL, '{');
    json_int(out, "control_id", result->control_id);
    json_int(out, "job_id", result->job_id);
    json_text(out, "action", action->name);
    json_text(out, "step_id", args.step);
    json_text(out, "state", tend_state_name(result->state));
    json_bool(out, "open", result->open);
    json_bool(out, "has_step", result->has_step);
    json_int_or_null(out, "follower", result->follower != 0 ? result->follower : TEND_UNSET);
    json_text(out, "text", sentence);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int64_t id;
    int status = argument_id(cli, argv[0], &id);
    if (status != EXIT_DONE)
        return status;
    const struct action *action = find_action(argv[1]);
    if (!action)
        return unknown_action(cli, argv[1]);
    if (strcmp(action->name, "resume_from_step") == 0 && !args.step)
        return cli_fail(cli, TEND_EINVAL,
                        "control: resume_from_step: from which step? give --step STEP");
    if ((status = cli_open_store(cli, STORE_EXISTING)) != EXIT_DONE)
        return status;
    struct tend_control_result result;
    int code = tend_control(cli->store, id, action->name, args.step, args.reason, NULL, &result);
    if (code < 0)
        return cli_fail_store(cli, code);
    print_result(cli, action, id, &result);
    cli_did(cli, "%s was asked of job %" PRId64 ", but the answer", action->name, id);
    return EXIT_DONE;
}

const struct command cmd_control = {
    .name = "control",
    .group = "Running",
    .form = "ID ACTION",
    .text = "pause, resume, take over, retry, reset or cancel a job while it runs",
    .about =
        "ACTION is one of\n"
        "pause: the job is held before its next attempt; what runs goes on to its end.\n"
        "resume: a held job goes on; a pause that has not taken hold is taken back.\n"
        "takeover: the attempt is stopped and the job held, its workspace is yours.\n"
        "retry_step: the attempt is stopped and the step begins anew; a failed job begins again at "
        "the step that failed.\n"
        "hard_reset_step: the same in a fresh workspace with the work of the steps before, if the job has one.\n"
        "resume_from_step: goes on from the step named by --step, also when the job has ended; of a "
        "job that is done a new one is made.\n"
        "cancel: wins over everything else.\n"
        "A worker hears of it within a second. An owner that is no worker is told with its next "
        "'tend heartbeat' and may not act on it; 'tend with-lease' and 'tend claim --exec' hear only of "
        "cancel and hold, and 'tend hold' takes the job away from any of them. Who asked, and why, is "
        "kept with the events.",
    .examples = "tend control 12 pause --reason 'disk is being replaced'\n"
                "tend control 12 resume_from_step --step build",
    .choices = "pause|resume|takeover|retry_step|hard_reset_step|resume_from_step|cancel",
    .options = options,
    .args_min = 2,
    .args_max = 2,
    .store = STORE_NONE,
    .run = run,
};
