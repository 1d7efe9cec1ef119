/* See race.h. */
#include "bench/race.h"

#include <pthread.h>
#include <stdlib.h>

enum { ROUNDS_MAX = 15 };

struct slice {
    struct racer *racer;
    void *session;
    pthread_barrier_t *start;
    double seconds; /* how long it may take */
    size_t jobs_max;
    double started_at, ended_at;
    size_t jobs; /* how many were added, or completed */
    int rc;
};

int racer_open(struct racer *racer)
{
    if (racer->side->open(&racer->store, &racer->place, racer->threads) < 0)
        return -1;
    for (size_t i = 0; i < racer->threads; i++)
        if (racer->side->session_open(racer->store, &racer->sessions[i]) < 0)
            return -1;
    return 0;
}

void racer_close(struct racer *racer)
{
    for (size_t i = 0; i < racer->threads; i++)
        if (racer->sessions[i] != NULL)
            racer->side->session_close(racer->sessions[i]);
    if (racer->store != NULL)
        racer->side->close(racer->store);
    racer->store = NULL;
}

/* One commit or two; the number of jobs it served, 0 when there is nothing left. */
static int do_once(struct slice *slice, struct tend_lease *held, size_t *held_count)
{
    const struct side *side = slice->racer->side;
    size_t batch = slice->racer->batch;
    int rc;
    switch (slice->racer->operation) {
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
    } while (rc > 0 && slice->jobs < slice->jobs_max &&
             slice->ended_at < slice->started_at + slice->seconds);
    if (rc >= 0 && held_count > 0)
        rc = slice->racer->side->complete(slice->session, held, held_count);
    slice->rc = rc < 0 ? -1 : 0;
    return NULL;
}

/* Starts a thread per slice but the first, which is the caller's own, and waits for all. */
static int run_together(struct slice *slices, size_t count)
{
    pthread_t ids[RACER_THREADS_MAX];
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
static int run_slice(struct racer *racer, double seconds)
{
    struct slice slices[RACER_THREADS_MAX] = {0};
    double started_at = 0;
    double ended_at = 0;
    size_t jobs = 0;
    for (size_t i = 0; i < racer->threads; i++)
        slices[i] = (struct slice){
            .racer = racer,
            .session = racer->sessions[i],
            .seconds = seconds,
            .jobs_max = racer->slice_jobs == 0 ? SIZE_MAX : racer->slice_jobs / racer->threads,
        };
    int rc = run_together(slices, racer->threads);
    for (size_t i = 0; i < racer->threads; i++) {
        jobs += slices[i].jobs;
        started_at = i == 0 ? slices[i].started_at : started_at;
        ended_at = slices[i].ended_at > ended_at ? slices[i].ended_at : ended_at;
    }
    racer->rate = (double)jobs / (ended_at - started_at);
    racer->pending += racer->operation == OPERATION_ADD ? (double)jobs : -(double)jobs;
    return rc;
}

/* So much that the slice does not run dry. */
static int top_up(struct racer *racer, double seconds)
{
    double wanted = racer->keep;
    if (racer->operation == OPERATION_ADD)
        return 0;
    if (wanted == 0)
        wanted = racer->rate * seconds * 1.5 + (double)(racer->batch * racer->threads) * 20;
    for (; racer->pending < wanted; racer->pending += SIDE_BATCH_MAX)
        if (racer->side->add(racer->sessions[0], SIDE_BATCH_MAX) < 0)
            return -1;
    return 0;
}

int racer_slice(struct racer *racer, double seconds)
{
    return top_up(racer, seconds) < 0 ? -1 : run_slice(racer, seconds);
}

int race(struct bench *bench, struct racer racers[2], struct race_result *ret)
{
    size_t rounds = bench->quick ? 3 : 9;
    double seconds = bench->quick ? 0.05 : 0.2;
    double rates[2][ROUNDS_MAX];
    double ratios[ROUNDS_MAX];
    bool both = racers[0].store != NULL && racers[1].store != NULL;
    /* The first round warms up: statements, caches, the size of the log. */
    for (size_t round = 0; round <= rounds; round++) {
        size_t at = round == 0 ? 0 : round - 1;
        for (int i = 0; i < 2; i++) {
            if (racers[i].store == NULL)
                continue;
            if (racer_slice(&racers[i], seconds) < 0)
                return -1;
            rates[i][at] = racers[i].rate;
        }
        ratios[at] = both ? rates[1][at] / rates[0][at] : -1;
        if (bench_progress(bench, (double)round + 1, (double)rounds + 1) < 0)
            return -1;
    }
    for (int i = 0; i < 2; i++)
        ret->rates[i] = racers[i].store == NULL ? -1 : bench_median(rates[i], rounds);
    /* The median of the ratios, not the ratio of the medians: each pair met the same weather. */
    ret->ratio = bench_median(ratios, rounds);
    return 0;
}
