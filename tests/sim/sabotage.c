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
    }
}

bool sabotage_forgets(struct world *world, enum db_query query)
{
    return query == Q_JOB_HEARTBEAT && world->sabotage == SABOTAGE_HEARTBEAT_FORGOTTEN;
}

bool sabotage_forgets_commit(struct world *world)
{
    return world->sabotage == SABOTAGE_COMMIT_FORGOTTEN && chance(world, 200);
}

void sabotage_result(struct world *world, enum db_query query, struct db_result *result,
                     struct arena *arena)
{
    if (query != Q_RUNNING_IN_QUEUE || world->sabotage != SABOTAGE_LIMIT_IGNORED)
        return;
    struct db_value *row = arena_alloc(arena, result->columns * sizeof *row);
    memcpy(row, result->values, result->columns * sizeof *row);
    row[0] = db_int(0);
    result->values = row;
}
