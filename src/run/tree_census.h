/*
 * Which processes belong to a tree, and signals that reach exactly those.
 *
 * Found by walking /proc (the kernel's list of children is not compiled in everywhere): the roots
 * are named by the caller, everything below them follows. A tree may grow while it is looked at;
 * so a walk is repeated until it finds nothing new, and who finds in order to kill stops (SIGSTOP)
 * each process the moment it is seen: what has a stop pending cannot add a child any more.
 *
 * Invariants: a process that has ended is never found, and a signal never hits a process that got
 * the pid of one that was found.
 */
#ifndef RUN_TREE_CENSUS_H
#define RUN_TREE_CENSUS_H

#include "base/proc.h"

#include <stddef.h>
#include <stdint.h>

struct census_entry {
    int64_t pid;
    int64_t start_ticks;
    int64_t group;
    bool own_child; /* of this process: its pid cannot be reused before we wait for it */
};

struct census {
    struct census_entry *found;
    size_t count, capacity;
    /* Whether a process is a root. It may look at what was found so far. */
    bool (*is_root)(void *arg, const struct census *census, int64_t pid,
                    const struct proc_stat *stat);
    void *arg;
};

/* Every process below this one. */
void census_init_children(struct census *census);
void census_done(struct census *census);

/*
 * Walks until nothing new is found; each process gets `signal` (0: none) when it is found. The
 * number found, also by earlier calls, or TEND_ENOMEM (also for descriptors), TEND_EIO.
 */
int census_take(struct census *census, int signal);

void census_signal(const struct census_entry *entry, int signal);

/* One round: stops and kills all that is found. Their number, 0 when there are none, or as above.
 */
int census_kill(struct census *census);

#endif
