/* A job with a git workspace, for commands that make it again or look into it. */
#ifndef CLI_JOB_WORK_H
#define CLI_JOB_WORK_H

#include "base/arena.h"
#include "core/spec.h"
#include "run/job_source.h"

#include <stdint.h>
#include <tend.h>

struct cli;

struct job_work {
    struct tend_jobs *job;
    struct job_plan plan;
    size_t done;        /* steps that have a checkpoint, from the first on */
    const char *folder; /* of runners */
    struct workspace_keeper keeper;
    struct job_source source;
    struct arena arena;
};

/*
 * Reads the job and its plan. folder: of runners, whose copies of repositories are used. 0, or a
 * code with the sentence; TEND_ESTATE: it has no git workspace. job_work_done in either case: until
 * then SIGINT, SIGTERM and SIGHUP end what git does, so that what was made is removed.
 */
int job_work_read(tend *store, int64_t id, const char *folder, struct job_work *ret,
                  struct err *err);
void job_work_done(struct job_work *work);

/* Tells why a workspace of the job cannot be made here; gives the exit status. */
int job_work_fail(struct cli *cli, const struct job_work *work, const struct err *err);

/* What was changed in a folder since the last checkpoint of the job; err as job_source_edits. */
int job_work_edits(struct job_work *work, const char *folder, struct workspace_change *ret,
                   struct err *err);

/*
 * The workspace that is kept on this machine for whoever took the job over, in the arena; NULL:
 * there is none. *ret_elsewhere: the machine that has it, or NULL. The store knows of none when the
 * job was taken over before an attempt had begun: then it is looked for in the folder of runners.
 */
const char *job_work_kept(struct job_work *work, const char **ret_elsewhere);
/* The same of an attempt that failed, on this machine; its changes are taken only where --from
 * names it. NULL: none. */
const char *job_work_failed(struct job_work *work);

#endif
