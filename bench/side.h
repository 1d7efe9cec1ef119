/*
 * One of the two that are compared: tend, or the bare database doing the same commits. Both answer
 * to the same few calls, so that one loop drives them and nothing but the store differs.
 *
 * The bare side is the least that could be called a queue: one table, one partial index on what is
 * pending, prepared statements, no events, no checks.
 */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include "bench/place.h"

#include <stddef.h>
#include <tend.h>

enum { SIDE_BATCH_MAX = 1000 };

/* Calls return 0 or a count, or -1 after bench_fail. A session belongs to one thread at a time. */
struct side {
    const char *name;
    /* The store of a place, made where there is none, for up to `sessions` at once. *ret_store is
     * set also on failure when there is something to close. */
    int (*open)(void **ret_store, const struct place *place, size_t sessions);
    void (*close)(void *store);
    int (*session_open)(void *store, void **ret_session);
    void (*session_close)(void *session);
    /* Adds count jobs in one commit. */
    int (*add)(void *session, size_t count);
    /* Leases up to count jobs in one commit; how many. */
    int (*claim)(void *session, size_t count, struct tend_lease *ret);
    /* Reports them done in one commit. */
    int (*complete)(void *session, const struct tend_lease *leases, size_t count);
    /* Both in one commit: as complete, then as claim. leases may be ret. */
    int (*turn)(void *session, const struct tend_lease *leases, size_t done, size_t count,
                struct tend_lease *ret);
};

extern const struct side side_tend;
extern const struct side side_raw_sqlite;
extern const struct side side_raw_postgres;
extern const struct side
    side_raw_postgres_grouped; /* several threads, one connection: as group.h says */

/* What every job carries on both sides. */
#define SIDE_QUEUE "mail"
#define SIDE_KIND "send"
#define SIDE_PAYLOAD "{\"to\":\"someone@example.org\",\"subject\":\"hello\",\"n\":12345}"
#define SIDE_OWNER "bench"

#endif
