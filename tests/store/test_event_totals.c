/*
 * SH-14: counters of what has happened. They go on when events are deleted, when the store is
 * restored, and while others write; and asking costs what has come since the last count.
 */
#include "support/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* "q job.added:3" a line, without what is about no queue. */
static const char *totals_of(tend *t)
{
    struct tend_event_totals *totals;
    const char *text = "";
    check_ok(t, tend_event_totals(t, &totals));
    for (size_t i = 0; i < totals->count; i++)
        if (totals->items[i].queue[0] != '\0')
            text = keep_text("%s%s %s:%lld\n", text, totals->items[i].queue, totals->items[i].what,
                             (long long)totals->items[i].count);
    tend_event_totals_free(totals);
    return text;
}

static int64_t total(tend *t, const char *queue, const char *what)
{
    struct tend_event_totals *totals;
    int64_t count = 0;
    check_ok(t, tend_event_totals(t, &totals));
    for (size_t i = 0; i < totals->count; i++)
        if (strcmp(totals->items[i].queue, queue) == 0 && strcmp(totals->items[i].what, what) == 0)
            count += totals->items[i].count;
    tend_event_totals_free(totals);
    return count;
}

static void complete_some(tend *t, const char *queue, size_t count)
{
    struct tend_lease leases[100];
    add_number(t, queue, count);
    check_int(claim_many(t, queue, count, leases), ==, count);
    check_ok(t, tend_complete(t, leases, count, NULL, NULL));
}

static int64_t counted_to(void)
{
    return sql_int("SELECT counted_to FROM store");
}

TEST(event_totals, SH_14_every_event_counts_once_by_queue_and_name)
{
    tend *t = store_open("w");
    check_str(totals_of(t), "");
    complete_some(t, "q", 3);
    add_one(t, "r");
    struct tend_lease lease = claim_one(t, "r");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    const char *expected = "q job.added:3\nq job.claimed:3\nq job.completed:3\n"
                           "r job.added:1\nr job.claimed:1\nr job.released:1\n";
    check_str(totals_of(t), expected);
    check_ok(t, tend_purge(t, NULL)); /* counts */
    check_int(counted_to(), ==, sql_int("SELECT max(id) FROM event"));
    check_str(totals_of(t), expected);
    complete_some(t, "q", 1);
    check_int(total(t, "q", "job.completed"), ==, 4);
}

TEST(event_totals, SH_14_events_that_are_deleted_stay_counted)
{
    tend *t = store_open("w");
    complete_some(t, "q", 50);
    clock_advance(31 * DAY_MS);
    struct tend_purged gone;
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.events, >=, 149);
    check_str(totals_of(t), "q job.added:50\nq job.claimed:50\nq job.completed:50\n");
    complete_some(t, "q", 2);
    clock_advance(31 * DAY_MS);
    check_ok(t, tend_purge(t, NULL));
    check_ok(t, tend_purge(t, NULL));
    check_str(totals_of(t), "q job.added:52\nq job.claimed:52\nq job.completed:52\n");
}

/* Whoever deletes must not get ahead of whoever counts. */
TEST(event_totals, SH_14_an_event_that_is_not_counted_is_not_deleted)
{
    tend *t = store_open("w");
    complete_some(t, "q", 20);
    clock_advance(31 * DAY_MS);
    /* Nobody can count. */
    sql_exec(store_is_postgres()
                 ? "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN "
                   "NULL; END$$; CREATE TRIGGER refused BEFORE UPDATE ON store FOR EACH ROW "
                   "EXECUTE FUNCTION refuse()"
                 : "CREATE TRIGGER refused BEFORE UPDATE ON store BEGIN SELECT RAISE(IGNORE); END");
    struct tend_purged gone;
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, 20);
    check_int(gone.events, ==, 0);
    check_str(totals_of(t), "q job.added:20\nq job.claimed:20\nq job.completed:20\n");
    sql_exec(store_is_postgres() ? "DROP TRIGGER refused ON store" : "DROP TRIGGER refused");
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.events, >, 0);
    check_str(totals_of(t), "q job.added:20\nq job.claimed:20\nq job.completed:20\n");
}

TEST(event_totals, SH_14_a_restored_store_counts_on)
{
    tend *t = store_open("w");
    complete_some(t, "q", 5);
    check_ok(t, tend_purge(t, NULL));
    complete_some(t, "q", 5);
    struct tend_generation generation;
    check_ok(t, tend_after_restore(t, NULL, &generation));
    complete_some(t, "q", 5);
    const char *expected = "q job.added:15\nq job.claimed:15\nq job.completed:15\n";
    check_str(totals_of(t), expected);
    check_ok(t, tend_purge(t, NULL));
    check_int(counted_to(), >=, generation.first_id);
    check_str(totals_of(t), expected);
}

TEST(event_totals, SH_14_many_events_are_counted_by_whoever_waits)
{
    tend *t = store_open("w");
    add_number(t, "q", 4100);
    set_queue(t, "q", "paused", "on");
    struct tend_claim claim = claim_for("q");
    claim.wait_ms = 50;
    struct tend_jobs *jobs;
    while (sql_int("SELECT coalesce(sum(count), 0) FROM event_total") < 4000)
        check_int(tend_claim_jobs(t, &claim, &jobs, NULL), <, 0);
    check_int(total(t, "q", "job.added"), ==, 4100);
}

/* --- while others write --- */

enum { WRITERS = 4, ROUNDS = 60 };
static atomic_bool writing;

static void *write_jobs(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        add_number(arg, "q", 7);
        claim_many(arg, "q", 5, NULL);
    }
    return NULL;
}

static void *count_events_again_and_again(void *arg)
{
    int64_t before = 0;
    while (atomic_load(&writing)) {
        check_ok(arg, tend_purge(arg, NULL));
        int64_t now = total(arg, "q", "job.added");
        check_int(now, >=, before);
        before = now;
    }
    return NULL;
}

TEST_WITHIN(event_totals, SH_14_nothing_is_missed_or_counted_twice_while_others_write, 120)
{
    pthread_t writers[WRITERS];
    pthread_t counters[2];
    atomic_store(&writing, true);
    for (int i = 0; i < WRITERS; i++)
        check_int(pthread_create(&writers[i], NULL, write_jobs,
                                 store_open_real(keep_text("writer-%d", i))),
                  ==, 0);
    for (int i = 0; i < 2; i++)
        check_int(pthread_create(&counters[i], NULL, count_events_again_and_again,
                                 store_open_real(keep_text("counter-%d", i))),
                  ==, 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&writing, false);
    for (int i = 0; i < 2; i++)
        pthread_join(counters[i], NULL);
    tend *t = store_open_real("last");
    check_int(total(t, "q", "job.added"), ==, WRITERS * ROUNDS * 7);
    check_ok(t, tend_purge(t, NULL));
    check_int(total(t, "q", "job.added"), ==, WRITERS * ROUNDS * 7);
    check_int(counted_to(), ==, sql_int("SELECT max(id) FROM event"));
    check_int(sql_int("SELECT sum(count) FROM event_total"), ==,
              sql_int("SELECT count(*) FROM event"));
}

/*
 * PostgreSQL: an id was taken, and its event is not there yet. It was lost for the count when a
 * later one was counted first. On SQLite ids are in the order of commits, and nobody else writes
 * meanwhile.
 */
TEST(event_totals, SH_14_an_event_that_comes_late_is_counted)
{
    tend *t = store_open_busy("w", 2000);
    complete_some(t, "q", 3);
    if (store_is_postgres()) {
        sql_exec("BEGIN");
        sql_exec("INSERT INTO event (id, at, queue, who, what) "
                 "VALUES (nextval('event_id'), 0, 'q', 'late', 'job.added')");
    } else {
        add_one(t, "q");
    }
    complete_some(t, "q", 3);
    check_ok(t, tend_purge(t, NULL));
    if (store_is_postgres()) {
        check_int(total(t, "q", "job.added"), ==, 6);
        sql_exec("COMMIT");
        check_int(total(t, "q", "job.added"), ==, 7);
    }
    check_ok(t, tend_purge(t, NULL));
    check_int(total(t, "q", "job.added"), ==, 7);
    check_int(counted_to(), ==, sql_int("SELECT max(id) FROM event"));
}

/* Where only scripts with 'tend claim' use a store no worker counts: each look at the counters read
 * all events. */
TEST(event_totals, SH_14_whoever_asks_counts_what_has_come_together)
{
    tend *t = store_open("w");
    add_number(t, "q", 5000);
    check_int(counted_to(), ==, 0);
    check_int(total(t, "q", "job.added"), ==, 5000);
    check_int(sql_int("SELECT count(*) FROM event WHERE id > (SELECT counted_to FROM store)"), <,
              2000);
    check_int(total(t, "q", "job.added"), ==, 5000);
}
