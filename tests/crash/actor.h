/*
 * crash_actor: a process of the crash tests that uses the library as any program would, until it is
 * killed or told to stop (SIGTERM). What it was told by the store it writes into ledgers
 * (ledger.h).
 *
 *     crash_actor ROLE URL FOLDER NUMBER
 *
 * It calls itself "actor NUMBER"; no other has that number.
 *
 * An answer of the store that no program should get ends it with status 3 and the sentence on
 * stderr. While the store is out of reach, which only the tests that stop a server allow, it tries
 * again. With CRASH_BUSY_MS in its environment it waits for the store only for so long, and ends
 * with status 3 when a call has taken much longer; "busy" is then an answer like any other.
 */
#ifndef TEND_CRASH_ACTOR_H
#define TEND_CRASH_ACTOR_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

/* Queues: of the second one job at a time may run. */
#define PLAIN_QUEUE "plain"
#define SERIAL_QUEUE "serial"

struct actor {
    const char *url, *folder;
    int64_t number;
    int64_t busy_ms; /* 0: as usual, and nothing is measured */
    tend *t;
    struct rng rng;
};

/* How long a call may take that may wait for busy_ms: it is begun anew until then, and the last try
 * has as much time again, and some more to connect. */
#define ACTOR_LONGEST_MS(busy_ms) (2 * (busy_ms) + 6000)

/* How long a holder's lease lasts without a heartbeat. */
#define HOLDER_LEASE_MS 3000

/* Set by SIGTERM. */
bool actor_stops(void);

/* A ledger of this actor's folder. */
int actor_ledger(const struct actor *actor, const char *name);
void actor_note(int ledger, int64_t id, int64_t token);

/*
 * What to do about a failure: true to try again because the store was out of reach; does not return
 * when the code is one that must not come. Looks also how long the call took: to be called behind
 * each.
 */
bool actor_tries_again(struct actor *actor, int code, const char *what);

void actor_pause_us(int64_t us);

void actor_work(struct actor *actor);
/* Claims a job with a short lease and keeps it by heartbeats until it is told to stop. */
void actor_hold(struct actor *actor);
void actor_add(struct actor *actor);
void actor_follow(struct actor *actor);
/*
 * Adds, claims and completes job after job, one by one, from when the file "go" is there until
 * "halt" is.
 */
void actor_hammer(struct actor *actor);

#endif
