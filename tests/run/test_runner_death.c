/*
 * Workers that are killed in the middle of a job with steps: every step's effect happens, finished
 * steps are not run again, and nothing a dead worker started is alive when the job goes on (RC-14).
 */
#include "runner_case.h"

#include "base/rng.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 10 };

/*
 * A step says which it is, looks whether anything of an earlier attempt is alive, and starts
 * something in a session of its own that would live for ever. The first ends when one worker was
 * killed with the job in hand, the second when two were, and so on: however fast the machine is,
 * there is a death in each of them.
 */
static const char *plan(const char *workspace)
{
    const char *text = keep_text("{%s\"env\":{\"T\":\"%s\"},\"steps\":[", workspace, test_folder());
    for (int i = 1; i <= STEPS; i++)
        text = keep_text(
            "%s%s{\"id\":\"s%02d\",\"run\":\"for p in $(cat $T/pids); do kill -0 $p && echo $p >> "
            "$T/alive; done; echo s%02d >> $T/ran; setsid sh -c 'echo $$ >> $T/pids; exec sleep "
            "600' & echo x > f%d; until test $(wc -l < $T/kills) -ge %d; do sleep 0.01; done\"}",
            text, i == 1 ? "" : ",", i, i, i, i);
    return keep_text("%s]}", text);
}

/* A step may have run several times, but none after a later one. */
static void check_order(const char *ran)
{
    int last = 0;
    int seen = 0;
    for (const char *at = ran; *at != '\0'; at += 4) {
        int step = (int)strtol(at + 1, NULL, 10);
        check_int(step, >=, last);
        check_int(step, <=, last + 1);
        seen += step > last;
        last = step;
    }
    check_int(seen, ==, STEPS);
}

static void check_all_dead(void)
{
    FILE *file = fopen("pids", "re");
    char line[32];
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        wait_until(kill((pid_t)strtol(line, NULL, 10), 0) < 0, PATIENCE_MS);
    if (file != NULL)
        fclose(file);
}

static const char *whole_file(const char *name)
{
    const char *text = "";
    char line[256];
    FILE *file = fopen(name, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        text = keep_text("%s%s", text, line);
    if (file != NULL)
        fclose(file);
    return text;
}

static void kill_until_done(const char *workspace)
{
    tend *t = store_open_real("operator");
    struct rng rng;
    struct tend_job_spec spec = spec_for("q");
    rng_seed_random(&rng);
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    check_int(system("touch pids kills"), ==, 0);
    spec.payload = plan(workspace);
    spec.max_crashes = 100000;
    int64_t id = add_spec(t, &spec);
    int lives = 0;
    int kills = 0; /* with the job in hand */
    for (; state_of(t, id) != TEND_DONE; lives++) {
        struct helper worker = helper_start(runner_forever, "worker");
        helper_hear(&worker);
        /* Longer and longer, so that also a slow machine comes to the end. */
        long long until_ms = test_clock_ms() + (long long)rng_below(&rng, 60 + 8 * (uint64_t)lives);
        while (test_clock_ms() < until_ms && state_of(t, id) != TEND_DONE)
            test_pause();
        bool in_hand = state_of(t, id) == TEND_RUNNING;
        helper_kill(&worker);
        if (in_hand && state_of(t, id) == TEND_RUNNING) {
            check_int(system("echo x >> kills"), ==, 0);
            kills++;
        }
        check_int(lives, <, 1000);
    }
    check_int(kills, >=, STEPS);
    printf("# killed %d times, ran %zu steps\n", kills, strlen(whole_file("ran")) / 4);
    check_order(whole_file("ran"));
    check_str(whole_file("alive"), "");
    check_all_dead();
    check_int(sql_int("SELECT count(*) FROM checkpoint WHERE step_index > 0"), ==, STEPS);
}

/* LS-1: jobs in hand of which nothing has run yet, because there is no slot for them. */
TEST(runner_death, LS_1_a_killed_worker_charges_no_crash_to_jobs_it_had_not_started)
{
    enum { JOBS = 12, SLOTS = 5 };
    tend *t = store_open_real("operator");
    for (int i = 0; i < JOBS; i++)
        add_plan(t, "{\"sleep\":\"600s\"}");
    struct helper worker = helper_start(runner_forever, "worker");
    helper_hear(&worker);
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 2") == JOBS, PATIENCE_MS);
    wait_until(sql_int("SELECT count(*) FROM attempt") == SLOTS, PATIENCE_MS);
    helper_kill(&worker);
    wait_until(recover_now(t).entries_reclaimed >= 0 &&
                   sql_int("SELECT count(*) FROM job WHERE state = 2") == 0,
               PATIENCE_MS);
    check_int(sql_int("SELECT sum(crashes) FROM job"), ==, SLOTS);
    check_int(sql_int("SELECT count(*) FROM job j WHERE crashes <> (SELECT count(*) FROM attempt a "
                      "WHERE a.job_id = j.id)"),
              ==, 0);
}

/* ... but git works for a job before its first attempt, and may be what kills a worker. */
TEST(runner_death, LS_1_a_job_has_started_when_its_workspace_is_made)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    check_int(
        system(
            "mkdir -p bin repo/.git && printf '#!/bin/sh\\ntouch begun; exec sleep 600\\n' > bin/git && "
            "chmod +x bin/git"),
        ==, 0);
    check_int(setenv("PATH", keep_text("%s/bin:%s", test_folder(), getenv("PATH")), 1), ==, 0);
    add_plan(t, "{\"workspace\":{\"repo\":\"repo\"},\"run\":\"true\"}");
    struct running_runner running = runner_start(t, &options);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2 AND started_at IS NOT NULL"), ==,
              1);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, 0);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
}

TEST_WITHIN(runner_death, RC_14_a_killed_worker_leaves_no_orphans_and_repeats_no_finished_step, 150)
{
    kill_until_done("");
}

TEST_WITHIN(runner_death, SH_10_a_killed_worker_is_followed_by_one_that_goes_on_in_a_new_workspace,
            150)
{
    if (chdir(test_folder()) < 0 ||
        system("git init -q -b main repo && cd repo && git -c user.email=a@b -c user.name=n commit "
               "-q --allow-empty -m one") != 0)
        test_fail(__FILE__, __LINE__, "no repository");
    kill_until_done(keep_text("\"workspace\":{\"repo\":\"%s/repo\"},", test_folder()));
}
