/*
 * A flow file of one stage, read into what is added as a job.
 *
 *     flow: release                       # its name; may be missing
 *     params: {version: null, host: localhost}
 *     env: {CI: 1}
 *     stages:
 *       - id: build
 *         queue: builds                   # else it is run by `tend run` itself
 *         priority: 3
 *         retry: {attempts: 3, backoff: 2s, max: 60s}
 *         workspace: {repo: ., ref: main}
 *         steps: [{id: compile, run: make -j2, timeout: 15m}]
 *
 * What a stage says beyond id, queue, priority and retry is the plan of the job (core/spec.h).
 * Parameters reach the steps as variables TEND_PARAM_NAME: NAME in capital letters, with _ for -.
 * Only what `params` lists can be given; one whose value there is null must be given. A repo that
 * is a path is taken from the current folder.
 *
 * Not flows of several stages. Every mistake is told with its line and column, and the line itself.
 */
#ifndef CLI_FLOW_FILE_H
#define CLI_FLOW_FILE_H

#include "cli/command.h"

#include <stddef.h>
#include <stdint.h>

struct err;

struct flow_job {
    char *payload;
    size_t payload_bytes;
    const char *kind;
    char *queue; /* NULL: none is named */
    int priority;
    int64_t max_attempts, backoff_ms, backoff_max_ms; /* or TEND_UNSET */
};

/*
 * text (bytes long, with a NUL behind) came from the file `name`; params are "NAME=VALUE". 0;
 * TEND_EINVAL with the sentence; TEND_ENOMEM. flow_job_done also after a failure.
 */
int flow_file_read(const char *name, const char *text, size_t bytes, const struct text_list *params,
                   struct flow_job *ret, struct err *err);
void flow_job_done(struct flow_job *job);

#endif
