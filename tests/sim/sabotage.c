/*
 * Deliberate defects between the library and the store. A history with one of them must fail; a
 * simulation that does not see them would prove nothing.
 */
#include "sim.h"

#include <string.h>

const char *const sabotage_names[SABOTAGE_COUNT] = {
    [SABOTAGE_NONE] = "none",
    [SABOTAGE_UNFENCED_COMPLETE] = "unfenced-complete",
    [SABOTAGE_UNFENCED_RELEASE] = "unfenced-release",
    [SABOTAGE_TOKEN_KEPT] = "token-kept",
    [SABOTAGE_CRASH_UNCOUNTED] = "crash-uncounted",
    [SABOTAGE_COMMIT_FORGOTTEN] = "commit-forgotten",
    [SABOTAGE_HEARTBEAT_FORGOTTEN] = "heartbeat-forgotten",
    [SABOTAGE_HASTY_RECOVERY] = "hasty-recovery",
    [SABOTAGE_LOCK_STOLEN] = "lock-stolen",
    [SABOTAGE_RELEASE_CHARGED] = "release-charged",
    [SABOTAGE_LIMIT_IGNORED] = "limit-ignored",
    [SABOTAGE_BELL_SILENT] = "bell-silent",
    [SABOTAGE_UNFENCED_STEP] = "unfenced-step",
    [SABOTAGE_UNFENCED_OUTPUT] = "unfenced-output",
    [SABOTAGE_CHECKPOINT_FORGOTTEN] = "checkpoint-forgotten",
    [SABOTAGE_STEP_REPEATED] = "step-repeated",
    [SABOTAGE_LOSS_UNTOLD] = "loss-untold",
    [SABOTAGE_CONTROL_FORGOTTEN] = "control-forgotten",
    [SABOTAGE_CONTROL_KEPT] = "control-kept",
    [SABOTAGE_PURGE_LEAVES] = "purge-leaves",
    [SABOTAGE_SUBMISSION_FORGOTTEN] = "submission-forgotten",
    [SABOTAGE_LEASES_NOT_MOVED] = "leases-not-moved",
    [SABOTAGE_FREEZE_FORGOTTEN] = "freeze-forgotten",
    [SABOTAGE_GENERATION_KEPT] = "generation-kept",
    [SABOTAGE_MADE_ALIKE] = "made-alike",
    [SABOTAGE_FORK_UNNOTICED] = "fork-unnoticed",
};

/* Parameters of job_move, counted from 0 (src/store/sql/job.sql). */
enum { MOVE_TOKEN = 2, MOVE_BUMP = 4, MOVE_ATTEMPTS = 6, MOVE_CRASHES = 7, MOVE_WHAT = 13 };

static void take_any_token(struct world *world, struct db_value *row, int at)
{
    const struct job_model *job = model_job(world, row[0].number);
    if (job != NULL)
        row[at] = db_int(job->token);
}

static bool is_move(const struct db_value *row, const char *what)
{
    return row[MOVE_WHAT].bytes == strlen(what) &&
           memcmp(row[MOVE_WHAT].text, what, row[MOVE_WHAT].bytes) == 0;
}

static void sabotage_move(struct world *world, struct db_value *row)
{
    switch (world->sabotage) {
    case SABOTAGE_UNFENCED_RELEASE:
        if (is_move(row, "job.released"))
            take_any_token(world, row, MOVE_TOKEN);
        break;
    case SABOTAGE_TOKEN_KEPT:
        row[MOVE_BUMP] = db_int(0);
        break;
    case SABOTAGE_CRASH_UNCOUNTED:
        if (is_move(row, "job.recovered"))
            row[MOVE_CRASHES] = db_null();
        break;
    case SABOTAGE_RELEASE_CHARGED:
        if (is_move(row, "job.released"))
            row[MOVE_ATTEMPTS] = db_int(1);
        break;
    default:
        break;
    }
}

void sabotage_params(struct world *world, enum db_query query, struct db_value *params,
                     size_t width, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct db_value *row = &params[i * width];
        if (query == Q_JOB_MOVE)
            sabotage_move(world, row);
        if (query == Q_JOB_COMPLETE && world->sabotage == SABOTAGE_UNFENCED_COMPLETE)
            take_any_token(world, row, 1);
        if (query == Q_JOB_ALARMS && world->sabotage == SABOTAGE_HASTY_RECOVERY)
            row[0].number += 2000;
        if (query == Q_LOCK_ACQUIRE && world->sabotage == SABOTAGE_LOCK_STOLEN)
            row[5].number += 3600000;
        if (query == Q_JOB_ADD_SUBMITTED && world->sabotage == SABOTAGE_SUBMISSION_FORGOTTEN)
            row[0] = db_int(0);
        if (query == Q_OUTPUT_ADD && world->sabotage == SABOTAGE_UNFENCED_OUTPUT)
            take_any_token(world, row, 1);
        if (query == Q_ATTEMPT_END && world->sabotage == SABOTAGE_LOSS_UNTOLD &&
            row[2].number == TEND_ATTEMPT_LOST)
            row[2] = db_int(TEND_ATTEMPT_STOPPED);
    }
}

bool sabotage_forgets(struct world *world, enum db_query query)
{
    static const struct {
        enum sabotage sabotage;
        enum db_query query;
    } forgotten[] = {{SABOTAGE_HEARTBEAT_FORGOTTEN, Q_JOB_HEARTBEAT},
                     {SABOTAGE_CHECKPOINT_FORGOTTEN, Q_CHECKPOINT_PUT},
                     {SABOTAGE_CONTROL_FORGOTTEN, Q_CONTROL_DONE},
                     {SABOTAGE_CONTROL_KEPT, Q_CONTROL_CLOSE},
                     {SABOTAGE_PURGE_LEAVES, Q_ATTEMPT_DELETE},
                     {SABOTAGE_GENERATION_KEPT, Q_STORE_BEGIN_GENERATION}};
    for (size_t i = 0; i < sizeof forgotten / sizeof *forgotten; i++)
        if (forgotten[i].sabotage == world->sabotage && forgotten[i].query == query)
            return true;
    return false;
}

bool sabotage_forgets_commit(struct world *world)
{
    return world->sabotage == SABOTAGE_COMMIT_FORGOTTEN && chance(world, 200);
}

void sabotage_commit(struct world *world)
{
    if (world->sabotage == SABOTAGE_LEASES_NOT_MOVED)
        undo_step(world->url, world->last_event_id);
}

void sabotage_not_saved(struct world *world)
{
    if (world->sabotage == SABOTAGE_FREEZE_FORGOTTEN)
        wipe_clock(world->url);
}

static void put(struct db_result *result, struct arena *arena, size_t column, int64_t number)
{
    size_t count = result->rows * result->columns;
    struct db_value *values = arena_alloc(arena, count * sizeof *values);
    memcpy(values, result->values, count * sizeof *values);
    values[column] = db_int(number);
    result->values = values;
}

void sabotage_result(struct world *world, const struct actor *actor, enum db_query query,
                     struct db_result *result, struct arena *arena)
{
    const struct op *op = &actor->op;
    if (query == Q_RUNNING_IN_QUEUE && world->sabotage == SABOTAGE_LIMIT_IGNORED)
        put(result, arena, 0, 0);
    if (query == Q_STEP_FENCE && world->sabotage == SABOTAGE_UNFENCED_STEP && result->rows > 0 &&
        op->lease_count > 0 && result->values[0].number == JOB_RUNNING)
        put(result, arena, 1, op->leases[0].token);
    if (query == Q_CHECKPOINT_LIST && world->sabotage == SABOTAGE_STEP_REPEATED && result->rows > 0)
        result->rows--;
}
