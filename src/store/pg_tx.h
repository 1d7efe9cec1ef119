/* A transaction of the PostgreSQL engine; see pg_tx.c. */
#ifndef STORE_PG_TX_H
#define STORE_PG_TX_H

#include "store/pg_db.h"

struct pg_tx {
    struct db_tx base;
    struct pg_conn *conn;
    bool writes;
    bool begun;     /* BEGIN was sent */
    bool ended;     /* what commits was sent */
    bool over;      /* ... and has succeeded */
    bool failed;    /* the server refused something: only a rollback can follow */
    bool rung;      /* the bell went out along with the commit */
    bool bell_owed; /* ... and its answer comes behind ours */
    bool broken;    /* the connection cannot be used again */
    enum pg_fault fault;
    struct pg_call *first; /* queued, not yet sent */
    struct pg_call **tail;
    unsigned plain_sent;   /* BEGIN, COMMIT and the like in this flight */
    unsigned plain_before; /* ... those before the queries */
};

int pg_tx_write(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err);
int pg_tx_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err);
int pg_tx_run(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
              struct db_result *result);
int pg_tx_each(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
               size_t count, int64_t *ret_each);
int pg_tx_time(struct db_tx *base, int64_t *ret_ms);

#endif
