/*
 * A report about the steps of a job, as the files attempt*.c and control*.c share it.
 *
 * A report is checked (attempt_check.c), then carried out in one transaction (attempt.c): the job's
 * row is locked and its lease looked at, and only then is anything written (attempt_write.c).
 *
 * Invariants: at most the newest attempt of a job is running; every attempt that begins or ends
 * leaves an event in the job's chain.
 */
#ifndef QUEUE_ATTEMPT_H
#define QUEUE_ATTEMPT_H

#include "base/buf.h"
#include "queue/handle.h"
#include "store/queries.h"

#include <stdbool.h>

/* The job as the transaction finds it; its row is locked. */
struct step_job {
    int64_t id, token;
    int64_t stopped_token; /* of the lease that a cancel or hold has ended, or TEND_UNSET */
    int state;             /* -1: there is no such job */
    const char *owner, *queue;
    int64_t worker_id;
    bool under_lock;  /* taken along with a processing lock */
    bool followed;    /* a submission waits for the end of its run */
    int64_t event_id; /* its newest event; TEND_UNSET: written since, and not yet in the chain */
    int64_t staged;   /* where the large parts of the report are; 0: they come with it */
};

void step_job_read(struct step_job *job, int64_t id, const struct step_fence_rows *fence);

/* The newest attempt of a job; number 0: there is none. */
struct step_last {
    int64_t number, token, step_index, attempt;
    int state;
    const char *marker, *step_id, *strategy;
};

/* Whether the lease is the one the job is running under. */
bool step_job_held(const struct step_job *job, struct tend_lease lease);
/* Whether the lease was ended by a cancel or a hold, and the job has not moved since. */
bool step_job_stopped(const struct step_job *job, struct tend_lease lease);

/* --- checking: 0, or TEND_EINVAL with a sentence --- */

int step_check_change(tend *t, const struct tend_step_change *change);
int step_check_close(tend *t, const struct tend_step_close *close);
int step_check_changes(tend *t, const struct tend_changes *changes, size_t most_bytes);

/* A number that no other report uses at the same time, and that is no job's id: what is large is
 * sent under it first. */
int64_t step_staging_number(tend *t);

/* --- writing, inside the transaction, all DB_LATER --- */

/* Appends a member to an object; the first opens it. NULL becomes null. */
void step_put_text(struct buf *json, const char *name, const char *text);

/* What an event says about a step (SH-13). */
struct step_facts {
    const char *step_id;
    int64_t step_index, attempt; /* or TEND_UNSET */
    const char *failure_class, *signature, *diff_hash, *strategy;
    bool gives_up;  /* no attempt of the step follows, and the job fails ... */
    bool retryable; /* ... and the queue may try it again */
};
const char *step_facts_json(struct db_tx *tx, const struct step_facts *facts);

/* An event of the job that is no move; goes into its chain with step_chain or event_into_chain. */
int step_event_write(struct db_tx *tx, struct step_job *job, const char *who, const char *what,
                     const char *why, const char *data);

/* Puts what was written into the job's chain; nothing when nothing was. */
int step_chain(struct db_tx *tx, struct step_job *job, unsigned how);

int step_end_write(struct db_tx *tx, struct step_job *job, const struct step_last *last,
                   const struct tend_attempt_end *ended);
int step_lost_write(struct db_tx *tx, struct step_job *job, const struct step_last *last);
int step_begin_write(struct db_tx *tx, tend *t, struct step_job *job, int64_t number,
                     const struct tend_attempt_begin *begun);
int step_note_write(struct db_tx *tx, struct step_job *job, const struct tend_step_event *event);

/* This machine and boot, asked for once. 0, or TEND_EIO with a sentence. */
int attempt_machine(tend *t);

#endif
