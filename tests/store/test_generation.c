/* Generations of a store: what was given out before it was made anew or restored fits nothing. */
#include "support/store.h"

#include "queue/handle.h"

#include <pthread.h>
#include <unistd.h>

enum { MILLION = 1000000, BILLION = 1000000000 };

static void delete_store(void)
{
    if (store_is_postgres())
        sql_exec("DROP SCHEMA %s CASCADE", store_schema());
    else
        check_int(unlink(store_path()), ==, 0);
    unlink(keep_text("%s-wal", store_path())); /* there while a handle is open */
    unlink(keep_text("%s-shm", store_path()));
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

/* --- under an open handle --- */

static void make_anew(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open("new");
    helper_say(parent, add_one(t, "q"));
    store_close(t);
}

/* The store is deleted and made anew by another process; the id of its one job. */
static int64_t replace_store(void)
{
    delete_store();
    struct helper maker = helper_start(make_anew, NULL);
    int64_t id = helper_hear(&maker);
    helper_join(&maker);
    return id;
}

static void is_told(tend *t)
{
    struct tend_recovery recovery;
    int64_t now_ms;
    check_rc(t, tend_detect_and_recover_stale(t, &recovery), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "replaced while");
    check(db_gone(t->db));
    if (store_is_postgres()) /* SQLite can read what was deleted */
        check_rc(t, tend_now(t, &now_ms), TEND_EUNREACHABLE);
}

/* Symptom: on PostgreSQL an open handle went on in the new store as if it were the old one. */
TEST(generation, RC_11_a_handle_whose_store_was_made_anew_touches_nothing_there_and_says_so)
{
    tend *t = store_open_real("old");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    add_one(t, "q");
    struct tend_lease old = claim_one(t, "q");
    int64_t id = replace_store();
    check_int(id, ==, old.id);
    int rc = tend_complete(t, &old, 1, NULL, NULL);
    check_rc(t, rc, store_is_postgres() ? TEND_ELEASELOST : TEND_EUNREACHABLE);
    rc = tend_heartbeat(t, &old, 1, MINUTE_MS, NULL);
    check_rc(t, rc, store_is_postgres() ? TEND_ELEASELOST : TEND_EUNREACHABLE);
    /* What is added before it was noticed lands where its id says. */
    rc = tend_add(t, &spec, &added);
    check_int(sql_int("SELECT count(*) FROM job"), ==, rc == 0 ? 2 : 1);
    if (rc == 0)
        check_int(sql_int("SELECT count(*) FROM job WHERE id = %lld", (long long)added.id), ==, 1);
    check_int(sql_int("SELECT state FROM job WHERE id = %lld", (long long)id), ==, TEND_PENDING);
    is_told(t);
    check_rc(t, tend_add(t, &spec, &added), TEND_EUNREACHABLE);
}

static void make_anew_when_told(struct helper *parent, void *arg)
{
    helper_hear(parent);
    make_anew(parent, arg);
}

static void *replace_soon(void *arg)
{
    struct helper *maker = arg;
    wait_until(sql_int("SELECT count(*) FROM worker") == 1, PATIENCE_MS);
    delete_store();
    helper_say(maker, 0);
    helper_hear(maker);
    return NULL;
}

TEST_WITHIN(generation, RC_11_whoever_waits_for_a_job_is_told_that_the_store_was_made_anew, 60)
{
    struct helper maker = helper_start(make_anew_when_told, NULL);
    tend *t = store_open_real("old");
    struct tend_claim claim = claim_for("other");
    struct tend_jobs *jobs = NULL;
    pthread_t thread;
    claim.wait_ms = PATIENCE_MS;
    check_int(pthread_create(&thread, NULL, replace_soon, &maker), ==, 0);
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "replaced while");
    check(db_gone(t->db));
    pthread_join(thread, NULL);
    helper_join(&maker);
}

TEST(generation, a_handle_whose_store_was_dropped_says_so)
{
    tend *t = store_open_real("old");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    add_one(t, "q");
    delete_store();
    check_rc(t, tend_add(t, &spec, &added), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "replaced while");
    check(db_gone(t->db));
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
    check_int(generation.first_id, >=, newest + BILLION);
    check_int(generation.first_id % BILLION, ==, 0);
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

/* A store as it was when its backup was made. */
struct backup {
    int64_t newest; /* id of the newest event */
    int64_t token_base;
    int64_t worker; /* id of the newest worker */
};

static struct backup back_up(tend *t)
{
    struct backup backup = {.token_base = sql_int("SELECT token_base FROM store"),
                            .worker = sql_int("SELECT max(id) FROM worker")};
    check_ok(t, tend_last_event(t, &backup.newest));
    return backup;
}

static void restore_backup(const struct backup *backup)
{
    restore(backup->newest);
    sql_exec("DELETE FROM worker WHERE id > %lld", (long long)backup->worker);
    sql_exec("UPDATE store SET token_base = %lld", (long long)backup->token_base);
    if (store_is_postgres())
        sql_exec("SELECT setval(pg_get_serial_sequence('worker', 'id'), %lld)",
                 (long long)backup->worker);
    else
        sql_exec("UPDATE sqlite_sequence SET seq = %lld WHERE name = 'worker'",
                 (long long)backup->worker);
}

/* What was given out after a restore: the largest of each. */
struct given {
    int64_t id;
    int64_t token;
    int64_t worker;
};

/* Restores the backup, works a little, and checks that all of it is above what was given before. */
static struct given work_after_restore(const struct backup *backup, const struct given *before)
{
    struct tend_lock_request request;
    struct tend_lock lock;
    struct tend_generation next;
    struct given given;
    restore_backup(backup);
    tend *t = store_open("again");
    tend_lock_request_init(&request);
    request.name = "l";
    check_ok(t, tend_after_restore(t, NULL, &next));
    check_int(next.token_base, <, 1LL << 53);
    check_int(next.first_id, <, 100000000000000LL);
    check_int(next.first_id, >, before->id);
    const char *queue = keep_text("q%lld", (long long)next.first_id); /* the backup has no such */
    for (int i = 0; i < 3; i++)
        check_int(add_one(t, queue), >, before->id);
    check_int(claim_one(t, queue).token, >, before->token);
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    check_int(lock.token, >, before->token);
    given.token = lock.token;
    given.worker = sql_int("SELECT max(id) FROM worker");
    check_int(given.worker, >, before->worker);
    check_ok(t, tend_last_event(t, &given.id));
    store_close(t);
    return given;
}

/* Symptom: each restore of a backup gave the ids 2000000001, 2000000002, ... again, and tokens that
 * were as often below as above those of the restore before. */
TEST(generation, RC_11_a_backup_that_is_restored_again_gives_other_ids_and_larger_tokens)
{
    clock_set(1800000000000LL); /* 2027-01-15 */
    tend *t = store_open("w");
    struct given given = {0};
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    struct backup first = back_up(t);
    for (int i = 0; i < 4; i++, clock_advance(20))
        given = work_after_restore(&first, &given);
    /* So does a backup of a restored store, although its own ids are those of a minute ago. */
    struct backup second = back_up(t);
    clock_advance(MINUTE_MS);
    for (int i = 0; i < 4; i++, clock_advance(20))
        given = work_after_restore(&second, &given);
    /* And the old backup, after all of them. */
    work_after_restore(&first, &given);
}

/* The store alone decides, as it is above what the clock says. */
TEST(generation, RC_11_a_generation_is_above_the_store_when_the_clock_is_behind)
{
    clock_set(1900000000000LL);
    tend *t = store_open("w");
    struct tend_generation first;
    struct tend_generation second;
    check_ok(t, tend_after_restore(t, NULL, &first));
    store_close(t);
    sql_exec("UPDATE event SET at = 0");
    clock_set(1800000000000LL);
    t = store_open("w");
    check_ok(t, tend_after_restore(t, NULL, &second));
    check_int(second.token_base, >=, first.token_base + (1 << 20));
    check_int(second.first_id, >=, first.first_id + BILLION);
    check_int(second.first_id % BILLION, ==, 0);
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
    check_int(second.first_id, >=, first.first_id + BILLION);
    check_rc(t, tend_after_restore(t, "", NULL), TEND_EINVAL);
}

static void check_events_counted(tend *t)
{
    struct tend_stats *stats;
    check_ok(t, tend_stats(t, &stats));
    check_int(stats->events, ==, sql_int("SELECT count(*) FROM event"));
    tend_stats_free(stats);
}

/* Symptom: "2000000000 events" after a restore, and as many as ever after old ones were deleted. */
TEST(generation, the_figure_of_events_leaves_out_what_a_restore_jumps_over_and_what_was_deleted)
{
    tend *t = store_open("w");
    check_events_counted(t);
    add_number(t, "q", 5);
    check_events_counted(t);
    for (int i = 0; i < 3; i++) {
        check_ok(t, tend_after_restore(t, NULL, NULL));
        add_number(t, "q", 2);
        check_events_counted(t);
    }
    sql_exec("DELETE FROM event WHERE id < 3");
    check_events_counted(t);
    sql_exec("DELETE FROM event WHERE id < %lld", 2LL * BILLION);
    check_events_counted(t);
    sql_exec("DELETE FROM event WHERE id < (SELECT max(id) FROM event)");
    check_events_counted(t);
}

static void refuse_generations(void)
{
    if (store_is_postgres())
        sql_exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$BEGIN RAISE EXCEPTION 'refused by the test'; END$$;"
                 "CREATE TRIGGER refuse BEFORE INSERT ON event FOR EACH ROW "
                 "WHEN (NEW.what = 'store.restored') EXECUTE FUNCTION refuse()");
    else
        sql_exec("CREATE TRIGGER refuse BEFORE INSERT ON event WHEN NEW.what = 'store.restored' "
                 "BEGIN SELECT RAISE(ABORT, 'refused by the test'); END");
}

static void *add_many(void *t)
{
    for (int i = 0; i < 50; i++)
        add_one(t, "q");
    return NULL;
}

/*
 * Symptom: "27626594768001 events". On SQLite, who was committed together with the failed call had
 * ids behind the jump; on PostgreSQL, where a sequence is not set back, everybody had.
 */
TEST(generation, a_restore_that_fails_leaves_no_trace_in_the_figure_of_events)
{
    enum { ADDERS = 4 };
    const int adder_count = store_is_postgres() ? 0 : ADDERS;
    tend *t = store_open("w");
    pthread_t adders[ADDERS] = {0};
    add_one(t, "q");
    refuse_generations();
    for (int i = 0; i < adder_count; i++)
        check_int(pthread_create(&adders[i], NULL, add_many, t), ==, 0);
    for (int i = 0; i < (store_is_postgres() ? 3 : 50); i++)
        check_int(tend_after_restore(t, NULL, NULL), <, 0);
    for (int i = 0; i < adder_count; i++)
        pthread_join(adders[i], NULL);
    sql_exec(store_is_postgres() ? "DROP TRIGGER refuse ON event" : "DROP TRIGGER refuse");
    check_int(sql_int("SELECT count(*) FROM generation"), ==, 0);
    if (!store_is_postgres())
        check_events_counted(t);
    check_ok(t, tend_after_restore(t, NULL, NULL));
    add_number(t, "q", 2);
    check_events_counted(t);
}

static void *begin_generation(void *name)
{
    tend *t = store_open(name);
    check_ok(t, tend_after_restore(t, NULL, NULL));
    return NULL;
}

/* Symptom: ids and tokens went back, "-27627648727993 events"; some calls failed with the name of
 * an index. */
TEST(generation, RC_11_restores_that_are_told_at_once_come_one_after_the_other)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    enum { CALLERS = sizeof names / sizeof *names, ROUNDS = 5 };
    tend *t = store_open("w");
    pthread_t callers[CALLERS];
    struct tend_generation next;
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < CALLERS; i++)
            check_int(pthread_create(&callers[i], NULL, begin_generation, (void *)names[i]), ==, 0);
        for (int i = 0; i < CALLERS; i++)
            pthread_join(callers[i], NULL);
        check_int(sql_int("SELECT count(*) FROM generation"), ==, (CALLERS + 1) * round - 1);
        check_events_counted(t);
        int64_t newest = sql_int("SELECT max(id) FROM event");
        int64_t base = sql_int("SELECT token_base FROM store");
        check_int(add_one(t, "q"), >, newest);
        check_ok(t, tend_after_restore(t, NULL, &next));
        check_int(next.token_base, >, base);
    }
}
