/*
 * A runner whose connections to PostgreSQL fall silent: what runs goes on, nothing stays leased to
 * a worker that does not know it, and a runner that is told to stop ends.
 */
#include "runner_case.h"

#include "support/proxy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Through the proxy; busy_ms 0: as by default. */
static tend *open_through(const struct proxy *proxy, int64_t busy_ms)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    if (busy_ms > 0)
        options.busy_ms = busy_ms;
    check_int(tend_open(&t, proxy_url(proxy), &options), ==, 0);
    return t;
}

static int64_t add_gated(tend *t, int64_t lease_ms)
{
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "{\"run\": \"touch begun; until [ -e gate ]; do sleep 0.05; done\"}";
    spec.lease_ms = lease_ms;
    return add_spec(t, &spec);
}

static void wait_for_beat(void)
{
    int64_t until_ms = sql_int("SELECT alarm_at FROM job");
    wait_until(sql_int("SELECT coalesce(max(alarm_at), 0) FROM job") != until_ms, PATIENCE_MS);
    check_int(sql_int("SELECT coalesce(max(alarm_at), 0) FROM job"), >, until_ms);
}

/*
 * Symptom: the connections of a worker died without a word, while new ones could be made. One look
 * at its leases hung for 32 s, no lease was extended meanwhile, and the job was ended and run
 * again.
 */
TEST_WITHIN(runner_silent, BY_9_connections_that_die_without_a_word_take_no_lease_away, 120)
{
    struct proxy proxy = proxy_start();
    tend *t = open_through(&proxy, 0);
    int64_t id = add_gated(t, 9000);
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    wait_for_beat();
    proxy_mute(&proxy); /* the pulse looks a few times before it beats again */
    wait_for_beat();
    wait_for_beat();
    check(fclose(fopen("gate", "w")) == 0);
    proxy_cut(&proxy); /* the claiming thread need not find out by itself */
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 4") == 1, PATIENCE_MS);
    check_str(attempts_of(t, id), "1:succeeded::");
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    tend_close(t);
    proxy_stop(&proxy);
}

/* A runner that runs a job when its server falls silent, told to stop so often; how long that takes
 * until its handle is closed. */
static long long time_to_stop(int64_t stop_ms, int signals)
{
    struct proxy proxy = proxy_start();
    tend *t = open_through(&proxy, 0);
    struct tend_runner_options options = runner_options();
    options.stop_ms = stop_ms;
    add_gated(t, 60000);
    struct running_runner running = runner_start(t, &options);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    proxy_stall_after(&proxy, 0);
    long long began_ms = test_clock_ms();
    for (int i = 0; i < signals; i++)
        tend_runner_stop(running.runner, i > 0);
    pthread_join(running.thread, NULL);
    tend_runner_free(running.runner);
    tend_close(t);
    proxy_stop(&proxy);
    return test_clock_ms() - began_ms;
}

enum { A_FEW_SECONDS_MS = 20000 }; /* on a busy machine; it was minutes */

/* Symptom: 'tend work --stop-after 2s' ended 107 s after SIGTERM. */
TEST_WITHIN(runner_silent, LS_6_a_runner_that_stops_waits_for_a_silent_server_no_longer_than_told,
            200)
{
    check_int(time_to_stop(2000, 1), <, 2000 + A_FEW_SECONDS_MS);
}

/* Symptom: a second SIGTERM made no difference. */
TEST_WITHIN(runner_silent, LS_6_a_second_signal_ends_a_runner_whose_server_is_silent, 200)
{
    check_int(time_to_stop(600000, 2), <, A_FEW_SECONDS_MS);
}

static void *run_drained(void *runner)
{
    check_int(tend_runner_run(runner), ==, 0);
    return NULL;
}

static int64_t releases(void)
{
    return sql_int("SELECT count(*) FROM event WHERE what = 'job.released'");
}

/* Whether the claim without an answer was saved: it is when it was one statement, which a runner
 * that has claimed a moment before needs. */
static bool lose_a_claim(void)
{
    struct proxy proxy = proxy_start();
    tend *t = open_through(&proxy, 300);
    tend *direct = store_open_real("direct");
    struct tend_runner_options options = runner_options();
    struct running_runner running;
    int64_t before = releases();
    add_gated(t, 60000);
    check_ok(t, tend_runner_new(&running.runner, t, &options));
    check_int(pthread_create(&running.thread, NULL, run_drained, running.runner), ==, 0);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    proxy_stall_after(&proxy, 0); /* no claim before the job is there */
    int64_t id = add_plan(direct, "{\"run\": \"true\"}");
    proxy_lose_answer(&proxy, "job_claim");
    proxy_resume(&proxy);
    wait_until(proxy_answer_is_lost(&proxy), PATIENCE_MS);
    check(fclose(fopen("gate", "w")) == 0);
    pthread_join(running.thread, NULL);
    check_int(state_of(direct, id), ==, TEND_DONE);
    check_int(releases() - before, <=, 1);
    check_int(sql_int("SELECT max(crashes) FROM job"), ==, 0);
    tend_runner_free(running.runner);
    tend_close(t);
    store_close(direct);
    proxy_stop(&proxy);
    check(unlink("begun") == 0 && unlink("gate") == 0);
    return releases() > before;
}

/*
 * Symptom: the answer to a claim was lost. The job was leased for a minute to a worker that did not
 * know of it, and 'tend work --drain' ended meanwhile with success.
 */
TEST_WITHIN(runner_silent, LS_6_a_job_whose_claim_got_no_answer_is_run_before_the_runner_is_drained,
            300)
{
    enum { TRIES = 10 };
    bool saved = false;
    for (int i = 0; i < TRIES && !saved; i++)
        saved = lose_a_claim();
    check(saved);
}

static void look_for_theft(void *arg, const struct tend_runner_news *news)
{
    printf("# %s\n", news->text);
    if (strstr(news->text, "taken away") != NULL)
        *(bool *)arg = true;
}

/* Symptom: the answer to a completion was lost, and the worker said "job 1 was taken away: its
 * lease is lost" of a job that it had completed itself. */
TEST_WITHIN(runner_silent, a_job_whose_completion_got_no_answer_is_not_said_to_be_taken_away, 120)
{
    struct proxy proxy = proxy_start();
    tend *t = open_through(&proxy, 300);
    bool theft = false;
    struct tend_runner_totals totals;
    struct tend_runner_options options = runner_options();
    tend_runner *runner;
    options.tell = look_for_theft;
    options.tell_arg = &theft;
    int64_t id = add_plan(t, "{\"run\": \"true\"}");
    proxy_lose_answer(&proxy, "job_complete");
    check_ok(t, tend_runner_new(&runner, t, &options));
    check_ok(t, tend_runner_run(runner));
    tend_runner_count(runner, &totals);
    tend_runner_free(runner);
    check(proxy_answer_is_lost(&proxy));
    check(!theft);
    check_int(totals.done, ==, 1);
    check_int(state_of(t, id), ==, TEND_DONE);
    tend_close(t);
    proxy_stop(&proxy);
}
