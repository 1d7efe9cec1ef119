/*
 * Collects what runners have left in their folder and nothing needs any more: folders of leases
 * that have ended, folders of jobs that were deleted, copies of repositories that nobody uses.
 *
 * Names are read first, the store afterwards: whoever has a folder has its lease before, so a
 * folder that is there belongs to a lease the store knows, or to none. What to do with each is
 * decided by core/keep.h. Folders of another store are left alone (job_folder.h).
 *
 * Any number of processes may do this at once, and beside runners that clean up after themselves:
 * what one has removed, the other does not miss. collect_lock keeps them from doing all work twice.
 */
#ifndef RUN_COLLECT_H
#define RUN_COLLECT_H

#include "run/sweep.h"
#include "run/workspace.h"

#include <tend.h>

struct collect {
    tend *t;
    const char *folder; /* of the runner */
    int64_t store_id;
    bool removes;          /* false: only looks */
    bool measures;         /* disk->uses have bytes */
    bool from_anywhere;    /* begins with any job: for those who seldom come to the end */
    struct sweep_ear ear;  /* about processes that had to be ended */
    struct tend_disk disk; /* what was found, and so what was removed */
    /* Asked after each job; false: it ends here. NULL: it goes on. */
    bool (*goes_on)(void *arg);
    void *arg;
    struct workspace_keeper keeper;
};

/* folder is borrowed. The store is asked who it is. */
int collect_init(struct collect *collect, tend *t, const char *folder);

/* Everything in the folder. 0, or a code with the sentence in the handle: then some is left. */
int collect_all(struct collect *collect);

/* The folder of one job, of this store. */
int collect_job(struct collect *collect, const char *path, int64_t job_id);

/* --- collect_mirror.c --- */

void collect_mirrors(struct collect *collect);

/* --- for both --- */

/* Counts a folder, and removes it if nothing needs it and that is asked for. One that cannot be
 * removed is counted as failed alone. The mark in it goes last: what a crash leaves of the folder
 * is still known. */
void collect_take(struct collect *collect, enum tend_disk_kind kind, const char *path,
                  const char *mark);

/* A descriptor that keeps others from collecting in this folder until it is closed. TEND_EBUSY:
 * somebody has it, wait_ms long. */
int collect_lock(const char *folder, int64_t wait_ms, struct err *err);

#endif
