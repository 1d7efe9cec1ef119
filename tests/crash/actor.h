/*
 * crash_actor: a process of the crash tests that uses the library as any program would, until it is
 * killed or told to stop (SIGTERM). What it was told by the store it writes into ledgers
 * (ledger.h).
 *
 *     crash_actor ROLE URL FOLDER
 *
 * An answer of the store that no program should get ends it with status 3 and the sentence on
 * stderr. While the store is out of reach, which only the tests that stop a server allow, it tries
 * again.
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
    tend *t;
    struct rng rng;
};

/* Set by SIGTERM. */
bool actor_stops(void);

/* A ledger of this actor's folder. */
int actor_ledger(const struct actor *actor, const char *name);
void actor_note(int ledger, int64_t id, int64_t token);

/*
 * What to do about a failure: true to try again because the store was out of reach; does not return
 * when the code is one that must not come.
 */
bool actor_tries_again(struct actor *actor, int code, const char *what);

void actor_pause_us(int64_t us);

void actor_work(struct actor *actor);
void actor_add(struct actor *actor);
void actor_follow(struct actor *actor);
/*
 * Adds, claims and completes job after job, one by one, from when the file "go" is there until
 * "halt" is.
 */
void actor_hammer(struct actor *actor);

#endif
