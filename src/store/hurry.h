/*
 * Hurry: what all calls of a handle are told by db_hurry, those under way too. Nobody is woken by
 * it, since a signal handler may tell it: whoever waits looks up now and then, and asks when its
 * wait ends.
 */
#ifndef STORE_HURRY_H
#define STORE_HURRY_H

#include <stdint.h>

struct hurry {
    int64_t most_ms; /* 0: no hurry; atomic, as the next */
    int64_t since_ms;
};

/* How soon one who waits for a server sees it; one who waits for its turn: see turnstile.h. */
enum { HURRY_LOOK_MS = 200 };

/* Nobody has less time than this, however much it hurries; a server that refuses says so first. */
enum { HURRY_LEAST_MS = 1000, HURRY_MARGIN_MS = 250 };

void hurry_set(struct hurry *hurry, int64_t most_ms);
/* When a wait ends that began at begun_ms and would last until until_ms (both monotonic; INT64_MAX:
 * for ever). hurry may be NULL. */
int64_t hurry_until(const struct hurry *hurry, int64_t begun_ms, int64_t until_ms);

#endif
