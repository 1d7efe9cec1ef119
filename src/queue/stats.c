/* Figures: jobs per queue and state, and what else is in the store. */
#include "queue/settings.h"

#include <stdlib.h>
#include <string.h>

struct stats_box {
    struct tend_stats stats; /* first: a struct tend_stats pointer is a pointer to its box */
    struct arena arena;
};

void tend_stats_free(struct tend_stats *stats)
{
    struct stats_box *box = (struct stats_box *)stats;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct gathering {
    struct tend_queue_stats *items;
    size_t count, room;
};

/* The entry of a queue; made when it is not there. Room is reserved beforehand. */
static struct tend_queue_stats *entry_of(struct gathering *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].settings.name, name) == 0)
            return &all->items[i];
    struct queue_settings settings;
    settings_default(&settings, name);
    struct tend_queue_stats *entry = &all->items[all->count++];
    *entry = (struct tend_queue_stats){.settings = settings.queue, .oldest_pending_ms = TEND_UNSET};
    return entry;
}

static int by_name(const void *a, const void *b)
{
    const struct tend_queue_stats *left = a;
    const struct tend_queue_stats *right = b;
    return strcmp(left->settings.name, right->settings.name);
}

static void gather(struct gathering *all, const struct queue_list_rows *queues,
                   const struct queue_counts_rows *counts, const struct queue_oldest_rows *oldest)
{
    for (size_t i = 0; i < queues->count; i++) {
        struct queue_settings settings;
        settings_read(&settings, &queues->at[i].queue);
        entry_of(all, settings.queue.name)->settings = settings.queue;
    }
    for (size_t i = 0; i < counts->count; i++) {
        const struct queue_counts_row *row = &counts->at[i];
        int64_t state = db_num(row->state);
        if (state >= 0 && state < TEND_STATE_COUNT)
            entry_of(all, db_str(row->queue))->jobs[state] += db_num(row->jobs);
    }
    for (size_t i = 0; i < oldest->count; i++) {
        int64_t *first_ms = &entry_of(all, db_str(oldest->at[i].queue))->oldest_pending_ms;
        int64_t due_ms = db_num(oldest->at[i].due_at);
        if (*first_ms == TEND_UNSET || due_ms < *first_ms)
            *first_ms = due_ms;
    }
    qsort(all->items, all->count, sizeof *all->items, by_name);
}

static int stats_body(struct db_tx *tx, void *arg)
{
    struct stats_box *box = arg;
    struct queue_list_rows queues;
    struct queue_counts_rows counts;
    struct queue_oldest_rows oldest;
    struct store_counts_rows stored;
    const struct queue_counts_params count = {.now = db_now(tx)};
    const struct queue_oldest_params look = {.now = db_now(tx)};
    const struct store_counts_params count_store = {.now = db_now(tx)};
    int rc;
    if ((rc = run_queue_list(tx, DB_LATER, &queues)) < 0 ||
        (rc = run_queue_counts(tx, DB_LATER, count, &counts)) < 0 ||
        (rc = run_queue_oldest(tx, DB_LATER, look, &oldest)) < 0 ||
        (rc = run_store_counts(tx, 0, count_store, &stored)) < 0)
        return rc;
    struct gathering all = {.room = queues.count + counts.count + oldest.count + 1};
    all.items = arena_zalloc(&box->arena, all.room * sizeof *all.items);
    if (all.items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while counting");
    gather(&all, &queues, &counts, &oldest);
    const struct store_counts_row *store = &stored.at[0];
    box->stats = (struct tend_stats){
        .count = all.count,
        .items = all.items,
        .workers = db_num(store->workers),
        .locks = db_num(store->locks),
        .schedules = db_num(store->schedules),
        .events = db_num(store->events),
        .now_ms = db_num(store->now),
    };
    return 0;
}

int tend_stats(tend *t, struct tend_stats **ret)
{
    struct stats_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while counting");
    arena_init(&box->arena);
    int rc = db_read(t->db, &box->arena, stats_body, box, handle_err(t));
    if (rc < 0)
        tend_stats_free(&box->stats);
    else
        *ret = &box->stats;
    return rc;
}

struct outlook_call {
    const char *name;
    struct tend_outlook outlook;
};

static int outlook_body(struct db_tx *tx, void *arg)
{
    struct outlook_call *call = arg;
    struct queue_outlook_rows rows;
    const struct queue_outlook_params params = {.queue = db_text(call->name)};
    int rc = run_queue_outlook(tx, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    const struct queue_outlook_row *found = &rows.at[0];
    struct tend_outlook *outlook = &call->outlook;
    *outlook = (struct tend_outlook){
        .due_ms = db_num(found->next_due_at),
        .running = db_num(found->running),
        .held = db_num(found->held) > 0,
    };
    outlook->known =
        outlook->due_ms != TEND_UNSET || outlook->running > 0 || db_num(found->known) > 0;
    return 0;
}

int tend_queue_outlook(tend *t, const char *name, struct tend_outlook *ret)
{
    struct outlook_call call = {.name = name};
    int rc = handle_check_name(t, "queue", name);
    if (rc == 0)
        rc = handle_read(t, outlook_body, &call);
    if (rc == 0)
        *ret = call.outlook;
    return rc;
}
