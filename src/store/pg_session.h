/* The keeper's session; see pg_session.c. Only the keeper's thread uses it. */
#ifndef STORE_PG_SESSION_H
#define STORE_PG_SESSION_H

#include "store/pg_db.h"

/* Times are monotonic milliseconds. */
struct pg_session {
    struct pg_db *db;
    PGconn *pg;    /* NULL: not connected */
    int64_t *held; /* whose liveness locks are held */
    size_t held_count;
    bool registered; /* the locks of a waiter are held */
    bool ever_connected;
    int64_t connect_at_ms; /* not to be tried before */
    int64_t connect_delay_ms;
    int64_t connect_limit_ms; /* of the next try */
    int64_t register_at_ms;   /* when registering is tried again */
    int64_t locks_at_ms;      /* when locks that could not be had are tried again */
    int64_t neighbour;        /* the worker looked after; 0: none */
    int64_t choose_at_ms;     /* when another is chosen */
    int64_t probe_at_ms;
    int64_t remind_at_ms[2]; /* when a lost worker is reported again; INT64_MAX: no need */
    struct err err;          /* why it is not connected */
};

void pg_session_init(struct pg_session *session, struct pg_db *db);
void pg_session_done(struct pg_session *session);
void pg_session_connect(struct pg_session *session);
/*
 * Holds exactly these liveness locks; returns how many are still missing. A worker that was taken
 * for dead while the session was lost is left out, and becomes 0 in workers.
 */
size_t pg_session_hold(struct pg_session *session, int64_t *workers, size_t count);
/* Shows those who ring that somebody waits here, or no longer. */
void pg_session_register(struct pg_session *session, bool waits);
/* Looks after the neighbour when it is time. */
void pg_session_probe(struct pg_session *session);
/* Reports what is to be reported again. */
void pg_session_remind(struct pg_session *session);
/* Passes on what the server has said meanwhile. */
void pg_session_hear(struct pg_session *session);
/* Milliseconds until something is to be done unasked; -1: nothing. */
int pg_session_idle_ms(const struct pg_session *session, bool waits);

#endif
