#include "run/sweep.h"

#include "base/err.h"
#include "run/cgroup.h"
#include "run/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 250,
    SWEEP_MS = 10000,
    LEASES_MOST = 1000, /* so many leases back: every run on this machine looks */
};

/* How it went, to those who listen. True: nothing is left. */
static bool tell(const struct sweep_ear *ear, int64_t job_id, int rc, size_t ended,
                 const struct err *err)
{
    char text[sizeof err->text + 100] = "";
    if (rc < 0)
        snprintf(text, sizeof text,
                 "what an earlier run of job %lld left running could not be ended: %s",
                 (long long)job_id, err->text);
    else if (ended > 0)
        snprintf(text, sizeof text, "ended %zu process%s that a dead worker left of job %lld",
                 ended, ended == 1 ? "" : "es", (long long)job_id);
    if (text[0] != '\0' && ear->tell != NULL)
        ear->tell(ear->arg, job_id, text);
    return rc == 0;
}

static bool sweep_one(tend *t, const struct sweep_ear *ear, const struct tend_attempt *attempt)
{
    struct err err;
    size_t ended = 0;
    struct tree_record record = {.marker = attempt->marker};
    if (attempt->pid != TEND_UNSET && proc_self(&record.id) == 0) { /* of this boot and namespace */
        record.id.pid = attempt->pid;
        record.id.start_ticks = attempt->start_ticks;
    }
    int rc = tree_sweep(&record, 1, SWEEP_MS, &ended, &err);
    if (rc == 0)
        tend_attempt_swept(t, attempt->job_id, attempt->number);
    return tell(ear, attempt->job_id, rc, ended, &err);
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

/* --- commands under a lease --- */

void lease_marker(struct tend_lease lease, char out[LEASE_MARKER_BYTES])
{
    snprintf(out, LEASE_MARKER_BYTES, "lease-%lld-%lld", (long long)lease.id,
             (long long)lease.token);
}

static bool sweep_leases(const struct sweep_ear *ear, const struct tend_job *job)
{
    size_t count = job->version < LEASES_MOST ? (size_t)job->version : LEASES_MOST;
    struct tree_record *records = calloc(count, sizeof *records);
    char(*markers)[LEASE_MARKER_BYTES] = calloc(count, sizeof *markers);
    struct err err;
    size_t ended = 0;
    int rc = records == NULL || markers == NULL ? err_set(&err, TEND_ENOMEM, "out of memory") : 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        lease_marker((struct tend_lease){.id = job->id, .token = job->token - 1 - (int64_t)i},
                     markers[i]);
        records[i].marker = markers[i];
    }
    if (rc == 0)
        rc = tree_sweep(records, count, SWEEP_MS, &ended, &err);
    free(records);
    free(markers);
    return tell(ear, job->id, rc, ended, &err);
}

bool sweep_may_have_run(const struct tend_job *job)
{
    enum { ADDED_AND_CLAIMED = 2 };
    return job->version > ADDED_AND_CLAIMED;
}

/* Whether a lease of the job ended without its owner: else nothing that ran under it can be left.
 * All processes are looked through only then. */
static bool has_lost_a_lease(tend *t, int64_t job_id)
{
    static const char *const ends[] = {"job.recovered", "job.quarantined", "job.cancelled",
                                       "job.held"};
    struct tend_events *events;
    bool lost = false;
    if (tend_job_events(t, job_id, &events) < 0)
        return true;
    for (size_t i = 0; !lost && i < events->count; i++)
        for (size_t j = 0; j < sizeof ends / sizeof *ends; j++)
            lost = lost || strcmp(events->items[i].what, ends[j]) == 0;
    tend_events_free(events);
    return lost;
}

bool sweep_before_run(tend *t, const struct sweep_ear *ear, const struct tend_job *job)
{
    if (!sweep_may_have_run(job))
        return true;
    bool clean = sweep_left_behind(t, ear, job->id);
    return (!has_lost_a_lease(t, job->id) || sweep_leases(ear, job)) && clean;
}
