/*
 * BY-9 on PostgreSQL, whose clock is the server's: it may be set, and while the server is away
 * nobody can renew a lease. A lease that has expired is no evidence against a worker that lives: it
 * is warned, and has a while to renew. To whoever looks for expired leases, a lease that was moved
 * back by ten minutes is the same as a clock that was set forward.
 */
#include "support/store.h"

#include <string.h>

/* What a step of the server's clock does to all leases. */
static void step_clock(void)
{
    sql_exec("UPDATE job SET alarm_at = alarm_at - 600000 WHERE state = 2");
    sql_exec("UPDATE lock SET expires_at = expires_at - 600000 WHERE expires_at IS NOT NULL");
}

static struct tend_lease claim_for_a_minute(tend *t, unsigned flags)
{
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = MINUTE_MS;
    claim.flags = flags;
    return claim_with(t, &claim);
}

static int64_t left_of(tend *t, int64_t id)
{
    int64_t now_ms;
    check_ok(t, tend_now(t, &now_ms));
    return job_of(t, id)->until_ms - now_ms;
}

TEST(postgres_clock, BY_9_a_step_of_the_servers_clock_takes_no_lease_from_a_living_worker)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_for_a_minute(t, 0);
    for (int i = 1; i <= 4; i++) { /* a fourth one would make it poison */
        struct tend_explanation why;
        step_clock();
        check_int(recover_now(other).entries_reclaimed, ==, 0);
        check_int(claim_none(other, "q").code, ==, TEND_EEMPTY);
        check_int(count_events("job.warned"), ==, i);
        check_str(last_event_of(t, id)->what, "job.warned");
        check_int(left_of(t, id), >, 0);
        check_int(left_of(t, id), <=, 10 * SECOND_MS);
        check_ok(t, tend_explain(t, id, &why));
        check_str(why.reason, "warned");
        check_contains(why.text, "has been warned and has ");
        check_ok(t, tend_heartbeat(t, &lease, 1, MINUTE_MS, NULL));
        check_int(sql_int("SELECT count(*) FROM job WHERE warned = 1"), ==, 0);
        check_ok(t, tend_explain(t, id, &why));
        check_str(why.reason, "leased");
    }
    check_contains(store_log(), "may have been unable to renew it");
    check_int(job_of(t, id)->crashes, ==, 0);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

TEST(postgres_clock, BY_9_who_stays_silent_although_it_was_warned_loses_the_lease)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, 0);
    step_clock();
    check_int(recover_now(other).entries_reclaimed, ==, 0);
    step_clock();
    check_int(recover_now(other).entries_reclaimed, ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->crashes, ==, 1);
    check_int(count_events("job.warned"), ==, 1);
    /* Its next lease begins without a warning. */
    claim_for_a_minute(t, 0);
    step_clock();
    check_int(recover_now(other).entries_reclaimed, ==, 0);
}

/* Half the lease, but a second at least and ten at most. */
TEST(postgres_clock, a_warning_lasts_half_the_lease)
{
    static const struct {
        int64_t lease_ms, most_ms;
    } cases[] = {{100, 1000}, {8000, 4000}, {60000, 10000}};
    tend *t = store_open_real("worker");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t id = add_one(t, "q");
        claim_for_a_minute(t, 0);
        sql_exec("UPDATE job SET lease_for_ms = %lld WHERE id = %lld", (long long)cases[i].lease_ms,
                 (long long)id);
        step_clock();
        recover_now(t);
        check_int(sql_int("SELECT alarm_at - (SELECT max(at) FROM event WHERE what = 'job.warned') "
                          "FROM job WHERE id = %lld",
                          (long long)id),
                  >=, cases[i].most_ms - 50);
        check_int(left_of(t, id), <=, cases[i].most_ms);
        sql_exec("UPDATE job SET alarm_at = alarm_at + 3600000 WHERE id = %lld", (long long)id);
    }
}

/* A lease judged by its time alone is over when it is over. */
TEST(postgres_clock, a_lease_by_time_is_not_warned)
{
    tend *t = store_open_real("worker");
    int64_t id = add_one(t, "q");
    claim_for_a_minute(t, TEND_CLAIM_BY_TIME);
    step_clock();
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(job_of(t, id)->crashes, ==, 1);
}

/* The lock of a serial queue stays with the job that is spared. */
TEST(postgres_clock, the_lock_of_a_warned_job_stays_with_it)
{
    tend *t = store_open_real("worker");
    tend *other = store_open_real("other");
    set_queue(t, "q", "serial", "on");
    int64_t id = add_one(t, "q");
    add_one(t, "q");
    struct tend_lease lease = claim_for_a_minute(t, 0);
    check_int(lease.id, ==, id);
    step_clock();
    struct tend_recovery recovery = recover_now(other);
    check_int(recovery.entries_reclaimed, ==, 0);
    check_int(recovery.locks_cleaned, ==, 0);
    check_int(claim_none(other, "q").code, ==, TEND_EBUSY);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(count_events("lock.recovered"), ==, 0);
    claim_one(other, "q");
}

/* A dry run counts what would be taken, which a warning does not. */
TEST(postgres_clock, a_dry_run_does_not_count_whom_it_would_warn)
{
    tend *t = store_open_real("worker");
    struct tend_recovery stats;
    add_one(t, "q");
    claim_for_a_minute(t, 0);
    step_clock();
    check_ok(t, tend_get_recovery_stats(t, &stats));
    check_int(stats.entries_reclaimed, ==, 0);
    recover_now(t);
    step_clock();
    check_ok(t, tend_get_recovery_stats(t, &stats));
    check_int(stats.entries_reclaimed, ==, 1);
}

static void claim_and_wait(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("doomed");
    claim_for_a_minute(t, 0);
    helper_say(parent, 0);
    helper_hear(parent);
}

/* Death is evidence: nobody is warned who is gone. */
TEST(postgres_clock, RC_13_a_dead_worker_is_not_warned)
{
    tend *t = store_open_real("other");
    int64_t id = add_one(t, "q");
    struct helper doomed = helper_start(claim_and_wait, NULL);
    helper_hear(&doomed);
    helper_kill(&doomed);
    step_clock();
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(job_of(t, id)->crashes, ==, 1);
    check_int(count_events("job.warned"), ==, 0);
}
