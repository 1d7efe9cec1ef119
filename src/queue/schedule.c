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
 * On 0 *row is the schedule as it is then, without rows when there is none.
 */
static int fire_before(struct db_tx *tx, const struct tend_schedule *schedule, int64_t now_ms,
                       struct db_result *row)
{
    const struct db_value params[] = {db_text(schedule->name)};
    struct schedule_room room = SCHEDULE_ROOM;
    for (bool fired = false;; fired = true) {
        int rc = db_run(tx, Q_SCHEDULE_GET, 0, params, row);
        if (rc < 0 || row->rows == 0 || schedule->paused)
            return rc;
        int64_t next_ms = db_number(row, 0, FIRING_NEXT_AT);
        if (db_number(row, 0, FIRING_PAUSED) != 0 || next_ms == TEND_UNSET || next_ms > now_ms)
            return 0;
        if (fired)
            return 1;
        if ((rc = schedule_fire(tx, row, now_ms, &room)) < 0)
            return rc;
    }
}

/* "UTC" is what there is without a zone, also on machines that have no tz database. */
static const char *timezone_of(const struct tend_schedule *schedule)
{
    const char *timezone = schedule->timezone;
    return timezone == NULL || strcmp(timezone, "UTC") == 0 ? NULL : timezone;
}

static int load_zone(struct db_tx *tx, const struct tend_schedule *schedule,
                     const struct db_result *before, struct schedule_zone *ret)
{
    const char *timezone = timezone_of(schedule);
    const char *kept = NULL;
    if (before->rows > 0 && timezone != NULL) {
        const char *old = db_string(before, 0, FIRING_TIMEZONE);
        if (old != NULL && strcmp(old, timezone) == 0)
            kept = db_string(before, 0, FIRING_ZONE);
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
static int64_t first_run(const struct put_call *call, const struct db_result *before, bool paused,
                         const struct schedule_zone *zone, int64_t now_ms)
{
    const struct tend_schedule *schedule = call->schedule;
    if (paused && before->rows > 0 && db_number(before, 0, FIRING_NEXT_AT) != TEND_UNSET &&
        is_same_text(db_string(before, 0, FIRING_CRON), schedule->cron) &&
        is_same_text(db_string(before, 0, FIRING_TIMEZONE), timezone_of(schedule)))
        return db_number(before, 0, FIRING_NEXT_AT);
    return cron_next(&call->cron, zone->zone, now_ms);
}

/* 1: it was not put yet, as more runs are due. */
static int put_body(struct db_tx *tx, void *arg)
{
    struct put_call *call = arg;
    const struct tend_schedule *schedule = call->schedule;
    struct schedule_zone zone;
    struct db_result before;
    int64_t now_ms;
    int rc;
    if ((rc = db_time(tx, &now_ms)) < 0 || (rc = fire_before(tx, schedule, now_ms, &before)) != 0 ||
        (rc = load_zone(tx, schedule, &before, &zone)) < 0)
        return rc;
    bool paused =
        schedule->paused || (before.rows > 0 && db_number(&before, 0, FIRING_PAUSED) != 0);
    int64_t next_ms = first_run(call, &before, paused, &zone, now_ms);
    if (next_ms < 0)
        return err_set(db_err(tx), TEND_EINVAL, "'%s' never runs; give times that come",
                       schedule->cron);
    const struct db_value params[] = {
        db_text(schedule->name),
        db_text(schedule->cron),
        db_text(schedule->queue != NULL ? schedule->queue : "default"),
        db_text(schedule->kind != NULL ? schedule->kind : ""),
        db_int(schedule->priority),
        db_text(schedule->payload != NULL ? schedule->payload : "{}"),
        db_text(schedule->catch_up != NULL ? schedule->catch_up : "one"),
        db_int(paused),
        db_int(next_ms),
        db_text(timezone_of(schedule)),
        db_text(zone.copy),
        db_text(schedule->overlap != NULL ? schedule->overlap : "queue"),
        db_text(schedule->workspace),
    };
    if ((rc = db_each(tx, Q_SCHEDULE_PUT, 0, params, 1, NULL)) < 0)
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
    struct db_result row;
    const struct db_value params[] = {db_text(call->name), db_int(call->paused)};
    int rc = db_run(tx, Q_SCHEDULE_GET, 0, params, &row);
    if (rc < 0)
        return rc;
    if (row.rows == 0)
        return no_schedule(db_err(tx), call->name);
    if ((db_number(&row, 0, FIRING_PAUSED) != 0) == call->paused)
        return 0;
    if ((rc = db_each(tx, Q_SCHEDULE_PAUSE, 0, params, 1, NULL)) < 0)
        return rc;
    struct event_note event = {.who = call->by,
                               .what = call->paused ? "schedule.paused" : "schedule.resumed",
                               .why = call->name,
                               .queue = db_string(&row, 0, FIRING_QUEUE)};
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
    const struct db_value params[] = {db_text(call->schedule->name)};
    int rc = db_each(tx, Q_SCHEDULE_REMOVE, 0, params, 1, &call->removed);
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
    struct db_result rows;
    int rc = db_run(tx, Q_SCHEDULE_LIST, DB_LAST, NULL, &rows);
    if (rc < 0)
        return rc;
    struct tend_schedule *items = arena_alloc(&box->arena, (rows.rows + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while listing schedules");
    for (size_t i = 0; i < rows.rows; i++) {
        items[i] = (struct tend_schedule){
            .name = db_string(&rows, i, 0),
            .cron = db_string(&rows, i, 1),
            .queue = db_string(&rows, i, 2),
            .kind = db_string(&rows, i, 3),
            .payload = db_string(&rows, i, 4),
            .priority = (int)db_number(&rows, i, 5),
            .catch_up = db_string(&rows, i, 6),
            .paused = (int)db_number(&rows, i, 7),
            .last_at_ms = db_number(&rows, i, 8),
            .next_at_ms = db_number(&rows, i, 9),
            .timezone = db_string(&rows, i, 10),
            .overlap = db_string(&rows, i, 12),
            .workspace = db_string(&rows, i, 13),
        };
        items[i].next_local = local_time(&box->arena, &items[i], db_string(&rows, i, 11));
    }
    box->schedules = (struct tend_schedules){.count = rows.rows, .items = items};
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
