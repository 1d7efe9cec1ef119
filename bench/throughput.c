/*
 * Rates of both sides, taking turns: a slice of the bare side, a slice of ours, and so on. Each side keeps its
 * store over all slices of a case. What is to be worked off is put in between the slices, untimed.
 */
#include "bench/bench.h"
#include "bench/side.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 15, THREADS_MAX = 64 };

struct runner {
    const struct side *side;
    const struct bench_case *what;
    void *store;
    void *sessions[THREADS_MAX];
    double pending; /* jobs that wait in the store */
    double rate;    /* of the last slice */
};

struct slice {
    struct runner *runner;
    void *session;
    pthread_barrier_t *start;
    double seconds; /* how long it may take */
    double started_at, ended_at;
    size_t jobs; /* how many were added, or completed */
    int rc;
};

static int runner_open(struct runner *runner, const char *place)
{
    size_t threads = runner->what->threads;
    if (runner->side->open(&runner->store, place, threads) < 0)
        return -1;
    for (size_t i = 0; i < threads; i++)
        if (runner->side->session_open(runner->store, &runner->sessions[i]) < 0)
            return -1;
    return 0;
}

static void runner_close(struct runner *runner)
{
    for (size_t i = 0; i < runner->what->threads; i++)
        if (runner->sessions[i] != NULL)
            runner->side->session_close(runner->sessions[i]);
    if (runner->store != NULL)
        runner->side->close(runner->store);
}

/* One commit or two; the number of jobs it served, 0 when there is nothing left. */
static int do_once(struct slice *slice, struct tend_lease *held, size_t *held_count)
{
    const struct side *side = slice->runner->side;
    size_t batch = slice->runner->what->batch;
    int rc;
    switch ((enum operation)slice->runner->what->operation) {
    case OPERATION_ADD:
        return side->add(slice->session, batch) < 0 ? -1 : (int)batch;
    case OPERATION_WORK:
        if ((rc = side->claim(slice->session, batch, held)) <= 0)
            return rc;
        return side->complete(slice->session, held, (size_t)rc) < 0 ? -1 : rc;
    case OPERATION_TURN:
        rc = side->turn(slice->session, held, *held_count, batch, held);
        if (rc < 0)
            return -1;
        *held_count = (size_t)rc;
        return rc;
    }
    return -1;
}

static void *run_slice_thread(void *arg)
{
    struct slice *slice = arg;
    struct tend_lease held[SIDE_BATCH_MAX];
    size_t held_count = 0;
    pthread_barrier_wait(slice->start);
    slice->started_at = bench_seconds();
    int rc;
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

/* Starts a thread per slice but the first, which is the caller's own, and waits for all. */
static int run_together(struct slice *slices, size_t count)
{
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t start;
    int rc = 0;
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        slices[i].start = &start;
    for (size_t i = 1; i < count && rc == 0; i++)
        if (pthread_create(&ids[i], NULL, run_slice_thread, &slices[i]) != 0)
            abort(); /* the others wait at the barrier */
    run_slice_thread(&slices[0]);
    for (size_t i = 1; i < count; i++)
        pthread_join(ids[i], NULL);
    for (size_t i = 0; i < count; i++)
        rc |= slices[i].rc;
    pthread_barrier_destroy(&start);
    return rc;
}

/* All sessions at once for so many seconds; sets the rate. */
static int run_slice(struct runner *runner, double seconds)
{
    struct slice slices[THREADS_MAX] = {0};
    size_t threads = runner->what->threads;
    double started_at = 0;
    double ended_at = 0;
    size_t jobs = 0;
    for (size_t i = 0; i < threads; i++)
        slices[i] = (struct slice){
            .runner = runner, .session = runner->sessions[i], .seconds = seconds};
    int rc = run_together(slices, threads);
    for (size_t i = 0; i < threads; i++) {
        jobs += slices[i].jobs;
        started_at = i == 0 ? slices[i].started_at : started_at;
        ended_at = slices[i].ended_at > ended_at ? slices[i].ended_at : ended_at;
    }
    runner->rate = (double)jobs / (ended_at - started_at);
    runner->pending += runner->what->operation == OPERATION_ADD ? (double)jobs : -(double)jobs;
    return rc;
}

/* So much that the next slice does not run dry. */
static int top_up(struct runner *runner, double seconds)
{
    size_t busy = runner->what->batch * runner->what->threads;
    double wanted = runner->rate * seconds * 1.5 + (double)busy * 20;
    if (runner->what->operation == OPERATION_ADD)
        return 0;
    for (; runner->pending < wanted; runner->pending += SIDE_BATCH_MAX)
        if (runner->side->add(runner->sessions[0], SIDE_BATCH_MAX) < 0)
            return -1;
    return 0;
}

static int run_round(struct runner *runner, double seconds)
{
    return top_up(runner, seconds) < 0 ? -1 : run_slice(runner, seconds);
}

static int measure(struct bench *bench, const struct bench_case *self, struct runner *sides,
                   struct bench_result *result)
{
    size_t rounds = bench->quick ? 3 : 9;
    double seconds = bench->quick ? 0.05 : 0.2;
    double rates[2][ROUNDS_MAX];
    double ratios[ROUNDS_MAX];
    /* The first round warms up: statements, caches, the size of the log. */
    for (size_t round = 0; round <= rounds; round++) {
        for (int i = 0; i < 2; i++) {
            if (sides[i].store == NULL)
                continue;
            if (run_round(&sides[i], seconds) < 0)
                return -1;
            if (round > 0)
                rates[i][round - 1] = sides[i].rate;
        }
        if (round > 0 && sides[0].store != NULL && sides[1].store != NULL)
            ratios[round - 1] = rates[1][round - 1] / rates[0][round - 1];
        bench_progress(bench, (double)round + 1, (double)rounds + 1);
    }
    *result = (struct bench_result){
        .name = self->name,
        .unit = "/s",
        .raw = sides[0].store == NULL ? -1 : bench_median(rates[0], rounds),
        .ours = sides[1].store == NULL ? -1 : bench_median(rates[1], rounds),
        .ratio = -1,
        .goal = GOAL_RATIO,
        .target = self->target,
    };
    /* The median of the ratios, not the ratio of the medians: each pair met the same weather. */
    if (result->raw >= 0 && result->ours >= 0)
        result->ratio = bench_median(ratios, rounds);
    return 0;
}

int bench_throughput(struct bench *bench, const struct bench_case *self)
{
    bool postgres = strncmp(self->name, "postgresql", 10) == 0;
    struct runner sides[2] = {
        {.side = &side_raw_sqlite, .what = self},
        {.side = &side_tend_sqlite, .what = self},
    };
    struct bench_result result;
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        if (bench->only_side == NULL || strcmp(bench->only_side, sides[i].side->name) == 0)
            rc = runner_open(&sides[i], postgres ? bench->postgres : bench->folder);
    if (rc == 0)
        rc = measure(bench, self, sides, &result);
    runner_close(&sides[0]);
    runner_close(&sides[1]);
    if (rc == 0) {
        strncpy(result.what, self->text, sizeof result.what - 1);
        bench_add(bench, result);
    }
    return rc;
}
