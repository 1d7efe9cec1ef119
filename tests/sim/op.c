/* What operations have in common: how a call begins and ends, and which is chosen. */
#include "sim_step.h"

#include <string.h>

const char *const op_names[OP_COUNT] = {
    [OP_NONE] = "none",
    [OP_ADD] = "add",
    [OP_CLAIM] = "claim",
    [OP_NEXT_WITH_LOCK] = "next_with_lock",
    [OP_COMPLETE_AND_CLAIM] = "complete_and_claim",
    [OP_START] = "start",
    [OP_HEARTBEAT] = "heartbeat",
    [OP_PHASE] = "phase",
    [OP_COMPLETE] = "complete",
    [OP_FAIL] = "fail",
    [OP_RELEASE] = "release",
    [OP_ACT] = "act",
    [OP_ACT_ON_ALL] = "act_on_all",
    [OP_RECOVER] = "recover",
    [OP_RECLAIM] = "reclaim_stale",
    [OP_STATS] = "recovery_stats",
    [OP_LOCK_ACQUIRE] = "lock_acquire",
    [OP_LOCK_RELEASE] = "lock_release",
    [OP_LOCK_EXTEND] = "lock_extend",
    [OP_QUEUE_SET] = "queue_set",
    [OP_SCHEDULE] = "schedule",
    [OP_CLOSE] = "close",
    [OP_STEP_NEXT] = "step_next",
    [OP_STEP_FINISH] = "step_finish",
    [OP_STEP_TELL] = "step_tell",
    [OP_STEP_LOOK] = "step_look",
    [OP_CONTROL] = "control",
    [OP_CONTROLS_TAKE] = "controls_take",
    [OP_CONTROL_DONE] = "control_done",
    [OP_PURGE] = "purge",
    [OP_RESTORE] = "restore",
};

bool op_is_claim(const struct op *op)
{
    return op->kind == OP_CLAIM || op->kind == OP_NEXT_WITH_LOCK ||
           op->kind == OP_COMPLETE_AND_CLAIM;
}

struct op *op_begin(struct world *world, struct actor *actor, enum op_kind kind)
{
    actor->op = (struct op){.kind = kind, .queue = Q_PLAIN, .ttl_ms = TEND_UNSET};
    tend_claim_init(&actor->op.claim);
    actor->busy = true;
    world->steps++;
    /* The library's own timers run by the machine's clock; here chance decides. */
    actor->t->workers_next_ms = chance(world, 3000) ? 0 : INT64_MAX;
    memset(actor->t->recovery_again_ms, 0, sizeof actor->t->recovery_again_ms);
    actor->t->alarms_next_ms = !world->postgres || chance(world, 5000) ? 0 : INT64_MAX;
    return &actor->op;
}

/* An error that only a fault can bring about. */
static bool is_trouble(int rc)
{
    return rc == TEND_EIO || rc == TEND_EUNREACHABLE || rc == TEND_EFULL || rc == TEND_EINTERNAL ||
           rc == TEND_ENOMEM || rc == TEND_ECORRUPT || rc == TEND_EREADONLY || rc == TEND_EINVAL;
}

bool op_end(struct world *world, struct actor *actor, int rc)
{
    struct op *op = &actor->op;
    bool genuine_busy = op_is_claim(op) || op->kind == OP_LOCK_ACQUIRE;
    actor->busy = false;
    if (actor->dead) {
        world_bury(world, actor);
        return false;
    }
    say(world, "    = %d%s%s", rc, rc < 0 ? ": " : "", rc < 0 ? tend_errmsg(actor->t) : "");
    expect(world, rc >= 0 || tend_errmsg(actor->t)[0] != '\0', "%s fails with %d without a word",
           op_names[op->kind], rc);
    if (op->faults == 0)
        expect(world, !is_trouble(rc) && (rc != TEND_EBUSY || genuine_busy),
               "%s fails with %d (%s) for no reason", op_names[op->kind], rc,
               tend_errmsg(actor->t));
    /* CL-6, LS-7 */
    expect(world, op->faults != 1 || !op->fault_in_recovery || !op_is_claim(op) || !is_trouble(rc),
           "a failing recovery has stopped a claim: %s", tend_errmsg(actor->t));
    return op->faults == 0 || !(is_trouble(rc) || rc == TEND_EBUSY);
}

static void look_at_some(struct world *world, struct actor *actor)
{
    if (world->job_count == 0)
        return;
    op_step_look(world, actor, &world->jobs[between(world, 0, (int64_t)world->job_count - 1)]);
    op_step_sweep(world, actor);
}

static void run_steps(struct world *world, struct actor *actor, enum op_kind kind)
{
    switch (kind) {
    case OP_STEP_NEXT:
    case OP_STEP_FINISH:
        op_step_work(world, actor, kind);
        break;
    case OP_STEP_TELL:
        op_step_tell(world, actor, NULL);
        break;
    case OP_STEP_LOOK:
        look_at_some(world, actor);
        break;
    case OP_CONTROL:
        op_control(world, actor, NULL);
        break;
    case OP_CONTROLS_TAKE:
        op_controls_take(world, actor, NULL);
        break;
    case OP_CONTROL_DONE:
        op_control_done(world, actor, NULL);
        break;
    default:
        break;
    }
}

void op_run(struct world *world, struct actor *actor, enum op_kind kind)
{
    switch (kind) {
    case OP_ADD:
        op_add(world, actor);
        break;
    case OP_CLAIM:
    case OP_NEXT_WITH_LOCK:
        op_claim(world, actor, kind);
        break;
    case OP_COMPLETE_AND_CLAIM:
        op_complete_and_claim(world, actor);
        break;
    case OP_START:
    case OP_HEARTBEAT:
    case OP_PHASE:
    case OP_COMPLETE:
    case OP_FAIL:
    case OP_RELEASE:
        op_leases(world, actor, kind);
        break;
    case OP_ACT:
        op_act(world, actor);
        break;
    case OP_ACT_ON_ALL:
        op_act_on_all(world, actor, (enum tend_action)between(world, TEND_HOLD, TEND_REDRIVE),
                      (int)between(world, 0, QUEUE_COUNT - 1), 0);
        break;
    case OP_RECOVER:
    case OP_RECLAIM:
    case OP_STATS:
        op_recover(world, actor, kind);
        break;
    case OP_LOCK_ACQUIRE:
    case OP_LOCK_RELEASE:
    case OP_LOCK_EXTEND:
        op_lock(world, actor, kind);
        break;
    case OP_QUEUE_SET:
        op_queue_set(world, actor);
        break;
    case OP_RESTORE:
        op_restore(world, actor);
        break;
    case OP_CLOSE:
        world_close(world, actor);
        break;
    default:
        run_steps(world, actor, kind);
    }
}
