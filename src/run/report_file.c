/* See report_file.h. */
#include "run/report_file.h"

#include "base/err.h"
#include "run/workspace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW };

void report_file_init(struct report_file *file)
{
    *file = (struct report_file){.folder = -1, .fd = -1};
}

void report_file_close(struct report_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

int report_file_make(struct report_file *file, int folder)
{
    int problem = files_remove_at(folder, REPORT_FILE_NAME);
    if (problem != 0)
        return problem;
    file->folder = folder;
    file->fd = openat(folder, REPORT_FILE_NAME, READ_FLAGS | O_CREAT | O_EXCL, 0666);
    return file->fd < 0 ? errno : 0;
}

static void keep_tail(struct report_file *file, const char *bytes, size_t len)
{
    size_t kept = len < REPORT_TAIL_BYTES ? REPORT_TAIL_BYTES - len : 0;
    if (kept > file->tail_bytes)
        kept = file->tail_bytes;
    if (len > REPORT_TAIL_BYTES) {
        bytes += len - REPORT_TAIL_BYTES;
        len = REPORT_TAIL_BYTES;
    }
    memmove(file->tail, file->tail + file->tail_bytes - kept, kept);
    memcpy(file->tail + kept, bytes, len);
    file->tail_bytes = kept + len;
}

static size_t read_on(struct report_file *file, struct report *report, size_t most)
{
    struct err err;
    char bytes[4096];
    size_t taken = 0;
    while (file->fd >= 0 && taken < most && file->bytes < REPORT_MOST_BYTES) {
        ssize_t len = pread(file->fd, bytes, sizeof bytes, (off_t)file->bytes);
        if (len <= 0)
            break;
        report_feed(report, bytes, (size_t)len, &err);
        keep_tail(file, bytes, (size_t)len);
        file->bytes += (size_t)len;
        taken += (size_t)len;
    }
    return taken;
}

/* Whether it goes on where reading has come to: by the last of what was read. */
static bool goes_on(const struct report_file *file)
{
    char now[REPORT_TAIL_BYTES];
    off_t at = (off_t)(file->bytes - file->tail_bytes);
    ssize_t len = file->tail_bytes == 0 ? 0 : pread(file->fd, now, file->tail_bytes, at);
    return len < 0 ||
           ((size_t)len == file->tail_bytes && memcmp(now, file->tail, (size_t)len) == 0);
}

static bool is_open(const struct report_file *file, const struct stat *named)
{
    struct stat open;
    return file->fd >= 0 && fstat(file->fd, &open) == 0 && open.st_dev == named->st_dev &&
           open.st_ino == named->st_ino;
}

/* Opens what has its name now, if that is another file. The rest of the one before is taken first;
 * it is closed first, too, so that no further descriptor is needed. */
static void follow(struct report_file *file, struct report *report)
{
    struct stat named;
    file->lacking = false;
    if (fstatat(file->folder, REPORT_FILE_NAME, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    file->odd = !S_ISREG(named.st_mode);
    if (file->odd || is_open(file, &named))
        return;
    read_on(file, report, REPORT_MOST_BYTES);
    report_file_close(file);
    file->fd = openat(file->folder, REPORT_FILE_NAME, READ_FLAGS);
    file->lacking = file->fd < 0 && err_lack(errno) != NULL;
    file->odd = file->fd < 0 && !file->lacking;
}

size_t report_file_read(struct report_file *file, struct report *report)
{
    struct err err;
    follow(file, report);
    if (file->fd >= 0 && !goes_on(file)) {
        report_again(report, &err);
        file->anew = true;
        file->bytes = file->tail_bytes = 0;
    }
    return read_on(file, report, REPORT_TICK_BYTES);
}
