/*
 * A shim below SQLite: a VFS that passes every call on to the real one, counts those that change a
 * file (write, sync, truncate, delete, growing the shared memory), and at a chosen one does what
 * disks and power supplies do.
 *
 * For a process of its own, which a loss of power ends at once with status FAULT_POWER_STATUS; the
 * files are then as fault_disk.h has it. Nothing is really synced: the process ends, the machine
 * does not.
 */
#ifndef TEND_CRASH_FAULT_VFS_H
#define TEND_CRASH_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_POWER_STATUS = 42 };

enum fault_kind {
    FAULT_NONE,    /* nothing happens, calls are counted */
    FAULT_ERROR,   /* the call fails; those after it do not */
    FAULT_FULL,    /* the same, for want of space */
    FAULT_ERRORS,  /* the call fails, and all after it */
    FAULT_FULL_ON, /* from here on there is no space; what needs none succeeds */
    FAULT_READ,    /* a read fails, once; reads are what is counted */
    FAULT_TEAR, /* the power goes in the middle of a write: a part of it is there, and all before it
                 */
    FAULT_LOSE, /* the power goes before the call, and what was not synced with it */
    FAULT_LOSE_SOME, /* the power goes before the call; what was not synced is there or not as the
                        dice fall */
};

struct fault_plan {
    enum fault_kind kind;
    unsigned at;   /* the number of the call, from 1 */
    uint64_t seed; /* of the dice */
};

/* Makes it the default of this process. The plan is copied. */
void fault_vfs_install(const struct fault_plan *plan);
/* How many calls were counted so far. */
unsigned fault_vfs_calls(void);
/* Whether the call of the plan has come. */
bool fault_vfs_struck(void);

#endif
