/* See keep.h. */
#include "core/keep.h"

#include "core/state.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {[KEEP_NOT] = "",
                                    [KEEP_FAILED] = "failed",
                                    [KEEP_TAKEN_OVER] = "taken over",
                                    [KEEP_RESET] = "reset"};

const char *keep_why_name(enum keep_why why)
{
    return names[why];
}

enum keep_why keep_why_parse(const char *name)
{
    for (size_t i = KEEP_FAILED; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum keep_why)i;
    return KEEP_NOT;
}

static bool is_held_by(const struct keep_job *job, int64_t token)
{
    return job->state == JOB_HELD && job->stopped_token == token;
}

int64_t keep_until(const struct keep_job *job, const struct keep_lease *lease)
{
    if (job->keep_ms < 0 || (lease->why == KEEP_TAKEN_OVER && is_held_by(job, lease->token)))
        return INT64_MAX;
    bool failed = lease->why == KEEP_FAILED && lease->failed_at_ms > 0;
    int64_t from_ms = failed ? lease->failed_at_ms : job->changed_at_ms;
    return from_ms > INT64_MAX - job->keep_ms ? INT64_MAX : from_ms + job->keep_ms;
}

bool keep_is_lost(const struct keep_job *job, const struct keep_lease *lease)
{
    return lease->why == KEEP_NOT && lease->last_workspace && job->poisoned &&
           job->state == JOB_FAILED;
}

enum keep_fate keep_fate_swept(const struct keep_job *job, const struct keep_lease *lease,
                               int64_t now_ms)
{
    if ((lease->why == KEEP_NOT && !keep_is_lost(job, lease)) ||
        (lease->why == KEEP_RESET && job->state == JOB_DONE))
        return FATE_GARBAGE;
    return now_ms < keep_until(job, lease) ? FATE_KEPT : FATE_GARBAGE;
}

/* Another machine, or this one before its name was changed, can no longer be waited for: its worker
 * is not registered, and nothing has happened to the job for long. */
static bool is_given_up(const struct keep_job *job, const struct keep_lease *lease, int64_t now_ms)
{
    int64_t wait_ms = job->keep_ms > KEEP_ELSEWHERE_MS ? job->keep_ms : KEEP_ELSEWHERE_MS;
    return !lease->attended && job->keep_ms >= 0 && now_ms - wait_ms >= job->changed_at_ms;
}

enum keep_fate keep_fate(const struct keep_job *job, const struct keep_lease *lease, int64_t now_ms)
{
    if (lease->locked)
        return FATE_IN_USE;
    if (!job->known)
        return job->given ? FATE_GARBAGE : FATE_ELSEWHERE;
    if (job->state == JOB_RUNNING && job->token == lease->token)
        return FATE_IN_USE;
    /* A token that this store has not given out yet. */
    if (lease->token > job->token ||
        (lease->may_live_elsewhere && !is_given_up(job, lease, now_ms)))
        return FATE_ELSEWHERE;
    if (lease->may_live_here)
        return lease->attended ? FATE_IN_USE : FATE_ORPHANED;
    return keep_fate_swept(job, lease, now_ms);
}
