/*
 * A layer below SQLite that fails on demand, and remembers what would survive a loss of power.
 *
 * It wraps SQLite's own file layer and is the default one while installed. Counted are the calls
 * that change files: write, sync, truncate, delete. Beside the real files it keeps an image of what
 * had been synced and the changes since; fault_vfs_survivors() makes files from that, with all,
 * none or some of these changes. Syncs are not passed on: nothing here depends on the real disk.
 *
 * What it does not cover: reads, and the shared memory beside the database (which does not survive
 * anyway).
 */
#ifndef TEND_TEST_FAULT_VFS_H
#define TEND_TEST_FAULT_VFS_H

#include "base/rng.h"

#include <stdbool.h>

enum fault_kind {
    FAULT_NOTHING,
    FAULT_ERROR, /* one call fails with an input/output error; a failed sync may have dropped what
                    it was for */
    FAULT_DISK_FULL, /* this write and all that follow find no space, until fault_vfs_heal() */
    FAULT_POWER_OFF, /* this call and all that follow fail */
    FAULT_TORN,      /* a part of this write is done, then as above */
};

enum survival { SURVIVES_NOTHING, SURVIVES_EVERYTHING, SURVIVES_SOMETHING };

/* Makes it the default file layer; forgets everything from before. */
void fault_vfs_install(void);
/* SQLite's own is the default again. Files that are still open go on as they were. */
void fault_vfs_remove(void);

/* The call with this number, counted from 1 since the installation, shall fail. */
void fault_vfs_plan(enum fault_kind kind, long at, const struct rng *rng);
void fault_vfs_heal(void);

long fault_vfs_calls(void);
bool fault_vfs_struck(void);

/* Into folder, under their names: the files as they are after the loss of power. */
void fault_vfs_survivors(const char *folder, enum survival survival);

#endif
