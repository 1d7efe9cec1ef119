/* What operators do to jobs, from inside a transaction. */
#ifndef QUEUE_ACT_H
#define QUEUE_ACT_H

#include "queue/move.h"

/* The move that carries out an action on a job as it stands. */
struct move act_move(struct db_tx *tx, enum tend_action action, const struct tend_job *job,
                     int64_t now_ms, const char *by, const char *why);

/* Carries it out on jobs whose state allows it, with what follows from it. *ret_moved: on how many
 * that are still as they were read. */
int act_on_jobs(struct db_tx *tx, enum tend_action action, const struct tend_jobs *jobs,
                int64_t now_ms, const char *by, const char *why, int64_t *ret_moved);

#endif
