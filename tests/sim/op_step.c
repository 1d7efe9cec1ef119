/* Reports about steps, by holders of leases and those who hold them no more, and what the answers
 * must be. */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

/* --- the call --- */

struct report_texts {
    char marker[STEP_TEXT], signature[STEP_TEXT], diff_hash[STEP_TEXT], commit[STEP_TEXT];
    char patch[STEP_TEXT], outputs[STEP_TEXT];
};

static void fill_end(const struct step_report *report, struct report_texts *texts, int step,
                     struct tend_attempt_end *ended)
{
    tend_attempt_end_init(ended);
    ended->number = report->end_number;
    ended->state = report->end_state;
    ended->diff_hash = texts->diff_hash;
    ended->may_live = report->serial % LEAVES_PROCESSES == 0;
    if (report->end_state == TEND_ATTEMPT_SUCCEEDED) {
        ended->patch_bytes =
            (size_t)step_patch(texts->patch, sizeof texts->patch, step, report->serial);
        ended->patch = texts->patch;
        ended->outputs = texts->outputs;
        return;
    }
    ended->exit_code = 1;
    ended->failure_class = "transient_runtime";
    ended->signature = texts->signature;
}

static void fill_begin(const struct step_report *report, const struct report_texts *texts,
                       struct tend_attempt_begin *begun)
{
    tend_attempt_begin_init(begun);
    begun->step_index = report->begin_step;
    begun->step_id = step_name(report->begin_step);
    begun->attempt = report->begin_attempt;
    begun->strategy = report->strategy;
    begun->marker = texts->marker;
}

static int finish(struct actor *actor, const struct tend_step_change *change, int64_t *ret_due_ms)
{
    struct op *op = &actor->op;
    const struct step_report *report = &op->step.report;
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = report->delay_ms;
    failure.final = report->final;
    const struct tend_step_close close = {
        .how = report->how,
        .failure = &failure,
        .delay_ms = report->how == TEND_STEPS_RELEASE ? report->delay_ms : 0,
        .control_id = report->control_id,
        .outcome = op->step.outcome,
        .why = "simulated"};
    return tend_step_finish(actor->t, report->lease, change, &close, ret_due_ms);
}

static int call(struct actor *actor, int step, int64_t *ret_number, int64_t *ret_due_ms)
{
    const struct step_report *report = &actor->op.step.report;
    struct report_texts texts;
    struct tend_attempt_end ended;
    struct tend_attempt_begin begun;
    struct tend_step_event events[MAX_NOTES];
    snprintf(texts.marker, sizeof texts.marker, "m%d", report->serial);
    snprintf(texts.signature, sizeof texts.signature, "s%d", report->serial);
    snprintf(texts.diff_hash, sizeof texts.diff_hash, "d%d", report->serial);
    snprintf(texts.commit, sizeof texts.commit, "c%d", report->serial);
    snprintf(texts.outputs, sizeof texts.outputs, "{\"by\":%d}", report->serial);
    fill_end(report, &texts, step, &ended);
    fill_begin(report, &texts, &begun);
    for (int i = 0; i < report->note_count; i++)
        events[i] = (struct tend_step_event){.what = report->notes[i],
                                             .step_index = report->note_step,
                                             .step_id = step_name(report->note_step),
                                             .attempt = TEND_UNSET,
                                             .retryable = !report->final};
    const struct tend_step_change change = {.drop_from_step = report->drop_from,
                                            .baseline_repo = report->baseline ? "repo" : NULL,
                                            .baseline_commit =
                                                report->baseline ? texts.commit : NULL,
                                            .ended = report->end_number != 0 ? &ended : NULL,
                                            .events = events,
                                            .event_count = (size_t)report->note_count,
                                            .begun = report->begin_step != 0 ? &begun : NULL};
    return report->closes ? finish(actor, &change, ret_due_ms)
                          : tend_step_next(actor->t, report->lease, &change, ret_number);
}

/* --- the answer --- */

/* The lease was not held. An end of it that was told before is answered as the first time. */
static void check_lost(struct world *world, const struct op *op, int rc)
{
    static const enum lease_end ends[] = {[TEND_STEPS_COMPLETE] = END_COMPLETE,
                                          [TEND_STEPS_FAIL] = END_FAIL,
                                          [TEND_STEPS_RELEASE] = END_RELEASE,
                                          [TEND_STEPS_HOLD] = END_NONE};
    const struct step_report *report = &op->step.report;
    const struct job_model *job = model_job(world, report->lease.id);
    enum lease_end how = report->closes ? ends[report->how] : END_NONE;
    bool replay = op_is_replay(world, how, report->lease);
    bool unchanged = replay && model_ended_by(job, report->lease.token) == how &&
                     job->token == report->lease.token && job->state != JOB_RUNNING &&
                     job->state != JOB_HELD && job->state != JOB_CANCELLED;
    bool answered = rc == 0 || (rc == TEND_ECONFLICT && how != END_COMPLETE); /* told otherwise */
    expect(world, rc == TEND_ELEASELOST || (answered && replay),
           "%s under the lost lease %lld:%lld answers %d", op_names[op->kind],
           (long long)report->lease.id, (long long)report->lease.token, rc);
    expect(world, answered || op->stalls > 0 || !unchanged,
           "%s of %lld:%lld, told again, answers %d", op_names[op->kind],
           (long long)report->lease.id, (long long)report->lease.token, rc);
}

static void check_answer(struct world *world, struct actor *actor, int rc, int64_t number)
{
    const struct op *op = &actor->op;
    const struct step_report *report = &op->step.report;
    int must = 0;
    switch (op->step.verdict) {
    case VERDICT_LOST:
        check_lost(world, op, rc);
        return;
    case VERDICT_REFUSED:
        must = TEND_ESTATE;
        break;
    case VERDICT_NOWHERE:
        must = TEND_ENOTFOUND;
        break;
    default:
        must = 0;
    }
    expect(world, op->step.verdict != VERDICT_NONE, "%s of %lld:%lld answers %d without a commit",
           op_names[op->kind], (long long)report->lease.id, (long long)report->lease.token, rc);
    expect(world, rc == must, "%s of %lld:%lld answers %d, must be %d: %s", op_names[op->kind],
           (long long)report->lease.id, (long long)report->lease.token, rc, must,
           tend_errmsg(actor->t));
    if (rc == 0 && report->begin_step != 0)
        expect(world, number == op->step.begun, "%s answers attempt %lld, must be %lld",
               op_names[op->kind], (long long)number, (long long)op->step.begun);
}

/* What the actor knows now. */
static void learn(struct world *world, struct actor *actor, struct belief *belief, int rc,
                  int64_t number)
{
    struct step_belief *steps = &belief->steps;
    const struct step_report *report = &steps->report;
    steps->unanswered = false;
    if (rc == TEND_ELEASELOST ? chance(world, 7000) : rc == 0 && report->closes) {
        op_drop_belief(actor, belief->lease);
        return;
    }
    if (rc < 0)
        return;
    steps->ended = report->end_number;
    steps->number = 0;
    steps->next = report->next;
    if (report->begin_step == 0)
        return;
    steps->number = number;
    steps->tries = report->begin_attempt;
    steps->step = report->begin_step;
}

static void say_report(struct world *world, struct actor *actor, bool again)
{
    static const char *const hows[] = {"complete", "fail", "release", "hold"};
    const struct step_report *report = &actor->op.step.report;
    say(world, "%s %s %lld:%lld%s: attempt %lld %s, step %d begins, drops from %d, %s", actor->name,
        op_names[actor->op.kind], (long long)report->lease.id, (long long)report->lease.token,
        again ? " again" : "", (long long)report->end_number,
        tend_attempt_state_name(report->end_state), report->begin_step, report->drop_from,
        report->closes ? hows[report->how] : "goes on");
}

/* Of the attempt that is told to have ended; whose number is wrong may tell of another step's. */
static int ended_step(struct world *world, const struct step_belief *steps)
{
    const struct step_report *report = &steps->report;
    const struct job_model *job = model_job(world, report->lease.id);
    const struct attempt_model *attempt =
        job == NULL ? NULL : model_attempt(world, job, report->end_number);
    return attempt != NULL ? attempt->step : steps->step;
}

static void report_on(struct world *world, struct actor *actor, struct belief *belief,
                      enum op_kind kind, bool diligent)
{
    int64_t number = 0;
    int64_t due_ms = TEND_UNSET;
    struct op *op = op_begin(world, actor, kind);
    struct step_belief *steps = &belief->steps;
    bool again = steps->unanswered;
    int rc = op_plan_report(world, actor, belief, kind, diligent);
    if (rc < 0) {
        op_end(world, actor, rc);
        return;
    }
    op->kind = steps->report.closes ? OP_STEP_FINISH : OP_STEP_NEXT;
    op->step.report = steps->report;
    op->leases[op->lease_count++] = belief->lease;
    op->final = steps->report.final;
    op->delay_ms = steps->report.delay_ms;
    snprintf(op->step.outcome, sizeof op->step.outcome, "by report %d", steps->report.serial);
    say_report(world, actor, again);
    rc = call(actor, ended_step(world, steps), &number, &due_ms);
    if (!op_end(world, actor, rc)) {
        steps->unanswered = true;
        return;
    }
    check_answer(world, actor, rc, number);
    op_check_due(world, op, due_ms);
    if (rc == 0 && !diligent && chance(world, 800))
        steps->unanswered = true; /* the answer came, but not to who asked */
    else
        learn(world, actor, belief, rc, number);
}

static struct belief *find_belief(struct actor *actor, struct tend_lease lease)
{
    for (size_t i = 0; i < actor->belief_count; i++)
        if (actor->beliefs[i].lease.id == lease.id && actor->beliefs[i].lease.token == lease.token)
            return &actor->beliefs[i];
    return NULL;
}

/* What an operator ordered comes first. */
static void obey(struct world *world, struct actor *actor, struct belief *belief)
{
    switch (belief->steps.order_kind) {
    case ASK_PAUSE:
    case ASK_TAKEOVER:
        report_on(world, actor, belief, OP_STEP_FINISH, false);
        break;
    case ASK_RESUME:
        op_control_done(world, actor, belief);
        break;
    default:
        report_on(world, actor, belief, OP_STEP_NEXT, false);
    }
}

/* One of the things that happen while a worker runs a job. */
static void work_on(struct world *world, struct actor *actor, struct belief *belief)
{
    int64_t dice = between(world, 0, 99);
    if (dice < 10)
        op_control(world, actor, model_job(world, belief->lease.id));
    else if (belief->steps.order != 0 && dice < 70)
        obey(world, actor, belief);
    else if (dice < 30)
        op_controls_take(world, actor, belief);
    else if (dice < 40)
        op_step_tell(world, actor, belief);
    else
        report_on(world, actor, belief, dice < 50 ? OP_STEP_FINISH : OP_STEP_NEXT, false);
}

void op_step_work(struct world *world, struct actor *actor, enum op_kind kind)
{
    struct belief stale;
    struct belief *belief = op_choose_belief(world, actor, &stale);
    if (belief == NULL) {
        if (!world->quiet) /* a healthy worker does the rest of the work alone */
            op_claim(world, actor, OP_CLAIM);
        if (actor->dead || actor->belief_count == 0)
            return;
        belief = &actor->beliefs[actor->belief_count - 1];
    }
    struct tend_lease lease = belief->lease;
    int64_t more = belief == &stale ? 0 : between(world, 0, 8);
    report_on(world, actor, belief, kind, false);
    for (int64_t i = 0; i < more && !actor->dead; i++) {
        belief = find_belief(actor, lease);
        if (belief == NULL)
            return;
        world_live(world, between(world, 0, 300));
        work_on(world, actor, belief);
    }
}

void op_step_through(struct world *world, struct actor *actor, struct tend_lease lease)
{
    const struct job_model *job = model_job(world, lease.id);
    for (int i = 0; model_holds(world, lease); i++) {
        struct belief *belief = find_belief(actor, lease);
        expect(world, belief != NULL && i < 3 * MAX_STEPS, "the steps of job %lld never end",
               (long long)lease.id);
        bool last = belief->steps.number != 0 && belief->steps.step >= job->steps;
        report_on(world, actor, belief, last ? OP_STEP_FINISH : OP_STEP_NEXT, true);
    }
}
