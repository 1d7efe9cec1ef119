/*
 * Rates of both sides, taking turns: a slice of the bare side, a slice of ours, and so on. Each side keeps its
 * store over all slices of a case. What is to be worked off is put in between the slices, untimed.
 */
#include "bench/runner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, ROUNDS_QUICK = 3 };

struct slice {
    struct runner *runner;
    void *session;
    pthread_barrier_t *start;
    double seconds; /* how long it may take */
    double started_at, ended_at;
    size_t jobs; /* how many were added, or completed */
    int rc;
};

int runner_open(struct runner *runner, const char *url)
{
    size_t threads = runner->what->threads;
    if (runner->side->open(&runner->store, url, threads) < 0)
        return -1;
    for (size_t i = 0; i < threads; i++)
        if (runner->side->session_open(runner->store, &runner->sessions[i]) < 0)
            return -1;
    return 0;
}

void runner_close(struct runner *runner)
{
    for (size_t i = 0; i < RUNNER_THREADS_MAX; i++)
        if (runner->sessions[i] != NULL)
            runner->side->session_close(runner->sessions[i]);
    if (runner->store != NULL)
        runner->side->close(runner->store);
    runner->store = NULL;
}

/* One commit or two; the number of jobs it served, 0 when there is nothing left. */
static int do_once(struct slice *slice, struct tend_lease *held, size_t *held_count)
{
    const struct side *side = slice->runner->side;
    size_t batch = slice->runner->what->batch;
    int rc;
    switch (slice->runner->what->operation) {
    case OPERATION_ADD:
        return side->add(slice->session, batch) < 0 ? -1 : (int)batch;
    case OPERATION_WORK:
        if ((rc = side->claim(slice->session, batch, held)) <= 0)
            return rc;
        return side->complete(slice->session, held, (size_t)rc) < 0 ? -1 : rc;
    case OPERATION_TURN:
        if ((rc = side->turn(slice->session, held, *held_count, batch, held)) >= 0)
            *held_count = (size_t)rc;
        return rc;
    }
    return -1;
}

static void *run_slice(void *arg)
{
    struct slice *slice = arg;
    struct tend_lease held[SIDE_BATCH_MAX];
    size_t held_count = 0;
    int rc;
    pthread_barrier_wait(slice->start);
    slice->started_at = bench_seconds();
    do {
        rc = do_once(slice, held, &held_count);
        slice->jobs += rc > 0 ? (size_t)rc : 0;
        slice->ended_at = bench_seconds();
    } while (rc > 0 && slice->ended_at < slice->started_at + slice->seconds);
    if (rc >= 0 && held_count > 0)
        rc = slice->runner->side->complete(slice->session, held, held_count);
    slice->rc = rc < 0 ? -1 : 0;
    return NULL;
}

/* A thread for each slice but the first, which is the caller's own. */
static int run_together(struct slice *slices, size_t count)
{
    pthread_t ids[RUNNER_THREADS_MAX];
    pthread_barrier_t start;
    int rc = 0;
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        slices[i].start = &start;
    for (size_t i = 1; i < count; i++)
        if (pthread_create(&ids[i], NULL, run_slice, &slices[i]) != 0)
            abort(); /* those started wait at the barrier, and would for ever */
    run_slice(&slices[0]);
    for (size_t i = 1; i < count; i++)
        pthread_join(ids[i], NULL);
    for (size_t i = 0; i < count; i++)
        rc |= slices[i].rc;
    pthread_barrier_destroy(&start);
    return rc;
}

static int work(struct runner *runner, double seconds)
{
    struct slice slices[RUNNER_THREADS_MAX] = {0};
    size_t threads = runner->what->threads;
    for (size_t i = 0; i < threads; i++)
        slices[i] = (struct slice){
            .runner = runner, .session = runner->sessions[i], .seconds = seconds};
    int rc = run_together(slices, threads);
    double jobs = 0;
    double ended_at = 0;
    for (size_t i = 0; i < threads; i++) {
        jobs += (double)slices[i].jobs;
        ended_at = slices[i].ended_at > ended_at ? slices[i].ended_at : ended_at;
    }
    runner->rate = jobs / (ended_at - slices[0].started_at);
    runner->pending += runner->what->operation == OPERATION_ADD ? jobs : -jobs;
    return rc;
}

/* So much that the slice does not run dry. */
static int top_up(struct runner *runner, double seconds)
{
    double busy = (double)(runner->what->batch * runner->what->threads);
    double wanted = runner->rate * seconds * 1.5 + busy * 20;
    if (runner->what->operation == OPERATION_ADD)
        return 0;
    for (; runner->pending < wanted; runner->pending += SIDE_BATCH_MAX)
        if (runner->side->add(runner->sessions[0], SIDE_BATCH_MAX) < 0)
            return -1;
    return 0;
}

int runner_round(struct runner *runner, double seconds)
{
    return top_up(runner, seconds) < 0 ? -1 : work(runner, seconds);
}

int runner_compare(const struct bench *bench, struct runner *raw, struct runner *ours,
                   struct bench_result *result)
{
    struct runner *const both[2] = {raw, ours};
    size_t rounds = bench->quick ? ROUNDS_QUICK : ROUNDS;
    double seconds = bench->quick ? 0.05 : 0.2;
    double rates[2][ROUNDS] = {{0}};
    double ratios[ROUNDS] = {0};
    for (size_t round = 0; round <= rounds; round++) {
        for (int i = 0; i < 2; i++) {
            if (both[i]->store != NULL && runner_round(both[i], seconds) < 0)
                return -1;
            if (round > 0)
                rates[i][round - 1] = both[i]->rate;
        }
        if (round > 0)
            ratios[round - 1] = ours->rate / raw->rate;
        bench_progress(bench, (double)round + 1, (double)rounds + 1);
    }
    result->raw = raw->store == NULL ? BENCH_NONE : bench_median(rates[0], rounds);
    result->ours = ours->store == NULL ? BENCH_NONE : bench_median(rates[1], rounds);
    /* The median of the ratios, not the ratio of the medians: each pair met the same weather. */
    result->ratio = raw->store == NULL || ours->store == NULL ? BENCH_NONE
                                                              : bench_median(ratios, rounds);
    return 0;
}

int bench_throughput(struct bench *bench, const struct bench_case *self)
{
    bool postgres = self->engine == ENGINE_POSTGRES;
    struct runner raw = {.side = postgres ? &side_raw_postgres : &side_raw_sqlite, .what = self};
    struct runner ours = {.side = &side_tend, .what = self};
    struct bench_result result = {
        .name = self->name, .unit = "/s", .goal = GOAL_RATIO, .target = self->target};
    const char *only = bench->only_side;
    char url[BENCH_URL_BYTES];
    int rc = 0;
    if (only == NULL || strcmp(only, raw.side->name) == 0)
        rc = runner_open(&raw, bench_url(bench, self->engine, "raw", url));
    if (rc == 0 && (only == NULL || strcmp(only, ours.side->name) == 0))
        rc = runner_open(&ours, bench_url(bench, self->engine, "tend", url));
    if (rc == 0)
        rc = runner_compare(bench, &raw, &ours, &result);
    runner_close(&raw);
    runner_close(&ours);
    strncpy(result.what, self->text, sizeof result.what - 1);
    if (rc == 0)
        bench_add(bench, result);
    return rc;
}
