/* See pen.h. */
#include "cli/pen.h"

#include "base/text.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_can_draw(const struct cli *cli)
{
    const char *term = getenv("TERM");
    return cli->width > 0 && !cli->json && term && strcmp(term, "dumb") != 0;
}

void terminal_size(size_t *ret_rows, size_t *ret_columns)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){.ws_row = 0};
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
}

struct pen frame_begin(struct frame *frame, struct cli *cli, size_t widest)
{
    size_t rows;
    size_t width;
    terminal_size(&rows, &width);
    width = (width > 1 ? width : cli->width) - 1;
    if (width > widest)
        width = widest;
    if (!frame->cursor_hidden)
        buf_puts(&cli->out, "\033[?25l");
    if (frame->drawn > 0 && width < frame->width)
        buf_puts(&cli->out, "\033[H\033[J"); /* a narrower terminal has wrapped what was there */
    else if (frame->drawn > 0)
        buf_printf(&cli->out, "\r\033[%dA", frame->drawn);
    frame->cursor_hidden = true;
    frame->width = width;
    return (struct pen){.cli = cli, .width = width, .left = width};
}

void frame_end(struct frame *frame, const struct pen *pen)
{
    buf_puts(&pen->cli->out, "\033[J");
    frame->drawn = pen->lines;
}

void frame_leave(struct frame *frame, struct cli *cli)
{
    if (frame->cursor_hidden)
        buf_puts(&cli->out, "\033[?25h");
    *frame = (struct frame){.drawn = 0};
}

void pen_put(struct pen *pen, enum color color, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t width = text_width(text, strlen(text));
    if (width > pen->left)
        width = pen->left;
    if (width == 0)
        return;
    buf_puts(&pen->cli->out, color_on(pen->cli, color));
    text_fit(&pen->cli->out, text, strlen(text), width, false);
    buf_puts(&pen->cli->out, color_off(pen->cli, color));
    pen->left -= width;
}

void pen_end_line(struct pen *pen)
{
    buf_puts(&pen->cli->out, "\033[K\n");
    pen->left = pen->width;
    pen->lines++;
}

void pen_put_column(struct pen *pen, enum color color, size_t columns, const char *text)
{
    if (columns > pen->left)
        columns = pen->left;
    if (columns == 0)
        return;
    buf_puts(&pen->cli->out, color_on(pen->cli, color));
    text_fit(&pen->cli->out, text, strlen(text), columns, true);
    buf_puts(&pen->cli->out, color_off(pen->cli, color));
    pen->left -= columns;
}
