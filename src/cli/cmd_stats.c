/* tend stats: the store in figures. */
#include "base/text.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/prometheus.h"
#include "cli/table.h"

#include <inttypes.h>

static struct {
    bool prometheus;
} args;

static const struct option options[] = {
    OPTION("prometheus", 0, NULL, OPTION_FLAG, "for Prometheus, with the figures of steps",
           &args.prometheus),
    OPTION_END,
};

struct totals {
    int64_t jobs[TEND_STATE_COUNT];
    int64_t oldest_pending_ms; /* or TEND_UNSET */
    size_t paused;
};

static struct totals add_up(const struct tend_stats *stats)
{
    struct totals totals = {.oldest_pending_ms = TEND_UNSET};
    for (size_t i = 0; i < stats->count; i++) {
        const struct tend_queue_stats *queue = &stats->items[i];
        for (int state = 0; state < TEND_STATE_COUNT; state++)
            totals.jobs[state] += queue->jobs[state];
        totals.paused += queue->settings.paused != 0;
        int64_t oldest = queue->oldest_pending_ms;
        if (oldest != TEND_UNSET &&
            (totals.oldest_pending_ms == TEND_UNSET || oldest < totals.oldest_pending_ms))
            totals.oldest_pending_ms = oldest;
    }
    return totals;
}

static void print_document(struct cli *cli, const struct tend_stats *stats,
                           const struct totals *totals)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_int(out, "now_ms", stats->now_ms);
    json_open(out, "jobs", '{');
    for (int state = 0; state < TEND_STATE_COUNT; state++)
        json_int(out, tend_state_name(state), totals->jobs[state]);
    json_close(out, '}');
    json_int_or_null(out, "oldest_pending_ms", totals->oldest_pending_ms);
    json_int(out, "queues", (int64_t)stats->count);
    json_int(out, "paused_queues", (int64_t)totals->paused);
    json_int(out, "workers", stats->workers);
    json_int(out, "locks", stats->locks);
    json_int(out, "schedules", stats->schedules);
    json_int(out, "events", stats->events);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static void print_text(struct cli *cli, const struct tend_stats *stats, const struct totals *totals)
{
    struct buf *out = &cli->out;
    for (int state = 0; state < TEND_STATE_COUNT; state++) {
        enum color color = totals->jobs[state] > 0 ? color_of_state(state) : COLOR_DIM;
        buf_printf(out, "%-10s %s%10" PRId64 "%s\n", tend_state_name(state), color_on(cli, color),
                   totals->jobs[state], color_off(cli, color));
    }
    char age[DURATION_TEXT_BYTES];
    if (totals->oldest_pending_ms != TEND_UNSET)
        buf_printf(out, "the oldest pending job was due %s\n",
                   relative_text(totals->oldest_pending_ms, stats->now_ms, age));
    buf_printf(out,
               "%zu queue%s (%zu paused), %" PRId64 " worker%s, %" PRId64 " lock%s, %" PRId64
               " schedule%s, %" PRId64 " event%s\n",
               stats->count, plural((int64_t)stats->count), totals->paused, stats->workers,
               plural(stats->workers), stats->locks, plural(stats->locks), stats->schedules,
               plural(stats->schedules), stats->events, plural(stats->events));
}

static int print_prometheus(struct cli *cli, const struct tend_stats *stats)
{
    struct tend_step_totals *steps = NULL;
    struct tend_event_totals *events = NULL;
    int code = tend_step_totals(cli->store, &steps);
    if (code >= 0)
        code = tend_event_totals(cli->store, &events);
    if (code >= 0) {
        prometheus_stats(&cli->out, stats);
        prometheus_events(&cli->out, events);
        prometheus_steps(&cli->out, steps);
    }
    tend_event_totals_free(events);
    tend_step_totals_free(steps);
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (args.prometheus && cli->json)
        return cli_fail(cli, TEND_EINVAL, "stats: --prometheus and --json exclude each other");
    struct tend_stats *stats;
    int code = tend_stats(cli->store, &stats);
    if (code < 0)
        return cli_fail_store(cli, code);
    struct totals totals = add_up(stats);
    int status = EXIT_DONE;
    if (args.prometheus)
        status = print_prometheus(cli, stats);
    else if (cli->json)
        print_document(cli, stats, &totals);
    else
        print_text(cli, stats, &totals);
    tend_stats_free(stats);
    return status;
}

const struct command cmd_stats = {
    .name = "stats",
    .group = "Operation",
    .text = "the store in figures",
    .about =
        "With --prometheus in its text format: jobs by queue and state, the age of the oldest pending "
        "job, workers; counters by queue (tend_jobs_added_total, _claimed, _completed, _failed, _retried, _released, "
        "_recovered, _quarantined, _cancelled, _redriven); and what attempts of steps came to "
        "(task_self_heal_attempts_total and others, as workers send them to StatsD). Jobs and events that were deleted "
        "stay counted.",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
