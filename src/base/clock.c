/* See clock.h. */
#include "base/clock.h"

#include <time.h>

int64_t clock_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_mono_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_ns() / 1000000;
}

static int64_t read_us(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A process that was stopped between two clocks would take that for a jump of one: it looks again.
 */
void clock_look(struct clock_look *ret)
{
    enum { TRIES = 10, MOMENT_US = 1000 };
    int64_t before_us;
    for (int i = 0; i < TRIES; i++) {
        before_us = read_us(CLOCK_MONOTONIC);
        ret->wall_us = read_us(CLOCK_REALTIME);
        ret->boottime_us = read_us(CLOCK_BOOTTIME);
        ret->monotonic_us = read_us(CLOCK_MONOTONIC);
        if (ret->monotonic_us - before_us <= MOMENT_US)
            return;
    }
}
