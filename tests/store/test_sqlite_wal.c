/*
 * The log of an SQLite store: when it is written back, and what happens while a reader keeps it
 * from being emptied. Run once, without PostgreSQL.
 */
#include "support/store.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB (1024LL * 1024)

/* Counts, and then does what SQLite does. */
static int tries;

int sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *zDb, int eMode, int *pnLog, int *pnCkpt)
{
    static int (*real)(sqlite3 *, const char *, int, int *, int *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "sqlite3_wal_checkpoint_v2");
    __atomic_add_fetch(&tries, 1, __ATOMIC_SEQ_CST);
    return real(db, zDb, eMode, pnLog, pnCkpt);
}

static int64_t log_bytes(void)
{
    struct stat status;
    return stat(keep_text("%s-wal", store_path()), &status) == 0 ? (int64_t)status.st_size : 0;
}

/* Another program that has begun to read and does not end. */
static void keep_reading(struct helper *parent, void *arg)
{
    sqlite3 *sqlite;
    (void)arg;
    helper_hear(parent);
    check_int(sqlite3_open(store_path(), &sqlite), ==, SQLITE_OK);
    check_int(sqlite3_exec(sqlite, "BEGIN; SELECT count(*) FROM job", NULL, NULL, NULL), ==,
              SQLITE_OK);
    helper_say(parent, 0);
    helper_hear(parent);
    sqlite3_close(sqlite);
}

static void add_payload(tend *t, size_t bytes)
{
    struct tend_job_spec spec = spec_for("q");
    char *payload = malloc(bytes + 3);
    check(payload != NULL);
    memset(payload, 'x', bytes + 2);
    payload[0] = payload[bytes + 1] = '"';
    payload[bytes + 2] = '\0';
    spec.payload = payload;
    add_spec(t, &spec);
    free(payload);
}

static struct helper begin_reading(void)
{
    struct helper reader = helper_start(keep_reading, NULL);
    tend *t = store_open("w");
    add_one(t, "q");
    store_close(t); /* the log is empty: the worst case */
    helper_say(&reader, 0);
    helper_hear(&reader);
    return reader;
}

/*
 * With a reader on an empty log SQLite tried a checkpoint at every commit, and sorted the whole log
 * for it: 5,000 adds took ten times as long as without, and each further one more.
 */
TEST(sqlite_wal, a_reader_that_stays_costs_few_checkpoints)
{
    enum { ADDS = 3000 };
    struct helper reader = begin_reading();
    tend *t = store_open("w");
    long long begun_ms = test_clock_ms();
    for (int i = 0; i < ADDS; i++)
        add_one(t, "q");
    check_int(tries, >=, 1);
    check_int(tries, <=, 10 + (test_clock_ms() - begun_ms) / 1000);
    check_int(log_bytes(), >, 1000 * 4096);
    helper_kill(&reader);
}

/* Commands are processes that commit once. The pause between two tries holds for all of them. */
TEST(sqlite_wal, the_next_process_does_not_try_again_at_once)
{
    enum { PROCESSES = 100 };
    struct helper reader = begin_reading();
    tend *t = store_open("w");
    while (tries == 0)
        add_payload(t, 100000);
    store_close(t);
    long long begun_ms = test_clock_ms();
    int before = tries;
    for (int i = 0; i < PROCESSES; i++) {
        t = store_open("one of many");
        add_one(t, "q");
        store_close(t);
    }
    check_int(tries - before, <=, 10 + (test_clock_ms() - begun_ms) / 1000);
    helper_kill(&reader);
}

TEST(sqlite_wal, without_readers_the_log_stays_small)
{
    tend *t = store_open("w");
    for (int i = 0; i < 3000; i++)
        add_one(t, "q");
    check_int(log_bytes(), <, 8 * MIB);
    check_int(tries, >=, 2);
    check_int(tries, <=, 30);
}

static void note_finding(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    if (strcmp(what, "log") == 0)
        *(const char **)arg = keep_text("%d %s", (int)verdict, text);
}

static const char *finding_of(tend *t)
{
    const char *finding = "";
    check_rc(t, tend_doctor(t, note_finding, &finding), 0);
    return finding;
}

static bool is_small_after_an_add(tend *t)
{
    add_one(t, "q");
    return log_bytes() <= 17 * MIB;
}

/* Nobody said why the disk filled up. */
TEST_WITHIN(sqlite_wal, a_log_that_grows_is_told_with_who_holds_it_and_shrinks_afterwards, 120)
{
    struct helper reader = begin_reading();
    tend *t = store_open("w");
    check_contains(finding_of(t), "0 0.");
    while (log_bytes() <= 66 * MIB)
        add_payload(t, 500000);
    wait_until((add_one(t, "q"), *store_log() != '\0'), PATIENCE_MS);
    const char *who = keep_text("process %d (", (int)reader.pid);
    check_contains(store_log(), "-wal has grown to ");
    check_contains(store_log(), who);
    check_contains(finding_of(t), who);
    check_int(finding_of(t)[0], ==, '1');
    for (int i = 0; i < 10; i++)
        add_payload(t, 500000);
    check(strchr(store_log(), '\n')[1] == '\0'); /* one line */
    helper_kill(&reader);
    wait_until(is_small_after_an_add(t), PATIENCE_MS);
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
    check_int(finding_of(t)[0], ==, '0');
}
