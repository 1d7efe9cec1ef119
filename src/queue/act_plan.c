/* See act_plan.h. */
#include "queue/act_plan.h"

#include "queue/row.h"
#include "store/queries.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000, ROOM_FIRST = 64 };

void plan_init(struct plan *plan, enum tend_action action)
{
    *plan = (struct plan){.action = action};
    arena_init(&plan->arena);
}

void plan_done(struct plan *plan)
{
    free(plan->keys);
    arena_done(&plan->arena);
}

static int add_key(struct plan *plan, const struct plan_key *key)
{
    if (plan->key_count == plan->key_room) {
        size_t room = plan->key_room == 0 ? ROOM_FIRST : plan->key_room * 2;
        struct plan_key *keys = realloc(plan->keys, room * sizeof *keys);
        if (keys == NULL)
            return TEND_ENOMEM;
        plan->keys = keys;
        plan->key_room = room;
    }
    struct plan_key *added = &plan->keys[plan->key_count];
    *added = *key;
    added->queue = arena_strdup(&plan->arena, key->queue);
    added->key = arena_strdup(&plan->arena, key->key);
    if (added->queue == NULL || added->key == NULL)
        return TEND_ENOMEM;
    plan->key_count++;
    return 0;
}

static int add(struct db_tx *tx, struct plan *plan, const struct plan_key *key, bool followed)
{
    plan->count++;
    plan->followed += plan->action == TEND_CANCEL && followed;
    if (key->id > plan->last_id)
        plan->last_id = key->id;
    if (plan->action != TEND_REDRIVE || key->key == NULL || add_key(plan, key) == 0)
        return 0;
    return err_set(db_err(tx), TEND_ENOMEM, "out of memory while looking at the keys of jobs");
}

/* --- those that match --- */

struct matching_call {
    struct plan *plan;
    struct plan before; /* as it was: a transaction that is tried again begins with this */
    struct tend_filter filter;
    size_t rows;
    int64_t last_id; /* of the page */
};

static int matching_body(struct db_tx *tx, void *arg)
{
    struct matching_call *call = arg;
    struct plan *plan = call->plan;
    struct job_chosen_rows found;
    plan->count = call->before.count;
    plan->followed = call->before.followed;
    plan->key_count = call->before.key_count;
    int rc = list_page(tx, Q_JOB_CHOSEN, &call->filter, DB_LAST, &found.result);
    for (size_t i = 0; rc >= 0 && i < found.count; i++) {
        const struct job_chosen_row *job = &found.at[i];
        const struct plan_key key = {.id = db_num(job->id),
                                     .queue = db_str(job->queue),
                                     .key = db_str(job->unique_key),
                                     .rival = job->rival.type == DB_NULL ? 0 : db_num(job->rival)};
        rc = add(tx, plan, &key, db_num(job->followed) == 1);
        call->last_id = key.id;
    }
    call->rows = rc < 0 ? 0 : found.count;
    return rc;
}

int plan_add_matching(tend *t, struct plan *plan, const struct tend_filter *filter)
{
    struct matching_call call = {.plan = plan, .filter = *filter};
    int rc;
    call.filter.limit = PAGE;
    do {
        call.before = *plan;
        rc = handle_read(t, matching_body, &call);
        call.filter.after_id = call.last_id;
    } while (rc >= 0 && call.rows == PAGE);
    return rc;
}

/* --- one by one --- */

int plan_add_job(struct db_tx *tx, struct plan *plan, const struct tend_job *job)
{
    struct plan_key key = {.id = job->id, .queue = job->queue, .key = job->unique_key};
    struct job_rival_rows rival;
    const struct job_rival_params params = {.id = db_int(job->id)};
    int rc;
    if (plan->action == TEND_REDRIVE && key.key != NULL) {
        if ((rc = run_job_rival(tx, 0, params, &rival)) < 0)
            return rc;
        key.rival = rival.count == 0 ? 0 : db_num(rival.at[0].id);
    }
    return add(tx, plan, &key, job->followed);
}

/* --- who is left out --- */

static int compare_keys(const struct plan_key *a, const struct plan_key *b)
{
    int queues = strcmp(a->queue, b->queue);
    return queues != 0 ? queues : strcmp(a->key, b->key);
}

/* By key, the newest first. */
static int compare_newest(const void *left, const void *right)
{
    const struct plan_key *a = left;
    const struct plan_key *b = right;
    int keys = compare_keys(a, b);
    return keys != 0 ? keys : a->id < b->id ? 1 : a->id > b->id ? -1 : 0;
}

static int compare_ids(const void *left, const void *right)
{
    const struct plan_key *a = left;
    const struct plan_key *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

void plan_settle(struct plan *plan)
{
    const struct plan_key *newest = NULL;
    if (plan->key_count == 0)
        return;
    qsort(plan->keys, plan->key_count, sizeof *plan->keys, compare_newest);
    for (size_t i = 0; i < plan->key_count; i++) {
        struct plan_key *key = &plan->keys[i];
        if (newest == NULL || compare_keys(newest, key) != 0)
            newest = key;
        key->outdone = key->rival == 0 && key != newest;
        if (key->outdone)
            key->rival = newest->id;
        plan->count -= key->rival != 0;
    }
    qsort(plan->keys, plan->key_count, sizeof *plan->keys, compare_ids);
}

const struct plan_key *plan_left_out(const struct plan *plan, int64_t id)
{
    const struct plan_key wanted = {.id = id};
    const struct plan_key *key =
        plan->key_count == 0
            ? NULL
            : bsearch(&wanted, plan->keys, plan->key_count, sizeof *plan->keys, compare_ids);
    return key != NULL && key->rival != 0 ? key : NULL;
}
