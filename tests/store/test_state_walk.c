/*
 * The walk of all states: the database accepts exactly the moves core/state.c allows, whoever
 * writes; and every public operation, in every state, does what the table says: the state, the
 * event, the token, or nothing.
 */
#include "core/state.h"
#include "support/store.h"

#include <stdio.h>
#include <string.h>

/* --- a job in each state, brought there by the API --- */

static int64_t job_in(tend *t, int state, const char *queue)
{
    struct tend_job_spec spec = spec_for(queue);
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    spec.unique_key = keep_text("key-%s", queue);
    spec.delay_ms = state == TEND_SCHEDULED ? HOUR_MS : TEND_UNSET;
    int64_t id = add_spec(t, &spec);
    if (state == TEND_SCHEDULED || state == TEND_PENDING)
        return id;
    struct tend_lease lease = claim_as(t, queue, "owner");
    if (state == TEND_HELD)
        check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    else if (state == TEND_DONE)
        check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    else if (state == TEND_FAILED)
        check_ok(t, tend_fail(t, lease, &failure, NULL));
    else if (state == TEND_CANCELLED)
        check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    check_int(state_of(t, id), ==, state);
    return id;
}

/* --- the database --- */

/* The row as it has to look in that state. */
static const char *columns_for(int state)
{
    return keep_text(
        "state = %d, owner = %s, alarm_at = %s, worker_id = NULL, started_at = NULL, "
        "lock_name = NULL, finished_at = %s, token = token + 1, version = version + 1, "
        "event_id = %s",
        state, state == TEND_RUNNING ? "'x'" : "NULL",
        state == TEND_RUNNING || state == TEND_SCHEDULED ? "9999999999999" : "NULL",
        state >= TEND_DONE ? "1" : "NULL",
        store_is_postgres() ? "next_event()" : "(SELECT max(id) + 1 FROM event)");
}

TEST(state_walk, the_database_accepts_exactly_the_moves_of_the_table)
{
    tend *t = store_open("w");
    int allowed = 0;
    for (int from = 0; from < TEND_STATE_COUNT; from++) {
        for (int to = 0; to < TEND_STATE_COUNT; to++) {
            int64_t id = job_in(t, from, keep_text("q-%d-%d", from, to));
            const char *before = store_snapshot();
            bool accepted =
                sql_try("UPDATE job SET %s WHERE id = %lld", columns_for(to), (long long)id);
            if (accepted != state_allows((enum job_state)from, (enum job_state)to))
                test_fail(
                    __FILE__, __LINE__, "%s -> %s: the database %s it, the table does not agree",
                    tend_state_name(from), tend_state_name(to), accepted ? "accepts" : "refuses");
            test_count_check();
            allowed += accepted;
            if (accepted) {
                check_int(last_event_of(t, id)->from_state, ==, from);
                check_int(last_event_of(t, id)->to_state, ==, to);
            } else {
                check_str(store_snapshot(), before);
            }
            sql_exec("DELETE FROM job WHERE id = %lld", (long long)id);
        }
    }
    check_int(allowed, >, 10);
}

TEST(state_walk, the_database_refuses_numbers_that_are_no_states)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check(!sql_try("UPDATE job SET %s WHERE id = %lld", columns_for(7), (long long)id));
    check(!sql_try("UPDATE job SET %s WHERE id = %lld", columns_for(-1), (long long)id));
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* The facts of each state: a row that breaks one of them is refused although the move is allowed.
 */
TEST(state_walk, the_database_refuses_rows_that_contradict_their_state)
{
    tend *t = store_open("w");
    const struct {
        int from, to;
        const char *broken;
    } cases[] = {
        {TEND_PENDING, TEND_RUNNING, "owner = NULL"},
        {TEND_PENDING, TEND_RUNNING, "alarm_at = NULL"},
        {TEND_PENDING, TEND_RUNNING, "finished_at = 1"},
        {TEND_RUNNING, TEND_PENDING, "owner = 'x'"},
        {TEND_RUNNING, TEND_PENDING, "alarm_at = 1"},
        {TEND_RUNNING, TEND_PENDING, "worker_id = 1"},
        {TEND_RUNNING, TEND_PENDING, "started_at = 1"},
        {TEND_RUNNING, TEND_PENDING, "lock_name = 'l'"},
        {TEND_RUNNING, TEND_SCHEDULED, "alarm_at = NULL"},
        {TEND_RUNNING, TEND_DONE, "finished_at = NULL"},
        {TEND_RUNNING, TEND_DONE, "owner = 'x'"},
        {TEND_RUNNING, TEND_FAILED, "finished_at = NULL"},
        {TEND_PENDING, TEND_HELD, "finished_at = 1"},
        {TEND_PENDING, TEND_CANCELLED, "alarm_at = 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t id = job_in(t, cases[i].from, keep_text("q-%zu", i));
        /* The broken column in place of the right one. */
        char right[32];
        snprintf(right, sizeof right, "%.*s", (int)strcspn(cases[i].broken, " "), cases[i].broken);
        const char *columns = columns_for(cases[i].to);
        const char *at = strstr(columns, keep_text("%s = ", right));
        check(at != NULL);
        const char *rest = at + strcspn(at, ",");
        const char *broken =
            keep_text("%.*s%s%s", (int)(at - columns), columns, cases[i].broken, rest);
        if (sql_try("UPDATE job SET %s WHERE id = %lld", broken, (long long)id))
            test_fail(__FILE__, __LINE__, "%s with %s was accepted", tend_state_name(cases[i].to),
                      cases[i].broken);
        check_int(state_of(t, id), ==, cases[i].from);
        check(sql_try("UPDATE job SET %s WHERE id = %lld", columns, (long long)id));
    }
}

/* --- the API --- */

struct operation {
    const char *name;
    enum job_move verb;
    void (*run)(tend *t, const struct tend_job *job);
};

static void op_claim(tend *t, const struct tend_job *job)
{
    claim_many(t, job->queue, 1, NULL);
}
static void op_complete(tend *t, const struct tend_job *job)
{
    struct tend_lease lease = lease_of(job);
    tend_complete(t, &lease, 1, NULL, NULL);
}
static void fail(tend *t, const struct tend_job *job, int final)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = final;
    tend_fail(t, lease_of(job), &failure, NULL);
}
static void op_fail(tend *t, const struct tend_job *job)
{
    fail(t, job, 1);
}
static void op_retry_later(tend *t, const struct tend_job *job)
{
    fail(t, job, 0);
}
static void op_release(tend *t, const struct tend_job *job)
{
    struct tend_lease lease = lease_of(job);
    tend_release(t, &lease, 1, 0, NULL, NULL);
}
static void op_release_later(tend *t, const struct tend_job *job)
{
    struct tend_lease lease = lease_of(job);
    tend_release(t, &lease, 1, 1000, NULL, NULL);
}
static void op_hold(tend *t, const struct tend_job *job)
{
    tend_act(t, TEND_HOLD, job->id, NULL, NULL);
}
static void op_resume(tend *t, const struct tend_job *job)
{
    tend_act(t, TEND_RESUME, job->id, NULL, NULL);
}
static void op_cancel(tend *t, const struct tend_job *job)
{
    tend_act(t, TEND_CANCEL, job->id, NULL, NULL);
}
static void op_redrive(tend *t, const struct tend_job *job)
{
    tend_act(t, TEND_REDRIVE, job->id, NULL, NULL);
}
static void submit_again(tend *t, const struct tend_job *job, int64_t delay_ms)
{
    struct tend_job_spec spec = spec_for(job->queue);
    struct tend_added added;
    if (job->state >= TEND_DONE || job->state == TEND_HELD)
        return; /* the key is free: it would be another job; or it is refreshed where it is */
    spec.if_running = TEND_IF_RUNNING_KEEP;
    spec.unique_key = job->unique_key;
    spec.delay_ms = delay_ms;
    tend_add(t, &spec, &added);
}
static void op_reschedule(tend *t, const struct tend_job *job)
{
    submit_again(t, job, TEND_UNSET);
}
static void op_reschedule_later(tend *t, const struct tend_job *job)
{
    submit_again(t, job, 5000);
}
static void op_due(tend *t, const struct tend_job *job)
{
    if (job->state == TEND_RUNNING)
        return; /* its lease would expire: that is recover */
    clock_advance(DAY_MS);
    recover_now(t);
}
static void op_recover(tend *t, const struct tend_job *job)
{
    struct tend_recovery recovery;
    (void)job;
    check_ok(t, tend_reclaim_stale(t, 0, &recovery));
}

static const struct operation operations[] = {
    {"claim", MOVE_CLAIM, op_claim},
    {"complete", MOVE_COMPLETE, op_complete},
    {"fail for good", MOVE_FAIL, op_fail},
    {"fail", MOVE_RETRY_LATER, op_retry_later},
    {"release", MOVE_RELEASE, op_release},
    {"release later", MOVE_RELEASE_LATER, op_release_later},
    {"hold", MOVE_HOLD, op_hold},
    {"resume", MOVE_RESUME, op_resume},
    {"cancel", MOVE_CANCEL, op_cancel},
    {"redrive", MOVE_REDRIVE, op_redrive},
    {"submit again", MOVE_RESCHEDULE, op_reschedule},
    {"submit again for later", MOVE_RESCHEDULE_LATER, op_reschedule_later},
    {"due time", MOVE_DUE, op_due},
    {"recover", MOVE_RECOVER, op_recover},
};

static void check_operation(tend *t, const struct operation *operation, int state)
{
    const struct state_row *row = NULL;
    int64_t id = job_in(t, state, keep_text("q-%d-%d", state, (int)operation->verb));
    const struct tend_job *before = job_of(t, id);
    const char *events_before = events_of(t, id);
    bool allowed = state_move((enum job_state)state, operation->verb, &row) == 0;
    operation->run(t, before);
    const struct tend_job *after = job_of(t, id);
    int expected = allowed ? (int)row->to : state;
    if (after->state != expected)
        test_fail(__FILE__, __LINE__, "%s of a %s job leads to %s, not %s", operation->name,
                  tend_state_name(state), tend_state_name(after->state), tend_state_name(expected));
    test_count_check();
    if (!allowed) {
        check_str(events_of(t, id), events_before);
        check_int(after->version, ==, before->version);
        check_int(after->token, ==, before->token);
        return;
    }
    check_str(last_event_of(t, id)->what, row->event);
    int64_t base = sql_int("SELECT token_base FROM store");
    int64_t claimed = (before->token > base ? before->token : base) + 1;
    check_int(after->token, ==,
              row->verb == MOVE_CLAIM ? claimed : before->token + row->bumps_token);
    check_int(after->owner != NULL, ==, after->state == TEND_RUNNING);
    check_int(after->version, >, before->version);
}

TEST_WITHIN(state_walk, every_operation_in_every_state_does_what_the_table_says, 120)
{
    enum { OPERATIONS = sizeof operations / sizeof *operations };
    bool seen[JOB_MOVES] = {false};
    for (int state = 0; state < TEND_STATE_COUNT; state++) {
        for (size_t i = 0; i < OPERATIONS; i++) {
            tend *t = store_open("w");
            check_operation(t, &operations[i], state);
            sql_exec("DELETE FROM job");
            store_close(t);
            seen[operations[i].verb] = true;
        }
    }
    /* The others have tests of their own: add, quarantine, resume and redrive of a job whose time
     * has not come. */
    for (int verb = 0; verb < JOB_MOVES; verb++)
        check(seen[verb] || verb == MOVE_ADD || verb == MOVE_ADD_LATER || verb == MOVE_QUARANTINE ||
              verb == MOVE_RESUME_LATER || verb == MOVE_REDRIVE_LATER);
}

TEST(state_walk, an_action_refused_by_the_state_says_so)
{
    tend *t = store_open("w");
    const struct {
        enum tend_action action;
        enum job_move verb;
    } actions[] = {{TEND_HOLD, MOVE_HOLD},
                   {TEND_RESUME, MOVE_RESUME},
                   {TEND_CANCEL, MOVE_CANCEL},
                   {TEND_REDRIVE, MOVE_REDRIVE}};
    for (int state = 0; state < TEND_STATE_COUNT; state++) {
        for (size_t i = 0; i < 4; i++) {
            const struct state_row *row;
            int64_t id = job_in(t, state, keep_text("q-%d-%zu", state, i));
            int expected = state_move((enum job_state)state, actions[i].verb, &row);
            check_rc(t, tend_act(t, actions[i].action, id, NULL, NULL), expected);
            if (expected < 0)
                check_contains(tend_errmsg(t), tend_state_name(state));
        }
    }
}
