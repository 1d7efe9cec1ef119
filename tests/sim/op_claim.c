/* Adding and claiming, and what the answers must be. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- add --- */

/* Texts of one call. */
struct add_texts {
    char payload[128], unique[16], subject[16], key[16];
};

/* Often the key of a job that is running, the latest: what is submitted then waits for its end. */
static void take_running_key(struct world *world, struct add_model *add)
{
    for (size_t i = world->job_count; i-- > 0;) {
        const struct job_model *job = &world->jobs[i];
        if (job->state != JOB_RUNNING || job->unique == 0)
            continue;
        add->queue = job->queue;
        add->unique = job->unique;
        add->subject = job->subject;
        return;
    }
}

static void fill_add(struct world *world, struct add_model *add, bool with_key)
{
    *add = (struct add_model){
        .submitted = true,
        .queue = (int)between(world, 0, QUEUE_COUNT - 1),
        .priority = chance(world, 5000) ? TEND_PRIORITY_DEFAULT : (int)between(world, 0, 9),
        .steps = chance(world, 4000) ? 0 : (int)between(world, 1, MAX_STEPS),
        .delay_ms = chance(world, 2500) ? between(world, 1, 60000) : 0,
        .max_attempts = chance(world, 3000) ? between(world, 1, 2) : TEND_UNSET,
        .max_crashes = chance(world, 3000) ? between(world, 1, 2) : TEND_UNSET,
        .lease_ms = chance(world, 3000) ? between(world, 1000, 30000) : TEND_UNSET,
    };
    if (with_key) {
        add->keep = chance(world, 2500);
        add->unique = (int)between(world, 1, 3);
        add->subject = (int)between(world, 1, 2);
        if (chance(world, 4000))
            take_running_key(world, add);
    }
    if (add->queue == Q_KEYED && chance(world, 8000))
        add->key = (int)between(world, 1, 2);
}

static void fill_spec(const struct add_model *add, int number, struct add_texts *texts,
                      struct tend_job_spec *spec)
{
    tend_job_spec_init(spec);
    int length = snprintf(texts->payload, sizeof texts->payload, "{\"n\":%d", number);
    for (int i = 0; i < add->steps; i++)
        length += snprintf(texts->payload + length, sizeof texts->payload - (size_t)length,
                           "%s{\"run\":\"true\"}", i == 0 ? ",\"steps\":[" : ",");
    snprintf(texts->payload + length, sizeof texts->payload - (size_t)length, "%s",
             add->steps > 0 ? "]}" : "}");
    snprintf(texts->unique, sizeof texts->unique, "u%d", add->unique);
    snprintf(texts->subject, sizeof texts->subject, "s%d", add->subject);
    snprintf(texts->key, sizeof texts->key, "k%d", add->key);
    spec->queue = queue_names[add->queue];
    spec->payload = texts->payload;
    spec->priority = add->priority;
    if (add->delay_ms > 0)
        spec->delay_ms = add->delay_ms;
    if (add->unique != 0) {
        spec->unique_key = texts->unique;
        spec->if_running = add->keep ? TEND_IF_RUNNING_KEEP : TEND_IF_RUNNING_AGAIN;
        spec->subject = texts->subject;
    }
    if (add->key != 0)
        spec->concurrency_key = texts->key;
    spec->max_attempts = add->max_attempts;
    spec->max_crashes = add->max_crashes;
    spec->lease_ms = add->lease_ms;
}

static void check_added(struct world *world, int number, const struct tend_added *added)
{
    struct add_model *add = &world->adds[number];
    const struct job_model *job = model_job(world, added->id);
    expect(world, job != NULL, "payload %d was acknowledged as job %lld, which is not there",
           number, (long long)added->id);
    expect(world, added->outcome == TEND_OK || add->unique != 0, "payload %d: outcome %d", number,
           added->outcome);
    if (added->outcome != TEND_OK) /* CL-7 */
        expect(world,
               job->unique == add->unique &&
                   (job->subject == add->subject) == (added->outcome != TEND_ECONFLICT),
               "payload %d: outcome %d, but job %lld has subject %d, not %d", number,
               added->outcome, (long long)added->id, job->subject, add->subject);
    if (added->outcome == TEND_AGAIN)
        expect(world, !add->keep, "payload %d was to change nothing", number);
    if (added->outcome == TEND_UNCHANGED)
        expect(world, add->keep, "payload %d was not to be dropped", number);
    if (added->outcome == TEND_ECONFLICT || added->outcome == TEND_UNCHANGED)
        return;
    add->acked_id = added->id;
    add->acked_outcome = added->outcome;
}

void op_add(struct world *world, struct actor *actor)
{
    struct tend_job_spec specs[4];
    struct add_texts texts[4];
    struct tend_added added[4] = {0};
    size_t count = (size_t)between(world, 1, 4);
    size_t keyed = chance(world, 4000) ? (size_t)between(world, 0, 3) : 4;
    if (world->add_count + 4 >= MAX_ADDS || world->job_count + 8 >= MAX_JOBS)
        return;
    struct op *op = op_begin(world, actor, OP_ADD);
    op->first_add = world->add_count;
    op->add_count = count;
    for (size_t i = 0; i < count; i++) {
        struct add_model *add = &world->adds[world->add_count];
        fill_add(world, add, i == keyed);
        fill_spec(add, world->add_count++, &texts[i], &specs[i]);
    }
    say(world, "%s adds %zu jobs from %d", actor->name, count, op->first_add);
    int rc = tend_add_many(actor->t, specs, count, added);
    if (!op_end(world, actor, rc))
        return;
    expect(world, rc == 0, "add_many answers %d", rc);
    for (size_t i = 0; i < count; i++)
        check_added(world, op->first_add + (int)i, &added[i]);
}

/* --- claim --- */

void op_fill_claim(struct world *world, struct op *op, int queue)
{
    op->claim.count = (size_t)between(world, 1, 4);
    if (chance(world, 5000))
        op->claim.ttl_ms = between(world, 500, 20000);
    if (chance(world, 2500))
        op->claim.flags |= TEND_CLAIM_UNSTARTED;
    if (chance(world, 2000))
        op->claim.flags |= TEND_CLAIM_BY_TIME;
    if (chance(world, 2500)) {
        op->claim.wait_ms = -1;
        if (chance(world, 5000) && !op->with_lock)
            queue = Q_PLAIN;
    }
    op->queue = queue;
    op->claim.queue = queue_names[queue];
}

/* One job of the answer: it is one of those the store handed out, and as it is there. */
static void take_job(struct world *world, struct actor *actor, const struct tend_job *job)
{
    struct op *op = &actor->op;
    struct tend_lease lease = {.id = job->id, .token = job->token};
    const struct job_model *model = model_job(world, job->id);
    bool found = false;
    for (size_t i = 0; i < op->claimed_count; i++)
        found |= op->claimed[i].id == lease.id && op->claimed[i].token == lease.token;
    expect(world, found, "claim answers %lld:%lld, which the store did not hand out",
           (long long)lease.id, (long long)lease.token);
    if (model_holds(world, lease))
        expect(world,
               job->attempts == model->attempts && job->crashes == model->crashes &&
                   strcmp(job->owner, actor->name) == 0 && job->state == TEND_RUNNING,
               "claim answers job %lld otherwise than it is", (long long)job->id);
    if (actor->belief_count < MAX_BELIEFS)
        actor->beliefs[actor->belief_count++] =
            (struct belief){.lease = lease,
                            .queue = op->queue,
                            .started = (op->claim.flags & TEND_CLAIM_UNSTARTED) == 0};
}

void op_take_jobs(struct world *world, struct actor *actor, int rc, struct tend_jobs *jobs)
{
    struct op *op = &actor->op;
    if (rc <= 0) {
        expect(world, op->claimed_count == 0 || op->faults > 0,
               "%zu jobs were claimed, but the answer is %d", op->claimed_count, rc);
        return;
    }
    expect(world, jobs->count == (size_t)rc && op->claimed_count == (size_t)rc,
           "%zu jobs were claimed, %d answered", op->claimed_count, rc);
    for (size_t i = 0; i < jobs->count; i++) {
        take_job(world, actor, &jobs->items[i]);
        if (i > 0 && op->stalls == 0)
            expect(world,
                   model_comes_before(model_job(world, jobs->items[i - 1].id),
                                      model_job(world, jobs->items[i].id)),
                   "a claim answers job %lld before job %lld", (long long)jobs->items[i - 1].id,
                   (long long)jobs->items[i].id);
    }
    tend_jobs_free(jobs);
}

static void check_limited(struct world *world, const struct op *op, const struct tend_none *none)
{
    const struct queue_model *queue = &op->at_commit;
    if (strcmp(none->what, "concurrency") == 0)
        expect(world, queue->concurrency != TEND_UNSET, "limited by a limit that is not there");
    else if (strcmp(none->what, "key-concurrency") == 0)
        expect(world, queue->key_concurrency != TEND_UNSET, "limited by a limit that is not there");
    else
        expect(world,
               queue->rate_count != TEND_UNSET &&
                   queue->rate_level < queue->rate_period_ms + queue->rate_period_ms / 100000 + 1,
               "limited by the rate, but there are tokens");
}

/* CL-2: every "none" says the truth. */
void op_check_none(struct world *world, struct actor *actor, int rc, const struct tend_none *none)
{
    const struct op *op = &actor->op;
    if (rc > 0 || rc == TEND_EINTERRUPTED)
        return;
    expect(world, none->code == rc, "claim answers %d and says %d", rc, none->code);
    switch (rc) {
    case TEND_EEMPTY:
        expect(world, op->pending == 0, "queue %s is said to be empty, but has %lld pending jobs",
               queue_names[op->queue], (long long)op->pending);
        break;
    case TEND_EPAUSED:
        expect(world, op->at_commit.paused, "queue %s is said to be paused",
               queue_names[op->queue]);
        break;
    case TEND_EBUSY:
        expect(world, op->lock_was_held && none->by[0] != '\0', "queue %s is said to be locked",
               queue_names[op->queue]);
        break;
    case TEND_ELIMITED:
        check_limited(world, op, none);
        break;
    default:
        sim_fail(world, "a claim answers %d", rc);
    }
}

void op_claim(struct world *world, struct actor *actor, enum op_kind kind)
{
    struct tend_jobs *jobs = NULL;
    struct tend_none none = {0};
    if (actor->belief_count + 4 > MAX_BELIEFS)
        return;
    struct op *op = op_begin(world, actor, kind);
    bool with_lock = kind == OP_NEXT_WITH_LOCK;
    op->with_lock = with_lock;
    op_fill_claim(world, op,
                  with_lock && chance(world, 7000) ? Q_SERIAL
                                                   : (int)between(world, 0, QUEUE_COUNT - 1));
    say(world, "%s %s %zu of %s, ttl %lld, flags %x%s", actor->name, op_names[kind],
        op->claim.count, op->claim.queue,
        (long long)(op->claim.ttl_ms == TEND_UNSET ? -1 : op->claim.ttl_ms), op->claim.flags,
        op->claim.wait_ms != 0 ? ", waiting" : "");
    int rc = with_lock ? tend_next_with_lock(actor->t, &op->claim, &jobs, &none)
                       : tend_claim_jobs(actor->t, &op->claim, &jobs, &none);
    if (actor->dead && rc > 0) /* it got its answer and died */
        tend_jobs_free(jobs);
    if (!op_end(world, actor, rc))
        return;
    op_take_jobs(world, actor, rc, jobs);
    op_check_none(world, actor, rc, &none);
}

void op_complete_and_claim(struct world *world, struct actor *actor)
{
    struct tend_jobs *jobs = NULL;
    struct tend_none none = {0};
    int each[CALL_LEASES];
    if (actor->belief_count + 4 > MAX_BELIEFS)
        return;
    struct op *op = op_begin(world, actor, OP_COMPLETE_AND_CLAIM);
    op_choose_leases(world, actor, 3);
    op_fill_claim(world, op, (int)between(world, 0, QUEUE_COUNT - 1));
    say(world, "%s completes %zu and claims %zu of %s", actor->name, op->lease_count,
        op->claim.count, op->claim.queue);
    for (size_t i = 0; i < CALL_LEASES; i++)
        each[i] = TEND_EINTERNAL;
    int rc = tend_complete_and_claim(actor->t, op->leases, op->lease_count, NULL, each, &op->claim,
                                     &jobs, &none);
    if (actor->dead && rc > 0)
        tend_jobs_free(jobs);
    if (!op_end(world, actor, rc))
        return;
    op_check_leases(world, actor, each);
    op_take_jobs(world, actor, rc, jobs);
    op_check_none(world, actor, rc, &none);
}
