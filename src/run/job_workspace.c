/* The workspaces of a job: made, replaced by a fresh one, cleaned up (SH-7, SH-10). */
#include "run/job.h"

#include <stdio.h>

enum { REPLAY_PATCHES = 64, REPLAY_BYTES = 32 << 20, CLEAN_MS = 60000 };

static int fail(struct job_run *run, const struct err *err)
{
    enum workspace_problem problem = run->keeper.problem;
    run->lack_code = workspace_problem_lacks(problem) ? err->code : 0;
    workspace_problem_evidence(problem == WORKSPACE_FINE ? WORKSPACE_BROKEN : problem, &run->early);
    snprintf(run->last_error, sizeof run->last_error, "%s", err->text);
    return err->code;
}

/* The commit the job started from: as it was found the first time, else as the plan says now. */
static int find_source(struct job_run *run, struct err *err)
{
    struct tend_checkpoints *checkpoints;
    const char *ref = run->plan.workspace_ref;
    int rc = 0;
    if (run->source.git_folder != NULL)
        return 0;
    do
        rc = tend_checkpoints(run->runner->t, run->task->job->id, &checkpoints);
    while (task_try_again(run->task, rc));
    if (rc < 0)
        return err_set(err, rc, "%s", tend_errmsg(run->runner->t));
    for (size_t i = 0; i < checkpoints->count; i++)
        if (checkpoints->items[i].step_index == 0 && checkpoints->items[i].commit != NULL)
            ref = arena_strdup(&run->arena, checkpoints->items[i].commit);
    tend_checkpoints_free(checkpoints);
    return workspace_resolve(&run->keeper, run->plan.workspace_repo, ref, &run->source, err);
}

/* Patches in hand: git is started for many at once, but not for more than memory should hold. */
struct sheaf {
    struct tend_patch *owned[REPLAY_PATCHES];
    struct workspace_patch patches[REPLAY_PATCHES];
    size_t count, bytes;
};

static void sheaf_clear(struct sheaf *sheaf)
{
    for (size_t i = 0; i < sheaf->count; i++)
        tend_patch_free(sheaf->owned[i]);
    sheaf->count = sheaf->bytes = 0;
}

static int sheaf_add(struct job_run *run, struct sheaf *sheaf, size_t step_index, struct err *err)
{
    const char *id = run->plan.steps[step_index - 1].id;
    struct tend_patch *patch;
    int rc;
    do
        rc = tend_checkpoint_patch(run->runner->t, run->task->job->id, (int64_t)step_index, &patch);
    while (task_try_again(run->task, rc));
    if (rc < 0)
        return err_set(err, rc, "the checkpoint of step %s cannot be read: %s", id,
                       tend_errmsg(run->runner->t));
    sheaf->owned[sheaf->count] = patch;
    sheaf->patches[sheaf->count++] =
        (struct workspace_patch){.step = id, .data = patch->data, .bytes = patch->bytes};
    sheaf->bytes += patch->bytes;
    return 0;
}

/* The patches of steps 1 to count, in their order. */
static int replay(struct job_run *run, struct workspace *workspace, size_t count, struct err *err)
{
    struct sheaf sheaf = {.count = 0};
    int rc = 0;
    for (size_t i = 1; rc >= 0 && i <= count; i++) {
        rc = sheaf_add(run, &sheaf, i, err);
        bool full = sheaf.count == REPLAY_PATCHES || sheaf.bytes >= REPLAY_BYTES || i == count;
        if (rc >= 0 && full) {
            rc = workspace_replay(&run->keeper, workspace, sheaf.patches, sheaf.count, NULL, err);
            sheaf_clear(&sheaf);
        }
    }
    sheaf_clear(&sheaf);
    return rc;
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

int job_workspace_make(struct job_run *run, size_t step_index)
{
    struct workspace fresh;
    struct err err;
    start(run);
    run->keeper.problem = WORKSPACE_FINE;
    if (find_source(run, &err) < 0 ||
        workspace_make(&run->keeper, &run->source, run->lease_folder, &fresh, &err) < 0)
        return fail(run, &err);
    if (replay(run, &fresh, step_index - 1, &err) < 0) {
        workspace_done(&fresh);
        fail(run, &err);
        /* It stays on the disk for inspection, as the old one does; a full disk is no place. */
        run->keeps_workspaces = run->lack_code == 0;
        return err.code;
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
    workspace_remove(&run->keeper, &run->old, &err);
    workspace_done(&run->old);
    run->has_old = false;
}

void job_workspace_clean(struct job_run *run)
{
    struct err err;
    run->keeper.limits = (struct git_limits){.cancel_fd = -1, .timeout_ms = CLEAN_MS};
    /* The one before a reset stays until a step has succeeded in the new one (SH-7), maybe under
     * another lease; so does the new one, for whoever wants to compare. */
    bool unsettled = run->has_old && !run->done;
    if (unsettled)
        runner_tell(run->runner, TEND_NEWS_NOTE, run->task->job->id, -1,
                    "job %lld: the workspaces before and after its reset are kept in %s",
                    (long long)run->task->job->id, run->lease_folder);
    if (run->plan.workspace_repo != NULL && !run->keeps_workspaces && !unsettled)
        workspace_remove_all(&run->keeper, run->lease_folder, &err);
    if (run->has_old)
        workspace_done(&run->old);
    if (run->has_workspace)
        workspace_done(&run->workspace);
    workspace_source_done(&run->source);
}
