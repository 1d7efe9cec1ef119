/* See queue_text.h. */
#include "cli/queue_text.h"

#include "base/rate.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <string.h>
#include <tend.h>

static void put_separator(struct buf *out)
{
    if (out->len > 0)
        buf_puts(out, ", ");
}

void queue_limits_text(struct buf *out, const struct tend_queue *queue)
{
    if (queue->paused)
        buf_printf(out, "paused%s%s", *queue->paused_why ? ": " : "", queue->paused_why);
    if (queue->serial) {
        put_separator(out);
        buf_puts(out, "serial");
    }
    if (queue->concurrency != TEND_UNSET) {
        put_separator(out);
        buf_printf(out, "concurrency %" PRId64, queue->concurrency);
    }
    if (queue->key_concurrency != TEND_UNSET) {
        put_separator(out);
        buf_printf(out, "%" PRId64 " per key", queue->key_concurrency);
    }
    if (queue->rate_count != TEND_UNSET) {
        char rate[RATE_TEXT_BYTES];
        put_separator(out);
        buf_puts(out, rate_text(queue->rate_count, queue->rate_period_ms, rate));
        if (queue->rate_strict)
            buf_puts(out, " strict");
    }
}

/* It has settings or jobs. */
static bool queue_exists(const struct tend_queue_stats *queue)
{
    int64_t jobs = 0;
    for (int state = 0; state < TEND_STATE_COUNT; state++)
        jobs += queue->jobs[state];
    return queue->settings.exists || jobs > 0;
}

void queue_stats_object(struct buf *out, const struct tend_queue_stats *queue)
{
    json_open(out, NULL, '{');
    json_queue_members(out, &queue->settings);
    json_bool(out, "exists", queue_exists(queue));
    json_open(out, "jobs", '{');
    for (int state = 0; state < TEND_STATE_COUNT; state++)
        json_int(out, tend_state_name(state), queue->jobs[state]);
    json_close(out, '}');
    json_int_or_null(out, "oldest_pending_ms", queue->oldest_pending_ms);
    json_close(out, '}');
}

bool queue_unknown_text(struct cli *cli, const char *name, const char *yet, struct buf *out)
{
    struct tend_stats *stats;
    if (tend_stats(cli->store, &stats) < 0)
        return false;
    struct suggestion near;
    suggestion_init(&near, name);
    bool known = false;
    for (size_t i = 0; i < stats->count; i++) {
        known |= strcmp(stats->items[i].settings.name, name) == 0;
        suggestion_offer(&near, stats->items[i].settings.name);
    }
    if (!known) {
        buf_printf(out, "there is no queue \"%s\"%s; ", name, yet);
        if (near.best)
            buf_printf(out, "did you mean \"%s\"?", near.best);
        else
            buf_puts(out, "'tend queues' lists them");
    }
    tend_stats_free(stats);
    return !known;
}

void queue_note_unknown(struct cli *cli, const char *name)
{
    struct buf text, line;
    buf_init(&text);
    buf_init(&line);
    bool unknown = queue_unknown_text(cli, name, "", &text);
    if (unknown && !cli->json) {
        cli_note(cli, "%s", text.data);
    } else if (unknown) {
        json_open(&line, NULL, '{');
        json_text(&line, "note", text.data);
        json_close(&line, '}');
        buf_putc(&line, '\n');
        cli_write_error(&line);
    }
    buf_done(&line);
    buf_done(&text);
}

void queue_stats_json(struct buf *out, const struct tend_queue_stats *queue)
{
    queue_stats_object(out, queue);
    buf_putc(out, '\n');
}
