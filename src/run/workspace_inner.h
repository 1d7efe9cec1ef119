/* What the files of a workspace share among themselves; nobody else includes it. */
#ifndef RUN_WORKSPACE_INNER_H
#define RUN_WORKSPACE_INNER_H

#include "run/workspace.h"

/* --- workspace_problem.c: git, and what its failures mean --- */

/* Notes the problem and returns rc. */
int workspace_fail(struct workspace_keeper *keeper, enum workspace_problem problem, int rc);

/* As workspace_fail, by a code that came from files_… */
int workspace_file_fail(struct workspace_keeper *keeper, int rc);

/*
 * Runs git patiently under the keeper's limits and notes the problem when it fails. A failure that
 * is known by what git says comes back as TEND_ENOTFOUND for what is no repository, TEND_EREADONLY
 * where permission is missing.
 */
int workspace_git(struct workspace_keeper *keeper, struct git_call *call,
                  struct git_outcome *ret_outcome, struct err *err);

/* As above; git's output, which must be one line, goes to out without its end. */
int workspace_git_line(struct workspace_keeper *keeper, struct git_call *call,
                       struct git_outcome *ret_outcome, char *out, size_t size, struct err *err);

/* As above; git's output, of at most WORKSPACE_LIST_MAX_BYTES, is appended. */
int workspace_git_text(struct workspace_keeper *keeper, struct git_call *call, struct buf *out,
                       struct err *err);
enum { WORKSPACE_LIST_MAX_BYTES = 256 << 20 };

/* A call on the workspace by tend's own git folder: its index, its objects, no attributes. */
struct git_call workspace_call(const struct workspace *workspace, const char *const *args);

/* A call on the repository that belongs to the steps. */
struct git_call workspace_step_call(const struct workspace *workspace, const char *const *args);

/* --- workspace_folder.c: a git folder made without git --- */

struct git_folder {
    const char *path;
    const char *head;    /* a commit id, or "ref: …" */
    const char *borrows; /* a folder of objects to look into; NULL: none */
    const char *config;  /* further settings, as a file has them; NULL: none */
    bool bare; /* a copy: it outlives processes, so what is written is there whole or not at all */
    bool sha256;
};

/*
 * Makes the folder as `git init` does with an empty template. HEAD is written last, so that a
 * folder left by a crash is not taken for a repository. Fine when it is there.
 */
int workspace_make_git_folder(const struct git_folder *what, struct err *err);

/* Writes a file below a git folder with the folders it needs; nothing when the text is empty. */
int workspace_write_below(const char *git_folder, const char *name, const struct buf *text,
                          struct err *err);

/* --- workspace_source.c --- */

/* Whether repo names a repository of another machine. */
bool workspace_is_remote(const char *repo);

/* Whether ref is a full commit id. */
bool workspace_is_commit_id(const char *ref);

/* 0: found; 1: no such commit. In a folder of a repository, or by its git folder. */
int workspace_find_commit(struct workspace_keeper *keeper, const char *folder, const char *git_dir,
                          const char *name, char ret_commit[GIT_ID_BYTES], struct err *err);

/* The sentence for a ref that is not there, with the one that looks most like it. */
int workspace_ref_missing(struct workspace_keeper *keeper, const char *git_folder, const char *repo,
                          const char *ref, struct err *err);

/* workspace_local.c and workspace_remote.c: fill a source that is empty. */
int workspace_resolve_local(struct workspace_keeper *keeper, const char *repo, const char *ref,
                            struct workspace_source *source, struct err *err);
int workspace_resolve_remote(struct workspace_keeper *keeper, const char *url, const char *ref,
                             struct workspace_source *source, struct err *err);

/* --- workspace_mirror.c: the copies of repositories --- */

/* Setting of a fetch: what is in a copy is not fetched again, so it must not get lost. */
#define WORKSPACE_KEPT_SAFE "core.fsync=committed"

/* Brings a copy up to date. Called with the lock of the copy held. */
typedef int mirror_update(struct workspace_keeper *keeper, const char *folder, void *arg,
                          struct err *err);

/*
 * Makes the copy of the repository with this name when it is not there, and calls update.
 * TEND_EBUSY from update means that a killed git has left locks in the copy: it is given up, and
 * another one takes its place. *ret_folder is the caller's to free.
 */
int workspace_mirror(struct workspace_keeper *keeper, const char *name, bool sha256,
                     mirror_update *update, void *arg, char **ret_folder, struct err *err);

/* Whether there is a copy with this name that has the whole commit; *ret_folder as above. */
bool workspace_mirror_find(struct workspace_keeper *keeper, const char *name, const char *commit,
                           char **ret_folder);

/* A commit that is noted in a copy is there with all that belongs to it. */
bool workspace_mirror_knows(const char *folder, const char *commit);
int workspace_mirror_note(const char *folder, const char *commit, struct err *err);

/*
 * Gives up a copy in which objects are missing: it stays for those who borrow from it, and another
 * one takes its place. False: it cannot be written to, or workspace_mirror_doubt was called of it
 * within a day.
 */
bool workspace_mirror_give_up(struct workspace_keeper *keeper, const char *folder);

/* Notes that objects are missing in a copy that was made just now: the repository itself lacks
 * them, and another copy would not have them either. */
void workspace_mirror_doubt(const char *folder);

/* A file in each copy that tend has made, and in nothing else. */
#define WORKSPACE_COPY_MARK "tend-copy"

/* Whether tend has made the copy. */
bool workspace_mirror_is_own(const char *path);

/* Marks a copy as tend's; fine when it has the mark. */
int workspace_mirror_mark(const char *path, struct err *err);

/* Whether nobody has used the copy for 30 days. */
bool workspace_mirror_is_unused(const char *path);

/* Locks the copy until the descriptor is closed; -1 if another process has the lock. */
int workspace_mirror_try_lock(const char *path);

/* --- workspace_left.c --- */

/*
 * Notes in the cache folder that this process runs git, and ends what the git commands of dead
 * processes that had done so have left. Call before anything is written to a copy, with its lock.
 */
int workspace_end_left(struct workspace_keeper *keeper, const char *cache_folder, struct err *err);

/* --- workspace_link.c --- */

/*
 * Takes all objects of a store over into another one, as hard links, or as copies where links are
 * not possible. 1: all of them; 0: some could not be read, and git has to fetch them.
 */
int workspace_link_objects(struct workspace_keeper *keeper, const char *from, const char *to,
                           struct err *err);

/* --- workspace_refs.c: lists of refs, in the form of a packed-refs file --- */

/*
 * The refs of a repository below two prefixes (the second may be NULL), in git's order. Lines
 * "name target" of symbolic ones are appended to symbolic, which may be NULL.
 */
int workspace_refs_list(struct workspace_keeper *keeper, const char *git_folder,
                        const char *const prefixes[2], struct buf *refs, struct buf *symbolic,
                        struct err *err);

/* Copies a list with another beginning of all names. */
void workspace_refs_move(const struct buf *refs, const char *from, const char *to, struct buf *out);

/* Whether a ref of the list is this commit. */
bool workspace_refs_have(const struct buf *refs, const char *commit);

/* --- workspace_config.c: the user's configuration in a workspace --- */

struct repo_config {
    struct buf text;    /* for a file .git/config */
    struct buf ignores; /* of these, what says which files git ignores */
    char promisor[256]; /* the remote that has the objects a partial clone has not; "": whole */
};

/* What steps need of the configuration of a repository; see the file. Both are the caller's. */
int workspace_config_read(struct workspace_keeper *keeper, const char *repo, const char *git_folder,
                          struct repo_config *ret_config, struct err *err);

/* Appends one setting as a file has it; value may be NULL. */
void workspace_config_put(struct buf *out, const char *key, const char *value);

/* --- workspace_baseline.c --- */

/*
 * Brings tend's own index of a fresh workspace to the bytes that are on the disk, and
 * workspace->tree to their tree. Sets workspace->converts.
 */
int workspace_take_baseline(struct workspace_keeper *keeper, struct workspace *workspace,
                            struct err *err);

/* Whether a file of this name tells git how to treat others. */
bool workspace_is_attributes_file(const char *path);

/*
 * --- patch.c ---
 * The first line of a patch that was made where attributes may convert files. Earlier versions made
 * patches of what git would have committed, without this line; see patch_replay.c.
 */
#define PATCH_MARK "Bytes as on the disk: no conversion of line ends, encodings or filters.\n"

/* --- workspace_state.c --- */

/* Notes where the step's git stands, for workspace_begin_attempt. */
void workspace_note_state(struct workspace_keeper *keeper, struct workspace *workspace);

/* In the git folder of the steps: a line with the name of the workspace, by which tend knows that
 * it has made the folder. */
#define WORKSPACE_GIT_MARK "tend-workspace"

/* Whether all that git reads in an open git folder of a step is made of regular files. */
bool workspace_git_can_read(int git);

/* --- workspace_worktree.c: workspaces as they were made before they were repositories --- */

/* Takes the entry of such a workspace out of the repository it belonged to; fine when none. */
int workspace_forget_worktree(const char *folder, const char *private_folder, struct err *err);

#endif
