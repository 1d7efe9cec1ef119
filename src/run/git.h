/*
 * The git command: started without a shell, watched, bounded, and told apart when it fails.
 *
 * Not a git library: it knows how to run git, not what a workspace is. Calls block their thread;
 * cancel_fd and timeout_ms end them early. Invariants: the environment of the caller (GIT_DIR and
 * its kin) and most of the user's configuration do not change what a command does; nothing a call
 * has started is alive when it returns; git dies with the thread that runs it, and what it has
 * started is found by a mark (git_marker); no hook of a repository is run; git never asks a person.
 *
 * `safe.directory` is not set here: git refuses a repository that belongs to somebody else because
 * its configuration can name programs to run. Whoever trusts such a repository says so in the
 * configuration of the account the worker runs under; the sentence of the error tells how.
 *
 * The configuration of the machine (/etc/gitconfig) and of the account (~/.gitconfig) are read:
 * they hold how to reach other machines (proxies, credential helpers), whom to trust, and the
 * filters a checkout may need. Calls that make or apply patches leave that of the machine out
 * (hides_system); its attributes are always left out, so that files are the same everywhere.
 *
 * Descriptors 0 to 2 of the calling process must be open, it must not ignore SIGCHLD, and nobody
 * else may wait for its children with waitpid(-1): else the end of git is not seen, and the call
 * fails.
 */
#ifndef RUN_GIT_H
#define RUN_GIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct arena;
struct buf;
struct proc_id;

enum {
    GIT_ID_BYTES = 65, /* an object id in hexadecimal, SHA-1 or SHA-256, with its NUL */
    GIT_LOG_BYTES = 8192,
    GIT_MARKER_BYTES = 128,
};

/* How long a call may take and what ends it before. */
struct git_limits {
    int64_t timeout_ms; /* for each command; 0: none */
    int cancel_fd;      /* the call ends when it becomes readable; -1: none */
};

struct git_call {
    const struct git_limits *limits; /* NULL: no limits */
    const char *folder;              /* where git starts; NULL: the current folder */
    const char *const *args;         /* without the word git; ends with NULL */
    const char *const *settings;     /* "name=value", for this call; ends with NULL; may be NULL */

    /* Each may be NULL: then git looks for itself. */
    const char *git_dir;
    const char *work_tree;
    const char *index_path;
    const char *object_folder; /* new objects go there */

    bool hides_system; /* the configuration of the machine is not read */
    bool this_machine; /* no transport but to a folder, whatever the user allows for others */

    const void *input; /* standard input; NULL: empty */
    size_t input_bytes;

    struct buf *output; /* standard output is appended; NULL: thrown away */
    size_t output_max_bytes;
    int output_fd; /* > 0: standard output goes there instead */
};

enum git_end {
    GIT_DONE,      /* exit status 0 */
    GIT_FAILED,    /* another exit status */
    GIT_KILLED,    /* a signal that did not come from here */
    GIT_TIMED_OUT, /* limits.timeout_ms */
    GIT_CANCELLED, /* limits.cancel_fd */
    GIT_TOO_MUCH,  /* more output than output_max_bytes */
    GIT_MISSING,   /* there is no git command in PATH */
    GIT_UNSTARTED, /* no memory, processes or descriptors left */
    GIT_UNSEEN,    /* it has ended; its status went to somebody else, or to nobody */
};

struct git_outcome {
    enum git_end end;
    int status;              /* exit status, or the signal's number */
    bool log_cut;            /* the beginning of the log was dropped */
    size_t log_bytes;        /* of log, without its NUL */
    char log[GIT_LOG_BYTES]; /* standard error: the last of it */
};

/*
 * Runs git. 0 when it ended with status 0; TEND_ENOTFOUND: no git command; TEND_EINTERRUPTED:
 * cancelled; TEND_EFULL: no space left; TEND_ENOMEM; TEND_EIO: everything else. The sentence names
 * the command and the line of git that tells most. ret_outcome is filled in any case; it may be
 * NULL.
 */
int git_run(const struct git_call *call, struct git_outcome *ret_outcome, struct err *err);

/* Whether git's standard error has this text. */
bool git_said(const struct git_outcome *outcome, const char *text);

/*
 * Whether the command lost a race for one of git's lock files, or saw the half-made worktree of
 * another process: worth another try.
 */
bool git_lost_race(const struct git_outcome *outcome);

/*
 * As git_run, and again while another process is in the way: after pauses that grow, for about five
 * seconds. Then TEND_EBUSY. Only for commands that leave nothing behind when they fail so.
 */
int git_run_patiently(const struct git_call *call, struct git_outcome *ret_outcome,
                      struct err *err);

/* Sleeps, unless cancelled: then TEND_EINTERRUPTED. */
int git_pause(const struct git_limits *limits, int64_t pause_ms, struct err *err);

/* The line of the log that tells most, without "fatal: " and control characters. */
void git_telling_line(const struct git_outcome *outcome, char *out, size_t size);

/* Takes names and passwords out of every URL in the text, in place. */
void git_mask_urls(char *text);

/* What every process carries that git_run starts in a process (see tree_sweep), and back. */
void git_marker(const struct proc_id *id, char out[GIT_MARKER_BYTES]);
bool git_marker_parse(const char *marker, struct proc_id *ret_id);

/* For git_run: starts git in a group of its own with these descriptors. 0, or an errno. */
int git_start(const struct git_call *call, const int fds[3], pid_t *ret_pid);

/* For git_run: arguments and environment, in the arena; NULL when memory has run out. */
char *const *git_arguments(struct arena *arena, const struct git_call *call);
char *const *git_environment(struct arena *arena, const struct git_call *call, const char *marker);

#endif
