/* A transaction of the PostgreSQL engine; see pg_tx.c. */
#ifndef STORE_PG_TX_H
#define STORE_PG_TX_H

#include "store/pg_db.h"

struct pg_tx {
    struct db_tx base;
    struct pg_conn *conn; /* NULL before the first flight */
    struct pg_patience patience;
    bool writes;
    bool begun;    /* BEGIN was sent */
    bool ended;    /* what commits may have reached the server */
    bool over;     /* ... and has succeeded */
    bool failed;   /* something was refused: only a rollback can follow */
    uint64_t rung; /* the bells that went out along with the commit */
    bool broken;   /* the connection cannot be used again */
    enum pg_fault fault;
    const char *settles;   /* ends the attempt before; goes out with the next flight; or NULL */
    bool marks;            /* ... and behind it a savepoint: an attempt begins */
    struct pg_call *first; /* queued, not yet sent */
    struct pg_call **tail;
};

int pg_tx_write(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err);
int pg_tx_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err);
int pg_tx_write_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                       void *arg, struct err *err);
int pg_tx_read_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                      void *arg, struct err *err);
int pg_tx_run(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
              struct db_result *result);
int pg_tx_each(struct db_tx *base, enum db_query query, unsigned how, const struct db_value *params,
               size_t count, int64_t *ret_each);
int pg_tx_attempt(struct db_tx *base, db_body *part, void *arg, bool *ret_undone);
int pg_tx_time(struct db_tx *base, int64_t *ret_ms);

/* After a flight that succeeded: the answer could not be read, and err says why. Returns the code.
 */
int pg_tx_unread(struct pg_tx *tx);
/* Sends what is queued, with the end of the transaction when last, and waits for the answers. */
int pg_tx_fly(struct pg_tx *tx, bool last);

/* Whether what is queued is all of the transaction, and little enough to go along with others. */
bool pg_group_takes(const struct pg_tx *tx);
/* The last flight of such a transaction, together with those of other threads when there are any.
 */
int pg_group_fly(struct pg_tx *tx);

#endif
