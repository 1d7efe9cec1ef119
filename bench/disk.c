/* The disk itself, for orientation: how often a second a page can be appended to a file and be on
 * disk. */
#include "bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

static int sync_for(int file, double seconds, double *ret_rate)
{
    static const char page[PAGE_BYTES];
    size_t count = 0;
    double began = bench_seconds();
    double now = began;
    for (; now < began + seconds; now = bench_seconds()) {
        if (write(file, page, sizeof page) != (ssize_t)sizeof page || fdatasync(file) < 0)
            return bench_fail("writing to the disk: %s", strerror(errno));
        count++;
    }
    *ret_rate = (double)count / (now - began);
    return 0;
}

int bench_disk(struct bench *bench, const struct bench_case *self)
{
    char path[512];
    struct bench_result result = {
        .name = self->name, .unit = "/s", .raw = -1, .ours = -1, .ratio = -1};
    snprintf(path, sizeof path, "%s/disk", bench->folder);
    snprintf(result.what, sizeof result.what, "%s", self->text);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return bench_fail("%s: %s", path, strerror(errno));
    int rc = sync_for(file, bench->quick ? 0.2 : 1, &result.raw);
    close(file);
    unlink(path);
    if (rc == 0)
        bench_add(bench, result);
    return rc;
}
