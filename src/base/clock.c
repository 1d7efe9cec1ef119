/* See clock.h. */
#include "base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* --- time namespaces --- */

/* By how much the clocks of this process are ahead of the machine's. */
static struct {
    int64_t boottime_us, monotonic_us;
    uint64_t unknown; /* the number of the namespace of which that is not known; 0: it is */
} shift;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The number of the machine's own time namespace, the same in every kernel that has others. */
static const ino_t namespace_of_machine = 0xEFFFFFFA;

/* "SECONDS NANOSECONDS" in microseconds. */
static int64_t parse_us(const char *text)
{
    char *end;
    int64_t seconds = strtoll(text, &end, 10);
    return seconds * 1000000 + strtoll(end, NULL, 10) / 1000;
}

/* Most are in the machine's own namespace, and know that without a descriptor. The file tells it of
 * the namespace for children, which is one's own but for a process that has made another one. */
static void read_shift(void)
{
    struct stat own;
    struct stat of_children;
    char line[128];
    shift.boottime_us = shift.monotonic_us = 0;
    shift.unknown = 0;
    if (stat("/proc/self/ns/time", &own) != 0 || own.st_ino == namespace_of_machine)
        return; /* its own, or the kernel has no others, or nothing can be told */
    FILE *file = stat("/proc/self/ns/time_for_children", &of_children) == 0 &&
                         own.st_ino == of_children.st_ino
                     ? fopen("/proc/self/timens_offsets", "re")
                     : NULL;
    if (file == NULL) {
        shift.unknown = own.st_ino;
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "boottime ", strlen("boottime ")) == 0)
            shift.boottime_us = parse_us(line + strlen("boottime "));
        else if (strncmp(line, "monotonic ", strlen("monotonic ")) == 0)
            shift.monotonic_us = parse_us(line + strlen("monotonic "));
    }
    fclose(file);
}

/* A child may be in another namespace. */
static void forget_shift(void)
{
    once = (pthread_once_t)PTHREAD_ONCE_INIT;
}

static void learn_shift(void)
{
    static bool watched; /* a child inherits that, too */
    if (!watched)
        pthread_atfork(NULL, NULL, forget_shift);
    watched = true;
    read_shift();
}

static void know_shift(void)
{
    pthread_once(&once, learn_shift);
}

int64_t clock_boot_shift_us(void)
{
    know_shift();
    return shift.boottime_us;
}

uint64_t clock_namespace(void)
{
    know_shift();
    return shift.unknown;
}

/* --- clocks --- */

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
    return ((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - clock_boot_shift_us()) / 1000;
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
    know_shift();
    for (int i = 0; i < TRIES; i++) {
        before_us = read_us(CLOCK_MONOTONIC);
        ret->wall_us = read_us(CLOCK_REALTIME);
        ret->boottime_us = read_us(CLOCK_BOOTTIME);
        ret->monotonic_us = read_us(CLOCK_MONOTONIC);
        if (ret->monotonic_us - before_us <= MOMENT_US)
            break;
    }
    ret->boottime_us -= shift.boottime_us;
    ret->monotonic_us -= shift.monotonic_us;
}
