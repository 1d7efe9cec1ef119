/* The statements of several transactions put together; see pg_merge.c. */
#ifndef STORE_PG_MERGE_H
#define STORE_PG_MERGE_H

#include "store/pg_tx.h"

/* Statements of several transactions that have become one. */
struct pg_bundle {
    struct pg_bundle *next;
    struct pg_call **members; /* in the order in which the transactions came */
    size_t count;
    struct pg_call *statement; /* that they have become */
    int64_t *each;             /* answers to statements over arrays; NULL: they are claims */
    struct db_result claimed;  /* ... and these their jobs */
};

/* The calls of several transactions as one list. All of it lives in the first one's arena. */
struct pg_merged {
    struct pg_call *first;
    struct pg_bundle *bundles; /* what has become one in it */
    struct pg_call **calls;    /* the transactions' own, as they were ... */
    struct pg_call **nexts;    /* ... and what followed each */
    size_t count;
};

/* False: out of memory. Whether it succeeds or not, pg_merge_undo takes the transactions' own calls
 * apart again. */
bool pg_merge(struct pg_tx *const *txs, size_t count, struct pg_merged *ret);
void pg_merge_undo(const struct pg_merged *merged);

/* After the flight: gives each transaction its part. One that cannot take it is marked as failed.
 */
void pg_merge_deal(const struct pg_merged *merged);

#endif
