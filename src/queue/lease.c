#include "queue/lease.h"

#include "base/clock.h"
#include "base/timetext.h"
#include "core/state.h"
#include "queue/add.h"
#include "queue/bell.h"
#include "queue/holder.h"
#include "queue/policy_row.h"
#include "queue/submission.h"
#include "store/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The events with which an owner ends its lease by each call, and the states in which the job is
 * found after that, unless somebody else has moved it since. */
static const struct {
    const char *events[2];
    unsigned states;
} repeats[] = {
    [LEASE_CHANGE] = {{NULL}, 0},
    [LEASE_LOOK] = {{NULL}, 1u << JOB_RUNNING},
    [LEASE_COMPLETE] = {{"job.completed"}, 1u << JOB_DONE},
    [LEASE_FAIL] = {{"job.failed", "job.retry_scheduled"},
                    1u << JOB_SCHEDULED | 1u << JOB_PENDING | 1u << JOB_FAILED},
    [LEASE_RELEASE] = {{"job.released"}, 1u << JOB_SCHEDULED | 1u << JOB_PENDING},
};

struct verdict_call {
    const struct lease_answers *answers;
    int *ret_each;
    int code;               /* of the first that is not 0 */
    struct tend_lease lost; /* ... and which it is */
    char owner[NAME_BYTES]; /* who has it now */
    char ending[32];        /* the event with which its owner ended it, or "" */
    int state;              /* -1: there is no such job */
    int64_t due_ms;         /* of a conflict: what stands */
    char why[256];          /* ... and why: the error, or the reason of the release */
};

/* found: NULL when there is no such job. */
static void note_first(struct verdict_call *call, const struct tend_lease *lease, int code,
                       const struct job_fence_row *found)
{
    if (call->code != 0)
        return;
    call->code = code;
    call->lost = *lease;
    call->state = found == NULL ? -1 : (int)db_num(found->state);
    const char *owner = found == NULL ? NULL : db_str(found->owner);
    const char *ending = found == NULL ? NULL : db_str(found->ending);
    snprintf(call->owner, sizeof call->owner, "%s", owner != NULL ? owner : "");
    snprintf(call->ending, sizeof call->ending, "%s", ending != NULL ? ending : "");
    if (code != TEND_ECONFLICT)
        return;
    bool failed = call->answers->asked == LEASE_FAIL;
    const char *why = db_str(failed ? found->error_text : found->ending_why);
    call->due_ms = db_num(found->due_at);
    snprintf(call->why, sizeof call->why, "%s", why != NULL ? why : "");
}

/* All questions go out before the first answer is waited for. */
static int ask_fences(struct db_tx *tx, const struct lease_answers *answers,
                      struct job_fence_rows *found)
{
    size_t last = answers->count;
    for (size_t i = 0; i < answers->count; i++)
        if (answers->changed[i] == 0)
            last = i;
    for (size_t i = 0; i < answers->count; i++) {
        const struct job_fence_params params = {.id = db_int(answers->leases[i].id),
                                                .token = db_int(answers->leases[i].token)};
        int rc = answers->changed[i] != 0
                     ? 0
                     : run_job_fence(tx, i == last ? 0 : DB_LATER, params, &found[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Whether the same call has gone through before. Once the events are deleted, the state decides. */
static bool is_repeated(enum lease_asked asked, const struct job_fence_row *found)
{
    const char *ending = db_str(found->ending);
    if ((repeats[asked].states >> db_num(found->state) & 1) == 0)
        return false;
    for (size_t i = 0; ending != NULL && i < 2; i++)
        if (repeats[asked].events[i] != NULL && strcmp(repeats[asked].events[i], ending) == 0)
            return true;
    return ending == NULL;
}

/* Who gives no result this time contradicts nothing. */
static bool contradicts(const char *given, const char *stored)
{
    return given != NULL && (stored == NULL || strcmp(given, stored) != 0);
}

/* Whether the job became due again after another time than delay_ms, as far as is known. */
static bool was_delayed_otherwise(const struct job_fence_row *found, int64_t delay_ms)
{
    int64_t due_ms = db_num(found->due_at);
    int64_t at_ms = db_num(found->ending_at);
    return due_ms != TEND_UNSET && at_ms != TEND_UNSET && due_ms - at_ms != delay_ms;
}

/* A job that has failed for good although another attempt is asked for: are they used up? */
static int had_attempts_left(struct db_tx *tx, int64_t id, bool *ret)
{
    struct job_policy_rows found;
    struct policy_row row;
    int rc = run_job_policy(tx, 0, (struct job_policy_params){.id = db_int(id)}, &found);
    if (rc < 0 || found.count == 0)
        return rc;
    policy_row_read(&row, &found.at[0].policy);
    *ret = row.attempts < row.policy.max_attempts;
    return 0;
}

/* As a result that is not given, what a failure leaves open contradicts nothing. */
static int failure_contradicts(struct db_tx *tx, const struct lease_answers *answers, size_t i,
                               const struct job_fence_row *found, bool *ret)
{
    const struct tend_failure *failure = answers->failure;
    bool for_good = db_num(found->state) == JOB_FAILED;
    const char *text = handle_clean_text(db_arena(tx), failure->text);
    *ret = contradicts(text, db_str(found->error_text)) ||
           contradicts(failure->error_class, db_str(found->error_class)) ||
           (failure->final && !for_good);
    if (*ret || failure->final || failure->retry_in_ms == TEND_UNSET)
        return 0;
    if (for_good)
        return had_attempts_left(tx, answers->leases[i].id, ret);
    *ret = was_delayed_otherwise(found, failure->retry_in_ms);
    return 0;
}

/* A release without a delay is for at once. */
static bool release_contradicts(struct db_tx *tx, const struct lease_answers *answers,
                                const struct job_fence_row *found)
{
    if (db_str(found->ending) == NULL)
        return false; /* the events are deleted: nothing is known of it */
    bool later = db_num(found->ending_state) == JOB_SCHEDULED;
    const char *why = handle_clean_text(db_arena(tx), answers->why);
    return contradicts(why, db_str(found->ending_why)) || later != (answers->delay_ms > 0) ||
           (later && was_delayed_otherwise(found, answers->delay_ms));
}

/* found: NULL when there is no such job. */
static int verdict_on(struct db_tx *tx, const struct lease_answers *answers, size_t i,
                      const struct job_fence_row *found, int *ret)
{
    bool otherwise = false;
    int rc = 0;
    *ret = TEND_ELEASELOST;
    if (found == NULL || db_num(found->token) != answers->leases[i].token)
        return 0;
    if (answers->asked == LEASE_CHANGE && db_num(found->state) == JOB_RUNNING) {
        *ret = TEND_EBUSY; /* it is held: its row was skipped */
        return 0;
    }
    if (!is_repeated(answers->asked, found))
        return 0;
    if (answers->asked == LEASE_COMPLETE && answers->results != NULL)
        otherwise = contradicts(answers->results[i], db_str(found->result));
    else if (answers->asked == LEASE_FAIL)
        rc = failure_contradicts(tx, answers, i, found, &otherwise);
    else if (answers->asked == LEASE_RELEASE)
        otherwise = release_contradicts(tx, answers, found);
    *ret = otherwise ? TEND_ECONFLICT : 0;
    return rc;
}

static int verdict_body(struct db_tx *tx, void *arg)
{
    struct verdict_call *call = arg;
    const struct lease_answers *answers = call->answers;
    struct job_fence_rows *found = arena_zalloc(db_arena(tx), (answers->count + 1) * sizeof *found);
    if (found == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", answers->count);
    int rc = ask_fences(tx, answers, found);
    call->code = 0;
    for (size_t i = 0; rc >= 0 && i < answers->count; i++) {
        const struct job_fence_row *job = found[i].count == 0 ? NULL : &found[i].at[0];
        call->ret_each[i] = 0;
        if (answers->changed[i] == 0)
            rc = verdict_on(tx, answers, i, job, &call->ret_each[i]);
        if (rc >= 0 && call->ret_each[i] != 0)
            note_first(call, &answers->leases[i], call->ret_each[i], job);
    }
    return rc;
}

/* What the owner did, in words, when it ended its lease with this event; NULL: it did not. */
static const char *owner_has(const char *event)
{
    static const char *const words[][2] = {{"job.completed", "completed"},
                                           {"job.failed", "failed"},
                                           {"job.retry_scheduled", "failed"},
                                           {"job.released", "released"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], event) == 0)
            return words[i][1];
    return NULL;
}

/* A fail or release that was asked for otherwise before. */
static int sentence_otherwise(tend *t, const struct verdict_call *call)
{
    long long id = (long long)call->lost.id;
    char due[TIME_TEXT_BYTES + 8] = "";
    if (call->due_ms != TEND_UNSET && call->state != JOB_FAILED) {
        char at[TIME_TEXT_BYTES];
        snprintf(due, sizeof due, ", due %s", time_text(call->due_ms, at));
    }
    return handle_fail(
        t, TEND_ECONFLICT,
        "job %lld was %s under lease %lld:%lld before, otherwise than asked now%s%s; it is %s%s; "
        "nothing was changed",
        id, call->answers->asked == LEASE_FAIL ? "failed" : "released", id,
        (long long)call->lost.token, call->why[0] != '\0' ? ": " : "", call->why,
        state_name((enum job_state)call->state), due);
}

static int sentence(tend *t, const struct verdict_call *call)
{
    long long id = (long long)call->lost.id;
    long long token = (long long)call->lost.token;
    if (call->code == TEND_ECONFLICT && call->answers->asked != LEASE_COMPLETE)
        return sentence_otherwise(t, call);
    if (call->code == TEND_ECONFLICT)
        return handle_fail(t, TEND_ECONFLICT,
                           "job %lld was completed under lease %lld:%lld with another result; the "
                           "first result stays",
                           id, id, token);
    if (call->code == TEND_EBUSY)
        return holder_explain_busy(t,
                                   handle_fail(t, TEND_EBUSY,
                                               "job %lld cannot be changed now: another session is "
                                               "writing its row; try again",
                                               id),
                                   call->lost.id, "changed");
    if (call->state < 0)
        return handle_fail(t, TEND_ELEASELOST, "lease %lld:%lld is not held: there is no job %lld",
                           id, token, id);
    if (call->owner[0] != '\0')
        return handle_fail(t, TEND_ELEASELOST,
                           "lease %lld:%lld is lost: the job is now held by %s; stop working on it",
                           id, token, call->owner);
    const char *state = state_name((enum job_state)call->state);
    if (owner_has(call->ending) != NULL)
        return handle_fail(t, TEND_ELEASELOST,
                           "lease %lld:%lld has ended: its owner has %s the job, which is %s by "
                           "now; nothing was changed",
                           id, token, owner_has(call->ending), state);
    return handle_fail(t, TEND_ELEASELOST,
                       "lease %lld:%lld is lost: the job is %s by now; stop working on it", id,
                       token, state);
}

int lease_unknown(const int64_t *changed, size_t count, int rc, int *ret_each)
{
    /* That would be the answer to an owner who has asked for something else before. */
    if (rc == TEND_ECONFLICT)
        rc = TEND_EBUSY;
    for (size_t i = 0; ret_each != NULL && i < count; i++)
        ret_each[i] = changed != NULL && changed[i] != 0 ? 0 : rc;
    return rc;
}

int lease_no_memory(tend *t, size_t count, int *ret_each)
{
    int rc = handle_fail(t, TEND_ENOMEM, "out of memory with %zu leases", count);
    return lease_unknown(NULL, count, rc, ret_each);
}

static int verdicts_within(tend *t, int64_t wait_ms, const struct lease_answers *answers,
                           int *ret_each)
{
    size_t count = answers->count;
    size_t missed = 0;
    for (size_t i = 0; i < count; i++)
        missed += answers->changed[i] == 0;
    if (missed == 0)
        return lease_unknown(answers->changed, count, 0, ret_each);
    int *each = ret_each != NULL ? ret_each : calloc(count, sizeof *each);
    if (each == NULL)
        return lease_no_memory(t, count, NULL);
    struct verdict_call call = {.answers = answers, .ret_each = each};
    int rc = handle_read_within(t, wait_ms, verdict_body, &call);
    if (each != ret_each)
        free(each);
    if (rc < 0)
        return lease_unknown(answers->changed, count, rc, ret_each);
    return call.code == 0 ? 0 : sentence(t, &call);
}

int lease_verdicts(tend *t, const struct lease_answers *answers, int *ret_each)
{
    return verdicts_within(t, -1, answers, ret_each);
}

int lease_verdict(tend *t, const struct tend_lease *lease, const int64_t *changed,
                  enum lease_asked asked)
{
    const struct lease_answers answers = {
        .leases = lease, .count = 1, .changed = changed, .asked = asked};
    return lease_verdicts(t, &answers, NULL);
}

/* --- start, heartbeat, complete: the same shape, one query each --- */

struct lease_call {
    tend *t;
    const struct tend_lease *leases;
    size_t count;
    db_body *body;  /* start_body or heartbeat_body */
    int64_t ttl_ms; /* heartbeat */
    int64_t *changed;
    bool written; /* the call as a whole went through */
};

/* The lock of a serial queue lasts as long as the lease it was taken with: not for PostgreSQL,
 * where it does by itself. */
static int extend_locks(struct db_tx *tx, const struct lease_call *call)
{
    struct lock_follow_params *jobs = arena_alloc(db_arena(tx), call->count * sizeof *jobs);
    size_t count = 0;
    if (jobs == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    for (size_t i = 0; i < call->count; i++)
        if (call->changed[i] != 0)
            jobs[count++] = (struct lock_follow_params){.job_id = db_int(call->leases[i].id)};
    return each_lock_follow(tx, DB_LAST, jobs, count, NULL);
}

static int start_body(struct db_tx *tx, void *arg)
{
    const struct lease_call *call = arg;
    struct job_start_params *params = arena_alloc(db_arena(tx), call->count * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    for (size_t i = 0; i < call->count; i++)
        params[i] = (struct job_start_params){.id = db_int(call->leases[i].id),
                                              .token = db_int(call->leases[i].token),
                                              .now = db_now(tx)};
    return each_job_start(tx, DB_LAST, params, call->count, call->changed);
}

/* Jobs may have been taken along with a lock, by whichever handle. */
static int heartbeat_body(struct db_tx *tx, void *arg)
{
    const struct lease_call *call = arg;
    struct job_heartbeat_params *params = arena_alloc(db_arena(tx), call->count * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    for (size_t i = 0; i < call->count; i++)
        params[i] = (struct job_heartbeat_params){.id = db_int(call->leases[i].id),
                                                  .token = db_int(call->leases[i].token),
                                                  .ttl_ms = db_int_or_null(call->ttl_ms),
                                                  .now = db_now(tx)};
    bool with_locks = !db_concurrent(tx);
    int rc = each_job_heartbeat(tx, with_locks ? 0 : DB_LAST, params, call->count, call->changed);
    return rc < 0 || !with_locks ? rc : extend_locks(tx, call);
}

/*
 * Starts or extends the leases and turns what it changed into verdicts. Rule: a row that another
 * session has locked holds up no other lease. It is skipped, and answered with TEND_EBUSY.
 */
static int touch(tend *t, int64_t wait_ms, struct lease_call *call, int *ret_each)
{
    if (call->count == 0)
        return 0;
    int64_t *changed = calloc(call->count, sizeof *changed);
    if (changed == NULL)
        return lease_no_memory(t, call->count, ret_each);
    call->changed = changed;
    const struct lease_answers answers = {
        .leases = call->leases, .count = call->count, .changed = changed, .asked = LEASE_CHANGE};
    int rc = handle_write_within(t, wait_ms, call->body, call);
    call->written = rc >= 0;
    rc = call->written ? verdicts_within(t, wait_ms, &answers, ret_each)
                       : lease_unknown(NULL, call->count, rc, ret_each);
    free(changed);
    return rc;
}

/* touch for one of the leases, again and again while its row is locked, until the time is over. */
static int touch_one(tend *t, const struct lease_call *all, size_t i, int64_t until_ms, int *ret)
{
    int rc;
    for (;;) {
        struct lease_call one = *all;
        one.leases = &all->leases[i];
        one.count = 1;
        rc = touch(t, -1, &one, ret);
        if (rc != TEND_EBUSY || !one.written || clock_mono_ms() >= until_ms)
            return rc;
        holder_pause();
    }
}

/* Once more for those that were skipped. Returns the code of the first that did not go through. */
static int touch_again(tend *t, const struct lease_call *call, int64_t until_ms, int *each)
{
    struct err kept = {0};
    int first = 0;
    for (size_t i = 0; i < call->count; i++) {
        if (each[i] == 0 || (first != 0 && each[i] != TEND_EBUSY))
            continue;
        int rc = touch_one(t, call, i, until_ms, &each[i]);
        if (first == 0 && rc != 0)
            kept = *handle_err(t);
        first = first == 0 ? rc : first;
    }
    if (first != 0)
        *handle_err(t) = kept;
    return first;
}

/* touch that gives the rows which others have locked as long as any call has. */
static int touch_patiently(tend *t, struct lease_call *call, int *ret_each)
{
    int *each = ret_each != NULL ? ret_each : calloc(call->count + 1, sizeof *each);
    if (each == NULL)
        return lease_no_memory(t, call->count, NULL);
    int64_t until_ms = clock_mono_ms() + t->options.busy_ms;
    int first = touch(t, -1, call, each);
    bool skipped = false;
    for (size_t i = 0; call->written && i < call->count; i++)
        skipped |= each[i] == TEND_EBUSY && clock_mono_ms() < until_ms;
    if (skipped)
        first = touch_again(t, call, until_ms, each);
    if (each != ret_each)
        free(each);
    return first;
}

int tend_start(tend *t, const struct tend_lease *leases, size_t count, int *ret_each)
{
    struct lease_call call = {.leases = leases, .count = count, .body = start_body};
    return touch_patiently(t, &call, ret_each);
}

int lease_check(tend *t, int64_t wait_ms, const struct tend_lease *leases, size_t count,
                int *ret_each)
{
    int64_t *none = calloc(count + 1, sizeof *none);
    if (none == NULL)
        return lease_no_memory(t, count, ret_each);
    const struct lease_answers answers = {
        .leases = leases, .count = count, .changed = none, .asked = LEASE_LOOK};
    int rc = verdicts_within(t, wait_ms, &answers, ret_each);
    free(none);
    return rc;
}

int tend_check(tend *t, const struct tend_lease *leases, size_t count, int *ret_each)
{
    return lease_check(t, -1, leases, count, ret_each);
}

static struct lease_call heartbeat_of(const struct tend_lease *leases, size_t count, int64_t ttl_ms)
{
    return (struct lease_call){
        .leases = leases, .count = count, .body = heartbeat_body, .ttl_ms = ttl_ms};
}

int lease_heartbeat(tend *t, int64_t wait_ms, const struct tend_lease *leases, size_t count,
                    int64_t ttl_ms, int *ret_each)
{
    struct lease_call call = heartbeat_of(leases, count, ttl_ms);
    return touch(t, wait_ms, &call, ret_each);
}

int tend_heartbeat(tend *t, const struct tend_lease *leases, size_t count, int64_t ttl_ms,
                   int *ret_each)
{
    int rc = ttl_ms == TEND_UNSET ? 0 : handle_check_time(t, "the lease", ttl_ms, 1, LEASE_MOST_MS);
    struct lease_call call = heartbeat_of(leases, count, ttl_ms);
    return rc < 0 ? lease_unknown(NULL, count, rc, ret_each) : touch_patiently(t, &call, ret_each);
}

static int owed_body(struct db_tx *tx, void *arg)
{
    return db_owed(tx, arg);
}

int64_t lease_blocked_ms(tend *t)
{
    struct db_owed owed;
    if (!db_clock_is_even(t->db)) /* who asks cannot reach the server, which alone could tell */
        return 0;
    return handle_read(t, owed_body, &owed) < 0 ? 0 : owed.blocked_ms;
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
    struct job_unlock_params *params =
        arena_alloc(db_arena(tx), completion->count * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", completion->count);
    for (size_t i = 0; i < completion->count; i++)
        params[i] = (struct job_unlock_params){.id = db_int(completion->leases[i].id),
                                               .token = db_int(completion->leases[i].token)};
    return each_job_unlock(tx, DB_LATER, params, completion->count, NULL);
}

int lease_complete(struct db_tx *tx, const struct completion *completion, unsigned how)
{
    size_t count = completion->count;
    int64_t lifted = 0;
    struct job_queue_rows asked = {0};
    uint64_t bells = completion->bells;
    struct job_complete_params *params = arena_alloc(db_arena(tx), count * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", count);
    for (size_t i = 0; i < count; i++)
        params[i] = (struct job_complete_params){
            .id = db_int(completion->leases[i].id),
            .token = db_int(completion->leases[i].token),
            .result = db_text(completion->results == NULL ? NULL : completion->results[i]),
            .now = db_now(tx)};
    int rc = completion->followed ? submission_lift(tx, completion->leases[0], &lifted) : 0;
    if (rc < 0)
        return rc;
    if (bells != 0 && (rc = give_up_locks(tx, completion)) < 0)
        return rc;
    if ((how & DB_LATER) == 0 && (rc = bell_ask(tx, completion->leases, count, &bells, &asked)) < 0)
        return rc;
    db_ring(tx, bells);
    rc = each_job_complete(tx, lifted != 0 ? 0 : how, params, count, completion->changed);
    if (rc >= 0)
        bell_ring_asked(tx, &asked);
    return rc < 0 || lifted == 0 ? rc : run_ended(tx, completion->leases[0].id, NULL);
}

static int complete_body(struct db_tx *tx, void *arg)
{
    return lease_complete(tx, arg, DB_LAST);
}

/* Completes what a plain completion did not match: lost, taken under a lock through another handle,
 * or a submission waits for its end. */
static int complete_rest(tend *t, struct completion *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct completion one = {.leases = &all->leases[i],
                                 .count = 1,
                                 .results = all->results == NULL ? NULL : &all->results[i],
                                 .changed = &all->changed[i],
                                 .bells = bell_of_leases(t, &all->leases[i], 1),
                                 .followed = true};
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
        return lease_unknown(NULL, count, rc, ret_each);
    struct completion completion = {.leases = leases,
                                    .count = count,
                                    .results = results,
                                    .changed = calloc(count, sizeof *completion.changed),
                                    .bells = bell_of_ends(t, leases, count)};
    if (completion.changed == NULL)
        return lease_no_memory(t, count, ret_each);
    rc = handle_write(t, complete_body, &completion);
    rc = rc < 0 ? lease_unknown(NULL, count, rc, ret_each)
                : lease_complete_verdicts(t, &completion, ret_each);
    free(completion.changed);
    return rc;
}

int lease_complete_verdicts(tend *t, struct completion *completion, int *ret_each)
{
    int rc = complete_rest(t, completion);
    const struct lease_answers answers = {.leases = completion->leases,
                                          .count = completion->count,
                                          .changed = completion->changed,
                                          .asked = LEASE_COMPLETE,
                                          .results = completion->results};
    return rc < 0 ? lease_unknown(completion->changed, completion->count, rc, ret_each)
                  : lease_verdicts(t, &answers, ret_each);
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
    const struct job_phase_params params = {.id = db_int(call->lease.id),
                                            .token = db_int(call->lease.token),
                                            .phase = db_text(call->phase),
                                            .now = db_now(tx)};
    const struct event_of_phase_params event = {.id = params.id, .now = params.now};
    const struct event_into_chain_params chain = {.id = params.id};
    int rc = each_job_phase(tx, 0, &params, 1, &call->changed);
    if (rc < 0 || call->changed == 0)
        return rc;
    if ((rc = each_event_of_phase(tx, 0, &event, 1, NULL)) < 0)
        return rc;
    return each_event_into_chain(tx, DB_LAST, &chain, 1, NULL);
}

int tend_phase(tend *t, struct tend_lease lease, const char *phase)
{
    struct phase_call call = {.lease = lease, .phase = phase};
    int rc = handle_check_name(t, "phase", phase);
    if (rc == 0)
        rc = handle_write(t, phase_body, &call);
    return rc < 0 ? rc : lease_verdict(t, &lease, &call.changed, LEASE_CHANGE);
}
