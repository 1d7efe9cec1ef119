/*
 * A lock on one byte of a file, by an open-file-description lock: it belongs to the descriptor, so
 * threads that share one share its locks, and the kernel drops it when the last copy of the
 * descriptor goes, however the process ends.
 */
#ifndef STORE_BYTE_LOCK_H
#define STORE_BYTE_LOCK_H

#include <stdint.h>

/* type: F_WRLCK, F_RDLCK or F_UNLCK. 0, or -1 with errno: EAGAIN or EACCES when another descriptor
 * has it. */
int byte_lock_set(int fd, int64_t byte, short type);

/* The same, and waits in the kernel without limit; also -1 with EINTR. A point at which the thread
 * can be cancelled. */
int byte_lock_wait(int fd, int64_t byte, short type);

/* Whether another descriptor's lock is in the way of one of this type. 1, 0, or -1 with errno. */
int byte_lock_ask(int fd, int64_t byte, short type);

#endif
