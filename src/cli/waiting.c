/* See waiting.h. */
#include "cli/waiting.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/timetext.h"
#include "cli/asking.h"
#include "cli/cli.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    ASK_MS = 5000,
    AWAY_MS = 1000,
    NAMED_MOST = 10,
    USUAL_WIDTH = 79,
    PAGE_EVENTS = 1000,
    LOOK_MS = 50,     /* until events that others hold back are looked for again */
    SILENT_MS = 1000, /* then it is said why a job that nobody runs waits */
    ERROR_SHOWN_BYTES = 200,
};

#define EVER_MS (INT64_MAX / 4)

/* What is known of a job beyond its state. */
struct fate {
    bool held_told; /* that it is held */
    bool deleted;   /* the store has its events alone */
    int64_t version_seen, attempts_told;
};

/* On the heap: the thread that asks may outlive the command. */
struct waiting {
    struct cli *cli;
    struct waiting_wish wish;
    struct asking *asking;
    struct tend_watch *watches;
    struct fate *fates;
    int64_t ask_ms; /* of the present question */
    int64_t asked_id;
    int64_t asked_after; /* an event */
    struct tend_jobs *jobs;
    bool has_output;
    struct tend_explanation explanation;
    struct tend_events *events;
    int64_t since_ms; /* monotonic */
    bool why_told;    /* of the first job that waits */
    bool due_told;    /* ... that it is due later */
    bool draws;       /* a line on standard error */
    bool away_told;   /* ... and has said that the store is away */
};

bool job_has_ended(int state)
{
    return state == TEND_DONE || state == TEND_FAILED || state == TEND_CANCELLED;
}

bool job_failed_before_retry(const struct tend_job *job)
{
    return job->error_class && job->state != TEND_FAILED && job->attempts == 0;
}

void json_ending_members(struct buf *out, const struct tend_job *job)
{
    bool stale = job->state == TEND_DONE || job_failed_before_retry(job);
    json_text(out, "state", tend_state_name(job->state));
    json_text(out, "error_class", stale ? NULL : job->error_class);
    json_text(out, "error_text", stale ? NULL : job->error_text);
    if (job->state == TEND_CANCELLED)
        json_text(out, "why", job->changed_why);
    json_raw(out, "result", job->result, job->result ? strlen(job->result) : 0);
}

/* Without the full stop that a sentence of a step may have. */
static int error_bytes(const char *text)
{
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == '.' || text[len - 1] == ' ' || text[len - 1] == '\n'))
        len--;
    return len < INT_MAX ? (int)len : INT_MAX;
}

bool job_has_output(tend *store, int64_t id)
{
    struct tend_outputs *first;
    if (tend_output_read(store, id, 0, 0, 1, &first) < 0)
        return false;
    bool has = first->count > 0;
    tend_outputs_free(first);
    return has;
}

void note_bad_end(struct cli *cli, const struct tend_job *job, bool has_output)
{
    const char *error = job->error_text ? job->error_text : "";
    char logs[64] = "";
    if (job->state == TEND_CANCELLED) {
        cli_note(cli, "job %" PRId64 " was cancelled%s%s", job->id, job->changed_why ? ": " : "",
                 job->changed_why ? job->changed_why : "");
        return;
    }
    if (has_output)
        snprintf(logs, sizeof logs, "; 'tend logs %" PRId64 "' shows its output", job->id);
    cli_note(cli, "job %" PRId64 " has failed, %s%s%.*s%s", job->id,
             job->error_class ? job->error_class : "", *error ? ": " : "", error_bytes(error),
             error, logs);
}

/* --- questions --- */

static int ask_change(tend *store, void *arg)
{
    struct waiting *waiting = arg;
    return tend_wait_jobs(store, waiting->watches, waiting->wish.count, waiting->ask_ms);
}

static int ask_job(tend *store, void *arg)
{
    struct waiting *waiting = arg;
    int code = tend_get(store, waiting->asked_id, &waiting->jobs);
    waiting->has_output = code >= 0 && waiting->jobs->items[0].state == TEND_FAILED &&
                          job_has_output(store, waiting->asked_id);
    return code;
}

static int ask_why(tend *store, void *arg)
{
    struct waiting *waiting = arg;
    int code = tend_explain(store, waiting->asked_id, &waiting->explanation);
    return code < 0 ? code : tend_get(store, waiting->asked_id, &waiting->jobs);
}

static int ask_events(tend *store, void *arg)
{
    struct waiting *waiting = arg;
    return tend_job_events(store, waiting->asked_id, &waiting->events);
}

static int ask_events_after(tend *store, void *arg)
{
    struct waiting *waiting = arg;
    return tend_events_since(store, waiting->asked_after, PAGE_EVENTS, &waiting->events);
}

/* --- the line on a terminal --- */

static bool can_draw(const struct cli *cli)
{
    const char *term = getenv("TERM");
    return !cli->json && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* "12 running, 13 pending, …" of those that have not ended; how many there are. */
static size_t put_unended(const struct waiting *waiting, struct buf *out)
{
    size_t count = 0;
    for (size_t i = 0; i < waiting->wish.count; i++) {
        int state = waiting->watches[i].state;
        if (job_has_ended(state))
            continue;
        if (count < NAMED_MOST)
            buf_printf(out, "%s%" PRId64 " %s", count > 0 ? ", " : "", waiting->watches[i].id,
                       state < 0 ? "not seen yet" : tend_state_name(state));
        else if (count == NAMED_MOST)
            buf_puts(out, " and more");
        count++;
    }
    return count;
}

static void wipe(const struct waiting *waiting)
{
    struct buf line;
    buf_init(&line);
    buf_puts(&line, "\r\033[K");
    if (waiting->draws)
        cli_write_error(&line);
    buf_done(&line);
}

static void draw(const struct waiting *waiting)
{
    struct buf line, jobs;
    struct winsize size;
    if (!waiting->draws)
        return;
    buf_init(&line);
    buf_init(&jobs);
    size_t left = put_unended(waiting, &jobs);
    bool sized = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    buf_printf(&line, "\r\033[Kwaiting for %zu of %zu job%s: ", left, waiting->wish.count,
               plural((int64_t)waiting->wish.count));
    size_t used = line.len - strlen("\r\033[K");
    size_t width = sized ? size.ws_col - 1u : USUAL_WIDTH;
    if (!jobs.failed && width > used)
        buf_append(&line, jobs.data, jobs.len < width - used ? jobs.len : width - used);
    if (!line.failed)
        cli_write_error(&line);
    buf_done(&jobs);
    buf_done(&line);
}

/* As asking.h has it, without the line that is drawn. */
static void tell_away(void *arg, int64_t since_ms, const char *why)
{
    struct waiting *waiting = arg;
    char since[TIME_TEXT_BYTES];
    if (waiting->away_told)
        return;
    waiting->away_told = true;
    wipe(waiting);
    cli_note(waiting->cli, "%s: the store is away since %s%s%s; going on when it is back",
             waiting->cli->path, time_text(since_ms / 1000 * 1000, since), *why ? ": " : "", why);
}

static void tell_back(struct waiting *waiting)
{
    if (!waiting->away_told)
        return;
    waiting->away_told = false;
    cli_note(waiting->cli, "%s: the store is back", waiting->cli->path);
    draw(waiting);
}

/* --- one after the other --- */

static const char *path_of(const struct waiting *waiting)
{
    return waiting->cli->path;
}

static int fail(struct waiting *waiting, int code)
{
    wipe(waiting);
    return asking_fail(waiting->asking, code);
}

/* Its last ending, from its events: a state, or -1. */
static int state_in(const struct tend_events *events)
{
    int state = -1;
    for (size_t i = 0; i < events->count; i++)
        if (events->items[i].to_state >= 0)
            state = events->items[i].to_state;
    return job_has_ended(state) ? state : -1;
}

/* There is no such job: there never was, or it was deleted after its end. */
static int look_for_deleted(struct waiting *waiting, size_t i)
{
    struct tend_watch *watch = &waiting->watches[i];
    waiting->asked_id = watch->id;
    int code = asking_ask(waiting->asking, ask_events, waiting);
    if (code < 0)
        return fail(waiting, code);
    bool was_there = waiting->events->count > 0;
    int state = state_in(waiting->events);
    tend_events_free(waiting->events);
    waiting->fates[i].deleted = true;
    watch->state = state;
    if (state >= 0)
        return EXIT_DONE;
    wipe(waiting);
    if (was_there)
        return cli_fail(waiting->cli, TEND_ENOTFOUND,
                        "%s: job %" PRId64 " was deleted, and how it ended is not known",
                        path_of(waiting), watch->id);
    return cli_fail(waiting->cli, TEND_ENOTFOUND,
                    "%s: there is no job %" PRId64 "; 'tend jobs' lists those that are",
                    path_of(waiting), watch->id);
}

static void note_held(struct waiting *waiting, size_t i)
{
    int64_t id = waiting->watches[i].id;
    bool held = waiting->watches[i].state == TEND_HELD;
    if (held && !waiting->fates[i].held_told) {
        wipe(waiting);
        cli_note(waiting->cli,
                 "%s: job %" PRId64 " is held and waited for; 'tend resume %" PRId64
                 "' lets it go on",
                 path_of(waiting), id, id);
    }
    waiting->fates[i].held_told = held;
}

static void tell_failure(struct waiting *waiting, const struct tend_job *job)
{
    char left[DURATION_TEXT_BYTES];
    int64_t now_ms = cli_now_ms(waiting->cli);
    const char *error = job->error_text && *job->error_text ? job->error_text
                        : job->error_class                  ? job->error_class
                                                            : "?";
    int bytes = error_bytes(error);
    bool cut = bytes > ERROR_SHOWN_BYTES;
    if (cut)
        bytes = (int)utf8_floor(error, (size_t)bytes, ERROR_SHOWN_BYTES);
    wipe(waiting);
    cli_note(waiting->cli, "%s: job %" PRId64 " failed (%.*s%s); it is tried again %s",
             path_of(waiting), job->id, bytes, error, cut ? "…" : "",
             job->due_at_ms > now_ms ? coming_text(job->due_at_ms, now_ms, left) : "now");
}

/* A job that waits again after a failure: said once for each. */
static int note_failure(struct waiting *waiting, size_t i)
{
    const struct tend_watch *watch = &waiting->watches[i];
    struct fate *fate = &waiting->fates[i];
    bool changed = watch->version != fate->version_seen;
    bool many = fate->version_seen == 0 && waiting->wish.count > NAMED_MOST;
    fate->version_seen = watch->version;
    if (!changed || many || waiting->cli->json ||
        (watch->state != TEND_SCHEDULED && watch->state != TEND_PENDING))
        return EXIT_DONE;
    waiting->asked_id = watch->id;
    int code = asking_ask(waiting->asking, ask_job, waiting);
    if (code == TEND_ENOTFOUND)
        return EXIT_DONE; /* the next look tells */
    if (code < 0)
        return fail(waiting, code);
    const struct tend_job *job = &waiting->jobs->items[0];
    if (job->attempts > fate->attempts_told && job->error_text &&
        (job->state == TEND_SCHEDULED || job->state == TEND_PENDING))
        tell_failure(waiting, job);
    fate->attempts_told = job->attempts;
    tend_jobs_free(waiting->jobs);
    return EXIT_DONE;
}

/* A job for which nobody is wanted yet; a retry was told with its failure. */
static void tell_due(struct waiting *waiting, const struct tend_job *job)
{
    char when[DURATION_TEXT_BYTES];
    if (waiting->due_told || job->attempts > 0)
        return;
    waiting->due_told = true;
    wipe(waiting);
    cli_note(waiting->cli, "%s: job %" PRId64 " is due %s", path_of(waiting), job->id,
             coming_text(job->due_at_ms, cli_now_ms(waiting->cli), when));
    draw(waiting);
}

/* The first job that waits: what it waits for, where that is somebody's to mend. */
static void tell_why(struct waiting *waiting, const struct tend_job *job)
{
    const struct tend_explanation *why = &waiting->explanation;
    const char *path = path_of(waiting);
    bool stands = strcmp(why->reason, "no_handler") == 0 || strcmp(why->reason, "paused") == 0;
    if (strcmp(why->reason, "due_later") == 0 && !*why->given_back)
        tell_due(waiting, job);
    if (!why->no_worker && !stands)
        return;
    waiting->why_told = true;
    wipe(waiting);
    if (why->no_worker)
        cli_note(waiting->cli,
                 "%s: job %" PRId64 " waits: no worker is there for queue \"%s\"; %.*s", path,
                 job->id, job->queue, error_bytes(why->hint), why->hint);
    else
        cli_note(waiting->cli, "%s: job %" PRId64 " waits. %s %s", path, job->id, why->text,
                 why->hint);
    draw(waiting);
}

static int look_for_why(struct waiting *waiting)
{
    size_t i = 0;
    if (waiting->why_told || waiting->cli->json || clock_mono_ms() - waiting->since_ms < SILENT_MS)
        return EXIT_DONE;
    while (i < waiting->wish.count && waiting->watches[i].state != TEND_SCHEDULED &&
           waiting->watches[i].state != TEND_PENDING)
        i++;
    if (i == waiting->wish.count)
        return EXIT_DONE;
    waiting->asked_id = waiting->watches[i].id;
    int code = asking_ask(waiting->asking, ask_why, waiting);
    if (code == TEND_ENOTFOUND)
        return EXIT_DONE;
    if (code < 0)
        return fail(waiting, code);
    tell_why(waiting, &waiting->jobs->items[0]);
    tend_jobs_free(waiting->jobs);
    return EXIT_DONE;
}

static int look_at_all(struct waiting *waiting)
{
    for (size_t i = 0; i < waiting->wish.count; i++) {
        note_held(waiting, i);
        int status = note_failure(waiting, i);
        if (status != EXIT_DONE)
            return status;
        if (waiting->watches[i].state < 0)
            status = look_for_deleted(waiting, i);
        if (status != EXIT_DONE)
            return status;
    }
    draw(waiting);
    return EXIT_DONE;
}

static bool have_all_ended(const struct waiting *waiting)
{
    for (size_t i = 0; i < waiting->wish.count; i++)
        if (!job_has_ended(waiting->watches[i].state))
            return false;
    return true;
}

static int time_is_over(struct waiting *waiting)
{
    struct buf jobs;
    char time[DURATION_TEXT_BYTES];
    int status;
    const struct tend_watch *first = &waiting->watches[0];
    bool waited = waiting->wish.timeout_ms > 0; /* else it was only a look */
    duration_text(waiting->wish.timeout_ms, time);
    buf_init(&jobs);
    wipe(waiting);
    size_t left = put_unended(waiting, &jobs);
    if (waiting->wish.count == 1 && first->state >= 0)
        status =
            cli_fail_as(waiting->cli, EXIT_NOTHING, TEND_EEMPTY, "%s: job %" PRId64 " is %s%s%s%s",
                        path_of(waiting), first->id, waited ? "still " : "",
                        tend_state_name(first->state), waited ? " after " : "", waited ? time : "");
    else
        status = cli_fail_as(waiting->cli, EXIT_NOTHING, TEND_EEMPTY,
                             "%s: %zu of %zu jobs %s not ended%s%s: %s", path_of(waiting), left,
                             waiting->wish.count, left == 1 ? "has" : "have",
                             waited ? " within " : "", waited ? time : "", jobs.data);
    buf_done(&jobs);
    return status;
}

/* When the time is over (monotonic); longer than EVER_MS is for ever. */
static int64_t end_of(const struct waiting_wish *wish)
{
    bool ever = wish->timeout_ms == TEND_UNSET || wish->timeout_ms > EVER_MS;
    return ever ? INT64_MAX : clock_mono_ms() + wish->timeout_ms;
}

/* --- the job that a submission becomes --- */

/*
 * The event that ended the run during which the submission came, when that finished the job. 0: the
 * job went back to waiting and took the submission over. -1: the history does not tell.
 */
static int64_t end_of_run(const struct tend_events *history, int64_t submitted_from)
{
    bool submitted = false;
    for (size_t i = 0; i < history->count; i++) {
        const struct tend_event *event = &history->items[i];
        if (event->id >= submitted_from && strcmp(event->what, "job.submitted") == 0)
            submitted = true;
        else if (submitted && event->from_state == TEND_RUNNING && event->to_state >= 0 &&
                 event->to_state != TEND_RUNNING)
            return job_has_ended(event->to_state) ? event->id : 0;
    }
    return -1;
}

/* The follower of a job, among the events after its end; 0: not among these. */
static int64_t follower_in(const struct tend_events *events, int64_t id)
{
    char why[64];
    snprintf(why, sizeof why, "submitted while job %" PRId64 " ran", id);
    for (size_t i = 0; i < events->count; i++) {
        const struct tend_event *event = &events->items[i];
        if (strcmp(event->what, "job.added") == 0 && event->why && strcmp(event->why, why) == 0)
            return event->job_id;
    }
    return 0;
}

/* It was added in the transaction of the end. Its event may still be held back, as others have not
 * yet written events with smaller numbers. */
static int find_follower(struct waiting *waiting, int64_t id, int64_t *ret)
{
    for (;;) {
        int code = asking_ask(waiting->asking, ask_events_after, waiting);
        if (code < 0)
            return code;
        size_t count = waiting->events->count;
        *ret = follower_in(waiting->events, id);
        if (count > 0)
            waiting->asked_after = waiting->events->items[count - 1].id;
        tend_events_free(waiting->events);
        if (*ret != 0)
            return 0;
        if (count == 0 && (code = asking_pause(waiting->asking, LOOK_MS)) < 0)
            return code;
    }
}

/* The job has ended under whose key something was submitted while it ran: the wait is now for what
 * came of that. */
static int go_on_with_follower(struct waiting *waiting)
{
    struct tend_watch *watch = &waiting->watches[0];
    int64_t before = watch->id, follower = 0;
    waiting->asked_id = before;
    int code = asking_ask(waiting->asking, ask_events, waiting);
    if (code < 0)
        return fail(waiting, code);
    waiting->asked_after = end_of_run(waiting->events, waiting->wish.submitted_from);
    tend_events_free(waiting->events);
    waiting->wish.submitted_from = 0;
    if (waiting->asked_after == 0)
        return EXIT_DONE;
    wipe(waiting);
    if (waiting->asked_after < 0)
        return cli_fail(waiting->cli, TEND_ENOTFOUND,
                        "%s: job %" PRId64
                        " has ended, and what became of the submission under its "
                        "key is not known: the events are deleted",
                        path_of(waiting), before);
    code = find_follower(waiting, before, &follower);
    if (code == TEND_EINTERRUPTED && asking_is_late(waiting->asking))
        return time_is_over(waiting);
    if (code < 0)
        return fail(waiting, code);
    cli_note(waiting->cli,
             "%s: job %" PRId64 " %s; what was submitted is job %" PRId64 " and waited for",
             path_of(waiting), before,
             watch->state == TEND_DONE     ? "is done"
             : watch->state == TEND_FAILED ? "has failed"
                                           : "was cancelled",
             follower);
    *watch = (struct tend_watch){.id = follower, .state = -1};
    waiting->fates[0] = (struct fate){0};
    if (waiting->wish.ret_id)
        *waiting->wish.ret_id = follower;
    return EXIT_DONE;
}

/* Until the next look: shorter while it may have to be said why a job waits. */
static int64_t next_ask_ms(const struct waiting *waiting, int64_t left_ms)
{
    int64_t silent_ms = waiting->since_ms + SILENT_MS - clock_mono_ms();
    int64_t most_ms = silent_ms > 0 && !waiting->why_told ? silent_ms : ASK_MS;
    return left_ms < most_ms ? left_ms : most_ms;
}

static int wait_for_all(struct waiting *waiting)
{
    int64_t end_ms = end_of(&waiting->wish);
    waiting->since_ms = clock_mono_ms();
    if (end_ms != INT64_MAX) /* it ends by itself, unless the store is away */
        asking_end_at(waiting->asking, end_ms + AWAY_MS);
    for (;;) {
        int code = asking_ask_patiently(waiting->asking, ask_change, waiting, waiting->ask_ms);
        if (code == TEND_EINTERRUPTED && asking_is_late(waiting->asking))
            return time_is_over(waiting);
        if (code < 0)
            return fail(waiting, code);
        tell_back(waiting);
        int status = code > 0 ? look_at_all(waiting) : EXIT_DONE;
        if (status == EXIT_DONE && have_all_ended(waiting) && waiting->wish.submitted_from > 0)
            status = go_on_with_follower(waiting);
        if (status != EXIT_DONE)
            return status;
        if (have_all_ended(waiting))
            break;
        int64_t left_ms = end_ms - clock_mono_ms();
        if (left_ms <= 0)
            return time_is_over(waiting);
        if ((status = look_for_why(waiting)) != EXIT_DONE)
            return status;
        waiting->ask_ms = next_ask_ms(waiting, left_ms);
    }
    wipe(waiting);
    return EXIT_DONE;
}

/* --- how they ended --- */

static void put_json(struct buf *out, const struct tend_job *job, bool deleted)
{
    json_open(out, NULL, '{');
    json_int(out, "id", job->id);
    json_ending_members(out, job);
    if (deleted)
        json_bool(out, "deleted", true);
    json_close(out, '}');
    buf_putc(out, '\n');
}

/* Of a deleted job, what its events have said is all there is. */
static int tell_job(struct waiting *waiting, const struct tend_job *job, bool deleted)
{
    struct cli *cli = waiting->cli;
    bool done = job->state == TEND_DONE;
    if (cli->json)
        put_json(&cli->out, job, deleted);
    else if (waiting->wish.result)
        buf_printf(&cli->out, "%s\n", job->result ? job->result : "null");
    if (deleted && done)
        cli_note(cli, "%s: job %" PRId64 " was done and then deleted; its result is gone",
                 path_of(waiting), job->id);
    else if (deleted)
        cli_note(cli, "%s: job %" PRId64 " %s and was then deleted", path_of(waiting), job->id,
                 job->state == TEND_FAILED ? "has failed" : "was cancelled");
    else if (!done && !cli->json)
        note_bad_end(cli, job, waiting->has_output);
    if (deleted && done && waiting->wish.result)
        return EXIT_NOT_FOUND;
    return done ? EXIT_DONE : EXIT_FAILED;
}

static int tell_one(struct waiting *waiting, size_t i)
{
    const struct tend_watch *watch = &waiting->watches[i];
    waiting->asked_id = watch->id;
    int code =
        waiting->fates[i].deleted ? TEND_ENOTFOUND : asking_ask(waiting->asking, ask_job, waiting);
    if (code == TEND_ENOTFOUND) {
        const struct tend_job gone = {.id = watch->id, .state = watch->state};
        return tell_job(waiting, &gone, true);
    }
    if (code < 0)
        return fail(waiting, code);
    struct tend_job job = waiting->jobs->items[0];
    if (!job_has_ended(job.state)) /* brought back since */
        job.state = watch->state;
    int status = tell_job(waiting, &job, false);
    tend_jobs_free(waiting->jobs);
    return status;
}

static int tell_all(struct waiting *waiting)
{
    int status = EXIT_DONE;
    asking_end_at(waiting->asking, INT64_MAX);
    for (size_t i = 0; i < waiting->wish.count; i++) {
        int each = tell_one(waiting, i);
        if (each != EXIT_DONE && each != EXIT_FAILED && each != EXIT_NOT_FOUND)
            return each;
        if (each == EXIT_FAILED || status == EXIT_DONE)
            status = each;
    }
    return status;
}

/* --- the whole --- */

static void waiting_free(struct waiting *waiting)
{
    free(waiting->watches);
    free(waiting->fates);
    free(waiting);
}

int wait_for_jobs(struct cli *cli, const struct waiting_wish *wish)
{
    struct waiting *waiting = calloc(1, sizeof *waiting);
    if (!waiting)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    *waiting = (struct waiting){.cli = cli,
                                .wish = *wish,
                                .watches = calloc(wish->count, sizeof *waiting->watches),
                                .fates = calloc(wish->count, sizeof *waiting->fates),
                                .draws = can_draw(cli)};
    if (!waiting->watches || !waiting->fates) {
        waiting_free(waiting);
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < wish->count; i++)
        waiting->watches[i] = (struct tend_watch){.id = wish->ids[i], .state = -1};
    int status = EXIT_FAILED;
    waiting->asking = asking_new(cli, -1, waiting->draws ? tell_away : NULL, waiting);
    if (waiting->asking) {
        status = wait_for_all(waiting);
        if (status == EXIT_DONE)
            status = tell_all(waiting);
        asking_free(waiting->asking);
    }
    if (!cli->store_left)
        waiting_free(waiting);
    return status;
}
