/* Short words for what the tests about steps do; each test file uses some of them. */
#ifndef TEND_TEST_STEPS_H
#define TEND_TEST_STEPS_H

#include "support/store.h"

#include <string.h>

#define MAY_BE_UNUSED __attribute__((unused))

/* A job with these steps in its payload, claimed by "owner". */
MAY_BE_UNUSED static struct tend_lease lease_with_steps(tend *t, const char *steps)
{
    struct tend_job_spec spec = spec_for("q");
    spec.payload = keep_text("{\"steps\":%s}", steps);
    add_spec(t, &spec);
    return claim_as(t, "q", "owner");
}

#define THREE_STEPS "[{\"id\":\"build\"},{\"run\":\"make test\"},{\"id\":\"ship\"}]"

/* Attempts begun by begin_at have markers of their own. */
MAY_BE_UNUSED static struct tend_attempt_begin begin_at(int64_t step_index, const char *step_id,
                                                        int64_t attempt, const char *strategy)
{
    static int markers;
    struct tend_attempt_begin begin;
    tend_attempt_begin_init(&begin);
    begin.step_index = step_index;
    begin.step_id = step_id;
    begin.attempt = attempt;
    begin.strategy = strategy;
    begin.marker = keep_text("marker-%d", ++markers);
    return begin;
}

MAY_BE_UNUSED static struct tend_attempt_end end_of(int64_t number, int state)
{
    struct tend_attempt_end end;
    tend_attempt_end_init(&end);
    end.number = number;
    end.state = state;
    return end;
}

/* Begins an attempt; nothing may be running. */
MAY_BE_UNUSED static int64_t begin_step(tend *t, struct tend_lease lease, int64_t step_index,
                                        const char *step_id)
{
    const struct tend_attempt_begin begun = begin_at(step_index, step_id, 1, NULL);
    const struct tend_step_change change = {.begun = &begun};
    int64_t number = -1;
    check_ok(t, tend_step_next(t, lease, &change, &number));
    check_int(number, >, 0);
    return number;
}

/* Ends an attempt; nothing else begins. */
MAY_BE_UNUSED static void end_step(tend *t, struct tend_lease lease, int64_t number, int state)
{
    const struct tend_attempt_end ended = end_of(number, state);
    const struct tend_step_change change = {.ended = &ended};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
}

/* A step that succeeds at once. */
MAY_BE_UNUSED static void pass_step(tend *t, struct tend_lease lease, int64_t step_index,
                                    const char *step_id)
{
    end_step(t, lease, begin_step(t, lease, step_index, step_id), TEND_ATTEMPT_SUCCEEDED);
}

/* The job fails for good; nothing may be running. */
MAY_BE_UNUSED static void fail_job(tend *t, struct tend_lease lease)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    const struct tend_step_close close = {.how = TEND_STEPS_FAIL, .failure = &failure};
    check_ok(t, tend_step_finish(t, lease, NULL, &close, NULL));
}

MAY_BE_UNUSED static void complete_job(tend *t, struct tend_lease lease)
{
    const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE};
    check_ok(t, tend_step_finish(t, lease, NULL, &close, NULL));
}

/* Which steps have a checkpoint: "1 2 ". */
MAY_BE_UNUSED static const char *steps_done(int64_t job_id)
{
    const char *rows =
        sql_rows("SELECT step_index FROM checkpoint WHERE job_id = %lld ORDER BY step_index",
                 (long long)job_id);
    char *line = keep_text("%s", rows);
    for (char *at = line; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    return line;
}

/* The data of a job's newest event of this name. */
MAY_BE_UNUSED static const char *data_of(int64_t job_id, const char *what)
{
    const char *rows = sql_rows("SELECT data FROM event WHERE job_id = %lld AND what = '%s' "
                                "ORDER BY id DESC LIMIT 1",
                                (long long)job_id, what);
    return keep_text("%.*s", (int)strcspn(rows, "\n"), rows);
}

/* A job in a state, its first step done. */
MAY_BE_UNUSED static int64_t job_in(tend *t, int state)
{
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "{\"steps\":" THREE_STEPS "}";
    spec.max_attempts = 2;
    int64_t id = add_spec(t, &spec);
    struct tend_failure failure;
    tend_failure_init(&failure);
    struct tend_lease lease = claim_as(t, "q", "owner");
    check_int(lease.id, ==, id);
    pass_step(t, lease, 1, "build");
    if (state == TEND_HELD)
        check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    if (state == TEND_PENDING)
        check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    if (state == TEND_PENDING || state == TEND_HELD)
        return id;
    if (state == TEND_RUNNING)
        return id;
    failure.final = state == TEND_FAILED;
    const struct tend_step_close fails = {.how = TEND_STEPS_FAIL, .failure = &failure};
    if (state == TEND_FAILED || state == TEND_SCHEDULED)
        check_ok(t, tend_step_finish(t, lease, NULL, &fails, NULL));
    else if (state == TEND_CANCELLED)
        check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    else
        complete_job(t, lease);
    check_int(state_of(t, id), ==, state);
    return id;
}

/* Lives until the test ends. */
MAY_BE_UNUSED static const struct tend_attempts *attempts_of(tend *t, int64_t job_id)
{
    static struct tend_attempts *kept[64];
    static size_t count;
    check_int(count, <, 64);
    check_ok(t, tend_attempts(t, job_id, &kept[count]));
    return kept[count++];
}

/* What is open for a lease, marked as taken. */
MAY_BE_UNUSED static struct tend_controls *take(tend *t, struct tend_lease lease)
{
    struct tend_controls *controls;
    check_ok(t, tend_controls_take(t, &lease, 1, &controls));
    return controls;
}

MAY_BE_UNUSED static size_t taken(tend *t, struct tend_lease lease)
{
    struct tend_controls *controls = take(t, lease);
    size_t count = controls->count;
    tend_controls_free(controls);
    return count;
}

#endif
