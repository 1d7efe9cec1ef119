/*
 * One step: attempts until one succeeds or the step is given up (SH-1, 3, 6, 7, 11, 12).
 *
 *     boundary (orders, stop) ─▶ pause ─▶ slot ─▶ begin ─▶ attempt ─┬─▶ succeeded: checkpoint
 *         ▲                                                         ├─▶ ended from outside
 *         └──── soft or hard reset ◀── heal ◀── signature, class ◀──┴─▶ failed
 */
#include "base/clock.h"
#include "run/attempt_secret.h"
#include "run/job.h"

#include "base/text.h"
#include "base/timetext.h"
#include "core/policy.h"
#include "queue/handle.h"
#include "queue/lease.h"
#include "run/metrics.h"
#include "run/step_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAFE_LOOK_MS = 200,
    PAUSE_MOST_MS = 60000,     /* a job that pauses longer goes back to the queue */
    PAUSE_WITH_SLOT_MS = 5000, /* one that pauses longer gives its slot to others */
};

/* --- the boundary before an attempt --- */

static enum step_outcome carry_out(struct job_run *run, struct order *order);

/*
 * Nothing is begun under a lease that may end before. A worker that was frozen, or cut off from the
 * store, waits here until it knows whether it still holds it.
 */
static void wait_until_safe(struct task *task)
{
    while (clock_mono_ms() >= task_safe_until(task)) {
        enum task_signal signal = task_signal(task);
        if (signal == TASK_LOST || signal == TASK_CANCELLED || signal == TASK_STOP)
            return;
        task_sleep(task, SAFE_LOOK_MS);
    }
}

static int64_t pause_left_ms(const struct job_run *run)
{
    int64_t left_ms = run->pause_until_ms - clock_mono_ms();
    return run->pause_until_ms != 0 && left_ms > 0 ? left_ms : 0;
}

/* Whether an attempt of the present step has been made and another is due. */
static bool tries_again(const struct job_run *run)
{
    return run->heal.attempts > 0 || run->tried;
}

/* The worker was told to stop: the job is due when its pause is over, free of charge. */
static enum step_outcome leave(struct job_run *run)
{
    char why[STOP_TEXT_BYTES];
    char pause[DURATION_TEXT_BYTES];
    const char *worker = run->runner->t->name;
    int64_t pause_ms = pause_left_ms(run);
    if (pause_ms > 0)
        snprintf(why, sizeof why,
                 "worker %.200s was told to stop; step %.100s pauses %s before attempt %lld",
                 worker, run->plan.steps[run->step - 1].id, span_text(pause_ms, pause),
                 (long long)run->heal.attempts + 1);
    else
        snprintf(why, sizeof why, "worker %.200s was told to stop", worker);
    job_give_back(run, pause_ms, why);
    return STEP_OVER;
}

enum step_outcome step_boundary(struct job_run *run)
{
    struct order *order;
    enum step_outcome outcome = STEP_SUCCEEDED;
    wait_until_safe(run->task);
    switch (task_signal(run->task)) {
    case TASK_LOST:
    case TASK_CANCELLED:
        return STEP_OVER;
    case TASK_STOP:
        return leave(run);
    case TASK_ORDERED:
    case TASK_GO_ON:
        break;
    }
    while (outcome == STEP_SUCCEEDED && (order = task_next_order(run->task)) != NULL)
        outcome = carry_out(run, order);
    if (outcome == STEP_SUCCEEDED && tries_again(run) && run->runner->stop != STOP_NOT)
        return leave(run);
    return outcome;
}

static const char *slot_kind(const struct job_run *run)
{
    const struct step_plan *step = &run->plan.steps[run->step - 1];
    if (run->handler != NULL)
        return bulkhead_kind(run->task->job->kind);
    return step->kind == STEP_HTTP ? "http" : step->kind == STEP_SLEEP ? "sleep" : "shell";
}

/* How often the job was given back for this reason since its last attempt, as its events tell. A
 * history that cannot be read counts as none. */
static int count_waits(struct job_run *run, const char *why)
{
    struct tend_events *events;
    int waits = 0;
    if (tend_job_events(run->runner->t, run->task->job->id, &events) < 0)
        return 0;
    for (size_t i = events->count; i > 0; i--) {
        const struct tend_event *event = &events->items[i - 1];
        if (strcmp(event->what, "task.step.attempt.started") == 0)
            break;
        waits += strcmp(event->what, "job.released") == 0 && event->why != NULL &&
                 strcmp(event->why, why) == 0;
    }
    tend_events_free(events);
    return waits;
}

/* Too many wait in this worker already: the job waits in the queue, longer each time. */
static enum step_outcome give_back_for_slot(struct job_run *run, const char *kind)
{
    const struct retry_policy policy = policy_default();
    tend_runner *runner = run->runner;
    char why[64 + KIND_BYTES];
    snprintf(why, sizeof why, "too many jobs wait for a slot of kind %s in its worker", kind);
    int64_t delay_ms = policy_backoff(&policy, count_waits(run, why) + 1, handle_random(runner->t));
    job_give_back(run, delay_ms, why);
    pthread_mutex_lock(&runner->mutex);
    if (runner->back_ms < clock_mono_ms() + delay_ms)
        runner->back_ms = clock_mono_ms() + delay_ms;
    pthread_mutex_unlock(&runner->mutex);
    return STEP_OVER;
}

/* As at a boundary; what is pending is written before a longer wait. STEP_SUCCEEDED: it has one. */
static enum step_outcome wait_for_slot(struct job_run *run)
{
    enum step_outcome outcome;
    enum task_slot slot;
    const char *kind = slot_kind(run);
    while ((slot = task_slot(run->task, kind)) != SLOT_TAKEN) {
        if (slot == SLOT_NONE)
            return give_back_for_slot(run, kind);
        if (!job_write(run, NULL, NULL))
            return STEP_OVER;
        task_sleep(run->task, 1000);
        if ((outcome = step_boundary(run)) != STEP_SUCCEEDED)
            return outcome;
    }
    return STEP_SUCCEEDED;
}

/* --- the pause between attempts --- */

/*
 * Waits until the next attempt may begin. What is pending is written before. Orders, a stop and a
 * lost lease end the wait as at a boundary; an order that lets the step begin anew ends the pause.
 */
static enum step_outcome wait_out_pause(struct job_run *run)
{
    struct task *task = run->task;
    enum step_outcome outcome = STEP_SUCCEEDED;
    if (pause_left_ms(run) == 0)
        return STEP_SUCCEEDED;
    if (!job_write(run, NULL, NULL))
        return STEP_OVER;
    bool rests = pause_left_ms(run) > PAUSE_WITH_SLOT_MS && task_rest(task);
    step_view_pause(run, run->pause_until_ms);
    while (pause_left_ms(run) > 0 && (outcome = step_boundary(run)) == STEP_SUCCEEDED)
        task_sleep(task, pause_left_ms(run));
    step_view_end(task);
    if (rests)
        task_rest_over(task);
    return outcome;
}

/* --- orders --- */

static void answer_control(struct job_run *run, int64_t id, const char *outcome)
{
    int rc;
    do
        rc = tend_control_done(run->runner->t, run->task->lease, id, outcome);
    while (task_try_again(run->task, rc));
}

static void answer(struct job_run *run, struct order *order, const char *outcome)
{
    answer_control(run, order->id, outcome);
    order_free(order);
}

static void answer_anew(struct job_run *run, const char *outcome)
{
    if (run->anew_control != 0)
        answer_control(run, run->anew_control, outcome);
    run->anew_control = 0;
}

/*
 * The step begins anew because an operator wants it so. Who asked is answered when an attempt has
 * begun: until then nothing in the store tells of it but the control, which whoever has the job
 * next finds open.
 */
static void begin_anew(struct job_run *run, struct order *order, const char *outcome)
{
    answer_anew(run, "overtaken by another of its kind");
    run->anew_control = order->id;
    run->anew_outcome = outcome;
    order_free(order);
    step_anew(run);
}

void step_anew(struct job_run *run)
{
    failure_done(&run->failure);
    run->failure = (struct failure){0};
    run->strategy = "first";
    run->pause_until_ms = 0;
    run->tried = false;
    if (run->step > run->plan.step_count)
        return;
    const struct budgets budgets =
        budget_merge(&run->plan.steps[run->step - 1].budgets, &run->plan.budgets,
                     &run->queue_budgets, &run->runner->environment);
    heal_begin_step(&run->heal, &budgets);
}

/* What the dropped steps have left behind in memory. */
static void forget_from(struct job_run *run, size_t step_index)
{
    for (size_t i = step_index; i <= run->plan.step_count; i++) {
        json_object_del(run->outputs, run->plan.steps[i - 1].id);
        json_object_del(run->results, run->plan.steps[i - 1].id);
    }
    run->outputs_changed = true;
}

static enum step_outcome jump(struct job_run *run, struct order *order)
{
    const struct step_plan *step =
        order->step_id == NULL ? NULL : spec_find_step(&run->plan, order->step_id);
    if (step == NULL) {
        answer(run, order, "refused: the job has no such step");
        return STEP_SUCCEEDED;
    }
    size_t index = (size_t)(step - run->plan.steps) + 1;
    if (index > run->step) {
        answer(run, order, "refused: the steps before it have not been done");
        return STEP_SUCCEEDED;
    }
    const struct tend_step_event event = {.what = "task.resume.from_step",
                                          .step_index = (int64_t)index,
                                          .step_id = step->id,
                                          .attempt = TEND_UNSET,
                                          .why = order->reason};
    struct tend_step_change change = {
        .drop_from_step = (int64_t)index, .events = &event, .event_count = 1};
    int rc;
    do
        rc = tend_step_next(run->runner->t, run->task->lease, &change, NULL);
    while (task_try_again(run->task, rc));
    if (rc < 0) {
        order_free(order);
        return STEP_OVER;
    }
    answer_anew(run, "overtaken by resume_from_step");
    answer(run, order, "going on from that step");
    forget_from(run, index);
    run->step = index;
    run->reset_due = true;
    step_anew(run);
    return STEP_JUMPED;
}

/* The step it names has been done meanwhile, or has not come yet. */
static bool is_elsewhere(const struct job_run *run, const struct order *order)
{
    return order->step_id != NULL && run->step <= run->plan.step_count &&
           strcmp(run->plan.steps[run->step - 1].id, order->step_id) != 0;
}

static enum step_outcome carry_out(struct job_run *run, struct order *order)
{
    char why[1024];
    bool takeover = strcmp(order->action, "takeover") == 0;
    if (takeover || strcmp(order->action, "pause") == 0) {
        const char *reason = order->reason != NULL ? order->reason : "";
        run->keeps_workspaces = takeover; /* whoever takes over works there */
        snprintf(why, sizeof why, "%s by %s%s%.200s%s%.500s", takeover ? "taken over" : "paused",
                 order->actor, reason[0] != '\0' ? ": " : "", reason,
                 takeover && run->has_workspace ? "; its workspace is " : "",
                 takeover && run->has_workspace ? run->workspace.folder : "");
        if (job_hold(run, order, why))
            return STEP_OVER;
        run->keeps_workspaces = false;
        return STEP_SUCCEEDED;
    }
    /* What the attempt had done is told before it is done again. */
    if (!job_write(run, NULL, NULL)) {
        order_free(order);
        return STEP_OVER;
    }
    if (strcmp(order->action, "resume_from_step") == 0)
        return jump(run, order);
    if (is_elsewhere(run, order)) {
        answer(run, order, "refused: the job is at another step");
        return STEP_SUCCEEDED;
    }
    if (strcmp(order->action, "hard_reset_step") == 0) {
        begin_anew(run, order, "the step begins in a fresh workspace");
        heal_count_reset(&run->heal);
        run->strategy = heal_strategy_name(HEAL_HARD);
        run->reset_due = true;
        return STEP_JUMPED;
    }
    if (strcmp(order->action, "retry_step") == 0) {
        begin_anew(run, order, "the step begins anew");
        return STEP_JUMPED;
    }
    answer(run, order, "nothing to be done: the job runs");
    return STEP_SUCCEEDED;
}

/* --- an attempt --- */

enum step_outcome step_give_back_lacking(struct job_run *run, int64_t least_ms)
{
    char why[LACK_TEXT_BYTES];
    const char *text = redact_text(run->redactor, &run->arena, run->last_error);
    if (text == NULL)
        text = "out of memory";
    snprintf(why, sizeof why, "worker %.200s cannot run it: %s", run->runner->t->name, text);
    int64_t delay_ms = lack_found(run->runner, run->task->lease, run->lack_code, text, least_ms);
    job_give_back(run, delay_ms, why);
    return STEP_OVER;
}

/* One that a step has removed, or put a link in place of, is made again. */
static bool needs_workspace(const struct job_run *run)
{
    return run->plan.workspace_repo != NULL &&
           (run->reset_due || !run->has_workspace || !workspace_is_there(&run->workspace));
}

/* A fresh workspace before the step; when there is none, the job fails. */
static enum step_outcome make_workspace(struct job_run *run)
{
    if (!job_write(run, NULL, NULL)) /* it takes its time: what has happened is told before */
        return STEP_OVER;
    if (job_workspace_make(run, run->step) < 0) {
        if (run->lack_code < 0)
            return step_give_back_lacking(run, LACK_WORKSPACE_MS);
        step_fail_early(run);
        return STEP_OVER;
    }
    run->reset_due = false;
    return STEP_SUCCEEDED;
}

/* Everything an attempt needs before it can begin. Orders that came meanwhile go first; the slot
 * comes before a workspace that would wait with it. */
static enum step_outcome get_ready(struct job_run *run)
{
    enum step_outcome outcome;
    do {
        if ((outcome = step_boundary(run)) != STEP_SUCCEEDED ||
            (outcome = wait_out_pause(run)) != STEP_SUCCEEDED ||
            (outcome = wait_for_slot(run)) != STEP_SUCCEEDED)
            return outcome;
    } while (needs_workspace(run) && (outcome = make_workspace(run)) == STEP_SUCCEEDED);
    return outcome;
}

static bool begin(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    struct tend_attempt_begin begun;
    snprintf(attempt->marker, sizeof attempt->marker, "%016llx-%lld-%lld-%lld",
             (unsigned long long)run->runner->tag, (long long)run->task->lease.id,
             (long long)run->task->lease.token, (long long)++run->begun);
    tend_attempt_begin_init(&begun);
    begun.step_index = (int64_t)run->step;
    begun.step_id = attempt->step->id;
    begun.attempt = attempt->attempt;
    begun.strategy = run->strategy;
    begun.marker = attempt->marker;
    run->tried = true;
    if (!job_write(run, &begun, &attempt->number))
        return false;
    answer_anew(run, run->anew_outcome);
    return true;
}

static void run_attempt(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    if (run->has_workspace)
        workspace_begin_attempt(&run->keeper, &run->workspace);
    int64_t begun_ms = clock_mono_ms();
    step_view_begin(attempt);
    if (attempt->no_secret)
        attempt_fail_secret(attempt);
    else if (attempt->step->kind == STEP_HTTP)
        attempt_run_http(attempt);
    else if (attempt->step->kind == STEP_SLEEP)
        attempt_run_sleep(attempt);
    else
        attempt_run_process(attempt);
    step_view_end(run->task);
    attempt->duration_ms = clock_mono_ms() - begun_ms;
}

/* A pause that is not worth a lease: the job is due again when it is over, free of charge. */
static enum step_outcome pause_in_queue(struct job_run *run)
{
    char why[STOP_TEXT_BYTES];
    char pause[DURATION_TEXT_BYTES];
    int64_t pause_ms = run->failure.pause_ms;
    snprintf(why, sizeof why, "step %s pauses %s before attempt %lld",
             run->plan.steps[run->step - 1].id, span_text(pause_ms, pause),
             (long long)run->heal.attempts + 1);
    job_give_back(run, pause_ms, why);
    return STEP_OVER;
}

/* How long the queue waits: as the step asked, but no less than by the backoff. TEND_UNSET: by the
 * backoff, which the queue knows. */
static int64_t queue_wait_ms(const struct job_run *run, int64_t asked_ms)
{
    const struct tend_job *job = run->task->job;
    struct retry_policy policy = policy_default();
    struct tend_queue queue;
    if (asked_ms < 0 || tend_queue_get(run->runner->t, job->queue, &queue) < 0)
        return asked_ms < 0 ? TEND_UNSET : asked_ms;
    policy.backoff_ms = job->backoff_ms != TEND_UNSET ? job->backoff_ms : queue.backoff_ms;
    policy.backoff_max_ms =
        job->backoff_max_ms != TEND_UNSET ? job->backoff_max_ms : queue.backoff_max_ms;
    int64_t own_ms = policy_backoff(&policy, (int)job->attempts + 1, handle_random(run->runner->t));
    return asked_ms > own_ms ? asked_ms : own_ms;
}

/* After a failure: what follows. STEP_SUCCEEDED: another attempt. */
static enum step_outcome heal(struct attempt *attempt)
{
    struct job_run *run = attempt->run;
    const struct failure *failure = &run->failure;
    const struct heal_verdict *verdict = &failure->verdict;
    run->strategy = heal_strategy_name(verdict->action);
    run->reset_due = verdict->action == HEAL_HARD;
    if (verdict->action == HEAL_SOFT || verdict->action == HEAL_HARD) {
        run->pause_until_ms = clock_mono_ms() + failure->pause_ms;
        return failure->pause_ms > PAUSE_MOST_MS ? pause_in_queue(run) : STEP_SUCCEEDED;
    }
    job_fail(run, verdict->class, verdict->retryable,
             queue_wait_ms(run, attempt->report.retry_after_ms), failure->text);
    return STEP_OVER;
}

/* Whether the job is another's by now, which the pulse may not have seen yet: then how the attempt
 * ended, and what follows it, is not to be told. */
static bool is_taken_away(struct job_run *run)
{
    int each = 0;
    lease_check(run->runner->t, lease_patience_ms(run->task->watch.lease_ms), &run->task->lease, 1,
                &each);
    if (each == TEND_ELEASELOST)
        task_lose(run->runner, run->task->lease);
    return task_signal(run->task) == TASK_LOST;
}

/* What came of an attempt is put down; STEP_SUCCEEDED with *ret_again: another attempt. */
static enum step_outcome after(struct attempt *attempt, bool *ret_again)
{
    *ret_again = true;
    if (attempt->end == ATTEMPT_SUCCEEDED)
        step_take_checkpoint(attempt); /* without its changes it has not succeeded */
    switch (attempt->end) {
    case ATTEMPT_SUCCEEDED:
        *ret_again = false;
        step_record_success(attempt);
        return STEP_SUCCEEDED;
    case ATTEMPT_FAILED:
        if (is_taken_away(attempt->run))
            return STEP_OVER;
        step_record_failure(attempt);
        return heal(attempt);
    case ATTEMPT_LOST:
        return STEP_OVER;
    case ATTEMPT_CANCELLED:
        step_record_stop(attempt, attempt->run->task->stopped_why);
        return STEP_OVER; /* job_run tells it */
    case ATTEMPT_LACKING:
        step_record_stop(attempt, attempt->run->last_error);
        return step_give_back_lacking(attempt->run, 0);
    case ATTEMPT_UNFIT:
        step_record_stop(attempt, attempt->run->last_error);
        job_give_back_unfit(attempt->run);
        return STEP_OVER;
    case ATTEMPT_STOPPED:
    case ATTEMPT_ORDERED:
        break;
    }
    if (attempt->stop_text[0] == '\0') /* nobody has told it to: its time was over */
        task_stop_text(attempt->run->task, attempt->stop_text);
    step_record_stop(attempt, attempt->stop_text);
    return step_boundary(attempt->run);
}

/* One attempt, from its beginning to what follows it. */
static enum step_outcome try_once(struct job_run *run, bool *ret_again)
{
    struct attempt attempt = {.run = run,
                              .step = &run->plan.steps[run->step - 1],
                              .budgets = run->heal.budgets,
                              .attempt = run->heal.attempts + 1};
    enum step_outcome outcome = STEP_OVER;
    if (!attempt_prepare(&attempt)) { /* before it is begun: nothing is to be undone */
        outcome = step_give_back_lacking(run, 0);
    } else if (begin(&attempt)) {
        run_attempt(&attempt);
        outcome = after(&attempt, ret_again);
    }
    attempt_done(&attempt);
    return outcome;
}

enum step_outcome step_run(struct job_run *run)
{
    enum step_outcome outcome = STEP_SUCCEEDED;
    bool again = true;
    while (again && outcome == STEP_SUCCEEDED)
        if ((outcome = get_ready(run)) == STEP_SUCCEEDED)
            outcome = try_once(run, &again);
    return outcome;
}
