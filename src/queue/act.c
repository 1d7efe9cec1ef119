/* What operators do to jobs: hold, resume, cancel, redrive; one by one or all that match. Which of
 * them a redrive leaves out because of their unique keys, and why: act_plan.h. */
#include "queue/act.h"

#include "queue/act_plan.h"
#include "queue/acted.h"
#include "queue/add.h"
#include "queue/control.h"
#include "queue/holder.h"
#include "queue/row.h"
#include "store/queries.h"

enum { PAGE = 1000 };

/* The verb for an action. A held or cancelled job goes on where it was: later, when its due time
 * has not come. */
static enum job_move verb_of(enum tend_action action, enum job_state state, int64_t due_at_ms,
                             int64_t now_ms)
{
    switch (action) {
    case TEND_HOLD:
        return MOVE_HOLD;
    case TEND_RESUME:
        return due_at_ms > now_ms ? MOVE_RESUME_LATER : MOVE_RESUME;
    case TEND_CANCEL:
        return MOVE_CANCEL;
    default:
        return state == JOB_CANCELLED && due_at_ms > now_ms ? MOVE_REDRIVE_LATER : MOVE_REDRIVE;
    }
}

struct act_call {
    enum tend_action action;
    int64_t id;
    struct tend_filter filter;
    struct act_who who;
    int64_t moved;
    bool raced;              /* somebody else moved the job between the look at it and the move */
    const struct plan *plan; /* of a redrive of many; else NULL */
    int64_t page[PAGE];      /* ids of the jobs that are to be moved */
    size_t page_count;
    bool more; /* there may be others after the page, which ends with last_id */
    int64_t last_id;
    int64_t before_id;       /* only jobs before this one; 0: all */
    int64_t followers[PAGE]; /* of those that were moved */
    size_t follower_count;
};

/* What was committed, put into a box that has room for it. */
static void acted_take(struct acted_box *box, const struct act_call *call)
{
    for (size_t i = 0; i < call->follower_count; i++)
        box->followers[box->acted.follower_count++] = call->followers[i];
    box->acted.count += call->moved;
}

struct move act_move(struct db_tx *tx, enum tend_action action, const struct tend_job *job,
                     int64_t now_ms, const struct act_who *who)
{
    enum job_state state = (enum job_state)job->state;
    struct move move =
        move_plain(job->id, state, job->token, verb_of(action, state, job->due_at_ms, now_ms),
                   db_bell_of(job->queue));
    move.by = who->by;
    move.why = handle_clean_text(db_arena(tx), who->why);
    move.hook = who->hook;
    if (action == TEND_REDRIVE) { /* a new life: all budgets are full again */
        move.attempts = ATTEMPTS_START_OVER;
        move.crashes = 0;
        if (move.verb == MOVE_REDRIVE)
            move.delay_ms = 0;
    }
    return move;
}

static const char *const action_names[] = {[TEND_HOLD] = "held",
                                           [TEND_RESUME] = "resumed",
                                           [TEND_CANCEL] = "cancelled",
                                           [TEND_REDRIVE] = "retried"};

const char *act_done_name(enum tend_action action)
{
    return action_names[action];
}

/* The states from which an action leads anywhere. */
static unsigned states_of(enum tend_action action)
{
    unsigned states = 0;
    for (int state = 0; state < TEND_STATE_COUNT; state++) {
        const struct state_row *row;
        enum job_move verb = verb_of(action, (enum job_state)state, 0, 0);
        if (state_move((enum job_state)state, verb, &row) == 0)
            states |= 1u << state;
    }
    return states;
}

/* "job 1 is scheduled; only failed or cancelled jobs can be retried" */
static int refuse(struct db_tx *tx, enum tend_action action, const struct tend_job *job)
{
    const char *allowed = "";
    int named = 0;
    for (int state = TEND_STATE_COUNT - 1; state >= 0 && allowed != NULL; state--)
        if (states_of(action) & 1u << state) {
            allowed = arena_printf(db_arena(tx), "%s%s%s", tend_state_name(state),
                                   named == 0   ? ""
                                   : named == 1 ? " or "
                                                : ", ",
                                   allowed);
            named++;
        }
    if (allowed == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while changing jobs");
    return err_set(db_err(tx), TEND_ESTATE, "job %lld is %s; only %s jobs can be %s",
                   (long long)job->id, tend_state_name(job->state), allowed, action_names[action]);
}

int act_read_job(struct db_tx *tx, enum tend_action action, int64_t id, struct tend_jobs *ret,
                 int64_t *ret_now_ms)
{
    struct job_get_rows found;
    const struct job_get_params params = {.id = db_int(id), .now = db_now(tx)};
    int rc = run_job_get(tx, 0, params, &found);
    if (rc < 0)
        return rc;
    if (found.count == 0) {
        err_set(db_err(tx), TEND_ENOTFOUND,
                "there is no job %lld; 'tend jobs' lists those that are", (long long)id);
        return TEND_ENOTFOUND;
    }
    *ret_now_ms = db_num(found.at[0].now);
    if ((rc = jobs_read(db_arena(tx), &found.result, ret)) < 0)
        return rc;
    return states_of(action) & 1u << ret->items[0].state ? 0 : refuse(tx, action, &ret->items[0]);
}

static int act_body(struct db_tx *tx, void *arg)
{
    struct act_call *call = arg;
    struct tend_jobs jobs;
    int64_t now_ms;
    call->raced = false;
    call->follower_count = 0;
    int rc = act_read_job(tx, call->action, call->id, &jobs, &now_ms);
    if (rc < 0)
        return rc;
    struct move move = act_move(tx, call->action, &jobs.items[0], now_ms, &call->who);
    if ((rc = move_jobs(tx, &move, 1, 0, &call->moved)) < 0)
        return rc;
    call->raced = call->moved == 0;
    if (move.follower != 0)
        call->followers[call->follower_count++] = move.follower;
    return !call->raced
               ? control_follow(tx, call->action, &jobs, &call->moved)
               : err_set(db_err(tx), TEND_ECONFLICT,
                         "job %lld changed at the same moment; try again", (long long)call->id);
}

int act_check_call(tend *t, enum tend_action action, const char *by)
{
    if ((int)action < 0 || (size_t)action >= sizeof action_names / sizeof *action_names)
        return handle_fail(
            t, TEND_EINVAL,
            "%d is no action; give TEND_HOLD, TEND_RESUME, TEND_CANCEL or TEND_REDRIVE",
            (int)action);
    return by == NULL ? 0 : handle_check_name(t, "person or program", by);
}

struct rival_call {
    int64_t id;
    int64_t rival; /* 0: it has ended meanwhile */
};

static int rival_body(struct db_tx *tx, void *arg)
{
    struct rival_call *call = arg;
    struct job_rival_rows found;
    const struct job_rival_params params = {.id = db_int(call->id)};
    int rc = run_job_rival(tx, 0, params, &found);
    call->rival = rc == 0 && found.count > 0 ? db_num(found.at[0].id) : 0;
    return rc;
}

void act_say_key(struct err *err, int64_t id, const char *done, int64_t rival, bool outdone)
{
    err_set(err, TEND_ECONFLICT, "job %lld cannot be %s: job %lld, which %s, has its unique key",
            (long long)id, done, (long long)rival,
            outdone ? "was submitted later" : "has not finished");
}

int act_fail_key(tend *t, int64_t id, const char *done)
{
    struct rival_call call = {.id = id};
    if (handle_read(t, rival_body, &call) < 0 || call.rival == 0)
        return handle_fail(t, TEND_ECONFLICT,
                           "job %lld cannot be %s: another live job has its unique key",
                           (long long)id, done);
    act_say_key(handle_err(t), id, done, call.rival, false);
    return TEND_ECONFLICT;
}

static int act_on_one(tend *t, struct act_call *call, int64_t id)
{
    enum tend_action action = call->action;
    int rc = TEND_ECONFLICT;
    call->id = id;
    for (int tries = 0; tries < 5 && rc == TEND_ECONFLICT; tries++)
        rc = handle_write(t, act_body, call);
    if (rc == TEND_ECONFLICT && call->raced)
        return handle_fail(t, TEND_ECONFLICT,
                           "job %lld was not %s: others changed it each time it was tried; look at "
                           "it with 'tend show %lld' and try again",
                           (long long)id, action_names[action], (long long)id);
    if (rc == TEND_ECONFLICT)
        return act_fail_key(t, id, action_names[action]);
    return rc < 0 ? holder_explain_busy(t, rc, id, action_names[action]) : 0;
}

static struct act_who who_of(const tend *t, const char *by, const char *why)
{
    return (struct act_who){.by = handle_owner(t, by), .why = why, .hook = t->options.hook};
}

int tend_act_on_one(tend *t, enum tend_action action, int64_t id, const char *by, const char *why,
                    struct tend_acted **ret)
{
    struct act_call call = {.action = action, .who = who_of(t, by, why)};
    int rc = act_check_call(t, action, by);
    if (rc < 0)
        return rc;
    struct acted_box *box = acted_new(t);
    if (box == NULL)
        return TEND_ENOMEM;
    if ((rc = acted_reserve(t, box, 1)) == 0 && (rc = act_on_one(t, &call, id)) == 0)
        acted_take(box, &call);
    return acted_give(box, rc, ret);
}

int tend_act(tend *t, enum tend_action action, int64_t id, const char *by, const char *why)
{
    return tend_act_on_one(t, action, id, by, why, NULL);
}

unsigned act_states(enum tend_action action, unsigned asked)
{
    if (asked == 0 && action == TEND_REDRIVE)
        asked = 1u << TEND_FAILED;
    return asked == 0 ? states_of(action) : states_of(action) & asked;
}

/* Jobs that are brought back become live under their keys again, as those of a batch. */
static int take_keys(struct db_tx *tx, const struct tend_jobs *jobs)
{
    struct keys_take_params *keys = arena_alloc(db_arena(tx), (jobs->count + 1) * sizeof *keys);
    size_t count = 0;
    if (keys == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while changing jobs");
    for (size_t i = 0; i < jobs->count; i++) {
        if (jobs->items[i].unique_key == NULL)
            continue;
        keys[count++] = (struct keys_take_params){.queue = db_text(jobs->items[i].queue),
                                                  .unique_key = db_text(jobs->items[i].unique_key)};
    }
    return add_take_keys(tx, keys, count);
}

int act_on_jobs(struct db_tx *tx, enum tend_action action, const struct tend_jobs *jobs,
                int64_t now_ms, const struct act_who *who, struct act_done *ret)
{
    struct move *moves = arena_alloc(db_arena(tx), (jobs->count + 1) * sizeof *moves);
    int64_t *moved = arena_zalloc(db_arena(tx), (jobs->count + 1) * sizeof *moved);
    *ret = (struct act_done){
        .followers = arena_alloc(db_arena(tx), (jobs->count + 1) * sizeof *ret->followers)};
    if (moves == NULL || moved == NULL || ret->followers == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while changing jobs");
    for (size_t i = 0; i < jobs->count; i++)
        moves[i] = act_move(tx, action, &jobs->items[i], now_ms, who);
    int rc = action == TEND_REDRIVE ? take_keys(tx, jobs) : 0;
    if (rc < 0 || (rc = move_jobs(tx, moves, jobs->count, 0, moved)) < 0)
        return rc;
    for (size_t i = 0; i < jobs->count; i++) {
        ret->moved += moved[i];
        if (moves[i].follower != 0)
            ret->followers[ret->follower_count++] = moves[i].follower;
    }
    return control_follow(tx, action, jobs, moved);
}

/* What is to be moved of a page. */
static void choose_from_page(struct act_call *call, struct tend_jobs *jobs)
{
    struct tend_job *chosen = (struct tend_job *)jobs->items; /* they are ours */
    size_t count = 0;
    call->more = jobs->count == PAGE;
    for (size_t i = 0; i < jobs->count; i++) {
        int64_t id = jobs->items[i].id;
        if (call->before_id != 0 && id >= call->before_id) {
            call->more = false;
            break;
        }
        call->last_id = id;
        if (call->plan != NULL && plan_left_out(call->plan, id) != NULL)
            continue;
        call->page[count] = id;
        chosen[count++] = jobs->items[i];
    }
    call->page_count = count;
    *jobs = (struct tend_jobs){.count = count, .items = chosen};
}

static int act_on_page_body(struct db_tx *tx, void *arg)
{
    struct act_call *call = arg;
    struct act_done done;
    struct tend_jobs jobs;
    struct job_list_rows found;
    int64_t now_ms;
    int rc = list_page(tx, Q_JOB_LIST, &call->filter, 0, &found.result);
    if (rc < 0 || (rc = db_time(tx, &now_ms)) < 0 ||
        (rc = jobs_read(db_arena(tx), &found.result, &jobs)) < 0)
        return rc;
    choose_from_page(call, &jobs);
    rc = act_on_jobs(tx, call->action, &jobs, now_ms, &call->who, &done);
    call->moved = done.moved;
    call->follower_count = done.follower_count;
    for (size_t i = 0; i < done.follower_count; i++)
        call->followers[i] = done.followers[i];
    return rc;
}

/* One job of the page has a key that another job has taken since the plan was made: that one is
 * refused, the others are not. The newest come first, as in the plan. */
static int act_one_by_one(tend *t, struct act_call *call, struct acted_box *box)
{
    int rc = acted_reserve_refused(t, box, call->page_count);
    for (size_t i = call->page_count; rc >= 0 && i-- > 0;) {
        rc = act_on_one(t, call, call->page[i]);
        if (rc == 0)
            acted_take(box, call);
        if (rc == TEND_ECONFLICT)
            acted_refuse(box, call->page[i], rc, tend_errmsg(t));
        if (rc == TEND_ECONFLICT || rc == TEND_ESTATE || rc == TEND_ENOTFOUND)
            rc = 0;
    }
    return rc;
}

static int act_on_pages(tend *t, struct act_call *call, struct acted_box *box)
{
    int rc;
    call->filter.limit = PAGE;
    do {
        call->more = false;
        if ((rc = acted_reserve(t, box, PAGE)) == 0)
            rc = handle_write(t, act_on_page_body, call);
        if (rc == TEND_ECONFLICT)
            rc = act_one_by_one(t, call, box);
        else if (rc >= 0)
            acted_take(box, call);
        call->filter.after_id = call->last_id;
        if (box->acted.follower_count > 0)
            call->before_id = box->followers[0]; /* what has come of earlier pages stays */
    } while (rc >= 0 && call->more);
    return rc < 0 ? rc : 0;
}

int tend_act_on_all(tend *t, enum tend_action action, const struct tend_filter *filter,
                    const char *by, const char *why, struct tend_acted **ret)
{
    struct act_call call = {.action = action, .filter = *filter, .who = who_of(t, by, why)};
    struct plan plan;
    struct acted_box *box;
    int rc = act_begin(t, action, filter, by, &box);
    if (rc < 0)
        return rc;
    plan_init(&plan, action);
    call.filter.states = act_states(action, filter->states);
    if (action == TEND_REDRIVE && call.filter.states != 0) {
        rc = act_plan_matching(t, &plan, &call.filter, box);
        call.plan = &plan;
        call.before_id = plan.last_id + 1; /* what has failed since is not in the plan */
    }
    if (rc >= 0 && call.filter.states != 0)
        rc = act_on_pages(t, &call, box);
    plan_done(&plan);
    return acted_give(box, rc, ret);
}
