/*
 * How far claims that pass over jobs have looked. A queue may begin with any number of jobs of a
 * kind that is full in a worker, or of keys that are at their limit. What is behind them must be
 * found (WF-7, BY-4), and they must not all be read again by each claim. So a handle remembers, for
 * a queue and the kinds passed over, up to where nothing else was seen; claims read a page at the
 * beginning and go on from there. What is added is behind it: the place is one for each priority,
 * and leaves out the last seconds. In a queue with a limit per key only jobs without a key are
 * remembered in this way; those with one are found by their key (choice.c).
 *
 * What comes before that place later (a job given back, or recovered, keeps its due time) is found
 * by its index (job_cut_in). Whatever else comes there, such as a job whose adding took longer than
 * those seconds to commit, is found by a second look that goes through the queue piece by piece,
 * every PAUSE_MS of store time, whether claims find other work or not. A claim that waits goes on
 * with it: it wakes for each piece, and remembers what it has looked at as one that claims does.
 */
#ifndef QUEUE_PASSED_H
#define QUEUE_PASSED_H

#include "queue/limits.h"

/* For a claim that begins: with what is remembered, if anything is. */
struct claim_look passed_start(tend *t, const struct claim_want *want);
void passed_keep(tend *t, const struct passed *passed);

/* A claim has looked at all jobs of a priority up to this one, and has passed over it or taken it.
 * Those that came in the last seconds are not remembered, those before them are. */
void passed_note(struct passed *passed, const struct claim_position *at, int64_t now_ms);

/* All that is pending in a priority was looked at. */
void passed_note_end(struct passed *passed, int64_t priority, int64_t now_ms);

/* Where to go on after a position: there, or further on in its priority. */
struct claim_position passed_jump(const struct passed *passed, const struct claim_position *at);

bool passed_any(const struct passed *passed);

/* The queue has, or has no, limit per key. What was remembered otherwise is forgotten. */
void passed_set_keyed(struct passed *passed, bool keyed);

/* Whether the second look goes on; now_ms is store time, here and below. */
bool passed_is_time(const struct passed *passed, int64_t now_ms);
/* A piece of it has come to a position (NULL: to the end). */
void passed_looked(struct passed *passed, const struct claim_position *at, int64_t now_ms);

/* The second look, and that by keys, are to begin again where they began before. */
void passed_turn_back(struct passed *passed, const struct passed *begun);

bool position_is_before(const struct claim_position *at, const struct claim_position *other);

#endif
