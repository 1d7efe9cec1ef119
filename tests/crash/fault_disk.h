/*
 * What is on the disk and what is only on its way there: a shadow of the files of a store, kept by
 * the shim VFS (fault_vfs.h), which can put them into a state that a loss of power could leave.
 *
 * Model: what was synced is there. Of what was written, cut or deleted since, each piece is there
 * or not or, if it was written, there in part, independent of the others. Calls must not overlap;
 * the VFS sees to that.
 */
#ifndef TEND_CRASH_FAULT_DISK_H
#define TEND_CRASH_FAULT_DISK_H

#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remembers a file as it is, unless it is known already. */
void disk_open(const char *path);
void disk_write(const char *path, const void *data, size_t bytes, int64_t offset);
void disk_truncate(const char *path, int64_t bytes);
void disk_sync(const char *path);
/* durable: the folder was synced along. */
void disk_delete(const char *path, bool durable);
/* What was deleted stays so. */
void disk_sync_folder(void);

/*
 * Writes the files as they are after the loss of power. dice: what becomes of the rest; NULL: all
 * of it is lost.
 */
void disk_lose_power(struct rng *dice);

#endif
