/* What operators, recoverers and users of plain locks do. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

/* --- operators --- */

void op_act(struct world *world, struct actor *actor)
{
    if (world->job_count == 0)
        return;
    struct op *op = op_begin(world, actor, OP_ACT);
    op->job_id = world->jobs[between(world, 0, (int64_t)world->job_count - 1)].id;
    op->action = (enum tend_action)between(world, TEND_HOLD, TEND_REDRIVE);
    if (chance(world, 200))
        op->job_id += 1000000;
    say(world, "%s acts %d on job %lld", actor->name, (int)op->action, (long long)op->job_id);
    int rc = tend_act(actor->t, op->action, op->job_id, NULL, "simulated");
    if (!op_end(world, actor, rc))
        return;
    const struct job_model *job = model_job(world, op->job_id);
    switch (rc) {
    case 0:
        expect(world, op->moved == 1, "an action was acknowledged, but did not happen");
        break;
    case TEND_ENOTFOUND:
        expect(world, job == NULL, "job %lld was not found", (long long)op->job_id);
        break;
    case TEND_ESTATE:
        expect(world, op->refused_by_state && op->moved == 0, "an action was refused to job %lld",
               (long long)op->job_id);
        break;
    default:
        expect(world,
               rc == TEND_ECONFLICT && op->action == TEND_REDRIVE && job != NULL &&
                   job->unique != 0,
               "action %d on job %lld answers %d", (int)op->action, (long long)op->job_id, rc);
    }
}

void op_act_on_all(struct world *world, struct actor *actor, enum tend_action action, int queue,
                   unsigned states)
{
    struct tend_filter filter;
    struct tend_acted *acted = NULL;
    struct op *op = op_begin(world, actor, OP_ACT_ON_ALL);
    tend_filter_init(&filter);
    filter.queue = queue < 0 ? NULL : queue_names[queue];
    filter.states = states;
    op->action = action;
    say(world, "%s acts %d on all of %s", actor->name, (int)action,
        queue < 0 ? "the jobs" : queue_names[queue]);
    int rc = tend_act_on_all(actor->t, action, &filter, NULL, "simulated", &acted);
    int64_t count = acted != NULL ? acted->count : 0;
    tend_acted_free(acted);
    if (!op_end(world, actor, rc))
        return;
    if (rc == TEND_ECONFLICT && action == TEND_REDRIVE)
        return;
    expect(world, rc == 0 && count == op->moved, "act on all answers %d, %lld of %lld changed", rc,
           (long long)count, (long long)op->moved);
}

void op_change_queue(struct world *world, struct actor *actor, int queue, enum setting setting,
                     int64_t value)
{
    static const char *const names[] = {[SET_PAUSED] = "paused",
                                        [SET_CONCURRENCY] = "concurrency",
                                        [SET_KEY_CONCURRENCY] = "key-concurrency",
                                        [SET_RATE_COUNT] = "rate"};
    char text[32] = "none";
    struct op *op = op_begin(world, actor, OP_QUEUE_SET);
    op->queue = queue;
    op->setting = setting;
    op->value = value;
    if (setting == SET_PAUSED)
        snprintf(text, sizeof text, value != 0 ? "on" : "off");
    else if (setting == SET_RATE_COUNT && value != TEND_UNSET)
        snprintf(text, sizeof text, "%lld/%lldms", (long long)value,
                 (long long)world->queues[queue].rate_period_ms);
    else if (value != TEND_UNSET)
        snprintf(text, sizeof text, "%lld", (long long)value);
    struct tend_setting change = {.name = names[setting], .value = text};
    say(world, "%s sets %s of %s to %s", actor->name, change.name, queue_names[queue], text);
    int rc = tend_queue_set(actor->t, queue_names[queue], &change, 1, NULL);
    if (op_end(world, actor, rc))
        expect(world, rc == 0, "setting a queue answers %d", rc);
}

void op_queue_set(struct world *world, struct actor *actor)
{
    int64_t value = chance(world, 2000) ? TEND_UNSET : between(world, 1, 3);
    switch (between(world, 0, 4)) {
    case 0:
        op_change_queue(world, actor, Q_LIMITED, SET_CONCURRENCY, value);
        break;
    case 1:
        op_change_queue(world, actor, Q_KEYED, SET_KEY_CONCURRENCY, value);
        break;
    case 2:
        op_change_queue(world, actor, Q_RATED, SET_RATE_COUNT, value);
        break;
    default:
        op_change_queue(world, actor, (int)between(world, 0, QUEUE_COUNT - 1), SET_PAUSED,
                        chance(world, 3000));
    }
}

/* Said of a store that was not restored: all that is changes for nobody who holds something. */
void op_restore(struct world *world, struct actor *actor)
{
    struct tend_generation next = {0};
    struct op *op = op_begin(world, actor, OP_RESTORE);
    say(world, "%s begins a generation", actor->name);
    int rc = tend_after_restore(actor->t, NULL, &next);
    if (!op_end(world, actor, rc))
        return;
    expect(world, rc == 0, "beginning a generation answers %d", rc);
    expect(world, op->stalls > 0 || next.token_base == world->token_base,
           "tokens go on from %lld, but %lld is answered", (long long)world->token_base,
           (long long)next.token_base);
}

/* --- recovery --- */

/* RC-3: the figures announced are the figures that come. Without faults, so that nothing is in
 * between. */
static void check_stats(struct world *world, struct actor *actor)
{
    struct tend_recovery announced = {0};
    struct tend_recovery done = {0};
    bool quiet = world->quiet;
    world->quiet = true;
    int rc = tend_get_recovery_stats(actor->t, &announced);
    expect(world, rc == 0, "recovery stats answer %d: %s", rc, tend_errmsg(actor->t));
    actor->op.kind = OP_RECOVER;
    rc = tend_detect_and_recover_stale(actor->t, &done);
    expect(world, rc == 0, "recovery answers %d: %s", rc, tend_errmsg(actor->t));
    world->quiet = quiet;
    actor->busy = false;
    say(world, "    = %lld jobs, %lld locks", (long long)done.entries_reclaimed,
        (long long)done.locks_cleaned);
    expect(world,
           announced.entries_reclaimed == done.entries_reclaimed &&
               announced.locks_cleaned == done.locks_cleaned,
           "announced: %lld jobs and %lld locks; recovered: %lld and %lld",
           (long long)announced.entries_reclaimed, (long long)announced.locks_cleaned,
           (long long)done.entries_reclaimed, (long long)done.locks_cleaned);
}

void op_recover(struct world *world, struct actor *actor, enum op_kind kind)
{
    struct tend_recovery done = {0};
    struct op *op = op_begin(world, actor, kind);
    op->threshold_ms = kind == OP_RECLAIM ? between(world, 0, 100000) : 0;
    say(world, "%s %s %lld", actor->name, op_names[kind], (long long)op->threshold_ms);
    if (kind == OP_STATS) {
        check_stats(world, actor);
        return;
    }
    int rc = kind == OP_RECOVER ? tend_detect_and_recover_stale(actor->t, &done)
                                : tend_reclaim_stale(actor->t, op->threshold_ms, &done);
    if (!op_end(world, actor, rc))
        return;
    expect(world, rc == 0, "%s answers %d", op_names[kind], rc);
    expect(world, done.entries_reclaimed == op->reclaimed,
           "%lld entries are said to be reclaimed, %lld were", (long long)done.entries_reclaimed,
           (long long)op->reclaimed);
    for (size_t i = 0; op->stalls == 0 && i < world->job_count; i++)
        expect(world,
               world->jobs[i].state != JOB_RUNNING ||
                   world->jobs[i].until_ms > done.recovery_timestamp_ms,
               "job %lld is stale after a recovery", (long long)world->jobs[i].id);
}

/* --- locks --- */

static int acquire(struct world *world, struct actor *actor, struct tend_lock *lock)
{
    struct op *op = &actor->op;
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = lock_names[op->lock];
    request.ttl_ms = chance(world, 5000) ? between(world, 500, 5000) : between(world, 5000, 60000);
    op->by_time = chance(world, 3000);
    request.flags = op->by_time ? TEND_CLAIM_BY_TIME : 0;
    request.wait_ms = chance(world, 1000) ? -1 : 0;
    return tend_lock_acquire(actor->t, &request, lock);
}

static void check_acquire(struct world *world, const struct op *op, int rc,
                          const struct tend_lock *lock)
{
    if (rc == TEND_EINTERRUPTED)
        return;
    expect(world, rc == 0 || rc == TEND_EBUSY, "acquiring a lock answers %d", rc);
    expect(world, op->done == (rc == 0) && op->lock_is_free == (rc == 0),
           "acquiring lock %s answers %d, but it was %s", lock_names[op->lock], rc,
           op->lock_is_free ? "free" : "held");
    expect(world, lock->owner[0] != '\0' && lock->token > 0, "the answer does not tell the holder");
}

void op_lock(struct world *world, struct actor *actor, enum op_kind kind)
{
    struct tend_lock lock = {0};
    struct op *op = op_begin(world, actor, kind);
    op->lock = chance(world, 1500) ? LOCK_COUNT + Q_SERIAL : (int)between(world, 0, LOCK_COUNT - 1);
    op->queue = Q_SERIAL;
    say(world, "%s %s %s", actor->name, op_names[kind], lock_names[op->lock]);
    int rc = kind == OP_LOCK_ACQUIRE   ? acquire(world, actor, &lock)
             : kind == OP_LOCK_RELEASE ? tend_lock_release(actor->t, lock_names[op->lock], NULL)
                                       : tend_lock_extend(actor->t, lock_names[op->lock], NULL,
                                                          between(world, 500, 60000));
    if (!op_end(world, actor, rc))
        return;
    if (kind == OP_LOCK_ACQUIRE)
        check_acquire(world, op, rc, &lock);
    else
        expect(world, rc == op->lock_is_mine, "%s of %s answers %d, but it was %s", op_names[kind],
               lock_names[op->lock], rc, op->lock_is_mine ? "held" : "not held");
}
