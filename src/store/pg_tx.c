/*
 * Transactions. A body is run on a connection of its own, and its statements go out together as far
 * as it does not need their answers:
 *
 *   - a body whose last statement comes before anything was sent needs no BEGIN and one round trip,
 * and may share it with those of other threads (pg_group.c);
 *   - otherwise, and behind a pooler (pg_settings.c), BEGIN goes out with the first statements,
 *     COMMIT with the last.
 *
 * Again: contention runs the body again, five times (CL-5). When the connection is lost it is run
 * again only if what commits had not been sent; otherwise nobody here can know what became of it.
 * The caller is told so, and told the same when what was saved is known to nobody because memory
 * ran out for the answer.
 */
#include "store/pg_tx.h"

#include "base/clock.h"
#include "core/policy.h"
#include "store/queries.h"

#include <tend.h>

static struct pg_db *db_of(const struct pg_tx *tx)
{
    return (struct pg_db *)tx->base.db;
}

/* A connection, from the first flight on. */
static int board(struct pg_tx *tx)
{
    if (tx->conn != NULL)
        return 0;
    int rc = pg_pool_take(db_of(tx), &tx->patience, &tx->conn, tx->base.err);
    tx->failed = rc < 0;
    return rc;
}

static void forget_calls(struct pg_tx *tx)
{
    tx->first = NULL;
    tx->tail = &tx->first;
}

int pg_tx_unread(struct pg_tx *tx)
{
    tx->failed = true;
    tx->fault = PG_UNREAD;
    return tx->base.err->code;
}

int pg_tx_fly(struct pg_tx *tx, bool last)
{
    struct pg_db *db = db_of(tx);
    char hurry[PG_HURRY_BYTES];
    int rc = board(tx);
    if (rc < 0)
        return rc;
    tx->conn->limit_ms = pg_patience_answer_ms(&tx->patience, db);
    struct pg_flight flight = {.db = db,
                               .conn = tx->conn,
                               .err = tx->base.err,
                               .calls = tx->first,
                               .commits = last,
                               .rings = last && tx->writes ? tx->base.ring : 0};
    /* Several reads want to see the same state; several writes want to end together. */
    bool one = last && (tx->writes || tx->first == NULL || tx->first->next == NULL);
    bool begins = !tx->begun && (!one || db->url.pooler || tx->marks);
    if (begins)
        flight.before[0] = tx->writes || one ? "BEGIN ISOLATION LEVEL READ COMMITTED"
                                             : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    if (begins && db->url.pooler)
        flight.before[1] = db->local_sql;
    flight.before[2] = tx->settles; /* first: nothing else is taken after a failure */
    flight.before[3] = pg_patience_sql(&tx->patience, hurry);
    flight.before[4] = tx->marks ? "SAVEPOINT attempt" : NULL;
    tx->settles = NULL;
    tx->marks = false;
    tx->begun |= begins;
    if (last && tx->begun)
        flight.after = "COMMIT";
    rc = pg_flight_go(&flight);
    tx->fault = flight.fault;
    tx->failed = rc < 0;
    tx->ended = flight.sent;
    tx->broken |= flight.unread;
    tx->rung |= flight.rings;
    tx->over = rc == 0 && last;
    forget_calls(tx);
    return flight.unread && rc == 0 ? pg_tx_unread(tx) : rc;
}

/* --- what a body can do --- */

static int add(struct pg_tx *tx, struct pg_call *calls, unsigned how)
{
    bool last = (how & DB_LAST) != 0;
    if (calls == NULL) {
        tx->failed = true;
        return err_set(tx->base.err, TEND_ENOMEM, "out of memory while writing a query");
    }
    *tx->tail = calls;
    while (*tx->tail != NULL)
        tx->tail = &(*tx->tail)->next;
    if ((how & DB_LATER) != 0 && !last)
        return 0;
    return last && pg_group_takes(tx) ? pg_group_fly(tx) : pg_tx_fly(tx, last);
}

/* A body that goes on after a failure is told so again; nothing can come after the last. */
static int check_open(struct pg_tx *tx)
{
    if (tx->failed)
        return tx->base.err->code < 0 ? tx->base.err->code : TEND_EINTERNAL;
    if (tx->over)
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
    bool keep = (how & DB_LATER) != 0;
    return add(tx,
               query == Q_JOB_CLAIM ? pg_claim_call(base, params, keep, result)
                                    : pg_call_run(base, query, params, keep, result),
               how);
}

int pg_tx_each(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
               size_t count, int64_t *ret_each)
{
    struct pg_tx *tx = (struct pg_tx *)base;
    int rc = check_open(tx);
    /* The trigger of the job sees to its lock. */
    if (rc < 0 || query == Q_JOB_UNLOCK || query == Q_LOCK_FOLLOW)
        return rc;
    return add(tx, pg_call_each(base, query, params, count, (how & DB_LATER) != 0, ret_each), how);
}

int pg_tx_time(struct db_tx *base, int64_t *ret_ms)
{
    struct store_time_rows rows;
    int rc = run_store_time(base, 0, (struct store_time_params){0}, &rows);
    if (rc == 0)
        *ret_ms = db_num(rows.at[0].now);
    return rc;
}

/* Runs the part, and what it left for later. */
static int run_part(struct pg_tx *tx, db_body *part, void *arg)
{
    int rc = part(&tx->base, arg);
    if (rc >= 0 && !tx->failed && tx->first != NULL)
        pg_tx_fly(tx, false);
    return tx->failed ? tx->base.err->code : rc;
}

/* The savepoint costs no round trip: it goes out with the first statements of the part, and its end
 * with whatever comes next. */
int pg_tx_attempt(struct db_tx *base, db_body *part, void *arg, bool *ret_undone)
{
    struct pg_tx *tx = (struct pg_tx *)base;
    uint64_t ring = base->ring;
    int rc = check_open(tx);
    if (rc == 0 && tx->first != NULL)
        rc = pg_tx_fly(tx, false);
    if (rc < 0)
        return rc;
    tx->marks = true;
    rc = run_part(tx, part, arg);
    bool marked = !tx->marks;
    tx->marks = false;
    if (rc >= 0) {
        tx->settles = marked ? "RELEASE SAVEPOINT attempt" : tx->settles;
        return rc;
    }
    if (!db_fails_alone(rc) || (tx->failed && (!marked || tx->fault != PG_REFUSED)))
        return rc;
    if (marked)
        tx->settles = "ROLLBACK TO SAVEPOINT attempt";
    tx->failed = false;
    tx->fault = PG_FINE;
    base->ring = ring;
    forget_calls(tx);
    *ret_undone = true;
    return rc;
}

/* --- the end of a body --- */

/* Its answer is read by whoever uses the connection next. */
static void post(struct pg_tx *tx, const char *sql)
{
    if (!pg_conn_post(tx->conn, sql) || pg_conn_flush(tx->conn) != PG_FINE)
        tx->broken = true;
}

static void ring_late(struct pg_tx *tx)
{
    uint64_t bells = tx->base.ring & ~tx->rung;
    if (bells == 0 || !tx->over)
        return;
    if (tx->conn == NULL) { /* it was committed on the connection of another */
        pg_pool_ring(db_of(tx), bells);
        return;
    }
    if (!pg_conn_ring(tx->conn, db_of(tx), bells) || pg_conn_flush(tx->conn) != PG_FINE)
        tx->broken = true;
}

/*
 * The server's answer is waited for. Until it comes, rows are locked that others skip: a claim
 * would overtake a job, and a recovery leave one out, after the call that changed nothing has
 * returned.
 */
static void undo(struct pg_tx *tx)
{
    post(tx, "ROLLBACK");
    if (tx->writes && !tx->broken && pg_conn_skip(tx->conn) != PG_FINE)
        tx->broken = true;
}

/* What the body returned, or why it cannot be so. */
static int finish(struct pg_tx *tx, int rc)
{
    if (!tx->failed && rc >= 0 && !tx->over) {
        if (tx->first != NULL || (tx->begun && tx->writes)) {
            int ended = pg_tx_fly(tx, true);
            rc = ended < 0 ? ended : rc;
        } else if (tx->begun) {
            post(tx, "COMMIT");
        }
    }
    if (tx->failed)
        rc = tx->base.err->code;
    if (rc < 0 && tx->begun && !tx->over && !pg_fault_ends_it(tx->fault))
        undo(tx);
    if (rc < 0 && tx->writes)
        pg_claims_forget(&db_of(tx)->claims);
    if (rc >= 0)
        ring_late(tx);
    return rc;
}

/* Behind the sentence that says what happened. */
static int outcome_unknown(struct err *err)
{
    return err_set(err, TEND_EUNREACHABLE,
                   "%.330s; this was while saving: whether it was saved is not known; look with "
                   "'tend jobs' or 'tend show' before trying again",
                   err->text[0] != '\0' ? err->text : "out of memory");
}

/* A body that said nothing to the server says nothing about it. */
static void note_reach(struct pg_db *db, const struct pg_tx *tx, int rc)
{
    bool away = rc == TEND_EUNREACHABLE;
    if ((away || tx->conn != NULL) && away != __atomic_load_n(&db->away, __ATOMIC_RELAXED))
        __atomic_store_n(&db->away, away, __ATOMIC_RELAXED);
}

/* One run of the body. Whether to try again is in tx->fault. */
static int run_once(struct pg_tx *tx, db_body *body, void *arg)
{
    struct pg_db *db = db_of(tx);
    forget_calls(tx);
    if (db->options.clock_ms != NULL)
        tx->base.now = db_int(db->options.clock_ms(db->options.clock_arg));
    int rc = finish(tx, body(&tx->base, arg));
    note_reach(db, tx, rc);
    if (tx->conn != NULL)
        pg_pool_give(db, tx->conn, tx->broken || pg_fault_ends_it(tx->fault));
    return rc;
}

/* Says in err why nothing can be written. */
static enum pg_readonly explain_readonly(struct pg_db *db, int64_t wait_ms, struct err *err)
{
    struct err ignored;
    PGresult *result = NULL;
    if (pg_db_ask(db, wait_ms, PG_READONLY_SQL, &result, &ignored) < 0)
        return PG_NOT_READONLY;
    enum pg_readonly why = (enum pg_readonly)(PQgetvalue(result, 0, 0)[0] - '0');
    PQclear(result);
    pg_error_readonly(why, err);
    return why;
}

static int run(struct db *base, int64_t wait_ms, bool writes, struct arena *arena, db_body *body,
               void *arg, struct err *err)
{
    struct pg_db *db = (struct pg_db *)base;
    const struct pg_patience patience = pg_patience_start(db, wait_ms);
    if (pg_gone(db))
        return pg_gone_say(db, err);
    for (int tries = 1, losses = 0;;) {
        struct pg_tx tx = {.base = {.db = &db->base, .arena = arena, .err = err},
                           .writes = writes,
                           .patience = patience};
        int64_t delay_ms = 0;
        enum pg_readonly why = PG_NOT_READONLY;
        int rc = run_once(&tx, body, arg);
        if (rc == TEND_ENOMEM && writes && tx.over)
            return outcome_unknown(err);
        if (tx.fault == PG_FINE || tx.fault == PG_REFUSED || tx.fault == PG_SHARED ||
            tx.fault == PG_UNREAD)
            return rc == TEND_ENOTADB ? pg_gone_missing(db, err) : rc;
        if (tx.fault == PG_READONLY)
            why = explain_readonly(db, wait_ms, err);
        if (tx.fault == PG_CONTENDED) {
            delay_ms = policy_contention_delay(tries++, pg_db_random(db));
            if (delay_ms < 0 || (patience.hurried && clock_mono_ms() >= patience.deadline_ms))
                return rc;
        } else if (tx.fault == PG_LOST && writes && tx.ended) {
            return outcome_unknown(err);
        } else if (pg_gone(db) || clock_mono_ms() >= pg_patience_deadline(&patience, db) ||
                   (tx.fault == PG_READONLY &&
                    (why == PG_READONLY_SET || !db->url.several_hosts))) {
            return rc;
        } else if (losses++ > 0 || tx.fault == PG_READONLY) {
            delay_ms = 50 + (int64_t)(200 * pg_db_random(db));
        }
        pg_db_sleep(delay_ms);
        err_clear(err);
    }
}

int pg_tx_write(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    return run(base, -1, true, arena, body, arg, err);
}

int pg_tx_write_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                       void *arg, struct err *err)
{
    return run(base, wait_ms, true, arena, body, arg, err);
}

int pg_tx_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    return run(base, -1, false, arena, body, arg, err);
}

int pg_tx_read_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                      void *arg, struct err *err)
{
    return run(base, wait_ms, false, arena, body, arg, err);
}

int pg_db_ask(struct pg_db *db, int64_t wait_ms, const char *sql, PGresult **ret, struct err *err)
{
    const struct pg_patience patience = pg_patience_start(db, wait_ms);
    if (pg_gone(db))
        return pg_gone_say(db, err);
    for (;;) {
        struct pg_conn *conn;
        int rc = pg_pool_take(db, &patience, &conn, err);
        if (rc < 0)
            return rc;
        enum pg_fault fault = pg_conn_ask(conn, sql, 0, NULL, db->url.where, ret, err);
        pg_pool_give(db, conn, pg_fault_ends_it(fault));
        if (fault == PG_FINE)
            return 0;
        bool again = fault == PG_LOST || fault == PG_CONTENDED;
        if (!again || clock_mono_ms() >= pg_patience_deadline(&patience, db))
            return err->code;
        pg_db_sleep(20);
    }
}
