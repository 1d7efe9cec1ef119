/*
 * The rules about queues, looked at after each commit that handed out jobs: most urgent first,
 * nothing from a paused queue, one at a time from a serial one, within every limit.
 */
#include "sim.h"

void model_rate_settle(struct queue_model *queue, int64_t now_ms)
{
    if (queue->rate_count == TEND_UNSET || now_ms <= queue->rate_at_ms)
        return;
    int64_t full = queue->rate_count * queue->rate_period_ms;
    queue->rate_level += queue->rate_count * (now_ms - queue->rate_at_ms);
    if (queue->rate_level > full)
        queue->rate_level = full;
    queue->rate_at_ms = now_ms;
}

/* Tokens that are there stay, as far as the new bucket holds them; a new limit begins full. */
void model_rate_change(struct queue_model *queue, int64_t count, int64_t now_ms)
{
    model_rate_settle(queue, now_ms);
    bool fresh = queue->rate_count == TEND_UNSET;
    queue->rate_count = count;
    int64_t full = count * queue->rate_period_ms;
    if (count != TEND_UNSET && (fresh || queue->rate_level > full))
        queue->rate_level = full;
    queue->rate_at_ms = now_ms;
}

bool model_comes_before(const struct job_model *one, const struct job_model *other)
{
    if (one->priority != other->priority)
        return one->priority < other->priority;
    if (one->due_ms != other->due_ms)
        return one->due_ms < other->due_ms;
    return one->id < other->id;
}

/* Passed over because as many with its key are running as may. */
static bool key_is_full(struct world *world, const struct job_model *job)
{
    const struct queue_model *queue = &world->queues[job->queue];
    return queue->key_concurrency != TEND_UNSET && job->key != 0 &&
           model_running(world, job->queue, job->key) >= queue->key_concurrency;
}

/* CL-4: what was left is not more urgent than what was taken. */
static void check_order(struct world *world, const struct job_model *taken)
{
    for (size_t i = 0; i < world->job_count; i++) {
        const struct job_model *left = &world->jobs[i];
        if (left->state == JOB_PENDING && left->queue == taken->queue && !key_is_full(world, left))
            expect(world, model_comes_before(taken, left), "job %lld was claimed before job %lld",
                   (long long)taken->id, (long long)left->id);
    }
}

static void check_rate(struct world *world, struct queue_model *queue, int64_t taken,
                       int64_t now_ms)
{
    if (queue->rate_count == TEND_UNSET)
        return;
    model_rate_settle(queue, now_ms);
    queue->rate_level -= taken * queue->rate_period_ms;
    /* The store counts in millionths of a token. */
    expect(world, queue->rate_level >= -(queue->rate_period_ms / 100000 + 1),
           "%lld jobs were handed out above the rate", (long long)taken);
}

void model_claims(struct world *world, struct actor *actor, int64_t now_ms)
{
    struct op *op = &actor->op;
    struct queue_model *queue = &world->queues[op->queue];
    if (op->claimed_count == op->claimed_before)
        return;
    size_t taken = op->claimed_count - op->claimed_before;
    expect(world, taken <= (op->claim.count == 0 ? 1 : op->claim.count), "%zu claimed, %zu wanted",
           taken, op->claim.count);
    expect(world, !queue->paused, "a paused queue handed out a job");
    for (size_t i = op->claimed_before; i < op->claimed_count; i++) {
        const struct job_model *job = model_job(world, op->claimed[i].id);
        check_order(world, job);
        expect(world,
               queue->key_concurrency == TEND_UNSET || job->key == 0 ||
                   model_running(world, op->queue, job->key) <= queue->key_concurrency,
               "more jobs with key %d are running than may", job->key);
    }
    expect(world,
           queue->concurrency == TEND_UNSET ||
               model_running(world, op->queue, -1) <= queue->concurrency,
           "%lld jobs of queue %s are running, %lld may",
           (long long)model_running(world, op->queue, -1), queue_names[op->queue],
           (long long)queue->concurrency);
    expect(world, !queue->serial || model_running(world, op->queue, -1) <= 1,
           "a serial queue has two jobs running");
    check_rate(world, queue, (int64_t)taken, now_ms);
    op->claimed_before = op->claimed_count;
}
