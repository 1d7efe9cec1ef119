/*
 * The process tree of a step, as the worker sees it: start it, hear how it ends, stop it.
 *
 *     worker ──re-executes itself once──▶ nursery ──forks──▶ minder ──starts──▶ step's process
 *        │                                                     ▲                 └─ its children…
 *        └──────────────── a socket per minder ────────────────┘
 *
 * A minder is a subreaper that runs one tree at a time and is used again afterwards, so that its
 * cost is paid once per slot. TREE_EXITED comes when the first process has ended AND nothing that
 * came from it is left: what forks twice, makes its own session, ignores SIGTERM or closes its
 * pipes is ended too. The tree dies at once when the worker does (end of the socket), when its
 * deadline passes although the worker is frozen, and when its minder is killed (the nursery, also a
 * subreaper, inherits it). A nursery that is killed is started anew at the next spawn; running
 * trees go on.
 *
 * Not here: output (the caller gives the descriptors), attempts, timeouts, leases.
 *
 * Invariants: no signal handler, no SIGCHLD, no thread; every descriptor is close-on-exec. A pool
 * and its trees belong to one thread at a time. A program that forks without exec must not keep a
 * copy of the pool's descriptors, or its own end would not be seen.
 */
#ifndef RUN_TREE_H
#define RUN_TREE_H

#include "base/proc.h"
#include "run/oom.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct tree;
struct tree_pool;

enum { TREE_LIMITS = 8, TREE_MARKER_BYTES = 511 };

/* The variable that marks every process of an attempt; see tree_sweep. */
#define TREE_MARKER_NAME "TEND_ATTEMPT"

struct tree_limit {
    int resource; /* RLIMIT_… */
    uint64_t soft, hard;
};

struct tree_spec {
    const char *const *argv; /* NULL at the end; argv[0] is looked up in the PATH of env */
    const char *const *env;  /* complete, NULL at the end */
    const char *cwd;         /* NULL: the worker's at the time the pool was opened */
    int fds[3];              /* stdin, stdout, stderr, borrowed; -1: /dev/null */
    const char *marker;      /* unique per attempt, TREE_MARKER_BYTES at most; NULL: none */
    int nice;                /* added to the worker's */
    struct tree_limit limits[TREE_LIMITS];
    size_t limit_count;
    int64_t deadline_mono_ms;  /* the tree is killed then; INT64_MAX: never */
    int64_t leftover_grace_ms; /* from TERM to KILL for what outlives the first process */
};

enum tree_event_kind {
    TREE_NOTHING,     /* ask again when tree_fd() is readable */
    TREE_STARTED,     /* pid, start_ticks */
    TREE_NOT_STARTED, /* the last event: fault, err_number, text */
    TREE_EXITED,      /* the last event: everything below */
    TREE_LOST,        /* the last event: the minder was killed; the tree too, now (left, alive) */
};

enum tree_fault {
    TREE_FAULT_NONE,
    TREE_FAULT_NO_COMMAND,     /* no such program, or not in PATH */
    TREE_FAULT_NOT_EXECUTABLE, /* it is there but cannot be run */
    TREE_FAULT_NO_FOLDER,      /* cwd cannot be entered */
    TREE_FAULT_TOO_LARGE,      /* arguments and environment are more than the kernel takes */
    TREE_FAULT_SYSTEM,         /* no process, no memory… : worth another try */
};

struct tree_event {
    enum tree_event_kind kind;
    int64_t pid; /* also the id of the tree's process group */
    int64_t start_ticks;
    enum tree_fault fault;
    int err_number;
    char text[256];           /* the fault as a sentence; may be cut */
    int wait_status;          /* of the first process, as waitpid gives it */
    bool stopped;             /* tree_stop had come before the first process ended */
    bool deadline_passed;     /* ... or its deadline, and it was ended for that */
    bool forced;              /* SIGKILL was sent */
    bool begun;               /* the command may have run; without: it certainly has not */
    enum oom_kills oom_kills; /* the kernel has killed for want of memory while it ran */
    unsigned left;            /* processes still there when the first had ended; ended then */
    unsigned alive;           /* processes that not even SIGKILL has ended so far; 0 as a rule */
    int64_t user_us, system_us,
        max_rss_bytes; /* of all processes, as far as they were waited for */
};

/*
 * helper_path: the tend binary; NULL: /proc/self/exe, which is right in tend itself only. Fails
 * with TEND_ENOTFOUND (no such helper), TEND_EINVAL (it is not tend, or of another version),
 * TEND_ENOMEM, TEND_EIO.
 */
int tree_pool_open(struct tree_pool **ret_pool, const char *helper_path, struct err *err);

/* Kills whatever still runs and waits for its end. Trees not freed yet are freed. */
void tree_pool_close(struct tree_pool *pool);

/* Minders there are, idle ones included. */
size_t tree_pool_minders(const struct tree_pool *pool);

/* For ps and for tests; 0 while none runs. */
int64_t tree_pool_nursery_pid(const struct tree_pool *pool);

void tree_spec_init(struct tree_spec *spec);

/*
 * Hands the command over; the events tell what became of it. Fails with TEND_EINVAL (a spec that
 * makes no sense), TEND_ENOMEM, TEND_EIO (no helper, no descriptors).
 */
int tree_spawn(struct tree_pool *pool, const struct tree_spec *spec, struct tree **ret_tree,
               struct err *err);

/* To be polled for reading until the last event; stays the tree's own. */
int tree_fd(const struct tree *tree);

/*
 * The next event, without waiting; 0, or TEND_EIO. Only TREE_LOST may take a moment, when the
 * nursery was killed too and this call has to clean up itself.
 */
int tree_read(struct tree *tree, struct tree_event *ret_event);

/* SIGTERM to the whole tree, SIGKILL after grace_ms; 0: SIGKILL now. May be repeated to shorten.
 * Any thread may, as long as the tree is not freed. */
void tree_stop(struct tree *tree, int64_t grace_ms);

/* A new deadline on the monotonic clock. */
void tree_keep(struct tree *tree, int64_t deadline_mono_ms);

/*
 * After the last event the minder goes back to the pool. Before it the tree is killed, and its end
 * is not waited for.
 */
void tree_free(struct tree *tree);

/* An attempt as it was recorded when it started. */
struct tree_record {
    struct proc_id id;  /* its first process; pid 0: not known */
    const char *marker; /* NULL: none */
    bool minded;        /* what still has a living minder is left to it */
};

/*
 * For a successor on the same machine, after a worker died together with its nursery and minders:
 * kills what is left of these attempts, that is the recorded processes (pid and start must match),
 * their groups, and every process with the attempt's mark (tree_mark.h) or with the marker in its
 * environment, with all below them. Never the caller or those it descends from. Waits until they
 * are gone; ret_killed counts them. 0, or TEND_EBUSY when some are still there after timeout_ms,
 * TEND_ESTATE when some were left to their minder, TEND_ENOMEM, TEND_EIO.
 */
int tree_sweep(const struct tree_record *records, size_t count, int64_t timeout_ms,
               size_t *ret_killed, struct err *err);

#endif
