/* Orphans: what dead workers of this machine have left running (RC-14). */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include "run/runner.h"

/*
 * Ends the process trees of all attempts of this machine whose lease is no longer held. Done when a
 * runner starts, and before a job that was leased before runs again.
 */
void sweep_left_behind(tend_runner *runner);

#endif
