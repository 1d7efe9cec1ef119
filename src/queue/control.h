/* Controls: what operators ask of a job, as the files control*.c and attempt.c share it. */
#ifndef QUEUE_CONTROL_H
#define QUEUE_CONTROL_H

#include "queue/attempt.h"

enum control_action {
    CONTROL_PAUSE,
    CONTROL_RESUME,
    CONTROL_TAKEOVER,
    CONTROL_RETRY_STEP,
    CONTROL_HARD_RESET_STEP,
    CONTROL_RESUME_FROM_STEP,
    CONTROL_CANCEL,
    CONTROL_ACTIONS
};
extern const char *const control_names[CONTROL_ACTIONS];

/* One request on its way through the transaction. */
struct control_call {
    int64_t job_id;
    enum control_action action;
    const char *step_id, *reason, *by;
    const char *hook;   /* the hook whose job asks for it, or NULL */
    int64_t step_index; /* of step_id, found by control_find_step; or TEND_UNSET */
    int64_t first_open; /* the first step without a checkpoint */
    const struct tend_changes
        *edits;      /* of a resume: what the operator has changed; NULL: nothing */
    int64_t version; /* of the job they belong to */
    int64_t staged;  /* under which they were sent beforehand; 0: they were not */
    struct tend_control_result given; /* what is answered */
};

/* --- control_step.c: inside the transaction --- */

/*
 * Finds the index of the step that was named, and which steps have succeeded. 0; TEND_ENOTFOUND
 * with the steps there are; TEND_ESTATE when what is asked does not fit how far the job has come.
 */
int control_find_step(struct db_tx *tx, struct control_call *call, const struct tend_job *job);
/* Only how far it has come: call->first_open. */
int control_find_first_open(struct db_tx *tx, struct control_call *call);

/* --- control_take.c --- */

/* tend_controls_take for one that waits for the store no longer than wait_ms (db_write_within). */
int control_take(tend *t, int64_t wait_ms, const struct tend_lease *leases, size_t count,
                 struct tend_controls **ret);

void control_read(struct tend_control *control, const struct control_columns *row);

/* The job's owner answers a control: done, with an event. 1, or 0 when it was answered before. */
int control_answer(struct db_tx *tx, struct step_job *job, int64_t control_id, const char *outcome);

/* What the events say; outcome may be NULL and is left out then. */
const char *control_json(struct db_tx *tx, const struct tend_control *control, const char *outcome);

/* --- control_end.c: inside the transaction, all DB_LATER --- */

#define CONTROL_HELD "the job was held"
#define CONTROL_ENDED "the job ended before it" /* as in sql/control.sql */

enum control_which {
    CONTROL_ALL,
    CONTROL_PAUSES, /* pause and takeover, and the resume that takes them back */
};

/* What is open for a job is done with, without being carried out. Its row is locked. */
int control_close(struct db_tx *tx, int64_t job_id, enum control_which which, const char *outcome);

/* The same for what was done to jobs (moved: which of them), as they were before. */
int control_follow(struct db_tx *tx, enum tend_action action, const struct tend_jobs *jobs,
                   const int64_t *moved);

#endif
