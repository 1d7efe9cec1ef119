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

enum { BULKHEADS_MAX = 256, KIND_BYTES = 201 };

struct bulkhead {
    char kind[KIND_BYTES];
    int64_t limit, taken;
    int64_t waiting; /* for a slot of it, with none of another kind */
    int64_t resting; /* pause, and have given their slot to others meanwhile */
    bool given;      /* its limit was set: it keeps its place */
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

/*
 * That of a kind. It is the kind's as long as a slot is taken or waited for, or somebody rests;
 * then it may become another's. When more kinds than BULKHEADS_MAX are in use at once, they share
 * the last.
 */
struct bulkhead *bulkhead_of(struct bulkheads *bulkheads, const char *kind);

/* A slot, if there is one. */
bool bulkhead_take(struct bulkhead *bulkhead);
void bulkhead_give(struct bulkhead *bulkhead);

/* A place to wait for a slot in; false: as many wait as may. */
bool bulkhead_wait(struct bulkhead *bulkhead);
void bulkhead_wait_no_more(struct bulkhead *bulkhead);

/* A place to rest in, for somebody who has a slot and gives it next; false: as many rest as may.
 * Who rests keeps no slot from others, so that more jobs can be claimed; their number is bounded.
 */
bool bulkhead_rest(struct bulkhead *bulkhead);
void bulkhead_rest_over(struct bulkhead *bulkhead);

/*
 * How many jobs can be claimed so that each of them can start, whatever kinds they are of: at least
 * one. The kinds that are full, not to be claimed, go into full; so do those whose free slots are
 * for those who wait.
 */
size_t bulkhead_room(const struct bulkheads *bulkheads, const char *full[BULKHEADS_MAX],
                     size_t *ret_full_count);

#endif
