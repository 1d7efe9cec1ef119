/* What tend takes besides time: CPU while there is nothing to do, memory while there is very much.
 */
#include "bench/child.h"
#include "bench/fill.h"
#include "bench/side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_MS = 300, STEPS = 10 };

static void keep_result(struct bench *bench, const struct bench_case *self, const char *unit,
                        const char *what, double ours)
{
    struct bench_result result = {
        .name = self->name,
        .unit = unit,
        .raw = -1,
        .ours = ours,
        .ratio = -1,
        .goal = GOAL_AT_MOST,
        .target = self->target,
    };
    snprintf(result.what, sizeof result.what, "%s", what);
    bench_add(bench, result);
}

/* Seconds of CPU a process has used. */
static double cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec used = {0};
    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static int watch_idle(struct bench *bench, const struct child *child, double *ret_percent)
{
    int64_t step_ms = (bench->quick ? 1000 : 5000) / STEPS;
    bench_sleep_ms(SETTLE_MS);
    double began = bench_seconds();
    double used = cpu_seconds(child->pid);
    for (int step = 0; step < STEPS; step++) {
        bench_sleep_ms(step_ms);
        if (bench_progress(bench, step + 1, STEPS) < 0)
            return -1;
    }
    *ret_percent = (cpu_seconds(child->pid) - used) / (bench_seconds() - began) * 100;
    return 0;
}

int bench_idle(struct bench *bench, const struct bench_case *self)
{
    struct place place = place_of(bench, self, "tend");
    struct child waiter = {.pid = 0};
    char url[PLACE_URL_BYTES];
    double percent = 0;
    int rc = place_clear(&place);
    if (rc == 0)
        rc = place_url(&place, url);
    if (rc == 0)
        rc = child_start(&waiter, ROLE_WAITER, url);
    if (rc == 0)
        rc = child_ask(&waiter);
    if (rc == 0)
        rc = watch_idle(bench, &waiter, &percent);
    child_done(&waiter);
    place_clear(&place);
    if (rc == 0)
        keep_result(bench, self, "%", self->text, percent);
    return rc;
}

int bench_leases(struct bench *bench, const struct bench_case *self)
{
    struct place place = place_of(bench, self, "tend");
    struct child hoarder = {.pid = 0};
    char url[PLACE_URL_BYTES];
    void *store = NULL;
    int64_t peak_kib = 0;
    int rc = place_clear(&place);
    if (rc == 0)
        rc = place_url(&place, url);
    if (rc == 0)
        rc = side_tend.open(&store, &place, 1);
    for (size_t added = 0; rc == 0 && added < ROLE_HOARD; added += SIDE_BATCH_MAX)
        rc = side_tend.add(store, SIDE_BATCH_MAX);
    if (rc == 0)
        rc = child_start(&hoarder, ROLE_HOARDER, url);
    if (rc == 0)
        rc = child_hear(&hoarder, &peak_kib);
    child_done(&hoarder);
    if (store != NULL)
        side_tend.close(store);
    place_clear(&place);
    if (rc == 0)
        keep_result(bench, self, "MiB", self->text, (double)peak_kib / 1024);
    return rc;
}

/* Reads all its output; counts the lines and looks at its memory, the last time shortly before its
 * end. */
static int read_output(struct bench *bench, const struct child *child, size_t rows,
                       size_t *ret_lines, int64_t *ret_peak_kib)
{
    static char buffer[64 * 1024];
    size_t lines = 0;
    ssize_t got;
    *ret_peak_kib = 0;
    while ((got = read(child->from, buffer, sizeof buffer)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return bench_fail("the output of tend jobs cannot be read: %s", strerror(errno));
        for (const char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + got - at))) != NULL;
             at++)
            lines++;
        int64_t peak_kib = child_peak_kib(child->pid);
        if (peak_kib > *ret_peak_kib)
            *ret_peak_kib = peak_kib;
        if (bench_progress(bench, (double)lines, (double)rows) < 0)
            return -1;
    }
    *ret_lines = lines;
    return 0;
}

int bench_listing(struct bench *bench, const struct bench_case *self)
{
    struct place place = place_of(bench, self, "large");
    size_t rows = bench->quick ? 10000 : 1000000;
    struct child jobs = {.pid = 0};
    char url[PLACE_URL_BYTES];
    char what[80];
    char number[32];
    size_t lines = 0;
    int64_t peak_kib = 0;
    int rc = place_clear(&place);
    if (rc == 0)
        rc = place_url(&place, url);
    if (rc == 0)
        rc = fill_store(&place, FILL_PENDING, rows);
    char *argv[] = {"tend", "jobs", "--store", url, NULL};
    if (rc == 0)
        rc = child_spawn(&jobs, argv);
    if (rc == 0)
        rc = read_output(bench, &jobs, rows, &lines, &peak_kib);
    child_done(&jobs);
    place_clear(&place);
    if (rc == 0 && lines < rows)
        rc = bench_fail("tend jobs has printed %zu lines for %zu jobs", lines, rows);
    snprintf(what, sizeof what, "memory of tend jobs over %s rows", bench_number(rows, number));
    if (rc == 0)
        keep_result(bench, self, "MiB", what, (double)peak_kib / 1024);
    return rc;
}
