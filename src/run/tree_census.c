/* See tree_census.h. */
#include "run/tree_census.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <tend.h>
#include <unistd.h>

enum {
    /* Small on purpose: a folder read in large pieces names processes that are gone by the time
     * they are looked at. With small ones the last piece holds the newest processes only, and one
     * that forks and ends again and again is caught there. */
    FOLDER_PIECE_BYTES = 512,
    MOST_WALKS = 100, /* then what is stopped so far is killed, and the caller comes again */
};

static bool is_child(void *arg, const struct census *census, int64_t pid,
                     const struct proc_stat *stat)
{
    (void)arg, (void)census, (void)pid;
    return stat->parent_pid == getpid();
}

void census_init_children(struct census *census)
{
    *census = (struct census){.is_root = is_child};
}

void census_done(struct census *census)
{
    free(census->found);
    census->found = NULL;
    census->count = census->capacity = 0;
}

void census_signal(const struct census_entry *entry, int signal)
{
    if (entry->own_child) {
        kill((pid_t)entry->pid, signal);
        return;
    }
    struct proc_stat now;
    int pidfd = proc_pidfd(entry->pid);
    if (proc_stat(entry->pid, &now) == 0 && now.start_ticks == entry->start_ticks) {
        if (pidfd >= 0)
            syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0u);
        else if (pidfd != TEND_ENOTFOUND) /* out of descriptors, or forbidden */
            kill((pid_t)entry->pid, signal);
    }
    if (pidfd >= 0)
        close(pidfd);
}

static bool has_found(const struct census *census, int64_t pid)
{
    for (size_t i = 0; i < census->count; i++)
        if (census->found[i].pid == pid)
            return true;
    return false;
}

/* 1 when it is new and ours, 0 when not, TEND_ENOMEM. */
static int look_at(struct census *census, int64_t pid, int signal)
{
    struct proc_stat stat;
    if (has_found(census, pid) || proc_stat(pid, &stat) < 0 || proc_has_ended(&stat))
        return 0;
    if (!has_found(census, stat.parent_pid) && !census->is_root(census->arg, census, pid, &stat))
        return 0;
    struct census_entry entry = {
        .pid = pid,
        .start_ticks = stat.start_ticks,
        .group = stat.group,
        .own_child = stat.parent_pid == getpid(),
    };
    if (signal != 0)
        census_signal(&entry, signal);
    if (census->count == census->capacity) {
        size_t capacity = census->capacity > 0 ? census->capacity * 2 : 16;
        struct census_entry *found = realloc(census->found, capacity * sizeof *found);
        if (!found)
            return TEND_ENOMEM;
        census->found = found;
        census->capacity = capacity;
    }
    census->found[census->count++] = entry;
    return 1;
}

/* How many were new in one walk over all processes. */
static int walk(struct census *census, int proc_folder, int signal)
{
    union {
        struct dirent64 first;
        char bytes[FOLDER_PIECE_BYTES];
    } piece;
    int fresh = 0;
    ssize_t got;
    if (lseek(proc_folder, 0, SEEK_SET) < 0)
        return TEND_EIO;
    while ((got = getdents64(proc_folder, &piece, sizeof piece)) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const void *)(piece.bytes + at);
            at += entry->d_reclen;
            if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                continue;
            int r = look_at(census, strtoll(entry->d_name, NULL, 10), signal);
            if (r < 0)
                return r;
            fresh += r;
        }
    }
    return got < 0 ? TEND_EIO : fresh;
}

int census_take(struct census *census, int signal)
{
    int proc_folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc_folder < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? TEND_ENOMEM : TEND_EIO;
    int r = 1;
    for (int walks = 0; r > 0 && walks < MOST_WALKS; walks++)
        r = walk(census, proc_folder, signal);
    close(proc_folder);
    return r < 0 ? r : (int)census->count;
}

int census_kill(struct census *census)
{
    census->count = 0;
    int r = census_take(census, SIGSTOP);
    for (size_t i = 0; i < census->count; i++)
        census_signal(&census->found[i], SIGKILL);
    return r < 0 && census->count == 0 ? r : (int)census->count;
}
