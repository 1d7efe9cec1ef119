/*
 * One command under a lease that somebody holds already: for shells and other workers of one's own
 * (`tend with-lease`, `tend claim --exec`). The lease is kept while the command runs, and the job
 * ends as the command does.
 *
 *     the command ends         with 0: the job is completed; else it fails (core/classify)
 *     the lease is lost        everything the command has started is killed
 *     the job is cancelled     SIGTERM to everything, SIGKILL after the grace
 *     or held by an operator
 *     a signal to stop comes   it is passed on; SIGKILL after the grace; the job is given back,
 *                              free of charge, unless the command ends with 0
 *     the store is away        the command goes on for two thirds of the lease, and for as long
 *                              as nobody can write (lease_watch.h); then it is killed
 *     the store does not hear  it is told again until the lease is over, or a signal to stop
 *     how the command ended    comes, and for two seconds more
 *     it cannot be started     the job is given back, free of charge
 *
 * The processes are a tree (tree.h): nothing of it outlives this call, or the process that makes
 * it. If the helpers are killed with that process, whoever has the job next on this machine ends
 * the tree first: it is marked with the lease (sweep.h). Not the runner: no steps, no attempts, no
 * healing, and the output goes where the caller's goes.
 */
#ifndef RUN_LEASED_H
#define RUN_LEASED_H

#include "run/sweep.h"

#include <stdbool.h>
#include <tend.h>

struct leased_command {
    struct tend_lease lease;
    const char *const *argv; /* NULL at the end */
    const char *shell_line;  /* that argv has a shell run; NULL: it has none */
    const char *const *env;  /* complete, NULL at the end */
    int stdin_fd;            /* -1: /dev/null */
    bool takes_result;       /* what it prints is the job's result, and goes nowhere else */
    int64_t grace_ms;
    int signal_fd;           /* a byte for each signal to pass on; not blocking; -1: none come */
    const char *helper_path; /* as in tree_pool_open */
    struct sweep_ear ear;    /* is told what earlier runs of the job had left */
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
 * when the store refuses the lease: nothing was started then, and nothing is to be given back.
 */
int leased_run(tend *t, const struct leased_command *command, struct leased_result *ret);

/* Instead of leased_run, for a caller that lacks what it takes to call it. */
void leased_give_back(tend *t, struct tend_lease lease, const char *why, struct leased_result *ret);

#endif
