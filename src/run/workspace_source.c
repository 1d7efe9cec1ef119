/* See workspace.h: from what the user calls a repository and a ref to a commit on this machine. */
#include "base/buf.h"
#include "base/suggest.h"
#include "run/workspace_inner.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>

enum { REFS_MAX_BYTES = 1 << 20 };

bool workspace_is_remote(const char *repo)
{
    if (strstr(repo, "://") != NULL)
        return true;
    /* host:path, as git reads it: a colon before the first slash, and no such folder here. */
    size_t before_slash = strcspn(repo, "/");
    struct stat status;
    return memchr(repo, ':', before_slash) != NULL && stat(repo, &status) < 0;
}

/* One name per line; the text is taken apart in place. Also feature/login is near to "logn". */
static const char *find_nearest(char *refs, const char *asked)
{
    struct suggestion suggestion;
    const char *nearest = NULL;
    char *saved = NULL;
    suggestion_init(&suggestion, asked);
    for (char *name = strtok_r(refs, "\n", &saved); name != NULL;
         name = strtok_r(NULL, "\n", &saved)) {
        const char *best = suggestion.best;
        const char *slash = strrchr(name, '/');
        suggestion_offer(&suggestion, name);
        if (slash != NULL)
            suggestion_offer(&suggestion, slash + 1);
        if (suggestion.best != best)
            nearest = name;
    }
    return nearest;
}

int workspace_ref_missing(struct workspace_keeper *keeper, const char *git_folder, const char *repo,
                          const char *ref, struct err *err)
{
    struct buf refs;
    buf_init(&refs);
    struct git_call call = {
        .limits = &keeper->limits,
        .git_dir = git_folder,
        .args = (const char *const[]){"for-each-ref", "--sort=-committerdate",
                                      "--format=%(refname:lstrip=2)", "refs/heads", "refs/tags",
                                      "refs/remotes", NULL},
        .output = &refs,
        .output_max_bytes = REFS_MAX_BYTES,
    };
    (void)git_run(&call, NULL, NULL); /* a hint; without it the sentence is shorter */
    char hint[300] = "it has no branch with a commit yet";
    if (refs.len > 0) {
        /* The newest, in case that nothing is near. */
        snprintf(hint, sizeof hint, "there is %.*s, for one", (int)strcspn(refs.data, "\n"),
                 refs.data);
        const char *nearest = find_nearest(refs.data, ref);
        if (nearest != NULL)
            snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    }
    err_set(err, TEND_ENOTFOUND, "there is no commit called %s in repository %s; %s", ref, repo,
            hint);
    buf_done(&refs);
    return workspace_fail(keeper, WORKSPACE_REF_MISSING, TEND_ENOTFOUND);
}

/* 0: found; 1: no such commit. In a folder of a repository, or by its git folder. */
static int find_commit(struct workspace_keeper *keeper, const char *folder, const char *git_dir,
                       const char *name, char ret_commit[GIT_ID_BYTES], struct err *err)
{
    char asked[1024];
    struct git_outcome outcome;
    if ((size_t)snprintf(asked, sizeof asked, "%s^{commit}", name) >= sizeof asked)
        return 1;
    struct git_call call = {.folder = folder,
                            .git_dir = git_dir,
                            .args = (const char *const[]){"rev-parse", "--verify", "--quiet",
                                                          "--end-of-options", asked, NULL}};
    int rc = workspace_git_line(keeper, &call, &outcome, ret_commit, GIT_ID_BYTES, err);
    if (rc < 0 && outcome.end == GIT_FAILED && keeper->problem == WORKSPACE_BROKEN)
        return 1;
    return rc;
}

static int resolve_local(struct workspace_keeper *keeper, const char *repo, const char *ref,
                         struct workspace_source *source, struct err *err)
{
    char folder[PATH_MAX];
    struct stat status;
    if (stat(repo, &status) < 0 || !S_ISDIR(status.st_mode)) {
        err_set(err, TEND_ENOTFOUND, "%s is not a git repository: there is no such folder", repo);
        return workspace_fail(keeper, WORKSPACE_NOT_A_REPOSITORY, TEND_ENOTFOUND);
    }
    struct git_call call = {.folder = repo,
                            .args = (const char *const[]){"rev-parse", "--path-format=absolute",
                                                          "--git-common-dir", NULL}};
    int rc = workspace_git_line(keeper, &call, NULL, folder, sizeof folder, err);
    if (rc < 0 && keeper->problem == WORKSPACE_NOT_A_REPOSITORY)
        return err_set(err, rc, "%s is not a git repository; name the folder of one, or a URL",
                       repo);
    if (rc < 0 && keeper->problem == WORKSPACE_NOT_ALLOWED)
        return err_set(err, rc,
                       "%s; to trust it: git config --global --add safe.directory FOLDER, as the "
                       "user the worker runs under",
                       err != NULL ? err->text : "");
    if (rc < 0)
        return rc;
    rc = find_commit(keeper, repo, NULL, ref, source->commit, err);
    if (rc == 1)
        return workspace_ref_missing(keeper, folder, repo, ref, err);
    if (rc == 0 && (source->git_folder = strdup(folder)) == NULL)
        rc = workspace_fail(keeper, WORKSPACE_BROKEN, err_set(err, TEND_ENOMEM, "out of memory"));
    return rc;
}

/*
 * Where a ref of the other machine is in its copy. Branches are kept as remote ones, so that
 * branches made by steps in their workspaces neither hide nor lose them.
 */
static int find_in_mirror(struct workspace_keeper *keeper, const char *folder, const char *ref,
                          char ret_commit[GIT_ID_BYTES], struct err *err)
{
    static const struct {
        const char *asked, *kept;
    } places[] = {
        {"HEAD", "refs/tend/HEAD"},   {"refs/heads/", "refs/remotes/origin/"},
        {"refs/tags/", "refs/tags/"}, {"refs/", "refs/tend/refs/"},
        {"", "refs/remotes/origin/"}, {"", "refs/tags/"},
        {"", "refs/remotes/"},
    };
    int rc = 1;
    for (size_t i = 0; rc == 1 && i < sizeof places / sizeof places[0]; i++) {
        char name[1024];
        size_t len = strlen(places[i].asked);
        if (strncmp(ref, places[i].asked, len) != 0)
            continue;
        snprintf(name, sizeof name, "%s%s", places[i].kept, ref + len);
        rc = find_commit(keeper, NULL, folder, name, ret_commit, err);
    }
    size_t hex = strspn(ref, "0123456789abcdefABCDEF");
    if (rc == 1 && hex >= 4)
        rc = find_commit(keeper, NULL, folder, ref, ret_commit, err);
    return rc;
}

static int resolve_remote(struct workspace_keeper *keeper, const char *url, const char *ref,
                          struct workspace_source *source, struct err *err)
{
    char shown[300];
    char *folder = NULL;
    snprintf(shown, sizeof shown, "%s", url);
    git_mask_urls(shown);
    int rc = workspace_mirror(keeper, url, ref, &folder, err);
    if (rc == 0)
        rc = find_in_mirror(keeper, folder, ref, source->commit, err);
    if (rc == 1)
        rc = workspace_ref_missing(keeper, folder, shown, ref, err);
    if (rc == 0)
        source->git_folder = folder;
    else
        free(folder);
    return rc;
}

int workspace_resolve(struct workspace_keeper *keeper, const char *repo, const char *ref,
                      struct workspace_source *ret_source, struct err *err)
{
    struct workspace_source source = {0};
    keeper->problem = WORKSPACE_FINE;
    if (ref == NULL || ref[0] == '\0')
        ref = "HEAD";
    int rc = workspace_is_remote(repo) ? resolve_remote(keeper, repo, ref, &source, err)
                                       : resolve_local(keeper, repo, ref, &source, err);
    if (rc < 0)
        return rc;
    keeper->problem = WORKSPACE_FINE;
    *ret_source = source;
    return 0;
}

void workspace_source_done(struct workspace_source *source)
{
    free(source->git_folder);
    *source = (struct workspace_source){0};
}
