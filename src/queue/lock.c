/* Named locks: a lease without a job. */
#include "base/clock.h"
#include "queue/bell.h"
#include "queue/event.h"
#include "queue/recover.h"
#include "queue/wait.h"
#include "queue/worker.h"
#include "store/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often a lock that has expired, but under which a job still runs, is looked at. */
enum { EXPIRED_LOOK_MS = 100 };

/* A clock that is set again and again is left alone. */
enum { SETTLES_MOST = 3 };

void tend_lock_request_init(struct tend_lock_request *request)
{
    *request = (struct tend_lock_request){.ttl_ms = TEND_LOCK_TTL_MS};
}

/* owed: what is yet to be given back to it. */
static void read_lock(struct tend_lock *lock, const struct lock_columns *from,
                      const struct db_owed *owed)
{
    int64_t now_ms = db_num(from->now);
    int64_t expires_ms =
        db_owed_end(owed, db_num(from->expires_at), now_ms, db_num(from->length_ms));
    *lock = (struct tend_lock){
        .token = db_num(from->token),
        .acquired_at_ms = db_num(from->acquired_at),
        .expires_at_ms = expires_ms,
        .worker_id = db_num(from->worker_id),
        .job_id = db_num(from->job_id),
        .expired = now_ms >= expires_ms && db_num(from->left_alone) == 0,
    };
    snprintf(lock->name, sizeof lock->name, "%s", db_str(from->name));
    snprintf(lock->owner, sizeof lock->owner, "%s", db_str(from->owner));
}

struct lock_call {
    const char *name, *owner;
    int64_t ttl_ms;
    int64_t worker_id;
    int64_t token; /* of the holder; TEND_UNSET: its name is enough */
    struct tend_lock lock;
    bool done;            /* acquired, released, extended, found */
    bool clock_unsettled; /* whether its time is over is not known: recover_settle_clock first */
};

static const struct db_owed nothing_owed;

/* The row of the lock, if there is one. */
static int look(struct db_tx *tx, const struct lock_call *call, unsigned how,
                struct lock_get_rows *ret)
{
    const struct lock_get_params params = {.name = db_text(call->name), .now = db_now(tx)};
    return run_lock_get(tx, how, params, ret);
}

static int get_lock(struct db_tx *tx, struct lock_call *call, const struct db_owed *owed)
{
    struct lock_get_rows rows;
    int rc = look(tx, call, 0, &rows);
    if (rc < 0)
        return rc;
    call->done = rows.count > 0;
    call->lock = (struct tend_lock){0};
    if (call->done)
        read_lock(&call->lock, &rows.at[0].lock, owed);
    return 0;
}

static int get_body(struct db_tx *tx, void *arg)
{
    return get_lock(tx, arg, &nothing_owed);
}

/* For a reader that has found it expired: whether whoever writes next will. */
static int get_expired_body(struct db_tx *tx, void *arg)
{
    struct db_owed owed;
    int rc = db_owed(tx, &owed);
    return rc < 0 ? rc : get_lock(tx, arg, &owed);
}

/* Whoever waits sleeps until the lock expires, as it was when they looked: they are woken where
 * that is earlier now. before: its row then. */
static void ring_if_shorter(struct db_tx *tx, const struct lock_call *call,
                            const struct lock_get_rows *before)
{
    if (before->count == 0)
        return;
    const struct lock_columns *lock = &before->at[0].lock;
    if (db_num(lock->expires_at) > db_num(lock->now) + call->ttl_ms)
        db_ring(tx, bell_of_lock(call->name));
}

/* Before the lock of another is taken over because its time is over; before: its row then. */
static int check_clock(struct db_tx *tx, struct lock_call *call, const struct lock_get_rows *before)
{
    struct tend_lock lock;
    if (before->count == 0)
        return 0;
    read_lock(&lock, &before->at[0].lock, &nothing_owed);
    int rc = lock.expired ? db_clock_look(tx) : 0;
    call->clock_unsettled = rc > 0;
    return rc <= 0 ? rc
                   : err_set(db_err(tx), TEND_EBUSY,
                             "lock %s is held by %s, and the store's clock was set while it was; "
                             "try again",
                             call->name, lock.owner);
}

static int refresh(struct db_tx *tx, const struct lock_call *call, bool *ret_taken)
{
    struct lock_refresh_rows taken;
    const struct lock_refresh_params params = {.name = db_text(call->name),
                                               .owner = db_text(call->owner),
                                               .held_for_ms = db_int(call->ttl_ms),
                                               .worker_id = db_int_or_null(call->worker_id),
                                               .token = db_int(call->token),
                                               .now = db_now(tx)};
    int rc = run_lock_refresh(tx, 0, params, &taken);
    *ret_taken = rc >= 0 && taken.count > 0;
    return rc;
}

/* Refreshes the lock where its token is given. */
static int acquire(struct db_tx *tx, const struct lock_call *call, bool *ret_taken)
{
    if (call->token != TEND_UNSET)
        return refresh(tx, call, ret_taken);
    struct lock_acquire_rows taken;
    const struct lock_acquire_params params = {.name = db_text(call->name),
                                               .owner = db_text(call->owner),
                                               .held_for_ms = db_int(call->ttl_ms),
                                               .worker_id = db_int_or_null(call->worker_id),
                                               .now = db_now(tx)};
    int rc = run_lock_acquire(tx, 0, params, &taken);
    *ret_taken = rc >= 0 && taken.count > 0;
    return rc;
}

static int acquire_body(struct db_tx *tx, void *arg)
{
    struct lock_call *call = arg;
    struct lock_get_rows before = {0};
    bool taken;
    int rc;
    call->clock_unsettled = false;
    if ((rc = look(tx, call, DB_LATER, &before)) < 0 || (rc = acquire(tx, call, &taken)) < 0 ||
        (rc = get_body(tx, arg)) < 0)
        return rc;
    call->done = taken;
    if (!call->done)
        return 0;
    if (!db_clock_is_even(db_store(tx)) && (rc = check_clock(tx, call, &before)) < 0)
        return rc;
    ring_if_shorter(tx, call, &before);
    struct event_note event = {.who = call->owner,
                               .what = "lock.acquired",
                               .token = call->lock.token,
                               .owner = call->owner,
                               .why = call->name};
    return event_add(tx, &event, DB_LAST);
}

/* Sleeps until the lock may be free: somebody rang, its holder died, or its time is over. */
static int wait_for_lock(tend *t, const struct lock_call *call, uint64_t seen,
                         const struct wait_clock *clock)
{
    int64_t now_ms;
    int rc;
    if ((rc = handle_now(t, wait_clock_patience(clock), &now_ms)) < 0 ||
        (rc = wait_watch(t, clock)) < 0)
        return rc;
    int64_t timeout_ms = call->lock.expires_at_ms - now_ms;
    int64_t unwatched_ms = rc;
    if (timeout_ms < 1)
        timeout_ms = EXPIRED_LOOK_MS;
    if (timeout_ms > WAIT_TICK_MS)
        timeout_ms = WAIT_TICK_MS;
    if (unwatched_ms > 0 && unwatched_ms < timeout_ms)
        timeout_ms = unwatched_ms;
    rc = db_wait(t->db, bell_of_lock(call->name), seen, wait_clock_limit(clock, timeout_ms),
                 handle_err(t));
    if (rc == DB_INTERRUPTED)
        return handle_fail(t, TEND_EINTERRUPTED, "interrupted while waiting for lock %s",
                           call->name);
    if (rc == DB_DEATH)
        recover_dead_quietly(t, wait_clock_patience(clock));
    return rc < 0 ? rc : 0;
}

static int check_names(tend *t, const char *name, const char *owner)
{
    int rc = handle_check_name(t, "lock", name != NULL ? name : "");
    return rc < 0 || owner == NULL ? rc : handle_check_name(t, "lock owner", owner);
}

static int check_request(tend *t, const struct tend_lock_request *request)
{
    int rc = check_names(t, request->name, request->owner);
    if (rc == 0)
        rc = handle_check_time(t, "the time to hold the lock", request->ttl_ms, 1, LEASE_MOST_MS);
    if (rc == 0 && request->while_pid < 0)
        rc = handle_fail(t, TEND_EINVAL, "%lld is no process to tie a lock to",
                         (long long)request->while_pid);
    if (rc == 0 && request->wait_ms < -1)
        rc = handle_fail(t, TEND_EINVAL, "waiting for %lld ms is not possible; -1 is for ever",
                         (long long)request->wait_ms);
    if (rc == 0 && (request->flags & ~TEND_CLAIM_BY_TIME) != 0)
        rc = handle_fail(t, TEND_EINVAL, "the flags of a lock (%#x) hold one that is none",
                         request->flags);
    return rc;
}

/* What was acquired for a process that has ended meanwhile is released again. */
static int keep_for_process(tend *t, const struct lock_call *call, const struct proc_id *process)
{
    int rc = worker_check_process(t, process, "locked");
    if (rc == 0)
        return 0;
    struct err kept = *handle_err(t);
    int released = tend_lock_release_token(t, call->name, call->owner, call->lock.token);
    if (released < 0)
        return released;
    *handle_err(t) = kept;
    return rc;
}

/*
 * The lock with the token that is to be refreshed can be gone; no wait brings it back. 0: it is
 * there, or the clock was set (*again: it may not have expired).
 */
static int look_for_token(tend *t, const struct lock_call *call, int64_t patience_ms, bool *again)
{
    const struct tend_lock *lock = &call->lock;
    *again = false;
    if (call->token == TEND_UNSET || (lock->token == call->token && !lock->expired))
        return 0;
    if (lock->token != 0 && !lock->expired)
        return handle_fail(t, TEND_EBUSY, "lock %s is held by %s under token %lld, not %lld",
                           call->name, lock->owner, (long long)lock->token, (long long)call->token);
    int rc = lock->token == call->token ? recover_settle_clock(t, patience_ms) : 0;
    *again = rc > 0;
    return rc != 0 ? (rc < 0 ? rc : 0)
                   : handle_fail(t, TEND_ELEASELOST, "lock %s with token %lld is no longer held",
                                 call->name, (long long)call->token);
}

int tend_lock_acquire(tend *t, const struct tend_lock_request *request, struct tend_lock *ret)
{
    struct lock_call call = {.name = request->name,
                             .owner = handle_owner(t, request->owner),
                             .ttl_ms = request->ttl_ms,
                             .worker_id = TEND_UNSET,
                             .token = request->token > 0 ? request->token : TEND_UNSET};
    int rc = check_request(t, request);
    if (rc < 0)
        return rc;
    struct wait_clock clock = wait_clock_start(request->wait_ms);
    if (request->while_pid > 0)
        rc = worker_of_pid(t, request->while_pid, call.owner, wait_clock_patience(&clock),
                           &clock.process, &call.worker_id);
    else if ((request->flags & TEND_CLAIM_BY_TIME) == 0)
        rc = worker_self(t, wait_clock_patience(&clock), &call.worker_id);
    bool looked = false;
    bool again = false;
    int settled = 0;
    while (rc >= 0) {
        if ((rc = worker_check_process(t, &clock.process, "locked")) < 0)
            return rc;
        uint64_t seen = request->wait_ms == 0 ? 0 : db_bell(t->db, bell_of_lock(call.name));
        if (ret != NULL)
            *ret = (struct tend_lock){0};
        rc = handle_write_within(t, wait_clock_patience(&clock), acquire_body, &call);
        if (rc < 0 && call.clock_unsettled && settled++ < SETTLES_MOST) {
            rc = recover_settle_clock(t, wait_clock_patience(&clock));
            continue;
        }
        if (rc < 0) {
            rc = wait_out(t, &clock, rc, "acquiring lock", call.name);
            continue;
        }
        if (ret != NULL)
            *ret = call.lock;
        if (call.done)
            return keep_for_process(t, &call, &clock.process);
        rc = look_for_token(t, &call, wait_clock_patience(&clock), &again);
        if (rc == TEND_ELEASELOST && ret != NULL)
            *ret = (struct tend_lock){0}; /* who holds it is not the question */
        if (rc < 0)
            return rc;
        if (again && settled++ < SETTLES_MOST)
            continue;
        /* A holder that has died or expired holds no longer; nobody may have noticed yet. */
        bool may_be_stale = call.lock.worker_id != TEND_UNSET || call.lock.job_id != TEND_UNSET;
        if (call.lock.expired || (may_be_stale && !looked)) {
            struct tend_recovery done;
            looked = true;
            recover_stale_quietly(t, wait_clock_patience(&clock), &done);
            if (done.locks_cleaned > 0)
                continue;
        }
        if (wait_clock_over(&clock))
            return handle_fail(t, TEND_EBUSY, "lock %s is held by %s", call.name, call.lock.owner);
        rc = wait_for_lock(t, &call, seen, &clock);
    }
    return rc;
}

/* 1: the time of the lock, which was looked at, is over: it is held no longer. 0: it is not, or the
 * store's clock was set and nobody knows. */
static int is_over(struct db_tx *tx, const struct lock_call *call)
{
    if (!call->lock.expired || db_clock_is_even(db_store(tx)))
        return call->lock.expired;
    int rc = db_clock_look(tx);
    return rc < 0 ? rc : rc == 0;
}

/* A lock whose time is over cannot be released any more, but is cleaned up. */
static int release_body(struct db_tx *tx, void *arg)
{
    struct lock_call *call = arg;
    int64_t freed = 0;
    int rc = get_body(tx, arg);
    if (rc < 0 || (rc = is_over(tx, call)) < 0)
        return rc;
    bool over = rc == 1;
    const struct lock_free_params params = {.name = db_text(call->name),
                                            .owner = db_text(call->owner),
                                            .token = db_int_or_null(call->token)};
    if ((rc = each_lock_free(tx, 0, &params, 1, &freed)) < 0)
        return rc;
    call->done = freed != 0 && !over;
    if (freed == 0)
        return 0;
    const char *cleaned = arena_printf(db_arena(tx), "lock %s: it has expired", call->name);
    struct event_note event = {.who = call->owner,
                               .what = over ? "lock.recovered" : "lock.released",
                               .token = call->lock.token,
                               .owner = call->owner,
                               .why = over ? cleaned : call->name};
    db_ring(tx, bell_of_lock(call->name));
    return event_add(tx, &event, DB_LAST);
}

int tend_lock_release(tend *t, const char *name, const char *owner)
{
    return tend_lock_release_token(t, name, owner, TEND_UNSET);
}

int tend_lock_release_token(tend *t, const char *name, const char *owner, int64_t token)
{
    struct lock_call call = {.name = name, .owner = handle_owner(t, owner), .token = token};
    int rc = check_names(t, name, owner);
    if (rc == 0)
        rc = handle_write(t, release_body, &call);
    return rc < 0 ? rc : call.done;
}

int tend_lock_get(tend *t, const char *name, struct tend_lock *ret)
{
    struct lock_call call = {.name = name};
    int rc = handle_check_name(t, "lock", name);
    if (rc == 0)
        rc = handle_read(t, get_body, &call);
    if (rc >= 0 && call.lock.expired)
        rc = handle_read(t, get_expired_body, &call);
    if (rc < 0)
        return rc;
    if (call.done && ret != NULL)
        *ret = call.lock;
    return call.done;
}

static int extend_body(struct db_tx *tx, void *arg)
{
    struct lock_call *call = arg;
    int64_t extended = 0;
    struct lock_get_rows before = {0};
    const struct lock_extend_params params = {.name = db_text(call->name),
                                              .owner = db_text(call->owner),
                                              .held_for_ms = db_int(call->ttl_ms),
                                              .now = db_now(tx),
                                              .token = db_int_or_null(call->token)};
    int rc = look(tx, call, DB_LATER, &before);
    if (rc < 0 || (rc = each_lock_extend(tx, DB_LAST, &params, 1, &extended)) < 0)
        return rc;
    call->done = extended != 0;
    if (call->done)
        ring_if_shorter(tx, call, &before);
    return 0;
}

/* A lock whose process has died is held no longer; nobody may have noticed yet. */
static int bury_dead_holder(tend *t, const char *name)
{
    struct tend_lock lock;
    int rc = tend_lock_get(t, name, &lock);
    pthread_mutex_lock(&t->mutex);
    int64_t own_id = t->worker_id;
    pthread_mutex_unlock(&t->mutex);
    if (rc > 0 && lock.worker_id != TEND_UNSET && lock.worker_id != own_id)
        recover_dead_quietly(t, -1);
    return rc < 0 ? rc : 0;
}

int tend_lock_extend(tend *t, const char *name, const char *owner, int64_t extra_ms)
{
    return tend_lock_extend_token(t, name, owner, TEND_UNSET, extra_ms);
}

int tend_lock_extend_token(tend *t, const char *name, const char *owner, int64_t token,
                           int64_t extra_ms)
{
    struct lock_call call = {
        .name = name, .owner = handle_owner(t, owner), .token = token, .ttl_ms = extra_ms};
    int rc = check_names(t, name, owner);
    if (rc == 0)
        rc = handle_check_time(t, "the time to hold the lock", extra_ms, 1, LEASE_MOST_MS);
    if (rc == 0)
        rc = bury_dead_holder(t, name);
    if (rc == 0)
        rc = handle_write(t, extend_body, &call);
    /* Perhaps it has expired by a clock that was set. */
    if (rc >= 0 && !call.done && (rc = recover_settle_clock(t, -1)) > 0)
        rc = handle_write(t, extend_body, &call);
    return rc < 0 ? rc : call.done;
}

int tend_is_lock_stale(tend *t, const char *name)
{
    struct tend_lock lock;
    int rc = tend_lock_get(t, name, &lock);
    return rc <= 0 ? rc : lock.expired;
}

struct locks_box {
    struct tend_locks locks; /* first: a struct tend_locks pointer is a pointer to its box */
    struct arena arena;
};

void tend_locks_free(struct tend_locks *locks)
{
    struct locks_box *box = (struct locks_box *)locks;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

static int list_locks(struct db_tx *tx, struct locks_box *box, const struct db_owed *owed)
{
    struct lock_list_rows rows;
    int rc = run_lock_list(tx, DB_LAST, (struct lock_list_params){.now = db_now(tx)}, &rows);
    if (rc < 0)
        return rc;
    struct tend_lock *items = arena_alloc(&box->arena, (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while listing locks");
    for (size_t i = 0; i < rows.count; i++)
        read_lock(&items[i], &rows.at[i].lock, owed);
    box->locks = (struct tend_locks){.count = rows.count, .items = items};
    return 0;
}

static int list_body(struct db_tx *tx, void *arg)
{
    return list_locks(tx, arg, &nothing_owed);
}

/* As get_expired_body. */
static int list_expired_body(struct db_tx *tx, void *arg)
{
    struct db_owed owed;
    int rc = db_owed(tx, &owed);
    return rc < 0 ? rc : list_locks(tx, arg, &owed);
}

static bool any_expired(const struct tend_locks *locks)
{
    for (size_t i = 0; i < locks->count; i++)
        if (locks->items[i].expired)
            return true;
    return false;
}

int tend_lock_list(tend *t, struct tend_locks **ret)
{
    struct locks_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while listing locks");
    arena_init(&box->arena);
    int rc = db_read(t->db, &box->arena, list_body, box, handle_err(t));
    if (rc >= 0 && any_expired(&box->locks))
        rc = db_read(t->db, &box->arena, list_expired_body, box, handle_err(t));
    if (rc < 0)
        tend_locks_free(&box->locks);
    else
        *ret = &box->locks;
    return rc;
}
