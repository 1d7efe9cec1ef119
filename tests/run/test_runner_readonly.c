/*
 * A PostgreSQL server that is read-only for a while, as a primary is when somebody turns on
 * default_transaction_read_only: what was done is told when it can be written again (BY-9, LS-6).
 */
#include "crash/cluster.h"
#include "runner_case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct cluster server;
static atomic_int claims_noted; /* how often somebody was told that a claim failed */

static void note_news(void *arg, const struct tend_runner_news *news)
{
    (void)arg;
    printf("# %s\n", news->text);
    if (news->kind == TEND_NEWS_NOTE && strstr(news->text, "read-only") != NULL &&
        strstr(news->text, "leases cannot be extended") == NULL)
        atomic_fetch_add(&claims_noted, 1);
}

static void make_server(void)
{
    cluster_make(&server, "server");
    cluster_start(&server);
    clusters_are_the_store(&server, 1);
}

static void set_read_only(const char *on_or_off)
{
    cluster_ask(&server,
                keep_text("ALTER SYSTEM SET default_transaction_read_only = %s", on_or_off));
    cluster_ask(&server, "SELECT pg_reload_conf()");
    wait_until(strcmp(cluster_ask(&server, "SHOW default_transaction_read_only"), on_or_off) == 0,
               PATIENCE_MS);
}

/*
 * Symptom: the step was done, its report was taken for refused, tend_runner_run returned
 * TEND_EREADONLY, the job stayed leased, was charged with a crash, and its command ran twice.
 */
TEST_WITHIN(runner_readonly, BY_9_a_step_that_ends_meanwhile_is_told_when_the_store_is_writable,
            120)
{
    make_server();
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    options.tell = note_news;
    int64_t id = add_plan(t, "{\"run\": \"echo x >> ran; echo v=1 >> $TEND_OUTPUT; "
                             "until [ -e gate ]; do sleep 0.02; done; touch ended\"}");
    struct running_runner running = runner_start(t, &options);
    wait_until(access("ran", F_OK) == 0, PATIENCE_MS);
    set_read_only("on");
    check_int(system("touch gate"), ==, 0);
    wait_until(access("ended", F_OK) == 0, PATIENCE_MS);
    wait_until(atomic_load(&claims_noted) == 1, PATIENCE_MS);
    check_int(sql_int("SELECT state FROM job"), ==, TEND_RUNNING);
    set_read_only("off");
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    int64_t later = add_plan(t, "{\"run\": \"true\"}");
    wait_until(state_of(t, later) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(atomic_load(&claims_noted), ==, 1);
    check_str(file_text("ran"), "x\n");
    check_str(attempts_of(t, id), "1:succeeded::");
    check_contains(job_of(t, id)->result, "\"v\":\"1\"");
    check_int(job_of(t, id)->crashes, ==, 0);
}

TEST_WITHIN(runner_readonly, a_store_that_is_read_only_from_the_first_is_told_at_once, 120)
{
    make_server();
    store_close(store_open_real("maker"));
    set_read_only("on");
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    tend_runner *runner;
    options.drain = 0;
    check_ok(t, tend_runner_new(&runner, t, &options));
    check_int(tend_runner_run(runner), ==, TEND_EREADONLY);
    check_contains(tend_errmsg(t), "default_transaction_read_only is on");
    tend_runner_free(runner);
}
