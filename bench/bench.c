#include "bench/bench.h"
#include "bench/postgres.h"

#include <ftw.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

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
    struct bench_result *results =
        realloc(bench->results, (bench->result_count + 1) * sizeof *results);
    if (results == NULL) {
        bench_fail("out of memory");
        return;
    }
    results[bench->result_count++] = result;
    bench->results = results;
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

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

void bench_remove_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *store_folder(const struct bench *bench, char *out, size_t size)
{
    snprintf(out, size, "%s/store", bench->folder);
    return out;
}

int bench_clear(const struct bench *bench, enum bench_engine engine)
{
    char folder[BENCH_URL_BYTES];
    if (engine == ENGINE_POSTGRES)
        return bench_postgres_clear(bench->postgres);
    bench_remove_folder(store_folder(bench, folder, sizeof folder));
    if (mkdir(folder, 0700) != 0)
        return bench_fail("the folder %s cannot be made", folder);
    return 0;
}

const char *bench_url(const struct bench *bench, enum bench_engine engine, const char *name,
                      char out[BENCH_URL_BYTES])
{
    char folder[BENCH_URL_BYTES / 2];
    if (engine == ENGINE_POSTGRES)
        bench_postgres_url(bench->postgres, name, out, BENCH_URL_BYTES);
    else
        snprintf(out, BENCH_URL_BYTES, "sqlite:%s/%s.db",
                 store_folder(bench, folder, sizeof folder), name);
    return out;
}
