/* What tests of the runner share. They run in the test's folder, where their commands leave files.
 */
#ifndef TEND_RUNNER_CASE_H
#define TEND_RUNNER_CASE_H

#include "support/store.h"

#include <pthread.h>
#include <stdlib.h>

/* A job of queue "q". */
int64_t add_plan(tend *t, const char *payload);

struct tend_runner_options runner_options(void);
void run_with(tend *t, const struct tend_runner_options *options);
void run_until_drained(tend *t);

/* A runner in a thread of its own, which does not drain. options may be NULL. */
struct running_runner {
    tend_runner *runner;
    pthread_t thread;
};
struct running_runner runner_start(tend *t, const struct tend_runner_options *options);
void runner_join(struct running_runner *running);

/* For helper_start: a process with a runner that works until it is killed; arg is its name. It
 * speaks once, when it begins. */
void runner_forever(struct helper *parent, void *arg);

/* NULL: there is none. */
const char *file_text(const char *name);
/* The number at its start; the file must be there. */
int64_t file_number(const char *name);

/* "1:failed:transient_runtime:exit.75 2:succeeded::": number in the step, state, class, rule. */
const char *attempts_of(tend *t, int64_t id);
/* What was said of how the attempts of a job ended, a line each. */
const char *summaries_of(tend *t, int64_t id);
/* All that the attempts of a job wrote to a stream. */
const char *output_of(tend *t, int64_t id, int stream);

#endif
