/* See workspace.h: making a workspace and taking it away. */
#include "base/buf.h"
#include "base/rng.h"
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

#define NAME_START "workspace-"
#define PRIVATE_END ".tend"

/* In the private folder: which repository knows the worktree. Written before git is asked to make
 * it, removed last, so that a crash in between leaves nothing that cannot be taken away. */
#define REPOSITORY_FILE "repository"

static char *join(const char *folder, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

void workspace_done(struct workspace *workspace)
{
    free(workspace->folder);
    free(workspace->private_folder);
    free(workspace->git_dir);
    free(workspace->index_path);
    free(workspace->object_folder);
    *workspace = (struct workspace){0};
}

/* The file without the end of its line. */
static int read_line(const char *path, struct buf *out, struct err *err)
{
    int rc = files_read(path, out, err);
    while (rc == 0 && out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    return rc;
}

/* Whether an entry of a repository leads back to the folder. Half-made, it leads nowhere. */
static bool leads_elsewhere(const char *entry, const char *folder)
{
    char expected[PATH_MAX + 8];
    struct buf back;
    buf_init(&back);
    char *path = join(entry, "gitdir");
    snprintf(expected, sizeof expected, "%s/.git", folder);
    bool elsewhere = path == NULL || (read_line(path, &back, NULL) == 0 && back.len > 0 &&
                                      strcmp(back.data, expected) != 0);
    free(path);
    buf_done(&back);
    return elsewhere;
}

/*
 * Git calls the entry like the last part of the folder, whose name no other has. So it is found
 * without the .git file of the worktree, which a step may have removed, and also when git was
 * killed while it made it.
 */
static char *entry_of(const char *repository, const char *folder)
{
    char *path = NULL;
    /* Always there: the path is absolute. */
    const char *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    if (slash == NULL || asprintf(&path, "%s/worktrees%s", repository, slash) < 0)
        return NULL;
    return path;
}

static int remove_entry_of(const char *repository, const char *folder, struct err *err)
{
    char *entry = entry_of(repository, folder);
    char *entries = join(repository, "worktrees");
    int rc = entry == NULL || entries == NULL ? files_fail(err, "removing", folder, ENOMEM)
             : leads_elsewhere(entry, folder) ? 0
                                              : files_remove(entry, err);
    if (rc == 0 && entries != NULL)
        (void)rmdir(entries); /* fails while there are others, as it should */
    free(entries);
    free(entry);
    return rc;
}

/* The order lets a second call finish what a crash has interrupted. */
static int remove_folders(const char *folder, const char *private_folder, struct err *err)
{
    struct buf repository;
    buf_init(&repository);
    char *path = join(private_folder, REPOSITORY_FILE);
    int rc = files_remove(folder, err);
    if (rc == 0 && path != NULL && read_line(path, &repository, NULL) == 0)
        rc = remove_entry_of(repository.data, folder, err);
    if (rc == 0)
        rc = files_remove(private_folder, err);
    free(path);
    buf_done(&repository);
    return rc;
}

int workspace_remove(struct workspace_keeper *keeper, const struct workspace *workspace,
                     struct err *err)
{
    int rc = remove_folders(workspace->folder, workspace->private_folder, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : workspace_fail(keeper, WORKSPACE_FINE, 0);
}

/* folder without PRIVATE_END when it is the private folder of a workspace; else NULL. */
static char *worktree_of(const char *below, const char *name)
{
    size_t len = strlen(name);
    size_t end = strlen(PRIVATE_END);
    char *path = NULL;
    if (strncmp(name, NAME_START, strlen(NAME_START)) != 0 || len < end ||
        strcmp(name + len - end, PRIVATE_END) != 0)
        return NULL;
    return asprintf(&path, "%s/%.*s", below, (int)(len - end), name) < 0 ? NULL : path;
}

int workspace_remove_all(struct workspace_keeper *keeper, const char *below, struct err *err)
{
    int count = 0;
    int rc = 0;
    keeper->problem = WORKSPACE_FINE;
    char *absolute = files_absolute(below);
    DIR *dir = absolute != NULL ? opendir(absolute) : NULL;
    if (dir == NULL && errno != ENOENT)
        rc = files_fail(err, "opening folder", below, errno);
    for (struct dirent *entry; dir != NULL && rc == 0 && (entry = readdir(dir)) != NULL;) {
        char *folder = worktree_of(absolute, entry->d_name);
        char *private_folder = folder != NULL ? join(absolute, entry->d_name) : NULL;
        if (private_folder != NULL && (rc = remove_folders(folder, private_folder, err)) == 0)
            count++;
        free(private_folder);
        free(folder);
    }
    if (dir != NULL)
        closedir(dir);
    free(absolute);
    return rc < 0 ? workspace_file_fail(keeper, rc) : count;
}

/* Takes a name that nobody has anywhere; the private folder is the claim to it. */
static int claim_name(struct workspace *workspace, const char *below, struct err *err)
{
    struct rng rng;
    rng_seed_random(&rng);
    if (asprintf(&workspace->folder, "%s/" NAME_START "%016llx", below,
                 (unsigned long long)rng_u64(&rng)) < 0)
        workspace->folder = NULL;
    if (workspace->folder == NULL ||
        asprintf(&workspace->private_folder, "%s" PRIVATE_END, workspace->folder) < 0) {
        workspace->private_folder = NULL;
        return files_fail(err, "making a workspace below", below, ENOMEM);
    }
    if (mkdir(workspace->private_folder, 0777) < 0)
        return files_fail(err, "making folder", workspace->private_folder, errno);
    return 0;
}

/* An object store that looks into the repository's and keeps what is new to itself. */
static int make_object_store(const struct workspace *workspace, const char *repository,
                             struct err *err)
{
    char *info = join(workspace->object_folder, "info");
    char *alternates = join(workspace->object_folder, "info/alternates");
    char *objects = join(repository, "objects\n");
    int rc = info != NULL && alternates != NULL && objects != NULL
                 ? files_make_folder(info, err)
                 : files_fail(err, "making", workspace->object_folder, ENOMEM);
    if (rc == 0 && strchr(repository, '\n') != NULL)
        rc = err_set(err, TEND_EINVAL,
                     "%s has a line break in its name, which git cannot write down; rename it",
                     repository);
    if (rc == 0 && objects != NULL)
        rc = files_write(alternates, objects, strlen(objects), err);
    free(info);
    free(alternates);
    free(objects);
    return rc;
}

static int prepare_private_folder(struct workspace *workspace, const char *repository,
                                  struct err *err)
{
    workspace->index_path = join(workspace->private_folder, "index");
    workspace->object_folder = join(workspace->private_folder, "objects");
    char *path = join(workspace->private_folder, REPOSITORY_FILE);
    int rc = workspace->index_path != NULL && workspace->object_folder != NULL && path != NULL
                 ? files_write(path, repository, strlen(repository), err)
                 : files_fail(err, "making", workspace->private_folder, ENOMEM);
    free(path);
    return rc < 0 ? rc : make_object_store(workspace, repository, err);
}

static int add_worktree(struct workspace_keeper *keeper, struct workspace *workspace,
                        const struct workspace_source *source, struct err *err)
{
    struct git_call add = {.folder = source->git_folder,
                           .git_dir = source->git_folder,
                           .args = (const char *const[]){"worktree", "add", "--detach", "--",
                                                         workspace->folder, source->commit, NULL}};
    int rc = workspace_git(keeper, &add, NULL, err);
    if (rc < 0)
        return rc;
    workspace->git_dir = entry_of(source->git_folder, workspace->folder);
    /* The index git has just written knows the time and size of every file. */
    char *index = workspace->git_dir != NULL ? join(workspace->git_dir, "index") : NULL;
    rc = index != NULL ? files_copy(index, workspace->index_path, err)
                       : files_fail(err, "copying", workspace->index_path, ENOMEM);
    free(index);
    if (rc < 0)
        return workspace_file_fail(keeper, rc);
    char asked[GIT_ID_BYTES + 16];
    snprintf(asked, sizeof asked, "%s^{tree}", source->commit);
    struct git_call tree = {.git_dir = source->git_folder,
                            .args = (const char *const[]){"rev-parse", "--verify", asked, NULL}};
    return workspace_git_line(keeper, &tree, NULL, workspace->tree, sizeof workspace->tree, err);
}

int workspace_make(struct workspace_keeper *keeper, const struct workspace_source *source,
                   const char *below, struct workspace *ret_workspace, struct err *err)
{
    struct workspace workspace = {0};
    keeper->problem = WORKSPACE_FINE;
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
    rc = prepare_private_folder(&workspace, source->git_folder, err);
    if (rc < 0)
        workspace_file_fail(keeper, rc);
    else
        rc = add_worktree(keeper, &workspace, source, err);
    if (rc < 0) {
        (void)remove_folders(workspace.folder, workspace.private_folder, NULL);
        workspace_done(&workspace);
        return rc;
    }
    *ret_workspace = workspace;
    return 0;
}
