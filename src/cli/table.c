/* See table.h. */
#include "cli/table.h"

#include "base/text.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of text give way down to NARROW, then all but the first, which tells rows apart, down to
 * NARROWEST. */
enum { GAP = 2, NARROW = 8, NARROWEST = 4, CUT_BYTES = 200 };

void table_init(struct table *table, const struct column *columns, size_t column_count)
{
    *table = (struct table){.columns = columns, .column_count = column_count};
    arena_init(&table->texts);
}

void table_done(struct table *table)
{
    free(table->cells);
    arena_done(&table->texts);
}

static struct table_cell *new_cell(struct table *table)
{
    if (table->cell_count == table->cell_cap) {
        size_t cap = table->cell_cap ? 2 * table->cell_cap : 256;
        struct table_cell *cells = reallocarray(table->cells, cap, sizeof *cells);
        if (!cells)
            return NULL;
        table->cells = cells;
        table->cell_cap = cap;
    }
    return &table->cells[table->cell_count++];
}

static void add_cell(struct table *table, enum color color, const char *text)
{
    struct table_cell *cell = text ? new_cell(table) : NULL;
    if (!cell) {
        table->failed = true;
        return;
    }
    size_t bytes = strlen(text);
    *cell = (struct table_cell){
        .text = text, .bytes = bytes, .width = text_width(text, bytes), .color = color};
}

void table_cell(struct table *table, enum color color, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *formatted;
    int len = vasprintf(&formatted, format, args);
    va_end(args);
    if (len < 0) {
        table->failed = true;
        return;
    }
    add_cell(table, color, arena_strndup(&table->texts, formatted, (size_t)len));
    free(formatted);
}

const char *table_cut(struct table *table, const char *text)
{
    size_t len = strlen(text);
    if (len <= CUT_BYTES)
        return text;
    const char *cut =
        arena_printf(&table->texts, "%.*s…", (int)utf8_floor(text, len, CUT_BYTES), text);
    table->failed |= cut == NULL;
    return cut ? cut : "";
}

void table_number(struct table *table, enum color color, long long number)
{
    if (number == TEND_UNSET)
        table_cell(table, COLOR_DIM, "-");
    else
        table_cell(table, color, "%lld", number);
}

static size_t total_width(const struct table *table)
{
    size_t total = (table->column_count - 1) * GAP;
    for (size_t i = 0; i < table->column_count; i++)
        total += table->widths[i];
    return total;
}

/* The widest column of text that can still give way, or column_count. */
static size_t widest(const struct table *table, size_t narrowest)
{
    size_t found = table->column_count;
    bool first = true;
    for (size_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].kind != COLUMN_WIDE)
            continue;
        size_t floor = first ? NARROW : narrowest;
        first = false;
        if (table->widths[i] <= floor)
            continue;
        if (found == table->column_count || table->widths[i] > table->widths[found])
            found = i;
    }
    return found;
}

static void narrow_columns(struct table *table, size_t terminal_width, size_t narrowest)
{
    size_t column;
    while (total_width(table) > terminal_width &&
           (column = widest(table, narrowest)) < table->column_count)
        table->widths[column]--;
}

/* What is still too wide is cut at the edge by put_cell. */
static void fit_columns(struct table *table, size_t terminal_width)
{
    for (size_t i = 0; i < table->column_count; i++)
        table->widths[i] = strlen(table->columns[i].title);
    for (size_t i = 0, column = 0; i < table->cell_count; i++, column++) {
        if (column == table->column_count)
            column = 0;
        if (table->cells[i].width > table->widths[column])
            table->widths[column] = table->cells[i].width;
    }
    if (terminal_width > 0) {
        narrow_columns(table, terminal_width, NARROW);
        narrow_columns(table, terminal_width, NARROWEST);
    }
}

static void put_blanks(struct buf *out, size_t count)
{
    while (count-- > 0)
        buf_putc(out, ' ');
}

/* left: columns to the edge of the terminal; nothing goes beyond it. */
static void put_cell(const struct table *table, struct cli *cli, size_t column,
                     const struct table_cell *cell, size_t *left)
{
    struct buf *out = &cli->out;
    size_t gap = column > 0 ? GAP : 0;
    size_t width = table->widths[column];
    if (*left <= gap)
        return;
    *left -= gap;
    if (width > *left)
        width = *left;
    /* Where nothing is to be cut a cell may stand out: a later page can be wider than the first. */
    size_t room = cli->width > 0 || cell->width < width ? width : cell->width;
    size_t used = cell->width < room ? cell->width : room;
    bool right = table->columns[column].kind == COLUMN_RIGHT;
    put_blanks(out, gap + (right ? room - used : 0));
    buf_puts(out, color_on(cli, cell->color));
    text_fit(out, cell->text, cell->bytes, room, false);
    buf_puts(out, color_off(cli, cell->color));
    put_blanks(out, right ? 0 : room - used);
    *left -= width;
}

/* Without the blanks of empty cells at the end. */
static void end_row(struct buf *out)
{
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    buf_putc(out, '\n');
}

static size_t row_width(const struct cli *cli)
{
    return cli->width > 0 ? cli->width : SIZE_MAX;
}

static void put_titles(const struct table *table, struct cli *cli)
{
    size_t left = row_width(cli);
    for (size_t i = 0; i < table->column_count; i++) {
        const char *title = table->columns[i].title;
        struct table_cell cell = {
            .text = title, .bytes = strlen(title), .width = strlen(title), .color = COLOR_BOLD};
        put_cell(table, cli, i, &cell, &left);
    }
    end_row(&cli->out);
}

int table_print(struct table *table, struct cli *cli)
{
    if (table->failed)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    if (!table->fitted) {
        fit_columns(table, cli->width);
        put_titles(table, cli);
        table->fitted = true;
    }
    size_t left = row_width(cli);
    for (size_t i = 0, column = 0; i < table->cell_count; i++) {
        put_cell(table, cli, column, &table->cells[i], &left);
        if (++column == table->column_count) {
            end_row(&cli->out);
            column = 0;
            left = row_width(cli);
        }
    }
    table->cell_count = 0;
    arena_reset(&table->texts);
    return cli_flush_if_large(cli);
}

void put_clean(struct buf *out, const char *text)
{
    /* No text is wider than it has bytes, so nothing is cut. */
    size_t bytes = strlen(text);
    text_fit(out, text, bytes, bytes, false);
}

enum color color_of_state(int state)
{
    static const enum color colors[TEND_STATE_COUNT] = {
        [TEND_SCHEDULED] = COLOR_BLUE, [TEND_PENDING] = COLOR_YELLOW, [TEND_RUNNING] = COLOR_CYAN,
        [TEND_HELD] = COLOR_MAGENTA,   [TEND_DONE] = COLOR_GREEN,     [TEND_FAILED] = COLOR_RED,
        [TEND_CANCELLED] = COLOR_DIM,
    };
    return state >= 0 && state < TEND_STATE_COUNT ? colors[state] : COLOR_NONE;
}

const char *color_on(const struct cli *cli, enum color color)
{
    static const char *const codes[] = {
        [COLOR_NONE] = "",         [COLOR_BOLD] = "\033[1m",     [COLOR_DIM] = "\033[2m",
        [COLOR_RED] = "\033[31m",  [COLOR_GREEN] = "\033[32m",   [COLOR_YELLOW] = "\033[33m",
        [COLOR_BLUE] = "\033[34m", [COLOR_MAGENTA] = "\033[35m", [COLOR_CYAN] = "\033[36m",
    };
    return cli->color ? codes[color] : "";
}

const char *color_off(const struct cli *cli, enum color color)
{
    return cli->color && color != COLOR_NONE ? "\033[0m" : "";
}
