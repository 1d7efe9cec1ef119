/* What all kinds of attempts have in common: files, output, result. */
#include "run/job.h"
#include "run/json_redact.h"
#include "run/step_record.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESULT_BYTES = REPORT_LINE_BYTES }; /* as much as it may report */

static bool lack_memory(struct job_run *run)
{
    job_lacks(run, TEND_ENOMEM, "out of memory");
    return false;
}

void attempt_lacks(struct attempt *attempt, int code, const char *text)
{
    attempt->end = ATTEMPT_LACKING;
    job_lacks(attempt->run, code, text);
}

/* What the steps before have put out, and the payload: for TEND_INPUT. Written when it has changed.
 */
static bool write_input(struct job_run *run)
{
    const struct tend_job *job = run->task->job;
    struct buf text;
    if (run->input_path != NULL && !run->outputs_changed)
        return true;
    char *outputs = json_dumps(run->outputs, JSON_COMPACT);
    buf_init(&text);
    buf_printf(&text, "{\"job\":%lld,\"payload\":", (long long)job->id);
    buf_append(&text, job->payload, job->payload_bytes);
    buf_printf(&text, ",\"outputs\":%s}\n", outputs != NULL ? outputs : "{}");
    if (text.failed || outputs == NULL)
        lack_memory(run);
    else
        run->input_path = job_write_file(run, "input.json", text.data, text.len);
    run->outputs_changed = false;
    free(outputs);
    buf_done(&text);
    return run->input_path != NULL;
}

/* Files a process is told of. */
static bool prepare_files(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    if (attempt->attempt > 1 && (attempt->retry_context = step_retry_context(attempt)) == NULL)
        return run->lack_code < 0 ? false : lack_memory(run);
    if (run->output_path == NULL)
        run->output_path = job_path(run, "output");
    if (run->output_path == NULL || !write_input(run))
        return false;
    unlink(run->output_path);
    return true;
}

/* What it prints, or is answered, is its result, unless it reports another. */
static bool gives_result(const struct attempt *attempt)
{
    return attempt->run->handler != NULL || attempt->step->kind == STEP_HTTP;
}

bool attempt_prepare(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    struct err err;
    attempt->exit_code = attempt->signal = TEND_UNSET;
    capture_init(&attempt->capture, run->redactor, NULL);
    buf_init(&attempt->answer);
    if (report_init(&attempt->report, &err) < 0)
        return lack_memory(run);
    bool process = attempt->step->kind == STEP_RUN || attempt->step->kind == STEP_EXEC;
    return !process || prepare_files(attempt);
}

void attempt_done(struct attempt *attempt)
{
    capture_done(&attempt->capture);
    report_done(&attempt->report);
    buf_done(&attempt->answer);
}

/* --- while it runs --- */

enum attempt_end attempt_signal(struct attempt *attempt)
{
    switch (task_signal(attempt->run->task)) {
    case TASK_LOST:
        return ATTEMPT_LOST;
    case TASK_CANCELLED:
        return ATTEMPT_CANCELLED;
    case TASK_STOP:
        return ATTEMPT_STOPPED;
    case TASK_ORDERED:
        return ATTEMPT_ORDERED;
    case TASK_GO_ON:
        break;
    }
    return ATTEMPT_SUCCEEDED;
}

void attempt_hear(struct attempt *attempt, int stream, const void *bytes, size_t len)
{
    struct task *task = attempt->run->task;
    struct err err;
    size_t room = RESULT_BYTES + 1 - attempt->answer.len;
    capture_feed(&attempt->capture, stream, bytes, len, clock_wall_ms(), &err);
    if (stream == 1 && gives_result(attempt) && room > 0)
        buf_append(&attempt->answer, bytes, len < room ? len : room);
    pthread_mutex_lock(&task->runner->mutex);
    task->heard_mono_ms = clock_mono_ms();
    snprintf(task->view.line, sizeof task->view.line, "%s", capture_last_line(&attempt->capture));
    pthread_mutex_unlock(&task->runner->mutex);
}

int64_t attempt_heard_at(const struct attempt *attempt)
{
    return attempt->run->task->heard_mono_ms; /* only this thread writes it */
}

void attempt_progress(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    const struct report *report = &attempt->report;
    struct arena arena;
    if ((report->changed & REPORT_PROGRESS) == 0)
        return;
    arena_init(&arena);
    const char *text = redact_text(run->redactor, &arena, report->progress_text);
    int64_t percent = report->progress_percent < 0 ? TEND_UNSET : report->progress_percent;
    if (text != NULL) {
        pthread_mutex_lock(&run->runner->mutex);
        run->task->view.percent = percent;
        snprintf(run->task->view.text, sizeof run->task->view.text, "%s", text);
        pthread_mutex_unlock(&run->runner->mutex);
        tend_progress(run->runner->t, run->task->lease, attempt->number, percent, text);
    }
    arena_done(&arena);
}

void attempt_flush(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    struct arena arena;
    struct capture_batch batch;
    struct err err;
    int rc = 0;
    arena_init(&arena);
    if (capture_take(&attempt->capture, &arena, &batch, &err) == 0 && batch.count > 0) {
        do
            rc = tend_output_append(run->runner->t, run->task->lease, attempt->number, batch.pieces,
                                    batch.count);
        while (task_try_again(run->task, rc));
        if (rc >= 0 && batch.discard_to_seq > 0)
            tend_output_discard(run->runner->t, run->task->lease, attempt->number,
                                batch.discard_from_seq, batch.discard_to_seq, batch.discard_bytes);
    }
    arena_done(&arena);
}

void attempt_end_output(struct attempt *attempt)
{
    struct err err;
    char line[160];
    if (attempt->answer.len > RESULT_BYTES && attempt->report.result == NULL) {
        int len = snprintf(line, sizeof line,
                           "tend: what it printed is longer than %d KiB, too much for a result: "
                           "none is stored\n",
                           RESULT_BYTES / 1024);
        attempt_hear(attempt, 2, line, (size_t)len);
    }
    capture_end(&attempt->capture, clock_wall_ms(), &err);
    if (attempt->end != ATTEMPT_LOST)
        attempt_flush(attempt);
}

/* --- its result --- */

/* JSON as it is, anything else as a string. */
static json_t *text_as_json(const char *text, size_t len)
{
    json_t *value =
        json_check(text, len, NULL) == 0 ? json_loadb(text, len, JSON_DECODE_ANY, NULL) : NULL;
    return value != NULL ? value : json_stringn(text, len);
}

char *attempt_result(struct attempt *attempt)
{
    if (attempt->report.result != NULL)
        return json_redacted(attempt->run->redactor, attempt->report.result);
    const char *text = attempt->answer.data;
    size_t len = attempt->answer.len;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    if (!gives_result(attempt) || len == 0 || len > RESULT_BYTES || attempt->answer.failed)
        return NULL;
    json_t *value = text_as_json(text, len);
    char *json = value == NULL ? NULL : json_redacted(attempt->run->redactor, value);
    json_decref(value);
    return json;
}

const char *attempt_command(const struct attempt *attempt, struct arena *arena)
{
    const struct step_plan *step = attempt->step;
    struct buf line;
    buf_init(&line);
    switch (step->kind) {
    case STEP_RUN:
        buf_puts(&line, step->run);
        break;
    case STEP_EXEC:
        for (size_t i = 0; i < step->argc; i++)
            buf_printf(&line, "%s%s", i == 0 ? "" : " ", step->argv[i]);
        break;
    case STEP_HTTP:
        buf_printf(&line, "%s %s", step->http->method, step->http->url);
        break;
    case STEP_SLEEP:
        buf_printf(&line, "sleep %lld ms", (long long)step->sleep_ms);
        break;
    }
    const char *text = line.failed ? NULL : arena_strndup(arena, line.data, line.len);
    buf_done(&line);
    return text == NULL ? NULL : redact_text(attempt->run->redactor, arena, text);
}
