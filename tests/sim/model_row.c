/*
 * The rows about steps against the model, and what must hold of them whatever was reported: numbers
 * without gaps, only the newest attempt running, and only under the lease that is held (by the word
 * of the readers); checkpoints from the first step on without a hole, each of an attempt that
 * succeeded.
 */
#include "sim_step.h"

#include <stdio.h>
#include <string.h>

/* Columns of {attempt} in src/store/sql/attempt.sql. */
enum {
    COL_NUMBER = 1,
    COL_STEP_INDEX = 2,
    COL_STEP_ID = 3,
    COL_ATTEMPT = 4,
    COL_TOKEN = 5,
    COL_PID = 9,
    COL_MARKER = 11,
    COL_STATE = 12,
    COL_STRATEGY = 13,
    COL_PERCENT = 24,
};

static void compare_attempt(struct world *world, const struct attempt_model *attempt,
                            const struct db_result *rows, size_t row)
{
    long long id = (long long)attempt->job_id;
    int64_t number = db_number(rows, row, COL_NUMBER);
    int state = (int)db_number(rows, row, COL_STATE);
    char marker[STEP_TEXT];
    snprintf(marker, sizeof marker, "m%d", attempt->serial);
    expect(world, number == (int64_t)row + 1 && number == attempt->number,
           "attempt %zu of job %lld has number %lld", row + 1, id, (long long)number);
    expect(world, state == attempt->state, "attempt %lld of job %lld is %s, must be %s",
           (long long)number, id, tend_attempt_state_name(state),
           tend_attempt_state_name(attempt->state));
    expect(world, state != TEND_ATTEMPT_RUNNING || row + 1 == rows->rows,
           "attempt %lld of job %lld is running, but not the newest", (long long)number, id);
    expect(world, strcmp(db_string(rows, row, COL_MARKER), marker) == 0,
           "attempt %lld of job %lld was begun by another report (%s, not %s)", (long long)number,
           id, db_string(rows, row, COL_MARKER), marker);
    expect(world,
           db_number(rows, row, COL_STEP_INDEX) == attempt->step &&
               strcmp(db_string(rows, row, COL_STEP_ID), step_name(attempt->step)) == 0 &&
               db_number(rows, row, COL_ATTEMPT) == attempt->attempt &&
               db_number(rows, row, COL_TOKEN) == attempt->token &&
               strcmp(db_string(rows, row, COL_STRATEGY), attempt->strategy) == 0,
           "attempt %lld of job %lld is not what was begun", (long long)number, id);
    expect(world,
           db_number(rows, row, COL_PID) == attempt->pid &&
               db_number(rows, row, COL_PERCENT) == attempt->percent,
           "attempt %lld of job %lld has another process or progress than was told",
           (long long)number, id);
}

static void compare_attempts(struct world *world, const struct job_model *job,
                             const struct db_result *rows)
{
    const struct attempt_model *attempt = NULL;
    int at = job->newest;
    for (size_t row = rows->rows; row-- > 0; at = attempt->before) {
        expect(world, at >= 0, "job %lld has %zu attempts, more than were begun",
               (long long)job->id, rows->rows);
        attempt = &world->attempts[at];
        compare_attempt(world, attempt, rows, row);
    }
    expect(world, at < 0, "attempt %lld of job %lld is not in the store",
           (long long)world->attempts[at].number, (long long)job->id);
}

static void compare_checkpoint(struct world *world, const struct job_model *job, int step,
                               const struct db_result *rows, size_t row)
{
    const struct checkpoint_model *checkpoint = &job->checkpoints[step];
    const char *sign = db_string(rows, row, step == 0 ? 8 : 4);
    char text[STEP_TEXT];
    char patch[STEP_TEXT];
    int64_t patch_bytes = step_patch(patch, sizeof patch, step, checkpoint->serial);
    snprintf(text, sizeof text, "%c%d", step == 0 ? 'c' : 'd', checkpoint->serial);
    expect(world,
           db_number(rows, row, 2) == checkpoint->number && sign != NULL && strcmp(sign, text) == 0,
           "the checkpoint of step %d of job %lld is of attempt %lld (%s), must be of %lld (%s)",
           step, (long long)job->id, (long long)db_number(rows, row, 2), sign == NULL ? "" : sign,
           (long long)checkpoint->number, text);
    expect(world, step == 0 || db_number(rows, row, 9) == patch_bytes,
           "the patch of step %d of job %lld has another length than was given", step,
           (long long)job->id);
    expect(world, step < 2 || job->checkpoints[step - 1].serial != 0,
           "job %lld has a checkpoint of step %d, but none of the step before", (long long)job->id,
           step);
    if (checkpoint->number == 0)
        return;
    const struct attempt_model *attempt = model_attempt(world, job, checkpoint->number);
    expect(
        world, attempt != NULL && attempt->step == step && attempt->state == TEND_ATTEMPT_SUCCEEDED,
        "job %lld has a checkpoint of step %d, which has not succeeded", (long long)job->id, step);
}

static void compare_checkpoints(struct world *world, const struct job_model *job,
                                const struct db_result *rows)
{
    size_t row = 0;
    for (int step = 0; step <= MAX_STEPS; step++) {
        bool there = row < rows->rows && db_number(rows, row, 0) == step;
        expect(world, there == (job->checkpoints[step].serial != 0),
               "step %d of job %lld has %s checkpoint", step, (long long)job->id,
               there ? "a" : "no");
        if (there)
            compare_checkpoint(world, job, step, rows, row++);
    }
    expect(world, row == rows->rows, "job %lld has checkpoints of steps it does not have",
           (long long)job->id);
}

static void compare_output(struct world *world, const struct job_model *job,
                           const struct db_result *rows)
{
    size_t pieces = 0;
    for (int i = job->newest; i >= 0; i = world->attempts[i].before)
        for (int k = 0; k < MAX_PIECES; k++)
            pieces += world->attempts[i].pieces[k] != 0;
    expect(world, rows->rows == pieces, "job %lld has %zu pieces of output, must be %zu",
           (long long)job->id, rows->rows, pieces);
    for (size_t row = 0; row < rows->rows; row++) {
        const struct attempt_model *attempt = model_attempt(world, job, db_number(rows, row, 0));
        int64_t seq = db_number(rows, row, 1);
        char text[STEP_TEXT] = "";
        if (attempt != NULL && seq >= 1 && seq <= MAX_PIECES)
            snprintf(text, sizeof text, "o%d", attempt->pieces[seq - 1]);
        expect(world, strcmp(db_string(rows, row, 5), text) == 0,
               "piece %lld of attempt %lld of job %lld is '%s', must be '%s'", (long long)seq,
               (long long)db_number(rows, row, 0), (long long)job->id, db_string(rows, row, 5),
               text);
    }
}

int model_read_steps(struct db_tx *tx, int64_t job_id, struct step_rows *rows)
{
    const struct db_value params[] = {db_int(job_id), db_int(0), db_int(0), db_int(100000)};
    int rc = db_run(tx, Q_ATTEMPT_LIST, DB_LATER, params, &rows->attempts);
    if (rc == 0)
        rc = db_run(tx, Q_CHECKPOINT_LIST, DB_LATER, params, &rows->checkpoints);
    if (rc == 0)
        rc = db_run(tx, Q_OUTPUT_READ, DB_LATER, params, &rows->output);
    return rc < 0 ? rc : db_run(tx, Q_CONTROL_LIST, 0, params, &rows->controls);
}

void model_compare_steps(struct world *world, const struct op *op, const struct job_model *job,
                         const struct step_rows *rows, int64_t now_ms)
{
    compare_attempts(world, job, &rows->attempts);
    compare_checkpoints(world, job, &rows->checkpoints);
    compare_output(world, job, &rows->output);
    model_compare_controls(world, op, job, &rows->controls, now_ms);
}

int model_step_read(struct world *world, const struct op *op, struct sight *sight, struct db_tx *tx)
{
    int rc = 0;
    /* What is not about steps leaves them alone; a look now and then, and one in the end. */
    if (op->kind < OP_STEP_NEXT && world->calls % 8 != 0)
        return 0;
    sight->steps = arena_zalloc(db_arena(tx), (sight->row_count + 1) * sizeof *sight->steps);
    for (size_t i = 0; rc == 0 && i < sight->row_count; i++)
        rc = model_read_steps(tx, sight->rows[i].id, &sight->steps[i]);
    return rc;
}

void model_step_rows(struct world *world, const struct op *op, const struct sight *sight,
                     int64_t now_ms)
{
    for (size_t i = 0; sight->steps != NULL && i < sight->row_count; i++)
        model_compare_steps(world, op, model_job(world, sight->rows[i].id), &sight->steps[i],
                            now_ms);
}
