/* Workers as people see them. */
#include "queue/holder.h"
#include "queue/registry.h"
#include "queue/worker.h"

#include <stdlib.h>

struct workers_box {
    struct tend_workers workers; /* first: a struct tend_workers pointer is a pointer to its box */
    struct registry registry;
};

void tend_workers_free(struct tend_workers *workers)
{
    struct workers_box *box = (struct workers_box *)workers;
    if (box == NULL)
        return;
    registry_done(&box->registry);
    free(box);
}

static int holdings_body(struct db_tx *tx, void *arg)
{
    return db_run(tx, Q_WORKER_HOLDINGS, DB_LAST, NULL, arg);
}

/* Adds up leases and locks of worker id. */
static void holdings_of(const struct db_result *rows, int64_t id, int64_t *leases, int64_t *locks)
{
    for (size_t i = 0; i < rows->rows; i++) {
        if (db_number(rows, i, 0) != id)
            continue;
        *leases += db_number(rows, i, 1);
        *locks += db_number(rows, i, 2);
    }
}

int tend_worker_list(tend *t, struct tend_workers **ret)
{
    struct workers_box *box = calloc(1, sizeof *box);
    struct db_result holdings;
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while listing workers");
    struct registry *registry = &box->registry;
    int rc = registry_load(t, -1, registry);
    if (rc >= 0)
        rc = db_read(t->db, &registry->arena, holdings_body, &holdings, handle_err(t));
    struct tend_worker *items =
        rc < 0 ? NULL : arena_zalloc(&registry->arena, (registry->count + 1) * sizeof *items);
    if (items == NULL) {
        tend_workers_free(&box->workers);
        return rc < 0 ? rc : handle_fail(t, TEND_ENOMEM, "out of memory while listing workers");
    }
    for (size_t i = 0; i < registry->count; i++) {
        const struct registry_entry *entry = &registry->entries[i];
        enum fate fate = registry_fate(t, entry, registry->now_ms, NULL);
        items[i] = (struct tend_worker){
            .id = entry->id,
            .name = entry->name,
            .host = entry->host,
            .pid = entry->process.pid,
            .since_ms = entry->since_ms,
            .lost_at_ms = entry->lost_at_ms,
            .alive = fate == FATE_DEAD   ? 0
                     : fate == FATE_LOST ? -1
                                         : 1,
            .stopped = registry_is_stopped(entry),
        };
        holdings_of(&holdings, entry->id, &items[i].leases, &items[i].locks);
    }
    box->workers = (struct tend_workers){.count = registry->count, .items = items};
    *ret = &box->workers;
    return 0;
}

struct stale_call {
    const struct tend_workers *workers;
    struct db_result expired;
    struct tend_recovery left; /* of dead workers */
};

static int stale_body(struct db_tx *tx, void *arg)
{
    struct stale_call *call = arg;
    struct db_value now;
    call->left = (struct tend_recovery){0};
    int rc = db_lease_now(tx, &now);
    if (rc >= 0)
        rc = db_run(tx, Q_WORKER_EXPIRED, 0, &now, &call->expired);
    for (size_t i = 0; rc >= 0 && i < call->workers->count; i++)
        if (call->workers->items[i].alive == 0)
            rc = holder_read_left(tx, call->workers->items[i].id, false, &call->left);
    return rc;
}

/* Leases of a living worker that have expired and would be extended once. */
static int64_t spared_of(const struct db_result *expired, int64_t id)
{
    int64_t spared = 0;
    for (size_t i = 0; i < expired->rows; i++)
        if (db_number(expired, i, 0) == id)
            spared += db_number(expired, i, 3);
    return spared;
}

int worker_count_stale(tend *t, struct tend_recovery *ret)
{
    struct tend_workers *workers = NULL;
    int rc = tend_worker_list(t, &workers);
    if (workers == NULL)
        return rc;
    struct stale_call call = {.workers = workers};
    struct arena *arena = &((struct workers_box *)workers)->registry.arena;
    rc = db_read(t->db, arena, stale_body, &call, handle_err(t));
    for (size_t i = 0; rc >= 0 && i < workers->count; i++) {
        const struct tend_worker *worker = &workers->items[i];
        int64_t leases = 0;
        int64_t locks = 0;
        if (worker->alive != 0) {
            ret->entries_reclaimed -=
                db_clock_is_even(t->db) ? 0 : spared_of(&call.expired, worker->id);
            continue;
        }
        holdings_of(&call.expired, worker->id, &leases, &locks);
        ret->entries_reclaimed += worker->leases - leases;
        ret->locks_cleaned += worker->locks - locks;
    }
    holder_add_skipped(ret, &call.left);
    tend_workers_free(workers);
    return rc < 0 ? rc : 0;
}
