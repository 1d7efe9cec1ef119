/* Files of a job: what its steps are told and tell. Copies for the moment; the store has what
 * counts. */
#include "run/job.h"
#include "run/workspace_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In a lease's folder: its workspaces are a person's now. */
static const char kept_name[] = "kept";

static int make_folder(const char *path)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

const char *job_base_folder(const struct job_run *run, struct arena *arena)
{
    const char *named = run->task->job->workspace;
    const char *here = run->runner->here;
    if (run->has_workspace)
        return run->workspace.folder;
    if (named == NULL || named[0] == '\0')
        return here;
    return named[0] == '/' ? named : arena_printf(arena, "%s/%s", here, named);
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

const char *job_path(struct job_run *run, const char *name)
{
    struct err err;
    const char *path = arena_printf(&run->arena, "%s/%s", run->lease_folder, name);
    if (path == NULL)
        files_fail(&err, "naming", name, ENOMEM);
    else if (!run->folder_made &&
             (make_folder(run->folder) < 0 || make_folder(run->lease_folder) < 0))
        files_fail(&err, "making folder", run->lease_folder, errno);
    else
        run->folder_made = true;
    return run->folder_made && path != NULL ? path : lacks(run, &err);
}

const char *job_write_file(struct job_run *run, const char *name, const char *text, size_t len)
{
    struct err err;
    const char *path = job_path(run, name);
    if (path == NULL)
        return NULL;
    return files_write(path, text, len, &err) == 0 ? path : lacks(run, &err);
}

/* The files of a lease, and its folder when nothing else is in it. */
static void clean_lease(struct job_run *run, const char *lease_folder)
{
    static const char *const names[] = {"input.json", "output", "retry.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = arena_printf(&run->arena, "%s/%s", lease_folder, names[i]);
        if (path != NULL)
            unlink(path);
    }
    rmdir(lease_folder);
}

/* What workers that died have left of a job that is done; what was kept for people stays. */
static void clean_earlier(struct job_run *run)
{
    struct err err;
    DIR *folder = opendir(run->folder);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const char *path = arena_printf(&run->arena, "%s/%s", run->folder, entry->d_name);
        const char *kept = arena_printf(&run->arena, "%s/%s", path, kept_name);
        if (strncmp(entry->d_name, "lease-", 6) != 0 || kept == NULL || access(kept, F_OK) == 0 ||
            strcmp(path, run->lease_folder) == 0)
            continue;
        workspace_remove_all(&run->keeper, path, &err);
        clean_lease(run, path);
    }
    if (folder != NULL)
        closedir(folder);
}

void job_clean_files(struct job_run *run)
{
    if (run->keeps_workspaces)
        job_write_file(run, kept_name, "", 0);
    if (run->done && job_may_have_run(run))
        clean_earlier(run);
    if (run->folder_made || run->plan.workspace_repo != NULL)
        clean_lease(run, run->lease_folder);
    rmdir(run->folder);
}
