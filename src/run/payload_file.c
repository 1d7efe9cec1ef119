#include "run/payload_file.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <tend.h>
#include <unistd.h>

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(fd, bytes, len);
        if (wrote < 0 && errno != EINTR)
            return false;
        bytes += wrote > 0 ? wrote : 0;
        len -= wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

int payload_file(const struct tend_job *job)
{
    int fd = memfd_create("payload", MFD_CLOEXEC);
    if (fd >= 0 &&
        (!write_all(fd, job->payload, job->payload_bytes) || lseek(fd, 0, SEEK_SET) < 0)) {
        int problem = errno;
        close(fd);
        errno = problem;
        return -1;
    }
    return fd;
}
