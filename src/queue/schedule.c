#include "queue/schedule.h"

#include "core/cron.h"
#include "queue/add.h"
#include "queue/event.h"

#include <stdlib.h>
#include <string.h>

/* With catch-up "all", runs added at once; the rest come with the next look. */
enum { CATCH_UP_MAX = 1000 };

void tend_schedule_init(struct tend_schedule *schedule)
{
    *schedule = (struct tend_schedule){
        .priority = TEND_PRIORITY_DEFAULT, .last_at_ms = TEND_UNSET, .next_at_ms = TEND_UNSET};
}

/* --- firing --- */

struct firing {
    int64_t runs;    /* jobs to add */
    int64_t last_ms; /* the run they stand for, or the last of them */
    int64_t next_ms; /* TEND_UNSET: never again */
};

/* What is to be done at now_ms for a schedule that was due at next_ms. */
static struct firing plan(const struct cron *cron, const char *catch_up, int64_t next_ms,
                          int64_t now_ms)
{
    struct firing firing = {.last_ms = next_ms};
    bool all = strcmp(catch_up, "all") == 0;
    int64_t at_ms = next_ms;
    int64_t due = 0;
    while (at_ms >= 0 && at_ms <= now_ms && due < CATCH_UP_MAX) {
        due++;
        firing.last_ms = at_ms;
        at_ms = cron_next(cron, NULL, at_ms);
    }
    if (!all && at_ms >= 0 && at_ms <= now_ms) { /* far behind: no need to count every run missed */
        firing.last_ms = now_ms;
        at_ms = cron_next(cron, NULL, now_ms);
    }
    /* "none" drops what was missed, that is all but a run whose successor is not due yet. */
    bool missed = due > 1;
    firing.runs = all ? due : strcmp(catch_up, "none") == 0 && missed ? 0 : 1;
    firing.next_ms = at_ms < 0 ? TEND_UNSET : at_ms;
    return firing;
}

static int add_runs(struct db_tx *tx, const struct db_result *rows, size_t row, int64_t runs)
{
    struct tend_job_spec spec;
    const char *name = db_string(rows, row, 0);
    tend_job_spec_init(&spec);
    spec.queue = db_string(rows, row, 2);
    spec.kind = db_string(rows, row, 3);
    spec.payload = db_string(rows, row, 4);
    spec.payload_bytes = db_at(rows, row, 4)->bytes;
    spec.priority = (int)db_number(rows, row, 5);
    struct tend_added added;
    struct add_batch batch = {.specs = &spec,
                              .count = 1,
                              .by = arena_printf(db_arena(tx), "schedule:%s", name),
                              .schedule = name,
                              .ret = &added};
    for (int64_t i = 0; i < runs; i++) {
        int rc = add_jobs(tx, &batch, 0);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int fire(struct db_tx *tx, const struct db_result *rows, size_t row)
{
    struct cron cron;
    int64_t fired = 0;
    struct firing firing = {.last_ms = db_number(rows, row, 7), .next_ms = TEND_UNSET};
    if (cron_parse(db_string(rows, row, 1), &cron, NULL) == 0)
        firing =
            plan(&cron, db_string(rows, row, 6), db_number(rows, row, 7), db_number(rows, row, 9));
    const struct db_value params[] = {*db_at(rows, row, 0), *db_at(rows, row, 8),
                                      db_int(firing.last_ms), db_int_or_null(firing.next_ms)};
    int rc = db_each(tx, Q_SCHEDULE_FIRED, 0, params, 1, &fired);
    /* Whoever changes the version adds the jobs, in the same transaction. */
    return rc < 0 || fired == 0 ? rc : add_runs(tx, rows, row, firing.runs);
}

int schedule_fire_due(struct db_tx *tx)
{
    struct db_result rows;
    const struct db_value params[] = {db_now(tx)};
    int rc = db_run(tx, Q_SCHEDULE_DUE, 0, params, &rows);
    for (size_t i = 0; rc >= 0 && i < rows.rows; i++)
        rc = fire(tx, &rows, i);
    return rc;
}

/* --- setting up --- */

struct put_call {
    const struct tend_schedule *schedule;
    struct cron cron;
    const char *by;
    int64_t removed;
};

static int put_body(struct db_tx *tx, void *arg)
{
    struct put_call *call = arg;
    const struct tend_schedule *schedule = call->schedule;
    int64_t now_ms;
    int rc = db_time(tx, &now_ms);
    if (rc < 0)
        return rc;
    int64_t next_ms = cron_next(&call->cron, NULL, now_ms);
    if (next_ms < 0)
        return err_set(db_err(tx), TEND_EINVAL, "'%s' never comes; give a schedule that does",
                       schedule->cron);
    const struct db_value params[] = {
        db_text(schedule->name),
        db_text(schedule->cron),
        db_text(schedule->queue != NULL ? schedule->queue : "default"),
        db_text(schedule->kind != NULL ? schedule->kind : ""),
        db_int(schedule->priority),
        db_text(schedule->payload != NULL ? schedule->payload : "{}"),
        db_text(schedule->catch_up != NULL ? schedule->catch_up : "one"),
        db_int(schedule->paused != 0),
        db_int(next_ms),
    };
    if ((rc = db_each(tx, Q_SCHEDULE_PUT, 0, params, 1, NULL)) < 0)
        return rc;
    struct event_note event = {
        .who = call->by, .what = "schedule.put", .why = schedule->name, .queue = schedule->queue};
    db_ring(tx);
    return event_add(tx, &event, DB_LAST);
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
    const char *catch_up = schedule->catch_up != NULL ? schedule->catch_up : "one";
    if (rc == 0 && strcmp(catch_up, "none") != 0 && strcmp(catch_up, "one") != 0 &&
        strcmp(catch_up, "all") != 0)
        rc = handle_fail(t, TEND_EINVAL, "catch-up cannot be '%s'; it must be none, one or all",
                         catch_up);
    return rc;
}

int tend_schedule_put(tend *t, const struct tend_schedule *schedule, const char *by)
{
    struct put_call call = {.schedule = schedule, .by = handle_owner(t, by)};
    int rc = check_schedule(t, schedule);
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    if (rc == 0)
        rc = cron_parse(schedule->cron != NULL ? schedule->cron : "", &call.cron, handle_err(t));
    return rc < 0 ? rc : handle_write(t, put_body, &call);
}

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
        return handle_fail(t, TEND_ENOTFOUND,
                           "there is no schedule '%s'; 'tend schedule ls' lists those that are",
                           name);
    return rc;
}

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
    for (size_t i = 0; i < rows.rows; i++)
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
        };
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
