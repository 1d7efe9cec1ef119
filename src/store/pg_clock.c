#include "store/pg_clock.h"

#include "base/clock.h"
#include "core/pace.h"
#include "store/clock_move.h"
#include "store/pg_db.h"

#include <stdio.h>
#include <sys/stat.h>
#include <tend.h>

enum { LOOK_TRIES = 3, ROUND_TRIP_MS = 1000, MARK_MS = 60000 };
static const int64_t forgotten_ms = 30LL * 24 * 3600 * 1000;

enum { BOOT_BYTES = 64 };

/* What was found, and what follows from it. */
struct clock_view {
    char boot[BOOT_BYTES];
    int64_t boottime_ms, store_ms, round_trip_ms;
    int64_t clock_steps;
    int64_t server_since; /* when the server that was asked was started */
    bool other_server;    /* than the one in the store */
    bool has_mark;        /* this machine, since the last step */
    int64_t by_ms;        /* the clock was set forward by so much; < 0: back */
    int64_t mark_is_old_ms;
    bool left; /* something was left alone when the clock was set */
};

static int64_t boottime_ms(const struct pg_db *db)
{
    return db->options.clock_ms != NULL ? db->options.uptime_ms(db->options.clock_arg, 1)
                                        : clock_boot_ms();
}

/* Whose time since boot it is; "": that cannot be told. A time namespace has one of its own. */
static void name_boot(char out[BOOT_BYTES])
{
    struct proc_id self;
    struct stat space;
    out[0] = '\0';
    if (proc_self(&self) < 0)
        return;
    if (stat("/proc/self/ns/time", &space) != 0)
        space.st_ino = 0; /* an old kernel: there is only one */
    snprintf(out, BOOT_BYTES, "%.40s:%llu", self.boot_id, (unsigned long long)space.st_ino);
}

static int64_t ms_to_us(int64_t ms)
{
    return ms * 1000;
}

static void judge(struct clock_view *view, const struct db_result *row)
{
    view->clock_steps = db_number(row, 0, 1);
    view->server_since = db_number(row, 0, 3);
    view->other_server = view->server_since != db_number(row, 0, 2);
    view->has_mark = db_number(row, 0, 4) != TEND_UNSET;
    view->left = db_number(row, 0, 6) != 0;
    view->by_ms = 0;
    if (!view->has_mark)
        return;
    const struct pace_mark from = {.boottime_us = ms_to_us(db_number(row, 0, 4)),
                                   .store_us = ms_to_us(db_number(row, 0, 5))};
    const struct pace_mark to = {.boottime_us = ms_to_us(view->boottime_ms),
                                 .store_us = ms_to_us(view->store_ms)};
    view->mark_is_old_ms = (to.boottime_us - from.boottime_us) / 1000;
    view->by_ms = pace_jump(&from, &to, ms_to_us(view->round_trip_ms)) / 1000;
}

/*
 * One measurement: the server's clock was read somewhere between two looks at ours. A slow round
 * trip, or a process that was stopped in between, tells little: it is measured again, and the
 * quickest counts.
 */
static int look(struct db_tx *tx, struct clock_view *view)
{
    const struct pg_db *db = (const struct pg_db *)tx->db;
    *view = (struct clock_view){.round_trip_ms = INT64_MAX};
    name_boot(view->boot);
    for (int i = 0; i < LOOK_TRIES && view->round_trip_ms > ROUND_TRIP_MS; i++) {
        struct db_result row;
        const struct db_value params[] = {db_text(view->boot), db_now(tx)};
        int64_t before_ms = boottime_ms(db);
        int rc = db_run(tx, Q_CLOCK_LOOK, 0, params, &row);
        if (rc < 0)
            return rc;
        if (row.rows == 0)
            return err_set(tx->err, TEND_ECORRUPT, "the table store has lost its row");
        int64_t round_trip_ms = boottime_ms(db) - before_ms;
        if (round_trip_ms >= view->round_trip_ms)
            continue;
        view->round_trip_ms = round_trip_ms;
        view->boottime_ms = before_ms + round_trip_ms / 2;
        view->store_ms = db_number(&row, 0, 0);
        judge(view, &row);
    }
    return 0;
}

static bool needs_mark(const struct clock_view *view)
{
    return view->boot[0] != '\0' && !view->has_mark;
}

static bool must_move(const struct clock_view *view)
{
    return view->other_server || view->by_ms != 0;
}

int pg_clock_look(struct db_tx *tx)
{
    struct clock_view view;
    if (db_clock_is_even(tx->db))
        return 0;
    int rc = look(tx, &view);
    return rc < 0 ? rc : must_move(&view) || needs_mark(&view);
}

static int move(struct db_tx *tx, const struct clock_view *view)
{
    /* Further than any lease lasts: each is then as long as it can be from now on. */
    const int64_t anew_ms = INT64_MAX / 4;
    int rc;
    if (!view->other_server)
        return clock_move(tx, db_now(tx), view->by_ms, "clock.stepped",
                          arena_printf(tx->arena, "{\"by_ms\":%lld}", (long long)view->by_ms));
    const struct db_value since = db_int(view->server_since);
    if ((rc = db_each(tx, Q_CLOCK_SERVER, 0, &since, 1, NULL)) < 0)
        return rc;
    return clock_move(
        tx, db_now(tx), anew_ms, "server.changed",
        arena_printf(tx->arena, "{\"since_ms\":%lld}", (long long)view->server_since / 1000));
}

/* Gives their full time to those that were left alone before and can be had now. 1: there were any.
 */
static int give_left(struct db_tx *tx)
{
    int64_t given[2] = {0};
    const struct db_value at[] = {db_now(tx)};
    int rc = db_each(tx, Q_CLOCK_GIVE_LEASES, 0, at, 1, &given[0]);
    if (rc >= 0)
        rc = db_each(tx, Q_CLOCK_GIVE_LOCKS, 0, at, 1, &given[1]);
    return rc < 0 ? rc : given[0] + given[1] > 0;
}

/* What to compare with the next time. */
static int note(struct db_tx *tx, const struct clock_view *view)
{
    const struct db_value mark[] = {db_text(view->boot), db_int(view->boottime_ms),
                                    db_int(view->store_ms), db_int(view->clock_steps)};
    const struct db_value old[] = {db_int(view->clock_steps),
                                   db_int(view->store_ms - forgotten_ms)};
    int rc = view->boot[0] == '\0' ? 0 : db_each(tx, Q_CLOCK_NOTE, 0, mark, 1, NULL);
    return rc < 0 ? rc : db_each(tx, Q_CLOCK_FORGET, DB_LAST, old, 1, NULL);
}

int pg_clock_settle(struct db_tx *tx)
{
    struct clock_view view;
    int rc;
    if (db_clock_is_even(tx->db))
        return 0;
    if ((rc = look(tx, &view)) < 0)
        return rc;
    if (!must_move(&view) && !needs_mark(&view) && view.mark_is_old_ms < MARK_MS && !view.left)
        return 0;
    if ((rc = db_run(tx, Q_CLOCK_TURN, 0, NULL, NULL)) < 0 || (rc = look(tx, &view)) < 0)
        return rc;
    bool moves = must_move(&view);
    if (moves) {
        if ((rc = move(tx, &view)) < 0)
            return rc;
        view.clock_steps++;
    }
    if (moves || view.left) {
        if ((rc = give_left(tx)) < 0)
            return rc;
        moves |= rc > 0;
    }
    rc = note(tx, &view);
    return rc < 0 ? rc : moves;
}
