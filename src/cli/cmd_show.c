/* tend show: all there is to know of one job. */
#include "base/timetext.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/show_steps.h"
#include "cli/table.h"
#include "cli/waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_line(struct cli *cli, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    buf_printf(&cli->out, "  %s%-12s%s ", color_on(cli, COLOR_DIM), name,
               color_off(cli, COLOR_DIM));
    put_clean(&cli->out, value);
    buf_putc(&cli->out, '\n');
}

/* "2026-01-31T10:00:00.000Z (3m ago)" */
static void put_time(struct cli *cli, const char *name, int64_t ms, int64_t now_ms)
{
    if (ms == TEND_UNSET)
        return;
    char time[TIME_TEXT_BYTES];
    char relative[DURATION_TEXT_BYTES];
    char line[TIME_TEXT_BYTES + DURATION_TEXT_BYTES + 4];
    snprintf(line, sizeof line, "%s (%s)", time_text(ms, time),
             relative_text(ms, now_ms, relative));
    put_line(cli, name, line);
}

static void put_head(struct cli *cli, const struct tend_job *job)
{
    enum color color = color_of_state(job->state);
    buf_printf(&cli->out, "%sjob %" PRId64 "%s  %s%s%s%s%s%s\n", color_on(cli, COLOR_BOLD), job->id,
               color_off(cli, COLOR_BOLD), color_on(cli, color), tend_state_name(job->state),
               color_off(cli, color), job->phase ? " (" : "", job->phase ? job->phase : "",
               job->phase ? ")" : "");
}

static void put_limits(struct cli *cli, const struct tend_job *job)
{
    char text[DURATION_TEXT_BYTES * 3 + 32];
    int64_t attempts = job->max_attempts;
    if (attempts == TEND_UNSET)
        snprintf(text, sizeof text, "%" PRId64, job->attempts);
    else
        snprintf(text, sizeof text, "%" PRId64 " of %" PRId64, job->attempts, attempts);
    put_line(cli, "attempts", text);
    if (job->crashes > 0) {
        snprintf(text, sizeof text, "%" PRId64, job->crashes);
        put_line(cli, "crashes", text);
    }
    if (job->lease_ms != TEND_UNSET)
        put_line(cli, "lease length", duration_text(job->lease_ms, text));
    if (job->backoff_ms != TEND_UNSET)
        put_line(cli, "backoff", duration_text(job->backoff_ms, text));
    if (job->backoff_max_ms != TEND_UNSET)
        put_line(cli, "backoff-max", duration_text(job->backoff_max_ms, text));
}

/* As whoever writes next will find it, which is not always what the store has. */
static int64_t end_of_lease(const struct tend_job *job, const struct tend_explanation *explanation)
{
    bool told =
        strcmp(explanation->reason, "leased") == 0 || strcmp(explanation->reason, "warned") == 0;
    return told ? explanation->until_ms : job->until_ms;
}

static void put_lease(struct cli *cli, const struct tend_job *job,
                      const struct tend_explanation *explanation, int64_t now_ms)
{
    if (job->state != TEND_RUNNING)
        return;
    char lease[64];
    snprintf(lease, sizeof lease, "%" PRId64 ":%" PRId64 "%s", job->id, job->token,
             job->started_at_ms == TEND_UNSET ? " (not started)" : "");
    put_line(cli, "owner", job->owner);
    put_line(cli, "lease", lease);
    put_time(cli, "until", end_of_lease(job, explanation), now_ms);
    put_time(cli, "started", job->started_at_ms, now_ms);
    put_time(cli, "last sign", job->seen_at_ms, now_ms);
}

/* Of a job that was started over, the last error is no longer how things stand. */
static void put_error(struct cli *cli, const struct tend_job *job)
{
    if (job->state == TEND_DONE) /* an older tend has left it there */
        return;
    if (!job_failed_before_retry(job)) {
        put_line(cli, "error class", job->error_class);
        put_line(cli, "error", job->error_text);
        return;
    }
    struct buf last;
    buf_init(&last);
    buf_printf(&last, "before the retry: %s%s%s", job->error_class, job->error_text ? ": " : "",
               job->error_text ? job->error_text : "");
    put_line(cli, "last error", last.data);
    buf_done(&last);
}

static void put_job(struct cli *cli, const struct tend_job *job,
                    const struct tend_explanation *explanation, int64_t now_ms)
{
    char priority[16];
    snprintf(priority, sizeof priority, "%d", job->priority);
    put_head(cli, job);
    put_line(cli, "queue", job->queue);
    put_line(cli, "kind", job->kind);
    put_line(cli, "priority", priority);
    put_line(cli, "tags", job->tags);
    put_line(cli, "unique key", job->unique_key);
    put_line(cli, "subject", job->subject);
    put_line(cli, "key", job->concurrency_key);
    put_line(cli, "folder", job->workspace);
    put_line(cli, "schedule", job->schedule);
    put_time(cli, "run of", job->nominal_at_ms, now_ms);
    put_limits(cli, job);
    put_lease(cli, job, explanation, now_ms);
    put_time(cli, "created", job->created_at_ms, now_ms);
    if (job->state == TEND_SCHEDULED || job->state == TEND_PENDING)
        put_time(cli, "due", job->due_at_ms, now_ms);
    put_time(cli, "finished", job->finished_at_ms, now_ms);
    put_error(cli, job);
}

static void put_json(struct cli *cli, const char *title, const char *json, size_t bytes)
{
    if (!json)
        return;
    buf_printf(&cli->out, "\n%s%s%s\n", color_on(cli, COLOR_BOLD), title,
               color_off(cli, COLOR_BOLD));
    json_pretty(&cli->out, json, bytes, "  ");
}

static void put_explanation(struct cli *cli, const struct tend_explanation *explanation)
{
    if (!*explanation->text)
        return;
    buf_putc(&cli->out, '\n');
    put_clean(&cli->out, explanation->text);
    buf_putc(&cli->out, '\n');
    if (*explanation->hint)
        buf_printf(&cli->out, "%s\n", explanation->hint);
}

static const struct column columns[] = {
    {"  WHEN", COLUMN_LEFT}, {"WHAT", COLUMN_LEFT}, {"BY", COLUMN_WIDE}, {"WHY", COLUMN_WIDE}};

static int put_history(struct cli *cli, const struct tend_events *events)
{
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < events->count; i++) {
        const struct tend_event *event = &events->items[i];
        char time[TIME_TEXT_BYTES];
        table_cell(&table, COLOR_DIM, "  %s", time_text(event->at_ms, time));
        table_cell(&table, color_of_state(event->to_state), "%s", event->what);
        table_cell(&table, COLOR_NONE, "%s", event->who);
        table_cell(&table, COLOR_NONE, "%s", event->why ? event->why : "");
    }
    buf_printf(&cli->out, "\n%shistory%s\n", color_on(cli, COLOR_BOLD), color_off(cli, COLOR_BOLD));
    int status = table_print(&table, cli);
    table_done(&table);
    return status;
}

static void print_document(struct cli *cli, const struct tend_job *job,
                           const struct job_steps *steps, const struct tend_events *events)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_job(out, "job", job, false);
    job_steps_json(cli, steps);
    json_open(out, "events", '[');
    for (size_t i = 0; i < events->count; i++)
        json_event(out, NULL, &events->items[i]);
    json_close(out, ']');
    json_close(out, '}');
    buf_putc(out, '\n');
}

static int show(struct cli *cli, const struct tend_job *job, const struct job_steps *steps)
{
    struct tend_events *events;
    int code = tend_job_events(cli->store, job->id, &events);
    if (code < 0)
        return cli_fail_store(cli, code);
    int status = EXIT_DONE;
    if (cli->json) {
        print_document(cli, job, steps, events);
    } else {
        int64_t now_ms = cli_now_ms(cli);
        struct tend_explanation explanation = {0}; /* stays so if it cannot be had */
        tend_explain(cli->store, job->id, &explanation);
        put_job(cli, job, &explanation, now_ms);
        put_explanation(cli, &explanation);
        put_json(cli, "payload", job->payload, job->payload_bytes);
        put_json(cli, "result", job->result, job->result ? strlen(job->result) : 0);
        status = job_steps_print(cli, steps, now_ms);
        if (status == EXIT_DONE)
            status = put_history(cli, events);
    }
    tend_events_free(events);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int64_t id;
    int status = argument_id(cli, argv[0], &id);
    if (status != EXIT_DONE)
        return status;
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, id, &jobs);
    if (code < 0)
        return cli_fail_store(cli, code);
    struct job_steps steps;
    status = job_steps_read(cli, id, &steps);
    if (status == EXIT_DONE)
        status = show(cli, &jobs->items[0], &steps);
    job_steps_done(&steps);
    tend_jobs_free(jobs);
    return status;
}

const struct command cmd_show = {
    .name = "show",
    .group = "Jobs",
    .form = "ID",
    .text = "show a job with its payload, steps and history",
    .about =
        "Of each attempt of a step: its number in the life of the job, which try of the step it was, "
        "how it ended, the class of the failure, the rule that decided it and the line that "
        "matched. With --json one document {\"job\": …, \"attempts\": […], \"checkpoints\": […], "
        "\"controls\": […], \"kept\": […], \"edits\": …, \"events\": […]}. What is kept of failed attempts, and "
        "where and until when, stands under \"kept for you\".",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run,
};
