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

/* Columns of job_alarms: SPARED_COLUMN is behind those of policy_row.h. */
enum { CHUNK = 1000, QUEUE_COLUMN = 7, SPARED_COLUMN = 12 };

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
    struct db_result hooks;
    size_t ended = 0;
    int rc = db_run(tx, Q_HOOK_ANY, 0, NULL, &hooks);
    if (rc < 0 || hooks.rows == 0)
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

/* Moves the running jobs among rows; one compare-and-set each, so that each is reclaimed once. */
static int reclaim_rows(struct db_tx *tx, struct recovery *recovery, const struct db_result *rows,
                        const char *why)
{
    struct move *moves = arena_alloc(db_arena(tx), (rows->rows + 1) * sizeof *moves);
    int64_t *moved = arena_zalloc(db_arena(tx), (rows->rows + 1) * sizeof *moved);
    size_t count = 0;
    if (moves == NULL || moved == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
    for (size_t i = 0; i < rows->rows; i++) {
        struct policy_row row;
        policy_row_read(&row, rows, i);
        if (row.state == JOB_RUNNING && row.spared_ms == TEND_UNSET)
            moves[count++] = crash_move(tx, &row, recovery->by, why);
    }
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

static int promote_due(struct db_tx *tx, struct recovery *recovery, const struct db_result *rows)
{
    struct db_value *params = arena_alloc(db_arena(tx), (rows->rows + 1) * 3 * sizeof *params);
    size_t count = 0;
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
    for (size_t i = 0; i < rows->rows; i++) {
        if (db_number(rows, i, 1) != JOB_SCHEDULED)
            continue;
        params[count * 3] = db_int(db_number(rows, i, 0));
        params[count * 3 + 1] = db_now(tx);
        params[count * 3 + 2] = db_text(recovery->by);
        count++;
        db_ring(tx, db_bell_of(db_string(rows, i, QUEUE_COLUMN)));
    }
    recovery->jobs_due += (int64_t)count;
    return db_each(tx, Q_JOB_DUE, 0, params, count, NULL);
}

/*
 * Where the clock may have jumped, or the store been out of reach for all, an expired lease is no
 * evidence against a worker that lives: it is extended once, in which time a healthy worker
 * heartbeats. Whoever is still silent then has been silent while it could write.
 */
static bool is_spared(const struct db_result *jobs, size_t row)
{
    return db_number(jobs, row, SPARED_COLUMN) != TEND_UNSET;
}

static int warn_one(struct db_tx *tx, struct recovery *recovery, const struct db_result *jobs,
                    size_t row)
{
    int64_t warned = 0;
    const struct db_value *id = db_at(jobs, row, 0);
    char spared[DURATION_TEXT_BYTES];
    const struct db_value params[] = {*id, *db_at(jobs, row, 2), *db_at(jobs, row, SPARED_COLUMN),
                                      db_now(tx)};
    int rc = db_each(tx, Q_JOB_WARN, 0, params, 1, &warned);
    if (rc < 0 || warned == 0)
        return rc;
    const char *why = arena_printf(
        db_arena(tx),
        "its lease has ended, but %s may have been unable to renew it and has %s more",
        db_string(jobs, row, 6), span_text(db_number(jobs, row, SPARED_COLUMN), spared));
    const struct db_value event[] = {*id, db_now(tx), db_text(recovery->by), db_text(why)};
    if ((rc = db_each(tx, Q_EVENT_OF_WARNING, DB_LATER, event, 1, NULL)) < 0 ||
        (rc = db_each(tx, Q_EVENT_INTO_CHAIN, DB_LATER, id, 1, NULL)) < 0 ||
        (rc = db_each(tx, Q_LOCK_FOLLOW, DB_LATER, id, 1, NULL)) < 0)
        return rc;
    recovery->jobs_warned++;
    note(tx, recovery,
         arena_printf(db_arena(tx), "job %lld warned: %s", (long long)id->number, why));
    return 0;
}

static int warn_spared(struct db_tx *tx, struct recovery *recovery, const struct db_result *jobs)
{
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < jobs->rows; i++)
        if (is_spared(jobs, i))
            rc = warn_one(tx, recovery, jobs, i);
    return rc;
}

/*
 * An expired lock that was taken with a job goes when the job is reclaimed, not before: until then
 * the owner may heartbeat, and would go on without its lock. Column 3 is the job that still runs
 * under it.
 */
static bool is_still_needed(const struct db_result *locks, size_t row, const struct db_result *jobs)
{
    int64_t job_id = db_number(locks, row, 3);
    for (size_t i = 0; i < jobs->rows; i++)
        if (db_number(jobs, i, 0) == job_id)
            return is_spared(jobs, i);
    return job_id != TEND_UNSET;
}

/*
 * Locks whose holder has lost them; rows begin with name, owner, token. They were judged by the
 * worker who holds them (jobs is NULL), or by their time, which is in column 4, or as query says.
 */
static int clean_locks(struct db_tx *tx, struct recovery *recovery, enum db_query query,
                       const struct db_result *rows, const struct db_result *jobs,
                       int64_t worker_id, const char *why)
{
    for (size_t i = 0; i < rows->rows; i++) {
        int64_t cleaned = 0;
        if (jobs != NULL && is_still_needed(rows, i, jobs))
            continue;
        const struct db_value params[] = {*db_at(rows, i, 0), *db_at(rows, i, 2),
                                          db_int_or_null(worker_id),
                                          jobs != NULL ? *db_at(rows, i, 4) : db_null()};
        int rc = db_each(tx, query, 0, params, 1, &cleaned);
        if (rc < 0)
            return rc;
        if (cleaned == 0)
            continue;
        const char *text = arena_printf(db_arena(tx), "lock %s: %s", db_string(rows, i, 0), why);
        struct event_note event = {.who = recovery->by,
                                   .what = "lock.recovered",
                                   .token = db_number(rows, i, 2),
                                   .owner = db_string(rows, i, 1),
                                   .why = text};
        if ((rc = event_add(tx, &event, 0)) < 0)
            return rc;
        recovery->locks_cleaned++;
        note(tx, recovery, text);
        db_ring(tx, bell_of_lock(db_string(rows, i, 0)));
    }
    return 0;
}

/* An expired lease that was left alone when the clock was set; its row can be had now. */
static bool any_left(const struct db_result *jobs)
{
    for (size_t i = 0; i < jobs->rows; i++)
        if (db_number(jobs, i, 1) == JOB_RUNNING && db_number(jobs, i, SPARED_COLUMN) == 0)
            return true;
    return false;
}

static bool any_expired(const struct db_result *jobs, const struct db_result *locks)
{
    for (size_t i = 0; i < jobs->rows; i++)
        if (db_number(jobs, i, 1) == JOB_RUNNING)
            return true;
    return locks->rows > 0;
}

int recover_alarms(struct db_tx *tx, struct recovery *recovery, int64_t limit)
{
    struct db_result jobs;
    struct db_result locks;
    const struct db_value params[] = {db_now(tx), db_int(limit),
                                      db_int(!db_clock_is_even(db_store(tx)))};
    int rc;
    if ((rc = db_run(tx, Q_LOCK_EXPIRED, DB_LATER, params, &locks)) < 0 ||
        (rc = db_run(tx, Q_JOB_ALARMS, 0, params, &jobs)) < 0)
        return rc;
    if (any_expired(&jobs, &locks)) {
        if ((rc = db_clock_look(tx)) < 0)
            return rc;
        recovery->clock_unsettled = rc > 0 || (any_left(&jobs) && !db_clock_is_even(db_store(tx)));
    }
    if (recovery->clock_unsettled || (jobs.rows == 0 && locks.rows == 0))
        return promote_due(tx, recovery, &jobs);
    /* Locks first: one that was taken with a job would otherwise go with it, uncounted and untold.
     */
    if ((rc = promote_due(tx, recovery, &jobs)) < 0 ||
        (rc = warn_spared(tx, recovery, &jobs)) < 0 ||
        (rc = clean_locks(tx, recovery, Q_LOCK_CLEAN, &locks, &jobs, TEND_UNSET,
                          "it has expired")) < 0 ||
        (rc = reclaim_rows(tx, recovery, &jobs, "its lease has expired")) < 0)
        return rc;
    return (int)(jobs.rows + locks.rows);
}

int recover_untied_locks(struct db_tx *tx, struct recovery *recovery, const char *name)
{
    struct db_result locks;
    const struct db_value param = name == NULL ? db_int(CHUNK) : db_text(name);
    int rc = db_run(tx, name == NULL ? Q_LOCK_UNTIED : Q_LOCK_UNTIED_ONE, 0, &param, &locks);
    return rc < 0 ? rc
                  : clean_locks(tx, recovery, Q_LOCK_CLEAN_UNTIED, &locks, NULL, TEND_UNSET,
                                "the job it is tied to does not run under it");
}

/* Of the locks of a worker, those that no job runs under which is not in jobs. */
static int without_left(struct db_tx *tx, struct db_result *locks, const struct db_result *jobs)
{
    struct db_value *kept =
        arena_alloc(db_arena(tx), (locks->rows + 1) * locks->columns * sizeof *kept);
    size_t count = 0;
    if (kept == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while recovering");
    for (size_t i = 0; i < locks->rows; i++) {
        int64_t job_id = db_number(locks, i, 3);
        bool free = job_id == TEND_UNSET;
        for (size_t job = 0; job < jobs->rows && !free; job++)
            free = db_number(jobs, job, 0) == job_id;
        if (free)
            memcpy(&kept[count++ * locks->columns], db_at(locks, i, 0),
                   locks->columns * sizeof *kept);
    }
    *locks = (struct db_result){.rows = count, .columns = locks->columns, .values = kept};
    return 0;
}

/* CHUNK jobs at most; how many there were. Jobs are locked before named locks, as everywhere; but
 * those locks go first, see recover_alarms. */
static int recover_holdings(struct db_tx *tx, struct recovery *recovery, int64_t worker_id,
                            const char *why)
{
    const struct db_value held[] = {db_int(worker_id), db_int(CHUNK)};
    struct db_result jobs;
    struct db_result locks;
    bool more;
    int rc = db_run(tx, Q_JOB_OF_DEAD, 0, held, &jobs);
    if (rc < 0)
        return rc;
    do {
        if ((rc = db_run(tx, Q_LOCK_OF_WORKER, 0, held, &locks)) < 0)
            return rc;
        more = locks.rows == CHUNK;
        if ((rc = without_left(tx, &locks, &jobs)) < 0 ||
            (rc = clean_locks(tx, recovery, Q_LOCK_CLEAN, &locks, NULL, worker_id, why)) < 0)
            return rc;
    } while (more && locks.rows > 0);
    rc = reclaim_rows(tx, recovery, &jobs, why);
    return rc < 0 ? rc : (int)jobs.rows;
}

int recover_worker(struct db_tx *tx, struct recovery *recovery, int64_t worker_id, const char *why)
{
    int64_t removed = 0;
    struct db_result entry;
    const struct db_value worker[] = {db_int(worker_id)};
    int rc = db_run(tx, Q_WORKER_LOST_SINCE, 0, worker, &entry);
    if (rc < 0 || entry.rows == 0)
        return rc;
    if ((rc = recover_holdings(tx, recovery, worker_id, why)) < 0 || rc == CHUNK)
        return rc < 0 ? rc : 1;
    if ((rc = holder_read_left(tx, worker_id, true, &recovery->left)) != 0)
        return rc < 0 ? rc : 0;
    if ((rc = db_each(tx, Q_WORKER_REMOVE, 0, worker, 1, &removed)) < 0)
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
    struct db_result rows;
    const struct db_value params[] = {db_now(tx), db_int(call->threshold_ms), db_int(CHUNK)};
    call->recovery = (struct recovery){.by = call->t->name};
    int rc = db_run(tx, Q_JOB_SILENT, 0, params, &rows);
    if (rc < 0)
        return rc;
    call->found = 0;
    if (rows.rows > 0 && (rc = db_clock_look(tx)) != 0) {
        call->recovery.clock_unsettled = rc > 0;
        return rc < 0 ? rc : 0;
    }
    call->found = (int)rows.rows;
    rc = reclaim_rows(tx, &call->recovery, &rows, "no sign of life for longer than was asked for");
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
    struct db_result jobs;
    struct db_result locks;
    struct db_value now;
    int rc;
    if ((rc = db_lease_now(tx, &now)) < 0 ||
        (rc = db_run(tx, Q_JOB_STALE_COUNT, DB_LATER, &now, &jobs)) < 0 ||
        (rc = db_run(tx, Q_LOCK_EXPIRED_COUNT, 0, &now, &locks)) < 0 ||
        (rc = holder_read_held(tx, &held)) < 0)
        return rc;
    *all = call->workers;
    holder_add_skipped(all, &held);
    all->entries_reclaimed += db_number(&jobs, 0, 0) - all->entries_skipped;
    if (all->entries_reclaimed < 0) /* a lease that is locked would have been spared, too */
        all->entries_reclaimed = 0;
    all->locks_cleaned += db_number(&locks, 0, 0);
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
