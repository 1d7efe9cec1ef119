/* See json_step.h. */
#include "cli/json_step.h"

#include "base/timetext.h"
#include "cli/json_out.h"

#include <string.h>
#include <tend.h>

const char *stream_name(int stream)
{
    return stream == 1 ? "stdout" : stream == 2 ? "stderr" : "note";
}

static void raw_text(struct buf *out, const char *key, const char *json)
{
    json_raw(out, key, json, json ? strlen(json) : 0);
}

static void attempt_ending(struct buf *out, const struct tend_attempt *attempt)
{
    json_int_or_null(out, "exit_code", attempt->exit_code);
    json_int_or_null(out, "signal", attempt->signal);
    json_text(out, "failure_class", attempt->failure_class);
    json_text(out, "rule", attempt->rule);
    json_text(out, "evidence", attempt->evidence);
    json_text(out, "summary", attempt->summary);
    json_text(out, "failure_signature", attempt->signature);
    json_text(out, "diff_hash", attempt->diff_hash);
    json_text(out, "verdict", attempt->verdict);
    if (attempt->retryable == TEND_UNSET)
        json_raw(out, "retryable", NULL, 0);
    else
        json_bool(out, "retryable", attempt->retryable != 0);
    json_bool(out, "outside", attempt->outside != 0);
    json_int_or_null(out, "failures", attempt->failures);
    json_int_or_null(out, "next_at_ms", attempt->next_at_ms);
    raw_text(out, "warnings", attempt->warnings);
}

static void json_attempt(struct buf *out, const struct tend_attempt *attempt)
{
    json_open(out, NULL, '{');
    json_int(out, "job_id", attempt->job_id);
    json_int(out, "number", attempt->number);
    json_int(out, "step_index", attempt->step_index);
    json_text(out, "step_id", attempt->step_id);
    json_int(out, "attempt", attempt->attempt);
    json_text(out, "state", tend_attempt_state_name(attempt->state));
    json_text(out, "strategy", attempt->strategy);
    json_int(out, "token", attempt->token);
    json_int_or_null(out, "worker_id", attempt->worker_id);
    json_text(out, "host", attempt->host);
    json_int_or_null(out, "pid", attempt->pid);
    json_int(out, "started_at_ms", attempt->started_at_ms);
    json_int_or_null(out, "ended_at_ms", attempt->ended_at_ms);
    attempt_ending(out, attempt);
    json_int_or_null(out, "progress_percent", attempt->progress_percent);
    json_text(out, "progress_text", attempt->progress_text);
    json_int_or_null(out, "output_bytes", attempt->output_bytes);
    json_int_or_null(out, "output_dropped_bytes", attempt->output_dropped_bytes);
    json_close(out, '}');
}

void json_attempts(struct buf *out, const char *key, const struct tend_attempts *attempts)
{
    json_open(out, key, '[');
    for (size_t i = 0; i < attempts->count; i++)
        json_attempt(out, &attempts->items[i]);
    json_close(out, ']');
}

void json_checkpoints(struct buf *out, const char *key, const struct tend_checkpoints *checkpoints)
{
    json_open(out, key, '[');
    for (size_t i = 0; i < checkpoints->count; i++) {
        const struct tend_checkpoint *checkpoint = &checkpoints->items[i];
        json_open(out, NULL, '{');
        json_int(out, "step_index", checkpoint->step_index);
        json_text(out, "step_id", checkpoint->step_id);
        json_int(out, "number", checkpoint->number);
        json_int(out, "at_ms", checkpoint->at_ms);
        json_text(out, "diff_hash", checkpoint->diff_hash);
        raw_text(out, "changed_files", checkpoint->changed_files);
        raw_text(out, "outputs", checkpoint->outputs);
        json_text(out, "repo", checkpoint->repo);
        json_text(out, "commit", checkpoint->commit);
        json_int_or_null(out, "patch_bytes", checkpoint->patch_bytes);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void json_controls(struct buf *out, const char *key, const struct tend_controls *controls)
{
    json_open(out, key, '[');
    for (size_t i = 0; i < controls->count; i++) {
        const struct tend_control *control = &controls->items[i];
        json_open(out, NULL, '{');
        json_int(out, "id", control->id);
        json_text(out, "action", control->action);
        json_int_or_null(out, "step_index", control->step_index);
        json_text(out, "step_id", control->step_id);
        json_text(out, "reason", control->reason);
        json_text(out, "actor", control->actor);
        json_int(out, "at_ms", control->at_ms);
        json_int_or_null(out, "taken_at_ms", control->taken_at_ms);
        json_int_or_null(out, "done_at_ms", control->done_at_ms);
        json_text(out, "outcome", control->outcome);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void json_keeps(struct buf *out, const char *key, const struct tend_keeps *keeps)
{
    json_open(out, key, '[');
    for (size_t i = 0; i < keeps->count; i++) {
        const struct tend_keep *keep = &keeps->items[i];
        json_open(out, NULL, '{');
        json_int(out, "number", keep->number);
        json_int(out, "step_index", keep->step_index);
        json_text(out, "step_id", keep->step_id);
        json_text(out, "state", tend_attempt_state_name(keep->state));
        json_text(out, "host", keep->host);
        json_text(out, "workspace", keep->workspace);
        json_bool(out, "workspace_there", keep->there != 0);
        json_int_or_null(out, "workspace_until_ms", keep->until_ms);
        json_int_or_null(out, "patch_bytes", keep->patch_bytes);
        json_int_or_null(out, "dropped_bytes", keep->dropped_bytes);
        raw_text(out, "changed_files", keep->changed_files);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void json_edit(struct buf *out, const char *key, const struct tend_edit *edit)
{
    if (!edit) {
        json_raw(out, key, NULL, 0);
        return;
    }
    json_open(out, key, '{');
    json_int(out, "step_index", edit->step_index);
    json_int(out, "at_ms", edit->at_ms);
    json_text(out, "by", edit->by);
    json_int(out, "patch_bytes", (int64_t)edit->changes.patch_bytes);
    raw_text(out, "changed_files", edit->changes.changed_files);
    json_close(out, '}');
}

void json_live_control(struct buf *out, const char *key, const struct tend_controls *controls,
                       int64_t job_id)
{
    const struct tend_control *next = NULL;
    bool paused = false;
    bool takeover = false;
    char time[TIME_TEXT_BYTES];
    for (size_t i = 0; i < controls->count; i++) {
        const struct tend_control *control = &controls->items[i];
        if (control->job_id != job_id)
            continue;
        next = next ? next : control;
        paused |= strcmp(control->action, "pause") == 0;
        takeover |= strcmp(control->action, "takeover") == 0;
    }
    json_open(out, key, '{');
    json_bool(out, "paused", paused);
    json_bool(out, "takeover", takeover);
    if (!next) {
        json_raw(out, "recovery", NULL, 0);
    } else {
        json_open(out, "recovery", '{');
        json_int(out, "id", next->id);
        json_text(out, "action", next->action);
        json_text(out, "stepId", next->step_id);
        json_text(out, "reason", next->reason);
        json_text(out, "actor", next->actor);
        json_text(out, "updatedAt", time_text(next->at_ms, time));
        json_close(out, '}');
    }
    json_close(out, '}');
}

void json_output_members(struct buf *out, const struct tend_output *piece,
                         const struct tend_attempt *attempt)
{
    json_int(out, "number", piece->number);
    json_text(out, "step_id", attempt ? attempt->step_id : NULL);
    json_int_or_null(out, "attempt", attempt ? attempt->attempt : TEND_UNSET);
    json_int(out, "seq", piece->seq);
    json_int(out, "at_ms", piece->at_ms);
    json_text(out, "stream", stream_name(piece->stream));
    json_int(out, "dropped_bytes", piece->dropped_bytes);
    json_text(out, "text", piece->text ? piece->text : "");
}

void json_worker(struct buf *out, const char *key, const struct tend_worker *worker)
{
    json_open(out, key, '{');
    json_int(out, "id", worker->id);
    json_text(out, "name", worker->name);
    json_text(out, "host", worker->host);
    json_int(out, "pid", worker->pid);
    if (worker->alive < 0)
        json_raw(out, "alive", NULL, 0);
    else
        json_bool(out, "alive", worker->alive);
    json_bool(out, "stopped", worker->stopped);
    json_int(out, "since_ms", worker->since_ms);
    json_int_or_null(out, "lost_at_ms", worker->lost_at_ms);
    json_int(out, "leases", worker->leases);
    json_int(out, "locks", worker->locks);
    json_close(out, '}');
}
