/*
 * The folders that runners make for jobs, below the runner's own:
 *
 *     job-12/                  of a job; job-12-1f3a if that name is another store's or user's
 *         store                the marker: which store the job belongs to
 *         lease-4711/          of one lease of it: files of its steps, its workspaces
 *             lock             held by the runner that works there
 *             .git             a file that names no repository; see lease_folder_stop_git
 *             kept             why the workspaces stay when the lease has ended (core/keep.h)
 *         patches/, state/     for people; see artifact.h
 *     cache/                   copies of repositories; see workspace.h
 *     collect.lock             held by whoever collects; see collect.h
 *
 * Several stores may share a runner's folder, and so may several machines. The marker tells which
 * store decides about a folder; one without a marker is taken when it is empty, else it is left to
 * the user. A copy of a store has the same marker: the lock tells where somebody works of whom this
 * store knows nothing.
 */
#ifndef RUN_JOB_FOLDER_H
#define RUN_JOB_FOLDER_H

#include "base/err.h"
#include "core/keep.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_FOLDER_MARKER "store"
#define LEASE_FOLDER_LOCK "lock"
#define LEASE_FOLDER_GIT ".git"

/* Of a job or a lease by the name of its folder; false: it is no such folder. */
bool job_folder_parse(const char *name, int64_t *ret_job_id);
bool lease_folder_parse(const char *name, int64_t *ret_token);

enum folder_owner {
    OWNER_THIS,  /* this store */
    OWNER_OTHER, /* another one, or this one before it was restored from a backup */
    OWNER_NONE,  /* there is no marker */
};
/* A descriptor of the folder of a job, or of a lease in it; -1 and errno: ELOOP or ENOTDIR when it
 * is no folder. No link is followed: it could lead to the folder of another job. */
int job_folder_open(int below, const char *name);

/* Of an open folder; negative: OWNER_NONE. */
enum folder_owner job_folder_owner(int folder, int64_t store_id);

/* Makes the folder of a job, or takes the one that is there if it is this store's, or empty. out is
 * its path. */
int job_folder_make(const char *below, int64_t job_id, int64_t store_id, char out[PATH_MAX],
                    struct err *err);

/* Makes the folder of a lease, and out, the job's, if somebody has removed it meanwhile. What is no
 * folder is removed from its place. A descriptor of it: what is done in it is done by that, for a
 * step can put a link in its place later. */
int lease_folder_make(const char *below, int64_t job_id, int64_t token, int64_t store_id,
                      char out_job[PATH_MAX], char out_lease[PATH_MAX], struct err *err);

/* A descriptor of the folder of a lease of this store; -1: there is none. */
int lease_folder_find(const char *below, int64_t job_id, int64_t token, int64_t store_id);

/* Removes the folder of a job when nothing but its marker is in it. */
void job_folder_leave(int below, const char *name, int64_t store_id);

/*
 * All of these are of a lease's folder that is open; path is for messages.
 */

/* A descriptor; while it is open, and its process lives, collectors leave the lease's folder alone.
 */
int lease_folder_lock(int folder, const char *path, struct err *err);
/* True also when that cannot be told. */
bool lease_folder_is_locked(int folder);

/*
 * The folders of jobs may lie below a repository of the user's. Git looks for one in the folders
 * above; this file ends that look with an error when a step has removed .git of its workspace.
 */
int lease_folder_stop_git(int folder, const char *path, struct err *err);

/* KEEP_NOT: nothing is kept there. */
enum keep_why lease_folder_kept(int folder);
int lease_folder_keep(int folder, const char *path, enum keep_why why, struct err *err);
/* It is not kept any more. */
void lease_folder_release(int folder);

#endif
