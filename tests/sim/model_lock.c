/*
 * The rules about locks, by comparing the rows before and after each commit: an unexpired lock
 * changes hands only through its holder or its holder's death; tokens grow; the processing lock of
 * a serial queue lasts exactly as long as the lease it was taken with.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

int lock_number(const char *name)
{
    for (int i = 0; i < LOCK_NAMES; i++)
        if (strcmp(lock_names[i], name) == 0)
            return i;
    return -1;
}

static void read_locks(struct world *world, const struct sight *sight, struct lock_model *after)
{
    for (int i = 0; i < LOCK_NAMES; i++)
        after[i] = (struct lock_model){.worker_id = TEND_UNSET,
                                       .job_id = TEND_UNSET,
                                       .last_token = world->locks[i].last_token};
    for (size_t row = 0; row < sight->locks.rows; row++) {
        int number = lock_number(db_string(&sight->locks, row, 0));
        expect(world, number >= 0, "lock %s came from nowhere", db_string(&sight->locks, row, 0));
        struct lock_model *lock = &after[number];
        snprintf(lock->owner, sizeof lock->owner, "%s", db_string(&sight->locks, row, 1));
        lock->token = db_number(&sight->locks, row, 2);
        lock->expires_ms = db_number(&sight->locks, row, 4);
        lock->worker_id = db_number(&sight->locks, row, 5);
        lock->job_id = db_number(&sight->locks, row, 6);
        if (lock->job_id != TEND_UNSET)
            lock->job_token = model_job(world, lock->job_id)->token;
    }
}

/* The lease the lock was taken with has ended. */
static bool lease_has_ended(struct world *world, const struct lock_model *lock)
{
    const struct job_model *job =
        lock->job_id == TEND_UNSET ? NULL : model_job(world, lock->job_id);
    return job != NULL && (job->state != JOB_RUNNING || job->token != lock->job_token);
}

/* LK-2, LK-4: why a lock that was held is not any more. */
static void check_loss(struct world *world, struct actor *actor, int number, int64_t now_ms)
{
    const struct lock_model *before = &world->locks[number];
    const struct op *op = &actor->op;
    bool released = op->kind == OP_LOCK_RELEASE && op->lock == number &&
                    strcmp(before->owner, actor->name) == 0;
    bool expired = now_ms >= before->expires_ms;
    /* Also under an earlier id of its, by which it was taken for dead. */
    bool left = op->kind == OP_CLOSE && before->worker_id > 0 && before->worker_id < MAX_WORKERS &&
                world->worker_actors[before->worker_id] == actor->number;
    bool dead = model_may_bury(world, before->worker_id, now_ms);
    if (before->job_id != TEND_UNSET)
        expect(world, lease_has_ended(world, before),
               "lock %s is gone, but job %lld it was taken with is still held", lock_names[number],
               (long long)before->job_id);
    else
        expect(world, released || expired || left || dead, "lock %s was taken from %s",
               lock_names[number], before->owner);
}

/* LK-1, LK-9: how a lock comes to be held. */
static void check_gain(struct world *world, struct actor *actor, int number,
                       const struct lock_model *after)
{
    const struct op *op = &actor->op;
    bool asked =
        (op->kind == OP_LOCK_ACQUIRE && op->lock == number) ||
        (number >= LOCK_COUNT && op->claimed_count > 0 && op->queue == number - LOCK_COUNT);
    expect(world, asked && strcmp(after->owner, actor->name) == 0,
           "lock %s is held by %s, who did not ask for it", lock_names[number], after->owner);
    expect(world, after->token > world->locks[number].last_token,
           "lock %s has token %lld after %lld", lock_names[number], (long long)after->token,
           (long long)world->locks[number].last_token);
    expect(world, after->token > world->token_base,
           "lock %s has token %lld, which belongs to an earlier generation", lock_names[number],
           (long long)after->token);
}

/* Same holder, same token. */
static void check_kept(struct world *world, struct actor *actor, int number,
                       const struct lock_model *after)
{
    const struct lock_model *before = &world->locks[number];
    const struct op *op = &actor->op;
    if (after->expires_ms == before->expires_ms && after->job_id == before->job_id &&
        after->worker_id == before->worker_id)
        return;
    bool by_owner =
        strcmp(actor->name, before->owner) == 0 &&
        (((op->kind == OP_LOCK_EXTEND || op->kind == OP_LOCK_ACQUIRE) && op->lock == number) ||
         op->claimed_count > 0);
    bool by_lease = op->kind == OP_HEARTBEAT && before->job_id != TEND_UNSET;
    expect(world, by_owner || by_lease, "lock %s of %s was changed by %s", lock_names[number],
           before->owner, actor->name);
    expect(world, before->job_id == TEND_UNSET || after->job_id == before->job_id,
           "lock %s has left its job", lock_names[number]);
}

/* CL-1: under the processing lock exactly one job, and the lock exactly as long as its lease. */
static void check_ties(struct world *world)
{
    for (size_t i = 0; i < world->job_count; i++) {
        const struct job_model *job = &world->jobs[i];
        if (job->state != JOB_RUNNING || !job->with_lock)
            continue;
        const struct lock_model *lock = &world->locks[LOCK_COUNT + job->queue];
        expect(world, lock->owner[0] != '\0' && lock->job_id == job->id,
               "job %lld is running under lock %s, which belongs to %s", (long long)job->id,
               lock_names[LOCK_COUNT + job->queue],
               lock->owner[0] == '\0' ? "nobody" : "another job");
        expect(world, lock->expires_ms == job->until_ms,
               "lock %s and the lease of job %lld end at different times",
               lock_names[LOCK_COUNT + job->queue], (long long)job->id);
    }
}

void model_locks(struct world *world, struct actor *actor, const struct sight *sight,
                 int64_t now_ms)
{
    struct lock_model after[LOCK_NAMES];
    read_locks(world, sight, after);
    for (int i = 0; i < LOCK_NAMES; i++) {
        struct lock_model *before = &world->locks[i];
        bool was_held = before->owner[0] != '\0';
        bool is_held = after[i].owner[0] != '\0';
        bool same = was_held && is_held && before->token == after[i].token;
        if (was_held && !same)
            check_loss(world, actor, i, now_ms);
        if (is_held && !same)
            check_gain(world, actor, i, &after[i]);
        if (same)
            check_kept(world, actor, i, &after[i]);
        if (is_held)
            after[i].last_token = after[i].token;
        *before = after[i];
    }
    check_ties(world);
}
