/*
 * The states of a job and the moves between them: the one place that knows which are allowed.
 *
 * Not the place where a job is moved: the queue does that, in SQL whose guards repeat this table.
 * Invariants: a state and a verb lead to at most one state; nothing here looks at the clock.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum job_state {
    JOB_NONE = -1, /* there is no row yet; only the two add moves start here */
    JOB_SCHEDULED,
    JOB_PENDING,
    JOB_RUNNING,
    JOB_HELD,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
};

enum { JOB_STATES = JOB_CANCELLED + 1 };

/*
 * What can happen to a job. A verb that ends in _LATER is its twin with a due time in the future:
 * it leads to scheduled where the other leads to pending.
 */
enum job_move {
    MOVE_ADD,
    MOVE_ADD_LATER,
    MOVE_DUE,         /* the due time has come */
    MOVE_CLAIM,       /* a worker takes a lease */
    MOVE_COMPLETE,    /* the owner reports success */
    MOVE_FAIL,        /* the owner reports failure: for good, or the attempts are used up */
    MOVE_RETRY_LATER, /* the owner reports failure: tried again after a backoff */
    MOVE_RELEASE,     /* the owner gives the job back, free of charge */
    MOVE_RELEASE_LATER,
    MOVE_RECOVER,    /* the owner is gone or its lease has expired */
    MOVE_QUARANTINE, /* as recover, but the crashes have reached their cap */
    MOVE_HOLD,       /* paused, or waits for a signal or an operator */
    MOVE_RESUME,
    MOVE_RESUME_LATER,
    MOVE_CANCEL,
    MOVE_REDRIVE, /* a failed or cancelled job starts over */
    MOVE_REDRIVE_LATER,
    MOVE_RESCHEDULE, /* a waiting job is submitted again, or its due time is set to now */
    MOVE_RESCHEDULE_LATER,
};

enum { JOB_MOVES = MOVE_RESCHEDULE_LATER + 1 };

/* One allowed move. */
struct state_row {
    enum job_state from;
    enum job_move verb;
    enum job_state to;
    const char *event; /* name of the event written in the same transaction */
    bool lease_ends;   /* owner, lease and started_at are cleared */
    bool by_owner;     /* refused without the token of the current lease */

    /*
     * The token grows although no lease begins: the lease was ended by somebody other than its
     * owner, who may still be at work and must find that its token matches nothing any more. (A
     * claim gives out a new token in any case and is not marked.)
     */
    bool bumps_token;
};

/*
 * The row for verb in state from. 0, or TEND_ESTATE when the table has no such row; TEND_EINVAL
 * when an argument is no state or verb at all.
 */
int state_move(enum job_state from, enum job_move verb, const struct state_row **ret_row);

/* Whether any verb leads from one state to the other. */
bool state_allows(enum job_state from, enum job_state to);

/* Done, failed or cancelled: no lease, no due time, the dedupe key is free again. */
bool state_is_finished(enum job_state state);

/* Number of states a stored job can be in: JOB_SCHEDULED … JOB_CANCELLED. */
int state_count(void);

/* "pending"; NULL for what is no state. JOB_NONE is "none". */
const char *state_name(enum job_state state);

/* "claim", "release_later"; NULL for what is no verb. */
const char *move_name(enum job_move verb);

/* 0, or TEND_EINVAL for an unknown name; "none" is not accepted. */
int state_parse(const char *name, enum job_state *ret_state);

/* The table itself, for tests and for those who print it. */
const struct state_row *state_table(size_t *ret_rows);

#endif
