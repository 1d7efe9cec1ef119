/*
 * Transactions. A body is run on a connection of its own, and its statements go out together as far
 * as it does not need their answers:
 *
 *   - a body whose last statement comes before anything was sent needs no BEGIN: what lies between
 * two synchronisation points of the pipeline is one transaction, in one round trip;
 *   - otherwise BEGIN goes out with the first statements, COMMIT with the last.
 *
 * The bell goes out behind the synchronisation point that commits, as a transaction of its own:
 * NOTIFY inside the writing transaction would take a lock of the whole database through its commit,
 * and no two could be flushed together. See pg_keeper.c for why nobody is missed.
 *
 * Again: contention runs the body again, five times (CL-5). When the connection is lost it is run
 * again only if the statement that commits had not been sent; otherwise nobody here can know what
 * became of it.
 */
#include "store/pg_tx.h"
#include "base/clock.h"
#include "core/policy.h"

#include <tend.h>

static struct pg_db *db_of(const struct pg_tx *tx)
{
    return (struct pg_db *)tx->base.db;
}

static int fail(struct pg_tx *tx, enum pg_fault fault)
{
    tx->fault = fault;
    return tx->base.err->code;
}

static int lost(struct pg_tx *tx)
{
    return fail(tx, pg_error_lost(tx->conn->pg, db_of(tx)->url.where, tx->base.err));
}

/* --- one flight: everything that is queued, there and back --- */

static bool send_plain(struct pg_tx *tx, const char *sql)
{
    tx->plain_sent++;
    return PQsendQueryParams(tx->conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

/* What must come before the first statement. */
static bool send_beginning(struct pg_tx *tx, bool last)
{
    bool pooler = db_of(tx)->url.pooler;
    bool one_snapshot = !tx->writes && (tx->first == NULL || tx->first->next != NULL);
    if (tx->begun)
        return true;
    if ((!last || one_snapshot) &&
        !send_plain(tx, tx->writes ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        return false;
    tx->begun = !last || one_snapshot;
    return !pooler || send_plain(tx, db_of(tx)->local_sql);
}

static bool send_all(struct pg_tx *tx, bool last)
{
    struct pg_db *db = db_of(tx);
    tx->plain_sent = 0;
    if (!send_beginning(tx, last))
        return false;
    tx->plain_before = tx->plain_sent;
    for (struct pg_call *call = tx->first; call != NULL; call = call->next)
        if (!pg_call_send(call, tx->conn, db->url.pooler))
            return false;
    tx->ended = last; /* from here on it may reach the server */
    if (last && tx->begun && !send_plain(tx, "COMMIT"))
        return false;
    if (PQpipelineSync(tx->conn->pg) != 1)
        return false;
    if (last && tx->base.ring && tx->writes) {
        tx->rung = true;
        if (!pg_conn_ring(tx->conn, db))
            return false;
        tx->conn->owed--; /* counted once our own answers have been read */
        tx->bell_owed = true;
    }
    return pg_conn_flush(tx->conn) == PG_FINE;
}

/* Reads one result and the NULL behind it. A failure is kept if it is the first. */
static int take_answer(struct pg_tx *tx, struct pg_call *call, const char *what, bool prepares)
{
    PGresult *result = pg_conn_result(tx->conn);
    int rc = 0;
    if (result == NULL || PQstatus(tx->conn->pg) != CONNECTION_OK) {
        PQclear(result);
        return lost(tx);
    }
    ExecStatusType status = PQresultStatus(result);
    bool fine = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (prepares)
        tx->conn->prepared[call->query] = fine ? 2 : 0;
    if (status == PGRES_PIPELINE_ABORTED)
        tx->failed = true;
    else if (!fine && !tx->failed) {
        enum pg_fault fault = pg_error(result, what, db_of(tx)->url.where, tx->base.err);
        tx->failed = true;
        rc = fail(tx, fault);
    } else if (fine && !prepares && call != NULL && !tx->failed) {
        rc = pg_call_answer(call, result, &tx->base);
        if (rc < 0) {
            tx->failed = true;
            fail(tx, PG_REFUSED);
        }
    }
    PQclear(result);
    result = pg_conn_result(tx->conn);
    PQclear(result);
    return PQstatus(tx->conn->pg) == CONNECTION_OK ? rc : lost(tx);
}

static int take_plain(struct pg_tx *tx, unsigned count)
{
    int rc = 0;
    for (unsigned i = 0; i < count && tx->fault != PG_LOST; i++) {
        int one = take_answer(tx, NULL, "the transaction", false);
        rc = rc < 0 ? rc : one;
    }
    return rc;
}

static int take_all(struct pg_tx *tx)
{
    if (pg_conn_skip(tx->conn) != PG_FINE)
        return lost(tx);
    int rc = take_plain(tx, tx->plain_before);
    for (struct pg_call *call = tx->first; call != NULL && tx->fault != PG_LOST;
         call = call->next) {
        const char *what = db_query_texts[call->query].name;
        int one = call->prepares ? take_answer(tx, call, what, true) : 0;
        rc = rc < 0 ? rc : one;
        if (tx->fault == PG_LOST)
            break;
        one = take_answer(tx, call, what, false);
        rc = rc < 0 ? rc : one;
    }
    if (tx->fault != PG_LOST) {
        int one = take_plain(tx, tx->plain_sent - tx->plain_before);
        rc = rc < 0 ? rc : one;
    }
    if (tx->fault == PG_LOST)
        return tx->base.err->code;
    tx->conn->owed = 1;
    if (pg_conn_skip(tx->conn) != PG_FINE)
        return lost(tx);
    tx->conn->owed = tx->bell_owed;
    tx->bell_owed = false;
    return rc;
}

/* Sends what is queued, with the end of the transaction when last, and waits for the answers. */
static int fly(struct pg_tx *tx, bool last)
{
    int rc = send_all(tx, last) ? take_all(tx) : lost(tx);
    tx->first = NULL;
    tx->tail = &tx->first;
    if (rc == 0 && last)
        tx->over = true;
    return rc;
}

/* --- what a body can do --- */

static int add(struct pg_tx *tx, struct pg_call *calls, unsigned how)
{
    if (calls == NULL) {
        err_set(tx->base.err, TEND_ENOMEM, "out of memory while writing a query");
        tx->failed = true;
        return fail(tx, PG_REFUSED);
    }
    *tx->tail = calls;
    while (*tx->tail != NULL)
        tx->tail = &(*tx->tail)->next;
    if ((how & DB_LATER) != 0 && (how & DB_LAST) == 0)
        return 0;
    return fly(tx, (how & DB_LAST) != 0);
}

/* A body that goes on after a failure, or after its last statement, is told so again. */
static int check_open(struct pg_tx *tx)
{
    if (tx->failed || tx->fault == PG_LOST)
        return tx->base.err->code < 0 ? tx->base.err->code : TEND_EINTERNAL;
    if (tx->ended)
        return err_set(tx->base.err, TEND_EINTERNAL, "a statement came after the last");
    return 0;
}

int pg_tx_run(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
              struct db_result *result)
{
    struct pg_tx *tx = (struct pg_tx *)base;
    int rc = check_open(tx);
    if (rc < 0)
        return rc;
    return add(tx, pg_call_run(base, query, params, (how & DB_LATER) != 0, result), how);
}

int pg_tx_each(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
               size_t count, int64_t *ret_each)
{
    struct pg_tx *tx = (struct pg_tx *)base;
    int rc = check_open(tx);
    if (rc < 0)
        return rc;
    return add(tx, pg_call_each(base, query, params, count, (how & DB_LATER) != 0, ret_each), how);
}

int pg_tx_time(struct db_tx *base, int64_t *ret_ms)
{
    struct db_result rows;
    const struct db_value params[] = {db_null()};
    int rc = pg_tx_run(base, Q_STORE_TIME, 0, params, &rows);
    if (rc == 0)
        *ret_ms = db_number(&rows, 0, 0);
    return rc;
}

/* --- the end of a body --- */

/* Posts a statement behind everything; its answer is read by whoever uses the connection next. */
static void post(struct pg_tx *tx, const char *sql)
{
    if (!pg_conn_post(tx->conn, sql) || pg_conn_flush(tx->conn) != PG_FINE)
        tx->broken = true;
}

static int finish(struct pg_tx *tx, int rc)
{
    if (tx->fault == PG_LOST)
        return tx->base.err->code;
    if (tx->failed || rc < 0) {
        if (tx->begun && !tx->over)
            post(tx, "ROLLBACK");
        return tx->failed ? tx->base.err->code : rc;
    }
    if (!tx->over && tx->writes && (tx->begun || tx->first != NULL)) {
        int ended = fly(tx, true);
        if (ended < 0) {
            if (tx->fault != PG_LOST && tx->begun)
                post(tx, "ROLLBACK");
            return ended;
        }
    }
    if (!tx->over && !tx->writes) {
        if (tx->first != NULL) {
            int ended = fly(tx, true);
            if (ended < 0)
                return ended;
        } else if (tx->begun) {
            post(tx, "COMMIT");
        }
    }
    if (tx->base.ring && !tx->rung && tx->over &&
        (!pg_conn_ring(tx->conn, db_of(tx)) || pg_conn_flush(tx->conn) != PG_FINE))
        tx->broken = true;
    return rc;
}

static int outcome_unknown(const struct pg_db *db, struct err *err)
{
    return err_set(
        err, TEND_EUNREACHABLE,
        "the connection to PostgreSQL at %s was lost while saving: whether it was saved is not "
        "known; look with 'tend jobs' or 'tend show' before trying again",
        db->url.where);
}

/* One run of the body. Whether to try again is in tx->fault. */
static int run_once(struct pg_tx *tx, db_body *body, void *arg)
{
    struct pg_db *db = db_of(tx);
    tx->tail = &tx->first;
    if (db->options.clock_ms != NULL)
        tx->base.now = db_int(db->options.clock_ms(db->options.clock_arg));
    int rc = finish(tx, body(&tx->base, arg));
    bool broken = tx->broken || tx->fault == PG_LOST || tx->fault == PG_READONLY;
    pg_pool_give(db, tx->conn, broken);
    return rc;
}

static int run(struct pg_db *db, bool writes, struct arena *arena, db_body *body, void *arg,
               struct err *err)
{
    int64_t deadline_ms = clock_mono_ms() + db->options.busy_ms;
    for (int tries = 1, lost_count = 0;;) {
        struct pg_tx tx = {.base = {.db = &db->base, .arena = arena, .err = err}, .writes = writes};
        int rc = pg_pool_take(db, deadline_ms, &tx.conn, err);
        if (rc < 0)
            return rc;
        rc = run_once(&tx, body, arg);
        if (tx.fault == PG_FINE || tx.fault == PG_REFUSED)
            return rc;
        int64_t delay_ms = 0;
        if (tx.fault == PG_CONTENDED) {
            delay_ms = policy_contention_delay(tries++, pg_db_random(db));
            if (delay_ms < 0)
                return rc;
        } else if (tx.fault == PG_LOST && writes && tx.ended) {
            return outcome_unknown(db, err);
        } else if (clock_mono_ms() >= deadline_ms) {
            return rc;
        } else if (lost_count++ > 0 || tx.fault == PG_READONLY) {
            delay_ms = 50 + (int64_t)(200 * pg_db_random(db));
        }
        pg_db_sleep(delay_ms);
        err_clear(err);
    }
}

int pg_tx_write(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    return run((struct pg_db *)base, true, arena, body, arg, err);
}

int pg_tx_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    return run((struct pg_db *)base, false, arena, body, arg, err);
}

int pg_db_ask(struct pg_db *db, const char *sql, int params, const char *const *values,
              PGresult **ret, struct err *err)
{
    int64_t deadline_ms = clock_mono_ms() + db->options.busy_ms;
    for (;;) {
        struct pg_conn *conn;
        int rc = pg_pool_take(db, deadline_ms, &conn, err);
        if (rc < 0)
            return rc;
        enum pg_fault fault = pg_conn_ask(conn, sql, params, values, db->url.where, ret, err);
        pg_pool_give(db, conn, fault == PG_LOST);
        if (fault == PG_FINE)
            return 0;
        if (fault != PG_LOST || clock_mono_ms() >= deadline_ms)
            return err->code;
        pg_db_sleep(20);
    }
}
