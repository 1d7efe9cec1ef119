#include "queue/move.h"

#include "queue/submission.h"
#include "store/queries.h"

struct move move_plain(int64_t id, enum job_state from, int64_t token, enum job_move verb,
                       uint64_t bells)
{
    return (struct move){.id = id,
                         .from = from,
                         .token = token,
                         .verb = verb,
                         .bells = bells,
                         .delay_ms = TEND_UNSET,
                         .crashes = TEND_UNSET};
}

static int fill_params(struct db_tx *tx, const struct move *move, struct job_move_params *params)
{
    const struct state_row *row;
    int rc = state_move(move->from, move->verb, &row);
    if (rc < 0)
        return err_set(db_err(tx), rc, "job %lld is %s, which does not allow to %s it",
                       (long long)move->id, state_name(move->from), move_name(move->verb));
    *params = (struct job_move_params){
        .id = db_int(move->id),
        .old_state = db_int(move->from),
        .token = db_int(move->token),
        .new_state = db_int(row->to),
        .bump = db_int(row->bumps_token),
        .delay_ms = db_int_or_null(move->delay_ms),
        .attempts = move->attempts == ATTEMPTS_START_OVER ? db_null() : db_int(move->attempts),
        .crashes = db_int_or_null(move->crashes),
        .error_class = db_text(move->error_class),
        .error_text = db_text(move->error_text),
        .who = db_text(move->by),
        .why = db_text(move->why),
        .now = db_now(tx),
        .what = db_text(row->event),
    };
    return 0;
}

/* Runs that did not end because a submission waits for that: they end, and it is carried out. */
static int move_followed(struct db_tx *tx, struct move *moves, const struct job_move_params *params,
                         size_t count, int64_t *each)
{
    for (size_t i = 0; i < count; i++) {
        const struct tend_lease lease = {.id = moves[i].id, .token = moves[i].token};
        int64_t lifted = 0;
        int rc = 0;
        if (each[i] != 0 || moves[i].from != JOB_RUNNING)
            continue;
        if ((rc = submission_lift(tx, lease, &lifted)) < 0)
            return rc;
        if (lifted == 0)
            continue;
        if ((rc = each_job_move(tx, 0, &params[i], 1, &each[i])) < 0 ||
            (rc = run_ended(tx, lease.id, &moves[i].follower)) < 0)
            return rc;
    }
    return 0;
}

/*
 * The runs of move_followed are not among the rows that job_move locks, and come after all of them
 * with whatever ids they have. So where there may be one, all are locked first, by id
 * (store/pg_order.c).
 */
static int lock_by_id(struct db_tx *tx, const struct move *moves, size_t count)
{
    bool any_runs = false;
    if (count < 2 || !db_concurrent(tx))
        return 0;
    struct job_lock_rows_params *ids = arena_alloc(db_arena(tx), count * sizeof *ids);
    if (ids == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while moving %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        ids[i] = (struct job_lock_rows_params){.id = db_int(moves[i].id)};
        any_runs |= moves[i].from == JOB_RUNNING;
    }
    return any_runs ? each_job_lock_rows(tx, DB_LATER, ids, count, NULL) : 0;
}

/* Jobs that are started over: whether a hook has done it. */
static int mark_redriven(struct db_tx *tx, const struct move *moves, size_t count,
                         const int64_t *each)
{
    size_t marked = 0;
    struct hook_retry_params *marks = arena_alloc(db_arena(tx), (count + 1) * sizeof *marks);
    if (marks == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while moving %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        if (each[i] == 0 || (moves[i].verb != MOVE_REDRIVE && moves[i].verb != MOVE_REDRIVE_LATER))
            continue;
        marks[marked++] =
            (struct hook_retry_params){.id = db_int(moves[i].id), .hook = db_text(moves[i].hook)};
    }
    return marked == 0 ? 0 : each_hook_retry(tx, DB_LATER, marks, marked, NULL);
}

int move_jobs(struct db_tx *tx, struct move *moves, size_t count, unsigned how, int64_t *ret_each)
{
    int64_t *each =
        ret_each != NULL ? ret_each : arena_zalloc(db_arena(tx), (count + 1) * sizeof *each);
    struct job_move_params *params = arena_alloc(db_arena(tx), count * sizeof *params);
    if (params == NULL || each == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while moving %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        int rc = fill_params(tx, &moves[i], &params[i]);
        if (rc < 0)
            return rc;
        db_ring(tx, moves[i].bells);
    }
    int rc = how == 0 ? lock_by_id(tx, moves, count) : 0;
    if (rc >= 0)
        rc = each_job_move(tx, how, params, count, each);
    if (rc < 0 || how != 0 || (rc = move_followed(tx, moves, params, count, each)) < 0)
        return rc;
    return mark_redriven(tx, moves, count, each);
}
