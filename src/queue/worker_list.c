/* Workers as people see them. */
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
    int rc = registry_load(t, registry);
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

static int expired_body(struct db_tx *tx, void *arg)
{
    struct db_value now;
    int rc = db_lease_now(tx, &now);
    return rc < 0 ? rc : db_run(tx, Q_WORKER_EXPIRED, DB_LAST, &now, arg);
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

int worker_count_stale(tend *t, int64_t *ret_leases, int64_t *ret_locks)
{
    struct tend_workers *workers;
    struct db_result expired;
    int rc = tend_worker_list(t, &workers);
    if (rc < 0)
        return rc;
    struct arena *arena = &((struct workers_box *)workers)->registry.arena;
    rc = db_read(t->db, arena, expired_body, &expired, handle_err(t));
    for (size_t i = 0; rc >= 0 && i < workers->count; i++) {
        int64_t leases = 0;
        int64_t locks = 0;
        if (workers->items[i].alive != 0) {
            *ret_leases -= db_clock_is_even(t->db) ? 0 : spared_of(&expired, workers->items[i].id);
            continue;
        }
        holdings_of(&expired, workers->items[i].id, &leases, &locks);
        *ret_leases += workers->items[i].leases - leases;
        *ret_locks += workers->items[i].locks - locks;
    }
    tend_workers_free(workers);
    return rc < 0 ? rc : 0;
}
