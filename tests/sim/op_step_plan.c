/*
 * What an actor reports of a job's steps next, from what it believes: as a worker does, which looks
 * at the checkpoints when it has got the lease, begins the first step without one, and goes on from
 * there; carries out what an operator ordered; repeats what was not answered; and now and then says
 * something that cannot be.
 */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

int64_t step_patch(char *text, size_t room, int step, int serial)
{
    return snprintf(text, room, "%s by %d\n", step_name(step), serial);
}

/* --- which job --- */

/* The lease of somebody else that is not held any more, of a job that another holds if possible. */
static bool find_stale(struct world *world, struct belief *stale)
{
    size_t known = world->old_lease_count < OLD_LEASES ? world->old_lease_count : OLD_LEASES;
    struct tend_lease lease = {.id = 0};
    if (known == 0)
        return false;
    size_t first = (size_t)between(world, 0, (int64_t)known - 1);
    for (size_t i = 0; i < known; i++) {
        struct tend_lease old = world->old_leases[(first + i) % known];
        if (model_holds(world, old))
            continue;
        lease = old;
        if (model_job(world, old.id)->state == JOB_RUNNING)
            break;
    }
    if (lease.id == 0)
        return false;
    const struct attempt_model *newest = model_newest(world, model_job(world, lease.id));
    *stale = (struct belief){.lease = lease, .steps = {.next = 1}};
    stale->steps.step = stale->steps.tries = 1;
    if (newest != NULL) { /* the attempt that it could do most harm to */
        stale->steps.number = newest->number;
        stale->steps.step = newest->step;
    }
    return true;
}

struct belief *op_choose_belief(struct world *world, struct actor *actor, struct belief *stale)
{
    bool steal = chance(world, actor->belief_count == 0 ? 2000 : 800);
    if (steal && find_stale(world, stale))
        return stale;
    if (actor->belief_count == 0)
        return NULL;
    for (size_t i = 0; chance(world, 7000) && i < actor->belief_count; i++)
        if (actor->beliefs[i].steps.number != 0 || actor->beliefs[i].steps.order != 0)
            return &actor->beliefs[i];
    return &actor->beliefs[between(world, 0, (int64_t)actor->belief_count - 1)];
}

/* --- how far it has come --- */

static int look(struct world *world, struct actor *actor, struct belief *belief)
{
    struct tend_checkpoints *list = NULL;
    const struct job_model *job = model_job(world, belief->lease.id);
    int rc = tend_checkpoints(actor->t, belief->lease.id, &list);
    if (rc < 0)
        return rc;
    int next = 1;
    for (size_t i = 0; i < list->count; i++)
        next += list->items[i].step_index == next;
    tend_checkpoints_free(list);
    if (world->sabotage != SABOTAGE_STEP_REPEATED)
        expect(world, !model_holds(world, belief->lease) || next == model_first_open(job),
               "job %lld is shown to have come to step %d, but it is at step %d",
               (long long)job->id, next, model_first_open(job));
    belief->steps.next = next;
    return 0;
}

/* --- what is reported --- */

static void begin(struct world *world, struct step_belief *steps, int step, const char *strategy)
{
    static const char *const resets[] = {"soft_reset", "hard_reset"};
    struct step_report *report = &steps->report;
    report->begin_step = step;
    report->begin_attempt = steps->step == step ? steps->tries + 1 : 1;
    report->strategy = strategy != NULL             ? strategy
                       : report->begin_attempt == 1 ? "first"
                                                    : resets[between(world, 0, 1)];
    report->next = step;
}

static void end(struct step_belief *steps, int state)
{
    steps->report.end_number = steps->number;
    steps->report.end_state = state;
}

static void note(struct step_belief *steps, const char *what, int step)
{
    struct step_report *report = &steps->report;
    report->note_step = step;
    report->notes[report->note_count++] = what;
}

/* True: it is carried out by this report, and has yet to be answered. */
static bool plan_order(struct world *world, struct step_belief *steps)
{
    int current = steps->number != 0 ? steps->step : steps->next;
    bool running = steps->number != 0;
    if (steps->order == 0)
        return false;
    if (steps->order_kind == ASK_RESUME_FROM_STEP && steps->order_step <= current) {
        if (running)
            end(steps, TEND_ATTEMPT_STOPPED);
        steps->report.drop_from = steps->order_step;
        note(steps, "task.resume.from_step", steps->order_step);
        steps->report.next = steps->order_step;
        if (chance(world, 5000))
            begin(world, steps, steps->order_step, NULL);
    } else if (running &&
               (steps->order_kind == ASK_RETRY_STEP || steps->order_kind == ASK_HARD_RESET_STEP)) {
        bool hard = steps->order_kind == ASK_HARD_RESET_STEP;
        end(steps, TEND_ATTEMPT_STOPPED);
        note(steps, hard ? "task.self_heal.escalated" : "task.self_heal.triggered", steps->step);
        begin(world, steps, steps->step, hard ? "hard_reset" : "soft_reset");
    } else {
        return false;
    }
    steps->order_kind = ASK_RESUME; /* all that is left to do is to answer */
    return true;
}

/* The running attempt ends, and the next begins. */
static void plan_running(struct world *world, struct step_belief *steps, int last_step,
                         bool diligent)
{
    int64_t dice = between(world, 0, 99);
    int state = diligent || dice < 55 ? TEND_ATTEMPT_SUCCEEDED
                : dice < 88           ? TEND_ATTEMPT_FAILED
                                      : TEND_ATTEMPT_STOPPED;
    end(steps, state);
    steps->report.next = state == TEND_ATTEMPT_SUCCEEDED ? steps->step + 1 : steps->step;
    if (state == TEND_ATTEMPT_FAILED)
        note(steps, chance(world, 7000) ? "task.self_heal.triggered" : "task.self_heal.escalated",
             steps->step);
    if (steps->report.next <= last_step && (diligent || chance(world, 7500)))
        begin(world, steps, steps->report.next, NULL);
}

static void plan_close(struct world *world, struct step_belief *steps, enum tend_step_how how)
{
    struct step_report *report = &steps->report;
    report->closes = true;
    report->how = how;
    if (how == TEND_STEPS_RELEASE)
        report->delay_ms = chance(world, 3000) ? between(world, 1, 40000) : 0;
    if (how != TEND_STEPS_FAIL)
        return;
    report->delay_ms = chance(world, 4000) ? between(world, 0, 40000) : TEND_UNSET;
    report->final = chance(world, 2000);
    note(steps, "task.self_heal.exhausted", steps->step == 0 ? 1 : steps->step);
}

static void plan_finish(struct world *world, struct step_belief *steps, int last_step,
                        bool diligent)
{
    static const enum tend_step_how hows[] = {TEND_STEPS_FAIL, TEND_STEPS_RELEASE, TEND_STEPS_HOLD};
    bool running = steps->number != 0;
    bool at_last = running && steps->step >= last_step;
    bool pauses =
        steps->order != 0 && (steps->order_kind == ASK_PAUSE || steps->order_kind == ASK_TAKEOVER);
    if (!pauses &&
        (diligent || (!running && steps->next > last_step) || (at_last && chance(world, 6000)))) {
        if (running)
            end(steps, TEND_ATTEMPT_SUCCEEDED);
        plan_close(world, steps, TEND_STEPS_COMPLETE);
        return;
    }
    enum tend_step_how how = pauses ? TEND_STEPS_HOLD : hows[between(world, 0, 2)];
    if (running)
        end(steps, how == TEND_STEPS_FAIL ? TEND_ATTEMPT_FAILED : TEND_ATTEMPT_STOPPED);
    plan_close(world, steps, how);
    if (pauses || (steps->order != 0 && chance(world, 3000)))
        steps->report.control_id = steps->order;
}

/*
 * Something that cannot be: an attempt that is not there ends, one that has ended ends otherwise, a
 * second begins beside the first, a control is answered that nobody asked for.
 */
static void spoil(struct world *world, struct step_belief *steps)
{
    struct step_report *report = &steps->report;
    if (chance(world, 3000)) {
        report->control_id = report->closes ? 1000000 : 0;
    } else if (steps->number == 0 && steps->ended != 0) {
        report->end_number = steps->ended;
        report->end_state = (int)between(world, TEND_ATTEMPT_SUCCEEDED, TEND_ATTEMPT_STOPPED);
    } else if (chance(world, 5000) && report->end_number != 0) {
        report->end_number++;
    } else if (report->begin_step != 0 || report->closes) {
        report->end_number = 0;
    }
}

int op_plan_report(struct world *world, struct actor *actor, struct belief *belief,
                   enum op_kind kind, bool diligent)
{
    struct step_belief *steps = &belief->steps;
    int last_step = model_job(world, belief->lease.id)->steps;
    if (steps->unanswered)
        return 0;
    if (steps->number == 0 && steps->next == 0) {
        int rc = look(world, actor, belief);
        if (rc < 0)
            return rc;
    }
    steps->report = (struct step_report){
        .lease = belief->lease, .serial = ++world->serial, .baseline = chance(world, 2000)};
    if (kind == OP_STEP_FINISH || (steps->number == 0 && steps->next > last_step))
        plan_finish(world, steps, last_step, diligent);
    else if (!diligent && plan_order(world, steps))
        return 0;
    else if (steps->number != 0)
        plan_running(world, steps, last_step, diligent);
    else
        begin(world, steps, steps->next, NULL);
    if (!diligent && chance(world, 400))
        spoil(world, steps);
    return 0;
}
