/* Workers register, so that their death can be told by more than the time of a lease, and leave. */
#include "queue/worker.h"

#include "base/clock.h"
#include "base/text.h"
#include "queue/bell.h"
#include "queue/event.h"
#include "queue/move.h"
#include "queue/registry.h"
#include "store/queries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HELD_CHUNK = 1000, LEAVE_TRIES = 3, LEAVE_AGAIN_MS = 1000 };

/* How long closing waits for a store that could not be written just before. */
enum { LEAVE_BLOCKED_MS = 200 };

/* --- registering --- */

enum { ID_TRIES = 5, ID_STEP = 1 << 20, BURIED_TRIES = 3 };

struct register_call {
    const char *name;
    char host[128];
    struct proc_id process;
    bool session;
    struct db *alive;     /* where its liveness lock is taken along with the entry; NULL: later */
    int64_t registration; /* random; under it a repeated call finds what the first has made */
    int64_t id;
};

/* The liveness lock is there before anybody can see the entry. */
static int begin_alive(struct db_tx *tx, const struct register_call *call)
{
    return call->alive == NULL ? 0 : db_alive_begin(call->alive, call->id, -1, db_err(tx));
}

/*
 * The lock of an id that is new here may be held by a worker of a store that was at this path
 * before. Rolled back, the entry would get the same id the next time: it is given up in this
 * transaction, and the ids go on far above.
 */
static int add_entry(struct db_tx *tx, struct register_call *call)
{
    const struct worker_add_params params = {
        .name = db_text(call->name),
        .host = db_text(call->host),
        .boot_id = db_text(call->process.boot_id),
        .pid = db_int(call->process.pid),
        .pid_ns = db_int((int64_t)call->process.pid_ns),
        .start_ticks = db_int(call->process.start_ticks),
        .session = db_int(call->session),
        .now = db_now(tx),
        .registration = db_int(call->registration),
    };
    for (int tries = 1;; tries++) {
        int rc = each_worker_add(tx, 0, &params, 1, &call->id);
        if (rc < 0 || (rc = begin_alive(tx, call)) != TEND_EBUSY || tries == ID_TRIES)
            return rc;
        const struct worker_remove_params held = {.id = db_int(call->id)};
        const struct worker_skip_ids_params skip = {.above = db_int(call->id + ID_STEP)};
        if ((rc = each_worker_remove(tx, 0, &held, 1, NULL)) < 0 ||
            (rc = run_worker_skip_ids(tx, 0, skip)) < 0)
            return rc;
    }
}

static int find_entry(struct db_tx *tx, int64_t registration, struct worker_find_rows *ret)
{
    const struct worker_find_params params = {.registration = db_int(registration)};
    return run_worker_find(tx, 0, params, ret);
}

static int register_body(struct db_tx *tx, void *arg)
{
    struct register_call *call = arg;
    struct worker_find_rows found;
    int rc = find_entry(tx, call->registration, &found);
    if (rc < 0)
        return rc;
    if (found.count > 0) {
        call->id = db_num(found.at[0].id);
        return begin_alive(tx, call);
    }
    if ((rc = add_entry(tx, call)) < 0)
        return rc;
    db_ring(tx, DB_BELLS_ALL); /* those who wait watch it from now on */
    struct event_note event = {.who = call->name,
                               .what = "worker.joined",
                               .data =
                                   arena_printf(db_arena(tx), "{\"worker\":%lld,\"pid\":%lld}",
                                                (long long)call->id, (long long)call->process.pid)};
    return event_add(tx, &event, DB_LAST);
}

static int64_t new_registration(tend *t)
{
    return (int64_t)(rng_u64(&t->rng) >> 1);
}

/*
 * The worker that was taken for dead, if there is one, is this handle's no longer: its id, or 0.
 * Claims made before it was noticed are given back when the worker leaves; without memory they end
 * by their time. Under the mutex.
 */
static int64_t note_buried(tend *t)
{
    int64_t id = t->worker_id;
    if (id == 0)
        return 0;
    int64_t *more = realloc(t->buried, (t->buried_count + 1) * sizeof *more);
    if (more != NULL) {
        t->buried = more;
        t->buried[t->buried_count++] = id;
    }
    t->worker_id = t->registration = 0;
    return id;
}

/* What could not be read of a process: rc is of proc_self or proc_of, and errno as they left it. */
static int fail_unread(tend *t, int rc, const char *who)
{
    if (rc != TEND_ENOMEM)
        return handle_fail(t, rc, "%s cannot be identified; is /proc mounted?", who);
    int problem = errno;
    return handle_fail(t, rc, "%s cannot be identified: %s; %s", who, strerror(problem),
                       err_lack(problem));
}

static int write_entry(tend *t, int64_t wait_ms, struct register_call *call)
{
    int rc = handle_write_within(t, wait_ms, register_body, call);
    if (rc == TEND_ECONFLICT) /* another call, or an earlier try, has made it meanwhile */
        rc = handle_write_within(t, wait_ms, register_body, call);
    return rc;
}

/* In the store. Not under the mutex. */
static int register_in_store(tend *t, int64_t wait_ms, struct register_call *call)
{
    bool in_body = db_alive_in_body(t->db);
    if (in_body)
        call->alive = t->db;
    proc_host(call->host, sizeof call->host);
    int rc = proc_self(&call->process);
    if (rc < 0)
        return fail_unread(t, rc, "this process");
    for (int tries = 1;; tries++) {
        rc = write_entry(t, wait_ms, call);
        if (rc >= 0 && !in_body)
            rc = db_alive_begin(t->db, call->id, wait_ms, handle_err(t));
        /* It took so long that others have taken it for dead: its entry is gone. */
        if (rc < 0 || tries == BURIED_TRIES || !db_alive_buried(t->db, call->id))
            break;
        db_alive_end(t->db, call->id);
    }
    if (rc < 0 && in_body && call->id != 0) /* the entry is not there, or not known to be */
        db_alive_end(t->db, call->id);
    return rc;
}

/*
 * The registration is drawn anew only when a worker has left or was taken for dead: when a call
 * fails, nobody knows whether its entry was made, and the next call takes that one. Under the
 * mutex, which is given up meanwhile: whoever needs it for something else does not wait for the
 * store.
 */
static int register_self(tend *t, int64_t wait_ms)
{
    int64_t buried_id = note_buried(t);
    if (t->registration == 0)
        t->registration = new_registration(t);
    struct register_call call = {.name = t->name, .session = true, .registration = t->registration};
    t->registering = true;
    pthread_mutex_unlock(&t->mutex);
    if (buried_id != 0)
        db_alive_end(t->db, buried_id);
    int rc = register_in_store(t, wait_ms, &call);
    pthread_mutex_lock(&t->mutex);
    if (rc >= 0)
        t->worker_id = call.id;
    t->registering = false;
    pthread_cond_broadcast(&t->registered);
    return rc;
}

/* Under the mutex. */
static bool is_registered(tend *t)
{
    return t->worker_id != 0 && !db_alive_buried(t->db, t->worker_id);
}

/*
 * One thread registers, the others wait for it, each no longer than its own *wait_ms, of which the
 * rest is left in it. 1: it is registered; 0: nobody does so, the caller is next; TEND_EBUSY: its
 * time is over. Under the mutex, which is given up meanwhile.
 */
static int wait_for_other(tend *t, int64_t *wait_ms)
{
    if (!t->registering)
        return 0;
    int64_t most_ms = *wait_ms < 0 ? t->options.busy_ms : *wait_ms;
    int64_t until_ms = clock_mono_ms() + (most_ms < SPAN_MOST_MS ? most_ms : SPAN_MOST_MS);
    const struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    while (t->registering &&
           pthread_cond_clockwait(&t->registered, &t->mutex, CLOCK_MONOTONIC, &until) == 0)
        continue;
    *wait_ms = until_ms - clock_mono_ms();
    if (is_registered(t))
        return 1;
    return t->registering || *wait_ms <= 0 ? TEND_EBUSY : 0;
}

static int nothing_body(struct db_tx *tx, void *arg)
{
    (void)tx;
    (void)arg;
    return 0;
}

/* Why the other thread is not through, the store knows; without waiting for it. */
static int fail_late(tend *t)
{
    int rc = handle_write_within(t, 0, nothing_body, NULL);
    return rc < 0
               ? rc
               : handle_fail(t, TEND_EBUSY,
                             "worker %s is being registered by another thread; try again", t->name);
}

int worker_self(tend *t, int64_t wait_ms, int64_t *ret_id)
{
    pthread_mutex_lock(&t->mutex);
    int rc = is_registered(t) ? 1 : wait_for_other(t, &wait_ms);
    bool late = rc < 0;
    if (rc == 0)
        rc = register_self(t, wait_ms);
    *ret_id = t->worker_id;
    pthread_mutex_unlock(&t->mutex);
    if (late)
        return fail_late(t);
    return rc < 0 ? rc : 0;
}

/* --- those tied to a pid --- */

/* The same for every call about a process, so that those that come together make one entry. */
static int64_t registration_of(const struct proc_id *process)
{
    char text[128];
    snprintf(text, sizeof text, "%lld %lld %llu %s", (long long)process->pid,
             (long long)process->start_ticks, (unsigned long long)process->pid_ns,
             process->boot_id);
    return (int64_t)(text_hash(text) >> 1);
}

static bool same_process(const struct proc_id *a, const struct proc_id *b)
{
    return a->pid == b->pid && proc_same_start(a->start_ticks, b->start_ticks) &&
           a->pid_ns == b->pid_ns && strcmp(a->boot_id, b->boot_id) == 0;
}

int worker_of_pid(tend *t, int64_t pid, const char *name, int64_t wait_ms,
                  struct proc_id *ret_process, int64_t *ret_id)
{
    struct register_call call = {.name = name};
    int rc = proc_of(pid, &call.process);
    if (rc == TEND_ENOMEM)
        return fail_unread(t, rc, "the process given");
    if (rc < 0)
        return handle_fail(t, TEND_EINVAL,
                           "there is no process %lld; give the id of a running process",
                           (long long)pid);
    proc_host(call.host, sizeof call.host);
    struct registry registry;
    rc = registry_load(t, wait_ms, &registry);
    for (size_t i = 0; rc >= 0 && i < registry.count; i++)
        if (!registry.entries[i].session &&
            same_process(&registry.entries[i].process, &call.process))
            call.id = registry.entries[i].id;
    registry_done(&registry);
    if (rc >= 0 && call.id == 0) {
        call.registration = registration_of(&call.process);
        rc = write_entry(t, wait_ms, &call);
    }
    *ret_process = call.process;
    *ret_id = call.id;
    return rc < 0 ? rc : 0;
}

int worker_check_process(tend *t, const struct proc_id *process, const char *what)
{
    if (process->pid == 0 || proc_fate(process) != PROC_DEAD)
        return 0;
    return handle_fail(t, TEND_ESTATE, "process %lld has ended; nothing was %s for it",
                       (long long)process->pid, what);
}

int worker_watch_all(tend *t, int64_t wait_ms)
{
    struct registry registry;
    struct proc_id self = {0};
    size_t count = 0;
    int rc = registry_load(t, wait_ms, &registry);
    struct db_watched *workers =
        rc < 0 ? NULL : arena_alloc(&registry.arena, (registry.count + 1) * sizeof *workers);
    proc_self(&self);
    if (workers != NULL) {
        for (size_t i = 0; i < registry.count; i++) {
            const struct registry_entry *entry = &registry.entries[i];
            bool same_ns = entry->process.pid_ns == self.pid_ns;
            if (!entry->here || (same_ns && entry->process.pid == self.pid))
                continue;
            struct db_watched worker = {.id = entry->session && entry->lock_held ? entry->id : 0};
            /* Where its session is there, and its process is not, it runs on another machine. */
            if (same_ns && (worker.id == 0 || db_one_machine(t->db) ||
                            proc_fate(&entry->process) != PROC_DEAD))
                worker.process = entry->process;
            if (worker.id != 0 || worker.process.pid != 0)
                workers[count++] = worker;
        }
        rc = db_watch(t->db, workers, count, handle_err(t));
    }
    registry_done(&registry);
    return rc;
}

/* --- leaving --- */

/* Those who wait for a lock are woken. */
static int leave_locks(struct db_tx *tx, const struct lock_of_worker_rows *rows, int64_t id)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct lock_of_worker_row *lock = &rows->at[i];
        const struct lock_clean_params params = {
            .name = lock->name, .token = lock->token, .worker_id = db_int(id)};
        int64_t cleaned = 0;
        struct event_note event = {.who = db_str(lock->owner),
                                   .what = "lock.released",
                                   .token = db_num(lock->token),
                                   .owner = db_str(lock->owner),
                                   .why = db_str(lock->name)};
        int rc = each_lock_clean(tx, 0, &params, 1, &cleaned);
        if (rc >= 0 && cleaned != 0)
            rc = event_add(tx, &event, 0);
        if (rc < 0)
            return rc;
        db_ring(tx, bell_of_lock(db_str(lock->name)));
    }
    return 0;
}

struct keep_list {
    const struct tend_lease *leases;
    size_t count;
};

static bool is_kept(const struct keep_list *keep, int64_t id, int64_t token)
{
    for (size_t i = 0; keep != NULL && i < keep->count; i++)
        if (keep->leases[i].id == id && keep->leases[i].token == token)
            return true;
    return false;
}

/* The jobs held under one id are given back, but for those in keep (may be NULL). How many. */
static int give_back_jobs(struct db_tx *tx, int64_t id, const struct keep_list *keep,
                          const char *why)
{
    struct job_of_worker_rows rows;
    int rc =
        run_job_of_worker(tx, 0, (struct job_of_worker_params){.worker_id = db_int(id)}, &rows);
    if (rc < 0)
        return rc;
    struct move *moves = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *moves);
    size_t count = 0;
    if (moves == NULL)
        return TEND_ENOMEM;
    for (size_t i = 0; i < rows.count; i++) {
        const struct policy_columns *job = &rows.at[i].policy;
        int64_t job_id = db_num(job->id);
        int64_t token = db_num(job->token);
        if (is_kept(keep, job_id, token))
            continue;
        moves[count] =
            move_plain(job_id, JOB_RUNNING, token, MOVE_RELEASE, db_bell_of(db_str(job->queue)));
        moves[count++].why = why;
    }
    rc = move_jobs(tx, moves, count, 0, NULL);
    return rc < 0 ? rc : (int)count;
}

static int leave_jobs(struct db_tx *tx, const tend *t, int64_t id)
{
    return give_back_jobs(tx, id, NULL, arena_printf(db_arena(tx), "worker %s has left", t->name));
}

struct unknown_call {
    struct keep_list keep;
    int64_t id;
};

static int unknown_body(struct db_tx *tx, void *arg)
{
    const struct unknown_call *call = arg;
    return give_back_jobs(tx, call->id, &call->keep, "the answer to its claim was lost");
}

int worker_release_unknown(tend *t, const struct tend_lease *known, size_t count)
{
    pthread_mutex_lock(&t->mutex);
    struct unknown_call call = {.keep = {known, count}, .id = t->worker_id};
    pthread_mutex_unlock(&t->mutex);
    return call.id == 0 ? 0 : handle_write(t, unknown_body, &call);
}

/* All named locks held under it. */
static int leave_all_locks(struct db_tx *tx, int64_t id)
{
    struct lock_of_worker_rows rows;
    int rc;
    const struct lock_of_worker_params held = {.worker_id = db_int(id),
                                               .limit = db_int(HELD_CHUNK)};
    do {
        if ((rc = run_lock_of_worker(tx, 0, held, &rows)) < 0 ||
            (rc = leave_locks(tx, &rows, id)) < 0)
            return rc;
    } while (rows.count == HELD_CHUNK);
    return 0;
}

static int leave_body(struct db_tx *tx, void *arg)
{
    tend *t = arg;
    struct worker_find_rows found;
    int rc = find_entry(tx, t->registration, &found);
    if (rc < 0)
        return rc;
    /* The entry may have been made unbeknown, or be gone because the worker was taken for dead. */
    int64_t removed = 0;
    int64_t id = found.count > 0 ? db_num(found.at[0].id) : t->worker_id;
    const struct worker_remove_params remove = {.id = db_int(id)};
    /* As whoever takes it for dead: the worker, then its jobs, then its locks. */
    if ((rc = each_worker_remove(tx, 0, &remove, 1, &removed)) < 0)
        return rc;
    rc = leave_jobs(tx, t, id);
    for (size_t i = 0; rc >= 0 && i < t->buried_count; i++)
        rc = leave_jobs(tx, t, t->buried[i]);
    if (rc >= 0)
        rc = leave_all_locks(tx, id);
    for (size_t i = 0; rc >= 0 && i < t->buried_count; i++)
        rc = leave_all_locks(tx, t->buried[i]);
    if (rc < 0 || removed == 0)
        return rc;
    struct event_note event = {.who = t->name,
                               .what = "worker.left",
                               .data =
                                   arena_printf(db_arena(tx), "{\"worker\":%lld}", (long long)id)};
    return event_add(tx, &event, DB_LAST);
}

void worker_leave(tend *t)
{
    if (t->registration == 0)
        return;
    int64_t begun_ms = clock_mono_ms();
    int64_t wait_ms = db_is_blocked(t->db) ? LEAVE_BLOCKED_MS : -1;
    int rc = TEND_EUNREACHABLE;
    /* Done twice it does no harm; but a server that is gone is not waited for again and again. */
    for (int i = 0; rc == TEND_EUNREACHABLE && i < LEAVE_TRIES; i++)
        if (i == 0 || clock_mono_ms() - begun_ms < LEAVE_AGAIN_MS)
            rc = handle_write_within(t, wait_ms, leave_body, t);
    if (rc < 0)
        handle_log(t, "worker %s could not sign off: %s", t->name, handle_err(t)->text);
    if (t->worker_id != 0)
        db_alive_end(t->db, t->worker_id);
    t->worker_id = t->registration = 0;
}
