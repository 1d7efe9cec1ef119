/*
 * Real processes over one store, killed and stopped at random moments, and what must hold
 * afterwards.
 *
 *     chaos.c        the master: starts, kills, stops and replaces processes
 *     chaos_body.c   what workers and adders do
 *     chaos_check.c  draining, and the examination of everything that was written
 *
 * Workers and adders leave records outside the store: what they were told by it. These are compared
 * with the store in the end.
 */
#ifndef TEND_TEST_CHAOS_H
#define TEND_TEST_CHAOS_H

#include "base/rng.h"
#include "support/test.h"

#include <stdint.h>
#include <sys/types.h>
#include <tend.h>

enum { CHAOS_WORKERS = 8, CHAOS_ADDERS = 2, CHAOS_CHILDREN = CHAOS_WORKERS + CHAOS_ADDERS };

#define CHAOS_LEASE_MS 1000
#define CHAOS_QUEUE "main"
#define CHAOS_SERIAL_QUEUE "serial"

struct chaos_child {
    pid_t pid;
    bool stopped;
    int64_t wake_at_ms; /* monotonic: when a stopped one goes on */
};

struct chaos {
    const char *url;
    const char *added;    /* record of the adders: a line "ID" per acknowledged add, on disk */
    const char *finished; /* record of the workers: "D ID TOKEN" per acknowledged completion */
    bool may_lose_store;  /* the store may be out of reach for a while */
    struct rng rng;
    struct chaos_child children[CHAOS_CHILDREN];
    int kills, stops;
};

/* Makes the store and its queues. */
void chaos_prepare(struct chaos *chaos, const char *url);
void chaos_start(struct chaos *chaos);
/* Kills and stops for so long. Meanwhile, once, after half of it: halfway(arg), if given. */
void chaos_rage(struct chaos *chaos, int64_t for_ms, void (*halfway)(void *arg), void *arg);
/* Ends every process, as a loss of power would. */
void chaos_end(struct chaos *chaos);

/* In the child; they never return. */
_Noreturn void chaos_worker(const struct chaos *chaos, int number);
_Noreturn void chaos_adder(const struct chaos *chaos, int number);

/* How long to rage: TEND_CRASH_SECONDS, default 60. */
int64_t chaos_duration_ms(void);

struct chaos_findings {
    int64_t jobs, acknowledged, completions, recovered, died;
};

/* A healthy worker finishes what is left; then everything is examined. */
void chaos_drain(struct chaos *chaos);
void chaos_examine(struct chaos *chaos, struct chaos_findings *ret);

#endif
