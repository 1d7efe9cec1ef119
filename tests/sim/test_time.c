/*
 * Broken promises about time are seen (see test_histories.c). On SQLite only, where the simulation
 * sets the clocks.
 */
#include "run_sim.h"
#include "support/test.h"

TEST(sim, it_is_seen_when_a_clock_step_ends_leases)
{
    sim_check_caught("leases-not-moved");
}

TEST(sim, it_is_seen_when_time_in_which_nothing_could_be_saved_counts)
{
    sim_check_caught("freeze-forgotten");
}
