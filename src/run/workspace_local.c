/*
 * See workspace.h: repositories on this machine, by a folder.
 *
 * The user's repository is only read. Its copy keeps the refs below refs/user/. When the refs of
 * both are the same there is nothing to do. A copy that is new takes the objects over as hard
 * links, which costs little for any history; later, git fetches what is new. A shallow or partial
 * repository cannot be fetched from, because the other side misses what it lacks: there, objects
 * are linked each time.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

#define KEPT_BELOW "refs/user/"

struct local {
    const char *git_folder; /* of the user's repository */
    const char *kept;       /* a copy that has the commit; NULL: none does */
    struct workspace_source *source;
    struct buf refs; /* as the user has them; those of the copy go to the source */
    struct buf shallow;
    char promisor[256];
};

/* A file that most repositories do not have: then nothing is appended. */
static int read_below(struct workspace_keeper *keeper, const char *folder, const char *name,
                      struct buf *out, struct err *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int rc = files_read_linked(path, FILES_LARGE_BYTES, out, err);
    return rc == 0 || rc == TEND_ENOTFOUND ? 0 : workspace_file_fail(keeper, rc);
}

/* The same for one that may also be a device, as a link to /dev/null: that says nothing. */
static int read_rules(struct workspace_keeper *keeper, const char *folder, const char *name,
                      struct buf *out, struct err *err)
{
    char path[PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return 0;
    return read_below(keeper, folder, name, out, err);
}

/* --- the copy --- */

/* The refspecs end with NULL. */
static int fetch(struct workspace_keeper *keeper, const struct local *local, const char *folder,
                 const char *const refspecs[], struct err *err)
{
    static const char *const settings[] = {
        WORKSPACE_KEPT_SAFE, "protocol.version=2", /* any commit, by its id */
        "protocol.file.allow=always", "fetch.fsckObjects=false", NULL};
    /* The user has trusted the folder already, maybe by the name of its working copy, which is
     * not the one that the other side of a fetch checks. */
    static const char *const fixed[] = {"fetch",
                                        "--quiet",
                                        "--force",
                                        "--prune",
                                        "--no-tags",
                                        "--update-shallow",
                                        "--no-write-fetch-head",
                                        "--upload-pack=git -c safe.directory=* upload-pack",
                                        "--"};
    enum { FIXED = sizeof fixed / sizeof *fixed, REFSPECS_MAX = 8 };
    const char *args[FIXED + 1 + REFSPECS_MAX + 1];
    size_t count = FIXED;
    memcpy(args, fixed, sizeof fixed);
    args[count++] = local->git_folder;
    for (size_t i = 0; i < REFSPECS_MAX && refspecs[i] != NULL; i++)
        args[count++] = refspecs[i];
    args[count] = NULL;
    struct git_call call = {.folder = folder,
                            .git_dir = folder,
                            .args = args,
                            .settings = settings,
                            .this_machine = true};
    return workspace_git(keeper, &call, NULL, err);
}

static int fetch_refs(struct workspace_keeper *keeper, const struct local *local,
                      const char *folder, struct err *err)
{
    return fetch(keeper, local, folder,
                 (const char *const[]){"+refs/*:" KEPT_BELOW "*", "^refs/stash", "^refs/bisect/*",
                                       "^refs/worktree/*", "^refs/rewritten/*", NULL},
                 err);
}

/* The refs of the copy, by the names that the user gave them. */
static int list_copy(struct workspace_keeper *keeper, const char *folder, struct buf *refs,
                     struct err *err)
{
    static const char *const below[2] = {KEPT_BELOW};
    struct buf kept;
    buf_init(&kept);
    int rc = workspace_refs_list(keeper, folder, below, &kept, NULL, err);
    if (rc == 0)
        workspace_refs_move(&kept, KEPT_BELOW, "refs/", refs);
    if (rc == 0 && refs->failed)
        rc = workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    buf_done(&kept);
    return rc;
}

static bool has_the_refs(const struct local *local)
{
    return strcmp(local->refs.data, local->source->refs.data) == 0;
}

/* 1: the histories of both end at the same commits; 0: they do not. */
static int has_the_limits(struct workspace_keeper *keeper, const struct local *local,
                          const char *folder, struct err *err)
{
    struct buf kept;
    buf_init(&kept);
    int rc = read_below(keeper, folder, "shallow", &kept, err);
    if (rc == 0)
        rc = strcmp(kept.data, local->shallow.data) == 0;
    buf_done(&kept);
    return rc;
}

/* Links from one store, with those before; as workspace_link_objects. */
static int link_store(struct workspace_keeper *keeper, const char *store, const char *folder,
                      int before, struct err *err)
{
    char to[PATH_MAX + 16];
    snprintf(to, sizeof to, "%s/objects", folder);
    int rc = workspace_link_objects(keeper, store, to, err);
    return rc == 1 ? before : rc;
}

/*
 * The stores that the user's repository borrows from come first: an object may move from there
 * into its own meanwhile, and not the other way.
 */
static int link_all(struct workspace_keeper *keeper, const struct local *local, const char *folder,
                    struct err *err)
{
    char own[PATH_MAX];
    struct buf list;
    buf_init(&list);
    struct git_call call = {.folder = local->git_folder,
                            .git_dir = local->git_folder,
                            .args = (const char *const[]){"count-objects", "-v", NULL}};
    int rc = workspace_git_text(keeper, &call, &list, err);
    int all = 1;
    char *saved = NULL;
    for (char *line = rc == 0 ? strtok_r(list.data, "\n", &saved) : NULL; rc >= 0 && line != NULL;
         line = strtok_r(NULL, "\n", &saved))
        if (strncmp(line, "alternate: /", 12) == 0)
            rc = all = link_store(keeper, line + 11, folder, all, err);
        else if (strncmp(line, "alternate: ", 11) == 0)
            all = 0; /* a name that is quoted */
    buf_done(&list);
    snprintf(own, sizeof own, "%s/objects", local->git_folder);
    return rc < 0 ? rc : link_store(keeper, own, folder, all, err);
}

/* Where the history of a shallow repository ends, and who has what a partial one has not. */
static int take_limits(const struct local *local, const char *folder, struct err *err)
{
    char path[PATH_MAX + 16];
    struct buf config;
    snprintf(path, sizeof path, "%s/shallow", folder);
    int rc = local->shallow.len == 0
                 ? files_remove(path, err)
                 : files_replace(path, local->shallow.data, local->shallow.len, err);
    if (rc < 0 || local->promisor[0] == '\0')
        return rc;
    char key[sizeof local->promisor + 32];
    buf_init(&config);
    snprintf(key, sizeof key, "remote.%s.promisor", local->promisor);
    workspace_config_put(&config, key, "true");
    const struct git_folder copy = {.path = folder,
                                    .head = "ref: refs/heads/none",
                                    .config = config.data,
                                    .bare = true,
                                    .sha256 = strlen(local->source->commit) == GIT_ID_BYTES - 1};
    rc = workspace_make_git_folder(&copy, err);
    buf_done(&config);
    return rc;
}

/* Gives a copy that has all objects the refs, without a fetch. Those git wrote into files of their
 * own would count more. */
static int write_refs(const struct local *local, const char *folder, struct err *err)
{
    char path[PATH_MAX + 16];
    struct buf kept;
    buf_init(&kept);
    workspace_refs_move(&local->refs, "refs/", KEPT_BELOW, &kept);
    snprintf(path, sizeof path, "%s/packed-refs", folder);
    int rc = kept.failed ? files_fail(err, "writing", path, ENOMEM)
                         : files_replace(path, kept.data, kept.len, err);
    buf_done(&kept);
    snprintf(path, sizeof path, "%s/" KEPT_BELOW, folder);
    return rc < 0 ? rc : files_remove(path, err);
}

/*
 * Brings the copy up to date by links alone. A fetch into a new copy would walk through the whole
 * history to find that nothing is missing.
 */
static int link_copy(struct workspace_keeper *keeper, const struct local *local, const char *folder,
                     struct err *err)
{
    int all = link_all(keeper, local, folder, err);
    if (all < 0)
        return all;
    int rc = take_limits(local, folder, err);
    if (rc == 0 && all == 1)
        rc = write_refs(local, folder, err);
    if (rc < 0)
        return workspace_file_fail(keeper, rc);
    return list_copy(keeper, folder, &local->source->refs, err);
}

/* By a fetch, which brings no more than what is new. */
static int fetch_copy(struct workspace_keeper *keeper, const struct local *local,
                      const char *folder, struct err *err)
{
    int rc = fetch_refs(keeper, local, folder, err);
    if (rc == 0)
        return list_copy(keeper, folder, &local->source->refs, err);
    /* The other side of a fetch stumbles over refs that are broken; for others they are not there.
     */
    if (keeper->problem != WORKSPACE_BROKEN || link_copy(keeper, local, folder, NULL) < 0 ||
        !has_the_refs(local))
        return rc;
    return workspace_fail(keeper, WORKSPACE_FINE, 0);
}

/*
 * The commit, where no branch or tag is at it, as with HEAD~1 and a detached HEAD. A copy that
 * another one has replaced may have it where the user has it no longer.
 */
static int take_commit(struct workspace_keeper *keeper, const struct local *local,
                       const char *folder, struct err *err)
{
    const char *commit = local->source->commit;
    struct local from = *local;
    int rc = 0;
    if (workspace_mirror_knows(folder, commit))
        return 0;
    if (local->kept != NULL)
        from.git_folder = local->kept;
    if (!workspace_refs_have(&local->source->refs, commit) &&
        (rc = fetch(keeper, &from, folder, (const char *const[]){commit, NULL}, err)) < 0)
        return rc;
    rc = workspace_mirror_note(folder, commit, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : 0;
}

static int update(struct workspace_keeper *keeper, const char *folder, void *arg, struct err *err)
{
    struct local *local = arg;
    struct buf *refs = &local->source->refs;
    int rc = list_copy(keeper, folder, refs, err);
    if (rc < 0)
        return rc;
    bool is_new = strchr(refs->data, '\n') == refs->data + refs->len - 1;
    int same_limits = has_the_limits(keeper, local, folder, err);
    if (same_limits < 0)
        return same_limits;
    bool odd = local->shallow.len > 0 || local->promisor[0] != '\0';
    if (same_limits == 0 || (!has_the_refs(local) && (is_new || odd)))
        rc = link_copy(keeper, local, folder, err);
    if (rc == 0 && !has_the_refs(local))
        rc = fetch_copy(keeper, local, folder, err);
    return rc < 0 ? rc : take_commit(keeper, local, folder, err);
}

/* --- the repository --- */

/* Git LFS looks for large files beside the objects that a repository borrows. */
static void share_large_files(const char *git_folder, const char *copy)
{
    char from[PATH_MAX + 16];
    char to[PATH_MAX + 16];
    snprintf(from, sizeof from, "%s/lfs", git_folder);
    snprintf(to, sizeof to, "%s/lfs", copy);
    if (access(from, F_OK) == 0)
        (void)!symlink(from, to); /* there already, mostly */
}

static int fill_source(struct workspace_keeper *keeper, const char *repo, const char *git_folder,
                       const char *kept, struct workspace_source *source, struct err *err)
{
    static const char *const everything[2] = {NULL};
    struct local local = {.git_folder = git_folder, .kept = kept, .source = source};
    struct repo_config config;
    int rc = workspace_config_read(keeper, repo, git_folder, &config, err);
    if (rc < 0)
        return rc;
    source->config = config.text;
    source->ignores = config.ignores;
    source->partial = config.promisor[0] != '\0';
    memcpy(local.promisor, config.promisor, sizeof local.promisor);
    buf_init(&local.refs);
    buf_init(&local.shallow);
    rc = read_below(keeper, git_folder, "shallow", &local.shallow, err);
    if (rc == 0)
        rc = workspace_refs_list(keeper, git_folder, everything, &local.refs,
                                 &source->symbolic_refs, err);
    if (rc == 0)
        rc = workspace_mirror(keeper, git_folder, strlen(source->commit) == GIT_ID_BYTES - 1,
                              update, &local, &source->git_folder, err);
    buf_done(&local.refs);
    buf_done(&local.shallow);
    if (rc == 0)
        rc = read_rules(keeper, git_folder, "info/exclude", &source->exclude, err);
    if (rc == 0)
        rc = read_rules(keeper, git_folder, "info/attributes", &source->attributes, err);
    if (rc == 0)
        rc = read_below(keeper, source->git_folder, "shallow", &source->shallow, err);
    if (rc == 0)
        share_large_files(git_folder, source->git_folder);
    return rc;
}

/* Looks for the copy of a folder that is gone, by the names its git folder may have had. */
static bool find_copy(struct workspace_keeper *keeper, const char *repo, const char *commit,
                      char **ret_folder)
{
    static const char *const kinds[] = {"/.git", ""};
    char here[PATH_MAX] = "";
    char name[2 * PATH_MAX + 8];
    bool relative = repo[0] != '/';
    if (strlen(repo) >= PATH_MAX || (relative && getcwd(here, sizeof here) == NULL))
        return false;
    int len = (int)strlen(repo);
    while (len > 1 && repo[len - 1] == '/')
        len--;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(name, sizeof name, "%s%s%.*s%s", here, relative ? "/" : "", len, repo, kinds[i]);
        if (workspace_mirror_find(keeper, name, commit, ret_folder))
            return true;
    }
    return false;
}

/* A job that has begun goes on with the copy when the folder is gone. */
static int resolve_gone(struct workspace_keeper *keeper, const char *repo, const char *ref,
                        struct workspace_source *source, struct err *err)
{
    if (!workspace_is_commit_id(ref) || !find_copy(keeper, repo, ref, &source->git_folder)) {
        err_set(err, TEND_ENOTFOUND, "%s is not a git repository: there is no such folder", repo);
        return workspace_fail(keeper, WORKSPACE_NOT_A_REPOSITORY, TEND_ENOTFOUND);
    }
    snprintf(source->commit, sizeof source->commit, "%s", ref);
    int rc = read_below(keeper, source->git_folder, "shallow", &source->shallow, err);
    return rc < 0 ? rc : list_copy(keeper, source->git_folder, &source->refs, err);
}

/*
 * A commit that a job began with stays in the copy, also when the user has rewritten his history
 * since and git has removed it from his repository.
 */
static int resolve_in(struct workspace_keeper *keeper, const char *repo, const char *git_folder,
                      const char *ref, struct workspace_source *source, struct err *err)
{
    char *kept = NULL;
    int rc = 0;
    if (workspace_is_commit_id(ref) && workspace_mirror_find(keeper, git_folder, ref, &kept))
        snprintf(source->commit, sizeof source->commit, "%s", ref);
    else
        rc = workspace_find_commit(keeper, repo, NULL, ref, source->commit, err);
    if (rc == 0)
        rc = fill_source(keeper, repo, git_folder, kept, source, err);
    free(kept);
    return rc == 1 ? workspace_ref_missing(keeper, git_folder, repo, ref, err) : rc;
}

int workspace_resolve_local(struct workspace_keeper *keeper, const char *repo, const char *ref,
                            struct workspace_source *source, struct err *err)
{
    char folder[PATH_MAX];
    struct stat status;
    struct git_outcome outcome;
    if (stat(repo, &status) < 0 || !S_ISDIR(status.st_mode))
        return resolve_gone(keeper, repo, ref, source, err);
    struct git_call call = {.folder = repo,
                            .args = (const char *const[]){"rev-parse", "--path-format=absolute",
                                                          "--git-common-dir", NULL}};
    int rc = workspace_git_line(keeper, &call, &outcome, folder, sizeof folder - 64, err);
    if (rc < 0 && keeper->problem == WORKSPACE_NOT_A_REPOSITORY)
        return err_set(err, rc, "%s is not a git repository; name the folder of one, or a URL",
                       repo);
    if (rc < 0 && git_said(&outcome, "dubious ownership"))
        return err_set(err, rc,
                       "%s; to trust it: git config --global --add safe.directory FOLDER, as the "
                       "user the worker runs under",
                       err != NULL ? err->text : "");
    return rc < 0 ? rc : resolve_in(keeper, repo, folder, ref, source, err);
}
