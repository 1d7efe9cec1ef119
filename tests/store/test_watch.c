/*
 * tend_wait_jobs: what wakes it, and what it tells of jobs that are waited for. Real clock; every
 * wait is for a condition, within PATIENCE_MS.
 */
#include "support/store.h"

#include <pthread.h>
#include <stdlib.h>

static struct tend_watch watch_of(int64_t id)
{
    return (struct tend_watch){.id = id};
}

/* Until the job is in this state; every answer must be a change. */
static void wait_for_state(tend *t, struct tend_watch *job, int state)
{
    do {
        struct tend_watch before = *job;
        check_rc(t, tend_wait_jobs(t, job, 1, PATIENCE_MS), 1);
        check(job->version > before.version || job->state != before.state);
    } while (job->state != state);
}

TEST(watch, the_first_call_answers_at_once_with_all_states)
{
    tend *t = store_open("w");
    struct tend_job_spec later = spec_for("q");
    later.delay_ms = HOUR_MS;
    struct tend_watch jobs[] = {watch_of(add_spec(t, &later)), watch_of(add_one(t, "other")),
                                watch_of(4711)};
    jobs[0].state = TEND_SCHEDULED; /* of what was not seen yet, nothing is read */
    check_rc(t, tend_wait_jobs(t, jobs, 3, -1), 3);
    check_int(jobs[0].state, ==, TEND_SCHEDULED);
    check_int(jobs[1].state, ==, TEND_PENDING);
    check_int(jobs[2].state, ==, -1);
    check_rc(t, tend_wait_jobs(t, jobs, 3, 0), 0);
    /* Only what is asked for changes. */
    check_ok(t, tend_act(t, TEND_CANCEL, jobs[1].id, NULL, NULL));
    check_rc(t, tend_wait_jobs(t, jobs, 3, PATIENCE_MS), 1);
    check_int(jobs[1].state, ==, TEND_CANCELLED);
}

TEST(watch, a_time_that_is_over_is_no_change)
{
    tend *t = store_open_real("w");
    struct tend_watch job = watch_of(add_one(t, "q"));
    check_rc(t, tend_wait_jobs(t, &job, 1, 0), 1);
    struct tend_watch before = job;
    add_one(t, "q"); /* it rings the same bell */
    check_rc(t, tend_wait_jobs(t, &job, 1, 100), 0);
    check_int(job.version, ==, before.version);
    check_int(job.state, ==, before.state);
}

TEST(watch, every_move_of_a_job_is_told)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    struct tend_watch job = watch_of(add_one(t, "q"));
    wait_for_state(t, &job, TEND_PENDING);
    check_ok(t, tend_act(t, TEND_HOLD, job.id, NULL, NULL));
    wait_for_state(t, &job, TEND_HELD);
    check_ok(t, tend_act(t, TEND_RESUME, job.id, NULL, NULL));
    wait_for_state(t, &job, TEND_PENDING);
    struct tend_lease lease = claim_one(t, "q");
    wait_for_state(t, &job, TEND_RUNNING);
    tend_failure_init(&failure);
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    wait_for_state(t, &job, TEND_SCHEDULED);
    clock_advance(HOUR_MS);
    lease = claim_one(t, "q");
    wait_for_state(t, &job, TEND_RUNNING);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    wait_for_state(t, &job, TEND_DONE);
}

TEST(watch, a_job_that_is_deleted_is_told_as_gone)
{
    tend *t = store_open("w");
    set_queue(t, "q", "keep-done", "1s");
    struct tend_watch job = watch_of(add_one(t, "q"));
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    wait_for_state(t, &job, TEND_DONE);
    clock_advance(HOUR_MS);
    check_ok(t, tend_purge(t, NULL));
    wait_for_state(t, &job, -1);
}

struct sleeper {
    tend *t;
    pthread_t thread;
    struct tend_watch job;
    int rc;
};

static void *sleep_for_job(void *arg)
{
    struct sleeper *sleeper = arg;
    do
        sleeper->rc = tend_wait_jobs(sleeper->t, &sleeper->job, 1, -1);
    while (sleeper->rc > 0 && sleeper->job.state != TEND_DONE);
    return NULL;
}

/* The end of a short job rings no bell. */
TEST(watch, the_end_of_a_short_job_is_told_to_another_handle)
{
    tend *t = store_open_real("w");
    struct sleeper sleeper = {.t = store_open_real("v"), .job = watch_of(add_one(t, "q"))};
    check_int(pthread_create(&sleeper.thread, NULL, sleep_for_job, &sleeper), ==, 0);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    pthread_join(sleeper.thread, NULL);
    check_rc(sleeper.t, sleeper.rc, 1);
}

TEST(watch, an_interrupt_ends_it)
{
    tend *t = store_open_real("w");
    struct sleeper sleeper = {.t = t, .job = watch_of(add_one(t, "q"))};
    check_int(pthread_create(&sleeper.thread, NULL, sleep_for_job, &sleeper), ==, 0);
    while (pthread_tryjoin_np(sleeper.thread, NULL) != 0) {
        tend_interrupt(t);
        test_pause();
    }
    check_int(sleeper.rc, ==, TEND_EINTERRUPTED);
}

static void hold_job(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("victim");
    helper_say(parent, claim_one(t, "q").id);
    helper_hear(parent);
}

TEST(watch, RC_13_who_waits_takes_back_what_a_killed_worker_held)
{
    tend *t = store_open_real("w");
    struct tend_watch job = watch_of(add_one(t, "q"));
    struct helper worker = helper_start(hold_job, NULL);
    check_int(helper_hear(&worker), ==, job.id);
    wait_for_state(t, &job, TEND_RUNNING);
    helper_kill(&worker);
    wait_for_state(t, &job, TEND_PENDING);
    check_int(job_of(t, job.id)->crashes, ==, 1);
}

TEST(watch, many_jobs_are_waited_for_at_once)
{
    enum { MANY = 3000 };
    tend *t = store_open("w");
    struct tend_watch *jobs = calloc(MANY, sizeof *jobs);
    struct tend_lease *leases = calloc(MANY, sizeof *leases);
    add_number(t, "q", MANY);
    check_int(claim_many(t, "q", MANY, leases), ==, MANY);
    for (int i = 0; i < MANY; i++)
        jobs[i] = watch_of(leases[MANY - 1 - i].id);
    check_rc(t, tend_wait_jobs(t, jobs, MANY, -1), MANY);
    check_ok(t, tend_complete(t, leases, 7, NULL, NULL));
    check_rc(t, tend_wait_jobs(t, jobs, MANY, -1), 7);
    for (int i = 0; i < MANY; i++)
        check_int(jobs[i].state, ==, i >= MANY - 7 ? TEND_DONE : TEND_RUNNING);
    free(jobs);
    free(leases);
}

TEST(watch, bad_calls_are_refused)
{
    tend *t = store_open("w");
    struct tend_watch job = watch_of(1);
    check_int(tend_wait_jobs(t, &job, 0, -1), ==, TEND_EINVAL);
    check_int(tend_wait_jobs(t, &job, SIZE_MAX, -1), ==, TEND_EINVAL);
    check_int(tend_wait_jobs(t, &job, 1, -2), ==, TEND_EINVAL);
}
