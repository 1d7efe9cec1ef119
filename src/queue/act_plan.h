/*
 * What an action is going to do to the jobs it is asked for, found out before it changes any.
 *
 * One unfinished job can have a unique key. A job that is started over takes its key again, so a
 * redrive must leave out
 *
 *     jobs whose key an unfinished job has       that one is the work, and it is under way;
 *     of several with one key, all but the newest  the newest submission is the one whose payload
 *                                                counts, as when a job is added under a key that is
 *                                                taken (submission.sql).
 *
 * Jobs are changed in order of id, in pages, and the newest of a key may be pages after the first:
 * hence the plan. What is asked with --dry-run is the plan without the rest, so both have the same
 * figures.
 */
#ifndef QUEUE_ACT_PLAN_H
#define QUEUE_ACT_PLAN_H

#include "queue/handle.h"

/* A job with a unique key that a redrive was asked for. */
struct plan_key {
    int64_t id;
    const char *queue, *key;
    int64_t rival; /* the job that keeps it from being started over; 0: it is started over */
    bool outdone;  /* the rival is a newer one that is itself started over */
};

struct plan {
    enum tend_action action;
    struct arena arena;    /* of the texts */
    int64_t count;         /* jobs whose state allows the action, without those left out */
    int64_t followed;      /* ... of which so many have a submission that waits for their end */
    int64_t last_id;       /* the newest of them, or 0 */
    struct plan_key *keys; /* by id; of a redrive alone */
    size_t key_count, key_room;
};

void plan_init(struct plan *plan, enum tend_action action);
void plan_done(struct plan *plan);

/* Adds all that match; filter->states must have states that allow the action. */
int plan_add_matching(tend *t, struct plan *plan, const struct tend_filter *filter);
/* Adds a job whose state allows the action, from inside a transaction. */
int plan_add_job(struct db_tx *tx, struct plan *plan, const struct tend_job *job);

/* Decides who is left out, after all were added. */
void plan_settle(struct plan *plan);

/* Why the job is left out; NULL: it is not. */
const struct plan_key *plan_left_out(const struct plan *plan, int64_t id);

#endif
