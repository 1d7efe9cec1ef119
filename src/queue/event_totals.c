#include "queue/event_totals.h"

#include "base/clock.h"
#include "queue/row.h"
#include "store/queries.h"

#include <stdlib.h>

enum {
    COUNT_CHUNK = 2000, /* events in one transaction, which others wait for */
    COUNT_EVERY_MS = 10000,
    /* A worker counts for a tenth of its time at most while there is more to count. */
    COUNT_AT_ONCE_MS = 100,
    COUNT_REST_MS = 900,
    /* How long it waits for transactions that are under way: others wait for a worker's timer, but
     * nobody for a purge. */
    SETTLE_TIMER_MS = 10,
    SETTLE_PURGE_MS = 1000,
    /* How long whoever asks counts what has come together, where no worker does. */
    COUNT_ASKED_MS = 500,
};

/* --- adding --- */

struct count_call {
    int64_t settle_ms;
    int64_t from_id, to_id; /* the next events: behind the one, up to the other */
    int64_t count;          /* of these */
};

static int look_body(struct db_tx *tx, void *arg)
{
    struct count_call *call = arg;
    struct event_uncounted_rows found;
    const struct event_uncounted_params params = {.limit = db_int(COUNT_CHUNK),
                                                  .wait_ms = db_int(call->settle_ms)};
    int rc = run_event_uncounted(tx, DB_LAST, params, &found);
    if (rc < 0)
        return rc;
    call->from_id = db_num(found.at[0].counted_to);
    call->count = db_num(found.at[0].events);
    call->to_id = db_num(found.at[0].last_id);
    return 0;
}

static int count_body(struct db_tx *tx, void *arg)
{
    const struct count_call *call = arg;
    int64_t mine = 0;
    const struct event_counted_params guard = {.from_id = db_int(call->from_id),
                                               .to_id = db_int(call->to_id)};
    const struct event_count_in_params range = {.after_id = db_int(call->from_id),
                                                .to_id = db_int(call->to_id)};
    int rc = each_event_counted(tx, 0, &guard, 1, &mine);
    if (rc < 0 || mine == 0) /* somebody else has counted them */
        return rc;
    return run_event_count_in(tx, DB_LAST, range);
}

/* Pieces of `least` events or more. *ret_more: there may be another. */
static int count_pieces(tend *t, int64_t least, int64_t settle_ms, int64_t until_ms,
                        int64_t wait_ms, bool *ret_more)
{
    struct count_call call = {.settle_ms = settle_ms};
    do {
        int rc = handle_read_within(t, wait_ms, look_body, &call);
        *ret_more = call.count == COUNT_CHUNK;
        if (rc < 0 || call.count < least)
            return rc;
        if ((rc = handle_write_within(t, wait_ms, count_body, &call)) < 0)
            return rc;
    } while (*ret_more && clock_mono_ms() < until_ms);
    return 0;
}

int event_totals_count(tend *t, int64_t until_ms, int64_t wait_ms)
{
    bool more;
    return count_pieces(t, 1, SETTLE_PURGE_MS, until_ms, wait_ms, &more);
}

void event_totals_on_timer(tend *t, int64_t wait_ms)
{
    int64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&t->mutex);
    bool due = now_ms >= t->count_next_ms;
    if (due)
        t->count_next_ms = now_ms + COUNT_EVERY_MS;
    pthread_mutex_unlock(&t->mutex);
    if (!due)
        return;
    bool more = false;
    int rc =
        count_pieces(t, COUNT_CHUNK, SETTLE_TIMER_MS, now_ms + COUNT_AT_ONCE_MS, wait_ms, &more);
    bool put_off = rc == TEND_EBUSY && wait_ms >= 0;
    if (rc < 0 && !put_off)
        handle_log(t, "counting events failed: %s", handle_err(t)->text);
    if (!put_off && (rc < 0 || !more))
        return;
    pthread_mutex_lock(&t->mutex);
    t->count_next_ms = clock_mono_ms() + COUNT_REST_MS;
    pthread_mutex_unlock(&t->mutex);
}

/* --- asking --- */

struct totals_box {
    struct tend_event_totals totals; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_event_totals_free(struct tend_event_totals *totals)
{
    struct totals_box *box = (struct totals_box *)totals;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

static int totals_body(struct db_tx *tx, void *arg)
{
    struct totals_box *box = arg;
    struct event_totals_rows rows;
    int rc = run_event_totals(tx, DB_LAST, &rows);
    if (rc < 0)
        return rc;
    struct tend_event_total *items = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while counting events");
    for (size_t i = 0; i < rows.count; i++)
        items[i] = (struct tend_event_total){.queue = db_str(rows.at[i].queue),
                                             .what = db_str(rows.at[i].what),
                                             .count = db_num(rows.at[i].number)};
    box->totals = (struct tend_event_totals){.count = rows.count, .items = items};
    return 0;
}

/* Where only commands that end use the store, nobody else counts, and every question would read all
 * events anew. What cannot be written now is counted the next time. */
static void count_along(tend *t)
{
    bool more;
    count_pieces(t, COUNT_CHUNK, SETTLE_TIMER_MS, clock_mono_ms() + COUNT_ASKED_MS, 0, &more);
}

int tend_event_totals(tend *t, struct tend_event_totals **ret)
{
    struct totals_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while counting events");
    arena_init(&box->arena);
    count_along(t);
    int rc = db_read(t->db, &box->arena, totals_body, box, handle_err(t));
    if (rc < 0)
        tend_event_totals_free(&box->totals);
    else
        *ret = &box->totals;
    return rc;
}
