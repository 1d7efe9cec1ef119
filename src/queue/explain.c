/*
 * BY-1: why a job is not running, or what it is doing; read from the store as it is, nothing is
 * changed.
 *
 * A scheduled job becomes pending when somebody asks for jobs. Nobody may: a scheduled job whose
 * due time has come is therefore explained as a pending one, after how long it has been due.
 */
#include "queue/explain.h"

#include "base/text.h"
#include "core/spec.h"
#include "queue/control.h"
#include "queue/row.h"
#include "store/queries.h"

#include <stdarg.h>
#include <string.h>

void explain_because(struct explain_call *call, const char *reason, const char *by,
                     int64_t until_ms)
{
    snprintf(call->out.reason, sizeof call->out.reason, "%s", reason);
    snprintf(call->out.by, sizeof call->out.by, "%s", by != NULL ? by : "");
    call->out.until_ms = until_ms;
}

const char *explain_left(const struct explain_call *call, int64_t at_ms,
                         char out[DURATION_TEXT_BYTES])
{
    return span_text(at_ms > call->now_ms ? at_ms - call->now_ms : 0, out);
}

void explain_add(struct explain_call *call, const char *format, ...)
{
    size_t used = strlen(call->out.text);
    va_list args;
    va_start(args, format);
    vsnprintf(call->out.text + used, sizeof call->out.text - used, format, args);
    va_end(args);
}

void explain_take_back(struct explain_call *call)
{
    if (call->locked_by[0] == '\0') {
        HINT(call, "'tend heal' takes it back at once.");
        return;
    }
    explain_add(call, " But its row is locked by %s: not before that has ended.", call->locked_by);
    HINT(call, "'tend heal' takes it back once that session has ended; the server ends one whose "
               "connection is dead within 20 s.");
}

static void explain_running(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    char left[DURATION_TEXT_BYTES];
    explain_because(call, "leased", job->owner, call->until_ms);
    if (call->until_ms <= call->now_ms) {
        SAY(call, "It is held by %s, whose lease has expired; the next claim takes it back.",
            job->owner);
        explain_take_back(call);
        return;
    }
    SAY(call, "It is %s by %s; the lease ends in %s unless it is renewed%s.",
        job->started_at_ms != TEND_UNSET ? "being worked on" : "leased but not yet started",
        job->owner, explain_left(call, call->until_ms, left),
        job->worker_id != TEND_UNSET ? ", or at once when that worker dies" : "");
    if (call->owed.blocked_ms > 0)
        explain_add(call, " Nobody could write to the store for %s, which is not counted.",
                    span_text(call->owed.blocked_ms, left));
    /* Who works renews the lease long before half of it is over. */
    int64_t silent_ms = call->now_ms - call->owed.all_ms - job->seen_at_ms;
    if (job->seen_at_ms != TEND_UNSET && silent_ms >= call->until_ms - call->now_ms)
        explain_add(call, " Nothing was heard of it for %s.", span_text(silent_ms, left));
}

/* Its lease has ended once already, and was extended so that its worker can renew it (recover.c).
 */
static void explain_warning(struct explain_call *call)
{
    char left[DURATION_TEXT_BYTES];
    explain_because(call, "warned", call->job->owner, call->until_ms);
    SAY(call,
        "It is held by %s, whose lease has ended without a sign of death: it has been warned and "
        "has %s to renew the lease.",
        call->job->owner, explain_left(call, call->until_ms, left));
}

/* When the lease ends; what a move has left alone will begin anew. */
static int read_lease(struct db_tx *tx, struct explain_call *call)
{
    struct job_lease_rows rows;
    int rc = run_job_lease(tx, 0, (struct job_lease_params){.id = db_int(call->id)}, &rows);
    if (rc < 0 || rows.count == 0)
        return rc;
    const struct job_lease_row *lease = &rows.at[0];
    int64_t length_ms = db_num(lease->length_ms);
    call->warned = db_num(lease->warned) == 1;
    call->until_ms = db_num(lease->left_alone) == 1
                         ? call->now_ms + length_ms
                         : db_owed_end(&call->owed, call->job->until_ms, call->now_ms, length_ms);
    return 0;
}

/* What an owner said when it failed, with what leads to it; nothing where it said nothing. */
static const char *error_colon(const struct tend_job *job)
{
    return job->error_text != NULL && job->error_text[0] != '\0' ? ": " : "";
}

/* Steps have attempts of their own, which the error text counts: these are those of the job. */
static void explain_failed(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    SAY(call, "It has failed (%s); the queue has tried the job %lld time%s",
        job->error_class != NULL ? job->error_class : "?", (long long)job->attempts,
        plural(job->attempts));
    if (job->crashes > 0)
        explain_add(call, " and lost %lld worker%s with it", (long long)job->crashes,
                    plural(job->crashes));
    explain_add(call, "%s%.200s%s", error_colon(job),
                job->error_text != NULL ? job->error_text : "", *error_colon(job) ? "" : ".");
}

static void explain_finished(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    explain_because(call, "finished", job->changed_by, TEND_UNSET);
    if (job->state == TEND_DONE) {
        SAY(call, "%s completed it; the queue has tried the job %lld time%s.", job->changed_by,
            (long long)job->attempts, plural(job->attempts));
        return;
    }
    if (job->state == TEND_FAILED)
        explain_failed(call);
    else
        SAY(call, "It was cancelled by %s%s%s.", job->changed_by,
            job->changed_why != NULL ? ": " : "", job->changed_why != NULL ? job->changed_why : "");
    HINT(call, "'tend retry %lld' gives it a new life.", (long long)job->id);
}

static bool begins_with(const char *text, const char *prefix)
{
    return text != NULL && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A reason of the runner (run/step_run.c) says itself who asked for it. */
static void explain_held(struct explain_call *call)
{
    const struct tend_job *job = call->job;
    const char *why = job->changed_why;
    long long id = (long long)call->id;
    explain_because(call, "held", job->changed_by, TEND_UNSET);
    if (begins_with(why, "taken over by ") || begins_with(why, "paused by "))
        SAY(call, "It is held: %s.", why);
    else
        SAY(call, "It is held by %s%s%s.", job->changed_by, why != NULL ? ": " : "",
            why != NULL ? why : "");
    if (begins_with(why, "taken over by ") && strstr(why, "; its workspace is ") != NULL)
        HINT(call,
             "'tend resume %lld --keep-edits' keeps your changes; without it the step begins "
             "afresh.",
             id);
    else
        HINT(call, "'tend resume %lld' lets it go on.", id);
}

/* Who carries out what was asked. An owner that has begun no step may be none that does. */
static const char *explain_control_by(const struct explain_call *call,
                                      const struct tend_control *open)
{
    bool taken = open->taken_at_ms != TEND_UNSET;
    if (call->job->state != TEND_RUNNING)
        return "who takes the job next does it";
    if (!call->has_step)
        return taken ? "its owner knows and may not act on it"
                     : "its owner is told with its next heartbeat and may not act on it";
    return taken ? "its worker knows and does it as soon as the step lets it"
                 : "its worker has yet to hear of it";
}

/* What was asked of the job and has yet to be carried out. */
static int explain_controls(struct db_tx *tx, struct explain_call *call)
{
    struct control_open_of_job_rows rows;
    const struct control_open_of_job_params params = {.job_id = db_int(call->id)};
    int rc = run_control_open_of_job(tx, DB_LAST, params, &rows);
    for (size_t i = 0; rc == 0 && i < rows.count; i++) {
        struct tend_control open;
        control_read(&open, &rows.at[i].control);
        explain_add(call, " %s has asked for %s%s%s%s%.100s; %s.", open.actor, open.action,
                    open.step_id != NULL ? " of step " : "",
                    open.step_id != NULL ? open.step_id : "", open.reason != NULL ? ": " : "",
                    open.reason != NULL ? open.reason : "", explain_control_by(call, &open));
    }
    bool leased = call->job->state == TEND_RUNNING && call->until_ms > call->now_ms;
    if (rc == 0 && rows.count > 0 && leased && !call->has_step) {
        explain_add(call,
                    " 'tend with-lease' and 'tend claim --exec' hear only of cancel and hold.");
        HINT(call, "'tend hold %lld' takes the job away from its owner.", (long long)call->id);
    }
    return rc;
}

/* Which of the last owner's reasons the job waits with: it gave the job back, or the job failed. */
enum { WHY_BYTES = 252 };

/* As much of a reason as fits, cut between words with "…". */
static const char *cut_why(const char *why, char out[WHY_BYTES])
{
    static const char cut[] = "\u2026";
    size_t len = strlen(why);
    size_t most = WHY_BYTES - sizeof cut;
    if (len > most) {
        len = utf8_floor(why, len, most);
        size_t word = len;
        while (word > 0 && why[word] != ' ')
            word--;
        len = word > 0 ? word : len;
    }
    snprintf(out, WHY_BYTES, "%.*s%s", (int)len, why, why[len] != '\0' ? cut : "");
    return out;
}

/* end: NULL when it was never leased, or nobody knows any more how that has ended. */
static void explain_last_end(struct explain_call *call, const struct job_last_end_row *end)
{
    const struct tend_job *job = call->job;
    char part[WHY_BYTES];
    if (end != NULL && strcmp(db_str(end->what), "job.released") == 0) {
        const char *why = db_str(end->why);
        if (why == NULL)
            return;
        if (begins_with(why, NO_HANDLER_WHY))
            explain_unhandled(call, db_str(end->who), why);
        if (begins_with(why, NO_FOLDER_WHY))
            HINT(call, "%s.", NO_FOLDER_HINT);
        snprintf(call->out.given_back, sizeof call->out.given_back, "%s", cut_why(why, part));
        if (strcmp(call->out.reason, "no_handler") != 0)
            explain_add(call, " %s gave it back: %s.", db_str(end->who), part);
    } else if (job->state == TEND_SCHEDULED && job->attempts > 0 && job->error_text != NULL) {
        explain_add(call, " Its last attempt failed (%s)%s%s.",
                    job->error_class != NULL ? job->error_class : "?", error_colon(job),
                    cut_why(job->error_text, part));
    }
}

static int explain_scheduled(struct db_tx *tx, struct explain_call *call)
{
    int64_t due_ms = call->job->due_at_ms;
    char span[DURATION_TEXT_BYTES];
    char pending[sizeof call->out.text];
    if (due_ms > call->now_ms) {
        explain_because(call, "due_later", "", due_ms);
        SAY(call, "It is due in %s.", explain_left(call, due_ms, span));
        return 0;
    }
    int rc = explain_pending(tx, call);
    memcpy(pending, call->out.text, sizeof pending);
    SAY(call, "It has been due for %s. ", span_text(call->now_ms - due_ms, span));
    explain_add(call, "%s", pending);
    return rc;
}

static int explain_state(struct db_tx *tx, struct explain_call *call)
{
    const struct tend_job *job = call->job;
    switch (job->state) {
    case TEND_SCHEDULED:
        return explain_scheduled(tx, call);
    case TEND_PENDING:
        return explain_pending(tx, call);
    case TEND_RUNNING:
        if (call->warned && call->until_ms > call->now_ms)
            explain_warning(call);
        else
            explain_running(call);
        return 0;
    case TEND_HELD:
        explain_held(call);
        return 0;
    default:
        explain_finished(call);
        return 0;
    }
}

/* What outlives the transaction, and an answer with nothing in it. */
static void begin_answer(struct db_tx *tx, struct explain_call *call)
{
    const struct tend_job *job = call->job;
    struct job_plan plan;
    struct err err;
    call->worker_id = job->worker_id;
    snprintf(call->queue, sizeof call->queue, "%s", job->queue);
    snprintf(call->kind, sizeof call->kind, "%s", job->kind);
    call->is_plan =
        spec_parse(job->payload, job->payload_bytes, db_arena(tx), &plan, &err) == SPEC_PLAN;
    call->out = (struct tend_explanation){.state = job->state,
                                          .until_ms = TEND_UNSET,
                                          .step_index = TEND_UNSET,
                                          .attempt = TEND_UNSET,
                                          .attempt_ms = TEND_UNSET,
                                          .percent = TEND_UNSET,
                                          .next_at_ms = TEND_UNSET};
    call->out.waiting = job->state != TEND_RUNNING && job->state < TEND_DONE;
}

static int read_job(struct db_tx *tx, struct explain_call *call, struct tend_jobs *jobs)
{
    struct job_get_rows found;
    const struct job_get_params params = {.id = db_int(call->id), .now = db_now(tx)};
    int rc = run_job_get(tx, 0, params, &found);
    if (rc < 0 || (rc = db_owed(tx, &call->owed)) < 0)
        return rc;
    if (found.count == 0)
        return err_set(db_err(tx), TEND_ENOTFOUND,
                       "there is no job %lld; 'tend jobs' lists those that are",
                       (long long)call->id);
    if ((rc = jobs_read(db_arena(tx), &found.result, jobs)) < 0)
        return rc;
    call->job = &jobs->items[0];
    call->now_ms = db_num(found.at[0].now);
    return 0;
}

static int explain_waiting(struct db_tx *tx, struct explain_call *call)
{
    struct job_last_end_rows end;
    int rc = run_job_last_end(tx, 0, (struct job_last_end_params){.id = db_int(call->id)}, &end);
    if (rc < 0)
        return rc;
    call->leased_before = end.count > 0 || call->job->attempts > 0;
    if ((rc = explain_state(tx, call)) == 0)
        explain_last_end(call, end.count > 0 ? &end.at[0] : NULL);
    return rc;
}

static int explain_work(struct db_tx *tx, struct explain_call *call)
{
    int rc;
    if ((rc = read_lease(tx, call)) < 0 || (rc = holder_read(tx, call->id, call->locked_by)) < 0 ||
        (rc = explain_state(tx, call)) < 0 || (rc = explain_step(tx, call)) < 0)
        return rc;
    call->told_bytes = strlen(call->out.text);
    return 0;
}

static int explain_body(struct db_tx *tx, void *arg)
{
    struct explain_call *call = arg;
    struct tend_jobs jobs;
    int rc = read_job(tx, call, &jobs);
    if (rc < 0)
        return rc;
    begin_answer(tx, call);
    int state = call->job->state;
    rc = state <= TEND_PENDING   ? explain_waiting(tx, call)
         : state == TEND_RUNNING ? explain_work(tx, call)
                                 : explain_state(tx, call);
    if (rc < 0 || state >= TEND_DONE)
        return rc;
    if (call->job->followed)
        explain_add(call, " A newer submission under its key waits for its end.");
    return explain_controls(tx, call);
}

/* A text that did not fit may have been cut inside a character. */
static void drop_half_character(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && !utf8_valid(text, len))
        text[--len] = '\0';
}

int tend_explain(tend *t, int64_t id, struct tend_explanation *ret)
{
    struct explain_call call = {.id = id};
    int rc = handle_read(t, explain_body, &call);
    call.job = NULL;
    if (rc >= 0)
        rc = explain_workers(t, &call);
    drop_half_character(call.out.text);
    drop_half_character(call.out.by);
    drop_half_character(call.out.given_back);
    drop_half_character(call.out.hint);
    if (rc >= 0)
        *ret = call.out;
    return rc < 0 ? rc : 0;
}
