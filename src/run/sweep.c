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

bool sweep_left_behind(tend_runner *runner, int64_t job_id)
{
    struct tend_attempts *left;
    char host[128] = "";
    bool clean = true;
    if (tend_attempts_left_behind(runner->t, SWEEP_MOST, &left) < 0)
        return false;
    proc_host(host, sizeof host);
    for (size_t i = 0; i < left->count; i++) {
        const struct tend_attempt *attempt = &left->items[i];
        if (job_id != 0 && attempt->job_id != job_id)
            continue;
        if (strcmp(attempt->host, host) != 0)
            continue; /* a container of this machine, whose processes are not to be seen from here
                       */
        if (sweep_one(runner, attempt) == 0)
            tend_attempt_swept(runner->t, attempt->job_id, attempt->number);
        else
            clean = false;
    }
    tend_attempts_free(left);
    return clean;
}
