/* Workers as people see them. */
#include "queue/holder.h"
#include "queue/registry.h"
#include "queue/worker.h"
#include "store/queries.h"

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
    return run_worker_holdings(tx, DB_LAST, arg);
}

/* Adds up leases and locks of worker id. */
static void holdings_of(const struct worker_holdings_rows *rows, int64_t id, int64_t *leases,
                        int64_t *locks)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (db_num(rows->at[i].worker_id) != id)
            continue;
        *leases += db_num(rows->at[i].leases);
        *locks += db_num(rows->at[i].locks);
    }
}

int tend_worker_list(tend *t, struct tend_workers **ret)
{
    struct workers_box *box = calloc(1, sizeof *box);
    struct worker_holdings_rows holdings;
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
            .alive = fate == FATE_DEAD                           ? 0
                     : fate == FATE_LOST || fate == FATE_UNKNOWN ? -1
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
    struct worker_expired_rows expired;
    struct tend_recovery left; /* of dead workers */
};

static int stale_body(struct db_tx *tx, void *arg)
{
    struct stale_call *call = arg;
    struct db_value now;
    call->left = (struct tend_recovery){0};
    int rc = db_lease_now(tx, &now);
    if (rc >= 0)
        rc = run_worker_expired(tx, 0, (struct worker_expired_params){.now = now}, &call->expired);
    for (size_t i = 0; rc >= 0 && i < call->workers->count; i++)
        if (call->workers->items[i].alive == 0)
            rc = holder_read_left(tx, call->workers->items[i].id, false, &call->left);
    return rc;
}

/* What a worker holds whose time is over. */
struct expired {
    int64_t leases, locks;
    int64_t unwarned; /* of the leases: those of a living worker would be extended once */
};

static struct expired expired_of(const struct worker_expired_rows *rows, int64_t id)
{
    struct expired all = {0};
    for (size_t i = 0; i < rows->count; i++) {
        if (db_num(rows->at[i].worker_id) != id)
            continue;
        all.leases += db_num(rows->at[i].leases);
        all.locks += db_num(rows->at[i].locks);
        all.unwarned += db_num(rows->at[i].unwarned);
    }
    return all;
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
        struct expired expired = expired_of(&call.expired, worker->id);
        if (worker->alive != 0) {
            ret->entries_reclaimed -= db_clock_is_even(t->db) ? 0 : expired.unwarned;
            continue;
        }
        ret->entries_reclaimed += worker->leases - expired.leases;
        ret->locks_cleaned += worker->locks - expired.locks;
    }
    holder_add_skipped(ret, &call.left);
    tend_workers_free(workers);
    return rc < 0 ? rc : 0;
}
