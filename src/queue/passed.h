/*
 * How far claims that pass over kinds have looked. A queue may begin with any number of jobs of a
 * kind that is full in a worker. What is behind them must be found (WF-7), and they must not all be
 * read again by each claim. So a handle remembers, for a queue and the kinds passed over, up to
 * where nothing else was seen; claims read a page at the beginning and go on from there.
 *
 * What comes before that place later (a job given back, or recovered, keeps its due time) is found
 * by a second look that goes through the queue piece by piece, at a small share of the time. What
 * is added is behind it: the place is one for each priority, and leaves out the last seconds.
 */
#ifndef QUEUE_PASSED_H
#define QUEUE_PASSED_H

#include "queue/handle.h"

/* What is remembered, or an empty one. */
struct passed passed_find(tend *t, const char *queue, const char *const *kinds, size_t kind_count);
void passed_keep(tend *t, const struct passed *passed);

/* A job of a kind that is passed over, or that was chosen: claims need not look at it again. */
void passed_note(struct passed *passed, const struct claim_position *at, int64_t now_ms);

/* Where to go on after a position: there, or further on in its priority. */
struct claim_position passed_jump(const struct passed *passed, const struct claim_position *at);

bool passed_any(const struct passed *passed);

/* A piece of the second look has come to a position (NULL: to the end) and has begun at begun_ms.
 */
void passed_looked(struct passed *passed, const struct claim_position *at, int64_t begun_ms);

#endif
