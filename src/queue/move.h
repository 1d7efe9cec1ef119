/*
 * The choke point through which a job changes its state, apart from claim and completion, which are
 * queries of their own for speed. Asks core/state.c, then runs job_move.
 */
#ifndef QUEUE_MOVE_H
#define QUEUE_MOVE_H

#include "core/state.h"
#include "queue/handle.h"

enum { ATTEMPTS_START_OVER = -1 };

struct move {
    int64_t id;
    enum job_state from;
    int64_t token; /* the job's present one: a compare-and-set, whoever moves it */
    enum job_move verb;
    uint64_t bells;          /* of its queue; see queue/bell.h */
    int64_t delay_ms;        /* due so long from now; TEND_UNSET: the due time stays */
    int attempts;            /* added, or ATTEMPTS_START_OVER */
    int64_t crashes;         /* the new number, or TEND_UNSET */
    const char *error_class; /* NULL: unchanged, as the text */
    const char *error_text;
    const char *by; /* NULL: the job's owner */
    const char *why;
    const char *hook; /* the hook whose job redrives it, or NULL: its failure calls no hooks */
    int64_t follower; /* set by move_jobs: the job that a submission has become, or 0 */
};

/* A move with nothing special about it. */
struct move move_plain(int64_t id, enum job_state from, int64_t token, enum job_move verb,
                       uint64_t bells);

/*
 * Moves each job that is still as its move says; ret_each: 1 moved, 0 not (count entries).
 * TEND_ESTATE when the table does not allow one of them: nothing is moved then. Rings the bells.
 *
 * A run for whose end a submission waits (submission.h) is not ended when how is given, as nothing
 * can follow then: whoever does that calls again without it for those that were not moved.
 */
int move_jobs(struct db_tx *tx, struct move *moves, size_t count, unsigned how, int64_t *ret_each);

#endif
