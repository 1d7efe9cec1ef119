/*
 * The files beside an SQLite store, and the kernel locks on them:
 *
 *     PATH-lock     the turnstile at which writers of all processes stand in line (turnstile.c)
 *     PATH-bell     written after a commit that others should look at; waiters watch it by inotify
 *     PATH-workers  byte n is locked for as long as worker n lives; a read lock on it is waited for
 *                   by who watches that worker (neighbour.c)
 *
 * All locks are open-file-description locks, which the kernel drops when the last copy of the
 * descriptor goes: with the process, however it ends. Descriptors are close-on-exec and closed in
 * the child of a fork, so that no child keeps a copy.
 */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sqlite_files {
    int lock_fd; /* for the turnstile */
    int bell_fd, workers_fd;
    int bell_watch_fd; /* inotify; -1 until somebody waits */
    char *bell_path;
};

/* They have the mode of the store's file, which is there already; made by root, its owner too. */
int sqlite_files_open(struct sqlite_files *files, const char *path, struct err *err);
/* The sentence for a file of a store that cannot be made or opened; its code. did: "opened". */
int sqlite_files_fail(const char *name, const char *did, int failed, struct err *err);
void sqlite_files_close(struct sqlite_files *files);
void sqlite_files_close_fds(struct sqlite_files *files); /* in the child of a fork */

void sqlite_files_ring(struct sqlite_files *files);
int sqlite_files_watch_bell(struct sqlite_files *files, struct err *err);
/* Reads what inotify has; true when the bell rang. */
bool sqlite_files_heard_bell(struct sqlite_files *files);

int sqlite_files_alive_begin(struct sqlite_files *files, int64_t worker_id, struct err *err);
void sqlite_files_alive_end(struct sqlite_files *files, int64_t worker_id);
/* Whether a descriptor other than this one holds the worker's lock. */
bool sqlite_files_is_alive(struct sqlite_files *files, int64_t worker_id);

#endif
