/*
 * What must hold after the chaos: every acknowledged job is there and done, once, by the record of
 * events and by that of the workers; nothing is leased, locked or registered; the histories are
 * without a gap.
 */
#include "chaos.h"

#include "core/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000, DRAIN_WITHIN_MS = 90000 };

/* What is known of a job, by its id. */
struct seen {
    signed char state; /* -1: not added */
    int completions;
    int64_t completed_token;
    int acknowledged; /* completions in the workers' record */
};

struct examination {
    tend *t;
    struct seen *jobs;
    int64_t highest_id;
    int running_serial;
    struct chaos_findings findings;
};

static tend *open_healthy(const struct chaos *chaos)
{
    tend *t;
    struct tend_options options;
    tend_options_init(&options);
    options.name = "healthy";
    int rc = tend_open(&t, chaos->url, &options);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "opening %s: %s", chaos->url, tend_errmsg(t));
    return t;
}

/* --- draining --- */

static int64_t unfinished(tend *t)
{
    struct tend_stats *stats;
    int64_t count = 0;
    check_int(tend_stats(t, &stats), ==, 0);
    for (size_t i = 0; i < stats->count; i++)
        for (int state = TEND_SCHEDULED; state <= TEND_HELD; state++)
            count += stats->items[i].jobs[state];
    tend_stats_free(stats);
    return count;
}

static void finish_some(tend *t, const char *queue)
{
    struct tend_lease leases[100];
    struct tend_jobs *jobs;
    struct tend_claim claim;
    tend_claim_init(&claim);
    claim.queue = queue;
    claim.count = 100;
    while (tend_claim_jobs(t, &claim, &jobs, NULL) > 0) {
        size_t count = jobs->count;
        for (size_t i = 0; i < count; i++)
            leases[i] = (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
        tend_jobs_free(jobs);
        int rc = tend_complete(t, leases, count, NULL, NULL);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "draining: %s", tend_errmsg(t));
    }
}

void chaos_drain(struct chaos *chaos)
{
    tend *t = open_healthy(chaos);
    struct tend_recovery recovery;
    long long deadline_ms = test_clock_ms() + DRAIN_WITHIN_MS;
    while (unfinished(t) > 0) {
        check_int(test_clock_ms(), <, deadline_ms);
        check_int(tend_detect_and_recover_stale(t, &recovery), ==, 0);
        finish_some(t, CHAOS_QUEUE);
        finish_some(t, CHAOS_SERIAL_QUEUE);
        test_pause();
    }
    /* Those who died without a lease are noticed, too. */
    struct tend_workers *workers;
    for (size_t left = 2; left > 1;) {
        check_int(test_clock_ms(), <, deadline_ms);
        check_int(tend_detect_and_recover_stale(t, &recovery), ==, 0);
        check_int(tend_worker_list(t, &workers), ==, 0);
        left = workers->count;
        tend_workers_free(workers);
        test_pause();
    }
    tend_close(t);
}

/* --- examining --- */

static struct seen *seen_of(struct examination *all, int64_t id)
{
    check_int(id, >, 0);
    check_int(id, <=, all->highest_id);
    return &all->jobs[id];
}

/* One at a time in the serial queue. */
static void follow_serial(struct examination *all, const struct tend_event *event)
{
    if (strcmp(event->queue, CHAOS_SERIAL_QUEUE) != 0)
        return;
    all->running_serial += event->to_state == TEND_RUNNING;
    all->running_serial -= event->from_state == TEND_RUNNING;
    check_int(all->running_serial, <=, 1);
}

static void follow(struct examination *all, const struct tend_event *event)
{
    all->findings.died += strcmp(event->what, "worker.died") == 0;
    if (event->job_id == TEND_UNSET)
        return;
    struct seen *job = seen_of(all, event->job_id);
    check_int(event->from_state, ==, job->state);
    check(state_allows((enum job_state)event->from_state, (enum job_state)event->to_state));
    follow_serial(all, event);
    job->state = (signed char)event->to_state;
    all->findings.jobs += event->from_state < 0;
    all->findings.recovered += strcmp(event->what, "job.recovered") == 0;
    if (strcmp(event->what, "job.completed") == 0) {
        check_int(++job->completions, ==, 1);
        job->completed_token = event->token;
        all->findings.completions++;
    }
}

static void follow_all(struct examination *all)
{
    struct tend_events *events;
    int64_t after = 0;
    for (size_t count = PAGE; count > 0;) {
        check_int(tend_events_since(all->t, after, PAGE, &events), ==, 0);
        count = events->count;
        for (size_t i = 0; i < count; i++)
            follow(all, &events->items[i]);
        if (count > 0)
            after = events->items[count - 1].id;
        tend_events_free(events);
    }
    check_int(after, ==, all->highest_id);
}

/* What the rows say is what the events told. */
static void compare_rows(struct examination *all)
{
    struct tend_filter filter;
    struct tend_jobs *jobs;
    int64_t rows = 0;
    tend_filter_init(&filter);
    for (size_t count = PAGE; count > 0;) {
        check_int(tend_list(all->t, &filter, &jobs), ==, 0);
        count = jobs->count;
        for (size_t i = 0; i < count; i++) {
            check_int(jobs->items[i].state, ==, TEND_DONE);
            check_int(seen_of(all, jobs->items[i].id)->state, ==, TEND_DONE);
            check_int(seen_of(all, jobs->items[i].id)->completions, ==, 1);
        }
        rows += (int64_t)count;
        if (count > 0)
            filter.after_id = jobs->items[count - 1].id;
        tend_jobs_free(jobs);
    }
    check_int(rows, ==, all->findings.jobs);
}

/* What the adders were told is there; what the workers were told has happened, once. */
static void compare_records(struct examination *all, const struct chaos *chaos)
{
    long long id;
    long long token;
    FILE *added = fopen(chaos->added, "re");
    FILE *finished = fopen(chaos->finished, "re");
    check(added != NULL && finished != NULL);
    while (fscanf(added, "%lld", &id) == 1) { /* NOLINT(cert-err34-c): written by us */
        check_int(seen_of(all, id)->state, ==, TEND_DONE);
        all->findings.acknowledged++;
    }
    while (fscanf(finished, " D %lld %lld", &id, &token) == 2) { /* NOLINT(cert-err34-c) */
        check_int(seen_of(all, id)->completed_token, ==, token);
        check_int(++seen_of(all, id)->acknowledged, ==, 1);
    }
    check(feof(added) && feof(finished));
    fclose(added);
    fclose(finished);
}

static void report(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    (void)arg;
    if (verdict == TEND_WRONG)
        fprintf(stderr, "doctor: %s: %s\n", what, text);
}

static void check_nothing_is_left(struct examination *all)
{
    struct tend_locks *locks;
    struct tend_workers *workers;
    check_int(tend_lock_list(all->t, &locks), ==, 0);
    check_int(locks->count, ==, 0);
    tend_locks_free(locks);
    check_int(tend_worker_list(all->t, &workers), ==, 0);
    check_int(workers->count, ==, 0);
    tend_workers_free(workers);
    check_int(tend_doctor(all->t, report, NULL), ==, 0);
}

void chaos_examine(struct chaos *chaos, struct chaos_findings *ret)
{
    struct examination all = {.t = open_healthy(chaos)};
    check_int(tend_last_event(all.t, &all.highest_id), ==, 0);
    all.jobs = calloc((size_t)all.highest_id + 1, sizeof *all.jobs);
    check(all.jobs != NULL);
    for (int64_t id = 0; id <= all.highest_id; id++)
        all.jobs[id].state = -1;
    follow_all(&all);
    compare_rows(&all);
    compare_records(&all, chaos);
    check_nothing_is_left(&all);
    tend_close(all.t);
    free(all.jobs);
    *ret = all.findings;
    printf("%lld jobs, %lld acknowledged, %lld completed, %lld recovered, %lld workers died, "
           "%d kills, %d stops\n",
           (long long)ret->jobs, (long long)ret->acknowledged, (long long)ret->completions,
           (long long)ret->recovered, (long long)ret->died, chaos->kills, chaos->stops);
}
