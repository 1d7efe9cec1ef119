/*
 * BY-9: a PostgreSQL server that is away for longer than the leases last. Nobody could renew one
 * meanwhile, so nobody loses one by it, and nobody is charged.
 */
#include "cluster.h"

#include <signal.h>

enum { LEASE_MS = 1500 };

static struct tend_lease claim_lease(tend *t, unsigned flags)
{
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = LEASE_MS;
    claim.flags = flags;
    return claim_with(t, &claim);
}

/* One lease of a registered worker, and one that is judged by its time alone. */
TEST_WITHIN(server_away, BY_9_a_restart_longer_than_a_lease_takes_none_and_charges_nobody, 120)
{
    static struct cluster server;
    struct tend_lease leases[2];
    cluster_make(&server, "server");
    cluster_start(&server);
    clusters_are_the_store(&server, 1);
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    add_number(t, "q", 2);
    leases[0] = claim_lease(t, 0);
    leases[1] = claim_lease(t, TEND_CLAIM_BY_TIME);
    cluster_stop(&server, SIGINT);
    long long away_until_ms = test_clock_ms() + 2LL * LEASE_MS;
    wait_until(test_clock_ms() >= away_until_ms, PATIENCE_MS);
    cluster_start(&server);
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 2);
    check_ok(t, tend_heartbeat(t, leases, 2, MINUTE_MS, NULL));
    check_int(sql_int("SELECT sum(crashes) FROM job"), ==, 0);
    check_ok(t, tend_complete(t, leases, 2, NULL, NULL));
}
