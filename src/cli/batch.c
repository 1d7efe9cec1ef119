/*
 * See batch.h. Lines are added in transactions of up to CHUNK_JOBS; a job's id is printed once its
 * transaction is on disk, so what was printed stays whatever comes after. Memory is that of one
 * chunk. A chunk also ends when the input pauses, so that a slow producer is answered at once.
 *
 * All that can be known without the store is checked as a line is read (batch_line.h). A file,
 * which can be read twice, is looked over first: with a bad line in it nothing is added.
 */
#include "cli/batch.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/batch_line.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_JOBS = 1000,
    CHUNK_BYTES = 8 * 1024 * 1024,
    PAUSE_MS = 20,
    CONFLICTS_SHOWN = 10,
};

struct batch {
    struct cli *cli;
    const struct tend_job_spec *defaults;
    const char *source; /* name of the file, for sentences */
    struct line_reader reader;
    int64_t now_ms;
    int64_t line;      /* number of the line read last, from 1 */
    int64_t added;     /* jobs acknowledged */
    int64_t conflicts; /* jobs refused because their key is taken */

    /* The chunk. */
    struct arena arena;
    size_t count, bytes;
    struct tend_job_spec specs[CHUNK_JOBS];
    int64_t lines[CHUNK_JOBS];
    struct tend_added outcomes[CHUNK_JOBS];
};

static void print_outcome(struct batch *batch, size_t index)
{
    struct cli *cli = batch->cli;
    const struct tend_added *outcome = &batch->outcomes[index];
    bool conflict = outcome->outcome == TEND_ECONFLICT;
    batch->added += !conflict;
    batch->conflicts += conflict;
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_int(&cli->out, "line", batch->lines[index]);
        json_int(&cli->out, "id", outcome->id);
        json_text(&cli->out, "outcome", json_outcome(outcome->outcome));
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
    } else if (!conflict) {
        buf_printf(&cli->out, "%" PRId64 "\n", outcome->id);
    } else if (batch->conflicts <= CONFLICTS_SHOWN) {
        cli_note(cli,
                 "add: %s, line %" PRId64 ": not added: its key \"%s\" is taken by job %" PRId64,
                 batch->source, batch->lines[index], batch->specs[index].unique_key, outcome->id);
    }
}

/* A line that is at fault, and what became of those before it. */
static int refuse_line(struct batch *batch, int code, const char *where, const char *why)
{
    if (batch->added + batch->conflicts == 0)
        return cli_fail(batch->cli, code, "add: nothing was added: %s, %s: %s", batch->source,
                        where, why);
    return cli_fail(batch->cli, code,
                    "add: %s, %s: %s; the lines before it were added (%" PRId64
                    " job%s): correct it and continue from there",
                    batch->source, where, why, batch->added, plural(batch->added));
}

static int bad_line(struct batch *batch, const struct line_fault *fault)
{
    char where[64];
    snprintf(where, sizeof where, "line %" PRId64 ", column %zu", batch->line, fault->column);
    return refuse_line(batch, TEND_EINVAL, where, fault->text);
}

/* The store failed, not the line: it may have saved what it could no longer acknowledge. Its
 * sentence says what is known about that. */
static int store_failed(struct batch *batch, size_t index, int code)
{
    return cli_fail(batch->cli, code,
                    "add: %" PRId64 " job%s added for sure; from line %" PRId64
                    " of %s on none is acknowledged: %s",
                    batch->added, batch->added == 1 ? " was" : "s were", batch->lines[index],
                    batch->source, tend_errmsg(batch->cli->store));
}

/* The store refused the chunk as a whole: one by one up to the line that is at fault. */
static int add_singly(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        int code = tend_add(batch->cli->store, &batch->specs[i], &batch->outcomes[i]);
        if (code == TEND_EINVAL) {
            char where[32];
            snprintf(where, sizeof where, "line %" PRId64, batch->lines[i]);
            return refuse_line(batch, code, where, tend_errmsg(batch->cli->store));
        }
        if (code < 0 && code != TEND_ECONFLICT)
            return store_failed(batch, i, code);
        print_outcome(batch, i);
    }
    return EXIT_DONE;
}

static int add_chunk(struct batch *batch)
{
    if (batch->count == 0)
        return EXIT_DONE;
    int status = EXIT_DONE;
    int code = tend_add_many(batch->cli->store, batch->specs, batch->count, batch->outcomes);
    if (code == TEND_EINVAL) {
        status = add_singly(batch);
    } else if (code < 0) {
        status = store_failed(batch, 0, code);
    } else {
        for (size_t i = 0; i < batch->count; i++)
            print_outcome(batch, i);
    }
    if (batch->added > 0)
        cli_did(batch->cli, "jobs were added: %" PRId64 ", but their ids", batch->added);
    int written = cli_flush(batch->cli);
    batch->count = batch->bytes = 0;
    arena_reset(&batch->arena);
    return status == EXIT_DONE ? written : status;
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!strchr(" \t\r", line[i]) || line[i] == '\0')
            return false;
    return true;
}

/* Into the next job of the chunk. As batch_line_parse. */
static int read_line(struct batch *batch, const char *line, size_t bytes, struct line_fault *fault)
{
    /* The reader's buffer moves on; and a copy ends with a NUL, which the parser relies on. */
    const char *copy = arena_strndup(&batch->arena, line, bytes);
    struct tend_job_spec *spec = &batch->specs[batch->count];
    *spec = *batch->defaults;
    return copy ? batch_line_parse(copy, bytes, batch->now_ms, &batch->arena, spec, fault)
                : TEND_ENOMEM;
}

static int no_memory(struct batch *batch)
{
    return cli_fail(batch->cli, TEND_ENOMEM, "add: line %" PRId64 ": out of memory", batch->line);
}

static int take_line(struct batch *batch, const char *line, size_t bytes)
{
    batch->line++;
    if (is_blank(line, bytes))
        return EXIT_DONE;
    struct line_fault fault;
    int code = read_line(batch, line, bytes, &fault);
    if (code == TEND_EINVAL) {
        int status = add_chunk(batch);
        return status == EXIT_DONE ? bad_line(batch, &fault) : status;
    }
    if (code < 0)
        return no_memory(batch);
    batch->lines[batch->count++] = batch->line;
    batch->bytes += bytes;
    bool full = batch->count == CHUNK_JOBS || batch->bytes >= CHUNK_BYTES;
    return full ? add_chunk(batch) : EXIT_DONE;
}

static int unreadable(struct batch *batch, int code, const struct err *err)
{
    if (batch->line == 0)
        return cli_fail(batch->cli, code, "add: %s: %s", batch->source, err->text);
    return cli_fail(batch->cli, code, "add: %s, after line %" PRId64 ": %s", batch->source,
                    batch->line, err->text);
}

static int add_lines(struct batch *batch)
{
    for (;;) {
        const char *line;
        size_t bytes;
        struct err err;
        /* With an empty chunk there is nobody to answer. */
        int wait_ms = batch->count > 0 ? PAUSE_MS : -1;
        int got = line_next(&batch->reader, wait_ms, &line, &bytes, &err);
        int status;
        if (got == LINE_READY)
            status = take_line(batch, line, bytes);
        else
            status = add_chunk(batch);
        if (status != EXIT_DONE || got == LINE_END)
            return status;
        if (got < 0)
            return unreadable(batch, got, &err);
    }
}

static int check_line(struct batch *batch, const char *line, size_t bytes)
{
    batch->line++;
    if (is_blank(line, bytes))
        return EXIT_DONE;
    struct line_fault fault;
    int code = read_line(batch, line, bytes, &fault);
    arena_reset(&batch->arena);
    if (code == TEND_EINVAL)
        return bad_line(batch, &fault);
    return code < 0 ? no_memory(batch) : EXIT_DONE;
}

/* Every line of a file, before the first is added. */
static int check_file(struct batch *batch)
{
    const char *line;
    size_t bytes;
    struct err err;
    int got;
    batch->now_ms = clock_wall_ms();
    while ((got = line_next(&batch->reader, -1, &line, &bytes, &err)) == LINE_READY) {
        int status = check_line(batch, line, bytes);
        if (status != EXIT_DONE)
            return status;
    }
    int code = got < 0 ? got : line_reader_rewind(&batch->reader, &err);
    if (code < 0)
        return unreadable(batch, code, &err);
    batch->line = 0;
    return EXIT_DONE;
}

static int open_and_add(struct batch *batch)
{
    struct cli *cli = batch->cli;
    int status = line_reader_is_file(&batch->reader) ? check_file(batch) : EXIT_DONE;
    if (status == EXIT_DONE)
        status = cli_open_store(cli, STORE_MADE);
    if (status != EXIT_DONE)
        return status;
    batch->now_ms = cli_now_ms(cli);
    status = add_lines(batch);
    if (batch->conflicts > CONFLICTS_SHOWN)
        cli_note(cli, "add: %" PRId64 " jobs in all were not added because their key is taken",
                 batch->conflicts);
    return status == EXIT_DONE && batch->conflicts > 0 ? EXIT_REFUSED : status;
}

int batch_add(struct cli *cli, const char *path, const struct tend_job_spec *defaults)
{
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    batch->cli = cli;
    batch->defaults = defaults;
    batch->source = strcmp(path, "-") == 0 ? "standard input" : path;
    struct err err;
    int code = line_reader_open(&batch->reader, path, &err);
    if (code < 0) {
        free(batch);
        return cli_fail_as(cli, EXIT_USAGE, code, "add: --batch: %s", err.text);
    }
    arena_init(&batch->arena);
    int status = open_and_add(batch);
    arena_done(&batch->arena);
    line_reader_close(&batch->reader);
    free(batch);
    return status;
}
