/* See proc.h. */
#include "base/proc.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tend.h>
#include <unistd.h>

/* The whole of a small file as a string; its length, or -1 with errno set. */
static ssize_t read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    while (len < size - 1) {
        ssize_t got = read(fd, out + len, size - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int saved = errno;
            close(fd);
            errno = saved;
            return -1;
        }
        if (got == 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    out[len] = '\0';
    return (ssize_t)len;
}

/* The code of a file in /proc that could not be read; keeps errno. */
static int unread(void)
{
    return err_lack(errno) != NULL ? TEND_ENOMEM : TEND_EIO;
}

int proc_stat(int64_t pid, struct proc_stat *ret_stat)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (read_file(path, line, sizeof line) < 0)
        return errno == ENOENT || errno == ESRCH ? TEND_ENOTFOUND : unread();

    /* The command name stands in parentheses and may hold blanks and parentheses itself. */
    char *at = strrchr(line, ')');
    if (!at)
        return TEND_EIO;
    struct proc_stat stat = {0};
    const char *name = strchr(line, '(');
    if (name != NULL && name < at)
        snprintf(stat.command, sizeof stat.command, "%.*s", (int)(at - name - 1), name + 1);
    for (char *letter = stat.command; *letter != '\0'; letter++)
        if (*letter < ' ' || *letter > '~')
            *letter = '?';
    if (sscanf(at + 1, " %c", &stat.state) != 1)
        return TEND_EIO;
    char *saved;
    char *field = strtok_r(at + 1, " \n", &saved);
    for (int number = 3; field; number++, field = strtok_r(NULL, " \n", &saved)) {
        if (number == 4)
            stat.parent_pid = strtoll(field, NULL, 10);
        if (number == 5)
            stat.group = strtoll(field, NULL, 10);
        if (number == 20)
            stat.threads = strtoll(field, NULL, 10);
        if (number == 22) {
            /* Told in the time of whoever reads it. So it is the same for all, but for a tick: a
             * shift may end within one. */
            stat.start_ticks =
                strtoll(field, NULL, 10) - clock_boot_shift_us() * sysconf(_SC_CLK_TCK) / 1000000;
            *ret_stat = stat;
            return 0;
        }
    }
    return TEND_EIO;
}

int proc_pid_ns(uint64_t *ret_inode)
{
    struct stat status;
    if (stat("/proc/self/ns/pid", &status) < 0)
        return unread();
    *ret_inode = (uint64_t)status.st_ino;
    return 0;
}

static int read_boot_id(char out[PROC_BOOT_BYTES])
{
    char line[64];
    ssize_t len = read_file("/proc/sys/kernel/random/boot_id", line, sizeof line);
    if (len <= 0)
        return len < 0 ? unread() : TEND_EIO;
    line[strcspn(line, "\n")] = '\0';
    memset(out, 0, PROC_BOOT_BYTES); /* it is compared and kept whole */
    snprintf(out, PROC_BOOT_BYTES, "%.*s", PROC_BOOT_BYTES - 1, line);
    return 0;
}

/* Without a lock, which a fork could leave locked for ever: whoever comes while another one keeps
 * the id goes by what it has read itself. */
int proc_boot_id(char out[PROC_BOOT_BYTES])
{
    enum { UNREAD, BEING_KEPT, KEPT };
    static char kept[PROC_BOOT_BYTES];
    static atomic_int state;
    int unread_yet = UNREAD;
    if (atomic_load(&state) == KEPT) {
        memcpy(out, kept, sizeof kept);
        return 0;
    }
    int r = read_boot_id(out);
    if (r == 0 && atomic_compare_exchange_strong(&state, &unread_yet, BEING_KEPT)) {
        memcpy(kept, out, sizeof kept);
        atomic_store(&state, KEPT);
    }
    return r;
}

int proc_of(int64_t pid, struct proc_id *ret_id)
{
    struct proc_id id = {.pid = pid};
    struct proc_stat stat;
    int r = proc_stat(pid, &stat);
    if (r == 0)
        r = proc_pid_ns(&id.pid_ns);
    if (r == 0)
        r = proc_boot_id(id.boot_id);
    if (r < 0)
        return r;
    id.start_ticks = stat.start_ticks;
    *ret_id = id;
    return 0;
}

int proc_self(struct proc_id *ret_id)
{
    int r = proc_of(getpid(), ret_id);
    return r == TEND_ENOTFOUND ? TEND_EIO : r;
}

/* The leader of a process may have ended while other threads go on: that is still alive. */
bool proc_has_ended(const struct proc_stat *stat)
{
    return stat->state == 'X' || (stat->state == 'Z' && stat->threads <= 1);
}

bool proc_is_stopped(const struct proc_stat *stat)
{
    return stat->state == 'T' || stat->state == 't';
}

bool proc_same_start(int64_t a_ticks, int64_t b_ticks)
{
    return a_ticks - b_ticks <= 1 && b_ticks - a_ticks <= 1;
}

enum proc_fate proc_fate(const struct proc_id *id)
{
    char boot_id[sizeof id->boot_id];
    uint64_t pid_ns;
    if (id->pid <= 0 || proc_boot_id(boot_id) < 0)
        return PROC_UNKNOWN;
    if (strncmp(boot_id, id->boot_id, sizeof boot_id) != 0)
        return PROC_DEAD;
    if (proc_pid_ns(&pid_ns) < 0 || pid_ns != id->pid_ns)
        return PROC_UNKNOWN;

    struct proc_stat stat;
    int r = proc_stat(id->pid, &stat);
    if (r == 0 && !proc_same_start(stat.start_ticks, id->start_ticks))
        return clock_namespace() == 0 ? PROC_DEAD : PROC_UNKNOWN;
    if (r == 0)
        return proc_has_ended(&stat) ? PROC_DEAD : PROC_ALIVE;
    /* /proc may hide the processes of others; the kernel's answer to a signal does not. */
    if (r == TEND_ENOTFOUND && kill((pid_t)id->pid, 0) < 0 && errno == ESRCH)
        return PROC_DEAD;
    return PROC_UNKNOWN;
}

int proc_pidfd(int64_t pid)
{
    /* The kernel sets close-on-exec on every pidfd. */
    long fd = syscall(SYS_pidfd_open, (pid_t)pid, 0u);
    if (fd >= 0)
        return (int)fd;
    return errno == ESRCH ? TEND_ENOTFOUND : TEND_EIO;
}

int proc_host(char *out, size_t size)
{
    if (size == 0 || (gethostname(out, size) < 0 && errno != ENAMETOOLONG))
        return TEND_EIO;
    out[size - 1] = '\0';
    return 0;
}
