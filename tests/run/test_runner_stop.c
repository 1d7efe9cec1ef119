/*
 * A runner that is told to stop while another program keeps everybody from writing to the store: it
 * ends all the same (LS-6).
 */
#include "runner_case.h"

#include <string.h>

/* How long a write waits, and what is much less on a busy machine too. */
enum { BUSY_MS = 50000, WELL_BELOW_MS = 25000 };

static bool a_claim_waits(void)
{
    return store_is_postgres() ? sql_int("SELECT count(*) FROM pg_locks WHERE NOT granted AND "
                                         "relation = 'job'::regclass") > 0
                               : strstr(store_log(), "the store cannot be written") != NULL;
}

/* Symptom: 'tend work --stop-after 1s' ended 58 s after SIGTERM: its claim waited for 28 s more,
 * and then retention began, and waited for 30 s. */
TEST_WITHIN(runner_stop, LS_6_a_runner_that_stops_is_not_kept_by_one_who_locks_the_store, 120)
{
    struct tend_options options = store_options("w");
    struct tend_runner_options how = runner_options();
    options.busy_ms = BUSY_MS;
    options.clock_ms = NULL;
    how.stop_ms = 1000;
    tend *t = store_open_with(&options);
    struct helper locker = sql_lock_start("job");
    struct running_runner running = runner_start(t, &how);
    wait_until(a_claim_waits(), PATIENCE_MS);
    long long begun_ms = test_clock_ms();
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    store_close(t);
    check_int(test_clock_ms() - begun_ms, <, WELL_BELOW_MS);
    sql_lock_end(&locker);
}
