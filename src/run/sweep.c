#include "run/sweep.h"

#include "base/err.h"
#include "run/cgroup.h"
#include "run/tree.h"

#include <stdio.h>
#include <string.h>

enum { PAGE = 250, SWEEP_MS = 10000 };

static bool sweep_one(tend *t, const struct sweep_ear *ear, const struct tend_attempt *attempt)
{
    struct err err;
    size_t ended = 0;
    long long job_id = (long long)attempt->job_id;
    char text[sizeof err.text + 100] = "";
    struct tree_record record = {.marker = attempt->marker};
    if (attempt->pid != TEND_UNSET && proc_self(&record.id) == 0) { /* of this boot and namespace */
        record.id.pid = attempt->pid;
        record.id.start_ticks = attempt->start_ticks;
    }
    int rc = tree_sweep(&record, 1, SWEEP_MS, &ended, &err);
    if (rc < 0)
        snprintf(text, sizeof text,
                 "what an attempt of job %lld left running could not be ended: %s", job_id,
                 err.text);
    else if (ended > 0)
        snprintf(text, sizeof text, "ended %zu process%s that a dead worker left of job %lld",
                 ended, ended == 1 ? "" : "es", job_id);
    if (text[0] != '\0' && ear->tell != NULL)
        ear->tell(ear->arg, attempt->job_id, text);
    if (rc == 0)
        tend_attempt_swept(t, attempt->job_id, attempt->number);
    return rc == 0;
}

/* Where steps have control groups of their own: nothing can leave those. */
static bool sweep_groups(void)
{
    char parent[CGROUP_SELF_BYTES];
    cgroup_find_own(parent, sizeof parent);
    return cgroup_clear_dead(parent, SWEEP_MS);
}

bool sweep_left_behind(tend *t, const struct sweep_ear *ear, int64_t job_id)
{
    struct tend_attempts *page = NULL;
    bool clean = true;
    size_t count = PAGE;
    while (count == PAGE) {
        struct tend_attempts *next;
        const struct tend_attempt *last = page == NULL ? NULL : &page->items[page->count - 1];
        int rc = tend_attempts_left_behind(t, job_id, last, PAGE, &next);
        tend_attempts_free(page);
        if (rc < 0)
            return false;
        page = next;
        count = page->count;
        if (count > 0)
            clean &= sweep_groups();
        for (size_t i = 0; i < count; i++)
            clean &= sweep_one(t, ear, &page->items[i]);
    }
    tend_attempts_free(page);
    return clean;
}
