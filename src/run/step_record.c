#include "run/step_record.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/timetext.h"
#include "core/quoted.h"
#include "queue/handle.h"
#include "run/artifact.h"
#include "run/json_redact.h"
#include "run/metrics.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void failure_done(struct failure *failure)
{
    if (failure->has_change)
        workspace_change_done(&failure->change);
    failure->has_change = false;
}

struct heal_attempt failure_for_heal(const struct failure *failure)
{
    return (struct heal_attempt){.class = failure->class.class,
                                 .unknown = failure->class.unknown,
                                 .signature = failure->signature.hash,
                                 .diff_hash = failure->diff_hash,
                                 .outside = failure->class.outside,
                                 .failures = failure->signature.failures};
}

static const char *clean(struct attempt *attempt, const char *text)
{
    const char *redacted =
        redact_text(attempt->run->redactor, &attempt->run->change.arena, text == NULL ? "" : text);
    const char *copy =
        redacted == NULL ? NULL : arena_strdup(&attempt->run->change.arena, redacted);
    return copy != NULL ? copy : "";
}

/* --- the end, as the store is told --- */

/* What was wrong with what it reported, with its end and as an event. */
static void add_warnings(struct attempt *attempt, struct tend_attempt_end *end)
{
    struct pending_change *change = &attempt->run->change;
    char *json = json_dumps(attempt->warnings, JSON_COMPACT);
    const char *first = json_string_value(json_array_get(attempt->warnings, 0));
    size_t more = json_array_size(attempt->warnings) - 1;
    end->warnings = json == NULL ? NULL : arena_strdup(&change->arena, json);
    free(json);
    if (change->event_count == STEP_EVENTS_MAX || first == NULL)
        return;
    change->events[change->event_count++] = (struct tend_step_event){
        .what = "task.step.warning",
        .step_index = (int64_t)attempt->run->step,
        .step_id = attempt->step->id,
        .attempt = attempt->attempt,
        .why = more == 0 ? arena_strdup(&change->arena, first)
                         : arena_printf(&change->arena, "%s (and %zu more)", first, more)};
}

static struct tend_attempt_end *end_of(struct attempt *attempt, int state)
{
    struct pending_change *change = &attempt->run->change;
    tend_attempt_end_init(&change->end);
    change->has_end = true;
    change->end.number = attempt->number;
    change->end.state = state;
    change->end.exit_code = attempt->exit_code;
    change->end.signal = attempt->signal;
    change->end.may_live = attempt->may_live;
    change->end.output_bytes = (int64_t)attempt->capture.total_bytes;
    change->end.output_dropped_bytes = (int64_t)attempt->capture.dropped_bytes;
    if (json_array_size(attempt->warnings) > 0)
        add_warnings(attempt, &change->end);
    return &change->end;
}

static void add_event(struct attempt *attempt, const struct failure *failure, const char *what)
{
    struct pending_change *change = &attempt->run->change;
    const struct heal_verdict *verdict = &failure->verdict;
    const char *strategy = heal_strategy_name(verdict->action);
    if (change->event_count == STEP_EVENTS_MAX)
        return;
    change->events[change->event_count++] = (struct tend_step_event){
        .what = what,
        .step_index = (int64_t)attempt->run->step,
        .step_id = attempt->step->id,
        .attempt = attempt->attempt,
        .failure_class = failure_class_name(verdict->class),
        .signature = arena_strdup(&change->arena, failure->signature.hash),
        .diff_hash = arena_strdup(&change->arena, failure->diff_hash),
        .strategy = strategy[0] != '\0' ? strategy : NULL,
        .why = arena_strdup(&change->arena, verdict->reason),
        .retryable = verdict->retryable,
    };
}

static void record_artifact(struct attempt *attempt, const char *state,
                            const struct failure *failure)
{
    struct err err;
    struct artifact_folder folder = {.path = job_folder(attempt->run)};
    json_t *record =
        json_pack("{s:s, s:I, s:I, s:s, s:I, s:s}", "stepId", attempt->step->id, "stepIndex",
                  (json_int_t)attempt->run->step, "attempt", (json_int_t)attempt->attempt, "state",
                  state, "durationMs", (json_int_t)attempt->duration_ms, "diffHash",
                  failure != NULL ? failure->diff_hash : "");
    if (record != NULL && failure != NULL) {
        json_object_set_new(record, "failureClass",
                            json_string(failure_class_name(failure->verdict.class)));
        json_object_set_new(record, "rule", json_string(failure->class.rule));
        json_object_set_new(record, "evidence", json_string(failure->class.line));
        json_object_set_new(record, "failureSignature", json_string(failure->signature.hash));
        json_object_set_new(record, "summary", json_string(failure->text));
        json_object_set_new(record, "strategy",
                            json_string(heal_strategy_name(failure->verdict.action)));
    }
    if (record == NULL || artifact_write_attempt(&folder, attempt->number, record, &err) < 0)
        runner_tell(attempt->run->runner, TEND_NEWS_NOTE, attempt->run->task->job->id, -1,
                    "the record of an attempt could not be written: %s",
                    record == NULL ? "no memory" : err.text);
    json_decref(record);
}

/* --- failure --- */

enum { ENDED_HOW_BYTES = 160 };
_Static_assert((int)ENDED_HOW_BYTES >= (int)ENDING_TEXT_BYTES, "room for every ending");

/* Of the step, or of a process in it, as a shell tells. */
static bool is_unexplained_kill(struct ending ending)
{
    enum { EXIT_OF_SIGNAL = 128 };
    return (ending.kind == ENDED_SIGNAL && ending.number == SIGKILL) ||
           (ending.kind == ENDED_EXIT && ending.number == EXIT_OF_SIGNAL + SIGKILL);
}

/* A limit is told with its value, and what it is called where it can be raised. */
static const char *ended_how(const struct attempt *attempt, char out[ENDED_HOW_BYTES])
{
    char limit[DURATION_TEXT_BYTES];
    char ending[ENDING_TEXT_BYTES];
    const struct budgets *budgets = &attempt->budgets;
    if (attempt->ending.kind == ENDED_WALL_TIMEOUT)
        snprintf(out, ENDED_HOW_BYTES,
                 "wall timeout of %s reached (\"timeout\" of the step, or step_timeout_seconds)",
                 duration_text(budgets->step_timeout_ms, limit));
    else if (attempt->ending.kind == ENDED_IDLE_TIMEOUT)
        snprintf(out, ENDED_HOW_BYTES, "no output for %s (idle_timeout)",
                 duration_text(budgets->step_idle_timeout_ms, limit));
    else if (attempt->note[0] != '\0')
        return attempt->note;
    else if (attempt->ending.kind == ENDED_OUT_OF_MEMORY)
        snprintf(out, ENDED_HOW_BYTES, "out of memory: the kernel killed a process of the step");
    else if (is_unexplained_kill(attempt->ending))
        snprintf(out, ENDED_HOW_BYTES,
                 "%s: killed by SIGKILL that tend did not send; possibly out of memory",
                 ending_text(attempt->ending, ending));
    else
        ending_text(attempt->ending, out);
    return out;
}

enum { ATTEMPT_NUMBER_BYTES = 64 };

/* A hard reset brings its own attempt, beyond those of the step. */
static const char *attempt_number(const struct attempt *attempt, char out[ATTEMPT_NUMBER_BYTES])
{
    long long most = attempt->budgets.step_max_attempts;
    if (attempt->attempt > most)
        snprintf(out, ATTEMPT_NUMBER_BYTES, "attempt %lld, after a hard reset",
                 (long long)attempt->attempt);
    else
        snprintf(out, ATTEMPT_NUMBER_BYTES, "attempt %lld of %lld", (long long)attempt->attempt,
                 most);
    return out;
}

/* How it ended, in words, with the last thing it said. */
static void describe(struct attempt *attempt, struct failure *failure)
{
    char how[ENDED_HOW_BYTES];
    char number[ATTEMPT_NUMBER_BYTES];
    const char *line = failure->class.line;
    /* The last line of a body says nothing of how the call ended. */
    if (line[0] == '\0' && attempt->note[0] == '\0')
        line = capture_last_line(&attempt->capture);
    snprintf(failure->text, sizeof failure->text, "step %s, %s: %.1000s%s%s", attempt->step->id,
             attempt_number(attempt, number),
             attempt->run->last_error[0] != '\0' ? attempt->run->last_error
                                                 : ended_how(attempt, how),
             line[0] == '\0'                              ? ""
             : attempt->ending.kind == ENDED_IDLE_TIMEOUT ? "; last line: "
                                                          : ": ",
             line);
}

/* False: err says why they could not be found. */
static bool find_changes(const struct attempt *attempt, struct failure *failure, struct err *err)
{
    struct job_run *run = attempt->run;
    failure_done(failure);
    failure->diff_hash[0] = '\0';
    if (!run->has_workspace)
        return true;
    if (workspace_diff_hash(&run->keeper, &run->workspace, &failure->change, err) == 0) {
        failure->has_change = true;
        memcpy(failure->diff_hash, failure->change.hash, sizeof failure->diff_hash);
        return true;
    }
    snprintf(failure->diff_hash, sizeof failure->diff_hash, "%s", HEAL_DIFF_UNKNOWN);
    return false;
}

/* When the attempt that the verdict asks for begins is part of its reason. */
static void tell_pause(struct failure *failure)
{
    char pause[DURATION_TEXT_BYTES];
    bool again = failure->verdict.action == HEAL_SOFT || failure->verdict.action == HEAL_HARD;
    failure->pause_ms = again ? failure->pause_ms : 0;
    size_t len = strlen(failure->verdict.reason);
    if (failure->pause_ms > 0)
        snprintf(failure->verdict.reason + len, sizeof failure->verdict.reason - len, " in %s",
                 span_text(failure->pause_ms, pause));
}

/* The end of its output without what it repeats of the retry context; that may be in the buffer. */
static const char *own_tail(struct attempt *attempt, struct buf *own, size_t *ret_bytes)
{
    const char *tail = capture_tail(&attempt->capture, ret_bytes);
    if (attempt->retry_text == NULL)
        return tail;
    quoted_drop(tail, *ret_bytes, attempt->retry_text, own);
    if (own->failed)
        return tail;
    *ret_bytes = own->len;
    return own->data;
}

static void judge(struct attempt *attempt, struct failure *failure)
{
    struct job_run *run = attempt->run;
    struct buf own;
    size_t tail_bytes;
    buf_init(&own);
    const char *tail = own_tail(attempt, &own, &tail_bytes);
    struct classifier *step_rules = NULL;
    struct err err;
    signature_make(attempt->ending, tail, tail_bytes, &failure->signature);
    if (attempt->step->rules.count > 0)
        classifier_new_user(attempt->step->rules.items, attempt->step->rules.count, &step_rules,
                            &err);
    const struct heal_attempt unclassified = failure_for_heal(failure);
    const struct evidence evidence = {
        .declared = attempt->report.class,
        .ending = attempt->ending,
        .tail = tail,
        .tail_bytes = tail_bytes,
        .step_rules = step_rules,
        .job_rules = run->rules,
        .unknown_before = heal_unknown_before(&run->heal, &unclassified),
    };
    classify(run->runner->classifier, &evidence, &failure->class);
    classifier_free(step_rules);
    buf_done(&own);
    const struct heal_attempt after = failure_for_heal(failure);
    heal_after_failure(&run->heal, &after, &failure->verdict);
    failure->pause_ms = heal_pause_ms(&run->heal, &failure->verdict, attempt->report.retry_after_ms,
                                      handle_random(run->runner->t));
    tell_pause(failure);
    if (failure->verdict.class != failure->class.class)
        classify_no_progress(&failure->class);
}

void step_record_failure(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    struct failure *failure = &run->failure;
    struct arena *arena = &run->change.arena;
    struct err err;
    bool found = find_changes(attempt, failure, &err);
    judge(attempt, failure);
    describe(attempt, failure);
    if (!found) { /* not before: it is no output of the step, by which it is judged */
        attempt_warn(attempt, "what it has changed could not be found: %s", err.text);
        attempt_flush(attempt);
    }
    run->last_error[0] = '\0';
    struct tend_attempt_end *end = end_of(attempt, TEND_ATTEMPT_FAILED);
    end->failure_class = failure_class_name(failure->class.class);
    end->rule = arena_strdup(arena, failure->class.rule);
    end->evidence = failure->class.line[0] != '\0' ? clean(attempt, failure->class.line) : NULL;
    end->summary = clean(attempt, failure->text);
    end->signature = arena_strdup(arena, failure->signature.hash);
    end->diff_hash = arena_strdup(arena, failure->diff_hash);
    end->verdict = heal_verdict_name(failure->verdict.action);
    end->no_progress = failure->verdict.no_progress;
    end->retryable = failure->verdict.retryable;
    end->outside = failure->class.outside;
    end->failures = failure->signature.failures >= 0 ? failure->signature.failures : TEND_UNSET;
    end->next_in_ms = failure->pause_ms > 0 ? failure->pause_ms : TEND_UNSET;
    end->timeout = attempt->ending.kind == ENDED_IDLE_TIMEOUT   ? "idle"
                   : attempt->ending.kind == ENDED_WALL_TIMEOUT ? "wall"
                                                                : NULL;
    snprintf(failure->text, sizeof failure->text, "%s", end->summary);
    switch (failure->verdict.action) {
    case HEAL_HARD:
        add_event(attempt, failure, "task.self_heal.escalated");
        add_event(attempt, failure, "task.self_heal.triggered");
        break;
    case HEAL_SOFT:
        add_event(attempt, failure, "task.self_heal.triggered");
        break;
    case HEAL_EXHAUSTED:
        add_event(attempt, failure, "task.self_heal.exhausted");
        break;
    case HEAL_FAIL:
        break;
    }
    record_artifact(attempt, "failed", failure);
    metrics_attempt_failed(run->runner, attempt, failure);
    runner_tell_step(run->runner, run->task->job->id, attempt->number, TEND_ATTEMPT_FAILED,
                     "job %lld: %s [%s, %s]", (long long)run->task->job->id, failure->text,
                     failure_class_name(failure->class.class), failure->verdict.reason);
}

void step_fail_early(struct job_run *run)
{
    struct classification class;
    struct evidence evidence = run->early;
    char stop[STOP_TEXT_BYTES];
    if (evidence.ending.kind == ENDED_INTERRUPTED) {
        enum task_signal signal = task_signal(run->task);
        if (signal != TASK_LOST && signal != TASK_CANCELLED)
            job_give_back(run, 0, task_stop_text(run->task, stop));
        return;
    }
    evidence.tail = run->last_error;
    evidence.tail_bytes = strlen(run->last_error);
    classify(run->runner->classifier, &evidence, &class);
    job_fail(run, class.class, retry_classes_has(run->retry_classes, class.class), TEND_UNSET,
             redact_text(run->redactor, &run->arena, run->last_error));
}

/* --- success --- */

static const char *files_json(struct arena *arena, const char *const *paths, size_t count)
{
    struct buf buf;
    buf_init(&buf);
    buf_putc(&buf, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_putc(&buf, ',');
        buf_json_string(&buf, paths[i], strlen(paths[i]));
    }
    buf_putc(&buf, ']');
    const char *json = buf.failed ? NULL : arena_strndup(arena, buf.data, buf.len);
    buf_done(&buf);
    return json;
}

/* The patch, and its copies in the job's folder. */
static void keep_checkpoint(struct attempt *attempt, struct tend_attempt_end *end)
{
    struct job_run *run = attempt->run;
    const struct workspace_change *change = &run->change.checkpoint;
    struct artifact_folder folder = {.path = job_folder(run)};
    struct err err;
    end->patch = change->patch.len > 0 ? change->patch.data : "";
    end->patch_bytes = change->patch.len;
    end->diff_hash = change->hash;
    const char **files = arena_zalloc(&run->change.arena, (change->file_count + 1) * sizeof *files);
    for (size_t i = 0; files != NULL && i < change->file_count; i++)
        files[i] = clean(attempt, handle_clean_text(&run->change.arena, change->files[i].path));
    if (files != NULL)
        end->changed_files = files_json(&run->change.arena, files, change->file_count);
    const struct artifact_step step = {.id = attempt->step->id,
                                       .index = (int64_t)run->step,
                                       .attempt = attempt->attempt,
                                       .diff_hash = change->hash,
                                       .changed_files = files,
                                       .changed_file_count = files == NULL ? 0 : change->file_count,
                                       .at_ms = clock_wall_ms()};
    if (artifact_write_patch(&folder, (int64_t)run->step, end->patch, end->patch_bytes, &err) < 0 ||
        artifact_write_step(&folder, &step, &err) < 0)
        runner_tell(run->runner, TEND_NEWS_NOTE, run->task->job->id, -1,
                    "a copy of a checkpoint could not be written: %s", err.text);
}

/* What it has put out, redacted, goes to the checkpoint and to later steps. */
static void keep_outputs(struct attempt *attempt, struct tend_attempt_end *end)
{
    struct job_run *run = attempt->run;
    if (json_object_size(attempt->report.outputs) == 0)
        return;
    char *text = json_redacted(run->redactor, attempt->report.outputs);
    end->outputs = text == NULL ? NULL : arena_strdup(&run->change.arena, text);
    json_t *outputs = end->outputs == NULL ? NULL : json_loads(end->outputs, JSON_DECODE_ANY, NULL);
    run->outputs_changed = outputs != NULL;
    if (outputs != NULL)
        json_object_set_new(run->outputs, attempt->step->id, outputs);
    else
        end->outputs = NULL;
    free(text);
}

/*
 * Whoever goes on after a pause or a crash must come to the same result: it is kept among the
 * outputs of the step, whose own cannot be called so (core/report.h). The last step needs no such
 * copy: it ends with the job.
 */
static void keep_result(struct attempt *attempt, struct tend_attempt_end *end)
{
    struct job_run *run = attempt->run;
    char *result = attempt_result(attempt);
    json_t *value = result == NULL ? NULL : json_loads(result, JSON_DECODE_ANY, NULL);
    json_object_del(run->results, attempt->step->id);
    if (value != NULL)
        json_object_set_new(run->results, attempt->step->id, value);
    if (value != NULL && run->step < run->plan.step_count) {
        const char *both = arena_printf(&run->change.arena, "{\"result\":%s%s%s", result,
                                        end->outputs != NULL ? "," : "}",
                                        end->outputs != NULL ? end->outputs + 1 : "");
        /* Nested too deeply, it would keep the store from taking the outputs. */
        if (both != NULL && json_check(both, strlen(both), NULL) == 0)
            end->outputs = both;
    }
    free(result);
}

enum { CHECKPOINT_AGAIN_MS = 1000 };

/* Whether what this worker lacks for a checkpoint is waited for: not when somebody wants to end it.
 */
static bool wait_for_means(struct attempt *attempt, const struct err *err, bool first)
{
    struct job_run *run = attempt->run;
    if (!workspace_problem_lacks(run->keeper.problem) ||
        attempt_signal(attempt) != ATTEMPT_SUCCEEDED || !task_try_again(run->task, TEND_EFULL))
        return false;
    if (first)
        runner_tell(run->runner, TEND_NEWS_NOTE, run->task->job->id, -1,
                    "job %lld: step %s has succeeded, but its changes cannot be saved: %s; it is "
                    "tried again every second",
                    (long long)run->task->job->id, attempt->step->id, clean(attempt, err->text));
    task_sleep(run->task, CHECKPOINT_AGAIN_MS);
    return attempt_signal(attempt) == ATTEMPT_SUCCEEDED;
}

/* An order and a runner that drains let git finish. A cancel, a lost lease and a stop at once end
 * it: a step can leave files that git waits for, such as a FIFO. */
static int take_checkpoint(struct attempt *attempt, struct err *err)
{
    struct job_run *run = attempt->run;
    bool first = true;
    int rc;
    while ((rc = workspace_checkpoint(&run->keeper, &run->workspace, &run->change.checkpoint,
                                      err)) < 0 &&
           wait_for_means(attempt, err, first))
        first = false;
    return rc;
}

/* A later workspace does not have them. One without a commit is found after every step: it is told
 * once. */
static void warn_of_nested(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    const char *nested = run->change.checkpoint.nested;
    if (strstr(run->nested_told, nested) != NULL)
        return;
    snprintf(run->nested_told, sizeof run->nested_told, "%s", nested);
    attempt_warn(
        attempt,
        "git repositories in the workspace are not in its checkpoint, and a workspace that "
        "is made again lacks what is in them: %s",
        nested);
    attempt_flush(attempt);
}

void step_take_checkpoint(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    struct err err;
    if (!run->has_workspace)
        return;
    if (take_checkpoint(attempt, &err) == 0) {
        run->change.has_checkpoint = true;
        run->unsaved = false;
        warn_of_nested(attempt);
        return;
    }
    snprintf(run->last_error, sizeof run->last_error, "%s", err.text);
    if (workspace_problem_lacks(run->keeper.problem) ||
        run->keeper.problem == WORKSPACE_INTERRUPTED) {
        attempt->end = attempt_signal(attempt);
        if (attempt->end == ATTEMPT_SUCCEEDED) /* the store is gone, or the order was taken back */
            attempt->end = ATTEMPT_STOPPED;
        attempt->unsaved = run->unsaved = true;
        return;
    }
    attempt->end = ATTEMPT_FAILED;
    workspace_problem_evidence(run->keeper.problem, &run->early);
    attempt->ending = run->early.ending;
    attempt->report.class = run->early.declared;
}

void step_record_success(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    char took[DURATION_TEXT_BYTES];
    struct tend_attempt_end *end = end_of(attempt, TEND_ATTEMPT_SUCCEEDED);
    run->times_done[run->step - 1]++;
    end->verdict = attempt->attempt > 1 ? "recovered" : NULL;
    if (run->change.has_checkpoint)
        keep_checkpoint(attempt, end);
    keep_outputs(attempt, end);
    keep_result(attempt, end);
    if (run->has_workspace || attempt->attempt > 1) /* a plain command leaves nothing on the disk */
        record_artifact(attempt, "succeeded", NULL);
    metrics_attempt_succeeded(run->runner, attempt, &run->failure);
    runner_tell_step(run->runner, run->task->job->id, attempt->number, TEND_ATTEMPT_SUCCEEDED,
                     "job %lld: step %s is done (%s)", (long long)run->task->job->id,
                     attempt->step->id, span_text(attempt->duration_ms, took));
}

void step_record_stop(struct attempt *attempt, const char *why)
{
    struct job_run *run = attempt->run;
    if (attempt->unsaved)
        why = arena_printf(&run->change.arena,
                           "the step has succeeded, but its changes could not be saved: %s; %s",
                           run->last_error, why);
    end_of(attempt, TEND_ATTEMPT_STOPPED)->summary = clean(attempt, why);
}

/* --- for the next attempt --- */

const char *step_retry_context(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    const struct failure *failure = &run->failure;
    struct arena *arena = &run->arena;
    struct err err;
    char *json;
    size_t count = failure->has_change ? failure->change.file_count : 0;
    const char **files = arena_alloc(arena, (count + 1) * sizeof *files);
    for (size_t i = 0; files != NULL && i < count; i++)
        files[i] = failure->change.files[i].path;
    const struct retry_context context = {
        .objective = run->plan.objective,
        .step_id = attempt->step->id,
        .step_title = attempt->step->title,
        .step_instructions = attempt->step->instructions,
        .failure = &failure->class,
        .signature = &failure->signature,
        .summary = failure->text,
        .last_command = attempt_command(attempt, arena),
        .changed_files = files,
        .changed_count = files == NULL ? 0 : count,
        .diff_hash = failure->diff_hash,
        .attempt = attempt->attempt,
        .max_attempts = attempt->attempt > attempt->budgets.step_max_attempts
                            ? attempt->attempt
                            : attempt->budgets.step_max_attempts,
        .strategy = failure->verdict.action,
    };
    if (retry_context_json(&context, &json, &err) < 0)
        return NULL;
    const char *clean_json = redact_text(run->redactor, arena, json);
    attempt->retry_text = clean_json == NULL ? NULL : arena_strdup(arena, clean_json);
    free(json);
    return attempt->retry_text == NULL ? NULL
                                       : job_write_file(run, "retry.json", attempt->retry_text,
                                                        strlen(attempt->retry_text));
}

/* --- for those who look --- */

static void copy_cut(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    size_t cut = len < size ? len : utf8_floor(text, len, size - 1);
    memcpy(out, text, cut);
    out[cut] = '\0';
}

/* The present step, at attempt `number` of the job. Under the mutex. */
static void show_step(const struct job_run *run, int64_t number, int64_t attempt)
{
    struct task *task = run->task;
    const struct step_plan *step = &run->plan.steps[run->step - 1];
    task->view = (struct tend_running){.job_id = task->job->id,
                                       .number = number,
                                       .step_index = (int64_t)run->step,
                                       .step_count = (int64_t)run->plan.step_count,
                                       .attempt = attempt,
                                       .percent = TEND_UNSET};
    copy_cut(task->view.queue, sizeof task->view.queue, task->job->queue);
    copy_cut(task->view.step_id, sizeof task->view.step_id, step->id);
    copy_cut(task->view.title, sizeof task->view.title, step->title != NULL ? step->title : "");
    task->begun_mono_ms = task->heard_mono_ms = clock_mono_ms();
    task->pause_until_ms = 0;
    task->viewed = true;
    task->sleeps = step->kind == STEP_SLEEP;
}

void step_view_begin(const struct attempt *attempt)
{
    struct task *task = attempt->run->task;
    pthread_mutex_lock(&task->runner->mutex);
    show_step(attempt->run, attempt->number, attempt->attempt);
    pthread_mutex_unlock(&task->runner->mutex);
}

void step_view_pause(const struct job_run *run, int64_t until_ms)
{
    struct task *task = run->task;
    pthread_mutex_lock(&task->runner->mutex);
    show_step(run, 0, run->heal.attempts + 1);
    task->pause_until_ms = until_ms;
    pthread_mutex_unlock(&task->runner->mutex);
}

void step_view_end(struct task *task)
{
    pthread_mutex_lock(&task->runner->mutex);
    task->viewed = false;
    pthread_mutex_unlock(&task->runner->mutex);
}
