/*
 * How long work waits on an idle machine: from the call that adds a job in this process to its
 * start in another that waits for it, and from `kill -9` of who holds a job to its start elsewhere.
 * Both include the commits on the way. A start is the moment a claim returns.
 */
#include "bench/child.h"
#include "bench/side.h"

#include <stdio.h>

enum { ROUNDS_MAX = 400, WAKE_UPS = 300, TAKEOVERS = 30, SETTLE_MS = 8, SETTLE_DEAD_MS = 30 };

struct scene {
    struct place place;
    char url[PLACE_URL_BYTES];
    void *store;
    struct child waiter;
};

static int scene_open(struct scene *scene, const struct bench *bench, const struct bench_case *self)
{
    *scene = (struct scene){.place = place_of(bench, self, "tend")};
    if (place_clear(&scene->place) < 0 || place_url(&scene->place, scene->url) < 0 ||
        side_tend.open(&scene->store, &scene->place, 1) < 0)
        return -1;
    return child_start(&scene->waiter, ROLE_WAITER, scene->url);
}

static void scene_close(struct scene *scene)
{
    child_done(&scene->waiter);
    if (scene->store != NULL)
        side_tend.close(scene->store);
    place_clear(&scene->place);
}

/* The waiter has started its job, and reports when it has completed it. */
static int hear_both(struct scene *scene, double since, double *ret_ms)
{
    int64_t started_ns;
    int64_t completed;
    if (child_hear(&scene->waiter, &started_ns) < 0 || child_hear(&scene->waiter, &completed) < 0)
        return -1;
    *ret_ms = ((double)started_ns / 1e9 - since) * 1e3;
    return 0;
}

static int wake_up(struct scene *scene, double *ret_ms)
{
    if (child_ask(&scene->waiter) < 0)
        return -1;
    bench_sleep_ms(SETTLE_MS); /* it looks, finds nothing, and waits */
    double since = bench_seconds();
    if (side_tend.add(scene->store, 1) < 0)
        return -1;
    return hear_both(scene, since, ret_ms);
}

static int take_over(struct scene *scene, double *ret_ms)
{
    struct child holder;
    int64_t held;
    if (side_tend.add(scene->store, 1) < 0 || child_start(&holder, ROLE_HOLDER, scene->url) < 0)
        return -1;
    int rc = child_hear(&holder, &held);
    if (rc == 0)
        rc = child_ask(&scene->waiter);
    bench_sleep_ms(SETTLE_DEAD_MS);
    double since = bench_seconds();
    if (rc == 0) {
        child_kill(&holder);
        rc = hear_both(scene, since, ret_ms);
    }
    child_done(&holder);
    return rc;
}

static int measure(struct bench *bench, const struct bench_case *self, size_t rounds,
                   int (*once)(struct scene *scene, double *ret_ms))
{
    struct scene scene;
    double values[ROUNDS_MAX];
    double warm_up;
    int rc = scene_open(&scene, bench, self);
    if (rc == 0)
        rc = once(&scene, &warm_up);
    for (size_t round = 0; round < rounds && rc == 0; round++) {
        rc = once(&scene, &values[round]);
        if (rc == 0)
            rc = bench_progress(bench, (double)round + 1, (double)rounds);
    }
    scene_close(&scene);
    if (rc == 0)
        bench_add_latency(bench, self, values, rounds);
    return rc;
}

int bench_wake_up(struct bench *bench, const struct bench_case *self)
{
    return measure(bench, self, bench->quick ? WAKE_UPS / 10 : WAKE_UPS, wake_up);
}

int bench_takeover(struct bench *bench, const struct bench_case *self)
{
    return measure(bench, self, bench->quick ? TAKEOVERS / 10 : TAKEOVERS, take_over);
}
