/* See clock_move.h. */
#include "store/clock_move.h"

int clock_move(struct db_tx *tx, struct db_value now, int64_t by_ms, const char *what,
               const char *data)
{
    static const enum db_query moves[] = {Q_CLOCK_MOVE_LEASES, Q_CLOCK_MOVE_LOCKS,
                                          Q_CLOCK_MOVE_NEWCOMERS};
    const struct db_value by[] = {db_int(by_ms), now};
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < sizeof moves / sizeof moves[0]; i++)
        rc = db_each(tx, moves[i], 0, by, 1, NULL);
    if (rc >= 0)
        rc = db_each(tx, Q_CLOCK_STEP, 0, by, 1, NULL);
    if (rc < 0)
        return rc;
    const struct db_value event[] = {now,           db_null(), db_null(), db_text("clock"),
                                     db_text(what), db_null(), db_null(), db_null(),
                                     db_text(data)};
    return db_each(tx, Q_EVENT_ADD, 0, event, 1, NULL);
}
