/* See run_lines.h. */
#include "cli/run_lines.h"

#include "base/clock.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/run_screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECOND_MS = 1000,
    WIDEST = 160,
    USUAL_ROWS = 24,
    STEP_COLUMNS = 20,
    SILENT_SHOWN_MS = 3000, /* a shorter silence is nothing to look at */
    CLOCK_BYTES = 32,
};

/* --- news --- */

static const char *news_name(enum tend_news_kind kind)
{
    static const char *const names[] = {
        [TEND_NEWS_JOB_BEGINS] = "job_begins",
        [TEND_NEWS_STEP] = "step",
        [TEND_NEWS_JOB_ENDS] = "job_ends",
        [TEND_NEWS_NOTE] = "note",
    };
    return names[kind];
}

static const char *state_text(const struct tend_runner_news *news)
{
    if (news->state < 0)
        return NULL;
    return news->kind == TEND_NEWS_STEP ? tend_attempt_state_name(news->state)
                                        : tend_state_name(news->state);
}

static enum color news_color(const struct tend_runner_news *news)
{
    if (news->kind == TEND_NEWS_JOB_ENDS)
        return news->state < 0 ? COLOR_YELLOW : color_of_state(news->state);
    if (news->kind == TEND_NEWS_STEP && news->state == TEND_ATTEMPT_FAILED)
        return COLOR_YELLOW;
    return news->kind == TEND_NEWS_NOTE ? COLOR_NONE : COLOR_DIM;
}

static void put_json(struct buf *out, const struct screen_news *news)
{
    json_open(out, NULL, '{');
    json_int(out, "at_ms", news->at_ms);
    json_text(out, "event", news_name(news->news.kind));
    json_int_or_null(out, "job_id", news->news.job_id);
    json_text(out, "state", state_text(&news->news));
    json_text(out, "text", news->text);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static void put_text(struct cli *cli, const struct screen_news *news)
{
    enum color color = news_color(&news->news);
    buf_puts(&cli->out, color_on(cli, color));
    put_clean(&cli->out, news->text);
    buf_puts(&cli->out, color_off(cli, color));
}

void run_lines_plain(struct run_screen *screen, const struct screen_news *news)
{
    struct cli *cli = screen->cli;
    if (cli->json) {
        put_json(&cli->out, news);
        return;
    }
    char time[TIME_TEXT_BYTES];
    if (!*news->text)
        return;
    if (screen->stamps)
        buf_printf(&cli->out, "%s ", time_text(news->at_ms, time));
    put_text(cli, news);
    buf_putc(&cli->out, '\n');
}

/* --- what runs --- */

/* "0:07", "12:30", "3:04:05". */
static const char *clock_text(int64_t ms, char out[CLOCK_BYTES])
{
    int64_t s = ms < 0 ? 0 : ms / 1000;
    if (s < 3600)
        snprintf(out, CLOCK_BYTES, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    else
        snprintf(out, CLOCK_BYTES, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60,
                 s % 60);
    return out;
}

static void put_step_name(struct pen *pen, const struct tend_running *step)
{
    char name[sizeof step->title + sizeof step->step_id + 32];
    const char *called = *step->title ? step->title : step->step_id;
    if (step->step_count > 1)
        snprintf(name, sizeof name, "%" PRId64 "/%" PRId64 " %s", step->step_index,
                 step->step_count, called);
    else
        snprintf(name, sizeof name, "%s", called);
    pen_put_column(pen, COLOR_NONE, STEP_COLUMNS, name);
}

static void put_step(struct pen *pen, const struct tend_running *step)
{
    char clock[CLOCK_BYTES];
    pen_put(pen, COLOR_CYAN, " %6" PRId64 "  ", step->job_id);
    put_step_name(pen, step);
    if (step->pause_ms > 0) {
        pen_put(pen, COLOR_MAGENTA, "  attempt %" PRId64 " begins in %s", step->attempt,
                clock_text(step->pause_ms + SECOND_MS - 1, clock)); /* not 0:00 */
        pen_end_line(pen);
        return;
    }
    pen_put(pen, COLOR_NONE, " %7s", clock_text(step->running_ms, clock));
    if (step->silent_ms >= SILENT_SHOWN_MS)
        pen_put(pen, COLOR_YELLOW, "  silent %-5s", clock_text(step->silent_ms, clock));
    else
        pen_put(pen, COLOR_NONE, "  %-12s", "");
    if (step->attempt > 1)
        pen_put(pen, COLOR_MAGENTA, "  attempt %" PRId64, step->attempt);
    if (step->percent != TEND_UNSET)
        pen_put(pen, COLOR_GREEN, "  %" PRId64 "%%", step->percent);
    if (*step->text)
        pen_put(pen, COLOR_NONE, "  %s", step->text);
    if (*step->line)
        pen_put(pen, COLOR_DIM, "  %s", step->line);
    pen_end_line(pen);
}

static void put_total(struct pen *pen, enum color color, int64_t count, const char *word)
{
    if (count > 0)
        pen_put(pen, color, ", %" PRId64 " %s", count, word);
}

static void put_status(struct pen *pen, const struct run_screen *screen)
{
    char clock[CLOCK_BYTES];
    const struct tend_runner_totals *totals = &screen->totals;
    pen_put(pen, COLOR_BOLD, " %zu running", screen->running_count);
    put_total(pen, COLOR_GREEN, totals->done, "done");
    put_total(pen, COLOR_RED, totals->failed, "failed");
    put_total(pen, COLOR_BLUE, totals->retried, "tried again later");
    put_total(pen, COLOR_MAGENTA, totals->held, "held");
    put_total(pen, COLOR_NONE, totals->given_back, "given back");
    pen_put(pen, COLOR_DIM, "  %s", clock_text(clock_mono_ms() - screen->began_ms, clock));
    pen_end_line(pen);
}

/* In the order of their jobs, so that lines stay where they are. */
static int by_job(const void *a, const void *b)
{
    const struct tend_running *one = a;
    const struct tend_running *two = b;
    return (one->job_id > two->job_id) - (one->job_id < two->job_id);
}

/* As many as there is room for, and how many more there are. */
static void put_steps(struct pen *pen, struct tend_running *steps, size_t count)
{
    size_t rows;
    size_t columns;
    terminal_size(&rows, &columns);
    size_t room = (rows > 6 ? rows : USUAL_ROWS) - 4;
    size_t shown = count <= room ? count : room - 1;
    qsort(steps, count, sizeof *steps, by_job);
    for (size_t i = 0; i < shown; i++)
        put_step(pen, &steps[i]);
    if (shown < count) {
        pen_put(pen, COLOR_DIM, "         and %zu more", count - shown);
        pen_end_line(pen);
    }
}

void run_lines_draw(struct run_screen *screen, const struct screen_news *news, bool last)
{
    struct cli *cli = screen->cli;
    struct pen pen = frame_begin(&screen->frame, cli, WIDEST);
    for (; news; news = news->next) {
        if (!*news->text)
            continue;
        put_text(cli, news);
        buf_puts(&cli->out, "\033[K\n");
    }
    if (!last) {
        put_steps(&pen, screen->running, screen->running_count);
        put_status(&pen, screen);
    }
    frame_end(&screen->frame, &pen);
    if (last)
        frame_leave(&screen->frame, cli);
}
