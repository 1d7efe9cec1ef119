/*
 * A control group (v2) per minder, where there is one to be had: then nothing can leave the tree,
 * and all of it is killed by one write.
 *
 * Used only when the group the worker runs in was handed to it (its own by ownership or by
 * systemd's mark, writable, with cgroup.kill, which Linux has since 5.14). Everywhere else these
 * calls do nothing, and the process tree alone is what counts. No controller is switched on.
 */
#ifndef RUN_CGROUP_H
#define RUN_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CGROUP_SELF_BYTES = 4096 };

struct cgroup {
    char path[512]; /* of the folder; "" when there is none */
    int procs_fd;   /* open on its cgroup.procs; -1 */
};

/*
 * The folder of the group that `self_cgroup` (the text of /proc/self/cgroup) names below one of the
 * places v2 is mounted at under `root` (a folder such as "/"). False when it may not be used.
 * need_mark: being allowed to write proves nothing (root), systemd's mark must be there.
 */
bool cgroup_find(const char *root, const char *self_cgroup, bool need_mark, char *out, size_t size);

/* The text of /proc/self/cgroup; "" when it cannot be read. */
void cgroup_read_self(char *out, size_t size);

/* The group of this process, if it was handed to us; "" in out otherwise. */
void cgroup_find_own(char *out, size_t size);

/* Makes the group of minder `pid` below parent; leaves "no group" when that cannot be done. */
void cgroup_open(struct cgroup *group, const char *parent, pid_t pid);

/* Closes it and, when it is empty, removes it. */
void cgroup_close(struct cgroup *group);

/* Moves the calling process in. Safe between vfork and exec. */
void cgroup_join(const struct cgroup *group);

void cgroup_kill(const struct cgroup *group);

/* For the nursery: kills what is left in the group of a minder that is no more; removes it. */
void cgroup_clear(const char *parent, pid_t pid);

/* The name of a minder's process. */
#define CGROUP_MINDER "step-minder"

/*
 * For a successor: the same for all groups below parent whose minder is no more, and waits until
 * they are empty. False: some are not, after timeout_ms. parent may be "".
 */
bool cgroup_clear_dead(const char *parent, int64_t timeout_ms);

#endif
