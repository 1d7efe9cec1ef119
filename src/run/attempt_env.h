#ifndef RUN_ATTEMPT_ENV_H
#define RUN_ATTEMPT_ENV_H

#include "run/job.h"

/* NULL at the end; in the arena. NULL: no memory. */
const char *const *attempt_environment(const struct attempt *attempt, struct arena *arena);

#endif
