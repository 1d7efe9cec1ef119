/* The workers of the store, and what the kernel or the server knows of them. */
#ifndef QUEUE_REGISTRY_H
#define QUEUE_REGISTRY_H

#include "base/proc.h"
#include "queue/handle.h"

enum fate {
    FATE_ALIVE,
    FATE_DEAD,
    FATE_LOST, /* its liveness lock is gone, and nobody has noted it since its last sign of life */
    FATE_BACK, /* ... is there again */
    FATE_UNKNOWN, /* it has no liveness lock, and its process cannot be seen from here */
};

struct registry_entry {
    int64_t id;
    const char *name, *host;
    struct proc_id process;
    bool session;
    int64_t since_ms, lost_at_ms;
    int64_t sign_ms; /* of one marked as lost: its last sign of life, or TEND_UNSET */
    bool lock_held;
    bool here;      /* its process is one of this machine and boot that can be looked at */
    bool elsewhere; /* it is not; neither: whether it is cannot be told */
};

struct registry {
    struct arena arena;
    struct registry_entry *entries;
    size_t count;
    int64_t now_ms;
    int64_t schema; /* of the store, if there is an entry */
};

/* The entries and who of them holds a liveness lock. To be ended with registry_done in any case.
 * wait_ms as in db_read_within. */
int registry_load(tend *t, int64_t wait_ms, struct registry *registry);
void registry_done(struct registry *registry);

/* 0, or TEND_ESCHEMA: a look at the registry has shown that a newer tend has changed the schema.
 * Then nothing new is begun. Cheap. */
int registry_check_schema(tend *t);

/* Whether the worker's process is seen to be stopped, by a signal or a debugger: it lives, and does
 * nothing. False also where it cannot be looked at from here. */
bool registry_is_stopped(const struct registry_entry *entry);

/* *ret_by_lock (may be NULL): a worker that was judged dead was so by its lock, not its process. */
enum fate registry_fate(tend *t, const struct registry_entry *entry, int64_t now_ms,
                        bool *ret_by_lock);

#endif
