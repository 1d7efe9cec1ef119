/* Adding jobs from inside a transaction, for tend_add and for schedules. */
#ifndef QUEUE_ADD_H
#define QUEUE_ADD_H

#include "queue/handle.h"

struct add_batch {
    const struct tend_job_spec *specs; /* checked */
    size_t count;
    const char *by;       /* where a spec names nobody */
    const char *schedule; /* the schedule that adds them, or NULL */
    struct tend_added *ret;
};

int add_jobs(struct db_tx *tx, const struct add_batch *batch, unsigned how);

/* TEND_EINVAL with line, column and reason; what is the word for the text ("payload"). */
int add_check_json(tend *t, const char *what, const char *text, size_t bytes);

#endif
