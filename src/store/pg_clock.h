/*
 * Time on PostgreSQL, whose clock is the server's. SQL has no clock that runs evenly, but every
 * client has one: CLOCK_BOOTTIME. The store keeps a mark for each machine that judges by time
 * (table clock_mark): what store time was when its time since boot was so much. Whoever is about
 * to take a lease or a lock because its time is over looks first whether both have come as far
 * since then.
 *
 *   - They differ by more than a second and what the measurement leaves open: the server's clock
 *     was set. All running leases and held locks are moved by the difference (event clock.stepped).
 *   - The server was started at another time than the one that is noted in the store: it was
 *     restarted, or it is another one, which was a standby. Nobody could renew a lease meanwhile,
 *     and the clock may be another. All of them begin anew with their full length (event
 *     server.changed).
 *   - The machine has no mark: it cannot tell. It makes one and goes on.
 *
 * Each of the first two counts one in store.clock_steps, and a mark is of use only with the number
 * it was made with: whoever has moved the leases makes the marks of all others void, so that nobody
 * moves them a second time, and a mark that is made while another moves them does not count either.
 * One transaction at a time does any of it (query clock_turn).
 *
 * Two machines may go by one name: a virtual machine that was copied while it ran has the same boot
 * id, and a time since boot of its own. Each would find the other's mark off, move all leases, and
 * make a mark that is off for the other, for ever. So a mark is not believed that was made since
 * this process looked for the first time, if the clock has run evenly for this process since then.
 * And when a mark tells of the last step once more, the other way round, within an hour in which
 * the server's clock has only gone on, no mark of that name counts any more, until it is forgotten
 * after thirty days: each process goes by what it has seen itself (struct pg_own_mark). So does a
 * process that cannot name its machine, where /proc cannot be read. The name is read when the store
 * is opened: later there may be no descriptor for it, and the machine's mark would be ignored.
 *
 * Rules: a clock that was set back makes no lease longer than its length from now. No more than
 * that is given by a wrong mark either (a machine that was restored from a snapshot has a time
 * since boot that stood still). Marks are made anew after a minute by whoever looks, so that clocks
 * that drift apart slowly do not add up to a step. Looking costs a round trip; adding, claiming and
 * completing do not look, unless something has expired.
 *
 * A row that another session has locked is not waited for: it could be locked for hours, in which
 * nothing would be recovered. It is named in table clock_left, not taken by its time, and begins
 * anew, with its full length, as soon as its row can be had (give_left).
 *
 * Readers do not move anything. They look as writers do and are told by how much whoever settles
 * the clock will move leases (pg_clock_owed), so that they call none expired which nobody will
 * take. That costs them a round trip: only what tells people about leases does it, and reading a
 * lock only when it has expired.
 *
 * With a test's clock, its time since boot counts (tend_options.uptime_ms); without one the clock
 * runs evenly.
 */
#ifndef STORE_PG_CLOCK_H
#define STORE_PG_CLOCK_H

#include "store/db.h"

struct pg_db;

void pg_clock_init(struct pg_db *db);
void pg_clock_done(struct pg_db *db);

/* db_clock_look and db_clock_settle. */
int pg_clock_look(struct db_tx *tx);
int pg_clock_settle(struct db_tx *tx);

/* db_owed; ret is all 0 before. blocked_ms stays 0: time without a server cannot be told apart. */
int pg_clock_owed(struct db_tx *tx, struct db_owed *ret);

#endif
