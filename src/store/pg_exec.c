/*
 * Waiting for a server, never for ever. A server that takes a query and does not answer would
 * otherwise hold a thread until somebody kills it: neither TCP keepalive nor tcp_user_timeout
 * notices, because the server's kernel is well.
 *
 * Rule: every wait for an answer has a limit, counted from the last byte that went through. When it
 * is over, the socket is shut down, so that no function of libpq can wait on it any more, and the
 * connection is lost. On the server statement_timeout (pg_settings.c) ends what is still running;
 * a cancel request is not sent, because it needs a connection of its own that may hang as well.
 */
#include "base/clock.h"
#include "store/pg_db.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

int pg_wait(PGconn *pg, short events, int64_t limit_ms, const struct hurry *hurry,
            short *ret_events)
{
    struct pollfd fd = {.fd = PQsocket(pg), .events = events};
    int64_t begun_ms = clock_mono_ms();
    int64_t left_ms = limit_ms;
    int ready;
    if (fd.fd < 0)
        return -1;
    for (;;) {
        ready = poll(&fd, 1, (int)(left_ms < HURRY_LOOK_MS ? left_ms : HURRY_LOOK_MS));
        if (ready > 0 || (ready < 0 && errno != EINTR))
            break;
        left_ms = hurry_until(hurry, begun_ms, begun_ms + limit_ms) - clock_mono_ms();
        if (left_ms <= 0) {
            ready = 0;
            break;
        }
    }
    *ret_events = fd.revents;
    if (ready == 0)
        shutdown(fd.fd, SHUT_RDWR);
    return ready;
}

/* False: it was silent for too long. */
static bool send_all(PGconn *pg, int64_t limit_ms, const struct hurry *hurry)
{
    short events;
    while (PQflush(pg) == 1) {
        int ready = pg_wait(pg, POLLIN | POLLOUT, limit_ms, hurry, &events);
        if (ready == 0)
            return false;
        if (ready < 0 || ((events & POLLIN) != 0 && PQconsumeInput(pg) != 1))
            break; /* the result tells what is wrong */
    }
    return true;
}

PGresult *pg_exec(PGconn *pg, const char *sql, int64_t limit_ms, const struct hurry *hurry)
{
    PGresult *last = NULL;
    short events;
    if (PQsetnonblocking(pg, 1) != 0 || PQsendQuery(pg, sql) != 1)
        return PQmakeEmptyPGresult(pg, PGRES_FATAL_ERROR);
    if (!send_all(pg, limit_ms, hurry))
        return NULL;
    for (;;) {
        while (PQisBusy(pg)) {
            int ready = pg_wait(pg, POLLIN, limit_ms, hurry, &events);
            if (ready == 0) {
                PQclear(last);
                return NULL;
            }
            if (ready < 0 || PQconsumeInput(pg) != 1)
                break;
        }
        PGresult *result = PQgetResult(pg);
        if (result == NULL)
            return last;
        bool failed = last != NULL && PQresultStatus(last) == PGRES_FATAL_ERROR;
        PQclear(failed ? result : last); /* what failed first says why */
        last = failed ? last : result;
    }
}
