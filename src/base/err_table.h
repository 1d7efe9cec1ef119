/*
 * One struct err for each thread that uses a handle.
 *
 * The table owns them all. A thread that ends runs no code of ours: a destructor of its key could
 * run while another thread closes the handle, and nothing could tell the two apart. Entries of
 * threads that have ended are freed when the table has grown to twice its size, and all that are
 * left by err_table_done, also those of threads that live on.
 */
#ifndef BASE_ERR_TABLE_H
#define BASE_ERR_TABLE_H

#include "base/err.h"

#include <pthread.h>
#include <stddef.h>

struct err_table {
    pthread_key_t key; /* the calling thread's entry */
    pthread_mutex_t mutex;
    struct err_entry *first;
    size_t count;
    size_t sweep_at; /* at this count the threads are looked at */
};

/* 0, or -1 when the process has no key left. */
int err_table_init(struct err_table *table);

/* In the child of a fork, before anything else: the mutex may be held by a thread that is not
 * there. */
void err_table_after_fork(struct err_table *table);

/* Nobody may be inside err_table_mine, nor use what it gave. */
void err_table_done(struct err_table *table);

/* The calling thread's own; NULL when memory is out. */
struct err *err_table_mine(struct err_table *table);

#endif
