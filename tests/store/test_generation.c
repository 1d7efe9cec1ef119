/* Generations of a store: what was given out before it was made anew or restored fits nothing. */
#include "support/store.h"

#include <unistd.h>

enum { MILLION = 1000000 };

static void delete_store(void)
{
    if (store_is_postgres())
        sql_exec("DROP SCHEMA %s CASCADE", store_schema());
    else
        check_int(unlink(store_path()), ==, 0);
    store_sql_close();
}

/* Tokens began at 1 in every store, so that "complete 1:1" completed the job of another. */
TEST(generation, RC_11_a_lease_of_a_store_that_was_deleted_fits_no_job_of_the_next)
{
    tend *t = store_open("old");
    int64_t old_id = add_one(t, "q");
    struct tend_lease old = claim_one(t, "q");
    store_close(t);
    delete_store();
    t = store_open("new");
    check_int(add_one(t, "q"), ==, old_id);
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.token, !=, old.token);
    check_rc(t, tend_complete(t, &old, 1, NULL, NULL), TEND_ELEASELOST);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

static int64_t worker_of_new_store(void)
{
    tend *t = store_open("w");
    add_one(t, "q");
    claim_one(t, "q");
    int64_t id = sql_int("SELECT max(id) FROM worker");
    store_close(t);
    return id;
}

/* Symptom: on PostgreSQL workers began at 1 in every store, so that one that still ran on the old
 * store kept the first of the new one from being seen dead. */
TEST(generation, RC_11_workers_of_a_store_made_anew_have_other_ids)
{
    int64_t old = worker_of_new_store();
    delete_store();
    int64_t new = worker_of_new_store();
    check_int(new, !=, old);
    check_int((uint32_t) new, !=, (uint32_t)old); /* what a liveness lock of PostgreSQL has of it */
}

/* Puts the store back to where it was when the newest event was this one. */
static void restore(int64_t newest)
{
    sql_exec("DELETE FROM event WHERE id > %lld", (long long)newest);
    sql_exec("DELETE FROM job WHERE id > %lld", (long long)newest);
    sql_exec("DELETE FROM lock");
    if (store_is_postgres())
        sql_exec("SELECT setval('event_id', %lld)", (long long)newest);
}

TEST(generation, RC_11_after_a_restore_neither_ids_nor_tokens_come_again)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct tend_lock lock;
    struct tend_lock lost_lock;
    struct tend_generation generation;
    int64_t newest;
    tend_lock_request_init(&request);
    request.name = "l";
    check_ok(t, tend_complete(t, (struct tend_lease[]){{add_one(t, "q"), claim_one(t, "q").token}},
                              1, NULL, NULL));
    check_ok(t, tend_last_event(t, &newest));
    int64_t lost_id = add_one(t, "q");
    struct tend_lease lost = claim_one(t, "q");
    check_ok(t, tend_lock_acquire(t, &request, &lost_lock));
    restore(newest);
    check_ok(t, tend_after_restore(t, "op", &generation));
    check_int(generation.first_id, >=, newest + MILLION);
    check_int(generation.first_id % MILLION, ==, 0);
    check_int(generation.token_base, >, lost.token);
    int64_t id = add_one(t, "q");
    check_int(id, ==, generation.first_id + 1); /* the event of the restore comes first */
    check_int(id, !=, lost_id);
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.token, ==, generation.token_base + 1);
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    check_int(lock.token, ==, generation.token_base + 1);
    check_int(tend_lock_release_token(t, "l", NULL, lost_lock.token), ==, 0);
    check_rc(t, tend_complete(t, &lost, 1, NULL, NULL), TEND_ELEASELOST);
    check_str(sql_rows("SELECT id, who FROM event WHERE what = 'store.restored'"),
              keep_text("%lld|op\n", (long long)generation.first_id));
}

/* A worker from before the restore had an id that a new one got too. */
TEST(generation, RC_11_after_a_restore_ids_of_workers_do_not_come_again)
{
    tend *t = store_open("before");
    add_one(t, "q");
    claim_one(t, "q");
    int64_t before = sql_int("SELECT max(id) FROM worker");
    store_close(t);
    t = store_open("after");
    check_ok(t, tend_after_restore(t, NULL, NULL));
    add_one(t, "q");
    claim_one(t, "q");
    check_int(sql_int("SELECT max(id) FROM worker"), >=, before + MILLION);
}

/* A job that has had a lease gets larger tokens too, and the next generation is above this one. */
TEST(generation, RC_11_each_generation_is_above_all_before_it)
{
    tend *t = store_open("w");
    struct tend_generation first;
    struct tend_generation second;
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_ok(t, tend_after_restore(t, NULL, &first));
    check_int(first.token_base, >, lease.token);
    check_int(claim_one(t, "q").token, ==, first.token_base + 1);
    check_ok(t, tend_after_restore(t, NULL, &second));
    check_int(second.token_base, >, first.token_base + 1);
    check_int(second.first_id, >=, first.first_id + MILLION);
    check_rc(t, tend_after_restore(t, "", NULL), TEND_EINVAL);
}
