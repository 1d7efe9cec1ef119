/*
 * Workspaces: where the steps of a job work. A workspace is a git repository of its own with a
 * detached HEAD at the commit the job starts from; a checkpoint is the patch from the tree of the
 * previous checkpoint to the tree of everything now in it (SH-7, SH-9, SH-10).
 *
 *      the user's repository          cache folder              a job's folder
 *      or a URL                       a copy of it              NAME/        files, and .git: refs,
 *           │  read only                  │  never loses            stash, config, hooks, index,
 *           └──── links, fetch ─────────▶ │  an object              new objects: the steps' own
 *                                         ├── borrows objects ◀─┤
 *                                         └── borrows objects ◀─┤  NAME.tend/   a git folder of
 *                                                                    tend's: what checkpoints need
 * Hence:
 *   - the user's repository is not written to, and nothing a step does to its refs, stash,
 *     configuration or objects reaches it or another job, except by a push;
 *   - what the user does meanwhile (a branch deleted, `git gc --prune=now`, the folder removed)
 *     takes nothing from a workspace;
 *   - checkpoints do not depend on .git: a step may lock, break or remove it;
 *   - trees count, not HEAD: a step may commit, or move HEAD, and its patch is the same. After a
 *     replay HEAD is at the start commit, and all changes are there uncommitted.
 *
 * A workspace made for people borrows nothing (workspace_own_objects).
 *
 * A copy, and not the user's own objects, for two reasons: git would remove objects there that a
 * workspace still needs, and there is no way to hold them without writing to that repository.
 *
 * Checkpoints are of the bytes on the disk. In tend's git folder all attributes are switched off,
 * so that neither line ends nor filters change what a step has left. Only the files of the start
 * commit are checked out as git does it, by fixed settings, so that they are the same on every
 * machine.
 *
 * Not a sandbox, and no copy of what git does not keep: ignored files, empty folders, and what
 * lies inside submodules and nested repositories (their commit is kept, as a pointer) are not in a
 * checkpoint.
 *
 * All calls block their thread; keeper->limits ends them early. One workspace is used by one thread
 * at a time; any number of workspaces of one repository may be in use.
 */
#ifndef RUN_WORKSPACE_H
#define RUN_WORKSPACE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/classify.h"
#include "run/git.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What went wrong, for the classifier: the same failure again on the next attempt, or not? */
enum workspace_problem {
    WORKSPACE_FINE,
    WORKSPACE_NOT_A_REPOSITORY,
    WORKSPACE_REF_MISSING,
    WORKSPACE_PATCH_REFUSED, /* a checkpoint does not apply */
    WORKSPACE_UNTAKEABLE,    /* holds something that git cannot keep, such as an unreadable file */
    WORKSPACE_TOO_LARGE,     /* a patch over patch_max_bytes, or a file too large for git */
    WORKSPACE_NOT_ALLOWED,  /* no permission, a transport git forbids, an owner it does not trust */
    WORKSPACE_GIT_MISSING,  /* no git command on this machine */
    WORKSPACE_OUT_OF_REACH, /* the repository of another machine */
    WORKSPACE_BUSY,         /* other git processes kept us out for too long */
    WORKSPACE_NO_SPACE,
    WORKSPACE_NO_MEANS,   /* no memory, process or descriptor for git or for a file */
    WORKSPACE_OWN_FOLDER, /* the folder for workspaces cannot be written to */
    WORKSPACE_INTERRUPTED,
    WORKSPACE_BROKEN, /* anything else: time over, killed, read and write errors */
};

/* "not_a_repository"…, for events and messages. */
const char *workspace_problem_name(enum workspace_problem problem);

/*
 * The evidence for core/classify.h: `ending`, and `declared` where no ending says it. Comes out as
 * deterministic_repo for the repository, its refs and patches; deterministic_policy where
 * permission is missing; deterministic_contract where git is, as for any missing command;
 * transient_runtime for the rest, which another time may heal.
 */
void workspace_problem_evidence(enum workspace_problem problem, struct evidence *evidence);

/* Whether this worker lacks something that another may have; nothing is wrong with the job then. */
bool workspace_problem_lacks(enum workspace_problem problem);

/* The name of that class; "" for WORKSPACE_FINE. */
const char *workspace_problem_class(enum workspace_problem problem);

#define WORKSPACE_PATCH_MAX_BYTES ((size_t)256 << 20)

/* How workspaces are made and what limits their commands; one per thread. */
struct workspace_keeper {
    struct git_limits limits;
    const char *cache_folder; /* holds the copies of repositories; made on demand */
    size_t patch_max_bytes;
    enum workspace_problem problem; /* why the last call failed; written by every call */
    bool misses_object;             /* ... because git did not find an object, or not whole */
};

/* No limits but patch_max_bytes. */
void workspace_keeper_init(struct workspace_keeper *keeper, const char *cache_folder);

/* Where workspaces come from: a commit of a repository, and what else a workspace is given. */
struct workspace_source {
    char *repo;       /* as it was asked for */
    char *git_folder; /* of the copy */
    char commit[GIT_ID_BYTES];
    struct buf refs;          /* as a packed-refs file */
    struct buf symbolic_refs; /* lines "name target" */
    struct buf config;        /* settings, as a file has them */
    struct buf ignores;       /* of these, what says which files git ignores */
    struct buf exclude;       /* for info/exclude */
    struct buf attributes;    /* for info/attributes */
    struct buf shallow;       /* where the history ends; empty: it is whole */
    bool partial;             /* some objects are fetched only when they are needed */
};

/*
 * Finds the commit and brings the copy of the repository up to date. repo is a folder (of a
 * repository, a worktree or a bare repository), a URL or host:path. ref is anything git understands
 * as a commit; NULL or "": HEAD. A full commit id that the copy has needs neither network nor
 * folder. Failures: see keeper->problem; TEND_ENOTFOUND for not a repository, ref missing, git
 * missing.
 */
int workspace_resolve(struct workspace_keeper *keeper, const char *repo, const char *ref,
                      struct workspace_source *ret_source, struct err *err);
void workspace_source_done(struct workspace_source *source);

struct workspace {
    char *folder;              /* where steps run, with their .git; an absolute path */
    char *private_folder;      /* folder + ".tend", a git folder of tend's own */
    char *index_path;          /* in there; as of the last checkpoint */
    char commit[GIT_ID_BYTES]; /* it started from */
    char tree[GIT_ID_BYTES];   /* of the last checkpoint; at first that of the files as they were */
    bool converts;             /* attributes may change the bytes of files, as eol=crlf does */
    int begun;                 /* attempts since it was made, or since the last checkpoint */
    int attempts;              /* since it was made */
};

/*
 * Makes a workspace with a name that no other has, below/workspace-0123456789abcdef. `below` is
 * made when it is not there. What a crashed worker left there is neither used nor in the way. On
 * failure nothing is left. Where objects are missing in the copy, another copy is made, once.
 */
int workspace_make(struct workspace_keeper *keeper, const struct workspace_source *source,
                   const char *below, struct workspace *ret_workspace, struct err *err);

/*
 * For a workspace that is given to people: it gets all objects of the copy for itself, as hard
 * links where that is possible, and borrows no more. It can be moved and cloned then, and outlives
 * the copy. Before anybody else works in it.
 */
int workspace_own_objects(struct workspace_keeper *keeper, const struct workspace *workspace,
                          struct err *err);

/* Frees the memory; the workspace stays on the disk. */
void workspace_done(struct workspace *workspace);

/* Takes the workspace away. Does not call _done. */
int workspace_remove(struct workspace_keeper *keeper, const struct workspace *workspace,
                     struct err *err);

/* The same by the folder it lies in, which is open: a step can put a link in the place of that. */
int workspace_remove_at(struct workspace_keeper *keeper, int below,
                        const struct workspace *workspace, struct err *err);

/*
 * Takes every workspace below the folder away, whole or half-made, so as a crashed worker left
 * them, those of earlier versions too; other files stay. Returns how many. Not while somebody works
 * there.
 */
int workspace_remove_all(struct workspace_keeper *keeper, const char *below, struct err *err);
/* The same in a folder that is open. */
int workspace_remove_all_at(struct workspace_keeper *keeper, int fd, struct err *err);

/* The path of a workspace in a folder that is open, any of them. 1: found, 0: there is none, -1:
 * that cannot be told. */
int workspace_find_at(int fd, char out[PATH_MAX]);

/* Whether its folder is there. A step may have moved it and put a link to one of the user's in its
 * place. False: another workspace is needed, and nothing is looked at through the link. */
bool workspace_is_there(const struct workspace *workspace);

/*
 * Call before each attempt. A link in place of the workspace goes, so that the attempt does not run
 * where it leads. After a failed one it puts branches and tags back to where they were
 * when the step began, and HEAD before the commits of that attempt; the files stay as they are.
 * Does what it can; see workspace_state.c.
 */
void workspace_begin_attempt(struct workspace_keeper *keeper, struct workspace *workspace);

enum { WORKSPACE_NESTED_BYTES = 300 };

struct workspace_file {
    char status;      /* A added, M modified, D deleted, T of another type */
    const char *path; /* from the top of the workspace; any bytes, not always UTF-8 */
};

/* From the tree of the last checkpoint to now. A renamed file is one deleted and one added. */
struct workspace_change {
    struct arena arena;      /* of files */
    struct buf patch;        /* for git apply; empty when nothing has changed */
    char hash[GIT_ID_BYTES]; /* of the patch; "" when nothing has changed */
    char tree[GIT_ID_BYTES];
    size_t file_count;
    struct workspace_file *files;
    int64_t unread_bytes; /* of the patch, after those in it; see workspace_diff_briefly */
    /* Repositories in the workspace that are new or have moved, as far as their names fit: what is
     * in them is in no patch. */
    char nested[WORKSPACE_NESTED_BYTES];
};
void workspace_change_done(struct workspace_change *change);

/* What has changed since the last checkpoint; takes none. */
int workspace_diff(struct workspace_keeper *keeper, struct workspace *workspace,
                   struct workspace_change *ret_change, struct err *err);

/*
 * The same for people, of changes of any size: the first most_bytes of a patch in which files that
 * are no text are named and not shown. *ret_change is filled in any case. On failure it has what
 * could be taken, maybe the files without a patch; there is no hash.
 */
int workspace_diff_briefly(struct workspace_keeper *keeper, struct workspace *workspace,
                           size_t most_bytes, struct workspace_change *ret_change, struct err *err);

/* The same without the patch, which may have any size: has a failed attempt changed anything?
 * (SH-3) */
int workspace_diff_hash(struct workspace_keeper *keeper, struct workspace *workspace,
                        struct workspace_change *ret_change, struct err *err);

/* The same as workspace_diff, and the next change is counted from here. */
int workspace_checkpoint(struct workspace_keeper *keeper, struct workspace *workspace,
                         struct workspace_change *ret_change, struct err *err);

struct workspace_patch {
    const char *step; /* for messages */
    const void *data;
    size_t bytes; /* 0: the step changed nothing */
};

/*
 * Applies the patches in order to a workspace whose files are as the last checkpoint left them. A
 * few dozen in one call cost hardly more than one.
 * When one does not apply: TEND_ECONFLICT, WORKSPACE_PATCH_REFUSED, *ret_failed (may be NULL) is
 * its number from 0; those before it have been applied, it has changed nothing, and the workspace
 * stays for inspection with the patch as refused.patch in its private folder. After any other
 * failure the workspace is as before, or half way when writing its files failed.
 */
int workspace_replay(struct workspace_keeper *keeper, struct workspace *workspace,
                     const struct workspace_patch *patches, size_t count, size_t *ret_failed,
                     struct err *err);

#endif
