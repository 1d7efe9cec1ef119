/*
 * The connections of a handle. They are made when needed, up to a limit; threads beyond it wait in
 * line and get the next connection that is given back, first come, first served.
 *
 * A connection on which the server did not answer in time is closed, and the idle ones with it:
 * what has become of the one (a route, a firewall's memory) has become of them all, and each would
 * cost a caller its whole patience to find out.
 *
 * Invariant: a connection belongs to exactly one thread, or to the idle list.
 */
#include "base/clock.h"
#include "base/timetext.h"
#include "store/pg_db.h"

#include <tend.h>
#include <time.h>

/* A thread in line. Lives on its stack. */
struct pg_ticket {
    pthread_cond_t called;
    struct pg_conn *conn; /* handed over */
    bool may_open;        /* a place has become free instead */
    struct pg_ticket *next;
};

enum { RECONNECT_FIRST_MS = 50, RECONNECT_LONGEST_MS = 400 };

void pg_pool_init(struct pg_pool *pool, int limit)
{
    *pool = (struct pg_pool){.limit = limit > 0 ? limit : 8};
    pthread_mutex_init(&pool->mutex, NULL);
}

void pg_pool_done(struct pg_pool *pool)
{
    for (struct pg_conn *conn = pool->idle, *next; conn != NULL; conn = next) {
        next = conn->next;
        pg_conn_close(conn);
    }
    pthread_mutex_destroy(&pool->mutex);
}

static void leave_line(struct pg_pool *pool, struct pg_ticket *mine)
{
    struct pg_ticket *before = NULL;
    struct pg_ticket **link = &pool->first;
    while (*link != mine) {
        before = *link;
        link = &before->next;
    }
    *link = mine->next;
    if (pool->last == mine)
        pool->last = before;
}

static void join_line(struct pg_pool *pool, struct pg_ticket *mine)
{
    if (pool->last != NULL)
        pool->last->next = mine;
    else
        pool->first = mine;
    pool->last = mine;
}

/* Waits for a connection or a place (NULL), which is counted already; false: in vain. Under the
 * mutex. */
static bool stand_in_line(struct pg_pool *pool, int64_t deadline_ms, struct pg_conn **ret)
{
    struct pg_ticket mine = {0};
    struct timespec until = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000};
    int rc = 0;
    pthread_cond_init(&mine.called, NULL);
    join_line(pool, &mine);
    while (rc == 0 && mine.conn == NULL && !mine.may_open)
        rc = pthread_cond_clockwait(&mine.called, &pool->mutex, CLOCK_MONOTONIC, &until);
    bool called = mine.conn != NULL || mine.may_open;
    if (!called)
        leave_line(pool, &mine);
    pthread_cond_destroy(&mine.called);
    *ret = mine.conn;
    return called;
}

static struct pg_ticket *call_first(struct pg_pool *pool)
{
    struct pg_ticket *ticket = pool->first;
    if (ticket == NULL)
        return NULL;
    pool->first = ticket->next;
    if (pool->first == NULL)
        pool->last = NULL;
    pthread_cond_signal(&ticket->called);
    return ticket;
}

/* A connection from the pool, or NULL with a place to make one; false: neither in time. */
static bool take_or_reserve(struct pg_pool *pool, int64_t deadline_ms, struct pg_conn **ret)
{
    bool got = true;
    pthread_mutex_lock(&pool->mutex);
    *ret = NULL;
    if (pool->first == NULL && pool->idle != NULL) {
        *ret = pool->idle;
        pool->idle = (*ret)->next;
    } else if (pool->first == NULL && pool->open < pool->limit) {
        pool->open++;
    } else {
        got = stand_in_line(pool, deadline_ms, ret);
    }
    pthread_mutex_unlock(&pool->mutex);
    return got;
}

/* A place is given up: the next in line may open a connection. */
static void give_place(struct pg_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    struct pg_ticket *ticket = call_first(pool);
    if (ticket != NULL)
        ticket->may_open = true;
    else
        pool->open--;
    pthread_mutex_unlock(&pool->mutex);
}

/* Closes the idle connections. Their places are free for new ones. */
static void close_idle(struct pg_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    struct pg_conn *conn = pool->idle;
    pool->idle = NULL;
    pthread_mutex_unlock(&pool->mutex);
    for (struct pg_conn *next; conn != NULL; conn = next) {
        next = conn->next;
        pg_conn_close(conn);
        give_place(pool);
    }
}

/* Under the mutex, which it lets go of meanwhile. False: the connection is gone. */
static bool ring_owed(struct pg_db *db, struct pg_conn *conn)
{
    struct pg_pool *pool = &db->pool;
    bool sent = true;
    while (sent && pool->owed_bells != 0) {
        uint64_t bells = pool->owed_bells;
        pool->owed_bells = 0;
        pthread_mutex_unlock(&pool->mutex);
        sent = pg_conn_ring(conn, db, bells) && pg_conn_flush(conn) == PG_FINE;
        pthread_mutex_lock(&pool->mutex);
        if (!sent)
            pool->owed_bells |= bells;
    }
    return sent;
}

void pg_pool_ring(struct pg_db *db, uint64_t bells)
{
    struct pg_pool *pool = &db->pool;
    pthread_mutex_lock(&pool->mutex);
    struct pg_conn *conn = pool->idle;
    if (conn != NULL)
        pool->idle = conn->next;
    pool->owed_bells |= bells;
    pthread_mutex_unlock(&pool->mutex);
    if (conn != NULL)
        pg_pool_give(db, conn, !pg_conn_usable(conn));
}

void pg_pool_give(struct pg_db *db, struct pg_conn *conn, bool broken)
{
    struct pg_pool *pool = &db->pool;
    pthread_mutex_lock(&pool->mutex);
    if (broken || PQstatus(conn->pg) != CONNECTION_OK || !ring_owed(db, conn)) {
        bool silent = conn->silent;
        pthread_mutex_unlock(&pool->mutex);
        pg_conn_close(conn);
        give_place(pool);
        if (silent)
            close_idle(pool);
        return;
    }
    struct pg_ticket *ticket = call_first(pool);
    if (ticket != NULL) {
        ticket->conn = conn;
    } else {
        conn->next = pool->idle;
        pool->idle = conn;
    }
    pthread_mutex_unlock(&pool->mutex);
}

int pg_pool_take(struct pg_db *db, const struct pg_patience *patience, struct pg_conn **ret,
                 struct err *err)
{
    int64_t begun_ms = clock_mono_ms();
    int64_t delay_ms = RECONNECT_FIRST_MS;
    char span[DURATION_TEXT_BYTES];
    for (;;) {
        struct pg_conn *conn;
        if (!take_or_reserve(&db->pool, patience->deadline_ms, &conn))
            return err_set(err, TEND_EBUSY,
                           "all %d connections to PostgreSQL at %s were in use for %s; raise "
                           "--connections, or see pg_stat_activity for what holds them up",
                           db->pool.limit, db->url.where,
                           span_text(clock_mono_ms() - begun_ms, span));
        if (conn != NULL)
            conn->limit_ms = pg_patience_answer_ms(patience, db);
        if (conn != NULL && pg_conn_usable(conn)) {
            *ret = conn;
            return 0;
        }
        pg_conn_close(conn); /* its place is ours */
        int rc = pg_conn_open(&conn, db, patience, err);
        if (rc == 0) {
            *ret = conn;
            return 0;
        }
        give_place(&db->pool);
        int64_t left_ms = pg_patience_deadline(patience, db) - clock_mono_ms();
        if (rc != TEND_EUNREACHABLE || left_ms <= 0 || pg_gone(db))
            return rc;
        int64_t jittered_ms = (int64_t)((double)delay_ms * (0.5 + pg_db_random(db)));
        pg_db_sleep(jittered_ms < left_ms ? jittered_ms : left_ms);
        if (delay_ms < RECONNECT_LONGEST_MS)
            delay_ms *= 2;
    }
}
