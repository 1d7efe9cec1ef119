/*
 * `tend bench`: tend measured against the bare database in the same run, on the same disk or server.
 *
 * A case is one row of a table: it measures one thing and leaves one or more results. Ratios and limits have
 * targets; absolute rates have none, for they are the machine's. Both sides of a ratio take turns in
 * short slices and medians are compared, so that what else the machine does meets both.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_goal {
    GOAL_NONE,     /* for orientation */
    GOAL_RATIO,    /* the ratio is at least the target */
    GOAL_AT_MOST,  /* ours is at most the target */
};

struct bench_result {
    const char *name;  /* of the case */
    char what[64];     /* what was measured, in words */
    const char *unit;  /* "/s", "ms", "% CPU", "MiB" */
    double raw;        /* the bare database, or what ours is compared to; negative: there is none */
    double ours;
    double ratio;      /* ours / raw; negative: there is none */
    enum bench_goal goal;
    double target;
};

struct bench_results {
    struct bench_result *items;
    size_t count;
};

struct bench {
    bool quick;            /* less time, more noise */
    const char *only_side; /* "raw" or "tend": that side alone, for a profiler; NULL: both */
    const char *folder;    /* for the files of SQLite; emptied between cases */
    const char *postgres;  /* URL of a database that may be overwritten; NULL: none */
    struct bench_results results;
    /* How far the running case is, 0 to 1. */
    void (*progress)(void *arg, double done);
    void *progress_arg;
};

struct bench_case {
    const char *name; /* "sqlite/add"; NULL ends the table */
    const char *text; /* what is measured, for --list and as title of the result */
    int (*run)(struct bench *bench, const struct bench_case *self); /* 0, or -1 after bench_fail */
    double target;
    int operation;  /* enum operation, throughput.c */
    size_t batch;   /* jobs per commit */
    size_t threads; /* each with a session, or a connection, of its own */
};

extern const struct bench_case bench_sqlite[], bench_postgres[], bench_disk[];

void bench_add(struct bench *bench, struct bench_result result);
void bench_results_done(struct bench_results *results);
bool bench_met(const struct bench_result *result); /* true also where there is no goal */

/* Keeps the first failure of any thread, for bench_failure; returns -1. */
int bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *bench_failure(void);

/* Sorts the values. */
double bench_median(double *values, size_t count);
double bench_percentile(double *values, size_t count, double percent);

/* An empty folder inside bench->folder. */
int bench_clear_folder(const char *folder);
double bench_seconds(void); /* monotonic */

/* A step of the case is over: done of total. */
void bench_progress(const struct bench *bench, double done, double total);

/* throughput.c */
enum operation { OPERATION_ADD, OPERATION_WORK, OPERATION_TURN };
int bench_throughput(struct bench *bench, const struct bench_case *self);

#endif
