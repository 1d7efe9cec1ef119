/* See prometheus.h. */
#include "cli/prometheus.h"

#include "base/buf.h"

#include <inttypes.h>
#include <string.h>
#include <tend.h>

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* {queue="…": a label's value; quotes, backslashes and line ends are escaped. */
static void put_label(struct buf *out, char before, const char *name, const char *value)
{
    buf_printf(out, "%c%s=\"", before, name);
    for (; *value; value++) {
        if (*value == '\n') {
            buf_puts(out, "\\n");
            continue;
        }
        if (*value == '"' || *value == '\\')
            buf_putc(out, '\\');
        buf_putc(out, *value);
    }
    buf_putc(out, '"');
}

static void put_seconds(struct buf *out, int64_t ms)
{
    buf_printf(out, "%" PRId64 ".%03" PRId64 "\n", ms / 1000, ms % 1000);
}

static void put_number(struct buf *out, const char *name, const char *type, const char *help,
                       int64_t number)
{
    put_head(out, name, type, help);
    buf_printf(out, "%s %" PRId64 "\n", name, number);
}

/* --- the store --- */

static void put_jobs(struct buf *out, const struct tend_stats *stats)
{
    put_head(out, "tend_jobs", "gauge", "Jobs by queue and state.");
    for (size_t i = 0; i < stats->count; i++) {
        for (int state = 0; state < TEND_STATE_COUNT; state++) {
            buf_puts(out, "tend_jobs");
            put_label(out, '{', "queue", stats->items[i].settings.name);
            put_label(out, ',', "state", tend_state_name(state));
            buf_printf(out, "} %" PRId64 "\n", stats->items[i].jobs[state]);
        }
    }
}

static void put_ages(struct buf *out, const struct tend_stats *stats)
{
    put_head(out, "tend_queue_oldest_pending_seconds", "gauge",
             "For how long the first pending job has been due; 0 when none is pending.");
    for (size_t i = 0; i < stats->count; i++) {
        int64_t oldest_ms = stats->items[i].oldest_pending_ms;
        int64_t age_ms = oldest_ms == TEND_UNSET ? 0 : stats->now_ms - oldest_ms;
        buf_puts(out, "tend_queue_oldest_pending_seconds");
        put_label(out, '{', "queue", stats->items[i].settings.name);
        buf_puts(out, "} ");
        put_seconds(out, age_ms < 0 ? 0 : age_ms);
    }
}

static void put_paused(struct buf *out, const struct tend_stats *stats)
{
    put_head(out, "tend_queue_paused", "gauge", "1 when the queue is paused.");
    for (size_t i = 0; i < stats->count; i++) {
        buf_puts(out, "tend_queue_paused");
        put_label(out, '{', "queue", stats->items[i].settings.name);
        buf_printf(out, "} %d\n", stats->items[i].settings.paused != 0);
    }
}

void prometheus_stats(struct buf *out, const struct tend_stats *stats)
{
    put_jobs(out, stats);
    put_ages(out, stats);
    put_paused(out, stats);
    put_number(out, "tend_workers", "gauge", "Workers registered with the store.", stats->workers);
    put_number(out, "tend_locks", "gauge", "Locks that are held.", stats->locks);
    put_number(out, "tend_schedules", "gauge", "Schedules.", stats->schedules);
    put_number(out, "tend_events", "gauge", "Events that are kept.", stats->events);
}

/* --- what has happened --- */

/* The counters, and the events they count. */
static const struct {
    const char *name, *what, *help;
} counters[] = {
    {"tend_jobs_added_total", "job.added", "Jobs added."},
    {"tend_jobs_claimed_total", "job.claimed", "Leases given out."},
    {"tend_jobs_completed_total", "job.completed", "Jobs completed."},
    {"tend_jobs_failed_total", "job.failed", "Jobs that failed for good."},
    {"tend_jobs_retried_total", "job.retry_scheduled", "Failures after which the job is retried."},
    {"tend_jobs_released_total", "job.released", "Leases given back by their owners."},
    {"tend_jobs_recovered_total", "job.recovered",
     "Leases taken back from lost owners, the job to run again; see tend_jobs_quarantined_total."},
    {"tend_jobs_quarantined_total", "job.quarantined",
     "Jobs that failed because they lost too many workers."},
    {"tend_jobs_cancelled_total", "job.cancelled", "Jobs cancelled."},
    {"tend_jobs_redriven_total", "job.redriven", "Jobs started over by an operator."},
};

/* Of the queue whose totals begin here. */
static int64_t count_from(const struct tend_event_totals *totals, size_t first, const char *what)
{
    const char *queue = totals->items[first].queue;
    for (size_t i = first; i < totals->count && strcmp(totals->items[i].queue, queue) == 0; i++)
        if (strcmp(totals->items[i].what, what) == 0)
            return totals->items[i].count;
    return 0;
}

/* Of every queue that has had an event, also 0. */
void prometheus_events(struct buf *out, const struct tend_event_totals *totals)
{
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        put_head(out, counters[i].name, "counter", counters[i].help);
        for (size_t at = 0; at < totals->count; at++) {
            const char *queue = totals->items[at].queue;
            bool told = at > 0 && strcmp(totals->items[at - 1].queue, queue) == 0;
            if (told || *queue == '\0')
                continue;
            buf_puts(out, counters[i].name);
            put_label(out, '{', "queue", queue);
            buf_printf(out, "} %" PRId64 "\n", count_from(totals, at, counters[i].what));
        }
    }
}

/* --- steps --- */

static void put_attempts(struct buf *out, const struct tend_step_totals *totals)
{
    put_head(out, "task_self_heal_attempts_total", "counter",
             "Failed attempts by what followed, and attempts that recovered a step.");
    for (size_t i = 0; i < totals->count; i++) {
        const struct tend_step_total *total = &totals->items[i];
        if (strcmp(total->outcome, "succeeded") == 0)
            continue;
        buf_puts(out, "task_self_heal_attempts_total");
        put_label(out, '{', "class",
                  total->failure_class[0] != '\0' ? total->failure_class : "unknown");
        put_label(out, ',', "strategy", total->strategy);
        put_label(out, ',', "outcome", total->outcome);
        buf_printf(out, "} %" PRId64 "\n", total->count);
    }
}

struct sums {
    int64_t recovered, exhausted, idle_timeouts, wall_timeouts, no_progress;
    int64_t count[2], duration_ms[2]; /* of attempts that failed, that succeeded */
};

static struct sums add_up(const struct tend_step_totals *totals)
{
    struct sums sums = {.recovered = 0};
    for (size_t i = 0; i < totals->count; i++) {
        const struct tend_step_total *total = &totals->items[i];
        bool recovered = strcmp(total->outcome, "recovered") == 0;
        bool succeeded = recovered || strcmp(total->outcome, "succeeded") == 0;
        sums.recovered += recovered ? total->count : 0;
        sums.exhausted += strcmp(total->outcome, "exhausted") == 0 ? total->count : 0;
        sums.idle_timeouts += total->idle_timeouts;
        sums.wall_timeouts += total->wall_timeouts;
        sums.no_progress += total->no_progress;
        sums.count[succeeded] += total->count;
        sums.duration_ms[succeeded] += total->duration_ms;
    }
    return sums;
}

static void put_durations(struct buf *out, const struct sums *sums)
{
    static const char *const outcomes[] = {"failed", "succeeded"};
    put_head(out, "task_step_duration_seconds", "summary", "How long attempts took.");
    for (int i = 0; i < 2; i++) {
        buf_printf(out, "task_step_duration_seconds_sum{outcome=\"%s\"} ", outcomes[i]);
        put_seconds(out, sums->duration_ms[i]);
        buf_printf(out, "task_step_duration_seconds_count{outcome=\"%s\"} %" PRId64 "\n",
                   outcomes[i], sums->count[i]);
    }
}

void prometheus_steps(struct buf *out, const struct tend_step_totals *totals)
{
    struct sums sums = add_up(totals);
    put_attempts(out, totals);
    put_number(out, "task_self_heal_recovered_total", "counter",
               "Steps that succeeded after a failed attempt.", sums.recovered);
    put_number(out, "task_self_heal_exhausted_total", "counter",
               "Steps that were given up: tries used up, or no progress.", sums.exhausted);
    put_durations(out, &sums);
    put_number(out, "task_step_idle_timeout_total", "counter",
               "Attempts ended because they were silent for too long.", sums.idle_timeouts);
    put_number(out, "task_step_wall_timeout_total", "counter",
               "Attempts ended because they took too long.", sums.wall_timeouts);
    put_number(out, "task_step_no_progress_total", "counter",
               "Attempts after which a step made no progress.", sums.no_progress);
}
