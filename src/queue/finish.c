/* How a lease ends otherwise than by completion: fail and release, both by its owner. */
#include "queue/finish.h"

#include "core/policy.h"
#include "queue/bell.h"
#include "queue/hook.h"
#include "queue/lease.h"
#include "queue/move.h"
#include "queue/policy_row.h"

#include <stdlib.h>

void tend_failure_init(struct tend_failure *failure)
{
    *failure = (struct tend_failure){.retry_in_ms = TEND_UNSET};
}

int finish_fail(struct db_tx *tx, struct fail_call *call, unsigned how)
{
    const struct tend_failure *failure = call->failure;
    struct job_policy_rows found;
    struct hook_any_rows hooks;
    const struct job_policy_params params = {.id = db_int(call->lease.id)};
    call->changed = 0;
    call->held = false;
    int rc = run_hook_any(tx, DB_LATER, &hooks);
    if (rc < 0 || (rc = run_job_policy(tx, 0, params, &found)) < 0)
        return rc;
    struct policy_row row;
    if (found.count == 0)
        return 0;
    policy_row_read(&row, &found.at[0].policy);
    if (row.state != JOB_RUNNING || row.token != call->lease.token)
        return 0;
    call->held = true;
    struct failure_verdict verdict = policy_after_failure(
        &row.policy, (int)row.attempts, failure->final == 0,
        failure->retry_in_ms == TEND_UNSET ? -1 : failure->retry_in_ms, call->random);
    struct move move =
        move_plain(row.id, JOB_RUNNING, row.token, verdict.verb, db_bell_of(row.queue));
    move.attempts = 1;
    move.error_class = failure->error_class != NULL ? failure->error_class : "transient_runtime";
    const char *text = handle_clean_text(db_arena(tx), failure->text);
    move.error_text = text != NULL ? text : "";
    move.why = text != NULL ? text : move.error_class;
    move.by = failure->by;
    if (verdict.verb == MOVE_RETRY_LATER)
        move.delay_ms = verdict.delay_ms;
    call->delay_ms = move.delay_ms;
    unsigned given_up =
        (verdict.verb == MOVE_FAIL ? HOOK_FAILED : 0u) | (call->exhausted ? HOOK_EXHAUSTED : 0u);
    bool calls = given_up != 0 && hooks.count > 0;
    rc = move_jobs(tx, &move, 1, calls ? 0 : how, &call->changed);
    const struct hook_ending ending = {.lease = call->lease, .what = given_up};
    return rc < 0 || !calls || call->changed == 0 ? rc : hook_call(tx, &ending, 1);
}

static int fail_body(struct db_tx *tx, void *arg)
{
    return finish_fail(tx, arg, DB_LAST);
}

static int fail_followed_body(struct db_tx *tx, void *arg)
{
    return finish_fail(tx, arg, 0);
}

int finish_check_failure(tend *t, const struct tend_failure *failure)
{
    int rc = 0;
    if (failure->retry_in_ms != TEND_UNSET)
        rc = handle_check_time(t, "the wait before the retry", failure->retry_in_ms, 0,
                               SPAN_MOST_MS);
    if (rc == 0 && failure->error_class != NULL)
        rc = handle_check_name(t, "class of errors", failure->error_class);
    if (rc == 0 && failure->by != NULL)
        rc = handle_check_name(t, "person or program", failure->by);
    return rc;
}

int finish_due(tend *t, const struct fail_call *call, int64_t *ret_due_ms)
{
    struct tend_jobs *jobs = NULL;
    int rc = call->delay_ms == TEND_UNSET ? 0 : tend_get(t, call->lease.id, &jobs);
    if (rc < 0)
        return rc; /* "failed for good" would be wrong; the call can be repeated */
    bool again = jobs != NULL &&
                 (jobs->items[0].state == TEND_SCHEDULED || jobs->items[0].state == TEND_PENDING);
    *ret_due_ms = again ? jobs->items[0].due_at_ms : TEND_UNSET;
    tend_jobs_free(jobs);
    return 0;
}

int tend_fail(tend *t, struct tend_lease lease, const struct tend_failure *failure,
              int64_t *ret_due_ms)
{
    struct fail_call call = {.lease = lease, .failure = failure, .random = handle_random(t)};
    const struct lease_answers answers = {.leases = &lease,
                                          .count = 1,
                                          .changed = &call.changed,
                                          .asked = LEASE_FAIL,
                                          .failure = failure};
    int rc = finish_check_failure(t, failure);
    if (rc == 0)
        rc = handle_write(t, fail_body, &call);
    if (rc >= 0 && call.held && call.changed == 0)
        rc = handle_write(t, fail_followed_body, &call);
    if (rc >= 0)
        rc = lease_verdicts(t, &answers, NULL);
    return rc < 0 || ret_due_ms == NULL ? rc : finish_due(t, &call, ret_due_ms);
}

struct release_call {
    const struct tend_lease *leases;
    size_t count;
    int64_t delay_ms;
    const char *why;
    int64_t *changed;
    unsigned how;   /* see move_jobs */
    uint64_t bells; /* bell_of_leases */
};

struct move finish_release_move(struct db_tx *tx, struct tend_lease lease, int64_t delay_ms,
                                const char *why, uint64_t bells)
{
    struct move move = move_plain(lease.id, JOB_RUNNING, lease.token,
                                  delay_ms > 0 ? MOVE_RELEASE_LATER : MOVE_RELEASE, bells);
    if (delay_ms > 0)
        move.delay_ms = delay_ms;
    move.why = handle_clean_text(db_arena(tx), why);
    return move;
}

static int release_body(struct db_tx *tx, void *arg)
{
    struct release_call *call = arg;
    struct job_queue_rows asked;
    uint64_t bells = call->bells;
    struct move *moves = arena_alloc(db_arena(tx), call->count * sizeof *moves);
    if (moves == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu leases", call->count);
    int rc = bell_ask(tx, call->leases, call->count, &bells, &asked);
    for (size_t i = 0; i < call->count; i++)
        moves[i] = finish_release_move(tx, call->leases[i], call->delay_ms, call->why, bells);
    if (rc >= 0 && (rc = move_jobs(tx, moves, call->count, call->how, call->changed)) >= 0)
        bell_ring_asked(tx, &asked);
    return rc;
}

/* Releases what a plain release did not match: lost, or a submission waits for the end of the run.
 */
static int release_rest(tend *t, const struct release_call *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct release_call one = *all;
        one.leases = &all->leases[i];
        one.count = 1;
        one.bells = bell_of_leases(t, one.leases, 1);
        one.changed = &all->changed[i];
        one.how = 0;
        int rc = all->changed[i] != 0 ? 0 : handle_write(t, release_body, &one);
        if (rc < 0) {
            all->changed[i] = 0; /* it may have been run and undone before it failed */
            return rc;
        }
    }
    return 0;
}

int tend_release(tend *t, const struct tend_lease *leases, size_t count, int64_t delay_ms,
                 const char *why, int *ret_each)
{
    int rc = handle_check_time(t, "the delay", delay_ms, 0, SPAN_MOST_MS);
    if (rc < 0 || count == 0)
        return lease_unknown(NULL, count, rc, ret_each);
    struct release_call call = {.leases = leases,
                                .count = count,
                                .delay_ms = delay_ms,
                                .why = why,
                                .how = DB_LAST,
                                .bells = bell_of_leases(t, leases, count),
                                .changed = calloc(count, sizeof *call.changed)};
    if (call.changed == NULL)
        return lease_no_memory(t, count, ret_each);
    const struct lease_answers answers = {.leases = leases,
                                          .count = count,
                                          .changed = call.changed,
                                          .asked = LEASE_RELEASE,
                                          .delay_ms = delay_ms,
                                          .why = why};
    rc = handle_write(t, release_body, &call);
    if (rc < 0)
        lease_unknown(NULL, count, rc, ret_each);
    else if ((rc = release_rest(t, &call)) < 0)
        lease_unknown(call.changed, count, rc, ret_each);
    else
        rc = lease_verdicts(t, &answers, ret_each);
    free(call.changed);
    return rc;
}
