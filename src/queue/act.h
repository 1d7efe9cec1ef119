/* What operators do to jobs, from inside a transaction. */
#ifndef QUEUE_ACT_H
#define QUEUE_ACT_H

#include "queue/move.h"

/* The move that carries out an action on a job as it stands. */
struct move act_move(struct db_tx *tx, enum tend_action action, const struct tend_job *job,
                     int64_t now_ms, const char *by, const char *why);

/* What an action has done in one transaction. */
struct act_done {
    int64_t moved;      /* jobs that were still as they had been read */
    int64_t *followers; /* jobs that submissions under their keys have become; in the arena */
    size_t follower_count;
};

/* Carries it out on jobs whose state allows it, with what follows from it. */
int act_on_jobs(struct db_tx *tx, enum tend_action action, const struct tend_jobs *jobs,
                int64_t now_ms, const char *by, const char *why, struct act_done *ret);

/* TEND_ECONFLICT, with the sentence that job id cannot be `done`, as another live job has its key.
 */
int act_fail_key(tend *t, int64_t id, const char *done);

#endif
