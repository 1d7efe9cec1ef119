/*
 * tend top: queues, workers and running steps, live.
 *
 * A look is three reads of the store and nothing else, once a second. On a terminal it is drawn on
 * the alternate screen, which is left as it was found however the command ends; elsewhere one look
 * is printed as text.
 */
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/json_step.h"
#include "cli/pen.h"
#include "cli/queue_text.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct {
    bool once;
} args;

static const struct option options[] = {
    OPTION("once", 0, NULL, OPTION_FLAG, "print what is there now, and end", &args.once),
    OPTION_END,
};

enum {
    REFRESH_MS = 1000,
    STEPS_MAX = 1000,
    ROWS_MAX = 1000, /* of a table, where there is no terminal to fill */
};

/* --- one look --- */

struct look {
    struct tend_stats *stats;
    struct tend_workers *workers;
    struct tend_attempts *running;
};

static void look_done(struct look *look)
{
    tend_stats_free(look->stats);
    tend_workers_free(look->workers);
    tend_attempts_free(look->running);
}

static int look_read(struct cli *cli, struct look *ret)
{
    *ret = (struct look){.stats = NULL};
    int code = tend_stats(cli->store, &ret->stats);
    if (code >= 0)
        code = tend_worker_list(cli->store, &ret->workers);
    if (code >= 0)
        code = tend_attempts_running(cli->store, STEPS_MAX, &ret->running);
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

static void step_row(struct table *table, const struct tend_attempt *attempt, int64_t now_ms)
{
    char time[DURATION_TEXT_BYTES];
    char percent[32] = "";
    int64_t running_ms = now_ms - attempt->started_at_ms;
    if (attempt->progress_percent != TEND_UNSET)
        snprintf(percent, sizeof percent, "%" PRId64 "%% ", attempt->progress_percent);
    table_number(table, COLOR_CYAN, attempt->job_id);
    table_cell(table, COLOR_NONE, "%" PRId64 " %s", attempt->step_index, attempt->step_id);
    table_number(table, attempt->attempt > 1 ? COLOR_MAGENTA : COLOR_NONE, attempt->attempt);
    table_cell(table, COLOR_NONE, "%s", duration_text(running_ms / 1000 * 1000, time));
    table_cell(table, COLOR_NONE, "%s", attempt->host ? attempt->host : "");
    table_cell(table, COLOR_NONE, "%s%s", percent,
               attempt->progress_text ? attempt->progress_text : "");
}

static void put_summary(struct cli *cli, const struct look *look)
{
    int64_t jobs[TEND_STATE_COUNT] = {0};
    char time[TIME_TEXT_BYTES];
    for (size_t i = 0; i < look->stats->count; i++)
        for (int state = 0; state < TEND_STATE_COUNT; state++)
            jobs[state] += look->stats->items[i].jobs[state];
    buf_printf(&cli->out,
               "%stend%s  %s  %" PRId64 " pending, %" PRId64 " running, %" PRId64
               " failed, %zu workers, %zu steps\n",
               color_on(cli, COLOR_BOLD), color_off(cli, COLOR_BOLD),
               time_text(look->stats->now_ms / 1000 * 1000, time), jobs[TEND_PENDING],
               jobs[TEND_RUNNING], jobs[TEND_FAILED], look->workers->count, look->running->count);
}

static void put_more(struct cli *cli, size_t count, size_t shown)
{
    if (count > shown)
        buf_printf(&cli->out, "%sand %zu more%s\n", color_on(cli, COLOR_DIM), count - shown,
                   color_off(cli, COLOR_DIM));
}

/* Tables of at most `rows` rows each. 0, or an exit status. */
static int put_look(struct cli *cli, const struct look *look, size_t rows)
{
    int64_t now_ms = look->stats->now_ms;
    struct table queues, workers, steps;
    table_init(&queues, queue_columns, sizeof queue_columns / sizeof *queue_columns);
    table_init(&workers, worker_columns, sizeof worker_columns / sizeof *worker_columns);
    table_init(&steps, step_columns, sizeof step_columns / sizeof *step_columns);
    for (size_t i = 0; i < look->stats->count && i < rows; i++)
        queue_row(&queues, &look->stats->items[i], now_ms);
    for (size_t i = 0; i < look->workers->count && i < rows; i++)
        worker_row(&workers, &look->workers->items[i], now_ms);
    for (size_t i = 0; i < look->running->count && i < rows; i++)
        step_row(&steps, &look->running->items[i], now_ms);
    put_summary(cli, look);
    buf_putc(&cli->out, '\n');
    int status = table_print(&queues, cli);
    put_more(cli, look->stats->count, rows);
    buf_putc(&cli->out, '\n');
    if (status == EXIT_DONE)
        status = table_print(&workers, cli);
    put_more(cli, look->workers->count, rows);
    buf_putc(&cli->out, '\n');
    if (status == EXIT_DONE)
        status = table_print(&steps, cli);
    put_more(cli, look->running->count, rows);
    table_done(&queues);
    table_done(&workers);
    table_done(&steps);
    return status;
}

/* --- as JSON --- */

static void put_document(struct cli *cli, const struct look *look)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_int(out, "now_ms", look->stats->now_ms);
    json_open(out, "queues", '[');
    for (size_t i = 0; i < look->stats->count; i++)
        queue_stats_object(out, &look->stats->items[i]);
    json_close(out, ']');
    json_open(out, "workers", '[');
    for (size_t i = 0; i < look->workers->count; i++)
        json_worker(out, NULL, &look->workers->items[i]);
    json_close(out, ']');
    json_attempts(out, "running", look->running);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static int print_once(struct cli *cli)
{
    struct look look;
    int code = look_read(cli, &look);
    int status = code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
    if (status == EXIT_DONE && cli->json)
        put_document(cli, &look);
    else if (status == EXIT_DONE)
        status = put_look(cli, &look, ROWS_MAX);
    look_done(&look);
    return status;
}

/* --- live --- */

/* What was put into the output becomes a frame: at most `rows` lines, each clearing its rest. */
static void make_frame(struct cli *cli, size_t rows)
{
    struct buf text = cli->out;
    buf_init(&cli->out);
    buf_puts(&cli->out, "\033[H");
    const char *at = text.data;
    for (size_t row = 0; *at && row < rows; row++) {
        const char *end = strchrnul(at, '\n');
        buf_puts(&cli->out, row == 0 ? "" : "\r\n");
        buf_append(&cli->out, at, (size_t)(end - at));
        buf_puts(&cli->out, "\033[K");
        at = *end ? end + 1 : end;
    }
    buf_puts(&cli->out, "\033[J");
    buf_done(&text);
}

/* 0, or a negative code that ends it. */
static int draw(struct cli *cli)
{
    struct look look;
    size_t rows;
    size_t columns;
    terminal_size(&rows, &columns);
    if (columns > 1)
        cli->width = columns - 1;
    rows = rows > 0 ? rows : 24;
    int code = look_read(cli, &look);
    if (code >= 0 && put_look(cli, &look, rows > 12 ? (rows - 8) / 2 : 2) != EXIT_DONE)
        code = TEND_ENOMEM;
    if (code == TEND_EUNREACHABLE || code == TEND_EBUSY) {
        buf_printf(&cli->out, "%s\n", tend_errmsg(cli->store)); /* it may come back */
        code = 0;
    }
    look_done(&look);
    if (code < 0)
        return code;
    make_frame(cli, rows);
    cli_flush(cli);
    return 0;
}

/* Until the next look is due or a key is pressed. True: it was q. */
static bool asked_to_end(bool keys)
{
    struct pollfd fd = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
    char key;
    if (poll(&fd, 1, REFRESH_MS) <= 0)
        return false;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    return got == 0 || (got == 1 && (key == 'q' || key == 'Q'));
}

static int watch(struct cli *cli)
{
    struct termios before;
    bool keys = tcgetattr(STDIN_FILENO, &before) == 0;
    if (keys) {
        struct termios silent = before;
        silent.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &silent);
    }
    signals_interrupt(cli->store);
    buf_puts(&cli->out, "\033[?1049h\033[?25l\033[?7l");
    int code = 0;
    bool ends = false;
    while (!ends && !signals_seen()) {
        code = draw(cli);
        ends = code < 0 || cli->out_errno || asked_to_end(keys);
    }
    buf_clear(&cli->out);
    buf_puts(&cli->out, "\033[?7h\033[?25h\033[?1049l");
    cli_flush(cli);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    /* Said on the screen that stays. */
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return args.once || !terminal_can_draw(cli) ? print_once(cli) : watch(cli);
}

const struct command cmd_top = {
    .name = "top",
    .group = "Running",
    .text = "queues, workers and running steps, live",
    .about =
        "Looks once a second; q or ^C ends it. Where the output is no terminal, and with --once, what "
        "is there now is printed; with --json as one document {\"now_ms\", \"queues\", \"workers\", "
        "\"running\"}.",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
