/* The workspaces of a job: made, replaced by a fresh one, cleaned up or kept (SH-7, SH-10). */
#include "run/changes.h"
#include "run/job.h"
#include "run/job_folder.h"
#include "run/job_source.h"

#include <stdio.h>

enum { CLEAN_MS = 60000 };

static int fail(struct job_run *run, const struct err *err)
{
    enum workspace_problem problem = run->keeper.problem;
    run->lack_code = workspace_problem_lacks(problem) ? err->code : 0;
    workspace_problem_evidence(problem == WORKSPACE_FINE ? WORKSPACE_BROKEN : problem, &run->early);
    snprintf(run->last_error, sizeof run->last_error, "%s", err->text);
    return err->code;
}

/* Git is about to run: from here on the death of the worker is a crash of the job (LS-1). */
static void start(struct job_run *run)
{
    int rc;
    if (run->begun > 0 || run->has_workspace)
        return;
    do
        rc = tend_start(run->runner->t, &run->task->lease, 1, NULL);
    while (task_try_again(run->task, rc)); /* one that is lost ends what git does */
}

static bool again(void *arg, int rc)
{
    return task_try_again(arg, rc);
}

int job_workspace_make(struct job_run *run, size_t step_index)
{
    const struct job_source from = {.t = run->runner->t,
                                    .job_id = run->task->job->id,
                                    .plan = &run->plan,
                                    .folder = job_named_folder(run, &run->arena),
                                    .keeper = &run->keeper,
                                    .again = again,
                                    .arg = run->task};
    struct workspace fresh;
    struct err err;
    start(run);
    run->keeper.problem = WORKSPACE_FINE;
    if (!job_make_folders(run))
        return run->lack_code;
    if (from.folder == NULL) {
        job_lacks(run, TEND_ENOMEM, "out of memory");
        return run->lack_code;
    }
    if ((run->source.git_folder == NULL && job_source_find(&from, &run->source, &err) < 0) ||
        workspace_make(&run->keeper, &run->source, run->lease_folder, &fresh, &err) < 0)
        return fail(run, &err);
    if (job_source_fill(&from, &fresh, step_index, &run->edited, &err) < 0) {
        workspace_done(&fresh);
        return fail(run, &err); /* it stays on the disk with the others if the job fails */
    }
    if (run->has_workspace) {
        job_workspace_settle(run);
        run->old = run->workspace;
        run->has_old = true;
    }
    run->workspace = fresh;
    run->has_workspace = true;
    return 0;
}

void job_workspace_settle(struct job_run *run)
{
    struct err err;
    if (!run->has_old)
        return;
    workspace_remove_at(&run->keeper, run->lease_fd, &run->old, &err);
    workspace_done(&run->old);
    run->has_old = false;
}

bool job_workspace_changes(struct job_run *run, struct buf *patch, struct arena *arena,
                           struct tend_changes *ret)
{
    struct workspace_change change;
    struct buf text;
    struct err err;
    const struct git_limits limits = run->keeper.limits;
    if (!run->has_workspace)
        return false;
    run->keeper.limits = (struct git_limits){.cancel_fd = -1, .timeout_ms = CLEAN_MS};
    int rc =
        workspace_diff_briefly(&run->keeper, &run->workspace, CHANGES_READ_BYTES, &change, &err);
    run->keeper.limits = limits;
    buf_init(&text);
    if (rc < 0)
        buf_printf(&text, "Some of the changes are missing here: %s\n", err.text);
    buf_append(&text, change.patch.data, change.patch.len);
    *ret = (struct tend_changes){.changed_files = changes_files(&change, run->redactor, arena)};
    changes_redact(&text, run->redactor, TEND_KEPT_PATCH_BYTES_MAX, patch, &ret->dropped_bytes);
    ret->dropped_bytes += change.unread_bytes;
    ret->patch = patch->data;
    ret->patch_bytes = patch->len;
    bool any = (change.file_count > 0 || rc < 0) && !text.failed && !patch->failed;
    buf_done(&text);
    workspace_change_done(&change);
    return any;
}

/* What becomes of the workspaces of this lease. The one before a reset stays until a step has
 * succeeded in the new one (SH-7), maybe under another lease; so does the new one, for whoever
 * wants to compare. */
static enum keep_why why_kept(const struct job_run *run)
{
    if (run->plan.workspace_repo == NULL)
        return KEEP_NOT;
    if (run->keeps_workspaces)
        return KEEP_TAKEN_OVER;
    if (run->failed || (run->unsaved && !run->done))
        return run->keep_workspace_ms == 0 ? KEEP_NOT : KEEP_FAILED;
    return run->has_old && !run->done ? KEEP_RESET : KEEP_NOT;
}

enum keep_why job_workspace_clean(struct job_run *run)
{
    struct err err;
    enum keep_why why = why_kept(run);
    run->keeper.limits = (struct git_limits){.cancel_fd = -1, .timeout_ms = CLEAN_MS};
    if (why == KEEP_RESET)
        runner_tell(run->runner, TEND_NEWS_NOTE, run->task->job->id, -1,
                    "job %lld: the workspaces before and after its reset are kept in %s",
                    (long long)run->task->job->id, run->lease_folder);
    if (why == KEEP_NOT && run->plan.workspace_repo != NULL && run->lease_fd >= 0)
        workspace_remove_all_at(&run->keeper, run->lease_fd, &err);
    if (run->has_old)
        workspace_done(&run->old);
    if (run->has_workspace)
        workspace_done(&run->workspace);
    workspace_source_done(&run->source);
    return why;
}
