/*
 * An ending calls its hooks: each adds a job, whose plan is the hook's with what has happened in
 * its environment (TEND_NOTIFY_…) and, as JSON, in its member "notify".
 *
 * Lock order (store/pg_order.c): the job that ends is locked already, and what is added meets
 * nobody.
 */
#include "queue/hook.h"

#include "base/text.h"
#include "base/timetext.h"
#include "core/spec.h"
#include "core/state.h"
#include "queue/add.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Of the error: a variable has to fit into an environment, and 'tend show' has all of it. */
enum { TEXT_MOST_BYTES = 4096 };

/* The columns of hook_of_job. */
enum {
    HOOK_NAME,
    HOOK_ON_WHAT,
    HOOK_INTO,
    HOOK_PAYLOAD,
    HOOK_WORKSPACE,
    JOB_QUEUE,
    JOB_KIND,
    JOB_STATE,
    JOB_ATTEMPTS,
    JOB_CRASHES,
    JOB_ERROR_CLASS,
    JOB_ERROR_TEXT,
    JOB_CHANGED_AT,
};

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
static bool tell(struct arena *arena, json_t *notify, json_t *env, const struct db_result *rows,
                 size_t row, struct tend_lease lease, unsigned what)
{
    char at[TIME_TEXT_BYTES];
    const char *ending =
        arena_printf(arena, "%lld:%lld", (long long)lease.id, (long long)lease.token);
    const char *text = cut_text(arena, db_string(rows, row, JOB_ERROR_TEXT));
    const char *class = db_string(rows, row, JOB_ERROR_CLASS);
    return ending != NULL && text != NULL &&
           tell_text(notify, env, "on", "TEND_NOTIFY_ON", word_of(what)) &&
           tell_number(notify, env, "job", "TEND_NOTIFY_JOB", lease.id) &&
           tell_text(notify, env, "ending", "TEND_NOTIFY_ENDING", ending) &&
           tell_text(notify, env, "queue", "TEND_NOTIFY_QUEUE", db_string(rows, row, JOB_QUEUE)) &&
           tell_text(notify, env, "kind", "TEND_NOTIFY_KIND", db_string(rows, row, JOB_KIND)) &&
           tell_text(notify, env, "state", "TEND_NOTIFY_STATE",
                     state_name((enum job_state)db_number(rows, row, JOB_STATE))) &&
           tell_text(notify, env, "class", "TEND_NOTIFY_CLASS", class != NULL ? class : "") &&
           tell_text(notify, env, "text", "TEND_NOTIFY_TEXT", text) &&
           tell_number(notify, env, "attempts", "TEND_NOTIFY_ATTEMPTS",
                       db_number(rows, row, JOB_ATTEMPTS)) &&
           tell_number(notify, env, "crashes", "TEND_NOTIFY_CRASHES",
                       db_number(rows, row, JOB_CRASHES)) &&
           tell_text(notify, env, "at", "TEND_NOTIFY_AT",
                     time_text(db_number(rows, row, JOB_CHANGED_AT), at));
}

/* The hook's plan with what has happened in it; NULL: no memory. */
static const char *make_payload(struct arena *arena, const struct db_result *rows, size_t row,
                                struct tend_lease lease, unsigned what)
{
    const struct db_value *given = db_at(rows, row, HOOK_PAYLOAD);
    json_t *plan = json_loadb(given->text, given->bytes, 0, NULL);
    json_t *env = json_object_get(plan, "env");
    json_t *notify = json_object();
    const char *payload = NULL;
    env = env != NULL ? json_incref(env) : json_object();
    if (tell(arena, notify, env, rows, row, lease, what) &&
        json_object_set(plan, "env", env) == 0 && json_object_set(plan, "notify", notify) == 0) {
        char *text = json_dumps(plan, JSON_COMPACT);
        payload = text == NULL ? NULL : arena_strdup(arena, text);
        free(text);
    }
    json_decref(notify);
    json_decref(env);
    json_decref(plan);
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

/* As 'tend add' does, so that workers can tell kinds apart; "" if somebody has broken the plan. */
static const char *kind_of(struct arena *arena, const char *payload)
{
    struct job_plan plan;
    return spec_parse(payload, strlen(payload), arena, &plan, NULL) == SPEC_PLAN
               ? spec_job_kind(&plan)
               : "";
}

static int add_job(struct db_tx *tx, const struct db_result *rows, size_t row,
                   struct tend_lease lease, unsigned what)
{
    struct arena *arena = db_arena(tx);
    const char *name = db_string(rows, row, HOOK_NAME);
    struct tend_added added = {0};
    struct tend_job_spec spec;
    tend_job_spec_init(&spec);
    spec.queue = db_string(rows, row, HOOK_INTO);
    spec.workspace = db_string(rows, row, HOOK_WORKSPACE);
    spec.payload = make_payload(arena, rows, row, lease, what);
    spec.tags = make_tags(arena, name);
    spec.by = arena_printf(arena, "hook:%s", name);
    if (spec.payload == NULL || spec.tags == NULL || spec.by == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while calling hook '%s'", name);
    spec.kind = kind_of(arena, spec.payload);
    const struct add_batch batch = {.specs = &spec, .count = 1, .by = spec.by, .ret = &added};
    int rc = add_jobs(tx, &batch, 0);
    if (rc < 0)
        return rc;
    const struct db_value mark[] = {db_int(added.id), db_text(name)};
    return db_each(tx, Q_HOOK_MARK, DB_LATER, mark, 1, NULL);
}

int hook_call(struct db_tx *tx, struct tend_lease lease, unsigned what)
{
    struct db_result rows;
    const struct db_value params[] = {db_int(lease.id)};
    int rc = db_run(tx, Q_HOOK_OF_JOB, 0, params, &rows);
    for (size_t i = 0; rc >= 0 && i < rows.rows; i++)
        if ((hook_read_words(db_string(&rows, i, HOOK_ON_WHAT)) & what) != 0)
            rc = add_job(tx, &rows, i, lease, what);
    return rc < 0 ? rc : 0;
}
