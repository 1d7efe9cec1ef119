/*
 * Claiming. The fast way is one statement: it needs to know the queue's settings, and takes the
 * handle's word for them, which the statement itself checks by their version. Whenever it comes
 * back with nothing, and for queues with limits, the slow way looks at everything: alarms,
 * schedules, settings, limits, reasons.
 */
#include "base/clock.h"
#include "queue/bell.h"
#include "queue/lease.h"
#include "queue/limits.h"
#include "queue/passed.h"
#include "queue/recover.h"
#include "queue/registry.h"
#include "queue/row.h"
#include "queue/schedule.h"
#include "queue/settings.h"
#include "queue/wait.h"
#include "queue/worker.h"

#include <stdlib.h>

enum { SLOW_ALARMS = 1000, WORKER_LOOK_MS = 1000, KINDS_MOST = 1000, FIRE_ROUNDS = 16 };

/* Schedules that fall due again and again are left to the next claim. */
enum { FIRES_MOST = 3 };

/* A clock that is set again and again is left to the next recovery. */
enum { SETTLES_MOST = 2 };

void tend_claim_init(struct tend_claim *claim)
{
    *claim = (struct tend_claim){.count = 1, .ttl_ms = TEND_UNSET};
}

struct claim_call {
    tend *t;
    struct claim_want want;
    struct claim_look look;
    struct queue_settings settings;
    struct completion *completion; /* done in the same transaction; NULL once it has been */
    bool look_for_alarms;
    bool recovering; /* the body is in its recovery part: errors there do not count */
    bool skip_recovery;
    bool recovered;   /* alarms were there, and are seen to */
    bool moved;       /* ... at least one of them */
    int64_t fires_ms; /* when the newest schedule that is due fell due; TEND_UNSET: none is */
    bool unfired;     /* ... and stays due */
    bool fire_failed; /* ... as it failed just now, or is not tried again yet */
    struct wait_clock clock;
    struct recovery recovery;
    struct jobs_box *box;
    struct tend_none none;
    struct wait_hint hint;
};

static int take_rows(struct db_tx *tx, struct claim_call *call,
                     const struct job_claim_one_rows *rows)
{
    if (rows->count > 0 && jobs_box_fill(call->box, &rows->result) < 0)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading what was claimed");
    return (int)rows->count;
}

/* LS-7, CL-6: recovery goes along with a claim, but must not keep it from happening. Where alarms
 * are skipped, because they have just failed, what was found of schedules stays. */
static int recover_on_the_way(struct db_tx *tx, struct claim_call *call, int64_t limit)
{
    call->recovery = (struct recovery){.by = call->t->name};
    call->recovered = call->moved = false;
    call->want.unrecovered = call->skip_recovery;
    if (call->skip_recovery)
        return 0;
    call->fires_ms = TEND_UNSET;
    call->recovering = true;
    struct clock_acts_rows acts = {0};
    int rc = run_clock_acts(tx, 0, (struct clock_acts_params){.now = db_now(tx)}, &acts);
    if (rc >= 0 && acts.count > 0) {
        call->fires_ms = db_num(acts.at[0].schedule_due_at);
        rc = recover_alarms(tx, &call->recovery, limit);
    }
    call->recovering = rc < 0;
    call->recovered = rc >= 0 && acts.count > 0;
    call->moved = call->recovery.entries_reclaimed > 0 || call->recovery.jobs_due > 0;
    return rc < 0 ? rc : 0;
}

static int fast_body(struct db_tx *tx, void *arg)
{
    struct claim_call *call = arg;
    struct job_claim_one_rows rows;
    int rc = 0;
    call->box->jobs.count = 0;
    if (call->completion != NULL)
        rc = lease_complete(tx, call->completion, DB_LATER);
    if (rc >= 0 && call->look_for_alarms)
        rc = recover_on_the_way(tx, call, call->want.count / 4 + 1);
    if (rc >= 0)
        rc = limits_claim_plain(tx, &call->want, &call->settings, call->want.count, DB_LAST, &rows);
    return rc < 0 ? rc : take_rows(tx, call, &rows);
}

/*
 * On PostgreSQL rows are locked in one order by all, or two would wait for each other: the queue,
 * then jobs by id, then named locks by name (store/pg_order.c). Hence the settings of a limited
 * queue come before the rest, and the jobs that are completed before those that nobody need wait
 * for: recovery and claims skip what others hold.
 */
static int slow_body(struct db_tx *tx, void *arg)
{
    struct claim_call *call = arg;
    struct job_claim_one_rows rows;
    int rc = 0;
    call->box->jobs.count = 0;
    call->look.used = false;
    if ((rc = settings_load(tx, call->want.queue, false, &call->settings)) < 0)
        return rc;
    if (!settings_are_plain(&call->settings) &&
        (rc = settings_load(tx, call->want.queue, true, &call->settings)) < 0)
        return rc;
    if (call->completion != NULL && (rc = lease_complete(tx, call->completion, DB_LATER)) < 0)
        return rc;
    /* While the clock is unsettled nothing is claimed here: a lock could be taken over by its time.
     */
    if ((rc = recover_on_the_way(tx, call, SLOW_ALARMS)) < 0 || call->recovery.clock_unsettled)
        return rc;
    if ((rc = limits_claim(tx, &call->want, &call->settings, &rows, &call->none)) < 0)
        return rc;
    if (rows.count == 0 && (rc = wait_hint_read(tx, &wait_after_none, &call->hint)) < 0)
        return rc;
    return take_rows(tx, call, &rows);
}

static int complete_body(struct db_tx *tx, void *arg)
{
    struct claim_call *call = arg;
    return lease_complete(tx, call->completion, DB_LAST);
}

static int run_body(struct claim_call *call, db_body *body)
{
    tend *t = call->t;
    call->recovery = (struct recovery){0};
    int rc = db_write_within(t->db, wait_clock_patience(&call->clock), &call->box->arena, body,
                             call, handle_err(t));
    if (rc < 0 && call->recovering && rc != TEND_EUNREACHABLE) {
        recover_told(t, RECOVER_ALARMS, rc);
        call->skip_recovery = true;
        call->recovering = false;
        rc = db_write_within(t->db, wait_clock_patience(&call->clock), &call->box->arena, body,
                             call, handle_err(t));
    }
    if (rc >= 0) {
        if (call->recovered && !call->skip_recovery && !call->recovery.clock_unsettled)
            recover_told(t, RECOVER_ALARMS, 0);
        recover_log(t, &call->recovery);
        if (call->completion != NULL)
            call->completion->committed = true;
        call->completion = NULL;
    }
    return rc;
}

/* Monotonic timers of the handle: true when it is time, and sets the next. */
static bool is_time(tend *t, int64_t *next_ms, int64_t interval_ms)
{
    int64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&t->mutex);
    bool due = now_ms >= *next_ms;
    if (due)
        *next_ms = now_ms + interval_ms;
    pthread_mutex_unlock(&t->mutex);
    return due;
}

/* What a transaction has looked at is kept; the next goes on behind it. */
static void look_goes_on(struct claim_call *call)
{
    struct claim_look *look = &call->look;
    passed_keep(call->t, &look->after);
    look->before = look->after;
    look->begin = look->end;
    look->passed_kind_before = look->passed_kind;
    look->passed_key_before = look->passed_key;
}

static int read_body(struct db_tx *tx, void *arg)
{
    struct claim_call *call = arg;
    bool ignored;
    struct tend_none none;
    call->look.used = call->look.more = false;
    return limits_peek(tx, &call->want, &ignored, &none);
}

/* Finds what can be passed over, without the write lock; the claim then begins behind it. */
static int read_ahead(struct claim_call *call)
{
    struct claim_look *look = &call->look;
    int rc;
    do {
        rc = handle_read(call->t, read_body, call);
        if (rc >= 0 && look->used)
            look_goes_on(call);
    } while (rc >= 0 && look->used && look->more && !look->found);
    look->begin = CLAIM_START;
    look->is_read = look->more = true;
    return rc < 0 ? rc : 0;
}

/* However much is passed over on the way: in pieces, between which others can write. */
static int run_slow(struct claim_call *call)
{
    struct claim_look *look = &call->look;
    int rc;
    *look = passed_start(call->t, &call->want);
    do {
        look->used = look->more = look->to_read = false;
        rc = run_body(call, slow_body);
        if (!look->used || rc < 0)
            return rc;
        if (rc == 0)
            arena_reset(&call->box->arena); /* of what was read on the way */
        if (!look->to_read)
            look_goes_on(call);
        else if (rc == 0 && (rc = read_ahead(call)) < 0)
            return rc;
    } while (rc == 0 && look->more);
    return rc;
}

/* After a body that found the clock unsettled. If it stays so, claims go on without recovery. */
static void settle_clock(struct claim_call *call)
{
    tend *t = call->t;
    call->skip_recovery = true;
    if (recover_pause_ms(t, RECOVER_ALARMS) > 0)
        return;
    int rc = recover_settle_clock(t, recover_wait_ms(t, wait_clock_patience(&call->clock)));
    if (rc < 0)
        recover_told(t, RECOVER_ALARMS, rc);
    call->skip_recovery = rc < 0;
}

static int64_t tried_ms(const tend *t)
{
    return __atomic_load_n(&t->schedules_tried_ms, __ATOMIC_RELAXED);
}

static int fire_body(struct db_tx *tx, void *arg)
{
    (void)arg;
    return schedule_fire_due(tx);
}

/*
 * Schedules that are due, in transactions of their own: one that replaces its runs locks jobs of
 * any queue, and the claim's transaction may have locked others before. Whether any has fired. As
 * all recovery, it must not keep the claim from happening. While it pauses, it is tried for a
 * schedule that has fallen due since.
 */
static bool fire_due(struct claim_call *call)
{
    tend *t = call->t;
    int rc = 1;
    bool any = false;
    int64_t due_ms = call->fires_ms;
    call->fire_failed = recover_pause_ms(t, RECOVER_SCHEDULES) > 0 && due_ms <= tried_ms(t);
    call->unfired = call->fire_failed;
    if (call->fire_failed)
        return false;
    struct err kept = *handle_err(t);
    for (int round = 0; rc > 0 && round < FIRE_ROUNDS; round++) {
        rc = handle_write_within(t, recover_wait_ms(t, wait_clock_patience(&call->clock)),
                                 fire_body, NULL);
        any |= rc > 0;
    }
    if (rc < 0)
        __atomic_store_n(&t->schedules_tried_ms, due_ms, __ATOMIC_RELAXED);
    recover_told(t, RECOVER_SCHEDULES, rc);
    *handle_err(t) = kept;
    call->fire_failed = rc < 0;
    call->unfired = rc < 0 || !any;
    return any;
}

/* The fast way, where it can be gone, then the slow one. */
static int claim_either_way(struct claim_call *call)
{
    tend *t = call->t;
    int rc;
    call->none = (struct tend_none){.until_ms = TEND_UNSET};
    if (!call->want.with_lock && call->want.not_kind_count == 0 && call->want.job_id == 0 &&
        settings_cached(t, call->want.queue, &call->settings) &&
        settings_are_plain(&call->settings)) {
        rc = run_body(call, fast_body);
        if (rc >= 0 && call->recovery.clock_unsettled)
            settle_clock(call);
        if (rc != 0)
            return rc;
    }
    rc = run_slow(call);
    for (int settled = 0; rc == 0 && call->recovery.clock_unsettled; settled++) {
        if (settled < SETTLES_MOST)
            settle_clock(call);
        else
            call->skip_recovery = true; /* so that the claim is answered all the same */
        rc = run_slow(call);
    }
    /* Somebody else got the lock on the way. The claim was undone as a whole, with the reason in
     * none: what was to be completed still is, and what was recovered still has to be. */
    if (rc == TEND_EEMPTY) {
        call->recovered = call->moved = false;
        call->fires_ms = TEND_UNSET;
        rc = call->completion == NULL ? 0 : run_body(call, complete_body);
    }
    if (rc >= 0)
        settings_remember(t, &call->settings);
    return rc;
}

/*
 * Schedules that the claim finds due are fired, and it looks again: a job that was added may be for
 * it. Also when others have fired them first, as what it has read of the clock is old then. What
 * stays due cannot be fired now, and is not looked at again at once (wait.c).
 */
static int claim_and_fire(struct claim_call *call)
{
    int rc = claim_either_way(call);
    for (int round = 0; call->fires_ms != TEND_UNSET && round < FIRES_MOST; round++) {
        bool fired = fire_due(call);
        if (rc != 0 || (!fired && (call->fire_failed || round > 0)))
            break;
        rc = claim_either_way(call);
        if (call->fire_failed) /* another one did; it is not tried again at once */
            break;
    }
    call->unfired = call->unfired && call->fires_ms != TEND_UNSET;
    return rc;
}

/* One try: the number of jobs, 0 with call->none filled, or a negative code. */
static int claim_once(struct claim_call *call)
{
    tend *t = call->t;
    call->skip_recovery = call->unfired = call->fire_failed = false;
    call->fires_ms = TEND_UNSET;
    if (is_time(t, &t->workers_next_ms, WORKER_LOOK_MS))
        recover_dead_quietly(t, wait_clock_patience(&call->clock));
    call->look_for_alarms = is_time(t, &t->alarms_next_ms, db_alarm_interval_ms(t->db));
    return claim_and_fire(call);
}

static int check_claim(tend *t, const struct tend_claim *claim)
{
    int rc;
    if ((claim->queue != NULL && (rc = handle_check_name(t, "queue", claim->queue)) < 0) ||
        (claim->owner != NULL && (rc = handle_check_name(t, "worker", claim->owner)) < 0))
        return rc;
    if (claim->ttl_ms != TEND_UNSET &&
        (rc = handle_check_time(t, "the lease", claim->ttl_ms, 1, LEASE_MOST_MS)) < 0)
        return rc;
    if (claim->while_pid < 0)
        return handle_fail(t, TEND_EINVAL, "%lld is no process to tie a lease to",
                           (long long)claim->while_pid);
    if (claim->wait_ms < -1)
        return handle_fail(t, TEND_EINVAL, "waiting for %lld ms is not possible; -1 is for ever",
                           (long long)claim->wait_ms);
    if ((claim->flags & ~(TEND_CLAIM_UNSTARTED | TEND_CLAIM_BY_TIME)) != 0)
        return handle_fail(t, TEND_EINVAL, "the flags of a claim (%#x) hold one that is none",
                           claim->flags);
    if (claim->not_kind_count > KINDS_MOST)
        return handle_fail(t, TEND_EINVAL,
                           "%zu kinds are too many to be passed over; give up to %d",
                           claim->not_kind_count, KINDS_MOST);
    if (claim->job_id < 0)
        return handle_fail(t, TEND_EINVAL, "%lld is no job's id", (long long)claim->job_id);
    if (claim->count > 100000)
        return handle_fail(t, TEND_EINVAL,
                           "%zu jobs are too many for one claim; ask for up to 100000",
                           claim->count);
    return 0;
}

static int fill_want(tend *t, const struct tend_claim *claim, bool with_lock,
                     struct claim_want *want, struct wait_clock *clock)
{
    *want = (struct claim_want){
        .queue = claim->queue != NULL ? claim->queue : "default",
        .owner = handle_owner(t, claim->owner),
        .worker_id = TEND_UNSET,
        .count = claim->count == 0 ? 1 : (int64_t)claim->count,
        .ttl_ms = claim->ttl_ms,
        .started = (claim->flags & TEND_CLAIM_UNSTARTED) == 0,
        .with_lock = with_lock,
        .not_kinds = claim->not_kinds,
        .not_kind_count = claim->not_kind_count,
        .job_id = claim->job_id,
    };
    if (claim->while_pid > 0)
        return worker_of_pid(t, claim->while_pid, want->owner, wait_clock_patience(clock),
                             &clock->process, &want->worker_id);
    if ((claim->flags & TEND_CLAIM_BY_TIME) != 0)
        return 0;
    return worker_self(t, wait_clock_patience(clock), &want->worker_id);
}

static int none_sentence(tend *t, const struct claim_call *call)
{
    const struct tend_none *none = &call->none;
    const char *queue = call->want.queue;
    switch (none->code) {
    case TEND_EBUSY:
        return handle_fail(t, none->code, "queue %s is busy: its lock is held by %s", queue,
                           none->by);
    case TEND_EPAUSED:
        return handle_fail(t, none->code, "queue %s is paused%s%s", queue,
                           none->by[0] != '\0' ? ": " : "", none->by);
    case TEND_ELIMITED:
        return handle_fail(t, none->code, "queue %s has reached its limit on %s", queue,
                           none->what);
    default:
        return handle_fail(t, TEND_EEMPTY, "nothing to claim in queue %s", queue);
    }
}

/* What was claimed for a process that has ended meanwhile is given back, free of charge. */
static int keep_for_process(struct claim_call *call, int claimed)
{
    tend *t = call->t;
    const struct tend_jobs *jobs = &call->box->jobs;
    int rc = worker_check_process(t, &call->clock.process, "claimed");
    if (rc == 0)
        return claimed;
    struct err kept = *handle_err(t);
    struct tend_lease *leases = arena_alloc(&call->box->arena, (jobs->count + 1) * sizeof *leases);
    if (leases == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while giving back %zu jobs", jobs->count);
    for (size_t i = 0; i < jobs->count; i++)
        leases[i] = (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
    int released = tend_release(t, leases, jobs->count, 0, "its process has ended", NULL);
    if (released < 0 && released != TEND_ELEASELOST)
        return released;
    *handle_err(t) = kept;
    return rc;
}

/* What is due and stays so. */
static void tell_what_stays(struct claim_call *call)
{
    struct wait_hint *hint = &call->hint;
    hint->alarms_failed = call->skip_recovery;
    hint->nothing_moved = call->recovered && !call->moved;
    hint->unfired_ms = !call->unfired      ? TEND_UNSET
                       : call->fire_failed ? tried_ms(call->t)
                                           : hint->now_ms;
}

/* Tries, and waits as long as wait_ms allows for something to try again for. */
static int claim_loop(struct claim_call *call)
{
    tend *t = call->t;
    struct wait_clock *clock = &call->clock;
    for (;;) {
        int rc = worker_check_process(t, &clock->process, "claimed");
        /* What is done is still told. */
        if (rc == 0 && call->completion == NULL)
            rc = registry_check_schema(t);
        if (rc < 0)
            return rc;
        uint64_t seen = clock->waits ? db_bell(t->db, db_bell_of(call->want.queue)) : 0;
        if ((rc = claim_once(call)) > 0)
            return keep_for_process(call, rc);
        if (rc < 0) {
            if ((rc = wait_out(t, clock, rc, "claiming from queue", call->want.queue)) < 0)
                return rc;
            continue;
        }
        if (wait_clock_over(clock))
            return none_sentence(t, call);
        tell_what_stays(call);
        if ((rc = wait_for_queue(t, &call->want, seen, clock, &call->hint, &call->none)) < 0)
            return rc;
    }
}

static int claim(tend *t, const struct tend_claim *claim, bool with_lock,
                 struct completion *completion, struct tend_jobs **ret, struct tend_none *ret_none)
{
    struct claim_call call = {.t = t, .completion = completion};
    int rc = check_claim(t, claim);
    if (rc < 0)
        return rc;
    call.clock = wait_clock_start(claim->wait_ms);
    call.none.until_ms = TEND_UNSET;
    while ((rc = fill_want(t, claim, with_lock, &call.want, &call.clock)) < 0 &&
           (rc = wait_out(t, &call.clock, rc, "claiming from queue", call.want.queue)) == 0)
        continue;
    if (rc < 0) {
        if (ret_none != NULL)
            *ret_none = call.none;
        return rc;
    }
    call.want.look = &call.look;
    call.box = jobs_box_new();
    if (call.box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while claiming");
    rc = claim_loop(&call);
    if (rc > 0) {
        *ret = &call.box->jobs;
        pthread_mutex_lock(&t->mutex);
        bell_remember(t, &call.box->jobs, !with_lock && settings_are_plain(&call.settings));
        pthread_mutex_unlock(&t->mutex);
    } else {
        tend_jobs_free(&call.box->jobs);
        if (ret_none != NULL)
            *ret_none = call.none;
    }
    return rc;
}

int tend_claim_jobs(tend *t, const struct tend_claim *options, struct tend_jobs **ret,
                    struct tend_none *ret_none)
{
    return claim(t, options, false, NULL, ret, ret_none);
}

int tend_next_with_lock(tend *t, const struct tend_claim *options, struct tend_jobs **ret,
                        struct tend_none *ret_none)
{
    return claim(t, options, true, NULL, ret, ret_none);
}

int tend_complete_and_claim(tend *t, const struct tend_lease *leases, size_t count,
                            const char *const *results, int *ret_each,
                            const struct tend_claim *options, struct tend_jobs **ret,
                            struct tend_none *ret_none)
{
    int rc = lease_check_results(t, results, count);
    if (rc < 0)
        return lease_unknown(NULL, count, rc, ret_each);
    struct completion completion = {.leases = leases,
                                    .count = count,
                                    .results = results,
                                    .changed = calloc(count + 1, sizeof *completion.changed),
                                    .bells = bell_of_ends(t, leases, count)};
    if (completion.changed == NULL)
        return lease_no_memory(t, count, ret_each);
    rc = claim(t, options, false, &completion, ret, ret_none);
    /* What became of the leases is in ret_each; the answer is about the claim. */
    struct err kept = *handle_err(t);
    if (completion.committed)
        lease_complete_verdicts(t, &completion, ret_each);
    else
        lease_unknown(NULL, count, rc, ret_each);
    *handle_err(t) = kept;
    free(completion.changed);
    return rc;
}
