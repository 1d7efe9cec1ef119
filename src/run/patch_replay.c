/*
 * See workspace.h: the changes of earlier steps made again in a fresh workspace (SH-7, SH-10).
 *
 * The patches are applied to a copy of the index first, many with one command; then the files are
 * brought to the tree that came out, each of them once, however many patches changed it. A command
 * that fails leaves the index as it was: its patches are then applied one by one to find the first
 * that is refused.
 *
 * Where attributes convert files, a patch of an earlier version is refused: it has the text that
 * git would have committed, and would silently make files with other line ends.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>
#include <unistd.h>

enum { BATCH_MAX = 64, BATCH_MAX_BYTES = 32 << 20 };

struct replay {
    struct workspace_keeper *keeper;
    struct workspace *workspace;
    const struct workspace_patch *patches;
    size_t count;
    char index_path[PATH_MAX];
    char path[BATCH_MAX][PATH_MAX]; /* of the patches of one batch */
};

/* --- one command --- */

static int write_patch_file(struct replay *replay, size_t slot, const struct workspace_patch *patch,
                            struct err *err)
{
    int len = snprintf(replay->path[slot], PATH_MAX, "%s/replay-%zu.patch",
                       replay->workspace->private_folder, slot);
    int rc = len >= PATH_MAX
                 ? files_fail(err, "using", replay->workspace->private_folder, ENAMETOOLONG)
                 : files_write(replay->path[slot], patch->data, patch->bytes, err);
    return rc < 0 ? workspace_file_fail(replay->keeper, rc) : 0;
}

/* 0: applied; 1: git refuses one of them, and nothing has changed; or an error. */
static int apply_files(struct replay *replay, size_t files, struct git_outcome *outcome,
                       struct err *err)
{
    const char *args[BATCH_MAX + 8] = {"apply", "--cached", "--binary", "--whitespace=nowarn",
                                       "--"};
    for (size_t i = 0; i < files; i++)
        args[5 + i] = replay->path[i];
    struct git_call call = workspace_call(replay->workspace, args);
    call.index_path = replay->index_path;
    int rc = workspace_git(replay->keeper, &call, outcome, err);
    bool refused =
        rc < 0 && outcome->end == GIT_FAILED && replay->keeper->problem == WORKSPACE_BROKEN;
    return refused ? 1 : rc;
}

/* Applies from first on, as many as fit; *ret_next is where the next batch starts. */
static int apply_batch(struct replay *replay, size_t first, size_t batch_max, size_t *ret_next,
                       struct git_outcome *outcome, struct err *err)
{
    size_t files = 0;
    size_t bytes = 0;
    size_t at = first;
    int rc = 0;
    for (; rc == 0 && at < replay->count && files < batch_max; at++) {
        const struct workspace_patch *patch = &replay->patches[at];
        if (patch->bytes == 0)
            continue;
        if (files > 0 && bytes + patch->bytes > BATCH_MAX_BYTES)
            break;
        rc = write_patch_file(replay, files++, patch, err);
        bytes += patch->bytes;
    }
    if (rc == 0 && files > 0)
        rc = apply_files(replay, files, outcome, err);
    for (size_t i = 0; i < files; i++)
        unlink(replay->path[i]);
    *ret_next = at;
    return rc;
}

/* --- all of them --- */

static int refuse(struct replay *replay, const struct workspace_patch *patch,
                  const struct git_outcome *outcome, struct err *err)
{
    char line[300];
    char path[PATH_MAX];
    git_telling_line(outcome, line, sizeof line);
    /* So that a person can look at it and try. */
    snprintf(path, sizeof path, "%s/refused.patch", replay->workspace->private_folder);
    (void)files_write(path, patch->data, patch->bytes, NULL);
    return workspace_fail(replay->keeper, WORKSPACE_PATCH_REFUSED,
                          err_set(err, TEND_ECONFLICT,
                                  "the patch of step %s does not apply: %s; workspace %s is kept",
                                  patch->step, line, replay->workspace->folder));
}

/* Whether the patch changes a file of attributes; each file begins with a line "diff --git a/…
 * b/…".
 */
static bool changes_attributes(const struct workspace_patch *patch)
{
    static const char head[] = "diff --git ";
    const char *end = (const char *)patch->data + patch->bytes;
    for (const char *at = patch->data; at != NULL && at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t len = line_end != NULL ? (size_t)(line_end - at) : (size_t)(end - at);
        char line[PATH_MAX];
        if (len > strlen(head) && strncmp(at, head, strlen(head)) == 0) {
            len -= at[len - 1] == '"'; /* of a name with strange bytes */
            snprintf(line, sizeof line, "%.*s", (int)len, at);
            if (workspace_is_attributes_file(line))
                return true;
        }
        at = line_end != NULL ? line_end + 1 : NULL;
    }
    return false;
}

static bool is_of_earlier_version(const struct replay *replay, const struct workspace_patch *patch)
{
    if (patch->bytes == 0 || (patch->bytes >= strlen(PATCH_MARK) &&
                              memcmp(patch->data, PATCH_MARK, strlen(PATCH_MARK)) == 0))
        return false;
    return replay->workspace->converts || changes_attributes(patch);
}

/* How many patches come before the first of an earlier version. */
static size_t count_acceptable(const struct replay *replay)
{
    size_t i = 0;
    while (i < replay->count && !is_of_earlier_version(replay, &replay->patches[i]))
        i++;
    return i;
}

static int refuse_earlier(struct replay *replay, const struct workspace_patch *patch,
                          struct err *err)
{
    return workspace_fail(replay->keeper, WORKSPACE_PATCH_REFUSED,
                          err_set(err, TEND_ECONFLICT,
                                  "the patch of step %s is of an earlier version of tend, which "
                                  "did not keep line ends where attributes convert them; add the "
                                  "job anew",
                                  patch->step));
}

/* *ret_done: how many patches are in the index, also on failure. */
static int apply_all(struct replay *replay, size_t *ret_done, struct err *err)
{
    size_t batch_max = BATCH_MAX;
    struct git_outcome outcome;
    for (*ret_done = 0; *ret_done < replay->count;) {
        size_t next;
        int rc = apply_batch(replay, *ret_done, batch_max, &next, &outcome, err);
        if (rc == 0)
            *ret_done = next;
        else if (rc == 1 && batch_max > 1)
            batch_max = 1;
        else if (rc == 1) {
            /* Empty ones before it in its batch of one are done, too. */
            *ret_done = next - 1;
            return refuse(replay, &replay->patches[next - 1], &outcome, err);
        } else
            return rc;
    }
    return 0;
}

/* Brings the files of the worktree, and the workspace's own index, to the tree of the copy. */
static int bring_to_tree(struct replay *replay, struct err *err)
{
    struct workspace *workspace = replay->workspace;
    char tree[GIT_ID_BYTES];
    struct git_call write = workspace_call(workspace, (const char *const[]){"write-tree", NULL});
    write.index_path = replay->index_path;
    int rc = workspace_git_line(replay->keeper, &write, NULL, tree, sizeof tree, err);
    if (rc < 0 || strcmp(tree, workspace->tree) == 0)
        return rc;
    struct git_call read = workspace_call(
        workspace, (const char *const[]){"read-tree", "-m", "-u", workspace->tree, tree, NULL});
    rc = workspace_git(replay->keeper, &read, NULL, err);
    if (rc == 0)
        memcpy(workspace->tree, tree, sizeof tree);
    return rc;
}

static int replay_init(struct replay *replay, struct err *err)
{
    const struct workspace *workspace = replay->workspace;
    char lock_path[PATH_MAX];
    int len = snprintf(replay->index_path, PATH_MAX, "%s/index.replay", workspace->private_folder);
    if (len >= PATH_MAX - 16)
        return files_fail(err, "using", workspace->private_folder, ENAMETOOLONG);
    /* Locks that a killed git left; only this thread works here. */
    snprintf(lock_path, sizeof lock_path, "%s.lock", workspace->index_path);
    int rc = files_remove(lock_path, err);
    snprintf(lock_path, sizeof lock_path, "%.*s.lock", len, replay->index_path);
    if (rc == 0)
        rc = files_remove(lock_path, err);
    return rc < 0 ? rc : files_copy(workspace->index_path, replay->index_path, err);
}

int workspace_replay(struct workspace_keeper *keeper, struct workspace *workspace,
                     const struct workspace_patch *patches, size_t count, size_t *ret_failed,
                     struct err *err)
{
    size_t done = 0;
    keeper->problem = WORKSPACE_FINE;
    while (done < count && patches[done].bytes == 0)
        done++;
    if (done == count)
        return 0;
    struct replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL)
        return workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    replay->keeper = keeper;
    replay->workspace = workspace;
    replay->patches = patches;
    replay->count = count;
    replay->count = count_acceptable(replay);
    int rc = replay_init(replay, err);
    if (rc < 0)
        workspace_file_fail(keeper, rc);
    else
        rc = apply_all(replay, &done, err);
    if (rc == 0 && replay->count < count)
        rc = refuse_earlier(replay, &patches[replay->count], err);
    if (rc == 0)
        rc = bring_to_tree(replay, err);
    else if (keeper->problem == WORKSPACE_PATCH_REFUSED) {
        (void)bring_to_tree(replay, NULL); /* those before it, for inspection */
        keeper->problem = WORKSPACE_PATCH_REFUSED;
        if (ret_failed != NULL)
            *ret_failed = done;
    }
    unlink(replay->index_path);
    free(replay);
    return rc;
}
