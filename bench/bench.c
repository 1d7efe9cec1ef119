/* What the measurements share: results, failures, medians; and the table of those on SQLite. */
#include "bench/bench.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct bench_case bench_sqlite[] = {
    {"sqlite/add", "add one job per commit", bench_throughput, 0.8, OPERATION_ADD, 1, 1},
    {"sqlite/add-1000", "add 1,000 jobs per commit", bench_throughput, 0.5, OPERATION_ADD, 1000, 1},
    {"sqlite/work", "claim and complete one by one", bench_throughput, 0.7, OPERATION_WORK, 1, 1},
    {"sqlite/turn", "complete one and claim the next", bench_throughput, 0.7, OPERATION_TURN, 1, 1},
    {"sqlite/work-100", "claim and complete in hundreds", bench_throughput, 0.5, OPERATION_WORK, 100,
     1},
    {"sqlite/add-8-threads", "8 threads add one job each", bench_throughput, 0.8, OPERATION_ADD, 1,
     8},
    {.name = NULL},
};

static pthread_mutex_t failure_mutex = PTHREAD_MUTEX_INITIALIZER;
static char failure[512];

int bench_fail(const char *format, ...)
{
    va_list args;
    pthread_mutex_lock(&failure_mutex);
    if (failure[0] == '\0') {
        va_start(args, format);
        vsnprintf(failure, sizeof failure, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&failure_mutex);
    return -1;
}

const char *bench_failure(void)
{
    return failure;
}

void bench_add(struct bench *bench, struct bench_result result)
{
    struct bench_results *results = &bench->results;
    struct bench_result *items =
        realloc(results->items, (results->count + 1) * sizeof *results->items);
    if (items == NULL) {
        bench_fail("out of memory");
        return;
    }
    items[results->count++] = result;
    results->items = items;
}

void bench_results_done(struct bench_results *results)
{
    free(results->items);
    *results = (struct bench_results){0};
}

bool bench_met(const struct bench_result *result)
{
    switch (result->goal) {
    case GOAL_RATIO:
        return result->ratio < 0 || result->ratio >= result->target;
    case GOAL_AT_MOST:
        return result->ours <= result->target;
    case GOAL_NONE:
        break;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

double bench_percentile(double *values, size_t count, double percent)
{
    qsort(values, count, sizeof *values, compare);
    size_t at = (size_t)(percent / 100 * (double)count);
    return values[at < count ? at : count - 1];
}

double bench_median(double *values, size_t count)
{
    return bench_percentile(values, count, 50);
}

double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_progress(const struct bench *bench, double done, double total)
{
    if (bench->progress != NULL)
        bench->progress(bench->progress_arg, done / total);
}

int bench_clear_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return bench_fail("%s cannot be read", folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    return 0;
}
