/* A job as the rules about retries and crashes see it: {policy} of job_policy and its kin. */
#ifndef QUEUE_POLICY_ROW_H
#define QUEUE_POLICY_ROW_H

#include "core/policy.h"
#include "queue/handle.h"
#include "store/queries.h"

struct policy_row {
    int64_t id;
    enum job_state state;
    int64_t token;
    int64_t attempts, crashes;
    bool started;
    const char *owner, *queue;
    struct retry_policy policy; /* the job's, else its queue's, else the default */
};

void policy_row_read(struct policy_row *row, const struct policy_columns *from);

#endif
