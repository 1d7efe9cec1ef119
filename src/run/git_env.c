/* See git.h: the arguments and the environment that make a git command do the same everywhere. */
#include "run/git.h"

#include "base/arena.h"
#include "run/tree.h"

#include <string.h>
#include <unistd.h>

/* Each stands for a setting of the user's or the repository's that would change what is done. */
static const char *const settings[] = {
    "core.hooksPath=/dev/null", /* a worker's checkout must not run the user's hooks */
    "core.fsmonitor=false",     /* no daemon, no hook */
    "core.autocrlf=false",
    "core.eol=lf",
    "core.safecrlf=false", /* would refuse files that a step may well write */
    "core.fileMode=true",
    "core.symlinks=true",
    "core.ignoreCase=false",
    "core.quotePath=true", /* the same patch text everywhere */
    "core.checkStat=default",
    "core.splitIndex=false", /* an index is copied as one file */
    "core.untrackedCache=false",
    "core.sparseCheckout=false", /* a file that is not there has been deleted */
    "index.sparse=false",
    "commit.gpgSign=false",
    "diff.suppressBlankEmpty=false",
    "apply.ignoreWhitespace=no",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.fd.allow=never", /* there is no such descriptor; git would wait on another one */
    "advice.addEmbeddedRepo=false",
    "gc.auto=0", /* nothing in the background, and nobody else's objects packed */
    "maintenance.auto=false",
};

/*
 * What stays of GIT_…: how to reach another machine and where git is installed. None of them
 * changes what a command does to a repository.
 */
static const char *const kept[] = {
    "GIT_SSH=",           "GIT_SSH_COMMAND=",      "GIT_SSH_VARIANT=",    "GIT_ASKPASS=",
    "GIT_SSL_CAINFO=",    "GIT_SSL_CAPATH=",       "GIT_SSL_CERT=",       "GIT_SSL_KEY=",
    "GIT_EXEC_PATH=",     "GIT_PROXY_SSL_CAINFO=", "GIT_ALLOW_PROTOCOL=", "GIT_CONFIG_GLOBAL=",
    "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_NOSYSTEM=",
};

static const char *const fixed[] = {
    "LC_ALL=C",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_OPTIONAL_LOCKS=0",
    "GIT_LITERAL_PATHSPECS=1",
    "GIT_NO_REPLACE_OBJECTS=1",
    "SSH_ASKPASS_REQUIRE=force", /* ssh fails instead of asking on a terminal */
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

char *const *git_arguments(struct arena *arena, const struct git_call *call)
{
    size_t given = 0;
    while (call->args[given] != NULL)
        given++;
    size_t more = 0;
    while (call->settings != NULL && call->settings[more] != NULL)
        more++;
    size_t room = 2 * (COUNT(settings) + more) + given + 8;
    const char **args = arena_alloc(arena, room * sizeof *args);
    if (args == NULL)
        return NULL;
    size_t n = 0;
    args[n++] = "git";
    if (call->folder != NULL) {
        args[n++] = "-C";
        args[n++] = call->folder;
    }
    for (size_t i = 0; i < COUNT(settings); i++) {
        args[n++] = "-c";
        args[n++] = settings[i];
    }
    for (size_t i = 0; i < more; i++) {
        args[n++] = "-c";
        args[n++] = call->settings[i];
    }
    memcpy(args + n, call->args, (given + 1) * sizeof *args);
    return (char *const *)args;
}

static bool starts_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool stays(const char *variable, const struct git_call *call)
{
    if (starts_with(variable, "LC_ALL=") || starts_with(variable, "SSH_ASKPASS_REQUIRE=") ||
        starts_with(variable, TREE_MARKER_NAME "=") ||
        (call->hides_system && starts_with(variable, "GIT_CONFIG_NOSYSTEM=")) ||
        (call->this_machine && starts_with(variable, "GIT_ALLOW_PROTOCOL=")))
        return false;
    if (!starts_with(variable, "GIT_"))
        return true;
    for (size_t i = 0; i < COUNT(kept); i++)
        if (starts_with(variable, kept[i]))
            return true;
    return false;
}

static bool add(struct arena *arena, const char **list, size_t *count, const char *name,
                const char *value)
{
    if (value == NULL)
        return true;
    list[*count] = arena_printf(arena, "%s=%s", name, value);
    return list[(*count)++] != NULL;
}

char *const *git_environment(struct arena *arena, const struct git_call *call, const char *marker)
{
    size_t given = 0;
    while (environ != NULL && environ[given] != NULL)
        given++;
    const char **list = arena_alloc(arena, (given + COUNT(fixed) + 9) * sizeof *list);
    if (list == NULL)
        return NULL;
    size_t n = 0;
    bool asks = false;
    for (size_t i = 0; i < given; i++) {
        if (stays(environ[i], call))
            list[n++] = environ[i];
        asks = asks || starts_with(environ[i], "SSH_ASKPASS=");
    }
    for (size_t i = 0; i < COUNT(fixed); i++)
        list[n++] = fixed[i];
    if (!asks)
        list[n++] = "SSH_ASKPASS=/bin/false";
    if (!add(arena, list, &n, TREE_MARKER_NAME, marker) ||
        !add(arena, list, &n, "GIT_CONFIG_NOSYSTEM", call->hides_system ? "1" : NULL) ||
        !add(arena, list, &n, "GIT_DIR", call->git_dir) ||
        !add(arena, list, &n, "GIT_WORK_TREE", call->work_tree) ||
        !add(arena, list, &n, "GIT_INDEX_FILE", call->index_path) ||
        !add(arena, list, &n, "GIT_OBJECT_DIRECTORY", call->object_folder) ||
        !add(arena, list, &n, "GIT_ALLOW_PROTOCOL", call->this_machine ? "file" : NULL))
        return NULL;
    list[n] = NULL;
    return (char *const *)list;
}
