/*
 * What the attempts of a job have written, printed: for `tend logs` and for `tend run`, which
 * follows a job that others run.
 *
 * As it was written where the output is no terminal: standard output there, standard error there.
 * On a terminal both are shown in order, colours of the text itself are kept, and whatever else
 * could steer the terminal is made visible.
 */
#ifndef CLI_LOGS_H
#define CLI_LOGS_H

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
};

/* Gives the exit status. */
int logs_print(struct cli *cli, const struct logs_wish *wish);

#endif
