/*
 * What the processes of a crash test write down outside the store, to be compared with it
 * afterwards:
 *
 *     acked      ids of jobs, written after the call that added them has returned
 *     effects    job and token, written when a worker does the job, before it completes it
 *     completed  job and token, written after the store has said that the completion is saved
 *     refused    job and token of completions that came too late
 *     followed   ids of events as one who reads along has seen them, in that order
 *     held       job and token, written when a holder has claimed it
 *     killed     numbers of the actors that were killed (crowd.h)
 *
 * Invariant: an entry is there whole or not at all, although its writer can be killed at any
 * moment: all are appended, and their size divides that of a page, beyond which the kernel may cut
 * a write short.
 */
#ifndef TEND_CRASH_LEDGER_H
#define TEND_CRASH_LEDGER_H

#include <stddef.h>
#include <stdint.h>

struct ledger_entry {
    int64_t id, token;
    int64_t pid;     /* of the writer, as it knows itself */
    int64_t took_us; /* the call that is written down; 0: not measured */
};

/* A descriptor for appending, or -1. */
int ledger_open(const char *folder, const char *name);
/* 0, or -1 when it could not be written. */
int ledger_write(int fd, const struct ledger_entry *entries, size_t count);
/* How many entries there are by now. */
size_t ledger_count(int fd);
/* The same, by name. */
size_t ledger_length(const char *folder, const char *name);
/* All entries in the order they were written; NULL on trouble. To be freed. */
struct ledger_entry *ledger_read(const char *folder, const char *name, size_t *ret_count);

#endif
