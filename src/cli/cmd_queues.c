/* tend queues: what is in each queue. */
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/queue_text.h"
#include "cli/table.h"

static const struct column columns[] = {
    {"QUEUE", COLUMN_WIDE},    {"PENDING", COLUMN_RIGHT},   {"SCHEDULED", COLUMN_RIGHT},
    {"RUNNING", COLUMN_RIGHT}, {"HELD", COLUMN_RIGHT},      {"DONE", COLUMN_RIGHT},
    {"FAILED", COLUMN_RIGHT},  {"CANCELLED", COLUMN_RIGHT}, {"OLDEST", COLUMN_RIGHT},
    {"SETTINGS", COLUMN_WIDE},
};

static void add_count(struct table *table, const struct tend_queue_stats *queue, int state)
{
    int64_t count = queue->jobs[state];
    table_number(table, count > 0 ? color_of_state(state) : COLOR_DIM, count);
}

static void add_row(struct table *table, const struct tend_queue_stats *queue, int64_t now_ms)
{
    static const int order[] = {TEND_PENDING, TEND_SCHEDULED, TEND_RUNNING,  TEND_HELD,
                                TEND_DONE,    TEND_FAILED,    TEND_CANCELLED};
    table_cell(table, COLOR_NONE, "%s", queue->settings.name);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        add_count(table, queue, order[i]);
    char age[DURATION_TEXT_BYTES];
    if (queue->oldest_pending_ms == TEND_UNSET)
        table_cell(table, COLOR_DIM, "-");
    else
        table_cell(table, COLOR_NONE, "%s", relative_text(queue->oldest_pending_ms, now_ms, age));
    struct buf settings;
    buf_init(&settings);
    queue_limits_text(&settings, &queue->settings);
    table_cell(table, queue->settings.paused ? COLOR_YELLOW : COLOR_NONE, "%s", settings.data);
    buf_done(&settings);
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_stats *stats;
    int code = tend_stats(cli->store, &stats);
    if (code < 0)
        return cli_fail_store(cli, code);
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < stats->count; i++) {
        if (!cli->json)
            add_row(&table, &stats->items[i], stats->now_ms);
        else
            queue_stats_json(&cli->out, &stats->items[i]);
    }
    int status = cli->json ? EXIT_DONE : table_print(&table, cli);
    table_done(&table);
    tend_stats_free(stats);
    return status;
}

const struct command cmd_queues = {
    .name = "queues",
    .group = "Operation",
    .text = "list the queues and what is in them",
    .about = "OLDEST: for how long the first pending job has been due.",
    .store = STORE_EXISTING,
    .run = run,
};
