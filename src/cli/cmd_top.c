/*
 * tend top: queues, workers and running steps, live (top_look.h has what is shown).
 *
 * On a terminal it is drawn on the alternate screen, which is left as it was found however the
 * command ends; elsewhere one look is printed as text. The store is asked by another thread
 * (asking.h): while it is away the last look stays, with a line that says so, and keys work.
 */
#include "base/clock.h"
#include "base/timetext.h"
#include "cli/asking.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/json_step.h"
#include "cli/pen.h"
#include "cli/queue_text.h"
#include "cli/top_look.h"

#include <stdio.h>
#include <stdlib.h>
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
    USUAL_ROWS = 24,
    ROWS_MAX = 1000, /* of a table, where there is no terminal to fill */
};

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
    json_attempts(out, "waiting", look->waiting);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static int print_once(struct cli *cli)
{
    struct look look;
    int code = look_read(cli->store, &look);
    int status = code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
    if (status == EXIT_DONE && cli->json)
        put_document(cli, &look);
    else if (status == EXIT_DONE)
        status = look_put(cli, &look, ROWS_MAX, "");
    look_done(&look);
    return status;
}

/* --- live --- */

/* What is on the terminal; on the heap, as the thread that asks may outlive the command. */
struct screen {
    struct cli *cli;
    struct look shown, next;
    struct termios before;
    bool keys;    /* the terminal was set to give single keys */
    size_t drawn; /* lines of the last frame */
};

/* What was put into the output becomes a frame: at most `rows` lines, each clearing its rest. */
static void make_frame(struct screen *screen, size_t rows)
{
    struct cli *cli = screen->cli;
    struct buf text = cli->out;
    buf_init(&cli->out);
    buf_puts(&cli->out, "\033[H");
    const char *at = text.data;
    for (screen->drawn = 0; *at && screen->drawn < rows; screen->drawn++) {
        const char *end = strchrnul(at, '\n');
        buf_puts(&cli->out, screen->drawn == 0 ? "" : "\r\n");
        buf_append(&cli->out, at, (size_t)(end - at));
        buf_puts(&cli->out, "\033[K");
        at = *end ? end + 1 : end;
    }
    buf_puts(&cli->out, "\033[J");
    buf_done(&text);
}

/* 0, or an exit status. */
static int draw(struct screen *screen, const char *notice)
{
    struct cli *cli = screen->cli;
    size_t rows;
    size_t columns;
    terminal_size(&rows, &columns);
    if (columns > 1)
        cli->width = columns - 1;
    rows = rows > 0 ? rows : USUAL_ROWS;
    if (screen->shown.stats) {
        int status = look_put(cli, &screen->shown, rows > 12 ? (rows - 8) / 2 : 2, notice);
        if (status != EXIT_DONE)
            return status;
    } else {
        struct pen pen = {.cli = cli, .width = cli->width, .left = cli->width};
        pen_put(&pen, COLOR_RED, "%s", notice);
    }
    make_frame(screen, rows);
    return cli_flush(cli);
}

static void draw_away(void *arg, int64_t since_ms, const char *why)
{
    char since[TIME_TEXT_BYTES];
    char for_long[DURATION_TEXT_BYTES];
    char notice[1200];
    int64_t away_ms = clock_wall_ms() - since_ms;
    snprintf(notice, sizeof notice, "the store is away since %s (%s)%s%s",
             time_text(since_ms / 1000 * 1000, since), span_text(away_ms, for_long),
             *why ? ": " : "", why);
    draw(arg, notice);
}

static int read_next(tend *store, void *arg)
{
    struct screen *screen = arg;
    look_done(&screen->next);
    return look_read(store, &screen->next);
}

/* Keys that would stop or kill the command as it stands, with the terminal in its hands, do not. */
static void enter(struct screen *screen)
{
    screen->keys = tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->keys) {
        struct termios silent = screen->before;
        silent.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        silent.c_cc[VSUSP] = silent.c_cc[VQUIT] = _POSIX_VDISABLE;
        tcsetattr(STDIN_FILENO, TCSANOW, &silent);
    }
    /* By itself, before the cursor is moved: its place is kept for the end. */
    buf_puts(&screen->cli->out, "\033[?1049h\033[?25l\033[?7l");
    cli_flush(screen->cli);
}

/* Terminals without another screen find the cursor below the last line. */
static void leave(struct screen *screen)
{
    struct cli *cli = screen->cli;
    buf_clear(&cli->out);
    buf_puts(&cli->out, "\033[0m\033[?7h\033[?25h");
    if (screen->drawn > 0)
        buf_printf(&cli->out, "\033[%zu;1H\r\n", screen->drawn);
    buf_puts(&cli->out, "\033[?1049l");
    cli_flush(cli);
    if (screen->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* 0, or a negative code. */
static int look_again_and_again(struct screen *screen, struct asking *asking)
{
    for (;;) {
        int code = asking_ask(asking, read_next, screen);
        if (code < 0)
            return code;
        struct look last = screen->shown;
        screen->shown = screen->next;
        screen->next = last;
        if (draw(screen, "") != EXIT_DONE || asking_pause(asking, REFRESH_MS) < 0)
            return 0;
    }
}

static int watch(struct cli *cli)
{
    struct screen *screen = calloc(1, sizeof *screen);
    if (!screen)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    screen->cli = cli;
    int key_fd = isatty(STDIN_FILENO) ? STDIN_FILENO : -1;
    struct asking *asking = asking_new(cli, key_fd, draw_away, screen);
    if (!asking) {
        free(screen);
        return EXIT_FAILED;
    }
    enter(screen);
    int code = look_again_and_again(screen, asking);
    leave(screen);
    /* Said on the screen that stays. */
    int status = code < 0 && code != TEND_EINTERRUPTED ? asking_fail(asking, code) : EXIT_DONE;
    asking_free(asking);
    if (!cli->store_left) {
        look_done(&screen->shown);
        look_done(&screen->next);
        free(screen);
    }
    return status;
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
        "Looks once a second; q or ^C ends it. While the store is away the last look stays, below a "
        "line that says since when. Where the output is no terminal, and with --once, what "
        "is there now is printed; with --json as one document {\"now_ms\", \"queues\", \"workers\", "
        "\"running\", \"waiting\"}: the attempts that run, and those after which a step waits for its next.",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
