/*
 * Does a full store slow claims down? Claim and complete in hundreds, with 10,000 jobs pending and
 * nothing else in the store, against the same with very many rows beside them.
 *
 * Leases that have expired are of another queue: every claim helps to recover some of them, which
 * is the work that must not slow it down; as they become pending again, they are nothing it could
 * claim itself.
 *
 * Under a limit per key both stores have jobs of a key that is full in front, 1,000 and very many.
 */
#include "bench/fill.h"
#include "bench/race.h"

#include <stdio.h>

enum { PENDING = 10000, SLICE_JOBS = 5000, BATCH = 100, KEYED = 1000 };

static struct racer racer_of(const struct bench *bench, const struct bench_case *self,
                             const char *name)
{
    return (struct racer){
        .side = &side_tend,
        .place = place_of(bench, self, name),
        .operation = OPERATION_WORK,
        .batch = BATCH,
        .threads = 1,
        .slice_jobs = SLICE_JOBS,
        .keep = PENDING,
    };
}

static void keep_result(struct bench *bench, const struct bench_case *self, size_t rows,
                        const struct race_result *rates)
{
    static const char *const words[] = {
        [FILL_PENDING] = "pending",     [FILL_FINISHED] = "finished",
        [FILL_SCHEDULED] = "scheduled", [FILL_EXPIRED] = "expired leases",
        [FILL_KEYED] = "of a full key",
    };
    char number[32];
    struct bench_result result = {
        .name = self->name,
        .unit = "/s",
        .raw = rates->rates[0],
        .ours = rates->rates[1],
        .ratio = rates->ratio,
        .goal = GOAL_RATIO,
        .target = self->target,
    };
    snprintf(result.what, sizeof result.what, "hundreds with %s %s, to %s",
             bench_number(rows, number), words[self->fill],
             self->fill == FILL_KEYED ? "1,000" : "10,000 pending");
    bench_add(bench, result);
}

int bench_growth(struct bench *bench, const struct bench_case *self)
{
    struct racer racers[2] = {racer_of(bench, self, "small"), racer_of(bench, self, "large")};
    size_t rows = bench->quick ? self->rows / 100 : self->rows;
    struct race_result rates;
    if (self->fill == FILL_PENDING)
        racers[1].keep = racers[1].pending = (double)rows;
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = place_clear(&racers[i].place);
    if (rc == 0)
        rc = fill_store(&racers[1].place, self->fill, rows);
    if (rc == 0 && self->fill == FILL_KEYED)
        rc = fill_store(&racers[0].place, self->fill, KEYED);
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = racer_open(&racers[i]);
    if (rc == 0)
        rc = race(bench, racers, &rates);
    for (int i = 0; i < 2; i++) {
        racer_close(&racers[i]);
        place_clear(&racers[i].place);
    }
    if (rc == 0)
        keep_result(bench, self, rows, &rates);
    return rc;
}
