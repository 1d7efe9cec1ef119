/*
 * What an action would do, without doing it: the plan (act_plan.h) and what it leaves out. The call
 * that does it makes the same plan first.
 */
#include "queue/act.h"
#include "queue/act_plan.h"
#include "queue/acted.h"
#include "queue/row.h"

static int refuse_left_out(tend *t, const struct plan *plan, struct acted_box *box)
{
    struct err why;
    int rc = acted_reserve_refused(t, box, plan->key_count);
    for (size_t i = 0; rc >= 0 && i < plan->key_count; i++) {
        const struct plan_key *key = &plan->keys[i];
        if (key->rival == 0)
            continue;
        act_say_key(&why, key->id, act_done_name(plan->action), key->rival, key->outdone);
        acted_refuse(box, key->id, TEND_ECONFLICT, why.text);
    }
    return rc;
}

int act_plan_matching(tend *t, struct plan *plan, const struct tend_filter *filter,
                      struct acted_box *box)
{
    int rc = plan_add_matching(t, plan, filter);
    plan_settle(plan);
    return rc < 0 ? rc : refuse_left_out(t, plan, box);
}

int act_begin(tend *t, enum tend_action action, const struct tend_filter *filter, const char *by,
              struct acted_box **ret)
{
    int rc = act_check_call(t, action, by);
    if (rc < 0 || (rc = list_check_filter(t, filter)) < 0)
        return rc;
    *ret = acted_new(t);
    return *ret == NULL ? TEND_ENOMEM : 0;
}

int tend_act_count(tend *t, enum tend_action action, const struct tend_filter *filter,
                   struct tend_acted **ret)
{
    struct tend_filter meant = *filter;
    struct plan plan;
    struct acted_box *box;
    int rc = act_begin(t, action, filter, NULL, &box);
    if (rc < 0)
        return rc;
    plan_init(&plan, action);
    meant.states = act_states(action, filter->states);
    if (meant.states != 0)
        rc = act_plan_matching(t, &plan, &meant, box);
    box->acted.count = plan.count;
    box->acted.follower_count = (size_t)plan.followed;
    plan_done(&plan);
    return acted_give(box, rc, ret);
}

struct check_call {
    const int64_t *ids;
    size_t count;
    struct plan *plan;
    struct acted_box *box;
};

static bool is_named_before(const struct check_call *call, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (call->ids[before] == call->ids[i])
            return true;
    return false;
}

static int check_one(struct db_tx *tx, struct check_call *call, size_t i)
{
    struct tend_jobs jobs;
    int64_t now_ms;
    int rc = act_read_job(tx, call->plan->action, call->ids[i], &jobs, &now_ms);
    if (rc == 0 && is_named_before(call, i))
        rc = err_set(db_err(tx), TEND_ESTATE, "job %lld is named twice", (long long)call->ids[i]);
    if (rc == 0)
        return plan_add_job(tx, call->plan, &jobs.items[0]);
    if (rc != TEND_ENOTFOUND && rc != TEND_ESTATE)
        return rc;
    acted_refuse(call->box, call->ids[i], rc, db_err(tx)->text);
    return 0;
}

static int check_body(struct db_tx *tx, void *arg)
{
    struct check_call *call = arg;
    enum tend_action action = call->plan->action;
    int rc = 0;
    plan_done(call->plan);
    plan_init(call->plan, action);
    call->box->acted.refused_count = 0;
    for (size_t i = 0; rc >= 0 && i < call->count; i++)
        rc = check_one(tx, call, i);
    return rc;
}

int tend_act_check(tend *t, enum tend_action action, const int64_t *ids, size_t count,
                   struct tend_acted **ret)
{
    struct plan plan;
    int rc = act_check_call(t, action, NULL);
    if (rc < 0)
        return rc;
    struct acted_box *box = acted_new(t);
    struct check_call call = {.ids = ids, .count = count, .plan = &plan, .box = box};
    if (box == NULL)
        return TEND_ENOMEM;
    plan_init(&plan, action);
    if ((rc = acted_reserve_refused(t, box, count)) >= 0)
        rc = handle_read(t, check_body, &call);
    plan_settle(&plan);
    if (rc >= 0)
        rc = refuse_left_out(t, &plan, box);
    box->acted.count = plan.count;
    box->acted.follower_count = (size_t)plan.followed;
    plan_done(&plan);
    return acted_give(box, rc, ret);
}
