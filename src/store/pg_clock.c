#include "store/pg_clock.h"

#include "base/clock.h"
#include "core/pace.h"
#include "store/clock_move.h"
#include "store/pg_tx.h"
#include "store/queries.h"

#include <stdio.h>
#include <tend.h>

enum { LOOK_TRIES = 3, ROUND_TRIP_MS = 1000, MARK_MS = 60000 };
/* A step that is taken back: how soon, and how exactly. */
enum { BACK_WITHIN_MS = 3600000, ALIKE_MS = 5000 };
static const int64_t forgotten_ms = 30LL * 24 * 3600 * 1000;

/* Further than any lease lasts: each is then as long as it can be from now on. */
static const int64_t anew_ms = INT64_MAX / 4;

/* What was found, and what follows from it. */
struct clock_view {
    const char *boot; /* as in pg_db */
    int64_t boottime_ms, store_ms, round_trip_ms;
    int64_t clock_steps;
    int64_t server_since; /* when the server that was asked was started */
    bool other_server;    /* than the one in the store */
    bool has_mark;        /* this machine, since the last step */
    int64_t mark_boottime_ms, mark_store_ms;
    int64_t stepped_ms, stepped_at_ms; /* its last step */
    bool doubtful;                     /* its name says nothing: it has none, or two clocks do */
    int64_t by_ms;                     /* the clock was set forward by so much; < 0: back */
    int64_t mark_is_old_ms;
    bool left; /* something was left alone when the clock was set */
};

static int64_t boottime_ms(const struct pg_db *db)
{
    return db->options.clock_ms != NULL ? db->options.uptime_ms(db->options.clock_arg, 1)
                                        : clock_boot_ms();
}

/* A time namespace whose clocks are not known has a time since boot of its own. */
void pg_clock_init(struct pg_db *db)
{
    char boot_id[PROC_BOOT_BYTES];
    pthread_mutex_init(&db->own_mark.mutex, NULL);
    if (proc_boot_id(boot_id) == 0)
        snprintf(db->boot, sizeof db->boot, "%s:%llu", boot_id,
                 (unsigned long long)clock_namespace());
}

void pg_clock_done(struct pg_db *db)
{
    pthread_mutex_destroy(&db->own_mark.mutex);
}

static int64_t ms_to_us(int64_t ms)
{
    return ms * 1000;
}

static int64_t jump_since(const struct clock_view *view, int64_t boottime_ms, int64_t store_ms)
{
    const struct pace_mark from = {.boottime_us = ms_to_us(boottime_ms),
                                   .store_us = ms_to_us(store_ms)};
    const struct pace_mark to = {.boottime_us = ms_to_us(view->boottime_ms),
                                 .store_us = ms_to_us(view->store_ms)};
    return pace_jump(&from, &to, ms_to_us(view->round_trip_ms)) / 1000;
}

static void read_view(struct clock_view *view, const struct clock_look_row *row)
{
    view->store_ms = db_num(row->now);
    view->clock_steps = db_num(row->clock_steps);
    view->server_since = db_num(row->started_at);
    view->other_server = view->server_since != db_num(row->server_since);
    view->mark_boottime_ms = db_num(row->boottime_ms);
    view->mark_store_ms = db_num(row->store_ms);
    view->has_mark = view->mark_boottime_ms != TEND_UNSET;
    view->left = db_num(row->left_alone) != 0;
    view->stepped_ms = db_num(row->stepped_ms);
    view->stepped_at_ms = db_num(row->stepped_at);
    view->doubtful = view->boot[0] == '\0' || db_num(row->doubtful) == 1;
    view->mark_is_old_ms = view->has_mark ? view->boottime_ms - view->mark_boottime_ms : 0;
}

/* Whether the mark in the store was made since this process made its own, and is off although the
 * clock has run evenly here: it is another machine's. */
static bool is_of_another(const struct clock_view *view, const struct pg_own_mark *own)
{
    bool made_since = own->seen_boottime_ms != view->mark_boottime_ms ||
                      own->seen_store_ms != view->mark_store_ms;
    return own->known && made_since && jump_since(view, own->boottime_ms, own->store_ms) == 0;
}

/* By how much the clock was set, as far as the mark of the store tells, or that of this process. */
static int64_t judge(const struct clock_view *view, const struct pg_own_mark *own)
{
    if (!view->doubtful)
        return view->has_mark ? jump_since(view, view->mark_boottime_ms, view->mark_store_ms) : 0;
    return own->known && own->clock_steps == view->clock_steps
               ? jump_since(view, own->boottime_ms, own->store_ms)
               : 0;
}

static void remember(struct pg_own_mark *own, const struct clock_view *view)
{
    own->known = true;
    own->boottime_ms = view->boottime_ms;
    own->store_ms = view->store_ms;
    own->clock_steps = view->clock_steps;
    own->seen_boottime_ms = view->mark_boottime_ms;
    own->seen_store_ms = view->mark_store_ms;
}

/* The mark of this process stays as it is while it tells of a step. */
static void judge_and_remember(struct pg_db *db, struct clock_view *view)
{
    struct pg_own_mark *own = &db->own_mark;
    pthread_mutex_lock(&own->mutex);
    view->by_ms = judge(view, own);
    if (!own->known || view->by_ms == 0)
        remember(own, view);
    else if (!view->doubtful && is_of_another(view, own))
        view->by_ms = 0;
    pthread_mutex_unlock(&own->mutex);
}

/* After a step by the store's mark, which tells of it again if the transaction is undone. */
static void remember_step(struct pg_db *db, const struct clock_view *view)
{
    pthread_mutex_lock(&db->own_mark.mutex);
    if (!view->doubtful)
        remember(&db->own_mark, view);
    pthread_mutex_unlock(&db->own_mark.mutex);
}

/*
 * One measurement: the server's clock was read somewhere between two looks at ours. A slow round
 * trip, or a process that was stopped in between, tells little: it is measured again, and the
 * quickest counts.
 */
static int look(struct db_tx *tx, struct clock_view *view)
{
    struct pg_db *db = (struct pg_db *)tx->db;
    *view = (struct clock_view){.boot = db->boot, .round_trip_ms = INT64_MAX};
    for (int i = 0; i < LOOK_TRIES && view->round_trip_ms > ROUND_TRIP_MS; i++) {
        struct clock_look_rows rows;
        const struct clock_look_params params = {.boot = db_text(view->boot), .now = db_now(tx)};
        int64_t before_ms = boottime_ms(db);
        int rc = run_clock_look(tx, 0, params, &rows);
        if (rc < 0)
            return rc;
        if (rows.count == 0)
            return err_set(tx->err, TEND_ECORRUPT, "the table store has lost its row");
        int64_t round_trip_ms = boottime_ms(db) - before_ms;
        if (round_trip_ms >= view->round_trip_ms)
            continue;
        view->round_trip_ms = round_trip_ms;
        view->boottime_ms = before_ms + round_trip_ms / 2;
        read_view(view, &rows.at[0]);
    }
    judge_and_remember(db, view);
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

/* Whether the mark tells of the last step once more, the other way round, although the server's
 * clock has only gone on since. */
static bool goes_back(const struct clock_view *view)
{
    int64_t since_ms = view->store_ms - view->stepped_at_ms;
    int64_t sum_ms = view->by_ms + view->stepped_ms;
    return view->by_ms != 0 && view->has_mark && !view->doubtful &&
           view->stepped_ms != TEND_UNSET && since_ms >= 0 && since_ms < BACK_WITHIN_MS &&
           sum_ms > -ALIKE_MS && sum_ms < ALIKE_MS;
}

/* By how much leases are to be moved, the one rule for those who move them and those who foretell
 * it; 0: not at all. < 0: none lasts longer than its length from now on. */
static int64_t move_ms(const struct clock_view *view)
{
    if (view->other_server)
        return anew_ms;
    return goes_back(view) ? 0 : view->by_ms;
}

int pg_clock_look(struct db_tx *tx)
{
    struct clock_view view;
    if (db_clock_is_even(tx->db))
        return 0;
    int rc = look(tx, &view);
    return rc < 0 ? rc : must_move(&view) || needs_mark(&view);
}

int pg_clock_owed(struct db_tx *tx, struct db_owed *ret)
{
    struct clock_view view;
    if (db_clock_is_even(tx->db) || ((struct pg_tx *)tx)->writes)
        return 0;
    int rc = look(tx, &view);
    if (rc >= 0 && move_ms(&view) > 0)
        ret->all_ms = move_ms(&view);
    return rc;
}

static int move(struct db_tx *tx, const struct clock_view *view)
{
    int64_t by_ms = move_ms(view);
    int rc;
    if (!view->other_server)
        return clock_move(tx, db_now(tx), by_ms, "clock.stepped",
                          arena_printf(tx->arena, "{\"by_ms\":%lld}", (long long)by_ms));
    const struct clock_server_params server = {.server_since = db_int(view->server_since)};
    if ((rc = each_clock_server(tx, 0, &server, 1, NULL)) < 0)
        return rc;
    return clock_move(
        tx, db_now(tx), by_ms, "server.changed",
        arena_printf(tx->arena, "{\"since_ms\":%lld}", (long long)view->server_since / 1000));
}

/* Gives their full time to those that were left alone before and can be had now. 1: there were any.
 */
static int give_left(struct db_tx *tx)
{
    int64_t leases = 0;
    int64_t locks = 0;
    const struct clock_give_leases_params give_leases = {.now = db_now(tx)};
    const struct clock_give_locks_params give_locks = {.now = db_now(tx)};
    int rc = each_clock_give_leases(tx, 0, &give_leases, 1, &leases);
    if (rc >= 0)
        rc = each_clock_give_locks(tx, 0, &give_locks, 1, &locks);
    return rc < 0 ? rc : leases + locks > 0;
}

/* What to compare with the next time. stepped_ms: by how much leases were moved, or TEND_UNSET. */
static int note(struct db_tx *tx, const struct clock_view *view, int64_t stepped_ms)
{
    const struct clock_note_params mark = {.boot = db_text(view->boot),
                                           .boottime_ms = db_int(view->boottime_ms),
                                           .store_ms = db_int(view->store_ms),
                                           .clock_steps = db_int(view->clock_steps),
                                           .stepped_ms = db_int_or_null(stepped_ms)};
    const struct clock_forget_params old = {.before_steps = db_int(view->clock_steps),
                                            .before_store_ms =
                                                db_int(view->store_ms - forgotten_ms)};
    int rc = view->doubtful ? 0 : each_clock_note(tx, 0, &mark, 1, NULL);
    return rc < 0 ? rc : each_clock_forget(tx, DB_LAST, &old, 1, NULL);
}

static int doubt(struct db_tx *tx, const struct clock_view *view)
{
    const struct clock_doubt_params params = {.boot = db_text(view->boot)};
    int rc = each_clock_doubt(tx, DB_LAST, &params, 1, NULL);
    return rc < 0 ? rc : DB_CLOCK_DOUBTFUL;
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
    if ((rc = run_clock_turn(tx, 0, NULL)) < 0 || (rc = look(tx, &view)) < 0)
        return rc;
    bool moves = move_ms(&view) != 0;
    if (!moves && must_move(&view))
        return doubt(tx, &view);
    int64_t stepped_ms = moves && !view.other_server ? view.by_ms : TEND_UNSET;
    if (moves) {
        if ((rc = move(tx, &view)) < 0)
            return rc;
        remember_step((struct pg_db *)tx->db, &view);
        view.clock_steps++;
    }
    if (moves || view.left) {
        if ((rc = give_left(tx)) < 0)
            return rc;
        moves |= rc > 0;
    }
    rc = note(tx, &view, stepped_ms);
    return rc < 0 ? rc : moves;
}
