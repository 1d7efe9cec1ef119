/*
 * An ending calls its hooks: each adds a job, whose plan is the hook's with what has happened in
 * its environment (TEND_NOTIFY_…) and, as JSON, in its member "notify".
 *
 * Endings come in sets (queue/recover.c), and cost the same few statements however many they are:
 * the hooks and the jobs are read, and all jobs of hooks are added together.
 *
 * Lock order (store/pg_order.c): the jobs that end are locked already, and what is added meets
 * nobody.
 */
#include "queue/hook.h"

#include "base/buf.h"
#include "base/text.h"
#include "base/timetext.h"
#include "core/spec.h"
#include "core/state.h"
#include "queue/add.h"
#include "queue/event.h"
#include "store/queries.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Of the error: a variable has to fit into an environment, and 'tend show' has all of it. */
enum { TEXT_MOST_BYTES = 4096 };

/* A hook, made ready for the jobs it adds. */
struct called_hook {
    const char *name, *for_queue, *queue, *workspace;
    unsigned on;
    const char *kind, *tags, *by; /* of its jobs */
    json_t *plan, *env;    /* the plan as it was set, and what it puts into the environment */
    const char *broken;    /* why it cannot be used; NULL: it can */
    size_t skipped;        /* endings it could not be called for ... */
    int64_t first_skipped; /* ... and the job of the first */
};

struct hook_calls {
    struct db_tx *tx;
    struct hook_endings_rows jobs;
    struct called_hook *hooks;
    size_t hook_count;
    struct tend_job_spec *specs; /* of the jobs that are to be added */
    size_t spec_count;
};

static int no_memory(struct db_tx *tx)
{
    return err_set(db_err(tx), TEND_ENOMEM, "out of memory while calling hooks");
}

/* One word for an ending that may be several: the narrowest. */
static const char *word_of(unsigned what)
{
    return (what & HOOK_POISON) != 0   ? "poison"
           : (what & HOOK_FAILED) != 0 ? "failed"
                                       : "exhausted";
}

/* A member of "notify", and the variable of that name; false: no memory. */
static bool tell_text(json_t *notify, json_t *env, const char *name, const char *variable,
                      const char *text)
{
    return json_object_set_new(notify, name, json_string(text)) == 0 &&
           json_object_set_new(env, variable, json_string(text)) == 0;
}

static bool tell_number(json_t *notify, json_t *env, const char *name, const char *variable,
                        int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return json_object_set_new(notify, name, json_integer(number)) == 0 &&
           json_object_set_new(env, variable, json_string(text)) == 0;
}

static const char *cut_text(struct arena *arena, const char *text)
{
    size_t len = text == NULL ? 0 : strlen(text);
    return len <= TEXT_MOST_BYTES
               ? (text != NULL ? text : "")
               : arena_printf(arena, "%.*s…", (int)utf8_floor(text, len, TEXT_MOST_BYTES), text);
}

/* What has happened, into both; false: no memory. */
static bool tell(struct arena *arena, json_t *notify, json_t *env,
                 const struct hook_endings_row *job, const struct hook_ending *ending)
{
    char at[TIME_TEXT_BYTES];
    const char *name = arena_printf(arena, "%lld:%lld", (long long)ending->lease.id,
                                    (long long)ending->lease.token);
    const char *text = cut_text(arena, db_str(job->error_text));
    const char *class = db_str(job->error_class);
    return name != NULL && text != NULL &&
           tell_text(notify, env, "on", "TEND_NOTIFY_ON", word_of(ending->what)) &&
           tell_number(notify, env, "job", "TEND_NOTIFY_JOB", ending->lease.id) &&
           tell_text(notify, env, "ending", "TEND_NOTIFY_ENDING", name) &&
           tell_text(notify, env, "queue", "TEND_NOTIFY_QUEUE", db_str(job->queue)) &&
           tell_text(notify, env, "kind", "TEND_NOTIFY_KIND", db_str(job->kind)) &&
           tell_text(notify, env, "state", "TEND_NOTIFY_STATE",
                     state_name((enum job_state)db_num(job->state))) &&
           tell_text(notify, env, "class", "TEND_NOTIFY_CLASS", class != NULL ? class : "") &&
           tell_text(notify, env, "text", "TEND_NOTIFY_TEXT", text) &&
           tell_number(notify, env, "attempts", "TEND_NOTIFY_ATTEMPTS", db_num(job->attempts)) &&
           tell_number(notify, env, "crashes", "TEND_NOTIFY_CRASHES", db_num(job->crashes)) &&
           tell_text(notify, env, "at", "TEND_NOTIFY_AT", time_text(db_num(job->changed_at), at));
}

/* The hook's plan with what has happened in it; NULL: no memory. */
static const char *make_payload(struct hook_calls *calls, const struct called_hook *hook,
                                const struct hook_endings_row *job,
                                const struct hook_ending *ending)
{
    struct arena *arena = db_arena(calls->tx);
    json_t *env = hook->env != NULL ? json_copy(hook->env) : json_object();
    json_t *notify = json_object();
    const char *payload = NULL;
    if (tell(arena, notify, env, job, ending) && json_object_set(hook->plan, "env", env) == 0 &&
        json_object_set(hook->plan, "notify", notify) == 0) {
        char *text = json_dumps(hook->plan, JSON_COMPACT);
        payload = text == NULL ? NULL : arena_strdup(arena, text);
        free(text);
    }
    json_decref(notify);
    json_decref(env);
    return payload;
}

static const char *make_tags(struct arena *arena, const char *name)
{
    json_t *tags = json_pack("[s+]", "notify:", name);
    char *text = tags == NULL ? NULL : json_dumps(tags, JSON_COMPACT);
    const char *kept = text == NULL ? NULL : arena_strdup(arena, text);
    free(text);
    json_decref(tags);
    return kept;
}

/* --- the hooks --- */

/* Why a hook cannot be used is kept in it. TEND_ENOMEM is the only failure. */
static int check_hook(struct db_tx *tx, struct called_hook *hook, const struct hook_list_row *row)
{
    const struct tend_hook stored = {.name = hook->name,
                                     .on = db_str(row->on_what),
                                     .for_queue = hook->for_queue,
                                     .queue = hook->queue,
                                     .payload = db_str(row->payload),
                                     .workspace = hook->workspace};
    struct err err = {0};
    int rc = hook_check(&stored, &err);
    if (rc == 0 || rc == TEND_ENOMEM)
        return rc;
    hook->broken = arena_strdup(db_arena(tx), err.text);
    return hook->broken == NULL ? TEND_ENOMEM : 0;
}

/* The plan was checked. The kind is as 'tend add' makes it, so that workers can tell kinds apart.
 */
static int read_plan(struct db_tx *tx, struct called_hook *hook, const struct db_value *payload)
{
    struct arena *arena = db_arena(tx);
    struct job_plan plan;
    hook->plan = json_loadb(payload->text, payload->bytes, 0, NULL);
    hook->env = json_incref(json_object_get(hook->plan, "env"));
    hook->tags = make_tags(arena, hook->name);
    hook->by = arena_printf(arena, "hook:%s", hook->name);
    if (hook->plan == NULL || hook->tags == NULL || hook->by == NULL)
        return TEND_ENOMEM;
    hook->kind = spec_parse(payload->text, payload->bytes, arena, &plan, NULL) == SPEC_PLAN
                     ? spec_job_kind(&plan)
                     : "";
    return 0;
}

static int read_hooks(struct hook_calls *calls, const struct hook_list_rows *rows)
{
    struct db_tx *tx = calls->tx;
    calls->hooks = arena_zalloc(db_arena(tx), (rows->count + 1) * sizeof *calls->hooks);
    if (calls->hooks == NULL)
        return no_memory(tx);
    for (size_t i = 0; i < rows->count; i++) {
        const struct hook_list_row *row = &rows->at[i];
        struct called_hook *hook = &calls->hooks[calls->hook_count++];
        *hook = (struct called_hook){.name = db_str(row->name),
                                     .for_queue = db_str(row->for_queue),
                                     .queue = db_str(row->queue),
                                     .workspace = db_str(row->workspace),
                                     .on = hook_read_words(db_str(row->on_what))};
        int rc = check_hook(tx, hook, row);
        if (rc == 0 && hook->broken == NULL)
            rc = read_plan(tx, hook, &row->payload);
        if (rc < 0)
            return no_memory(tx);
    }
    return 0;
}

static void free_hooks(struct hook_calls *calls)
{
    for (size_t i = 0; i < calls->hook_count; i++) {
        json_decref(calls->hooks[i].env);
        json_decref(calls->hooks[i].plan);
    }
}

/* --- the endings --- */

/* Words that nobody can read may stand for any ending. */
static bool listens(const struct called_hook *hook, const char *queue, unsigned what)
{
    return (hook->for_queue == NULL || strcmp(hook->for_queue, queue) == 0) &&
           (hook->on == 0 || (hook->on & what) != 0);
}

static int call_one(struct hook_calls *calls, struct called_hook *hook,
                    const struct hook_endings_row *job, const struct hook_ending *ending)
{
    if (hook->broken != NULL) {
        if (hook->skipped++ == 0)
            hook->first_skipped = ending->lease.id;
        return 0;
    }
    struct tend_job_spec *spec = &calls->specs[calls->spec_count];
    tend_job_spec_init(spec);
    spec->queue = hook->queue;
    spec->workspace = hook->workspace;
    spec->payload = make_payload(calls, hook, job, ending);
    spec->kind = hook->kind;
    spec->tags = hook->tags;
    spec->by = hook->by;
    spec->hook = hook->name;
    if (spec->payload == NULL)
        return no_memory(calls->tx);
    calls->spec_count++;
    return 0;
}

/* Rows come by id; endings are few, or mostly in that order. */
static const struct hook_ending *ending_of(const struct hook_ending *endings, size_t count,
                                           int64_t id, size_t *hint)
{
    for (size_t tries = 0; tries < count; tries++, *hint = (*hint + 1) % count)
        if (endings[*hint].lease.id == id)
            return &endings[*hint];
    return NULL;
}

static int call_all(struct hook_calls *calls, const struct hook_ending *endings, size_t count)
{
    size_t most = calls->jobs.count * calls->hook_count;
    size_t hint = 0;
    calls->specs = arena_alloc(db_arena(calls->tx), (most + 1) * sizeof *calls->specs);
    if (calls->specs == NULL)
        return no_memory(calls->tx);
    for (size_t row = 0; row < calls->jobs.count; row++) {
        const struct hook_endings_row *job = &calls->jobs.at[row];
        const struct hook_ending *ending = ending_of(endings, count, db_num(job->id), &hint);
        for (size_t i = 0; ending != NULL && i < calls->hook_count; i++) {
            struct called_hook *hook = &calls->hooks[i];
            int rc = listens(hook, db_str(job->queue), ending->what)
                         ? call_one(calls, hook, job, ending)
                         : 0;
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* One event for each hook that could not be called. */
static int tell_skipped(struct hook_calls *calls)
{
    struct arena *arena = db_arena(calls->tx);
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < calls->hook_count; i++) {
        const struct called_hook *hook = &calls->hooks[i];
        if (hook->skipped == 0)
            continue;
        const char *more =
            hook->skipped == 1 ? "" : arena_printf(arena, " and %zu more", hook->skipped - 1);
        struct event_note event = {.who = "tend", .what = "hook.skipped", .queue = hook->for_queue};
        event.why =
            arena_printf(arena, "hook '%s' cannot be used and was not called for job %lld%s: %s",
                         hook->name, (long long)hook->first_skipped, more, hook->broken);
        event.data = arena_printf(arena, "{\"job\":%lld,\"skipped\":%zu}",
                                  (long long)hook->first_skipped, hook->skipped);
        rc = event.why == NULL || event.data == NULL || more == NULL
                 ? no_memory(calls->tx)
                 : event_add(calls->tx, &event, DB_LATER);
    }
    return rc;
}

static int add_all(struct hook_calls *calls)
{
    struct tend_added *added =
        arena_alloc(db_arena(calls->tx), (calls->spec_count + 1) * sizeof *added);
    const struct add_batch batch = {
        .specs = calls->specs, .count = calls->spec_count, .ret = added};
    if (added == NULL)
        return no_memory(calls->tx);
    int rc = tell_skipped(calls);
    return rc < 0 || batch.count == 0 ? rc : add_jobs(calls->tx, &batch, 0);
}

/* The ids as a JSON array; NULL: no memory. */
static const char *ids_of(struct arena *arena, const struct hook_ending *endings, size_t count)
{
    struct buf text;
    buf_init(&text);
    for (size_t i = 0; i < count; i++) {
        buf_putc(&text, i == 0 ? '[' : ',');
        buf_int(&text, endings[i].lease.id);
    }
    buf_putc(&text, ']');
    const char *ids = text.failed ? NULL : arena_strndup(arena, text.data, text.len);
    buf_done(&text);
    return ids;
}

int hook_call(struct db_tx *tx, const struct hook_ending *endings, size_t count)
{
    struct hook_calls calls = {.tx = tx};
    struct hook_list_rows hooks;
    const char *ids = ids_of(db_arena(tx), endings, count);
    const struct hook_endings_params params = {.ids = db_text(ids)};
    int rc = ids == NULL ? no_memory(tx) : run_hook_list(tx, DB_LATER, &hooks);
    if (rc < 0 || (rc = run_hook_endings(tx, 0, params, &calls.jobs)) < 0 || calls.jobs.count == 0)
        return rc;
    if ((rc = read_hooks(&calls, &hooks)) == 0 && (rc = call_all(&calls, endings, count)) == 0)
        rc = add_all(&calls);
    free_hooks(&calls);
    return rc < 0 ? rc : 0;
}
