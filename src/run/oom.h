/*
 * How many processes the kernel has killed because memory ran out: the evidence for "out of memory"
 * (SH-5).
 *
 * The kernel counts them in places that all have a line "oom_kill N". They are asked in this order,
 * and the first that can be read counts:
 *   1. memory.events of the control group (version 2) that a minder has made for its step: only
 *      processes of that step are counted;
 *   2. memory.events of the worker's own group, or memory.oom_control of its group for memory
 *      (version 1): its steps are in it, and so are the steps of others in the same worker;
 *   3. /proc/vmstat: the whole machine.
 * A group counts what any shortage of memory has ended, its own limit or the machine's.
 *
 * Not a judge: a counter that went up proves that somebody was killed, not who. Whoever asks looks
 * at how the step ended, too.
 */
#ifndef RUN_OOM_H
#define RUN_OOM_H

#include <stddef.h>
#include <stdint.h>

enum { OOM_PATH_BYTES = 600 };

/* Whom the counter that went up is about. */
enum oom_kills {
    OOM_NO_KILL, /* it did not, or there is none */
    OOM_KILL_OF_STEP,
    OOM_KILL_NEARBY, /* in the worker's group, or on the machine */
};

/*
 * The counter that this process shares with others: 2 or 3 above. self_cgroup: the text of
 * /proc/self/cgroup; root: a folder such as "". "" in out: none can be read.
 */
void oom_find(const char *root, const char *self_cgroup, char *out, size_t size);

/* The number in a file; -1: it cannot be read. */
int64_t oom_read(const char *path);

#endif
