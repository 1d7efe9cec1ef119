/*
 * The folder that a job names (tend add --workspace): for its commands where it has no repository,
 * else for a repository that counts from there.
 *
 * It may be missing here and be there on another machine. So a worker without it gives the job
 * back, free of charge, as one without a handler for its kind does.
 */
#include "base/proc.h"
#include "queue/explain.h"
#include "run/job.h"
#include "run/job_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A handler's command is a process, too. */
static bool runs_processes(const struct job_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == STEP_RUN || plan->steps[i].kind == STEP_EXEC)
            return true;
    return false;
}

/* With a repository, its commands run there. */
static bool needs_folder(const struct job_plan *plan)
{
    const char *repo = plan->workspace_repo;
    return repo != NULL ? job_source_is_relative(repo) : runs_processes(plan);
}

/* Who has added the job, as its first event says: user@host. */
static const char *added_by(struct job_run *run)
{
    struct tend_events *events;
    const char *who = NULL;
    if (tend_job_events(run->runner->t, run->task->job->id, &events) < 0)
        return "?";
    if (events->count > 0)
        who = arena_strdup(&run->arena, events->items[0].who);
    tend_events_free(events);
    return who != NULL ? who : "?";
}

/* Why the folder cannot be entered; NULL: it can be. */
static const char *trouble_with(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return strerror(errno);
    if (!S_ISDIR(info.st_mode))
        return "it is not a folder";
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? strerror(errno) : NULL;
}

bool job_lacks_folder(struct job_run *run)
{
    char host[64];
    const char *named = run->task->job->workspace;
    if (named == NULL || named[0] == '\0' || !needs_folder(&run->plan))
        return false;
    const char *path = job_named_folder(run, &run->arena);
    const char *why =
        path == NULL ? NULL : trouble_with(path); /* without memory, its step says so */
    if (why == NULL)
        return false;
    if (proc_host(host, sizeof host) < 0)
        snprintf(host, sizeof host, "localhost");
    snprintf(run->last_error, sizeof run->last_error,
             NO_FOLDER_WHY "\"%s\" cannot be entered on %s: %s. It was added by %s", path, host,
             why, added_by(run));
    run->missing_folder = path;
    return true;
}
