/* See logs.h: which pieces, and until when. */
#include "cli/logs.h"

#include "base/timetext.h"
#include "cli/asking.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/json_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 500, POLL_MS = 500 };

/* --- asking the store --- */

static int ask_job(tend *store, void *arg)
{
    struct logs_reading *reading = arg;
    int code = tend_now(store, &reading->now_ms);
    return code < 0 ? code : tend_get(store, reading->wish.job_id, &reading->jobs_read);
}

static int ask_attempts(tend *store, void *arg)
{
    struct logs_reading *reading = arg;
    return tend_attempts(store, reading->wish.job_id, &reading->attempts_read);
}

static int ask_pieces(tend *store, void *arg)
{
    struct logs_reading *reading = arg;
    return tend_output_read(store, reading->wish.job_id, reading->number, reading->seq, PAGE,
                            &reading->pieces_read);
}

/* TEND_EINTERRUPTED: the command is to end. */
static int ask(struct logs_reading *reading, asking_question *question)
{
    return reading->asking ? asking_ask(reading->asking, question, reading)
                           : question(reading->cli->store, reading);
}

/* The exit status for a code that ask has returned. */
static int tell(struct logs_reading *reading, int code)
{
    if (code >= 0)
        return EXIT_DONE;
    return reading->asking ? asking_fail(reading->asking, code)
                           : cli_fail_store(reading->cli, code);
}

/* --- which attempt wrote it --- */

static const struct tend_attempt *attempt_of(const struct logs_reading *reading, int64_t number)
{
    const struct tend_attempts *attempts = reading->attempts;
    for (size_t i = 0; attempts && i < attempts->count; i++)
        if (attempts->items[i].number == number)
            return &attempts->items[i];
    return NULL;
}

static int read_attempts(struct logs_reading *reading)
{
    int code = ask(reading, ask_attempts);
    if (code < 0)
        return code;
    tend_attempts_free(reading->attempts);
    reading->attempts = reading->attempts_read;
    return 0;
}

static bool step_was_tried(const struct logs_reading *reading)
{
    const struct tend_attempts *attempts = reading->attempts;
    for (size_t i = 0; i < attempts->count; i++)
        if (strcmp(attempts->items[i].step_id, reading->wish.step_id) == 0)
            return true;
    return false;
}

/* What is asked for must be there, unless it may still come. */
static int check_wish(struct logs_reading *reading, bool finished)
{
    const struct logs_wish *wish = &reading->wish;
    if (wish->follow && !finished)
        return EXIT_DONE;
    if (wish->number && !attempt_of(reading, wish->number))
        return cli_fail(reading->cli, TEND_ENOTFOUND,
                        "logs: job %" PRId64 " has no attempt %" PRId64 "; 'tend show %" PRId64
                        "' lists them",
                        wish->job_id, wish->number, wish->job_id);
    if (wish->step_id && !step_was_tried(reading))
        return cli_fail(reading->cli, TEND_ENOTFOUND,
                        "logs: no step %s of job %" PRId64 " was tried; 'tend show %" PRId64
                        "' lists what was",
                        wish->step_id, wish->job_id, wish->job_id);
    return EXIT_DONE;
}

/* --- pieces --- */

static void put_json(const struct logs_reading *reading, const struct tend_output *piece,
                     const struct tend_attempt *attempt)
{
    struct buf *out = &reading->cli->out;
    json_open(out, NULL, '{');
    if (reading->wish.events) {
        json_text(out, "event", "output");
        json_int(out, "job_id", reading->wish.job_id);
    }
    json_output_members(out, piece, attempt);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static void put_piece(struct logs_reading *reading, const struct tend_output *piece)
{
    struct cli *cli = reading->cli;
    const struct logs_wish *wish = &reading->wish;
    const struct tend_attempt *attempt = attempt_of(reading, piece->number);
    if (wish->step_id && (!attempt || strcmp(attempt->step_id, wish->step_id) != 0))
        return;
    reading->any = true;
    if (cli->json) {
        put_json(reading, piece, attempt);
        return;
    }
    if (attempt && reading->shown != piece->number && (wish->headers || reading->text.terminal))
        logs_text_header(&reading->text, attempt, !wish->events); /* it may just have begun */
    reading->shown = piece->number;
    logs_text_piece(&reading->text, piece);
}

/* A page of pieces; *ret_more: there may be others behind it. */
static int print_page(struct logs_reading *reading, int64_t up_to, bool *ret_more)
{
    int code = ask(reading, ask_pieces);
    if (code < 0)
        return code;
    struct tend_outputs *pieces = reading->pieces_read;
    *ret_more = pieces->count == PAGE;
    code = 0;
    if (pieces->count > 0 && !attempt_of(reading, pieces->items[pieces->count - 1].number))
        code = read_attempts(reading);
    for (size_t i = 0; i < pieces->count && code == 0; i++) {
        const struct tend_output *piece = &pieces->items[i];
        if (piece->number > up_to) {
            *ret_more = false;
            break;
        }
        put_piece(reading, piece);
        reading->number = piece->number;
        reading->seq = piece->seq;
    }
    tend_outputs_free(pieces);
    return code;
}

int logs_more(struct logs_reading *reading, int64_t up_to)
{
    bool more = true;
    int code = 0;
    while (code == 0 && more) {
        code = print_page(reading, up_to, &more);
        if (code == 0 && cli_flush_if_large(reading->cli) != EXIT_DONE)
            return 0; /* nobody reads any more; that is told at the end */
    }
    return code;
}

void logs_break(struct logs_reading *reading)
{
    logs_text_break(&reading->text);
}

void logs_begin(struct logs_reading *reading, struct cli *cli, const struct logs_wish *wish)
{
    *reading = (struct logs_reading){.cli = cli, .wish = *wish};
    logs_text_init(&reading->text, cli, wish->stamps);
    if (wish->number) {
        reading->number = wish->number - 1;
        reading->seq = INT64_MAX;
    }
}

void logs_end(struct logs_reading *reading)
{
    tend_attempts_free(reading->attempts);
}

/* --- waiting --- */

static void note_waiting(struct logs_reading *reading, const struct tend_job *job)
{
    bool waits = job->state == TEND_SCHEDULED || job->state == TEND_HELD;
    const char *why = job->state == TEND_HELD ? job->changed_why : job->error_text;
    reading->waits = waits ? job->state + 1 : 0;
    reading->waits_until_ms = job->state == TEND_SCHEDULED ? job->due_at_ms : TEND_UNSET;
    bool retried = job->state == TEND_HELD || job->attempts > 0;
    snprintf(reading->waits_why, sizeof reading->waits_why, "%s", retried && why ? why : "");
}

/* Said once each time it begins to wait, so that nobody wonders about the silence. */
static void tell_waiting(struct logs_reading *reading)
{
    char when[DURATION_TEXT_BYTES];
    const char *why = reading->waits_why;
    bool news =
        reading->waits != reading->told || reading->waits_until_ms != reading->told_until_ms;
    reading->told = reading->waits;
    reading->told_until_ms = reading->waits_until_ms;
    if (!news || !reading->waits)
        return;
    logs_break(reading);
    cli_flush(reading->cli);
    if (reading->waits_until_ms == TEND_UNSET)
        cli_note(reading->cli, "job %" PRId64 " is held%s%s", reading->wish.job_id,
                 *why ? ": " : "", why);
    else
        cli_note(reading->cli, "job %" PRId64 " %s %s%s%s", reading->wish.job_id,
                 *why ? "waits for its retry, which comes" : "is due",
                 coming_text(reading->waits_until_ms, reading->now_ms, when),
                 *why ? ", after: " : "", why);
}

/* --- the whole --- */

static int read_state(struct logs_reading *reading, bool *ret_finished)
{
    const struct logs_wish *wish = &reading->wish;
    int code = ask(reading, ask_job);
    if (code < 0)
        return code;
    int state = reading->jobs_read->items[0].state;
    note_waiting(reading, &reading->jobs_read->items[0]);
    tend_jobs_free(reading->jobs_read);
    *ret_finished = state == TEND_DONE || state == TEND_FAILED || state == TEND_CANCELLED;
    if (*ret_finished || !wish->number)
        return 0;
    code = read_attempts(reading);
    const struct tend_attempt *attempt = attempt_of(reading, wish->number);
    *ret_finished = attempt && attempt->state != TEND_ATTEMPT_RUNNING;
    return code;
}

static int print_new(struct logs_reading *reading)
{
    int64_t only = reading->wish.number;
    return logs_more(reading, only ? only : INT64_MAX);
}

/* Looks at the state first: what was written before the end is then read for certain. */
static int follow(struct logs_reading *reading)
{
    int status = EXIT_DONE;
    for (bool finished = false; status == EXIT_DONE && !finished;) {
        int code = read_state(reading, &finished);
        if (code >= 0)
            code = print_new(reading);
        if (code >= 0)
            tell_waiting(reading);
        status = code < 0 ? tell(reading, code) : cli_flush(reading->cli);
        if (status == EXIT_DONE && !finished)
            status = tell(reading, asking_pause(reading->asking, POLL_MS));
    }
    return status;
}

static int print_all(struct logs_reading *reading)
{
    const struct logs_wish *wish = &reading->wish;
    bool finished = false;
    int code = read_state(reading, &finished);
    if (code >= 0)
        code = read_attempts(reading);
    int status = code < 0 ? tell(reading, code) : check_wish(reading, finished);
    if (status == EXIT_DONE && !wish->follow)
        status = tell(reading, print_new(reading));
    else if (status == EXIT_DONE && !(reading->asking = asking_new(reading->cli, -1, NULL, NULL)))
        status = EXIT_FAILED;
    else if (status == EXIT_DONE)
        status = follow(reading);
    if (reading->asking)
        asking_free(reading->asking);
    if (status == EXIT_DONE && !reading->any)
        cli_note(reading->cli, "job %" PRId64 " has no output%s", wish->job_id,
                 reading->attempts->count == 0 ? ": none of its steps was tried here" : "");
    return status;
}

int logs_print(struct cli *cli, const struct logs_wish *wish)
{
    /* On the heap: the thread that asks may outlive this. */
    struct logs_reading *reading = malloc(sizeof *reading);
    if (!reading)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    logs_begin(reading, cli, wish);
    int status = print_all(reading);
    if (!cli->store_left) {
        logs_end(reading);
        free(reading);
    }
    return status;
}
