/*
 * See actor.h: the worker. It claims a few jobs, heartbeats them, does each of them by a line in a
 * ledger and completes it, and now and then fails one, gives one back or takes a lock. Its leases
 * are short, so that a stop of less than a second ends them; and sometimes it hangs until they are
 * over, and then goes on as if nothing had happened. A holder does none of this: nothing may take
 * its lease.
 */
#include "actor.h"

#include <string.h>

enum {
    BATCH_MAX = 8,
    LEASE_LEAST_MS = 150,
    LEASE_SPAN_MS = 450,
    LOCK_MS = 400,
    HANGS_ONE_IN = 100,
    NOTICED_MS = 600, /* by then somebody has seen that a lease is over */
    HOLDER_BEAT_MS = 100
};

struct batch {
    struct tend_lease leases[BATCH_MAX];
    int lost[BATCH_MAX]; /* as the store's answers are: 0 or TEND_ELEASELOST */
    size_t count;
    int64_t lease_ms;
};

struct worker {
    struct actor *actor;
    tend *t;
    struct batch batch;
    int64_t lease_ms;                /* of the last claim */
    const char *empty;               /* the queue that was found empty last, or NULL */
    int effects, completed, refused; /* ledgers */
};

static bool chance(struct worker *worker, unsigned one_in)
{
    return rng_below(&worker->actor->rng, one_in) == 0;
}

/* Whether to repeat a call on leases: the store was out of reach. A lost lease is an answer. */
static bool again(struct worker *worker, int rc, const char *what)
{
    return actor_tries_again(worker->actor, rc == TEND_ELEASELOST ? 0 : rc, what);
}

static void keep_alive(struct worker *worker, size_t from)
{
    struct batch *batch = &worker->batch;
    int each[BATCH_MAX] = {0};
    size_t count = batch->count - from;
    while (again(worker,
                 tend_heartbeat(worker->t, &batch->leases[from], count, batch->lease_ms, each),
                 "heartbeat"))
        continue;
    for (size_t i = 0; i < count; i++)
        if (each[i] != 0)
            batch->lost[from + i] = each[i];
}

static void note_completed(struct worker *worker, const struct tend_lease *leases, const int *each,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        actor_note(each[i] == 0 ? worker->completed : worker->refused, leases[i].id,
                   leases[i].token);
}

static void complete(struct worker *worker, const struct tend_lease *leases, size_t count)
{
    int each[BATCH_MAX] = {0};
    while (again(worker, tend_complete(worker->t, leases, count, NULL, each), "complete"))
        continue;
    note_completed(worker, leases, each, count);
}

/* The ways in which a job can come back without harm. True when it did. */
static bool give_up(struct worker *worker, struct tend_lease lease)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.text = "as the dice would have it";
    failure.retry_in_ms = (int64_t)rng_below(&worker->actor->rng, 2) * 20;
    if (chance(worker, 40)) {
        while (again(worker, tend_fail(worker->t, lease, &failure, NULL), "fail"))
            continue;
        return true;
    }
    if (!chance(worker, 40))
        return false;
    while (again(worker, tend_release(worker->t, &lease, 1, 0, "not today", NULL), "release"))
        continue;
    return true;
}

static void hold_a_lock(struct worker *worker)
{
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "shared";
    request.ttl_ms = LOCK_MS;
    int rc = tend_lock_acquire(worker->t, &request, NULL);
    bool busy = rc == TEND_EBUSY;
    if (actor_tries_again(worker->actor, busy ? 0 : rc, "lock") || busy)
        return;
    actor_pause_us((int64_t)rng_below(&worker->actor->rng, 5000));
    while (actor_tries_again(worker->actor, tend_lock_release(worker->t, "shared", NULL), "unlock"))
        continue;
}

/* Does the jobs of the batch one by one. Those to be completed together at the end stay in it. */
static void do_batch(struct worker *worker)
{
    struct batch *batch = &worker->batch;
    bool together = chance(worker, 2);
    size_t kept = 0;
    if (chance(worker, 30))
        hold_a_lock(worker);
    if (chance(worker, HANGS_ONE_IN))
        actor_pause_us((batch->lease_ms + NOTICED_MS) * 1000);
    for (size_t i = 0; i < batch->count; i++) {
        struct tend_lease lease = batch->leases[i];
        actor_pause_us((int64_t)rng_below(&worker->actor->rng, 3000));
        if (chance(worker, 2))
            keep_alive(worker, i);
        if (batch->lost[i] != 0 || give_up(worker, lease))
            continue;
        actor_note(worker->effects, lease.id, lease.token);
        if (together)
            batch->leases[kept++] = lease;
        else
            complete(worker, &lease, 1);
    }
    batch->count = kept;
}

static struct tend_claim next_claim(struct worker *worker)
{
    struct tend_claim claim;
    tend_claim_init(&claim);
    claim.queue = chance(worker, 6) ? SERIAL_QUEUE : PLAIN_QUEUE;
    if (worker->empty != NULL)
        claim.queue = strcmp(worker->empty, PLAIN_QUEUE) == 0 ? SERIAL_QUEUE : PLAIN_QUEUE;
    worker->empty = claim.queue;
    claim.count = 1 + rng_below(&worker->actor->rng, BATCH_MAX);
    claim.ttl_ms = LEASE_LEAST_MS + (int64_t)rng_below(&worker->actor->rng, LEASE_SPAN_MS);
    worker->lease_ms = claim.ttl_ms;
    claim.wait_ms = 20;
    return claim;
}

/* Claims the next batch, with what is done of the old one completed before or along with it. */
static int claim(struct worker *worker, struct tend_jobs **ret)
{
    struct batch *batch = &worker->batch;
    struct tend_claim want = next_claim(worker);
    bool serial = strcmp(want.queue, SERIAL_QUEUE) == 0;
    if (batch->count > 0 && chance(worker, 2)) {
        int each[BATCH_MAX] = {0};
        int rc = tend_complete_and_claim(worker->t, batch->leases, batch->count, NULL, each, &want,
                                         ret, NULL);
        /* Busy may have been the completion, too. It is made again, which changes nothing. */
        bool blocked = rc == TEND_EBUSY && (worker->actor->busy_ms > 0 ||
                                            strstr(tend_errmsg(worker->t), "store") != NULL);
        bool unknown = rc == TEND_EUNREACHABLE || blocked;
        if (!actor_tries_again(worker->actor, unknown ? TEND_EUNREACHABLE : 0,
                               "complete and claim")) {
            note_completed(worker, batch->leases, each, batch->count);
            batch->count = 0;
            return rc;
        }
    }
    if (batch->count > 0)
        complete(worker, batch->leases, batch->count);
    batch->count = 0;
    return serial && chance(worker, 2) ? tend_next_with_lock(worker->t, &want, ret, NULL)
                                       : tend_claim_jobs(worker->t, &want, ret, NULL);
}

/*
 * Nothing to claim. Busy means the lock of the serial queue, or that a process which was stopped
 * while it wrote kept this one waiting for longer than a claim of 20 ms waits, which is a second.
 */
static bool is_none(int rc)
{
    return rc == TEND_EEMPTY || rc == TEND_EINTERRUPTED || rc == TEND_EBUSY;
}

void actor_work(struct actor *actor)
{
    struct worker worker = {.actor = actor,
                            .t = actor->t,
                            .effects = actor_ledger(actor, "effects"),
                            .completed = actor_ledger(actor, "completed"),
                            .refused = actor_ledger(actor, "refused")};
    while (!actor_stops()) {
        struct tend_jobs *jobs;
        int rc = claim(&worker, &jobs);
        bool none = is_none(rc);
        if (actor_tries_again(actor, none ? 0 : rc, "claim") || none)
            continue;
        worker.empty = NULL;
        worker.batch = (struct batch){.count = jobs->count, .lease_ms = worker.lease_ms};
        for (size_t i = 0; i < jobs->count; i++)
            worker.batch.leases[i] =
                (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
        tend_jobs_free(jobs);
        do_batch(&worker);
    }
    if (worker.batch.count > 0)
        complete(&worker, worker.batch.leases, worker.batch.count);
}

void actor_hold(struct actor *actor)
{
    struct tend_claim claim;
    struct tend_jobs *jobs = NULL;
    int effects = actor_ledger(actor, "effects");
    int completed = actor_ledger(actor, "completed");
    tend_claim_init(&claim);
    claim.queue = PLAIN_QUEUE;
    claim.count = 1;
    claim.ttl_ms = HOLDER_LEASE_MS;
    claim.wait_ms = 1000 * (int64_t)HOLDER_LEASE_MS;
    actor_tries_again(actor, tend_claim_jobs(actor->t, &claim, &jobs, NULL), "claim");
    const struct tend_lease lease = {.id = jobs->items[0].id, .token = jobs->items[0].token};
    tend_jobs_free(jobs);
    actor_note(effects, lease.id, lease.token);
    actor_note(actor_ledger(actor, "held"), lease.id, lease.token);
    while (!actor_stops()) {
        actor_pause_us(HOLDER_BEAT_MS * 1000);
        actor_tries_again(actor, tend_heartbeat(actor->t, &lease, 1, HOLDER_LEASE_MS, NULL),
                          "heartbeat");
    }
    actor_tries_again(actor, tend_complete(actor->t, &lease, 1, NULL, NULL), "complete");
    actor_note(completed, lease.id, lease.token);
}
