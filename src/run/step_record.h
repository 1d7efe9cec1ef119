/* What is put down about an attempt that has ended: for the store, for the next attempt, for
 * people. */
#ifndef RUN_STEP_RECORD_H
#define RUN_STEP_RECORD_H

#include "run/job.h"

/* The last failure of a step. */
struct failure {
    struct classification class;
    struct signature signature;
    struct heal_verdict verdict;
    char text[1600]; /* for the job's error */
    char diff_hash[GIT_ID_BYTES];
    struct workspace_change change; /* what the attempt had changed */
    bool has_change;
};
void failure_done(struct failure *failure);

/* False: what it has changed could not be taken; it counts as a failure then, which is recorded. */
bool step_record_success(struct attempt *attempt, struct failure *failure);
void step_record_failure(struct attempt *attempt, struct failure *failure);
/* Ended from outside: counts for nothing. */
void step_record_stop(struct attempt *attempt);

/* The job fails before its step could be tried: run->last_error and run->early say why. */
void step_fail_early(struct job_run *run);

/* Writes the file for TEND_RETRY_CONTEXT; its path, or NULL. */
const char *step_retry_context(struct attempt *attempt, const struct failure *failure);

/* The attempt as others see it while it runs (tend_runner_look). */
void step_view_begin(struct attempt *attempt);
void step_view_end(struct attempt *attempt);

#endif
