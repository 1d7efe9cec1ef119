/*
 * To be preloaded (LD_PRELOAD) into a program: its wall clock is wrong by as many seconds as the
 * file TEND_TEST_CLOCK says, which may change while it runs. Other clocks are right.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long wrong_by_s(void)
{
    char text[32] = "";
    const char *path = getenv("TEND_TEST_CLOCK");
    int kept = errno;
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t len = read(fd, text, sizeof text - 1);
        text[len > 0 ? len : 0] = '\0';
        close(fd);
    }
    errno = kept;
    return strtoll(text, NULL, 10);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int rc = (int)syscall(SYS_clock_gettime, clock_id, tp);
    if (rc == 0 && clock_id == CLOCK_REALTIME)
        tp->tv_sec += (time_t)wrong_by_s();
    return rc;
}
