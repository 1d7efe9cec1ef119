/*
 * See workspace_inner.h: what a workspace takes over of a repository's configuration.
 *
 * Steps need it: who commits, how to reach the remotes, filters, line ends, aliases. So everything
 * is copied, included files too, except for what describes the other folder (where its files are,
 * how its index is kept, its hooks) or would make git tidy up while steps work. Paths of remotes
 * that were relative to that folder become absolute, and so do those that insteadOf puts in.
 */
#include "run/workspace_files.h"
#include "run/workspace_inner.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

/* As git prints them: section and name in lower case. Those that end in a dot are whole sections.
 */
static const char *const left_out[] = {
    "core.bare",
    "core.worktree",
    "core.repositoryformatversion",
    "core.hookspath",
    "core.fsmonitor",
    "core.splitindex",
    "core.sharedindex",
    "core.untrackedcache",
    "core.sparsecheckout",
    "index.sparse",
    "core.sparsecheckoutcone",
    "core.sharedrepository",
    "core.fsync",
    "core.fsyncmethod",
    "core.alternaterefscommand",
    "extensions.",
    "include.",
    "includeif.",
    "gc.",
    "maintenance.",
    "worktree.",
    "core.fsmonitorhookversion",
};

static bool is_left_out(const char *key)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        size_t len = strlen(left_out[i]);
        bool section = left_out[i][len - 1] == '.';
        if (section ? strncmp(key, left_out[i], len) == 0 : strcmp(key, left_out[i]) == 0)
            return true;
    }
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    return len >= strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

/* A path that counts from the folder of the repository: neither a URL nor host:path. */
static bool is_relative(const char *path)
{
    return path[0] != '/' && path[0] != '\0' && memchr(path, ':', strcspn(path, "/")) == NULL;
}

/* Whether the value is such a path. */
static bool is_relative_path(const char *key, const char *value)
{
    bool url =
        strncmp(key, "remote.", 7) == 0 && (ends_with(key, ".url") || ends_with(key, ".pushurl"));
    return url && value != NULL && is_relative(value);
}

/* url.../.insteadof: the name has such a path. Without a slash it may be the start of host:path. */
static bool has_relative_base(const char *key)
{
    if (strncmp(key, "url.", 4) != 0 ||
        !(ends_with(key, ".insteadof") || ends_with(key, ".pushinsteadof")))
        return false;
    return is_relative(key + 4) && strchr(key + 4, '/') != NULL;
}

/* --- writing --- */

static void put_quoted(struct buf *out, const char *text)
{
    buf_putc(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            buf_puts(out, "\\n");
        else if (*text == '\t')
            buf_puts(out, "\\t");
        else if (*text == '\b')
            buf_puts(out, "\\b");
        else {
            if (*text == '"' || *text == '\\')
                buf_putc(out, '\\');
            buf_putc(out, *text);
        }
    }
    buf_putc(out, '"');
}

/* Only quotes and backslashes have a meaning in the name of a subsection. */
static void put_subsection(struct buf *out, const char *text, size_t len)
{
    buf_puts(out, " \"");
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            buf_putc(out, '\\');
        buf_putc(out, text[i]);
    }
    buf_putc(out, '"');
}

void workspace_config_put(struct buf *out, const char *key, const char *value)
{
    const char *first = strchr(key, '.');
    const char *last = strrchr(key, '.');
    if (first == NULL || last == NULL)
        return;
    buf_putc(out, '[');
    buf_append(out, key, (size_t)(first - key));
    if (last > first)
        put_subsection(out, first + 1, (size_t)(last - first - 1));
    buf_printf(out, "]\n\t%s", last + 1);
    if (value != NULL) {
        buf_puts(out, " = ");
        put_quoted(out, value);
    }
    buf_putc(out, '\n');
}

/* --- reading --- */

/* The top of the working copy that repo lies in; of a bare repository, its own folder. */
static int find_top(struct workspace_keeper *keeper, const char *repo, const char *git_folder,
                    char out[PATH_MAX], struct err *err)
{
    struct git_call call = {.folder = repo,
                            .args = (const char *const[]){"rev-parse", "--show-toplevel", NULL}};
    int rc = workspace_git_line(keeper, &call, NULL, out, PATH_MAX, err);
    if (rc < 0 && rc != TEND_EINTERRUPTED) {
        snprintf(out, PATH_MAX, "%s", git_folder);
        rc = workspace_fail(keeper, WORKSPACE_FINE, 0);
    }
    return rc;
}

/* Notes which remote has what a partial clone has not. */
static void note_promisor(struct repo_config *config, const char *key, const char *value)
{
    const size_t head = strlen("remote.");
    const size_t tail = strlen(".promisor");
    if (strcmp(key, "extensions.partialclone") == 0 && value != NULL)
        snprintf(config->promisor, sizeof config->promisor, "%s", value);
    else if (strncmp(key, "remote.", head) == 0 && ends_with(key, ".promisor") &&
             strlen(key) > head + tail && (value == NULL || strcmp(value, "true") == 0))
        snprintf(config->promisor, sizeof config->promisor, "%.*s",
                 (int)(strlen(key) - head - tail), key + head);
}

static int take(struct workspace_keeper *keeper, const char *repo, const char *git_folder,
                const char *key, const char *value, struct repo_config *config, struct err *err)
{
    char top[PATH_MAX];
    char path[2 * PATH_MAX];
    note_promisor(config, key, value);
    if (is_left_out(key))
        return 0;
    bool in_key = has_relative_base(key);
    if (in_key || is_relative_path(key, value)) {
        int rc = find_top(keeper, repo, git_folder, top, err);
        if (rc < 0)
            return rc;
        if (in_key)
            snprintf(path, sizeof path, "url.%s/%s", top, key + 4);
        else
            snprintf(path, sizeof path, "%s/%s", top, value);
        *(in_key ? &key : &value) = path;
    }
    workspace_config_put(&config->text, key, value);
    if (strcmp(key, "core.excludesfile") == 0)
        workspace_config_put(&config->ignores, key, value);
    return 0;
}

int workspace_config_read(struct workspace_keeper *keeper, const char *repo, const char *git_folder,
                          struct repo_config *ret_config, struct err *err)
{
    struct repo_config config = {.promisor = ""};
    struct buf list;
    buf_init(&list);
    buf_init(&config.text);
    buf_init(&config.ignores);
    struct git_call call = {
        .folder = git_folder,
        .git_dir = git_folder,
        .args = (const char *const[]){"config", "--local", "--includes", "-z", "--list", NULL}};
    int rc = workspace_git_text(keeper, &call, &list, err);
    /* "key\nvalue\0", or "key\0" for one that is only there. */
    for (char *at = list.data; rc == 0 && at < list.data + list.len;) {
        size_t len = strlen(at);
        char *value = strchr(at, '\n');
        if (value != NULL)
            *value++ = '\0';
        rc = take(keeper, repo, git_folder, at, value, &config, err);
        at += len + 1;
    }
    if (rc == 0 && config.promisor[0] != '\0') {
        char key[sizeof config.promisor + 32];
        snprintf(key, sizeof key, "remote.%s.promisor", config.promisor);
        workspace_config_put(&config.text, key, "true");
    }
    if (rc == 0 && config.text.failed)
        rc = workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    buf_done(&list);
    if (rc == 0) {
        *ret_config = config;
        return 0;
    }
    buf_done(&config.text);
    buf_done(&config.ignores);
    return rc;
}
