/*
 * What must be in the store. After each commit the observer reads the new events and the rows
 * concerned; the model plays the same events by the rules of the contract and compares. The rules
 * about single events are in model_event.c, those about locks in model_lock.c, about queues in
 * model_claim.c, about steps in model_step.c and its neighbours (sim_step.h).
 */
#include "sim_step.h"

#include "queue/row.h"

#include <stdlib.h>
#include <string.h>

struct job_model *model_job(struct world *world, int64_t id)
{
    for (size_t i = 0; i < world->job_count; i++)
        if (world->jobs[i].id == id)
            return &world->jobs[i];
    return NULL;
}

bool model_holds(struct world *world, struct tend_lease lease)
{
    const struct job_model *job = model_job(world, lease.id);
    return job != NULL && job->state == JOB_RUNNING && job->token == lease.token;
}

enum lease_end model_ended_by(const struct job_model *job, int64_t token)
{
    int64_t at = token % ENDS_KEPT;
    return at >= 0 && job->ends[at].token == token ? job->ends[at].by : END_NONE;
}

int64_t model_pending(struct world *world, int queue)
{
    int64_t count = 0;
    for (size_t i = 0; i < world->job_count; i++)
        count += world->jobs[i].queue == queue && world->jobs[i].state == JOB_PENDING;
    return count;
}

int64_t model_running(struct world *world, int queue, int key)
{
    int64_t count = 0;
    for (size_t i = 0; i < world->job_count; i++)
        count += world->jobs[i].queue == queue && world->jobs[i].state == JOB_RUNNING &&
                 (key < 0 || world->jobs[i].key == key);
    return count;
}

bool model_may_bury(struct world *world, int64_t worker_id, int64_t now_ms)
{
    if (worker_id <= 0 || worker_id >= MAX_WORKERS || world->worker_actors[worker_id] < 0)
        return false;
    const struct actor *actor = &world->actors[world->worker_actors[worker_id]];
    return actor->dead || (actor->session_lost && now_ms >= actor->lost_at_ms + world->grace_ms);
}

/* --- seeing --- */

struct look {
    struct world *world;
    struct actor *actor;
    struct sight sight;
    bool complete; /* PostgreSQL shows no event before everything that might come before it has
                      ended */
};

static void read_events(struct look *look, struct db_tx *tx, const struct db_result *found)
{
    struct tend_event *items = arena_zalloc(db_arena(tx), (found->rows + 1) * sizeof *items);
    for (size_t i = 0; i < found->rows; i++) {
        int64_t from = db_number(found, i, 6);
        int64_t to = db_number(found, i, 7);
        items[i] = (struct tend_event){
            .id = db_number(found, i, 0),
            .at_ms = db_number(found, i, 1),
            .job_id = db_number(found, i, 2),
            .queue = db_string(found, i, 3),
            .who = db_string(found, i, 4),
            .what = db_string(found, i, 5),
            .from_state = from == TEND_UNSET ? -1 : (int)from,
            .to_state = to == TEND_UNSET ? -1 : (int)to,
            .token = db_number(found, i, 8),
            .owner = db_string(found, i, 9),
            .why = db_string(found, i, 10),
            .data = db_string(found, i, 11),
        };
    }
    look->sight.events = items;
    look->sight.event_count = found->rows;
}

static int read_row(struct look *look, struct db_tx *tx, int64_t id)
{
    struct db_result found;
    struct tend_jobs jobs;
    const struct db_value params[] = {db_int(id), db_now(tx)};
    for (size_t i = 0; i < look->sight.row_count; i++)
        if (look->sight.rows[i].id == id)
            return 0;
    int rc = db_run(tx, Q_JOB_GET, 0, params, &found);
    if (rc == 0 && found.rows > 0 && (rc = jobs_read(db_arena(tx), &found, &jobs)) == 0)
        look->sight.rows[look->sight.row_count++] = jobs.items[0];
    return rc;
}

/* All leases are concerned. */
static int read_running(struct look *look, struct db_tx *tx)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < look->world->job_count; i++)
        if (look->world->jobs[i].state == JOB_RUNNING)
            rc = read_row(look, tx, look->world->jobs[i].id);
    return rc;
}

static int look_body(struct db_tx *tx, void *arg)
{
    struct look *look = arg;
    const struct op *op = &look->actor->op;
    struct db_result found;
    const struct db_value since[] = {db_int(look->world->last_event_id), db_int(1000000)};
    const struct db_value now[] = {db_now(tx)};
    struct db_result newest;
    int rc = db_run(tx, Q_EVENT_SINCE, 0, since, &found);
    if (rc < 0 || (rc = db_run(tx, Q_EVENT_LAST, 0, NULL, &newest)) < 0)
        return rc;
    read_events(look, tx, &found);
    int64_t last =
        found.rows == 0 ? look->world->last_event_id : db_number(&found, found.rows - 1, 0);
    look->complete = db_number(&newest, 0, 0) <= last;
    look->sight.rows =
        arena_alloc(db_arena(tx), (found.rows + CALL_LEASES + MAX_JOBS) * sizeof *look->sight.rows);
    if (found.rows > 0 && strcmp(look->sight.events[0].what, "clock.stepped") == 0)
        rc = read_running(look, tx);
    for (size_t i = 0; rc == 0 && i < look->sight.event_count; i++)
        if (look->sight.events[i].job_id != TEND_UNSET)
            rc = read_row(look, tx, look->sight.events[i].job_id);
    for (size_t i = 0; rc == 0 && i < op->lease_count; i++)
        rc = read_row(look, tx, op->leases[i].id);
    if (rc == 0 && op->kind == OP_CONTROL)
        rc = read_row(look, tx, op->job_id);
    if (rc == 0)
        rc = model_step_read(look->world, op, &look->sight, tx);
    return rc < 0 ? rc : db_run(tx, Q_LOCK_LIST, 0, now, &look->sight.locks);
}

static struct look look_at_store(struct world *world, struct actor *actor, struct arena *arena)
{
    struct look look = {.world = world, .actor = actor};
    struct err err;
    arena_init(arena);
    while (!look.complete) {
        look.sight = (struct sight){0};
        int rc = db_read(world->observer, arena, look_body, &look, &err);
        expect(world, rc == 0, "the observer cannot read the store: %s", err.text);
        expect(world, look.complete || world->postgres, "not all events are shown");
    }
    return look;
}

/* --- judging --- */

/* Changes that leave no event: signs of life. */
static void touch_leases(struct world *world, struct actor *actor, int64_t now_ms)
{
    struct op *op = &actor->op;
    if (op->kind != OP_START && op->kind != OP_HEARTBEAT && op->kind != OP_PHASE)
        return;
    for (size_t i = 0; i < op->lease_count; i++) {
        struct job_model *job = model_job(world, op->leases[i].id);
        op->accepted[i] = model_holds(world, op->leases[i]);
        if (!op->accepted[i])
            continue;
        job->seen_ms = now_ms;
        if (op->kind == OP_START)
            job->started = true;
        if (op->kind == OP_HEARTBEAT)
            job->lease_for_ms = op->ttl_ms != TEND_UNSET ? op->ttl_ms : job->lease_for_ms;
        if (op->kind == OP_HEARTBEAT)
            job->until_ms = now_ms + job->lease_for_ms;
    }
}

static void compare_running(struct world *world, const struct job_model *job,
                            const struct tend_job *row)
{
    long long id = (long long)job->id;
    expect(world, row->owner != NULL, "job %lld is running without an owner", id);
    expect(world, row->until_ms == job->until_ms, "the lease of job %lld ends at %+lld, not %+lld",
           id, (long long)(row->until_ms - world->start_ms),
           (long long)(job->until_ms - world->start_ms));
    expect(world, (row->started_at_ms != TEND_UNSET) == job->started,
           "job %lld is %s, but the store says otherwise", id,
           job->started ? "started" : "leased only");
    expect(world, row->seen_at_ms == job->seen_ms, "the last sign of life of job %lld is wrong",
           id);
    expect(world, row->worker_id == job->worker_id, "job %lld is held by worker %lld, not %lld", id,
           (long long)row->worker_id, (long long)job->worker_id);
}

int model_payload(const struct tend_job *row)
{
    return (int)strtol(row->payload + strlen("{\"n\":"), NULL, 10);
}

static void compare_row(struct world *world, const struct job_model *job,
                        const struct tend_job *row)
{
    long long id = (long long)job->id;
    expect(world, row->state == (int)job->state, "job %lld is %s, must be %s", id,
           tend_state_name(row->state), tend_state_name((int)job->state));
    expect(world, row->token == job->token, "job %lld has token %lld, must be %lld", id,
           (long long)row->token, (long long)job->token);
    expect(world, row->attempts == job->attempts, "job %lld has %lld attempts, must be %lld", id,
           (long long)row->attempts, (long long)job->attempts);
    expect(world, row->crashes == job->crashes, "job %lld has %lld crashes, must be %lld", id,
           (long long)row->crashes, (long long)job->crashes);
    expect(world, row->priority == job->priority, "job %lld has changed its priority", id);
    expect(world, row->due_at_ms == job->due_ms, "job %lld is due at %+lld, must be %+lld", id,
           (long long)(row->due_at_ms - world->start_ms),
           (long long)(job->due_ms - world->start_ms));
    expect(world, model_payload(row) == job->payload, "job %lld has payload %s, must be %d", id,
           row->payload, job->payload);
    expect(world, row->followed == (job->followed != 0), "job %lld is%s followed", id,
           row->followed ? "" : " not");
    expect(world, (row->finished_at_ms != TEND_UNSET) == state_is_finished(job->state),
           "job %lld is %s, finished_at is not", id, tend_state_name(row->state));
    if (job->state == JOB_RUNNING)
        compare_running(world, job, row);
    else
        expect(world, row->owner == NULL && row->worker_id == TEND_UNSET,
               "job %lld is %s and has an owner", id, tend_state_name(row->state));
}

void model_rows(struct world *world, const struct sight *sight)
{
    for (size_t i = 0; i < sight->row_count; i++) {
        const struct job_model *job = model_job(world, sight->rows[i].id);
        expect(world, job != NULL, "job %lld came from nowhere", (long long)sight->rows[i].id);
        compare_row(world, job, &sight->rows[i]);
    }
}

/* BY-4: one live job per queue and key. */
static void check_unique(struct world *world)
{
    for (size_t i = 0; i < world->job_count; i++) {
        const struct job_model *one = &world->jobs[i];
        for (size_t k = i + 1; one->unique != 0 && k < world->job_count; k++) {
            const struct job_model *other = &world->jobs[k];
            expect(world,
                   other->unique != one->unique || other->queue != one->queue ||
                       state_is_finished(one->state) || state_is_finished(other->state),
                   "jobs %lld and %lld have the same unique key", (long long)one->id,
                   (long long)other->id);
        }
    }
}

/* An operator's verb on a job as it is now. */
static bool action_refused(struct world *world, const struct op *op)
{
    static const enum job_move verbs[] = {[TEND_HOLD] = MOVE_HOLD,
                                          [TEND_RESUME] = MOVE_RESUME,
                                          [TEND_CANCEL] = MOVE_CANCEL,
                                          [TEND_REDRIVE] = MOVE_REDRIVE};
    const struct job_model *job = model_job(world, op->job_id);
    const struct state_row *row;
    return job != NULL && state_move(job->state, verbs[op->action], &row) < 0;
}

/* Before the changes of a commit are taken in: whose is the lock the call is about? */
static void look_at_lock(struct world *world, struct actor *actor, int64_t now_ms)
{
    struct op *op = &actor->op;
    const struct lock_model *lock = &world->locks[op->lock];
    bool tied = lock->job_id != TEND_UNSET;
    bool own = strcmp(lock->owner, actor->name) == 0;
    op->lock_is_mine = own && !tied && lock->expires_ms > now_ms;
    /* The holder gets it again: by its name, and by the same worker or by none both times. */
    bool same = own && lock->worker_id == (op->by_time ? TEND_UNSET : actor->t->worker_id);
    op->lock_is_free = lock->owner[0] == '\0' || (!tied && (same || lock->expires_ms <= now_ms));
}

/* How things stand for the answer of the call. */
static void remember_state(struct world *world, struct op *op, int64_t now_ms)
{
    op->refused_by_state = action_refused(world, op);
    if (!op->asks_for_jobs)
        return;
    op->pending = model_pending(world, op->queue);
    op->at_commit = world->queues[op->queue];
    model_rate_settle(&op->at_commit, now_ms);
    op->lock_was_held = world->locks[LOCK_COUNT + op->queue].owner[0] != '\0';
}

void model_commit(struct world *world, struct actor *actor, int64_t now_ms)
{
    struct arena arena;
    struct look look = look_at_store(world, actor, &arena);
    actor->op.commits++;
    model_clock(world, actor, &look.sight);
    if (actor->op.asks_for_lock)
        look_at_lock(world, actor, now_ms);
    model_step_commit(world, actor, now_ms);
    model_events(world, actor, &look.sight, now_ms);
    model_nothing_owed(world);
    model_step_over(world, actor);
    touch_leases(world, actor, now_ms);
    model_rows(world, &look.sight);
    model_step_rows(world, &actor->op, &look.sight, now_ms);
    model_locks(world, actor, &look.sight, now_ms);
    model_claims(world, actor, now_ms);
    if (look.sight.event_count > 0)
        check_unique(world);
    remember_state(world, &actor->op, now_ms);
    arena_done(&arena);
}

void model_no_commit(struct world *world, struct actor *actor, int64_t now_ms)
{
    struct arena arena;
    struct look look = look_at_store(world, actor, &arena);
    expect(world, look.sight.event_count == 0, "a call that failed has left event %lld (%s)",
           (long long)look.sight.events[0].id, look.sight.events[0].what);
    model_step_no_commit(world, actor, now_ms);
    model_rows(world, &look.sight);
    model_step_rows(world, &actor->op, &look.sight, now_ms);
    remember_state(world, &actor->op, now_ms);
    arena_done(&arena);
}
