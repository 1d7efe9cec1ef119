/*
 * Metrics of steps as they happen, to a StatsD server (statsd.h), with tags in the manner of
 * DogStatsD (SH-14). Names are those of the contract.
 */
#ifndef RUN_METRICS_H
#define RUN_METRICS_H

#include <tend.h>

struct attempt;
struct failure;

void metrics_attempt_failed(tend_runner *runner, const struct attempt *attempt,
                            const struct failure *failure);
/* before: the failure of the attempt before, where there was one. */
void metrics_attempt_succeeded(tend_runner *runner, const struct attempt *attempt,
                               const struct failure *before);

#endif
