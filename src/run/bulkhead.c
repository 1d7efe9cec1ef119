#include "run/bulkhead.h"

#include <stdio.h>
#include <string.h>

enum { SHELL_LIMIT = 5, HTTP_LIMIT = 10, OTHERS_LIMIT = 5 };

const char *bulkhead_kind(const char *job_kind)
{
    return job_kind == NULL || job_kind[0] == '\0' ? "shell" : job_kind;
}

static int64_t limit_of(const struct bulkheads *bulkheads, const char *kind)
{
    if (bulkheads->limit_others != TEND_UNSET)
        return bulkheads->limit_others;
    if (strcmp(kind, "shell") == 0)
        return SHELL_LIMIT;
    return strcmp(kind, "http") == 0 ? HTTP_LIMIT : OTHERS_LIMIT;
}

static struct bulkhead *find(struct bulkheads *bulkheads, const char *kind)
{
    for (size_t i = 0; i < bulkheads->count; i++)
        if (strcmp(bulkheads->items[i].kind, kind) == 0)
            return &bulkheads->items[i];
    if (bulkheads->count == BULKHEADS_MAX)
        return &bulkheads->items[BULKHEADS_MAX - 1];
    struct bulkhead *bulkhead = &bulkheads->items[bulkheads->count++];
    *bulkhead = (struct bulkhead){.limit = limit_of(bulkheads, kind)};
    snprintf(bulkhead->kind, sizeof bulkhead->kind, "%s", kind);
    return bulkhead;
}

void bulkheads_init(struct bulkheads *bulkheads, const struct tend_kind_limit *limits, size_t count,
                    int64_t limit_others)
{
    *bulkheads = (struct bulkheads){.limit_others = limit_others};
    find(bulkheads, "shell");
    find(bulkheads, "http");
    for (size_t i = 0; i < count; i++)
        find(bulkheads, limits[i].kind)->limit = limits[i].limit;
}

bool bulkhead_is_full(struct bulkheads *bulkheads, const char *kind)
{
    const struct bulkhead *bulkhead = find(bulkheads, kind);
    return bulkhead->taken >= bulkhead->limit;
}

bool bulkhead_take(struct bulkheads *bulkheads, const char *kind)
{
    struct bulkhead *bulkhead = find(bulkheads, kind);
    if (bulkhead->taken >= bulkhead->limit)
        return false;
    bulkhead->taken++;
    return true;
}

void bulkhead_give(struct bulkheads *bulkheads, const char *kind)
{
    find(bulkheads, kind)->taken--;
}

size_t bulkhead_room(const struct bulkheads *bulkheads, const char **full, size_t max,
                     size_t *ret_full_count)
{
    int64_t room = limit_of(bulkheads, "");
    *ret_full_count = 0;
    for (size_t i = 0; i < bulkheads->count; i++) {
        const struct bulkhead *bulkhead = &bulkheads->items[i];
        int64_t free = bulkhead->limit - bulkhead->taken;
        if (free > 0)
            room = free < room ? free : room;
        else if (*ret_full_count < max)
            full[(*ret_full_count)++] = bulkhead->kind;
        else
            return 0; /* too many are full to name them all */
    }
    return (size_t)room;
}
