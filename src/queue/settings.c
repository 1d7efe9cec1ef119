#include "queue/settings.h"

#include "base/rate.h"
#include "base/text.h"
#include "base/timetext.h"
#include "core/budget.h"
#include "core/heal.h"
#include "core/policy.h"
#include "queue/event.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (24LL * 3600 * 1000)
#define LEASE_DEFAULT_MS 60000
#define KEEP_DONE_DEFAULT_MS (7 * DAY_MS)
#define KEEP_WORKSPACE_DEFAULT_MS DAY_MS

enum setting_form { FORM_ON_OFF, FORM_TEXT, FORM_COUNT, FORM_DURATION, FORM_RATE, FORM_CLASSES };

struct setting_row {
    enum setting_form form;
    size_t offset;     /* into struct tend_queue */
    int64_t low, high; /* range; milliseconds for durations */
    int64_t none;      /* what "none" is stored as; NO_NONE: it is no value */
};

#define NO_NONE INT64_MAX
#define FOR_EVER (-1)
#define AT(field) offsetof(struct tend_queue, field)

/* The two tables go together row by row. */
static const struct tend_setting_info infos[] = {
    {"paused", "on|off", "hand out no jobs"},
    {"why", "TEXT", "why it is paused; goes with paused"},
    {"serial", "on|off", "one job at a time, under the lock queue:NAME"},
    {"concurrency", "N|none", "jobs running at once, over all workers"},
    {"key-concurrency", "N|none", "jobs running at once with the same concurrency key"},
    {"rate", "N/DURATION|none",
     "jobs handed out per time, e.g. 20/60s: N at once after a rest, then evenly; up to 2N within the first "
     "DURATION"},
    {"rate-strict", "on|off", "never more than N in any stretch of that time"},
    {"lease", "DURATION", "how long a lease lasts without a heartbeat: 100ms to 366d, default 60s"},
    {"max-attempts", "N", "attempts before a job has failed, default 3"},
    {"max-crashes", "N", "lost workers before a job is quarantined, default 3"},
    {"backoff", "DURATION",
     "wait after the first failure, 20 % more or less by chance, doubling, default 15s"},
    {"backoff-max", "DURATION", "longest wait between attempts, default 10m"},
    {"keep-done", "DURATION|none", "how long done and cancelled jobs are kept, default 7d"},
    {"keep-failed", "DURATION|none", "how long failed jobs are kept, default none: for ever"},
    {"step-max-attempts", "N", "attempts of a step, default 3"},
    {"step-timeout", "DURATION|none", "longest time for an attempt of a step, default 15m"},
    {"step-idle-timeout", "DURATION|none", "longest time without output, default 5m"},
    {"step-no-progress-limit", "N",
     "how many attempts in a row may repeat the failure before them until the step counts as stuck, default 2"},
    {"job-self-heal-max-resets", "N", "fresh workspaces for a job, default 1"},
    {"step-grace", "DURATION", "time to end between TERM and KILL, default 10s"},
    {"step-pause", "DURATION",
     "wait before the second attempt of a step that failed for a transient reason, doubling, default 1s"},
    {"step-pause-max", "DURATION", "longest wait between attempts of a step, default 30s"},
    {"retry-classes", "CLASS,...|none",
     "failure classes that the queue tries again when a step has given up, default "
     "transient_runtime,stuck_no_progress"},
    {"keep-workspace", "DURATION|none",
     "how long the workspace of a failed job is kept, default 1d; none: for ever"},
};

static const struct setting_row table[] = {
    {FORM_ON_OFF, AT(paused), 0, 1, NO_NONE},
    {FORM_TEXT, AT(paused_why), 0, 255, NO_NONE},
    {FORM_ON_OFF, AT(serial), 0, 1, NO_NONE},
    {FORM_COUNT, AT(concurrency), 1, 1000000, TEND_UNSET},
    {FORM_COUNT, AT(key_concurrency), 1, 1000000, TEND_UNSET},
    {FORM_RATE, AT(rate_count), 1, RATE_COUNT_MAX, TEND_UNSET},
    {FORM_ON_OFF, AT(rate_strict), 0, 1, NO_NONE},
    {FORM_DURATION, AT(lease_ms), LEASE_LEAST_MS, LEASE_MOST_MS, NO_NONE},
    {FORM_COUNT, AT(max_attempts), 1, 1000000, NO_NONE},
    {FORM_COUNT, AT(max_crashes), 1, 1000000, NO_NONE},
    {FORM_DURATION, AT(backoff_ms), 0, 30 * DAY_MS, NO_NONE},
    {FORM_DURATION, AT(backoff_max_ms), 0, 366 * DAY_MS, NO_NONE},
    {FORM_DURATION, AT(keep_done_ms), 0, 36600 * DAY_MS, FOR_EVER},
    {FORM_DURATION, AT(keep_failed_ms), 0, 36600 * DAY_MS, FOR_EVER},
    {FORM_COUNT, AT(step_max_attempts), 1, BUDGET_ATTEMPTS_MOST, NO_NONE},
    {FORM_DURATION, AT(step_timeout_ms), 0, BUDGET_TIMEOUT_MOST_MS, 0},
    {FORM_DURATION, AT(step_idle_timeout_ms), 0, BUDGET_TIMEOUT_MOST_MS, 0},
    {FORM_COUNT, AT(step_no_progress_limit), 1, BUDGET_ATTEMPTS_MOST, NO_NONE},
    {FORM_COUNT, AT(job_self_heal_max_resets), 0, BUDGET_RESETS_MOST, NO_NONE},
    {FORM_DURATION, AT(step_grace_ms), 0, BUDGET_GRACE_MOST_MS, NO_NONE},
    {FORM_DURATION, AT(step_pause_ms), 0, BUDGET_PAUSE_MOST_MS, NO_NONE},
    {FORM_DURATION, AT(step_pause_max_ms), 0, BUDGET_PAUSE_MOST_MS, NO_NONE},
    {FORM_CLASSES, AT(retry_classes), 0, 0, 0},
    {FORM_DURATION, AT(keep_workspace_ms), 0, 36600 * DAY_MS, FOR_EVER},
};

enum { TABLE_ROWS = sizeof table / sizeof *table };
_Static_assert(TABLE_ROWS == sizeof infos / sizeof *infos, "the tables go together");

const struct tend_setting_info *tend_setting_table(size_t *ret_count)
{
    *ret_count = TABLE_ROWS;
    return infos;
}

/* --- reading --- */

/* As stored: TEND_UNSET where nothing is set, FOR_EVER where it was set to "none". */
static void read_stored(struct queue_settings *settings, const struct queue_columns *row)
{
    const char *why = db_str(row->paused_why);
    const char *slots = db_str(row->rate_slots);
    const char *classes = db_str(row->retry_classes);
    *settings = (struct queue_settings){
        .queue = {.exists = 1,
                  .paused = (int)db_num(row->paused),
                  .serial = (int)db_num(row->serial),
                  .concurrency = db_num(row->concurrency),
                  .key_concurrency = db_num(row->key_concurrency),
                  .rate_count = db_num(row->rate_count),
                  .rate_period_ms = db_num(row->rate_period_ms),
                  .lease_ms = db_num(row->lease_ms),
                  .max_attempts = db_num(row->max_attempts),
                  .max_crashes = db_num(row->max_crashes),
                  .backoff_ms = db_num(row->backoff_ms),
                  .backoff_max_ms = db_num(row->backoff_max_ms),
                  .keep_done_ms = db_num(row->keep_done_ms),
                  .keep_failed_ms = db_num(row->keep_failed_ms),
                  .version = db_num(row->version),
                  .step_max_attempts = db_num(row->step_max_attempts),
                  .step_timeout_ms = db_num(row->step_timeout_ms),
                  .step_idle_timeout_ms = db_num(row->step_idle_timeout_ms),
                  .step_no_progress_limit = db_num(row->step_no_progress_limit),
                  .job_self_heal_max_resets = db_num(row->job_self_heal_max_resets),
                  .step_grace_ms = db_num(row->step_grace_ms),
                  .rate_strict = (int)db_num(row->rate_strict),
                  .step_pause_ms = db_num(row->step_pause_ms),
                  .step_pause_max_ms = db_num(row->step_pause_max_ms),
                  .keep_workspace_ms = db_num(row->keep_workspace_ms)},
        .rate_level = db_num(row->rate_level),
        .rate_at = db_num(row->rate_at),
    };
    snprintf(settings->queue.name, sizeof settings->queue.name, "%s", db_str(row->name));
    snprintf(settings->queue.paused_why, sizeof settings->queue.paused_why, "%s",
             why != NULL ? why : "");
    snprintf(settings->rate_slots, sizeof settings->rate_slots, "%s", slots != NULL ? slots : "");
    snprintf(settings->queue.retry_classes, sizeof settings->queue.retry_classes, "%s",
             classes != NULL ? classes : "");
}

static void stored_default(struct queue_settings *settings, const char *name)
{
    *settings = (struct queue_settings){
        .queue = {.concurrency = TEND_UNSET,
                  .key_concurrency = TEND_UNSET,
                  .rate_count = TEND_UNSET,
                  .rate_period_ms = TEND_UNSET,
                  .lease_ms = TEND_UNSET,
                  .max_attempts = TEND_UNSET,
                  .max_crashes = TEND_UNSET,
                  .backoff_ms = TEND_UNSET,
                  .backoff_max_ms = TEND_UNSET,
                  .keep_done_ms = TEND_UNSET,
                  .keep_failed_ms = TEND_UNSET,
                  .step_max_attempts = TEND_UNSET,
                  .step_timeout_ms = TEND_UNSET,
                  .step_idle_timeout_ms = TEND_UNSET,
                  .step_no_progress_limit = TEND_UNSET,
                  .job_self_heal_max_resets = TEND_UNSET,
                  .step_grace_ms = TEND_UNSET,
                  .step_pause_ms = TEND_UNSET,
                  .step_pause_max_ms = TEND_UNSET,
                  .keep_workspace_ms = TEND_UNSET},
        .rate_level = TEND_UNSET,
        .rate_at = TEND_UNSET,
    };
    snprintf(settings->queue.name, sizeof settings->queue.name, "%s", name);
}

static void fill(int64_t *value, int64_t otherwise)
{
    if (*value == TEND_UNSET)
        *value = otherwise;
    else if (*value == FOR_EVER)
        *value = TEND_UNSET;
}

static void fill_defaults(struct tend_queue *queue)
{
    struct retry_policy policy = policy_default();
    fill(&queue->lease_ms, LEASE_DEFAULT_MS);
    fill(&queue->max_attempts, policy.max_attempts);
    fill(&queue->max_crashes, policy.max_crashes);
    fill(&queue->backoff_ms, policy.backoff_ms);
    fill(&queue->backoff_max_ms, policy.backoff_max_ms);
    fill(&queue->keep_done_ms, KEEP_DONE_DEFAULT_MS);
    fill(&queue->keep_failed_ms, TEND_UNSET);
    fill(&queue->keep_workspace_ms, KEEP_WORKSPACE_DEFAULT_MS);
    if (queue->retry_classes[0] == '\0')
        snprintf(queue->retry_classes, sizeof queue->retry_classes, RETRY_CLASSES_DEFAULT);
}

void settings_read(struct queue_settings *settings, const struct queue_columns *row)
{
    read_stored(settings, row);
    fill_defaults(&settings->queue);
}

void settings_default(struct queue_settings *settings, const char *name)
{
    stored_default(settings, name);
    fill_defaults(&settings->queue);
}

/* queue_get and queue_lock have the same parameters and columns. */
int settings_load(struct db_tx *tx, const char *name, bool lock, struct queue_settings *ret)
{
    struct queue_get_rows rows;
    const struct queue_get_params params = {.name = db_text(name)};
    _Static_assert(sizeof params == sizeof(struct queue_lock_params) &&
                       sizeof *rows.at == sizeof(struct queue_lock_row),
                   "one takes the place of the other");
    int rc = db_run(tx, lock ? Q_QUEUE_LOCK : Q_QUEUE_GET, 0, DB_VALUES(&params), &rows.result);
    if (rc < 0)
        return rc;
    if (rows.count > 0)
        settings_read(ret, &rows.at[0].queue);
    else
        settings_default(ret, name);
    return 0;
}

struct limit settings_limit(const struct queue_settings *settings, int64_t now_ms)
{
    const struct tend_queue *queue = &settings->queue;
    struct limit limit;
    if (queue->rate_strict) {
        limit_init_strict(&limit, queue->rate_count, queue->rate_period_ms, now_ms);
        if (!limit_slots_parse(&limit, settings->rate_slots))
            limit_init_strict(&limit, queue->rate_count, queue->rate_period_ms, now_ms);
        return limit;
    }
    limit_init(&limit, queue->rate_count, queue->rate_period_ms, now_ms);
    if (settings->rate_level != TEND_UNSET) {
        limit.level_micro = settings->rate_level;
        limit.at_ms = settings->rate_at;
    }
    return limit;
}

void settings_set_limit(struct queue_settings *settings, const struct limit *limit)
{
    settings->rate_level = limit->strict ? TEND_UNSET : limit->level_micro;
    settings->rate_at = limit->strict ? TEND_UNSET : limit->at_ms;
    settings->rate_slots[0] = '\0';
    if (limit->strict)
        limit_slots_text(limit, settings->rate_slots);
}

bool settings_are_plain(const struct queue_settings *settings)
{
    const struct tend_queue *queue = &settings->queue;
    return !queue->paused && !queue->serial && queue->concurrency == TEND_UNSET &&
           queue->key_concurrency == TEND_UNSET && queue->rate_count == TEND_UNSET;
}

bool settings_cached(tend *t, const char *name, struct queue_settings *ret)
{
    bool found = false;
    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < SETTINGS_CACHED && !found; i++) {
        if (strcmp(t->cached[i].queue.name, name) != 0)
            continue;
        *ret = t->cached[i];
        found = true;
    }
    pthread_mutex_unlock(&t->mutex);
    return found;
}

void settings_remember(tend *t, const struct queue_settings *settings)
{
    pthread_mutex_lock(&t->mutex);
    size_t slot = SETTINGS_CACHED;
    for (size_t i = 0; i < SETTINGS_CACHED; i++)
        if (strcmp(t->cached[i].queue.name, settings->queue.name) == 0)
            slot = i;
    if (slot == SETTINGS_CACHED)
        slot = t->cached_next++ % SETTINGS_CACHED;
    else
        t->settings_changes += t->cached[slot].queue.version != settings->queue.version;
    t->cached[slot] = *settings;
    pthread_mutex_unlock(&t->mutex);
}

/* --- setting --- */

static const char *range_text(const struct setting_row *row, char *out, size_t size)
{
    char span[DURATION_RANGE_BYTES];
    switch (row->form) {
    case FORM_ON_OFF:
        snprintf(out, size, "on or off");
        break;
    case FORM_TEXT:
        snprintf(out, size, "up to %lld bytes of UTF-8 text", (long long)row->high);
        break;
    case FORM_RATE:
        snprintf(out, size, "a number from %lld to %lld per time, such as 20/60s, or none",
                 (long long)row->low, (long long)row->high);
        break;
    case FORM_COUNT:
        snprintf(out, size, "a number from %lld to %lld%s", (long long)row->low,
                 (long long)row->high, row->none == NO_NONE ? "" : ", or none");
        break;
    case FORM_CLASSES:
        snprintf(out, size, "failure classes with commas between them, such as %s, or none",
                 RETRY_CLASSES_DEFAULT);
        break;
    case FORM_DURATION:
        snprintf(out, size, "%s%s", duration_range_text(row->low, row->high, span),
                 row->none == NO_NONE ? "" : ", or none");
        break;
    }
    return out;
}

static bool parse_count(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *ret = number;
    return errno == 0 && end != text && *end == '\0';
}

static bool parse_number(const struct setting_row *row, const char *value, int64_t *ret)
{
    struct err ignored;
    bool parsed = row->form == FORM_DURATION ? duration_parse(value, ret, &ignored) == 0
                                             : parse_count(value, ret);
    return parsed && *ret >= row->low && *ret <= row->high;
}

/* Applies one setting; false when its value is no good. */
static bool apply(struct tend_queue *queue, const struct setting_row *row, const char *value)
{
    char *field = (char *)queue + row->offset;
    struct err ignored;
    bool take_back = strcmp(value, "default") == 0;
    bool none = strcmp(value, "none") == 0 && row->none != NO_NONE;
    if (row->form == FORM_ON_OFF) {
        bool on = strcmp(value, "on") == 0;
        *(int *)(void *)field = on;
        return on || take_back || strcmp(value, "off") == 0;
    }
    if (row->form == FORM_TEXT) {
        snprintf(field, sizeof queue->paused_why, "%s", take_back ? "" : value);
        return strlen(value) <= (size_t)row->high && utf8_valid(value, strlen(value));
    }
    if (row->form == FORM_CLASSES) {
        unsigned classes;
        size_t size = sizeof queue->retry_classes;
        bool known = take_back || (strlen(value) < size && retry_classes_parse(value, &classes));
        if (known)
            snprintf(field, size, "%s", take_back ? "" : value);
        return known;
    }
    int64_t *number = (int64_t *)(void *)field;
    if (take_back || none) {
        *number = take_back ? TEND_UNSET : row->none;
        if (row->form == FORM_RATE)
            queue->rate_period_ms = TEND_UNSET;
        return true;
    }
    if (row->form == FORM_RATE)
        return rate_parse(value, number, &queue->rate_period_ms, &ignored) == 0;
    return parse_number(row, value, number);
}

static int apply_all(struct tend_queue *queue, const struct tend_setting *settings, size_t count,
                     struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        char range[192];
        size_t row = 0;
        while (row < TABLE_ROWS && strcmp(infos[row].name, settings[i].name) != 0)
            row++;
        if (row == TABLE_ROWS)
            return err_set(err, TEND_EINVAL, "a queue has no setting '%s'", settings[i].name);
        if (!apply(queue, &table[row], settings[i].value))
            return err_set(err, TEND_EINVAL, "%s cannot be '%s'; it must be %s", settings[i].name,
                           settings[i].value, range_text(&table[row], range, sizeof range));
    }
    return 0;
}

struct set_call {
    const char *name;
    const struct tend_setting *settings;
    size_t count;
    const char *by;
};

static int store_settings(struct db_tx *tx, const struct queue_settings *s)
{
    const struct tend_queue *q = &s->queue;
    const struct queue_put_params params = {
        .name = db_text(q->name),
        .paused = db_int(q->paused),
        .paused_why = db_text(q->paused_why[0] != '\0' ? q->paused_why : NULL),
        .serial = db_int(q->serial),
        .concurrency = db_int_or_null(q->concurrency),
        .key_concurrency = db_int_or_null(q->key_concurrency),
        .rate_count = db_int_or_null(q->rate_count),
        .rate_period_ms = db_int_or_null(q->rate_period_ms),
        .rate_level = db_int_or_null(s->rate_level),
        .rate_at = db_int_or_null(s->rate_at),
        .lease_ms = db_int_or_null(q->lease_ms),
        .max_attempts = db_int_or_null(q->max_attempts),
        .max_crashes = db_int_or_null(q->max_crashes),
        .backoff_ms = db_int_or_null(q->backoff_ms),
        .backoff_max_ms = db_int_or_null(q->backoff_max_ms),
        .keep_done_ms = db_int_or_null(q->keep_done_ms),
        .keep_failed_ms = db_int_or_null(q->keep_failed_ms),
        .step_max_attempts = db_int_or_null(q->step_max_attempts),
        .step_timeout_ms = db_int_or_null(q->step_timeout_ms),
        .step_idle_timeout_ms = db_int_or_null(q->step_idle_timeout_ms),
        .step_no_progress_limit = db_int_or_null(q->step_no_progress_limit),
        .job_self_heal_max_resets = db_int_or_null(q->job_self_heal_max_resets),
        .step_grace_ms = db_int_or_null(q->step_grace_ms),
        .rate_strict = db_int(q->rate_strict),
        .rate_slots = db_text(s->rate_slots[0] != '\0' ? s->rate_slots : NULL),
        .step_pause_ms = db_int_or_null(q->step_pause_ms),
        .step_pause_max_ms = db_int_or_null(q->step_pause_max_ms),
        .retry_classes = db_text(q->retry_classes[0] != '\0' ? q->retry_classes : NULL),
        .keep_workspace_ms = db_int_or_null(q->keep_workspace_ms),
    };
    return each_queue_put(tx, 0, &params, 1, NULL);
}

/* A rate that changes keeps what was taken; a new one begins with nothing taken. */
static int carry_rate(struct db_tx *tx, const struct queue_settings *before,
                      struct queue_settings *after)
{
    int64_t now_ms;
    int rc = db_time(tx, &now_ms);
    if (rc < 0)
        return rc;
    const struct tend_queue *q = &after->queue;
    struct limit limit;
    after->rate_level = after->rate_at = TEND_UNSET;
    after->rate_slots[0] = '\0';
    if (q->rate_count == TEND_UNSET)
        return 0;
    if (before->queue.rate_count == TEND_UNSET) {
        limit = settings_limit(after, now_ms);
    } else {
        limit = settings_limit(before, now_ms);
        limit_change(&limit, q->rate_count, q->rate_period_ms, q->rate_strict != 0, now_ms);
    }
    settings_set_limit(after, &limit);
    return 0;
}

/* A reason belongs to a pause; with paused=off it says in the event why the pause has ended. */
static int check_reason(const struct set_call *call, const struct tend_queue *after,
                        struct err *err)
{
    bool why = false;
    bool paused = after->paused != 0;
    for (size_t i = 0; i < call->count; i++) {
        why |= strcmp(call->settings[i].name, "why") == 0 && after->paused_why[0] != '\0';
        paused |= strcmp(call->settings[i].name, "paused") == 0;
    }
    if (!why || paused)
        return 0;
    return err_set(err, TEND_EINVAL,
                   "queue \"%s\" is not paused, so it has no reason for it; set why together with "
                   "paused",
                   call->name);
}

static int set_body(struct db_tx *tx, void *arg)
{
    struct set_call *call = arg;
    struct queue_settings before;
    struct queue_lock_rows rows;
    const struct queue_make_params queue = {.name = db_text(call->name)};
    int rc;
    /* What is not there cannot be locked. */
    if ((db_concurrent(tx) && (rc = each_queue_make(tx, DB_LATER, &queue, 1, NULL)) < 0) ||
        (rc = run_queue_lock(tx, 0, (struct queue_lock_params){.name = queue.name}, &rows)) < 0)
        return rc;
    if (rows.count > 0)
        read_stored(&before, &rows.at[0].queue);
    else
        stored_default(&before, call->name);
    struct queue_settings after = before;
    rc = apply_all(&after.queue, call->settings, call->count, db_err(tx));
    if (rc == 0)
        rc = check_reason(call, &after.queue, db_err(tx));
    if (!after.queue.paused)
        after.queue.paused_why[0] = '\0';
    if (rc < 0 || (rc = carry_rate(tx, &before, &after)) < 0 ||
        (rc = store_settings(tx, &after)) < 0)
        return rc;
    char what[512] = "";
    for (size_t i = 0; i < call->count; i++)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s%s=%s", i == 0 ? "" : " ",
                 call->settings[i].name, call->settings[i].value);
    struct event_note event = {
        .queue = call->name, .who = call->by, .what = "queue.set", .why = what};
    db_ring(tx, db_bell_of(call->name));
    return event_add(tx, &event, DB_LAST);
}

int tend_queue_set(tend *t, const char *name, const struct tend_setting *settings, size_t count,
                   const char *by)
{
    struct set_call call = {
        .name = name, .settings = settings, .count = count, .by = handle_owner(t, by)};
    int rc = handle_check_name(t, "queue", name);
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    if (rc == 0 && count == 0)
        rc = handle_fail(t, TEND_EINVAL, "nothing to set on queue %s; name a setting", name);
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (settings[i].name == NULL || settings[i].value == NULL)
            rc = handle_fail(t, TEND_EINVAL, "setting %zu of queue %s has no %s", i + 1, name,
                             settings[i].name == NULL ? "name" : "value");
    return rc < 0 ? rc : handle_write(t, set_body, &call);
}

struct get_call {
    const char *name;
    struct queue_settings settings;
};

static int get_body(struct db_tx *tx, void *arg)
{
    struct get_call *call = arg;
    return settings_load(tx, call->name, false, &call->settings);
}

int tend_queue_get(tend *t, const char *name, struct tend_queue *ret)
{
    struct get_call call = {.name = name};
    int rc = handle_check_name(t, "queue", name);
    if (rc == 0)
        rc = handle_read(t, get_body, &call);
    if (rc >= 0)
        *ret = call.settings.queue;
    return rc;
}
