/*
 * Reports about steps: an attempt ends, the next begins, or the job ends with it.
 *
 * What is large is sent (checkpoint.c), then the job's row is locked, then its newest attempt is
 * read, then everything is written together. So that a call repeated after a lost answer finds what
 * the first has done, an attempt begun is known by its marker, and one ended by its number.
 */
#include "queue/attempt.h"

#include "core/state.h"
#include "queue/bell.h"
#include "queue/checkpoint.h"
#include "queue/control.h"
#include "queue/finish.h"
#include "queue/keep.h"
#include "queue/lease.h"

#include <string.h>

void tend_attempt_begin_init(struct tend_attempt_begin *begin)
{
    *begin = (struct tend_attempt_begin){
        .step_index = 1, .attempt = 1, .pid = TEND_UNSET, .start_ticks = TEND_UNSET};
}

void tend_attempt_end_init(struct tend_attempt_end *end)
{
    *end = (struct tend_attempt_end){.state = TEND_ATTEMPT_SUCCEEDED,
                                     .exit_code = TEND_UNSET,
                                     .signal = TEND_UNSET,
                                     .output_bytes = TEND_UNSET,
                                     .output_dropped_bytes = TEND_UNSET,
                                     .failures = TEND_UNSET,
                                     .next_in_ms = TEND_UNSET};
}

void step_job_read(struct step_job *job, int64_t id, const struct step_fence_rows *fence)
{
    *job = (struct step_job){.id = id, .state = -1};
    if (fence->count == 0)
        return;
    const struct step_fence_row *row = &fence->at[0];
    *job = (struct step_job){.id = id,
                             .state = (int)db_num(row->state),
                             .token = db_num(row->token),
                             .owner = db_str(row->owner),
                             .queue = db_str(row->queue),
                             .worker_id = db_num(row->worker_id),
                             .event_id = db_num(row->event_id),
                             .under_lock = db_str(row->lock_name) != NULL,
                             .stopped_token = db_num(row->stopped_token),
                             .followed = db_num(row->followed) == 1};
}

bool step_job_held(const struct step_job *job, struct tend_lease lease)
{
    return job->state == JOB_RUNNING && job->token == lease.token;
}

bool step_job_stopped(const struct step_job *job, struct tend_lease lease)
{
    return (job->state == JOB_CANCELLED || job->state == JOB_HELD) &&
           job->stopped_token == lease.token;
}

static void read_last(struct step_last *last, const struct attempt_last_rows *newest)
{
    *last = (struct step_last){0};
    if (newest->count == 0)
        return;
    const struct attempt_last_row *row = &newest->at[0];
    *last = (struct step_last){.number = db_num(row->number),
                               .state = (int)db_num(row->state),
                               .token = db_num(row->token),
                               .marker = db_str(row->marker),
                               .step_index = db_num(row->step_index),
                               .step_id = db_str(row->step_id),
                               .attempt = db_num(row->attempt),
                               .strategy = db_str(row->strategy)};
}

/* Two statements, so that the second sees what was committed while the first waited for the row. */
static int look(struct db_tx *tx, int64_t id, struct step_job *job, struct step_last *last)
{
    struct step_fence_rows fence;
    struct attempt_last_rows newest;
    const struct step_fence_params of_job = {.id = db_int(id)};
    const struct attempt_last_params of_attempt = {.job_id = db_int(id)};
    int rc = run_step_fence(tx, DB_LATER, of_job, &fence);
    if (rc < 0 || (rc = run_attempt_last(tx, 0, of_attempt, &newest)) < 0)
        return rc;
    step_job_read(job, id, &fence);
    read_last(last, &newest);
    return 0;
}

struct step_call {
    tend *t;
    struct tend_lease lease;
    const struct tend_step_change *change;
    const struct tend_step_close *close; /* NULL: the job goes on */
    bool matters;                        /* bell_of_ends: others may wait for its end */
    struct fail_call fail;
    int64_t staging; /* what checkpoint_stage may use */
    unsigned last;   /* how the last statement is run */
    int64_t held;    /* 1: it was, or the same call went through before */
    int64_t number;  /* of the attempt begun */
    int64_t completed;
};

/* What is to become of the newest attempt. */
struct step_plan {
    bool ends;  /* as the change says */
    bool lost;  /* left running by an earlier lease */
    bool notes; /* the events of the change are to be written, checkpoints to be dropped */
};

static int plan_end(struct db_tx *tx, const struct step_call *call, const struct step_last *last,
                    struct step_plan *plan)
{
    const struct tend_attempt_end *ended = call->change->ended;
    long long id = (long long)call->lease.id;
    if (last->number != ended->number || last->token != call->lease.token)
        return err_set(db_err(tx), TEND_ESTATE,
                       "attempt %lld of job %lld cannot be ended under this lease: the newest "
                       "attempt is %lld",
                       (long long)ended->number, id, (long long)last->number);
    plan->ends = last->state == TEND_ATTEMPT_RUNNING;
    plan->notes = plan->ends;
    if (plan->ends || last->state == ended->state)
        return 0; /* the second: told before */
    return err_set(db_err(tx), TEND_ESTATE, "attempt %lld of job %lld has %s already",
                   (long long)ended->number, id, tend_attempt_state_name(last->state));
}

static int make_plan(struct db_tx *tx, const struct step_call *call, const struct step_last *last,
                     struct step_plan *plan)
{
    *plan = (struct step_plan){.notes = true};
    if (call->change->ended != NULL)
        return plan_end(tx, call, last, plan);
    if (last->number == 0 || last->state != TEND_ATTEMPT_RUNNING)
        return 0;
    plan->lost = last->token != call->lease.token;
    if (plan->lost || (call->change->begun == NULL && call->close == NULL))
        return 0;
    return err_set(db_err(tx), TEND_ESTATE,
                   "attempt %lld of job %lld is still running; tell how it ended first",
                   (long long)last->number, (long long)call->lease.id);
}

static int write_change(struct db_tx *tx, struct step_call *call, struct step_job *job,
                        const struct step_last *last, const struct step_plan *plan)
{
    const struct tend_step_change *change = call->change;
    int rc = 0;
    if (change->drop_from_step > 0 && plan->notes) /* not what the same call has left before */
        rc = checkpoint_drop(tx, job->id, change->drop_from_step);
    if (rc == 0 && change->baseline_commit != NULL)
        rc = checkpoint_baseline(tx, job->id, change->baseline_repo, change->baseline_commit);
    if (rc == 0 && plan->lost)
        rc = step_lost_write(tx, job, last);
    if (rc == 0 && plan->ends)
        rc = step_end_write(tx, job, last, change->ended);
    for (size_t i = 0; rc == 0 && plan->notes && i < change->event_count; i++)
        rc = step_note_write(tx, job, &change->events[i]);
    if (rc == 0 && change->begun != NULL) {
        call->number = last->number + 1;
        rc = step_begin_write(tx, call->t, job, call->number, change->begun);
    }
    return rc;
}

static int complete_job(struct db_tx *tx, struct step_call *call, const struct step_job *job)
{
    bool staged = job->staged != 0 && call->close->result != NULL;
    bool rings = call->matters || job->under_lock || job->followed;
    const struct completion completion = {.leases = &call->lease,
                                          .count = 1,
                                          .results = staged ? NULL : &call->close->result,
                                          .changed = &call->completed,
                                          .bells = rings ? db_bell_of(job->queue) : 0,
                                          .followed = job->followed};
    int rc = lease_complete(tx, &completion, call->last);
    return rc < 0 || !staged ? rc : checkpoint_result(tx, job);
}

/* Something follows the end of a run for which a submission waits. */
static unsigned last_for(const struct step_call *call, const struct step_job *job)
{
    return job->followed ? 0 : call->last;
}

static int hold_job(struct db_tx *tx, struct step_call *call, const struct step_job *job)
{
    struct move move =
        move_plain(job->id, JOB_RUNNING, job->token, MOVE_HOLD, db_bell_of(job->queue));
    int rc = control_close(tx, job->id, CONTROL_PAUSES, CONTROL_HELD);
    move.why = handle_clean_text(db_arena(tx), call->close->why);
    return rc < 0 ? rc : move_jobs(tx, &move, 1, last_for(call, job), &call->completed);
}

static bool is_exhausted(const struct tend_attempt_end *ended)
{
    return ended != NULL && ended->verdict != NULL && strcmp(ended->verdict, "exhausted") == 0;
}

static int close_job(struct db_tx *tx, struct step_call *call, struct step_job *job)
{
    const struct tend_step_close *close = call->close;
    struct move move;
    int rc = 0;
    if (close->control_id > 0)
        rc = control_answer(tx, job, close->control_id, close->outcome);
    if (rc == 0 && close->control_id > 0 && close->how == TEND_STEPS_HOLD)
        return err_set(db_err(tx), TEND_ESTATE,
                       "job %lld is not held: what was asked has been taken back",
                       (long long)job->id);
    if (rc < 0 || (rc = step_chain(tx, job, DB_LATER)) < 0)
        return rc;
    switch (close->how) {
    case TEND_STEPS_COMPLETE:
        return complete_job(tx, call, job);
    case TEND_STEPS_FAIL:
        call->fail.exhausted = is_exhausted(call->change->ended);
        return finish_fail(tx, &call->fail, last_for(call, job));
    case TEND_STEPS_RELEASE:
        move = finish_release_move(tx, call->lease, close->delay_ms, close->why,
                                   db_bell_of(job->queue));
        return move_jobs(tx, &move, 1, last_for(call, job), &call->completed);
    case TEND_STEPS_HOLD:
        return hold_job(tx, call, job);
    }
    return 0;
}

/* Who holds its own job takes the lease away from itself. */
static bool held_before(const struct step_call *call, const struct step_job *job)
{
    return call->close != NULL && call->close->how == TEND_STEPS_HOLD && job->state == JOB_HELD &&
           job->stopped_token == call->lease.token;
}

/*
 * A cancel or hold takes the lease away while the attempt is still being stopped. Until the job is
 * brought back or resumed, which makes it another's, its last owner may tell how that attempt
 * ended, and nothing else.
 */
static bool is_farewell(const struct step_call *call, const struct step_job *job,
                        const struct step_last *last)
{
    const struct tend_step_change *change = call->change;
    return step_job_stopped(job, call->lease) && call->close == NULL && change->begun == NULL &&
           change->drop_from_step == 0 && change->ended != NULL &&
           change->ended->number == last->number && last->token == call->lease.token &&
           (last->state == TEND_ATTEMPT_RUNNING || last->state == change->ended->state);
}

static int write_farewell(struct db_tx *tx, struct step_call *call, struct step_job *job,
                          const struct step_last *last)
{
    const struct tend_step_change *change = call->change;
    const struct event_into_chain_params chain = {.id = db_int(job->id)};
    call->held = 1;
    if (last->state != TEND_ATTEMPT_RUNNING)
        return 0; /* told before */
    job->owner = handle_owner(call->t, NULL);
    int rc = step_end_write(tx, job, last, change->ended);
    for (size_t i = 0; rc == 0 && i < change->event_count; i++)
        rc = step_note_write(tx, job, &change->events[i]);
    return rc < 0 ? rc : each_event_into_chain(tx, call->last, &chain, 1, NULL);
}

static int write_report(struct db_tx *tx, struct step_call *call, struct step_job *job,
                        const struct step_last *last)
{
    const struct tend_attempt_begin *begun = call->change->begun;
    struct step_plan plan;
    int rc;
    call->held = step_job_held(job, call->lease);
    if (!call->held) {
        call->held = held_before(call, job);
        return is_farewell(call, job, last) ? write_farewell(tx, call, job, last) : 0;
    }
    if (begun != NULL && last->number > 0 && last->token == call->lease.token &&
        strcmp(last->marker, begun->marker) == 0) {
        call->number = last->number; /* told before */
        return 0;
    }
    if ((rc = make_plan(tx, call, last, &plan)) < 0 ||
        (rc = write_change(tx, call, job, last, &plan)) < 0)
        return rc;
    if (call->close == NULL)
        return step_chain(tx, job, call->last);
    rc = keep_write(tx, job, last, call->close);
    return rc < 0 ? rc : close_job(tx, call, job);
}

static int step_body(struct db_tx *tx, void *arg)
{
    struct step_call *call = arg;
    const struct tend_attempt_end *ended = call->change->ended;
    bool stages = checkpoint_stages(tx, ended, call->close);
    struct step_job job;
    struct step_last last;
    int rc = stages ? checkpoint_stage(tx, call->staging, ended, call->close) : 0;
    call->held = call->number = call->completed = 0;
    call->fail.changed = 0;
    call->last = stages ? DB_LATER : DB_LAST;
    if (rc < 0 || (rc = look(tx, call->lease.id, &job, &last)) < 0)
        return rc;
    job.staged = stages ? call->staging : 0;
    if ((rc = write_report(tx, call, &job, &last)) < 0 || !stages)
        return rc;
    return checkpoint_unstage(tx, call->staging, DB_LAST);
}

int64_t step_staging_number(tend *t)
{
    return -1 - (int64_t)(handle_random(t) * (double)(INT64_C(1) << 53));
}

int tend_step_next(tend *t, struct tend_lease lease, const struct tend_step_change *change,
                   int64_t *ret_number)
{
    struct step_call call = {
        .t = t, .lease = lease, .change = change, .staging = step_staging_number(t)};
    int rc = step_check_change(t, change);
    if (rc == 0 && change->ended == NULL && change->begun == NULL && change->event_count == 0 &&
        change->drop_from_step == 0 && change->baseline_commit == NULL)
        rc = handle_fail(t, TEND_EINVAL, "nothing is told about the steps of job %lld",
                         (long long)lease.id);
    if (rc == 0)
        rc = attempt_machine(t);
    if (rc == 0)
        rc = handle_write(t, step_body, &call);
    if (rc >= 0)
        rc = lease_verdict(t, &lease, &call.held, LEASE_CHANGE);
    if (rc == 0 && ret_number != NULL)
        *ret_number = call.number;
    return rc;
}

/* A hold that was repeated is known by held_before. */
static enum lease_asked asked_by(enum tend_step_how how)
{
    return how == TEND_STEPS_COMPLETE  ? LEASE_COMPLETE
           : how == TEND_STEPS_FAIL    ? LEASE_FAIL
           : how == TEND_STEPS_RELEASE ? LEASE_RELEASE
                                       : LEASE_CHANGE;
}

int tend_step_finish(tend *t, struct tend_lease lease, const struct tend_step_change *change,
                     const struct tend_step_close *close, int64_t *ret_due_ms)
{
    static const struct tend_step_change nothing;
    struct step_call call = {
        .t = t,
        .lease = lease,
        .change = change != NULL ? change : &nothing,
        .close = close,
        .staging = step_staging_number(t),
        .matters = bell_of_ends(t, &lease, 1) != 0,
        .fail = {.lease = lease, .failure = close->failure, .random = handle_random(t)}};
    const struct lease_answers answers = {.leases = &lease,
                                          .count = 1,
                                          .changed = &call.held,
                                          .asked = asked_by(close->how),
                                          .results = &close->result,
                                          .failure = close->failure,
                                          .delay_ms = close->delay_ms,
                                          .why = close->why};
    int rc = step_check_change(t, call.change);
    if (rc == 0 && call.change->begun != NULL)
        rc = handle_fail(t, TEND_EINVAL, "no attempt can begin while job %lld ends",
                         (long long)lease.id);
    if (rc == 0)
        rc = step_check_close(t, close);
    if (rc == 0)
        rc = handle_write(t, step_body, &call);
    if (rc >= 0)
        rc = lease_verdicts(t, &answers, NULL);
    if (rc < 0 || close->how != TEND_STEPS_FAIL || ret_due_ms == NULL)
        return rc;
    return finish_due(t, &call.fail, ret_due_ms);
}
