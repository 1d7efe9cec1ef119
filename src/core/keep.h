/*
 * Which folders that runners have made are still needed, and for how long.
 *
 * A runner gives each lease of a job a folder of its own, named after the token. A folder is in use
 * while the lease is held and while processes of its attempts may be alive. Afterwards it is
 * garbage, unless it was kept for people:
 *
 *     KEEP_FAILED       the attempt that gave the job up worked there   keep_ms from its end on;
 *                       nobody could say so for one whose worker was lost: then it is the last
 *                       lease of a job that has failed as poison
 *     KEEP_TAKEN_OVER   an operator works there    while the job is held, then keep_ms
 *     KEEP_RESET        the step was given a fresh workspace and has not succeeded since
 *                                                  until the job is done, at most keep_ms
 *
 * What belongs to a job that the store has deleted is garbage in any case. But a copy of a store,
 * a file copied by hand, has the same marker, and knows nothing of what the other gives out since:
 * ids and tokens that are new here are left alone, and so is a folder that a runner has locked. No
 * I/O, no clock.
 */
#ifndef CORE_KEEP_H
#define CORE_KEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Of one job: workspaces of failed attempts, and their patches in the store. Older ones go. */
enum { KEEP_FAILED_MOST = 2 };

/* How long another machine at least has for its processes and folders: a day. */
enum { KEEP_ELSEWHERE_MS = 24 * 60 * 60 * 1000 };

enum keep_why { KEEP_NOT, KEEP_FAILED, KEEP_TAKEN_OVER, KEEP_RESET };

/* "", "failed", "taken over", "reset": as it is written down. */
const char *keep_why_name(enum keep_why why);
/* KEEP_NOT for what is none of them. */
enum keep_why keep_why_parse(const char *name);

/* A job as the store has it. */
struct keep_job {
    bool known; /* false: it was deleted, or never was in this store */
    bool given; /* this store has given out its id */
    int state;  /* enum job_state */
    int64_t token;
    int64_t stopped_token; /* of the lease that a hold or cancel has ended */
    int64_t changed_at_ms;
    bool poisoned;   /* it has failed because its workers were lost */
    int64_t keep_ms; /* the queue's keep-workspace; negative: for ever */
};

/* One of its leases: what the store has of the attempts under it, and its folder. */
struct keep_lease {
    int64_t token;
    bool locked;             /* a runner works there, maybe for a store of which this is a copy */
    bool may_live_here;      /* processes may be left on this machine */
    bool may_live_elsewhere; /* ... on another one */
    bool attended;           /* the worker of those is registered, and not seen to be dead */
    int64_t worker_id;       /* of that worker */
    bool last_workspace;     /* no later lease of the job has one */
    enum keep_why why;
    int64_t failed_at_ms; /* KEEP_FAILED: when the attempt ended; 0: the job failed before one */
};

enum keep_fate {
    FATE_IN_USE,
    FATE_ELSEWHERE, /* something of it may run on another machine, or is not known here */
    FATE_ORPHANED,  /* garbage, or kept, once its processes were ended */
    FATE_KEPT,
    FATE_GARBAGE,
};
enum keep_fate keep_fate(const struct keep_job *job, const struct keep_lease *lease,
                         int64_t now_ms);
/* The same for one whose processes have been ended. */
enum keep_fate keep_fate_swept(const struct keep_job *job, const struct keep_lease *lease,
                               int64_t now_ms);

/* Whether it is kept although nobody has said so: the worker that would have was lost. */
bool keep_is_lost(const struct keep_job *job, const struct keep_lease *lease);

/* Until when a folder is kept; INT64_MAX: for ever, or while the job is held. */
int64_t keep_until(const struct keep_job *job, const struct keep_lease *lease);

#endif
