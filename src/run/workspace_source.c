/* See workspace.h: from what the user calls a repository and a ref to a commit on this machine. */
#include "base/buf.h"
#include "base/suggest.h"
#include "run/workspace_inner.h"

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

/* The name at the start of these lines of a branch that most repositories have, else the first. */
static const char *find_usual(const char *refs)
{
    static const char *const usual[] = {"main", "master"};
    for (const char *line = refs; *line != '\0'; line += strspn(line, "\n")) {
        size_t len = strcspn(line, "\n");
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
            size_t bytes = strlen(usual[i]);
            if (len >= bytes && memcmp(line + len - bytes, usual[i], bytes) == 0 &&
                (len == bytes || line[len - bytes - 1] == '/'))
                return line;
        }
        line += len;
    }
    return refs;
}

int workspace_ref_missing(struct workspace_keeper *keeper, const char *git_folder, const char *repo,
                          const char *ref, struct err *err)
{
    struct buf refs;
    buf_init(&refs);
    struct git_call call = {
        .limits = &keeper->limits,
        .git_dir = git_folder,
        .args = (const char *const[]){"for-each-ref", "--sort=-committerdate", "--sort=-HEAD",
                                      "--format=%(refname:lstrip=2)", "refs/heads", "refs/tags",
                                      "refs/remotes", NULL},
        .output = &refs,
        .output_max_bytes = REFS_MAX_BYTES,
    };
    (void)git_run(&call, NULL, NULL); /* a hint; without it the sentence is shorter */
    char hint[300] = "it has no branch with a commit yet";
    if (refs.len > 0) {
        const char *usual = find_usual(refs.data);
        snprintf(hint, sizeof hint, "there is %.*s, for example", (int)strcspn(usual, "\n"), usual);
        const char *nearest = find_nearest(refs.data, ref);
        if (nearest != NULL)
            snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    }
    err_set(err, TEND_ENOTFOUND, "there is no commit called %s in repository %s; %s", ref, repo,
            hint);
    buf_done(&refs);
    return workspace_fail(keeper, WORKSPACE_REF_MISSING, TEND_ENOTFOUND);
}

int workspace_find_commit(struct workspace_keeper *keeper, const char *folder, const char *git_dir,
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

bool workspace_is_commit_id(const char *ref)
{
    size_t len = strlen(ref);
    return (len == 40 || len == GIT_ID_BYTES - 1) && strspn(ref, "0123456789abcdef") == len;
}

static void source_init(struct workspace_source *source)
{
    *source = (struct workspace_source){.git_folder = NULL};
    buf_init(&source->refs);
    buf_init(&source->symbolic_refs);
    buf_init(&source->config);
    buf_init(&source->ignores);
    buf_init(&source->exclude);
    buf_init(&source->attributes);
    buf_init(&source->shallow);
}

int workspace_resolve(struct workspace_keeper *keeper, const char *repo, const char *ref,
                      struct workspace_source *ret_source, struct err *err)
{
    struct workspace_source source;
    source_init(&source);
    keeper->problem = WORKSPACE_FINE;
    if (ref == NULL || ref[0] == '\0')
        ref = "HEAD";
    int rc = workspace_is_remote(repo) ? workspace_resolve_remote(keeper, repo, ref, &source, err)
                                       : workspace_resolve_local(keeper, repo, ref, &source, err);
    if (rc == 0 && (source.repo = strdup(repo)) == NULL)
        rc = workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    if (rc < 0) {
        workspace_source_done(&source);
        return rc;
    }
    keeper->problem = WORKSPACE_FINE;
    *ret_source = source;
    return 0;
}

void workspace_source_done(struct workspace_source *source)
{
    free(source->repo);
    free(source->git_folder);
    buf_done(&source->refs);
    buf_done(&source->symbolic_refs);
    buf_done(&source->config);
    buf_done(&source->ignores);
    buf_done(&source->exclude);
    buf_done(&source->attributes);
    buf_done(&source->shallow);
    *source = (struct workspace_source){0};
}
