/*
 * How a job ends, and how what its steps did reaches the store. See job.h.
 *
 * Nothing that was done is thrown away because the store cannot take it now: a report that did not
 * go through for a reason that passes is repeated (task_try_again). What the store refuses as bad
 * input is left out only where the report can do without it, and only if it is what was refused.
 * Any other refusal, such as a hold that was taken back, changes nothing of what is still to be
 * told.
 */
#include "queue/explain.h"
#include "run/job.h"
#include "run/job_folder.h"

#include "base/json.h"
#include "base/text.h"
#include "base/timetext.h"

#include <stdio.h>
#include <string.h>

enum { UNFIT_MS = 30000 }; /* a worker with the handler, or with the folder, may come by */

static void forget_change(struct job_run *run)
{
    struct pending_change *change = &run->change;
    if (change->has_checkpoint)
        workspace_change_done(&change->checkpoint);
    arena_done(&change->arena);
    *change = (struct pending_change){0};
    arena_init(&change->arena);
}

/* What was pending is in the store. The workspace before a reset is needed until the success in the
 * new one is there: a worker that takes the job over before that begins the step again (SH-7). */
static void written(struct job_run *run)
{
    if (run->change.has_end && run->change.end.state == TEND_ATTEMPT_SUCCEEDED)
        job_workspace_settle(run);
    forget_change(run);
}

static struct tend_step_change pending(const struct job_run *run)
{
    return (struct tend_step_change){
        .ended = run->change.has_end ? &run->change.end : NULL,
        .events = run->change.events,
        .event_count = run->change.event_count,
        .baseline_repo = run->has_workspace ? run->repo_told : NULL,
        .baseline_commit = run->has_workspace ? run->workspace.commit : NULL,
    };
}

static bool is_bad_json(const char *text)
{
    return text != NULL && json_check(text, strlen(text), NULL) < 0;
}

/*
 * The store has refused a report as bad input: leaves out what may be the reason and is not needed.
 * True: there was something. A bad result (may be NULL) is the reason by itself.
 */
static bool leave_out(struct job_run *run, int rc, const char *result)
{
    struct tend_attempt_end *end = &run->change.end;
    if (rc != TEND_EINVAL || !run->change.has_end || is_bad_json(result))
        return false;
    bool any = end->outputs != NULL || end->changed_files != NULL;
    end->outputs = end->changed_files = NULL;
    return any;
}

static bool is_refused(int rc)
{
    return rc < 0 && rc != TEND_ELEASELOST && !lease_trouble_passes(rc);
}

/* The checkpoint of the step has what an operator had changed before it. */
static void note_edits(struct job_run *run)
{
    if (run->edited && run->change.has_end && run->change.end.state == TEND_ATTEMPT_SUCCEEDED) {
        run->change.end.with_edits = 1;
        run->edited = false;
    }
}

bool job_write(struct job_run *run, const struct tend_attempt_begin *begun, int64_t *ret_number)
{
    note_edits(run);
    struct tend_step_change change = pending(run);
    int rc;
    change.begun = begun;
    if (change.ended == NULL && change.event_count == 0 && begun == NULL)
        return true;
    do
        rc = tend_step_next(run->runner->t, run->task->lease, &change, ret_number);
    while (task_try_again(run->task, rc) || leave_out(run, rc, NULL));
    if (rc >= 0) {
        written(run);
        return true;
    }
    snprintf(run->last_error, sizeof run->last_error, "%s", tend_errmsg(run->runner->t));
    if (is_refused(rc))
        job_fail(run, CLASS_DETERMINISTIC_CONTRACT, false, TEND_UNSET, run->last_error);
    return false;
}

static void count(struct job_run *run, int64_t *total)
{
    pthread_mutex_lock(&run->runner->mutex);
    ++*total;
    pthread_mutex_unlock(&run->runner->mutex);
}

/*
 * While it reports the end of a job, a task learns what became of its lease by the answer alone:
 * the report may have been saved and its answer lost. Then the lease is gone as it should be, and
 * the repeated report is answered as the first.
 */
static void set_reports(struct job_run *run, bool reports)
{
    pthread_mutex_lock(&run->runner->mutex);
    run->task->reports = reports;
    pthread_mutex_unlock(&run->runner->mutex);
}

/* Ends the job. Negative: it was not written; the lease ends by its time, or is lost already. */
static int finish(struct job_run *run, const struct tend_step_close *close, int64_t *ret_due_ms)
{
    note_edits(run);
    struct tend_step_change change = pending(run);
    int rc;
    set_reports(run, true);
    do
        rc = tend_step_finish(run->runner->t, run->task->lease, &change, close, ret_due_ms);
    while (task_try_again(run->task, rc) || leave_out(run, rc, close->result));
    set_reports(run, false);
    if (rc < 0 && rc != TEND_ESTATE && rc != TEND_ELEASELOST) /* the latter is told by job_run */
        runner_tell(run->runner, TEND_NEWS_NOTE, run->task->job->id, -1, "job %lld: %s",
                    (long long)run->task->job->id, tend_errmsg(run->runner->t));
    if (rc >= 0)
        written(run);
    run->closed |= rc >= 0;
    snprintf(run->refused, sizeof run->refused, "%s",
             is_refused(rc) ? tend_errmsg(run->runner->t) : "");
    return rc;
}

/* What the job leaves: the result of the last step that gave one, else what its steps have put out.
 * NULL: nothing. */
static const json_t *result_of(const struct job_run *run)
{
    for (size_t i = run->plan.step_count; i > 0 && json_object_size(run->results) > 0; i--) {
        const json_t *result = json_object_get(run->results, run->plan.steps[i - 1].id);
        if (result != NULL)
            return result;
    }
    return json_object_size(run->outputs) == 0 ? NULL : run->outputs;
}

/* 0 with the result in *ret, which may be NULL, or TEND_ENOMEM. */
static int write_result(const struct job_run *run, char **ret)
{
    const json_t *result = result_of(run);
    *ret = result == NULL ? NULL : json_dumps(result, JSON_ENCODE_ANY | JSON_COMPACT);
    return result != NULL && *ret == NULL ? TEND_ENOMEM : 0;
}

/* Outputs are a result only for want of another, and two levels deeper there: what an earlier
 * version took may be too deep for that. The job is done all the same. */
static void warn_no_result(struct job_run *run)
{
    struct pending_change *change = &run->change;
    long long id = (long long)run->task->job->id;
    const char *why = arena_printf(&change->arena, "no result is stored: %s", run->refused);
    runner_tell(run->runner, TEND_NEWS_NOTE, id, -1, "job %lld: no result is stored", id);
    if (why == NULL || change->event_count == STEP_EVENTS_MAX)
        return;
    const size_t last = run->plan.step_count;
    change->events[change->event_count++] =
        (struct tend_step_event){.what = "task.step.warning",
                                 .step_index = (int64_t)last,
                                 .step_id = run->plan.steps[last - 1].id,
                                 .attempt = TEND_UNSET,
                                 .why = why};
}

void job_complete(struct job_run *run)
{
    long long id = (long long)run->task->job->id;
    char *result;
    int rc;
    do
        rc = write_result(run, &result);
    while (task_try_again(run->task, rc));
    if (rc < 0) { /* it is to stop, or is lost */
        runner_tell(run->runner, TEND_NEWS_NOTE, id, -1,
                    "job %lld: out of memory; its end cannot be told", id);
        return;
    }
    struct tend_step_close close = {.how = TEND_STEPS_COMPLETE, .result = result};
    rc = finish(run, &close, NULL);
    if (rc == TEND_EINVAL && is_bad_json(result) && result_of(run) == run->outputs) {
        warn_no_result(run);
        close.result = NULL;
        rc = finish(run, &close, NULL);
    }
    free(result);
    if (rc >= 0) {
        run->done = true;
        count(run, &run->runner->totals.done);
        runner_tell(run->runner, TEND_NEWS_JOB_ENDS, id, TEND_DONE, "job %lld is done", id);
    } else if (is_refused(rc)) {
        snprintf(run->last_error, sizeof run->last_error, "its result cannot be stored: %.900s",
                 tend_errmsg(run->runner->t));
        job_fail(run, CLASS_DETERMINISTIC_CONTRACT, false, TEND_UNSET, run->last_error);
    }
}

/* Ends the job, and keeps what the attempt that gives it up has changed. */
static int finish_failed(struct job_run *run, const struct tend_failure *failure,
                         int64_t *ret_due_ms)
{
    struct tend_step_close close = {.how = TEND_STEPS_FAIL, .failure = failure};
    struct tend_changes changes;
    struct buf patch;
    bool attempted = run->change.has_end && run->change.end.state == TEND_ATTEMPT_FAILED;
    buf_init(&patch);
    if (attempted && job_workspace_changes(run, &patch, &run->arena, &changes))
        close.changes = &changes;
    if (run->has_workspace && run->keep_workspace_ms != 0)
        close.workspace = run->workspace.folder;
    int rc = finish(run, &close, ret_due_ms);
    run->failed = rc >= 0;
    buf_done(&patch);
    return rc;
}

/* why NULL: it was told before. */
static void tell_retry(struct job_run *run, int64_t due_ms, const char *why)
{
    long long id = (long long)run->task->job->id;
    int64_t now_ms;
    char left[DURATION_TEXT_BYTES];
    bool known = tend_now(run->runner->t, &now_ms) >= 0;
    runner_tell(run->runner, TEND_NEWS_JOB_ENDS, id, TEND_SCHEDULED,
                "job %lld is tried again %s%s%s%s", id, known ? "in " : "later",
                known ? span_text(due_ms - now_ms, left) : "", why != NULL ? ": " : "",
                why != NULL ? why : "");
}

void job_fail(struct job_run *run, enum failure_class class, bool retryable, int64_t retry_in_ms,
              const char *text)
{
    long long id = (long long)run->task->job->id;
    int64_t due_ms = TEND_UNSET;
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.error_class = failure_class_name(class);
    failure.text = text;
    failure.final = !retryable;
    failure.retry_in_ms = retry_in_ms;
    if (finish_failed(run, &failure, &due_ms) < 0)
        return;
    bool again = due_ms != TEND_UNSET;
    count(run, again ? &run->runner->totals.retried : &run->runner->totals.failed);
    /* The line about the attempt has said why. */
    bool told = run->failure.text[0] != '\0' && strcmp(text, run->failure.text) == 0;
    if (again)
        tell_retry(run, due_ms, told ? NULL : text);
    else
        runner_tell(run->runner, TEND_NEWS_JOB_ENDS, id, TEND_FAILED, "job %lld has failed%s%s", id,
                    told ? "" : ": ", told ? "" : text);
}

void job_fail_plainly(struct job_run *run)
{
    long long id = (long long)run->task->job->id;
    char text[sizeof run->refused + 64];
    struct tend_failure failure;
    int rc;
    snprintf(text, sizeof text, "how it ended cannot be stored: %s", run->refused);
    tend_failure_init(&failure);
    failure.error_class = failure_class_name(CLASS_DETERMINISTIC_CONTRACT);
    failure.text = text;
    failure.final = 1;
    set_reports(run, true);
    do
        rc = tend_fail(run->runner->t, run->task->lease, &failure, NULL);
    while (task_try_again(run->task, rc));
    set_reports(run, false);
    if (rc < 0)
        return;
    run->closed = run->failed = true;
    count(run, &run->runner->totals.failed);
    runner_tell(run->runner, TEND_NEWS_JOB_ENDS, id, TEND_FAILED, "job %lld has failed: %s", id,
                text);
}

static bool release(struct job_run *run, int64_t delay_ms, const char *why)
{
    struct tend_step_close close = {.how = TEND_STEPS_RELEASE, .why = why, .delay_ms = delay_ms};
    if (finish(run, &close, NULL) < 0)
        return false;
    count(run, &run->runner->totals.given_back);
    return true;
}

void job_give_back(struct job_run *run, int64_t delay_ms, const char *why)
{
    long long id = (long long)run->task->job->id;
    if (release(run, delay_ms, why))
        runner_tell(run->runner, TEND_NEWS_JOB_ENDS, id, TEND_PENDING, "job %lld is given back: %s",
                    id, why);
}

/* Whether this kind or folder was never told of before; when many were, none is. */
static bool is_news(tend_runner *runner, const char *name)
{
    uint64_t hash = text_hash(name);
    bool news = true;
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < runner->unfit_count; i++)
        news &= runner->unfit[i] != hash;
    news &= runner->unfit_count < UNFIT_TOLD;
    if (news)
        runner->unfit[runner->unfit_count++] = hash;
    pthread_mutex_unlock(&runner->mutex);
    return news;
}

static void tell_no_handler(const struct job_run *run)
{
    const struct tend_job *job = run->task->job;
    struct spec_slip slip;
    char hint[160 + KIND_BYTES];
    if (run->handler != NULL)
        snprintf(hint, sizeof hint, "see its --handler %s=COMMAND", job->kind);
    else if (spec_find_slip(job->payload, job->payload_bytes, &slip))
        snprintf(hint, sizeof hint, "did you mean \"%s\" by \"%s\"?", slip.meant, slip.member);
    else if (job->kind[0] != '\0')
        snprintf(hint, sizeof hint, "--handler %s=COMMAND gives this worker one", job->kind);
    else
        snprintf(hint, sizeof hint,
                 "handlers are for kinds: 'tend claim' takes it, or cancel it and add it with "
                 "--kind KIND");
    runner_tell(
        run->runner, TEND_NEWS_JOB_ENDS, job->id, TEND_PENDING,
        "job %lld is given back: this worker has no handler%s; %s; further jobs %s are given "
        "back too; this is said only once",
        (long long)job->id, run->last_error + strlen("it has no handler"), hint,
        job->kind[0] != '\0' ? "of this kind" : "without a kind");
}

void job_give_back_unfit(struct job_run *run)
{
    const struct tend_job *job = run->task->job;
    if (!release(run, UNFIT_MS, run->last_error))
        return;
    count(run, &run->runner->totals.unfit);
    if (!is_news(run->runner, run->no_handler ? job->kind : run->missing_folder))
        return;
    if (run->no_handler)
        tell_no_handler(run);
    else
        runner_tell(run->runner, TEND_NEWS_JOB_ENDS, job->id, TEND_PENDING,
                    "job %lld is given back: %s. " NO_FOLDER_HINT
                    ". Further jobs with this folder are given back too; this is said only once",
                    (long long)job->id, run->last_error);
}

bool job_hold(struct job_run *run, struct order *order, const char *why)
{
    long long id = (long long)run->task->job->id;
    struct tend_step_close close = {
        .how = TEND_STEPS_HOLD, .why = why, .control_id = order->id, .outcome = why};
    if (run->keeps_workspaces && run->has_workspace)
        close.workspace = run->workspace.folder;
    /* Before the report: with no attempt under this lease nothing else protects the folder when the
     * worker dies after it. It is noted again, and complained about, when the files are cleaned. */
    if (run->keeps_workspaces && run->folder_made)
        (void)lease_folder_keep(run->lease_fd, run->lease_folder, KEEP_TAKEN_OVER, NULL);
    int rc = finish(run, &close, NULL);
    if (rc == TEND_ESTATE && run->keeps_workspaces && run->folder_made)
        lease_folder_release(run->lease_fd);
    order_free(order);
    if (rc == TEND_ESTATE) { /* it was taken back */
        run->refused[0] = '\0';
        return false;
    }
    if (rc >= 0) {
        count(run, &run->runner->totals.held);
        runner_tell(run->runner, TEND_NEWS_JOB_ENDS, id, TEND_HELD, "job %lld is held: %s", id,
                    why);
    }
    return true;
}
