/*
 * Dead workers: found, recorded, and what they held given back.
 *
 * Rule: who was marked as lost by its liveness lock is buried only if it has given no sign of life
 * since the mark. Its session may be late in coming back while its heartbeats go through. The
 * registry judges so (registry_fate); whoever buries looks once more, with everything locked. The
 * grace is time by the store's clock: whoever buries by it looks at the clock first, and a clock
 * that was set, or a server that was away, lets it begin anew (clock_move_newcomers).
 *
 * Rule: nobody waits for the row of a job. What another session has locked is left alone and named
 * (recover_worker), and one session that is stopped does not keep the jobs of others from being
 * recovered. Of a worker judged by its liveness lock, a row that is being written may be a
 * heartbeat: then all of its jobs are left alone.
 */
#include "queue/holder.h"
#include "queue/recover.h"
#include "queue/registry.h"
#include "store/queries.h"

struct bury_call {
    tend *t;
    const struct registry_entry *entry;
    struct recovery recovery;
    bool by_lock; /* judged by its liveness lock alone */
    bool again;   /* part of what it held was given back before */
    bool back;
};

/*
 * The last look at a worker judged by its lock. 1: it is dead; 0: it is not, or somebody else has
 * buried it. A sign of life since the mark begins the grace anew. Its row is locked before its
 * jobs, as in recover_worker.
 */
static int is_gone(struct db_tx *tx, int64_t worker_id, struct recovery *recovery)
{
    struct worker_lost_since_rows mark;
    struct worker_sign_rows sign;
    int64_t now_ms;
    const struct worker_lost_since_params lost = {.id = db_int(worker_id)};
    const struct worker_sign_params alive = {.worker_id = db_int(worker_id), .now = db_now(tx)};
    int rc = db_alive_deny(tx, worker_id);
    if (rc <= 0)
        return rc; /* its session has come back */
    if ((rc = run_worker_lost_since(tx, 0, lost, &mark)) < 0)
        return rc;
    if (mark.count == 0)
        return 0;
    int64_t lost_at_ms = db_num(mark.at[0].lost_at);
    if (lost_at_ms == TEND_UNSET)
        return 1; /* no grace is given */
    if ((rc = db_clock_look(tx)) != 0) {
        recovery->clock_unsettled = rc > 0;
        return rc < 0 ? rc : 0;
    }
    if ((rc = run_worker_sign(tx, 0, alive, &sign)) < 0 || (rc = db_time(tx, &now_ms)) < 0)
        return rc;
    if (db_num(sign.at[0].in_flight) > 0) {
        rc = holder_read_left(tx, worker_id, false, &recovery->left);
        return rc < 0 ? rc : 0;
    }
    if (now_ms - lost_at_ms < db_alive_grace_ms(db_store(tx)))
        return 0; /* it has begun anew, with the clock */
    int64_t sign_ms = db_num(sign.at[0].at);
    if (sign_ms == TEND_UNSET || sign_ms <= lost_at_ms)
        return 1;
    const struct worker_lost_params again = {.id = db_int(worker_id), .lost_at = db_int(now_ms)};
    return each_worker_lost(tx, DB_LAST, &again, 1, NULL);
}

static int bury_body(struct db_tx *tx, void *arg)
{
    struct bury_call *call = arg;
    const char *why =
        arena_printf(db_arena(tx), "worker %s (pid %lld on %s) has died", call->entry->name,
                     (long long)call->entry->process.pid, call->entry->host);
    call->recovery = (struct recovery){.by = call->t->name};
    if (!call->again)
        call->recovery.idle_why =
            arena_printf(db_arena(tx), "process %lld on %s (%s) has ended; it held nothing",
                         (long long)call->entry->process.pid, call->entry->host, call->entry->name);
    if (call->by_lock) {
        int rc = is_gone(tx, call->entry->id, &call->recovery);
        if (rc <= 0)
            return rc;
    }
    return recover_worker(tx, &call->recovery, call->entry->id, why);
}

static int mark_body(struct db_tx *tx, void *arg)
{
    struct bury_call *call = arg;
    int64_t now_ms;
    int rc = db_time(tx, &now_ms);
    if (rc < 0)
        return rc;
    const struct worker_lost_params params = {.id = db_int(call->entry->id),
                                              .lost_at = call->back ? db_null() : db_int(now_ms)};
    return each_worker_lost(tx, DB_LAST, &params, 1, NULL);
}

/* Part of what it held, or the last of it: 1 when there is more. */
static int bury_some(tend *t, const struct registry_entry *entry, bool by_lock, bool again,
                     struct recovery *total)
{
    struct arena arena;
    struct bury_call call = {.t = t, .entry = entry, .by_lock = by_lock, .again = again};
    arena_init(&arena);
    int rc = db_write_within(t->db, total->wait_ms, &arena, bury_body, &call, handle_err(t));
    if (rc >= 0)
        recover_log(t, &call.recovery);
    arena_done(&arena);
    total->entries_reclaimed += call.recovery.entries_reclaimed;
    total->entries_quarantined += call.recovery.entries_quarantined;
    total->locks_cleaned += call.recovery.locks_cleaned;
    total->clock_unsettled = call.recovery.clock_unsettled;
    if (rc >= 0)
        holder_add_skipped(&total->left, &call.recovery.left);
    return rc;
}

static int bury(tend *t, const struct registry_entry *entry, bool by_lock, struct recovery *total)
{
    bool settled = false;
    int rc;
    bool again = false;
    do {
        rc = bury_some(t, entry, by_lock, again, total);
        again |= rc > 0;
        if (rc == 0 && total->clock_unsettled && !settled) {
            settled = true;
            rc = recover_settle_clock(t, total->wait_ms) < 0 ? 0 : 1; /* left to the next time */
        }
    } while (rc > 0);
    return rc;
}

/* What the registry says about one worker is carried out. 1: it was dead. */
static int settle_one(tend *t, const struct registry_entry *entry, int64_t now_ms,
                      struct recovery *total)
{
    struct bury_call mark = {.t = t, .entry = entry};
    bool by_lock;
    int rc = 0;
    switch (registry_fate(t, entry, now_ms, &by_lock)) {
    case FATE_DEAD:
        rc = bury(t, entry, by_lock, total);
        return rc < 0 ? rc : 1;
    case FATE_LOST:
        rc = handle_write_within(t, total->wait_ms, mark_body, &mark);
        break;
    case FATE_BACK:
        mark.back = true;
        rc = handle_write_within(t, total->wait_ms, mark_body, &mark);
        break;
    case FATE_ALIVE:
    case FATE_UNKNOWN:
        break;
    }
    return rc < 0 ? rc : 0;
}

/* Whether a failure lies in what one worker has left, and not in the store. */
static bool concerns_one(int rc)
{
    return rc == TEND_EINTERNAL || rc == TEND_ESTATE || rc == TEND_ECONFLICT;
}

int recover_dead_workers(tend *t, struct recovery *total)
{
    struct registry registry;
    struct err first = {0};
    int dead = 0;
    int rc = registry_load(t, total->wait_ms, &registry);
    for (size_t i = 0; rc >= 0 && i < registry.count; i++) {
        rc = settle_one(t, &registry.entries[i], registry.now_ms, total);
        dead += rc > 0;
        if (rc < 0 && concerns_one(rc) && i + 1 < registry.count) {
            if (first.code == 0)
                first = *handle_err(t);
            rc = 0; /* the others are buried */
        }
    }
    registry_done(&registry);
    if (rc >= 0 && first.code < 0) {
        *handle_err(t) = first;
        rc = first.code;
    }
    return rc < 0 ? rc : dead;
}
