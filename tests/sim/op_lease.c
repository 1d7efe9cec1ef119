/* What the holder of a lease does with it; also those who hold it no more. */
#include "sim.h"

#include <string.h>

void op_drop_belief(struct actor *actor, struct tend_lease lease)
{
    for (size_t i = 0; i < actor->belief_count; i++)
        if (actor->beliefs[i].lease.id == lease.id && actor->beliefs[i].lease.token == lease.token)
            actor->beliefs[i--] = actor->beliefs[--actor->belief_count];
}

static void present(struct op *op, struct tend_lease lease)
{
    for (size_t i = 0; i < op->lease_count; i++)
        if (op->leases[i].id == lease.id)
            return;
    if (op->lease_count < CALL_LEASES)
        op->leases[op->lease_count++] = lease;
}

/*
 * The token of a job that was taken from its owner is ahead of all that were handed out. Who
 * guesses it is told that a release has happened; nobody has it to show.
 */
static bool was_never_given(struct world *world, struct tend_lease lease)
{
    const struct job_model *job = model_job(world, lease.id);
    return job != NULL && job->token == lease.token && job->state != JOB_RUNNING &&
           model_ended_by(job, lease.token) == END_NONE;
}

/* A lease that somebody else was given, or nobody; held still, or not any more. */
static bool foreign_lease(struct world *world, struct tend_lease *ret)
{
    size_t known = world->old_lease_count < OLD_LEASES ? world->old_lease_count : OLD_LEASES;
    if (known == 0)
        return false;
    *ret = world->old_leases[between(world, 0, (int64_t)known - 1)];
    if (world->inherited_count > 0 && chance(world, 4000))
        *ret = world->inherited[between(world, 0, (int64_t)world->inherited_count - 1)];
    if (chance(world, 1500))
        ret->token += 1000; /* one that was never given */
    if (chance(world, 500))
        ret->id += 1000000;
    return !was_never_given(world, *ret);
}

void op_choose_leases(struct world *world, struct actor *actor, size_t most)
{
    struct op *op = &actor->op;
    struct tend_lease lease;
    size_t wanted = (size_t)between(world, 1, (int64_t)most);
    for (size_t i = 0; i < wanted && actor->belief_count > 0; i++)
        present(op, actor->beliefs[between(world, 0, (int64_t)actor->belief_count - 1)].lease);
    if (chance(world, actor->belief_count == 0 ? 5000 : 1000) && op->lease_count < most &&
        foreign_lease(world, &lease))
        present(op, lease);
}

bool op_is_replay(struct world *world, enum lease_end end, struct tend_lease lease)
{
    const struct job_model *job = model_job(world, lease.id);
    enum lease_end before = job == NULL ? END_NONE : model_ended_by(job, lease.token);
    return end != END_NONE && before == end;
}

/* RC-11: what was acknowledged has happened, by the holder; what was refused has not. */
void op_check_leases(struct world *world, struct actor *actor, const int *each)
{
    static const enum lease_end ends_by[OP_COUNT] = {[OP_COMPLETE] = END_COMPLETE,
                                                     [OP_COMPLETE_AND_CLAIM] = END_COMPLETE,
                                                     [OP_FAIL] = END_FAIL,
                                                     [OP_RELEASE] = END_RELEASE};
    struct op *op = &actor->op;
    bool ends = op->kind != OP_START && op->kind != OP_HEARTBEAT && op->kind != OP_PHASE;
    for (size_t i = 0; i < op->lease_count; i++) {
        struct tend_lease lease = op->leases[i];
        bool replay = op_is_replay(world, ends_by[op->kind], lease);
        if (each[i] == 0) {
            expect(world, op->accepted[i] || replay,
                   "%s of %lld:%lld was acknowledged, but did not happen", op_names[op->kind],
                   (long long)lease.id, (long long)lease.token);
            if (ends)
                op_drop_belief(actor, lease);
            continue;
        }
        if (op->faults > 0 && each[i] != TEND_ELEASELOST)
            continue; /* not known; the belief is kept */
        /* Told again, with another delay or end. */
        bool otherwise = replay && each[i] == TEND_ECONFLICT;
        expect(world, each[i] == TEND_ELEASELOST || otherwise, "%s of %lld:%lld answers %d",
               op_names[op->kind], (long long)lease.id, (long long)lease.token, each[i]);
        expect(world, !op->accepted[i], "%s of %lld:%lld was refused, but happened",
               op_names[op->kind], (long long)lease.id, (long long)lease.token);
        expect(world, !model_holds(world, lease), "%s of %lld:%lld was refused to its holder",
               op_names[op->kind], (long long)lease.id, (long long)lease.token);
        if (chance(world, 7000))
            op_drop_belief(actor, lease);
    }
}

static void note_started(struct actor *actor)
{
    for (size_t i = 0; i < actor->op.lease_count; i++)
        for (size_t k = 0; k < actor->belief_count; k++)
            if (actor->beliefs[k].lease.id == actor->op.leases[i].id)
                actor->beliefs[k].started = true;
}

static int call_fail(struct world *world, struct actor *actor, int64_t *ret_due_ms)
{
    struct op *op = &actor->op;
    struct tend_failure failure;
    tend_failure_init(&failure);
    op->delay_ms = chance(world, 4000) ? between(world, 0, 40000) : TEND_UNSET;
    op->final = chance(world, 2000);
    failure.retry_in_ms = op->delay_ms;
    failure.final = op->final;
    return tend_fail(actor->t, op->leases[0], &failure, ret_due_ms);
}

static int call(struct world *world, struct actor *actor, int *each, int64_t *ret_due_ms)
{
    struct op *op = &actor->op;
    size_t count = op->lease_count;
    switch (op->kind) {
    case OP_START:
        return tend_start(actor->t, op->leases, count, each);
    case OP_HEARTBEAT:
        op->ttl_ms = chance(world, 5000) ? between(world, 500, 40000) : TEND_UNSET;
        return tend_heartbeat(actor->t, op->leases, count, op->ttl_ms, each);
    case OP_PHASE:
        return each[0] = tend_phase(actor->t, op->leases[0], "halfway");
    case OP_COMPLETE:
        return tend_complete(actor->t, op->leases, count, NULL, each);
    case OP_FAIL:
        return each[0] = call_fail(world, actor, ret_due_ms);
    default:
        op->delay_ms = chance(world, 4000) ? between(world, 1, 40000) : 0;
        return tend_release(actor->t, op->leases, count, op->delay_ms, "simulated", each);
    }
}

void op_check_due(struct world *world, const struct op *op, int64_t due_ms)
{
    const struct job_model *job = model_job(world, op->leases[0].id);
    bool fails = op->kind == OP_FAIL ||
                 (op->kind == OP_STEP_FINISH && op->step.report.how == TEND_STEPS_FAIL);
    if (!fails || !op->accepted[0] || op->stalls > 0)
        return;
    if (job->state == JOB_SCHEDULED)
        expect(world, due_ms == job->due_ms, "fail answers another time than is stored");
    if (job->state == JOB_FAILED)
        expect(world, due_ms == TEND_UNSET, "fail promises a retry of a failed job");
}

void op_leases(struct world *world, struct actor *actor, enum op_kind kind)
{
    int each[CALL_LEASES] = {0};
    int64_t due_ms = TEND_UNSET;
    struct op *op = op_begin(world, actor, kind);
    op_choose_leases(world, actor, kind == OP_FAIL || kind == OP_PHASE ? 1 : 5);
    if (op->lease_count == 0) {
        actor->busy = false;
        return;
    }
    say(world, "%s %s %lld:%lld%s", actor->name, op_names[kind], (long long)op->leases[0].id,
        (long long)op->leases[0].token, op->lease_count > 1 ? " and more" : "");
    int rc = call(world, actor, each, &due_ms);
    if (!op_end(world, actor, rc))
        return;
    int first = 0;
    for (size_t i = 0; i < op->lease_count; i++)
        first = first != 0 ? first : each[i];
    expect(world, rc == first, "%s answers %d, the first of its leases %d", op_names[kind], rc,
           first);
    op_check_leases(world, actor, each);
    op_check_due(world, op, due_ms);
    if (kind == OP_START)
        note_started(actor);
}
