/*
 * The collector of a runner: a thread that removes what nothing needs from the runner's folder
 * (collect.h), when the runner starts and then every ten times its recovery interval.
 *
 * Housekeeping: it works for a tenth of the time at most, and not while another process does so in
 * the same folder. When the runner ends, it ends after what it removes at the moment.
 */
#ifndef RUN_COLLECTOR_H
#define RUN_COLLECTOR_H

#include "run/runner.h"

/* Without a thread for it the runner works all the same. */
void collector_start(tend_runner *runner);
void collector_end(tend_runner *runner);

/* Tells people what sweep_left_behind has found. */
struct sweep_ear runner_ear(tend_runner *runner);

#endif
