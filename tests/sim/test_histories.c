/*
 * Histories with faults, many of each kind, and the proof that broken promises are seen. The work
 * is done by `sim` (sim_main.c); a history that fails is shown with the command that repeats it.
 *
 * TEND_SIM_SEEDS: how many histories in all, default 2,000; on PostgreSQL a tenth as many, because
 * they take ten times as long.
 *
 * Rows of the contract that every history checks: LK-1 LK-2 LK-3 LK-4 LK-6 LK-9, CL-1 CL-2 CL-3
 * CL-4 CL-6 CL-7, RC-2 RC-3 RC-4 RC-5 RC-6 RC-7 RC-9 RC-10 RC-11 RC-12 RC-15, LS-1 LS-2 LS-3 LS-5
 * LS-6 LS-7, BY-2, BY-4.
 */
#include "support/test.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROFILES = 10, /* seed n has profile n % 10; see sim.h */
    PROCESSES = 2,
    WITHIN_S = 240,
};

static bool on_postgres(void)
{
    const char *store = getenv("TEND_TEST_STORE");
    return store != NULL && strcmp(store, "postgres") == 0;
}

static long seeds_per_profile(void)
{
    const char *given = getenv("TEND_SIM_SEEDS");
    long seeds = given != NULL ? strtol(given, NULL, 10) : 2000;
    seeds /= on_postgres() ? 10 * PROFILES : PROFILES;
    return seeds < PROCESSES ? PROCESSES : seeds;
}

/* The program lies in a folder beside this one. */
static const char *sim_path(void)
{
    static char path[PATH_MAX];
    char own[PATH_MAX - 16] = "";
    check_int(readlink("/proc/self/exe", own, sizeof own - 1), >, 0);
    *strrchr(own, '/') = '\0';
    snprintf(path, sizeof path, "%s/sim/sim", own);
    return path;
}

/* Output goes to the test's, or to the file where one is named. */
static pid_t start_sim(const char *const *arguments, const char *output)
{
    const char *argv[16] = {sim_path(), "--store",
                            on_postgres() ? getenv("TEND_TEST_PG_URL") : "sqlite"};
    size_t count = 3;
    check(argv[2] != NULL);
    while (*arguments != NULL)
        argv[count++] = *arguments++;
    pid_t child = fork();
    check_int(child, >=, 0);
    if (child == 0) {
        if (output != NULL && (freopen(output, "w", stdout) == NULL || dup2(1, 2) < 0))
            _exit(127);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return child;
}

static int end_of(pid_t child)
{
    int status = 0;
    check_int(waitpid(child, &status, 0), ==, child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
        children[i] = start_sim(arguments, NULL);
    }
    int worst = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status = end_of(children[i]);
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

static char *contents(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    check(file != NULL);
    check_int(getdelim(&text, &room, '\0', file), >, 0);
    fclose(file);
    return text;
}

TEST(sim, the_same_seed_gives_the_same_history)
{
    static const char *const seeds[] = {"5", "6", "9"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        const char *const arguments[] = {"--seed", seeds[i], "--verbose", NULL};
        check_int(end_of(start_sim(arguments, test_path("first"))), ==, 0);
        check_int(end_of(start_sim(arguments, test_path("second"))), ==, 0);
        char *first = contents(test_path("first"));
        char *second = contents(test_path("second"));
        check_str(first, second);
        check_contains(first, "over after");
        free(first);
        free(second);
    }
}

/* A deliberate defect between library and store must be seen, and the message must say how to
 * repeat it. */
static void check_caught(const char *sabotage)
{
    const char *const arguments[] = {"--from", "0", "--count", "300", "--sabotage", sabotage, NULL};
    int status = end_of(start_sim(arguments, test_path("output")));
    char *output = contents(test_path("output"));
    check_contains(output, "--seed ");
    check_contains(output, sabotage);
    check_int(status, ==, 1);
    free(output);
}

#define SABOTAGE_TEST(name, option)                                                                \
    TEST(sim, it_is_seen_when_##name)                                                              \
    {                                                                                              \
        check_caught(option);                                                                      \
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
