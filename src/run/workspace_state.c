/*
 * See workspace.h: where a step's git stands when an attempt begins.
 *
 * An attempt after a failed one finds the files and the index as that one left them, but branches
 * and tags as they were when the step began, and HEAD without the commits of the failed attempt.
 * Otherwise a command that makes a branch or a commit would work once, and every later attempt
 * would fail for another reason than the first. Nothing is lost: what the failed attempt had made
 * stays below refs/tend/attempt-N/, where N counts the attempts of all steps in this workspace.
 *
 * Where HEAD goes. HEAD and files must fit together, or git refuses the next checkout.
 *   - On a branch that was there before: it stays, and the branch goes back.
 *   - All new commits lie on top of the commit the step began at: back to that one.
 *   - Else the attempt has gone to another commit, as `git checkout -b fix origin/release` does:
 *     it stays there, on no branch.
 *
 * Locks that a killed git has left are removed, because no process of the attempt is alive; so is a
 * merge or rebase that it has begun, together with the conflicts in the index. A step that begins
 * in the middle of a merge or rebase is left alone: the files of git that describe such a thing
 * belong together, and a step before has wanted it so.
 *
 * The repository belongs to the steps and may be broken or gone, or a link to one of the user's may
 * be in its place. Then nothing is done there, and the attempt runs into it; a fresh workspace
 * helps.
 */
#include "run/file_tree.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the private folder: copies of HEAD and the index, and a list of the refs. */
#define NOTED "noted-"

/* Each says that git is in the middle of something. */
static const char *const operations[] = {"MERGE_HEAD",   "CHERRY_PICK_HEAD", "REVERT_HEAD",
                                         "rebase-merge", "rebase-apply",     "sequencer",
                                         "BISECT_LOG"};

/* Further files of such operations; without those above they mean nothing. */
static const char *const leftovers[] = {"MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "REBASE_HEAD",
                                        "AUTO_MERGE"};

enum { PATH_ROOM = PATH_MAX + 64 };
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Git would wait for ever for what comes out of a FIFO. */
bool workspace_git_can_read(int git)
{
    static const char *const names[] = {"HEAD",
                                        "index",
                                        "config",
                                        "config.worktree",
                                        "commondir",
                                        "packed-refs",
                                        "shallow",
                                        "info/exclude",
                                        "info/grafts",
                                        "info/sparse-checkout",
                                        "info/attributes",
                                        "objects/info/alternates"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct stat status;
        if (fstatat(git, names[i], &status, 0) == 0 && !S_ISREG(status.st_mode))
            return false;
    }
    return true;
}

bool workspace_is_there(const struct workspace *workspace)
{
    struct stat status;
    return lstat(workspace->folder, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool has_mark(int git, const struct workspace *workspace)
{
    struct buf mark;
    buf_init(&mark);
    bool has = files_read_line_at(git, WORKSPACE_GIT_MARK, &mark) == 0 &&
               strcmp(mark.data, strrchr(workspace->folder, '/') + 1) == 0;
    buf_done(&mark);
    return has;
}

static int note_link(void *arg, int folder, const char *name)
{
    struct stat status;
    bool *any = arg;
    *any = *any ||
           (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode));
    return 0;
}

/* Whether git would write refs and their logs nowhere else. */
static bool keeps_refs(int git)
{
    bool links = false;
    const struct file_tree tree = {
        .open = file_tree_open, .file = note_link, .skips = true, .arg = &links};
    struct stat status;
    if (fstatat(git, "refs", &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode) ||
        faccessat(git, "commondir", F_OK, 0) == 0)
        return false;
    (void)note_link(&links, git, "logs");
    (void)file_tree_walk(git, "refs", &tree);
    (void)file_tree_walk(git, "logs", &tree);
    return !links;
}

/*
 * The git folder of the steps; -1: there is none, or it is not the one that tend made. A step may
 * have put a link there, or in place of the workspace, to the user's repository for instance, or
 * have made a repository of its own, which lacks the commits. All that is read and written by tend
 * itself is found from this descriptor.
 */
static int open_git(const struct workspace *workspace)
{
    int folder = open(workspace->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int git =
        folder < 0 ? -1 : openat(folder, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        close(folder);
    if (git < 0 || (has_mark(git, workspace) && keeps_refs(git) && workspace_git_can_read(git)))
        return git;
    close(git);
    return -1;
}

static void path_of_note(const struct workspace *workspace, const char *name, char out[PATH_ROOM])
{
    snprintf(out, PATH_ROOM, "%s/" NOTED "%s", workspace->private_folder, name);
}

static bool is_in_operation(int git)
{
    for (size_t i = 0; i < COUNT(operations); i++)
        if (faccessat(git, operations[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    return false;
}

static int list_refs(struct workspace_keeper *keeper, const struct workspace *workspace,
                     struct buf *refs)
{
    static const char *const everything[2] = {NULL};
    char git_folder[PATH_ROOM];
    snprintf(git_folder, sizeof git_folder, "%s/.git", workspace->folder);
    int rc = workspace_refs_list(keeper, git_folder, everything, refs, NULL, NULL);
    keeper->problem = WORKSPACE_FINE; /* whatever there is, it is the step's */
    return rc;
}

/* --- at the beginning of a step --- */

void workspace_note_state(struct workspace_keeper *keeper, struct workspace *workspace)
{
    char to[PATH_ROOM];
    struct buf refs;
    buf_init(&refs);
    workspace->begun = 0;
    path_of_note(workspace, "HEAD", to);
    (void)files_remove(to, NULL); /* it is written last, and without it nothing is put back */
    int git = open_git(workspace);
    int rc = git < 0 || is_in_operation(git) ? -1 : list_refs(keeper, workspace, &refs);
    if (rc == 0) {
        path_of_note(workspace, "refs", to);
        rc = files_write(to, refs.data, refs.len, NULL);
    }
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        const char *const names[] = {"index", "HEAD"};
        path_of_note(workspace, names[i], to);
        rc = files_copy_at(git, names[i], AT_FDCWD, to);
    }
    buf_done(&refs);
    if (git >= 0)
        close(git);
}

/* --- before another attempt --- */

static int remove_lock_file(void *arg, int folder, const char *name)
{
    (void)arg;
    size_t len = strlen(name);
    if (len > 5 && strcmp(name + len - 5, ".lock") == 0)
        unlinkat(folder, name, 0);
    return 0;
}

static void remove_locks(int git)
{
    static const char *const names[] = {"index.lock",       "HEAD.lock",    "config.lock",
                                        "packed-refs.lock", "shallow.lock", "gc.pid"};
    static const struct file_tree tree = {
        .open = file_tree_open, .file = remove_lock_file, .skips = true};
    for (size_t i = 0; i < COUNT(names); i++)
        unlinkat(git, names[i], 0);
    (void)file_tree_walk(git, "refs", &tree);
}

/* A line of a list: "ID NAME\n". */
struct ref_line {
    const char *at;
    int id_len, name_len;
};

static struct ref_line line_at(const char *at)
{
    int id_len = (int)strcspn(at, " \n");
    return (struct ref_line){at, id_len,
                             at[id_len] == ' ' ? (int)strcspn(at + id_len + 1, "\n") : 0};
}

static struct ref_line next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return line_at(end != NULL ? end + 1 : "");
}

static const char *name_of(struct ref_line line)
{
    return line.at + line.id_len + 1;
}

/* By the order of git; the end of a list comes after every name. */
static int compare(struct ref_line one, struct ref_line other)
{
    if (one.name_len == 0 || other.name_len == 0)
        return (one.name_len == 0) - (other.name_len == 0);
    size_t shorter = (size_t)(one.name_len < other.name_len ? one.name_len : other.name_len);
    int order = memcmp(name_of(one), name_of(other), shorter);
    return order != 0 ? order : (one.name_len > other.name_len) - (one.name_len < other.name_len);
}

static bool same_id(struct ref_line one, struct ref_line other)
{
    return one.id_len == other.id_len && memcmp(one.at, other.at, (size_t)one.id_len) == 0;
}

static bool is_branch_or_tag(struct ref_line line)
{
    return strncmp(name_of(line), "refs/heads/", 11) == 0 ||
           strncmp(name_of(line), "refs/tags/", 10) == 0;
}

/* The next branch or tag of a list, or its end. */
static struct ref_line next_named(const char *at)
{
    struct ref_line line = next_line(at);
    while (line.name_len > 0 && !is_branch_or_tag(line))
        line = next_line(line.at);
    return line;
}

/*
 * What update-ref has to do to bring branches and tags from one list to the other, in two
 * transactions: a branch a/b cannot be made in the one that deletes a.
 */
static void plan_refs(const struct buf *now, const struct buf *wanted, int attempt,
                      struct buf *away, struct buf *back)
{
    struct ref_line here = next_named(now->data); /* after the first line, which names no ref */
    struct ref_line there = next_named(wanted->data);
    while (here.name_len > 0 || there.name_len > 0) {
        int order = compare(here, there);
        if (order <= 0 && (order < 0 || !same_id(here, there)))
            buf_printf(away, "update refs/tend/attempt-%d/%.*s %.*s\n", attempt, here.name_len - 5,
                       name_of(here) + 5, here.id_len, here.at);
        if (order < 0)
            buf_printf(away, "option no-deref\ndelete %.*s\n", here.name_len, name_of(here));
        else if (order > 0 || !same_id(here, there))
            buf_printf(back, "option no-deref\nupdate %.*s %.*s\n", there.name_len, name_of(there),
                       there.id_len, there.at);
        if (order <= 0)
            here = next_named(here.at);
        if (order >= 0)
            there = next_named(there.at);
    }
}

/* What is put back, and what it is put back to. */
struct rewind {
    struct workspace_keeper *keeper;
    const struct workspace *workspace;
    int git;               /* see open_git */
    struct buf head;       /* as the file was noted */
    struct buf refs;       /* noted */
    struct buf now;        /* the refs as they are */
    char id[GIT_ID_BYTES]; /* of the commit that HEAD is at */
};

/* Git on the step's repository; output may be NULL. */
static int run_git(const struct rewind *rewind, const char *const *args, const struct buf *input,
                   struct buf *output)
{
    struct git_call call = workspace_step_call(rewind->workspace, args);
    call.limits = &rewind->keeper->limits;
    call.input = input != NULL ? input->data : NULL;
    call.input_bytes = input != NULL ? input->len : 0;
    call.output = output;
    call.output_max_bytes = WORKSPACE_LIST_MAX_BYTES;
    return git_run(&call, NULL, NULL);
}

/* The commit a name stands for. */
static int find_id(const struct rewind *rewind, const char *name, char out[GIT_ID_BYTES])
{
    struct buf line;
    buf_init(&line);
    int rc = run_git(rewind, (const char *const[]){"rev-parse", "--verify", "-q", name, NULL}, NULL,
                     &line);
    snprintf(out, GIT_ID_BYTES, "%.*s", (int)strcspn(line.data, "\n"), line.data);
    buf_done(&line);
    return rc;
}

/* Whether HEAD has commits that are new, and all of them on top of this one. */
static bool is_on_top_of(const struct rewind *rewind, const char *commit)
{
    struct buf tips;
    struct buf lines;
    bool new_ones = false;
    bool elsewhere = false;
    buf_init(&tips);
    buf_init(&lines);
    buf_printf(&tips, "%s\n^%s\n", rewind->id, commit);
    for (struct ref_line line = next_line(rewind->refs.data); line.name_len > 0;
         line = next_line(line.at))
        buf_printf(&tips, "^%.*s\n", line.id_len, line.at);
    int rc = run_git(rewind, (const char *const[]){"rev-list", "--boundary", "--stdin", NULL},
                     &tips, &lines);
    /* A boundary, with a "-" before it, is a commit that was there before. */
    for (struct ref_line line = line_at(lines.data); rc == 0 && line.id_len > 0;
         line = next_line(line.at)) {
        bool before = line.at[0] == '-';
        new_ones = new_ones || !before;
        elsewhere =
            elsewhere || (before && strncmp(line.at + 1, commit, (size_t)line.id_len - 1) != 0);
    }
    buf_done(&tips);
    buf_done(&lines);
    return rc == 0 && new_ones && !elsewhere;
}

/* Whether HEAD is a branch that was there when the step began. */
static bool is_on_old_branch(const struct rewind *rewind, const char *head)
{
    char line[PATH_MAX];
    if (strncmp(head, "ref: ", 5) != 0)
        return false;
    snprintf(line, sizeof line, " %s\n", head + 5);
    return strstr(rewind->refs.data, line) != NULL;
}

static void put_head_back(const struct rewind *rewind)
{
    char began_at[GIT_ID_BYTES];
    struct buf head;
    buf_init(&head);
    int problem = files_read_line_at(rewind->git, "HEAD", &head);
    if (problem != 0 || strcmp(head.data, rewind->head.data) == 0 ||
        is_on_old_branch(rewind, head.data))
        goto done;
    const char *noted = rewind->head.data;
    if (find_id(rewind, strncmp(noted, "ref: ", 5) == 0 ? noted + 5 : noted, began_at) < 0)
        goto done;
    buf_clear(&head);
    buf_printf(&head, "%s\n", is_on_top_of(rewind, began_at) ? noted : rewind->id);
    (void)files_write_at(rewind->git, "HEAD", head.data, head.len);
done:
    buf_done(&head);
}

/* After HEAD, which must not lead to a branch that goes. */
static void put_refs_back(const struct rewind *rewind)
{
    static const char *const update[] = {"update-ref", "--stdin", NULL};
    int attempt = rewind->workspace->attempts - 1;
    struct buf away;
    struct buf back;
    buf_init(&away);
    buf_init(&back);
    plan_refs(&rewind->now, &rewind->refs, attempt, &away, &back);
    if (away.len + back.len > 0)
        buf_printf(&away, "update refs/tend/attempt-%d/HEAD %s\n", attempt, rewind->id);
    if (away.len > 0 && !away.failed && !back.failed && run_git(rewind, update, &away, NULL) == 0 &&
        back.len > 0)
        (void)run_git(rewind, update, &back, NULL);
    buf_done(&away);
    buf_done(&back);
}

/* An operation that the attempt has begun, and what it left in the index. */
static void end_operation(const struct rewind *rewind)
{
    char from[PATH_ROOM];
    struct buf conflicts;
    buf_init(&conflicts);
    for (size_t i = 0; i < COUNT(operations); i++)
        (void)files_remove_at(rewind->git, operations[i]);
    for (size_t i = 0; i < COUNT(leftovers); i++)
        (void)files_remove_at(rewind->git, leftovers[i]);
    int rc =
        run_git(rewind, (const char *const[]){"ls-files", "--unmerged", NULL}, NULL, &conflicts);
    if (rc < 0 || conflicts.len > 0) {
        path_of_note(rewind->workspace, "index", from);
        (void)files_copy_at(AT_FDCWD, from, rewind->git, "index");
    }
    buf_done(&conflicts);
}

static void put_back(struct rewind *rewind)
{
    char path[PATH_ROOM];
    path_of_note(rewind->workspace, "refs", path);
    if (files_read(path, FILES_LARGE_BYTES, &rewind->refs, NULL) < 0 ||
        find_id(rewind, "HEAD", rewind->id) < 0 ||
        list_refs(rewind->keeper, rewind->workspace, &rewind->now) < 0)
        return;
    put_head_back(rewind);
    put_refs_back(rewind);
    end_operation(rewind);
}

static void remove_link(const struct workspace *workspace)
{
    struct stat status;
    if (lstat(workspace->folder, &status) == 0 && S_ISLNK(status.st_mode))
        unlink(workspace->folder);
}

void workspace_begin_attempt(struct workspace_keeper *keeper, struct workspace *workspace)
{
    char path[PATH_ROOM];
    struct rewind rewind = {.keeper = keeper, .workspace = workspace};
    workspace->attempts++;
    if (!workspace_is_there(workspace))
        remove_link(workspace);
    if (workspace->begun++ == 0)
        return;
    if ((rewind.git = open_git(workspace)) < 0)
        return;
    remove_locks(rewind.git);
    buf_init(&rewind.head);
    buf_init(&rewind.refs);
    buf_init(&rewind.now);
    path_of_note(workspace, "HEAD", path);
    if (files_read_line(path, &rewind.head, NULL) == 0)
        put_back(&rewind);
    close(rewind.git);
    buf_done(&rewind.head);
    buf_done(&rewind.refs);
    buf_done(&rewind.now);
}
