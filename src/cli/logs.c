/* See logs.h: which pieces, and until when. */
#include "cli/logs.h"

#include "cli/cli.h"
#include "cli/json_step.h"
#include "cli/logs_text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { PAGE = 500, POLL_MS = 500 };

struct reading {
    struct cli *cli;
    const struct logs_wish *wish;
    struct logs_text text;
    struct tend_attempts *attempts; /* as last read */
    int64_t number, seq;            /* of the last piece that was looked at */
    int64_t shown;                  /* the attempt whose header was printed last */
    bool any;                       /* something was printed */
};

/* --- which attempt wrote it --- */

static const struct tend_attempt *attempt_of(const struct reading *reading, int64_t number)
{
    const struct tend_attempts *attempts = reading->attempts;
    for (size_t i = 0; attempts && i < attempts->count; i++)
        if (attempts->items[i].number == number)
            return &attempts->items[i];
    return NULL;
}

static int read_attempts(struct reading *reading)
{
    struct tend_attempts *attempts;
    int code = tend_attempts(reading->cli->store, reading->wish->job_id, &attempts);
    if (code < 0)
        return cli_fail_store(reading->cli, code);
    tend_attempts_free(reading->attempts);
    reading->attempts = attempts;
    return EXIT_DONE;
}

static bool step_was_tried(const struct reading *reading)
{
    const struct tend_attempts *attempts = reading->attempts;
    for (size_t i = 0; i < attempts->count; i++)
        if (strcmp(attempts->items[i].step_id, reading->wish->step_id) == 0)
            return true;
    return false;
}

/* What is asked for must be there, unless it may still come. */
static int check_wish(struct reading *reading, bool finished)
{
    const struct logs_wish *wish = reading->wish;
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

static void put_piece(struct reading *reading, const struct tend_output *piece)
{
    struct cli *cli = reading->cli;
    const struct logs_wish *wish = reading->wish;
    const struct tend_attempt *attempt = attempt_of(reading, piece->number);
    if (wish->step_id && (!attempt || strcmp(attempt->step_id, wish->step_id) != 0))
        return;
    reading->any = true;
    if (cli->json) {
        json_output(&cli->out, NULL, piece, attempt);
        buf_putc(&cli->out, '\n');
        return;
    }
    if (attempt && reading->shown != piece->number && (wish->headers || reading->text.terminal))
        logs_text_header(&reading->text, attempt);
    reading->shown = piece->number;
    logs_text_piece(&reading->text, piece);
}

/* Everything behind the last piece. 0, or an exit status. */
static int print_new(struct reading *reading)
{
    const struct logs_wish *wish = reading->wish;
    size_t count;
    int status = EXIT_DONE;
    do {
        struct tend_outputs *pieces;
        int code = tend_output_read(reading->cli->store, wish->job_id, reading->number,
                                    reading->seq, PAGE, &pieces);
        if (code < 0)
            return cli_fail_store(reading->cli, code);
        count = pieces->count;
        if (count > 0 && !attempt_of(reading, pieces->items[count - 1].number))
            status = read_attempts(reading);
        for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
            const struct tend_output *piece = &pieces->items[i];
            if (wish->number && piece->number != wish->number) {
                count = 0;
                break;
            }
            put_piece(reading, piece);
            reading->number = piece->number;
            reading->seq = piece->seq;
        }
        tend_outputs_free(pieces);
        if (status == EXIT_DONE)
            status = cli_flush_if_large(reading->cli);
    } while (status == EXIT_DONE && count == PAGE);
    return status;
}

/* --- the whole --- */

static int read_state(struct reading *reading, bool *ret_finished)
{
    const struct logs_wish *wish = reading->wish;
    struct tend_jobs *jobs;
    int code = tend_get(reading->cli->store, wish->job_id, &jobs);
    if (code < 0)
        return cli_fail_store(reading->cli, code);
    int state = jobs->items[0].state;
    tend_jobs_free(jobs);
    *ret_finished = state == TEND_DONE || state == TEND_FAILED || state == TEND_CANCELLED;
    if (*ret_finished || !wish->number)
        return EXIT_DONE;
    int status = read_attempts(reading);
    const struct tend_attempt *attempt = attempt_of(reading, wish->number);
    *ret_finished = attempt && attempt->state != TEND_ATTEMPT_RUNNING;
    return status;
}

/* Looks at the state first: what was written before the end is then read for certain. */
static int follow(struct reading *reading)
{
    struct cli *cli = reading->cli;
    signals_interrupt(cli->store);
    for (;;) {
        bool finished = false;
        int status = read_state(reading, &finished);
        if (status == EXIT_DONE)
            status = print_new(reading);
        if (status == EXIT_DONE)
            status = cli_flush(cli);
        if (signals_seen())
            return signals_exit_status();
        if (status != EXIT_DONE || finished)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

int logs_print(struct cli *cli, const struct logs_wish *wish)
{
    struct reading reading = {.cli = cli, .wish = wish};
    bool finished = false;
    logs_text_init(&reading.text, cli, wish->stamps);
    if (wish->number) {
        reading.number = wish->number - 1;
        reading.seq = INT64_MAX;
    }
    int status = read_state(&reading, &finished);
    if (status == EXIT_DONE)
        status = read_attempts(&reading);
    if (status == EXIT_DONE)
        status = check_wish(&reading, finished);
    if (status == EXIT_DONE)
        status = wish->follow ? follow(&reading) : print_new(&reading);
    if (status == EXIT_DONE && !reading.any)
        cli_note(cli, "job %" PRId64 " has no output%s", wish->job_id,
                 reading.attempts->count == 0 ? ": none of its steps was tried here" : "");
    tend_attempts_free(reading.attempts);
    return status;
}
