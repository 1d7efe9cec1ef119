/*
 * The view of a demo: a bar, a line per worker and the story below, redrawn in place; or, where
 * there is no terminal, the lines of the story alone. See demo.h.
 * It only grows, and only at its end.
 */
#include "cli/demo.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDEST = 100,
    LEAST_ROWS = 20,
    FIGURES_COLUMNS = 38, /* beside the bar */
    WORKER_COLUMNS = 64,  /* beside a worker's share */
    SHARE_COLUMNS = 20,   /* of that, where there is room */
};

const char *demo_number(int64_t number, char out[DEMO_NUMBER_BYTES])
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRId64, number);
    char *at = out;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0 && digits[i - 1] != '-')
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return out;
}

/* A bar of so many columns, filled by halves of a column. */
static void put_bar(struct pen *pen, enum color color, int part, int whole, size_t columns)
{
    if (part > whole)
        part = whole;
    size_t halves = (size_t)part * 2 * columns / (size_t)whole;
    for (size_t i = 0; i < halves / 2; i++)
        pen_put(pen, color, "━");
    if (halves % 2)
        pen_put(pen, color, "╸");
    for (size_t i = (halves + 1) / 2; i < columns; i++)
        pen_put(pen, COLOR_DIM, "─");
}

/* --- the parts of the view --- */

static void rate_add(struct demo_rate *rate, int64_t now_ns, int done)
{
    size_t slots = sizeof rate->done / sizeof rate->done[0];
    rate->at_ns[rate->next] = now_ns;
    rate->done[rate->next] = done;
    rate->next = (rate->next + 1) % slots;
    if (rate->count < slots)
        rate->count++;
}

/* Jobs a second: lately, and over the whole time once all are done. */
static int64_t rate_of(const struct demo_rate *rate, const struct demo_ledger *ledger)
{
    size_t slots = sizeof rate->done / sizeof rate->done[0];
    size_t oldest = (rate->next + slots - rate->count) % slots;
    size_t newest = (rate->next + slots - 1) % slots;
    int64_t ms = (rate->at_ns[newest] - rate->at_ns[oldest]) / 1000000;
    int64_t done = rate->done[newest] - rate->done[oldest];
    if (ledger->done == DEMO_JOBS) {
        ms = ledger->ended_at_ms - ledger->began_at_ms;
        done = DEMO_JOBS;
    }
    return ms > 0 ? done * 1000 / ms : 0;
}

static int64_t elapsed_ms(const struct demo_screen *screen)
{
    return (clock_mono_ns() - screen->began_ns) / 1000000;
}

static void put_progress(struct pen *pen, const struct demo_screen *screen,
                         const struct demo_ledger *ledger)
{
    char done[DEMO_NUMBER_BYTES], all[DEMO_NUMBER_BYTES];
    size_t columns = pen->width > FIGURES_COLUMNS + 8 ? pen->width - FIGURES_COLUMNS : 8;
    pen_put(pen, COLOR_NONE, "  ");
    put_bar(pen, COLOR_GREEN, ledger->done, DEMO_JOBS, columns);
    pen_put(pen, COLOR_BOLD, "  %5s", demo_number(ledger->done, done));
    pen_put(pen, COLOR_NONE, " of %s", demo_number(DEMO_JOBS, all));
    pen_put(pen, COLOR_DIM, "  %4" PRId64 "/s  %4.1fs", rate_of(&screen->rate, ledger),
            (double)elapsed_ms(screen) / 1000);
    pen_end_line(pen);
}

struct face {
    const char *sign, *word;
    enum color color;
};

static struct face face_of(const struct demo_member *member, const struct demo_ledger *ledger,
                           const struct demo_account *account)
{
    if (member->state == MEMBER_KILLED)
        return (struct face){"✖", "killed", COLOR_RED};
    if (member->state == MEMBER_MISSING)
        return (struct face){"✖", "gone", COLOR_RED};
    if (ledger->done == DEMO_JOBS || member->state == MEMBER_LEFT)
        return (struct face){"✔", "finished", COLOR_GREEN};
    if (!account->joined)
        return (struct face){"○", "starting", COLOR_DIM};
    return (struct face){"●", account->holds > 0 ? "working" : "waiting", COLOR_CYAN};
}

static void put_worker(struct pen *pen, const struct demo_crew *crew,
                       const struct demo_ledger *ledger, int worker)
{
    const struct demo_member *member = &crew->members[worker];
    const struct demo_account *account = &ledger->accounts[worker];
    struct face face = face_of(member, ledger, account);
    pen_put(pen, face.color, "  %s %s", face.sign, member->name);
    if (member->pid > 0)
        pen_put(pen, COLOR_DIM, "  pid %-7d", (int)member->pid);
    else
        pen_put(pen, COLOR_DIM, "  %-11s", "");
    pen_put(pen, face.color, "  %-8s  ", face.word);
    size_t room = pen->width > WORKER_COLUMNS ? pen->width - WORKER_COLUMNS : 0;
    put_bar(pen, face.color, account->completed, DEMO_JOBS * 2 / 5,
            room < SHARE_COLUMNS ? room : SHARE_COLUMNS);
    pen_put(pen, COLOR_NONE, "  %4d done", account->completed);
    if (account->taken_over > 0)
        pen_put(pen, COLOR_GREEN, "  +%d taken over", account->taken_over);
    else if (worker == ledger->victim)
        pen_put(pen, COLOR_RED, "  held %d", demo_ledger_held(ledger, worker));
    pen_end_line(pen);
}

static void put_story(struct pen *pen, const struct demo_screen *screen)
{
    for (size_t i = 0; i < screen->line_count; i++) {
        const struct demo_line *line = &screen->lines[i];
        pen_put(pen, COLOR_DIM, "  %4.1fs  ", (double)line->at_ms / 1000);
        pen_put(pen, line->color, "%s", line->text);
        pen_end_line(pen);
    }
}

/* --- the view as a whole --- */

void demo_screen_init(struct demo_screen *screen, struct cli *cli)
{
    *screen = (struct demo_screen){.cli = cli, .began_ns = clock_mono_ns()};
    size_t rows;
    size_t columns;
    terminal_size(&rows, &columns);
    screen->live = terminal_can_draw(cli) && (rows == 0 || rows >= LEAST_ROWS);
}

void demo_screen_say(struct demo_screen *screen, enum color color, const char *format, ...)
{
    if (screen->line_count == DEMO_LINES_MAX)
        return;
    struct demo_line *line = &screen->lines[screen->line_count++];
    line->at_ms = elapsed_ms(screen);
    line->color = color;
    va_list args;
    va_start(args, format);
    vsnprintf(line->text, sizeof line->text, format, args);
    va_end(args);
    struct cli *cli = screen->cli;
    if (screen->live || cli->json)
        return;
    buf_printf(&cli->out, "%4.1fs  %s%s%s\n", (double)line->at_ms / 1000, color_on(cli, color),
               line->text, color_off(cli, color));
}

static void draw_frame(struct demo_screen *screen, const struct demo_crew *crew,
                       const struct demo_ledger *ledger)
{
    struct pen pen = frame_begin(&screen->frame, screen->cli, WIDEST);
    pen_end_line(&pen);
    pen_put(&pen, COLOR_BOLD, "  tend demo");
    pen_put(&pen, COLOR_DIM, "  a real store, %d real workers, one kill -9", DEMO_WORKERS);
    pen_end_line(&pen);
    pen_end_line(&pen);
    put_progress(&pen, screen, ledger);
    pen_end_line(&pen);
    for (int i = 0; i < DEMO_WORKERS; i++)
        put_worker(&pen, crew, ledger, i);
    pen_end_line(&pen);
    put_story(&pen, screen);
    frame_end(&screen->frame, &pen);
}

int demo_screen_draw(struct demo_screen *screen, const struct demo_crew *crew,
                     const struct demo_ledger *ledger)
{
    rate_add(&screen->rate, clock_mono_ns(), ledger->done);
    if (screen->live)
        draw_frame(screen, crew, ledger);
    return cli_flush(screen->cli);
}

void demo_screen_done(struct demo_screen *screen)
{
    frame_leave(&screen->frame, screen->cli);
    cli_flush(screen->cli);
}
