/* Orphans: what dead workers of this machine have left running (RC-14). */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include "run/runner.h"

/*
 * Ends the process trees of attempts of this machine whose lease is no longer held: of one job,
 * before it runs again, or of all (job_id 0), when a runner starts. False: something is still
 * there.
 */
bool sweep_left_behind(tend_runner *runner, int64_t job_id);

#endif
