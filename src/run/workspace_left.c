/*
 * See workspace_inner.h: what the git commands of dead processes have left running (RC-14).
 *
 * Git itself dies with its worker, but ssh, helpers of transports and filters may go on, and some
 * of them write to a copy. So every process that uses the cache folder notes itself there first, in
 * a file that has the marker of its git commands as its name. Whoever comes later looks which of
 * these processes are dead, ends what carries their marks, and removes the notes. A process of
 * another pid namespace cannot be judged, and its note stays.
 */
#include "base/proc.h"
#include "run/tree.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>
#include <unistd.h>

#define PROCESSES "processes"

enum { AT_ONCE = 32, SWEEP_MS = 10000 };

struct dead {
    size_t count;
    char markers[AT_ONCE][GIT_MARKER_BYTES];
};

static bool is_dead(const char *marker)
{
    struct proc_id id;
    return git_marker_parse(marker, &id) && proc_fate(&id) == PROC_DEAD;
}

/* Those that do not fit in are for the next time. */
static void find_dead(const char *folder, struct dead *dead)
{
    DIR *notes = opendir(folder);
    dead->count = 0;
    for (struct dirent *entry;
         notes != NULL && dead->count < AT_ONCE && (entry = readdir(notes)) != NULL;)
        if (strlen(entry->d_name) < GIT_MARKER_BYTES && is_dead(entry->d_name))
            memcpy(dead->markers[dead->count++], entry->d_name, strlen(entry->d_name) + 1);
    if (notes != NULL)
        closedir(notes);
}

static int note_self(const char *folder, struct err *err)
{
    struct proc_id self;
    char marker[GIT_MARKER_BYTES];
    char path[PATH_MAX + GIT_MARKER_BYTES];
    int rc = proc_self(&self);
    if (rc < 0)
        return err_set(err, rc, "/proc cannot be read: %s", strerror(errno));
    git_marker(&self, marker);
    snprintf(path, sizeof path, "%s/%s", folder, marker);
    return access(path, F_OK) == 0 ? 0 : files_write(path, "", 0, err);
}

static int end_dead(const char *folder, const struct dead *dead, struct err *err)
{
    struct tree_record records[AT_ONCE] = {0};
    size_t ended;
    for (size_t i = 0; i < dead->count; i++)
        records[i].marker = dead->markers[i];
    int rc = dead->count == 0 ? 0 : tree_sweep(records, dead->count, SWEEP_MS, &ended, err);
    for (size_t i = 0; rc == 0 && i < dead->count; i++) {
        char path[PATH_MAX + GIT_MARKER_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, dead->markers[i]);
        unlink(path);
    }
    return rc;
}

int workspace_end_left(struct workspace_keeper *keeper, const char *cache_folder, struct err *err)
{
    char folder[PATH_MAX];
    struct dead dead;
    if (snprintf(folder, sizeof folder, "%s/" PROCESSES, cache_folder) >= PATH_MAX)
        return workspace_file_fail(keeper, files_fail(err, "using", cache_folder, ENAMETOOLONG));
    int rc = files_make_folder(folder, err);
    if (rc == 0)
        rc = note_self(folder, err);
    if (rc < 0)
        return workspace_file_fail(keeper, rc);
    find_dead(folder, &dead);
    if (end_dead(folder, &dead, err) == 0)
        return 0;
    if (err != NULL)
        err->code = TEND_EIO; /* TEND_EBUSY would say that the copy itself is stuck */
    return workspace_fail(keeper, WORKSPACE_BUSY, TEND_EIO);
}
