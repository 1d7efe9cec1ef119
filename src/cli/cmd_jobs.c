/* tend jobs: list jobs, a page of the store at a time; a million rows need the memory of one page.
 */
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/filter.h"
#include "cli/json_out.h"
#include "cli/queue_text.h"
#include "cli/table.h"
#include "cli/waiting.h"

#include <string.h>

static struct {
    struct filter_args filter;
    int64_t limit;
    bool oldest;
} args = {.filter = FILTER_ARGS_INIT};

static const struct option options[] = {
    FILTER_OPTIONS(args.filter),
    OPTION("limit", 'n', "N", OPTION_INT, "at most this many (default all)", &args.limit, .min = 1,
           .max = INT64_MAX),
    OPTION("oldest", 0, NULL, OPTION_FLAG, "the oldest first, in the order of their ids",
           &args.oldest),
    OPTION_END,
};

enum { PAGE = 1000 };

static const struct column columns[] = {
    {"ID", COLUMN_RIGHT},      {"QUEUE", COLUMN_WIDE},   {"KIND", COLUMN_WIDE},
    {"STATE", COLUMN_LEFT},    {"PRI", COLUMN_RIGHT},    {"TRIES", COLUMN_RIGHT},
    {"CHANGED", COLUMN_RIGHT}, {"DETAILS", COLUMN_WIDE},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* What one wants to know next about a job in its state. */
static void details_cell(struct table *table, const struct tend_job *job, int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    const char *error = table_cut(table, job->error_text ? job->error_text : "");
    const char *why = table_cut(table, job->changed_why ? job->changed_why : "");
    bool released, failed;
    switch (job->state) {
    case TEND_SCHEDULED:
        released = strcmp(job->changed_what, "job.released") == 0 && job->changed_why;
        failed = *error && !job_failed_before_retry(job);
        table_cell(table, COLOR_NONE, "due %s%s%s", relative_text(job->due_at_ms, now_ms, when),
                   released ? ", given back: "
                   : failed ? ", last: "
                            : "",
                   released ? why
                   : failed ? error
                            : "");
        break;
    case TEND_RUNNING:
        table_cell(table, COLOR_NONE, "%s%s%s", job->owner ? job->owner : "",
                   job->phase ? ", " : "", job->phase ? job->phase : "");
        break;
    case TEND_FAILED:
        table_cell(table, COLOR_NONE, "%s%s%s", job->error_class ? job->error_class : "",
                   *error ? ": " : "", error);
        break;
    case TEND_HELD:
    case TEND_CANCELLED:
        table_cell(table, COLOR_NONE, "%s", why);
        break;
    default:
        table_cell(table, COLOR_NONE, "%s", "");
        break;
    }
}

static void add_row(struct table *table, const struct tend_job *job, int64_t now_ms)
{
    char age[DURATION_TEXT_BYTES];
    table_number(table, COLOR_NONE, job->id);
    table_cell(table, COLOR_NONE, "%s", job->queue);
    table_cell(table, COLOR_NONE, "%s", *job->kind ? job->kind : "-");
    table_cell(table, color_of_state(job->state), "%s", tend_state_name(job->state));
    table_number(table, COLOR_NONE, job->priority);
    table_number(table, COLOR_NONE, job->attempts + job->crashes);
    table_cell(table, COLOR_DIM, "%s", relative_text(job->changed_at_ms, now_ms, age));
    details_cell(table, job, now_ms);
}

static int print_page(struct cli *cli, struct table *table, const struct tend_jobs *jobs)
{
    if (!cli->json) {
        int64_t now_ms = cli_now_ms(cli);
        for (size_t i = 0; i < jobs->count; i++)
            add_row(table, &jobs->items[i], now_ms);
        return table_print(table, cli);
    }
    for (size_t i = 0; i < jobs->count; i++) {
        json_job(&cli->out, NULL, &jobs->items[i], false);
        buf_putc(&cli->out, '\n');
    }
    return cli_flush_if_large(cli);
}

static int print_all(struct cli *cli, struct table *table)
{
    struct tend_filter filter;
    filter_fill(&args.filter, &filter);
    filter.newest_first = !args.oldest;
    int64_t *bound = args.oldest ? &filter.after_id : &filter.before_id;
    int64_t left = args.limit ? args.limit : INT64_MAX;
    for (;;) {
        filter.limit = left < PAGE ? (size_t)left : PAGE;
        struct tend_jobs *jobs;
        int code = tend_list(cli->store, &filter, &jobs);
        if (code < 0)
            return cli_fail_store(cli, code);
        /* The titles are printed also when there is nothing below them. */
        int status = jobs->count > 0 || !table->fitted ? print_page(cli, table, jobs) : EXIT_DONE;
        if (jobs->count == 0 && *bound == 0 && filter.queue)
            queue_note_unknown(cli, filter.queue);
        left -= (int64_t)jobs->count;
        bool last = jobs->count == 0 || left <= 0;
        if (jobs->count > 0)
            *bound = jobs->items[jobs->count - 1].id;
        tend_jobs_free(jobs);
        if (last || status != EXIT_DONE)
            return status;
    }
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct table table;
    table_init(&table, columns, COLUMNS);
    int status = print_all(cli, &table);
    table_done(&table);
    return status;
}

const struct command cmd_jobs = {
    .name = "jobs",
    .aliases = "ls",
    .group = "Jobs",
    .text = "list jobs",
    .about =
        "The newest first: in the order of their ids from the largest down. TRIES counts attempts and crashes.",
    .examples = "tend jobs -n 20\n"
                "tend jobs --state failed --queue mail\n"
                "tend jobs --json --state pending,held | jq .id",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
