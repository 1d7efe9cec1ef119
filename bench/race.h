/*
 * Rates of two stores, taking turns: a slice of one, a slice of the other, and so on. Each keeps
 * its store over all slices. What is to be worked off is put in between the slices, untimed.
 */
#ifndef BENCH_RACE_H
#define BENCH_RACE_H

#include "bench/side.h"

enum { RACER_THREADS_MAX = 64 };

struct racer {
    const struct side *side;
    struct place place;
    enum operation operation;
    size_t batch, threads;
    size_t slice_jobs; /* a slice ends after so many jobs; 0: by time alone */
    double keep;       /* jobs that wait at the start of a slice; 0: as many as it may need */
    /* from here on the racer's own; pending is set by who has filled the store before */
    double pending; /* jobs that wait in the store */
    double rate;    /* of the last slice */
    void *store;    /* NULL: takes no part */
    void *sessions[RACER_THREADS_MAX];
};

int racer_open(struct racer *racer);
void racer_close(struct racer *racer);

/* Adds until `keep` jobs wait, then works for so many seconds, or slice_jobs; sets the rate. */
int racer_slice(struct racer *racer, double seconds);

struct race_result {
    double rates[2]; /* medians; negative for who took no part */
    double ratio;    /* of the second to the first, by median; negative when one took no part */
};

/* Both for several rounds; either store may be NULL. */
int race(struct bench *bench, struct racer racers[2], struct race_result *ret);

#endif
