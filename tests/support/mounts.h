/* Mounts that only one test sees. */
#ifndef TEND_TEST_MOUNTS_H
#define TEND_TEST_MOUNTS_H

#include <stdbool.h>

/* From here on what this process mounts is seen by itself and its children alone, and goes with
 * them. False: it may not, with errno set. */
bool mounts_own(void);

/* The same for a process that is in a mount namespace of its own already. */
bool mounts_private(void);

/* A /proc of this process's pid namespace. */
bool mounts_proc(void);

/* A small file system in memory at this folder; size as mount(8) takes it: "64k". */
bool mounts_disk(const char *folder, const char *size);

#endif
