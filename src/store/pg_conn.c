/*
 * One connection, always in pipeline mode: statements go out together and their answers are read in
 * order, so that a transaction costs as few round trips as it has decisions to make.
 *
 * Sockets are non-blocking and read while writing: a server that waits for us to take its answers
 * would otherwise never read what we have still to say. A statement whose answer nobody needs (the
 * bell, the end of a read) is left in the pipeline; `owed` counts those, and they are skipped
 * before the next answer.
 */
#include "base/clock.h"
#include "store/pg_db.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum { BELLS_BYTES = 24 }; /* of a mask in hexadecimal digits */

int pg_conn_connect(struct pg_conn **ret, const struct pg_db *db,
                    const struct pg_patience *patience, bool *ret_shared, struct err *err)
{
    bool refused = false;
    bool ours = true;
    struct pg_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while connecting to PostgreSQL");
    conn->hurry = &db->hurry;
    int rc = pg_connect(&conn->pg, &db->url, pg_patience_connect_ms(patience), &db->hurry, &refused,
                        err);
    conn->limit_ms = pg_patience_answer_ms(patience, db);
    if (rc == 0)
        rc = pg_settings_apply(conn->pg, db, conn->limit_ms, &ours, err);
    bool shared = !ours || (rc < 0 && refused && db->url.options != NULL);
    if (shared)
        rc = pg_settings_shared(db, err);
    if (ret_shared != NULL)
        *ret_shared = shared;
    if (rc < 0) {
        pg_conn_close(conn);
        return rc;
    }
    *ret = conn;
    return 0;
}

/* In one round trip: the bell, where something may live in the session, and the store's identity.
 */
static int introduce(struct pg_conn *conn, struct pg_db *db, struct err *err)
{
    char sql[sizeof db->bell_sql + sizeof db->identity_sql + 32];
    int rc = 0;
    if (db->url.pooler)
        snprintf(sql, sizeof sql, "%s", db->identity_sql);
    else
        snprintf(sql, sizeof sql, "PREPARE tend_bell (text) AS %s; %s", db->bell_sql,
                 db->identity_sql);
    PGresult *result = pg_exec(conn->pg, sql, conn->limit_ms, &db->hurry);
    if (result == NULL)
        pg_error_silent(db->url.where, conn->limit_ms, err);
    else if (PQresultStatus(result) != PGRES_TUPLES_OK)
        pg_error(result, "setting up a session", db->url.where, err);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        rc = pg_gone_check(db, PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "", err);
    else
        rc =
            err->code == TEND_ENOTADB && db->identity.table != 0 ? pg_gone_say(db, err) : err->code;
    PQclear(result);
    return rc;
}

int pg_conn_prepare(struct pg_conn *conn, struct pg_db *db, struct err *err)
{
    int rc = introduce(conn, db, err);
    if (rc == 0 && (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1))
        rc = pg_error_connect(conn->pg, &db->url, err);
    conn->one_by_one = db->url.pooler;
    return rc;
}

int pg_conn_open(struct pg_conn **ret, struct pg_db *db, const struct pg_patience *patience,
                 struct err *err)
{
    struct pg_conn *conn = NULL;
    int rc = pg_conn_connect(&conn, db, patience, NULL, err);
    if (conn == NULL)
        return rc;
    if ((rc = pg_conn_prepare(conn, db, err)) < 0) {
        pg_conn_close(conn);
        return rc;
    }
    *ret = conn;
    return 0;
}

void pg_conn_close(struct pg_conn *conn)
{
    if (conn == NULL)
        return;
    pg_disconnect(conn->pg);
    free(conn);
}

enum pg_fault pg_conn_lost(const struct pg_conn *conn, const char *where, struct err *err)
{
    return conn->silent ? pg_error_silent(where, conn->limit_ms, err)
                        : pg_error_lost(conn->pg, where, err);
}

static bool wait_for(struct pg_conn *conn, short events, short *ret_events)
{
    int64_t begun_ms = clock_mono_ms();
    int ready = pg_wait(conn->pg, events, conn->limit_ms, conn->hurry, ret_events);
    if (ready == 0) {
        conn->silent = true;
        conn->limit_ms = clock_mono_ms() - begun_ms; /* what the sentence says */
    }
    return ready > 0;
}

static bool is_readable(const struct pg_conn *conn)
{
    struct pollfd fd = {.fd = PQsocket(conn->pg), .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

/* Apart from answers that are owed, an idle connection has nothing to say but good-bye. */
bool pg_conn_usable(struct pg_conn *conn)
{
    if (PQstatus(conn->pg) != CONNECTION_OK)
        return false;
    if (!is_readable(conn))
        return true;
    return conn->owed > 0 && pg_conn_skip(conn) == PG_FINE && !is_readable(conn);
}

enum pg_fault pg_conn_flush(struct pg_conn *conn)
{
    for (;;) {
        short events;
        int rc = PQflush(conn->pg);
        if (rc == 0)
            return PG_FINE;
        if (rc < 0 || !wait_for(conn, POLLIN | POLLOUT, &events))
            return PG_LOST;
        if ((events & POLLIN) != 0 && PQconsumeInput(conn->pg) != 1)
            return PG_LOST;
    }
}

/* False: PQgetResult tells what is wrong. */
static bool read_more(struct pg_conn *conn)
{
    short events;
    return PQflush(conn->pg) >= 0 && wait_for(conn, POLLIN, &events) &&
           PQconsumeInput(conn->pg) == 1;
}

PGresult *pg_conn_result(struct pg_conn *conn)
{
    while (PQisBusy(conn->pg) && read_more(conn))
        ;
    return PQgetResult(conn->pg);
}

/*
 * Whether the next result can be waited for. If libpq has no memory for that of a synchronisation
 * point, it says so nowhere but in its message, and waits for another one, which the server does
 * not send: the connection would stay in its transaction until one of the two gives up.
 */
static bool await_point(struct pg_conn *conn)
{
    size_t said = strlen(PQerrorMessage(conn->pg));
    while (PQisBusy(conn->pg)) {
        if (strlen(PQerrorMessage(conn->pg)) > said)
            return false;
        if (!read_more(conn))
            break;
    }
    return true;
}

/* The first of several. */
static void keep_refusal(PGresult *result, PGresult **ret)
{
    bool refused = PQresultStatus(result) == PGRES_FATAL_ERROR;
    if (refused && ret != NULL && *ret == NULL)
        *ret = result;
    else
        PQclear(result);
}

/*
 * Reads up to one synchronisation point; the connection is lost when none comes. A refusal on the
 * way goes to ret_refusal (may be NULL).
 */
static enum pg_fault skip_one(struct pg_conn *conn, PGresult **ret_refusal)
{
    bool ended =
        false; /* a NULL ends a query's results; two in a row mean that there are no more */
    for (;;) {
        if (!await_point(conn))
            return PG_LOST;
        PGresult *result = PQgetResult(conn->pg);
        if (PQstatus(conn->pg) != CONNECTION_OK) {
            PQclear(result);
            return PG_LOST;
        }
        if (result == NULL) {
            if (ended)
                return PG_LOST;
            ended = true;
            continue;
        }
        ended = false;
        ExecStatusType status = PQresultStatus(result);
        keep_refusal(result, ret_refusal);
        if (status == PGRES_PIPELINE_SYNC)
            return PG_FINE;
    }
}

enum pg_fault pg_conn_skip(struct pg_conn *conn)
{
    while (conn->owed > 0) {
        enum pg_fault fault = skip_one(conn, NULL);
        if (fault != PG_FINE)
            return fault;
        conn->owed--;
    }
    return PG_FINE;
}

enum pg_fault pg_conn_end(struct pg_conn *conn, PGresult **ret_refusal)
{
    *ret_refusal = NULL;
    return skip_one(conn, ret_refusal);
}

bool pg_conn_clear(struct pg_conn *conn)
{
    return !conn->one_by_one || pg_conn_skip(conn) == PG_FINE;
}

bool pg_conn_post(struct pg_conn *conn, const char *sql)
{
    if (!pg_conn_clear(conn) ||
        PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0) != 1 ||
        PQpipelineSync(conn->pg) != 1)
        return false;
    conn->owed++;
    return true;
}

bool pg_conn_ring(struct pg_conn *conn, const struct pg_db *db, uint64_t bells)
{
    char text[BELLS_BYTES] = "";
    const char *const values[] = {text};
    if (bells != DB_BELLS_ALL)
        snprintf(text, sizeof text, "%" PRIx64, bells);
    if (!pg_conn_clear(conn))
        return false;
    int sent = db->url.pooler
                   ? PQsendQueryParams(conn->pg, db->bell_sql, 1, NULL, values, NULL, NULL, 0)
                   : PQsendQueryPrepared(conn->pg, "tend_bell", 1, values, NULL, NULL, 0);
    if (sent != 1 || PQpipelineSync(conn->pg) != 1)
        return false;
    conn->owed++;
    return true;
}

enum pg_fault pg_conn_ask(struct pg_conn *conn, const char *sql, int params,
                          const char *const *values, const char *where, PGresult **ret,
                          struct err *err)
{
    if (!pg_conn_clear(conn) ||
        PQsendQueryParams(conn->pg, sql, params, NULL, values, NULL, NULL, 0) != 1 ||
        PQpipelineSync(conn->pg) != 1 || pg_conn_flush(conn) != PG_FINE ||
        pg_conn_skip(conn) != PG_FINE)
        return pg_conn_lost(conn, where, err);
    PGresult *result = pg_conn_result(conn);
    PGresult *refusal = NULL;
    enum pg_fault fault = PG_FINE;
    if (result == NULL || PQstatus(conn->pg) != CONNECTION_OK)
        fault = pg_conn_lost(conn, where, err);
    else if (PQresultStatus(result) != PGRES_TUPLES_OK &&
             PQresultStatus(result) != PGRES_COMMAND_OK)
        fault = pg_error(result, "asking the server", where, err);
    if (fault != PG_LOST && pg_conn_end(conn, &refusal) != PG_FINE)
        fault = pg_conn_lost(conn, where, err);
    else if (fault == PG_FINE && refusal != NULL)
        fault = pg_error(refusal, "saving", where, err);
    PQclear(refusal);
    if (fault == PG_FINE)
        *ret = result;
    else
        PQclear(result);
    return fault;
}
