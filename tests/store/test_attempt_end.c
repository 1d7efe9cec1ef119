/*
 * The end of a job along with its last step: completed, failed by the policy of its queue (SH-11),
 * given back, or held (SH-12); and the migration that brought the steps.
 */
#include "steps.h"

#include "store/db_engine.h"

#include <stdlib.h>

static void finish_with(tend *t, struct tend_lease lease, int state,
                        const struct tend_step_close *close, int64_t *ret_due_ms)
{
    const struct tend_attempt_end ended = end_of(begin_step(t, lease, 1, "build"), state);
    const struct tend_step_change change = {.ended = &ended};
    check_ok(t, tend_step_finish(t, lease, &change, close, ret_due_ms));
    const char *before = store_snapshot();
    check_ok(t,
             tend_step_finish(t, lease, &change, close, ret_due_ms)); /* repeated: as the first */
    check_str(store_snapshot(), before);
}

TEST(attempt, the_job_is_completed_with_its_last_step)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE, .result = "{\"x\":1}"};
    finish_with(t, lease, TEND_ATTEMPT_SUCCEEDED, &close, NULL);
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->state, ==, TEND_DONE);
    check_str(job->result, "{\"x\":1}");
    check_int(job->attempts, ==, 1);
    check_str(steps_done(lease.id), "1 ");
    check_str(events_of(t, lease.id), "job.added job.claimed task.step.attempt.started "
                                      "task.step.attempt.finished job.completed");
}

/* The lock of a serial queue was taken along, by another handle: it ends with the job. */
TEST(attempt, a_job_under_a_processing_lock_is_completed_and_the_lock_given_up)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    set_queue(t, "q", "serial", "on");
    struct tend_lease plain_first;
    add_one(other, "plain");
    plain_first = claim_one(other, "plain"); /* a handle all of whose claims were plain */
    complete_job(other, plain_first);
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE};
    finish_with(other, lease, TEND_ATTEMPT_SUCCEEDED, &close, NULL);
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    check_int(tend_lock_get(t, "queue:q", NULL), ==, 0);
}

/* SH-11: the queue's own attempts and backoff take over. */
TEST(attempt, SH_11_the_job_fails_with_its_last_step_by_the_policy_of_the_queue)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.error_class = "stuck_no_progress";
    failure.text = "went round in circles";
    failure.retry_in_ms = 5000;
    const struct tend_step_close close = {.how = TEND_STEPS_FAIL, .failure = &failure};
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t due_ms = -1;
    finish_with(t, lease, TEND_ATTEMPT_FAILED, &close, &due_ms);
    check_int(due_ms, ==, clock_now() + 5000);
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->state, ==, TEND_SCHEDULED);
    check_str(job->error_class, "stuck_no_progress");
    check_int(job->attempts, ==, 1);
    clock_advance(5000);

    struct tend_lease next = claim_as(t, "q", "owner");
    check_int(next.id, ==, lease.id);
    failure.final = 1;
    finish_with(t, next, TEND_ATTEMPT_FAILED, &close, &due_ms);
    check_int(due_ms, ==, TEND_UNSET);
    check_int(state_of(t, lease.id), ==, TEND_FAILED);
    check_int(attempts_of(t, lease.id)->items[1].number, ==, 2);
}

TEST(attempt, a_worker_that_stops_gives_the_job_back_free_of_charge)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_step_close close = {.how = TEND_STEPS_RELEASE, .why = "drain"};
    finish_with(t, lease, TEND_ATTEMPT_STOPPED, &close, NULL);
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->attempts, ==, 0);
    check_int(job->crashes, ==, 0);
    check_str(last_event_of(t, lease.id)->why, "drain");
    check_int(attempts_of(t, lease.id)->items[0].state, ==, TEND_ATTEMPT_STOPPED);
    check_str(steps_done(lease.id), "");
}

/* SH-12: paused by its owner, at a boundary. */
TEST(attempt, SH_12_the_owner_holds_its_job_free_of_charge_and_it_goes_on_when_resumed)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    pass_step(t, lease, 1, "build");
    const struct tend_step_close close = {.how = TEND_STEPS_HOLD, .why = "paused by ann"};
    const struct tend_attempt_end ended =
        end_of(begin_step(t, lease, 2, "step-2"), TEND_ATTEMPT_STOPPED);
    const struct tend_step_change change = {.ended = &ended};
    check_ok(t, tend_step_finish(t, lease, &change, &close, NULL));
    const char *before = store_snapshot();
    check_ok(t, tend_step_finish(t, lease, &change, &close, NULL));
    check_str(store_snapshot(), before);
    const struct tend_job *job = job_of(t, lease.id);
    check_int(job->state, ==, TEND_HELD);
    check_int(job->attempts, ==, 0);
    check_str(job->changed_why, "paused by ann");
    check_str(job->changed_by, "owner");
    check_ok(t, tend_act(t, TEND_RESUME, lease.id, NULL, NULL));
    check_rc(t, tend_step_finish(t, lease, &change, &close, NULL), TEND_ELEASELOST);
    struct tend_lease next = claim_one(t, "q");
    check_int(next.id, ==, lease.id);
    check_str(steps_done(lease.id), "1 ");
    check_int(begin_step(t, next, 2, "step-2"), ==, 3);
}

/* --- the migration --- */

static void run_migration(const char *text)
{
    char *sql = malloc(2 * strlen(text) + 1);
    char *end = sql;
    while (*text != '\0') {
        if (strncmp(text, "{schema}", 8) == 0) {
            end = stpcpy(end, store_schema());
            text += 8;
        } else if (strncmp(text, "{bell}", 6) == 0) {
            end = stpcpy(end, "1");
            text += 6;
        } else {
            *end++ = *text++;
        }
    }
    *end = '\0';
    sql_exec("%s", sql);
    free(sql);
}

/* A store as an earlier version made it, with jobs in it. */
static void make_version(int version)
{
    if (store_is_postgres())
        sql_exec("CREATE SCHEMA %s", store_schema());
    for (int i = 0; i < version; i++)
        run_migration((store_is_postgres() ? db_migrations_postgres : db_migrations_sqlite)[i].sql);
    if (store_is_postgres())
        sql_exec("CREATE TABLE tend_schema_version (version integer NOT NULL);"
                 "INSERT INTO tend_schema_version VALUES (%d)",
                 version);
    else
        sql_exec("PRAGMA journal_mode = WAL; PRAGMA application_id = %d; PRAGMA user_version = %d",
                 0x74656e64, version);
    for (int id = 1; id <= 3; id++)
        sql_exec("INSERT INTO job (id, event_id, queue, kind, state, priority, due_at, payload, "
                 "created_at, changed_at, changed_by, changed_what) VALUES "
                 "(%d, %d, 'q', 'k', 1, 5, 1, '{\"n\":%d}', 1, 1, 'old', 'job.added')",
                 id, id, id);
    sql_exec("INSERT INTO queue (name, max_attempts) VALUES ('q', 7)");
    if (store_is_postgres())
        sql_exec("SELECT setval('event_id', 3)");
}

TEST(attempt, a_store_of_version_1_is_brought_up_to_date_with_all_that_is_in_it)
{
    make_version(1);
    tend *t = store_open("w");
    int in_store = 0;
    int of_library = 0;
    check_ok(t, tend_schema(t, &in_store, &of_library));
    check_int(in_store, ==, of_library);
    check_int(in_store, >=, 2);
    check_int(tend_schema_changed(t, &of_library), ==, 0); /* all that have run have a row */
    check_str(job_of(t, 3)->payload, "{\"n\":3}");
    struct tend_queue queue;
    check_ok(t, tend_queue_get(t, "q", &queue));
    check_int(queue.max_attempts, ==, 7);
    check_int(queue.step_max_attempts, ==, TEND_UNSET);
    set_queue(t, "q", "step-timeout", "5m");
    check_ok(t, tend_queue_get(t, "q", &queue));
    check_int(queue.max_attempts, ==, 7);
    check_int(queue.step_timeout_ms, ==, 5 * MINUTE_MS);
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.id, ==, 1);
    pass_step(t, lease, 1, "build");
    complete_job(t, lease);
    check_str(events_of(t, 1), "job.added job.claimed task.step.attempt.started "
                               "task.step.attempt.finished job.completed");
    check_int(add_one(t, "q"), >, 3);
}

TEST(attempt, attempts_of_version_2_are_there_after_it_was_brought_up_to_date)
{
    make_version(2);
    sql_exec("INSERT INTO attempt (job_id, number, step_index, step_id, attempt, token, host, "
             "boot_id, marker, strategy, state, may_live, started_at, ended_at, failure_class) "
             "VALUES (1, 1, 1, 'build', 1, 0, 'h', 'b', 'm', 'first', 2, 0, 1, 2, "
             "'transient_runtime')");
    tend *t = store_open("w");
    const struct tend_attempts *attempts = attempts_of(t, 1);
    check_int(attempts->count, ==, 1);
    check_str(attempts->items[0].failure_class, "transient_runtime");
    check(attempts->items[0].verdict == NULL);
    struct tend_lease lease = claim_one(t, "q");
    check_int(lease.id, ==, 1);
    pass_step(t, lease, 1, "build");
    complete_job(t, lease);
    check_int(attempts_of(t, 1)->count, ==, 2);
}

/* --- lives of a job --- */

static int of_earlier_lives(tend *t, int64_t id)
{
    const struct tend_attempts *attempts = attempts_of(t, id);
    int count = 0;
    for (size_t i = 0; i < attempts->count; i++)
        count += attempts->items[i].earlier_life;
    return count;
}

static struct tend_lease lease_with_failed_step(tend *t)
{
    struct tend_lease lease = claim_as(t, "q", "owner");
    end_step(t, lease, begin_step(t, lease, 1, "build"), TEND_ATTEMPT_FAILED);
    return lease;
}

/* SH-1: who only interrupts a job gives its steps no new budget. */
TEST(attempt, neither_hold_nor_release_nor_crash_begins_a_new_life)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    int64_t id = add_spec(t, &spec);
    lease_with_failed_step(t);
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    check_ok(t, tend_act(t, TEND_RESUME, id, NULL, NULL));
    struct tend_lease lease = lease_with_failed_step(t);
    const struct tend_step_close gives_back = {.how = TEND_STEPS_RELEASE};
    check_ok(t, tend_step_finish(t, lease, NULL, &gives_back, NULL));
    lease_with_failed_step(t);
    clock_advance(HOUR_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(of_earlier_lives(t, id), ==, 0);
}

TEST(attempt, retry_and_redrive_begin_a_new_life)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.retry_in_ms = 0;
    int64_t id = add_spec(t, &spec);
    struct tend_lease lease = lease_with_failed_step(t);
    const struct tend_step_close again = {.how = TEND_STEPS_FAIL, .failure = &failure};
    check_ok(t, tend_step_finish(t, lease, NULL, &again, NULL));
    check_int(of_earlier_lives(t, id), ==, 1);
    clock_advance(1);
    lease = lease_with_failed_step(t);
    check_int(of_earlier_lives(t, id), ==, 1);
    fail_job(t, lease);
    check_int(of_earlier_lives(t, id), ==, 2);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, NULL, NULL));
    lease_with_failed_step(t);
    check_int(of_earlier_lives(t, id), ==, 2);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    check_ok(t, tend_act(t, TEND_REDRIVE, id, NULL, NULL));
    check_int(of_earlier_lives(t, id), ==, 3);
}

/* SH-12: a step that is to begin anew has all its attempts. */
TEST(attempt, retry_step_of_a_job_that_does_not_run_begins_a_new_life)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "{\"steps\":" THREE_STEPS "}";
    int64_t id = add_spec(t, &spec);
    lease_with_failed_step(t);
    check_ok(t, tend_control(t, id, "retry_step", "build", NULL, NULL, NULL));
    check_int(of_earlier_lives(t, id), ==, 0);
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    check_ok(t, tend_control(t, id, "retry_step", "build", NULL, NULL, NULL));
    check_int(of_earlier_lives(t, id), ==, 1);
}
