/*
 * What a report about steps must do. The model decides by the contract alone what becomes of it,
 * does the same to its own attempts and checkpoints, and says which events must be left; the rows
 * are compared in model_row.c.
 *
 * The rules: only under the lease that is held; at most the newest attempt runs; a step begins when
 * all before it have a checkpoint and it has none; an attempt that succeeds leaves one; what an
 * earlier lease left running is lost; what was told before is not told twice.
 */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

const char *step_name(int step)
{
    static const char *const names[MAX_STEPS + 1] = {"", "step-1", "step-2", "step-3", "step-4"};
    return names[step];
}

struct attempt_model *model_newest(struct world *world, const struct job_model *job)
{
    return job->newest < 0 ? NULL : &world->attempts[job->newest];
}

struct attempt_model *model_attempt(struct world *world, const struct job_model *job,
                                    int64_t number)
{
    for (int i = job->newest; i >= 0; i = world->attempts[i].before)
        if (world->attempts[i].number == number)
            return &world->attempts[i];
    return NULL;
}

int model_first_open(const struct job_model *job)
{
    int step = 1;
    while (step <= MAX_STEPS && job->checkpoints[step].serial != 0)
        step++;
    return step;
}

int model_told_state(const struct job_model *job, const struct attempt_model *attempt)
{
    bool held = job->state == JOB_RUNNING && job->token == attempt->token;
    if (attempt->state != TEND_ATTEMPT_RUNNING || held)
        return attempt->state;
    return job->state == JOB_HELD || job->state == JOB_CANCELLED ? TEND_ATTEMPT_STOPPED
                                                                 : TEND_ATTEMPT_LOST;
}

/* --- events --- */

void model_expect_event(struct world *world, int64_t job_id, const char *what, const char *data)
{
    expect(world, world->expected_count < MAX_EXPECTED, "the simulation expects too much");
    struct expected_event *event = &world->expected[world->expected_count++];
    event->job_id = job_id;
    snprintf(event->what, sizeof event->what, "%s", what);
    snprintf(event->data, sizeof event->data, "%s", data);
}

/* SH-13: what every event about a step says. */
void model_expect_step(struct world *world, int64_t job_id, const char *what,
                       const struct step_told *told)
{
    char attempt[24] = "null";
    char texts[4][STEP_TEXT];
    const char *values[4] = {told->failure_class, told->signature, told->diff_hash, told->strategy};
    char data[360];
    const char *retryable = !told->gives_up   ? ""
                            : told->retryable ? ",\"retryable\":true"
                                              : ",\"retryable\":false";
    if (told->attempt > 0)
        snprintf(attempt, sizeof attempt, "%d", told->attempt);
    for (int i = 0; i < 4; i++)
        if (values[i] == NULL)
            snprintf(texts[i], STEP_TEXT, "null");
        else
            snprintf(texts[i], STEP_TEXT, "\"%.28s\"", values[i]);
    snprintf(data, sizeof data,
             "{\"stepId\":\"%s\",\"stepIndex\":%d,\"attempt\":%s,\"failureClass\":%s,"
             "\"failureSignature\":%s,\"diffHash\":%s,\"strategy\":%s%s}",
             step_name(told->step), told->step, attempt, texts[0], texts[1], texts[2], texts[3],
             retryable);
    model_expect_event(world, job_id, what, data);
}

void model_step_event(struct world *world, struct actor *actor, const struct tend_event *event)
{
    struct job_model *job = model_job(world, event->job_id);
    expect(world, job != NULL, "event %s of job %lld, which nobody added", event->what,
           (long long)event->job_id);
    expect(world, world->expected_seen < world->expected_count,
           "%s by %s left event %s of job %lld, which must not be", op_names[actor->op.kind],
           actor->name, event->what, (long long)event->job_id);
    const struct expected_event *expected = &world->expected[world->expected_seen++];
    int64_t job_id = expected->job_id != 0 ? expected->job_id : actor->op.step.new_job;
    expect(world, strcmp(event->what, expected->what) == 0 && event->job_id == job_id,
           "event %s of job %lld, must be %s of job %lld", event->what, (long long)event->job_id,
           expected->what, (long long)job_id);
    expect(world, event->data != NULL && strcmp(event->data, expected->data) == 0,
           "event %s of job %lld says %s, must say %s", event->what, (long long)event->job_id,
           event->data == NULL ? "nothing" : event->data, expected->data);
    expect(world,
           event->from_state == (int)job->state && event->to_state == (int)job->state &&
               event->token == job->token,
           "event %s of job %lld has another state or token than the job", event->what,
           (long long)event->job_id);
    job->events++;
}

/* --- reports --- */

/* What becomes of the newest attempt. */
struct fate {
    bool ends, lost, notes;
};

/* False: TEND_ESTATE. */
static bool decide(const struct step_report *report, const struct attempt_model *last,
                   struct fate *fate)
{
    *fate = (struct fate){.notes = true};
    bool running = last != NULL && last->state == TEND_ATTEMPT_RUNNING;
    bool own = last != NULL && last->token == report->lease.token;
    if (report->end_number != 0) {
        fate->ends = fate->notes = running;
        return own && last->number == report->end_number &&
               (running || last->state == report->end_state);
    }
    fate->lost = running && !own;
    return !running || !own || (report->begin_step == 0 && !report->closes);
}

static void end_attempt(struct world *world, struct job_model *job,
                        const struct step_report *report, struct attempt_model *last)
{
    char signature[STEP_TEXT];
    char diff_hash[STEP_TEXT];
    bool success = report->end_state == TEND_ATTEMPT_SUCCEEDED;
    snprintf(signature, sizeof signature, "s%d", report->serial);
    snprintf(diff_hash, sizeof diff_hash, "d%d", report->serial);
    last->state = report->end_state;
    last->may_live = report->serial % LEAVES_PROCESSES == 0;
    model_expect_step(world, job->id,
                      success ? "task.step.attempt.finished" : "task.step.attempt.failed",
                      &(struct step_told){.step = last->step,
                                          .attempt = last->attempt,
                                          .failure_class = success ? NULL : "transient_runtime",
                                          .signature = success ? NULL : signature,
                                          .diff_hash = diff_hash,
                                          .strategy = last->strategy});
    if (!success)
        return;
    expect(world, last->step <= model_first_open(job),
           "step %d of job %lld succeeded before step %d", last->step, (long long)job->id,
           model_first_open(job));
    job->checkpoints[last->step] =
        (struct checkpoint_model){.serial = report->serial, .number = last->number};
}

static void lose_attempt(struct world *world, struct job_model *job, struct attempt_model *last)
{
    last->state = TEND_ATTEMPT_LOST;
    last->may_live = true;
    model_expect_step(world, job->id, "task.step.attempt.failed",
                      &(struct step_told){.step = last->step,
                                          .attempt = last->attempt,
                                          .failure_class = "transient_runtime",
                                          .strategy = last->strategy});
}

static void begin_attempt(struct world *world, struct op *op, struct job_model *job)
{
    const struct step_report *report = &op->step.report;
    const struct attempt_model *last = model_newest(world, job);
    expect(world, report->begin_step == model_first_open(job),
           "step %d of job %lld is begun, but the first that has not succeeded is step %d",
           report->begin_step, (long long)job->id, model_first_open(job));
    expect(world, world->attempt_count < MAX_ATTEMPTS, "the simulation has too many attempts");
    op->step.begun = last == NULL ? 1 : last->number + 1;
    world->attempts[world->attempt_count] = (struct attempt_model){
        .job_id = job->id,
        .number = op->step.begun,
        .token = job->token,
        .before = job->newest,
        .step = report->begin_step,
        .attempt = report->begin_attempt,
        .serial = report->serial,
        .strategy = report->strategy,
        .may_live = true,
        .pid = TEND_UNSET,
        .percent = TEND_UNSET,
    };
    job->newest = world->attempt_count++;
    model_expect_step(world, job->id, "task.step.attempt.started",
                      &(struct step_told){.step = report->begin_step,
                                          .attempt = report->begin_attempt,
                                          .strategy = report->strategy});
}

static void close_job(struct world *world, struct op *op, struct job_model *job, int64_t now_ms)
{
    const struct step_report *report = &op->step.report;
    bool over = report->how == TEND_STEPS_COMPLETE ||
                (report->how == TEND_STEPS_FAIL && model_fails_for_good(op, job));
    if (report->control_id != 0)
        model_answer(world, job, report->control_id, op->step.outcome, now_ms, true);
    op->step.moves = 1;
    op->step.becomes = report->how == TEND_STEPS_COMPLETE ? (int)JOB_DONE
                       : report->how == TEND_STEPS_HOLD   ? (int)JOB_HELD
                       : report->how == TEND_STEPS_FAIL
                           ? (int)(over ? JOB_FAILED : JOB_SCHEDULED)
                           : (int)(report->delay_ms > 0 ? JOB_SCHEDULED : JOB_PENDING);
}

static void play(struct world *world, struct op *op, struct job_model *job, const struct fate *fate,
                 int64_t now_ms)
{
    const struct step_report *report = &op->step.report;
    struct attempt_model *last = model_newest(world, job);
    for (int step = report->drop_from; fate->notes && step > 0 && step <= MAX_STEPS; step++)
        job->checkpoints[step] = (struct checkpoint_model){0};
    if (report->baseline && job->checkpoints[0].serial == 0)
        job->checkpoints[0].serial = report->serial;
    if (fate->lost)
        lose_attempt(world, job, last);
    if (fate->ends)
        end_attempt(world, job, report, last);
    for (int i = 0; fate->notes && i < report->note_count; i++)
        model_expect_step(world, job->id, report->notes[i],
                          &(struct step_told){
                              .step = report->note_step,
                              .gives_up = strcmp(report->notes[i], "task.self_heal.exhausted") == 0,
                              .retryable = !report->final});
    if (report->begin_step != 0)
        begin_attempt(world, op, job);
    if (report->closes)
        close_job(world, op, job, now_ms);
    if (world->expected_count > 0) { /* a report is a sign of life, and work has begun */
        job->started = true;
        job->seen_ms = now_ms;
    }
}

/* Who holds its own job takes the lease away from itself. */
static bool holds_already(const struct job_model *job, const struct step_report *report)
{
    return job != NULL && report->closes && report->how == TEND_STEPS_HOLD &&
           job->state == JOB_HELD && job->stopped_token == report->lease.token;
}

/* The lease was ended by a cancel or a hold, and the job has not moved since. */
bool model_stopped(const struct job_model *job, struct tend_lease lease)
{
    return job != NULL && (job->state == JOB_CANCELLED || job->state == JOB_HELD) &&
           job->stopped_token == lease.token;
}

/* After that its last owner may still tell how the attempt ended that it had to stop. */
static enum verdict farewell(struct world *world, struct job_model *job,
                             const struct step_report *report, bool apply)
{
    struct attempt_model *last = model_newest(world, job);
    if (report->closes || report->begin_step != 0 || report->drop_from != 0 ||
        report->end_number == 0 || last == NULL || last->number != report->end_number ||
        last->token != report->lease.token)
        return VERDICT_LOST;
    if (last->state != TEND_ATTEMPT_RUNNING)
        return last->state == report->end_state ? VERDICT_TOLD_BEFORE : VERDICT_LOST;
    if (!apply)
        return VERDICT_DONE;
    end_attempt(world, job, report, last);
    for (int i = 0; i < report->note_count; i++)
        model_expect_step(world, job->id, report->notes[i],
                          &(struct step_told){.step = report->note_step});
    return VERDICT_DONE;
}

enum verdict model_report(struct world *world, struct op *op, int64_t now_ms, bool apply)
{
    const struct step_report *report = &op->step.report;
    struct job_model *job = model_job(world, report->lease.id);
    struct fate fate;
    if (holds_already(job, report))
        return VERDICT_TOLD_BEFORE;
    if (model_stopped(job, report->lease))
        return farewell(world, job, report, apply);
    if (!model_holds(world, report->lease))
        return VERDICT_LOST;
    const struct attempt_model *last = model_newest(world, job);
    if (report->begin_step != 0 && last != NULL && last->token == report->lease.token &&
        last->serial == report->serial) {
        op->step.begun = last->number;
        return VERDICT_TOLD_BEFORE;
    }
    if (!decide(report, last, &fate))
        return VERDICT_REFUSED;
    if (report->control_id != 0 &&
        model_answer(world, job, report->control_id, "", now_ms, false) == VERDICT_NOWHERE)
        return VERDICT_NOWHERE;
    if (report->control_id != 0 && report->closes && report->how == TEND_STEPS_HOLD &&
        model_find_control(world, report->control_id)->done_ms != TEND_UNSET)
        return VERDICT_REFUSED; /* a pause that was taken back holds nothing */
    if (apply)
        play(world, op, job, &fate, now_ms);
    return VERDICT_DONE;
}
