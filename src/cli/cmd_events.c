/* tend events: what happened, and what happens. */
#include "base/timetext.h"
#include "cli/arguments.h"
#include "cli/asking.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/table.h"

#include <inttypes.h>

static struct {
    bool follow;
    const char *job;
    int64_t since, limit;
} args = {.since = TEND_UNSET};

static const struct option options[] = {
    OPTION("follow", 'f', NULL, OPTION_FLAG, "go on with what happens, until interrupted",
           &args.follow),
    OPTION(
        "job", 0, "ID", OPTION_TEXT,
        "only events of this job, from its beginning or the last ones (-n); also of one that was deleted",
        &args.job),
    OPTION("since", 0, "N", OPTION_INT, "events after number N (default: the last ones)",
           &args.since, .min = 0, .max = INT64_MAX),
    OPTION("limit", 'n', "N", OPTION_INT,
           "at most this many; without --since the last ones (default 20, with --job all)",
           &args.limit, .min = 1, .max = INT64_MAX),
    OPTION_END,
};

enum { PAGE = 1000, LAST = 20, WAIT_MS = 5000 };

/* One event on one line, without columns: it must be readable as it comes in. */
static void put_event(struct cli *cli, const struct tend_event *event)
{
    struct buf *out = &cli->out;
    if (cli->json) {
        json_event(out, NULL, event);
        buf_putc(out, '\n');
        return;
    }
    char time[TIME_TEXT_BYTES];
    enum color color = color_of_state(event->to_state);
    buf_printf(out, "%s%" PRId64 " %s%s %s%-20s%s", color_on(cli, COLOR_DIM), event->id,
               time_text(event->at_ms, time), color_off(cli, COLOR_DIM), color_on(cli, color),
               event->what, color_off(cli, color));
    if (event->job_id != TEND_UNSET)
        buf_printf(out, " job %" PRId64, event->job_id);
    if (event->queue)
        buf_printf(out, " in %s", event->queue);
    if (event->from_state >= 0 && event->to_state >= 0 && event->from_state != event->to_state)
        buf_printf(out, ", %s -> %s", tend_state_name(event->from_state),
                   tend_state_name(event->to_state));
    bool bare = event->job_id == TEND_UNSET && !event->queue;
    buf_printf(out, "%s by %s", bare ? "" : ",", event->who);
    if (event->why) {
        buf_puts(out, ": ");
        put_clean(out, event->why);
    }
    if (event->data) {
        buf_putc(out, ' ');
        put_clean(out, event->data);
    }
    buf_putc(out, '\n');
}

/* Prints those of the page that are wanted; *left counts down. */
static int put_page(struct cli *cli, const struct tend_events *events, int64_t job_id,
                    int64_t *left)
{
    for (size_t i = 0; i<events->count && * left> 0; i++) {
        const struct tend_event *event = &events->items[i];
        if (job_id != 0 && event->job_id != job_id)
            continue;
        put_event(cli, event);
        (*left)--;
    }
    return cli_flush_if_large(cli);
}

/* Static, as the thread that asks may outlive the command. */
static struct {
    int64_t after;
    struct tend_events *events;
} page;

static int ask_page(tend *store, void *arg)
{
    (void)arg;
    return tend_events_since(store, page.after, PAGE, &page.events);
}

static int ask_for_news(tend *store, void *arg)
{
    (void)arg;
    return tend_wait(store, WAIT_MS);
}

static int failed(struct cli *cli, const struct asking *asking, int code)
{
    return asking ? asking_fail(asking, code) : cli_fail_store(cli, code);
}

/* Everything behind page.after, and with -f (asking) all that comes. */
static int print_pages(struct cli *cli, struct asking *asking, int64_t job_id, int64_t left)
{
    int status = EXIT_DONE;
    while (status == EXIT_DONE && left > 0) {
        int code = asking ? asking_ask(asking, ask_page, NULL) : ask_page(cli->store, NULL);
        if (code < 0)
            return failed(cli, asking, code);
        size_t count = page.events->count;
        status = put_page(cli, page.events, job_id, &left);
        if (count > 0)
            page.after = page.events->items[count - 1].id;
        tend_events_free(page.events);
        if (count > 0)
            continue;
        if (!asking)
            break;
        status = cli_flush(cli);
        code = status == EXIT_DONE ? asking_ask_patiently(asking, ask_for_news, NULL, WAIT_MS) : 0;
        if (code < 0)
            return failed(cli, asking, code);
    }
    return status;
}

static int print_since(struct cli *cli, int64_t after, int64_t job_id, int64_t left)
{
    page.after = after;
    if (!args.follow)
        return print_pages(cli, NULL, job_id, left);
    struct asking *asking = asking_new(cli, -1, NULL, NULL);
    if (!asking)
        return EXIT_FAILED;
    int status = print_pages(cli, asking, job_id, left);
    asking_free(asking);
    return status;
}

/* A job's history; with -f it goes on behind the last of it. */
static int print_job(struct cli *cli, int64_t job_id)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, job_id, &jobs);
    struct tend_events *events;
    int events_code = tend_job_events(cli->store, job_id, &events);
    if (events_code < 0)
        return cli_fail_store(cli, events_code);
    /* A job that was deleted may have left its history. */
    if (code < 0 && events->count == 0) {
        tend_events_free(events);
        return cli_fail(cli, code, "events: there is no job %" PRId64 "; 'tend jobs' lists them",
                        job_id);
    }
    if (code == 0)
        tend_jobs_free(jobs);
    bool tail = args.since == TEND_UNSET && args.limit; /* else the first ones */
    int64_t left = args.limit && !tail ? args.limit : INT64_MAX;
    int64_t last = args.since == TEND_UNSET ? 0 : args.since;
    size_t first =
        tail && events->count > (uint64_t)args.limit ? events->count - (size_t)args.limit : 0;
    for (size_t i = first; i < events->count && left > 0; i++) {
        if (events->items[i].id <= last)
            continue;
        last = events->items[i].id;
        put_event(cli, &events->items[i]);
        left--;
    }
    tend_events_free(events);
    return args.follow ? print_since(cli, last, job_id, left) : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (args.job) {
        int64_t job_id;
        int status = argument_id(cli, args.job, &job_id);
        return status == EXIT_DONE ? print_job(cli, job_id) : status;
    }
    if (args.since != TEND_UNSET)
        return print_since(cli, args.since, 0, args.limit ? args.limit : INT64_MAX);
    int64_t after;
    int code = tend_events_tail(cli->store, args.limit ? args.limit : LAST, &after);
    if (code < 0)
        return cli_fail_store(cli, code);
    return print_since(cli, after, 0, INT64_MAX);
}

const struct command cmd_events = {
    .name = "events",
    .group = "Operation",
    .text = "what happened, and with -f what happens",
    .about =
        "Every change of a job, queue, lock, worker or schedule leaves an event in the same transaction. "
        "Numbers only grow, so --since with the last number seen continues without a gap. With -f, while "
        "the store is away a line on standard error says since when.",
    .examples = "tend events -f\n"
                "tend events --job 12\n"
                "tend events --json --since 4711",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
