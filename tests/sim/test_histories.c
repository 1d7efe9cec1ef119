/*
 * Histories with faults, many of each kind, and the proof that broken promises are seen. The work
 * is done by `sim` (sim_main.c); a history that fails is shown with the command that repeats it.
 *
 * TEND_SIM_SEEDS: how many histories in all on each store, default 2,000, under a sanitizer 200; on
 * PostgreSQL, where they take ten times as long, by default a twentieth of them.
 *
 * Rows of the contract that every history checks: LK-1 LK-2 LK-3 LK-4 LK-6 LK-9, CL-1 CL-2 CL-3
 * CL-4 CL-6 CL-7, RC-2 RC-3 RC-4 RC-5 RC-6 RC-7 RC-9 RC-10 RC-11 RC-12 RC-15, LS-1 LS-2 LS-3 LS-5
 * LS-6 LS-7, BY-2, BY-4, BY-9; of steps RC-14 and SH-1 SH-9 SH-10 SH-11 SH-12 SH-13 SH-16, as far
 * as the store goes.
 */
#include "run_sim.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

enum {
    PROFILES = 10, /* seed n has profile n % 10; see sim.h */
    PROCESSES = 2,
    WITHIN_S = 240,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SEEDS = 200,
#else
    SEEDS = 2000,
#endif
};

static long seeds_per_profile(void)
{
    const char *given = getenv("TEND_SIM_SEEDS");
    long seeds = given != NULL ? strtol(given, NULL, 10) : sim_on_postgres() ? SEEDS / 20 : SEEDS;
    seeds /= PROFILES;
    return seeds < PROCESSES ? PROCESSES : seeds;
}

/* All histories of one profile, in several processes. */
static void run_profile(int profile)
{
    pid_t children[PROCESSES];
    long seeds = seeds_per_profile() / PROCESSES;
    for (int i = 0; i < PROCESSES; i++) {
        char from[24];
        char count[24];
        snprintf(from, sizeof from, "%d", profile + i * PROFILES);
        snprintf(count, sizeof count, "%ld", seeds);
        const char *const arguments[] = {"--from", from, "--count", count, "--step", "20", NULL};
        children[i] = sim_start(arguments, NULL);
    }
    int worst = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status = sim_end_of(children[i]);
        worst = status > worst ? status : worst;
    }
    check_int(worst, ==, 0);
}

TEST_WITHIN(sim, calm_histories, WITHIN_S)
{
    run_profile(0);
}

TEST_WITHIN(sim, workers_crash_at_any_call, WITHIN_S)
{
    run_profile(1);
}

TEST_WITHIN(sim, workers_stall_past_their_leases, WITHIN_S)
{
    run_profile(2);
}

TEST_WITHIN(sim, answers_get_lost_after_the_commit, WITHIN_S)
{
    run_profile(3);
}

TEST_WITHIN(sim, the_store_fails_or_contends_at_any_query, WITHIN_S)
{
    run_profile(4);
}

TEST_WITHIN(sim, the_clock_jumps, WITHIN_S)
{
    run_profile(5);
}

TEST_WITHIN(sim, several_recover_at_once, WITHIN_S)
{
    run_profile(6);
}

TEST_WITHIN(sim, several_workers_have_the_same_name, WITHIN_S)
{
    run_profile(7);
}

TEST_WITHIN(sim, sessions_are_lost_and_come_back, WITHIN_S)
{
    run_profile(8);
}

TEST_WITHIN(sim, everything_at_once, WITHIN_S)
{
    run_profile(9);
}

/* --- the simulation itself --- */

#define SABOTAGE_TEST(name, option)                                                                \
    TEST(sim, it_is_seen_when_##name)                                                              \
    {                                                                                              \
        sim_check_caught(option);                                                                  \
    }

SABOTAGE_TEST(a_stale_owner_can_complete, "unfenced-complete")
SABOTAGE_TEST(a_stale_owner_can_release, "unfenced-release")
SABOTAGE_TEST(recovery_does_not_fence_the_old_owner, "token-kept")
SABOTAGE_TEST(crashes_are_not_counted, "crash-uncounted")
SABOTAGE_TEST(a_commit_is_acknowledged_but_lost, "commit-forgotten")
SABOTAGE_TEST(a_heartbeat_does_nothing, "heartbeat-forgotten")
SABOTAGE_TEST(recovery_comes_before_the_end_of_the_lease, "hasty-recovery")
SABOTAGE_TEST(a_held_lock_is_stolen, "lock-stolen")
SABOTAGE_TEST(a_release_costs_an_attempt, "release-charged")
SABOTAGE_TEST(a_limit_is_ignored, "limit-ignored")
SABOTAGE_TEST(waiters_are_not_woken, "bell-silent")
SABOTAGE_TEST(a_stale_owner_can_report_a_step, "unfenced-step")
SABOTAGE_TEST(a_stale_owner_can_write_output, "unfenced-output")
SABOTAGE_TEST(a_step_that_succeeded_leaves_no_checkpoint, "checkpoint-forgotten")
SABOTAGE_TEST(a_finished_step_is_repeated, "step-repeated")
SABOTAGE_TEST(a_lost_attempt_is_told_as_stopped, "loss-untold")
SABOTAGE_TEST(an_answered_control_stays_open, "control-forgotten")
SABOTAGE_TEST(a_control_outlives_the_run_it_was_given_to, "control-kept")
SABOTAGE_TEST(a_purge_leaves_rows_behind, "purge-leaves")
SABOTAGE_TEST(what_was_submitted_during_a_run_is_dropped, "submission-forgotten")
SABOTAGE_TEST(tokens_do_not_jump_with_a_generation, "generation-kept")
SABOTAGE_TEST(a_store_made_anew_gives_out_old_leases, "made-alike")
SABOTAGE_TEST(a_child_does_not_know_that_it_was_forked, "fork-unnoticed")
