/*
 * Workspaces: where the steps of a job work. A workspace is a git worktree with a detached HEAD at
 * the commit the job starts from; a checkpoint is the patch from the tree of the previous
 * checkpoint to the tree of everything now in it (SH-7, SH-9, SH-10).
 *
 * Not a sandbox, and no copy of what git does not keep: ignored files, empty folders, and what
 * lies inside submodules and nested repositories (their commit is kept, as a pointer) are not in a
 * checkpoint; attributes such as `text` and filters apply as they do to a commit.
 *
 * A workspace NAME has two folders: NAME, the worktree, and NAME.tend, with an index and an object
 * store of its own. Hence:
 *   - the user's repository keeps its index, branches, stash, objects and uncommitted changes byte
 *     for byte; it gains an entry below worktrees/ as long as the workspace exists;
 *   - the index of the worktree belongs to the steps: what they stage stays as they staged it, and
 *     no checkpoint fails because they left a lock file there;
 *   - trees count, not HEAD: a step may commit, or move HEAD, and its patch is the same. After a
 *     replay HEAD is at the start commit, and all changes are there uncommitted.
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

#include <stdbool.h>
#include <stddef.h>

/* What went wrong, for the classifier: the same failure again on the next attempt, or not? */
enum workspace_problem {
    WORKSPACE_FINE,
    WORKSPACE_NOT_A_REPOSITORY,
    WORKSPACE_REF_MISSING,
    WORKSPACE_PATCH_REFUSED, /* a checkpoint does not apply */
    WORKSPACE_UNTAKEABLE,    /* holds something that git cannot keep, such as an unreadable file */
    WORKSPACE_TOO_LARGE,     /* the patch is larger than patch_max_bytes */
    WORKSPACE_NOT_ALLOWED,   /* git does not trust the owner of the repository, or no permission */
    WORKSPACE_GIT_MISSING,   /* no git command on this machine */
    WORKSPACE_OUT_OF_REACH,  /* the repository of another machine */
    WORKSPACE_BUSY,          /* other git processes kept us out for too long */
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
    const char *cache_folder; /* holds copies of repositories of other machines; made on demand */
    size_t patch_max_bytes;
    enum workspace_problem problem; /* why the last call failed; written by every call */
};

/* No limits but patch_max_bytes. */
void workspace_keeper_init(struct workspace_keeper *keeper, const char *cache_folder);

/* Where workspaces come from: a commit of a repository on this machine. */
struct workspace_source {
    char *git_folder; /* of the repository, or of the copy of another machine's */
    char commit[GIT_ID_BYTES];
};

/*
 * Finds the commit. repo is a folder (of a repository, a worktree or a bare repository), a URL or
 * host:path; the latter are fetched into the cache, unless ref is a full commit id that is already
 * there. ref is anything git understands as a commit; NULL or "": HEAD. Failures: see
 * keeper->problem; TEND_ENOTFOUND for not a repository, ref missing, git missing.
 */
int workspace_resolve(struct workspace_keeper *keeper, const char *repo, const char *ref,
                      struct workspace_source *ret_source, struct err *err);
void workspace_source_done(struct workspace_source *source);

struct workspace {
    char *folder;              /* the worktree: where steps run; an absolute path */
    char *private_folder;      /* folder + ".tend" */
    char *git_dir;             /* of the worktree, inside the repository */
    char *index_path;          /* as of the last checkpoint */
    char *object_folder;       /* objects made by checkpoints */
    char commit[GIT_ID_BYTES]; /* it started from */
    char tree[GIT_ID_BYTES];   /* of the last checkpoint; at first that of the commit */
};

/*
 * Makes a workspace with a name that no other has, below/workspace-0123456789abcdef. `below` is
 * made when it is not there. What a crashed worker left there is neither used nor in the way. On
 * failure nothing is left.
 */
int workspace_make(struct workspace_keeper *keeper, const struct workspace_source *source,
                   const char *below, struct workspace *ret_workspace, struct err *err);

/* Frees the memory; the workspace stays on the disk. */
void workspace_done(struct workspace *workspace);

/* Takes the workspace away, from the disk and from the repository. Does not call _done. */
int workspace_remove(struct workspace_keeper *keeper, const struct workspace *workspace,
                     struct err *err);

/*
 * Takes every workspace below the folder away, whole or half-made, so as a crashed worker left
 * them; other files stay. Returns how many. Not while somebody works there.
 */
int workspace_remove_all(struct workspace_keeper *keeper, const char *below, struct err *err);

struct workspace_file {
    char status;      /* A added, M modified, D deleted, T of another type */
    const char *path; /* from the top of the worktree; any bytes, not always UTF-8 */
};

/* From the tree of the last checkpoint to now. A renamed file is one deleted and one added. */
struct workspace_change {
    struct arena arena;      /* of files */
    struct buf patch;        /* for git apply; empty when nothing has changed */
    char hash[GIT_ID_BYTES]; /* of the patch; "" when nothing has changed */
    char tree[GIT_ID_BYTES];
    size_t file_count;
    struct workspace_file *files;
};
void workspace_change_done(struct workspace_change *change);

/* What has changed since the last checkpoint; takes none. */
int workspace_diff(struct workspace_keeper *keeper, struct workspace *workspace,
                   struct workspace_change *ret_change, struct err *err);

/* Only the hash, of a patch of any size: has a failed attempt changed anything? (SH-3) */
int workspace_diff_hash(struct workspace_keeper *keeper, struct workspace *workspace,
                        char ret_hash[GIT_ID_BYTES], struct err *err);

/* The same as workspace_diff, and the next change is counted from here. */
int workspace_checkpoint(struct workspace_keeper *keeper, struct workspace *workspace,
                         struct workspace_change *ret_change, struct err *err);

struct workspace_patch {
    const char *step; /* for messages */
    const void *data;
    size_t bytes; /* 0: the step changed nothing */
};

/*
 * Applies the patches in order to a workspace whose worktree is as the last checkpoint left it. A
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
