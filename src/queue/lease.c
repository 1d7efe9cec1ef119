#include "queue/lease.h"

#include "core/state.h"
#include "queue/add.h"

#include <stdlib.h>
#include <string.h>

struct verdict_call {
    const struct tend_lease *leases;
    size_t count;
    const int64_t *changed;
    unsigned replayed;
    int *ret_each;
    bool any_lost;
    struct tend_lease lost; /* the first */
    char owner[NAME_BYTES]; /* who has it now */
    int state;              /* -1: there is no such job */
};

static void note_lost(struct verdict_call *call, const struct tend_lease *lease,
                      const struct db_result *found)
{
    if (call->any_lost)
        return;
    call->any_lost = true;
    call->lost = *lease;
    call->state = found->rows == 0 ? -1 : (int)db_number(found, 0, 0);
    const char *owner = found->rows == 0 ? NULL : db_string(found, 0, 2);
    strncpy(call->owner, owner != NULL ? owner : "", NAME_BYTES - 1);
}

/* All questions go out before the first answer is waited for. */
static int ask_fences(struct db_tx *tx, const struct verdict_call *call, struct db_result *found)
{
    size_t last = call->count;
    for (size_t i = 0; i < call->count; i++)
        if (call->changed[i] == 0)
            last = i;
    for (size_t i = 0; i < call->count; i++) {
        const struct db_value params[] = {db_int(call->leases[i].id)};
        int rc = call->changed[i] != 0
                     ? 0
                     : db_run(tx, Q_JOB_FENCE, i == last ? 0 : DB_LATER, params, &found[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int verdict_body(struct db_tx *tx, void *arg)
{
    struct verdict_call *call = arg;
    struct db_result *found = arena_zalloc(db_arena(tx), (call->count + 1) * sizeof *found);
    if (found == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    int rc = ask_fences(tx, call, found);
    call->any_lost = false;
    for (size_t i = 0; rc >= 0 && i < call->count; i++) {
        call->ret_each[i] = 0;
        if (call->changed[i] != 0)
            continue;
        bool same = found[i].rows > 0 && db_number(&found[i], 0, 1) == call->leases[i].token;
        if (same && (call->replayed & LEASE_ENDED_IN(db_number(&found[i], 0, 0))) != 0)
            continue;
        call->ret_each[i] = TEND_ELEASELOST;
        note_lost(call, &call->leases[i], &found[i]);
    }
    return rc;
}

static int lost_sentence(tend *t, const struct verdict_call *call)
{
    long long id = (long long)call->lost.id;
    long long token = (long long)call->lost.token;
    if (call->state < 0)
        return handle_fail(t, TEND_ELEASELOST, "lease %lld:%lld is not held: there is no job %lld",
                           id, token, id);
    if (call->owner[0] != '\0')
        return handle_fail(t, TEND_ELEASELOST,
                           "lease %lld:%lld is lost: the job is now held by %s; stop working on it",
                           id, token, call->owner);
    return handle_fail(t, TEND_ELEASELOST,
                       "lease %lld:%lld is lost: the job is %s by now; stop working on it", id,
                       token, state_name((enum job_state)call->state));
}

int lease_verdicts(tend *t, const struct tend_lease *leases, size_t count, const int64_t *changed,
                   unsigned replayed, int *ret_each)
{
    size_t lost = 0;
    for (size_t i = 0; i < count; i++) {
        lost += changed[i] == 0;
        if (ret_each != NULL)
            ret_each[i] = 0;
    }
    if (lost == 0)
        return 0;
    int *each = ret_each != NULL ? ret_each : calloc(count, sizeof *each);
    if (each == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while looking at %zu leases", count);
    struct verdict_call call = {.leases = leases,
                                .count = count,
                                .changed = changed,
                                .replayed = replayed,
                                .ret_each = each};
    int rc = handle_read(t, verdict_body, &call);
    if (each != ret_each)
        free(each);
    if (rc < 0)
        return rc;
    return !call.any_lost ? 0 : lost_sentence(t, &call);
}

bool lease_end_matters(tend *t)
{
    pthread_mutex_lock(&t->mutex);
    bool rings = t->limited || !t->claimed;
    pthread_mutex_unlock(&t->mutex);
    return rings;
}

/* --- start, heartbeat, complete, release: the same shape, one query each --- */

struct lease_call {
    tend *t;
    const struct tend_lease *leases;
    size_t count;
    enum db_query query;
    int64_t ttl_ms; /* heartbeat */
    bool
        with_locks; /* heartbeat: jobs may have been taken along with a lock, by whichever handle */
    int64_t *changed;
};

/* The lock of a serial queue lasts as long as the lease it was taken with. */
static int extend_locks(struct db_tx *tx, const struct lease_call *call)
{
    struct db_value *ids = arena_alloc(db_arena(tx), call->count * sizeof *ids);
    size_t count = 0;
    if (ids == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    for (size_t i = 0; i < call->count; i++)
        if (call->changed[i] != 0)
            ids[count++] = db_int(call->leases[i].id);
    return db_each(tx, Q_LOCK_FOLLOW, DB_LAST, ids, count, NULL);
}

static int touch_body(struct db_tx *tx, void *arg)
{
    struct lease_call *call = arg;
    size_t width = call->query == Q_JOB_HEARTBEAT ? 4 : 3;
    struct db_value *params = arena_alloc(db_arena(tx), call->count * width * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    for (size_t i = 0; i < call->count; i++) {
        struct db_value *row = &params[i * width];
        row[0] = db_int(call->leases[i].id);
        row[1] = db_int(call->leases[i].token);
        if (width == 4)
            row[2] = db_int_or_null(call->ttl_ms);
        row[width - 1] = db_now(tx);
    }
    int rc = db_each(tx, call->query, call->with_locks ? 0 : DB_LAST, params, call->count,
                     call->changed);
    return rc < 0 || !call->with_locks ? rc : extend_locks(tx, call);
}

/* Runs body over the leases and turns what it changed into verdicts. */
static int call_on_leases(tend *t, struct lease_call *call, db_body *body, unsigned replayed,
                          int *ret_each)
{
    if (call->count == 0)
        return 0;
    int64_t *changed = calloc(call->count, sizeof *changed);
    if (changed == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory with %zu leases", call->count);
    call->changed = changed;
    int rc = handle_write(t, body, call);
    if (rc >= 0)
        rc = lease_verdicts(t, call->leases, call->count, changed, replayed, ret_each);
    free(changed);
    return rc;
}

int tend_start(tend *t, const struct tend_lease *leases, size_t count, int *ret_each)
{
    struct lease_call call = {.leases = leases, .count = count, .query = Q_JOB_START};
    return call_on_leases(t, &call, touch_body, 0, ret_each);
}

int tend_check(tend *t, const struct tend_lease *leases, size_t count, int *ret_each)
{
    int64_t *none = calloc(count + 1, sizeof *none);
    if (none == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while looking at %zu leases", count);
    int rc = lease_verdicts(t, leases, count, none, LEASE_ENDED_IN(JOB_RUNNING), ret_each);
    free(none);
    return rc;
}

int tend_heartbeat(tend *t, const struct tend_lease *leases, size_t count, int64_t ttl_ms,
                   int *ret_each)
{
    int rc = ttl_ms == TEND_UNSET ? 0 : handle_check_time(t, "a lease of", ttl_ms, 1);
    if (rc < 0)
        return rc;
    struct lease_call call = {.leases = leases,
                              .count = count,
                              .query = Q_JOB_HEARTBEAT,
                              .ttl_ms = ttl_ms,
                              .with_locks = true};
    return call_on_leases(t, &call, touch_body, 0, ret_each);
}

int lease_check_results(tend *t, const char *const *results, size_t count)
{
    for (size_t i = 0; results != NULL && i < count; i++) {
        int rc =
            results[i] == NULL ? 0 : add_check_json(t, "result", results[i], strlen(results[i]));
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Gives up the locks that leases were taken under; a lease without one is passed over. */
static int give_up_locks(struct db_tx *tx, const struct completion *completion)
{
    struct db_value *params = arena_alloc(db_arena(tx), completion->count * 2 * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", completion->count);
    for (size_t i = 0; i < completion->count; i++) {
        params[i * 2] = db_int(completion->leases[i].id);
        params[i * 2 + 1] = db_int(completion->leases[i].token);
    }
    return db_each(tx, Q_JOB_UNLOCK, DB_LATER, params, completion->count, NULL);
}

int lease_complete(struct db_tx *tx, const struct completion *completion, unsigned how)
{
    size_t count = completion->count;
    struct db_value *params = arena_alloc(db_arena(tx), count * 4 * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", count);
    for (size_t i = 0; i < count; i++) {
        struct db_value *row = &params[i * 4];
        row[0] = db_int(completion->leases[i].id);
        row[1] = db_int(completion->leases[i].token);
        row[2] = db_text(completion->results == NULL ? NULL : completion->results[i]);
        row[3] = db_now(tx);
    }
    if (completion->matters) {
        int rc = give_up_locks(tx, completion);
        if (rc < 0)
            return rc;
        db_ring(tx);
    }
    return db_each(tx, Q_JOB_COMPLETE, how, params, count, completion->changed);
}

static int complete_body(struct db_tx *tx, void *arg)
{
    return lease_complete(tx, arg, DB_LAST);
}

/* Completes what a plain completion did not match: lost, or taken under a lock through another
 * handle. */
static int complete_rest(tend *t, struct completion *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct completion one = {.leases = &all->leases[i],
                                 .count = 1,
                                 .results = all->results == NULL ? NULL : &all->results[i],
                                 .changed = &all->changed[i],
                                 .matters = true};
        int rc = all->changed[i] != 0 ? 0 : handle_write(t, complete_body, &one);
        if (rc < 0) {
            all->changed[i] = 0; /* it may have been run and undone before it failed */
            return rc;
        }
    }
    return 0;
}

int tend_complete(tend *t, const struct tend_lease *leases, size_t count,
                  const char *const *results, int *ret_each)
{
    int rc = lease_check_results(t, results, count);
    if (rc < 0 || count == 0)
        return rc;
    struct completion completion = {.leases = leases,
                                    .count = count,
                                    .results = results,
                                    .changed = calloc(count, sizeof *completion.changed),
                                    .matters = lease_end_matters(t)};
    if (completion.changed == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory with %zu leases", count);
    rc = handle_write(t, complete_body, &completion);
    if (rc >= 0)
        rc = lease_complete_verdicts(t, &completion, ret_each);
    free(completion.changed);
    return rc;
}

int lease_complete_verdicts(tend *t, struct completion *completion, int *ret_each)
{
    int rc = completion->matters ? 0 : complete_rest(t, completion);
    return rc < 0 ? rc
                  : lease_verdicts(t, completion->leases, completion->count, completion->changed,
                                   LEASE_ENDED_IN(JOB_DONE), ret_each);
}

/* --- phase --- */

struct phase_call {
    struct tend_lease lease;
    const char *phase;
    int64_t changed;
};

static int phase_body(struct db_tx *tx, void *arg)
{
    struct phase_call *call = arg;
    const struct db_value params[] = {db_int(call->lease.id), db_int(call->lease.token),
                                      db_text(call->phase), db_now(tx)};
    const struct db_value event[] = {db_int(call->lease.id), db_now(tx)};
    int rc = db_each(tx, Q_JOB_PHASE, 0, params, 1, &call->changed);
    if (rc < 0 || call->changed == 0)
        return rc;
    if ((rc = db_each(tx, Q_EVENT_OF_PHASE, 0, event, 1, NULL)) < 0)
        return rc;
    return db_each(tx, Q_EVENT_INTO_CHAIN, DB_LAST, event, 1, NULL);
}

int tend_phase(tend *t, struct tend_lease lease, const char *phase)
{
    struct phase_call call = {.lease = lease, .phase = phase};
    int rc = handle_check_name(t, "phase", phase);
    if (rc == 0)
        rc = handle_write(t, phase_body, &call);
    return rc < 0 ? rc : lease_verdicts(t, &lease, 1, &call.changed, 0, NULL);
}
