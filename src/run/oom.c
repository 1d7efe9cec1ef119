/* See oom.h. */
#include "run/oom.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNTER_BYTES = 16 * 1024, GROUP_BYTES = 400 };

int64_t oom_read(const char *path)
{
    static const char key[] = "oom_kill ";
    char text[COUNTER_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, strlen(key)) == 0)
            return strtoll(line + strlen(key), NULL, 10);
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return -1;
}

/* Whether a line "N:CONTROLLERS:/PATH" is about this controller; "": version 2. */
static bool is_about(const char *line, const char *controller)
{
    const char *names = strchr(line, ':');
    size_t wanted = strlen(controller);
    if (names == NULL)
        return false;
    size_t len = strcspn(++names, ":\n");
    if (wanted == 0 || len == 0)
        return wanted == 0 && len == 0;
    for (const char *at = names; at < names + len; at += strcspn(at, ",:") + 1)
        if (strncmp(at, controller, wanted) == 0 && strchr(",:", at[wanted]) != NULL)
            return true;
    return false;
}

/* The path of the group of this controller; "" when there is none. */
static void group_of(const char *self_cgroup, const char *controller, char out[GROUP_BYTES])
{
    out[0] = '\0';
    for (const char *line = self_cgroup; line != NULL && *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        const char *path = strchr(line, '/');
        if (path != NULL && path < end && end - path < GROUP_BYTES && is_about(line, controller)) {
            snprintf(out, GROUP_BYTES, "%.*s", (int)(end - path), path);
            return;
        }
        line = *end == '\0' ? NULL : end + 1;
    }
}

static bool try_path(char *out, size_t size, const char *root, const char *mount, const char *group,
                     const char *name)
{
    int len = snprintf(out, size, "%s/%s%s/%s", root, mount, group, name);
    return len > 0 && (size_t)len < size && oom_read(out) >= 0;
}

void oom_find(const char *root, const char *self_cgroup, char *out, size_t size)
{
    static const struct {
        const char *controller, *mount, *name;
    } places[] = {
        {"", "sys/fs/cgroup", "memory.events"},
        {"", "sys/fs/cgroup/unified", "memory.events"},
        {"memory", "sys/fs/cgroup/memory", "memory.oom_control"},
    };
    char group[GROUP_BYTES];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        group_of(self_cgroup, places[i].controller, group);
        /* In a container the group may be mounted as if it were the root of all. */
        if (group[0] != '\0' &&
            (try_path(out, size, root, places[i].mount, group, places[i].name) ||
             try_path(out, size, root, places[i].mount, "", places[i].name)))
            return;
    }
    if (!try_path(out, size, root, "proc", "", "vmstat"))
        out[0] = '\0';
}
