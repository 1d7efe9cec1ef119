#include "queue/worker.h"

#include "base/clock.h"
#include "base/proc.h"
#include "queue/event.h"
#include "queue/move.h"
#include "queue/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A worker that has only just registered may not have taken its liveness lock yet. */
enum { NEWCOMER_MS = 2000, HELD_CHUNK = 1000 };

enum fate { FATE_ALIVE, FATE_DEAD, FATE_LOST, FATE_BACK };

struct entry {
    int64_t id;
    const char *name, *host;
    struct proc_id process;
    bool session;
    int64_t since_ms, lost_at_ms;
    bool lock_held;
    bool here; /* its process is one of this machine and boot that can be looked at */
};

struct registry {
    struct arena arena;
    struct entry *entries;
    size_t count;
    int64_t now_ms;
};

/* --- registering --- */

struct register_call {
    const char *name;
    char host[128];
    struct proc_id process;
    bool session;
    int64_t id;
};

static int register_body(struct db_tx *tx, void *arg)
{
    struct register_call *call = arg;
    const struct db_value params[] = {
        db_text(call->name),
        db_text(call->host),
        db_text(call->process.boot_id),
        db_int(call->process.pid),
        db_int((int64_t)call->process.pid_ns),
        db_int(call->process.start_ticks),
        db_int(call->session),
        db_now(tx),
    };
    int rc = db_each(tx, Q_WORKER_ADD, 0, params, 1, &call->id);
    if (rc < 0)
        return rc;
    db_ring(tx); /* those who wait watch it from now on */
    struct event_note event = {.who = call->name,
                               .what = "worker.joined",
                               .data =
                                   arena_printf(db_arena(tx), "{\"worker\":%lld,\"pid\":%lld}",
                                                (long long)call->id, (long long)call->process.pid)};
    return event_add(tx, &event, DB_LAST);
}

int worker_self(tend *t, int64_t *ret_id)
{
    int rc = 0;
    pthread_mutex_lock(&t->mutex);
    if (t->worker_id == 0) {
        struct register_call call = {.name = t->name, .session = true};
        proc_host(call.host, sizeof call.host);
        if (proc_self(&call.process) < 0)
            rc = handle_fail(t, TEND_EIO, "this process cannot be identified; is /proc mounted?");
        if (rc == 0)
            rc = handle_write(t, register_body, &call);
        if (rc >= 0)
            rc = db_alive_begin(t->db, call.id, handle_err(t));
        if (rc >= 0)
            t->worker_id = call.id;
    }
    *ret_id = t->worker_id;
    pthread_mutex_unlock(&t->mutex);
    return rc < 0 ? rc : 0;
}

/* --- the list --- */

static int load_body(struct db_tx *tx, void *arg)
{
    struct registry *registry = arg;
    struct db_result rows;
    struct proc_id self = {0};
    const struct db_value params[] = {db_now(tx)};
    int rc = db_run(tx, Q_WORKER_LIST, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    proc_self(&self);
    registry->entries = arena_zalloc(db_arena(tx), (rows.rows + 1) * sizeof(struct entry));
    if (registry->entries == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading workers");
    registry->count = rows.rows;
    for (size_t i = 0; i < rows.rows; i++) {
        struct entry *entry = &registry->entries[i];
        *entry = (struct entry){
            .id = db_number(&rows, i, 0),
            .name = db_string(&rows, i, 1),
            .host = db_string(&rows, i, 2),
            .process = {.pid = db_number(&rows, i, 4),
                        .pid_ns = (uint64_t)db_number(&rows, i, 5),
                        .start_ticks = db_number(&rows, i, 6)},
            .session = db_number(&rows, i, 7) != 0,
            .since_ms = db_number(&rows, i, 8),
            .lost_at_ms = db_number(&rows, i, 9),
        };
        snprintf(entry->process.boot_id, sizeof entry->process.boot_id, "%s",
                 db_string(&rows, i, 3));
        entry->here = strcmp(entry->process.boot_id, self.boot_id) == 0;
        registry->now_ms = db_number(&rows, i, 10);
    }
    return 0;
}

static void registry_done(struct registry *registry)
{
    arena_done(&registry->arena);
}

/* The entries and who of them holds a liveness lock. To be ended with registry_done in any case. */
static int registry_load(tend *t, struct registry *registry)
{
    *registry = (struct registry){0};
    arena_init(&registry->arena);
    int rc = db_read(t->db, &registry->arena, load_body, registry, handle_err(t));
    if (rc < 0)
        return rc;
    int64_t *ids = arena_alloc(&registry->arena, (registry->count + 1) * sizeof *ids);
    bool *alive = arena_alloc(&registry->arena, (registry->count + 1) * sizeof *alive);
    if (ids == NULL || alive == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading workers");
    for (size_t i = 0; i < registry->count; i++)
        ids[i] = registry->entries[i].id;
    if (registry->count > 0 &&
        (rc = db_alive_check(t->db, ids, registry->count, alive, handle_err(t))) < 0)
        return rc;
    for (size_t i = 0; i < registry->count; i++)
        registry->entries[i].lock_held = alive[i];
    return 0;
}

/*
 * What the kernel or the server knows of a worker. Its process, where it can be looked at, is proof
 * either way. Otherwise its liveness lock counts, with a grace where a lost session can come back.
 */
static enum fate fate_of(tend *t, const struct entry *entry, int64_t now_ms)
{
    if (entry->here) {
        enum proc_fate fate = proc_fate(&entry->process);
        if (fate == PROC_DEAD)
            return FATE_DEAD;
        if (fate == PROC_ALIVE)
            return entry->lost_at_ms == TEND_UNSET ? FATE_ALIVE : FATE_BACK;
    } else if (db_one_machine(t->db)) {
        return FATE_DEAD; /* it ran before the machine was booted */
    }
    if (!entry->session)
        return FATE_ALIVE; /* cannot be told from here */
    if (entry->lock_held)
        return entry->lost_at_ms == TEND_UNSET ? FATE_ALIVE : FATE_BACK;
    if (entry->lost_at_ms == TEND_UNSET)
        return now_ms - entry->since_ms < NEWCOMER_MS ? FATE_ALIVE
               : db_alive_grace_ms(t->db) == 0        ? FATE_DEAD
                                                      : FATE_LOST;
    return now_ms - entry->lost_at_ms >= db_alive_grace_ms(t->db) ? FATE_DEAD : FATE_ALIVE;
}

/* --- recovery of the dead --- */

struct bury_call {
    tend *t;
    const struct entry *entry;
    struct recovery recovery;
    bool back;
};

static int bury_body(struct db_tx *tx, void *arg)
{
    struct bury_call *call = arg;
    const char *why =
        arena_printf(db_arena(tx), "worker %s (pid %lld on %s) has died", call->entry->name,
                     (long long)call->entry->process.pid, call->entry->host);
    call->recovery = (struct recovery){.by = call->t->name};
    return recover_worker(tx, &call->recovery, call->entry->id, why);
}

static int mark_body(struct db_tx *tx, void *arg)
{
    struct bury_call *call = arg;
    int64_t now_ms;
    int rc = db_time(tx, &now_ms);
    if (rc < 0)
        return rc;
    const struct db_value params[] = {db_int(call->entry->id),
                                      call->back ? db_null() : db_int(now_ms)};
    return db_each(tx, Q_WORKER_LOST, DB_LAST, params, 1, NULL);
}

static int bury(tend *t, const struct entry *entry, struct recovery *total)
{
    struct arena arena;
    struct bury_call call = {.t = t, .entry = entry};
    arena_init(&arena);
    int rc = db_write(t->db, &arena, bury_body, &call, handle_err(t));
    if (rc >= 0)
        recover_log(t, &call.recovery);
    arena_done(&arena);
    total->entries_reclaimed += call.recovery.entries_reclaimed;
    total->locks_cleaned += call.recovery.locks_cleaned;
    return rc;
}

int recover_dead_workers(tend *t, struct recovery *total)
{
    struct registry registry;
    int dead = 0;
    int rc = registry_load(t, &registry);
    for (size_t i = 0; rc >= 0 && i < registry.count; i++) {
        const struct entry *entry = &registry.entries[i];
        struct bury_call mark = {.t = t, .entry = entry};
        switch (fate_of(t, entry, registry.now_ms)) {
        case FATE_DEAD:
            rc = bury(t, entry, total);
            dead++;
            break;
        case FATE_LOST:
            rc = handle_write(t, mark_body, &mark);
            break;
        case FATE_BACK:
            mark.back = true;
            rc = handle_write(t, mark_body, &mark);
            break;
        case FATE_ALIVE:
            break;
        }
    }
    registry_done(&registry);
    return rc < 0 ? rc : dead;
}

/* --- those tied to a pid --- */

static bool same_process(const struct proc_id *a, const struct proc_id *b)
{
    return a->pid == b->pid && a->start_ticks == b->start_ticks && a->pid_ns == b->pid_ns &&
           strcmp(a->boot_id, b->boot_id) == 0;
}

int worker_of_pid(tend *t, int64_t pid, const char *name, int64_t *ret_id)
{
    struct register_call call = {.name = name};
    if (proc_of(pid, &call.process) < 0)
        return handle_fail(t, TEND_EINVAL, "there is no process %lld to tie the lease to",
                           (long long)pid);
    proc_host(call.host, sizeof call.host);
    struct registry registry;
    int rc = registry_load(t, &registry);
    for (size_t i = 0; rc >= 0 && i < registry.count; i++)
        if (!registry.entries[i].session &&
            same_process(&registry.entries[i].process, &call.process))
            call.id = registry.entries[i].id;
    registry_done(&registry);
    if (rc >= 0 && call.id == 0)
        rc = handle_write(t, register_body, &call);
    *ret_id = call.id;
    return rc < 0 ? rc : 0;
}

int worker_watch_all(tend *t)
{
    struct registry registry;
    struct proc_id self = {0};
    size_t count = 0;
    int rc = registry_load(t, &registry);
    struct proc_id *processes =
        rc < 0 ? NULL : arena_alloc(&registry.arena, (registry.count + 1) * sizeof *processes);
    proc_self(&self);
    if (processes != NULL) {
        for (size_t i = 0; i < registry.count; i++) {
            const struct entry *entry = &registry.entries[i];
            if (entry->here && entry->process.pid_ns == self.pid_ns &&
                entry->process.pid != self.pid)
                processes[count++] = entry->process;
        }
        rc = db_watch(t->db, processes, count, handle_err(t));
    }
    registry_done(&registry);
    return rc;
}

/* --- leaving --- */

/* Rows are name, owner, token. Those who wait for a lock are woken. */
static int leave_locks(struct db_tx *tx, const struct db_result *rows)
{
    for (size_t i = 0; i < rows->rows; i++) {
        const struct db_value lock[] = {*db_at(rows, i, 0), *db_at(rows, i, 2)};
        struct event_note event = {.who = db_string(rows, i, 1),
                                   .what = "lock.released",
                                   .token = db_number(rows, i, 2),
                                   .owner = db_string(rows, i, 1),
                                   .why = db_string(rows, i, 0)};
        int rc;
        if ((rc = db_each(tx, Q_LOCK_CLEAN, 0, lock, 1, NULL)) < 0 ||
            (rc = event_add(tx, &event, 0)) < 0)
            return rc;
        db_ring(tx);
    }
    return 0;
}

static int leave_body(struct db_tx *tx, void *arg)
{
    tend *t = arg;
    const struct db_value held[] = {db_int(t->worker_id), db_int(HELD_CHUNK)};
    struct db_result rows;
    int rc;
    do {
        if ((rc = db_run(tx, Q_JOB_OF_WORKER, 0, held, &rows)) < 0)
            return rc;
        struct move *moves = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *moves);
        if (moves == NULL)
            return TEND_ENOMEM;
        for (size_t i = 0; i < rows.rows; i++) {
            moves[i] = move_plain(db_number(&rows, i, 0), JOB_RUNNING, db_number(&rows, i, 2),
                                  MOVE_RELEASE);
            moves[i].why = "its worker has left";
        }
        if ((rc = move_jobs(tx, moves, rows.rows, 0, NULL)) < 0)
            return rc;
    } while (rows.rows == HELD_CHUNK);
    do {
        if ((rc = db_run(tx, Q_LOCK_OF_WORKER, 0, held, &rows)) < 0 ||
            (rc = leave_locks(tx, &rows)) < 0)
            return rc;
    } while (rows.rows == HELD_CHUNK);
    if ((rc = db_each(tx, Q_WORKER_REMOVE, 0, held, 1, NULL)) < 0)
        return rc;
    struct event_note event = {
        .who = t->name,
        .what = "worker.left",
        .data = arena_printf(db_arena(tx), "{\"worker\":%lld}", (long long)t->worker_id)};
    return event_add(tx, &event, DB_LAST);
}

void worker_leave(tend *t)
{
    if (t->worker_id == 0)
        return;
    if (handle_write(t, leave_body, t) < 0)
        handle_log(t, "worker %lld could not sign off: %s", (long long)t->worker_id,
                   handle_err(t)->text);
    db_alive_end(t->db, t->worker_id);
    t->worker_id = 0;
}

/* --- for people --- */

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
        const struct entry *entry = &registry->entries[i];
        enum fate fate = fate_of(t, entry, registry->now_ms);
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
        };
        holdings_of(&holdings, entry->id, &items[i].leases, &items[i].locks);
    }
    box->workers = (struct tend_workers){.count = registry->count, .items = items};
    *ret = &box->workers;
    return 0;
}

static int expired_body(struct db_tx *tx, void *arg)
{
    const struct db_value params[] = {db_now(tx)};
    return db_run(tx, Q_WORKER_EXPIRED, DB_LAST, params, arg);
}

int worker_count_held_by_dead(tend *t, int64_t *ret_leases, int64_t *ret_locks)
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
        if (workers->items[i].alive != 0)
            continue;
        holdings_of(&expired, workers->items[i].id, &leases, &locks);
        *ret_leases += workers->items[i].leases - leases;
        *ret_locks += workers->items[i].locks - locks;
    }
    tend_workers_free(workers);
    return rc < 0 ? rc : 0;
}
