/* What the tests of PostgreSQL's clock share: a server's clock and a time since boot that the test
 * moves apart, and leases and a lock that are held meanwhile. */
#ifndef TEND_TEST_CLOCK_CASE_H
#define TEND_TEST_CLOCK_CASE_H

#include "support/store.h"

static inline struct tend_lease claim_for_a_minute(tend *t, unsigned flags)
{
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = MINUTE_MS;
    claim.flags = flags;
    return claim_with(t, &claim);
}

static inline int64_t left_of(tend *t, int64_t id)
{
    int64_t now_ms;
    check_ok(t, tend_now(t, &now_ms));
    return job_of(t, id)->until_ms - now_ms;
}

enum { LEASE_MS = 60000 };

/* What the server's clock says, and the time since boot of all who look at it. */
static struct {
    int64_t server_ms, boot_ms;
} now = {.server_ms = CLOCK_START_MS, .boot_ms = 1000000};

static inline int64_t server_ms(void *unused)
{
    (void)unused;
    return now.server_ms;
}

static inline int64_t boot_ms(void *unused, int with_sleep)
{
    (void)unused;
    (void)with_sleep;
    return now.boot_ms;
}

static inline tend *open_here(const char *name)
{
    struct tend_options options = store_options(name);
    options.clock_ms = server_ms;
    options.uptime_ms = boot_ms;
    return store_open_with(&options);
}

static inline void live(int64_t ms)
{
    now.server_ms += ms;
    now.boot_ms += ms;
}

static inline void set_clock_by(int64_t ms)
{
    now.server_ms += ms;
}

static inline int lock_door(tend *t, unsigned flags)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "door";
    request.ttl_ms = LEASE_MS;
    request.flags = flags;
    return tend_lock_acquire(t, &request, NULL);
}

static inline int64_t left_of_door(tend *t)
{
    struct tend_lock lock;
    int64_t now_ms;
    check_int(tend_lock_get(t, "door", &lock), ==, 1);
    check_ok(t, tend_now(t, &now_ms));
    return lock.expires_at_ms - now_ms;
}

/* A lease of a registered worker, one by its time alone, and a lock by its time alone. */
struct held {
    tend *t;     /* who holds them */
    tend *other; /* who judges */
    struct tend_lease registered, by_time;
};

static inline struct held hold_all(void)
{
    struct held held = {.t = open_here("worker"), .other = open_here("other")};
    recover_now(held.other); /* it has looked at the clock before */
    add_number(held.t, "q", 2);
    held.registered = claim_for_a_minute(held.t, 0);
    held.by_time = claim_for_a_minute(held.t, TEND_CLAIM_BY_TIME);
    check_ok(held.t, lock_door(held.t, TEND_CLAIM_BY_TIME));
    return held;
}

static inline void check_left(const struct held *held, int64_t ms)
{
    check_int(left_of(held->t, held->registered.id), ==, ms);
    check_int(left_of(held->t, held->by_time.id), ==, ms);
    check_int(left_of_door(held->t), ==, ms);
    check_int(sql_int("SELECT coalesce(sum(crashes), 0) FROM job"), ==, 0);
    check_int(count_events("job.warned"), ==, 0);
    check_int(count_events("lock.recovered"), ==, 0);
}

#endif
