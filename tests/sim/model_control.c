/*
 * What a control must do (SH-12): carried out at once where no worker is needed, left open for the
 * job's owner otherwise; cancel always wins; a done job stays as it is. And what becomes of those
 * left open: taken by who holds the job, answered once, withdrawn or overtaken. They outlive a
 * lease; those about a pause end when the job is held or resumed, all when it ends.
 */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

const char *const control_kinds[ASK_COUNT] = {
    [ASK_PAUSE] = "pause",
    [ASK_RESUME] = "resume",
    [ASK_TAKEOVER] = "takeover",
    [ASK_RETRY_STEP] = "retry_step",
    [ASK_HARD_RESET_STEP] = "hard_reset_step",
    [ASK_RESUME_FROM_STEP] = "resume_from_step",
    [ASK_CANCEL] = "cancel",
};

enum {
    HOLDS = 1,
    RESUMES = 2,
    CANCELS = 4,
    REDRIVES = 8,
    HURRIES = 16,
    DROPS = 32,
    OPENS = 64,
    WITHDRAWS = 128,
    BEGINS_ANEW = 256,
    MOVES = HOLDS | RESUMES | CANCELS | REDRIVES | HURRIES,
};

/* What brings a job that is not running to a worker. */
static int bring_back(enum job_state state)
{
    return state == JOB_SCHEDULED                          ? HURRIES
           : state == JOB_HELD                             ? RESUMES
           : state == JOB_FAILED || state == JOB_CANCELLED ? REDRIVES
                                                           : 0;
}

/* 0: it is refused. */
static int effect_of(enum control_kind kind, enum job_state state)
{
    bool waits = state == JOB_SCHEDULED || state == JOB_PENDING;
    switch (kind) {
    case ASK_PAUSE:
    case ASK_TAKEOVER:
        return waits ? HOLDS : state == JOB_RUNNING ? OPENS : 0;
    case ASK_RESUME:
        return state == JOB_HELD ? RESUMES : waits || state == JOB_RUNNING ? WITHDRAWS : 0;
    case ASK_RETRY_STEP:
        return state == JOB_RUNNING ? OPENS : bring_back(state);
    case ASK_HARD_RESET_STEP:
        return state == JOB_DONE ? 0 : OPENS | bring_back(state);
    case ASK_RESUME_FROM_STEP:
        return state == JOB_RUNNING ? OPENS
               : state == JOB_DONE  ? BEGINS_ANEW
                                    : DROPS | bring_back(state);
    default:
        return state_is_finished(state) ? 0 : CANCELS;
    }
}

struct control_model *model_find_control(struct world *world, int64_t id)
{
    for (int i = 0; i < world->control_count; i++)
        if (world->controls[i].id == id)
            return &world->controls[i];
    return NULL;
}

static bool is_open(const struct control_model *control, int64_t job_id)
{
    return control->job_id == job_id && control->done_ms == TEND_UNSET;
}

static bool is_pause(const struct control_model *control)
{
    return control->kind == ASK_PAUSE || control->kind == ASK_TAKEOVER;
}

static void end_control(struct control_model *control, const char *outcome, int64_t now_ms)
{
    control->done_ms = now_ms;
    snprintf(control->outcome, sizeof control->outcome, "%s", outcome);
}

static void close_controls(struct world *world, int64_t job_id, bool pauses, const char *outcome,
                           int64_t now_ms)
{
    for (int i = 0; i < world->control_count; i++) {
        struct control_model *control = &world->controls[i];
        if (is_open(control, job_id) &&
            (!pauses || is_pause(control) || control->kind == ASK_RESUME))
            end_control(control, outcome, now_ms);
    }
}

void model_controls_follow(struct world *world, const struct op *op, const struct job_model *job,
                           const char *what, int64_t now_ms)
{
    if (state_is_finished(job->state))
        close_controls(world, job->id, false, "the job ended before it", now_ms);
    else if (op->kind != OP_CONTROL && strcmp(what, "job.held") == 0)
        close_controls(world, job->id, true, "the job was held", now_ms);
    else if (op->kind != OP_CONTROL && strcmp(what, "job.resumed") == 0)
        close_controls(world, job->id, true, "the job was resumed", now_ms);
}

/* --- asking --- */

/* A step of the plan, or one that an earlier plan has left something of. */
static bool has_step(struct world *world, const struct job_model *job, int step)
{
    bool found = step <= job->steps || job->checkpoints[step].serial != 0;
    for (int i = job->newest; i >= 0 && !found; i = world->attempts[i].before)
        found = world->attempts[i].step == step;
    return found;
}

static bool fits(const struct job_model *job, enum control_kind kind, int step)
{
    bool present = kind == ASK_RETRY_STEP || kind == ASK_HARD_RESET_STEP;
    if (present && step < model_first_open(job))
        return false;
    return step <= model_first_open(job) || (!present && kind != ASK_RESUME_FROM_STEP);
}

static bool key_is_taken(struct world *world, const struct job_model *job)
{
    for (size_t i = 0; i < world->job_count; i++) {
        const struct job_model *other = &world->jobs[i];
        if (other != job && job->unique != 0 && other->unique == job->unique &&
            other->queue == job->queue && !state_is_finished(other->state))
            return true;
    }
    return false;
}

/* Whether anybody has worked on it. */
static bool has_run(const struct job_model *job)
{
    bool any =
        job->state == JOB_RUNNING || job->attempts > 0 || job->crashes > 0 || job->newest >= 0;
    for (int step = 1; step <= MAX_STEPS; step++)
        any |= job->checkpoints[step].serial != 0;
    return any;
}

static bool pause_is_open(struct world *world, int64_t job_id)
{
    for (int i = 0; i < world->control_count; i++)
        if (is_open(&world->controls[i], job_id) && is_pause(&world->controls[i]))
            return true;
    return false;
}

/* True: a worker may know of one of them, and has to be told. */
static bool withdraw(struct world *world, const struct job_model *job, int64_t now_ms)
{
    bool known = false;
    for (int i = 0; i < world->control_count; i++) {
        struct control_model *control = &world->controls[i];
        if (!is_open(control, job->id) || !is_pause(control))
            continue;
        known |= control->taken_ms != TEND_UNSET && job->state == JOB_RUNNING;
        end_control(control, "withdrawn", now_ms);
    }
    return known;
}

static void expect_control(struct world *world, const char *what,
                           const struct control_model *control, const char *outcome)
{
    char data[320];
    char step[STEP_TEXT] = "null";
    if (control->step != 0)
        snprintf(step, sizeof step, "\"%s\"", step_name(control->step));
    int length = snprintf(data, sizeof data,
                          "{\"action\":\"%s\",\"stepId\":%s,\"reason\":\"simulated\","
                          "\"actor\":\"%s\"",
                          control_kinds[control->kind], step, control->actor);
    if (outcome != NULL)
        length +=
            snprintf(data + length, sizeof data - (size_t)length, ",\"outcome\":\"%s\"", outcome);
    snprintf(data + length, sizeof data - (size_t)length, "}");
    model_expect_event(world, control->job_id, what, data);
}

static void add_control(struct world *world, struct actor *actor, int64_t job_id, int64_t now_ms)
{
    struct step_op *asked = &actor->op.step;
    char what[40];
    expect(world, world->control_count < MAX_CONTROLS, "the simulation has too many controls");
    asked->control = world->control_count++;
    struct control_model *control = &world->controls[asked->control];
    *control = (struct control_model){.job_id = job_id,
                                      .kind = asked->kind,
                                      .step = asked->step,
                                      .at_ms = now_ms,
                                      .taken_ms = TEND_UNSET,
                                      .done_ms = TEND_UNSET};
    snprintf(control->actor, sizeof control->actor, "%s", actor->name);
    if (!asked->open)
        end_control(control, "done", now_ms);
    snprintf(what, sizeof what, "task.control.%s", control_kinds[asked->kind]);
    expect_control(world, what, control, NULL);
}

static int becomes(const struct job_model *job, int effect, int64_t now_ms)
{
    if ((effect & RESUMES) != 0)
        return job->due_ms > now_ms ? JOB_SCHEDULED : JOB_PENDING;
    return (effect & HOLDS) != 0                  ? JOB_HELD
           : (effect & CANCELS) != 0              ? JOB_CANCELLED
           : (effect & (REDRIVES | HURRIES)) != 0 ? JOB_PENDING
                                                  : (int)job->state;
}

static void play(struct world *world, struct actor *actor, struct job_model *job, int effect,
                 int64_t now_ms)
{
    struct step_op *asked = &actor->op.step;
    char outcome[48];
    asked->open = (effect & OPENS) != 0;
    if ((effect & WITHDRAWS) != 0)
        asked->open = withdraw(world, job, now_ms);
    snprintf(outcome, sizeof outcome, "overtaken by %s", control_kinds[asked->kind]);
    if ((effect & (CANCELS | HOLDS | RESUMES)) != 0)
        close_controls(world, job->id, (effect & CANCELS) == 0, outcome, now_ms);
    add_control(world, actor, job->id, now_ms);
    for (int step = asked->step; (effect & DROPS) != 0 && step <= MAX_STEPS; step++)
        job->checkpoints[step] = (struct checkpoint_model){0};
    asked->anew = (effect & BEGINS_ANEW) != 0;
    if (asked->anew || (effect & DROPS) != 0)
        model_expect_step(world, asked->anew ? 0 : job->id, "task.resume.from_step",
                          &(struct step_told){.step = asked->step});
    asked->moves = (effect & MOVES) != 0;
    asked->becomes = becomes(job, effect, now_ms);
}

enum verdict model_control(struct world *world, struct actor *actor, int64_t now_ms, bool apply)
{
    const struct op *op = &actor->op;
    struct job_model *job = model_job(world, op->job_id);
    if (job == NULL)
        return VERDICT_NOWHERE;
    int effect = effect_of(op->step.kind, job->state);
    bool about_step = op->step.kind == ASK_RETRY_STEP || op->step.kind == ASK_HARD_RESET_STEP ||
                      op->step.kind == ASK_RESUME_FROM_STEP;
    if (effect == 0 || (about_step && !has_run(job)))
        return VERDICT_REFUSED;
    if (op->step.step != 0 && !has_step(world, job, op->step.step))
        return VERDICT_NOWHERE;
    if (op->step.step != 0 && !fits(job, op->step.kind, op->step.step))
        return VERDICT_REFUSED;
    if ((effect & WITHDRAWS) != 0 && !pause_is_open(world, job->id))
        return VERDICT_REFUSED;
    if ((effect & (REDRIVES | BEGINS_ANEW)) != 0 && key_is_taken(world, job))
        return VERDICT_CONFLICT;
    if (apply)
        play(world, actor, job, effect, now_ms);
    return VERDICT_DONE;
}

void model_begin_anew(struct world *world, struct op *op, struct job_model *job)
{
    const struct job_model *done = model_job(world, op->job_id);
    expect(world, op->step.anew && op->step.new_job == 0 && job->state == JOB_PENDING,
           "a control of job %lld has added job %lld", (long long)op->job_id, (long long)job->id);
    expect(world, job->queue == done->queue, "job %lld goes on in another queue",
           (long long)done->id);
    op->step.new_job = job->id;
    job->payload = done->payload;
    job->priority = done->priority;
    job->unique = done->unique;
    job->subject = done->subject;
    job->key = done->key;
    job->max_attempts = done->max_attempts;
    job->max_crashes = done->max_crashes;
    job->lease_ms = done->lease_ms;
    job->steps = done->steps;
    for (int step = 0; step < op->step.step; step++)
        job->checkpoints[step].serial = done->checkpoints[step].serial;
}

/* --- answering --- */

enum verdict model_answer(struct world *world, const struct job_model *of, int64_t control_id,
                          const char *outcome, int64_t now_ms, bool apply)
{
    struct control_model *control = model_find_control(world, control_id);
    if (control == NULL || control->job_id != of->id)
        return VERDICT_NOWHERE;
    if (apply && control->done_ms == TEND_UNSET) {
        end_control(control, outcome, now_ms);
        expect_control(world, "task.control.done", control, outcome);
    }
    return VERDICT_DONE;
}

/* --- the rows --- */

static const char *or_nothing(const char *text)
{
    return text == NULL ? "" : text;
}

/* A control that is delivered now: open, by who holds the job. */
static bool is_taken_now(struct world *world, const struct op *op,
                         const struct control_model *control)
{
    bool takes = op != NULL && op->kind == OP_CONTROLS_TAKE;
    for (size_t i = 0; takes && i < op->lease_count; i++)
        if (op->leases[i].id == control->job_id && model_holds(world, op->leases[i]))
            return control->done_ms == TEND_UNSET && control->taken_ms == TEND_UNSET;
    return false;
}

static void compare(struct world *world, const struct op *op, struct control_model *control,
                    const struct db_result *rows, size_t row, int64_t now_ms)
{
    int64_t id = db_number(rows, row, 0);
    int64_t taken_ms = db_number(rows, row, 8);
    if (control->id == 0)
        control->id = id;
    expect(world, id == control->id, "control %lld of job %lld, must be %lld", (long long)id,
           (long long)control->job_id, (long long)control->id);
    expect(world,
           strcmp(db_string(rows, row, 2), control_kinds[control->kind]) == 0 &&
               db_number(rows, row, 3) == (control->step == 0 ? TEND_UNSET : control->step) &&
               strcmp(or_nothing(db_string(rows, row, 4)), step_name(control->step)) == 0 &&
               strcmp(db_string(rows, row, 6), control->actor) == 0 &&
               db_number(rows, row, 7) == control->at_ms,
           "control %lld (%s) is not what was asked for (%s)", (long long)id,
           db_string(rows, row, 2), control_kinds[control->kind]);
    if (taken_ms == now_ms && is_taken_now(world, op, control))
        control->taken_ms = now_ms;
    expect(world, taken_ms == control->taken_ms, "control %lld was %s", (long long)id,
           taken_ms == TEND_UNSET ? "not taken" : "taken by nobody who holds the job");
    expect(world,
           db_number(rows, row, 9) == control->done_ms &&
               strcmp(or_nothing(db_string(rows, row, 10)), control->outcome) == 0,
           "control %lld (%s) of job %lld is '%s', must be '%s'", (long long)id,
           control_kinds[control->kind], (long long)control->job_id,
           or_nothing(db_string(rows, row, 10)), control->outcome);
}

void model_compare_controls(struct world *world, const struct op *op, const struct job_model *job,
                            const struct db_result *rows, int64_t now_ms)
{
    size_t row = 0;
    for (int i = 0; i < world->control_count; i++) {
        if (world->controls[i].job_id != job->id)
            continue;
        expect(world, row < rows->rows, "a control of job %lld is lost", (long long)job->id);
        compare(world, op, &world->controls[i], rows, row++, now_ms);
    }
    expect(world, row == rows->rows, "job %lld has %zu controls, must be %zu", (long long)job->id,
           rows->rows, row);
}
