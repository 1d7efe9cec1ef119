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

static void gather(struct gathering *all, const struct db_result *queues,
                   const struct db_result *counts, const struct db_result *oldest)
{
    for (size_t i = 0; i < queues->rows; i++) {
        struct queue_settings settings;
        settings_read(&settings, queues, i);
        entry_of(all, settings.queue.name)->settings = settings.queue;
    }
    for (size_t i = 0; i < counts->rows; i++) {
        int64_t state = db_number(counts, i, 1);
        if (state >= 0 && state < TEND_STATE_COUNT)
            entry_of(all, db_string(counts, i, 0))->jobs[state] += db_number(counts, i, 2);
    }
    for (size_t i = 0; i < oldest->rows; i++) {
        int64_t *first_ms = &entry_of(all, db_string(oldest, i, 0))->oldest_pending_ms;
        int64_t due_ms = db_number(oldest, i, 1);
        if (*first_ms == TEND_UNSET || due_ms < *first_ms)
            *first_ms = due_ms;
    }
    qsort(all->items, all->count, sizeof *all->items, by_name);
}

static int stats_body(struct db_tx *tx, void *arg)
{
    struct stats_box *box = arg;
    struct db_result queues;
    struct db_result counts;
    struct db_result oldest;
    struct db_result store;
    const struct db_value params[] = {db_now(tx)};
    int rc;
    if ((rc = db_run(tx, Q_QUEUE_LIST, DB_LATER, NULL, &queues)) < 0 ||
        (rc = db_run(tx, Q_QUEUE_COUNTS, DB_LATER, params, &counts)) < 0 ||
        (rc = db_run(tx, Q_QUEUE_OLDEST, DB_LATER, params, &oldest)) < 0 ||
        (rc = db_run(tx, Q_STORE_COUNTS, 0, params, &store)) < 0)
        return rc;
    struct gathering all = {.room = queues.rows + counts.rows + oldest.rows + 1};
    all.items = arena_zalloc(&box->arena, all.room * sizeof *all.items);
    if (all.items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while counting");
    gather(&all, &queues, &counts, &oldest);
    box->stats = (struct tend_stats){
        .count = all.count,
        .items = all.items,
        .workers = db_number(&store, 0, 0),
        .locks = db_number(&store, 0, 1),
        .schedules = db_number(&store, 0, 2),
        .events = db_number(&store, 0, 3),
        .now_ms = db_number(&store, 0, 4),
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
    struct db_result found;
    const struct db_value params[] = {db_text(call->name)};
    int rc = db_run(tx, Q_QUEUE_OUTLOOK, DB_LAST, params, &found);
    if (rc < 0)
        return rc;
    struct tend_outlook *outlook = &call->outlook;
    *outlook = (struct tend_outlook){
        .due_ms = db_number(&found, 0, 0),
        .running = db_number(&found, 0, 1),
        .held = db_number(&found, 0, 2) > 0,
    };
    outlook->known =
        outlook->due_ms != TEND_UNSET || outlook->running > 0 || db_number(&found, 0, 3) > 0;
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
