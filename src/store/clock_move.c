/* See clock_move.h. */
#include "store/clock_move.h"

#include "store/queries.h"

int clock_move(struct db_tx *tx, struct db_value now, int64_t by_ms, const char *what,
               const char *data)
{
    const struct clock_move_leases_params leases = {.by_ms = db_int(by_ms), .now = now};
    const struct clock_move_locks_params locks = {.by_ms = db_int(by_ms), .now = now};
    const struct clock_move_newcomers_params newcomers = {.by_ms = db_int(by_ms), .now = now};
    const struct event_add_params event = {
        .now = now, .who = db_text("clock"), .what = db_text(what), .data = db_text(data)};
    int rc;
    if ((rc = each_clock_move_leases(tx, 0, &leases, 1, NULL)) < 0 ||
        (rc = each_clock_move_locks(tx, 0, &locks, 1, NULL)) < 0 ||
        (rc = each_clock_move_newcomers(tx, 0, &newcomers, 1, NULL)) < 0 ||
        (rc = run_clock_step(tx, 0)) < 0)
        return rc;
    return each_event_add(tx, 0, &event, 1, NULL);
}
