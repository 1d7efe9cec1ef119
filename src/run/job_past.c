/*
 * What was done of a job under earlier leases, whoever held them and wherever (SH-10, SH-11).
 *
 * Steps with a checkpoint are over. The first without one is taken up as it was left: the failures
 * of the job's present life count as if they had just happened, so that neither a pause nor a stop
 * nor a crash gives a step more attempts than its budget, or hides that it makes no progress.
 * Attempts that were stopped or lost are made again and count for nothing.
 */
#include "run/job.h"

#include "base/clock.h"
#include "base/json.h"
#include "run/collector.h"
#include "run/step_record.h"
#include "run/sweep.h"

#include <stdio.h>
#include <string.h>

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static bool has_text(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

/* Over the job's whole life: those decided here, and an operator's, which begin the step anew. */
static int64_t count_resets(const struct tend_attempts *attempts)
{
    int64_t count = 0;
    for (size_t i = 0; i < attempts->count; i++) {
        const struct tend_attempt *attempt = &attempts->items[i];
        count += has_text(attempt->verdict, "hard_reset");
        count += attempt->attempt == 1 && has_text(attempt->strategy, "hard_reset");
    }
    return count;
}

static void count_done(struct job_run *run, const struct tend_attempts *attempts)
{
    memset(run->times_done, 0, run->plan.step_count * sizeof *run->times_done);
    for (size_t i = 0; i < attempts->count; i++) {
        const struct tend_attempt *attempt = &attempts->items[i];
        if (attempt->state == TEND_ATTEMPT_SUCCEEDED && attempt->step_index >= 1 &&
            attempt->step_index <= (int64_t)run->plan.step_count)
            run->times_done[attempt->step_index - 1]++;
    }
}

/* As step_record_failure left it; which files had been changed is not known any more. */
static void recall(struct failure *failure, const struct tend_attempt *attempt)
{
    enum failure_class class = failure_class_parse(or_empty(attempt->failure_class));
    *failure = (struct failure){
        .class = {.class = class,
                  .retryable = failure_class_retryable(class),
                  .unknown = strncmp(or_empty(attempt->rule), "unknown", strlen("unknown")) == 0,
                  .outside = attempt->outside != 0},
        .signature = {.failures = attempt->failures == TEND_UNSET ? -1 : attempt->failures},
        .verdict = {.action = heal_verdict_parse(attempt->verdict),
                    .class = class,
                    .no_progress = attempt->no_progress != 0,
                    .attempt = attempt->attempt},
    };
    snprintf(failure->class.rule, sizeof failure->class.rule, "%s", or_empty(attempt->rule));
    snprintf(failure->class.line, sizeof failure->class.line, "%s", or_empty(attempt->evidence));
    snprintf(failure->signature.hash, sizeof failure->signature.hash, "%s",
             or_empty(attempt->signature));
    snprintf(failure->text, sizeof failure->text, "%s", or_empty(attempt->summary));
    snprintf(failure->diff_hash, sizeof failure->diff_hash, "%s", or_empty(attempt->diff_hash));
}

/* Where what counts for the present step begins: behind its last success and every other step, in
 * the job's present life, at its last beginning. */
static size_t find_begin(const struct job_run *run, const struct tend_attempts *attempts)
{
    size_t begin = attempts->count;
    while (begin > 0) {
        const struct tend_attempt *before = &attempts->items[begin - 1];
        if (before->earlier_life || before->step_index != (int64_t)run->step ||
            before->state == TEND_ATTEMPT_SUCCEEDED)
            break;
        begin--;
        if (before->attempt == 1)
            break; /* an operator may have let it begin anew */
    }
    return begin;
}

/* Of the pause that an earlier worker had begun after this attempt. */
static int64_t pause_left_ms(const struct job_run *run, const struct tend_attempt *attempt)
{
    if (attempt->next_at_ms == TEND_UNSET)
        return 0;
    int64_t left_ms = attempt->next_at_ms - run->task->job->seen_at_ms; /* since the claim */
    return left_ms > 0 ? left_ms : 0;
}

static void take_up_step(struct job_run *run, const struct tend_attempts *attempts)
{
    for (size_t i = find_begin(run, attempts); i < attempts->count; i++) {
        if (attempts->items[i].state != TEND_ATTEMPT_FAILED)
            continue;
        recall(&run->failure, &attempts->items[i]);
        const struct heal_attempt failed = failure_for_heal(&run->failure);
        heal_remember(&run->heal, &failed);
        run->strategy =
            heal_strategy_name(run->failure.verdict.action == HEAL_HARD ? HEAL_HARD : HEAL_SOFT);
        run->pause_until_ms = clock_mono_ms() + pause_left_ms(run, &attempts->items[i]);
    }
}

/* What a step that is done has put out; what it said is the job's result lies among it
 * (step_record.c). 0 or TEND_ENOMEM. */
static int read_outputs(struct job_run *run, const struct tend_checkpoint *checkpoint)
{
    json_error_t error;
    int rc = 0;
    if (checkpoint->outputs == NULL ||
        json_check(checkpoint->outputs, strlen(checkpoint->outputs), NULL) < 0)
        return 0;
    json_t *outputs = json_loads(checkpoint->outputs, JSON_DECODE_ANY, &error);
    if (outputs == NULL)
        return json_no_memory(&error) ? TEND_ENOMEM : 0;
    json_t *result = json_object_get(outputs, "result");
    if (result != NULL && json_object_set(run->results, checkpoint->step_id, result) < 0)
        rc = TEND_ENOMEM;
    json_object_del(outputs, "result");
    if (json_object_size(outputs) > 0 &&
        json_object_set(run->outputs, checkpoint->step_id, outputs) < 0)
        rc = TEND_ENOMEM;
    json_decref(outputs);
    return rc;
}

/* How many steps are done, and what they have put out. */
static int read_checkpoints(struct job_run *run)
{
    struct tend_checkpoints *checkpoints;
    size_t done = 0;
    int rc = tend_checkpoints(run->runner->t, run->task->job->id, &checkpoints);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < checkpoints->count; i++) {
        const struct tend_checkpoint *checkpoint = &checkpoints->items[i];
        if (checkpoint->step_index != (int64_t)done + 1)
            continue; /* the baseline */
        done++;
        rc = read_outputs(run, checkpoint);
    }
    tend_checkpoints_free(checkpoints);
    run->step = done + 1;
    return rc;
}

bool job_may_have_run(const struct job_run *run)
{
    return sweep_may_have_run(run->task->job);
}

/* 0 or TEND_ESTATE. */
static int sweep(struct job_run *run)
{
    const struct sweep_ear ear = runner_ear(run->runner);
    struct err lack = {0};
    if (sweep_job(run->runner->t, &ear, run->task->job, &lack))
        return 0;
    run->lack_code = lack.code;
    if (lack.code < 0)
        snprintf(run->last_error, sizeof run->last_error, "%s", lack.text);
    return TEND_ESTATE;
}

int job_read_past(struct job_run *run)
{
    struct tend_attempts *attempts = NULL;
    int rc = read_checkpoints(run);
    bool first = !job_may_have_run(run);
    if (rc == 0 && !first)
        rc = tend_attempts(run->runner->t, run->task->job->id, &attempts);
    if (rc != 0)
        return rc;
    heal_begin_job(&run->heal, first ? 0 : count_resets(attempts), run->plan.workspace_repo != NULL,
                   run->retry_classes);
    step_anew(run);
    pulse_bring_orders(run->task); /* what was asked for while nobody had the job */
    if (first)
        return 0;
    take_up_step(run, attempts);
    count_done(run, attempts);
    tend_attempts_free(attempts);
    return sweep(run);
}
