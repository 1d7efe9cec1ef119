/* See cgroup.h. */
#include "run/cgroup.h"

#include "base/clock.h"
#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { LOOK_MS = 1 };

/* Alone, or beside version 1. */
static const char *const mount_points[] = {"sys/fs/cgroup", "sys/fs/cgroup/unified"};
static const char prefix[] = "tend-"; /* of the name of a minder's group */
static const char *const marks[] = {"user.delegate", "trusted.delegate"};

static bool is_marked(const char *folder)
{
    char value;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getxattr(folder, marks[i], &value, 1) == 1 && value == '1')
            return true;
    return false;
}

static bool can_write(const char *folder, const char *name)
{
    char path[600];
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    return len > 0 && (size_t)len < sizeof path && access(path, W_OK) == 0;
}

/* The path in the line "0::/PATH", which is the one of version 2; its length, 0 when none. */
static size_t own_path(const char *self_cgroup, const char **ret_path)
{
    for (const char *line = self_cgroup; line && *line;) {
        if (strncmp(line, "0::/", 4) == 0) {
            *ret_path = line + 4;
            return strcspn(line + 4, "\n");
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return 0;
}

bool cgroup_find(const char *root, const char *self_cgroup, bool need_mark, char *out, size_t size)
{
    const char *path;
    size_t path_len = own_path(self_cgroup, &path);
    if (path_len == 0) /* no version 2, or its root, which belongs to nobody */
        return false;
    for (size_t i = 0; i < sizeof mount_points / sizeof *mount_points; i++) {
        int len = snprintf(out, size, "%s/%s/%.*s", root, mount_points[i], (int)path_len, path);
        if (len < 0 || (size_t)len >= size)
            continue;
        if (can_write(out, ".") && can_write(out, "cgroup.procs") &&
            can_write(out, "cgroup.kill") && (!need_mark || is_marked(out)))
            return true;
    }
    return false;
}

void cgroup_read_self(char *out, size_t size)
{
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    out[got > 0 ? got : 0] = '\0';
}

void cgroup_find_own(char *out, size_t size)
{
    char text[CGROUP_SELF_BYTES];
    cgroup_read_self(text, sizeof text);
    if (!cgroup_find("", text, geteuid() == 0, out, size))
        out[0] = '\0';
}

static bool group_path(char *out, size_t size, const char *parent, pid_t pid)
{
    int len = snprintf(out, size, "%s/%s%d", parent, prefix, (int)pid);
    return *parent && len > 0 && (size_t)len < size;
}

void cgroup_open(struct cgroup *group, const char *parent, pid_t pid)
{
    char procs[600];
    group->procs_fd = -1;
    if (!group_path(group->path, sizeof group->path, parent, pid)) {
        group->path[0] = '\0';
        return;
    }
    snprintf(procs, sizeof procs, "%s/cgroup.procs", group->path);
    if (mkdir(group->path, 0755) == 0)
        group->procs_fd = open(procs, O_WRONLY | O_CLOEXEC);
    if (group->procs_fd < 0) {
        rmdir(group->path);
        group->path[0] = '\0';
    }
}

void cgroup_close(struct cgroup *group)
{
    if (group->procs_fd >= 0)
        close(group->procs_fd);
    if (*group->path)
        rmdir(group->path);
    group->procs_fd = -1;
    group->path[0] = '\0';
}

void cgroup_join(const struct cgroup *group)
{
    /* Where the kernel refuses, the step runs all the same: the tree is watched anyway. */
    if (group->procs_fd >= 0 && write(group->procs_fd, "0", 1) < 0)
        return;
}

static void kill_group(const char *folder)
{
    char path[600];
    snprintf(path, sizeof path, "%s/cgroup.kill", folder);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, "1", 1);
    (void)ignored;
    close(fd);
}

void cgroup_kill(const struct cgroup *group)
{
    if (*group->path)
        kill_group(group->path);
}

void cgroup_clear(const char *parent, pid_t pid)
{
    char path[512];
    if (!group_path(path, sizeof path, parent, pid))
        return;
    kill_group(path);
    rmdir(path);
}

/* Of a process that is a minder: nobody but its nursery has a say in its group. */
static bool has_minder(pid_t pid)
{
    struct proc_stat stat;
    return proc_stat(pid, &stat) == 0 && !proc_has_ended(&stat) &&
           strcmp(stat.command, CGROUP_MINDER) == 0;
}

/* Until it is empty and can be removed. */
static bool clear_until(const char *parent, pid_t pid, int64_t until_ms)
{
    char path[512];
    if (!group_path(path, sizeof path, parent, pid))
        return true;
    do {
        kill_group(path);
        if (rmdir(path) == 0 || errno != EBUSY)
            return true;
        poll(NULL, 0, LOOK_MS);
    } while (clock_mono_ms() < until_ms);
    return false;
}

bool cgroup_clear_dead(const char *parent, int64_t timeout_ms)
{
    int64_t until_ms = clock_mono_ms() + timeout_ms;
    bool clear = true;
    DIR *folder = *parent ? opendir(parent) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char *end;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        long pid = strtol(entry->d_name + strlen(prefix), &end, 10);
        if (*end == '\0' && pid > 0 && !has_minder((pid_t)pid))
            clear &= clear_until(parent, (pid_t)pid, until_ms);
    }
    if (folder)
        closedir(folder);
    return clear;
}
