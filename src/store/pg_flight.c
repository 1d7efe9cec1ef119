/*
 * A flight: statements that go to the server together, up to a synchronisation point, and their
 * answers. Without a BEGIN before them they are one transaction, which the synchronisation point
 * commits; so a refusal may come as late as there.
 *
 * An answer that cannot be read, because memory has run out here, changes nothing at the server:
 * the flight goes on, the other answers are read, and the call is marked as unread.
 *
 * The bell follows behind that point, as a transaction of its own: NOTIFY inside the writing
 * transaction would take a lock of the whole database through its commit, and no two could be
 * flushed together. Its answer is not waited for. See pg_session.c for why nobody is missed. Behind
 * a pooler the bell is sent when the commit is answered (pg_conn_clear).
 */
#include "store/pg_db.h"

#include <tend.h>

enum { BEFORE = sizeof((struct pg_flight *)0)->before / sizeof(const char *) };

static int lost(struct pg_flight *flight)
{
    flight->fault = pg_conn_lost(flight->conn, flight->db->url.where, flight->err);
    return flight->err->code;
}

static bool send_plain(struct pg_flight *flight, const char *sql)
{
    return sql == NULL ||
           PQsendQueryParams(flight->conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

/* Whether the one call of the flight, and of its transaction, finds out whether the bell is needed.
 */
static bool looks_itself(const struct pg_flight *flight)
{
    bool whole = (flight->before[0] == NULL) == (flight->after == NULL);
    return whole && flight->calls != NULL && flight->calls->next == NULL &&
           pg_call_looks(flight->calls);
}

/* Whether the bell waits for the answers. */
static bool rings_later(const struct pg_flight *flight)
{
    return flight->conn->one_by_one || looks_itself(flight);
}

static bool send_all(struct pg_flight *flight)
{
    struct pg_conn *conn = flight->conn;
    for (size_t i = 0; i < BEFORE; i++)
        if (!send_plain(flight, flight->before[i]))
            return false;
    for (struct pg_call *call = flight->calls; call != NULL; call = call->next)
        if (!pg_call_send(call, conn, flight->db->url.pooler))
            return false;
    flight->sent = flight->commits;
    if (!send_plain(flight, flight->after) || PQpipelineSync(conn->pg) != 1)
        return false;
    if (flight->rings && !rings_later(flight) && !pg_conn_ring(conn, flight->db, flight->rings))
        return false;
    return pg_conn_flush(conn) == PG_FINE;
}

/*
 * Whether libpq had no memory for the answer, and made up this one. If the server had refused the
 * statement, the pipeline would be aborted.
 */
static bool is_made_up(const struct pg_flight *flight, const PGresult *result)
{
    return PQresultStatus(result) == PGRES_FATAL_ERROR &&
           PQresultErrorField(result, PG_DIAG_SQLSTATE) == NULL &&
           PQstatus(flight->conn->pg) == CONNECTION_OK;
}

/* Keeps the first failure; what follows it was not carried out. */
static void refuse(struct pg_flight *flight, const PGresult *result, const char *what)
{
    if (flight->fault != PG_FINE)
        return;
    if (!is_made_up(flight, result)) {
        flight->fault = pg_error(result, what, flight->db->url.where, flight->err);
        return;
    }
    flight->fault = PG_REFUSED;
    err_set(flight->err, TEND_ENOMEM, "%s failed on PostgreSQL at %s; out of memory for the reason",
            what, flight->db->url.where);
}

/* The sentence is in the error of the call's transaction. */
static void leave_unread(struct pg_flight *flight, struct pg_call *call)
{
    call->unread = true;
    flight->unread = true;
}

/* Reads one result and the NULL behind it. False: the connection is gone. */
static bool take_one(struct pg_flight *flight, struct pg_call *call, const char *what,
                     bool prepares)
{
    struct pg_conn *conn = flight->conn;
    PGresult *result = pg_conn_result(conn);
    if (result == NULL || PQstatus(conn->pg) != CONNECTION_OK) {
        PQclear(result);
        return false;
    }
    ExecStatusType status = PQresultStatus(result);
    bool done = is_made_up(flight, result) && PQpipelineStatus(conn->pg) != PQ_PIPELINE_ABORTED;
    bool fine = done || status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    bool wanted = call != NULL && !prepares && flight->fault == PG_FINE;
    if (prepares)
        conn->prepared[call->query] = fine ? 2 : 0;
    if (!fine && status != PGRES_PIPELINE_ABORTED) {
        refuse(flight, result, what);
    } else if (wanted && done) {
        err_set(call->tx->err, TEND_ENOMEM, "%s: out of memory for the server's answer", what);
        leave_unread(flight, call);
    } else if (wanted && fine && pg_call_answer(call, result) < 0) {
        leave_unread(flight, call);
    }
    PQclear(result);
    PQclear(pg_conn_result(conn));
    return PQstatus(conn->pg) == CONNECTION_OK;
}

static bool take_plain(struct pg_flight *flight, const char *sql, const char *what)
{
    return sql == NULL || take_one(flight, NULL, what, false);
}

static bool take_calls(struct pg_flight *flight)
{
    for (struct pg_call *call = flight->calls; call != NULL; call = call->next) {
        const char *what = db_query_texts[call->query].doing;
        if (call->prepares && !take_one(flight, call, what, true))
            return false;
        if (!take_one(flight, call, what, false))
            return false;
    }
    return true;
}

static bool take_all(struct pg_flight *flight, unsigned owed_before)
{
    struct pg_conn *conn = flight->conn;
    unsigned owed_after = conn->owed - owed_before;
    conn->owed = owed_before;
    if (pg_conn_skip(conn) != PG_FINE)
        return false;
    for (size_t i = 0; i < BEFORE; i++)
        if (!take_plain(flight, flight->before[i], "beginning a transaction"))
            return false;
    if (!take_calls(flight) || !take_plain(flight, flight->after, "saving"))
        return false;
    PGresult *refusal;
    bool ended = pg_conn_end(conn, &refusal) == PG_FINE;
    if (refusal != NULL && is_made_up(flight, refusal)) {
        /* In place of the synchronisation point, or of what the server said there. */
        ended = false;
        flight->fault = PG_LOST;
        err_set(flight->err, TEND_EUNREACHABLE,
                "the connection to PostgreSQL at %s was lost: out of memory for an answer",
                flight->db->url.where);
    } else if (refusal != NULL) {
        refuse(flight, refusal, "saving");
    }
    PQclear(refusal);
    conn->owed = owed_after;
    return ended;
}

int pg_flight_go(struct pg_flight *flight)
{
    struct pg_conn *conn = flight->conn;
    if (!pg_conn_clear(conn))
        return lost(flight);
    unsigned owed_before = conn->owed;
    if (!send_all(flight) || !take_all(flight, owed_before))
        return flight->fault == PG_LOST ? flight->err->code : lost(flight);
    if (flight->fault != PG_FINE)
        return flight->err->code;
    /* What was committed stays so, even if this fails: the next user of the connection finds out.
     */
    bool quiet = looks_itself(flight) && flight->calls->quiet;
    if (flight->rings && rings_later(flight) && !quiet &&
        pg_conn_ring(conn, flight->db, flight->rings))
        pg_conn_flush(conn);
    return 0;
}
