/*
 * Time that counts against no lease: the one way in which leases and named locks are moved along
 * with it, on both engines. Who has found out how much it is: store/sqlite_clock.c and
 * store/pg_clock.c.
 */
#ifndef STORE_CLOCK_MOVE_H
#define STORE_CLOCK_MOVE_H

#include "store/db.h"

/*
 * In a write transaction whose time is now: all running leases, held locks and newcomers by by_ms,
 * the number of steps, and the event, `what` with `data`. 0 or a negative code.
 */
int clock_move(struct db_tx *tx, struct db_value now, int64_t by_ms, const char *what,
               const char *data);

#endif
