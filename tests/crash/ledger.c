#include "ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(4096 % sizeof(struct ledger_entry) == 0, "an entry must not lie across two pages");

static int open_file(const char *folder, const char *name, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CREAT | O_CLOEXEC, 0666);
}

int ledger_open(const char *folder, const char *name)
{
    return open_file(folder, name, O_RDWR | O_APPEND);
}

int ledger_write(int fd, const struct ledger_entry *entries, size_t count)
{
    size_t bytes = count * sizeof *entries;
    return write(fd, entries, bytes) == (ssize_t)bytes ? 0 : -1;
}

size_t ledger_count(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? (size_t)status.st_size / sizeof(struct ledger_entry) : 0;
}

size_t ledger_length(const char *folder, const char *name)
{
    int fd = ledger_open(folder, name);
    size_t count = ledger_count(fd);
    close(fd);
    return count;
}

struct ledger_entry *ledger_read(const char *folder, const char *name, size_t *ret_count)
{
    int fd = open_file(folder, name, O_RDONLY);
    size_t count = fd < 0 ? 0 : ledger_count(fd);
    struct ledger_entry *entries = calloc(count + 1, sizeof *entries);
    size_t bytes = count * sizeof *entries;
    size_t have = 0;
    while (entries != NULL && have < bytes) {
        ssize_t got = pread(fd, (char *)entries + have, bytes - have, (off_t)have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (fd < 0 || have < bytes) {
        free(entries);
        return NULL;
    }
    *ret_count = count;
    return entries;
}
