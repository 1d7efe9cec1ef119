/*
 * Controls (SH-12): an operator asks something of a job, by name.
 *
 * What can be done at once is done in the same transaction: holding, resuming and cancelling,
 * bringing a finished job back, forgetting checkpoints. What needs the job's owner is left open,
 * and its worker takes it (control_take.c). The table below says which is which; everything that is
 * asked is kept as a row and as an event "task.control.ACTION" with actor and reason.
 */
#include "queue/control.h"

#include "queue/act.h"
#include "queue/add.h"
#include "queue/checkpoint.h"
#include "queue/edit.h"
#include "queue/row.h"

#include <stdio.h>
#include <string.h>

const char *const control_names[CONTROL_ACTIONS] = {
    [CONTROL_PAUSE] = "pause",
    [CONTROL_RESUME] = "resume",
    [CONTROL_TAKEOVER] = "takeover",
    [CONTROL_RETRY_STEP] = "retry_step",
    [CONTROL_HARD_RESET_STEP] = "hard_reset_step",
    [CONTROL_RESUME_FROM_STEP] = "resume_from_step",
    [CONTROL_CANCEL] = "cancel",
};

/* What an action comes to; may be combined. 0: it is refused. */
enum {
    DO_HOLD = 1,
    DO_RESUME = 2,
    DO_CANCEL = 4,
    DO_REDRIVE = 8,
    DO_HURRY = 16,     /* due now instead of later */
    DO_DROP = 32,      /* the checkpoints of the step and of those behind it go */
    DO_OPEN = 64,      /* left to a worker */
    DO_WITHDRAW = 128, /* a pause or takeover that has not taken hold yet is taken back */
    DO_ANEW = 256,     /* a new job that begins at the step */
};

static const int effects[CONTROL_ACTIONS][JOB_STATES] = {
    [CONTROL_PAUSE] = {[JOB_SCHEDULED] = DO_HOLD, [JOB_PENDING] = DO_HOLD, [JOB_RUNNING] = DO_OPEN},
    [CONTROL_RESUME] = {[JOB_SCHEDULED] = DO_WITHDRAW,
                        [JOB_PENDING] = DO_WITHDRAW,
                        [JOB_RUNNING] = DO_WITHDRAW,
                        [JOB_HELD] = DO_RESUME},
    [CONTROL_TAKEOVER] =
        {[JOB_SCHEDULED] = DO_HOLD, [JOB_PENDING] = DO_HOLD, [JOB_RUNNING] = DO_OPEN},
    [CONTROL_RETRY_STEP] = {[JOB_SCHEDULED] = DO_HURRY,
                            [JOB_RUNNING] = DO_OPEN,
                            [JOB_HELD] = DO_RESUME,
                            [JOB_FAILED] = DO_REDRIVE,
                            [JOB_CANCELLED] = DO_REDRIVE},
    [CONTROL_HARD_RESET_STEP] = {[JOB_SCHEDULED] = DO_OPEN | DO_HURRY,
                                 [JOB_PENDING] = DO_OPEN,
                                 [JOB_RUNNING] = DO_OPEN,
                                 [JOB_HELD] = DO_OPEN | DO_RESUME,
                                 [JOB_FAILED] = DO_OPEN | DO_REDRIVE,
                                 [JOB_CANCELLED] = DO_OPEN | DO_REDRIVE},
    [CONTROL_RESUME_FROM_STEP] = {[JOB_SCHEDULED] = DO_DROP | DO_HURRY,
                                  [JOB_PENDING] = DO_DROP,
                                  [JOB_RUNNING] = DO_OPEN,
                                  [JOB_HELD] = DO_DROP | DO_RESUME,
                                  [JOB_DONE] = DO_ANEW,
                                  [JOB_FAILED] = DO_DROP | DO_REDRIVE,
                                  [JOB_CANCELLED] = DO_DROP | DO_REDRIVE},
    [CONTROL_CANCEL] = {[JOB_SCHEDULED] = DO_CANCEL,
                        [JOB_PENDING] = DO_CANCEL,
                        [JOB_RUNNING] = DO_CANCEL,
                        [JOB_HELD] = DO_CANCEL},
};

/* Those that begin a step anew: there must have been one. */
static bool is_about_step(enum control_action action)
{
    return action == CONTROL_RETRY_STEP || action == CONTROL_HARD_RESET_STEP ||
           action == CONTROL_RESUME_FROM_STEP;
}

/* ran: whether a step of the job has ever begun, or somebody else has worked on it. */
static int refuse(struct db_tx *tx, const struct control_call *call, int state, bool ran,
                  const char *reason)
{
    char possible[256] = "";
    for (int i = 0; i < CONTROL_ACTIONS; i++)
        if (effects[i][state] != 0 && (i != CONTROL_RESUME || state == JOB_HELD) &&
            (ran || !is_about_step((enum control_action)i)))
            snprintf(possible + strlen(possible), sizeof possible - strlen(possible), "%s%s",
                     possible[0] == '\0' ? "; possible: " : ", ", control_names[i]);
    return err_set(db_err(tx), TEND_ESTATE, "%s cannot be done with job %lld: it is %s%s%s",
                   control_names[call->action], (long long)call->job_id,
                   state_name((enum job_state)state), reason, possible);
}

/* A pause or takeover that is open: 1 when a worker knows of it, 0 when none does, or refused. */
static int find_pause(struct db_tx *tx, const struct control_call *call, int state)
{
    struct control_open_of_job_rows rows;
    const struct control_open_of_job_params params = {.job_id = db_int(call->job_id)};
    int rc = run_control_open_of_job(tx, 0, params, &rows);
    int found = -1;
    for (size_t i = 0; rc == 0 && i < rows.count; i++) {
        struct tend_control open;
        control_read(&open, &rows.at[i].control);
        if (strcmp(open.action, "pause") != 0 && strcmp(open.action, "takeover") != 0)
            continue;
        bool known = open.taken_at_ms != TEND_UNSET && state == JOB_RUNNING;
        found = known || found == 1;
    }
    return rc < 0       ? rc
           : found >= 0 ? found
                        : refuse(tx, call, state, true, " and no pause is asked for");
}

/* Withdrawn, although a worker may have it: then it is told by the resume, which stays open. */
static int withdraw(struct db_tx *tx, const struct control_call *call)
{
    struct control_open_of_job_rows rows;
    const struct control_open_of_job_params params = {.job_id = db_int(call->job_id)};
    int rc = run_control_open_of_job(tx, 0, params, &rows);
    for (size_t i = 0; rc == 0 && i < rows.count; i++) {
        const struct control_columns *control = &rows.at[i].control;
        const char *action = db_str(control->action);
        const struct control_done_params done = {.id = control->id,
                                                 .job_id = db_int(call->job_id),
                                                 .now = db_now(tx),
                                                 .outcome = db_text("withdrawn")};
        if (strcmp(action, "pause") == 0 || strcmp(action, "takeover") == 0)
            rc = each_control_done(tx, DB_LATER, &done, 1, NULL);
    }
    return rc;
}

/* The row and the event of what is asked. */
static int write_request(struct db_tx *tx, struct control_call *call, struct step_job *job,
                         const char *outcome)
{
    const char *reason = handle_clean_text(db_arena(tx), call->reason);
    const struct tend_control control = {.action = control_names[call->action],
                                         .step_id = call->step_id,
                                         .reason = reason,
                                         .actor = call->by};
    const struct control_add_params params = {
        .job_id = db_int(call->job_id),
        .action = db_text(control.action),
        .step_index = db_int_or_null(call->step_index),
        .step_id = db_text(call->step_id),
        .reason = db_text(reason),
        .actor = db_text(call->by),
        .now = db_now(tx),
        .outcome = db_text(outcome),
    };
    int rc = each_control_add(tx, DB_LATER, &params, 1, &call->given.control_id);
    if (rc < 0)
        return rc;
    const char *what = arena_printf(db_arena(tx), "task.control.%s", control.action);
    return step_event_write(tx, job, call->by, what, reason, control_json(tx, &control, NULL));
}

static int write_resumed(struct db_tx *tx, const struct control_call *call, struct step_job *job,
                         const char *why)
{
    const struct step_facts facts = {
        .step_id = call->step_id, .step_index = call->step_index, .attempt = TEND_UNSET};
    return step_event_write(tx, job, call->by, "task.resume.from_step", why,
                            step_facts_json(tx, &facts));
}

/* The events written are the job's newest; not a sign of life of its owner. */
static int put_into_chain(struct db_tx *tx, struct step_job *job)
{
    const struct event_into_chain_params params = {.id = db_int(job->id)};
    return each_event_into_chain(tx, DB_LATER, &params, 1, NULL);
}

static int move_job(struct db_tx *tx, struct control_call *call, int effect,
                    const struct tend_job *job, int64_t now_ms)
{
    const struct {
        int effect;
        enum tend_action action;
    } actions[] = {{DO_HOLD, TEND_HOLD},
                   {DO_RESUME, TEND_RESUME},
                   {DO_CANCEL, TEND_CANCEL},
                   {DO_REDRIVE, TEND_REDRIVE}};
    int64_t moved = 1;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if ((effect & actions[i].effect) == 0)
            continue;
        /* Who asks for a step wants it now, whatever the due time was. */
        int64_t at_ms = actions[i].action == TEND_REDRIVE ? INT64_MAX : now_ms;
        const struct act_who who = {.by = call->by, .why = call->reason, .hook = call->hook};
        struct move move = act_move(tx, actions[i].action, job, at_ms, &who);
        int rc = move_jobs(tx, &move, 1, 0, &moved);
        call->given.follower = move.follower;
        return rc;
    }
    if ((effect & DO_HURRY) == 0)
        return 0;
    struct move move =
        move_plain(job->id, JOB_SCHEDULED, job->token, MOVE_RESCHEDULE, db_bell_of(job->queue));
    move.delay_ms = 0;
    move.by = call->by;
    move.why = handle_clean_text(db_arena(tx), call->reason);
    return move_jobs(tx, &move, 1, 0, &moved);
}

/* --- a done job stays done: a new one goes on from the step --- */

static struct tend_job_spec spec_like(const struct tend_job *job, const struct control_call *call)
{
    return (struct tend_job_spec){
        .queue = job->queue,
        .kind = job->kind,
        .payload = job->payload,
        .payload_bytes = job->payload_bytes,
        .priority = job->priority,
        .due_at_ms = TEND_UNSET,
        .delay_ms = TEND_UNSET,
        .unique_key = job->unique_key,
        .subject = job->subject,
        .concurrency_key = job->concurrency_key,
        .tags = job->tags,
        .workspace = job->workspace,
        .by = call->by,
        .hook = call->hook,
        .max_attempts = job->max_attempts,
        .max_crashes = job->max_crashes,
        .backoff_ms = job->backoff_ms,
        .backoff_max_ms = job->backoff_max_ms,
        .lease_ms = job->lease_ms,
    };
}

static int begin_anew(struct db_tx *tx, struct control_call *call, const struct tend_job *job)
{
    const struct tend_job_spec spec = spec_like(job, call);
    struct tend_added added = {0};
    const struct add_batch batch = {.specs = &spec, .count = 1, .by = call->by, .ret = &added};
    int rc = add_jobs(tx, &batch, 0);
    if (rc < 0)
        return rc;
    if (added.outcome != TEND_OK)
        return TEND_ECONFLICT;
    struct step_fence_rows fence;
    struct step_job new_job;
    const struct step_fence_params params = {.id = db_int(added.id)};
    if ((rc = checkpoint_copy(tx, added.id, job->id, call->step_index)) < 0 ||
        (rc = run_step_fence(tx, 0, params, &fence)) < 0)
        return rc;
    step_job_read(&new_job, added.id, &fence);
    const char *why = arena_printf(db_arena(tx), "goes on from job %lld", (long long)job->id);
    if ((rc = write_resumed(tx, call, &new_job, why)) < 0 ||
        (rc = put_into_chain(tx, &new_job)) < 0)
        return rc;
    call->given.job_id = added.id;
    call->given.state = TEND_PENDING;
    return 0;
}

/* --- the whole --- */

static int lock_job(struct db_tx *tx, const struct control_call *call, struct step_job *locked,
                    struct tend_jobs *job, int64_t *now_ms)
{
    struct step_fence_rows fence;
    struct job_get_rows found;
    const struct step_fence_params to_lock = {.id = db_int(call->job_id)};
    const struct job_get_params to_get = {.id = db_int(call->job_id), .now = db_now(tx)};
    int rc = run_step_fence(tx, DB_LATER, to_lock, &fence);
    if (rc < 0 || (rc = run_job_get(tx, 0, to_get, &found)) < 0)
        return rc;
    if (fence.count == 0 || found.count == 0) {
        err_set(db_err(tx), TEND_ENOTFOUND,
                "there is no job %lld; 'tend jobs' lists those that are", (long long)call->job_id);
        return TEND_ENOTFOUND;
    }
    step_job_read(locked, call->job_id, &fence);
    *now_ms = db_num(found.at[0].now);
    rc = jobs_read(db_arena(tx), &found.result, job);
    if (rc < 0)
        err_set(db_err(tx), rc, "out of memory while reading a job");
    return rc;
}

/* What is asked and still open is overtaken by what ends the job, starts it afresh, holds or
 * resumes it: control_end.c has the rules. */
static int close_overtaken(struct db_tx *tx, const struct control_call *call, int effect,
                           const struct tend_job *job)
{
    static const int64_t moved = 1;
    const struct tend_jobs jobs = {.count = 1, .items = job};
    const char *outcome =
        arena_printf(db_arena(tx), "overtaken by %s", control_names[call->action]);
    if ((effect & DO_REDRIVE) != 0)
        return control_follow(tx, TEND_REDRIVE, &jobs, &moved);
    if ((effect & DO_CANCEL) != 0)
        return control_close(tx, call->job_id, CONTROL_ALL, outcome);
    if ((effect & (DO_HOLD | DO_RESUME)) != 0)
        return control_close(tx, call->job_id, CONTROL_PAUSES, outcome);
    return 0;
}

/* A step that is to begin anew has all its attempts again; a running job's owner sees to it itself.
 */
static int renew_budgets(struct db_tx *tx, const struct control_call *call,
                         const struct step_job *job)
{
    const struct job_new_life_params params = {.id = db_int(job->id)};
    if (job->state == JOB_RUNNING || !is_about_step(call->action))
        return 0;
    return each_job_new_life(tx, DB_LATER, &params, 1, NULL);
}

/* What the operator has changed belongs to the step the job has come to. */
static int write_edits(struct db_tx *tx, struct control_call *call, struct step_job *job)
{
    const struct tend_changes *edits = call->edits;
    int rc = control_find_first_open(tx, call);
    if (rc < 0 ||
        (rc = edit_put(tx, call->job_id, call->first_open, call->staged, edits, call->by)) < 0 ||
        edits->patch_bytes == 0)
        return rc;
    const char *data = arena_printf(db_arena(tx), "{\"stepIndex\":%lld,\"patchBytes\":%zu}",
                                    (long long)call->first_open, edits->patch_bytes);
    return step_event_write(tx, job, call->by, "task.edits.kept", NULL, data);
}

static int carry_out(struct db_tx *tx, struct control_call *call, struct step_job *locked,
                     const struct tend_job *job, int effect, int64_t now_ms)
{
    int rc = 0;
    bool open = (effect & DO_OPEN) != 0;
    if ((effect & DO_WITHDRAW) != 0) {
        if ((rc = find_pause(tx, call, locked->state)) < 0)
            return rc;
        open = rc == 1;
        rc = withdraw(tx, call);
    }
    if (rc == 0)
        rc = close_overtaken(tx, call, effect, job);
    if (rc == 0)
        rc = write_request(tx, call, locked, open ? NULL : "done");
    if (rc == 0 && (effect & DO_DROP) != 0)
        rc = checkpoint_drop(tx, call->job_id, call->step_index);
    if (rc == 0 && (effect & DO_DROP) != 0)
        rc = write_resumed(tx, call, locked, call->reason);
    if (rc == 0 && call->edits != NULL)
        rc = write_edits(tx, call, locked);
    if (rc == 0)
        rc = put_into_chain(tx, locked);
    if (rc == 0)
        rc = renew_budgets(tx, call, locked);
    if (rc == 0)
        rc = move_job(tx, call, effect, job, now_ms);
    if (rc == 0 && (effect & DO_ANEW) != 0)
        rc = begin_anew(tx, call, job);
    call->given.open = open;
    return rc;
}

/* Whether the job's owner has begun a step under its lease: 1 or 0. One that is no worker begins
 * none, and need not care about what it is asked. */
static int has_step(struct db_tx *tx, const struct step_job *job)
{
    struct attempt_last_rows last;
    const struct attempt_last_params params = {.job_id = db_int(job->id)};
    int rc = run_attempt_last(tx, 0, params, &last);
    return rc < 0 ? rc : last.count > 0 && db_num(last.at[0].token) == job->token;
}

static int state_after(int effect, const struct tend_job *job, int64_t now_ms)
{
    if ((effect & DO_RESUME) != 0)
        return job->due_at_ms > now_ms ? TEND_SCHEDULED : TEND_PENDING;
    return (effect & DO_HOLD) != 0                   ? TEND_HELD
           : (effect & DO_CANCEL) != 0               ? TEND_CANCELLED
           : (effect & (DO_REDRIVE | DO_HURRY)) != 0 ? TEND_PENDING
                                                     : job->state;
}

/* Whether anybody has worked on the job: 1 or 0. One that was only added has no step to begin anew,
 * and is not started before it is due. */
static int has_run(struct db_tx *tx, const struct tend_job *job)
{
    struct attempt_last_rows attempts;
    struct checkpoint_steps_rows checkpoints;
    const struct attempt_last_params last = {.job_id = db_int(job->id)};
    const struct checkpoint_steps_params steps = {.job_id = db_int(job->id)};
    if (job->state == TEND_RUNNING || job->attempts > 0 || job->crashes > 0)
        return 1;
    int rc = run_attempt_last(tx, DB_LATER, last, &attempts);
    if (rc < 0 || (rc = run_checkpoint_steps(tx, 0, steps, &checkpoints)) < 0)
        return rc;
    return attempts.count > 0 || checkpoints.count > 0;
}

static int control_body(struct db_tx *tx, void *arg)
{
    struct control_call *call = arg;
    struct step_job locked = {0};
    struct tend_jobs jobs;
    int64_t now_ms = 0;
    call->given = (struct tend_control_result){.job_id = call->job_id};
    bool stages = call->edits != NULL && edit_stages(tx, call->edits);
    int rc = stages ? edit_stage(tx, call->staged, call->edits, call->by) : 0;
    if (rc < 0 || (rc = lock_job(tx, call, &locked, &jobs, &now_ms)) < 0)
        return rc;
    int effect = effects[call->action][locked.state];
    if (locked.state == JOB_RUNNING && (rc = has_step(tx, &locked)) < 0)
        return rc;
    call->given.has_step = locked.state == JOB_RUNNING && rc == 1;
    if ((rc = has_run(tx, &jobs.items[0])) < 0)
        return rc;
    bool kept = call->edits == NULL || locked.state == JOB_HELD; /* edits go with a resume */
    if (effect == 0 || !kept)
        return refuse(tx, call, locked.state, rc == 1, kept ? "" : ", not held");
    if (rc == 0 && is_about_step(call->action))
        return refuse(tx, call, locked.state, false, " and no step of it has begun yet");
    if (call->edits != NULL && jobs.items[0].version != call->version)
        return err_set(db_err(tx), TEND_ESTATE,
                       "job %lld has changed since its edits were looked for, and they may not fit "
                       "any more; look at the job, then resume it again",
                       (long long)call->job_id);
    if (!stages)
        call->staged = 0;
    if ((rc = control_find_step(tx, call, &jobs.items[0])) < 0)
        return rc;
    call->given.state = state_after(effect, &jobs.items[0], now_ms);
    db_ring(tx, db_bell_of(jobs.items[0].queue));
    return carry_out(tx, call, &locked, &jobs.items[0], effect, now_ms);
}

static int check_request(tend *t, const char *action, const struct control_call *call)
{
    if (call->action == CONTROL_ACTIONS)
        return handle_fail(t, TEND_EINVAL,
                           "'%.80s' is no control; give pause, resume, takeover, retry_step, "
                           "hard_reset_step, resume_from_step or cancel",
                           action != NULL ? action : "");
    if (call->action == CONTROL_RESUME_FROM_STEP && call->step_id == NULL)
        return handle_fail(t, TEND_EINVAL, "resume_from_step needs the id of a step");
    int rc = call->step_id == NULL ? 0 : handle_check_name(t, "step", call->step_id);
    return rc < 0 ? rc : handle_check_name(t, "person or program", call->by);
}

static int ask(tend *t, struct control_call *call, struct tend_control_result *ret)
{
    int rc = handle_write(t, control_body, call);
    if (rc == TEND_ECONFLICT)
        return act_fail_key(t, call->job_id, "brought back");
    if (rc >= 0 && ret != NULL)
        *ret = call->given;
    return rc < 0 ? rc : 0;
}

int tend_control(tend *t, int64_t job_id, const char *action, const char *step_id,
                 const char *reason, const char *by, struct tend_control_result *ret)
{
    struct control_call call = {.job_id = job_id,
                                .step_id = step_id,
                                .reason = reason,
                                .by = handle_owner(t, by),
                                .hook = t->options.hook,
                                .action = CONTROL_ACTIONS};
    for (int i = 0; action != NULL && i < CONTROL_ACTIONS; i++)
        if (strcmp(action, control_names[i]) == 0)
            call.action = (enum control_action)i;
    int rc = check_request(t, action, &call);
    return rc < 0 ? rc : ask(t, &call, ret);
}

int tend_resume_edited(tend *t, int64_t job_id, int64_t version, const struct tend_changes *edits,
                       const char *reason, const char *by, struct tend_control_result *ret)
{
    struct control_call call = {.job_id = job_id,
                                .reason = reason,
                                .by = handle_owner(t, by),
                                .hook = t->options.hook,
                                .action = CONTROL_RESUME,
                                .edits = edits,
                                .version = version,
                                .staged = step_staging_number(t)};
    int rc = check_request(t, control_names[call.action], &call);
    if (rc == 0)
        rc = edit_check(t, edits);
    return rc < 0 ? rc : ask(t, &call, ret);
}
