/*
 * One job from its claim to its end: what it has to do, what is done already (job_past.c), step
 * after step. Resuming is nothing special: the first step without a checkpoint is next.
 */
#include "run/job.h"

#include "queue/explain.h"
#include "queue/handle.h"
#include "run/job_source.h"
#include "run/step_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GIT_MS = 600000, /* for one git command */
    LEFT_BEHIND_MS = 5000,
};

static void job_init(struct job_run *run, struct task *task)
{
    *run = (struct job_run){.task = task,
                            .runner = task->runner,
                            .redactor = task->runner->redactor,
                            .lease_fd = -1,
                            .lease_lock = -1};
    arena_init(&run->arena);
    arena_init(&run->change.arena);
    workspace_keeper_init(&run->keeper,
                          arena_printf(&run->arena, "%s/cache", task->runner->options.folder));
    retry_classes_parse(RETRY_CLASSES_DEFAULT, &run->retry_classes);
    run->keeper.limits = (struct git_limits){.cancel_fd = task->cancel_fd, .timeout_ms = GIT_MS};
}

static void job_done(struct job_run *run)
{
    job_clean_files(run, job_workspace_clean(run));
    failure_done(&run->failure);
    redactor_free(run->own_redactor);
    classifier_free(run->rules);
    json_decref(run->outputs);
    json_decref(run->results);
    if (run->change.has_checkpoint)
        workspace_change_done(&run->change.checkpoint);
    arena_done(&run->change.arena);
    arena_done(&run->arena);
}

/* --- what it has to do --- */

static const char *handler_of(const tend_runner *runner, const char *kind)
{
    for (size_t i = 0; i < runner->options.handler_count; i++)
        if (strcmp(runner->options.handlers[i].kind, kind) == 0)
            return runner->options.handlers[i].command;
    return NULL;
}

/* A job of a handler has one step: the command. */
static int plan_of_handler(struct job_run *run)
{
    struct step_plan *step = arena_zalloc(&run->arena, sizeof *step);
    if (step == NULL)
        return TEND_ENOMEM;
    *step = (struct step_plan){
        .id = "step-1", .kind = STEP_RUN, .run = run->handler, .budgets = budget_none()};
    run->plan = (struct job_plan){.budgets = budget_none(), .steps = step, .step_count = 1};
    return 0;
}

static void say_no_handler(struct job_run *run)
{
    const char *kind = run->task->job->kind;
    bool named = kind[0] != '\0';
    snprintf(run->last_error, sizeof run->last_error,
             NO_HANDLER_WHY "%s%s%s, and the payload is no plan",
             named ? "kind '" : "jobs without a kind", kind, named ? "'" : "");
}

static int read_plan(struct job_run *run)
{
    const struct tend_job *job = run->task->job;
    struct err err;
    run->handler = handler_of(run->runner, job->kind);
    if (run->handler != NULL)
        return plan_of_handler(run);
    int rc = spec_parse(job->payload, job->payload_bytes, &run->arena, &run->plan, &err);
    run->no_handler = rc == SPEC_NONE;
    if (rc == SPEC_NONE)
        say_no_handler(run);
    else if (rc < 0)
        snprintf(run->last_error, sizeof run->last_error, "the payload is no good plan: %s",
                 err.text);
    return rc == SPEC_PLAN ? 0 : rc == TEND_ENOMEM ? rc : TEND_EINVAL;
}

/* What the job's own variables hold is secret too. */
static int make_redactor(struct job_run *run)
{
    struct err err;
    struct redactor *redactor;
    size_t count = run->plan.env.count + (run->secrets != NULL);
    for (size_t i = 0; i < run->plan.step_count; i++)
        count += run->plan.steps[i].env.count + (run->plan.steps[i].http != NULL);
    if (count == 0)
        return 0;
    int rc = runner_redactor(&run->plan, run->secrets, &redactor, &err);
    if (rc < 0)
        return rc;
    redactor_free(run->own_redactor);
    run->redactor = run->own_redactor = redactor;
    run->secrets_changed = false;
    return 0;
}

bool job_know_secret(struct job_run *run, const char *value, size_t bytes)
{
    int rc = secret_know(&run->secrets, &run->arena, value, bytes);
    run->secrets_changed = run->secrets_changed || rc > 0;
    return rc >= 0;
}

/* All that the payload names, before the first step can print it. */
static int know_secrets(struct job_run *run)
{
    const struct tend_job *job = run->task->job;
    return run->handler == NULL
               ? secrets_of_plan(&run->plan, &run->arena, &run->secrets)
               : secrets_of_payload(job->payload, job->payload_bytes, &run->arena, &run->secrets);
}

int job_renew_redactor(struct job_run *run)
{
    return run->secrets_changed ? make_redactor(run) : 0;
}

/* What the steps leave is kept there; after a failure what is missing can be asked for again. */
static int make_room(struct job_run *run)
{
    if (run->times_done == NULL)
        run->times_done = arena_zalloc(&run->arena, run->plan.step_count * sizeof *run->times_done);
    if (run->outputs == NULL)
        run->outputs = json_object();
    if (run->results == NULL)
        run->results = json_object();
    return run->times_done != NULL && run->outputs != NULL && run->results != NULL ? 0
                                                                                   : TEND_ENOMEM;
}

/* By a name that is good for every worker and for people. */
static int tell_repo(struct job_run *run)
{
    const char *folder = job_named_folder(run, &run->arena);
    const char *repo =
        folder == NULL ? NULL : job_source_repo(&run->arena, run->plan.workspace_repo, folder);
    run->repo_told = repo == NULL ? NULL : redact_text(run->redactor, &run->arena, repo);
    return run->repo_told == NULL ? TEND_ENOMEM : 0;
}

static int read_rules(struct job_run *run)
{
    struct err err;
    struct tend_queue queue;
    int rc = make_room(run);
    if (rc < 0 || (rc = tend_queue_get(run->runner->t, run->task->job->queue, &queue)) < 0 ||
        (rc = runner_know_store(run->runner)) < 0)
        return rc;
    run->keep_workspace_ms = queue.keep_workspace_ms;
    run->queue_budgets = (struct budgets){
        .step_max_attempts = queue.step_max_attempts,
        .step_timeout_ms = queue.step_timeout_ms,
        .step_idle_timeout_ms = queue.step_idle_timeout_ms,
        .step_no_progress_limit = queue.step_no_progress_limit,
        .job_self_heal_max_resets = queue.job_self_heal_max_resets,
        .step_grace_ms = queue.step_grace_ms,
        .step_pause_ms = queue.step_pause_ms,
        .step_pause_max_ms = queue.step_pause_max_ms,
    };
    const char *classes = run->plan.retry_classes;
    retry_classes_parse(classes != NULL ? classes : queue.retry_classes, &run->retry_classes);
    if (run->plan.rules.count > 0 && run->rules == NULL &&
        (rc = classifier_new_user(run->plan.rules.items, run->plan.rules.count, &run->rules,
                                  &err)) < 0)
        return rc;
    rc = know_secrets(run);
    if (rc == 0)
        rc = make_redactor(run);
    return rc < 0 || run->plan.workspace_repo == NULL ? rc : tell_repo(run);
}

/* --- the whole --- */

/* True: the steps can begin. False: the job's end is written. */
static bool prepare(struct job_run *run)
{
    int rc;
    do
        rc = read_plan(run);
    while (task_try_again(run->task, rc));
    if (run->no_handler || (rc >= 0 && job_lacks_folder(run))) {
        job_give_back_unfit(run);
        return false;
    }
    runner_tell(run->runner, TEND_NEWS_JOB_BEGINS, run->task->job->id, -1, "job %lld begins",
                (long long)run->task->job->id);
    if (rc == TEND_EINVAL) {
        run->early.ending = (struct ending){.kind = ENDED_BAD_PLAN};
        step_fail_early(run);
        return false;
    }
    if (rc >= 0) {
        do
            rc = read_rules(run);
        while (task_try_again(run->task, rc));
    }
    if (rc >= 0) {
        do
            rc = job_read_past(run);
        while (task_try_again(run->task, rc));
    }
    if (rc < 0 && run->lack_code < 0) {
        step_give_back_lacking(run, 0);
        return false;
    }
    if (rc < 0) {
        job_give_back(run, LEFT_BEHIND_MS,
                      rc == TEND_ESTATE   ? "what an earlier worker left of it still runs"
                      : rc == TEND_ENOMEM ? "its worker is out of memory"
                                          : tend_errmsg(run->runner->t));
        return false;
    }
    enum step_outcome outcome;
    while ((outcome = step_boundary(run)) == STEP_JUMPED)
        continue;
    return outcome != STEP_OVER;
}

/* A job that was cancelled or held: how its attempt ended may still be told. */
static void tell_taken_away(struct job_run *run)
{
    struct task *task = run->task;
    long long id = (long long)task->job->id;
    if (task_signal(task) == TASK_CANCELLED) {
        job_write(run, NULL, NULL);
        runner_tell(task->runner, TEND_NEWS_JOB_ENDS, id, task->stopped, "job %lld is %s", id,
                    task->stopped_why);
    } else if (task_signal(task) == TASK_LOST) {
        runner_tell(task->runner, TEND_NEWS_JOB_ENDS, id, -1,
                    "job %lld was taken away: its lease is lost", id);
    }
}

void job_run(struct task *task)
{
    struct job_run run;
    enum step_outcome outcome = STEP_SUCCEEDED;
    job_init(&run, task);
    if (prepare(&run)) {
        while (run.step <= run.plan.step_count && outcome != STEP_OVER) {
            outcome = step_run(&run);
            if (outcome != STEP_SUCCEEDED)
                continue; /* over, or at a step that begins anew */
            run.step++;
            step_anew(&run);
        }
        if (outcome != STEP_OVER)
            job_complete(&run);
    }
    if (!run.closed && run.refused[0] != '\0')
        job_fail_plainly(&run);
    if (!run.closed)
        tell_taken_away(&run);
    if (run.lack_code == 0)
        lack_eased(task->runner);
    job_done(&run);
}
