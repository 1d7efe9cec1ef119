#include "run/bulkhead.h"

#include <stdio.h>
#include <string.h>

enum { SHELL_LIMIT = 5, HTTP_LIMIT = 10, OTHERS_LIMIT = 5, WAITING_MOST = 100, RESTING_MOST = 100 };

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

/* A place for another kind: that of one that is not in use, a new one, or the last. */
static struct bulkhead *place(struct bulkheads *bulkheads)
{
    for (size_t i = 0; i < bulkheads->count; i++) {
        struct bulkhead *bulkhead = &bulkheads->items[i];
        if (!bulkhead->given && bulkhead->taken == 0 && bulkhead->waiting == 0 &&
            bulkhead->resting == 0)
            return bulkhead;
    }
    return bulkheads->count < BULKHEADS_MAX ? &bulkheads->items[bulkheads->count++] : NULL;
}

struct bulkhead *bulkhead_of(struct bulkheads *bulkheads, const char *kind)
{
    for (size_t i = 0; i < bulkheads->count; i++)
        if (strcmp(bulkheads->items[i].kind, kind) == 0)
            return &bulkheads->items[i];
    struct bulkhead *bulkhead = place(bulkheads);
    if (bulkhead == NULL)
        return &bulkheads->items[BULKHEADS_MAX - 1];
    *bulkhead = (struct bulkhead){.limit = limit_of(bulkheads, kind)};
    snprintf(bulkhead->kind, sizeof bulkhead->kind, "%s", kind);
    return bulkhead;
}

void bulkheads_init(struct bulkheads *bulkheads, const struct tend_kind_limit *limits, size_t count,
                    int64_t limit_others)
{
    *bulkheads = (struct bulkheads){.limit_others = limit_others};
    for (size_t i = 0; i < count; i++) {
        struct bulkhead *bulkhead = bulkhead_of(bulkheads, limits[i].kind);
        bulkhead->limit = limits[i].limit;
        bulkhead->given = true;
    }
}

bool bulkhead_take(struct bulkhead *bulkhead)
{
    if (bulkhead->taken >= bulkhead->limit)
        return false;
    bulkhead->taken++;
    return true;
}

void bulkhead_give(struct bulkhead *bulkhead)
{
    bulkhead->taken--;
}

bool bulkhead_wait(struct bulkhead *bulkhead)
{
    if (bulkhead->waiting >= WAITING_MOST)
        return false;
    bulkhead->waiting++;
    return true;
}

void bulkhead_wait_no_more(struct bulkhead *bulkhead)
{
    bulkhead->waiting--;
}

bool bulkhead_rest(struct bulkhead *bulkhead)
{
    if (bulkhead->resting >= RESTING_MOST)
        return false;
    bulkhead->resting++;
    return true;
}

void bulkhead_rest_over(struct bulkhead *bulkhead)
{
    bulkhead->resting--;
}

size_t bulkhead_room(const struct bulkheads *bulkheads, const char *full[BULKHEADS_MAX],
                     size_t *ret_full_count)
{
    int64_t room = limit_of(bulkheads, "");
    *ret_full_count = 0;
    for (size_t i = 0; i < bulkheads->count; i++) {
        const struct bulkhead *bulkhead = &bulkheads->items[i];
        int64_t free = bulkhead->limit - bulkhead->taken - bulkhead->waiting;
        if (free > 0)
            room = free < room ? free : room;
        else
            full[(*ret_full_count)++] = bulkhead->kind;
    }
    return (size_t)room;
}
