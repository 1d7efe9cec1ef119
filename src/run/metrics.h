/*
 * Metrics of steps as they happen, to a StatsD server by UDP, with tags in the manner of DogStatsD
 * (SH-14). Names are those of the contract. Nothing waits for a server, and none that is missing is
 * missed: a packet that cannot be sent is dropped.
 */
#ifndef RUN_METRICS_H
#define RUN_METRICS_H

#include "base/err.h"
#include <tend.h>

struct statsd;
struct attempt;
struct failure;

/* host:port, or [v6]:port. 0, TEND_EINVAL (no such form), TEND_ENOTFOUND (no such host),
 * TEND_ENOMEM. */
int metrics_open(struct statsd **ret, const char *host_port, struct err *err);
void metrics_close(struct statsd *statsd); /* NULL is fine */

void metrics_attempt_failed(tend_runner *runner, const struct attempt *attempt,
                            const struct failure *failure);
/* before: the failure of the attempt before, where there was one. */
void metrics_attempt_succeeded(tend_runner *runner, const struct attempt *attempt,
                               const struct failure *before);

#endif
