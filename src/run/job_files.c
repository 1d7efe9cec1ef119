/* Files of a job: what its steps are told and tell. Copies for the moment; the store has what
 * counts. */
#include "run/job.h"
#include "run/workspace_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_folder(const char *path)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

const char *job_path(struct job_run *run, const char *name)
{
    const char *path = arena_printf(&run->arena, "%s/%s", run->folder, name);
    if (path == NULL || run->folder_made)
        return path;
    if (make_folder(run->folder) < 0) {
        snprintf(run->last_error, sizeof run->last_error, "folder %s cannot be made: %s",
                 run->folder, strerror(errno));
        return NULL;
    }
    run->folder_made = true;
    return path;
}

const char *job_write_file(struct job_run *run, const char *name, const char *text, size_t len)
{
    const char *path = job_path(run, name);
    if (path == NULL)
        return NULL;
    struct err err;
    if (files_write(path, text, len, &err) == 0)
        return path;
    snprintf(run->last_error, sizeof run->last_error, "%s", err.text);
    return NULL;
}

void job_clean_files(struct job_run *run)
{
    static const char *const names[] = {"input.json", "output", "retry.json"};
    if (!run->folder_made)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = job_path(run, names[i]);
        if (path != NULL)
            unlink(path);
    }
    rmdir(run->folder);
}
