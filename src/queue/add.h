/* Adding jobs from inside a transaction, for tend_add and for schedules. */
#ifndef QUEUE_ADD_H
#define QUEUE_ADD_H

#include "core/state.h"
#include "queue/handle.h"
#include "store/queries.h"

struct add_batch {
    const struct tend_job_spec *specs; /* checked */
    size_t count;
    const char *by;       /* where a spec names nobody */
    const char *schedule; /* the schedule that adds them, or NULL */
    struct tend_added *ret;
};

int add_jobs(struct db_tx *tx, const struct add_batch *batch, unsigned how);

/*
 * Before several jobs become live under unique keys: nobody else who does so with one of them gets
 * in between. DB_LATER. See add.c.
 */
int add_take_keys(struct db_tx *tx, const struct keys_take_params *keys, size_t count);

/* The parameters of job_refresh and submission_put: what is submitted again, for job id. */
struct job_refresh_params add_again_params(struct db_tx *tx, int64_t id,
                                           const struct tend_job_spec *spec, const char *by);

/* A job that waits or is held takes over what was submitted under its key; old is its payload. */
int add_refresh(struct db_tx *tx, int64_t id, enum job_state state, const struct db_value *old,
                const struct tend_job_spec *spec, const char *by);

/* What is stored as its payload. */
const char *add_payload(const struct tend_job_spec *spec, size_t *ret_bytes);

/* TEND_EINVAL with line, column and reason; what is the word for the text ("payload"). */
int add_check_json(tend *t, const char *what, const char *text, size_t bytes);

#endif
