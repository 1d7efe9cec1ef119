#include "load.h"
#include "actor.h"
#include "ledger.h"
#include "verdict.h"

#include <stdio.h>

static const struct crowd_fate peace = {0};

void load_begin(struct crowd *crowd)
{
    tend *t = store_open_real("operator");
    set_queue(t, SERIAL_QUEUE, "serial", "on");
    store_close(t);
    crowd_init(crowd, store_url());
    crowd_add(crowd, "follower", 1);
}

size_t load_acked(void)
{
    return ledger_length(test_folder(), "acked");
}

void load_goes_on(struct crowd *crowd)
{
    size_t before = load_acked();
    long long deadline_ms = test_clock_ms() + PATIENCE_MS;
    while (load_acked() < before + 5 && test_clock_ms() < deadline_ms)
        crowd_live(crowd, &peace, 20);
    check_int(load_acked(), >=, before + 5);
}

void load_end(struct crowd *crowd)
{
    crowd_leave(crowd, "adder");
    long long deadline_ms = test_clock_ms() + 60 * SECOND_MS;
    while (verdict_open_jobs() > 0 && test_clock_ms() < deadline_ms)
        crowd_live(crowd, &peace, 50);
    crowd_leave(crowd, "worker");
    tend *t = store_open_real("judge");
    recover_now(t); /* writes the last events, if any */
    crowd_leave(crowd, "follower");
    int64_t jobs = verdict_all_done_once(t);
    verdict_serial_queue_was_serial();
    verdict_follower_saw_everything();
    printf("# %lld jobs, %u kills, %u stops, %lld recovered, %lld workers died\n", (long long)jobs,
           crowd->kills, crowd->stops, (long long)count_events("job.recovered"),
           (long long)count_events("worker.died"));
    check_int(jobs, >, 20);
    store_close(t);
}
