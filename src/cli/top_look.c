/* See top_look.h. */
#include "cli/top_look.h"

#include "base/text.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/pen.h"
#include "cli/queue_text.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

enum { STEPS_MAX = 1000 };

void look_done(struct look *look)
{
    tend_stats_free(look->stats);
    tend_workers_free(look->workers);
    tend_attempts_free(look->running);
    tend_attempts_free(look->waiting);
}

int look_read(tend *store, struct look *ret)
{
    *ret = (struct look){.stats = NULL};
    int code = tend_stats(store, &ret->stats);
    if (code >= 0)
        code = tend_worker_list(store, &ret->workers);
    if (code >= 0)
        code = tend_attempts_running(store, STEPS_MAX, &ret->running);
    if (code >= 0)
        code = tend_attempts_waiting(store, STEPS_MAX, &ret->waiting);
    return code;
}

/* --- as text --- */

static const struct column queue_columns[] = {
    {"QUEUE", COLUMN_WIDE},  {"PENDING", COLUMN_RIGHT}, {"RUNNING", COLUMN_RIGHT},
    {"LATER", COLUMN_RIGHT}, {"HELD", COLUMN_RIGHT},    {"FAILED", COLUMN_RIGHT},
    {"DONE", COLUMN_RIGHT},  {"OLDEST", COLUMN_RIGHT},  {"SETTINGS", COLUMN_WIDE},
};

static void queue_row(struct table *table, const struct tend_queue_stats *queue, int64_t now_ms)
{
    static const int order[] = {TEND_PENDING, TEND_RUNNING, TEND_SCHEDULED,
                                TEND_HELD,    TEND_FAILED,  TEND_DONE};
    char age[DURATION_TEXT_BYTES];
    table_cell(table, COLOR_NONE, "%s", queue->settings.name);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int64_t count = queue->jobs[order[i]];
        table_number(table, count > 0 ? color_of_state(order[i]) : COLOR_DIM, count);
    }
    table_cell(table, COLOR_NONE, "%s",
               queue->oldest_pending_ms == TEND_UNSET
                   ? "-"
                   : relative_text(queue->oldest_pending_ms, now_ms, age));
    struct buf limits;
    buf_init(&limits);
    queue_limits_text(&limits, &queue->settings);
    table_cell(table, queue->settings.paused ? COLOR_YELLOW : COLOR_NONE, "%s", limits.data);
    buf_done(&limits);
}

static const struct column worker_columns[] = {
    {"WORKER", COLUMN_WIDE}, {"HOST", COLUMN_WIDE},  {"PID", COLUMN_RIGHT},
    {"ALIVE", COLUMN_LEFT},  {"JOBS", COLUMN_RIGHT}, {"SINCE", COLUMN_RIGHT},
};

static void worker_row(struct table *table, const struct tend_worker *worker, int64_t now_ms)
{
    char since[DURATION_TEXT_BYTES];
    enum color color = worker->alive < 0 ? COLOR_YELLOW : worker->alive ? COLOR_GREEN : COLOR_RED;
    table_cell(table, COLOR_NONE, "%s", worker->name);
    table_cell(table, COLOR_NONE, "%s", worker->host);
    table_number(table, COLOR_NONE, worker->pid);
    table_cell(table, color, "%s", worker->alive < 0 ? "unknown" : worker->alive ? "yes" : "no");
    table_number(table, COLOR_NONE, worker->leases);
    table_cell(table, COLOR_DIM, "%s", relative_text(worker->since_ms, now_ms, since));
}

static const struct column step_columns[] = {
    {"JOB", COLUMN_RIGHT},  {"STEP", COLUMN_WIDE}, {"TRY", COLUMN_RIGHT},
    {"TIME", COLUMN_RIGHT}, {"HOST", COLUMN_WIDE}, {"PROGRESS", COLUMN_WIDE},
};

/* All but the last column. time_ms: for so long it has been as it is. */
static void step_cells(struct table *table, const struct tend_attempt *attempt, int64_t time_ms)
{
    char time[DURATION_TEXT_BYTES];
    table_number(table, COLOR_CYAN, attempt->job_id);
    table_cell(table, COLOR_NONE, "%" PRId64 " %s", attempt->step_index, attempt->step_id);
    table_number(table, attempt->attempt > 1 ? COLOR_MAGENTA : COLOR_NONE, attempt->attempt);
    table_cell(table, COLOR_NONE, "%s", span_text(time_ms, time));
    table_cell(table, COLOR_NONE, "%s", attempt->host ? attempt->host : "");
}

static void waiting_row(struct table *table, const struct tend_attempt *attempt, int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    step_cells(table, attempt, now_ms - attempt->ended_at_ms);
    table_cell(table, COLOR_YELLOW, "failed (%s); attempt %" PRId64 " begins %s",
               attempt->failure_class ? attempt->failure_class : "?", attempt->attempt + 1,
               coming_text(attempt->next_at_ms, now_ms, when));
}

static void step_row(struct table *table, const struct tend_attempt *attempt, int64_t now_ms)
{
    char percent[32] = "";
    if (attempt->progress_percent != TEND_UNSET)
        snprintf(percent, sizeof percent, "%" PRId64 "%% ", attempt->progress_percent);
    step_cells(table, attempt, now_ms - attempt->started_at_ms);
    table_cell(table, COLOR_NONE, "%s%s", percent,
               attempt->progress_text ? attempt->progress_text : "");
}

/* Cut at the edge of a terminal, as everything here. */
static struct pen line_pen(struct cli *cli)
{
    size_t width = cli->width > 0 ? cli->width : SIZE_MAX;
    return (struct pen){.cli = cli, .width = width, .left = width};
}

static void put_summary(struct cli *cli, const struct look *look)
{
    int64_t jobs[TEND_STATE_COUNT] = {0};
    char time[TIME_TEXT_BYTES];
    for (size_t i = 0; i < look->stats->count; i++)
        for (int state = 0; state < TEND_STATE_COUNT; state++)
            jobs[state] += look->stats->items[i].jobs[state];
    struct pen pen = line_pen(cli);
    pen_put(&pen, COLOR_BOLD, "tend");
    size_t steps = look->running->count + look->waiting->count;
    pen_put(&pen, COLOR_NONE,
            "  %s  %" PRId64 " pending, %" PRId64 " running, %" PRId64
            " failed, %zu worker%s, %zu step%s",
            time_text(look->stats->now_ms / 1000 * 1000, time), jobs[TEND_PENDING],
            jobs[TEND_RUNNING], jobs[TEND_FAILED], look->workers->count,
            plural((int64_t)look->workers->count), steps, plural((int64_t)steps));
    buf_putc(&cli->out, '\n');
}

static void put_more(struct cli *cli, size_t count, size_t shown)
{
    if (count > shown)
        buf_printf(&cli->out, "%sand %zu more%s\n", color_on(cli, COLOR_DIM), count - shown,
                   color_off(cli, COLOR_DIM));
}

/* Those that run, then those that wait before an attempt. */
static int put_steps(struct cli *cli, const struct look *look, size_t rows)
{
    int64_t now_ms = look->stats->now_ms;
    size_t running = look->running->count, waiting = look->waiting->count;
    struct table steps;
    table_init(&steps, step_columns, sizeof step_columns / sizeof *step_columns);
    for (size_t i = 0; i < running && i < rows; i++)
        step_row(&steps, &look->running->items[i], now_ms);
    for (size_t i = 0; i < waiting && running + i < rows; i++)
        waiting_row(&steps, &look->waiting->items[i], now_ms);
    int status = table_print(&steps, cli);
    put_more(cli, running + waiting, rows);
    table_done(&steps);
    return status;
}

int look_put(struct cli *cli, const struct look *look, size_t rows, const char *notice)
{
    int64_t now_ms = look->stats->now_ms;
    struct table queues, workers;
    table_init(&queues, queue_columns, sizeof queue_columns / sizeof *queue_columns);
    table_init(&workers, worker_columns, sizeof worker_columns / sizeof *worker_columns);
    for (size_t i = 0; i < look->stats->count && i < rows; i++)
        queue_row(&queues, &look->stats->items[i], now_ms);
    for (size_t i = 0; i < look->workers->count && i < rows; i++)
        worker_row(&workers, &look->workers->items[i], now_ms);
    put_summary(cli, look);
    struct pen pen = line_pen(cli);
    pen_put(&pen, COLOR_RED, "%s", notice);
    buf_putc(&cli->out, '\n');
    int status = table_print(&queues, cli);
    put_more(cli, look->stats->count, rows);
    buf_putc(&cli->out, '\n');
    if (status == EXIT_DONE)
        status = table_print(&workers, cli);
    put_more(cli, look->workers->count, rows);
    buf_putc(&cli->out, '\n');
    if (status == EXIT_DONE)
        status = put_steps(cli, look, rows);
    table_done(&queues);
    table_done(&workers);
    return status;
}
