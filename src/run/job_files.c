/* Files of a job: what its steps are told and tell. Copies for the moment; the store has what
 * counts. */
#include "run/collect.h"
#include "run/collector.h"
#include "run/job.h"
#include "run/job_folder.h"
#include "run/workspace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *job_named_folder(const struct job_run *run, struct arena *arena)
{
    const char *named = run->task->job->workspace;
    const char *here = run->runner->here;
    if (named == NULL || named[0] == '\0')
        return here;
    return named[0] == '/' ? named : arena_printf(arena, "%s/%s", here, named);
}

const char *job_base_folder(const struct job_run *run, struct arena *arena)
{
    return run->has_workspace ? run->workspace.folder : job_named_folder(run, arena);
}

void job_lacks(struct job_run *run, int code, const char *text)
{
    snprintf(run->last_error, sizeof run->last_error, "%s", text);
    run->lack_code = code;
}

/* This worker cannot write its own files. */
static const char *lacks(struct job_run *run, const struct err *err)
{
    job_lacks(run, err->code, err->text);
    return NULL;
}

static void close_lease(struct job_run *run)
{
    if (run->lease_lock >= 0)
        close(run->lease_lock);
    if (run->lease_fd >= 0)
        close(run->lease_fd);
    run->lease_lock = run->lease_fd = -1;
    run->folder_made = false;
}

bool job_folder_is_there(const struct job_run *run)
{
    struct stat made;
    struct stat named;
    return run->folder_made && fstat(run->lease_fd, &made) == 0 &&
           stat(run->lease_folder, &named) == 0 && made.st_dev == named.st_dev &&
           made.st_ino == named.st_ino;
}

static bool make_folders(struct job_run *run, struct err *err)
{
    char job[PATH_MAX];
    char lease[PATH_MAX];
    if (job_folder_is_there(run))
        return true;
    close_lease(run);
    run->input_path = run->output_path = NULL;
    if ((run->lease_fd = lease_folder_make(run->runner->options.folder, run->task->job->id,
                                           run->task->lease.token, run->runner->store_id, job,
                                           lease, err)) < 0 ||
        (run->lease_lock = lease_folder_lock(run->lease_fd, lease, err)) < 0 ||
        lease_folder_stop_git(run->lease_fd, lease, err) < 0)
        return false;
    run->folder = arena_strdup(&run->arena, job);
    run->lease_folder = arena_strdup(&run->arena, lease);
    run->folder_made = run->folder != NULL && run->lease_folder != NULL;
    if (!run->folder_made)
        files_fail(err, "naming", job, ENOMEM);
    return run->folder_made;
}

bool job_make_folders(struct job_run *run)
{
    struct err err;
    return make_folders(run, &err) || lacks(run, &err) != NULL;
}

const char *job_folder(struct job_run *run)
{
    return make_folders(run, NULL) ? run->folder : NULL;
}

const char *job_path(struct job_run *run, const char *name)
{
    struct err err;
    if (!job_make_folders(run))
        return NULL;
    const char *path = arena_printf(&run->arena, "%s/%s", run->lease_folder, name);
    if (path == NULL)
        files_fail(&err, "naming", name, ENOMEM);
    return path != NULL ? path : lacks(run, &err);
}

const char *job_write_file(struct job_run *run, const char *name, const char *text, size_t len)
{
    struct err err;
    const char *path = job_path(run, name);
    if (path == NULL)
        return NULL;
    int problem = files_write_at(run->lease_fd, name, text, len);
    if (problem != 0)
        files_fail(&err, "writing", path, problem);
    return problem == 0 ? path : lacks(run, &err);
}

/* The files of the lease, and its folder when nothing else is in it. A link that a step has put in
 * the place of the folder goes, and where it leads to is not looked at. */
static void clean_lease(struct job_run *run)
{
    static const char *const names[] = {"input.json", REPORT_FILE_NAME, "retry.json",
                                        LEASE_FOLDER_LOCK, LEASE_FOLDER_GIT};
    const char *name = strrchr(run->lease_folder, '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)files_remove_at(run->lease_fd, names[i]);
    close_lease(run);
    int job = job_folder_open(AT_FDCWD, run->folder);
    if (job < 0)
        return;
    if (unlinkat(job, name, AT_REMOVEDIR) < 0 && errno == ENOTDIR)
        unlinkat(job, name, 0);
    close(job);
}

/* What workers that died have left of the job, and what was kept of it for long enough. A job whose
 * end could not be told is left to others. */
static void clean_earlier(struct job_run *run)
{
    struct collect collect;
    if (!run->closed || collect_init(&collect, run->runner->t, run->runner->options.folder) < 0)
        return;
    collect.removes = true;
    collect.ear = runner_ear(run->runner);
    (void)collect_job(&collect, run->folder, run->task->job->id);
}

void job_clean_files(struct job_run *run, enum keep_why why)
{
    struct err err;
    if (!run->folder_made) {
        close_lease(run);
        return;
    }
    bool has_workspace = run->has_workspace || run->has_old;
    if (why != KEEP_NOT && has_workspace &&
        lease_folder_keep(run->lease_fd, run->lease_folder, why, &err) < 0)
        runner_tell(run->runner, TEND_NEWS_NOTE, run->task->job->id, -1,
                    "job %lld: its workspace may go before its time: %s",
                    (long long)run->task->job->id, err.text);
    clean_lease(run);
    if (job_may_have_run(run))
        clean_earlier(run);
    job_folder_leave(AT_FDCWD, run->folder, run->runner->store_id);
}
