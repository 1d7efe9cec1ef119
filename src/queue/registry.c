#include "queue/registry.h"

#include "base/clock.h"

#include "store/queries.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A worker that has only just registered may not have taken its liveness lock yet, where that is
 * not done in one. */
enum { NEWCOMER_MS = 2000 };

/* How long a session is given to end after its process. */
enum { SESSION_AGAIN_MS = 10, SESSION_TRIES = 25 };

static int load_body(struct db_tx *tx, void *arg)
{
    struct registry *registry = arg;
    struct worker_list_rows rows;
    char boot_id[PROC_BOOT_BYTES];
    int rc = run_worker_list(tx, DB_LAST, (struct worker_list_params){.now = db_now(tx)}, &rows);
    if (rc < 0)
        return rc;
    bool known = proc_boot_id(boot_id) == 0;
    registry->entries =
        arena_zalloc(db_arena(tx), (rows.count + 1) * sizeof(struct registry_entry));
    if (registry->entries == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading workers");
    registry->count = rows.count;
    for (size_t i = 0; i < rows.count; i++) {
        const struct worker_list_row *row = &rows.at[i];
        struct registry_entry *entry = &registry->entries[i];
        *entry = (struct registry_entry){
            .id = db_num(row->id),
            .name = db_str(row->name),
            .host = db_str(row->host),
            .process = {.pid = db_num(row->pid),
                        .pid_ns = (uint64_t)db_num(row->pid_ns),
                        .start_ticks = db_num(row->start_ticks)},
            .session = db_num(row->session) != 0,
            .since_ms = db_num(row->since),
            .lost_at_ms = db_num(row->lost_at),
            .sign_ms = db_num(row->last_sign_at),
        };
        snprintf(entry->process.boot_id, sizeof entry->process.boot_id, "%s", db_str(row->boot_id));
        bool same_boot = known && strcmp(entry->process.boot_id, boot_id) == 0;
        entry->here = same_boot && db_num(row->doubtful) != 1;
        entry->elsewhere = known && !same_boot;
        registry->now_ms = db_num(row->now);
        registry->schema = db_num(row->schema_version);
    }
    return 0;
}

/* Whether the process of an entry is not to be seen here, although its session is there. */
static bool is_contradictory(tend *t, const struct registry_entry *entry)
{
    return entry->here && entry->session && entry->lock_held && !db_one_machine(t->db) &&
           proc_fate(&entry->process) == PROC_DEAD;
}

static int look_at_locks(tend *t, int64_t wait_ms, struct registry *registry, const int64_t *ids,
                         bool *alive)
{
    int rc = db_alive_check(t->db, ids, registry->count, wait_ms, alive, handle_err(t));
    for (size_t i = 0; rc >= 0 && i < registry->count; i++)
        registry->entries[i].lock_held = alive[i];
    return rc;
}

/* The server notices the end of a process a moment later than the kernel: it is given that long to
 * end the session. What is still there then is a process of another machine. */
static int await_sessions(tend *t, int64_t wait_ms, struct registry *registry, const int64_t *ids,
                          bool *alive)
{
    const struct timespec pause = {.tv_nsec = SESSION_AGAIN_MS * 1000000L};
    for (int tries = 0; tries < SESSION_TRIES; tries++) {
        bool any = false;
        for (size_t i = 0; i < registry->count; i++)
            any |= is_contradictory(t, &registry->entries[i]);
        if (!any)
            return 0;
        nanosleep(&pause, NULL);
        int rc = look_at_locks(t, wait_ms, registry, ids, alive);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A newer tend has changed the schema under this one, which goes on with what it has begun
 * (registry_check_schema). */
static void note_schema(tend *t, int64_t schema)
{
    const struct db_migration *known = db_migrations(t->db);
    int64_t newest = 0;
    while (known[newest].sql != NULL)
        newest++;
    if (schema != TEND_UNSET && schema > newest)
        __atomic_store_n(&t->newer_schema, (int)schema, __ATOMIC_RELAXED);
}

int registry_check_schema(tend *t)
{
    int schema = __atomic_load_n(&t->newer_schema, __ATOMIC_RELAXED);
    return schema == 0
               ? 0
               : handle_fail(t, TEND_ESCHEMA,
                             "the store has schema %d now, which this tend does not know; use a "
                             "newer tend",
                             schema);
}

void registry_done(struct registry *registry)
{
    arena_done(&registry->arena);
}

int registry_load(tend *t, int64_t wait_ms, struct registry *registry)
{
    *registry = (struct registry){0};
    arena_init(&registry->arena);
    int rc = db_read_within(t->db, wait_ms, &registry->arena, load_body, registry, handle_err(t));
    if (rc < 0)
        return rc;
    int64_t *ids = arena_alloc(&registry->arena, (registry->count + 1) * sizeof *ids);
    bool *alive = arena_alloc(&registry->arena, (registry->count + 1) * sizeof *alive);
    note_schema(t, registry->count > 0 ? registry->schema : TEND_UNSET);
    if (ids == NULL || alive == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading workers");
    for (size_t i = 0; i < registry->count; i++)
        ids[i] = registry->entries[i].id;
    /* Also when there is none: whether the store is still there is asked on the way. */
    if ((rc = look_at_locks(t, wait_ms, registry, ids, alive)) < 0)
        return rc;
    return await_sessions(t, wait_ms, registry, ids, alive);
}

bool registry_is_stopped(const struct registry_entry *entry)
{
    struct proc_stat stat;
    return entry->here && proc_fate(&entry->process) == PROC_ALIVE &&
           proc_stat(entry->process.pid, &stat) == 0 &&
           proc_same_start(stat.start_ticks, entry->process.start_ticks) && proc_is_stopped(&stat);
}

/* A time to come is from before the clock was set back. */
static bool is_within(int64_t since_ms, int64_t ms, int64_t now_ms)
{
    return since_ms <= now_ms && now_ms - since_ms < ms;
}

/* Whether this machine was booted after the worker has registered, by a clock that runs evenly. */
static bool is_of_earlier_boot(const struct registry_entry *entry, int64_t now_ms)
{
    return entry->since_ms < now_ms - clock_boot_ms();
}

/*
 * What the kernel or the server knows of a worker. A session that is there has a process: copies of
 * a virtual machine have the same boot id, and do not see each other's. (Where that was noticed,
 * the boot id is doubtful, and no process is looked for.) Then its process, where it can be looked
 * at, is proof either way. Otherwise its liveness lock counts, with a grace where a lost session
 * can come back; the grace begins anew when it has given a sign of life since. Another boot id
 * alone is no proof: containers can have one of their own.
 */
enum fate registry_fate(tend *t, const struct registry_entry *entry, int64_t now_ms,
                        bool *ret_by_lock)
{
    if (ret_by_lock != NULL)
        *ret_by_lock = false;
    if (!db_one_machine(t->db) && entry->session && entry->lock_held)
        return entry->lost_at_ms == TEND_UNSET ? FATE_ALIVE : FATE_BACK;
    if (entry->here) {
        enum proc_fate fate = proc_fate(&entry->process);
        if (fate == PROC_DEAD)
            return FATE_DEAD;
        if (fate == PROC_ALIVE)
            return entry->lost_at_ms == TEND_UNSET ? FATE_ALIVE : FATE_BACK;
    } else if (entry->elsewhere && !entry->session && db_one_machine(t->db) &&
               is_of_earlier_boot(entry, now_ms)) {
        return FATE_DEAD;
    }
    if (!entry->session)
        return FATE_UNKNOWN;
    if (entry->lock_held)
        return entry->lost_at_ms == TEND_UNSET ? FATE_ALIVE : FATE_BACK;
    if (ret_by_lock != NULL)
        *ret_by_lock = true;
    if (entry->lost_at_ms == TEND_UNSET)
        return !db_alive_in_body(t->db) && is_within(entry->since_ms, NEWCOMER_MS, now_ms)
                   ? FATE_ALIVE
               : db_alive_grace_ms(t->db) == 0 ? FATE_DEAD
                                               : FATE_LOST;
    if (now_ms < entry->lost_at_ms)
        return FATE_LOST; /* the clock was set back */
    if (now_ms - entry->lost_at_ms < db_alive_grace_ms(t->db))
        return FATE_ALIVE;
    return entry->sign_ms != TEND_UNSET && entry->sign_ms > entry->lost_at_ms ? FATE_LOST
                                                                              : FATE_DEAD;
}
