/* See tree_mark.h. */
#include "run/tree_mark.h"

#include "base/text.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PART_BITS = 31, LIMITS_BYTES = 4096 };

static const uint64_t part = (UINT64_C(1) << PART_BITS) - 1;
static const uint64_t flag = UINT64_C(1) << (2 * PART_BITS);

/* Never all ones, which says that there is no inner attempt. */
static uint64_t part_of(const char *marker)
{
    return text_hash(marker) % part;
}

static bool is_mark(uint64_t limit)
{
    return limit >> (2 * PART_BITS) == flag >> (2 * PART_BITS);
}

static uint64_t inner_part(uint64_t mark)
{
    return mark & part;
}

static uint64_t outer_part(uint64_t mark)
{
    return mark >> PART_BITS & part;
}

uint64_t tree_mark_make(const char *marker)
{
    struct rlimit own;
    if (getrlimit(RLIMIT_RTTIME, &own) < 0)
        return 0;
    if (own.rlim_max == RLIM_INFINITY)
        return flag | part_of(marker) << PART_BITS | part;
    if (is_mark(own.rlim_max) && inner_part(own.rlim_max) == part)
        return (own.rlim_max & ~part) | part_of(marker);
    return 0;
}

void tree_mark_set(uint64_t mark)
{
    const struct rlimit both = {.rlim_cur = mark, .rlim_max = mark};
    if (mark != 0)
        setrlimit(RLIMIT_RTTIME, &both);
}

uint64_t tree_mark_read(int64_t pid)
{
    static const char name[] = "Max realtime timeout";
    char path[64];
    char text[LIMITS_BYTES];
    snprintf(path, sizeof path, "/proc/%lld/limits", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *line = strstr(text, name);
    if (line == NULL)
        return 0;
    /* The soft limit, then the hard one; "unlimited" is no number and becomes 0. */
    const char *soft = line + strlen(name) + strspn(line + strlen(name), " ");
    const char *hard = soft + strcspn(soft, " ");
    uint64_t limit = strtoull(hard, NULL, 10);
    return is_mark(limit) ? limit : 0;
}

enum tree_mark_match tree_mark_match(uint64_t mark, const char *marker)
{
    if (!is_mark(mark))
        return MARK_OTHER;
    uint64_t wanted = part_of(marker);
    bool nested = inner_part(mark) != part;
    if (nested && inner_part(mark) == wanted)
        return MARK_OWN;
    if (outer_part(mark) != wanted)
        return MARK_OTHER;
    return nested ? MARK_NESTED : MARK_OWN;
}

uint64_t tree_mark_above(uint64_t mark, const char *marker)
{
    enum tree_mark_match match = tree_mark_match(mark, marker);
    if (match == MARK_OTHER)
        return mark;
    return match == MARK_OWN && inner_part(mark) != part ? mark | part : 0;
}
