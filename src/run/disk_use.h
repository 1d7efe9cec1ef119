/* How much of a disk a file or folder takes. */
#ifndef RUN_DISK_USE_H
#define RUN_DISK_USE_H

#include <stdint.h>

/*
 * Bytes that would be free if it were removed: with all that is in it, without files that have
 * another name elsewhere. What cannot be read counts as nothing.
 */
int64_t disk_use(const char *path);
/* The same in a folder that is open. */
int64_t disk_use_at(int parent, const char *name);

#endif
