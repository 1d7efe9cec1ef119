/* What the step of a running job does; and a job that nobody who was asked can run. */
#include "base/text.h"
#include "core/spec.h"
#include "queue/explain.h"
#include "store/queries.h"

#include <inttypes.h>
#include <string.h>

/* The newest line with something on it may begin in an earlier piece. */
enum { PIECES = 3 };

/* Where the last line with something on it ends; 0: there is none. */
static size_t end_of_last_line(const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
        len--;
    return len;
}

static int read_line(struct db_tx *tx, struct explain_call *call, int64_t number)
{
    struct output_newest_rows pieces;
    const struct output_newest_params params = {
        .job_id = db_int(call->id), .number = db_int(number), .limit = db_int(PIECES)};
    int rc = run_output_newest(tx, 0, params, &pieces);
    const char *text = "";
    for (size_t i = 0; rc >= 0 && i < pieces.count; i++) /* the newest comes first */
        text = arena_printf(db_arena(tx), "%s%s", db_str(pieces.at[i].text), text);
    if (rc < 0 || text == NULL)
        return rc;
    size_t end = end_of_last_line(text, strlen(text));
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '\r')
        begin--;
    text_plain(text + begin, end - begin, call->out.line, sizeof call->out.line);
    return 0;
}

/* A worker ends its steps before their lease ends. Whether it has done so to one that was warned,
 * nobody but itself knows. */
static void say_step(struct explain_call *call)
{
    const struct tend_explanation *out = &call->out;
    char span[DURATION_TEXT_BYTES];
    bool expired = call->until_ms <= call->now_ms;
    bool runs = !expired && !call->warned;
    explain_add(call, " Step %" PRId64 " (%s), attempt %" PRId64 ", %s %s%s", out->step_index,
                out->step_id, out->attempt, runs ? "has been running for" : "began",
                span_text(out->attempt_ms, span), runs ? "" : " ago");
    if (expired)
        explain_add(call, "; its lease has expired, so its step has been ended");
    if (out->percent != TEND_UNSET)
        explain_add(call, ", %" PRId64 "%%", out->percent);
    if (out->progress[0] != '\0')
        explain_add(call, "%s %s", out->percent == TEND_UNSET ? "," : "", out->progress);
    if (out->line[0] != '\0')
        explain_add(call, "; its last line: \"%s\"", out->line);
    explain_add(call, ".");
}

/* Between two attempts. why: what the last one failed with, or NULL. */
static void say_wait(struct explain_call *call, const char *class, const char *why)
{
    const struct tend_explanation *out = &call->out;
    char left[DURATION_TEXT_BYTES];
    explain_add(call, " Step %" PRId64 " (%s) failed with attempt %" PRId64 " (%s)%s%.200s",
                out->step_index, out->step_id, out->attempt, class != NULL ? class : "?",
                why != NULL ? ": " : "", why != NULL ? why : "");
    explain_add(call, "; attempt %" PRId64 " begins in %s.", out->attempt + 1,
                explain_left(call, out->next_at_ms, left));
}

static void read_step(struct explain_call *call, const struct attempt_now_row *now)
{
    struct tend_explanation *out = &call->out;
    out->step_index = db_num(now->step_index);
    snprintf(out->step_id, sizeof out->step_id, "%s", db_str(now->step_id));
    out->attempt = db_num(now->attempt);
}

static void read_progress(struct explain_call *call, const struct attempt_now_row *now)
{
    struct tend_explanation *out = &call->out;
    const char *progress = db_str(now->progress_text);
    out->attempt_ms = call->now_ms - db_num(now->started_at);
    out->percent = db_num(now->progress_percent);
    if (progress != NULL)
        text_plain(progress, strlen(progress), out->progress, sizeof out->progress);
}

int explain_step(struct db_tx *tx, struct explain_call *call)
{
    struct attempt_now_rows rows;
    int rc = run_attempt_now(tx, 0, (struct attempt_now_params){.job_id = db_int(call->id)}, &rows);
    if (rc < 0 || rows.count == 0 || db_num(rows.at[0].token) != call->job->token)
        return rc;
    call->has_step = true;
    const struct attempt_now_row *now = &rows.at[0];
    bool runs = db_num(now->state) == TEND_ATTEMPT_RUNNING;
    int64_t next_at_ms = db_num(now->next_at);
    if (!runs && (next_at_ms == TEND_UNSET || next_at_ms <= call->now_ms))
        return 0;
    read_step(call, now);
    if ((rc = read_line(tx, call, db_num(now->number))) < 0)
        return rc;
    if (runs) {
        read_progress(call, now);
        say_step(call);
    } else {
        call->out.next_at_ms = next_at_ms;
        say_wait(call, db_str(now->failure_class), db_str(now->evidence));
    }
    return 0;
}

/* Whoever has no kind to give a handler for can still take the job by hand. */
void explain_hint_at_handler(struct explain_call *call)
{
    if (call->kind[0] != '\0')
        HINT(call,
             "'tend claim -q %.60s' takes it, or 'tend work -q %.60s --handler %.60s=COMMAND' runs "
             "it.",
             call->queue, call->queue, call->kind);
    else
        HINT(call,
             "'tend claim -q %.50s' takes it; 'tend work -q %.50s' runs plans (run, exec, http, "
             "sleep or steps) and, with --handler, kinds.",
             call->queue, call->queue);
}

static void hint_at_remedy(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    struct spec_slip slip;
    if (spec_find_slip(job->payload, job->payload_bytes, &slip))
        HINT(call, "Its payload has \"%s\"; a plan has \"%s\": add it again with that.",
             slip.member, slip.meant);
    else
        explain_hint_at_handler(call);
}

void explain_unhandled(struct explain_call *call, const char *who, const char *why)
{
    static const char *const could_run[] = {"due_later", "ready", "behind"};
    char left[DURATION_TEXT_BYTES];
    bool could = false;
    for (size_t i = 0; i < sizeof could_run / sizeof *could_run; i++)
        could |= strcmp(call->out.reason, could_run[i]) == 0;
    if (!could)
        return;
    int64_t due_ms = call->job->due_at_ms;
    explain_because(call, "no_handler", who, due_ms > call->now_ms ? due_ms : TEND_UNSET);
    SAY(call, "Worker %s cannot run it: %.300s.", who, why);
    if (due_ms > call->now_ms)
        explain_add(call, " It is offered again in %s.", explain_left(call, due_ms, left));
    hint_at_remedy(call);
}

struct kind_call {
    const char *queue, *kind;
    char *who;
};

static int kind_body(struct db_tx *tx, void *arg)
{
    struct kind_call *call = arg;
    struct job_unhandled_rows found;
    const struct job_unhandled_params params = {.now = db_now(tx),
                                                .queue = db_text(call->queue),
                                                .kind = db_text(call->kind),
                                                .why = db_text(NO_HANDLER_WHY "%")};
    int rc = run_job_unhandled(tx, DB_LAST, params, &found);
    if (rc < 0 || found.count == 0)
        return rc;
    snprintf(call->who, NAME_BYTES, "%s", db_str(found.at[0].changed_by));
    return 1;
}

int explain_unhandled_kind(tend *t, const char *queue, const char *kind, char ret_who[NAME_BYTES])
{
    struct kind_call call = {
        .queue = queue != NULL ? queue : "default", .kind = kind, .who = ret_who};
    return handle_read(t, kind_body, &call);
}
