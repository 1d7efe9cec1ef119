/* What all kinds of attempts have in common: files, output, result. */
#include "run/attempt_secret.h"
#include "run/job.h"
#include "run/json_redact.h"
#include "run/step_record.h"
#include "run/workspace_files.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/timetext.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)RESULT_BYTES == (int)REPORT_LINE_BYTES, "as much as it may report");

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

static bool make_report_file(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    struct err err;
    int problem = report_file_make(&attempt->report_file, run->lease_fd);
    if (problem == 0)
        return true;
    files_fail(&err, "making", run->output_path, problem);
    job_lacks(run, err.code, err.text);
    return false;
}

/* Files a process is told of. */
static bool prepare_files(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    if (!job_make_folders(run))
        return false;
    if (attempt->attempt > 1 && (attempt->retry_context = step_retry_context(attempt)) == NULL)
        return run->lack_code < 0 ? false : lack_memory(run);
    if (run->output_path == NULL)
        run->output_path = job_path(run, REPORT_FILE_NAME);
    return run->output_path != NULL && write_input(run) && make_report_file(attempt);
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
    arena_init(&attempt->secrets);
    bool found = attempt_find_secrets(attempt); /* first: the capture borrows the redactor */
    capture_init(&attempt->capture, run->redactor, NULL);
    buf_init(&attempt->answer);
    report_file_init(&attempt->report_file);
    if (report_init(&attempt->report, &err) < 0)
        return lack_memory(run);
    if (!found)
        return false;
    bool process = attempt->step->kind == STEP_RUN || attempt->step->kind == STEP_EXEC;
    return !process || prepare_files(attempt);
}

void attempt_done(struct attempt *attempt)
{
    capture_done(&attempt->capture);
    report_done(&attempt->report);
    report_file_close(&attempt->report_file);
    json_decref(attempt->warnings);
    buf_done(&attempt->answer);
    arena_done(&attempt->secrets);
}

/* --- while it runs --- */

static void note_stop(struct attempt *attempt)
{
    if (attempt->stop_text[0] == '\0')
        task_stop_text(attempt->run->task, attempt->stop_text);
}

enum attempt_end attempt_signal(struct attempt *attempt)
{
    switch (task_signal(attempt->run->task)) {
    case TASK_LOST:
        return ATTEMPT_LOST;
    case TASK_CANCELLED:
        return ATTEMPT_CANCELLED;
    case TASK_STOP:
        note_stop(attempt);
        return ATTEMPT_STOPPED;
    case TASK_ORDERED:
        note_stop(attempt);
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

void attempt_alive(struct attempt *attempt)
{
    struct task *task = attempt->run->task;
    pthread_mutex_lock(&task->runner->mutex);
    task->heard_mono_ms = clock_mono_ms();
    pthread_mutex_unlock(&task->runner->mutex);
}

void attempt_warn(struct attempt *attempt, const char *format, ...)
{
    struct job_run *run = attempt->run;
    long long id = (long long)run->task->job->id;
    struct arena arena;
    struct err text;
    va_list args;
    va_start(args, format);
    err_vset(&text, TEND_EINVAL, format, args);
    va_end(args);
    arena_init(&arena);
    const char *clean = redact_text(run->redactor, &arena, text.text);
    if (clean != NULL) {
        const char *line = arena_printf(&arena, "warning: %s\n", clean);
        if (line != NULL)
            capture_say(&attempt->capture, line, strlen(line), clock_wall_ms());
        if (attempt->warnings == NULL)
            attempt->warnings = json_array();
        json_array_append_new(attempt->warnings, json_string(clean));
        runner_tell(run->runner, TEND_NEWS_NOTE, id, -1, "job %lld: step %s: %s", id,
                    attempt->step->id, clean);
    }
    arena_done(&arena);
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
    if (attempt->answer.len > RESULT_BYTES && attempt->report.result == NULL)
        attempt_warn(attempt,
                     "what it printed is longer than %d KiB, too much for a result: none is stored",
                     RESULT_BYTES / 1024);
    capture_end(&attempt->capture, clock_wall_ms(), &err);
    if (attempt->end != ATTEMPT_LOST)
        attempt_flush(attempt);
}

/* --- its result --- */

char *attempt_result(struct attempt *attempt)
{
    if (attempt->report.result != NULL)
        return json_redacted(attempt->run->redactor, attempt->report.result);
    if (!gives_result(attempt))
        return NULL;
    char *json;
    long long id = (long long)attempt->run->task->job->id;
    if (result_of_output(attempt->run->redactor, &attempt->answer, &json) == TEND_ENOMEM)
        runner_tell(attempt->run->runner, TEND_NEWS_NOTE, id, -1,
                    "job %lld: step %s: out of memory for its result: none is stored", id,
                    attempt->step->id);
    return json;
}

const char *attempt_command(const struct attempt *attempt, struct arena *arena)
{
    const struct step_plan *step = attempt->step;
    char sleep[DURATION_TEXT_BYTES];
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
        buf_printf(&line, "sleep %s", duration_text(step->sleep_ms, sleep));
        break;
    }
    const char *text = line.failed ? NULL : arena_strndup(arena, line.data, line.len);
    buf_done(&line);
    return text == NULL ? NULL : redact_text(attempt->run->redactor, arena, text);
}
