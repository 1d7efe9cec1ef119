/*
 * Many who want the same: a lock lets one in at a time (LK-1, LK-9), limits hold (BY-4), and nobody
 * is ever told that the database is locked (CL-5).
 */
#include "support/store.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 8 };

/* One thread of a crowd. */
struct member {
    tend *t;
    int number;
    int64_t count;
    pthread_t thread;
};

static void crowd(struct member *members, void *(*body)(void *))
{
    for (int i = 0; i < THREADS; i++)
        members[i] = (struct member){.t = store_open_real(keep_text("worker-%d", i)), .number = i};
    for (int i = 0; i < THREADS; i++)
        check_int(pthread_create(&members[i].thread, NULL, body, &members[i]), ==, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
}

/* --- locks and limits --- */

static int inside, most_inside;

static void go_in(void)
{
    int now = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    int most = __atomic_load_n(&most_inside, __ATOMIC_SEQ_CST);
    while (now > most && !__atomic_compare_exchange_n(&most_inside, &most, now, false,
                                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

static void go_out(void)
{
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
}

static int64_t last_token;

static void *lock_thread(void *arg)
{
    struct member *member = arg;
    struct tend_lock_request request;
    struct tend_lock lock;
    tend_lock_request_init(&request);
    request.name = "l";
    request.owner = keep_text("owner-%d", member->number);
    request.wait_ms = -1;
    for (int i = 0; i < 15; i++) {
        check_ok(member->t, tend_lock_acquire(member->t, &request, &lock));
        go_in();
        check_int(__atomic_exchange_n(&last_token, lock.token, __ATOMIC_SEQ_CST), <, lock.token);
        go_out();
        check_rc(member->t, tend_lock_release(member->t, "l", request.owner), 1);
    }
    return NULL;
}

/* LK-1, LK-9 */
TEST_WITHIN(contention, a_lock_lets_one_in_at_a_time_and_everybody_in_the_end, 120)
{
    struct member members[THREADS];
    crowd(members, lock_thread);
    check_int(most_inside, ==, 1);
}

static void *limited_thread(void *arg)
{
    struct member *member = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    int rc;
    claim.wait_ms = PATIENCE_MS;
    /* While others hold what is left the answer would be EMPTY, so nobody waits for more. */
    do {
        rc = tend_claim_jobs(member->t, &claim, &jobs, NULL);
        claim.wait_ms = 0;
        if (rc != 1)
            continue;
        go_in();
        struct tend_lease lease = lease_of(&jobs->items[0]);
        tend_jobs_free(jobs);
        test_pause();
        go_out();
        check_ok(member->t, tend_complete(member->t, &lease, 1, NULL, NULL));
    } while (rc == 1 || rc == TEND_ELIMITED);
    check_rc(member->t, rc, TEND_EEMPTY);
    return NULL;
}

/* BY-4 */
TEST_WITHIN(contention, a_limit_on_concurrency_holds_under_a_crowd, 120)
{
    struct member members[THREADS];
    tend *t = store_open_real("w");
    set_queue(t, "q", "concurrency", "3");
    add_number(t, "q", 60);
    crowd(members, limited_thread);
    check_int(most_inside, <=, 3);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, 60);
}

static void *rate_thread(void *arg)
{
    struct member *member = arg;
    member->count = (int64_t)claim_many(member->t, "q", 20, NULL);
    return NULL;
}

TEST(contention, a_rate_is_not_exceeded_by_a_crowd)
{
    struct member members[THREADS];
    tend *t = store_open_real("w");
    int64_t total = 0;
    set_queue(t, "q", "rate", "25/1000d");
    add_number(t, "q", 200);
    crowd(members, rate_thread);
    for (int i = 0; i < THREADS; i++)
        total += members[i].count;
    check_int(total, ==, 25);
}

/* --- CL-5 --- */

static void *add_in_thread(void *t)
{
    add_one(t, "q");
    return NULL;
}

TEST(contention, CL_5_a_caller_never_sees_that_another_program_has_locked_the_database)
{
    tend *t = store_open_real("w");
    pthread_t thread;
    struct helper other = sql_lock_start("job");
    check_int(pthread_create(&thread, NULL, add_in_thread, t), ==, 0);
    for (int i = 0; i < 100; i++) { /* reading goes on meanwhile */
        check_int(sql_int("SELECT count(*) FROM job"), ==, 0);
        test_pause();
    }
    sql_lock_end(&other);
    pthread_join(thread, NULL);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

static void hammer(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("one of many");
    helper_hear(parent);
    for (int i = 0; i < 40; i++) {
        add_one(t, "q");
        struct tend_lease lease = claim_one(t, "q");
        check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    }
    helper_say(parent, 0);
    store_close(t);
}

/* Each adds before it claims, so there is a job for each, whoever added it. */
TEST_WITHIN(contention, CL_5_processes_that_hammer_one_store_are_all_served, 120)
{
    enum { PROCESSES = 6 };
    struct helper processes[PROCESSES];
    store_close(store_open_real("maker"));
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = helper_start(hammer, NULL);
    for (int i = 0; i < PROCESSES; i++)
        helper_say(&processes[i], 0);
    for (int i = 0; i < PROCESSES; i++) {
        helper_hear(&processes[i]);
        helper_join(&processes[i]);
    }
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, PROCESSES * 40);
    check_int(sql_int("SELECT count(*) FROM job WHERE state <> 4"), ==, 0);
}
