/*
 * A short life of a store, told in a process of its own while the disk below it fails
 * (fault_vfs.h): it is made, jobs are added singly, in a batch and by several threads at once,
 * claimed, kept alive, failed, released and completed, with checkpoints all along, and it is
 * closed. What the store acknowledged is in the diary, which is shared with the process that
 * judges.
 */
#ifndef TEND_CRASH_FAULT_STORY_H
#define TEND_CRASH_FAULT_STORY_H

#include "fault_vfs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STORY_SINGLES = 5, /* the last one has a payload of many pages */
    STORY_BATCH = 6,
    STORY_THREADS = 4,
    STORY_PER_THREAD = 3,
    STORY_CLAIMED = 5,
};

struct diary {
    unsigned calls;    /* counted by the VFS when the story was over; 0: it never was */
    unsigned failures; /* calls that were answered with an error */
    char first_failure[300];
    /* ids of what was acknowledged; 0: it was not */
    int64_t singles[STORY_SINGLES];
    int64_t batch[STORY_BATCH];
    int64_t group[STORY_THREADS][STORY_PER_THREAD];
    int64_t completed[STORY_CLAIMED];
};

/*
 * Tells the story of the store at url to its end, or to that of the process. A call that is
 * answered as it must not be fails the test.
 */
void story_tell(const char *url, const struct fault_plan *plan, struct diary *diary);

#endif
