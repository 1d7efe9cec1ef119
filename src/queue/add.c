/*
 * Adding jobs. Input is checked before the store is asked (add_check.c). Jobs without a unique key
 * go in with one statement for all; one with a key is looked up first (CL-7).
 *
 * Of several keys each may have a job that others lock as well, or be added by others at the same
 * time, which the index makes one of them wait for. So that two batches never wait for each other,
 * a batch with more than one key takes all of them first, then locks the jobs that have them, by
 * id. Who adds under one key alone holds nothing while it waits.
 */
#include "queue/add.h"
#include "core/state.h"
#include "queue/checkpoint.h"
#include "queue/submission.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_TRIES = 20 };

void tend_job_spec_init(struct tend_job_spec *spec)
{
    *spec = (struct tend_job_spec){
        .priority = TEND_PRIORITY_DEFAULT,
        .due_at_ms = TEND_UNSET,
        .delay_ms = TEND_UNSET,
        .max_attempts = TEND_UNSET,
        .max_crashes = TEND_UNSET,
        .backoff_ms = TEND_UNSET,
        .backoff_max_ms = TEND_UNSET,
        .lease_ms = TEND_UNSET,
    };
}

static const char *queue_of(const struct tend_job_spec *spec)
{
    return spec->queue != NULL ? spec->queue : "default";
}

const char *add_payload(const struct tend_job_spec *spec, size_t *ret_bytes)
{
    const char *payload = spec->payload != NULL ? spec->payload : "{}";
    *ret_bytes =
        spec->payload == NULL || spec->payload_bytes == 0 ? strlen(payload) : spec->payload_bytes;
    return payload;
}

static struct job_add_basic_params basic_params(struct db_tx *tx, const struct tend_job_spec *spec,
                                                const char *by)
{
    size_t bytes;
    const char *payload = add_payload(spec, &bytes);
    return (struct job_add_basic_params){
        .now = db_now(tx),
        .who = db_text(by),
        .queue = db_text(queue_of(spec)),
        .kind = db_text(spec->kind != NULL ? spec->kind : ""),
        .priority = db_int(spec->priority),
        .due_at = db_int_or_null(spec->due_at_ms),
        .delay_ms = db_int(spec->delay_ms == TEND_UNSET ? 0 : spec->delay_ms),
        .payload = db_text_n(payload, bytes),
    };
}

static struct job_add_params add_params(struct db_tx *tx, const struct tend_job_spec *spec,
                                        const char *by, const char *schedule)
{
    const struct job_add_basic_params basic = basic_params(tx, spec, by);
    return (struct job_add_params){
        .now = basic.now,
        .who = basic.who,
        .queue = basic.queue,
        .kind = basic.kind,
        .priority = basic.priority,
        .due_at = basic.due_at,
        .delay_ms = basic.delay_ms,
        .payload = basic.payload,
        .unique_key = db_text(spec->unique_key),
        .subject = db_text(spec->subject),
        .concurrency_key = db_text(spec->concurrency_key),
        .tags = db_text(spec->tags),
        .workspace = db_text(spec->workspace),
        .schedule = db_text(schedule),
        .max_attempts = db_int_or_null(spec->max_attempts),
        .max_crashes = db_int_or_null(spec->max_crashes),
        .backoff_ms = db_int_or_null(spec->backoff_ms),
        .backoff_max_ms = db_int_or_null(spec->backoff_max_ms),
        .lease_ms = db_int_or_null(spec->lease_ms),
        .hook = db_text(spec->hook),
    };
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

struct job_refresh_params add_again_params(struct db_tx *tx, int64_t id,
                                           const struct tend_job_spec *spec, const char *by)
{
    size_t bytes;
    const char *payload = add_payload(spec, &bytes);
    return (struct job_refresh_params){
        .now = db_now(tx),
        .id = db_int(id),
        .kind = db_text(spec->kind != NULL ? spec->kind : ""),
        .priority = db_int(spec->priority),
        .due_at = db_int_or_null(spec->due_at_ms),
        .delay_ms = db_int(spec->delay_ms == TEND_UNSET ? 0 : spec->delay_ms),
        .payload = db_text_n(payload, bytes),
        .concurrency_key = db_text(spec->concurrency_key),
        .tags = db_text(spec->tags),
        .workspace = db_text(spec->workspace),
        .max_attempts = db_int_or_null(spec->max_attempts),
        .max_crashes = db_int_or_null(spec->max_crashes),
        .backoff_ms = db_int_or_null(spec->backoff_ms),
        .backoff_max_ms = db_int_or_null(spec->backoff_max_ms),
        .lease_ms = db_int_or_null(spec->lease_ms),
        .hook = db_text(spec->hook),
        .who = db_text(by),
    };
}

/* What was done for the old payload says nothing about the new one: it begins with its first step.
 */
static int forget_steps(struct db_tx *tx, int64_t id, const struct db_value *old,
                        const struct tend_job_spec *spec)
{
    size_t bytes;
    const char *payload = add_payload(spec, &bytes);
    if (old->bytes == bytes && memcmp(old->text, payload, bytes) == 0)
        return 0;
    return checkpoint_drop(tx, id, 0);
}

/* job_refresh_held has the parameters of job_refresh up to the last, which it does not need. */
_Static_assert(sizeof(struct job_refresh_held_params) == offsetof(struct job_refresh_params, who),
               "the same parameters");

int add_refresh(struct db_tx *tx, int64_t id, enum job_state state, const struct db_value *old,
                const struct tend_job_spec *spec, const char *by)
{
    const struct job_refresh_params params = add_again_params(tx, id, spec, by);
    const struct event_into_chain_params job = {.id = db_int(id)};
    int rc = forget_steps(tx, id, old, spec);
    if (rc < 0 || state != JOB_HELD)
        return rc < 0 ? rc : each_job_refresh(tx, 0, &params, 1, NULL);
    if ((rc = db_each(tx, Q_JOB_REFRESH_HELD, 0, DB_VALUES(&params), 1, NULL)) < 0 ||
        (rc = submission_event(tx, id, by, "job.refreshed", "submitted again under its key")) < 0)
        return rc;
    return each_event_into_chain(tx, 0, &job, 1, NULL);
}

/* CL-7: the key is taken. Another subject is refused; the same is refreshed unless it is running.
 */
static int meet_holder(struct db_tx *tx, const struct tend_job_spec *spec, const char *by,
                       const struct job_by_key_row *holder, struct tend_added *ret)
{
    enum job_state state = (enum job_state)db_num(holder->state);
    ret->id = db_num(holder->id);
    if (!same_text(db_str(holder->subject), spec->subject)) {
        ret->outcome = TEND_ECONFLICT;
        return 0;
    }
    if (state != JOB_RUNNING) {
        ret->outcome = TEND_REFRESHED;
        return add_refresh(tx, ret->id, state, &holder->payload, spec, by);
    }
    ret->outcome = spec->if_running == TEND_IF_RUNNING_KEEP ? TEND_UNCHANGED : TEND_AGAIN;
    return ret->outcome == TEND_UNCHANGED ? 0 : submission_keep(tx, ret->id, spec, by);
}

static int add_with_key(struct db_tx *tx, const struct tend_job_spec *spec, const char *by,
                        const char *schedule, struct tend_added *ret)
{
    struct job_by_key_rows holder;
    const struct job_by_key_params key = {.queue = db_text(queue_of(spec)),
                                          .unique_key = db_text(spec->unique_key)};
    int rc = run_job_by_key(tx, 0, key, &holder);
    if (rc < 0)
        return rc;
    if (holder.count > 0)
        return meet_holder(tx, spec, by, &holder.at[0], ret);
    const struct job_add_params params = add_params(tx, spec, by, schedule);
    ret->outcome = TEND_OK;
    return each_job_add(tx, 0, &params, 1, &ret->id);
}

/* Whether a job has nothing that basic_params leaves out. */
static bool is_basic(const struct tend_job_spec *spec)
{
    return spec->unique_key == NULL && spec->subject == NULL && spec->concurrency_key == NULL &&
           spec->tags == NULL && spec->workspace == NULL && spec->max_attempts == TEND_UNSET &&
           spec->max_crashes == TEND_UNSET && spec->backoff_ms == TEND_UNSET &&
           spec->backoff_max_ms == TEND_UNSET && spec->lease_ms == TEND_UNSET && spec->hook == NULL;
}

static bool all_basic(const struct add_batch *batch)
{
    if (batch->schedule != NULL)
        return false;
    for (size_t i = 0; i < batch->count; i++)
        if (!is_basic(&batch->specs[i]))
            return false;
    return true;
}

static void ring_for(struct db_tx *tx, const struct add_batch *batch)
{
    uint64_t bells = 0;
    for (size_t i = 0; i < batch->count; i++)
        bells |= db_bell_of(queue_of(&batch->specs[i]));
    db_ring(tx, bells);
}

static int add_basic(struct db_tx *tx, const struct add_batch *batch, unsigned how)
{
    struct arena *arena = db_arena(tx);
    struct job_add_basic_params *params = arena_alloc(arena, batch->count * sizeof *params);
    int64_t *ids = arena_alloc(arena, batch->count * sizeof *ids);
    if (params == NULL || ids == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while adding %zu jobs",
                       batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        const struct tend_job_spec *spec = &batch->specs[i];
        params[i] = basic_params(tx, spec, spec->by != NULL ? spec->by : batch->by);
    }
    ring_for(tx, batch);
    int rc = each_job_add_basic(tx, how, params, batch->count, ids);
    for (size_t i = 0; rc >= 0 && i < batch->count; i++)
        batch->ret[i] = (struct tend_added){.id = ids[i], .outcome = TEND_OK};
    return rc;
}

int add_take_keys(struct db_tx *tx, const struct keys_take_params *keys, size_t count)
{
    return count < 2 || !db_concurrent(tx) ? 0 : each_keys_take(tx, DB_LATER, keys, count, NULL);
}

/* keys_lock_jobs has the same parameters as keys_take. */
_Static_assert(sizeof(struct keys_lock_jobs_params) == sizeof(struct keys_take_params),
               "the same parameters");

/* Locks what the keys of a batch stand for, in the order in which all do. */
static int take_keys(struct db_tx *tx, const struct add_batch *batch)
{
    size_t count = 0;
    if (batch->count < 2 || !db_concurrent(tx))
        return 0;
    struct keys_take_params *keys = arena_alloc(db_arena(tx), batch->count * sizeof *keys);
    if (keys == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while adding %zu jobs",
                       batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        const struct tend_job_spec *spec = &batch->specs[i];
        if (spec->unique_key == NULL)
            continue;
        keys[count++] = (struct keys_take_params){.queue = db_text(queue_of(spec)),
                                                  .unique_key = db_text(spec->unique_key)};
    }
    int rc = add_take_keys(tx, keys, count);
    if (rc < 0 || count < 2)
        return rc;
    return db_each(tx, Q_KEYS_LOCK_JOBS, DB_LATER, DB_VALUES(keys), count, NULL);
}

int add_jobs(struct db_tx *tx, const struct add_batch *batch, unsigned how)
{
    if (all_basic(batch))
        return add_basic(tx, batch, how);
    struct arena *arena = db_arena(tx);
    struct job_add_params *params = arena_alloc(arena, batch->count * sizeof *params);
    int64_t *ids = arena_alloc(arena, batch->count * sizeof *ids);
    size_t plain = 0;
    size_t added = 0; /* of the plain ones */
    int rc;
    if (params == NULL || ids == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while adding %zu jobs",
                       batch->count);
    if ((rc = take_keys(tx, batch)) < 0)
        return rc;
    for (size_t i = 0; i < batch->count; i++) {
        const struct tend_job_spec *spec = &batch->specs[i];
        const char *by = spec->by != NULL ? spec->by : batch->by;
        if (spec->unique_key != NULL) {
            /* Those before it go in first: ids follow the order of the batch. */
            if ((rc = each_job_add(tx, 0, &params[added], plain - added, &ids[added])) < 0 ||
                (rc = add_with_key(tx, spec, by, batch->schedule, &batch->ret[i])) < 0)
                return rc;
            added = plain;
        } else {
            params[plain++] = add_params(tx, spec, by, batch->schedule);
        }
    }
    ring_for(tx, batch);
    rc = each_job_add(tx, how, &params[added], plain - added, &ids[added]);
    plain = 0;
    for (size_t i = 0; rc >= 0 && i < batch->count; i++)
        if (batch->specs[i].unique_key == NULL)
            batch->ret[i] = (struct tend_added){.id = ids[plain++], .outcome = TEND_OK};
    return rc;
}

static int add_body(struct db_tx *tx, void *arg)
{
    return add_jobs(tx, arg, DB_LAST);
}

/* The specs with the hook of the handle where they name none; NULL: no memory. */
static struct tend_job_spec *of_hook(const tend *t, const struct tend_job_spec *specs, size_t count)
{
    struct tend_job_spec *marked = calloc(count, sizeof *marked);
    for (size_t i = 0; marked != NULL && i < count; i++) {
        marked[i] = specs[i];
        if (marked[i].hook == NULL)
            marked[i].hook = t->options.hook;
    }
    return marked;
}

int tend_add_many(tend *t, const struct tend_job_spec *specs, size_t count, struct tend_added *ret)
{
    struct add_batch batch = {.specs = specs, .count = count, .by = t->name, .ret = ret};
    struct tend_job_spec *marked = NULL;
    struct tend_spec_fault fault;
    for (size_t i = 0; i < count; i++) {
        int rc = tend_job_spec_check(&specs[i], &fault);
        if (rc < 0)
            return handle_fail(t, rc, "%s", fault.text);
    }
    if (count == 0)
        return 0;
    if (t->options.hook != NULL && (batch.specs = marked = of_hook(t, specs, count)) == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while adding %zu jobs", count);
    int rc = TEND_ECONFLICT;
    /* Two who add the same key at once: the second is refused by the index and then finds the
     * first, unless that has ended by then and a third has the key. Each time somebody got on. */
    for (int tries = 0; tries < KEY_TRIES && rc == TEND_ECONFLICT; tries++)
        rc = handle_write(t, add_body, &batch);
    free(marked);
    return rc != TEND_ECONFLICT
               ? rc
               : handle_fail(t, TEND_EBUSY,
                             "others add and finish jobs with the same key all the time; nothing "
                             "was added, try again");
}

static int say_taken(tend *t, const struct tend_job_spec *spec, int64_t id)
{
    struct tend_jobs *jobs = NULL;
    const char *theirs = tend_get(t, id, &jobs) == 0 ? jobs->items[0].subject : NULL;
    const char *ours = spec->subject;
    handle_fail(
        t, TEND_ECONFLICT,
        "key '%s' of queue '%s' is taken by job %lld for another subject (%s%.100s%s there, "
        "%s%.100s%s here); wait until it has finished or cancel it",
        spec->unique_key, queue_of(spec), (long long)id, theirs ? "'" : "",
        theirs ? theirs : "none", theirs ? "'" : "", ours ? "'" : "", ours ? ours : "none",
        ours ? "'" : "");
    tend_jobs_free(jobs);
    return TEND_ECONFLICT;
}

int tend_add(tend *t, const struct tend_job_spec *spec, struct tend_added *ret)
{
    int rc = tend_add_many(t, spec, 1, ret);
    return rc == 0 && ret->outcome == TEND_ECONFLICT ? say_taken(t, spec, ret->id) : rc;
}
