/* Rates of tend and of the bare database doing the same commits, taking turns. */
#include "bench/race.h"

#include <stdio.h>
#include <string.h>

static const struct side *bare_side(const struct bench_case *self)
{
    if (self->engine == ENGINE_SQLITE)
        return &side_raw_sqlite;
    return self->grouped ? &side_raw_postgres_grouped : &side_raw_postgres;
}

static struct racer racer_of(const struct bench *bench, const struct bench_case *self,
                             const struct side *side)
{
    return (struct racer){
        .side = side,
        .place = place_of(bench, self, side->name),
        .operation = self->operation,
        .batch = self->batch,
        .threads = self->threads,
    };
}

int bench_throughput(struct bench *bench, const struct bench_case *self)
{
    struct racer racers[2] = {racer_of(bench, self, bare_side(self)),
                              racer_of(bench, self, &side_tend)};
    struct race_result rates;
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        if (bench->only_side != NULL && strcmp(bench->only_side, racers[i].side->name) != 0)
            continue;
        rc = place_clear(&racers[i].place);
        if (rc == 0)
            rc = racer_open(&racers[i]);
    }
    if (rc == 0)
        rc = race(bench, racers, &rates);
    for (int i = 0; i < 2; i++) {
        racer_close(&racers[i]);
        place_clear(&racers[i].place);
    }
    if (rc < 0)
        return -1;
    struct bench_result result = {
        .name = self->name,
        .unit = "/s",
        .raw = rates.rates[0],
        .ours = rates.rates[1],
        .ratio = rates.ratio,
        .goal = GOAL_RATIO,
        .target = self->target,
    };
    snprintf(result.what, sizeof result.what, "%s", self->text);
    bench_add(bench, result);
    return 0;
}
