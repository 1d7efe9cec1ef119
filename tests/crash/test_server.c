/*
 * BY-2: PostgreSQL servers that are stopped, started again, failed over, frozen, and cut their
 * connections, under load: what was acknowledged is there, and by the record every job is done
 * exactly once.
 */
#include "cluster.h"
#include "load.h"

#include <signal.h>

enum { WORKERS = 6, ADDERS = 2, RESTARTS = 6 };

static const struct crowd_fate peace = {0};
static const struct crowd_fate unrest = {
    .every_ms = 200, .stop_share = 30, .leave_share = 20, .stop_ms = 800, .stopped_max = 2};

static void begin(struct crowd *crowd)
{
    load_begin(crowd);
    crowd_add(crowd, "adder", ADDERS);
    crowd_add(crowd, "worker", WORKERS);
}

static void end(struct crowd *crowd)
{
    load_end(crowd);
    /* Each costs everybody in it a second; two who lock rows in different order would make many. */
    check_int(sql_int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"),
              <, 3);
}

TEST_WITHIN(server, a_primary_that_is_lost_takes_nothing_acknowledged_with_it, 150)
{
    static struct cluster servers[2];
    struct crowd crowd;
    clusters_make_pair(servers);
    clusters_are_the_store(servers, 2);
    begin(&crowd);
    load_goes_on(&crowd);
    crowd_live(&crowd, &unrest, crash_ms(8));
    size_t before = load_acked();
    cluster_stop(&servers[0], SIGQUIT);
    crowd_live(&crowd, &unrest, 300); /* a moment without any primary */
    check_str(cluster_ask(&servers[1], "SELECT pg_promote(true, 60)"), "t");
    load_goes_on(&crowd);
    crowd_live(&crowd, &unrest, crash_ms(8));
    check_int(before, >, 0);
    check_int(load_acked(), >, before);
    end(&crowd);
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
    begin(&crowd);
    for (int i = 0; i < RESTARTS; i++) {
        load_goes_on(&crowd);
        crowd_live(&crowd, &unrest, crash_ms(2));
        cluster_stop(&server, i % 2 == 0 ? SIGINT : SIGQUIT);
        crowd_live(&crowd, &peace, i * 100);
        cluster_start(&server);
    }
    load_goes_on(&crowd);
    end(&crowd);
}

/* RC-13: a lost session alone is no death; its worker comes back within the grace. */
TEST_WITHIN(server, connections_cut_at_random_lose_nothing_and_nobody_is_taken_for_dead, 150)
{
    static struct cluster server;
    struct crowd crowd;
    start_single(&server);
    begin(&crowd);
    load_goes_on(&crowd);
    long long end_ms = test_clock_ms() + crash_ms(8);
    while (test_clock_ms() < end_ms) {
        cluster_ask(&server,
                    "SELECT count(pg_terminate_backend(pid)) FROM ("
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    "AND pid <> pg_backend_pid() ORDER BY random() LIMIT 3) AS victims");
        crowd_live(&crowd, &peace, 1 + (int64_t)rng_below(&crowd.rng, 60));
    }
    load_goes_on(&crowd);
    end(&crowd);
    check_int(count_events("worker.died"), ==, 0);
}

TEST_WITHIN(server, frozen_for_a_second_it_loses_nothing, 150)
{
    static struct cluster server;
    struct crowd crowd;
    start_single(&server);
    begin(&crowd);
    for (int i = 0; i < 3; i++) {
        load_goes_on(&crowd);
        crowd_live(&crowd, &unrest, crash_ms(1));
        cluster_signal_all(&server, SIGSTOP);
        crowd_live(&crowd, &unrest, 1000);
        cluster_signal_all(&server, SIGCONT);
    }
    load_goes_on(&crowd);
    end(&crowd);
}
