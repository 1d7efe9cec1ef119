/*
 * PostgreSQL with a transaction held open elsewhere in the database: rows that were changed since
 * cannot be vacuumed, and a claim may have to step over all of them. A store is drained without and
 * with it, in turns.
 */
#include "bench/postgres.h"
#include "bench/race.h"

#include <stdio.h>

enum { JOBS = 60000, BATCH = 100, THREADS = 2, ROUNDS = 3 };

static int hold_open(const struct place *place, PGconn **ret)
{
    if (postgres_connect(ret, place) < 0)
        return -1;
    /* A snapshot and a transaction id: it holds vacuum back in either way. */
    return postgres_run(*ret, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()");
}

/* Drains a new store of that side; its rate. */
static int drain(const struct side *side, const struct place *place, size_t jobs, bool held,
                 double *ret_rate)
{
    struct racer racer = {
        .side = side,
        .place = *place,
        .operation = OPERATION_WORK,
        .batch = BATCH,
        .threads = THREADS,
        .keep = (double)jobs,
    };
    PGconn *holder = NULL;
    int rc = place_clear(place);
    if (rc == 0)
        rc = racer_open(&racer);
    if (rc == 0 && held)
        rc = hold_open(place, &holder);
    if (rc == 0)
        rc = racer_slice(&racer, 600);
    *ret_rate = racer.rate;
    if (rc == 0 && racer.pending != 0)
        rc = bench_fail("%.0f jobs were left over", racer.pending);
    PQfinish(holder); /* before the store: it would hold up what closing does */
    racer_close(&racer);
    place_clear(place);
    return rc;
}

static int drain_in_turns(struct bench *bench, const struct side *side, const struct place *place,
                          size_t jobs, struct race_result *ret)
{
    double rates[2][ROUNDS];
    double ratios[ROUNDS];
    size_t rounds = bench->quick ? 1 : ROUNDS;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t held = 0; held < 2; held++) {
            if (drain(side, place, jobs, held == 1, &rates[held][round]) < 0 ||
                bench_progress(bench, (double)(round * 2 + held + 1), (double)rounds * 2) < 0)
                return -1;
        }
        ratios[round] = rates[1][round] / rates[0][round];
    }
    ret->rates[0] = bench_median(rates[0], rounds);
    ret->rates[1] = bench_median(rates[1], rounds);
    ret->ratio = bench_median(ratios, rounds);
    return 0;
}

int bench_held_open(struct bench *bench, const struct bench_case *self)
{
    struct place place = place_of(bench, self, "tend");
    const struct side *const sides[] = {&side_raw_postgres, &side_tend};
    size_t jobs = bench->quick ? JOBS / 10 : JOBS;
    for (size_t i = 0; i < 2; i++) {
        struct race_result rates;
        char number[32];
        if (drain_in_turns(bench, sides[i], &place, jobs, &rates) < 0)
            return -1;
        struct bench_result result = {
            .name = self->name,
            .unit = "/s",
            .raw = rates.rates[0],
            .ours = rates.rates[1],
            .ratio = rates.ratio,
            .goal = i == 0 ? GOAL_NONE : GOAL_RATIO,
            .target = self->target,
        };
        snprintf(result.what, sizeof result.what,
                 "%s%s drained, a transaction held open, to without", i == 0 ? "bare: " : "",
                 bench_number(jobs, number));
        bench_add(bench, result);
    }
    return 0;
}
