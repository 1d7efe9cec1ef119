/*
 * One command under a lease that somebody holds already: for shells and other workers of one's own
 * (`tend with-lease`, `tend claim --exec`). The lease is kept while the command runs, and the job
 * ends as the command does.
 *
 *     the command ends with 0     the job is completed
 *     it ends otherwise           the job fails, classed by core/classify.h
 *     the lease is lost           everything that the command has started is killed
 *     a cancel, or a hold         SIGTERM to everything, SIGKILL after the grace
 *     a signal to stop comes      it is passed on, SIGKILL after the grace; unless the command ends
 *                                 with 0, the job is given back, free of charge
 *     the store is away           the command runs for two thirds of the lease, then it is killed
 *
 * The processes are a tree (tree.h): nothing of it outlives this call, or the process that makes
 * it. Not the runner: no steps, no attempts, no healing, and the output goes where the caller's
 * goes.
 */
#ifndef RUN_LEASED_H
#define RUN_LEASED_H

#include <stdbool.h>
#include <tend.h>

struct leased_command {
    struct tend_lease lease;
    const char *const *argv; /* NULL at the end */
    const char *const *env;  /* complete, NULL at the end */
    int stdin_fd;            /* -1: /dev/null */
    bool takes_result;       /* what it prints is the job's result, and goes nowhere else */
    int64_t grace_ms;
    int signal_fd;           /* a byte for each signal to pass on; not blocking; -1: none come */
    const char *helper_path; /* as in tree_pool_open */
};

enum leased_end {
    LEASED_COMPLETED,
    LEASED_FAILED,      /* the job was told so */
    LEASED_LOST,        /* the lease: by time, or an operator has taken it */
    LEASED_GIVEN_BACK,  /* a signal has come: signal says which */
    LEASED_NOT_STARTED, /* the command cannot be started here; the job was given back */
    LEASED_UNTOLD,      /* the command has ended, but the store could not be told */
};

struct leased_result {
    enum leased_end end;
    int signal;     /* the first that was to stop it, or 0 */
    int64_t due_ms; /* failed: when it is tried again, or TEND_UNSET when it has failed for good */
    int code;       /* untold: why */
    char text[512]; /* what happened, as a sentence without its subject's name */
};

/*
 * Runs it, until everything has ended. 0 with *ret; or a negative code with the handle's sentence,
 * when nothing was started: TEND_ELEASELOST, as the store says, or as tree_pool_open.
 */
int leased_run(tend *t, const struct leased_command *command, struct leased_result *ret);

#endif
