/* One side at work on one store, slice after slice; see throughput.c. */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include "bench/bench.h"
#include "bench/side.h"

enum { RUNNER_THREADS_MAX = 64 };

struct runner {
    const struct side *side;
    const struct bench_case *what;
    void *store; /* NULL: not open */
    void *sessions[RUNNER_THREADS_MAX];
    double pending; /* jobs that wait in the store */
    double rate;    /* jobs per second of the last slice */
};

int runner_open(struct runner *runner, const char *url);
void runner_close(struct runner *runner);
/* Works for so many seconds, after putting in what is to be worked off; sets the rate. */
int runner_round(struct runner *runner, double seconds);

/*
 * Both take turns, the first pair to warm up. Fills in the medians of the rates and of the ratios of
 * the pairs. A runner that is not open is left out.
 */
int runner_compare(const struct bench *bench, struct runner *raw, struct runner *ours,
                   struct bench_result *result);

#endif
