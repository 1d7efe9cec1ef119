/*
 * BY-4, BY-8. Work that may be any amount (the backlog of a schedule, retention) is done in pieces:
 * others can write between two transactions, and none of them is large. Rows are counted for each
 * transaction, by a hook on SQLite and by a trigger on PostgreSQL.
 */
#include "support/store.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MOST = 1000, JOBS_MOST = 500, PAYLOAD_BYTES = 300000, PIECE_BYTES = 4 << 20 };

/* --- counting --- */

static int64_t rows_now, rows_most;

static void count_row(void *unused, int action, const char *database, const char *table,
                      sqlite3_int64 id)
{
    (void)unused;
    (void)database;
    (void)id;
    if (action != SQLITE_UPDATE && strcmp(table, "job") == 0)
        rows_now++;
}

static int end_piece(void *unused)
{
    (void)unused;
    if (rows_now > rows_most)
        rows_most = rows_now;
    rows_now = 0;
    return 0;
}

static int set_hooks(sqlite3 *sqlite, const char **message, const void *routines)
{
    (void)message;
    (void)routines;
    sqlite3_update_hook(sqlite, count_row, NULL);
    sqlite3_commit_hook(sqlite, end_piece, NULL);
    return SQLITE_OK;
}

/* A handle whose transactions are counted from now on. */
static tend *open_counted(void)
{
    sqlite3_auto_extension((void (*)(void))set_hooks);
    tend *t = store_open("w");
    if (store_is_postgres())
        sql_exec("CREATE TABLE piece (tx bigint);"
                 "CREATE FUNCTION note_piece() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$BEGIN INSERT INTO %s.piece VALUES (txid_current()); RETURN NULL; END$$;"
                 "CREATE TRIGGER noted AFTER INSERT OR DELETE ON job FOR EACH ROW "
                 "EXECUTE FUNCTION note_piece()",
                 store_schema());
    return t;
}

static void count_anew(void)
{
    rows_now = rows_most = 0;
    if (store_is_postgres())
        sql_exec("DELETE FROM piece");
}

/* The most jobs that one transaction has added or deleted. */
static int64_t most_at_once(void)
{
    return store_is_postgres() ? sql_int("SELECT coalesce(max(n), 0) FROM "
                                         "(SELECT count(*) AS n FROM piece GROUP BY tx) AS p")
                               : rows_most;
}

/* --- schedules --- */

static struct tend_schedule schedule_of(const char *name, const char *cron)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = schedule.queue = schedule.kind = name;
    schedule.cron = cron;
    schedule.catch_up = "all";
    return schedule;
}

static void put_schedule(tend *t, const char *name, const char *cron)
{
    struct tend_schedule schedule = schedule_of(name, cron);
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
}

static struct tend_schedule large_schedule(const char *name)
{
    struct tend_schedule schedule = schedule_of(name, "@every 1s");
    char *payload = keep_text("\"%*s\"", PAYLOAD_BYTES, "");
    schedule.payload = payload;
    return schedule;
}

static int64_t jobs_of(const char *queue)
{
    return sql_int("SELECT count(*) FROM job WHERE queue = '%s'", queue);
}

static int64_t times_of(const char *queue)
{
    return sql_int("SELECT count(DISTINCT nominal_at) FROM job WHERE queue = '%s'", queue);
}

/* All runs that were due went into one transaction, however large: with 1,500 runs of 1.2 MB a
 * claim on any queue took 40 s, and no schedule was fired any more. */
TEST(pieces, a_backlog_of_large_payloads_is_added_in_small_pieces_beside_other_schedules)
{
    enum { RUNS = 60 };
    tend *t = open_counted();
    struct tend_schedule first = large_schedule("large-1");
    struct tend_schedule second = large_schedule("large-2");
    check_ok(t, tend_schedule_put(t, &first, NULL));
    check_ok(t, tend_schedule_put(t, &second, NULL));
    put_schedule(t, "small", "@every 1m");
    count_anew();
    clock_advance(RUNS * SECOND_MS);
    claim_one(t, "small");
    check_int(jobs_of("large-1") + jobs_of("large-2"), <=, 2 * (PIECE_BYTES / PAYLOAD_BYTES + 2));
    for (int i = 0; i < RUNS && jobs_of("large-1") + jobs_of("large-2") < 2 * RUNS; i++)
        claim_none(t, "small");
    check_int(most_at_once(), <=, PIECE_BYTES / PAYLOAD_BYTES + 2);
    check_int(times_of("large-1"), ==, RUNS);
    check_int(times_of("large-2"), ==, RUNS);
    check_int(jobs_of("large-1") + jobs_of("large-2"), ==, 2 * RUNS);
}

TEST(pieces, a_payload_larger_than_a_piece_is_a_piece_of_its_own)
{
    tend *t = open_counted();
    struct tend_schedule schedule = schedule_of("large", "@every 1s");
    schedule.payload = keep_text("\"%*s\"", PIECE_BYTES + 1, "");
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    count_anew();
    clock_advance(3 * SECOND_MS);
    for (int i = 0; i < 3 && jobs_of("large") < 3; i++)
        claim_none(t, "other");
    check_int(jobs_of("large"), ==, 3);
    check_int(most_at_once(), ==, 1);
}

/* The first that failed ended it for all that were due, again every second. */
TEST(pieces, a_schedule_that_fails_keeps_no_other_from_firing_and_is_told_once)
{
    static const char sentence[] = "adding jobs of schedules failed";
    tend *t = store_open("w");
    put_schedule(t, "a", "@hourly");
    put_schedule(t, "bad", "@hourly");
    put_schedule(t, "c", "@hourly");
    sql_forbid_jobs("NEW.kind = 'bad'");
    clock_advance(HOUR_MS);
    claim_one(t, "a");
    claim_one(t, "c");
    check_int(jobs_of("bad"), ==, 0);
    struct tend_claim claim = claim_for("empty");
    struct tend_jobs *jobs;
    claim.wait_ms = 1500; /* it is tried again after a second */
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EEMPTY);
    const char *told = strstr(store_log(), sentence);
    check(told != NULL);
    check(strstr(told + 1, sentence) == NULL);
    check(strstr(store_log(), "works again") == NULL);
    sql_allow_jobs();
    wait_until((claim_none(t, "empty"), jobs_of("bad") == 1), PATIENCE_MS);
}

/* On PostgreSQL nothing was undone in a transaction that sets its own timeouts, and all failed. */
TEST(pieces, a_claim_in_a_hurry_fires_beside_a_schedule_that_fails)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("b");
    struct tend_jobs *jobs;
    put_schedule(t, "a", "@hourly");
    put_schedule(t, "b", "@hourly");
    put_schedule(t, "c", "@hourly");
    sql_forbid_jobs("NEW.kind = 'a' OR NEW.kind = 'c'"); /* whichever is the first */
    clock_advance(HOUR_MS);
    claim.wait_ms = 3000;
    check_int(tend_claim_jobs(t, &claim, &jobs, NULL), ==, 1);
    tend_jobs_free(jobs);
    sql_allow_jobs();
}

/* The backlog had the first turn again and again, as each run made it the newest that was due. */
TEST(pieces, a_backlog_of_large_payloads_leaves_room_for_one_that_is_as_late)
{
    enum { LOOKS = 40 };
    tend *t = store_open("w");
    struct tend_schedule schedule = schedule_of("backlog", "@every 1m");
    schedule.payload = keep_text("\"%*s\"", PIECE_BYTES + 1, "");
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    put_schedule(t, "report", "@hourly");
    sql_exec("UPDATE schedule SET next_at = (SELECT min(next_at) FROM schedule)");
    clock_advance(2 * HOUR_MS);
    int looks = 0;
    while (jobs_of("report") == 0 && looks++ < LOOKS) {
        clock_advance(10);
        claim_none(t, "other");
    }
    check_int(looks, <, LOOKS);
    check_int(jobs_of("backlog"), <, 100);
}

/* A hundred that failed were looked at again and again, and none behind them. */
TEST(pieces, very_many_schedules_that_fail_keep_no_other_from_firing)
{
    enum { BAD = 120, LOOKS = 40 };
    tend *t = store_open("w");
    for (int i = 0; i < BAD; i++) {
        struct tend_schedule schedule = schedule_of(keep_text("bad-%d", i), "@hourly");
        schedule.kind = "bad";
        check_ok(t, tend_schedule_put(t, &schedule, NULL));
    }
    put_schedule(t, "zz", "@hourly");
    sql_forbid_jobs("NEW.kind = 'bad'");
    clock_advance(HOUR_MS);
    int looks = 0;
    while (jobs_of("zz") == 0 && looks++ < LOOKS) {
        clock_advance(10);
        tend *other = store_open("other"); /* which need not pause after a failure */
        claim_none(other, "none");
        store_close(other);
    }
    check_int(looks, <, LOOKS);
    sql_allow_jobs();
    /* All have their turn: */
    while (sql_int("SELECT count(*) FROM schedule WHERE next_at <= %lld", (long long)clock_now()) >
               0 &&
           looks++ < 2 * LOOKS) {
        clock_advance(10);
        tend *other = store_open("other");
        claim_none(other, "none");
        store_close(other);
    }
    check_int(sql_int("SELECT count(*) FROM job"), ==, BAD + 1);
}

/* A week of "@every 1s" was one transaction of 604,800 jobs, for which an add waited 10 s. */
TEST(pieces, putting_a_schedule_again_adds_a_backlog_in_pieces)
{
    enum { RUNS = 2500 };
    tend *t = open_counted();
    put_schedule(t, "s", "@every 1s");
    count_anew();
    clock_advance(RUNS * SECOND_MS);
    put_schedule(t, "s", "@every 1s");
    check_int(jobs_of("s"), ==, RUNS);
    check_int(times_of("s"), ==, RUNS);
    check_int(most_at_once(), <=, RUNS_MOST);
    check_int(count_events("schedule.put"), ==, 2);
}

TEST(pieces, putting_a_schedule_that_is_cut_short_loses_no_run_and_leaves_the_schedule)
{
    enum { RUNS = 2500 };
    tend *t = store_open("w");
    struct tend_schedule other = schedule_of("s", "@hourly");
    put_schedule(t, "s", "@every 1s");
    clock_advance(RUNS * SECOND_MS);
    sql_forbid_jobs("(SELECT count(*) FROM job) >= 1500");
    check(tend_schedule_put(t, &other, NULL) < 0);
    check_int(jobs_of("s"), ==, RUNS_MOST);
    check_int(sql_int("SELECT count(*) FROM schedule WHERE cron = '@every 1s'"), ==, 1);
    sql_allow_jobs();
    check_ok(t, tend_schedule_put(t, &other, NULL));
    check_int(jobs_of("s"), ==, RUNS);
    check_int(times_of("s"), ==, RUNS);
}

/* --- retention --- */

enum { QUEUES = 60, JOBS_EACH = 40 };

static void let_jobs_of_many_queues_expire(tend *t)
{
    struct tend_filter filter;
    for (int i = 0; i < QUEUES; i++)
        add_number(t, keep_text("q%d", i), JOBS_EACH);
    tend_filter_init(&filter);
    act_on_all(t, TEND_CANCEL, &filter, NULL, NULL);
    clock_advance(7 * DAY_MS);
    count_anew();
}

/* It was 500 for each state of each queue: with 800 queues an add waited for 6 s. */
TEST(pieces, retention_deletes_as_much_at_once_however_many_queues_there_are)
{
    tend *t = open_counted();
    struct tend_purged gone;
    let_jobs_of_many_queues_expire(t);
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, QUEUES * JOBS_EACH);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 0);
    check_int(most_at_once(), <=, JOBS_MOST);
}

TEST(pieces, a_worker_that_waits_deletes_from_all_queues)
{
    tend *t = open_counted();
    let_jobs_of_many_queues_expire(t);
    wait_until(tend_wait(t, 1) >= 0 && sql_int("SELECT count(*) FROM job") == 0, PATIENCE_MS);
    check_int(most_at_once(), <=, JOBS_MOST);
}
