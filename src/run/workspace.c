/* See workspace.h: making a workspace and taking it away. */
#include "base/buf.h"
#include "base/rng.h"
#include "run/file_tree.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

#define NAME_START "workspace-"
#define PRIVATE_END ".tend"

static char *join(const char *folder, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

void workspace_done(struct workspace *workspace)
{
    free(workspace->folder);
    free(workspace->private_folder);
    free(workspace->index_path);
    *workspace = (struct workspace){0};
}

/* --- taking away --- */

/* The two folders of a workspace: their names in an open folder, and their paths. */
struct pair {
    int below; /* or AT_FDCWD; then the names are paths, too */
    const char *name, *private_name;
    const char *folder, *private_folder;
};

/* The private folder goes last: a second call finishes what a crash has interrupted. */
static int remove_folders(const struct pair *pair, struct err *err)
{
    int problem = files_remove_at(pair->below, pair->name);
    if (problem != 0)
        return files_fail(err, "removing", pair->folder, problem);
    int rc = workspace_forget_worktree(pair->folder, pair->private_folder, err);
    if (rc < 0)
        return rc;
    problem = files_remove_at(pair->below, pair->private_name);
    return problem == 0 ? 0 : files_fail(err, "removing", pair->private_folder, problem);
}

static int remove_by_path(const struct workspace *workspace, struct err *err)
{
    const char *folder = workspace->folder;
    const char *private_folder = workspace->private_folder;
    const struct pair pair = {AT_FDCWD, folder, private_folder, folder, private_folder};
    return remove_folders(&pair, err);
}

int workspace_remove(struct workspace_keeper *keeper, const struct workspace *workspace,
                     struct err *err)
{
    int rc = remove_by_path(workspace, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : workspace_fail(keeper, WORKSPACE_FINE, 0);
}

/* Whether it is the private folder of a workspace; out is the name of the workspace then. */
static bool is_private(const char *name, char out[NAME_MAX + 1])
{
    size_t len = strlen(name);
    size_t end = strlen(PRIVATE_END);
    if (strncmp(name, NAME_START, strlen(NAME_START)) != 0 || len < end ||
        strcmp(name + len - end, PRIVATE_END) != 0)
        return false;
    snprintf(out, NAME_MAX + 1, "%.*s", (int)(len - end), name);
    return true;
}

/* Whether it is a workspace, or its private folder; out is the name of the workspace then. */
static bool is_workspace(const char *name, char out[NAME_MAX + 1])
{
    if (is_private(name, out))
        return true;
    snprintf(out, NAME_MAX + 1, "%s", name);
    return strncmp(name, NAME_START, strlen(NAME_START)) == 0;
}

static int remove_in(int fd, const char *below, const char *name, const char *private_name,
                     struct err *err)
{
    char *folder = join(below, name);
    char *private_folder = join(below, private_name);
    const struct pair pair = {fd, name, private_name, folder, private_folder};
    int rc = folder != NULL && private_folder != NULL ? remove_folders(&pair, err)
                                                      : files_fail(err, "removing", name, ENOMEM);
    free(private_folder);
    free(folder);
    return rc;
}

/* Takes the folder. */
static int remove_all_in(DIR *dir, const char *below, struct err *err)
{
    int count = 0;
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL;) {
        char name[NAME_MAX + 1];
        char private_name[NAME_MAX + sizeof PRIVATE_END];
        if (!is_workspace(entry->d_name, name))
            continue;
        snprintf(private_name, sizeof private_name, "%s" PRIVATE_END, name);
        struct stat status; /* of one that was met by its other name before, nothing is there */
        bool there = fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
        rc = there ? remove_in(dirfd(dir), below, name, private_name, err) : 0;
        count += there && rc == 0;
    }
    closedir(dir);
    return rc < 0 ? rc : count;
}

/* The path of an open folder; "" where that cannot be told. */
static void path_of(int fd, char out[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, out, PATH_MAX - 1);
    out[len > 0 ? len : 0] = '\0';
}

int workspace_find_at(int fd, char out[PATH_MAX])
{
    int found = 0;
    DIR *dir = file_tree_list(fd);
    errno = 0; /* readdir tells an error from the end by it */
    for (struct dirent *entry; dir != NULL && found == 0 && (entry = readdir(dir)) != NULL;) {
        char name[NAME_MAX + 1];
        struct stat status;
        bool is_folder = is_workspace(entry->d_name, name) &&
                         fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                         S_ISDIR(status.st_mode);
        errno = 0;
        if (!is_folder)
            continue;
        path_of(fd, out);
        size_t len = strlen(out);
        bool fits = (size_t)snprintf(out + len, PATH_MAX - len, "/%s", name) < PATH_MAX - len;
        found = fits ? 1 : -1;
    }
    if (dir == NULL || (found == 0 && errno != 0))
        found = -1;
    if (dir != NULL)
        closedir(dir);
    return found;
}

int workspace_remove_all_at(struct workspace_keeper *keeper, int fd, struct err *err)
{
    char below[PATH_MAX];
    keeper->problem = WORKSPACE_FINE;
    path_of(fd, below);
    DIR *dir = file_tree_list(fd);
    int rc = dir == NULL ? files_fail(err, "opening folder", below, errno)
                         : remove_all_in(dir, below, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : rc;
}

int workspace_remove_at(struct workspace_keeper *keeper, int below,
                        const struct workspace *workspace, struct err *err)
{
    char path[PATH_MAX];
    path_of(below, path);
    const char *name = strrchr(workspace->folder, '/') + 1;
    const char *private_name = strrchr(workspace->private_folder, '/') + 1;
    int rc = remove_in(below, path, name, private_name, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : workspace_fail(keeper, WORKSPACE_FINE, 0);
}

int workspace_remove_all(struct workspace_keeper *keeper, const char *below, struct err *err)
{
    keeper->problem = WORKSPACE_FINE;
    int fd = open(below, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return workspace_file_fail(keeper, files_fail(err, "opening folder", below, errno));
    int rc = workspace_remove_all_at(keeper, fd, err);
    close(fd);
    return rc;
}

/* --- making --- */

/* Takes a name that nobody has anywhere; the private folder is the claim to it. */
static int claim_name(struct workspace *workspace, const char *below, struct err *err)
{
    struct rng rng;
    rng_seed_random(&rng);
    if (asprintf(&workspace->folder, "%s/" NAME_START "%016llx", below,
                 (unsigned long long)rng_u64(&rng)) < 0)
        workspace->folder = NULL;
    if (workspace->folder == NULL ||
        asprintf(&workspace->private_folder, "%s" PRIVATE_END, workspace->folder) < 0)
        workspace->private_folder = NULL;
    if (workspace->private_folder != NULL)
        workspace->index_path = join(workspace->private_folder, "index");
    if (workspace->private_folder == NULL || workspace->index_path == NULL)
        return files_fail(err, "making a workspace below", below, ENOMEM);
    if (mkdir(workspace->private_folder, 0777) < 0)
        return files_fail(err, "making folder", workspace->private_folder, errno);
    return 0;
}

/* Highest of all attributes: what the files say about themselves does not count. */
static const char no_attributes[] =
    "* !text !eol !crlf !ident !filter !working-tree-encoding !diff !whitespace\n";

/* What it holds lives no longer than the workspace: nothing is forced to the disk, or made small.
 */
static const char private_settings[] = "[core]\n\tfsync = none\n\tcompression = 1\n";

static int make_private_folder(const struct workspace *workspace,
                               const struct workspace_source *source, const char *objects,
                               struct err *err)
{
    struct buf attributes;
    struct buf config;
    buf_init(&attributes);
    buf_init(&config);
    buf_puts(&attributes, no_attributes);
    buf_puts(&config, private_settings);
    buf_puts(&config, source->ignores.data);
    const struct git_folder folder = {.path = workspace->private_folder,
                                      .head = "ref: refs/heads/none",
                                      .borrows = objects,
                                      .config = config.data,
                                      .sha256 = strlen(source->commit) == GIT_ID_BYTES - 1};
    int rc = workspace_make_git_folder(&folder, err);
    if (rc == 0)
        rc = workspace_write_below(folder.path, "info/attributes", &attributes, err);
    if (rc == 0)
        rc = workspace_write_below(folder.path, "info/exclude", &source->exclude, err);
    buf_done(&attributes);
    buf_done(&config);
    return rc;
}

/* A file for each; it counts more than the line of that name in packed-refs. */
static int write_symbolic_refs(const struct workspace_source *source, const char *git_folder,
                               struct err *err)
{
    struct buf target;
    int rc = 0;
    buf_init(&target);
    for (const char *at = source->symbolic_refs.data; rc == 0 && *at != '\0';) {
        char name[PATH_MAX];
        int name_len = (int)strcspn(at, " ");
        int len = (int)strcspn(at, "\n");
        snprintf(name, sizeof name, "%.*s", name_len, at);
        buf_clear(&target);
        buf_printf(&target, "ref: %.*s\n", len - name_len - 1, at + name_len + 1);
        rc = workspace_write_below(git_folder, name, &target, err);
        at += len + (at[len] == '\n');
    }
    buf_done(&target);
    return rc;
}

static int make_step_folder(const struct workspace *workspace,
                            const struct workspace_source *source, const char *objects,
                            struct err *err)
{
    char path[PATH_MAX];
    struct buf mark;
    if (snprintf(path, sizeof path, "%s/.git", workspace->folder) >= PATH_MAX)
        return files_fail(err, "making folder", workspace->folder, ENAMETOOLONG);
    buf_init(&mark);
    buf_printf(&mark, "%s\n", strrchr(workspace->folder, '/') + 1);
    const struct {
        const char *name;
        const struct buf *text;
    } files[] = {{WORKSPACE_GIT_MARK, &mark},
                 {"packed-refs", &source->refs},
                 {"info/exclude", &source->exclude},
                 {"info/attributes", &source->attributes},
                 {"shallow", &source->shallow}};
    const struct git_folder folder = {.path = path,
                                      .head = source->commit,
                                      .borrows = objects,
                                      .config = source->config.data,
                                      .sha256 = strlen(source->commit) == GIT_ID_BYTES - 1};
    int rc = workspace_make_git_folder(&folder, err);
    for (size_t i = 0; rc == 0 && i < sizeof files / sizeof *files; i++)
        rc = workspace_write_below(path, files[i].name, files[i].text, err);
    buf_done(&mark);
    return rc < 0 ? rc : write_symbolic_refs(source, path, err);
}

static int make_folders(const struct workspace *workspace, const struct workspace_source *source,
                        const char *objects, struct err *err)
{
    int rc = make_private_folder(workspace, source, objects, err);
    return rc < 0 ? rc : make_step_folder(workspace, source, objects, err);
}

static int check_out(struct workspace_keeper *keeper, struct workspace *workspace,
                     const struct workspace_source *source, const char *objects, struct err *err)
{
    struct git_call call = workspace_step_call(
        workspace, (const char *const[]){"read-tree", "-m", "-u", source->commit, NULL});
    /* What a partial clone lacks is fetched into the copy, for the next workspace too. */
    call.object_folder = source->partial ? objects : NULL;
    int rc = workspace_git(keeper, &call, NULL, err);
    if (rc < 0)
        return rc;
    char asked[GIT_ID_BYTES + 16];
    snprintf(asked, sizeof asked, "%s^{tree}", source->commit);
    struct git_call tree = {.git_dir = source->git_folder,
                            .args = (const char *const[]){"rev-parse", "--verify", asked, NULL}};
    rc = workspace_git_line(keeper, &tree, NULL, workspace->tree, sizeof workspace->tree, err);
    return rc < 0 ? rc : workspace_take_baseline(keeper, workspace, err);
}

static int fill(struct workspace_keeper *keeper, struct workspace *workspace,
                const struct workspace_source *source, struct err *err)
{
    char *objects = join(source->git_folder, "objects");
    int rc = objects != NULL ? make_folders(workspace, source, objects, err)
                             : files_fail(err, "making", workspace->folder, ENOMEM);
    if (rc < 0)
        workspace_file_fail(keeper, rc);
    else
        rc = check_out(keeper, workspace, source, objects, err);
    free(objects);
    return rc;
}

static int make_once(struct workspace_keeper *keeper, const struct workspace_source *source,
                     const char *below, struct workspace *ret_workspace, struct err *err)
{
    struct workspace workspace = {0};
    keeper->problem = WORKSPACE_FINE;
    keeper->misses_object = false;
    int rc = files_make_folder(below, err);
    char *absolute = rc == 0 ? files_absolute(below) : NULL;
    if (rc == 0 && absolute == NULL)
        rc = files_fail(err, "looking for", below, errno);
    if (rc == 0)
        rc = claim_name(&workspace, absolute, err);
    free(absolute);
    if (rc < 0) {
        workspace_done(&workspace);
        return workspace_file_fail(keeper, rc);
    }
    memcpy(workspace.commit, source->commit, sizeof workspace.commit);
    rc = fill(keeper, &workspace, source, err);
    if (rc < 0) {
        (void)remove_by_path(&workspace, NULL);
        workspace_done(&workspace);
        return rc;
    }
    workspace_note_state(keeper, &workspace);
    *ret_workspace = workspace;
    return 0;
}

/* From a copy made anew, in place of one in which objects are missing. */
static int make_again(struct workspace_keeper *keeper, const struct workspace_source *source,
                      const char *below, struct workspace *ret_workspace, struct err *err)
{
    struct workspace_source fresh;
    int rc = workspace_resolve(keeper, source->repo, source->commit, &fresh, err);
    if (rc < 0)
        return rc;
    rc = make_once(keeper, &fresh, below, ret_workspace, err);
    if (rc < 0 && keeper->misses_object)
        workspace_mirror_doubt(fresh.git_folder);
    workspace_source_done(&fresh);
    return rc;
}

int workspace_make(struct workspace_keeper *keeper, const struct workspace_source *source,
                   const char *below, struct workspace *ret_workspace, struct err *err)
{
    struct err own = {0};
    struct err *said = err != NULL ? err : &own;
    int rc = make_once(keeper, source, below, ret_workspace, said);
    if (rc == 0 || !keeper->misses_object)
        return rc;
    enum workspace_problem problem = keeper->problem;
    if (workspace_mirror_give_up(keeper, source->git_folder))
        rc = make_again(keeper, source, below, ret_workspace, said);
    else
        keeper->problem = problem;
    if (rc == 0)
        return 0;
    char sentence[sizeof said->text];
    snprintf(sentence, sizeof sentence, "%s", said->text);
    return err_set(said, rc, "%s; objects are missing in the copy of the repository, %s", sentence,
                   source->git_folder);
}
