/* See tree_case.h. */
#include "run/tree_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MOST = 8, SPECS_KEPT = 16 };

static const char *in_build(const char *name)
{
    const char *build = getenv("TEND_BUILD");
    static char paths[2][4096];
    char *path = paths[strcmp(name, "tend") == 0];
    if (!build)
        test_fail(__FILE__, __LINE__, "TEND_BUILD must name the build folder");
    snprintf(path, sizeof paths[0], "%s/%s", build, name);
    return path;
}

const char *helper_path(void)
{
    return in_build("tend");
}

const char *actor_path(void)
{
    return in_build("tests/run/tree_actor");
}

struct tree_pool *open_pool(void)
{
    struct tree_pool *pool;
    struct err err = {0};
    if (tree_pool_open(&pool, helper_path(), &err) < 0)
        test_fail(__FILE__, __LINE__, "no pool: %s", err.text);
    return pool;
}

struct tree_spec actor_spec_of(const char *const *args)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    static const char *kept[SPECS_KEPT][ARGS_MOST];
    static size_t next;
    const char **argv = memset(kept[next++ % SPECS_KEPT], 0, sizeof kept[0]);
    struct tree_spec spec;
    tree_spec_init(&spec);
    argv[0] = actor_path();
    for (size_t i = 0; i < ARGS_MOST - 2 && args[i]; i++)
        argv[i + 1] = args[i];
    spec.argv = argv;
    spec.env = env;
    return spec;
}

struct tree *spawn(struct tree_pool *pool, const struct tree_spec *spec)
{
    struct tree *tree;
    struct err err = {0};
    if (tree_spawn(pool, spec, &tree, &err) < 0)
        test_fail(__FILE__, __LINE__, "no tree: %s", err.text);
    return tree;
}

struct tree_event expect(struct tree *tree, enum tree_event_kind kind)
{
    struct tree_event event = {.kind = TREE_NOTHING};
    long long until_ms = test_clock_ms() + WAIT_MS;
    while (event.kind == TREE_NOTHING && test_clock_ms() < until_ms) {
        struct pollfd ready = {.fd = tree_fd(tree), .events = POLLIN};
        poll(&ready, 1, 100);
        check_int(tree_read(tree, &event), ==, 0);
    }
    if (event.kind != kind)
        test_fail(__FILE__, __LINE__, "event %d (%s) where %d was expected", (int)event.kind,
                  event.text, (int)kind);
    return event;
}

struct tree_event run_to_end(struct tree_pool *pool, const struct tree_spec *spec)
{
    struct tree *tree = spawn(pool, spec);
    expect(tree, TREE_STARTED);
    struct tree_event event = expect(tree, TREE_EXITED);
    tree_free(tree);
    return event;
}

static size_t pids_in(const char *path, int64_t *pids, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t count = 0;
    char line[64];
    while (file && count < room && fgets(line, sizeof line, file))
        if (strchr(line, '\n'))
            pids[count++] = strtoll(line, NULL, 10);
    if (file)
        fclose(file);
    return count;
}

size_t read_pids(const char *path, int64_t *pids, size_t room, size_t least)
{
    wait_until(pids_in(path, pids, room) >= least, WAIT_MS);
    return pids_in(path, pids, room);
}

struct proc_id wait_for_process(const char *path)
{
    int64_t pid;
    struct proc_id id = {0};
    read_pids(path, &pid, 1, 1);
    proc_of(pid, &id);
    return id;
}

int64_t parent_of(int64_t pid)
{
    struct proc_stat stat;
    check_int(proc_stat(pid, &stat), ==, 0);
    return stat.parent_pid;
}

static bool has_argument(const char *pid, const char *argument)
{
    char path[300], words[8192] = "";
    struct proc_stat stat;
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, words, sizeof words - 1) : -1;
    if (fd >= 0)
        close(fd);
    for (ssize_t at = 0; at < got; at += (ssize_t)strlen(words + at) + 1)
        if (strcmp(words + at, argument) == 0)
            return proc_stat(strtoll(pid, NULL, 10), &stat) == 0 && !proc_has_ended(&stat);
    return false;
}

size_t count_with_argument(const char *argument)
{
    DIR *folder = opendir("/proc");
    size_t count = 0;
    check(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                 has_argument(entry->d_name, argument);
    closedir(folder);
    return count;
}

char *read_output(struct tree_pool *pool, struct tree_spec *spec, size_t *ret_len,
                  struct tree_event *ret_event)
{
    const char *path = test_path("output");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0);
    spec->fds[1] = spec->fds[2] = fd;
    struct tree_event event = run_to_end(pool, spec);
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    check(text != NULL);
    check_int(pread(fd, text, (size_t)size, 0), ==, size);
    close(fd);
    if (ret_len)
        *ret_len = (size_t)size;
    if (ret_event)
        *ret_event = event;
    return text;
}
