/*
 * What must hold after a crash test, whatever has happened: read from the store's own record and
 * compared with what the actors wrote down (ledger.h). Through store.h, on the engine and server it
 * points to.
 */
#ifndef TEND_CRASH_VERDICT_H
#define TEND_CRASH_VERDICT_H

#include "support/store.h"

/* How many jobs are neither done nor will be without work. */
int64_t verdict_open_jobs(void);

/*
 * To be called when all actors have left: every job is done, exactly once; everything acknowledged
 * is there; nothing is left behind; the file is whole. How many jobs there were.
 */
int64_t verdict_all_done_once(tend *t);

/* Each part of the above, for stores that are not drained. */
void verdict_acked_are_there(void);
void verdict_none_was_added_twice(void);
void verdict_completions_are_there(void);
/* RC-11: none of the completions that came too late is in the record. How many there were. */
size_t verdict_late_completions(void);
/* RC-13, BY-9: whoever is recorded as dead was killed by the crowd. How many there are. */
int64_t verdict_only_killed_are_dead(void);
void verdict_record_is_whole(void);
void verdict_serial_queue_was_serial(void);
void verdict_follower_saw_everything(void);
void verdict_nothing_is_held(tend *t);
void verdict_store_is_sound(tend *t);

#endif
