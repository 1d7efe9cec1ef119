/*
 * The workspace of a job, made from what the store has: the start commit, the checkpoints of its
 * steps, and what an operator has changed (SH-7, SH-10). For runners, and for people who want to
 * look.
 */
#ifndef RUN_JOB_SOURCE_H
#define RUN_JOB_SOURCE_H

#include "core/spec.h"
#include "run/workspace.h"

#include <tend.h>

struct job_source {
    tend *t;
    int64_t job_id;
    const struct job_plan *plan; /* has a workspace_repo */
    const char *folder;          /* absolute: a relative repository counts from there */
    struct workspace_keeper *keeper;
    /* Whether a call to the store that has failed with rc is to be repeated; NULL: none is. */
    bool (*again)(void *arg, int rc);
    void *arg;
};

/* Whether a repository is named by a path that counts from a folder. */
bool job_source_is_relative(const char *repo);

/* The repository by a name that is good in every folder, in the arena; NULL: no memory. */
const char *job_source_repo(struct arena *arena, const char *repo, const char *folder);

/*
 * The commit the job started from: as it was found the first time, else as the plan says now. So is
 * a relative repository, unless that is not on this machine and the plan's is.
 */
int job_source_find(const struct job_source *job, struct workspace_source *ret, struct err *err);

/*
 * Makes the changes of the steps before this one (from 1) in a fresh workspace, and then those of
 * an operator before this step; the latter count as changes since the last checkpoint. *ret_edited:
 * there were some; NULL: they are left out.
 */
int job_source_fill(const struct job_source *job, struct workspace *workspace, size_t step_index,
                    bool *ret_edited, struct err *err);

/*
 * What a person has changed in a folder that was a workspace of the job, before this step: how it
 * differs from what the start commit and the steps before have made. The folder need not be the
 * one the job worked in. A fresh workspace is made for it below `scratch`, and removed.
 */
int job_source_edits(const struct job_source *job, const char *scratch, const char *folder,
                     size_t step_index, struct workspace_change *ret, struct err *err);

#endif
