/*
 * The PostgreSQL engine: opening and closing, waiting, liveness, and the table of functions.
 * Transactions are in pg_tx.c; pg_db.h lists the rest.
 *
 * A handle has a pool of connections for statements and, once it waits or registers a worker, a
 * keeper: a thread with a session of its own (pg_keeper.c). Behind a transaction pooler
 * (tend_pooler=1, or found out with the first connection) nothing can live in a session: there is
 * no keeper, waits are a slow tick, and workers are known by their pid and the time of their leases
 * alone.
 */
#include "base/clock.h"
#include "store/pg_clock.h"
#include "store/pg_tx.h"
#include "store/queries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>
#include <time.h>
#include <unistd.h>

enum {
    GRACE_MS = 2000, /* a lost session may come back */
    DENY_TRIES = 20,
    MARGIN_MS = 2000,         /* the server says that a statement took too long before we do */
    BUSY_MOST_MS = 864000000, /* the server's timeouts count in ints */
    ALARM_INTERVAL_MS = 100,  /* a look for alarms costs a round trip */
    TICK_MS = 5000,           /* behind the bell; nothing should depend on it */
    DEAF_TICK_MS = 500,       /* when rings do not reach us */
    ENTER_MS = 2000,          /* how long a thread that goes to sleep waits for the keeper */
    BELL_MS = 500,            /* ... one that is about to */
    CLOSE_MS = 1000,          /* how long closing waits for the keeper to reach the server */
};

double pg_db_random(struct pg_db *db)
{
    pthread_mutex_lock(&db->rng_mutex);
    double random = rng_double(&db->rng);
    pthread_mutex_unlock(&db->rng_mutex);
    return random;
}

int64_t pg_db_limit_ms(const struct pg_db *db)
{
    return db->options.busy_ms + MARGIN_MS;
}

void pg_db_sleep(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* --- waiting --- */

static uint64_t bell(struct db *base, uint64_t bells)
{
    struct pg_db *db = (struct pg_db *)base;
    struct err ignored;
    bool hears;
    /* Whoever asks for the first time is about to wait: better to hear from here on than to look
     * twice. */
    if (!db->url.pooler && !pg_keeper_runs(&db->keeper)) {
        pg_keeper_enter(&db->keeper, BELL_MS, &hears, &ignored);
        pg_keeper_leave(&db->keeper);
    }
    return waiter_bell(&db->waiter, bells);
}

static int wait_for_news(struct db *base, uint64_t bells, uint64_t seen, int64_t timeout_ms,
                         struct err *err)
{
    struct pg_db *db = (struct pg_db *)base;
    bool hears = false;
    if (pg_gone(db))
        return pg_gone_say(db, err);
    int64_t enter_ms = timeout_ms < 0 || timeout_ms > ENTER_MS ? ENTER_MS : timeout_ms;
    int rc = db->url.pooler ? 0 : pg_keeper_enter(&db->keeper, enter_ms, &hears, err);
    int64_t tick_ms = hears ? TICK_MS : DEAF_TICK_MS;
    bool ticks = timeout_ms < 0 || timeout_ms > tick_ms;
    if (rc == 0)
        rc = waiter_wait(&db->waiter, bells, seen, ticks ? tick_ms : timeout_ms, err);
    if (!db->url.pooler)
        pg_keeper_leave(&db->keeper);
    return rc == DB_TIMEOUT && ticks ? (int)DB_RANG : rc;
}

static void interrupt(struct db *base)
{
    waiter_interrupt(&((struct pg_db *)base)->waiter);
}

static void hurry(struct db *base, int64_t most_ms)
{
    hurry_set(&((struct pg_db *)base)->hurry, most_ms);
}

static bool is_blocked(struct db *base)
{
    return __atomic_load_n(&((struct pg_db *)base)->away, __ATOMIC_RELAXED);
}

static int watch(struct db *base, const struct db_watched *workers, size_t count, struct err *err)
{
    return waiter_watch(&((struct pg_db *)base)->waiter, workers, count, NULL, err);
}

/* The engine has no descriptors of its own in the waiter: the keeper tells it what it hears. */
static void nothing_readable(struct waiter *waiter, size_t engine_fd, void *arg)
{
    (void)waiter;
    (void)engine_fd;
    (void)arg;
}

/* --- liveness --- */

static int alive_begin(struct db *base, int64_t worker_id, int64_t wait_ms, struct err *err)
{
    struct pg_db *db = (struct pg_db *)base;
    char sql[160];
    PGresult *result;
    if (!db->url.pooler)
        return pg_keeper_hold(&db->keeper, worker_id, wait_ms, err);
    /* No session: others must not take the missing lock for a sign of death. */
    snprintf(sql, sizeof sql, "UPDATE \"%s\".worker SET session = 0 WHERE id = %lld",
             db->url.schema, (long long)worker_id);
    int rc = pg_db_ask(db, wait_ms, sql, &result, err);
    if (rc == 0)
        PQclear(result);
    return rc;
}

static void alive_end(struct db *base, int64_t worker_id)
{
    struct pg_db *db = (struct pg_db *)base;
    if (!db->url.pooler)
        pg_keeper_release(&db->keeper, worker_id);
}

static bool alive_buried(struct db *base, int64_t worker_id)
{
    struct pg_db *db = (struct pg_db *)base;
    return !db->url.pooler && !pg_keeper_knows(&db->keeper, worker_id);
}

/* A neighbour may just be looking whether it can have the lock: a few tries. */
static int alive_deny(struct db_tx *tx, int64_t worker_id)
{
    struct pg_db *db = (struct pg_db *)tx->db;
    const struct worker_deny_params lock = {.class = db_int(pg_lock_class(&db->url, PG_LOCK_ALIVE)),
                                            .worker_id = db_int((int32_t)worker_id)};
    for (int i = 0; i < DENY_TRIES; i++) {
        struct worker_deny_rows denied;
        int rc = run_worker_deny(tx, 0, lock, &denied);
        if (rc < 0 || db_num(denied.at[0].free) == 1)
            return rc < 0 ? rc : 1;
        pg_db_sleep(1);
    }
    return 0;
}

static int alive_check(struct db *base, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                       bool *ret_alive, struct err *err)
{
    struct pg_db *db = (struct pg_db *)base;
    char sql[512 + sizeof db->identity_sql];
    PGresult *result;
    snprintf(
        sql, sizeof sql,
        "%s UNION ALL SELECT objid::text FROM pg_locks WHERE locktype = 'advisory' AND classid = %d AND "
        "objsubid = 2 AND mode = 'ExclusiveLock' AND granted AND "
        "database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        db->identity_sql, (int)pg_lock_class(&db->url, PG_LOCK_ALIVE));
    int rc = pg_db_ask(db, wait_ms, sql, &result, err);
    if (rc < 0)
        return pg_gone_missing(db, err);
    const char *identity = "";
    for (size_t i = 0; i < count; i++)
        ret_alive[i] = false;
    for (int row = 0; row < PQntuples(result); row++) {
        const char *value = PQgetvalue(result, row, 0);
        long long id = strtoll(value, NULL, 10);
        if (strchr(value, ' ') != NULL) {
            identity = value;
            continue;
        }
        for (size_t i = 0; i < count; i++)
            if ((uint32_t)worker_ids[i] == (uint32_t)id)
                ret_alive[i] = true;
    }
    rc = pg_gone_check(db, identity, err);
    PQclear(result);
    return rc;
}

/* --- care --- */

static int schema_version(struct db *base, int *ret_store, struct err *err)
{
    struct pg_db *db = (struct pg_db *)base;
    char sql[160];
    PGresult *result;
    snprintf(sql, sizeof sql, "SELECT version FROM \"%s\".tend_schema_version", db->url.schema);
    int rc = pg_db_ask(db, -1, sql, &result, err);
    if (rc < 0)
        return rc;
    *ret_store = PQntuples(result) > 0 ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return 0;
}

/* --- opening and closing --- */

static void close_db(struct db *base)
{
    struct pg_db *db = (struct pg_db *)base;
    hurry_set(&db->hurry, CLOSE_MS); /* the keeper may just be connecting */
    pg_keeper_done(&db->keeper);
    waiter_done(&db->waiter);
    pg_pool_done(&db->pool);
    pg_group_done(&db->group);
    pg_url_done(&db->url);
    pg_claims_done(&db->claims);
    pg_clock_done(db);
    pthread_mutex_destroy(&db->rng_mutex);
    free(db);
}

/* The server's clock may be set, and while the server was away nobody could renew a lease. */
static bool clock_is_uneven(const struct db *base)
{
    const struct db_options *options = &((const struct pg_db *)base)->options;
    return options->clock_ms == NULL || options->uptime_ms != NULL;
}

static bool is_gone(struct db *base)
{
    return pg_gone((struct pg_db *)base);
}

/* In the child of a fork the sockets are blind already (pg_connect.c). */
static void before_fork(struct db *base)
{
    pthread_mutex_lock(&((struct pg_db *)base)->waiter.mutex);
}

static void fork_parent(struct db *base)
{
    pthread_mutex_unlock(&((struct pg_db *)base)->waiter.mutex);
}

static void fork_child(struct db *base)
{
    struct pg_db *db = (struct pg_db *)base;
    fork_parent(base);
    waiter_after_fork(&db->waiter);
    if (db->keeper.wake_fd >= 0)
        close(db->keeper.wake_fd);
    db->keeper.wake_fd = -1;
}

/* libpq's connections stay where they are: a thread that is not there may have been inside of one.
 * Mutexes and threads go with the memory. */
static void close_forked(struct db *base)
{
    struct pg_db *db = (struct pg_db *)base;
    free(db->keeper.workers);
    free(db->waiter.processes);
    pg_url_done(&db->url);
    free(db);
}

static const struct db_engine engine = {
    .close = close_db,
    .before_fork = before_fork,
    .fork_parent = fork_parent,
    .fork_child = fork_child,
    .close_forked = close_forked,
    .write = pg_tx_write,
    .write_within = pg_tx_write_within,
    .read = pg_tx_read,
    .read_within = pg_tx_read_within,
    .run = pg_tx_run,
    .each = pg_tx_each,
    .attempt = pg_tx_attempt,
    .time = pg_tx_time,
    .owed = pg_clock_owed,
    .bell = bell,
    .wait = wait_for_news,
    .interrupt = interrupt,
    .hurry = hurry,
    .is_blocked = is_blocked,
    .watch = watch,
    .alive_begin = alive_begin,
    .alive_end = alive_end,
    .alive_buried = alive_buried,
    .alive_deny = alive_deny,
    .alive_check = alive_check,
    .schema_version = schema_version,
    .migrations = db_migrations_postgres,
    .doctor = pg_db_doctor,
    .gone = is_gone,
    .clock_is_uneven = clock_is_uneven,
    .clock_look = pg_clock_look,
    .clock_settle = pg_clock_settle,
    .alive_grace_ms = GRACE_MS,
    .alarm_interval_ms = ALARM_INTERVAL_MS,
    .one_machine = false,
    .concurrent = true,
};

static void write_own_sql(struct pg_db *db)
{
    snprintf(db->bell_sql, sizeof db->bell_sql,
             "SELECT pg_notify('%s', $1), set_config('synchronous_commit', 'off', true) "
             "WHERE NOT pg_try_advisory_xact_lock(%d, pg_backend_pid() & %d)",
             db->url.channel, (int)pg_lock_class(&db->url, PG_LOCK_BELL), PG_BELL_SLOTS - 1);
    pg_settings_local(db, db->local_sql, sizeof db->local_sql);
    pg_gone_write_sql(db);
}

/* The first connection: it tells whether a pooler is in between, and brings the schema up to date.
 */
static int connect_first(struct pg_db *db, struct err *err)
{
    struct pg_conn *conn;
    bool shared;
    int64_t open_ms = db->options.open_ms;
    struct pg_patience patience = pg_patience_start(db, open_ms > 0 ? open_ms : -1);
    int rc = pg_conn_connect(&conn, db, &patience, &shared, err);
    if (rc < 0 && shared) {
        db->url.pooler = true;
        pg_url_set_options(&db->url, NULL);
        rc = pg_conn_connect(&conn, db, &patience, &shared, err);
    }
    if (rc < 0)
        return rc;
    rc = pg_schema_update(db, conn->pg, conn->limit_ms, err);
    if (rc == 0)
        rc = pg_conn_prepare(conn, db, err);
    if (rc < 0) {
        pg_conn_close(conn);
        return rc;
    }
    db->pool.open = 1;
    pg_pool_give(db, conn, false);
    return 0;
}

int db_postgres_open(struct db **ret, const char *url, const struct db_options *options,
                     struct err *err)
{
    struct pg_db *db = calloc(1, sizeof *db);
    if (db == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while opening the store");
    db->base.engine = &engine;
    db->options = *options;
    if (db->options.busy_ms <= 0)
        db->options.busy_ms = 30000;
    if (db->options.busy_ms > BUSY_MOST_MS)
        db->options.busy_ms = BUSY_MOST_MS;
    int rc = pg_url_parse(&db->url, url, err);
    if (rc < 0) {
        pg_url_done(&db->url);
        free(db);
        return rc;
    }
    rng_seed_random(&db->rng);
    write_own_sql(db);
    pthread_mutex_init(&db->rng_mutex, NULL);
    pg_claims_init(&db->claims);
    pg_clock_init(db);
    pg_pool_init(&db->pool, options->connections);
    pg_group_init(&db->group);
    int waiter_rc = waiter_init(&db->waiter, nothing_readable, db, err);
    rc = pg_keeper_init(&db->keeper, db, err);
    if (waiter_rc < 0 || rc < 0 || (rc = pg_settings_offer(db, err)) < 0 ||
        (rc = connect_first(db, err)) < 0) {
        close_db(&db->base);
        return waiter_rc < 0 ? waiter_rc : rc;
    }
    *ret = &db->base;
    return 0;
}
