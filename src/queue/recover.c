#include "queue/recover.h"

#include "base/text.h"
#include "base/timetext.h"
#include "queue/bell.h"
#include "queue/event.h"
#include "queue/holder.h"
#include "queue/hook.h"
#include "queue/move.h"
#include "queue/policy_row.h"
#include "queue/worker.h"

#include <string.h>

enum { CHUNK = 1000 };

/* A clock that is set again and again is left to the next recovery. */
enum { SETTLES_MOST = 3 };

struct recovery_note {
    const char *text;
    struct recovery_note *next;
};

static void note(struct db_tx *tx, struct recovery *recovery, const char *text)
{
    struct recovery_note *entry = arena_alloc(db_arena(tx), sizeof *entry);
    if (entry == NULL || text == NULL)
        return; /* the event tells it all the same */
    *entry = (struct recovery_note){.text = text, .next = recovery->notes};
    recovery->notes = entry;
}

void recover_log(tend *t, const struct recovery *recovery)
{
    for (const struct recovery_note *entry = recovery->notes; entry != NULL; entry = entry->next)
        handle_log(t, "%s", entry->text);
}

/* The move for a job whose owner is gone: back to pending, or quarantined when it has crashed too
 * often. */
static struct move crash_move(struct db_tx *tx, const struct policy_row *row, const char *by,
                              const char *why)
{
    struct crash_verdict verdict =
        policy_after_crash(&row->policy, (int)row->crashes, row->started);
    struct move move =
        move_plain(row->id, JOB_RUNNING, row->token, verdict.verb, db_bell_of(row->queue));
    move.crashes = verdict.crashes;
    move.by = by;
    move.why = arena_printf(db_arena(tx), "%s; it was held by %s%s", why, row->owner,
                            row->started ? "" : " and not started");
    if (verdict.verb == MOVE_QUARANTINE) {
        move.error_class = "poison";
        move.error_text =
            arena_printf(db_arena(tx), "its worker was lost %d time%s while it ran, last: %s",
                         verdict.crashes, plural(verdict.crashes), move.why);
    }
    return move;
}

/* Those of the moves that have quarantined a job call the hooks. */
static int tell_hooks(struct db_tx *tx, const struct move *moves, const int64_t *moved,
                      size_t count)
{
    struct hook_any_rows hooks;
    size_t ended = 0;
    int rc = run_hook_any(tx, 0, &hooks);
    if (rc < 0 || hooks.count == 0)
        return rc;
    struct hook_ending *endings = arena_alloc(db_arena(tx), count * sizeof *endings);
    if (endings == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
    for (size_t i = 0; i < count; i++)
        if (moved[i] != 0 && moves[i].verb == MOVE_QUARANTINE)
            endings[ended++] =
                (struct hook_ending){.lease = {.id = moves[i].id, .token = moves[i].token},
                                     .what = HOOK_FAILED | HOOK_POISON};
    return hook_call(tx, endings, ended);
}

/* Jobs that are taken from their owners. */
struct reclaim {
    struct move *moves;
    size_t count;
};

static int reclaim_begin(struct db_tx *tx, struct reclaim *reclaim, size_t most)
{
    *reclaim =
        (struct reclaim){.moves = arena_alloc(db_arena(tx), (most + 1) * sizeof *reclaim->moves)};
    return reclaim->moves != NULL
               ? 0
               : err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
}

/* Only a running job has an owner; others are left out. */
static void reclaim_add(struct db_tx *tx, struct reclaim *reclaim, const struct recovery *recovery,
                        const struct policy_columns *job, const char *why)
{
    struct policy_row row;
    policy_row_read(&row, job);
    if (row.state == JOB_RUNNING)
        reclaim->moves[reclaim->count++] = crash_move(tx, &row, recovery->by, why);
}

/* Moves them; one compare-and-set each, so that each is reclaimed once. */
static int reclaim_all(struct db_tx *tx, struct recovery *recovery, const struct reclaim *reclaim)
{
    struct move *moves = reclaim->moves;
    size_t count = reclaim->count;
    int64_t *moved = arena_zalloc(db_arena(tx), (count + 1) * sizeof *moved);
    if (moved == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
    int rc = move_jobs(tx, moves, count, 0, moved);
    int64_t quarantined = 0;
    for (size_t i = 0; rc >= 0 && i < count; i++) {
        if (moved[i] == 0)
            continue;
        recovery->entries_reclaimed++;
        quarantined += moves[i].verb == MOVE_QUARANTINE;
        note(tx, recovery,
             arena_printf(db_arena(tx), "job %lld %s: %s", (long long)moves[i].id,
                          moves[i].verb == MOVE_QUARANTINE ? "quarantined" : "recovered",
                          moves[i].why));
    }
    recovery->entries_quarantined += quarantined;
    return rc < 0 || quarantined == 0 ? rc : tell_hooks(tx, moves, moved, count);
}

static int promote_due(struct db_tx *tx, struct recovery *recovery,
                       const struct job_alarms_rows *jobs)
{
    struct job_due_params *params = arena_alloc(db_arena(tx), (jobs->count + 1) * sizeof *params);
    size_t count = 0;
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
    for (size_t i = 0; i < jobs->count; i++) {
        const struct policy_columns *job = &jobs->at[i].policy;
        if (db_num(job->state) != JOB_SCHEDULED)
            continue;
        params[count++] =
            (struct job_due_params){.id = job->id, .now = db_now(tx), .who = db_text(recovery->by)};
        db_ring(tx, db_bell_of(db_str(job->queue)));
    }
    recovery->jobs_due += (int64_t)count;
    return each_job_due(tx, 0, params, count, NULL);
}

/*
 * Where the clock may have jumped, or the store been out of reach for all, an expired lease is no
 * evidence against a worker that lives: it is extended once, in which time a healthy worker
 * heartbeats. Whoever is still silent then has been silent while it could write.
 */
static bool is_spared(const struct job_alarms_row *alarm)
{
    return db_num(alarm->spared_ms) != TEND_UNSET;
}

static int warn_one(struct db_tx *tx, struct recovery *recovery, const struct job_alarms_row *alarm)
{
    int64_t warned = 0;
    const struct policy_columns *job = &alarm->policy;
    char spared[DURATION_TEXT_BYTES];
    const struct job_warn_params params = {
        .id = job->id, .token = job->token, .spared_ms = alarm->spared_ms, .now = db_now(tx)};
    int rc = each_job_warn(tx, 0, &params, 1, &warned);
    if (rc < 0 || warned == 0)
        return rc;
    const char *why =
        arena_printf(db_arena(tx),
                     "its lease has ended, but %s may have been unable to renew it and has %s more",
                     db_str(job->owner), span_text(db_num(alarm->spared_ms), spared));
    const struct event_of_warning_params event = {
        .id = job->id, .now = db_now(tx), .who = db_text(recovery->by), .why = db_text(why)};
    const struct event_into_chain_params chain = {.id = job->id};
    const struct lock_follow_params lock = {.job_id = job->id};
    if ((rc = each_event_of_warning(tx, DB_LATER, &event, 1, NULL)) < 0 ||
        (rc = each_event_into_chain(tx, DB_LATER, &chain, 1, NULL)) < 0 ||
        (rc = each_lock_follow(tx, DB_LATER, &lock, 1, NULL)) < 0)
        return rc;
    recovery->jobs_warned++;
    note(tx, recovery,
         arena_printf(db_arena(tx), "job %lld warned: %s", (long long)db_num(job->id), why));
    return 0;
}

static int warn_spared(struct db_tx *tx, struct recovery *recovery,
                       const struct job_alarms_rows *jobs)
{
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < jobs->count; i++)
        if (is_spared(&jobs->at[i]))
            rc = warn_one(tx, recovery, &jobs->at[i]);
    return rc;
}

/* A lock whose holder has lost it. */
struct lost_lock {
    struct db_value name, owner, token;
};

/* It was freed. */
static int tell_cleaned(struct db_tx *tx, struct recovery *recovery, const struct lost_lock *lock,
                        const char *why)
{
    const char *name = db_str(lock->name);
    const char *text = arena_printf(db_arena(tx), "lock %s: %s", name, why);
    struct event_note event = {.who = recovery->by,
                               .what = "lock.recovered",
                               .token = db_num(lock->token),
                               .owner = db_str(lock->owner),
                               .why = text};
    int rc = event_add(tx, &event, 0);
    if (rc < 0)
        return rc;
    recovery->locks_cleaned++;
    note(tx, recovery, text);
    db_ring(tx, bell_of_lock(name));
    return 0;
}

/* Only as it was judged: held under the worker, or expiring at that time; the other is NULL. */
static int clean_lock(struct db_tx *tx, struct recovery *recovery, const struct lost_lock *lock,
                      struct db_value worker_id, struct db_value expires_at, const char *why)
{
    int64_t cleaned = 0;
    const struct lock_clean_params params = {
        .name = lock->name, .token = lock->token, .worker_id = worker_id, .expires_at = expires_at};
    int rc = each_lock_clean(tx, 0, &params, 1, &cleaned);
    return rc < 0 || cleaned == 0 ? rc : tell_cleaned(tx, recovery, lock, why);
}

/*
 * An expired lock that was taken with a job goes when the job is reclaimed, not before: until then
 * the owner may heartbeat, and would go on without its lock. held_by is the job that still runs
 * under it.
 */
static bool is_still_needed(const struct lock_expired_row *lock, const struct job_alarms_rows *jobs)
{
    int64_t job_id = db_num(lock->held_by);
    for (size_t i = 0; i < jobs->count; i++)
        if (db_num(jobs->at[i].policy.id) == job_id)
            return is_spared(&jobs->at[i]);
    return job_id != TEND_UNSET;
}

static int clean_expired(struct db_tx *tx, struct recovery *recovery,
                         const struct lock_expired_rows *locks, const struct job_alarms_rows *jobs)
{
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < locks->count; i++) {
        const struct lock_expired_row *row = &locks->at[i];
        const struct lost_lock lock = {.name = row->name, .owner = row->owner, .token = row->token};
        if (!is_still_needed(row, jobs))
            rc = clean_lock(tx, recovery, &lock, db_null(), row->expires_at, "it has expired");
    }
    return rc < 0 ? rc : 0;
}

/* An expired lease that was left alone when the clock was set; its row can be had now. */
static bool any_left(const struct job_alarms_rows *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (db_num(jobs->at[i].policy.state) == JOB_RUNNING && db_num(jobs->at[i].spared_ms) == 0)
            return true;
    return false;
}

static bool any_expired(const struct job_alarms_rows *jobs, const struct lock_expired_rows *locks)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (db_num(jobs->at[i].policy.state) == JOB_RUNNING)
            return true;
    return locks->count > 0;
}

static int reclaim_expired(struct db_tx *tx, struct recovery *recovery,
                           const struct job_alarms_rows *jobs)
{
    struct reclaim reclaim;
    int rc = reclaim_begin(tx, &reclaim, jobs->count);
    for (size_t i = 0; rc >= 0 && i < jobs->count; i++)
        if (!is_spared(&jobs->at[i]))
            reclaim_add(tx, &reclaim, recovery, &jobs->at[i].policy, "its lease has expired");
    return rc < 0 ? rc : reclaim_all(tx, recovery, &reclaim);
}

int recover_alarms(struct db_tx *tx, struct recovery *recovery, int64_t limit)
{
    struct job_alarms_rows jobs;
    struct lock_expired_rows locks;
    const struct lock_expired_params expired = {.now = db_now(tx), .limit = db_int(limit)};
    const struct job_alarms_params alarms = {.now = expired.now,
                                             .limit = expired.limit,
                                             .warns = db_int(!db_clock_is_even(db_store(tx)))};
    int rc;
    if ((rc = run_lock_expired(tx, DB_LATER, expired, &locks)) < 0 ||
        (rc = run_job_alarms(tx, 0, alarms, &jobs)) < 0)
        return rc;
    if (any_expired(&jobs, &locks)) {
        if ((rc = db_clock_look(tx)) < 0)
            return rc;
        recovery->clock_unsettled = rc > 0 || (any_left(&jobs) && !db_clock_is_even(db_store(tx)));
    }
    if (recovery->clock_unsettled || (jobs.count == 0 && locks.count == 0))
        return promote_due(tx, recovery, &jobs);
    /* Locks first: one that was taken with a job would otherwise go with it, uncounted and untold.
     */
    if ((rc = promote_due(tx, recovery, &jobs)) < 0 ||
        (rc = warn_spared(tx, recovery, &jobs)) < 0 ||
        (rc = clean_expired(tx, recovery, &locks, &jobs)) < 0 ||
        (rc = reclaim_expired(tx, recovery, &jobs)) < 0)
        return rc;
    return (int)(jobs.count + locks.count);
}

/* lock_untied_one has the same columns as lock_untied. */
_Static_assert(sizeof(struct lock_untied_one_row) == sizeof(struct lock_untied_row),
               "the same columns");

int recover_untied_locks(struct db_tx *tx, struct recovery *recovery, const char *name)
{
    struct lock_untied_rows locks;
    const struct lock_untied_params all = {.limit = db_int(CHUNK)};
    const struct lock_untied_one_params one = {.name = db_text(name)};
    int rc = name == NULL ? run_lock_untied(tx, 0, all, &locks)
                          : db_run(tx, Q_LOCK_UNTIED_ONE, 0, DB_VALUES(&one), &locks.result);
    for (size_t i = 0; rc >= 0 && i < locks.count; i++) {
        const struct lock_untied_row *row = &locks.at[i];
        const struct lost_lock lock = {.name = row->name, .owner = row->owner, .token = row->token};
        const struct lock_clean_untied_params params = {.name = row->name, .token = row->token};
        int64_t cleaned = 0;
        rc = each_lock_clean_untied(tx, 0, &params, 1, &cleaned);
        if (rc >= 0 && cleaned != 0)
            rc = tell_cleaned(tx, recovery, &lock, "the job it is tied to does not run under it");
    }
    return rc < 0 ? rc : 0;
}

/* Whether no job runs under a worker's lock, or only one of these. */
static bool goes_with(const struct lock_of_worker_row *lock, const struct job_of_dead_rows *jobs)
{
    int64_t job_id = db_num(lock->held_by);
    bool goes = job_id == TEND_UNSET;
    for (size_t i = 0; i < jobs->count && !goes; i++)
        goes = db_num(jobs->at[i].policy.id) == job_id;
    return goes;
}

/* CHUNK locks of a dead worker at most, without those of jobs that are left alone. 1: there may be
 * more. */
static int clean_of_worker(struct db_tx *tx, struct recovery *recovery, int64_t worker_id,
                           const struct job_of_dead_rows *jobs, const char *why)
{
    struct lock_of_worker_rows locks;
    const struct lock_of_worker_params params = {.worker_id = db_int(worker_id),
                                                 .limit = db_int(CHUNK)};
    bool any = false;
    int rc = run_lock_of_worker(tx, 0, params, &locks);
    for (size_t i = 0; rc >= 0 && i < locks.count; i++) {
        const struct lock_of_worker_row *row = &locks.at[i];
        const struct lost_lock lock = {.name = row->name, .owner = row->owner, .token = row->token};
        if (!goes_with(row, jobs))
            continue;
        any = true;
        rc = clean_lock(tx, recovery, &lock, params.worker_id, db_null(), why);
    }
    return rc < 0 ? rc : any && locks.count == CHUNK;
}

/* CHUNK jobs at most; how many there were. Jobs are locked before named locks, as everywhere; but
 * those locks go first, see recover_alarms. */
static int recover_holdings(struct db_tx *tx, struct recovery *recovery, int64_t worker_id,
                            const char *why)
{
    const struct job_of_dead_params held = {.worker_id = db_int(worker_id), .limit = db_int(CHUNK)};
    struct job_of_dead_rows jobs;
    struct reclaim reclaim;
    int rc = run_job_of_dead(tx, 0, held, &jobs);
    if (rc < 0)
        return rc;
    while ((rc = clean_of_worker(tx, recovery, worker_id, &jobs, why)) > 0)
        continue;
    if (rc < 0 || (rc = reclaim_begin(tx, &reclaim, jobs.count)) < 0)
        return rc;
    for (size_t i = 0; i < jobs.count; i++)
        reclaim_add(tx, &reclaim, recovery, &jobs.at[i].policy, why);
    rc = reclaim_all(tx, recovery, &reclaim);
    return rc < 0 ? rc : (int)jobs.count;
}

int recover_worker(struct db_tx *tx, struct recovery *recovery, int64_t worker_id, const char *why)
{
    int64_t removed = 0;
    struct worker_lost_since_rows entry;
    const struct worker_remove_params worker = {.id = db_int(worker_id)};
    int rc =
        run_worker_lost_since(tx, 0, (struct worker_lost_since_params){.id = worker.id}, &entry);
    if (rc < 0 || entry.count == 0)
        return rc;
    if ((rc = recover_holdings(tx, recovery, worker_id, why)) < 0 || rc == CHUNK)
        return rc < 0 ? rc : 1;
    if ((rc = holder_read_left(tx, worker_id, true, &recovery->left)) != 0)
        return rc < 0 ? rc : 0;
    if ((rc = each_worker_remove(tx, 0, &worker, 1, &removed)) < 0)
        return rc;
    if (recovery->idle_why && recovery->entries_reclaimed + recovery->locks_cleaned == 0)
        why = recovery->idle_why;
    struct event_note event = {.who = recovery->by, .what = "worker.died", .why = why};
    event.data = arena_printf(db_arena(tx), "{\"worker\":%lld}", (long long)worker_id);
    note(tx, recovery, arena_printf(db_arena(tx), "worker %lld: %s", (long long)worker_id, why));
    rc = event_add(tx, &event, 0);
    return rc < 0 ? rc : 0;
}

/* --- along with something else --- */

int64_t recover_again_at(const tend *t, enum recovery_kind kind)
{
    return __atomic_load_n(&t->recovery_again_ms[kind], __ATOMIC_RELAXED);
}

int64_t recover_left_ms(const tend *t, int64_t again_ms)
{
    if (again_ms == 0)
        return 0;
    int64_t left_ms = again_ms - db_mono_ms(t->db);
    return left_ms > 0 && left_ms <= RECOVERY_RETRY_MS ? left_ms : 0;
}

int64_t recover_pause_ms(const tend *t, enum recovery_kind kind)
{
    return recover_left_ms(t, recover_again_at(t, kind));
}

bool recover_is_failing(const tend *t, enum recovery_kind kind)
{
    return recover_again_at(t, kind) != 0;
}

/* Returns whether it was failing before. */
static bool set_again(tend *t, enum recovery_kind kind, int64_t again_ms)
{
    return __atomic_exchange_n(&t->recovery_again_ms[kind], again_ms, __ATOMIC_RELAXED) != 0;
}

void recover_told(tend *t, enum recovery_kind kind, int rc)
{
    static const char *const names[RECOVERY_KINDS] = {
        [RECOVER_DEAD] = "looking for dead workers",
        [RECOVER_ALARMS] = "recovery",
        [RECOVER_SCHEDULES] = "adding jobs of schedules",
    };
    if (rc < 0) {
        if (!set_again(t, kind, db_mono_ms(t->db) + RECOVERY_RETRY_MS))
            handle_log(t, "%s failed and is tried again every second: %s", names[kind],
                       handle_err(t)->text);
    } else if (recover_is_failing(t, kind) && set_again(t, kind, 0)) {
        handle_log(t, "%s works again", names[kind]);
    }
}

/* What is left alone counts as a failure: it is told, and tried again after the pause. */
static int bury_quietly(tend *t, struct recovery *dead)
{
    int rc = recover_dead_workers(t, dead);
    const struct tend_recovery *left = &dead->left;
    if (rc >= 0 && left->entries_skipped > 0)
        recover_told(t, RECOVER_DEAD,
                     handle_fail(t, TEND_EBUSY,
                                 "%lld job%s of dead workers (first job %lld) %s locked by %s",
                                 (long long)left->entries_skipped, plural(left->entries_skipped),
                                 (long long)left->skipped_ids[0],
                                 left->entries_skipped == 1 ? "is" : "are",
                                 *left->skipped_by ? left->skipped_by : "another session"));
    else
        recover_told(t, RECOVER_DEAD, rc);
    return rc;
}

int64_t recover_wait_ms(const tend *t, int64_t wait_ms)
{
    int64_t most_ms = wait_ms < 0 ? wait_ms : wait_ms / 2;
    if (db_is_concurrent(t->db) || (most_ms >= 0 && most_ms < RECOVERY_WAIT_MS))
        return most_ms;
    return RECOVERY_WAIT_MS;
}

bool recover_dead_quietly(tend *t, int64_t wait_ms)
{
    struct recovery recovery = {.by = t->name, .wait_ms = recover_wait_ms(t, wait_ms)};
    if (recover_pause_ms(t, RECOVER_DEAD) > 0)
        return false;
    return bury_quietly(t, &recovery) >= 0;
}

/* --- on demand --- */

struct recover_call {
    tend *t;
    struct recovery recovery;
    int64_t threshold_ms;
    int64_t wait_ms; /* as in db_write_within */
    int found;
    int64_t now_ms;
    struct tend_recovery left; /* what it had to leave alone, once it is through */
};

/* The end of a chunk. After the last: what others hold. */
static int end_chunk(struct db_tx *tx, struct recover_call *call, int64_t silent_ms)
{
    int rc = call->found < CHUNK ? holder_read_skipped(tx, silent_ms, &call->left) : 0;
    return rc < 0 ? rc : db_time(tx, &call->now_ms);
}

static int alarms_body(struct db_tx *tx, void *arg)
{
    struct recover_call *call = arg;
    call->recovery = (struct recovery){.by = call->t->name};
    call->found = recover_alarms(tx, &call->recovery, CHUNK);
    int rc = call->found < 0 ? call->found : recover_untied_locks(tx, &call->recovery, NULL);
    return rc < 0 ? rc : end_chunk(tx, call, TEND_UNSET);
}

static int silent_body(struct db_tx *tx, void *arg)
{
    struct recover_call *call = arg;
    struct job_silent_rows jobs;
    struct reclaim reclaim;
    const struct job_silent_params params = {
        .now = db_now(tx), .silent_ms = db_int(call->threshold_ms), .limit = db_int(CHUNK)};
    call->recovery = (struct recovery){.by = call->t->name};
    int rc = run_job_silent(tx, 0, params, &jobs);
    if (rc < 0)
        return rc;
    call->found = 0;
    if (jobs.count > 0 && (rc = db_clock_look(tx)) != 0) {
        call->recovery.clock_unsettled = rc > 0;
        return rc < 0 ? rc : 0;
    }
    call->found = (int)jobs.count;
    if ((rc = reclaim_begin(tx, &reclaim, jobs.count)) < 0)
        return rc;
    for (size_t i = 0; i < jobs.count; i++)
        reclaim_add(tx, &reclaim, &call->recovery, &jobs.at[i].policy,
                    "no sign of life for longer than was asked for");
    rc = reclaim_all(tx, &call->recovery, &reclaim);
    return rc < 0 ? rc : end_chunk(tx, call, call->threshold_ms);
}

static int settle_body(struct db_tx *tx, void *arg)
{
    (void)arg;
    return db_clock_settle(tx);
}

int recover_settle_clock(tend *t, int64_t wait_ms)
{
    if (db_clock_is_even(t->db))
        return 0;
    int rc = handle_write_within(t, wait_ms, settle_body, NULL);
    if (rc == DB_CLOCK_DOUBTFUL)
        handle_log(t, "two machines with the same boot id use this store, as copies of a virtual "
                      "machine do; whether the server's clock was set cannot be told there by a "
                      "command that has just been started; give each machine a boot of its own");
    else if (rc > 0)
        handle_log(t, "the server's clock was set, or the server was away: leases and locks were "
                      "moved along");
    return rc;
}

/* Transactions of CHUNK entries each, until nothing is left; adds up into ret. */
static int recover_in_chunks(tend *t, db_body *body, struct recover_call *call,
                             struct tend_recovery *ret)
{
    int64_t before;
    int settled = 0;
    int settle_rc = recover_settle_clock(t, call->wait_ms);
    if (settle_rc < 0)
        return settle_rc;
    do {
        struct arena arena;
        arena_init(&arena);
        int rc = db_write_within(t->db, call->wait_ms, &arena, body, call, handle_err(t));
        if (rc >= 0)
            recover_log(t, &call->recovery);
        arena_done(&arena);
        if (rc < 0)
            return rc;
        before = call->recovery.entries_reclaimed + call->recovery.locks_cleaned +
                 call->recovery.jobs_due + call->recovery.jobs_warned;
        ret->locks_cleaned += call->recovery.locks_cleaned;
        ret->entries_reclaimed += call->recovery.entries_reclaimed;
        ret->entries_quarantined += call->recovery.entries_quarantined;
        ret->recovery_timestamp_ms = call->now_ms;
        if (call->recovery.clock_unsettled && settled++ < SETTLES_MOST) {
            if ((rc = recover_settle_clock(t, call->wait_ms)) < 0)
                return rc;
            call->found = CHUNK; /* once more */
            before = 1;
        }
    } while (call->found >= CHUNK && before > 0);
    ret->entries_skipped = call->left.entries_skipped;
    memcpy(ret->skipped_ids, call->left.skipped_ids, sizeof ret->skipped_ids);
    memcpy(ret->skipped_by, call->left.skipped_by, sizeof ret->skipped_by);
    return 0;
}

int tend_detect_and_recover_stale(tend *t, struct tend_recovery *ret)
{
    struct recover_call call = {.t = t, .wait_ms = -1};
    struct recovery dead = {.by = t->name, .wait_ms = -1};
    int rc = recover_dead_workers(t, &dead);
    if (rc < 0)
        return rc;
    *ret = (struct tend_recovery){.locks_cleaned = dead.locks_cleaned,
                                  .entries_reclaimed = dead.entries_reclaimed,
                                  .entries_quarantined = dead.entries_quarantined};
    rc = recover_in_chunks(t, alarms_body, &call, ret);
    holder_add_skipped(ret, &dead.left);
    return rc;
}

void recover_stale_quietly(tend *t, int64_t wait_ms, struct tend_recovery *ret)
{
    struct recover_call call = {.t = t, .wait_ms = recover_wait_ms(t, wait_ms)};
    struct recovery dead = {.by = t->name, .wait_ms = recover_wait_ms(t, wait_ms)};
    int rc = recover_pause_ms(t, RECOVER_DEAD) > 0 ? 0 : bury_quietly(t, &dead);
    *ret = (struct tend_recovery){.locks_cleaned = dead.locks_cleaned,
                                  .entries_reclaimed = dead.entries_reclaimed,
                                  .entries_quarantined = dead.entries_quarantined};
    /* A store out of reach is waited for once. */
    if (rc != TEND_EUNREACHABLE && recover_pause_ms(t, RECOVER_ALARMS) == 0)
        recover_told(t, RECOVER_ALARMS, recover_in_chunks(t, alarms_body, &call, ret));
}

int tend_reclaim_stale(tend *t, int64_t threshold_ms, struct tend_recovery *ret)
{
    struct recover_call call = {.t = t, .threshold_ms = threshold_ms, .wait_ms = -1};
    int rc = handle_check_time(t, "the threshold", threshold_ms, 0, SPAN_MOST_MS);
    if (rc == 0)
        rc = tend_detect_and_recover_stale(t, ret);
    if (rc < 0)
        return rc;
    const struct tend_recovery before = *ret;
    rc = recover_in_chunks(t, silent_body, &call, ret);
    holder_add_skipped(ret, &before);
    return rc;
}

struct count_call {
    struct tend_recovery workers; /* what is known of them */
    struct tend_recovery all;
};

static int count_body(struct db_tx *tx, void *arg)
{
    struct count_call *call = arg;
    struct tend_recovery *all = &call->all;
    struct tend_recovery held;
    struct job_stale_count_rows jobs;
    struct lock_expired_count_rows locks;
    struct db_value now;
    int rc;
    if ((rc = db_lease_now(tx, &now)) < 0 ||
        (rc = run_job_stale_count(tx, DB_LATER, (struct job_stale_count_params){.now = now},
                                  &jobs)) < 0 ||
        (rc = run_lock_expired_count(tx, 0, (struct lock_expired_count_params){.now = now},
                                     &locks)) < 0 ||
        (rc = holder_read_held(tx, &held)) < 0)
        return rc;
    *all = call->workers;
    holder_add_skipped(all, &held);
    all->entries_reclaimed += db_num(jobs.at[0].jobs) - all->entries_skipped;
    if (all->entries_reclaimed < 0) /* a lease that is locked would have been spared, too */
        all->entries_reclaimed = 0;
    all->locks_cleaned += db_num(locks.at[0].locks);
    if (now.type != DB_INT)
        return db_time(tx, &all->recovery_timestamp_ms);
    all->recovery_timestamp_ms = now.number > 0 ? now.number : 0; /* all leases begin anew */
    return 0;
}

int tend_get_recovery_stats(tend *t, struct tend_recovery *ret)
{
    struct count_call call = {0};
    int rc = worker_count_stale(t, &call.workers);
    if (rc >= 0)
        rc = handle_read(t, count_body, &call);
    *ret = call.all;
    ret->entries_quarantined = TEND_UNSET;
    return rc;
}
