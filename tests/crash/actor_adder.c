/* See actor.h: those who add jobs, and one who reads along. */
#include "actor.h"
#include "ledger.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 2, /* so that there are group commits to be killed in */
    BATCH_MAX = 12,
    BACKLOG_MAX = 1500, /* more would only make the end of the test longer */
    EVENTS_PAGE = 500,
    PAYLOAD_BYTES = 3000,
};

struct adder {
    struct actor actor; /* with dice of its own */
    int acked, completed;
    size_t number;  /* among the threads */
    uint64_t calls; /* made so far */
};

struct kind {
    char text[64];
};

/* The kind of a job names the call that added it and its place there: none may be there twice. */
static struct kind kind_of(const struct adder *adder, size_t index)
{
    struct kind kind;
    snprintf(kind.text, sizeof kind.text, "%lld.%zu.%llu.%zu", (long long)adder->actor.number,
             adder->number, (unsigned long long)adder->calls, index);
    return kind;
}

static void fill(struct adder *adder, struct tend_job_spec *spec, const char *payload, size_t bytes)
{
    struct rng *rng = &adder->actor.rng;
    tend_job_spec_init(spec);
    spec->queue = rng_below(rng, 15) == 0 ? SERIAL_QUEUE : PLAIN_QUEUE;
    spec->priority = (int)rng_below(rng, 10);
    spec->payload = payload;
    spec->payload_bytes = bytes;
    spec->max_crashes = 1000000; /* this is not about jobs that kill their workers */
    spec->max_attempts = 1000000;
    if (rng_below(rng, 10) == 0)
        spec->delay_ms = (int64_t)rng_below(rng, 300);
}

static void add_batch(struct adder *adder)
{
    struct tend_job_spec specs[BATCH_MAX];
    struct tend_added added[BATCH_MAX];
    struct ledger_entry entries[BATCH_MAX] = {0};
    char payload[PAYLOAD_BYTES];
    struct rng *rng = &adder->actor.rng;
    size_t count = rng_below(rng, 3) == 0 ? 1 + rng_below(rng, BATCH_MAX) : 1;
    size_t bytes = 2 + rng_below(rng, rng_below(rng, 10) == 0 ? sizeof payload - 2 : 100);
    memset(payload, 'x', bytes);
    payload[0] = payload[bytes - 1] = '"';
    struct kind kinds[BATCH_MAX];
    adder->calls++;
    for (size_t i = 0; i < count; i++) {
        fill(adder, &specs[i], payload, bytes);
        kinds[i] = kind_of(adder, i);
        specs[i].kind = kinds[i].text;
    }
    int rc = count == 1 ? tend_add(adder->actor.t, specs, added)
                        : tend_add_many(adder->actor.t, specs, count, added);
    if (actor_tries_again(&adder->actor, rc, "add"))
        return; /* whether they are there is not known: others are added */
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct ledger_entry){.id = added[i].id, .pid = getpid()};
    if (ledger_write(adder->acked, entries, count) != 0)
        _exit(3);
}

static void *add_all(void *arg)
{
    struct adder *adder = arg;
    while (!actor_stops()) {
        if (ledger_count(adder->acked) < ledger_count(adder->completed) + BACKLOG_MAX)
            add_batch(adder);
        else
            actor_pause_us(10000);
        actor_pause_us((int64_t)rng_below(&adder->actor.rng, 10000));
    }
    return NULL;
}

void actor_add(struct actor *actor)
{
    pthread_t threads[THREADS];
    struct adder adders[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        adders[i] = (struct adder){.actor = *actor,
                                   .acked = actor_ledger(actor, "acked"),
                                   .completed = actor_ledger(actor, "completed"),
                                   .number = i};
        rng_seed(&adders[i].actor.rng, rng_u64(&actor->rng));
        if (pthread_create(&threads[i], NULL, add_all, &adders[i]) != 0)
            _exit(3);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* All events up to the newest one; how many they were. */
static size_t follow_once(struct actor *actor, int followed, int64_t *last_id)
{
    size_t seen = 0;
    for (;;) {
        struct tend_events *events;
        int rc = tend_events_since(actor->t, *last_id, EVENTS_PAGE, &events);
        if (actor_tries_again(actor, rc, "events"))
            continue;
        size_t count = events->count;
        for (size_t i = 0; i < count; i++)
            actor_note(followed, events->items[i].id, 0);
        if (count > 0)
            *last_id = events->items[count - 1].id;
        tend_events_free(events);
        seen += count;
        if (count == 0)
            return seen;
    }
}

void actor_follow(struct actor *actor)
{
    int followed = actor_ledger(actor, "followed");
    int64_t last_id = 0;
    int64_t newest = 0;
    while (!actor_stops())
        if (follow_once(actor, followed, &last_id) == 0)
            actor_pause_us(3000);
    /* Nothing new is written any more; but the last events are shown only when no other can come
     * before them. */
    while (actor_tries_again(actor, tend_last_event(actor->t, &newest), "last event"))
        continue;
    for (int tries = 0; tries < 3000 && last_id < newest; tries++) {
        follow_once(actor, followed, &last_id);
        actor_pause_us(3000);
    }
}

static bool is_there(const struct actor *actor, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", actor->folder, name);
    return access(path, F_OK) == 0;
}

/* Adds a job of its own, claims and completes it. */
static int64_t go_around(struct actor *actor, const char *queue)
{
    struct tend_job_spec spec;
    struct tend_claim claim;
    struct tend_added added;
    struct tend_jobs *jobs = NULL;
    tend_job_spec_init(&spec);
    tend_claim_init(&claim);
    spec.queue = claim.queue = queue;
    claim.count = 1;
    actor_tries_again(actor, tend_add(actor->t, &spec, &added), "add");
    actor_tries_again(actor, tend_claim_jobs(actor->t, &claim, &jobs, NULL), "claim");
    const struct tend_lease lease = {.id = jobs->items[0].id, .token = jobs->items[0].token};
    tend_jobs_free(jobs);
    actor_tries_again(actor, tend_complete(actor->t, &lease, 1, NULL, NULL), "complete");
    return added.id;
}

void actor_hammer(struct actor *actor)
{
    char queue[32];
    int ready = actor_ledger(actor, "ready");
    int acked = actor_ledger(actor, "acked");
    snprintf(queue, sizeof queue, "q%d", (int)getpid());
    actor_note(ready, 0, 0);
    while (!is_there(actor, "go"))
        actor_pause_us(1000);
    while (!is_there(actor, "halt") && !actor_stops()) {
        int64_t began_ns = clock_mono_ns();
        struct ledger_entry entry = {.id = go_around(actor, queue), .pid = getpid()};
        entry.took_us = (clock_mono_ns() - began_ns) / 1000;
        if (ledger_write(acked, &entry, 1) != 0)
            _exit(3);
    }
}
