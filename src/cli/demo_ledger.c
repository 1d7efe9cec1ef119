/*
 * The events of the store, added up. See demo.h.
 *
 * Not what the workers say of themselves: a worker that is dead says nothing, and one that is wrong
 * says what it believes. Every figure is one that `tend events` would show as well.
 */
#include "cli/demo.h"

#include <string.h>

enum { PAGE = 1000 };

void demo_ledger_init(struct demo_ledger *ledger, int64_t first_id)
{
    *ledger = (struct demo_ledger){
        .first_id = first_id,
        .victim = -1,
        .killed_at_ms = TEND_UNSET,
        .noticed_by = -1,
        .noticed_at_ms = TEND_UNSET,
        .first_taken_at_ms = TEND_UNSET,
        .last_taken_at_ms = TEND_UNSET,
        .began_at_ms = TEND_UNSET,
        .ended_at_ms = TEND_UNSET,
    };
    for (int i = 0; i < DEMO_WORKERS; i++)
        ledger->accounts[i].claimed_at_ms = TEND_UNSET;
    for (int i = 0; i < DEMO_JOBS; i++)
        ledger->jobs[i] = (struct demo_job){.taken_by = -1, .taken_at_ms = TEND_UNSET};
}

void demo_ledger_killed(struct demo_ledger *ledger, int victim, int64_t at_ms)
{
    ledger->victim = victim;
    ledger->killed_at_ms = at_ms;
}

/* Which worker that is, by the name it has in the store; -1: none. */
static int worker_of(const char *name)
{
    static const char prefix[] = "worker ";
    size_t len = sizeof prefix - 1;
    if (!name || strncmp(name, prefix, len) != 0 || name[len] < '1' ||
        name[len] > '0' + DEMO_WORKERS || name[len + 1])
        return -1;
    return name[len] - '1';
}

static struct demo_job *job_of(struct demo_ledger *ledger, int64_t id)
{
    int64_t place = id - ledger->first_id;
    return id != TEND_UNSET && place >= 0 && place < DEMO_JOBS ? &ledger->jobs[place] : NULL;
}

static void note_claim(struct demo_ledger *ledger, struct demo_job *job, int worker, int64_t at_ms)
{
    struct demo_account *account = &ledger->accounts[worker];
    account->holds++;
    account->claimed_at_ms = at_ms;
    if (ledger->began_at_ms == TEND_UNSET)
        ledger->began_at_ms = at_ms;
    if (!job->orphaned || job->taken_by >= 0)
        return;
    job->taken_by = worker;
    job->taken_at_ms = at_ms;
    account->taken_over++;
    ledger->taken_over++;
    if (ledger->first_taken_at_ms == TEND_UNSET)
        ledger->first_taken_at_ms = at_ms;
    ledger->last_taken_at_ms = at_ms;
}

static void note_completion(struct demo_ledger *ledger, struct demo_job *job, int worker,
                            int64_t at_ms)
{
    ledger->accounts[worker].holds--;
    ledger->accounts[worker].completed++;
    ledger->done += job->completed == 0;
    job->completed++;
    ledger->ended_at_ms = at_ms;
}

/* A job went back to pending because its worker was gone: the killed one, or one nobody announced.
 */
static void note_recovery(struct demo_ledger *ledger, struct demo_job *job,
                          const struct tend_event *event)
{
    int worker = worker_of(event->owner);
    ledger->accounts[worker].holds--;
    if (worker != ledger->victim || event->at_ms < ledger->killed_at_ms)
        return;
    job->orphaned = true;
    ledger->orphans++;
    if (ledger->noticed_at_ms != TEND_UNSET)
        return;
    ledger->noticed_at_ms = event->at_ms;
    ledger->noticed_by = worker_of(event->who);
}

static void note_event(struct demo_ledger *ledger, const struct tend_event *event)
{
    const char *what = event->what;
    int worker = worker_of(event->owner);
    if (strcmp(what, "worker.joined") == 0 && worker_of(event->who) >= 0)
        ledger->accounts[worker_of(event->who)].joined = true;
    if (strncmp(what, "job.", 4) != 0 || strcmp(what, "job.added") == 0)
        return;
    struct demo_job *job = job_of(ledger, event->job_id);
    bool ours = job && worker >= 0;
    if (ours && strcmp(what, "job.claimed") == 0)
        note_claim(ledger, job, worker, event->at_ms);
    else if (ours && strcmp(what, "job.completed") == 0)
        note_completion(ledger, job, worker, event->at_ms);
    else if (ours && strcmp(what, "job.recovered") == 0)
        note_recovery(ledger, job, event);
    else if (ours && strcmp(what, "job.released") == 0)
        ledger->accounts[worker].holds--;
    else
        ledger->strange++;
}

int demo_ledger_read(struct demo_ledger *ledger, tend *store)
{
    for (size_t count = PAGE; count > 0;) {
        struct tend_events *events;
        int code = tend_events_since(store, ledger->last_event, PAGE, &events);
        if (code < 0)
            return code;
        count = events->count;
        for (size_t i = 0; i < count; i++)
            note_event(ledger, &events->items[i]);
        if (count > 0)
            ledger->last_event = events->items[count - 1].id;
        ledger->events += (int64_t)count;
        tend_events_free(events);
    }
    return 0;
}

int demo_ledger_held(const struct demo_ledger *ledger, int worker)
{
    return ledger->accounts[worker].holds + (worker == ledger->victim ? ledger->orphans : 0);
}

static bool is_fuller(const struct demo_account *a, const struct demo_account *b)
{
    return a->holds != b->holds ? a->holds > b->holds : a->claimed_at_ms > b->claimed_at_ms;
}

int demo_ledger_fullest(const struct demo_ledger *ledger, const struct demo_crew *crew)
{
    int found = -1;
    for (int i = 0; i < DEMO_WORKERS; i++) {
        if (crew->members[i].state != MEMBER_RUNS || ledger->accounts[i].holds == 0)
            continue;
        if (found < 0 || is_fuller(&ledger->accounts[i], &ledger->accounts[found]))
            found = i;
    }
    return found;
}
