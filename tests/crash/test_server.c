/*
 * BY-2: PostgreSQL servers that are stopped, started again, failed over, frozen, and cut their
 * connections, under load: what was acknowledged is there, and by the record every job is done
 * exactly once.
 */
#include "actor.h"
#include "cluster.h"
#include "crowd.h"
#include "ledger.h"
#include "verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 6, ADDERS = 2, RESTARTS = 6 };

static const struct crowd_fate peace = {0};
static const struct crowd_fate unrest = {
    .every_ms = 200, .stop_share = 30, .leave_share = 20, .stop_ms = 800, .stopped_max = 2};

static void begin_load(struct crowd *crowd)
{
    tend *t = store_open_real("operator");
    set_queue(t, SERIAL_QUEUE, "serial", "on");
    store_close(t);
    crowd_init(crowd, store_url());
    crowd_add(crowd, "follower", 1);
    crowd_add(crowd, "adder", ADDERS);
    crowd_add(crowd, "worker", WORKERS);
}

/* Lets the crowd come to its end and judges. */
static void end_load(struct crowd *crowd)
{
    crowd_leave(crowd, "adder");
    long long deadline_ms = test_clock_ms() + 60 * SECOND_MS;
    while (verdict_open_jobs() > 0 && test_clock_ms() < deadline_ms)
        crowd_live(crowd, &peace, 50);
    crowd_leave(crowd, "worker");
    tend *t = store_open_real("judge");
    recover_now(t);
    crowd_leave(crowd, "follower");
    int64_t jobs = verdict_all_done_once(t);
    verdict_serial_queue_was_serial();
    verdict_follower_saw_everything();
    /* Each costs everybody in it a second; two who lock rows in different order would make many. */
    int64_t deadlocks =
        sql_int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    printf("# %lld jobs, %u kills, %lld recovered, %lld workers died, %lld deadlocks\n",
           (long long)jobs, crowd->kills, (long long)count_events("job.recovered"),
           (long long)count_events("worker.died"), (long long)deadlocks);
    check_int(deadlocks, <, 3);
    check_int(jobs, >, 20);
    store_close(t);
}

static size_t acked_count(void)
{
    int fd = ledger_open(test_folder(), "acked");
    size_t count = ledger_count(fd);
    close(fd);
    return count;
}

/* Lives on until something more is acknowledged: the crowd has got over it. */
static void wait_for_more(struct crowd *crowd)
{
    size_t before = acked_count();
    long long deadline_ms = test_clock_ms() + PATIENCE_MS;
    while (acked_count() < before + 5 && test_clock_ms() < deadline_ms)
        crowd_live(crowd, &peace, 20);
    check_int(acked_count(), >=, before + 5);
}

TEST_WITHIN(server, a_primary_that_is_lost_takes_nothing_acknowledged_with_it, 150)
{
    static struct cluster servers[2];
    struct crowd crowd;
    cluster_make(&servers[0], "primary");
    cluster_start(&servers[0]);
    cluster_make_standby(&servers[1], "standby", &servers[0]);
    cluster_start(&servers[1]);
    cluster_ask(&servers[0], "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    cluster_ask(&servers[0], "SELECT pg_reload_conf()");
    wait_until(
        strcmp(cluster_ask(&servers[0], "SELECT sync_state FROM pg_stat_replication"), "sync") == 0,
        PATIENCE_MS);
    clusters_are_the_store(servers, 2);
    begin_load(&crowd);
    wait_for_more(&crowd);
    crowd_live(&crowd, &unrest, crash_ms(8));
    size_t before = acked_count();
    cluster_stop(&servers[0], SIGQUIT);
    crowd_live(&crowd, &unrest, 300); /* a moment without any primary */
    check_str(cluster_ask(&servers[1], "SELECT pg_promote(true, 60)"), "t");
    wait_for_more(&crowd);
    crowd_live(&crowd, &unrest, crash_ms(8));
    check_int(before, >, 0);
    check_int(acked_count(), >, before);
    end_load(&crowd);
}

static void start_single(struct cluster *server)
{
    cluster_make(server, "server");
    cluster_start(server);
    clusters_are_the_store(server, 1);
}

TEST_WITHIN(server, restarted_again_and_again_under_load_it_loses_nothing, 150)
{
    static struct cluster server;
    struct crowd crowd;
    start_single(&server);
    begin_load(&crowd);
    for (int i = 0; i < RESTARTS; i++) {
        wait_for_more(&crowd);
        crowd_live(&crowd, &unrest, crash_ms(2));
        cluster_stop(&server, i % 2 == 0 ? SIGINT : SIGQUIT);
        crowd_live(&crowd, &peace, i * 100);
        cluster_start(&server);
    }
    wait_for_more(&crowd);
    end_load(&crowd);
}

/* RC-13: a lost session alone is no death; its worker comes back within the grace. */
TEST_WITHIN(server, connections_cut_at_random_lose_nothing_and_nobody_is_taken_for_dead, 150)
{
    static struct cluster server;
    struct crowd crowd;
    start_single(&server);
    begin_load(&crowd);
    wait_for_more(&crowd);
    long long end_ms = test_clock_ms() + crash_ms(8);
    while (test_clock_ms() < end_ms) {
        cluster_ask(&server,
                    "SELECT count(pg_terminate_backend(pid)) FROM ("
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    "AND pid <> pg_backend_pid() ORDER BY random() LIMIT 3) AS victims");
        crowd_live(&crowd, &peace, 1 + (int64_t)rng_below(&crowd.rng, 60));
    }
    wait_for_more(&crowd);
    end_load(&crowd);
    check_int(count_events("worker.died"), ==, 0);
}

TEST_WITHIN(server, frozen_for_a_second_it_loses_nothing, 150)
{
    static struct cluster server;
    struct crowd crowd;
    start_single(&server);
    begin_load(&crowd);
    for (int i = 0; i < 3; i++) {
        wait_for_more(&crowd);
        crowd_live(&crowd, &unrest, crash_ms(1));
        cluster_signal_all(&server, SIGSTOP);
        crowd_live(&crowd, &unrest, 1000);
        cluster_signal_all(&server, SIGCONT);
    }
    wait_for_more(&crowd);
    end_load(&crowd);
}
