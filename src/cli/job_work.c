/* See job_work.h. */
#include "cli/job_work.h"

#include "base/proc.h"
#include "cli/cli.h"
#include "queue/keep.h"
#include "run/job_folder.h"
#include "run/workspace_files.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 256 };

static int read_plan(struct job_work *work, int64_t id, struct err *err)
{
    const struct tend_job *job = &work->job->items[0];
    int rc = spec_parse(job->payload, job->payload_bytes, &work->arena, &work->plan, err);
    if (rc == TEND_ENOMEM || (rc == SPEC_PLAN && work->plan.workspace_repo))
        return rc == SPEC_PLAN ? 0 : rc;
    return err_set(err, TEND_ESTATE,
                   "job %" PRId64 " has no git workspace: its payload names no repository", id);
}

static int read_done(tend *store, struct job_work *work, int64_t id, struct err *err)
{
    struct tend_checkpoints *checkpoints;
    int rc = tend_checkpoints(store, id, &checkpoints);
    if (rc < 0)
        return err_set(err, rc, "%s", tend_errmsg(store));
    for (size_t i = 0; i < checkpoints->count && work->done < work->plan.step_count; i++)
        work->done += checkpoints->items[i].step_index == (int64_t)work->done + 1;
    tend_checkpoints_free(checkpoints);
    return 0;
}

int job_work_read(tend *store, int64_t id, const char *folder, struct job_work *ret,
                  struct err *err)
{
    *ret = (struct job_work){.job = NULL};
    arena_init(&ret->arena);
    int rc = tend_get(store, id, &ret->job);
    if (rc < 0)
        return err_set(err, rc, "%s", tend_errmsg(store));
    char here[PATH_MAX] = "";
    const char *named = ret->job->items[0].workspace;
    if (named && named[0] == '/')
        snprintf(here, sizeof here, "%s", named);
    else if (!getcwd(here, sizeof here))
        return err_set(err, TEND_EIO, "the current folder cannot be told: %s", strerror(errno));
    ret->folder = folder;
    workspace_keeper_init(&ret->keeper, arena_printf(&ret->arena, "%s/cache", folder));
    ret->source = (struct job_source){.t = store,
                                      .job_id = id,
                                      .plan = &ret->plan,
                                      .folder = arena_strdup(&ret->arena, here),
                                      .keeper = &ret->keeper};
    ret->keeper.limits.cancel_fd = signals_catch();
    rc = read_plan(ret, id, err);
    return rc < 0 ? rc : read_done(store, ret, id, err);
}

void job_work_done(struct job_work *work)
{
    signals_release();
    tend_jobs_free(work->job);
    arena_done(&work->arena);
}

int job_work_fail(struct cli *cli, const struct job_work *work, const struct err *err)
{
    int64_t id = work->source.job_id;
    switch (work->keeper.problem) {
    case WORKSPACE_INTERRUPTED:
        return signals_exit_status();
    case WORKSPACE_NOT_A_REPOSITORY:
    case WORKSPACE_REF_MISSING:
    case WORKSPACE_NOT_ALLOWED:
    case WORKSPACE_OUT_OF_REACH:
        return cli_fail_as(cli, EXIT_FAILED, err->code,
                           "the repository of job %" PRId64
                           " cannot be reached from this machine: %s; 'tend patch %" PRId64
                           "' prints what the job has changed",
                           id, err->text, id);
    default:
        return cli_fail_as(cli, EXIT_FAILED, err->code,
                           "the workspace of job %" PRId64 " cannot be made: %s", id, err->text);
    }
}

/* Git is started elsewhere: the folder needs a path that is good everywhere. */
static const char *check_folder(struct job_work *work, const char *folder, struct err *err)
{
    char *absolute = realpath(folder, NULL);
    if (!absolute) {
        err_set(err, errno == ENOENT ? TEND_ENOTFOUND : TEND_EIO, "%s: %s", folder,
                strerror(errno));
        return NULL;
    }
    const char *path = arena_strdup(&work->arena, absolute);
    const char *git = arena_printf(&work->arena, "%s/.git", absolute);
    free(absolute);
    if (!path || !git)
        err_set(err, TEND_ENOMEM, "out of memory");
    else if (access(git, F_OK) < 0)
        err_set(err, TEND_EINVAL, "%s is not a workspace: it has no .git", folder);
    else
        return path;
    return NULL;
}

int job_work_edits(struct job_work *work, const char *folder, struct workspace_change *ret,
                   struct err *err)
{
    const char *below = getenv("TMPDIR");
    const char *path = check_folder(work, folder, err);
    char *scratch =
        arena_printf(&work->arena, "%s/tend-edits-XXXXXX", below && *below ? below : "/tmp");
    if (!path)
        return err->code;
    if (!scratch || !mkdtemp(scratch))
        return err_set(err, TEND_EIO, "making a folder for comparing: %s", strerror(errno));
    int rc = job_source_edits(&work->source, scratch, path, work->done + 1, ret, err);
    (void)files_remove(scratch, NULL);
    return rc;
}

/* The worker that kept the workspace has a copy of the repository beside it, which need not be the
 * one a command would use: …/cache for …/job-12/lease-4711/workspace-1f3a. */
static void use_copies_of(struct job_work *work, const char *workspace)
{
    enum { LEVELS = 3 };
    char *path = arena_strdup(&work->arena, workspace);
    for (int i = 0; path && i < LEVELS; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
    const char *cache = path ? arena_printf(&work->arena, "%s/cache", path) : NULL;
    if (cache && access(cache, F_OK) == 0)
        work->keeper.cache_folder = cache;
}

static const char *find_in_folder(struct job_work *work)
{
    char path[PATH_MAX];
    int64_t store_id;
    const char *found = NULL;
    const struct tend_job *job = &work->job->items[0];
    if (job->state != TEND_HELD || keep_store_id(work->source.t, &store_id) < 0)
        return NULL;
    int fd = lease_folder_find(work->folder, job->id, job->stopped_token, store_id);
    if (fd >= 0 && lease_folder_kept(fd) == KEEP_TAKEN_OVER && workspace_find_at(fd, path) > 0)
        found = arena_strdup(&work->arena, path);
    if (fd >= 0)
        close(fd);
    return found;
}

/* The newest workspace that is kept of an attempt that failed, or of one that did not. */
static const char *find_kept(struct job_work *work, bool failed, const char **ret_elsewhere)
{
    struct tend_keeps *keeps;
    char host[HOST_BYTES];
    const char *folder = NULL;
    *ret_elsewhere = NULL;
    if (proc_host(host, sizeof host) < 0 ||
        tend_keeps(work->source.t, work->source.job_id, &keeps) < 0)
        return NULL;
    for (size_t i = keeps->count; !folder && !*ret_elsewhere && i-- > 0;) {
        const struct tend_keep *keep = &keeps->items[i];
        if (!keep->workspace || !keep->there || (keep->state == TEND_ATTEMPT_FAILED) != failed)
            continue;
        if (strcmp(keep->host, host) == 0)
            folder = arena_strdup(&work->arena, keep->workspace);
        else
            *ret_elsewhere = arena_strdup(&work->arena, keep->host);
    }
    tend_keeps_free(keeps);
    return folder;
}

const char *job_work_kept(struct job_work *work, const char **ret_elsewhere)
{
    const char *folder = find_kept(work, false, ret_elsewhere);
    if (!folder && !*ret_elsewhere)
        folder = find_in_folder(work);
    if (folder)
        use_copies_of(work, folder);
    return folder;
}

const char *job_work_failed(struct job_work *work)
{
    const char *elsewhere;
    return find_kept(work, true, &elsewhere);
}
