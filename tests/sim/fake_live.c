/*
 * The simulated store's waiting and liveness (see fake_db.h). A bell that has not rung since is a
 * sleep, and a sleep is an occasion: for others to act, and to check that nobody sleeps beside
 * work.
 */
#include "fake_db.h"

/* --- waiting --- */

static uint64_t count_rings(const struct world *world, uint64_t bells)
{
    uint64_t count = 0;
    for (int i = 0; i < DB_BELLS; i++)
        count += (bells >> i & 1) * world->rings[i];
    return count;
}

uint64_t fake_bell(struct db *db, uint64_t bells)
{
    return count_rings(((struct fake_db *)db)->world, bells);
}

/* Nobody sleeps beside work: whoever waits has seen the last ring and found nothing. */
static void check_no_work(struct fake_db *fake, const char *when)
{
    struct world *world = fake->world;
    const struct op *op = &fake->actor->op;
    if (op->faults > 0 || op->kind == OP_LOCK_ACQUIRE || op->with_lock || op->queue != Q_PLAIN ||
        world->queues[Q_PLAIN].paused)
        return;
    expect(world, model_pending(world, Q_PLAIN) == 0, "%s, %s sleeps beside work in queue %s", when,
           fake->actor->name, queue_names[Q_PLAIN]);
}

/*
 * Whoever waits for a queue wakes up when its next job is due. (A lease that others take meanwhile
 * may end unseen until the slow tick.)
 */
static void check_alarm(struct fake_db *fake, uint64_t bells, int64_t timeout_ms)
{
    struct world *world = fake->world;
    const struct op *op = &fake->actor->op;
    /* After a jump back store time stands still; who stalled after it looked at the clock is late.
     */
    if (op->faults > 0 || op->kind == OP_LOCK_ACQUIRE || op->stalls > 0 ||
        world->clock_ms < world->last_event_ms)
        return;
    for (size_t i = 0; i < world->job_count; i++) {
        const struct job_model *job = &world->jobs[i];
        int64_t in_ms = job->due_ms - world->clock_ms;
        if (job->state == JOB_SCHEDULED && (db_bell_of(queue_names[job->queue]) & bells) != 0)
            expect(world, timeout_ms <= (in_ms < 1 ? 1 : in_ms),
                   "%s sleeps %lld ms, but job %lld is due in %lld ms", fake->actor->name,
                   (long long)timeout_ms, (long long)job->id, (long long)in_ms);
    }
}

int fake_wait(struct db *db, uint64_t bells, uint64_t seen, int64_t timeout_ms, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    struct world *world = fake->world;
    (void)err;
    if (seen != count_rings(world, bells))
        return DB_RANG;
    check_no_work(fake, "after looking");
    check_alarm(fake, bells, timeout_ms);
    if (world->depth >= MAX_DEPTH || chance(world, 3000))
        return DB_INTERRUPTED;
    uint64_t rings = count_rings(world, bells);
    fault_stall(world, fake->actor);
    fake->actor->op.stalls = 0; /* it looks again */
    if (rings != count_rings(world, bells))
        return DB_RANG;
    check_no_work(fake, "without a ring");
    world_live(world, timeout_ms);
    return chance(world, 2000) ? DB_DEATH : DB_TIMEOUT;
}

int64_t fake_mono_ms(const struct db *db)
{
    return ((const struct fake_db *)db)->world->clock_ms;
}

void fake_interrupt(struct db *db)
{
    (void)db;
}

/* By their liveness locks alone: their processes are of another pid namespace. */
int fake_watch(struct db *db, const struct db_watched *workers, size_t count, struct err *err)
{
    struct world *world = ((struct fake_db *)db)->world;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        expect(world, workers[i].process.pid == 0, "a simulated worker is watched as a process");
        expect(world,
               workers[i].id > 0 && workers[i].id < MAX_WORKERS &&
                   world->worker_actors[workers[i].id] >= 0,
               "worker %lld is watched, but nobody has registered as it", (long long)workers[i].id);
    }
    return 0;
}

/* --- liveness --- */

int fake_alive_begin(struct db *db, int64_t worker_id, int64_t wait_ms, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    bool ignored;
    (void)wait_ms;
    int rc = fake_before(fake, BEFORE_READ, &ignored, err);
    if (rc == 0)
        expect(fake->world, fake->world->worker_actors[worker_id] == fake->actor->number,
               "worker %lld is not who registered", (long long)worker_id);
    return rc;
}

void fake_alive_end(struct db *db, int64_t worker_id)
{
    (void)db;
    (void)worker_id;
}

bool fake_alive_buried(struct db *db, int64_t worker_id)
{
    struct fake_db *fake = (struct fake_db *)db;
    return fake->world->worker_over[worker_id] && !fake->actor->session_lost;
}

int fake_alive_deny(struct db_tx *tx, int64_t worker_id)
{
    struct world *world = ((struct fake_db *)tx->db)->world;
    const struct actor *actor = &world->actors[world->worker_actors[worker_id]];
    return actor->dead || actor->session_lost;
}

int fake_alive_check(struct db *db, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                     bool *ret_alive, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    struct world *world = fake->world;
    bool ignored;
    (void)wait_ms;
    int rc = fake_before(fake, BEFORE_READ, &ignored, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        int actor = world->worker_actors[worker_ids[i]];
        ret_alive[i] =
            actor >= 0 && !world->actors[actor].dead && !world->actors[actor].session_lost;
    }
    return 0;
}
