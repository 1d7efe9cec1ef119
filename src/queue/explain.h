/* What the files explain*.c share: a question, and how its answer is written. */
#ifndef QUEUE_EXPLAIN_H
#define QUEUE_EXPLAIN_H

#include "base/timetext.h"
#include "queue/holder.h"

#include <stdio.h>

struct explain_call {
    int64_t id;
    struct tend_explanation out;
    const struct tend_job *job; /* as long as the transaction lasts */
    int64_t now_ms;
    struct db_owed owed; /* ends of leases are told as they will be when it was given back */
    int64_t until_ms;    /* of a running job: the end of its lease */
    bool warned;         /* ... and that it ended once already (recover.c) */
    int64_t worker_id;   /* of a running job, or TEND_UNSET */
    char queue[NAME_BYTES];
    char kind[NAME_BYTES];
    bool is_plan;                 /* its payload: any worker of the queue can run it */
    bool leased_before;           /* of a job that waits: somebody had it */
    bool has_step;                /* of a running job: its owner has begun one, as workers do */
    size_t told_bytes;            /* of the text: what it does, with its step */
    char locked_by[HOLDER_BYTES]; /* of a running job: who keeps its row from being taken back; or
                                     "" */
};

#define SAY(call, ...) snprintf((call)->out.text, sizeof(call)->out.text, __VA_ARGS__)
#define HINT(call, ...) snprintf((call)->out.hint, sizeof(call)->out.hint, __VA_ARGS__)

/* The word for machines, who holds what is waited for, until when (or TEND_UNSET). */
void explain_because(struct explain_call *call, const char *reason, const char *by,
                     int64_t until_ms);

/* How long until then; "0s" when it has passed. */
const char *explain_left(const struct explain_call *call, int64_t at_ms,
                         char out[DURATION_TEXT_BYTES]);

/* A sentence more, as far as there is room. */
void explain_add(struct explain_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What can be done about a job whose owner is gone. */
void explain_take_back(struct explain_call *call);

/* --- explain_queue.c: inside the transaction --- */

/* A pending job: what of its queue keeps it waiting, if anything. */
int explain_pending(struct db_tx *tx, struct explain_call *call);

/* --- explain_step.c: inside the transaction --- */

/* How the reason of a release begins with which a worker gives a job back that it has no command
 * for. */
#define NO_HANDLER_WHY "it has no handler for "

/* ... that names a folder which is not there, and what can be done about it. */
#define NO_FOLDER_WHY "its folder "
#define NO_FOLDER_HINT                                                                             \
    "Make the folder, start a worker where it is, or cancel the job and add it again with "        \
    "--workspace FOLDER or --no-folder"

/* A running job: its step, and what that has said last; or until when it waits, and why. */
int explain_step(struct db_tx *tx, struct explain_call *call);

/* How a job can be run whose payload is no plan. */
void explain_hint_at_handler(struct explain_call *call);

/* A job that waits: worker `who` cannot run it, and has said why. */
void explain_unhandled(struct explain_call *call, const char *who, const char *why);

/* Not in a transaction. 1: a job of this kind waits in the queue that a worker could not run, with
 * that worker's name; 0: none does. */
int explain_unhandled_kind(tend *t, const char *queue, const char *kind, char ret_who[NAME_BYTES]);

/* --- explain_worker.c: after it, as asking who is alive has to be --- */

/* A running job: whether its worker lives; one that nothing keeps waiting: whether any worker does.
 */
int explain_workers(tend *t, struct explain_call *call);

#endif
