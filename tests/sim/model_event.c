/*
 * The rules about single events: a job moves only as the table of states allows, from the state it
 * was in; tokens grow; whoever ends a lease holds it, or has the right to take it away; budgets add
 * up.
 */
#include "sim_step.h"

#include <stdlib.h>
#include <string.h>

int queue_number(const char *name)
{
    for (int i = 0; i < QUEUE_COUNT; i++)
        if (strcmp(queue_names[i], name) == 0)
            return i;
    return -1;
}

#define CLAIMS (1u << OP_CLAIM | 1u << OP_NEXT_WITH_LOCK | 1u << OP_COMPLETE_AND_CLAIM)
#define OPERATORS (1u << OP_ACT | 1u << OP_ACT_ON_ALL | 1u << OP_CONTROL)
#define REPORTS (1u << OP_STEP_NEXT | 1u << OP_STEP_FINISH)
#define RECOVERIES                                                                                 \
    (CLAIMS | 1u << OP_RECOVER | 1u << OP_RECLAIM | 1u << OP_LOCK_ACQUIRE | 1u << OP_LOCK_EXTEND)

#define ENDS                                                                                       \
    (RECOVERIES | OPERATORS | 1u << OP_COMPLETE | 1u << OP_FAIL | 1u << OP_RELEASE |               \
     1u << OP_CLOSE | 1u << OP_STEP_FINISH)

/* Which operations may leave which event. What was submitted meanwhile comes with the end of a run.
 */
static const struct {
    const char *what;
    unsigned ops;
} leaves[] = {
    {"job.added", 1u << OP_ADD | ENDS},
    {"job.rescheduled", 1u << OP_ADD | ENDS},
    {"job.refreshed", 1u << OP_ADD | ENDS},
    {"job.submitted", 1u << OP_ADD},
    {"job.due", RECOVERIES},
    {"job.claimed", CLAIMS},
    {"job.completed", 1u << OP_COMPLETE | 1u << OP_COMPLETE_AND_CLAIM | 1u << OP_STEP_FINISH},
    {"job.failed", 1u << OP_FAIL | 1u << OP_STEP_FINISH},
    {"job.retry_scheduled", 1u << OP_FAIL | 1u << OP_STEP_FINISH},
    {"job.released", 1u << OP_RELEASE | 1u << OP_CLOSE | 1u << OP_STEP_FINISH},
    {"job.recovered", RECOVERIES},
    {"job.quarantined", RECOVERIES},
    {"job.held", OPERATORS | 1u << OP_STEP_FINISH},
    {"job.resumed", OPERATORS},
    {"job.cancelled", OPERATORS},
    {"job.redriven", OPERATORS},
    {"job.phase", 1u << OP_PHASE},
    {"worker.joined", CLAIMS | 1u << OP_LOCK_ACQUIRE},
    {"worker.died", RECOVERIES},
    {"worker.left", 1u << OP_CLOSE},
    {"lock.acquired", 1u << OP_LOCK_ACQUIRE},
    {"lock.released", 1u << OP_LOCK_RELEASE | 1u << OP_CLOSE},
    {"lock.recovered", RECOVERIES | 1u << OP_LOCK_RELEASE},
    {"queue.set", 1u << OP_QUEUE_SET},
    {"clock.stepped", ~0u}, /* see model_clock.c */
    {"store.restored", 1u << OP_RESTORE},
    {"schedule.put", 1u << OP_SCHEDULE},
    {"schedule.removed", 1u << OP_SCHEDULE},
    {"task.step.attempt.started", 1u << OP_STEP_NEXT},
    {"task.step.attempt.finished", REPORTS},
    {"task.step.attempt.failed", REPORTS},
    {"task.self_heal.triggered", REPORTS},
    {"task.self_heal.escalated", REPORTS},
    {"task.self_heal.exhausted", REPORTS},
    {"task.resume.from_step", 1u << OP_STEP_NEXT | 1u << OP_CONTROL},
    {"task.control.done", 1u << OP_CONTROL_DONE | 1u << OP_STEP_FINISH},
    {"task.control.pause", 1u << OP_CONTROL},
    {"task.control.resume", 1u << OP_CONTROL},
    {"task.control.takeover", 1u << OP_CONTROL},
    {"task.control.retry_step", 1u << OP_CONTROL},
    {"task.control.hard_reset_step", 1u << OP_CONTROL},
    {"task.control.resume_from_step", 1u << OP_CONTROL},
    {"task.control.cancel", 1u << OP_CONTROL},
};

static void check_origin(struct world *world, const struct op *op, const struct tend_event *event)
{
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (strcmp(leaves[i].what, event->what) == 0) {
            expect(world, (leaves[i].ops & 1u << op->kind) != 0, "%s left event %s",
                   op_names[op->kind], event->what);
            return;
        }
    sim_fail(world, "unknown event %s", event->what);
}

static bool is(const struct tend_event *event, const char *what)
{
    return strcmp(event->what, what) == 0;
}

/* --- a new job --- */

static void take_add(struct world *world, struct job_model *job, int number, int64_t now_ms)
{
    const struct add_model *add = &world->adds[number];
    expect(world, number < world->add_count && add->submitted, "nobody has submitted payload %d",
           number);
    expect(world, job->queue == add->queue, "payload %d came into queue %s", number,
           queue_names[job->queue]);
    job->payload = number;
    job->steps = add->steps == 0 ? 1 : add->steps;
    job->priority = add->priority;
    job->due_ms = now_ms + add->delay_ms;
    job->key = add->key;
    job->lease_ms = add->lease_ms;
    job->max_attempts = add->max_attempts != TEND_UNSET ? add->max_attempts : 3;
    job->max_crashes = add->max_crashes != TEND_UNSET ? add->max_crashes : 3;
}

static void add_job(struct world *world, struct actor *actor, const struct tend_event *event,
                    const struct tend_job *row, int64_t now_ms)
{
    expect(world, model_job(world, event->job_id) == NULL, "job %lld was added twice",
           (long long)event->job_id);
    expect(world, world->job_count < MAX_JOBS, "the simulation has too many jobs");
    int number = model_payload(row);
    struct job_model *job = &world->jobs[world->job_count++];
    *job = (struct job_model){.id = event->job_id,
                              .queue = queue_number(event->queue),
                              .state = (enum job_state)event->to_state,
                              .priority = TEND_PRIORITY_DEFAULT,
                              .due_ms = now_ms,
                              .worker_id = TEND_UNSET,
                              .max_attempts = 3,
                              .max_crashes = 3,
                              .lease_ms = TEND_UNSET,
                              .holder = -1,
                              .steps = 1,
                              .newest = -1,
                              .events = 1};
    const struct job_model *before = model_owes(world, number);
    if (actor->op.kind == OP_CONTROL && before == NULL) {
        model_begin_anew(world, &actor->op, job);
        return;
    }
    if (row->schedule != NULL) {
        world->scheduled_runs[strcmp(row->schedule, schedule_names[0]) == 0 ? 0 : 1]++;
        return;
    }
    const struct add_model *add = &world->adds[number];
    take_add(world, job, number, now_ms);
    job->unique = add->unique;
    job->subject = add->subject;
    expect(world, before != NULL || actor->op.kind == OP_ADD,
           "payload %d became a job out of nothing", number);
    if (before != NULL) {
        expect(world, state_is_finished(before->state), "job %lld came before the end of job %lld",
               (long long)job->id, (long long)before->id);
        job->due_ms = before->followed_due_ms;
    }
    expect(world, (job->due_ms > now_ms) == (job->state == JOB_SCHEDULED),
           "job %lld was added as %s", (long long)job->id, tend_state_name((int)job->state));
}

/* --- moves --- */

/* The call that ends a lease as its owner must show the token of the lease. */
static void accept_owner(struct world *world, struct actor *actor, const struct job_model *job,
                         const struct tend_event *event)
{
    struct op *op = &actor->op;
    for (size_t i = 0; i < op->lease_count; i++)
        if (op->leases[i].id == job->id && op->leases[i].token == job->token) {
            op->accepted[i] = true;
            return;
        }
    expect(world, op->kind == OP_CLOSE && job->holder == actor->number,
           "%s of job %lld by %s, who does not hold it (token %lld, holder %s)", event->what,
           (long long)job->id, actor->name, (long long)job->token,
           job->holder < 0 ? "nobody" : world->actors[job->holder].name);
}

/* RC-10, RC-12, RC-13: a lease is taken away when it has expired, when its worker is dead, or by
 * hand. */
static void check_reclaim(struct world *world, struct op *op, struct job_model *job,
                          const struct tend_event *event, int64_t now_ms)
{
    bool expired = now_ms >= job->until_ms;
    bool dead = model_may_bury(world, job->worker_id, now_ms);
    bool by_hand = op->kind == OP_RECLAIM && job->seen_ms <= now_ms - op->threshold_ms;
    expect(world, expired || dead || by_hand,
           "job %lld was taken from a living worker %lld ms before the end of its lease",
           (long long)job->id, (long long)(job->until_ms - now_ms));
    job->crashes += job->started;
    bool too_often = job->started && job->crashes >= job->max_crashes;
    expect(world, is(event, "job.quarantined") == too_often,
           "job %lld has crashed %lld times of %lld, but: %s", (long long)job->id,
           (long long)job->crashes, (long long)job->max_crashes, event->what);
    op->reclaimed++;
}

bool model_fails_for_good(const struct op *op, const struct job_model *job)
{
    return op->final || job->attempts >= job->max_attempts - 1;
}

static void check_failure(struct world *world, const struct op *op, struct job_model *job,
                          const struct tend_event *event, const struct tend_job *row,
                          int64_t now_ms)
{
    bool for_good = model_fails_for_good(op, job);
    job->attempts++;
    expect(world, is(event, "job.failed") == for_good, "job %lld after %lld of %lld attempts: %s",
           (long long)job->id, (long long)job->attempts, (long long)job->max_attempts, event->what);
    if (for_good || job->owed != 0) /* the second: it takes over another due time */
        return;
    int64_t wait_ms = row->due_at_ms - now_ms;
    if (op->delay_ms != TEND_UNSET)
        expect(world, wait_ms == op->delay_ms, "retry of job %lld in %lld ms, asked for %lld",
               (long long)job->id, (long long)wait_ms, (long long)op->delay_ms);
    else
        expect(world, wait_ms >= 12000 && wait_ms <= 600000, "retry of job %lld in %lld ms",
               (long long)job->id, (long long)wait_ms);
    job->due_ms = row->due_at_ms;
}

static void begin_lease(struct world *world, struct actor *actor, struct job_model *job,
                        int64_t now_ms)
{
    struct op *op = &actor->op;
    bool by_time = (op->claim.flags & TEND_CLAIM_BY_TIME) != 0;
    int64_t ttl_ms = op->claim.ttl_ms != TEND_UNSET ? op->claim.ttl_ms
                     : job->lease_ms != TEND_UNSET  ? job->lease_ms
                                                    : DEFAULT_TTL_MS;
    job->holder = actor->number;
    job->started = (op->claim.flags & TEND_CLAIM_UNSTARTED) == 0;
    job->with_lock = op->with_lock || world->queues[job->queue].serial;
    job->lease_for_ms = ttl_ms;
    job->until_ms = now_ms + ttl_ms;
    job->seen_ms = now_ms;
    job->worker_id = by_time ? TEND_UNSET : actor->t->worker_id;
    expect(world, job->queue == op->queue, "a claim of queue %s took a job of queue %s",
           queue_names[op->queue], queue_names[job->queue]);
    expect(world, op->claimed_count < CALL_LEASES, "a claim took more than was asked for");
    for (size_t i = 0; i < world->inherited_count; i++)
        expect(world, world->inherited[i].id != job->id || world->inherited[i].token != job->token,
               "lease %lld:%lld was given out by the store that was here before",
               (long long)job->id, (long long)job->token);
    op->claimed[op->claimed_count++] = (struct tend_lease){.id = job->id, .token = job->token};
    world->old_leases[world->old_lease_count++ % OLD_LEASES] = op->claimed[op->claimed_count - 1];
}

static void end_lease(struct job_model *job, enum lease_end how)
{
    job->ends[job->token % ENDS_KEPT].token = job->token;
    job->ends[job->token % ENDS_KEPT].by = how;
}

static void refresh(struct world *world, struct op *op, struct job_model *job,
                    const struct tend_job *row, int64_t now_ms)
{
    int number = model_payload(row);
    bool owed = job->owed != 0;
    expect(world,
           owed ? number == job->owed
                : number >= op->first_add && number < op->first_add + (int)op->add_count,
           "job %lld was refreshed with payload %d", (long long)job->id, number);
    expect(world, job->unique != 0 && job->subject == world->adds[number].subject,
           "job %lld was refreshed by another subject", (long long)job->id);
    if (number != job->payload) { /* what was done was done for another payload */
        memset(job->checkpoints, 0, sizeof job->checkpoints);
        job->attempts = job->crashes = 0;
    }
    take_add(world, job, number, now_ms);
    if (owed)
        job->due_ms = job->followed_due_ms;
    if (owed && op->kind == OP_STEP_FINISH && job->state != JOB_HELD) /* it waits as submitted */
        op->step.becomes = job->due_ms <= now_ms ? JOB_PENDING : JOB_SCHEDULED;
    job->owed = 0;
}

/* What the event does beyond the change of state. The state is still the old one. */
static void play_move(struct world *world, struct actor *actor, struct job_model *job,
                      const struct tend_event *event, const struct tend_job *row, int64_t now_ms)
{
    struct op *op = &actor->op;
    if (is(event, "job.claimed")) {
        begin_lease(world, actor, job, now_ms);
    } else if (is(event, "job.completed")) {
        job->attempts++;
        job->completions++;
        end_lease(job, END_COMPLETE);
    } else if (is(event, "job.failed") || is(event, "job.retry_scheduled")) {
        check_failure(world, op, job, event, row, now_ms);
        end_lease(job, END_FAIL);
    } else if (is(event, "job.released")) {
        if ((op->kind == OP_RELEASE || op->kind == OP_STEP_FINISH) && op->delay_ms > 0)
            job->due_ms = now_ms + op->delay_ms;
        end_lease(job, END_RELEASE);
    } else if (is(event, "job.recovered") || is(event, "job.quarantined")) {
        check_reclaim(world, op, job, event, now_ms);
    } else if (is(event, "job.redriven")) {
        job->attempts = job->crashes = 0;
        if (event->to_state == TEND_PENDING)
            job->due_ms = now_ms;
    } else if (is(event, "job.rescheduled") && op->kind == OP_CONTROL && job->owed == 0) {
        job->due_ms = now_ms;
    } else if (is(event, "job.rescheduled")) {
        refresh(world, op, job, row, now_ms);
        return; /* the call did not move it by this */
    } else if (is(event, "job.due")) {
        expect(world, job->due_ms <= now_ms, "job %lld is due %lld ms too early",
               (long long)job->id, (long long)(job->due_ms - now_ms));
    }
    op->moved++;
}

static const struct state_row *find_row(const struct tend_event *event)
{
    size_t count;
    const struct state_row *table = state_table(&count);
    for (size_t i = 0; i < count; i++)
        if ((int)table[i].from == event->from_state && (int)table[i].to == event->to_state &&
            is(event, table[i].event))
            return &table[i];
    return NULL;
}

static void move_job(struct world *world, struct actor *actor, const struct tend_event *event,
                     const struct tend_job *row, int64_t now_ms)
{
    struct job_model *job = model_job(world, event->job_id);
    expect(world, job != NULL, "event %s of job %lld, which nobody added", event->what,
           (long long)event->job_id);
    expect(world, event->from_state == (int)job->state, "%s of job %lld from %s, but it was %s",
           event->what, (long long)job->id, tend_state_name(event->from_state),
           tend_state_name((int)job->state));
    job->events++;
    if (is(event, "job.phase")) {
        expect(world, event->token == job->token, "a phase of job %lld by a stale owner",
               (long long)job->id);
        return;
    }
    if (is(event, "job.submitted")) {
        model_submitted(world, &actor->op, job, now_ms);
        return;
    }
    if (is(event, "job.refreshed")) {
        expect(world, job->state == JOB_HELD, "job %lld is refreshed where it is, but not held",
               (long long)job->id);
        refresh(world, &actor->op, job, row, now_ms);
        return;
    }
    const struct state_row *rule = find_row(event);
    expect(world, rule != NULL, "%s of job %lld from %s to %s is not in the table", event->what,
           (long long)job->id, tend_state_name(event->from_state),
           tend_state_name(event->to_state));
    if (rule->by_owner)
        accept_owner(world, actor, job, event);
    int64_t token = job->token + rule->bumps_token;
    if (rule->verb == MOVE_CLAIM)
        token = (job->token > world->token_base ? job->token : world->token_base) + 1;
    expect(world, event->token == token, "%s of job %lld: token %lld after %lld", event->what,
           (long long)job->id, (long long)event->token, (long long)job->token);
    if (rule->to != JOB_HELD && rule->to != JOB_CANCELLED)
        job->stopped_token = 0;
    else if (rule->from == JOB_RUNNING)
        job->stopped_token = job->token;
    if (rule->from == JOB_RUNNING)
        model_run_over(job);
    job->token = event->token;
    play_move(world, actor, job, event, row, now_ms);
    job->state = rule->to;
    if (job->state != JOB_RUNNING)
        job->worker_id = TEND_UNSET;
    model_controls_follow(world, &actor->op, job, event->what, now_ms);
    expect(world, job->completions <= 1, "job %lld was completed twice", (long long)job->id);
}

/* --- all the others --- */

static int64_t worker_in(const char *data)
{
    return data == NULL ? 0 : strtoll(data + strlen("{\"worker\":"), NULL, 10);
}

static void change_queue(struct queue_model *queue, const struct op *op, int64_t now_ms)
{
    switch (op->setting) {
    case SET_PAUSED:
        queue->paused = op->value != 0;
        break;
    case SET_CONCURRENCY:
        queue->concurrency = op->value;
        break;
    case SET_KEY_CONCURRENCY:
        queue->key_concurrency = op->value;
        break;
    case SET_RATE_COUNT:
        model_rate_change(queue, op->value, now_ms);
        break;
    }
}

/* Everything that was given out before is far behind. */
static void begin_generation(struct world *world, const struct tend_event *event)
{
    int64_t base = strtoll(event->data + strlen("{\"token_base\":"), NULL, 10);
    expect(world, base > world->token_base, "tokens go on from %lld after %lld", (long long)base,
           (long long)world->token_base);
    for (size_t i = 0; i < world->job_count; i++)
        expect(world, world->jobs[i].token < base && world->jobs[i].id < event->id - 1000000,
               "job %lld with token %lld is not behind a generation that begins with %lld, %lld",
               (long long)world->jobs[i].id, (long long)world->jobs[i].token, (long long)event->id,
               (long long)base);
    for (int i = 0; i < LOCK_NAMES; i++)
        expect(world, world->locks[i].last_token < base, "the token of lock %s is not behind",
               lock_names[i]);
    world->token_base = base;
}

static void other_event(struct world *world, struct actor *actor, const struct tend_event *event,
                        int64_t now_ms)
{
    struct op *op = &actor->op;
    int64_t worker = worker_in(event->data);
    if (is(event, "worker.joined")) {
        expect(world, worker > 0 && worker < MAX_WORKERS && world->worker_actors[worker] < 0,
               "worker %lld has registered before", (long long)worker);
        for (int i = 0; i < MAX_WORKERS; i++)
            expect(world, world->worker_actors[i] != actor->number || world->worker_over[i],
                   "worker %lld registers although it is worker %d", (long long)worker, i);
        world->worker_actors[worker] = actor->number;
    } else if (is(event, "worker.died")) {
        expect(world, model_may_bury(world, worker, now_ms), "worker %lld was buried alive",
               (long long)worker);
        world->worker_over[worker] = true;
    } else if (is(event, "worker.left")) {
        expect(world, worker > 0 && worker < MAX_WORKERS && !world->worker_over[worker],
               "worker %lld has left before", (long long)worker);
        world->worker_over[worker] = true;
    } else if (is(event, "lock.recovered")) {
        op->cleaned++;
    } else if (is(event, "lock.acquired") || is(event, "lock.released")) {
        op->done = true;
    } else if (is(event, "queue.set")) {
        change_queue(&world->queues[op->queue], op, now_ms);
    } else if (is(event, "store.restored")) {
        begin_generation(world, event);
    }
}

void model_events(struct world *world, struct actor *actor, const struct sight *sight,
                  int64_t now_ms)
{
    for (size_t i = 0; i < sight->event_count; i++) {
        const struct tend_event *event = &sight->events[i];
        say(world, "      event %lld %s%s%.0lld by %s%s%s", (long long)event->id, event->what,
            event->job_id == TEND_UNSET ? "" : " ",
            (long long)(event->job_id == TEND_UNSET ? 0 : event->job_id), event->who,
            event->why == NULL ? "" : ": ", event->why == NULL ? "" : event->why);
        check_origin(world, &actor->op, event);
        expect(world, event->id > world->last_event_id, "event ids do not grow");
        expect(world, event->at_ms == now_ms && now_ms >= world->last_event_ms,
               "event %lld is dated %+lld, the time is %+lld, the last was %+lld",
               (long long)event->id, (long long)(event->at_ms - world->start_ms),
               (long long)(now_ms - world->start_ms),
               (long long)(world->last_event_ms - world->start_ms));
        world->last_event_id = event->id;
        world->last_event_ms = event->at_ms;
        const struct tend_job *row = NULL;
        for (size_t k = 0; k < sight->row_count; k++)
            if (sight->rows[k].id == event->job_id)
                row = &sight->rows[k];
        expect(world, row != NULL || event->job_id == TEND_UNSET, "job %lld has %s, but no row",
               (long long)event->job_id, event->what);
        if (event->job_id == TEND_UNSET)
            other_event(world, actor, event, now_ms);
        else if (event->from_state < 0)
            add_job(world, actor, event, row, now_ms);
        else if (strncmp(event->what, "task.", strlen("task.")) == 0)
            model_step_event(world, actor, event);
        else
            move_job(world, actor, event, row, now_ms);
    }
}
