#include "queue/schedule.h"

#include "base/clock.h"
#include "base/text.h"
#include "core/cron.h"
#include "queue/add.h"
#include "queue/event.h"
#include "queue/holder.h"
#include "queue/schedule_zone.h"

#include <stdlib.h>
#include <string.h>

void tend_schedule_init(struct tend_schedule *schedule)
{
    *schedule = (struct tend_schedule){
        .priority = TEND_PRIORITY_DEFAULT, .last_at_ms = TEND_UNSET, .next_at_ms = TEND_UNSET};
}

/* --- setting up ---
 *
 * Only resuming ends a pause: a schedule that is put again stays paused, so a deploy that puts all
 * schedules undoes nobody's pause. While it is paused its next run stays where it is, also when it
 * is due already. Resuming therefore needs no rule of its own: what was missed is caught up on as
 * after any time in which nobody was there.
 */

struct put_call {
    const struct tend_schedule *schedule;
    struct cron cron;
    const char *by;
    int64_t removed;
};

/*
 * Runs that are due are added before the schedule is replaced, as it was until now, unless it is
 * paused or will be: as many as one transaction has room for. 1: more are due, and the schedule is
 * to be replaced in a later transaction. What has been added by then stays, and the rest stays due.
 * On 0 *ret is the schedule as it is then, without rows when there is none.
 */
static int fire_before(struct db_tx *tx, const struct tend_schedule *schedule, int64_t now_ms,
                       struct schedule_get_rows *ret)
{
    const struct schedule_get_params params = {.name = db_text(schedule->name)};
    struct schedule_room room = SCHEDULE_ROOM;
    for (bool fired = false;; fired = true) {
        int rc = run_schedule_get(tx, 0, params, ret);
        if (rc < 0 || ret->count == 0 || schedule->paused)
            return rc;
        const struct firing_columns *stored = &ret->at[0].firing;
        int64_t next_ms = db_num(stored->next_at);
        if (db_num(stored->paused) != 0 || next_ms == TEND_UNSET || next_ms > now_ms)
            return 0;
        if (fired)
            return 1;
        if ((rc = schedule_fire(tx, stored, now_ms, &room)) < 0)
            return rc;
    }
}

/* "UTC" is what there is without a zone, also on machines that have no tz database. */
static const char *timezone_of(const struct tend_schedule *schedule)
{
    const char *timezone = schedule->timezone;
    return timezone == NULL || strcmp(timezone, "UTC") == 0 ? NULL : timezone;
}

/* before: the schedule that is replaced, or NULL. */
static int load_zone(struct db_tx *tx, const struct tend_schedule *schedule,
                     const struct firing_columns *before, struct schedule_zone *ret)
{
    const char *timezone = timezone_of(schedule);
    const char *kept = NULL;
    if (before != NULL && timezone != NULL) {
        const char *old = db_str(before->timezone);
        if (old != NULL && strcmp(old, timezone) == 0)
            kept = db_str(before->zone);
    }
    return schedule_zone_load(timezone, kept, db_arena(tx), ret, db_err(tx));
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/*
 * The first run that has not been added. A paused schedule whose times stay the same keeps the
 * runs that it has missed.
 */
static int64_t first_run(const struct put_call *call, const struct firing_columns *before,
                         bool paused, const struct schedule_zone *zone, int64_t now_ms)
{
    const struct tend_schedule *schedule = call->schedule;
    if (paused && before != NULL && db_num(before->next_at) != TEND_UNSET &&
        is_same_text(db_str(before->cron), schedule->cron) &&
        is_same_text(db_str(before->timezone), timezone_of(schedule)))
        return db_num(before->next_at);
    return cron_next(&call->cron, zone->zone, now_ms);
}

/* 1: it was not put yet, as more runs are due. */
static int put_body(struct db_tx *tx, void *arg)
{
    struct put_call *call = arg;
    const struct tend_schedule *schedule = call->schedule;
    struct schedule_zone zone;
    struct schedule_get_rows rows;
    int64_t now_ms;
    int rc;
    if ((rc = db_time(tx, &now_ms)) < 0 || (rc = fire_before(tx, schedule, now_ms, &rows)) != 0)
        return rc;
    const struct firing_columns *before = rows.count > 0 ? &rows.at[0].firing : NULL;
    if ((rc = load_zone(tx, schedule, before, &zone)) < 0)
        return rc;
    bool paused = schedule->paused || (before != NULL && db_num(before->paused) != 0);
    int64_t next_ms = first_run(call, before, paused, &zone, now_ms);
    if (next_ms < 0)
        return err_set(db_err(tx), TEND_EINVAL, "'%s' never runs; give times that come",
                       schedule->cron);
    const struct schedule_put_params params = {
        .name = db_text(schedule->name),
        .cron = db_text(schedule->cron),
        .queue = db_text(schedule->queue != NULL ? schedule->queue : "default"),
        .kind = db_text(schedule->kind != NULL ? schedule->kind : ""),
        .priority = db_int(schedule->priority),
        .payload = db_text(schedule->payload != NULL ? schedule->payload : "{}"),
        .catch_up = db_text(schedule->catch_up != NULL ? schedule->catch_up : "one"),
        .paused = db_int(paused),
        .next_at = db_int(next_ms),
        .timezone = db_text(timezone_of(schedule)),
        .zone = db_text(zone.copy),
        .overlap = db_text(schedule->overlap != NULL ? schedule->overlap : "queue"),
        .workspace = db_text(schedule->workspace),
    };
    if ((rc = each_schedule_put(tx, 0, &params, 1, NULL)) < 0)
        return rc;
    struct event_note event = {
        .who = call->by, .what = "schedule.put", .why = schedule->name, .queue = schedule->queue};
    db_ring(tx, DB_BELLS_ALL);
    return event_add(tx, &event, DB_LAST);
}

/* Whether a word is one of three; NULL stands for the default. */
static int check_word(tend *t, const char *what, const char *word, const char *const words[3])
{
    for (size_t i = 0; i < 3; i++)
        if (word == NULL || strcmp(word, words[i]) == 0)
            return 0;
    return handle_fail(t, TEND_EINVAL, "%s cannot be '%s'; it must be %s, %s or %s", what, word,
                       words[0], words[1], words[2]);
}

static int check_schedule(tend *t, const struct tend_schedule *schedule)
{
    int rc = handle_check_name(t, "schedule", schedule->name != NULL ? schedule->name : "");
    if (rc == 0 && schedule->queue != NULL)
        rc = handle_check_name(t, "queue", schedule->queue);
    if (rc == 0 && schedule->kind != NULL && schedule->kind[0] != '\0')
        rc = handle_check_name(t, "kind", schedule->kind);
    if (rc == 0 && schedule->payload != NULL)
        rc = add_check_json(t, "payload", schedule->payload, strlen(schedule->payload));
    if (rc == 0 && (schedule->priority < 0 || schedule->priority > 9))
        rc = handle_fail(t, TEND_EINVAL, "priority is %d; it must be from 0 to 9",
                         schedule->priority);
    if (rc == 0 && schedule->workspace != NULL &&
        !utf8_valid(schedule->workspace, strlen(schedule->workspace)))
        rc = handle_fail(t, TEND_EINVAL, "the workspace is not valid UTF-8 text");
    static const char *const catch_up[] = {"none", "one", "all"};
    static const char *const overlap[] = {"queue", "skip", "replace"};
    if (rc == 0)
        rc = check_word(t, "catch-up", schedule->catch_up, catch_up);
    return rc < 0 ? rc : check_word(t, "overlap", schedule->overlap, overlap);
}

static int check_cron(tend *t, const struct tend_schedule *schedule, struct cron *ret)
{
    const char *cron = schedule->cron != NULL ? schedule->cron : "";
    int rc = cron_parse(cron, ret, handle_err(t));
    if (rc == 0 && ret->every_ms > 0 && timezone_of(schedule) != NULL)
        rc = handle_fail(t, TEND_EINVAL, "'%s' cannot have a time zone; leave out '%s'", cron,
                         schedule->timezone);
    return rc;
}

int tend_schedule_put(tend *t, const struct tend_schedule *schedule, const char *by)
{
    struct put_call call = {.schedule = schedule, .by = handle_owner(t, by)};
    int rc = check_schedule(t, schedule);
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    if (rc == 0)
        rc = check_cron(t, schedule, &call.cron);
    if (rc < 0)
        return rc;
    int64_t until_ms = clock_mono_ms() + t->options.busy_ms;
    while ((rc = handle_write(t, put_body, &call)) > 0 ||
           (rc == TEND_EBUSY && clock_mono_ms() < until_ms))
        if (rc < 0) /* a run that is to be replaced is locked */
            holder_pause();
    return rc;
}

/* --- pausing --- */

struct pause_call {
    const char *name;
    const char *by;
    bool paused;
};

static int no_schedule(struct err *err, const char *name)
{
    return err_set(err, TEND_ENOTFOUND, "there is no schedule '%s'; 'tend schedule ls' lists them",
                   name);
}

static int pause_body(struct db_tx *tx, void *arg)
{
    struct pause_call *call = arg;
    struct schedule_get_rows rows;
    const struct schedule_get_params get = {.name = db_text(call->name)};
    const struct schedule_pause_params pause = {.name = db_text(call->name),
                                                .paused = db_int(call->paused)};
    int rc = run_schedule_get(tx, 0, get, &rows);
    if (rc < 0)
        return rc;
    if (rows.count == 0)
        return no_schedule(db_err(tx), call->name);
    if ((db_num(rows.at[0].firing.paused) != 0) == call->paused)
        return 0;
    if ((rc = each_schedule_pause(tx, 0, &pause, 1, NULL)) < 0)
        return rc;
    struct event_note event = {.who = call->by,
                               .what = call->paused ? "schedule.paused" : "schedule.resumed",
                               .why = call->name,
                               .queue = db_str(rows.at[0].firing.queue)};
    db_ring(tx, DB_BELLS_ALL);
    return event_add(tx, &event, DB_LAST);
}

static int set_paused(tend *t, const char *name, const char *by, bool paused)
{
    struct pause_call call = {.name = name, .by = handle_owner(t, by), .paused = paused};
    int rc = handle_check_name(t, "schedule", name);
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    return rc < 0 ? rc : handle_write(t, pause_body, &call);
}

int tend_schedule_pause(tend *t, const char *name, const char *by)
{
    return set_paused(t, name, by, true);
}

int tend_schedule_resume(tend *t, const char *name, const char *by)
{
    return set_paused(t, name, by, false);
}

/* --- removing --- */

static int remove_body(struct db_tx *tx, void *arg)
{
    struct put_call *call = arg;
    const struct schedule_remove_params params = {.name = db_text(call->schedule->name)};
    int rc = each_schedule_remove(tx, 0, &params, 1, &call->removed);
    if (rc < 0 || call->removed == 0)
        return rc;
    struct event_note event = {
        .who = call->by, .what = "schedule.removed", .why = call->schedule->name};
    return event_add(tx, &event, DB_LAST);
}

int tend_schedule_remove(tend *t, const char *name, const char *by)
{
    struct tend_schedule schedule = {.name = name};
    struct put_call call = {.schedule = &schedule, .by = handle_owner(t, by)};
    int rc = handle_check_name(t, "schedule", name);
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    if (rc == 0)
        rc = handle_write(t, remove_body, &call);
    if (rc >= 0 && call.removed == 0)
        return no_schedule(handle_err(t), name);
    return rc;
}

/* --- listing --- */

struct schedules_box {
    struct tend_schedules schedules; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_schedules_free(struct tend_schedules *schedules)
{
    struct schedules_box *box = (struct schedules_box *)schedules;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

static const char *local_time(struct arena *arena, const struct tend_schedule *schedule,
                              const char *kept)
{
    struct schedule_zone zone;
    char text[ZONE_TIME_BYTES];
    if (schedule->next_at_ms == TEND_UNSET ||
        schedule_zone_load(schedule->timezone, kept, arena, &zone, NULL) < 0)
        return NULL;
    return arena_strdup(arena, zone_time_text(zone.zone, schedule->next_at_ms, text));
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct schedules_box *box = arg;
    struct schedule_list_rows rows;
    int rc = run_schedule_list(tx, DB_LAST, &rows);
    if (rc < 0)
        return rc;
    struct tend_schedule *items = arena_alloc(&box->arena, (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while listing schedules");
    for (size_t i = 0; i < rows.count; i++) {
        const struct schedule_list_row *row = &rows.at[i];
        items[i] = (struct tend_schedule){
            .name = db_str(row->name),
            .cron = db_str(row->cron),
            .queue = db_str(row->queue),
            .kind = db_str(row->kind),
            .payload = db_str(row->payload),
            .priority = (int)db_num(row->priority),
            .catch_up = db_str(row->catch_up),
            .paused = (int)db_num(row->paused),
            .last_at_ms = db_num(row->last_at),
            .next_at_ms = db_num(row->next_at),
            .timezone = db_str(row->timezone),
            .overlap = db_str(row->overlap),
            .workspace = db_str(row->workspace),
        };
        items[i].next_local = local_time(&box->arena, &items[i], db_str(row->zone));
    }
    box->schedules = (struct tend_schedules){.count = rows.count, .items = items};
    return 0;
}

int tend_schedule_list(tend *t, struct tend_schedules **ret)
{
    struct schedules_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while listing schedules");
    arena_init(&box->arena);
    int rc = db_read(t->db, &box->arena, list_body, box, handle_err(t));
    if (rc < 0)
        tend_schedules_free(&box->schedules);
    else
        *ret = &box->schedules;
    return rc;
}
