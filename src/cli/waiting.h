/*
 * Waiting for jobs to end: for `tend wait` and `tend add --wait`.
 *
 * A job has ended when it is done, failed or cancelled; one that is tried again later, or held, has
 * not. A job that was deleted meanwhile has ended as its events say.
 */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tend.h>

struct buf;
struct cli;

struct waiting_wish {
    const int64_t *ids;
    size_t count;
    int64_t timeout_ms; /* TEND_UNSET: for ever */
    bool result;        /* print the results, a line each in the order of the ids */
    /* For one job that was running when something was submitted under its key: the wait goes on for
     * the job that the submission becomes. The event of the submission has this number or a larger
     * one. 0: nothing was submitted. */
    int64_t submitted_from;
    int64_t *ret_id; /* the job that is waited for last; may be NULL */
};

/*
 * The exit status: 0, all are done; 1, one has failed or was cancelled; 3, there is no such job; 5,
 * the time is over; or that of the signal that came. Standard error tells of failures after which a
 * job is tried again and, after a second, that nobody can run it; on a terminal it shows what is
 * waited for.
 */
int wait_for_jobs(struct cli *cli, const struct waiting_wish *wish);

bool job_has_ended(int state);

/* Whether its error is that of an earlier life: it was started over, and has not failed since. */
bool job_failed_before_retry(const struct tend_job *job);

/* Members of an object that the caller has opened: how a job has ended, and why if it was
 * cancelled.
 */
void json_ending_members(struct buf *out, const struct tend_job *job);

/* Whether 'tend logs' has something of it; not when the store does not answer. */
bool job_has_output(tend *store, int64_t id);

/* Says on standard error that a job has failed or was cancelled, and why. */
void note_bad_end(struct cli *cli, const struct tend_job *job, bool has_output);

#endif
