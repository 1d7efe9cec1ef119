#include "run/sweep.h"

#include "base/clock.h"
#include "base/err.h"
#include "run/cgroup.h"
#include "run/tree.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 250,
    SWEEP_MS = 10000,
    MINDED_LOOK_MS = 100,
    LEASES_MOST = 1000, /* so many leases back: every run on this machine looks */
};

/* One sweep. */
struct broom {
    tend *t;
    const struct sweep_ear *ear;
    int64_t until_ms; /* monotonic: so long living workers are waited for; 0: not at all */
    struct err *lack; /* is set when something is lacking here to look; NULL: the ear is told */
};

/* How it went, to those who listen. What is left to a living worker is told only by who has waited
 * for it. True: nothing is left. */
static bool tell(const struct broom *broom, int64_t job_id, int rc, size_t ended,
                 const struct err *err)
{
    const struct sweep_ear *ear = broom->ear;
    char text[sizeof err->text + 100] = "";
    bool left = rc == TEND_ESTATE || rc == TEND_EBUSY;
    if (rc < 0 && !left && broom->lack != NULL)
        *broom->lack = *err;
    else if (rc == TEND_ESTATE && broom->until_ms > 0)
        snprintf(text, sizeof text,
                 "an earlier run of job %lld has not ended yet: its worker lives, and ends it",
                 (long long)job_id);
    else if (rc < 0 && rc != TEND_ESTATE)
        snprintf(text, sizeof text,
                 "what an earlier run of job %lld left running could not be ended: %s",
                 (long long)job_id, err->text);
    else if (ended > 0)
        snprintf(text, sizeof text, "ended %zu process%s that an earlier run left of job %lld",
                 ended, ended == 1 ? "" : "es", (long long)job_id);
    if (text[0] != '\0' && ear->tell != NULL)
        ear->tell(ear->arg, job_id, text);
    return rc == 0;
}

/* As tree_sweep; what has a living minder has until_ms to end. */
static int sweep_until(const struct tree_record *records, size_t count, int64_t until_ms,
                       size_t *ret_ended, struct err *err)
{
    size_t ended;
    int rc;
    *ret_ended = 0;
    while ((rc = tree_sweep(records, count, SWEEP_MS, &ended, err)) == TEND_ESTATE &&
           clock_mono_ms() < until_ms) {
        *ret_ended += ended;
        poll(NULL, 0, MINDED_LOOK_MS);
    }
    *ret_ended += ended;
    return rc;
}

static bool sweep_one(const struct broom *broom, const struct tend_attempt *attempt)
{
    struct err err;
    size_t ended = 0;
    struct tree_record record = {.marker = attempt->marker, .minded = true};
    if (attempt->pid != TEND_UNSET && proc_self(&record.id) == 0) { /* of this boot and namespace */
        record.id.pid = attempt->pid;
        record.id.start_ticks = attempt->start_ticks;
    }
    int rc = sweep_until(&record, 1, broom->until_ms, &ended, &err);
    if (rc == 0)
        tend_attempt_swept(broom->t, attempt->job_id, attempt->number);
    return tell(broom, attempt->job_id, rc, ended, &err);
}

/* Where steps have control groups of their own: nothing can leave those. */
static bool sweep_groups(void)
{
    char parent[CGROUP_SELF_BYTES];
    cgroup_find_own(parent, sizeof parent);
    return cgroup_clear_dead(parent, SWEEP_MS);
}

static bool sweep_attempts(const struct broom *broom, int64_t job_id)
{
    struct tend_attempts *page = NULL;
    bool clean = true;
    size_t count = PAGE;
    while (count == PAGE) {
        struct tend_attempts *next;
        const struct tend_attempt *last = page == NULL ? NULL : &page->items[page->count - 1];
        int rc = tend_attempts_left_behind(broom->t, job_id, last, PAGE, &next);
        tend_attempts_free(page);
        if (rc < 0)
            return false;
        page = next;
        count = page->count;
        if (count > 0)
            clean &= sweep_groups();
        for (size_t i = 0; i < count; i++)
            clean &= sweep_one(broom, &page->items[i]);
    }
    tend_attempts_free(page);
    return clean;
}

bool sweep_left_behind(tend *t, const struct sweep_ear *ear, int64_t job_id)
{
    const struct broom broom = {.t = t, .ear = ear};
    return sweep_attempts(&broom, job_id);
}

/* --- commands under a lease --- */

void lease_marker(struct tend_lease lease, char out[LEASE_MARKER_BYTES])
{
    snprintf(out, LEASE_MARKER_BYTES, "lease-%lld-%lld", (long long)lease.id,
             (long long)lease.token);
}

static bool sweep_leases(const struct broom *broom, const struct tend_job *job)
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
        records[i].minded = true;
    }
    if (rc == 0)
        rc = sweep_until(records, count, broom->until_ms, &ended, &err);
    free(records);
    free(markers);
    return tell(broom, job->id, rc, ended, &err);
}

bool sweep_may_have_run(const struct tend_job *job)
{
    enum { ADDED_AND_CLAIMED = 2 };
    return job->version > ADDED_AND_CLAIMED;
}

/*
 * Whether a command under an earlier lease of the job may have left something: all processes are
 * looked through only then. A lease that a runner had tells of its attempts. Any other may have
 * been ended by hand after its command's keeper was killed.
 */
static bool may_have_left(tend *t, int64_t job_id)
{
    static const char *const lost[] = {"job.recovered", "job.quarantined", "job.cancelled",
                                       "job.held"};
    struct tend_events *events;
    bool left = false;
    bool untold = false; /* the last lease has no attempts */
    if (tend_job_events(t, job_id, &events) < 0)
        return true;
    for (size_t i = 0; !left && i < events->count; i++) {
        const char *what = events->items[i].what;
        bool claimed = strcmp(what, "job.claimed") == 0;
        left = claimed && untold;
        untold = claimed || (untold && strcmp(what, "task.step.attempt.started") != 0);
        for (size_t j = 0; j < sizeof lost / sizeof *lost; j++)
            left = left || strcmp(what, lost[j]) == 0;
    }
    tend_events_free(events);
    return left;
}

/* Until when the end of an earlier run is waited for: the lease of this one is to outlast it. */
static int64_t patience_until(const struct tend_job *job)
{
    int64_t lease_ms = job->until_ms == TEND_UNSET ? 0 : job->until_ms - job->seen_at_ms;
    int64_t patience_ms = lease_ms / 3;
    return clock_mono_ms() + (patience_ms < SWEEP_MS ? patience_ms : SWEEP_MS);
}

bool sweep_job(tend *t, const struct sweep_ear *ear, const struct tend_job *job,
               struct err *ret_lack)
{
    if (!sweep_may_have_run(job))
        return true;
    const struct broom broom = {
        .t = t, .ear = ear, .until_ms = patience_until(job), .lack = ret_lack};
    bool clean = sweep_attempts(&broom, job->id);
    return (!may_have_left(t, job->id) || sweep_leases(&broom, job)) && clean;
}

bool sweep_before_run(tend *t, const struct sweep_ear *ear, const struct tend_job *job)
{
    return sweep_job(t, ear, job, NULL);
}
