/* Named locks: LK-1 to LK-9, and the processing lock, which ends with its lease. */
#include "support/store.h"

#include <string.h>
#include <unistd.h>

static struct tend_lock_request request_for(const char *name, const char *owner, int64_t ttl_ms)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = name;
    request.owner = owner;
    request.ttl_ms = ttl_ms;
    return request;
}

static int acquire(tend *t, const char *owner, int64_t ttl_ms, struct tend_lock *ret)
{
    struct tend_lock_request request = request_for("l", owner, ttl_ms);
    return tend_lock_acquire(t, &request, ret);
}

TEST(lock, LK_1_a_lock_has_one_holder_and_says_who_until_when)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    check_ok(t, acquire(t, "a", 5000, &lock));
    check_str(lock.name, "l");
    check_str(lock.owner, "a");
    check_int(lock.expires_at_ms, ==, clock_now() + 5000);
    check_int(lock.acquired_at_ms, ==, clock_now());
    clock_advance(100);
    const char *before = store_snapshot();
    memset(&lock, 0, sizeof lock);
    check_rc(t, acquire(t, "b", 5000, &lock), TEND_EBUSY);
    check_str(lock.owner, "a");
    check_int(lock.expires_at_ms, ==, clock_now() + 4900);
    check_int(lock.expired, ==, 0);
    check_contains(tend_errmsg(t), "held by a");
    check_str(store_snapshot(), before);
}

TEST(lock, LK_2_a_lock_is_never_stolen_before_its_time)
{
    tend *t = store_open("w");
    check_ok(t, acquire(t, "a", 5000, NULL));
    clock_advance(4999);
    check_rc(t, acquire(t, "b", 5000, NULL), TEND_EBUSY);
    check_int(recover_now(t).locks_cleaned, ==, 0);
    clock_advance(1);
    check_ok(t, acquire(t, "b", 5000, NULL));
}

/* One that waited since before the lease ended waited for ever: recovery was asked for once. */
TEST(lock, LK_3_whoever_waits_gets_the_lock_of_a_job_whose_lease_ends_meanwhile)
{
    tend *t = store_open_real("holder");
    tend *other = store_open_real("other");
    struct tend_claim claim = claim_for("q");
    struct tend_lock_request request;
    struct tend_jobs *jobs;
    struct tend_lock lock;
    add_one(t, "q");
    claim.ttl_ms = 700;
    claim.flags = TEND_CLAIM_BY_TIME;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
    tend_lock_request_init(&request);
    request.name = "queue:q";
    request.wait_ms = PATIENCE_MS;
    check_ok(other, tend_lock_acquire(other, &request, &lock));
}

TEST(lock, LK_3_an_expired_lock_can_be_taken_by_anyone_its_former_owner_included)
{
    tend *t = store_open("w");
    struct tend_lock first;
    struct tend_lock second;
    struct tend_lock third;
    check_ok(t, acquire(t, "a", 100, &first));
    clock_advance(100);
    check_ok(t, acquire(t, "a", 100, &second));
    check_int(second.acquired_at_ms, ==, clock_now());
    check_int(second.token, >, first.token); /* it was lost in between */
    clock_advance(100);
    check_ok(t, acquire(t, "b", 100, &third));
    check_int(third.token, >, second.token);
}

TEST(lock, LK_4_only_the_holder_releases_and_once)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    check_int(tend_lock_release(t, "l", "a"), ==, 0);
    check_ok(t, acquire(t, "a", 5000, NULL));
    const char *before = store_snapshot();
    check_int(tend_lock_release(t, "l", "b"), ==, 0);
    check_str(store_snapshot(), before);
    check_int(tend_lock_release(t, "l", "a"), ==, 1);
    before = store_snapshot();
    check_int(tend_lock_release(t, "l", "a"), ==, 0);
    check_str(store_snapshot(), before);
    check_int(tend_lock_get(t, "l", &lock), ==, 0);
    check_ok(t, acquire(t, "b", 5000, NULL));
    check_int(tend_lock_release(t, "l", "a"), ==, 0);
}

/* "Released" was answered to whoever had not held it for long. */
TEST(lock, LK_4_an_expired_lock_is_not_released_but_cleaned_up)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    check_ok(t, acquire(t, "a", 100, NULL));
    clock_advance(100);
    check_int(tend_lock_release(t, "l", "b"), ==, 0);
    check_int(tend_lock_get(t, "l", &lock), ==, 1);
    check_int(tend_lock_release(t, "l", "a"), ==, 0);
    check_int(tend_lock_get(t, "l", &lock), ==, 0);
}

TEST(lock, LK_5_get_returns_the_row_also_when_it_has_expired_and_says_so)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    check_int(tend_lock_get(t, "l", &lock), ==, 0);
    check_ok(t, acquire(t, "a", 100, NULL));
    check_int(tend_lock_get(t, "l", &lock), ==, 1);
    check_int(lock.expired, ==, 0);
    clock_advance(100);
    check_int(tend_lock_get(t, "l", &lock), ==, 1);
    check_int(lock.expired, ==, 1);
    check_str(lock.owner, "a");
    check_int(tend_lock_get(t, "l", NULL), ==, 1);
}

TEST(lock, LK_6_extend_sets_now_plus_extra_never_old_plus_extra)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    check_ok(t, acquire(t, "a", 5000, NULL));
    clock_advance(1000);
    check_int(tend_lock_extend(t, "l", "a", 3000), ==, 1);
    check_int(tend_lock_get(t, "l", &lock), ==, 1);
    check_int(lock.expires_at_ms, ==, clock_now() + 3000);
}

TEST(lock, LK_6_extend_is_refused_to_others_and_once_it_has_expired_or_been_taken)
{
    tend *t = store_open("w");
    check_int(tend_lock_extend(t, "l", "a", 1000), ==, 0);
    check_ok(t, acquire(t, "a", 1000, NULL));
    const char *before = store_snapshot();
    check_int(tend_lock_extend(t, "l", "b", 1000), ==, 0);
    check_str(store_snapshot(), before);
    clock_advance(1000);
    check_int(tend_lock_extend(t, "l", "a", 1000), ==, 0);
    check_str(store_snapshot(), before);
    check_ok(t, acquire(t, "b", 1000, NULL));
    check_int(tend_lock_extend(t, "l", "a", 1000), ==, 0);
}

TEST(lock, LK_7_stale_is_a_row_that_has_expired_and_nothing_else)
{
    tend *t = store_open("w");
    check_int(tend_is_lock_stale(t, "l"), ==, 0);
    check_ok(t, acquire(t, "a", 1000, NULL));
    check_int(tend_is_lock_stale(t, "l"), ==, 0);
    clock_advance(999);
    check_int(tend_is_lock_stale(t, "l"), ==, 0);
    clock_advance(1);
    check_int(tend_is_lock_stale(t, "l"), ==, 1);
    recover_now(t);
    check_int(tend_is_lock_stale(t, "l"), ==, 0);
    check_ok(t, acquire(t, "a", 1000, NULL));
    check_int(tend_lock_release(t, "l", "a"), ==, 1);
    clock_advance(5000);
    check_int(tend_is_lock_stale(t, "l"), ==, 0);
}

TEST(lock, LK_8_the_default_is_300_seconds_and_each_call_may_give_its_own)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct tend_lock lock;
    tend_lock_request_init(&request);
    request.name = "l";
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    check_int(lock.expires_at_ms, ==, clock_now() + 300 * SECOND_MS);
    check_str(lock.owner, "w");
    check_int(tend_lock_release(t, "l", NULL), ==, 1);
    check_ok(t, acquire(t, "a", 77, &lock));
    check_int(lock.expires_at_ms, ==, clock_now() + 77);
}

TEST(lock, LK_9_the_token_only_grows_whoever_acquires_however_it_was_free)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    int64_t token = 0;
    for (int i = 0; i < 6; i++) {
        check_ok(t, acquire(t, i % 2 == 0 ? "a" : "b", 1000, &lock));
        check_int(lock.token, >, token);
        token = lock.token;
        if (i < 2)
            check_int(tend_lock_release(t, "l", lock.owner), ==, 1);
        else
            clock_advance(1000);
        if (i >= 4)
            recover_now(t);
    }
}

TEST(lock, LK_9_the_holder_gets_its_own_lock_back_refreshed)
{
    tend *t = store_open("w");
    struct tend_lock first;
    struct tend_lock again;
    check_ok(t, acquire(t, "a", 1000, &first));
    clock_advance(500);
    check_ok(t, acquire(t, "a", 1000, &again));
    check_int(again.token, ==, first.token);
    check_int(again.acquired_at_ms, ==, first.acquired_at_ms);
    check_int(again.expires_at_ms, ==, clock_now() + 1000);
}

/*
 * Two containers with one host name and pid 1 in each had the same default owner name, and both got
 * the lock, with one token.
 */
TEST(lock, LK_1_two_workers_of_the_same_name_do_not_share_a_lock)
{
    tend *one = store_open("same");
    tend *other = store_open("same");
    struct tend_lock first;
    struct tend_lock lock;
    check_ok(one, acquire(one, NULL, 5000, &first));
    check_rc(other, acquire(other, NULL, 5000, &lock), TEND_EBUSY);
    check_int(lock.token, ==, first.token);
    check_ok(one, acquire(one, NULL, 5000, &lock));
    check_int(lock.token, ==, first.token);
}

TEST(lock, the_default_name_of_an_owner_has_a_part_that_is_drawn)
{
    tend *one = store_open(NULL);
    tend *other = store_open(NULL);
    struct tend_lock lock;
    check_ok(one, acquire(one, NULL, 5000, &lock));
    check_contains(lock.owner, keep_text(":%d:", (int)getpid()));
    check_int(tend_lock_release(other, "l", NULL), ==, 0);
    check_int(tend_lock_release(one, "l", NULL), ==, 1);
}

/* Held by time alone there is no worker to tell two of the same name apart; their tokens do. */
TEST(lock, LK_9_by_time_the_name_is_enough_unless_a_token_is_given)
{
    tend *t = store_open("w");
    struct tend_lock_request request = request_for("l", "a", 1000);
    struct tend_lock first;
    struct tend_lock again;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, &first));
    clock_advance(500);
    check_ok(t, tend_lock_acquire(t, &request, &again));
    check_int(again.token, ==, first.token);
    request.token = first.token;
    check_ok(t, tend_lock_acquire(t, &request, &again));
    request.token = first.token + 1;
    check_rc(t, tend_lock_acquire(t, &request, &again), TEND_EBUSY);
    check_int(again.token, ==, first.token); /* who holds it */
}

/* With a token, a lock that was free or had expired was taken anew, under another token. */
TEST(lock, LK_9_who_gives_a_token_refreshes_that_lock_and_takes_no_other)
{
    tend *t = store_open("w");
    struct tend_lock_request request = request_for("l", "a", 1000);
    struct tend_lock lock;
    request.flags = TEND_CLAIM_BY_TIME;
    request.token = 3;
    check_rc(t, tend_lock_acquire(t, &request, &lock), TEND_ELEASELOST); /* never held */
    check_contains(tend_errmsg(t), "lock l with token 3 is no longer held");
    check_int(tend_lock_get(t, "l", &lock), ==, 0);
    request.token = 0;
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    request.token = lock.token;
    clock_advance(500);
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    check_int(lock.expires_at_ms, ==, clock_now() + 1000);
    clock_advance(1000);
    request.wait_ms = -1; /* what is gone does not come back */
    const char *before = store_snapshot();
    check_rc(t, tend_lock_acquire(t, &request, &lock), TEND_ELEASELOST); /* expired */
    check_int(lock.token, ==, 0);
    check_str(store_snapshot(), before);
    check_int(tend_lock_release(t, "l", "a"), ==, 0);
    check_rc(t, tend_lock_acquire(t, &request, &lock), TEND_ELEASELOST); /* free */
    check_int(tend_lock_get(t, "l", &lock), ==, 0);
    request = request_for("l", "b", 1000);
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    request = request_for("l", "a", 1000);
    request.token = 1;
    request.wait_ms = -1;
    check_rc(t, tend_lock_acquire(t, &request, &lock), TEND_EBUSY); /* another's */
    check_str(lock.owner, "b");
}

/* A lock was released and extended by whoever had its owner's name, a former holder for example. */
TEST(lock, LK_4_who_gives_the_token_of_an_earlier_lock_changes_nothing)
{
    tend *t = store_open("w");
    struct tend_lock first;
    struct tend_lock second;
    check_ok(t, acquire(t, "a", 1000, &first));
    clock_advance(1000);
    check_ok(t, acquire(t, "a", 1000, &second));
    const char *before = store_snapshot();
    check_int(tend_lock_release_token(t, "l", "a", first.token), ==, 0);
    check_int(tend_lock_extend_token(t, "l", "a", first.token, 5000), ==, 0);
    check_int(tend_lock_release_token(t, "l", "b", second.token), ==, 0);
    check_str(store_snapshot(), before);
    check_int(tend_lock_extend_token(t, "l", "a", second.token, 5000), ==, 1);
    check_int(tend_lock_release_token(t, "l", "a", second.token), ==, 1);
}

/* The same when the first was released in time and somebody else had it in between. */
TEST(lock, LK_4_a_lock_taken_anew_is_released_by_its_own_token_only)
{
    tend *t = store_open("w");
    struct tend_lock first;
    struct tend_lock between;
    struct tend_lock second;
    struct tend_lock held;
    check_ok(t, acquire(t, "a", 1000, &first));
    check_int(tend_lock_release_token(t, "l", "a", first.token), ==, 1);
    check_int(tend_lock_release_token(t, "l", "a", first.token), ==, 0);
    check_ok(t, acquire(t, "b", 1000, &between));
    check_int(tend_lock_release_token(t, "l", "b", between.token), ==, 1);
    check_ok(t, acquire(t, "a", 1000, &second));
    check_int(tend_lock_release_token(t, "l", "a", first.token), ==, 0);
    check_int(tend_lock_release_token(t, "l", "a", between.token), ==, 0);
    check_int(tend_lock_get(t, "l", &held), ==, 1);
    check_int(held.token, ==, second.token);
    check_int(tend_lock_release_token(t, "l", "a", second.token), ==, 1);
    check_int(tend_lock_get(t, "l", &held), ==, 0);
}

TEST(lock, locks_are_listed_while_they_are_held)
{
    tend *t = store_open("w");
    struct tend_locks *locks;
    struct tend_lock_request request = request_for("b", "x", 1000);
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    request.name = "a";
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    request.name = "c";
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    check_int(tend_lock_release(t, "b", "x"), ==, 1);
    check_ok(t, tend_lock_list(t, &locks));
    check_int(locks->count, ==, 2);
    check_str(locks->items[0].name, "a");
    check_str(locks->items[1].name, "c");
    tend_locks_free(locks);
}

TEST(lock, acquiring_and_releasing_leave_events)
{
    tend *t = store_open("w");
    check_ok(t, acquire(t, "a", 1000, NULL));
    check_int(tend_lock_release(t, "l", "a"), ==, 1);
    check_str(
        sql_rows("SELECT who, what, owner, why FROM event WHERE what LIKE 'lock.%%' ORDER BY id"),
        "a|lock.acquired|a|l\na|lock.released|a|l\n");
}

/* --- the processing lock --- */

static struct tend_lease next_with_lock(tend *t, const char *owner, int64_t ttl_ms)
{
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.owner = owner;
    claim.ttl_ms = ttl_ms;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    struct tend_lease lease = lease_of(&jobs->items[0]);
    tend_jobs_free(jobs);
    return lease;
}

static int lock_is_held(tend *t)
{
    return tend_lock_get(t, "queue:q", NULL);
}

TEST(lock, a_heartbeat_of_the_job_extends_the_processing_lock)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    add_one(t, "q");
    struct tend_lease lease = next_with_lock(t, "a", 1000);
    clock_advance(900);
    check_ok(t, tend_heartbeat(t, &lease, 1, 2000, NULL));
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 1);
    check_int(lock.expires_at_ms, ==, clock_now() + 2000);
    check_int(lock.expires_at_ms, ==, job_of(t, lease.id)->until_ms);
    clock_advance(1500);
    check_int(recover_now(t).locks_cleaned, ==, 0);
    check_int(lock_is_held(t), ==, 1);
}

/* CL-1: it ends with the lease, whichever way that ends. */
TEST(lock, the_processing_lock_ends_with_complete_fail_and_release)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    add_number(t, "q", 4);
    struct tend_lease lease = next_with_lock(t, "a", 1000);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_int(lock_is_held(t), ==, 0);
    lease = next_with_lock(t, "b", 1000);
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    check_int(lock_is_held(t), ==, 0);
    lease = next_with_lock(t, "c", 1000);
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_int(lock_is_held(t), ==, 0);
    lease = next_with_lock(t, "d", 1000);
    failure.final = 1;
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    check_int(lock_is_held(t), ==, 0);
}

TEST(lock, the_processing_lock_ends_with_cancel_hold_and_recovery)
{
    tend *t = store_open("w");
    struct tend_recovery recovery;
    add_number(t, "q", 5);
    struct tend_lease lease = next_with_lock(t, "a", 1000);
    check_ok(t, tend_act(t, TEND_CANCEL, lease.id, NULL, NULL));
    check_int(lock_is_held(t), ==, 0);
    lease = next_with_lock(t, "b", 1000);
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, NULL, NULL));
    check_int(lock_is_held(t), ==, 0);
    next_with_lock(t, "c", 1000);
    clock_advance(1000);
    recover_now(t);
    check_int(lock_is_held(t), ==, 0);
    next_with_lock(t, "d", 10000);
    check_ok(t, tend_reclaim_stale(t, 0, &recovery));
    check_int(lock_is_held(t), ==, 0);
    next_with_lock(t, "e", 10000);
    store_close(t);
    t = store_open("w");
    check_int(lock_is_held(t), ==, 0);
}

/* A zombie's end must not free the lock of its successor. */
TEST(lock, a_zombie_does_not_free_the_processing_lock_of_its_successor)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    add_number(t, "q", 2);
    struct tend_lease zombie = next_with_lock(t, "a", 1000);
    clock_advance(1000);
    struct tend_lease next = next_with_lock(t, "a", 1000);
    check_rc(t, tend_complete(t, &zombie, 1, NULL, NULL), TEND_ELEASELOST);
    check_rc(t, tend_release(t, &zombie, 1, 0, NULL, NULL), TEND_ELEASELOST);
    check_rc(t, tend_heartbeat(t, &zombie, 1, HOUR_MS, NULL), TEND_ELEASELOST);
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 1);
    check_int(lock.job_id, ==, next.id);
    check_int(lock.expires_at_ms, ==, clock_now() + 1000);
}

/* The queue is kept waiting by whoever took its lock by name. */
TEST(lock, a_queue_lock_taken_by_name_makes_the_queue_busy)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none;
    struct tend_lock_request request = request_for("queue:q", "operator", 5000);
    add_one(t, "q");
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    claim.owner = "w";
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, &none), TEND_EBUSY);
    check_str(none.by, "operator");
    check_int(none.until_ms, ==, clock_now() + 5000);
    check_int(tend_lock_release(t, "queue:q", "operator"), ==, 1);
    next_with_lock(t, "w", 1000);
}

/* --- damage --- */

/* A lock row as no call of tend leaves it: tied to a job that is not there, or does not run. */
static void tie_to(int64_t job_id)
{
    sql_exec("DELETE FROM lock");
    sql_exec("INSERT INTO lock (name, token, owner, job_id, acquired_at, expires_at) "
             "VALUES ('queue:q', 5, 'ghost', %lld, %lld, %lld)",
             (long long)job_id, (long long)clock_now(), (long long)(clock_now() + 365 * DAY_MS));
}

static void note_stale(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    if (strcmp(what, "recovery") == 0)
        *(const char **)arg = keep_text("%d %s", (int)verdict, text);
}

/* Such a row blocked a serial queue for ever; neither heal nor doctor saw it. */
TEST(lock, a_lock_that_is_tied_to_nothing_is_told_by_the_doctor_and_cleaned_by_recovery)
{
    tend *t = store_open("w");
    const char *said = "";
    int64_t pending = add_one(t, "q");
    const int64_t ties[] = {987654, pending};
    for (size_t i = 0; i < 2; i++) {
        struct tend_recovery stats;
        tie_to(ties[i]);
        check_int(tend_doctor(t, note_stale, &said), ==, 0);
        check_contains(said, "0 jobs and 1 lock are stale");
        check_ok(t, tend_get_recovery_stats(t, &stats));
        check_int(stats.locks_cleaned, ==, 1);
        check_int(recover_now(t).locks_cleaned, ==, 1);
        check_int(lock_is_held(t), ==, 0);
        check_int(recover_now(t).locks_cleaned, ==, 0);
    }
    check_contains(sql_rows("SELECT why FROM event WHERE what = 'lock.recovered'"),
                   "does not run under it");
}

TEST(lock, a_claim_cleans_a_lock_in_its_way_that_is_tied_to_nothing)
{
    tend *t = store_open("w");
    struct tend_lock lock;
    add_number(t, "q", 2);
    tie_to(987654);
    struct tend_lease lease = next_with_lock(t, "a", 10000);
    check_int(tend_lock_get(t, "queue:q", &lock), ==, 1);
    check_int(lock.job_id, ==, lease.id);
    /* One that is tied to a job which runs, but under no lock. */
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    struct tend_lease plain = claim_one(t, "q");
    tie_to(plain.id);
    struct tend_lock_request request = request_for("queue:q", "b", 1000);
    check_ok(t, tend_lock_acquire(t, &request, NULL));
}

/* What is in order is left alone. */
TEST(lock, recovery_leaves_the_lock_of_a_running_job_alone)
{
    tend *t = store_open("w");
    add_number(t, "q", 2);
    struct tend_lease lease = next_with_lock(t, "a", 10000);
    check_int(recover_now(t).locks_cleaned, ==, 0);
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), TEND_EBUSY);
    check_int(lock_is_held(t), ==, 1);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

/* --- a claim that gets neither job nor lock --- */

/* The claim was undone as a whole, with what it had recovered on the way: the job of the other
 * queue stayed scheduled, and a claim that waited tried again every millisecond. */
static void check_recovery_stays(bool with_lock)
{
    tend *t = store_open("t");
    const char *full[] = {"full"};
    struct tend_job_spec spec = spec_for("q");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none;
    if (!with_lock)
        set_queue(t, "q", "serial", "on");
    spec.kind = "full";
    add_spec(t, &spec);
    spec = spec_for("other");
    spec.delay_ms = 1000;
    int64_t late = add_spec(t, &spec);
    int64_t held = add_one(t, "third");
    struct tend_claim by_time = claim_for("third");
    by_time.flags = TEND_CLAIM_BY_TIME;
    by_time.ttl_ms = 1000;
    claim_with(t, &by_time);
    clock_advance(1500);
    claim.not_kinds = full;
    claim.not_kind_count = 1;
    check_rc(t,
             with_lock ? tend_next_with_lock(t, &claim, &jobs, &none)
                       : tend_claim_jobs(t, &claim, &jobs, &none),
             TEND_ELIMITED);
    check_str(none.what, "kind");
    check_int(state_of(t, late), ==, TEND_PENDING);
    check_int(state_of(t, held), ==, TEND_PENDING);
    check_int(tend_lock_get(t, "queue:q", NULL), ==, 0);
}

TEST(lock, a_serial_claim_that_finds_nothing_keeps_what_it_has_recovered)
{
    check_recovery_stays(false);
}

TEST(lock, a_claim_with_lock_that_finds_nothing_keeps_what_it_has_recovered)
{
    check_recovery_stays(true);
}

/* What the claimer holds by itself is left as it is. */
TEST(lock, a_claim_that_finds_nothing_does_not_refresh_the_lock_of_its_owner)
{
    tend *t = store_open("t");
    const char *full[] = {"full"};
    struct tend_job_spec spec = spec_for("q");
    struct tend_claim claim = claim_for("q");
    struct tend_lock_request request;
    struct tend_lock before;
    struct tend_lock after;
    struct tend_jobs *jobs;
    spec.kind = "full";
    add_spec(t, &spec);
    tend_lock_request_init(&request);
    request.name = "queue:q";
    request.owner = claim.owner;
    check_ok(t, tend_lock_acquire(t, &request, &before));
    clock_advance(1000);
    claim.not_kinds = full;
    claim.not_kind_count = 1;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), TEND_ELIMITED);
    check_int(tend_lock_get(t, "queue:q", &after), ==, 1);
    check_int(after.expires_at_ms, ==, before.expires_at_ms);
    check_int(after.token, ==, before.token);
}
