/*
 * One look of `tend top`: queues, workers and the steps that run or wait for their next attempt,
 * read together and shown as tables.
 *
 * Four reads of the store and nothing else. Shown for people; no line is wider than the terminal.
 */
#ifndef CLI_TOP_LOOK_H
#define CLI_TOP_LOOK_H

#include <stddef.h>
#include <tend.h>

struct cli;

struct look {
    struct tend_stats *stats;
    struct tend_workers *workers;
    struct tend_attempts *running;
    struct tend_attempts *waiting; /* before their next attempt */
};

/* 0, or a negative code; to be ended with look_done in any case. */
int look_read(tend *store, struct look *ret);
void look_done(struct look *look);

/* Tables of at most `rows` rows each. notice: a line of its own below the first, or "". 0, or an
 * exit status. */
int look_put(struct cli *cli, const struct look *look, size_t rows, const char *notice);

#endif
