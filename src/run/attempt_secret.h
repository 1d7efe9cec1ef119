/*
 * Secrets that a plan names (struct secret_name in core/spec.h), looked up for one attempt.
 *
 * The values live as long as the attempt: in its environment or its HTTP request, and in the job's
 * redactor. They are written nowhere.
 */
#ifndef RUN_ATTEMPT_SECRET_H
#define RUN_ATTEMPT_SECRET_H

#include "run/job.h"

/*
 * Fills attempt->env and attempt->http and makes the redactor of the job know the values. A value
 * that is missing sets attempt->no_secret, and run->last_error says which. False: this worker lacks
 * memory or descriptors; run->last_error and lack_code say so.
 */
bool attempt_find_secrets(struct attempt *attempt);

/* The attempt ends because of attempt->no_secret. */
void attempt_fail_secret(struct attempt *attempt);

#endif
