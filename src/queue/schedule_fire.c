/*
 * A schedule fires: which of its runs are due, and what becomes of them.
 *
 * Invariant: the schedule moves on and its jobs are added in one transaction, guarded by the
 * version of its row, so each run is added once. Every job knows the time it was named for.
 *
 * When several runs are due at once, some were missed while nobody was there ("catch-up"): none of
 * them is added, and an event says so, or the newest one, or all. When an earlier run has not
 * finished ("overlap"), a run is added all the same, or is skipped and an event says so, or
 * replaces those that have not finished, which are cancelled. With skip and replace one run at a
 * time is unfinished, so "all" is the newest one there, too.
 *
 * Others wait for what one transaction adds, so there is a bound to it, in runs and in bytes of
 * payload. With catch-up "all" the rest comes with the next transaction. All that are due share the
 * room, up to DUE_MOST of them. Which one is the first changes from time to time, and of more than
 * DUE_MOST which ones have their turn, so that neither a long backlog of large payloads nor many
 * that fail keep another schedule waiting for long.
 *
 * The run that is due is known, but the ones after it are not where the time zone can be read
 * neither here nor from the store. An event says so, and the schedule is looked at again every
 * hour, a millisecond past it, at which no run ever is: once the zone can be read, what has come
 * since the last run is caught up on like anything that was missed.
 */
#include "queue/schedule.h"

#include "base/civil.h"
#include "base/timetext.h"
#include "core/cron.h"
#include "queue/act.h"
#include "queue/add.h"
#include "queue/event.h"
#include "queue/row.h"
#include "queue/schedule_zone.h"

#include <string.h>

/* More runs than this are not counted one by one. */
enum { CATCH_UP_MAX = 1000 };

/* As many schedules have their turn in one transaction. */
enum { DUE_MOST = 100 };

enum { LOOK_AGAIN_MS = 3600000, LOOK_MARK_MS = 1 };

struct firing {
    const struct firing_columns *schedule; /* as it is stored */
    const char *name;
    const char *by; /* "schedule:NAME" */
    int64_t now_ms;
    int64_t most; /* runs that may be added; at least 1 */
    struct cron cron;
    struct schedule_zone zone;

    int64_t *runs; /* the times of those to add, oldest first */
    size_t run_count;
    bool missed;         /* several were due, and it catches up on none of them */
    int64_t skipped_for; /* the job of an earlier run for which this one is skipped; 0: none */
    int64_t first_ms;    /* ... from this one on */
    int64_t last_ms;     /* the newest that was due */
    int64_t next_ms;     /* TEND_UNSET: never again */
    struct err fault;    /* why the times of its runs are not known */
};

static bool catch_up_is(const struct firing *firing, const char *word)
{
    return strcmp(db_str(firing->schedule->catch_up), word) == 0;
}

static bool overlap_is(const struct firing *firing, const char *word)
{
    return strcmp(db_str(firing->schedule->overlap), word) == 0;
}

/* The newest time of a run up to now, where from_ms is one: looks back ever farther from now, so
 * that not all the runs in between are counted. */
static int64_t newest_run(const struct firing *firing, int64_t from_ms)
{
    int64_t newest_ms = from_ms;
    int64_t back_ms = MS_PER_MINUTE;
    int64_t at_ms;
    do {
        at_ms = back_ms < firing->now_ms - from_ms ? firing->now_ms - back_ms : from_ms;
        at_ms = cron_next(&firing->cron, firing->zone.zone, at_ms);
        back_ms *= 2;
    } while ((at_ms < 0 || at_ms > firing->now_ms) && back_ms / 2 < firing->now_ms - from_ms);
    for (; at_ms >= 0 && at_ms <= firing->now_ms;
         at_ms = cron_next(&firing->cron, firing->zone.zone, at_ms))
        newest_ms = at_ms;
    return newest_ms;
}

/* Fills in what is to be done, of a schedule that was due at first_ms. */
static void find_runs(struct firing *firing, int64_t first_ms)
{
    bool all = catch_up_is(firing, "all") && overlap_is(firing, "queue");
    int64_t at_ms = first_ms;
    size_t most = all && firing->most < CATCH_UP_MAX ? (size_t)firing->most : CATCH_UP_MAX;
    size_t due = 0;
    while (at_ms >= 0 && at_ms <= firing->now_ms && due < most) {
        firing->runs[due++] = firing->last_ms = at_ms;
        at_ms = cron_next(&firing->cron, firing->zone.zone, at_ms);
    }
    if (!all && at_ms >= 0 && at_ms <= firing->now_ms) { /* far behind */
        firing->last_ms = newest_run(firing, at_ms);
        at_ms = cron_next(&firing->cron, firing->zone.zone, firing->now_ms);
    }
    firing->next_ms = at_ms < 0 ? TEND_UNSET : at_ms;
    firing->run_count = due;
    if (all)
        return;
    firing->missed = catch_up_is(firing, "none") && due > 1;
    firing->first_ms = first_ms;
    firing->run_count = firing->missed ? 0 : 1;
    firing->runs[0] = firing->last_ms;
}

/* Whether it is due because its runs could not be told, and is looked at again. */
static bool is_second_look(const struct firing *firing, int64_t first_ms)
{
    return db_str(firing->schedule->timezone) != NULL && first_ms % MS_PER_MINUTE == LOOK_MARK_MS &&
           db_num(firing->schedule->last_at) != TEND_UNSET;
}

/* What somebody has broken in the store itself runs this once; a zone may come back. */
static int read_times(struct db_tx *tx, struct firing *firing)
{
    const char *cron = db_str(firing->schedule->cron);
    if (cron_parse(cron, &firing->cron, NULL) != 0)
        return err_set(&firing->fault, TEND_EINVAL,
                       "'%s' cannot be read; it does not run again until it is put anew", cron);
    int rc = schedule_zone_load(db_str(firing->schedule->timezone), db_str(firing->schedule->zone),
                                db_arena(tx), &firing->zone, &firing->fault);
    if (rc < 0 && rc != TEND_ENOMEM)
        firing->next_ms =
            (firing->now_ms + LOOK_AGAIN_MS) / MS_PER_MINUTE * MS_PER_MINUTE + LOOK_MARK_MS;
    return rc;
}

static int64_t payload_bytes(const struct firing_columns *schedule)
{
    return (int64_t)schedule->payload.bytes;
}

/* How many runs of this payload the room is for. */
static int64_t runs_in(const struct schedule_room *room, int64_t bytes)
{
    int64_t runs = room->runs;
    if (bytes > 0 && room->bytes / bytes < runs)
        runs = room->bytes / bytes;
    return runs < 1 ? 1 : runs;
}

static void take_room(struct schedule_room *room, const struct firing *firing)
{
    int64_t runs = (int64_t)firing->run_count;
    bool more = firing->next_ms != TEND_UNSET && firing->next_ms <= firing->now_ms;
    room->lacked |= more && runs < room->runs;
    room->runs -= runs;
    room->bytes -= runs * payload_bytes(firing->schedule);
}

static int firing_init(struct db_tx *tx, struct firing *firing,
                       const struct firing_columns *schedule, int64_t now_ms,
                       const struct schedule_room *room)
{
    int64_t first_ms = db_num(schedule->next_at);
    *firing = (struct firing){
        .schedule = schedule,
        .name = db_str(schedule->name),
        .by = arena_printf(db_arena(tx), "schedule:%s", db_str(schedule->name)),
        .now_ms = now_ms,
        .runs = arena_alloc(db_arena(tx), CATCH_UP_MAX * sizeof *firing->runs),
        .run_count = 1,
        .most = runs_in(room, payload_bytes(schedule)),
        .last_ms = first_ms,
        .next_ms = TEND_UNSET,
    };
    if (firing->runs == NULL || firing->by == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while adding jobs of schedules");
    firing->runs[0] = first_ms;
    bool again = is_second_look(firing, first_ms);
    if (again) {
        firing->last_ms = db_num(schedule->last_at);
        firing->run_count = 0;
    }
    int rc = read_times(tx, firing);
    if (rc < 0)
        return rc == TEND_ENOMEM ? err_set(db_err(tx), rc, "%s", firing->fault.text) : 0;
    if (again)
        first_ms = cron_next(&firing->cron, firing->zone.zone, firing->last_ms);
    if (first_ms >= 0 && first_ms <= firing->now_ms)
        find_runs(firing, first_ms);
    else
        firing->next_ms = first_ms < 0 ? TEND_UNSET : first_ms;
    return 0;
}

static int tell_fault(struct db_tx *tx, const struct firing *firing)
{
    char time[TIME_TEXT_BYTES];
    bool again = firing->next_ms != TEND_UNSET;
    struct event_note event = {
        .who = firing->by,
        .what = "schedule.failed",
        .queue = db_str(firing->schedule->queue),
        .why = arena_printf(db_arena(tx), "when it runs next is not known: %s%s%s",
                            firing->fault.text, again ? "; looked at again at " : "",
                            again ? time_text(firing->next_ms, time) : ""),
    };
    return event_add(tx, &event, 0);
}

static int tell_skipped(struct db_tx *tx, const struct firing *firing, const char *why)
{
    struct event_note event = {
        .who = firing->by,
        .what = "schedule.skipped",
        .queue = db_str(firing->schedule->queue),
        .why = why,
    };
    return event_add(tx, &event, 0);
}

static int tell_missed(struct db_tx *tx, const struct firing *firing)
{
    char first[TIME_TEXT_BYTES];
    char last[TIME_TEXT_BYTES];
    return tell_skipped(
        tx, firing,
        arena_printf(db_arena(tx), "the runs from %s to %s were missed, and it catches up on none",
                     time_text(firing->first_ms, first), time_text(firing->last_ms, last)));
}

/* --- an earlier run that has not finished --- */

static int tell_overlap(struct db_tx *tx, const struct firing *firing)
{
    char time[TIME_TEXT_BYTES];
    return tell_skipped(
        tx, firing,
        arena_printf(db_arena(tx), "the run of %s: job %lld of an earlier run has not finished",
                     time_text(firing->last_ms, time), (long long)firing->skipped_for));
}

static int replace(struct db_tx *tx, const struct firing *firing)
{
    char time[TIME_TEXT_BYTES];
    struct act_done done;
    struct tend_jobs jobs;
    struct schedule_runs_rows rows;
    const struct schedule_runs_params params = {.schedule = db_text(firing->name)};
    int rc = run_schedule_runs(tx, 0, params, &rows);
    if (rc < 0 || rows.count == 0)
        return rc;
    if ((rc = jobs_read(db_arena(tx), &rows.result, &jobs)) < 0)
        return err_set(db_err(tx), rc, "out of memory while replacing jobs of a schedule");
    const char *why =
        arena_printf(db_arena(tx), "replaced by the run of %s", time_text(firing->last_ms, time));
    const struct act_who who = {.by = firing->by, .why = why};
    return act_on_jobs(tx, TEND_CANCEL, &jobs, firing->now_ms, &who, &done);
}

/* A run that is skipped is none. */
static int find_overlap(struct db_tx *tx, struct firing *firing)
{
    struct schedule_unfinished_rows unfinished;
    if (firing->run_count == 0 || !overlap_is(firing, "skip"))
        return 0;
    const struct schedule_unfinished_params params = {.schedule = db_text(firing->name)};
    int rc = run_schedule_unfinished(tx, 0, params, &unfinished);
    if (rc < 0 || unfinished.count == 0)
        return rc;
    firing->skipped_for = db_num(unfinished.at[0].id);
    firing->run_count = 0;
    return 0;
}

/* --- adding --- */

static int add_runs(struct db_tx *tx, const struct firing *firing)
{
    struct arena *arena = db_arena(tx);
    size_t count = firing->run_count;
    struct tend_job_spec *specs = arena_alloc(arena, count * sizeof *specs);
    struct tend_added *added = arena_zalloc(arena, count * sizeof *added);
    struct schedule_nominal_params *nominal = arena_alloc(arena, count * sizeof *nominal);
    if (specs == NULL || added == NULL || nominal == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while adding jobs of schedules");
    for (size_t i = 0; i < count; i++) {
        tend_job_spec_init(&specs[i]);
        specs[i].queue = db_str(firing->schedule->queue);
        specs[i].kind = db_str(firing->schedule->kind);
        specs[i].payload = db_str(firing->schedule->payload);
        specs[i].payload_bytes = firing->schedule->payload.bytes;
        specs[i].priority = (int)db_num(firing->schedule->priority);
        specs[i].workspace = db_str(firing->schedule->workspace);
    }
    struct add_batch batch = {
        .specs = specs, .count = count, .by = firing->by, .schedule = firing->name, .ret = added};
    int rc = add_jobs(tx, &batch, 0);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        nominal[i] = (struct schedule_nominal_params){.id = db_int(added[i].id),
                                                      .nominal_at = db_int(firing->runs[i])};
    return each_schedule_nominal(tx, 0, nominal, count, NULL);
}

/* The last run that was added. Where the coming ones are not known, what was due counts as well:
 * the second look goes on behind it. */
static struct db_value last_run(const struct firing *firing)
{
    bool counts = firing->run_count > 0 || firing->fault.code != 0;
    return counts ? db_int(firing->last_ms) : firing->schedule->last_at;
}

int schedule_fire(struct db_tx *tx, const struct firing_columns *schedule, int64_t now_ms,
                  struct schedule_room *room)
{
    struct firing firing;
    int64_t fired = 0;
    int rc = firing_init(tx, &firing, schedule, now_ms, room);
    if (rc < 0 || (rc = find_overlap(tx, &firing)) < 0)
        return rc;
    const char *copy = firing.zone.copy != NULL ? firing.zone.copy : db_str(schedule->zone);
    const struct schedule_fired_params params = {.name = schedule->name,
                                                 .version = schedule->version,
                                                 .last_at = last_run(&firing),
                                                 .next_at = db_int_or_null(firing.next_ms),
                                                 .zone = db_text(copy)};
    rc = each_schedule_fired(tx, 0, &params, 1, &fired);
    /* Whoever changes the version adds the jobs, in the same transaction. */
    if (rc >= 0 && fired != 0 && firing.fault.code != 0)
        rc = tell_fault(tx, &firing);
    if (rc >= 0 && fired != 0 && firing.missed)
        rc = tell_missed(tx, &firing);
    if (rc >= 0 && fired != 0 && firing.skipped_for != 0)
        rc = tell_overlap(tx, &firing);
    if (rc < 0 || fired == 0 || firing.run_count == 0)
        return rc < 0 ? rc : 0;
    if (overlap_is(&firing, "replace") && (rc = replace(tx, &firing)) < 0)
        return rc;
    take_room(room, &firing);
    return add_runs(tx, &firing);
}

/* --- all that are due --- */

struct due {
    int64_t now_ms;
    struct schedule_room left;
    int fired;
    int failed; /* the code of the last that was passed over, with the sentence in db_err */
};

struct due_one {
    const char *name;
    int64_t now_ms;
    struct schedule_room room;
};

static int fire_one(struct db_tx *tx, void *arg)
{
    struct due_one *one = arg;
    struct schedule_get_rows rows;
    int rc =
        run_schedule_get(tx, 0, (struct schedule_get_params){.name = db_text(one->name)}, &rows);
    if (rc < 0 || rows.count == 0)
        return rc;
    return schedule_fire(tx, &rows.at[0].firing, one->now_ms, &one->room);
}

/* One of so many that share what is left. If it fails, nothing of it stays, and the next can be
 * fired. */
static int fire_share(struct db_tx *tx, struct due *due, const char *name, size_t sharers)
{
    const struct schedule_room share = {.runs = due->left.runs / (int64_t)sharers,
                                        .bytes = due->left.bytes / (int64_t)sharers};
    struct due_one one = {.name = name, .now_ms = due->now_ms, .room = share};
    bool undone;
    int rc = db_attempt(tx, fire_one, &one, &undone);
    if (rc < 0) {
        due->failed = rc;
        return undone ? 0 : rc;
    }
    due->left.runs -= share.runs - one.room.runs;
    due->left.bytes -= share.bytes - one.room.bytes;
    due->left.lacked |= one.room.lacked;
    due->fired++;
    return 0;
}

static bool replaces(const struct schedule_due_row *row)
{
    return strcmp(db_str(row->overlap), "replace") == 0;
}

/* Whose turn it is to be the first of count, by the time alone. */
static size_t first_of(size_t count, int64_t now_ms)
{
    return (size_t)((uint64_t)now_ms * UINT64_C(0x9e3779b97f4a7c15) >> 32) % count;
}

/* Those that have their turn: DUE_MOST in a row, or fewer at either end, so that each has it as
 * often as any other. */
static int read_due(struct db_tx *tx, int64_t now_ms, struct schedule_due_rows *ret)
{
    struct schedule_count_due_rows count;
    int64_t most = DUE_MOST;
    int64_t skipped = 0;
    int rc = run_schedule_count_due(tx, 0, (struct schedule_count_due_params){.now = db_now(tx)},
                                    &count);
    if (rc < 0)
        return rc;
    int64_t due = db_num(count.at[0].schedules);
    if (due > DUE_MOST)
        skipped = (int64_t)first_of((size_t)due + DUE_MOST - 1, now_ms) - (DUE_MOST - 1);
    if (skipped < 0) {
        most += skipped;
        skipped = 0;
    }
    const struct schedule_due_params params = {
        .now = db_now(tx), .limit = db_int(most), .passed = db_int(skipped)};
    return run_schedule_due(tx, 0, params, ret);
}

int schedule_fire_due(struct db_tx *tx)
{
    struct schedule_due_rows rows;
    struct due due = {.left = SCHEDULE_ROOM};
    int rc = db_time(tx, &due.now_ms);
    if (rc < 0 || (rc = read_due(tx, due.now_ms, &rows)) < 0 || rows.count == 0)
        return rc;
    size_t first = first_of(rows.count, due.now_ms);
    for (size_t i = 0; rc >= 0 && i < rows.count && due.left.runs > 0 && due.left.bytes > 0; i++) {
        const struct schedule_due_row *row = &rows.at[(first + i) % rows.count];
        if (!replaces(row))
            rc = fire_share(tx, &due, db_str(row->name), rows.count - i);
    }
    bool replaced = false;
    for (size_t i = 0; rc >= 0 && i < rows.count && !replaced; i++) {
        const struct schedule_due_row *row = &rows.at[(first + i) % rows.count];
        int fired = due.fired;
        if (replaces(row))
            rc = fire_share(tx, &due, db_str(row->name), 1);
        replaced = due.fired > fired;
    }
    if (rc < 0 || (due.fired == 0 && due.failed < 0))
        return rc < 0 ? rc : due.failed;
    return due.left.lacked || due.left.bytes <= 0 ? 0 : due.fired;
}
