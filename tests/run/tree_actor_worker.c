/* The role "worker"; see tree_actor.h. */
#include "run/tree_actor.h"

#include "base/clock.h"
#include "base/err.h"
#include "run/tree.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *path_in(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        abort();
    return path;
}

static void note(const char *path, int64_t pid)
{
    FILE *file = fopen(path, "we");
    if (!file || fprintf(file, "%lld\n", (long long)pid) < 0 || fclose(file) != 0)
        exit(3);
}

static int64_t start(struct tree_pool *pool, const char *const *argv, const char *marker,
                     int64_t deadline_ms)
{
    const char *const no_env[] = {NULL};
    struct tree_spec spec;
    struct tree *tree;
    struct tree_event event = {.kind = TREE_NOTHING};
    struct err err;
    tree_spec_init(&spec);
    spec.argv = argv;
    spec.env = no_env;
    spec.marker = marker;
    if (deadline_ms > 0)
        spec.deadline_mono_ms = clock_mono_ms() + deadline_ms;
    if (tree_spawn(pool, &spec, &tree, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(3);
    }
    struct pollfd ready = {.fd = tree_fd(tree), .events = POLLIN};
    while (event.kind == TREE_NOTHING && poll(&ready, 1, 60000) > 0)
        if (tree_read(tree, &event) < 0)
            break;
    if (event.kind != TREE_STARTED)
        exit(3);
    return event.pid;
}

void actor_work(char **args)
{
    const char *helper = args[0], *folder = args[1];
    int64_t deadline_ms = args[2] ? strtoll(args[2], NULL, 10) : 0;
    struct tree_pool *pool;
    struct err err;
    if (tree_pool_open(&pool, helper, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(3);
    }
    const char *actor = getenv("TREE_ACTOR"); /* its own path: a minder's /proc/self/exe is not */
    const char *const daemon[] = {actor, "daemon", path_in(folder, "daemon"), "stay", NULL};
    const char *const stubborn[] = {actor, "stubborn", path_in(folder, "stubborn"), NULL};
    const char *const marked[] = {actor, "marked-daemon", path_in(folder, "marked"), "stay", NULL};
    note(path_in(folder, "first"), start(pool, daemon, folder, deadline_ms));
    start(pool, stubborn, folder, deadline_ms);
    start(pool, marked, folder, deadline_ms);
    note(path_in(folder, "nursery"), tree_pool_nursery_pid(pool));
    while (access(daemon[2], F_OK) != 0 || access(stubborn[2], F_OK) != 0 ||
           access(marked[2], F_OK) != 0)
        poll(NULL, 0, 1);
    actor_note_pid(path_in(folder, "ready"));
    actor_linger();
}
