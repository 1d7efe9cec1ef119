/* tend resume: let held jobs go on, with what an operator has changed in their workspaces. */
#include "cli/act.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/disk_text.h"
#include "cli/job_work.h"
#include "cli/json_out.h"
#include "run/changes.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LOOK_MS = 10000 };

static struct act_args args = ACT_ARGS_INIT;
static struct {
    bool keep;
    const char *from, *folder;
} edits;

static const struct option options[] = {
    OPTION("keep-edits", 0, NULL, OPTION_FLAG,
           "the step goes on with what was changed in the workspace since the last checkpoint",
           &edits.keep),
    OPTION("from", 0, "FOLDER", OPTION_TEXT,
           "with --keep-edits: where it was changed (default: the workspace that was kept when the "
           "job was taken over)",
           &edits.from),
    OPTION("folder", 0, "FOLDER", OPTION_TEXT,
           "of a worker whose copies of repositories are used (default: as of 'tend work')",
           &edits.folder),
    ACT_OPTIONS(args, "every held job"),
    OPTION_END,
};

/* --- with edits --- */

static void print_resumed(struct cli *cli, const struct job_work *work, const char *folder,
                          const struct workspace_change *change)
{
    struct buf *out = &cli->out;
    char size[BYTES_TEXT_BYTES];
    size_t count = change->file_count;
    const char *step = work->done < work->plan.step_count ? work->plan.steps[work->done].id : NULL;
    cli_did(cli, "job %" PRId64 " was resumed, but the answer", work->source.job_id);
    if (cli->json) {
        json_open(out, NULL, '{');
        json_text(out, "action", cli->path);
        json_int(out, "count", 1);
        json_int(out, "job_id", work->source.job_id);
        json_text(out, "edits_from", folder);
        json_text(out, "step_id", step);
        json_int(out, "changed_files", (int64_t)count);
        json_int(out, "patch_bytes", (int64_t)change->patch.len);
        json_close(out, '}');
        buf_putc(out, '\n');
    } else if (count == 0)
        buf_printf(out, "1 job resumed; nothing was changed in %s\n", folder);
    else
        buf_printf(out, "1 job resumed; step %s goes on with %zu %s changed in %s (%s)\n",
                   step ? step : "-", count, count == 1 ? "file" : "files", folder,
                   bytes_text((int64_t)change->patch.len, size));
}

/* The job is not one that was taken over, but a failed attempt has left its workspace. */
static int refuse_failed(struct cli *cli, const struct job_work *work, const char *folder)
{
    int64_t id = work->source.job_id;
    int state = work->job->items[0].state;
    if (state == TEND_HELD)
        return cli_fail(cli, TEND_ESTATE,
                        "job %" PRId64 " was not taken over; the workspace of its failed attempt "
                        "is %s: give --from %s to go on with what is in it",
                        id, folder, folder);
    return cli_fail(cli, TEND_ESTATE,
                    "job %" PRId64 " is %s; only held jobs can be resumed. The workspace of its "
                    "failed attempt is %s: after 'tend retry %" PRId64 "' and 'tend hold %" PRId64
                    "', 'tend resume %" PRId64 " --keep-edits --from %s' goes on with it",
                    id, tend_state_name(state), folder, id, id, id, folder);
}

/* The folder with the edits. NULL: *ret_status says how that ends. */
static const char *find_edits(struct cli *cli, struct job_work *work, int *ret_status)
{
    const char *elsewhere;
    int64_t id = work->source.job_id;
    if (edits.from)
        return edits.from;
    const char *folder = job_work_kept(work, &elsewhere);
    if (folder)
        return folder;
    const char *failed = job_work_failed(work);
    *ret_status =
        failed && !elsewhere ? refuse_failed(cli, work, failed)
        : elsewhere
            ? cli_fail(cli, TEND_ENOTFOUND,
                       "the workspace of job %" PRId64 " is on %s: resume it there, or give "
                       "a folder with the edits with --from",
                       id, elsewhere)
            : cli_fail(cli, TEND_ENOTFOUND,
                       "no workspace that was kept of job %" PRId64 " is known here or in %s; "
                       "give a folder with the edits with --from: 'tend workspace %" PRId64
                       "' makes one",
                       id, work->folder, id);
    return NULL;
}

static int resume_edited(struct cli *cli, struct job_work *work)
{
    struct workspace_change change;
    struct tend_control_result result;
    struct err err;
    int status = EXIT_DONE;
    bool held = work->job->items[0].state == TEND_HELD;
    const char *failed = held ? NULL : job_work_failed(work);
    if (failed)
        return refuse_failed(cli, work, failed);
    if (!held)
        return cli_fail(cli, TEND_ESTATE, "job %" PRId64 " is %s; only held jobs can be resumed",
                        work->source.job_id, tend_state_name(work->job->items[0].state));
    const char *folder = find_edits(cli, work, &status);
    if (!folder)
        return status;
    if (job_work_edits(work, folder, &change, &err) < 0)
        return work->keeper.problem == WORKSPACE_FINE ? cli_fail(cli, err.code, "%s", err.text)
                                                      : job_work_fail(cli, work, &err);
    if (signals_seen()) {
        workspace_change_done(&change);
        return signals_exit_status();
    }
    const struct tend_changes changes = {.patch = change.patch.data,
                                         .patch_bytes = change.patch.len,
                                         .changed_files =
                                             changes_files(&change, NULL, &work->arena)};
    int code = tend_resume_edited(cli->store, work->source.job_id, work->job->items[0].version,
                                  &changes, args.why, NULL, &result);
    if (code < 0)
        status = cli_fail_store(cli, code);
    else
        print_resumed(cli, work, folder, &change);
    workspace_change_done(&change);
    return status;
}

static int run_edited(struct cli *cli, int argc, char **argv)
{
    int64_t id;
    struct job_work work;
    struct err err;
    if (argc != 1 || args.all || args.dry_run || filter_given(&args.filter))
        return cli_fail(cli, TEND_EINVAL, "resume: --keep-edits takes one job, by its id");
    int status = argument_id(cli, argv[0], &id);
    if (status != EXIT_DONE)
        return status;
    int rc = job_work_read(cli->store, id, disk_folder(edits.folder), &work, &err);
    status = rc < 0 ? cli_fail(cli, rc, "%s", err.text) : resume_edited(cli, &work);
    job_work_done(&work);
    return status;
}

/* --- without --- */

/* A job that was taken over goes on without what was changed in its workspace: that is said. */
static void note_edits(struct cli *cli, int64_t id)
{
    struct job_work work;
    struct workspace_change change;
    struct err err;
    const char *elsewhere;
    int rc = job_work_read(cli->store, id, disk_folder(edits.folder), &work, &err);
    bool held = rc == 0 && work.job->items[0].state == TEND_HELD;
    const char *folder = held ? job_work_kept(&work, &elsewhere) : NULL;
    work.keeper.limits.timeout_ms = LOOK_MS; /* it is only a word of warning */
    if (folder && job_work_edits(&work, folder, &change, &err) == 0) {
        if (change.file_count > 0)
            cli_note(cli,
                     "resume: job %" PRId64 " goes on without the %zu %s changed in %s; to take "
                     "them over: tend hold %" PRId64 ", then tend resume %" PRId64
                     " --keep-edits --from %s",
                     id, change.file_count, change.file_count == 1 ? "file" : "files", folder, id,
                     id, folder);
        workspace_change_done(&change);
    }
    job_work_done(&work);
}

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct act act = {
        .action = TEND_RESUME,
        .done = "resumed",
        .all_text = "held",
    };
    int64_t id;
    if (edits.keep)
        return run_edited(cli, argc, argv);
    if (edits.from)
        return cli_fail(cli, TEND_EINVAL, "resume: --from goes with --keep-edits");
    if (argc == 1 && !args.dry_run && !cli->json && argument_id(cli, argv[0], &id) == EXIT_DONE)
        note_edits(cli, id);
    if (signals_seen())
        return signals_exit_status();
    return act_run(cli, &act, &args, argc, argv);
}

const struct command cmd_resume = {
    .name = "resume",
    .group = "Jobs",
    .form = "ID…",
    .text = "let held jobs go on",
    .about =
        "The job is pending again, or scheduled when its time is still to come. After a takeover, "
        "--keep-edits stores what was changed in the workspace since the last checkpoint, together "
        "with the resume: whoever runs the job next, on any machine, begins the step with it, and it "
        "becomes part of the step's checkpoint. Files that git ignores are not taken. Without "
        "--keep-edits the step begins in a fresh workspace, and the changes stay where they are.",
    .examples = "tend resume 12\n"
                "tend resume 12 --keep-edits\n"
                "tend resume --queue mail",
    .options = options,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run,
};
