/* Operators ask something of a job; workers take what is open for theirs, and answer. */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

/* --- operators --- */

static enum control_kind choose_kind(struct world *world)
{
    static const int shares[ASK_COUNT] = {
        [ASK_PAUSE] = 15,      [ASK_RESUME] = 20,          [ASK_TAKEOVER] = 8,
        [ASK_RETRY_STEP] = 15, [ASK_HARD_RESET_STEP] = 15, [ASK_RESUME_FROM_STEP] = 20,
        [ASK_CANCEL] = 7};
    int64_t dice = between(world, 0, 99);
    int kind = 0;
    while (kind < ASK_COUNT - 1 && dice >= shares[kind])
        dice -= shares[kind++];
    return (enum control_kind)kind;
}

/* One that has something to lose, mostly. */
static const struct job_model *choose_job(struct world *world)
{
    size_t first = (size_t)between(world, 0, (int64_t)world->job_count - 1);
    bool running = chance(world, 6000);
    for (size_t i = 0; chance(world, 9800) && i < world->job_count; i++) {
        const struct job_model *job = &world->jobs[(first + i) % world->job_count];
        if (job->newest >= 0 && (!running || job->state == JOB_RUNNING))
            return job;
    }
    return &world->jobs[first];
}

static int choose_step(struct world *world, const struct job_model *job, enum control_kind kind)
{
    int open = model_first_open(job);
    if (kind != ASK_RESUME_FROM_STEP && chance(world, 5000))
        return 0;
    if (chance(world, 2000))
        return (int)between(world, 1, MAX_STEPS);
    open = open > MAX_STEPS ? MAX_STEPS : open;
    return kind == ASK_RESUME_FROM_STEP ? (int)between(world, 1, open) : open;
}

static void check_result(struct world *world, const struct op *op,
                         const struct tend_control_result *result)
{
    const struct step_op *asked = &op->step;
    int state = asked->anew ? TEND_PENDING : asked->becomes;
    expect(world,
           result->control_id == world->controls[asked->control].id &&
               result->job_id == (asked->anew ? asked->new_job : op->job_id),
           "a control of job %lld answers control %lld of job %lld", (long long)op->job_id,
           (long long)result->control_id, (long long)result->job_id);
    expect(world, result->open == asked->open && result->state == state,
           "%s of job %lld answers that it is %s, and %s", control_kinds[asked->kind],
           (long long)op->job_id, tend_state_name(result->state), result->open ? "open" : "done");
}

void op_control(struct world *world, struct actor *actor, const struct job_model *job)
{
    static const int codes[] = {[VERDICT_NONE] = TEND_EINTERNAL,
                                [VERDICT_DONE] = 0,
                                [VERDICT_REFUSED] = TEND_ESTATE,
                                [VERDICT_NOWHERE] = TEND_ENOTFOUND,
                                [VERDICT_CONFLICT] = TEND_ECONFLICT};
    struct tend_control_result result = {0};
    if (world->job_count == 0 || world->job_count + 8 >= MAX_JOBS)
        return;
    struct op *op = op_begin(world, actor, OP_CONTROL);
    if (job == NULL)
        job = choose_job(world);
    op->job_id = job->id;
    op->step.kind = choose_kind(world);
    op->step.step = choose_step(world, job, op->step.kind);
    if (chance(world, 100))
        op->job_id += 1000000;
    say(world, "%s asks for %s %s of job %lld", actor->name, control_kinds[op->step.kind],
        step_name(op->step.step), (long long)op->job_id);
    int rc = tend_control(actor->t, op->job_id, control_kinds[op->step.kind],
                          op->step.step == 0 ? NULL : step_name(op->step.step), "simulated", NULL,
                          &result);
    if (!op_end(world, actor, rc))
        return;
    expect(world, rc == codes[op->step.verdict], "%s of job %lld, which is %s, answers %d",
           control_kinds[op->step.kind], (long long)op->job_id,
           op->job_id == job->id ? tend_state_name((int)job->state) : "not there", rc);
    if (rc == 0)
        check_result(world, op, &result);
}

/* --- workers --- */

static struct belief *find_belief(struct actor *actor, int64_t job_id)
{
    for (size_t i = 0; i < actor->belief_count; i++)
        if (actor->beliefs[i].lease.id == job_id)
            return &actor->beliefs[i];
    return NULL;
}

/* All that is open for what the caller holds, and nothing else. */
static void check_taken(struct world *world, const struct op *op, const struct tend_controls *list)
{
    size_t count = 0;
    for (int i = 0; i < world->control_count; i++) {
        const struct control_model *control = &world->controls[i];
        bool mine = false;
        for (size_t k = 0; k < op->lease_count; k++)
            mine |= op->leases[k].id == control->job_id && model_holds(world, op->leases[k]);
        if (!mine || control->done_ms != TEND_UNSET)
            continue;
        count++;
        expect(world, control->taken_ms != TEND_UNSET, "control %lld of job %lld is not taken",
               (long long)control->id, (long long)control->job_id);
    }
    expect(world, list->count == count, "%zu controls were delivered, %zu are open", list->count,
           count);
}

static void take(struct world *world, struct actor *actor, const struct tend_control *given)
{
    const struct op *op = &actor->op;
    const struct control_model *control = model_find_control(world, given->id);
    struct belief *belief = find_belief(actor, given->job_id);
    bool asked = false;
    for (size_t i = 0; i < op->lease_count; i++)
        asked |= op->leases[i].id == given->job_id;
    expect(world,
           control != NULL && asked && control->job_id == given->job_id &&
               strcmp(given->action, control_kinds[control->kind]) == 0,
           "control %lld (%s) of job %lld was delivered to %s", (long long)given->id, given->action,
           (long long)given->job_id, actor->name);
    if (belief == NULL || belief->steps.order != 0)
        return;
    belief->steps.order = given->id;
    belief->steps.order_kind = control->kind;
    belief->steps.order_step = control->step;
}

void op_controls_take(struct world *world, struct actor *actor, const struct belief *belief)
{
    struct tend_controls *list = NULL;
    struct op *op = op_begin(world, actor, OP_CONTROLS_TAKE);
    if (belief != NULL)
        op->leases[op->lease_count++] = belief->lease;
    else
        op_choose_leases(world, actor, 5);
    if (op->lease_count == 0) {
        actor->busy = false;
        return;
    }
    say(world, "%s takes controls of %lld:%lld%s", actor->name, (long long)op->leases[0].id,
        (long long)op->leases[0].token, op->lease_count > 1 ? " and more" : "");
    int rc = tend_controls_take(actor->t, op->leases, op->lease_count, &list);
    if (actor->dead && rc == 0)
        tend_controls_free(list);
    if (!op_end(world, actor, rc))
        return;
    expect(world, rc == 0, "taking controls answers %d", rc);
    if (op->stalls == 0)
        check_taken(world, op, list);
    for (size_t i = 0; i < list->count; i++)
        take(world, actor, &list->items[i]);
    tend_controls_free(list);
}

/* The one it was given; or one that was answered long ago, or of another job. */
static int64_t choose_control(struct world *world, const struct belief *belief)
{
    if (belief->steps.order != 0 && !chance(world, 500))
        return belief->steps.order;
    return world->control_count == 0
               ? 1
               : world->controls[between(world, 0, world->control_count - 1)].id;
}

void op_control_done(struct world *world, struct actor *actor, struct belief *belief)
{
    struct belief stale;
    if (belief == NULL)
        belief = op_choose_belief(world, actor, &stale);
    if (belief == NULL || (belief->steps.order == 0 && !chance(world, 1500)))
        return;
    struct op *op = op_begin(world, actor, OP_CONTROL_DONE);
    op->leases[op->lease_count++] = belief->lease;
    op->step.control_id = choose_control(world, belief);
    snprintf(op->step.outcome, sizeof op->step.outcome, "by answer %d", ++world->serial);
    say(world, "%s answers control %lld of %lld:%lld", actor->name, (long long)op->step.control_id,
        (long long)belief->lease.id, (long long)belief->lease.token);
    int rc = tend_control_done(actor->t, belief->lease, op->step.control_id, op->step.outcome);
    if (!op_end(world, actor, rc))
        return;
    int must = op->step.verdict == VERDICT_LOST      ? TEND_ELEASELOST
               : op->step.verdict == VERDICT_NOWHERE ? TEND_ENOTFOUND
                                                     : 0;
    expect(world, rc == must && op->step.verdict != VERDICT_NONE,
           "the answer to control %lld of job %lld is answered with %d, must be %d",
           (long long)op->step.control_id, (long long)belief->lease.id, rc, must);
    if (op->step.control_id == belief->steps.order)
        belief->steps.order = 0;
}
