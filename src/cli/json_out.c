/* See json_out.h. */
#include "cli/json_out.h"

#include "base/rate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

/* A comma is due unless something has just been opened. */
static void put_key(struct buf *out, const char *key)
{
    char last = out->len > 0 ? out->data[out->len - 1] : '\n';
    if (last != '{' && last != '[' && last != '\n')
        buf_putc(out, ',');
    if (!key)
        return;
    buf_json_string(out, key, strlen(key));
    buf_putc(out, ':');
}

void json_open(struct buf *out, const char *key, char bracket)
{
    put_key(out, key);
    buf_putc(out, bracket);
}

void json_close(struct buf *out, char bracket)
{
    buf_putc(out, bracket);
}

void json_int(struct buf *out, const char *key, int64_t number)
{
    put_key(out, key);
    buf_int(out, number);
}

void json_int_or_null(struct buf *out, const char *key, int64_t number)
{
    if (number == TEND_UNSET)
        json_raw(out, key, NULL, 0);
    else
        json_int(out, key, number);
}

void json_bool(struct buf *out, const char *key, bool value)
{
    put_key(out, key);
    buf_puts(out, value ? "true" : "false");
}

void json_text(struct buf *out, const char *key, const char *text)
{
    put_key(out, key);
    if (text)
        buf_json_string(out, text, strlen(text));
    else
        buf_puts(out, "null");
}

void json_raw(struct buf *out, const char *key, const char *json, size_t bytes)
{
    put_key(out, key);
    if (!json || bytes == 0) {
        buf_puts(out, "null");
        return;
    }
    /* Line ends are blank space between tokens; here they would end the row. */
    size_t from = out->len;
    buf_append(out, json, bytes);
    if (out->failed)
        return;
    for (size_t at = from; at < out->len; at++)
        if (out->data[at] == '\n' || out->data[at] == '\r')
            out->data[at] = ' ';
}

static void json_raw_text(struct buf *out, const char *key, const char *json)
{
    json_raw(out, key, json, json ? strlen(json) : 0);
}

/* ---- indented ---- */

static void new_line(struct buf *out, const char *margin, size_t depth)
{
    buf_putc(out, '\n');
    buf_puts(out, margin);
    for (size_t i = 0; i < depth; i++)
        buf_puts(out, "  ");
}

static size_t string_end(const char *json, size_t bytes, size_t at)
{
    for (at++; at < bytes && json[at] != '"'; at++)
        if (json[at] == '\\')
            at++;
    return at < bytes ? at + 1 : bytes;
}

static size_t skip_blanks(const char *json, size_t bytes, size_t at)
{
    while (at < bytes && strchr(" \t\r\n", json[at]))
        at++;
    return at;
}

void json_pretty(struct buf *out, const char *json, size_t bytes, const char *margin)
{
    size_t depth = 0;
    buf_puts(out, margin);
    for (size_t at = skip_blanks(json, bytes, 0); at < bytes; at = skip_blanks(json, bytes, at)) {
        char byte = json[at];
        if (byte == '"') {
            size_t end = string_end(json, bytes, at);
            buf_append(out, json + at, end - at);
            at = end;
            continue;
        }
        at++;
        if (byte == '{' || byte == '[') {
            buf_putc(out, byte);
            size_t next = skip_blanks(json, bytes, at);
            if (next < bytes && (json[next] == '}' || json[next] == ']')) {
                buf_putc(out, json[next]);
                at = next + 1;
            } else {
                new_line(out, margin, ++depth);
            }
        } else if (byte == '}' || byte == ']') {
            new_line(out, margin, depth > 0 ? --depth : 0);
            buf_putc(out, byte);
        } else if (byte == ',') {
            buf_putc(out, byte);
            new_line(out, margin, depth);
        } else {
            buf_putc(out, byte);
            if (byte == ':')
                buf_putc(out, ' ');
        }
    }
    buf_putc(out, '\n');
}

/* ---- things ---- */

static void job_limits(struct buf *out, const struct tend_job *job)
{
    json_int_or_null(out, "max_attempts", job->max_attempts);
    json_int_or_null(out, "max_crashes", job->max_crashes);
    json_int_or_null(out, "backoff_ms", job->backoff_ms);
    json_int_or_null(out, "backoff_max_ms", job->backoff_max_ms);
    json_int_or_null(out, "lease_ms", job->lease_ms);
}

static void job_times(struct buf *out, const struct tend_job *job)
{
    json_int(out, "due_at_ms", job->due_at_ms);
    json_int(out, "created_at_ms", job->created_at_ms);
    json_int(out, "changed_at_ms", job->changed_at_ms);
    json_int_or_null(out, "until_ms", job->until_ms);
    json_int_or_null(out, "started_at_ms", job->started_at_ms);
    json_int_or_null(out, "seen_at_ms", job->seen_at_ms);
    json_int_or_null(out, "finished_at_ms", job->finished_at_ms);
}

const char *json_outcome(int outcome)
{
    switch (outcome) {
    case TEND_REFRESHED:
        return "refreshed";
    case TEND_AGAIN:
        return "again";
    case TEND_UNCHANGED:
        return "unchanged";
    case TEND_ECONFLICT:
        return "conflict";
    default:
        return "added";
    }
}

void json_job(struct buf *out, const char *key, const struct tend_job *job, bool with_lease)
{
    json_open(out, key, '{');
    json_int(out, "id", job->id);
    json_int(out, "token", job->token);
    if (with_lease) {
        char lease[48];
        snprintf(lease, sizeof lease, "%" PRId64 ":%" PRId64, job->id, job->token);
        json_text(out, "lease", lease);
    }
    json_text(out, "queue", job->queue);
    json_text(out, "kind", job->kind);
    json_text(out, "state", tend_state_name(job->state));
    json_text(out, "phase", job->phase);
    json_int(out, "priority", job->priority);
    json_int(out, "attempts", job->attempts);
    json_int(out, "crashes", job->crashes);
    json_text(out, "owner", job->owner);
    json_int_or_null(out, "worker_id", job->worker_id);
    job_times(out, job);
    json_text(out, "unique_key", job->unique_key);
    json_text(out, "subject", job->subject);
    json_bool(out, "followed", job->followed != 0);
    json_text(out, "concurrency_key", job->concurrency_key);
    json_raw_text(out, "tags", job->tags);
    json_text(out, "workspace", job->workspace);
    json_text(out, "schedule", job->schedule);
    json_int_or_null(out, "nominal_at_ms", job->nominal_at_ms);
    job_limits(out, job);
    json_text(out, "error_class", job->error_class);
    json_text(out, "error_text", job->error_text);
    json_raw_text(out, "result", job->result);
    json_text(out, "changed_by", job->changed_by);
    json_text(out, "changed_what", job->changed_what);
    json_text(out, "changed_why", job->changed_why);
    json_int(out, "version", job->version);
    json_raw(out, "payload", job->payload, job->payload_bytes);
    json_close(out, '}');
}

void json_event(struct buf *out, const char *key, const struct tend_event *event)
{
    json_open(out, key, '{');
    json_int(out, "id", event->id);
    json_int(out, "at_ms", event->at_ms);
    json_text(out, "what", event->what);
    json_text(out, "who", event->who);
    json_int_or_null(out, "job_id", event->job_id);
    json_text(out, "queue", event->queue);
    json_text(out, "from", event->from_state < 0 ? NULL : tend_state_name(event->from_state));
    json_text(out, "to", event->to_state < 0 ? NULL : tend_state_name(event->to_state));
    json_int_or_null(out, "token", event->token);
    json_text(out, "owner", event->owner);
    json_text(out, "why", event->why);
    json_raw_text(out, "data", event->data);
    json_close(out, '}');
}

void json_lock(struct buf *out, const char *key, const struct tend_lock *lock, int64_t pid,
               bool dead)
{
    json_open(out, key, '{');
    json_text(out, "name", lock->name);
    json_bool(out, "held", !lock->expired && !dead);
    json_text(out, "owner", lock->owner);
    json_int(out, "token", lock->token);
    json_int(out, "acquired_at_ms", lock->acquired_at_ms);
    json_int(out, "expires_at_ms", lock->expires_at_ms);
    json_bool(out, "expired", lock->expired);
    json_int_or_null(out, "worker_id", lock->worker_id);
    json_int_or_null(out, "pid", pid);
    json_int_or_null(out, "job_id", lock->job_id);
    json_close(out, '}');
}

void json_queue_members(struct buf *out, const struct tend_queue *queue)
{
    json_text(out, "name", queue->name);
    json_bool(out, "paused", queue->paused);
    json_text(out, "paused_why", *queue->paused_why ? queue->paused_why : NULL);
    json_bool(out, "serial", queue->serial);
    json_int_or_null(out, "concurrency", queue->concurrency);
    json_int_or_null(out, "key_concurrency", queue->key_concurrency);
    char rate[RATE_TEXT_BYTES];
    bool limited = queue->rate_count != TEND_UNSET;
    json_text(out, "rate",
              limited ? rate_text(queue->rate_count, queue->rate_period_ms, rate) : NULL);
    json_bool(out, "rate_strict", queue->rate_strict);
    json_int_or_null(out, "lease_ms", queue->lease_ms);
    json_int_or_null(out, "max_attempts", queue->max_attempts);
    json_int_or_null(out, "max_crashes", queue->max_crashes);
    json_int_or_null(out, "backoff_ms", queue->backoff_ms);
    json_int_or_null(out, "backoff_max_ms", queue->backoff_max_ms);
    json_int_or_null(out, "keep_done_ms", queue->keep_done_ms);
    json_int_or_null(out, "keep_failed_ms", queue->keep_failed_ms);
    json_int_or_null(out, "step_max_attempts", queue->step_max_attempts);
    json_int_or_null(out, "step_timeout_ms", queue->step_timeout_ms);
    json_int_or_null(out, "step_idle_timeout_ms", queue->step_idle_timeout_ms);
    json_int_or_null(out, "step_no_progress_limit", queue->step_no_progress_limit);
    json_int_or_null(out, "job_self_heal_max_resets", queue->job_self_heal_max_resets);
    json_int_or_null(out, "step_grace_ms", queue->step_grace_ms);
    json_int_or_null(out, "step_pause_ms", queue->step_pause_ms);
    json_int_or_null(out, "step_pause_max_ms", queue->step_pause_max_ms);
    json_text(out, "retry_classes", queue->retry_classes);
    json_int_or_null(out, "keep_workspace_ms", queue->keep_workspace_ms);
    json_int(out, "version", queue->version);
}
