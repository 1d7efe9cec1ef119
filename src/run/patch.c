/*
 * See workspace.h: what has changed in a workspace, and changes made again in another one.
 *
 * Every look works on a copy of the index of the last checkpoint; a checkpoint puts the copy in its
 * place. So a look that fails, or is killed, has changed nothing.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

enum { NAMES_MAX_BYTES = 256 << 20 };

struct look {
    struct workspace_keeper *keeper;
    struct workspace *workspace;
    char index_path[PATH_MAX];
    char patch_path[PATH_MAX];
    char tree[GIT_ID_BYTES];
    bool plain_files; /* neither links nor submodules have changed */
};

static int look_init(struct look *look, struct workspace_keeper *keeper,
                     struct workspace *workspace, struct err *err)
{
    look->keeper = keeper;
    look->workspace = workspace;
    keeper->problem = WORKSPACE_FINE;
    snprintf(look->index_path, PATH_MAX, "%s/index.next", workspace->private_folder);
    int len = snprintf(look->patch_path, PATH_MAX, "%s/patch", workspace->private_folder);
    if (len >= PATH_MAX - 16)
        return workspace_file_fail(
            keeper, files_fail(err, "using", workspace->private_folder, ENAMETOOLONG));
    /* What a killed git left; only this thread works here. */
    char lock_path[PATH_MAX + 8];
    snprintf(lock_path, sizeof lock_path, "%s.lock", look->index_path);
    int rc = files_remove(lock_path, err);
    if (rc == 0)
        rc = files_copy(workspace->index_path, look->index_path, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : 0;
}

static struct git_call look_call(const struct look *look, const char *const *args)
{
    struct git_call call = workspace_call(look->workspace, args);
    call.index_path = look->index_path;
    return call;
}

/*
 * A nested repository without a commit has nothing git could point to, and is left out like an
 * empty folder. Everything else that git cannot take is an error.
 */
static bool only_empty_repositories(const struct git_outcome *outcome)
{
    static const char *const harmless[] = {"' does not have a commit checked out",
                                           "warning: ", "hint: ", "error: unable to index file '"};
    if (outcome->end != GIT_FAILED || outcome->status != 1 || outcome->log_cut ||
        !git_said(outcome, harmless[0]))
        return false;
    for (const char *at = outcome->log; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        bool fine = len == 0;
        for (size_t i = 1; i < 3; i++)
            fine = fine || strncmp(at, harmless[i], strlen(harmless[i])) == 0;
        size_t end = strlen(harmless[0]);
        fine = fine || (len > end && strncmp(at + len - end, harmless[0], end) == 0);
        /* The folder of a nested repository ends in a slash; a file does not. */
        fine = fine || (strncmp(at, harmless[3], strlen(harmless[3])) == 0 &&
                        strncmp(at + len - 2, "/'", 2) == 0);
        if (!fine)
            return false;
        at += len + (at[len] == '\n');
    }
    return true;
}

static int add_everything(struct look *look, struct err *err)
{
    struct git_outcome outcome;
    struct git_call call =
        look_call(look, (const char *const[]){"add", "--all", "--ignore-errors", "--", ".", NULL});
    int rc = workspace_git(look->keeper, &call, &outcome, err);
    if (rc == 0 || only_empty_repositories(&outcome))
        return workspace_fail(look->keeper, WORKSPACE_FINE, 0);
    if (outcome.end == GIT_FAILED && (look->keeper->problem == WORKSPACE_BROKEN ||
                                      look->keeper->problem == WORKSPACE_NOT_ALLOWED))
        look->keeper->problem = WORKSPACE_UNTAKEABLE;
    return rc;
}

/*
 * Files that a step put under git's care although they are ignored (`git add -f`): they are in the
 * index of the worktree, but in none of ours. That index belongs to the step; when it cannot be
 * read there is nothing to add.
 */
static int add_ignored_but_tracked(struct look *look, struct err *err)
{
    struct buf names;
    buf_init(&names);
    struct git_call list = workspace_call(
        look->workspace, (const char *const[]){"ls-files", "-z", "--cached", "--ignored",
                                               "--exclude-standard", NULL});
    list.limits = &look->keeper->limits;
    list.index_path = NULL;
    list.object_folder = NULL;
    list.output = &names;
    list.output_max_bytes = NAMES_MAX_BYTES;
    int rc = git_run(&list, NULL, NULL);
    if (rc == TEND_EINTERRUPTED)
        rc = workspace_fail(
            look->keeper, WORKSPACE_INTERRUPTED,
            err_set(err, rc, "interrupted while looking at %s", look->workspace->folder));
    else if (rc == 0 && names.len > 0) {
        struct git_call add =
            look_call(look, (const char *const[]){"update-index", "--add", "--remove", "--replace",
                                                  "-z", "--stdin", NULL});
        add.input = names.data;
        add.input_bytes = names.len;
        rc = workspace_git(look->keeper, &add, NULL, err);
    } else
        rc = 0;
    buf_done(&names);
    return rc;
}

/* The tree of everything that is now in the worktree. */
static int take_tree(struct look *look, struct err *err)
{
    int rc = add_everything(look, err);
    if (rc == 0)
        rc = add_ignored_but_tracked(look, err);
    if (rc < 0)
        return rc;
    /* A step may have pointed an entry at an object that is nowhere; the patch needs only ours. */
    struct git_call write = look_call(look, (const char *const[]){"write-tree", NULL});
    return workspace_git_line(look->keeper, &write, NULL, look->tree, sizeof look->tree, err);
}

static int out_of_memory(struct look *look, struct err *err)
{
    return workspace_fail(look->keeper, WORKSPACE_BROKEN,
                          err_set(err, TEND_ENOMEM, "out of memory while listing changes"));
}

static bool is_plain(const char *mode)
{
    return strncmp(mode, "100", 3) == 0 || strncmp(mode, "000", 3) == 0;
}

/* ":100644 100755 ID ID M\0path\0…" */
static int split_names(struct look *look, const struct buf *names, struct workspace_change *change,
                       struct err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < names->len; i++)
        count += names->data[i] == '\0';
    change->files = arena_alloc(&change->arena, (count / 2 + 1) * sizeof *change->files);
    if (change->files == NULL)
        return out_of_memory(look, err);
    look->plain_files = true;
    for (const char *at = names->data; at < names->data + names->len;) {
        size_t len = strlen(at);
        if (len < sizeof ":100644 100644 X X M" - 1)
            return workspace_fail(look->keeper, WORKSPACE_BROKEN,
                                  err_set(err, TEND_EIO, "git diff-tree answered \"%s\"", at));
        const char *path = at + len + 1;
        struct workspace_file *file = &change->files[change->file_count];
        *file = (struct workspace_file){at[len - 1], arena_strdup(&change->arena, path)};
        if (file->path == NULL)
            return out_of_memory(look, err);
        look->plain_files = look->plain_files && is_plain(at + 1) && is_plain(at + 8);
        change->file_count++;
        at = path + strlen(path) + 1;
    }
    return 0;
}

static int list_files(struct look *look, struct workspace_change *change, struct err *err)
{
    struct buf names;
    buf_init(&names);
    struct git_call call =
        look_call(look, (const char *const[]){"diff-tree", "-r", "-z", "--raw", "--no-renames",
                                              "--ignore-submodules=none", "--end-of-options",
                                              look->workspace->tree, look->tree, NULL});
    call.output = &names;
    call.output_max_bytes = NAMES_MAX_BYTES;
    int rc = workspace_git(look->keeper, &call, NULL, err);
    if (rc == 0)
        rc = split_names(look, &names, change, err);
    buf_done(&names);
    return rc;
}

/*
 * Into a file, for it may be large; the same text for the same two trees on every machine.
 *
 * A file that only moved is named twice and not shown (-M100%: no guessing about others), except
 * when links or submodules have changed as well: git apply does not see that a link which is
 * renamed makes room for a folder of its name.
 */
static int write_patch(struct look *look, char ret_hash[GIT_ID_BYTES], struct err *err)
{
    int fd = open(look->patch_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return workspace_file_fail(look->keeper,
                                   files_fail(err, "writing", look->patch_path, errno));
    struct git_call diff =
        look_call(look, (const char *const[]){"diff-tree",
                                              "-r",
                                              "-p",
                                              "--binary",
                                              "--full-index",
                                              look->plain_files ? "-M100%" : "--no-renames",
                                              "--no-ext-diff",
                                              "--no-textconv",
                                              "--no-color",
                                              "--diff-algorithm=myers",
                                              "--no-indent-heuristic",
                                              "--unified=3",
                                              "--src-prefix=a/",
                                              "--dst-prefix=b/",
                                              "--submodule=short",
                                              "--ignore-submodules=none",
                                              "--end-of-options",
                                              look->workspace->tree,
                                              look->tree,
                                              NULL});
    diff.output_fd = fd;
    int rc = workspace_git(look->keeper, &diff, NULL, err);
    close(fd);
    if (rc < 0)
        return rc;
    struct git_call hash = look_call(
        look, (const char *const[]){"hash-object", "--no-filters", "--", look->patch_path, NULL});
    return workspace_git_line(look->keeper, &hash, NULL, ret_hash, GIT_ID_BYTES, err);
}

static int read_patch(struct look *look, struct buf *out, struct err *err)
{
    struct stat status;
    if (stat(look->patch_path, &status) < 0)
        return workspace_file_fail(look->keeper,
                                   files_fail(err, "reading", look->patch_path, errno));
    if ((uintmax_t)status.st_size > look->keeper->patch_max_bytes)
        return workspace_fail(
            look->keeper, WORKSPACE_TOO_LARGE,
            err_set(err, TEND_ELIMITED,
                    "the changes in %s make a patch of %lld bytes; %zu are allowed. Let git ignore "
                    "what need not be kept",
                    look->workspace->folder, (long long)status.st_size,
                    look->keeper->patch_max_bytes));
    int rc = files_read(look->patch_path, out, err);
    return rc < 0 ? workspace_file_fail(look->keeper, rc) : 0;
}

void workspace_change_done(struct workspace_change *change)
{
    arena_done(&change->arena);
    buf_done(&change->patch);
}

static int describe(struct look *look, bool with_patch, struct workspace_change *ret_change,
                    struct err *err)
{
    struct workspace_change change = {0};
    arena_init(&change.arena);
    buf_init(&change.patch);
    int rc = take_tree(look, err);
    memcpy(change.tree, look->tree, sizeof change.tree);
    if (rc == 0 && strcmp(look->tree, look->workspace->tree) != 0) {
        rc = list_files(look, &change, err);
        if (rc == 0)
            rc = write_patch(look, change.hash, err);
        if (rc == 0 && with_patch)
            rc = read_patch(look, &change.patch, err);
    }
    if (rc < 0)
        workspace_change_done(&change);
    else
        *ret_change = change;
    return rc;
}

static void look_done(struct look *look)
{
    unlink(look->index_path);
    unlink(look->patch_path);
}

int workspace_diff(struct workspace_keeper *keeper, struct workspace *workspace,
                   struct workspace_change *ret_change, struct err *err)
{
    struct look look;
    int rc = look_init(&look, keeper, workspace, err);
    if (rc == 0)
        rc = describe(&look, true, ret_change, err);
    look_done(&look);
    return rc;
}

int workspace_diff_hash(struct workspace_keeper *keeper, struct workspace *workspace,
                        char ret_hash[GIT_ID_BYTES], struct err *err)
{
    struct look look;
    struct workspace_change change;
    int rc = look_init(&look, keeper, workspace, err);
    if (rc == 0)
        rc = describe(&look, false, &change, err);
    if (rc == 0) {
        memcpy(ret_hash, change.hash, sizeof change.hash);
        workspace_change_done(&change);
    }
    look_done(&look);
    return rc;
}

int workspace_checkpoint(struct workspace_keeper *keeper, struct workspace *workspace,
                         struct workspace_change *ret_change, struct err *err)
{
    struct look look;
    struct workspace_change change;
    int rc = look_init(&look, keeper, workspace, err);
    if (rc == 0)
        rc = describe(&look, true, &change, err);
    if (rc == 0 && rename(look.index_path, workspace->index_path) < 0) {
        rc =
            workspace_file_fail(keeper, files_fail(err, "replacing", workspace->index_path, errno));
        workspace_change_done(&change);
    }
    if (rc == 0) {
        memcpy(workspace->tree, look.tree, sizeof workspace->tree);
        *ret_change = change;
    }
    look_done(&look);
    return rc;
}
