#include "run/sweep.h"

#include <stdio.h>
#include <string.h>

enum { SWEEP_MOST = 1000, SWEEP_MS = 10000 };

static int sweep_one(tend_runner *runner, const struct tend_attempt *attempt)
{
    struct err err;
    size_t killed = 0;
    struct tree_record record = {.marker = attempt->marker};
    if (attempt->pid != TEND_UNSET && proc_self(&record.id) == 0) { /* of this boot and namespace */
        record.id.pid = attempt->pid;
        record.id.start_ticks = attempt->start_ticks;
    }
    int rc = tree_sweep(&record, 1, SWEEP_MS, &killed, &err);
    if (rc < 0)
        runner_tell(runner, TEND_NEWS_NOTE, attempt->job_id, -1,
                    "what an attempt of job %lld left running could not be ended: %s",
                    (long long)attempt->job_id, err.text);
    else if (killed > 0)
        runner_tell(runner, TEND_NEWS_NOTE, attempt->job_id, -1,
                    "ended %zu processes that a dead worker left of job %lld", killed,
                    (long long)attempt->job_id);
    return rc;
}

void sweep_left_behind(tend_runner *runner)
{
    struct tend_attempts *left;
    if (tend_attempts_left_behind(runner->t, SWEEP_MOST, &left) < 0)
        return;
    for (size_t i = 0; i < left->count; i++)
        if (sweep_one(runner, &left->items[i]) == 0)
            tend_attempt_swept(runner->t, left->items[i].job_id, left->items[i].number);
    tend_attempts_free(left);
}
