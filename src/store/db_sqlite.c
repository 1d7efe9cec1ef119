/*
 * The SQLite engine: transactions. Connections are in sqlite_conn.c, kernel locks and the bell in
 * sqlite_files.c, opening and migrating in sqlite_open.c.
 *
 * Writing: one connection per handle. Threads leave their bodies in a list; the first of them
 * leads: it waits in line at the turnstile, begins, runs all bodies in the list, also those that
 * come while it is at it, each in a savepoint, commits once and answers everybody. During the
 * commit the next list grows (group commit), so that throughput is not bounded by fsync. The
 * turnstile keeps all writers and checkpoints of all processes apart: only another program can make
 * SQLite report "locked" (sqlite_stranger.c), and the race between a checkpoint and a commit that
 * loses transactions in SQLite before 3.51.3 cannot happen.
 *
 * Reading: connections of their own, one per reading thread at a time; WAL lets them go on beside
 * the writer.
 *
 * Invariants: no body is acknowledged before the commit that holds it has returned and the store
 * was seen in its place afterwards (sqlite_files.h); a body that fails is rolled back to its
 * savepoint; when the whole transaction is lost, or a body cannot be rolled back, all of its bodies
 * fail and nothing of it is saved. No connection is used again while a transaction is open that
 * could not be ended: it is closed, which ends it.
 */
#include "store/queries.h"
#include "store/sqlite_db.h"

#include <errno.h>
#include <stdlib.h>
#include <tend.h>
#include <time.h>

/* More would keep other processes waiting too long. */
enum { GROUP_MAX = 256 };

enum { LONGEST_MS = 86400000 };

/* A body waiting to be run. Lives on the stack of the thread that waits for it. */
struct sqlite_write {
    struct sqlite_tx tx;
    db_body *body;
    void *arg;
    int rc;
    int64_t begun_ms; /* monotonic */
    int64_t until_ns; /* ... how long it may wait for its turn */
    bool taken;       /* it is in a group */
    bool done;
    bool lead; /* its thread is to lead the next group */
    pthread_cond_t answered;
    struct sqlite_write *next;
};

/* Ids and time go on from the newest event, whoever wrote it. store_begin and store_begin_empty
 * have the same columns. */
static int read_beginning(struct sqlite_db *db, struct db_tx *tx, int64_t *ret_now_ms)
{
    struct store_begin_rows last;
    _Static_assert(sizeof *last.at == sizeof(struct store_begin_empty_row),
                   "one takes the place of the other");
    int rc = sqlite_conn_run(&db->writer, tx, Q_STORE_BEGIN, NULL, &last.result);
    if (rc == 0 && last.count == 0)
        rc = sqlite_conn_run(&db->writer, tx, Q_STORE_BEGIN_EMPTY, NULL, &last.result);
    if (rc < 0)
        return rc;
    if (last.count == 0 || last.at[0].token_base.type != DB_INT)
        return err_set(tx->err, TEND_EIO,
                       "the table store of %s has lost its row: the file is damaged; restore a "
                       "backup of it",
                       db->path);
    db->writer.next_event = db_num(last.at[0].id) + 1;
    db->writer.token_base = db_num(last.at[0].token_base);
    return sqlite_clock_begin(db, tx, db_num(last.at[0].at), ret_now_ms);
}

/* write->rc is what became of the body; a negative code: the whole transaction must be undone. */
static int run_body(struct sqlite_db *db, struct sqlite_write *write, int64_t now_ms, bool alone,
                    struct err *err)
{
    struct sqlite_conn *conn = &db->writer;
    const int64_t next_event = conn->next_event;
    const int64_t token_base = conn->token_base;
    int rc = 0;
    write->tx.base.now = db_int(now_ms);
    if (!alone && (write->rc = sqlite_conn_fixed(conn, FIXED_SAVEPOINT, write->tx.base.err)) < 0)
        return 0;
    write->rc = write->body(&write->tx.base, write->arg);
    if (write->rc < 0)
        write->tx.base.ring = 0;
    if (alone || sqlite3_get_autocommit(conn->sqlite))
        return 0;
    if (write->rc < 0) {
        rc = sqlite_conn_fixed(conn, FIXED_UNDO, err);
        conn->next_event = next_event;
        conn->token_base = token_base;
    }
    return rc < 0 ? rc : sqlite_conn_fixed(conn, FIXED_RELEASE, err);
}

static void fail_group(struct sqlite_write *group, const struct err *err)
{
    for (struct sqlite_write *write = group; write != NULL; write = write->next) {
        if (write->rc < 0)
            continue;
        *write->tx.base.err = *err;
        write->rc = err->code;
        write->tx.base.ring = 0;
    }
}

/* Cuts up to `most` bodies off the list of those waiting; NULL: there are none. */
static struct sqlite_write *take_waiting(struct sqlite_db *db, size_t most)
{
    pthread_mutex_lock(&db->mutex);
    struct sqlite_write *taken = most == 0 ? NULL : db->first;
    struct sqlite_write *last = taken;
    for (size_t i = 1; i < most && last != NULL && last->next != NULL; i++)
        last = last->next;
    if (last != NULL) {
        db->first = last->next;
        if (db->first == NULL)
            db->last = NULL;
        last->next = NULL;
    }
    for (struct sqlite_write *write = taken; write != NULL; write = write->next) {
        write->rc = 0;
        write->taken = true;
    }
    pthread_mutex_unlock(&db->mutex);
    return taken;
}

/*
 * Runs the bodies of a group in the transaction that has begun, and commits it. Those that
 * come while it is at it still get in: the threads answered last are back by then, and would
 * otherwise wait for a commit more.
 */
static int run_group(struct sqlite_db *db, struct sqlite_write *group, bool *ret_committed,
                     struct err *err)
{
    int64_t now_ms = 0;
    size_t count = 0;
    bool alone = group->next == NULL;
    int rc;
    struct sqlite_tx first = {.base = group->tx.base, .conn = &db->writer};
    first.base.err = err;
    if ((rc = read_beginning(db, &first.base, &now_ms)) < 0)
        return rc;
    for (struct sqlite_write *write = group; write != NULL; write = write->next) {
        if ((rc = run_body(db, write, now_ms, alone, err)) < 0)
            return rc;
        if (sqlite3_get_autocommit(db->writer.sqlite)) { /* a full disk takes the whole with it */
            *err = *write->tx.base.err;
            rc = write->rc < 0 ? write->rc : TEND_EIO;
            err->code = rc;
            return rc;
        }
        if (alone && write->rc < 0)
            return 0;
        alone = false;
        count++;
        if (write->next == NULL && count < GROUP_MAX)
            write->next = take_waiting(db, GROUP_MAX - count);
    }
    if ((rc = sqlite_conn_fixed(&db->writer, FIXED_COMMIT, err)) < 0)
        return rc;
    *ret_committed = true;
    return sqlite_files_check_saved(&db->files, err);
}

int sqlite_db_enter(struct sqlite_db *db, int64_t wait_ms, struct err *err)
{
    if (sqlite_files_gone(&db->files))
        return sqlite_files_check_store(&db->files, err);
    int rc = turnstile_enter(&db->turnstile, wait_ms, err);
    if (rc == 0 && (rc = sqlite_files_check_beside(&db->files, err)) < 0)
        turnstile_leave(&db->turnstile);
    return rc;
}

/*
 * What the clock is to know of a group: a commit that has changed nothing does not show that the
 * store can be written. That it cannot, SQLite alone can say: a body fails for reasons of its own,
 * with the same codes.
 */
static enum clock_outcome outcome_of(const struct sqlite_db *db, bool committed, int changes_before)
{
    if (committed)
        return sqlite3_total_changes(db->writer.sqlite) != changes_before ? CLOCK_WRITTEN
                                                                          : CLOCK_UNCHANGED;
    return db->writer.unwritable ? CLOCK_UNWRITABLE : CLOCK_UNDONE;
}

int64_t sqlite_db_until_ns(const struct sqlite_db *db, int64_t wait_ms)
{
    int64_t longest_ms = wait_ms < db->options.busy_ms ? wait_ms : db->options.busy_ms;
    return clock_mono_ns() + (longest_ms < LONGEST_MS ? longest_ms : LONGEST_MS) * 1000000;
}

/* When the wait of a body is over, as its handle may have been told to hurry. */
static int64_t hurried_ns(const struct sqlite_db *db, const struct sqlite_write *mine)
{
    int64_t hurried_ms = hurry_until(&db->hurry, mine->begun_ms, INT64_MAX);
    return hurried_ms < mine->until_ns / 1000000 ? hurried_ms * 1000000 : mine->until_ns;
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Takes a body off the list of those waiting. */
static void drop(struct sqlite_db *db, struct sqlite_write *mine)
{
    struct sqlite_write **at = &db->first;
    struct sqlite_write *before = NULL;
    while (*at != mine) {
        before = *at;
        at = &before->next;
    }
    *at = mine->next;
    if (db->last == mine)
        db->last = before;
    mine->next = NULL;
    mine->taken = true;
}

static struct sqlite_write *give_up(struct sqlite_db *db, struct sqlite_write *mine,
                                    const struct err *err)
{
    pthread_mutex_lock(&db->mutex);
    drop(db, mine);
    pthread_mutex_unlock(&db->mutex);
    mine->rc = 0;
    fail_group(mine, err);
    return mine;
}

/* The turn, with a transaction; neither, and a negative code, when that cannot be had in time. */
static int begin(struct sqlite_db *db, int64_t until_ns, struct err *err)
{
    int64_t left_ns = until_ns - clock_mono_ns();
    /* Rounded up: whoever is told "busy" has waited for all of its time. */
    int rc = sqlite_db_enter(db, left_ns > 0 ? (left_ns + 999999) / 1000000 : 0, err);
    if (rc < 0)
        return rc;
    db->writer.unwritable = false;
    if (db->writer.sqlite == NULL)
        rc = sqlite_db_reopen_writer(db, err);
    if (rc == 0 && (rc = sqlite_stranger_begin(db, until_ns, err)) == 0)
        return 0;
    sqlite_clock_end(db, outcome_of(db, false, 0));
    turnstile_leave(&db->turnstile);
    return rc;
}

/*
 * The bodies that wait by the time it is this process's turn, all run; they are to be answered.
 * When it cannot begin in time for the one that leads, that one fails alone: others may wait
 * longer.
 */
static struct sqlite_write *lead(struct sqlite_db *db, struct sqlite_write *mine)
{
    struct err err = {0};
    int rc = begin(db, hurried_ns(db, mine), &err);
    if (rc < 0)
        return give_up(db, mine, &err);
    struct sqlite_write *group = take_waiting(db, GROUP_MAX);
    bool committed = false;
    int changes = sqlite3_total_changes(db->writer.sqlite);
    rc = run_group(db, group, &committed, &err);
    sqlite_clock_end(db, outcome_of(db, committed, changes));
    if (!sqlite_conn_undo(&db->writer))
        sqlite_conn_close(&db->writer);
    else if (rc == 0)
        sqlite_wal_tend(db);
    turnstile_leave(&db->turnstile);
    if (rc < 0)
        fail_group(group, &err);
    uint64_t bells = 0;
    for (struct sqlite_write *write = group; write != NULL; write = write->next)
        bells |= write->tx.base.ring;
    sqlite_files_ring(&db->files, bells);
    return group;
}

/* Until its body is answered, it is to lead, or its time is over. Under the mutex. */
static void wait_for_leader(struct sqlite_db *db, struct sqlite_write *mine)
{
    /* One that hurries meanwhile ends with the one that leads, which sees it. */
    struct timespec until = to_timespec(hurried_ns(db, mine));
    while (db->leading && !mine->lead && !mine->done) {
        if (mine->taken)
            pthread_cond_wait(&mine->answered, &db->mutex);
        else if (pthread_cond_clockwait(&mine->answered, &db->mutex, CLOCK_MONOTONIC, &until) ==
                     ETIMEDOUT &&
                 !mine->taken && !mine->lead && db->leading) {
            drop(db, mine);
            mine->done = true;
            mine->rc = turnstile_say_busy(&db->turnstile, mine->tx.base.err);
        }
    }
}

int sqlite_db_write_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                           void *arg, struct err *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    struct sqlite_write mine = {
        .tx = {.base = {.db = base, .arena = arena, .err = err}, .conn = &db->writer},
        .body = body,
        .arg = arg,
        .begun_ms = clock_mono_ms(),
        .until_ns = sqlite_db_until_ns(db, wait_ms)};
    bool tell = false;
    pthread_cond_init(&mine.answered, NULL);

    pthread_mutex_lock(&db->mutex);
    if (db->last != NULL)
        db->last->next = &mine;
    else
        db->first = &mine;
    db->last = &mine;
    wait_for_leader(db, &mine);
    if (!mine.done) {
        db->leading = true;
        pthread_mutex_unlock(&db->mutex);
        struct sqlite_write *group = lead(db, &mine);
        pthread_mutex_lock(&db->mutex);
        /* An answered body's thread may return at once, so its link is read first. */
        for (struct sqlite_write *write = group, *next; write != NULL; write = next) {
            next = write->next;
            write->done = true;
            pthread_cond_signal(&write->answered);
        }
        tell = sqlite_wal_to_tell(db);
        db->leading = db->first != NULL;
        if (db->leading) {
            db->first->lead = true;
            pthread_cond_signal(&db->first->answered);
        }
    }
    pthread_mutex_unlock(&db->mutex);
    pthread_cond_destroy(&mine.answered);
    if (tell)
        sqlite_wal_tell(db);
    return mine.rc;
}

int sqlite_db_write(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    return sqlite_db_write_within(base, db->options.busy_ms, arena, body, arg, err);
}

/* --- reading --- */

/* NULL: there is none to give back. */
static void give_reader(struct sqlite_db *db, struct sqlite_conn *conn)
{
    pthread_mutex_lock(&db->mutex);
    if (conn != NULL) {
        conn->next = db->readers;
        db->readers = conn;
    }
    db->reading--;
    pthread_mutex_unlock(&db->mutex);
}

static int take_reader(struct sqlite_db *db, struct sqlite_conn **ret, struct err *err)
{
    pthread_mutex_lock(&db->mutex);
    struct sqlite_conn *conn = db->readers;
    if (conn != NULL)
        db->readers = conn->next;
    db->reading++;
    pthread_mutex_unlock(&db->mutex);
    if (conn != NULL) {
        *ret = conn;
        return 0;
    }
    conn = malloc(sizeof *conn);
    if (conn == NULL) {
        give_reader(db, NULL);
        return err_set(err, TEND_ENOMEM, "out of memory while reading the store");
    }
    int rc = sqlite_conn_open(conn, db->path, SQLITE_OPEN_NOFOLLOW, err);
    if (rc == 0) {
        sqlite3_db_config(conn->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        rc = sqlite_conn_exec(conn, "PRAGMA query_only = 1; PRAGMA cache_size = -4000",
                              "opening the store", err);
    }
    if (rc == 0)
        rc = sqlite_conn_prepare_fixed(conn, err);
    if (rc < 0) {
        sqlite_conn_close(conn);
        free(conn);
        give_reader(db, NULL);
        return rc;
    }
    *ret = conn;
    return 0;
}

/* Time as a reader sees it: not before the newest event it can see. */
static int read_now(struct sqlite_db *db, struct sqlite_tx *tx)
{
    struct store_last_event_rows last;
    int rc = sqlite_conn_run(tx->conn, &tx->base, Q_STORE_LAST_EVENT, NULL, &last.result);
    if (rc < 0)
        return rc;
    int64_t newest_ms = last.count > 0 ? db_num(last.at[0].at) : 0;
    tx->base.now = db_int(sqlite_clock_read(&db->clock, newest_ms));
    return 0;
}

static int read_with(struct sqlite_db *db, struct sqlite_tx *tx, db_body *body, void *arg)
{
    int rc = take_reader(db, &tx->conn, tx->base.err);
    if (rc < 0)
        return rc;
    if ((rc = sqlite_conn_fixed(tx->conn, FIXED_READ, tx->base.err)) == 0 &&
        (rc = read_now(db, tx)) == 0)
        rc = body(&tx->base, arg);
    if (!sqlite_conn_undo(tx->conn)) {
        sqlite_conn_close(tx->conn);
        free(tx->conn);
        tx->conn = NULL;
    }
    give_reader(db, tx->conn);
    return rc;
}

int sqlite_db_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    struct sqlite_tx tx = {.base = {.db = base, .arena = arena, .err = err}};
    struct err gone;
    int rc = read_with(db, &tx, body, arg);
    /* Also when it failed: then this is why. */
    if (sqlite_files_check_store(&db->files, &gone) == 0)
        return rc;
    *err = gone;
    return gone.code;
}
