/*
 * The neighbour watch: tells at once when a worker is gone that no pidfd can be had of, because it
 * lives in another pid namespace (a container with the same file) or the kernel hands none out.
 *
 * A thread waits for a read lock on the liveness byte of one such worker (sqlite_files.h). It gets
 * the lock the moment the worker's own is dropped, however that one ended, and gives it back at
 * once. Each handle that waits watches one; who watches whom is chosen by neighbour_choose so that
 * together they watch all.
 *
 * It has an open file description of its own: on the one that holds this handle's own bytes, a
 * read lock would take the place of a write lock.
 */
#ifndef STORE_NEIGHBOUR_H
#define STORE_NEIGHBOUR_H

#include "store/db.h"

#include <pthread.h>

struct neighbour {
    int fd;     /* -1: not opened yet */
    int64_t id; /* whom the thread watches; 0: there is no thread */
    bool gone;  /* it has seen the end; atomic */
    pthread_t thread;
    void (*on_end)(void *arg); /* called by the thread */
    void *arg;
};

void neighbour_init(struct neighbour *neighbour, void (*on_end)(void *arg), void *arg);
void neighbour_done(struct neighbour *neighbour);
void neighbour_after_fork(struct neighbour *neighbour); /* in the child: the thread is not there */

/*
 * Whom to watch among the workers: those with an id (who hold a liveness lock) that no pidfd tells
 * of (seen). own_id: this handle's worker, 0: none. 0: nobody.
 *
 * The first above one's own id, going around: where every worker has a container of its own, each
 * has one watcher. Of several in one container, each goes one further than the one before.
 */
int64_t neighbour_choose(const struct db_watched *workers, const bool *seen, size_t count,
                         int64_t own_id);

/* Watches id from now on; 0: nobody. workers_fd: any descriptor of the file. One thread at a time.
 * When it cannot, others and the slow tick must see to it. */
void neighbour_watch(struct neighbour *neighbour, int workers_fd, int64_t id);

#endif
