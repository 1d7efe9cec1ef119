/*
 * BY-9: a PostgreSQL server that is away for longer than the leases last: it is restarted, or a
 * standby takes over. Nobody could renew one meanwhile, so nobody loses one by it, and nobody is
 * charged.
 */
#include "cluster.h"

#include <signal.h>
#include <string.h>

enum { LEASE_MS = 3000 };

static struct tend_lease claim_lease(tend *t, unsigned flags)
{
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = LEASE_MS;
    claim.flags = flags;
    return claim_with(t, &claim);
}

static void lock_door(tend *t)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "door";
    request.ttl_ms = LEASE_MS;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
}

/* One lease of a registered worker, one that is judged by its time alone, and a lock as well. */
struct held {
    tend *t, *other;
    struct tend_lease leases[2];
};

static struct held hold_all(void)
{
    struct held held = {.t = store_open_real("worker"), .other = store_open_real("other")};
    add_number(held.t, "q", 2);
    held.leases[0] = claim_lease(held.t, 0);
    held.leases[1] = claim_lease(held.t, TEND_CLAIM_BY_TIME);
    lock_door(held.t);
    return held;
}

static void wait_for_the_end_of_leases(void)
{
    long long away_until_ms = test_clock_ms() + 2LL * LEASE_MS;
    wait_until(test_clock_ms() >= away_until_ms, PATIENCE_MS);
}

static void check_nobody_lost_anything(struct held *held)
{
    struct tend_recovery recovery = recover_now(held->other);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.locks_cleaned, ==, 0);
    check_int(tend_lock_extend(held->t, "door", NULL, MINUTE_MS), ==, 1);
    check_ok(held->t, tend_heartbeat(held->t, held->leases, 2, MINUTE_MS, NULL));
    check_int(count_events("server.changed"), ==, 1);
    check_int(sql_int("SELECT sum(crashes) FROM job"), ==, 0);
    check_ok(held->t, tend_complete(held->t, held->leases, 2, NULL, NULL));
}

TEST_WITHIN(server_away, BY_9_a_restart_longer_than_a_lease_takes_none_and_charges_nobody, 120)
{
    static struct cluster server;
    cluster_make(&server, "server");
    cluster_start(&server);
    clusters_are_the_store(&server, 1);
    struct held held = hold_all();
    cluster_stop(&server, SIGINT);
    wait_for_the_end_of_leases();
    cluster_start(&server);
    check_nobody_lost_anything(&held);
}

/* It was started long before, and so all that was held by time was lost. */
TEST_WITHIN(server_away, BY_9_a_standby_that_takes_over_later_takes_none_and_charges_nobody, 120)
{
    static struct cluster servers[2];
    clusters_make_pair(servers);
    clusters_are_the_store(servers, 2);
    struct held held = hold_all();
    cluster_stop(&servers[0], SIGQUIT);
    wait_for_the_end_of_leases();
    check_str(cluster_ask(&servers[1], "SELECT pg_promote(true, 60)"), "t");
    check_nobody_lost_anything(&held);
}

static void note_standby(void *told, enum tend_verdict verdict, const char *what, const char *text)
{
    if (strcmp(what, "writing") == 0 && verdict == TEND_WRONG)
        *(bool *)told = strstr(text, "it is a standby; name the primary") != NULL;
}

TEST_WITHIN(server_away, a_standby_says_that_it_is_one, 120)
{
    static struct cluster servers[2];
    struct tend_job_spec spec = spec_for("q");
    struct tend_options options = store_options("reader");
    tend *t = NULL;
    options.must_exist = 1;
    clusters_make_pair(servers);
    clusters_are_the_store(servers, 1);
    store_close(store_open("maker"));
    clusters_are_the_store(&servers[1], 1);
    wait_until(tend_open(&t, store_url(), &options) == 0 || (tend_close(t), false), PATIENCE_MS);
    check_int(tend_add(t, &spec, NULL), ==, TEND_EREADONLY);
    check_contains(tend_errmsg(t), "it is a standby; name the primary in the URL");
    /* The doctor found the store well. */
    bool told = false;
    check_int(tend_doctor(t, note_standby, &told), ==, 1);
    check(told);
    tend_close(t);
}
