/*
 * `tend bench`: tend measured against the bare database in the same run, on the same disk or
 * server.
 *
 * A case is one row of a table (cases.c): it measures one thing and leaves one or more results.
 * Ratios and limits have targets; absolute rates have none, for they are the machine's. Both sides
 * of a ratio take turns in short slices and medians are compared, so that what else the machine
 * does meets both.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum engine { ENGINE_SQLITE, ENGINE_POSTGRES, ENGINE_NONE };

enum bench_goal {
    GOAL_NONE,  /* for orientation */
    GOAL_RATIO, /* the ratio is at least the target */
    GOAL_RATIO_AT_MOST,
    GOAL_AT_MOST, /* ours is at most the target */
    GOAL_AT_LEAST,
};

struct bench_result {
    const char *name; /* of the case */
    char what[80];    /* what was measured, in words */
    const char *unit; /* "/s", "ms", "%", "MiB" */
    double raw;       /* the bare database, or what ours is compared to; negative: there is none */
    double ours;
    double ratio; /* ours / raw; negative: there is none */
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
    const char *folder;    /* for the files of SQLite */
    const char *postgres;  /* URL of a database in which schemas may be made; NULL: none */
    struct bench_results results;
    /* How far the running case is, 0 to 1; negative: the run is to end. */
    int (*progress)(void *arg, double done);
    void *progress_arg;
};

enum operation { OPERATION_ADD, OPERATION_WORK, OPERATION_TURN };

/* What a store is filled with. */
enum fill { FILL_PENDING, FILL_FINISHED, FILL_SCHEDULED, FILL_EXPIRED, FILL_KEYED };

struct bench_case {
    const char *name; /* "sqlite/add"; NULL ends the table */
    const char *text; /* what is measured, for --list and as title of the result */
    enum engine engine;
    int (*run)(struct bench *bench, const struct bench_case *self); /* 0, or -1 after bench_fail */
    double target, target_p99;
    enum operation operation;
    size_t batch;       /* jobs per commit */
    size_t threads;     /* each with a session, or a connection, of its own */
    bool grouped;       /* the bare side commits by groups as well */
    enum fill fill;     /* growth: with what */
    size_t rows;        /* ... and how many; workspace: files */
    size_t history_mib; /* workspace: what the commits before have */
    bool on_demand;     /* takes long: measured only when --only has its name */
};

extern const struct bench_case bench_cases[];

int bench_disk(struct bench *bench, const struct bench_case *self);
int bench_throughput(struct bench *bench, const struct bench_case *self);
int bench_growth(struct bench *bench, const struct bench_case *self);
int bench_held_open(struct bench *bench, const struct bench_case *self);
int bench_wake_up(struct bench *bench, const struct bench_case *self);
int bench_takeover(struct bench *bench, const struct bench_case *self);
int bench_idle(struct bench *bench, const struct bench_case *self);
int bench_leases(struct bench *bench, const struct bench_case *self);
int bench_listing(struct bench *bench, const struct bench_case *self);
int bench_noop(struct bench *bench, const struct bench_case *self);
int bench_output(struct bench *bench, const struct bench_case *self);
int bench_crowd(struct bench *bench, const struct bench_case *self);
int bench_control(struct bench *bench, const struct bench_case *self);
int bench_workspace(struct bench *bench, const struct bench_case *self);

/* A process of a measurement (child.h): `tend __bench-child ROLE URL PARENT`. Its exit status. */
int bench_child_main(int argc, char **argv);

/* 0, or -1 after bench_fail: nobody answers at that URL. */
int bench_reach_postgres(const char *url);

void bench_add(struct bench *bench, struct bench_result result);
/* Two results, p50 and p99, with the case's targets. Sorts the values. */
void bench_add_latency(struct bench *bench, const struct bench_case *self, double *values_ms,
                       size_t count);
void bench_results_done(struct bench_results *results);
bool bench_met(const struct bench_result *result); /* true also where there is no goal */

/* Keeps the first failure of any thread, for bench_failure; returns -1. */
int bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *bench_failure(void);

/* Both sort the values. */
double bench_median(double *values, size_t count);
double bench_percentile(double *values, size_t count, double percent);

double bench_seconds(void); /* monotonic, the same for all processes */
int64_t bench_now_ms(void); /* wall clock */
void bench_sleep_ms(int64_t ms);
/* "1,000,000" */
const char *bench_number(size_t number, char out[32]);

/* A step of the case is over: done of total. 0, or -1 after bench_fail when the run is to end. */
int bench_progress(struct bench *bench, double done, double total);

#endif
