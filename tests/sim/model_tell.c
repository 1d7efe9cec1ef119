/*
 * What progress, processes and output told of an attempt must do; and where the commits of all
 * calls about steps come in.
 */
#include "sim_step.h"

/* LOST: the lease is not held; TOLD_BEFORE: it is, but there is nothing to change. */
static enum verdict tell(struct world *world, struct op *op)
{
    const struct step_op *told = &op->step;
    struct tend_lease lease = op->leases[0];
    const struct job_model *job = model_job(world, lease.id);
    struct attempt_model *attempt = job == NULL ? NULL : model_attempt(world, job, told->number);
    bool running =
        attempt != NULL && attempt->token == lease.token && attempt->state == TEND_ATTEMPT_RUNNING;
    /* Of an attempt that is stopped because of a cancel or a hold the output is still taken. */
    bool parting = told->tell == TELL_OUTPUT && running && model_stopped(job, lease);
    if (!model_holds(world, lease) && !parting)
        return VERDICT_LOST;
    enum verdict verdict = VERDICT_TOLD_BEFORE;
    expect(world, attempt != NULL || told->tell != TELL_OUTPUT,
           "output of an attempt of job %lld that never began", (long long)lease.id);
    for (int i = 0; told->tell == TELL_OUTPUT && i < told->piece_count; i++) {
        int *piece = &attempt->pieces[told->first_seq - 1 + i];
        if (*piece != 0)
            continue; /* it stays as it is */
        *piece = told->serial;
        verdict = VERDICT_DONE;
    }
    if (told->tell == TELL_OUTPUT || !running)
        return verdict;
    if (told->tell == TELL_PROGRESS)
        attempt->percent = told->serial % 101;
    else
        attempt->pid = told->serial;
    return VERDICT_DONE;
}

static enum verdict answer(struct world *world, struct op *op, int64_t now_ms, bool apply)
{
    struct job_model *job = model_job(world, op->leases[0].id);
    if (!model_holds(world, op->leases[0]))
        return VERDICT_LOST;
    enum verdict verdict =
        model_answer(world, job, op->step.control_id, op->step.outcome, now_ms, apply);
    if (world->expected_count > 0) {
        job->started = true;
        job->seen_ms = now_ms;
    }
    return verdict;
}

static void decide(struct world *world, struct actor *actor, int64_t now_ms, bool apply)
{
    struct op *op = &actor->op;
    world->expected_count = world->expected_seen = 0;
    op->step.moves = 0;
    op->step.becomes = -1;
    switch (op->kind) {
    case OP_STEP_NEXT:
    case OP_STEP_FINISH:
        op->step.verdict = model_report(world, op, now_ms, apply);
        break;
    case OP_STEP_TELL:
        if (apply)
            op->step.verdict = tell(world, op);
        break;
    case OP_CONTROL:
        op->step.verdict = model_control(world, actor, now_ms, apply);
        break;
    case OP_CONTROL_DONE:
        op->step.verdict = answer(world, op, now_ms, apply);
        break;
    default:
        return;
    }
    if (apply)
        op->accepted[0] = op->step.verdict == VERDICT_DONE;
}

void model_step_commit(struct world *world, struct actor *actor, int64_t now_ms)
{
    decide(world, actor, now_ms, true);
    enum verdict verdict = actor->op.step.verdict;
    expect(world,
           verdict != VERDICT_REFUSED && verdict != VERDICT_NOWHERE && verdict != VERDICT_CONFLICT,
           "%s was committed, but had to be refused", op_names[actor->op.kind]);
}

void model_step_no_commit(struct world *world, struct actor *actor, int64_t now_ms)
{
    decide(world, actor, now_ms, false);
}

void model_step_over(struct world *world, struct actor *actor)
{
    const struct op *op = &actor->op;
    expect(world, world->expected_seen == world->expected_count, "%s by %s left no event %s",
           op_names[op->kind], actor->name, world->expected[world->expected_seen].what);
    if (op->kind != OP_STEP_FINISH && op->kind != OP_CONTROL)
        return;
    const struct job_model *job =
        model_job(world, op->kind == OP_CONTROL ? op->job_id : op->leases[0].id);
    expect(world, op->moved == op->step.moves, "%s moved %lld jobs, must be %d", op_names[op->kind],
           (long long)op->moved, op->step.moves);
    expect(world, op->step.becomes < 0 || (int)job->state == op->step.becomes,
           "job %lld is %s after %s, must be %s", (long long)job->id,
           tend_state_name((int)job->state), op_names[op->kind], tend_state_name(op->step.becomes));
    expect(world, op->step.anew == (op->step.new_job != 0), "job %lld %s", (long long)op->job_id,
           op->step.anew ? "does not go on" : "goes on as another");
}
