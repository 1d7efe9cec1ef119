/* The statements of several transactions put together; see pg_merge.c. */
#ifndef STORE_PG_MERGE_H
#define STORE_PG_MERGE_H

#include "store/pg_tx.h"

/* Transactions whose statements have become one. */
struct pg_bundle {
    struct pg_bundle *next;
    struct pg_tx **members;
    size_t count;
    int64_t *each;            /* answers to statements over arrays; NULL: they are claims */
    struct db_result claimed; /* ... and these their jobs */
};

/*
 * The calls of all transactions as one list, and what has become one in it. All of it lives in the
 * first one's arena. NULL: out of memory. Whether it succeeds or not, pg_merge_undo takes the
 * transactions' own calls apart again.
 */
struct pg_call *pg_merge(struct pg_tx *const *txs, size_t count, struct pg_bundle **ret_bundles);
void pg_merge_undo(struct pg_tx *const *txs, size_t count);

/* After the flight: gives each transaction its part. One that cannot take it is marked as failed.
 */
void pg_merge_deal(const struct pg_bundle *bundles);

#endif
