/*
 * `tend bench`: tend measured against the bare database in the same run, on the same disk or server.
 *
 *     cases.c         what is measured: a table
 *     throughput.c    rates of both sides, taking turns
 *     growth.c        the rate over a store that has grown
 *     latency.c       from add to start, and from kill to start elsewhere, between processes
 *     footprint.c     what a worker costs while it waits, and while it holds much
 *     side.h          what both sides can do: ours.c, raw_sqlite.c, raw_postgres.c
 *     fill.c          a million rows in a few seconds
 *     child.c         processes to measure between
 *     postgres.c      schemas; server.c a server for the length of a run
 *
 * A case measures one thing and leaves one or more results. Ratios and limits have targets; rates have none, for they
 * are the machine's. Both sides of a ratio take turns in short slices and the median of the pairs
 * counts, so that what else the machine does meets both.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_engine { ENGINE_SQLITE, ENGINE_POSTGRES, ENGINE_NONE };

enum bench_goal {
    GOAL_NONE,    /* for orientation */
    GOAL_RATIO,   /* the ratio is at least the target */
    GOAL_AT_MOST, /* ours is at most the target */
};

/* Where a figure does not exist. */
#define BENCH_NONE (-1.0)

struct bench_result {
    const char *name; /* of the case */
    char what[72];    /* what was measured, in words */
    const char *unit; /* "/s", "ms", "%", "MiB" */
    double raw;       /* the bare database, or what ours is compared to */
    double ours;
    double ratio; /* ours / raw */
    enum bench_goal goal;
    double target;
};

struct bench {
    bool quick;            /* less time, smaller stores, more noise */
    const char *only_side; /* "raw" or "tend": that side alone, for a profiler; NULL: both */
    const char *folder;    /* for the files of SQLite */
    const char *postgres;  /* URL of a server; NULL: none */
    struct bench_result *results;
    size_t result_count;
    /* How far the running case is, 0 to 1. */
    void (*progress)(void *arg, double done);
    void *progress_arg;
};

enum operation { OPERATION_ADD, OPERATION_WORK, OPERATION_TURN };

/* What a store is filled with. */
enum fill { FILL_PENDING, FILL_FINISHED, FILL_SCHEDULED, FILL_EXPIRED };

struct bench_case {
    const char *name; /* "sqlite/add"; NULL ends the table */
    const char *text; /* what is measured */
    enum bench_engine engine;
    int (*run)(struct bench *bench, const struct bench_case *self); /* 0, or -1 after bench_fail */
    double target;
    enum operation operation;
    size_t batch;   /* jobs per commit */
    size_t threads; /* each with a session, or a connection, of its own */
    enum fill fill; /* growth: with what */
    size_t rows;    /* ... and how many */
};

extern const struct bench_case bench_cases[];

/* The kinds of cases. */
int bench_throughput(struct bench *bench, const struct bench_case *self);
int bench_growth(struct bench *bench, const struct bench_case *self);
int bench_held_open(struct bench *bench, const struct bench_case *self);
int bench_wake(struct bench *bench, const struct bench_case *self);
int bench_takeover(struct bench *bench, const struct bench_case *self);
int bench_idle(struct bench *bench, const struct bench_case *self);
int bench_leases(struct bench *bench, const struct bench_case *self);
int bench_stream(struct bench *bench, const struct bench_case *self);
int bench_fsync(struct bench *bench, const struct bench_case *self);

/* The body of a process started by child.c; its exit status. */
int bench_child_main(int argc, char **argv);

/* --- what the cases share (bench.c) --- */

/* Empties the place where the stores of a case are made. */
int bench_clear(const struct bench *bench, enum bench_engine engine);
/* Removes a folder and all in it. */
void bench_remove_folder(const char *folder);

enum { BENCH_URL_BYTES = 640 };
/* The URL of tend's store of that name ("tend", "small", "grown"). */
const char *bench_url(const struct bench *bench, enum bench_engine engine, const char *name,
                      char out[BENCH_URL_BYTES]);

void bench_add(struct bench *bench, struct bench_result result);
bool bench_met(const struct bench_result *result); /* true also where there is no goal */

/* Keeps the first failure of any thread, for bench_failure; returns -1. */
int bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *bench_failure(void);

/* Both sort the values. */
double bench_median(double *values, size_t count);
double bench_percentile(double *values, size_t count, double percent);

double bench_seconds(void); /* monotonic, the same for all processes */

/* A step of the case is over: done of total. */
void bench_progress(const struct bench *bench, double done, double total);

/* fill.c: many rows at once, past tend, in the shape tend would have given them. */
int bench_fill(const struct bench *bench, enum bench_engine engine, const char *name,
               enum fill fill, size_t count);

#endif
