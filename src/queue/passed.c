#include "queue/passed.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum {
    SETTLED_MS = 2000, /* transactions that began before may still commit, and jobs fall due */
    PAUSE_MS = 250,    /* between two pieces of the second look */
};

/* In any order; 0 is for an empty place. */
static uint64_t hash_kinds(const char *const *kinds, size_t count)
{
    uint64_t sum = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = text_hash(kinds[i]);
        sum += hash * hash;
    }
    return sum == 0 ? 1 : sum;
}

/* Under the handle's mutex. */
static struct passed *find(tend *t, const char *queue, uint64_t kinds)
{
    for (size_t i = 0; i < PASSED_KEPT; i++)
        if (t->passed[i].kinds == kinds && strcmp(t->passed[i].queue, queue) == 0)
            return &t->passed[i];
    return NULL;
}

struct claim_look passed_start(tend *t, const struct claim_want *want)
{
    struct passed passed = {.kinds = hash_kinds(want->not_kinds, want->not_kind_count),
                            .again = CLAIM_START};
    snprintf(passed.queue, sizeof passed.queue, "%s", want->queue);
    pthread_mutex_lock(&t->mutex);
    const struct passed *kept = find(t, want->queue, passed.kinds);
    if (kept != NULL)
        passed = *kept;
    pthread_mutex_unlock(&t->mutex);
    return (struct claim_look){.before = passed, .begin = CLAIM_START};
}

void passed_keep(tend *t, const struct passed *passed)
{
    pthread_mutex_lock(&t->mutex);
    struct passed *kept = find(t, passed->queue, passed->kinds);
    if (kept == NULL)
        kept = &t->passed[t->passed_next++ % PASSED_KEPT];
    *kept = *passed;
    pthread_mutex_unlock(&t->mutex);
}

bool position_is_before(const struct claim_position *at, const struct claim_position *other)
{
    if (at->priority != other->priority)
        return at->priority < other->priority;
    return at->due_at != other->due_at ? at->due_at < other->due_at : at->id < other->id;
}

static bool is_priority(int64_t priority) /* the beginning has none */
{
    return priority >= 0 && priority < PRIORITIES;
}

static struct claim_position end_of(const struct passed *passed, int64_t priority)
{
    return (struct claim_position){priority, passed->ends[priority].due_at,
                                   passed->ends[priority].id};
}

void passed_note(struct passed *passed, const struct claim_position *at, int64_t now_ms)
{
    if (!is_priority(at->priority))
        return;
    struct claim_position end = end_of(passed, at->priority);
    struct claim_position settled = {at->priority, now_ms - SETTLED_MS, INT64_MAX};
    if (position_is_before(at, &settled))
        settled = *at;
    if (!position_is_before(&end, &settled))
        return;
    passed->ends[at->priority].due_at = settled.due_at;
    passed->ends[at->priority].id = settled.id;
}

void passed_note_end(struct passed *passed, int64_t priority, int64_t now_ms)
{
    const struct claim_position end = {priority, INT64_MAX, INT64_MAX};
    passed_note(passed, &end, now_ms);
}

struct claim_position passed_jump(const struct passed *passed, const struct claim_position *at)
{
    if (!is_priority(at->priority))
        return *at;
    struct claim_position end = end_of(passed, at->priority);
    return position_is_before(at, &end) ? end : *at;
}

bool passed_any(const struct passed *passed)
{
    for (int i = 0; i < PRIORITIES; i++)
        if (passed->ends[i].id > 0)
            return true;
    return false;
}

void passed_set_keyed(struct passed *passed, bool keyed)
{
    if (passed->keyed == keyed)
        return;
    memset(passed->ends, 0, sizeof passed->ends);
    passed->keyed = keyed;
    passed->again = CLAIM_START;
}

bool passed_is_time(const struct passed *passed, int64_t now_ms)
{
    bool clock_set_back = passed->again_ms > now_ms + PAUSE_MS;
    return passed_any(passed) && (now_ms >= passed->again_ms || clock_set_back);
}

void passed_looked(struct passed *passed, const struct claim_position *at, int64_t now_ms)
{
    passed->again = at == NULL ? CLAIM_START : *at;
    passed->again_ms = now_ms + PAUSE_MS;
}

void passed_turn_back(struct passed *passed, const struct passed *begun)
{
    passed->again = begun->again;
    passed->again_ms = begun->again_ms;
    memcpy(passed->key, begun->key, sizeof passed->key);
}
