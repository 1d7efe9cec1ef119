/* What must hold when a history is over and everything has been drained. */
#include "sim_step.h"

#include <string.h>

/* BY-2: what was acknowledged is there. */
static void check_adds(struct world *world)
{
    for (int i = 1; i < world->add_count; i++) {
        const struct add_model *add = &world->adds[i];
        if (add->acked_id == 0)
            continue;
        const struct job_model *job = model_job(world, add->acked_id);
        expect(world, job != NULL, "payload %d was acknowledged as job %lld, which is lost", i,
               (long long)add->acked_id);
        expect(world, job->queue == add->queue && job->unique == add->unique,
               "payload %d was acknowledged as job %lld, which is another", i,
               (long long)add->acked_id);
    }
}

static void check_jobs(struct world *world)
{
    for (size_t i = 0; i < world->job_count; i++) {
        const struct job_model *job = &world->jobs[i];
        expect(world, state_is_finished(job->state), "job %lld is still %s", (long long)job->id,
               tend_state_name((int)job->state));
        expect(world, (job->state == JOB_DONE) == (job->completions == 1),
               "job %lld is %s after %d completions", (long long)job->id,
               tend_state_name((int)job->state), job->completions);
    }
}

/* Everything the store has at the end, read once more as a whole. */
static int last_look_body(struct db_tx *tx, void *arg)
{
    struct world *world = arg;
    struct db_result rows;
    const struct db_value now[] = {db_now(tx)};
    const struct db_value all[] = {db_null(), db_int(0), db_null(),       db_null(),
                                   db_null(), db_int(0), db_int(1000000), db_int(INT64_MAX)};
    int rc = db_run(tx, Q_WORKER_LIST, 0, now, &rows);
    expect(world, rc == 0 && rows.rows == 0, "%zu workers are still registered", rows.rows);
    rc = db_run(tx, Q_LOCK_LIST, 0, now, &rows);
    expect(world, rc == 0 && rows.rows == 0, "%zu locks are still held", rows.rows);
    rc = db_run(tx, Q_JOB_LIST, 0, all, &rows);
    expect(world, rc == 0 && rows.rows == world->job_count, "the store has %zu jobs, must be %zu",
           rows.rows, world->job_count);
    for (size_t i = 0; i < rows.rows; i++) {
        struct db_result chain;
        const struct db_value id[] = {db_int(db_number(&rows, i, 0)), db_int(1000000)};
        const struct job_model *job = model_job(world, id[0].number);
        rc = db_run(tx, Q_EVENT_OF_JOB, 0, id, &chain);
        expect(world, rc == 0 && job != NULL && (int64_t)chain.rows == job->events,
               "the history of job %lld has %zu events, must be %lld", (long long)id[0].number,
               chain.rows, job == NULL ? -1LL : (long long)job->events);
        struct step_rows steps;
        if (job->newest < 0 && i % 8 != 0)
            continue;
        rc = model_read_steps(tx, job->id, &steps);
        expect(world, rc == 0, "the steps of job %lld cannot be read", (long long)job->id);
        model_compare_steps(world, NULL, job, &steps, 0);
    }
    return 0;
}

void model_finished(struct world *world)
{
    struct arena arena;
    struct err err;
    check_adds(world);
    check_jobs(world);
    arena_init(&arena);
    int rc = db_read(world->observer, &arena, last_look_body, world, &err);
    expect(world, rc == 0, "the observer cannot read the store: %s", err.text);
    arena_done(&arena);
}
