/*
 * See workspace.h: repositories of other machines, by a URL.
 *
 * The copy keeps branches below refs/remotes/origin/ as a clone does, tags, and single refs that
 * were asked for below refs/tend/. A workspace gets the first two, and `origin` is the URL.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

#define BRANCHES "+refs/heads/*:refs/remotes/origin/*"
#define TAGS "+refs/tags/*:refs/tags/*"

struct wish {
    const char *url, *ref;
    bool other_format; /* the repository has ids of another length than the copy */
};

static int fetch(struct workspace_keeper *keeper, const char *folder, struct wish *wish,
                 const char *const refspecs[3], struct err *err)
{
    static const char *const settings[] = {WORKSPACE_KEPT_SAFE, NULL};
    const char *args[] = {"fetch",
                          "--quiet",
                          "--force",
                          "--prune",
                          "--no-tags",
                          "--update-shallow",
                          "--no-write-fetch-head",
                          "--",
                          wish->url,
                          refspecs[0],
                          refspecs[1],
                          refspecs[2],
                          NULL};
    struct git_outcome outcome;
    struct git_call call = {
        .folder = folder, .git_dir = folder, .args = args, .settings = settings};
    int rc = workspace_git(keeper, &call, &outcome, err);
    wish->other_format = rc < 0 && git_said(&outcome, "mismatched algorithms");
    if (rc < 0 && git_said(&outcome, "couldn't find remote ref"))
        return workspace_fail(keeper, WORKSPACE_REF_MISSING, rc);
    if (rc < 0 && keeper->problem == WORKSPACE_BROKEN)
        keeper->problem = WORKSPACE_OUT_OF_REACH;
    return rc;
}

/* All branches and tags, and the one ref asked for where it is neither. */
static int fetch_all(struct workspace_keeper *keeper, const char *folder, struct wish *wish,
                     struct err *err)
{
    char asked[2200];
    const char *ref = wish->ref;
    int len = (int)strcspn(ref, "~^@:"); /* HEAD~2 needs HEAD */
    bool other = strncmp(ref, "refs/", 5) == 0 && strncmp(ref, "refs/heads/", 11) != 0 &&
                 strncmp(ref, "refs/tags/", 10) != 0;
    bool single = len < 1024 && (other || (len == 4 && strncmp(ref, "HEAD", 4) == 0));
    snprintf(asked, sizeof asked, "+%.*s:refs/tend/%.*s", len, ref, len, ref);
    int rc = fetch(keeper, folder, wish,
                   (const char *const[]){BRANCHES, TAGS, single ? asked : NULL}, err);
    if (rc < 0 && keeper->problem == WORKSPACE_REF_MISSING)
        rc = fetch(keeper, folder, wish, (const char *const[]){BRANCHES, TAGS, NULL}, err);
    return rc;
}

static int update(struct workspace_keeper *keeper, const char *folder, void *arg, struct err *err)
{
    struct wish *wish = arg;
    char commit[GIT_ID_BYTES];
    bool by_id = workspace_is_commit_id(wish->ref);
    if (by_id && workspace_mirror_knows(folder, wish->ref))
        return 0;
    int rc = fetch_all(keeper, folder, wish, err);
    if (rc < 0 || !by_id ||
        workspace_find_commit(keeper, NULL, folder, wish->ref, commit, err) <= 0)
        return rc;
    /* A commit that no branch leads to, such as an abandoned one: some hosts give it by its id. */
    (void)fetch(keeper, folder, wish, (const char *const[]){wish->ref, NULL, NULL}, NULL);
    return 0;
}

/* Where a ref of the other machine is in its copy. 1: nowhere. */
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
        rc = workspace_find_commit(keeper, NULL, folder, name, ret_commit, err);
    }
    size_t hex = strspn(ref, "0123456789abcdefABCDEF");
    if (rc == 1 && hex >= 4)
        rc = workspace_find_commit(keeper, NULL, folder, ref, ret_commit, err);
    return rc;
}

/* The commit, the refs and the settings of a workspace. */
static int fill_source(struct workspace_keeper *keeper, const char *url, const char *ref,
                       struct workspace_source *source, struct err *err)
{
    static const char *const shown[2] = {"refs/remotes/origin", "refs/tags"};
    char path[PATH_MAX];
    int rc = find_in_mirror(keeper, source->git_folder, ref, source->commit, err);
    if (rc == 0)
        rc = workspace_refs_list(keeper, source->git_folder, shown, &source->refs, NULL, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof path, "%s/shallow", source->git_folder);
    rc = files_read(path, FILES_LARGE_BYTES, &source->shallow, err);
    if (rc < 0 && rc != TEND_ENOTFOUND) /* most have none */
        return workspace_file_fail(keeper, rc);
    workspace_config_put(&source->config, "remote.origin.url", url);
    workspace_config_put(&source->config, "remote.origin.fetch", BRANCHES);
    rc = workspace_mirror_note(source->git_folder, source->commit, err);
    return rc < 0 ? workspace_file_fail(keeper, rc) : 0;
}

int workspace_resolve_remote(struct workspace_keeper *keeper, const char *url, const char *ref,
                             struct workspace_source *source, struct err *err)
{
    char shown[300];
    struct wish wish = {.url = url, .ref = ref};
    snprintf(shown, sizeof shown, "%s", url);
    git_mask_urls(shown);
    bool sha256 = workspace_is_commit_id(ref) && strlen(ref) == GIT_ID_BYTES - 1;
    int rc = workspace_mirror(keeper, url, sha256, update, &wish, &source->git_folder, err);
    if (rc < 0 && wish.other_format)
        rc = workspace_mirror(keeper, url, !sha256, update, &wish, &source->git_folder, err);
    if (rc < 0)
        return rc;
    rc = fill_source(keeper, url, ref, source, err);
    return rc == 1 ? workspace_ref_missing(keeper, source->git_folder, shown, ref, err) : rc;
}
