/*
 * Memory that runs out in the middle of a call on an SQLite store: the call fails, nothing of it is
 * saved, and everybody else goes on. SQLite is given an allocator that fails when a test says so.
 */
#include "support/store.h"

#include "store/sqlite_db.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

/* --- an allocator that fails --- */

static sqlite3_mem_methods real;
static int64_t good_left = INT64_MAX; /* so many calls succeed ... */
static int64_t bad_left;              /* ... and then so many fail */
static bool failed;                   /* one has */

static bool fails(void)
{
    if (__atomic_sub_fetch(&good_left, 1, __ATOMIC_SEQ_CST) >= 0 ||
        __atomic_sub_fetch(&bad_left, 1, __ATOMIC_SEQ_CST) < 0)
        return false;
    failed = true;
    return true;
}

static void *allocate(int bytes)
{
    return fails() ? NULL : real.xMalloc(bytes);
}

static void *reallocate(void *memory, int bytes)
{
    return fails() ? NULL : real.xRealloc(memory, bytes);
}

static void have_memory(void)
{
    __atomic_store_n(&good_left, INT64_MAX, __ATOMIC_SEQ_CST);
    failed = false;
}

static void lose_memory(int64_t after, int64_t calls)
{
    failed = false;
    __atomic_store_n(&bad_left, calls, __ATOMIC_SEQ_CST);
    __atomic_store_n(&good_left, after, __ATOMIC_SEQ_CST);
}

/* Before SQLite is used in this process. */
static void install_allocator(void)
{
    check_int(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real), ==, SQLITE_OK);
    sqlite3_mem_methods own = real;
    own.xMalloc = allocate;
    own.xRealloc = reallocate;
    check_int(sqlite3_config(SQLITE_CONFIG_MALLOC, &own), ==, SQLITE_OK);
}

/* --- calls of one thread --- */

enum { BATCH = 300 };

static tend *open_impatient(const char *name)
{
    return store_open_busy(name, SECOND_MS);
}

static int64_t count_jobs(const char *queue)
{
    return sql_int("SELECT count(*) FROM job WHERE queue = '%s'", queue);
}

static int add_batch(tend *t, const char *queue)
{
    static struct tend_job_spec specs[BATCH];
    static struct tend_added added[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        specs[i] = spec_for(queue);
    return tend_add_many(t, specs, BATCH, added);
}

static int list_all(tend *t)
{
    struct tend_filter filter;
    struct tend_jobs *jobs = NULL;
    tend_filter_init(&filter);
    int rc = tend_list(t, &filter, &jobs);
    if (rc == 0)
        tend_jobs_free(jobs);
    return rc;
}

/* Whatever happened on t, it is over: t itself and others read and write. */
static void check_goes_on(tend *t, tend *other)
{
    add_one(other, "others");
    add_one(t, "own");
    check_ok(t, list_all(t));
    check_ok(other, list_all(other));
}

/* The handle answered "cannot start a transaction within a transaction" for ever, and all other
 * processes waited for its write lock. */
TEST_WITHIN(sqlite_memory, a_write_without_memory_fails_alone_and_keeps_nobody_waiting, 240)
{
    install_allocator();
    tend *other = open_impatient("other");
    bool hit = true;
    for (int after = 0; hit; after += 1 + after / 8) {
        const char *queue = keep_text("after-%d", after);
        tend *t = open_impatient("t");
        add_one(t, "own");
        lose_memory(after, INT64_MAX);
        int rc = add_batch(t, queue);
        hit = failed;
        have_memory();
        check_int(count_jobs(queue), ==, rc < 0 ? 0 : BATCH);
        check(hit || rc == 0);
        check_goes_on(t, other);
        store_close(t);
    }
}

/* The next call on the handle failed, and every one after it: the connection was kept with its
 * transaction open. */
TEST_WITHIN(sqlite_memory, a_read_without_memory_fails_alone, 240)
{
    install_allocator();
    tend *other = open_impatient("other");
    check_ok(other, add_batch(other, "q"));
    bool hit = true;
    for (int after = 0; hit; after += 1 + after / 8) {
        tend *t = open_impatient("t");
        check_ok(t, list_all(t));
        lose_memory(after, INT64_MAX);
        int rc = list_all(t);
        hit = failed;
        have_memory();
        check(hit || rc == 0);
        check_goes_on(t, other);
        int64_t newest = add_one(other, "q");
        check_int(state_of(t, newest), ==, TEND_PENDING); /* and reads no old snapshot */
        store_close(t);
    }
}

/* --- bodies that share a transaction --- */

struct pair {
    struct db *db;
    int64_t calls; /* of the allocator that fail when the second body is to be undone */
    int first_rc, second_rc;
    pthread_t second;
};

static int write_note(struct db_tx *tx, const char *text)
{
    sqlite3 *sqlite = ((struct sqlite_tx *)tx)->conn->sqlite;
    char sql[96];
    snprintf(sql, sizeof sql, "INSERT INTO note VALUES ('%s')", text);
    check_int(sqlite3_exec(sqlite, sql, NULL, NULL, NULL), ==, SQLITE_OK);
    return 0;
}

static int failing_body(struct db_tx *tx, void *arg)
{
    struct pair *pair = arg;
    write_note(tx, "second");
    lose_memory(0, pair->calls);
    return TEND_ENOMEM;
}

static int write_body(struct db *db, db_body *body, struct pair *pair)
{
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    int rc = db_write(db, &arena, body, pair, &err);
    arena_done(&arena);
    return rc;
}

static void *write_second(void *arg)
{
    struct pair *pair = arg;
    pair->second_rc = write_body(pair->db, failing_body, pair);
    return NULL;
}

static bool somebody_waits(struct sqlite_db *db)
{
    pthread_mutex_lock(&db->mutex);
    bool waits = db->first != NULL;
    pthread_mutex_unlock(&db->mutex);
    return waits;
}

/* Ends when the second body is in line, so that both are in one transaction. */
static int first_body(struct db_tx *tx, void *arg)
{
    struct pair *pair = arg;
    write_note(tx, "first");
    check_int(pthread_create(&pair->second, NULL, write_second, pair), ==, 0);
    wait_until(somebody_waits((struct sqlite_db *)pair->db), PATIENCE_MS);
    return 0;
}

/* ROLLBACK TO had no memory, its failure was ignored, and half of what had failed was saved. */
TEST(sqlite_memory, a_body_that_cannot_be_undone_is_not_saved)
{
    install_allocator();
    store_close(store_open("w"));
    sql_exec("CREATE TABLE note (text TEXT)");
    struct db_options options = {.busy_ms = 1000};
    for (int calls = 1; calls <= 40; calls++) {
        struct pair pair = {.calls = calls < 40 ? calls : INT64_MAX};
        struct err err = {0};
        check_int(db_open(&pair.db, store_url(), &options, &err), ==, 0);
        pair.first_rc = write_body(pair.db, first_body, &pair);
        pthread_join(pair.second, NULL);
        have_memory();
        check_int(pair.second_rc, ==, TEND_ENOMEM);
        check_str(sql_rows("SELECT text FROM note"), pair.first_rc < 0 ? "" : "first\n");
        sql_exec("DELETE FROM note");
        db_close(pair.db);
    }
}

/* --- a transaction that cannot be ended --- */

static int lose_rollback(struct db_tx *tx, void *arg)
{
    struct sqlite_conn *conn = ((struct sqlite_tx *)tx)->conn;
    (void)arg;
    sqlite3_finalize(conn->fixed[FIXED_ROLLBACK]); /* SQLite says "misuse" when it is run */
    conn->fixed[FIXED_ROLLBACK] = NULL;
    return TEND_ENOMEM;
}

static int lose_rollback_after_note(struct db_tx *tx, void *arg)
{
    write_note(tx, "lost");
    return lose_rollback(tx, arg);
}

static int note_body(struct db_tx *tx, void *arg)
{
    return write_note(tx, arg);
}

static int nothing_body(struct db_tx *tx, void *arg)
{
    (void)tx;
    (void)arg;
    return 0;
}

/* Then its connection is closed, and a new one takes its place. */
TEST(sqlite_memory, a_transaction_that_cannot_be_ended_is_neither_saved_nor_in_the_way)
{
    struct db_options options = {.busy_ms = 1000};
    struct db *db = NULL;
    struct arena arena;
    struct err err = {0};
    tend *other = open_impatient("other");
    arena_init(&arena);
    sql_exec("CREATE TABLE note (text TEXT)");
    check_int(db_open(&db, store_url(), &options, &err), ==, 0);
    check_int(db_write(db, &arena, lose_rollback_after_note, NULL, &err), ==, TEND_ENOMEM);
    add_one(other, "q");
    check_int(db_write(db, &arena, note_body, "next", &err), ==, 0);
    check_str(sql_rows("SELECT text FROM note"), "next\n");
    check_int(db_read(db, &arena, lose_rollback, NULL, &err), ==, TEND_ENOMEM);
    check_int(db_read(db, &arena, nothing_body, NULL, &err), ==, 0);
    db_close(db);
    arena_done(&arena);
}

/* --- answers about leases --- */

typedef int touch(tend *t, const struct tend_lease *leases, int *ret_each);

static int touch_start(tend *t, const struct tend_lease *leases, int *ret_each)
{
    return tend_start(t, leases, 2, ret_each);
}

static int touch_heartbeat(tend *t, const struct tend_lease *leases, int *ret_each)
{
    return tend_heartbeat(t, leases, 2, TEND_UNSET, ret_each);
}

static int touch_check(tend *t, const struct tend_lease *leases, int *ret_each)
{
    return tend_check(t, leases, 2, ret_each);
}

static int touch_release(tend *t, const struct tend_lease *leases, int *ret_each)
{
    return tend_release(t, leases, 2, 0, NULL, ret_each);
}

static int touch_complete(tend *t, const struct tend_lease *leases, int *ret_each)
{
    return tend_complete(t, leases, 2, NULL, ret_each);
}

/* Of leases that could not be looked at, 0 was said: a worker went on with a job it had lost. */
TEST_WITHIN(sqlite_memory, RC_11_a_lost_lease_is_never_answered_as_held, 240)
{
    touch *const touches[] = {touch_start, touch_heartbeat, touch_check, touch_release,
                              touch_complete};
    install_allocator();
    for (size_t i = 0; i < sizeof touches / sizeof *touches; i++) {
        bool hit = true;
        for (int after = 0; hit; after += 1 + after / 8) {
            int each[2] = {0, 0};
            tend *t = open_impatient("t");
            add_one(t, "q");
            const struct tend_lease held = claim_one(t, "q");
            const struct tend_lease leases[2] = {held, {.id = held.id, .token = held.token - 1}};
            lose_memory(after, INT64_MAX);
            int rc = touches[i](t, leases, each);
            hit = failed;
            have_memory();
            check(rc < 0);
            check_int(each[1], <, 0);
            check(rc == TEND_ELEASELOST || each[1] == rc);
            store_close(t);
            sql_exec("DELETE FROM job");
        }
    }
}
