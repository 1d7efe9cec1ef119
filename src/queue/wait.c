#include "queue/wait.h"

#include "base/clock.h"
#include "queue/event_totals.h"
#include "queue/passed.h"
#include "queue/recover.h"
#include "queue/retain.h"
#include "queue/schedule.h"
#include "queue/worker.h"
#include "store/queries.h"

/* How often a thread that waits for a process looks at it; its end may be told to another thread.
 */
enum { PROCESS_LOOK_MS = 1000 };

/* The store is given this long however short a caller waits. */
enum { PATIENCE_LEAST_MS = 1000 };
/* A server's clock that is behind what it said before by more than this was set back. */
enum { SET_BACK_MS = 1000 };

/* Longer than this is for ever; sums with it stay in range. */
static const int64_t ever_ms = INT64_MAX / 4;

struct wait_clock wait_clock_start(int64_t wait_ms)
{
    bool ever = wait_ms < 0 || wait_ms > ever_ms;
    return (struct wait_clock){.deadline_ms = ever ? INT64_MAX : clock_mono_ms() + wait_ms,
                               .waits = wait_ms != 0};
}

int64_t wait_clock_patience(const struct wait_clock *clock)
{
    if (!clock->waits || clock->deadline_ms == INT64_MAX)
        return -1;
    int64_t left_ms = clock->deadline_ms - clock_mono_ms();
    return left_ms > PATIENCE_LEAST_MS ? left_ms : PATIENCE_LEAST_MS;
}

/* Until the deadline; -1: for ever. */
static int64_t time_left_ms(const struct wait_clock *clock)
{
    if (clock->deadline_ms == INT64_MAX)
        return -1;
    int64_t left_ms = clock->deadline_ms - clock_mono_ms();
    return left_ms < 0 ? 0 : left_ms;
}

bool wait_clock_over(const struct wait_clock *clock)
{
    return clock->deadline_ms != INT64_MAX && clock_mono_ms() >= clock->deadline_ms;
}

int wait_out(tend *t, struct wait_clock *clock, int failed, const char *what, const char *name)
{
    struct err kept = *handle_err(t);
    int64_t until_ms = db_mono_ms(t->db) + RECOVERY_RETRY_MS;
    if (!clock->waits || wait_clock_over(clock) || (failed != TEND_EFULL && failed != TEND_EIO))
        return failed;
    if (!clock->told)
        handle_log(t, "%s %s failed and is tried again every second: %s", what, name, kept.text);
    clock->told = true;
    /* No bell: where others can write and this process cannot, they ring all the time. */
    for (int64_t left_ms;
         (left_ms = until_ms - db_mono_ms(t->db)) > 0 && !wait_clock_over(clock);) {
        int news = db_wait(t->db, 0, 0, wait_clock_limit(clock, left_ms), handle_err(t));
        if (news == DB_INTERRUPTED)
            return handle_fail(t, TEND_EINTERRUPTED, "interrupted while waiting: %s %s failed",
                               what, name);
        if (news < 0)
            return news;
    }
    *handle_err(t) = kept;
    return wait_clock_over(clock) ? failed : 0;
}

const struct wait_after wait_after_none = {.alarm_ms = TEND_UNSET, .schedule_ms = TEND_UNSET};

int wait_hint_read(struct db_tx *tx, const struct wait_after *after, struct wait_hint *ret)
{
    struct job_next_alarm_rows alarm;
    struct schedule_next_rows schedule;
    const struct job_next_alarm_params alarms = {.after = db_int(after->alarm_ms)};
    const struct schedule_next_params schedules = {.after = db_int(after->schedule_ms)};
    int rc;
    if ((rc = run_job_next_alarm(tx, DB_LATER, alarms, &alarm)) < 0 ||
        (rc = run_schedule_next(tx, 0, schedules, &schedule)) < 0 ||
        (rc = db_time(tx, &ret->now_ms)) < 0)
        return rc;
    ret->next_alarm_ms = db_num(alarm.at[0].at);
    ret->next_schedule_ms = db_num(schedule.at[0].next_at);
    return 0;
}

static int64_t earlier(int64_t timeout_ms, int64_t at_ms, int64_t now_ms)
{
    if (at_ms == TEND_UNSET || at_ms - now_ms >= timeout_ms)
        return timeout_ms;
    return at_ms <= now_ms ? 1 : at_ms - now_ms;
}

int64_t wait_clock_limit(const struct wait_clock *clock, int64_t timeout_ms)
{
    int64_t left_ms =
        clock->deadline_ms == INT64_MAX ? timeout_ms : clock->deadline_ms - clock_mono_ms();
    if (clock->process.pid != 0 && timeout_ms > PROCESS_LOOK_MS)
        timeout_ms = PROCESS_LOOK_MS;
    if (left_ms < timeout_ms)
        timeout_ms = left_ms;
    return timeout_ms < 0 ? 0 : timeout_ms;
}

static int64_t sooner(int64_t timeout_ms, int64_t other_ms) /* -1: for ever */
{
    return timeout_ms < 0 || other_ms < timeout_ms ? other_ms : timeout_ms;
}

/* retry_ms: when what stays due is looked at again; 0: nothing does. pause_ms: when dead workers
 * are looked for again; 0: they are watched. */
static int64_t sleep_ms(const struct wait_clock *clock, const struct wait_hint *hint,
                        const struct tend_none *none, int64_t retry_ms, int64_t pause_ms)
{
    int64_t timeout_ms = WAIT_TICK_MS;
    timeout_ms = earlier(timeout_ms, hint->next_alarm_ms, hint->now_ms);
    timeout_ms = earlier(timeout_ms, hint->next_schedule_ms, hint->now_ms);
    if (retry_ms > 0)
        timeout_ms = sooner(timeout_ms, retry_ms);
    if (pause_ms > 0)
        timeout_ms = sooner(timeout_ms, pause_ms);
    timeout_ms = earlier(timeout_ms, none->until_ms, hint->now_ms);
    return wait_clock_limit(clock, timeout_ms);
}

/*
 * Whoever is woken looks first without the write lock, so that a bell that rang for others, or for
 * a queue that is still at its limit, costs them nothing.
 */
struct peek {
    struct claim_want want;
    struct claim_look look;
    bool worth_it;
    struct tend_none none;   /* ... and why not */
    struct wait_after after; /* the clock is asked for what comes later */
    struct wait_hint hint;
};

static int peek_body(struct db_tx *tx, void *arg)
{
    struct peek *peek = arg;
    peek->look.used = false;
    int rc = limits_peek(tx, &peek->want, &peek->worth_it, &peek->none);
    return rc < 0 ? rc : wait_hint_read(tx, &peek->after, &peek->hint);
}

static int hint_body(struct db_tx *tx, void *arg)
{
    struct peek *peek = arg;
    return wait_hint_read(tx, &peek->after, &peek->hint);
}

static bool is_past(int64_t at_ms, int64_t now_ms)
{
    return at_ms != TEND_UNSET && at_ms <= now_ms;
}

/* Whether there is something the clock should have done by now. */
static bool clock_asks(const struct wait_hint *hint)
{
    return is_past(hint->next_alarm_ms, hint->now_ms) ||
           is_past(hint->next_schedule_ms, hint->now_ms);
}

/* RC-1: the timer of whoever waits. Jittered, so that many waiters do not come at once. *ret_first:
 * it was not running yet. */
static bool recovery_is_due(tend *t, bool *ret_first)
{
    bool timer = t->options.recovery_ms > 0;
    double random = handle_random(t);
    int64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&t->mutex);
    *ret_first = t->recovery_next_ms == 0;
    bool due = !*ret_first && timer && now_ms >= t->recovery_next_ms;
    if (*ret_first || due)
        t->recovery_next_ms =
            timer ? now_ms + (int64_t)((double)t->options.recovery_ms * (0.8 + 0.4 * random))
                  : INT64_MAX;
    pthread_mutex_unlock(&t->mutex);
    return due;
}

void recover_on_timer(tend *t, int64_t wait_ms, int64_t spare_ms)
{
    struct tend_recovery done;
    bool first;
    if (recovery_is_due(t, &first))
        recover_stale_quietly(t, wait_ms, &done);
    if (first) /* from here on this machine can tell whether the store's clock was set */
        recover_settle_clock(t, recover_wait_ms(t, wait_ms));
    event_totals_on_timer(t, recover_wait_ms(t, spare_ms));
    retain_on_timer(t, recover_wait_ms(t, spare_ms));
}

/* For something that is to be done again: if its time has come meanwhile, a sleep must still end.
 */
static int64_t at_least_1(int64_t left_ms)
{
    return left_ms < 1 ? 1 : left_ms;
}

/* When recover_on_timer has something to do again, once it has been called; 1 at least. */
static int64_t timers_left_ms(tend *t)
{
    pthread_mutex_lock(&t->mutex);
    int64_t next_ms = t->purge_next_ms;
    if (t->options.recovery_ms > 0 && t->recovery_next_ms < next_ms)
        next_ms = t->recovery_next_ms;
    pthread_mutex_unlock(&t->mutex);
    return at_least_1(next_ms - clock_mono_ms());
}

/* A dead worker whose recovery failed is reported again when the pause after the failure is over,
 * not before. */
int wait_watch(tend *t, const struct wait_clock *clock)
{
    int64_t pause_ms = recover_pause_ms(t, RECOVER_DEAD);
    if (pause_ms == 0 && recover_is_failing(t, RECOVER_DEAD) &&
        !recover_dead_quietly(t, wait_clock_patience(clock)))
        pause_ms = at_least_1(recover_pause_ms(t, RECOVER_DEAD));
    int rc = pause_ms > 0 ? 0 : worker_watch_all(t, wait_clock_patience(clock));
    return rc < 0 ? rc : (int)pause_ms;
}

static int64_t pause_or_retry_ms(const tend *t, enum recovery_kind kind)
{
    int64_t pause_ms = recover_pause_ms(t, kind);
    return pause_ms > 0 ? pause_ms : RECOVERY_RETRY_MS;
}

/*
 * What is due and stays due, because it cannot be recovered or somebody else has locked its row, is
 * not looked at again at once: everybody who waits would try without end. What falls due after it
 * is asked for in time all the same. Only where the alarms failed as a whole, the next would fail
 * like them. Returns for how long to leave alone what is due up to *ret_after; 0: there is none.
 */
static int64_t what_stays(const tend *t, const struct wait_hint *hint, struct wait_after *ret_after)
{
    int64_t retry_ms = -1;
    *ret_after = wait_after_none;
    if (hint->alarms_failed ||
        (hint->nothing_moved && is_past(hint->next_alarm_ms, hint->now_ms))) {
        ret_after->alarm_ms = hint->alarms_failed ? INT64_MAX : hint->now_ms;
        retry_ms = pause_or_retry_ms(t, RECOVER_ALARMS);
    }
    if (hint->unfired_ms != TEND_UNSET) {
        ret_after->schedule_ms = hint->unfired_ms;
        retry_ms = sooner(retry_ms, pause_or_retry_ms(t, RECOVER_SCHEDULES));
    }
    return retry_ms < 0 ? 0 : retry_ms;
}

int wait_for_queue(tend *t, const struct claim_want *want, uint64_t seen,
                   const struct wait_clock *clock, const struct wait_hint *hint,
                   const struct tend_none *none)
{
    struct peek peek = {.want = *want, .none = *none, .hint = *hint};
    uint64_t bell = db_bell_of(want->queue);
    int rc;
    int64_t retry_ms = what_stays(t, hint, &peek.after);
    if (retry_ms > 0) {
        retry_ms += db_mono_ms(t->db);
        if ((rc = handle_read_within(t, wait_clock_patience(clock), hint_body, &peek)) < 0)
            return rc;
    }
    for (;;) {
        int unwatched_ms = wait_watch(t, clock);
        if (unwatched_ms < 0)
            return unwatched_ms;
        recover_on_timer(t, wait_clock_patience(clock), time_left_ms(clock));
        int64_t left_ms = retry_ms == 0 ? 0 : at_least_1(recover_left_ms(t, retry_ms));
        int64_t timeout_ms = sleep_ms(clock, &peek.hint, &peek.none, left_ms, unwatched_ms);
        int news = db_wait(t->db, bell, seen, timeout_ms, handle_err(t));
        if (news < 0)
            return news;
        if (news == DB_INTERRUPTED)
            return handle_fail(t, TEND_EINTERRUPTED, "interrupted while waiting for queue %s",
                               want->queue);
        if (news == DB_DEATH)
            recover_dead_quietly(t, wait_clock_patience(clock));
        if ((rc = worker_check_process(t, &clock->process, "claimed")) < 0)
            return rc;
        if (wait_clock_over(clock))
            return 0;
        seen = db_bell(t->db, bell);
        peek.look = passed_start(t, want);
        peek.want.look = &peek.look;
        if ((rc = handle_read_within(t, wait_clock_patience(clock), peek_body, &peek)) < 0)
            return rc;
        if (peek.look.used) /* or each would look at the same piece again */
            passed_keep(t, &peek.look.after);
        if (peek.worth_it || clock_asks(&peek.hint) ||
            (retry_ms != 0 && recover_left_ms(t, retry_ms) == 0))
            return 0;
    }
}

/* --- tend_wait --- */

/*
 * Asks the clock for what falls due after what this handle was told of before. What it was told of
 * lies in the past. If it does not, the clock was set back since: then all that is still to come
 * counts, or it would be hidden until the clock has caught up.
 */
static int ask_clock(tend *t, const struct wait_clock *clock, struct peek *peek)
{
    pthread_mutex_lock(&t->mutex);
    int64_t told_ms = t->alarm_told_ms;
    pthread_mutex_unlock(&t->mutex);
    peek->after = (struct wait_after){.alarm_ms = told_ms, .schedule_ms = told_ms};
    int rc = handle_read_within(t, wait_clock_patience(clock), hint_body, peek);
    if (rc < 0 || told_ms <= peek->hint.now_ms + SET_BACK_MS)
        return rc;
    *peek =
        (struct peek){.after = {.alarm_ms = peek->hint.now_ms, .schedule_ms = peek->hint.now_ms}};
    return handle_read_within(t, wait_clock_patience(clock), hint_body, peek);
}

/*
 * When the clock will make work: the next time that lies after what this handle was told of before,
 * so that one nobody acts on is told once, and hides none that comes after it. Shortens
 * *timeout_ms.
 */
static int next_by_clock(tend *t, const struct wait_clock *clock, int64_t *timeout_ms,
                         int64_t *ret_at_ms, int64_t *ret_told_ms)
{
    struct peek peek = {0};
    const struct wait_hint *hint = &peek.hint;
    int rc = ask_clock(t, clock, &peek);
    if (rc < 0)
        return rc;
    int64_t at_ms = hint->next_alarm_ms;
    if (at_ms == TEND_UNSET ||
        (hint->next_schedule_ms != TEND_UNSET && hint->next_schedule_ms < at_ms))
        at_ms = hint->next_schedule_ms;
    if (at_ms != TEND_UNSET)
        *timeout_ms = earlier(*timeout_ms, at_ms, hint->now_ms);
    *ret_at_ms = at_ms;
    *ret_told_ms =
        at_ms > hint->now_ms ? at_ms : hint->now_ms; /* all that are past are told at once */
    return 0;
}

/* When a claim may try again what has failed in one before, the first time that was not told yet
 * (monotonic); 0: none. */
static int64_t claims_again_at(tend *t)
{
    int64_t alarms_ms = recover_again_at(t, RECOVER_ALARMS);
    int64_t schedules_ms = recover_again_at(t, RECOVER_SCHEDULES);
    pthread_mutex_lock(&t->mutex);
    if (alarms_ms <= t->again_told_ms)
        alarms_ms = 0;
    if (schedules_ms <= t->again_told_ms)
        schedules_ms = 0;
    pthread_mutex_unlock(&t->mutex);
    return alarms_ms == 0 || schedules_ms == 0 ? alarms_ms + schedules_ms
                                               : sooner(alarms_ms, schedules_ms);
}

/*
 * db_wait that ends by time not before store time is at_ms, which need not run at the pace of the
 * clock that db_wait sleeps by.
 */
static int wait_until_store_time(tend *t, uint64_t bells, uint64_t seen, int64_t at_ms,
                                 int64_t timeout_ms, const struct wait_clock *clock)
{
    for (;;) {
        int64_t now_ms;
        int rc = db_wait(t->db, bells, seen, timeout_ms, handle_err(t));
        if (rc != DB_TIMEOUT || (rc = handle_now(t, wait_clock_patience(clock), &now_ms)) < 0)
            return rc;
        if (now_ms >= at_ms)
            return DB_TIMEOUT;
        timeout_ms = at_ms - now_ms;
    }
}

/* Sleeps once. 1: news, or a claim may try again what has failed; 0: the time is over, or dead
 * workers may be looked for again, or it is time for recover_on_timer. */
static int wait_once(tend *t, uint64_t bells, uint64_t seen, int64_t timeout_ms,
                     const struct wait_clock *clock)
{
    int64_t at_ms;
    int64_t told_ms;
    int rc = wait_watch(t, clock);
    if (rc < 0)
        return rc;
    if (rc > 0)
        timeout_ms = sooner(timeout_ms, rc);
    timeout_ms = sooner(timeout_ms, timers_left_ms(t));
    int64_t again_ms = claims_again_at(t);
    int64_t left_ms = at_least_1(recover_left_ms(t, again_ms));
    bool tries_again = again_ms > 0 && left_ms <= timeout_ms;
    if (tries_again)
        timeout_ms = left_ms;
    int64_t asked_ms = timeout_ms;
    if ((rc = next_by_clock(t, clock, &timeout_ms, &at_ms, &told_ms)) < 0)
        return rc;
    bool by_clock = at_ms != TEND_UNSET && timeout_ms != asked_ms;
    rc = by_clock ? wait_until_store_time(t, bells, seen, at_ms, timeout_ms, clock)
                  : db_wait(t->db, bells, seen, timeout_ms, handle_err(t));
    if (rc == DB_INTERRUPTED)
        return handle_fail(t, TEND_EINTERRUPTED, "interrupted while waiting");
    if (rc == DB_DEATH)
        return recover_dead_quietly(t, -1); /* what could not be recovered is no news */
    if (rc != DB_TIMEOUT)
        return rc < 0 ? rc : 1;
    pthread_mutex_lock(&t->mutex);
    if (by_clock)
        t->alarm_told_ms = told_ms;
    else if (tries_again)
        t->again_told_ms = again_ms;
    pthread_mutex_unlock(&t->mutex);
    return by_clock || tries_again;
}

int wait_for_bells(tend *t, uint64_t bells, struct wait_seen *last, int64_t timeout_ms)
{
    if (db_is_forked(t->db)) /* what is left of the parent's bells is no news */
        return db_wait(t->db, bells, 0, 0, handle_err(t));
    uint64_t bell = db_bell(t->db, bells);
    pthread_mutex_lock(&t->mutex);
    bool news = !last->waited || bell != last->bell;
    uint64_t seen = bell;
    *last = (struct wait_seen){.bell = bell, .waited = true};
    pthread_mutex_unlock(&t->mutex);
    struct wait_clock clock = wait_clock_start(timeout_ms);
    /* Also where news come so often that nobody ever sleeps. */
    recover_on_timer(t, -1, news ? 0 : time_left_ms(&clock));
    if (news)
        return 1;
    int rc;
    do {
        rc = wait_once(t, bells, seen, time_left_ms(&clock), &clock);
        if (rc == 0)
            recover_on_timer(t, wait_clock_patience(&clock), time_left_ms(&clock));
    } while (rc == 0 && !wait_clock_over(&clock));
    if (rc <= 0) /* what rings from now on is news for the next call */
        return rc;
    bell = db_bell(t->db, bells);
    pthread_mutex_lock(&t->mutex);
    last->bell = bell;
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

int tend_wait(tend *t, int64_t timeout_ms)
{
    return wait_for_bells(t, DB_BELLS_ALL, &t->seen, timeout_ms);
}
