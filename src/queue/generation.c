/*
 * Generations of a store. A store that was restored from a backup knows nothing of the ids and
 * tokens that were given out after the backup was made, and would give them out again: a lease from
 * that time would fit a job of today, and an id that somebody has noted would name another job.
 *
 * Every lease and every lock has a token above store.token_base, which is drawn when the store is
 * made. A new generation begins above everything that can have been given out, and its ids too. The
 * ids of workers as well: a worker from before the restore may still hold the liveness lock of an
 * id that the store has forgotten.
 *
 * What the store holds says too little about that: a backup that is restored twice holds the same
 * both times, and nothing of the generation that the first restore began. So generations are
 * ordered by time (store time, in microseconds). The ids that are jumped over are remembered
 * (table generation), so that events can be counted by their ids.
 *
 *   - token_base is the time since 1970, or STEP above the largest token here if that is more; plus
 *     a random number below DRAWN_BELOW.
 *   - first_id is the time since 2026, or STEP above the newest id here if that is more; but if the
 *     newest id is above the time, the second multiple of ID_STEP above the newest id.
 *
 * What follows from it:
 *
 *   - Ids of two restores overlap only if more than a thousand ids were given out in each
 *     millisecond between them; tokens only if one job or lock had as many leases.
 *   - Where the clock is behind what the store holds (or before 2026), the store alone decides, and
 *     a second restore of the same backup begins like the first. ID_STEP only counts there: added
 *     to a time it would be half an hour, in which no restore could be told from another.
 *   - Tokens and ids stay below 2^53, which JSON numbers hold: the time does so until 2255, and a
 *     clock beyond TIME_MOST_US is ignored.
 */
#include "queue/event.h"
#include "store/queries.h"

/* Every job and every event takes an id: more than a store gives out between two backups. */
enum { ID_STEP = 1000000000, STEP = 1 << 20, DRAWN_BELOW = 1000 };

#define TIME_MOST_US (1LL << 52)        /* in 2112 */
#define IDS_SINCE_US 1767225600000000LL /* 2026-01-01, in microseconds since 1970 */

struct generation_call {
    const char *by;
    int64_t drawn; /* below DRAWN_BELOW */
    struct tend_generation generation;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Where the next generation begins: held is what the store has now. */
static struct tend_generation next_generation(const struct store_generation_row *held,
                                              int64_t now_ms, int64_t drawn)
{
    bool is_known = now_ms > 0 && now_ms < TIME_MOST_US / 1000;
    int64_t now_us = is_known ? now_ms * 1000 : 0;
    int64_t token = larger(db_num(held->token_base), db_num(held->job_token));
    int64_t id = db_num(held->newest_id);
    int64_t id_now = now_us - IDS_SINCE_US;
    token = larger(token, db_num(held->lock_token));
    return (struct tend_generation){.token_base = larger(now_us, token + STEP) + drawn,
                                    .first_id = id_now > id ? larger(id_now, id + STEP)
                                                            : (id / ID_STEP + 2) * ID_STEP};
}

/* The newest id before the jump. Those who write now have drawn theirs; but a jump that was undone
 * was taken by nobody. */
static int64_t newest_used(const struct store_generation_row *held)
{
    int64_t drawn = db_num(held->newest_id);
    int64_t used = db_num(held->newest_event);
    return drawn - used < STEP ? drawn : used;
}

static int generation_body(struct db_tx *tx, void *arg)
{
    struct generation_call *call = arg;
    struct tend_generation *next = &call->generation;
    struct store_generation_rows held;
    int64_t now_ms;
    int rc;
    if ((rc = run_store_lock(tx, 0, NULL)) < 0 || (rc = run_store_generation(tx, 0, &held)) < 0 ||
        (rc = db_time(tx, &now_ms)) < 0)
        return rc;
    *next = next_generation(&held.at[0], now_ms, call->drawn);
    const struct worker_skip_ids_params workers = {.above = db_int(next->token_base)};
    const struct generation_add_params ids = {.first_id = db_int(next->first_id),
                                              .after_id = db_int(newest_used(&held.at[0]))};
    /* On PostgreSQL sequences are not set back when all is undone: this comes last. */
    if ((rc = run_generation_add(tx, 0, ids)) < 0 ||
        (rc = run_worker_skip_ids(tx, 0, workers)) < 0 ||
        (rc = run_control_skip_ids(tx, 0, NULL)) < 0 ||
        (rc = db_begin_generation(tx, next->first_id, next->token_base)) < 0)
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
    call.drawn = (int64_t)rng_below(&t->rng, DRAWN_BELOW);
    pthread_mutex_unlock(&t->mutex);
    rc = handle_write(t, generation_body, &call);
    if (rc >= 0 && ret != NULL)
        *ret = call.generation;
    return rc < 0 ? rc : 0;
}
