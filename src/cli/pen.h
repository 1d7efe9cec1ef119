/*
 * Drawing in place on a terminal: a frame of lines that goes over the one before, and the pen that
 * writes its lines, cut at the edge.
 *
 * Steady by three rules: a frame is one write, goes over the last one instead of clearing it, and
 * never has a line that is as wide as the terminal. Not for output that is no terminal.
 */
#ifndef CLI_PEN_H
#define CLI_PEN_H

#include "cli/table.h"

#include <stdbool.h>
#include <stddef.h>

struct cli;

/* What stands on the terminal now. */
struct frame {
    int drawn;    /* lines */
    size_t width; /* of a line */
    bool cursor_hidden;
};

struct pen {
    struct cli *cli;
    size_t width; /* of a line */
    size_t left;  /* of the present one */
    int lines;    /* ended so far */
};

/* Whether frames can be drawn on standard output: a terminal that can move its cursor, no --json.
 */
bool terminal_can_draw(const struct cli *cli);
/* Rows and columns of the terminal; 0 where they cannot be told. */
void terminal_size(size_t *ret_rows, size_t *ret_columns);

/* The cursor goes to where the last frame began; no line is wider than `widest` columns. */
struct pen frame_begin(struct frame *frame, struct cli *cli, size_t widest);
/* What the pen has written is the frame; what was below it of the last one goes. */
void frame_end(struct frame *frame, const struct pen *pen);
/* The cursor is shown again, below the frame, which stays. */
void frame_leave(struct frame *frame, struct cli *cli);

void pen_put(struct pen *pen, enum color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Cut or filled up to so many columns. */
void pen_put_column(struct pen *pen, enum color color, size_t columns, const char *text);
void pen_end_line(struct pen *pen);

#endif
