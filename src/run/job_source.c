/* See job_source.h. */
#include "run/job_source.h"

#include "base/arena.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REPLAY_PATCHES = 64, REPLAY_BYTES = 32 << 20, NAME_SIZE = 300 };

static bool again(const struct job_source *job, int rc)
{
    return rc < 0 && job->again != NULL && job->again(job->arg, rc);
}

bool job_source_is_relative(const char *repo)
{
    return repo[0] != '/' && !workspace_is_remote(repo);
}

const char *job_source_repo(struct arena *arena, const char *repo, const char *folder)
{
    if (!job_source_is_relative(repo))
        return arena_strdup(arena, repo);
    const char *joined = arena_printf(arena, "%s/%s", folder, repo);
    char *absolute = joined != NULL ? files_absolute(joined) : NULL;
    const char *found = absolute != NULL ? arena_strdup(arena, absolute) : joined;
    free(absolute);
    return found;
}

int job_source_find(const struct job_source *job, struct workspace_source *ret, struct err *err)
{
    struct tend_checkpoints *checkpoints;
    struct arena arena;
    const char *ref = job->plan->workspace_ref;
    const char *told = NULL;
    int rc;
    do
        rc = tend_checkpoints(job->t, job->job_id, &checkpoints);
    while (again(job, rc));
    if (rc < 0)
        return err_set(err, rc, "%s", tend_errmsg(job->t));
    arena_init(&arena);
    const char *repo = job_source_repo(&arena, job->plan->workspace_repo, job->folder);
    for (size_t i = 0; i < checkpoints->count; i++)
        if (checkpoints->items[i].step_index == 0 && checkpoints->items[i].commit != NULL) {
            ref = arena_strdup(&arena, checkpoints->items[i].commit);
            if (checkpoints->items[i].repo != NULL)
                told = arena_strdup(&arena, checkpoints->items[i].repo);
        }
    tend_checkpoints_free(checkpoints);
    /* Only a relative one is taken from there: what was told has no secrets. */
    if (repo != NULL && told != NULL && told[0] == '/' &&
        job_source_is_relative(job->plan->workspace_repo) &&
        (access(told, F_OK) == 0 || access(repo, F_OK) < 0))
        repo = told;
    rc = repo == NULL ? err_set(err, TEND_ENOMEM, "out of memory")
                      : workspace_resolve(job->keeper, repo, ref, ret, err);
    arena_done(&arena);
    return rc;
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

static int sheaf_add(const struct job_source *job, struct sheaf *sheaf, size_t step_index,
                     struct err *err)
{
    const char *id = job->plan->steps[step_index - 1].id;
    struct tend_patch *patch;
    int rc;
    do
        rc = tend_checkpoint_patch(job->t, job->job_id, (int64_t)step_index, &patch);
    while (again(job, rc));
    if (rc < 0)
        return err_set(err, rc, "the checkpoint of step %s cannot be read: %s", id,
                       tend_errmsg(job->t));
    sheaf->owned[sheaf->count] = patch;
    sheaf->patches[sheaf->count++] =
        (struct workspace_patch){.step = id, .data = patch->data, .bytes = patch->bytes};
    sheaf->bytes += patch->bytes;
    return 0;
}

/* The patches of steps 1 to count, in their order. */
static int replay(const struct job_source *job, struct workspace *workspace, size_t count,
                  struct err *err)
{
    struct sheaf sheaf = {.count = 0};
    int rc = 0;
    for (size_t i = 1; rc >= 0 && i <= count; i++) {
        rc = sheaf_add(job, &sheaf, i, err);
        bool full = sheaf.count == REPLAY_PATCHES || sheaf.bytes >= REPLAY_BYTES || i == count;
        if (rc >= 0 && full) {
            rc = workspace_replay(job->keeper, workspace, sheaf.patches, sheaf.count, NULL, err);
            sheaf_clear(&sheaf);
        }
    }
    sheaf_clear(&sheaf);
    return rc;
}

/* As a change that no checkpoint has yet: the next one takes it in. */
static int apply_edit(const struct job_source *job, struct workspace *workspace,
                      const struct tend_edit *edit, struct err *err)
{
    char name[NAME_SIZE];
    char tree[GIT_ID_BYTES];
    snprintf(name, sizeof name, "%s (edits by %.100s)", job->plan->steps[edit->step_index - 1].id,
             edit->by);
    const struct workspace_patch patch = {
        .step = name, .data = edit->changes.patch, .bytes = edit->changes.patch_bytes};
    memcpy(tree, workspace->tree, sizeof tree);
    int rc = workspace_replay(job->keeper, workspace, &patch, 1, NULL, err);
    if (rc == 0)
        memcpy(workspace->tree, tree, sizeof tree);
    return rc;
}

int job_source_fill(const struct job_source *job, struct workspace *workspace, size_t step_index,
                    bool *ret_edited, struct err *err)
{
    struct tend_edit *edit = NULL;
    int rc = replay(job, workspace, step_index - 1, err);
    if (rc < 0 || ret_edited == NULL)
        return rc;
    *ret_edited = false;
    do
        rc = tend_edit_get(job->t, job->job_id, &edit);
    while (again(job, rc));
    if (rc < 0)
        return rc == TEND_ENOTFOUND ? 0 : err_set(err, rc, "%s", tend_errmsg(job->t));
    if (edit->step_index == (int64_t)step_index && step_index <= job->plan->step_count) {
        rc = apply_edit(job, workspace, edit, err);
        *ret_edited = rc == 0;
    }
    tend_edit_free(edit);
    return rc;
}

/*
 * A folder without the commit the job began with has nothing to compare. Not asked of a workspace
 * that a worker kept, which has tend's folder beside it, nor where git is broken: steps may do
 * anything to their .git.
 */
static int check_origin(const struct job_source *job, const char *folder, const char *commit,
                        struct err *err)
{
    char found[GIT_ID_BYTES];
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%s.tend", folder);
    bool missing = access(beside, F_OK) < 0 &&
                   workspace_find_commit(job->keeper, folder, ".git", commit, found, NULL) == 1;
    workspace_fail(job->keeper, WORKSPACE_FINE, 0);
    if (!missing)
        return 0;
    return err_set(err, TEND_ESTATE,
                   "%s is not a workspace of job %lld: its repository does not have commit %.12s, "
                   "which the job began with",
                   folder, (long long)job->job_id, commit);
}

int job_source_edits(const struct job_source *job, const char *scratch, const char *folder,
                     size_t step_index, struct workspace_change *ret, struct err *err)
{
    struct workspace_source source;
    struct workspace base;
    int rc = job_source_find(job, &source, err);
    if (rc < 0)
        return rc;
    rc = check_origin(job, folder, source.commit, err);
    if (rc == 0)
        rc = workspace_make(job->keeper, &source, scratch, &base, err);
    workspace_source_done(&source);
    if (rc < 0)
        return rc;
    rc = job_source_fill(job, &base, step_index, NULL, err);
    if (rc == 0) {
        struct workspace edited = base; /* the same start, other files */
        edited.folder = (char *)folder;
        rc = workspace_diff(job->keeper, &edited, ret, err);
    }
    (void)workspace_remove(job->keeper, &base, NULL);
    workspace_done(&base);
    return rc;
}
