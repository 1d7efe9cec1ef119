/* Orphans: what dead workers of this machine have left running (RC-14). */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

struct err;

/* Who is told what was found; may be called from any thread. */
struct sweep_ear {
    void (*tell)(void *arg, int64_t job_id, const char *text); /* NULL: nobody */
    void *arg;
};

/*
 * Ends the process trees of attempts of this machine whose lease is no longer held: of one job,
 * before its folders are removed, or of all (job_id 0), when a runner starts. A tree whose minder
 * lives is left to it: another store knows of the same attempt (a copy of this one, or what it is a
 * copy of), or its worker has not heard yet that the lease is lost. False: something is still
 * there.
 */
bool sweep_left_behind(tend *t, const struct sweep_ear *ear, int64_t job_id);

/*
 * The marker of a command under a lease (leased.h). No row tells of it: whoever has the job next
 * knows which tokens were before its own, for they count up. Tokens of different stores lie far
 * apart (queue/generation.c).
 */
enum { LEASE_MARKER_BYTES = 64 };
void lease_marker(struct tend_lease lease, char out[LEASE_MARKER_BYTES]);

/* False: nobody has had the job before, as it was only added and claimed; its version counts the
 * changes of its row. */
bool sweep_may_have_run(const struct tend_job *job);

/*
 * Before a job runs, under the lease that job->token names: ends what is left of its attempts and
 * of commands under earlier leases of it. A later owner's are spared, should this lease be lost.
 * What has a living minder is waited for, for a third of the lease and ten seconds at most. False:
 * something is still there.
 */
bool sweep_before_run(tend *t, const struct sweep_ear *ear, const struct tend_job *job);

/* The same. Where this process lacks what it needs to look (descriptors, memory, /proc), *ret_lack
 * says so and the ear is not told; else it is left as it was. */
bool sweep_job(tend *t, const struct sweep_ear *ear, const struct tend_job *job,
               struct err *ret_lack);

#endif
