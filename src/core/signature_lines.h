/*
 * The last lines of a step's output, as text rules and signatures look at them.
 *
 * A line ends at a newline or carriage return (progress bars draw over themselves); blank ones do
 * not count, nor does the meter that curl leaves before its error. Not a terminal: escape sequences
 * are dropped, not obeyed.
 */
#ifndef CORE_SIGNATURE_LINES_H
#define CORE_SIGNATURE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TAIL_LINES = 200,         /* looked at, at most */
    TAIL_BYTES = 64 * 1024,   /* looked at, at most */
    LINE_BYTES = 2000,        /* of one line, looked at in one piece */
    PART_OVERLAP_BYTES = 200, /* pieces of a longer line share so much, so that no phrase is cut */
};

struct tail_line {
    const char *text;
    size_t len;
};

/* How long the progress meter is that curl has left in the line before its error message; 0: there
 * is none. */
size_t line_meter_bytes(const char *text, size_t len);

/* The last lines, the last one first. Returns how many there are. text may be NULL with len 0. */
size_t tail_lines(const char *text, size_t len, struct tail_line ret_lines[TAIL_LINES]);

/*
 * The line as a person sees it: no escape sequences, control characters as blanks, bytes that are
 * no UTF-8 as '?', blanks at both ends gone. Returns its length; out is NUL-terminated. Only the
 * first LINE_BYTES count.
 */
size_t tail_line_plain(struct tail_line line, char out[LINE_BYTES + 1]);

/* A line, or a piece of a long one, in plain text. */
struct line_part {
    const char *text;
    size_t len;
    bool first, last; /* piece of its line */
};

/* How many pieces there are: 1 for most lines. */
size_t tail_line_parts(struct tail_line line);

/* Piece `number` from 0; its text is in out. */
struct line_part tail_line_part(struct tail_line line, size_t number, char out[LINE_BYTES + 1]);

#endif
