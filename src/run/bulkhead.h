/*
 * How many steps of a kind run at once in this process (WF-7). One full kind never delays another:
 * every kind has slots of its own, and the runner claims no jobs of a kind that is full.
 *
 * Not the limits of a queue over all workers (queue/limits.h). The caller locks.
 */
#ifndef RUN_BULKHEAD_H
#define RUN_BULKHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tend.h>

enum { BULKHEADS_MAX = 64, KIND_BYTES = 201 };

struct bulkhead {
    char kind[KIND_BYTES];
    int64_t limit, taken;
};

struct bulkheads {
    struct bulkhead items[BULKHEADS_MAX];
    size_t count;
    int64_t limit_others; /* TEND_UNSET: as the kind has it */
};

void bulkheads_init(struct bulkheads *bulkheads, const struct tend_kind_limit *limits, size_t count,
                    int64_t limit_others);

/* The kind of a job that says none. */
const char *bulkhead_kind(const char *job_kind);

/* A slot of the kind, if there is one. When more kinds are in use than there is room for, the last
 * place is shared. */
bool bulkhead_take(struct bulkheads *bulkheads, const char *kind);
void bulkhead_give(struct bulkheads *bulkheads, const char *kind);

/* Whether the kind has no slot left. */
bool bulkhead_is_full(struct bulkheads *bulkheads, const char *kind);

/*
 * How many jobs can be claimed so that each of them can start, whatever kinds they are of; the
 * kinds that are full, not to be claimed, go into full (room for max).
 */
size_t bulkhead_room(const struct bulkheads *bulkheads, const char **full, size_t max,
                     size_t *ret_full_count);

#endif
