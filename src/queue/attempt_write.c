/* Rows and events of attempts. Whoever calls has the job's row locked and has seen that the lease
 * is held. */
#include "base/buf.h"
#include "queue/attempt.h"
#include "queue/checkpoint.h"

#include <string.h>

void step_put_text(struct buf *json, const char *name, const char *text)
{
    buf_printf(json, "%s\"%s\":", json->len == 0 ? "{" : ",", name);
    if (text == NULL)
        buf_puts(json, "null");
    else
        buf_json_string(json, text, strlen(text));
}

static void put_number(struct buf *json, const char *name, int64_t number)
{
    buf_printf(json, "%s\"%s\":", json->len == 0 ? "{" : ",", name);
    if (number == TEND_UNSET)
        buf_puts(json, "null");
    else
        buf_int(json, number);
}

const char *step_facts_json(struct db_tx *tx, const struct step_facts *facts)
{
    struct buf json;
    buf_init(&json);
    step_put_text(&json, "stepId", facts->step_id);
    put_number(&json, "stepIndex", facts->step_index);
    put_number(&json, "attempt", facts->attempt);
    step_put_text(&json, "failureClass", facts->failure_class);
    step_put_text(&json, "failureSignature", facts->signature);
    step_put_text(&json, "diffHash", facts->diff_hash);
    step_put_text(&json, "strategy", facts->strategy);
    if (facts->gives_up)
        buf_printf(&json, ",\"retryable\":%s", facts->retryable ? "true" : "false");
    buf_putc(&json, '}');
    const char *text = json.failed ? NULL : arena_strndup(db_arena(tx), json.data, json.len);
    buf_done(&json);
    return text;
}

int step_event_write(struct db_tx *tx, struct step_job *job, const char *who, const char *what,
                     const char *why, const char *data)
{
    if (data == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while writing an event");
    const struct step_event_params params = {
        .prev = db_int_or_null(job->event_id),
        .now = db_now(tx),
        .job_id = db_int(job->id),
        .queue = db_text(job->queue),
        .who = db_text(who),
        .what = db_text(what),
        .from_state = db_int(job->state),
        .token = db_int(job->token),
        .owner = db_text(job->owner),
        .why = db_text(handle_clean_text(db_arena(tx), why)),
        .data = db_text(data),
    };
    job->event_id = TEND_UNSET;
    return each_step_event(tx, DB_LATER, &params, 1, NULL);
}

int step_chain(struct db_tx *tx, struct step_job *job, unsigned how)
{
    const struct step_chain_params params = {.id = db_int(job->id), .now = db_now(tx)};
    return job->event_id != TEND_UNSET ? 0 : each_step_chain(tx, how, &params, 1, NULL);
}

/* No attempt of the step follows this one: the job fails. */
static bool gives_up(const struct tend_attempt_end *end)
{
    return end->verdict != NULL &&
           (strcmp(end->verdict, "failed") == 0 || strcmp(end->verdict, "exhausted") == 0);
}

static int write_end(struct db_tx *tx, struct step_job *job, const struct step_last *last,
                     const struct tend_attempt_end *end)
{
    struct arena *arena = db_arena(tx);
    const char *class = handle_clean_text(arena, end->failure_class);
    const char *summary = handle_clean_text(arena, end->summary);
    const struct attempt_end_params params = {
        .job_id = db_int(job->id),
        .number = db_int(last->number),
        .state = db_int(end->state),
        .now = db_now(tx),
        .exit_code = db_int_or_null(end->exit_code),
        .signal = db_int_or_null(end->signal),
        .failure_class = db_text(class),
        .rule = db_text(handle_clean_text(arena, end->rule)),
        .evidence = db_text(handle_clean_text(arena, end->evidence)),
        .summary = db_text(summary),
        .signature = db_text(handle_clean_text(arena, end->signature)),
        .diff_hash = db_text(handle_clean_text(arena, end->diff_hash)),
        .output_bytes = db_int_or_null(end->output_bytes),
        .output_dropped_bytes = db_int_or_null(end->output_dropped_bytes),
        .may_live = db_int(end->may_live != 0),
        .verdict = db_text(end->verdict),
        .no_progress = end->no_progress ? db_int(1) : db_null(),
        .timeout = db_text(end->timeout),
        .retryable = gives_up(end) ? db_int(end->retryable != 0) : db_null(),
        .warnings = db_text(handle_clean_text(arena, end->warnings)),
        .failures = db_int_or_null(end->failures),
        .outside = end->outside ? db_int(1) : db_null(),
        .pause_ms = db_int_or_null(end->next_in_ms),
    };
    int rc = each_attempt_end(tx, DB_LATER, &params, 1, NULL);
    if (rc < 0)
        return rc;
    const struct step_facts facts = {.step_id = last->step_id,
                                     .step_index = last->step_index,
                                     .attempt = last->attempt,
                                     .failure_class = class,
                                     .signature = end->signature,
                                     .diff_hash = end->diff_hash,
                                     .strategy = last->strategy,
                                     .gives_up = gives_up(end),
                                     .retryable = end->retryable != 0};
    return step_event_write(tx, job, job->owner,
                            end->state == TEND_ATTEMPT_SUCCEEDED ? "task.step.attempt.finished"
                                                                 : "task.step.attempt.failed",
                            summary, step_facts_json(tx, &facts));
}

int step_end_write(struct db_tx *tx, struct step_job *job, const struct step_last *last,
                   const struct tend_attempt_end *ended)
{
    int rc = write_end(tx, job, last, ended);
    if (rc < 0 || ended->state != TEND_ATTEMPT_SUCCEEDED)
        return rc;
    return checkpoint_write(tx, job, last, ended);
}

int step_lost_write(struct db_tx *tx, struct step_job *job, const struct step_last *last)
{
    struct tend_attempt_end end;
    tend_attempt_end_init(&end);
    end.state = TEND_ATTEMPT_LOST;
    end.failure_class = "transient_runtime";
    end.rule = "lease_lost";
    end.summary = "its worker died or lost the lease";
    end.may_live = 1;
    return write_end(tx, job, last, &end);
}

int step_begin_write(struct db_tx *tx, tend *t, struct step_job *job, int64_t number,
                     const struct tend_attempt_begin *begun)
{
    const char *strategy = begun->strategy != NULL ? begun->strategy : "first";
    const struct attempt_begin_params params = {
        .job_id = db_int(job->id),
        .number = db_int(number),
        .step_index = db_int(begun->step_index),
        .step_id = db_text(begun->step_id),
        .attempt = db_int(begun->attempt),
        .token = db_int(job->token),
        .worker_id = db_int_or_null(job->worker_id),
        .host = db_text(t->host),
        .boot_id = db_text(t->boot_id),
        .pid = db_int_or_null(begun->pid),
        .start_ticks = db_int_or_null(begun->start_ticks),
        .marker = db_text(begun->marker),
        .strategy = db_text(strategy),
        .now = db_now(tx),
    };
    int rc = each_attempt_begin(tx, DB_LATER, &params, 1, NULL);
    if (rc < 0)
        return rc;
    const struct step_facts facts = {.step_id = begun->step_id,
                                     .step_index = begun->step_index,
                                     .attempt = begun->attempt,
                                     .strategy = strategy};
    return step_event_write(tx, job, job->owner, "task.step.attempt.started", NULL,
                            step_facts_json(tx, &facts));
}

int step_note_write(struct db_tx *tx, struct step_job *job, const struct tend_step_event *event)
{
    const struct step_facts facts = {.step_id = event->step_id,
                                     .step_index = event->step_index,
                                     .attempt = event->attempt,
                                     .failure_class = event->failure_class,
                                     .signature = event->signature,
                                     .diff_hash = event->diff_hash,
                                     .strategy = event->strategy,
                                     .gives_up =
                                         strcmp(event->what, "task.self_heal.exhausted") == 0,
                                     .retryable = event->retryable != 0};
    return step_event_write(tx, job, job->owner, event->what, event->why,
                            step_facts_json(tx, &facts));
}
