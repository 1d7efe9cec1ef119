/* The small things told of an attempt, and what readers are shown of a job's steps. */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

/* --- telling --- */

static int call(struct actor *actor)
{
    const struct op *op = &actor->op;
    const struct step_op *told = &op->step;
    struct tend_output pieces[MAX_PIECES];
    char text[STEP_TEXT];
    switch (told->tell) {
    case TELL_PROGRESS:
        return tend_progress(actor->t, op->leases[0], told->number, told->serial % 101,
                             "simulated");
    case TELL_PROCESS:
        return tend_attempt_started(actor->t, op->leases[0], told->number, told->serial, 1);
    default:
        snprintf(text, sizeof text, "o%d", told->serial);
        for (int i = 0; i < told->piece_count; i++)
            pieces[i] = (struct tend_output){.seq = told->first_seq + i,
                                             .at_ms = TEND_UNSET,
                                             .stream = 1,
                                             .text = text,
                                             .text_bytes = strlen(text)};
        return tend_output_append(actor->t, op->leases[0], told->number, pieces,
                                  (size_t)told->piece_count);
    }
}

static void check_answer(struct world *world, const struct op *op, int rc)
{
    bool holds = model_holds(world, op->leases[0]);
    switch (op->step.verdict) {
    case VERDICT_DONE:
        expect(world, rc == 0, "what was told of attempt %lld is written, but the answer is %d",
               (long long)op->step.number, rc);
        break;
    case VERDICT_TOLD_BEFORE: /* nothing was written; the lease may have been lost since */
        expect(world, rc == 0 || (rc == TEND_ELEASELOST && !holds),
               "telling of attempt %lld answers %d to the holder", (long long)op->step.number, rc);
        break;
    default:
        expect(world, rc == TEND_ELEASELOST, "telling under a lost lease answers %d", rc);
    }
}

void op_step_tell(struct world *world, struct actor *actor, struct belief *belief)
{
    static const char *const names[] = {"progress", "process", "output"};
    struct belief stale;
    if (belief == NULL)
        belief = op_choose_belief(world, actor, &stale);
    if (belief == NULL)
        return;
    struct job_model *job = model_job(world, belief->lease.id);
    const struct attempt_model *newest = model_newest(world, job);
    if (newest == NULL)
        return;
    struct op *op = op_begin(world, actor, OP_STEP_TELL);
    op->leases[op->lease_count++] = belief->lease;
    op->step.number = belief->steps.number != 0 ? belief->steps.number : newest->number;
    op->step.tell = (enum tell)between(world, 0, TELL_COUNT - 1);
    op->step.serial = ++world->serial;
    op->step.first_seq = (int)between(world, 1, MAX_PIECES - 1);
    op->step.piece_count = (int)between(world, 1, 2);
    say(world, "%s tells %s of attempt %lld of %lld:%lld", actor->name, names[op->step.tell],
        (long long)op->step.number, (long long)belief->lease.id, (long long)belief->lease.token);
    int rc = call(actor);
    if (op_end(world, actor, rc))
        check_answer(world, op, rc);
}

/* --- reading --- */

static void look_at_attempts(struct world *world, struct actor *actor, const struct job_model *job)
{
    struct tend_attempts *list = NULL;
    int rc = tend_attempts(actor->t, job->id, &list);
    expect(world, rc == 0, "attempts of job %lld: %d", (long long)job->id, rc);
    const struct attempt_model *newest = model_newest(world, job);
    expect(world, (int64_t)list->count == (newest == NULL ? 0 : newest->number),
           "%zu attempts of job %lld are shown", list->count, (long long)job->id);
    for (size_t i = 0; i < list->count; i++) {
        const struct tend_attempt *shown = &list->items[i];
        const struct attempt_model *attempt = model_attempt(world, job, shown->number);
        expect(world,
               attempt != NULL && shown->state == model_told_state(job, attempt) &&
                   shown->step_index == attempt->step && shown->token == attempt->token &&
                   shown->progress_percent == attempt->percent,
               "attempt %lld of job %lld is shown as %s", (long long)shown->number,
               (long long)job->id, tend_attempt_state_name(shown->state));
        expect(
            world,
            shown->state != TEND_ATTEMPT_RUNNING ||
                (job->state == JOB_RUNNING && shown->token == job->token && i + 1 == list->count),
            "attempt %lld of job %lld, which is %s, is shown as running", (long long)shown->number,
            (long long)job->id, tend_state_name((int)job->state));
    }
    tend_attempts_free(list);
}

static void look_at_checkpoints(struct world *world, struct actor *actor,
                                const struct job_model *job)
{
    struct tend_patch *patch = NULL;
    char text[STEP_TEXT];
    for (int step = 1; step <= MAX_STEPS; step++) {
        int serial = job->checkpoints[step].serial;
        int rc = tend_checkpoint_patch(actor->t, job->id, step, &patch);
        expect(world, rc == (serial != 0 ? 0 : TEND_ENOTFOUND),
               "the patch of step %d of job %lld: %d", step, (long long)job->id, rc);
        if (rc < 0)
            break;
        size_t bytes = (size_t)step_patch(text, sizeof text, step, serial);
        expect(world, patch->bytes == bytes && memcmp(patch->data, text, bytes) == 0,
               "the patch of step %d of job %lld is '%.*s', must be '%s'", step, (long long)job->id,
               (int)patch->bytes, (const char *)patch->data, text);
        tend_patch_free(patch);
    }
}

static void look_at_controls(struct world *world, struct actor *actor, const struct job_model *job)
{
    struct tend_controls *list = NULL;
    int rc = tend_controls(actor->t, job->id, &list);
    expect(world, rc == 0, "controls of job %lld: %d", (long long)job->id, rc);
    size_t count = 0;
    for (int i = 0; i < world->control_count; i++)
        count += world->controls[i].job_id == job->id;
    expect(world, list->count == count, "%zu controls of job %lld are shown, must be %zu",
           list->count, (long long)job->id, count);
    for (size_t i = 0; i < list->count; i++) {
        const struct control_model *control = model_find_control(world, list->items[i].id);
        expect(world,
               control != NULL && control->job_id == job->id &&
                   list->items[i].done_at_ms == control->done_ms,
               "control %lld is shown otherwise than it is", (long long)list->items[i].id);
    }
    tend_controls_free(list);
}

/* Without faults, so that nothing comes in between. */
void op_step_look(struct world *world, struct actor *actor, struct job_model *job)
{
    struct tend_outputs *output = NULL;
    bool quiet = world->quiet;
    op_begin(world, actor, OP_STEP_LOOK);
    say(world, "%s looks at the steps of job %lld", actor->name, (long long)job->id);
    world->quiet = true;
    look_at_attempts(world, actor, job);
    look_at_checkpoints(world, actor, job);
    look_at_controls(world, actor, job);
    int rc = tend_output_read(actor->t, job->id, 0, 0, 0, &output);
    expect(world, rc == 0, "output of job %lld: %d", (long long)job->id, rc);
    tend_outputs_free(output);
    world->quiet = quiet;
    actor->busy = false;
}

static size_t count_left_behind(struct world *world)
{
    size_t count = 0;
    for (int i = 0; i < world->attempt_count; i++) {
        const struct attempt_model *attempt = &world->attempts[i];
        struct tend_lease lease = {.id = attempt->job_id, .token = attempt->token};
        count += attempt->may_live && !model_holds(world, lease);
    }
    return count;
}

/* Of one whose lease is held only its owner knows what is left. */
static void sweep(struct world *world, struct actor *actor, struct attempt_model *attempt)
{
    struct tend_lease lease = {.id = attempt->job_id, .token = attempt->token};
    int rc = tend_attempt_swept(actor->t, attempt->job_id, attempt->number);
    expect(world, rc == 0, "sweeping answers %d", rc);
    attempt->may_live &= model_holds(world, lease);
}

/* RC-14: every attempt whose lease ended without its word, until somebody has swept it. */
void op_step_sweep(struct world *world, struct actor *actor)
{
    struct tend_attempts *list = NULL;
    size_t count = count_left_behind(world);
    bool quiet = world->quiet;
    op_begin(world, actor, OP_STEP_LOOK);
    say(world, "%s sweeps", actor->name);
    world->quiet = true;
    int rc = tend_attempts_left_behind(actor->t, 0, NULL, MAX_ATTEMPTS, &list);
    expect(world, rc == 0 && list->count == count,
           "%zu attempts are said to be left behind, must be %zu", list->count, count);
    for (size_t i = 0; i < list->count; i++) {
        const struct tend_attempt *left = &list->items[i];
        struct attempt_model *attempt =
            model_attempt(world, model_job(world, left->job_id), left->number);
        expect(world, attempt->may_live && left->state != TEND_ATTEMPT_RUNNING,
               "attempt %lld of job %lld is said to be left behind", (long long)left->number,
               (long long)left->job_id);
        if (chance(world, 5000))
            sweep(world, actor, attempt);
    }
    tend_attempts_free(list);
    if (world->attempt_count > 0)
        sweep(world, actor, &world->attempts[between(world, 0, world->attempt_count - 1)]);
    world->quiet = quiet;
    actor->busy = false;
}
