/*
 * A minder: a small process without threads that runs one tree at a time and sees its end.
 *
 * It is a subreaper, so whatever loses its parent below it becomes its child, and wait() saying
 * "no child" means that the tree is gone. It blocks every signal (it may stand in the foreground of
 * a terminal; the worker decides what Ctrl-C means) and hears of its children by signalfd. See
 * tree.h for the whole picture.
 *
 *     idle -> running [take_spawn]   running -> idle [finish: first process ended, no child left]
 *
 * While running: kill_at_ms says when whatever is left is killed; STOP, the end of the first
 * process, the deadline and the end of the worker only ever bring it nearer.
 */
#ifndef RUN_MINDER_H
#define RUN_MINDER_H

#include "run/cgroup.h"
#include "run/oom.h"
#include "run/tree_wire.h"

#include <sys/resource.h>

/* What the nursery found at its start and its minders use. */
struct minder_setting {
    struct rlimit open_files;      /* for the steps; the nursery's own is raised */
    char cgroup[400];              /* see cgroup_find_own; "" */
    char oom_path[OOM_PATH_BYTES]; /* see oom_find; "" */
};

/* Runs until the worker closes its end. The exit status: 0, or 1 when something is left. */
int minder_run(int socket, const struct minder_setting *setting);

/* A command ready to be started; strings point into the packet. */
struct minder_command {
    const struct wire_spawn *spawn;
    const char *cwd; /* "" when not given */
    char **argv, **env;
    char **shell_argv; /* argv with room for the shell and the script before its arguments */
    int fds[3];        /* -1: /dev/null */
    const struct minder_setting *setting;
    const struct cgroup *group;
};

/*
 * Starts it; the pid, or -1 with fault, err_number and text of the answer set. Nothing is left
 * behind then.
 */
pid_t minder_start(const struct minder_command *command, struct wire_answer *ret_fault);

#endif
