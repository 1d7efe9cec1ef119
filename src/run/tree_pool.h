/* What tree.c and tree_pool.c share. See tree.h. */
#ifndef RUN_TREE_POOL_H
#define RUN_TREE_POOL_H

#include "base/buf.h"
#include "run/tree.h"

#include <stdatomic.h>
#include <sys/types.h>

/* A minder and the tree it runs, if any: made once, used again and again. */
struct tree {
    struct tree_pool *pool;
    struct tree *previous, *next; /* all of the pool */
    struct tree *next_idle;
    int fd;             /* socket of the minder */
    bool busy;          /* handed out by tree_spawn, not freed yet */
    _Atomic bool ended; /* the last event has been read; others may look, see tree_stop */
    bool broken;        /* the minder is no more, or has something it cannot end */
    bool begun;         /* the minder has got the command, and may have started it */
    int64_t pid, start_ticks;
    char *marker;
};

struct tree_pool {
    char *helper;
    int nursery_fd; /* -1: none runs */
    int nursery_pidfd;
    _Atomic pid_t nursery_pid; /* 0: none; others may look, see pool_wake */
    struct tree *all, *idle;
    size_t count;    /* of all */
    struct buf body; /* of a command on its way */
};

/* Makes sure that a nursery runs. Where it was killed, a new one, and idle minders are let go. */
int pool_check_nursery(struct tree_pool *pool, struct err *err);

/* An idle minder, or a new one; not busy yet. */
int pool_take(struct tree_pool *pool, struct tree **ret_tree, struct err *err);

/* Continues the nursery and its minders: a step can stop its minder, which then hears no order. */
void pool_wake(const struct tree_pool *pool);

void pool_give_back(struct tree *tree);

/* Closes the socket: the minder kills what it has and ends. */
void pool_discard(struct tree *tree);

#endif
