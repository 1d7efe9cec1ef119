/*
 * What the attempts of a job have written, printed: for `tend logs` and for `tend run`.
 *
 * As it was written where the output is no terminal: standard output there, standard error there.
 * On a terminal both are shown in order, colours of the text itself are kept, and whatever else
 * could steer the terminal is made visible.
 */
#ifndef CLI_LOGS_H
#define CLI_LOGS_H

#include "cli/logs_text.h"

#include <stdbool.h>
#include <stdint.h>

struct cli;

struct logs_wish {
    int64_t job_id;
    int64_t number;      /* of one attempt; 0: all */
    const char *step_id; /* of one step; NULL: all */
    bool follow;         /* until the job has ended */
    bool stamps;         /* each line behind its time */
    bool headers;        /* a line before the output of each attempt; on a terminal always */
    bool events;         /* with --json among other objects: {"event":"output","job_id":… */
};

/* Gives the exit status. */
int logs_print(struct cli *cli, const struct logs_wish *wish);

/* The last lines of the attempt that failed last, for who has not seen them. */
void logs_print_tail(struct cli *cli, int64_t job_id);

/* --- bit by bit, by somebody who does other things in between --- */

struct logs_reading {
    struct cli *cli;
    struct logs_wish wish;
    struct logs_text text;
    struct tend_attempts *attempts; /* as last read; NULL: not yet */
    int64_t number, seq;            /* of the last piece that was looked at */
    int64_t shown;                  /* the attempt whose header was printed last */
    bool any;                       /* something was printed */
    int waits;              /* the state the job waits in; 0: it does not, or it is pending */
    int64_t waits_until_ms; /* ... until then, or TEND_UNSET */
    int told;               /* what of it was told; as waits */
    int64_t told_until_ms;
    char waits_why[256]; /* ... and why, or "" */

    struct asking *asking;       /* NULL: questions are asked in the caller's thread */
    struct tend_jobs *jobs_read; /* answers of the store */
    int64_t now_ms;
    struct tend_attempts *attempts_read;
    struct tend_outputs *pieces_read;
};

void logs_begin(struct logs_reading *reading, struct cli *cli, const struct logs_wish *wish);
/* Prints what has come since, of attempts up to this number. 0 or a negative code. */
int logs_more(struct logs_reading *reading, int64_t up_to);
/* A line of somebody else's comes now. */
void logs_break(struct logs_reading *reading);
void logs_end(struct logs_reading *reading);

#endif
