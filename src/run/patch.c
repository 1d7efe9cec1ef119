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

/* Git has no number for more in a patch; it fails with "malloc failed". */
#define FILE_MAX_BYTES INT32_MAX

enum { EXCLUDE_MAX_BYTES = 1 << 20, WARNING_CUT_BYTES = 4000 };

struct look {
    struct workspace_keeper *keeper;
    struct workspace *workspace;
    char index_path[PATH_MAX];
    char patch_path[PATH_MAX];
    char tree[GIT_ID_BYTES];
    bool plain_files; /* neither links nor submodules have changed */
    bool marked;      /* conversions may be at work: the patch says that it has the bytes */
    bool brief;       /* for people: files that are no text are named and not shown */
    char nested[WORKSPACE_NESTED_BYTES]; /* as in workspace_change */
};

/* What a step has told its own repository to ignore, as long as that is there. */
static void take_exclude(const struct workspace *workspace)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    struct stat status;
    snprintf(from, sizeof from, "%s/.git/info/exclude", workspace->folder);
    int len = snprintf(to, sizeof to, "%s/info/exclude", workspace->private_folder);
    if (len < PATH_MAX && lstat(from, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size <= EXCLUDE_MAX_BYTES)
        (void)files_copy(from, to, NULL);
}

static int look_init(struct look *look, struct workspace_keeper *keeper,
                     struct workspace *workspace, struct err *err)
{
    look->keeper = keeper;
    look->workspace = workspace;
    look->brief = false;
    look->nested[0] = '\0';
    keeper->problem = WORKSPACE_FINE;
    snprintf(look->index_path, PATH_MAX, "%s/index.next", workspace->private_folder);
    int len = snprintf(look->patch_path, PATH_MAX, "%s/patch", workspace->private_folder);
    if (len >= PATH_MAX - 16)
        return workspace_file_fail(
            keeper, files_fail(err, "using", workspace->private_folder, ENAMETOOLONG));
    if (!workspace_is_there(workspace))
        return workspace_fail(keeper, WORKSPACE_UNTAKEABLE,
                              err_set(err, TEND_EIO,
                                      "%s is not the workspace any more: a step has moved or "
                                      "replaced it",
                                      workspace->folder));
    /* What a killed git left; only this thread works here. */
    char lock_path[PATH_MAX + 8];
    snprintf(lock_path, sizeof lock_path, "%s.lock", look->index_path);
    int rc = files_remove(lock_path, err);
    if (rc == 0)
        rc = files_copy(workspace->index_path, look->index_path, err);
    if (rc == 0)
        take_exclude(workspace);
    return rc < 0 ? workspace_file_fail(keeper, rc) : 0;
}

static struct git_call look_call(const struct look *look, const char *const *args)
{
    struct git_call call = workspace_call(look->workspace, args);
    call.index_path = look->index_path;
    return call;
}

static void note_nested(struct look *look, const char *name, size_t len)
{
    size_t used = strlen(look->nested);
    snprintf(look->nested + used, sizeof look->nested - used, "%s%.*s", used > 0 ? ", " : "",
             (int)len, name);
}

/*
 * A nested repository without a commit has nothing git could point to, and is left out like an
 * empty folder: "error: 'NAME/' does not have a commit checked out".
 */
static void note_empty_repositories(struct look *look, const char *log)
{
    static const char begin[] = "error: '";
    static const char end[] = "/' does not have a commit checked out";
    for (const char *at = log; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        size_t around = strlen(begin) + strlen(end);
        if (len > around && strncmp(at, begin, strlen(begin)) == 0 &&
            strncmp(at + len - strlen(end), end, strlen(end)) == 0)
            note_nested(look, at + strlen(begin), len - around);
        at += len + (at[len] == '\n');
    }
}

/* Everything else that git cannot take is an error. */
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

/*
 * Git only warns of folders whose path is too long for it, and leaves out what is in them. It cuts
 * such a warning off before it says why.
 */
static bool left_deep_folders_out(const struct git_outcome *outcome)
{
    static const char warning[] = "warning: could not open directory '";
    for (const char *at = outcome->log; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        if (len >= WARNING_CUT_BYTES && strncmp(at, warning, strlen(warning)) == 0)
            return true;
        at += len + (at[len] == '\n');
    }
    return false;
}

static int add_everything(struct look *look, struct err *err)
{
    struct git_outcome outcome;
    struct git_call call =
        look_call(look, (const char *const[]){"add", "--all", "--ignore-errors", "--", ".", NULL});
    int rc = workspace_git(look->keeper, &call, &outcome, err);
    if (rc == 0 && left_deep_folders_out(&outcome))
        return workspace_fail(look->keeper, WORKSPACE_UNTAKEABLE,
                              err_set(err, TEND_EIO,
                                      "git cannot take folders so deep in %s; remove them, or name "
                                      "them in .gitignore",
                                      look->workspace->folder));
    if (rc == 0 || only_empty_repositories(&outcome)) {
        note_empty_repositories(look, outcome.log);
        return workspace_fail(look->keeper, WORKSPACE_FINE, 0);
    }
    if (outcome.end == GIT_FAILED && (look->keeper->problem == WORKSPACE_BROKEN ||
                                      look->keeper->problem == WORKSPACE_NOT_ALLOWED))
        look->keeper->problem = WORKSPACE_UNTAKEABLE;
    return rc;
}

/* Whether the step has a repository that git can read. */
static bool has_repository(const struct look *look)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/.git", look->workspace->folder);
    int git = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool has = git >= 0 && workspace_git_can_read(git);
    if (git >= 0)
        close(git);
    return has;
}

/*
 * Files that a step put under git's care although they are ignored (`git add -f`): they are in the
 * index of its repository, but in none of ours. When that cannot be read there is nothing to add.
 */
static int add_ignored_but_tracked(struct look *look, struct err *err)
{
    struct buf names;
    if (!has_repository(look))
        return 0;
    buf_init(&names);
    struct git_call list = workspace_step_call(
        look->workspace, (const char *const[]){"ls-files", "-z", "--cached", "--ignored",
                                               "--exclude-standard", NULL});
    list.limits = &look->keeper->limits;
    list.output = &names;
    list.output_max_bytes = WORKSPACE_LIST_MAX_BYTES;
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

/* Brings everything that is now in the workspace into the index. */
static int fill_index(struct look *look, struct err *err)
{
    int rc = add_everything(look, err);
    return rc < 0 ? rc : add_ignored_but_tracked(look, err);
}

static int write_tree(struct look *look, struct err *err)
{
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
    look->marked = look->workspace->converts;
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
        look->marked = look->marked || workspace_is_attributes_file(path);
        if (strncmp(at + 8, "160000", 6) == 0)
            note_nested(look, path, strlen(path));
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
    int rc = workspace_git_text(look->keeper, &call, &names, err);
    if (rc == 0)
        rc = split_names(look, &names, change, err);
    buf_done(&names);
    return rc;
}

/* The largest of the changed files; its size goes to *ret_bytes. "" when there is none. */
static const char *find_largest(const struct look *look, const struct workspace_change *change,
                                off_t *ret_bytes)
{
    const char *largest = "";
    *ret_bytes = 0;
    for (size_t i = 0; i < change->file_count; i++) {
        char path[2 * PATH_MAX];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s", look->workspace->folder, change->files[i].path);
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > *ret_bytes) {
            *ret_bytes = status.st_size;
            largest = change->files[i].path;
        }
    }
    return largest;
}

/* Another attempt would make the same file. */
static int refuse_large(struct look *look, const char *path, off_t bytes, struct err *err)
{
    return workspace_fail(
        look->keeper, WORKSPACE_TOO_LARGE,
        err_set(err, TEND_ELIMITED,
                "git cannot make a patch of the changes in %s: file %s has %lld bytes, and less "
                "than %lld are possible. Let git ignore what need not be kept",
                look->workspace->folder, path, (long long)bytes, (long long)FILE_MAX_BYTES));
}

/*
 * Into a file, for it may be large; the same text for the same two trees on every machine.
 *
 * A file that only moved is named twice and not shown (-M100%: no guessing about others), except
 * when links or submodules have changed as well: git apply does not see that a link which is
 * renamed makes room for a folder of its name.
 */
static int write_patch(struct look *look, const struct workspace_change *change, struct err *err)
{
    struct git_outcome outcome;
    off_t bytes;
    const char *largest = find_largest(look, change, &bytes);
    if (bytes >= FILE_MAX_BYTES && !look->brief)
        return refuse_large(look, largest, bytes, err);
    int fd = open(look->patch_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return workspace_file_fail(look->keeper,
                                   files_fail(err, "writing", look->patch_path, errno));
    struct git_call diff =
        look_call(look, (const char *const[]){"diff-tree",
                                              "-r",
                                              "-p",
                                              look->brief ? "--patch" : "--binary",
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
    int problem = look->marked ? files_write_all(fd, PATCH_MARK, strlen(PATCH_MARK)) : 0;
    int rc = problem != 0 ? workspace_file_fail(
                                look->keeper, files_fail(err, "writing", look->patch_path, problem))
                          : workspace_git(look->keeper, &diff, &outcome, err);
    close(fd);
    if (rc < 0 && problem == 0 && git_said(&outcome, "malloc failed"))
        return refuse_large(look, largest, bytes, err);
    return rc;
}

static int hash_patch(struct look *look, char ret_hash[GIT_ID_BYTES], struct err *err)
{
    struct git_call hash = look_call(
        look, (const char *const[]){"hash-object", "--no-filters", "--", look->patch_path, NULL});
    return workspace_git_line(look->keeper, &hash, NULL, ret_hash, GIT_ID_BYTES, err);
}

/* At most so many bytes; how many there are after these goes to *ret_unread. */
static int read_beginning(struct look *look, size_t most_bytes, struct buf *out,
                          int64_t *ret_unread, struct err *err)
{
    char chunk[65536];
    struct stat status = {0};
    ssize_t got = 1;
    int fd = open(look->patch_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        got = -1;
    while (got > 0 && out->len < most_bytes) {
        size_t room = most_bytes - out->len;
        got = read(fd, chunk, room < sizeof chunk ? room : sizeof chunk);
        if (got > 0)
            buf_append(out, chunk, (size_t)got);
    }
    int problem = got < 0 ? errno : out->failed ? ENOMEM : 0;
    if (fd >= 0)
        close(fd);
    if (problem != 0)
        return workspace_file_fail(look->keeper,
                                   files_fail(err, "reading", look->patch_path, problem));
    *ret_unread = (int64_t)status.st_size - (int64_t)out->len;
    return 0;
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
    int rc = files_read(look->patch_path, FILES_LARGE_BYTES, out, err);
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
    int rc = fill_index(look, err);
    if (rc == 0)
        rc = write_tree(look, err);
    memcpy(change.tree, look->tree, sizeof change.tree);
    if (rc == 0 && strcmp(look->tree, look->workspace->tree) != 0) {
        rc = list_files(look, &change, err);
        if (rc == 0)
            rc = write_patch(look, &change, err);
        if (rc == 0)
            rc = hash_patch(look, change.hash, err);
        if (rc == 0 && with_patch)
            rc = read_patch(look, &change.patch, err);
    }
    memcpy(change.nested, look->nested, sizeof change.nested);
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

/* Goes on with what git has taken when it could not take all. */
static int describe_briefly(struct look *look, size_t most_bytes, struct workspace_change *change,
                            struct err *err)
{
    int missing = fill_index(look, err);
    struct err *rest_err = missing < 0 ? NULL : err; /* the first reason counts */
    int rc = write_tree(look, rest_err);
    if (rc == 0 && strcmp(look->tree, look->workspace->tree) != 0) {
        memcpy(change->tree, look->tree, sizeof change->tree);
        rc = list_files(look, change, rest_err);
        if (rc == 0)
            rc = write_patch(look, change, rest_err);
        if (rc == 0)
            rc = read_beginning(look, most_bytes, &change->patch, &change->unread_bytes, rest_err);
    }
    return missing < 0 ? missing : rc;
}

int workspace_diff_briefly(struct workspace_keeper *keeper, struct workspace *workspace,
                           size_t most_bytes, struct workspace_change *ret_change, struct err *err)
{
    struct look look;
    *ret_change = (struct workspace_change){0};
    arena_init(&ret_change->arena);
    buf_init(&ret_change->patch);
    int rc = look_init(&look, keeper, workspace, err);
    look.brief = true;
    if (rc == 0)
        rc = describe_briefly(&look, most_bytes, ret_change, err);
    look_done(&look);
    return rc;
}

int workspace_diff_hash(struct workspace_keeper *keeper, struct workspace *workspace,
                        struct workspace_change *ret_change, struct err *err)
{
    struct look look;
    int rc = look_init(&look, keeper, workspace, err);
    if (rc == 0)
        rc = describe(&look, false, ret_change, err);
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
        workspace_note_state(keeper, workspace);
        *ret_change = change;
    }
    look_done(&look);
    return rc;
}
