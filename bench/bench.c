/* What the measurements share: results, failures, medians. */
#include "bench/bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void bench_add_latency(struct bench *bench, const struct bench_case *self, double *values_ms,
                       size_t count)
{
    const struct {
        const char *name;
        double percent, target;
    } wanted[] = {{"p50", 50, self->target}, {"p99", 99, self->target_p99}};
    for (size_t i = 0; i < 2; i++) {
        struct bench_result result = {
            .name = self->name,
            .unit = "ms",
            .raw = -1,
            .ours = bench_percentile(values_ms, count, wanted[i].percent),
            .ratio = -1,
            .goal = wanted[i].target > 0 ? GOAL_AT_MOST : GOAL_NONE,
            .target = wanted[i].target,
        };
        snprintf(result.what, sizeof result.what, "%s, %s", self->text, wanted[i].name);
        bench_add(bench, result);
    }
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
    case GOAL_RATIO_AT_MOST:
        return result->ratio < 0 || result->ratio <= result->target;
    case GOAL_AT_MOST:
        return result->ours <= result->target;
    case GOAL_AT_LEAST:
        return result->ours >= result->target;
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

int64_t bench_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void bench_sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

const char *bench_number(size_t number, char out[32])
{
    char digits[32];
    int count = snprintf(digits, sizeof digits, "%zu", number);
    char *at = out;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return out;
}

int bench_progress(struct bench *bench, double done, double total)
{
    if (bench->progress == NULL || bench->progress(bench->progress_arg, done / total) >= 0)
        return 0;
    return bench_fail("interrupted");
}
