/*
 * The end of a history: no more faults, and one healthy worker finishes everything, while those who
 * are still there try what they believe to hold.
 */
#include "sim_step.h"

#include <string.h>

enum { MOST_ROUNDS = 3000 };

#define DAY_MS (24LL * 3600 * 1000)
#define KEPT_MS (7 * DAY_MS) /* done and cancelled jobs; failed ones stay */

static int64_t unfinished(struct world *world)
{
    int64_t count = 0;
    for (size_t i = 0; i < world->job_count; i++)
        count += !state_is_finished(world->jobs[i].state);
    return count;
}

/* BY-4: as many runs as each schedule has had times, whoever crashed in between. */
static void end_schedules(struct world *world, struct actor *actor)
{
    struct tend_schedules *list;
    if (world->schedule_first_ms == 0)
        return;
    int rc = tend_schedule_list(actor->t, &list);
    expect(world, rc == 0 && list->count == SCHEDULES, "a schedule is gone");
    for (int i = 0; i < SCHEDULES; i++) {
        const struct tend_schedule *one = &list->items[i];
        int64_t due = one->last_at_ms == TEND_UNSET
                          ? 0
                          : (one->next_at_ms - world->schedule_first_ms - 1) / schedule_period_ms;
        expect(world, strcmp(one->name, schedule_names[i]) == 0, "%s is gone", schedule_names[i]);
        expect(world, due == world->scheduled_runs[i], "%s has fired %lld times, must be %lld",
               one->name, (long long)world->scheduled_runs[i], (long long)due);
        op_begin(world, actor, OP_SCHEDULE);
        rc = tend_schedule_remove(actor->t, one->name, NULL);
        expect(world, op_end(world, actor, rc) && rc == 0, "a schedule cannot be removed");
    }
    tend_schedules_free(list);
}

/* Of some jobs all steps are done, before the others are completed as they are. */
static void do_steps(struct world *world, struct actor *actor)
{
    for (size_t i = 0; i < actor->belief_count; i++) {
        const struct job_model *job = model_job(world, actor->beliefs[i].lease.id);
        if (!chance(world, job->newest >= 0 ? 7000 : 1000))
            continue;
        op_step_through(world, actor, actor->beliefs[i].lease);
        i--; /* its place is another's now */
    }
}

/* Claims from one queue and completes what it gets. */
static void finish_some(struct world *world, struct actor *actor, int queue)
{
    struct tend_jobs *jobs = NULL;
    struct tend_none none = {0};
    struct op *op = op_begin(world, actor, OP_CLAIM);
    op->queue = queue;
    op->claim.queue = queue_names[queue];
    op->claim.count = 8;
    say(world, "%s drains %s", actor->name, queue_names[queue]);
    int rc = tend_claim_jobs(actor->t, &op->claim, &jobs, &none);
    expect(world, op_end(world, actor, rc), "draining fails: %s", tend_errmsg(actor->t));
    op_take_jobs(world, actor, rc, jobs);
    op_check_none(world, actor, rc, &none);
    if (rc > 0)
        do_steps(world, actor);
    if (rc <= 0 || actor->belief_count == 0)
        return;
    int each[CALL_LEASES];
    op = op_begin(world, actor, OP_COMPLETE);
    for (size_t i = 0; i < actor->belief_count && i < CALL_LEASES; i++)
        op->leases[op->lease_count++] = actor->beliefs[i].lease;
    rc = tend_complete(actor->t, op->leases, op->lease_count, NULL, each);
    expect(world, op_end(world, actor, rc) && rc == 0, "completing fails: %s",
           tend_errmsg(actor->t));
    op_check_leases(world, actor, each);
}

/* The others still do what they can with what they believe to hold. */
static void one_of_the_others(struct world *world)
{
    static const enum op_kind kinds[] = {OP_COMPLETE,  OP_HEARTBEAT,  OP_RELEASE,   OP_FAIL,
                                         OP_START,     OP_STEP_NEXT,  OP_STEP_TELL, OP_CONTROL,
                                         OP_STEP_NEXT, OP_STEP_FINISH};
    int slot = (int)between(world, 0, world->slot_count - 2);
    if (world->slots[slot] >= 0)
        op_run(world, &world->actors[world->slots[slot]], kinds[between(world, 0, 9)]);
}

static void open_everything(struct world *world, struct actor *actor)
{
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        if (world->queues[queue].paused)
            op_change_queue(world, actor, queue, SET_PAUSED, 0);
    op_act_on_all(world, actor, TEND_RESUME, -1, 1u << TEND_HELD);
}

/* No attempt runs by the word of the readers, and all that are left behind are told. */
static void end_steps(struct world *world, struct actor *actor)
{
    struct tend_attempts *running = NULL;
    for (size_t i = 0; i < world->job_count; i++)
        if (world->jobs[i].newest >= 0)
            op_step_look(world, actor, &world->jobs[i]);
    op_step_sweep(world, actor);
    int rc = tend_attempts_running(actor->t, 0, &running);
    expect(world, rc == 0 && running->count == 0, "%zu attempts are said to be running",
           running->count);
    tend_attempts_free(running);
}

void world_purge(struct world *world)
{
    struct tend_purged gone = {0};
    int64_t must = 0;
    int slot = world->slot_count - 1;
    world_spawn(world, slot);
    struct actor *actor = &world->actors[world->slots[slot]];
    for (size_t i = 0; i < world->job_count; i++)
        must += world->jobs[i].state != JOB_FAILED;
    world_live(world, KEPT_MS + DAY_MS); /* store time may be slower, after a jump back */
    op_begin(world, actor, OP_PURGE);
    say(world, "%s purges", actor->name);
    int rc = tend_purge(actor->t, &gone);
    expect(world, op_end(world, actor, rc) && rc == 0, "purging fails: %s", tend_errmsg(actor->t));
    expect(world, gone.jobs == must, "%lld jobs were deleted, must be %lld", (long long)gone.jobs,
           (long long)must);
    int64_t left = count_orphans(world->url);
    expect(world, left == 0, "%lld rows about the steps of jobs that are gone are left",
           (long long)left);
    world_close(world, actor);
}

void world_drain(struct world *world)
{
    say(world, "--- draining");
    world->quiet = true;
    int own_slot = world->slot_count++;
    world_spawn(world, own_slot);
    struct actor *healthy = &world->actors[world->slots[own_slot]];
    end_schedules(world, healthy);
    for (int round = 0; unfinished(world) > 0; round++) {
        expect(world, round < MOST_ROUNDS, "%lld jobs are never finished",
               (long long)unfinished(world));
        if (chance(world, 3000))
            one_of_the_others(world);
        open_everything(world, healthy);
        if (round % 8 == 0)
            op_run(world, healthy, OP_RECOVER);
        for (int queue = 0; queue < QUEUE_COUNT; queue++)
            if (model_pending(world, queue) > 0 || round % 4 == 0)
                finish_some(world, healthy, queue);
        world_live(world, between(world, 1000, 60000));
    }
    for (int slot = 0; slot < own_slot; slot++)
        if (world->slots[slot] >= 0)
            world_close(world, &world->actors[world->slots[slot]]);
    /* What nobody released is over by its time. */
    world_live(world, 3600000);
    op_run(world, healthy, OP_RECOVER);
    world_live(world, 10000); /* a lost session is given a grace */
    op_run(world, healthy, OP_RECOVER);
    end_steps(world, healthy);
    world_close(world, healthy);
}
