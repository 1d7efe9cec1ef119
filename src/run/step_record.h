/* What is put down about an attempt that has ended: for the store, for the next attempt, for
 * people. */
#ifndef RUN_STEP_RECORD_H
#define RUN_STEP_RECORD_H

#include "run/job.h"

void failure_done(struct failure *failure);
/* As the rules of healing look at it; it lives in the failure. */
struct heal_attempt failure_for_heal(const struct failure *failure);

/*
 * Takes what a step that has succeeded changed in its workspace. What the worker lacks for that
 * (room, descriptors) is waited for, under the lease: to run the step again would have its effects
 * twice. Otherwise attempt->end says what becomes of it: failed; or lost, cancelled or
 * stopped while git ran or it waited, or ordered while it waited. Then its work is in its workspace
 * only, which is kept (job.h, unsaved), and the step is run again, free of charge.
 */
void step_take_checkpoint(struct attempt *attempt);
/* After its checkpoint is taken. */
void step_record_success(struct attempt *attempt);
/* It is the run's last failure then. */
void step_record_failure(struct attempt *attempt);
/* Ended from outside: counts for nothing. */
void step_record_stop(struct attempt *attempt, const char *why);

/* The job fails before its step could be tried: run->last_error and run->early say why. */
void step_fail_early(struct job_run *run);

/* Writes the file for TEND_RETRY_CONTEXT, and keeps its text in the attempt; its path, or NULL. */
const char *step_retry_context(struct attempt *attempt);

/* The attempt as others see it while it runs (tend_runner_look), and the step while it pauses
 * before its next one. */
void step_view_begin(const struct attempt *attempt);
void step_view_pause(const struct job_run *run, int64_t until_ms);
void step_view_end(struct task *task);

#endif
