/* tend workers: the processes registered with the store. */
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_step.h"
#include "cli/table.h"

static const struct column columns[] = {
    {"ID", COLUMN_RIGHT},     {"NAME", COLUMN_WIDE},   {"HOST", COLUMN_WIDE},
    {"PID", COLUMN_RIGHT},    {"ALIVE", COLUMN_LEFT},  {"SINCE", COLUMN_RIGHT},
    {"LEASES", COLUMN_RIGHT}, {"LOCKS", COLUMN_RIGHT},
};

static const char *alive_text(const struct tend_worker *worker)
{
    if (worker->stopped)
        return "stopped";
    return worker->alive < 0 ? "unknown" : worker->alive ? "yes" : "no";
}

static void add_row(struct table *table, const struct tend_worker *worker, int64_t now_ms)
{
    char since[DURATION_TEXT_BYTES];
    enum color color = worker->alive < 0 || worker->stopped ? COLOR_YELLOW
                       : worker->alive                      ? COLOR_GREEN
                                                            : COLOR_RED;
    table_number(table, COLOR_NONE, worker->id);
    table_cell(table, COLOR_NONE, "%s", worker->name);
    table_cell(table, COLOR_NONE, "%s", worker->host);
    table_number(table, COLOR_NONE, worker->pid);
    table_cell(table, color, "%s", alive_text(worker));
    table_cell(table, COLOR_DIM, "%s", relative_text(worker->since_ms, now_ms, since));
    table_number(table, COLOR_NONE, worker->leases);
    table_number(table, COLOR_NONE, worker->locks);
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_workers *workers;
    int code = tend_worker_list(cli->store, &workers);
    if (code < 0)
        return cli_fail_store(cli, code);
    int64_t now_ms = cli_now_ms(cli);
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < workers->count; i++) {
        if (!cli->json) {
            add_row(&table, &workers->items[i], now_ms);
            continue;
        }
        json_worker(&cli->out, NULL, &workers->items[i]);
        buf_putc(&cli->out, '\n');
    }
    int status = cli->json ? EXIT_DONE : table_print(&table, cli);
    table_done(&table);
    tend_workers_free(workers);
    return status;
}

const struct command cmd_workers = {
    .name = "workers",
    .group = "Operation",
    .text = "list the workers registered with the store",
    .about =
        "A lease taken by 'tend claim' is held by its time and has no worker here, unless it is tied to a "
        "process with --while-pid.",
    .store = STORE_EXISTING,
    .run = run,
};
