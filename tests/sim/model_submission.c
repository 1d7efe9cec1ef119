/*
 * CL-7: what is submitted under the key of a running job. The newest is remembered, and carried out
 * in the commit in which the run ends, whoever ends it and however: as a job of its own when that
 * one has finished, by the job itself when it goes on.
 */
#include "sim.h"

/* The one add of the call that has a key. */
static int keyed_add(const struct world *world, const struct op *op)
{
    int number = 0;
    for (int i = op->first_add; i < op->first_add + (int)op->add_count; i++)
        if (world->adds[i].unique != 0)
            number = i;
    return number;
}

void model_submitted(struct world *world, const struct op *op, struct job_model *job,
                     int64_t now_ms)
{
    int number = keyed_add(world, op);
    const struct add_model *add = &world->adds[number];
    expect(world, job->state == JOB_RUNNING, "something waits for the end of job %lld, which is %s",
           (long long)job->id, tend_state_name((int)job->state));
    expect(world,
           number != 0 && !add->keep && add->unique == job->unique && add->subject == job->subject,
           "payload %d was submitted to job %lld", number, (long long)job->id);
    job->followed = number;
    job->followed_due_ms = now_ms + add->delay_ms;
}

void model_run_over(struct job_model *job)
{
    job->owed = job->followed;
    job->followed = 0;
}

/* The job whose end brings this payload into the world; it is not owed any more. */
struct job_model *model_owes(struct world *world, int payload)
{
    for (size_t i = 0; i < world->job_count; i++)
        if (world->jobs[i].owed == payload && payload != 0) {
            world->jobs[i].owed = 0;
            return &world->jobs[i];
        }
    return NULL;
}

void model_nothing_owed(struct world *world)
{
    for (size_t i = 0; i < world->job_count; i++)
        expect(world, world->jobs[i].owed == 0,
               "payload %d, submitted while job %lld ran, was lost when that ended",
               world->jobs[i].owed, (long long)world->jobs[i].id);
}
