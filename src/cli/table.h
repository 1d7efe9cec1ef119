/*
 * Rows and columns for people: straight columns, cut to the width of the terminal, never wrapped.
 *
 * Not for machines: those ask for --json. Rows are collected and printed a page at a time; the
 * widths of the first page stay, so that a million rows need the memory of one page.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cli;

enum color {
    COLOR_NONE,
    COLOR_BOLD,
    COLOR_DIM,
    COLOR_RED,
    COLOR_GREEN,
    COLOR_YELLOW,
    COLOR_BLUE,
    COLOR_MAGENTA,
    COLOR_CYAN,
};

enum column_kind {
    COLUMN_LEFT,
    COLUMN_RIGHT, /* numbers */
    COLUMN_WIDE,  /* text that may be cut when the terminal is narrow */
};

struct column {
    const char *title;
    enum column_kind kind;
};

struct table_cell {
    const char *text;
    size_t bytes;
    size_t width;
    enum color color;
};

enum { TABLE_COLUMNS_MAX = 16 };

struct table {
    const struct column *columns;
    size_t column_count;
    size_t widths[TABLE_COLUMNS_MAX];
    bool fitted; /* the widths are settled and the titles printed */
    bool failed; /* out of memory */
    struct table_cell *cells;
    size_t cell_count, cell_cap;
    struct arena texts;
};

void table_init(struct table *table, const struct column *columns, size_t column_count);
void table_done(struct table *table);

/* The next cell of the current row; a row is full after column_count of them. */
void table_cell(struct table *table, enum color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The beginning of a text that may be of any length, with "…" where it was cut; also where there is
 * no terminal to cut it. As long as the table. */
const char *table_cut(struct table *table, const char *text);
/* A number, or "-" for TEND_UNSET. */
void table_number(struct table *table, enum color color, long long number);

/* Appends all rows collected so far to the output, and forgets them. 0, or an exit status. */
int table_print(struct table *table, struct cli *cli);

/* Text from a job or an event on one line: control characters become blanks. */
void put_clean(struct buf *out, const char *text);

/* The colour in which a state is shown everywhere. */
enum color color_of_state(int state);
/* "\033[31m" and "\033[0m"; "" when there is no colour. */
const char *color_on(const struct cli *cli, enum color color);
const char *color_off(const struct cli *cli, enum color color);

#endif
