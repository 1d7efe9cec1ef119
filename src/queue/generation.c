/*
 * Generations of a store. A store that was restored from a backup knows nothing of the ids and
 * tokens that were given out after the backup was made, and would give them out again: a lease from
 * that time would fit a job of today, and an id that somebody has noted would name another job.
 *
 * Every lease and every lock has a token above store.token_base, which is drawn when the store is
 * made. A new generation begins far above everything that can have been given out, and its ids too.
 * The ids of workers as well: a worker from before the restore may still hold the liveness lock of
 * an id that the store has forgotten.
 */
#include "queue/event.h"

struct generation_call {
    const char *by;
    int64_t drawn; /* 40 bits */
    struct tend_generation generation;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int generation_body(struct db_tx *tx, void *arg)
{
    struct generation_call *call = arg;
    struct tend_generation *next = &call->generation;
    struct db_result now;
    int rc = db_run(tx, Q_STORE_GENERATION, 0, NULL, &now);
    if (rc < 0)
        return rc;
    int64_t highest = larger(db_number(&now, 0, 0), db_number(&now, 0, 1));
    next->token_base = larger(highest, db_number(&now, 0, 2)) + (1 << 20) + call->drawn;
    next->first_id = (db_number(&now, 0, 3) / GENERATION_IDS + 2) * GENERATION_IDS;
    const struct db_value base[] = {db_int(next->token_base)};
    if ((rc = db_begin_generation(tx, next->first_id, next->token_base)) < 0 ||
        (rc = db_run(tx, Q_WORKER_SKIP_IDS, 0, base, NULL)) < 0)
        return rc;
    struct event_note event = {
        .who = call->by,
        .what = "store.restored",
        .why = "a new generation begins after a restore",
        .data = arena_printf(db_arena(tx), "{\"token_base\":%lld}", (long long)next->token_base)};
    return event_add(tx, &event, DB_LAST);
}

int tend_after_restore(tend *t, const char *by, struct tend_generation *ret)
{
    int rc = by == NULL ? 0 : handle_check_name(t, "person or program", by);
    if (rc < 0)
        return rc;
    struct generation_call call = {.by = handle_owner(t, by)};
    pthread_mutex_lock(&t->mutex);
    call.drawn = (int64_t)rng_below(&t->rng, 1ULL << 40);
    pthread_mutex_unlock(&t->mutex);
    rc = handle_write(t, generation_body, &call);
    if (rc >= 0 && ret != NULL)
        *ret = call.generation;
    return rc < 0 ? rc : 0;
}
