/* Rows of the store as the structs of tend.h, in boxes that own their memory. */
#ifndef QUEUE_ROW_H
#define QUEUE_ROW_H

#include "queue/handle.h"

/* What a pointer-to-pointer result of the API really points to: the list, then the arena it lives
 * in. */
struct jobs_box {
    struct tend_jobs jobs; /* first: a struct tend_jobs pointer is a pointer to its box */
    struct arena arena;
};

struct jobs_box *jobs_box_new(void);

/* The rows of a result that begin with {job}, in an arena. 0 or TEND_ENOMEM. */
int jobs_read(struct arena *arena, const struct db_result *result, struct tend_jobs *ret);

/* Fills the box from a result whose rows begin with {job}. 0 or TEND_ENOMEM. */
int jobs_box_fill(struct jobs_box *box, const struct db_result *result);

/* How many rows a page may have, by what the caller asked for. */
int64_t page_limit(size_t limit);

/* 0, or TEND_EINVAL with a sentence. */
int list_check_filter(tend *t, const struct tend_filter *filter);

/* One page of those that match: Q_JOB_LIST or Q_JOB_CHOSEN in order of id, or Q_JOB_LIST_NEWEST.
 * ret is the result of the query's rows. */
int list_page(struct db_tx *tx, enum db_query query, const struct tend_filter *filter, unsigned how,
              struct db_result *ret);

#endif
