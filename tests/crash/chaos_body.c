/* What the processes of chaos.h do until they are killed. */
#include "chaos.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 6 }; /* jobs in one call */

struct body {
    const struct chaos *chaos;
    tend *t;
    struct rng rng;
    int record; /* descriptor */
};

static int64_t between(struct body *body, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(&body->rng, (uint64_t)(high - low + 1));
}

static bool chance(struct body *body, int percent)
{
    return between(body, 0, 99) < percent;
}

static void pause_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* One line in one write, so that lines of several processes do not mix. */
static void note(struct body *body, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (write(body->record, line, (size_t)length) != length)
        _exit(3);
}

/* An answer that must not come ends the process, and with it the test. */
static bool is_fine(struct body *body, int rc, const char *what)
{
    if (rc >= 0 || rc == TEND_ELEASELOST)
        return true;
    if (body->chaos->may_lose_store && rc == TEND_EUNREACHABLE) {
        pause_ms(20);
        return false;
    }
    fprintf(stderr, "%s answers %d: %s\n", what, rc, tend_errmsg(body->t));
    _exit(2);
}

static void open_store(struct body *body, const struct chaos *chaos, const char *kind, int number,
                       const char *record)
{
    char name[64];
    struct tend_options options;
    tend_options_init(&options);
    snprintf(name, sizeof name, "%s-%d", kind, number);
    options.name = name;
    options.recovery_ms = 2000;
    *body = (struct body){.chaos = chaos};
    rng_seed_random(&body->rng);
    body->record = open(record, O_WRONLY | O_APPEND | O_CLOEXEC);
    int rc = body->record < 0 ? TEND_EIO : tend_open(&body->t, chaos->url, &options);
    while (rc == TEND_EUNREACHABLE && chaos->may_lose_store) {
        tend_close(body->t);
        pause_ms(50);
        rc = tend_open(&body->t, chaos->url, &options);
    }
    if (!is_fine(body, rc, "opening the store"))
        _exit(2);
}

/* --- workers --- */

struct holding {
    struct tend_lease leases[MOST];
    size_t count;
    bool started;
};

static void take(struct holding *holding, struct tend_jobs *jobs, bool started)
{
    holding->count = 0;
    holding->started = started;
    for (size_t i = 0; i < jobs->count && i < MOST; i++)
        holding->leases[holding->count++] =
            (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
    tend_jobs_free(jobs);
}

static struct tend_claim random_claim(struct body *body)
{
    struct tend_claim claim;
    tend_claim_init(&claim);
    claim.queue = chance(body, 80) ? CHAOS_QUEUE : CHAOS_SERIAL_QUEUE;
    claim.count = (size_t)between(body, 1, MOST);
    claim.ttl_ms = CHAOS_LEASE_MS;
    claim.wait_ms = between(body, 0, 300);
    if (chance(body, 20))
        claim.flags |= TEND_CLAIM_UNSTARTED;
    return claim;
}

/* None of the answers that say "nothing for you". */
static bool is_none(int rc)
{
    return rc == TEND_EEMPTY || rc == TEND_EBUSY || rc == TEND_ELIMITED;
}

static void claim_some(struct body *body, struct holding *holding)
{
    struct tend_claim claim = random_claim(body);
    struct tend_jobs *jobs;
    bool with_lock = strcmp(claim.queue, CHAOS_SERIAL_QUEUE) == 0 && chance(body, 50);
    int rc = with_lock ? tend_next_with_lock(body->t, &claim, &jobs, NULL)
                       : tend_claim_jobs(body->t, &claim, &jobs, NULL);
    holding->count = 0;
    if (rc > 0)
        take(holding, jobs, (claim.flags & TEND_CLAIM_UNSTARTED) == 0);
    else if (!is_none(rc))
        is_fine(body, rc, "claim");
}

static void note_finished(struct body *body, const struct holding *holding, const int *each)
{
    for (size_t i = 0; i < holding->count; i++)
        if (each[i] == 0)
            note(body, "D %lld %lld\n", (long long)holding->leases[i].id,
                 (long long)holding->leases[i].token);
}

static void complete(struct body *body, struct holding *holding)
{
    int each[MOST];
    int rc = tend_complete(body->t, holding->leases, holding->count, NULL, each);
    if (is_fine(body, rc, "complete"))
        note_finished(body, holding, each);
    holding->count = 0;
}

static void complete_and_claim(struct body *body, struct holding *holding)
{
    struct tend_claim claim = random_claim(body);
    struct tend_jobs *jobs;
    int each[MOST];
    for (size_t i = 0; i < MOST; i++)
        each[i] = TEND_EUNREACHABLE;
    int rc = tend_complete_and_claim(body->t, holding->leases, holding->count, NULL, each, &claim,
                                     &jobs, NULL);
    note_finished(body, holding, each);
    holding->count = 0;
    if (rc > 0)
        take(holding, jobs, (claim.flags & TEND_CLAIM_UNSTARTED) == 0);
    else if (!is_none(rc))
        is_fine(body, rc, "complete and claim");
}

static void fail_all(struct body *body, struct holding *holding)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = between(body, 0, 50);
    for (size_t i = 0; i < holding->count; i++)
        is_fine(body, tend_fail(body->t, holding->leases[i], &failure, NULL), "fail");
    holding->count = 0;
}

static void work(struct body *body, struct holding *holding)
{
    int64_t fate = between(body, 0, 99);
    if (!holding->started && chance(body, 70))
        is_fine(body, tend_start(body->t, holding->leases, holding->count, NULL), "start");
    pause_ms(chance(body, 90) ? between(body, 0, 3) : between(body, 0, 100));
    if (chance(body, 20))
        is_fine(body,
                tend_heartbeat(body->t, holding->leases, holding->count, CHAOS_LEASE_MS, NULL),
                "heartbeat");
    if (fate < 50)
        complete(body, holding);
    else if (fate < 85)
        complete_and_claim(body, holding);
    else if (fate < 90)
        fail_all(body, holding);
    else if (fate < 97)
        is_fine(body,
                tend_release(body->t, holding->leases, holding->count, between(body, 0, 30),
                             "given back", NULL),
                "release");
    else
        pause_ms(1); /* forgotten: it ends with its time */
    if (fate >= 90)
        holding->count = 0;
}

void chaos_worker(const struct chaos *chaos, int number)
{
    struct body body;
    struct holding holding = {0};
    open_store(&body, chaos, "worker", number, chaos->finished);
    for (;;) {
        if (holding.count == 0)
            claim_some(&body, &holding);
        if (holding.count > 0)
            work(&body, &holding);
    }
}

/* --- adders --- */

void chaos_adder(const struct chaos *chaos, int number)
{
    struct body body;
    struct tend_job_spec specs[MOST];
    struct tend_added added[MOST];
    open_store(&body, chaos, "adder", number, chaos->added);
    for (;;) {
        size_t count = (size_t)between(&body, 1, MOST);
        for (size_t i = 0; i < count; i++) {
            tend_job_spec_init(&specs[i]);
            specs[i].queue = chance(&body, 85) ? CHAOS_QUEUE : CHAOS_SERIAL_QUEUE;
            specs[i].priority = (int)between(&body, 0, 9);
            specs[i].delay_ms = chance(&body, 20) ? between(&body, 1, 50) : TEND_UNSET;
        }
        if (!is_fine(&body, tend_add_many(body.t, specs, count, added), "add"))
            continue;
        for (size_t i = 0; i < count; i++)
            note(&body, "%lld\n", (long long)added[i].id);
        fsync(body.record);
        pause_ms(between(&body, 5, 40));
    }
}
