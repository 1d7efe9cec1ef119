/*
 * The SQLite engine: opening, making and migrating a store, and the table of the engine's
 * functions.
 *
 * A store is known by its application_id; user_version counts the migrations that have run. A store
 * that is already up to date is opened without the turnstile, so that opening never waits for
 * writers.
 *
 * A file without content is a store that is being made, or one that was emptied. Who may make a
 * store makes it there, as one who began to and was killed leaves such a file. Who only reads
 * (must_exist) is refused when nobody has made it by the reader's turn at the turnstile.
 */
#include "store/sqlite_db.h"

#include "base/rng.h"
#include "store/older.h"
#include "store/sqlite_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <tend.h>

#define APPLICATION_ID 0x74656e64 /* "tend" */

static int read_version(struct sqlite_conn *conn, int64_t *ret_id, int64_t *ret_version,
                        struct err *err)
{
    int rc = sqlite_conn_pragma_int(conn, "PRAGMA application_id", ret_id, err);
    return rc < 0 ? rc : sqlite_conn_pragma_int(conn, "PRAGMA user_version", ret_version, err);
}

static int refuse_foreign(struct sqlite_db *db, int64_t id, int64_t version, struct err *err)
{
    int64_t tables = 0;
    int rc =
        sqlite_conn_pragma_int(&db->writer, "SELECT count(*) FROM sqlite_master", &tables, err);
    if (rc < 0)
        return rc;
    if (id != APPLICATION_ID && tables > 0)
        return err_set(err, TEND_ENOTADB,
                       "%s is an SQLite database of another program; give tend a file of its own",
                       db->path);
    if (version > db_library_schema())
        return err_set(
            err, TEND_ESCHEMA,
            "%s has schema %lld, this tend knows %d; use a newer tend (nothing was changed)",
            db->path, (long long)version, db_library_schema());
    return 0;
}

/* Which migrations have run, and what they said: those that have no row yet. */
static int record_migrations(struct sqlite_db *db, struct err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && db_migrations_sqlite[i].sql != NULL; i++) {
        char sql[256];
        snprintf(sql, sizeof sql,
                 "INSERT OR IGNORE INTO migration (version, checksum, at) VALUES (%d, '%s', "
                 "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))",
                 i + 1, db_migrations_sqlite[i].checksum);
        rc = sqlite_conn_exec(&db->writer, sql, "migrating the store", err);
    }
    return rc;
}

/* Whether workers live by this schema, which is older. Of those without a liveness lock nobody can
 * tell. */
static int refuse_workers(struct sqlite_db *db, int version, struct err *err)
{
    struct older_workers workers = {0};
    sqlite3_stmt *list = NULL;
    if (version == 0 || version == db_library_schema() || db->options.beside_workers)
        return 0;
    int code = sqlite3_prepare_v2(db->writer.sqlite,
                                  "SELECT id, name, pid, host FROM worker WHERE session = 1", -1,
                                  &list, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(list)) == SQLITE_ROW) {
        if (sqlite_files_is_alive(&db->files, sqlite3_column_int64(list, 0)))
            older_add(&workers, (const char *)sqlite3_column_text(list, 1),
                      sqlite3_column_int64(list, 2), (const char *)sqlite3_column_text(list, 3));
        code = SQLITE_OK;
    }
    sqlite3_finalize(list);
    return code != SQLITE_DONE
               ? sqlite_conn_fail(&db->writer, code, "reading workers", err)
               : older_refuse(&workers, db->path, version, db_library_schema(), err);
}

/* Brings the schema up to date, all in one transaction. The turnstile is held. */
static int migrate(struct sqlite_db *db, struct err *err)
{
    int64_t id;
    int64_t version;
    char pragmas[96];
    struct err ignored;
    int rc = sqlite_conn_exec(&db->writer, "BEGIN IMMEDIATE", "migrating the store", err);
    if (rc < 0)
        return rc;
    turnstile_begun(&db->turnstile);
    /* Somebody else may have done it while this process waited in line. */
    if ((rc = read_version(&db->writer, &id, &version, err)) < 0 ||
        (rc = refuse_foreign(db, id, version, err)) < 0 ||
        (rc = refuse_workers(db, (int)version, err)) < 0)
        goto undo;
    for (; db_migrations_sqlite[version].sql != NULL; version++)
        if ((rc = sqlite_conn_exec(&db->writer, db_migrations_sqlite[version].sql,
                                   "migrating the store", err)) < 0)
            goto undo;
    if ((rc = record_migrations(db, err)) < 0)
        goto undo;
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, (int)version);
    if ((rc = sqlite_conn_exec(&db->writer, pragmas, "migrating the store", err)) == 0 &&
        (rc = sqlite_conn_exec(&db->writer, "COMMIT", "migrating the store", err)) == 0)
        return 0;
undo:
    sqlite_conn_exec(&db->writer, "ROLLBACK", "migrating the store", &ignored);
    return rc;
}

/* What is in the file. */
enum content { CONTENT_NONE, CONTENT_OLDER, CONTENT_CURRENT };

/* Seen in one snapshot: another process may be making it right now. */
static int look_inside(struct sqlite_db *db, enum content *ret, struct err *err)
{
    int64_t id;
    int64_t version;
    struct err ignored;
    int rc = sqlite_conn_exec(&db->writer, "BEGIN", "opening the store", err);
    if (rc < 0)
        return rc;
    if ((rc = read_version(&db->writer, &id, &version, err)) == 0)
        rc = refuse_foreign(db, id, version, err);
    int undone =
        sqlite_conn_exec(&db->writer, "ROLLBACK", "opening the store", rc == 0 ? err : &ignored);
    rc = rc == 0 ? undone : rc;
    if (rc == 0)
        *ret = id != APPLICATION_ID             ? CONTENT_NONE
               : version == db_library_schema() ? CONTENT_CURRENT
                                                : CONTENT_OLDER;
    return rc;
}

static int say_empty(const struct sqlite_db *db, struct err *err)
{
    return err_set(err, TEND_ENOTFOUND,
                   "%s is empty: there is no store in it; restore it from a backup if there was "
                   "one, or 'tend add' makes a new one in it",
                   db->path);
}

/* Who only reads makes no store; it waits for whoever may be making it in its turn. */
static int make_current(struct sqlite_db *db, struct err *err)
{
    enum content content = CONTENT_OLDER;
    int rc = sqlite_db_enter(db, db->options.busy_ms, err);
    if (rc < 0)
        return rc;
    sqlite_stranger_limit(db, sqlite_db_until_ns(db, db->options.busy_ms));
    if (db->options.must_exist && (rc = look_inside(db, &content, err)) == 0 &&
        content == CONTENT_NONE)
        rc = say_empty(db, err);
    if (rc == 0)
        rc = sqlite_conn_exec(&db->writer, "PRAGMA journal_mode = WAL", "making the store", err);
    if (rc == 0)
        rc = migrate(db, err);
    turnstile_leave(&db->turnstile);
    return rc;
}

/* An empty file without companions: whoever makes a store has them before its turn. */
static int refuse_empty(const struct sqlite_db *db, enum content content, struct err *err)
{
    return db->options.must_exist && content == CONTENT_NONE && !sqlite_files_has_lock(&db->files)
               ? say_empty(db, err)
               : 0;
}

static int open_writer(struct sqlite_db *db, struct err *err)
{
    /* The path was resolved and the file is there: what is a symlink now was put there since. */
    int rc = sqlite_conn_open(&db->writer, db->path, SQLITE_OPEN_NOFOLLOW, err);
    if (rc < 0)
        return rc;
    sqlite3_db_config(db->writer.sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite_stranger_watch(db);
    /* Statements over many rows keep them aside while they run: not in files in /tmp, which may be
     * full. */
    rc = sqlite_conn_exec(&db->writer, "PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY",
                          "opening the store", err);
    /* FULL: an acknowledged write survives the loss of power. */
    if (rc == 0)
        rc = sqlite_conn_exec(&db->writer,
                              db->options.durability_normal ? "PRAGMA synchronous = NORMAL"
                                                            : "PRAGMA synchronous = FULL",
                              "opening the store", err);
    return rc == 0 ? sqlite_wal_init(db, err) : rc;
}

int sqlite_db_reopen_writer(struct sqlite_db *db, struct err *err)
{
    int rc = open_writer(db, err);
    /* By its name: what has that name now may be another file. */
    if (rc == 0 && (rc = sqlite_files_check_store(&db->files, err)) == 0)
        rc = sqlite_conn_prepare_fixed(&db->writer, err);
    if (rc < 0)
        sqlite_conn_close(&db->writer);
    return rc;
}

/* Which file is the store, and that SQLite has opened the same. */
static int know_store(struct sqlite_db *db, struct err *err)
{
    int moved = 0;
    int rc = sqlite_files_know_store(&db->files, err);
    sqlite3_file_control(db->writer.sqlite, NULL, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (rc == 0 && moved)
        return err_set(err, TEND_EUNREACHABLE,
                       "%s was replaced while it was being opened; try again", db->path);
    return rc;
}

void sqlite_db_close_connections(struct sqlite_db *db)
{
    for (struct sqlite_conn *conn = db->readers, *next; conn != NULL; conn = next) {
        next = conn->next;
        sqlite_conn_close(conn);
        free(conn);
    }
    sqlite_conn_close(&db->writer);
}

static void sqlite_db_close(struct db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    /* SQLite checkpoints when the last connection goes; not unless nobody can be writing. */
    struct err ignored;
    bool locked = db->files.lock_fd >= 0 && turnstile_try_enter(&db->turnstile);
    if (db->writer.sqlite != NULL && locked && sqlite_files_look_beside(&db->files, &ignored) == 0)
        sqlite3_db_config(db->writer.sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    sqlite_db_close_connections(db);
    if (locked)
        turnstile_leave(&db->turnstile);
    turnstile_done(&db->turnstile);
    neighbour_done(&db->neighbour);
    sqlite_clock_done(&db->clock);
    sqlite_files_close(&db->files);
    waiter_done(&db->waiter);
    pthread_mutex_destroy(&db->mutex);
    pthread_mutex_destroy(&db->watch_mutex);
    free(db->own_workers);
    free(db->path);
    free(db);
}

/* --- inside a body --- */

static int run(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
               struct db_result *result)
{
    (void)how;
    return sqlite_conn_run(((struct sqlite_tx *)tx)->conn, tx, query, params, result);
}

static int each(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
                size_t count, int64_t *ret_each)
{
    (void)how;
    return sqlite_conn_each(((struct sqlite_tx *)tx)->conn, tx, query, params, count, ret_each);
}

static int attempt(struct db_tx *tx, db_body *part, void *arg, bool *ret_undone)
{
    struct sqlite_conn *conn = ((struct sqlite_tx *)tx)->conn;
    int64_t next_event = conn->next_event;
    uint64_t ring = tx->ring;
    struct err ignored;
    int rc = sqlite_conn_fixed(conn, FIXED_ATTEMPT, tx->err);
    if (rc < 0)
        return rc;
    rc = part(tx, arg);
    if (rc >= 0) {
        int released = sqlite_conn_fixed(conn, FIXED_ATTEMPT_RELEASE, tx->err);
        return released < 0 ? released : rc;
    }
    /* After some failures SQLite has undone everything by itself. */
    if (!db_fails_alone(rc) || sqlite3_get_autocommit(conn->sqlite) ||
        sqlite_conn_fixed(conn, FIXED_ATTEMPT_UNDO, &ignored) < 0 ||
        sqlite_conn_fixed(conn, FIXED_ATTEMPT_RELEASE, &ignored) < 0)
        return rc;
    conn->next_event = next_event;
    tx->ring = ring;
    *ret_undone = true;
    return rc;
}

static int tx_time(struct db_tx *tx, int64_t *ret_ms)
{
    *ret_ms = tx->now.number;
    return 0;
}

static int owed(struct db_tx *tx, struct db_owed *ret)
{
    return sqlite_clock_owed((struct sqlite_db *)tx->db, (struct sqlite_tx *)tx, ret);
}

/* Also for those whose bodies are committed together with this one. */
static int begin_generation(struct db_tx *tx, int64_t first_id, int64_t token_base)
{
    struct sqlite_conn *writer = &((struct sqlite_db *)tx->db)->writer;
    writer->next_event = first_id;
    writer->token_base = token_base;
    return 0;
}

/* --- waiting and liveness --- */

enum { BELL_WATCH, BELL_TIMER }; /* the waiter's descriptors */

static void on_bell(struct waiter *waiter, size_t fd, void *arg)
{
    struct sqlite_db *db = arg;
    waiter_ring(waiter,
                sqlite_files_heard_bells(&db->files, fd == BELL_WATCH ? db->files.bell_watch_fd
                                                                      : db->files.bell_timer_fd));
}

int sqlite_db_listen(struct sqlite_db *db, struct err *err)
{
    struct sqlite_files *files = &db->files;
    pthread_mutex_lock(&db->mutex);
    bool before = files->bell_watch_fd >= 0;
    int rc = sqlite_files_watch_bell(files, err);
    if (rc == 0 && !before) {
        waiter_set_fd(&db->waiter, BELL_WATCH, files->bell_watch_fd);
        if (files->bell_timer_fd >= 0)
            sqlite_files_untime_bell(files);
    } else if (rc < 0 && files->bell_timer_fd < 0 && sqlite_files_time_bell(files)) {
        waiter_set_fd(&db->waiter, BELL_TIMER, files->bell_timer_fd);
    }
    pthread_mutex_unlock(&db->mutex);
    return rc;
}

/* The watch begins at the first look, so that nothing that rings after it is missed. */
static uint64_t bell(struct db *base, uint64_t bells)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    struct err err;
    if (sqlite_db_listen(db, &err) < 0 &&
        !__atomic_exchange_n(&db->deaf_told, true, __ATOMIC_RELAXED))
        db_notice(&db->options, err.text);
    return waiter_bell(&db->waiter, bells);
}

static int wait_for_news(struct db *base, uint64_t bells, uint64_t seen, int64_t timeout_ms,
                         struct err *err)
{
    return waiter_wait(&((struct sqlite_db *)base)->waiter, bells, seen, timeout_ms, err);
}

static void interrupt(struct db *base)
{
    waiter_interrupt(&((struct sqlite_db *)base)->waiter);
}

static void hurry(struct db *base, int64_t most_ms)
{
    hurry_set(&((struct sqlite_db *)base)->hurry, most_ms);
}

static void on_neighbour_end(void *arg)
{
    waiter_death(&((struct sqlite_db *)arg)->waiter);
}

static int watch(struct db *base, const struct db_watched *workers, size_t count, struct err *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    bool *seen = calloc(count + 1, sizeof *seen);
    if (seen == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while watching %zu workers", count);
    int rc = waiter_watch(&db->waiter, workers, count, seen, err);
    pthread_mutex_lock(&db->mutex);
    int64_t own_id = db->own_worker_count > 0 ? db->own_workers[0] : 0;
    pthread_mutex_unlock(&db->mutex);
    if (rc == 0) {
        pthread_mutex_lock(&db->watch_mutex);
        neighbour_watch(&db->neighbour, db->files.workers_fd,
                        neighbour_choose(workers, seen, count, own_id));
        pthread_mutex_unlock(&db->watch_mutex);
    }
    free(seen);
    return rc;
}

static int alive_begin(struct db *base, int64_t worker_id, int64_t wait_ms, struct err *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    (void)wait_ms;
    pthread_mutex_lock(&db->mutex);
    int64_t *ids = realloc(db->own_workers, (db->own_worker_count + 1) * sizeof *ids);
    int rc = ids == NULL ? err_set(err, TEND_ENOMEM, "out of memory while registering a worker")
                         : sqlite_files_alive_begin(&db->files, worker_id, err);
    if (ids != NULL)
        db->own_workers = ids;
    if (rc == 0)
        db->own_workers[db->own_worker_count++] = worker_id;
    pthread_mutex_unlock(&db->mutex);
    return rc;
}

static void alive_end(struct db *base, int64_t worker_id)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    pthread_mutex_lock(&db->mutex);
    for (size_t i = 0; i < db->own_worker_count; i++)
        if (db->own_workers[i] == worker_id)
            db->own_workers[i] = db->own_workers[--db->own_worker_count];
    sqlite_files_alive_end(&db->files, worker_id);
    pthread_mutex_unlock(&db->mutex);
}

static int alive_check(struct db *base, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                       bool *ret_alive, struct err *err)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    (void)wait_ms;
    bool all = true;
    pthread_mutex_lock(&db->mutex);
    for (size_t i = 0; i < count; i++) {
        ret_alive[i] = false;
        for (size_t k = 0; k < db->own_worker_count; k++)
            ret_alive[i] |= db->own_workers[k] == worker_ids[i];
        if (!ret_alive[i])
            ret_alive[i] = sqlite_files_is_alive(&db->files, worker_ids[i]);
        all &= ret_alive[i];
    }
    pthread_mutex_unlock(&db->mutex);
    /* A lock that is free in a file that is out of place says nothing. */
    return all ? 0 : sqlite_files_look_beside(&db->files, err);
}

/* What was free a moment ago is asked once more, in the turn in which the worker is buried. */
static int alive_deny(struct db_tx *tx, int64_t worker_id)
{
    bool alive;
    int rc = alive_check(tx->db, &worker_id, 1, -1, &alive, tx->err);
    return rc < 0 ? rc : !alive;
}

static int version_body(struct db_tx *tx, void *arg)
{
    int64_t version;
    int rc = sqlite_conn_pragma_int(((struct sqlite_tx *)tx)->conn, "PRAGMA user_version", &version,
                                    tx->err);
    if (rc == 0)
        *(int *)arg = (int)version;
    return rc;
}

static int schema_version(struct db *base, int *ret_store, struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    int rc = sqlite_db_read(base, &arena, version_body, ret_store, err);
    arena_done(&arena);
    return rc;
}

static bool is_gone(struct db *base)
{
    return sqlite_files_gone(&((struct sqlite_db *)base)->files);
}

static bool is_blocked(struct db *base)
{
    return turnstile_gave_up(&((struct sqlite_db *)base)->turnstile);
}

static const struct db_engine engine = {
    .close = sqlite_db_close,
    .close_forked = sqlite_fork_close,
    .before_fork = sqlite_fork_before,
    .fork_parent = sqlite_fork_parent,
    .fork_child = sqlite_fork_child,
    .write = sqlite_db_write,
    .write_within = sqlite_db_write_within,
    .is_blocked = is_blocked,
    .read = sqlite_db_read,
    .run = run,
    .each = each,
    .attempt = attempt,
    .time = tx_time,
    .owed = owed,
    .begin_generation = begin_generation,
    .bell = bell,
    .wait = wait_for_news,
    .interrupt = interrupt,
    .hurry = hurry,
    .watch = watch,
    .alive_begin = alive_begin,
    .alive_end = alive_end,
    .alive_deny = alive_deny,
    .alive_check = alive_check,
    .schema_version = schema_version,
    .doctor = sqlite_db_doctor,
    .migrations = db_migrations_sqlite,
    .gone = is_gone,
    .alive_grace_ms = 0,
    .alarm_interval_ms = 0,
    .one_machine = true,
    .alive_in_body = true,
    .guards_change = true,
};

static bool name_stranger(void *arg, char *text, size_t size)
{
    return sqlite_wal_name_writer(arg, text, size);
}

static void use_files(struct sqlite_db *db)
{
    db->turnstile.fd = db->files.lock_fd;
    sqlite_clock_open(&db->clock, db->files.lock_fd);
}

/*
 * A store that cannot even be opened for want of space cannot be written by anybody: the time
 * counts against no lease. Where others have it open they know better, and whoever has the turn
 * writes down what comes of it.
 */
static void note_unwritable(struct sqlite_db *db)
{
    struct err ignored;
    if (!db->writer.unwritable || db->files.lock_fd >= 0 || !sqlite_files_has_lock(&db->files) ||
        sqlite_files_open(&db->files, &ignored) < 0)
        return;
    use_files(db);
    if (!turnstile_try_enter(&db->turnstile))
        return;
    sqlite_clock_end(db, CLOCK_UNWRITABLE);
    turnstile_leave(&db->turnstile);
}

int db_sqlite_open(struct db **ret, const char *path, const struct db_options *options,
                   struct err *err)
{
    int settled = sqlite_fork_settle(path, err);
    if (settled < 0)
        return settled;
    struct sqlite_db *db = calloc(1, sizeof *db);
    if (db == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while opening %s", path);
    int rc = sqlite_path_find(path, options->must_exist, &db->path, err);
    if (rc < 0) {
        free(db);
        return rc;
    }
    db->base.engine = &engine;
    db->options = *options;
    sqlite_files_init(&db->files, db->path);
    pthread_mutex_init(&db->mutex, NULL);
    pthread_mutex_init(&db->watch_mutex, NULL);
    neighbour_init(&db->neighbour, on_neighbour_end, db);
    turnstile_init(&db->turnstile, -1);
    sqlite_clock_init(&db->clock, &db->options);
    db->turnstile.log = options->notice;
    db->turnstile.log_arg = options->notice_arg;
    db->turnstile.name_stranger = name_stranger;
    db->turnstile.name_arg = db;
    db->turnstile.hurry = &db->hurry;
    sqlite_stranger_limit(db, sqlite_db_until_ns(db, options->busy_ms));
    struct rng rng;
    rng_seed_random(&rng);
    db->files.bell_salt = rng_u64(&rng);
    /* The files beside come last: nothing is left beside what is no store. */
    enum content content = CONTENT_NONE;
    rc = waiter_init(&db->waiter, on_bell, db, err);
    if (rc == 0 && (rc = open_writer(db, err)) == 0 && (rc = know_store(db, err)) == 0 &&
        (rc = look_inside(db, &content, err)) == 0 && (rc = refuse_empty(db, content, err)) == 0 &&
        (rc = sqlite_files_open(&db->files, err)) == 0) {
        use_files(db);
        rc = content == CONTENT_CURRENT ? 0 : make_current(db, err);
    }
    if (rc == 0 && (rc = sqlite_conn_prepare_fixed(&db->writer, err)) == 0)
        rc = sqlite_files_know_log(&db->files, err);
    if (rc < 0) {
        note_unwritable(db);
        sqlite_db_close(&db->base);
        return rc;
    }
    *ret = &db->base;
    return 0;
}
