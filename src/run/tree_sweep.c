/*
 * tree_sweep: what is left of attempts whose worker, nursery and minders are all gone. See tree.h.
 *
 * Their processes have init for a parent now. Found are:
 *   - the recorded process, by pid and start;
 *   - every process that carries the attempt's mark (tree_mark.h), which it loses only by changing
 *     that limit on purpose;
 *   - every process whose environment at its exec had the marker: where no mark could be set;
 *   - the group of the recorded process, as long as one of the former is in it (the number of a
 *     group is free for others only when nobody is in it any more);
 *   - everything below those.
 * What has a living minder above it is not left behind (tree_record.minded): its worker lives and
 * ends it, or its minder does, because the worker is dead or frozen. A minder that is stopped ends
 * nothing.
 *
 * A mark is a hash. Where a process has the marker of another attempt with the same hash in its
 * environment, it belongs to that one.
 */
#include "run/tree.h"

#include "base/clock.h"
#include "base/err.h"
#include "run/cgroup.h"
#include "run/tree_census.h"
#include "run/tree_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>
#include <unistd.h>

enum { LOOK_MS = 1, ANCESTORS = 64, ENVIRON_PIECE_BYTES = 32 * 1024 };

static const char marker_entry[] = TREE_MARKER_NAME "=";

struct sweep {
    const struct tree_record *records;
    size_t count;
    struct proc_id self;
    int64_t spared[ANCESTORS]; /* this process and those above it */
    size_t spared_count;
    char marker[TREE_MARKER_BYTES + 1]; /* of the process looked at */
    bool left_some;                     /* to their minders */
};

/* Whether the entry at hand is the marker is decided byte by byte: it may lie across two reads. */
struct environ_reader {
    size_t matched; /* bytes of marker_entry seen in this entry; SIZE_MAX: it is another entry */
    size_t value_len;
    bool found;
};

/* True when the value is complete. */
static bool read_entry_byte(struct environ_reader *reader, char byte, char *value, size_t size)
{
    if (reader->found) {
        if (byte == '\0')
            return true;
        if (reader->value_len < size - 1)
            value[reader->value_len++] = byte;
        return false;
    }
    if (byte == '\0')
        reader->matched = 0;
    else if (reader->matched != SIZE_MAX)
        reader->matched = byte == marker_entry[reader->matched] ? reader->matched + 1 : SIZE_MAX;
    reader->found = reader->matched == sizeof marker_entry - 1;
    return false;
}

/* The marker of a process, "" when it has none or it cannot be read (somebody else's). */
static void read_marker(int64_t pid, char *value, size_t size)
{
    char path[64];
    char piece[ENVIRON_PIECE_BYTES];
    struct environ_reader reader = {0};
    bool complete = false;
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while (fd >= 0 && !complete && (got = read(fd, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < got && !complete; i++)
            complete = read_entry_byte(&reader, piece[i], value, size);
    if (fd >= 0)
        close(fd);
    value[reader.value_len] = '\0';
}

static bool is_spared(const struct sweep *sweep, int64_t pid)
{
    for (size_t i = 0; i < sweep->spared_count; i++)
        if (sweep->spared[i] == pid)
            return true;
    return false;
}

static bool is_here(const struct sweep *sweep, const struct proc_id *id)
{
    return id->pid > 0 && id->pid_ns == sweep->self.pid_ns &&
           strcmp(id->boot_id, sweep->self.boot_id) == 0;
}

static bool found_in_group(const struct census *census, int64_t group)
{
    for (size_t i = 0; i < census->count; i++)
        if (census->found[i].group == group)
            return true;
    return false;
}

/* By what it carries: its mark, and the marker in its environment. */
static bool is_marked(const struct sweep *sweep, uint64_t mark, const char *marker)
{
    const char *told = sweep->marker;
    if (*told && strcmp(told, marker) == 0)
        return true;
    switch (tree_mark_match(mark, marker)) {
    case MARK_NESTED:
        return true;
    case MARK_OWN: /* a marker that does not fit the mark is not believed */
        return *told == '\0' || tree_mark_match(mark, told) != MARK_OWN;
    case MARK_OTHER:
        break;
    }
    return false;
}

/* Not one above the caller: that looks after other trees. */
static bool is_minder(const struct sweep *sweep, int64_t pid, const struct proc_stat *stat)
{
    return strcmp(stat->command, CGROUP_MINDER) == 0 && !proc_has_ended(stat) &&
           !proc_is_stopped(stat) && !is_spared(sweep, pid);
}

/* Whether the minder of the attempt lives. Where its worker runs in a step itself, there are others
 * above it, whose marks differ. */
static bool has_minder(const struct sweep *sweep, const char *marker, uint64_t mark, int64_t pid)
{
    struct proc_stat stat;
    uint64_t wanted = marker ? tree_mark_above(mark, marker) : mark;
    for (int i = 0; i < ANCESTORS && pid > 1 && proc_stat(pid, &stat) == 0; i++) {
        if (is_minder(sweep, pid, &stat) && tree_mark_read(pid) == wanted)
            return true;
        pid = stat.parent_pid;
    }
    return false;
}

static bool is_of(const struct sweep *sweep, const struct tree_record *record,
                  const struct census *census, uint64_t mark, int64_t pid,
                  const struct proc_stat *stat)
{
    if (record->marker && is_marked(sweep, mark, record->marker))
        return true;
    if (!is_here(sweep, &record->id))
        return false;
    if (pid == record->id.pid && proc_same_start(stat->start_ticks, record->id.start_ticks))
        return true;
    return stat->group == record->id.pid && found_in_group(census, stat->group);
}

static bool belongs(void *arg, const struct census *census, int64_t pid,
                    const struct proc_stat *stat)
{
    struct sweep *sweep = arg;
    if (is_spared(sweep, pid))
        return false;
    read_marker(pid, sweep->marker, sizeof sweep->marker);
    uint64_t mark = tree_mark_read(pid);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct tree_record *record = &sweep->records[i];
        if (!is_of(sweep, record, census, mark, pid, stat))
            continue;
        if (!record->minded || !has_minder(sweep, record->marker, mark, stat->parent_pid))
            return true;
        sweep->left_some = true;
    }
    return false;
}

static int init_sweep(struct sweep *sweep, const struct tree_record *records, size_t count)
{
    *sweep = (struct sweep){.records = records, .count = count};
    int r = proc_self(&sweep->self);
    if (r < 0)
        return r;
    struct proc_stat stat;
    int64_t pid = getpid();
    while (pid > 0 && sweep->spared_count < ANCESTORS) {
        sweep->spared[sweep->spared_count++] = pid;
        pid = proc_stat(pid, &stat) == 0 ? stat.parent_pid : 0;
    }
    return 0;
}

/* By pid and start: a process on its way out has no environment any more, and would no longer be
 * recognised by it. False when there is no time left. */
static bool wait_for_end(const struct census *census, int64_t until_ms)
{
    struct proc_stat stat;
    for (size_t i = 0; i < census->count;) {
        const struct census_entry *entry = &census->found[i];
        if (proc_stat(entry->pid, &stat) < 0 || stat.start_ticks != entry->start_ticks ||
            proc_has_ended(&stat)) {
            i++;
            continue;
        }
        if (clock_mono_ms() >= until_ms)
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    return true;
}

int tree_sweep(const struct tree_record *records, size_t count, int64_t timeout_ms,
               size_t *ret_killed, struct err *err)
{
    struct sweep sweep;
    struct census census = {.is_root = belongs, .arg = &sweep};
    int64_t until_ms = clock_mono_ms() + timeout_ms;
    size_t killed = 0;
    int r = init_sweep(&sweep, records, count);
    while (r == 0 && count > 0) {
        sweep.left_some = false;
        if ((r = census_kill(&census)) <= 0)
            break;
        killed += (size_t)r;
        r = wait_for_end(&census, until_ms) ? 0 : TEND_EBUSY;
    }
    census_done(&census);
    *ret_killed = killed;
    if (r == 0 && sweep.left_some)
        r = TEND_ESTATE;
    if (r == TEND_EBUSY)
        return err_set(err, r, "processes of earlier attempts do not end, not even by SIGKILL");
    if (r == TEND_ESTATE)
        return err_set(err, r, "their worker lives");
    if (r < 0)
        return err_set(err, r, "cannot look through the processes of this machine: %s",
                       tend_strerror(r));
    return 0;
}
