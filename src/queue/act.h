/* What operators do to jobs, from inside a transaction. */
#ifndef QUEUE_ACT_H
#define QUEUE_ACT_H

#include "queue/move.h"

struct acted_box;
struct err;
struct plan;

/* 0, or TEND_EINVAL for what is no action or no name. */
int act_check_call(tend *t, enum tend_action action, const char *by);
/* The same with a filter, and a box for what is done to those that match it. */
int act_begin(tend *t, enum tend_action action, const struct tend_filter *filter, const char *by,
              struct acted_box **ret);

/* The states an action is meant for, among those that were asked for (0: none was named). Whoever
 * has cancelled jobs wants them back only when they are named. */
unsigned act_states(enum tend_action action, unsigned asked);
/* "retried" */
const char *act_done_name(enum tend_action action);

/* A job whose state allows the action; TEND_ENOTFOUND or TEND_ESTATE with the sentence. */
int act_read_job(struct db_tx *tx, enum tend_action action, int64_t id, struct tend_jobs *ret,
                 int64_t *ret_now_ms);

/* Makes the plan for all that match, and refuses those it leaves out. filter->states as of
 * act_states. */
int act_plan_matching(tend *t, struct plan *plan, const struct tend_filter *filter,
                      struct acted_box *box);

/* Who acts. */
struct act_who {
    const char *by, *why;
    const char *hook; /* the hook whose job asks for it, or NULL */
};

/* The move that carries out an action on a job as it stands. */
struct move act_move(struct db_tx *tx, enum tend_action action, const struct tend_job *job,
                     int64_t now_ms, const struct act_who *who);

/* What an action has done in one transaction. */
struct act_done {
    int64_t moved;      /* jobs that were still as they had been read */
    int64_t *followers; /* jobs that submissions under their keys have become; in the arena */
    size_t follower_count;
};

/* Carries it out on jobs whose state allows it, with what follows from it. */
int act_on_jobs(struct db_tx *tx, enum tend_action action, const struct tend_jobs *jobs,
                int64_t now_ms, const struct act_who *who, struct act_done *ret);

/* TEND_ECONFLICT with the sentence that job id cannot be `done`, as job rival has its key; outdone:
 * because that one was submitted later. */
void act_say_key(struct err *err, int64_t id, const char *done, int64_t rival, bool outdone);

/* TEND_ECONFLICT, with the sentence that job id cannot be `done`, as another live job has its key.
 */
int act_fail_key(tend *t, int64_t id, const char *done);

#endif
