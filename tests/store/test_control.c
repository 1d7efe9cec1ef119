/*
 * Controls (SH-12): every action in every state, what is done at once and what is left to the
 * worker, delivery and answers.
 */
#include "steps.h"

#include <pthread.h>

static const char *const actions[] = {
    "pause", "resume", "takeover", "retry_step", "hard_reset_step", "resume_from_step", "cancel"};
enum { ACTIONS = sizeof actions / sizeof *actions };

/* What comes of each action in each state: -1 refused; otherwise the state afterwards, and + OPEN
 * when it is left to a worker. */
enum { NO = -1, OPEN = 100 };
static const int expected[ACTIONS][TEND_STATE_COUNT] = {
    /* scheduled, pending, running, held, done, failed, cancelled */
    {TEND_HELD, TEND_HELD, OPEN + TEND_RUNNING, NO, NO, NO, NO},
    {NO, NO, NO, TEND_PENDING, NO, NO, NO},
    {TEND_HELD, TEND_HELD, OPEN + TEND_RUNNING, NO, NO, NO, NO},
    {TEND_PENDING, NO, OPEN + TEND_RUNNING, TEND_PENDING, NO, TEND_PENDING, TEND_PENDING},
    {OPEN + TEND_PENDING, OPEN + TEND_PENDING, OPEN + TEND_RUNNING, OPEN + TEND_PENDING, NO,
     OPEN + TEND_PENDING, OPEN + TEND_PENDING},
    {TEND_PENDING, TEND_PENDING, OPEN + TEND_RUNNING, TEND_PENDING, TEND_DONE, TEND_PENDING,
     TEND_PENDING},
    {TEND_CANCELLED, TEND_CANCELLED, TEND_CANCELLED, TEND_CANCELLED, NO, NO, NO},
};

static void check_refused(tend *t, int64_t id, const char *action)
{
    const char *before = store_snapshot();
    struct tend_control_result result = {.control_id = -7};
    check_rc(t, tend_control(t, id, action, "build", "because", "ann", &result), TEND_ESTATE);
    check_contains(tend_errmsg(t), action);
    check_contains(tend_errmsg(t), tend_state_name(state_of(t, id)));
    check_int(result.control_id, ==, -7);
    check_str(store_snapshot(), before);
}

TEST_WITHIN(control, SH_12_every_action_in_every_state, 180)
{
    tend *t = store_open("w");
    for (int action = 0; action < ACTIONS; action++) {
        for (int state = 0; state < TEND_STATE_COUNT; state++) {
            int64_t id = job_in(t, state);
            int outcome = expected[action][state];
            if (outcome == NO) {
                check_refused(t, id, actions[action]);
            } else {
                struct tend_control_result result = {0};
                const char *step =
                    strcmp(actions[action], "resume_from_step") == 0 ? "build" : NULL;
                check_ok(t, tend_control(t, id, actions[action], step, "because", "ann", &result));
                check_int(state_of(t, id), ==, outcome % OPEN);
                check_int(result.open, ==, outcome >= OPEN);
                check_int(result.control_id, >, 0);
                check_int(sql_int("SELECT count(*) FROM control WHERE id = %lld AND job_id = %lld "
                                  "AND done_at IS %s",
                                  (long long)result.control_id, (long long)id,
                                  outcome >= OPEN ? "NULL" : "NOT NULL"),
                          ==, 1);
                check_int(result.state, ==, state_of(t, result.job_id));
                check_str(data_of(id, keep_text("task.control.%s", actions[action])),
                          keep_text("{\"action\":\"%s\",\"stepId\":%s,\"reason\":\"because\","
                                    "\"actor\":\"ann\"}",
                                    actions[action], step == NULL ? "null" : "\"build\""));
            }
            /* Out of the way of the next. */
            tend_act(t, TEND_CANCEL, id, NULL, NULL);
            sql_exec("UPDATE control SET done_at = 1, outcome = 'x' WHERE done_at IS NULL");
            struct tend_filter filter;
            tend_filter_init(&filter);
            check_ok(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, NULL));
        }
    }
}

TEST(control, SH_12_the_event_says_who_and_why_and_is_in_the_jobs_history)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check_ok(t, tend_control(t, id, "pause", NULL, "looks \"odd\"", "ann", NULL));
    check_str(events_of(t, id), "job.added task.control.pause job.held");
    check_str(sql_rows("SELECT who, why FROM event WHERE what LIKE '%%pause' OR what = 'job.held' "
                       "ORDER BY id"),
              "ann|looks \"odd\"\nann|looks \"odd\"\n");
    check_str(data_of(id, "task.control.pause"),
              "{\"action\":\"pause\",\"stepId\":null,\"reason\":\"looks \\\"odd\\\"\","
              "\"actor\":\"ann\"}");
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, NULL, NULL)); /* by the handle's name */
    check_str(data_of(id, "task.control.resume"),
              "{\"action\":\"resume\",\"stepId\":null,\"reason\":null,\"actor\":\"w\"}");
    struct tend_controls *controls;
    check_ok(t, tend_controls(t, id, &controls));
    check_int(controls->count, ==, 2);
    check_str(controls->items[0].action, "pause");
    check_str(controls->items[0].actor, "ann");
    check_str(controls->items[0].outcome, "done");
    check_int(controls->items[0].done_at_ms, ==, clock_now());
    check_int(controls->items[0].taken_at_ms, ==, TEND_UNSET);
    tend_controls_free(controls);
}

/* A job that was due in an hour was started at once. */
TEST(control, SH_12_a_job_that_never_ran_has_no_step_to_begin_anew)
{
    static const char *const about_steps[] = {"retry_step", "hard_reset_step", "resume_from_step"};
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "{\"steps\":" THREE_STEPS "}";
    int64_t pending = add_spec(t, &spec);
    int64_t held = add_spec(t, &spec);
    int64_t cancelled = add_spec(t, &spec);
    spec.delay_ms = HOUR_MS;
    int64_t scheduled = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_HOLD, held, NULL, NULL));
    check_ok(t, tend_act(t, TEND_CANCEL, cancelled, NULL, NULL));
    const int64_t ids[] = {pending, held, cancelled, scheduled};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        for (size_t at = 0; at < sizeof about_steps / sizeof *about_steps; at++)
            check_refused(t, ids[i], about_steps[at]);
    check_contains(tend_errmsg(t), "it is scheduled and no step of it has begun yet; possible: "
                                   "pause, takeover, cancel");
    check_int(state_of(t, scheduled), ==, TEND_SCHEDULED);
}

TEST(control, SH_12_a_step_of_a_job_that_waits_for_its_retry_begins_anew_at_once)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_SCHEDULED);
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, NULL, NULL));
    check_int(state_of(t, id), ==, TEND_PENDING);
}

TEST(control, bad_requests_are_refused_and_change_nothing)
{
    tend *t = store_open("w");
    int64_t id = job_in(t, TEND_FAILED);
    const char *before = store_snapshot();
    check_rc(t, tend_control(t, id, "stop", NULL, NULL, NULL, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), "hard_reset_step");
    check_rc(t, tend_control(t, id, NULL, NULL, NULL, NULL, NULL), TEND_EINVAL);
    check_rc(t, tend_control(t, id, "Pause", NULL, NULL, NULL, NULL), TEND_EINVAL);
    check_rc(t, tend_control(t, id, "resume_from_step", NULL, NULL, NULL, NULL), TEND_EINVAL);
    check_rc(t, tend_control(t, id, "retry_step", "", NULL, NULL, NULL), TEND_EINVAL);
    check_rc(t, tend_control(t, id, "retry_step", NULL, NULL, "", NULL), TEND_EINVAL);
    check_rc(t, tend_control(t, 987654, "pause", NULL, NULL, NULL, NULL), TEND_ENOTFOUND);
    check_str(store_snapshot(), before);
}

/* --- running jobs --- */

TEST(control, what_is_asked_of_a_running_job_is_delivered_until_it_is_answered)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_lease other = lease_with_steps(t, THREE_STEPS);
    struct tend_control_result first;
    check_int(taken(t, lease), ==, 0);
    check_ok(t, tend_control(t, lease.id, "retry_step", NULL, "now", "ann", &first));
    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, "bob", NULL));
    check_int(taken(t, other), ==, 0);
    clock_advance(5);
    struct tend_controls *controls = take(t, lease);
    check_int(controls->count, ==, 2);
    check_str(controls->items[0].action, "retry_step");
    check_str(controls->items[1].action, "pause");
    tend_controls_free(controls);
    check_int(sql_int("SELECT count(*) FROM control WHERE taken_at = %lld", (long long)clock_now()),
              ==, 2);
    clock_advance(5);
    const char *before = store_snapshot();
    check_int(taken(t, lease), ==, 2); /* told again: an answer may have been lost */
    check_str(store_snapshot(), before);

    check_ok(t, tend_control_done(t, lease, first.control_id, "retried"));
    check_str(data_of(lease.id, "task.control.done"),
              "{\"action\":\"retry_step\",\"stepId\":null,\"reason\":\"now\",\"actor\":\"ann\","
              "\"outcome\":\"retried\"}");
    check_str(last_event_of(t, lease.id)->who, "owner");
    check_str(last_event_of(t, lease.id)->why, "retried"); /* it repeated the reason */
    before = store_snapshot();
    check_ok(t, tend_control_done(t, lease, first.control_id, "retried")); /* repeated */
    check_str(store_snapshot(), before);
    check_int(taken(t, lease), ==, 1);
    check_rc(t, tend_control_done(t, other, first.control_id, NULL), TEND_ENOTFOUND);
}

TEST(control, a_control_in_the_hands_of_a_worker_that_dies_goes_to_the_next)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_with_steps(t, THREE_STEPS);
    check_ok(t, tend_control(t, lost.id, "hard_reset_step", NULL, NULL, NULL, NULL));
    check_int(taken(t, lost), ==, 1);
    clock_advance(HOUR_MS);
    struct tend_lease next = claim_one(t, "q");
    check_int(next.id, ==, lost.id);
    check_int(taken(t, lost), ==, 0);
    check_int(taken(t, next), ==, 1);
}

TEST(control, SH_12_a_pause_is_answered_by_holding_the_job_and_undone_by_resume)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_control_result pause;
    check_ok(t, tend_control(t, lease.id, "pause", NULL, "lunch", "ann", &pause));
    check_int(taken(t, lease), ==, 1);
    const struct tend_step_close close = {.how = TEND_STEPS_HOLD,
                                          .why = "lunch",
                                          .control_id = pause.control_id,
                                          .outcome = "paused before step 1"};
    check_ok(t, tend_step_finish(t, lease, NULL, &close, NULL));
    check_int(state_of(t, lease.id), ==, TEND_HELD);
    check_str(sql_rows("SELECT outcome FROM control"), "paused before step 1\n");
    check_str(events_of(t, lease.id),
              "job.added job.claimed task.control.pause task.control.done job.held");
    check_ok(t, tend_control(t, lease.id, "resume", NULL, NULL, "ann", NULL));
    check_int(state_of(t, lease.id), ==, TEND_PENDING);
    struct tend_lease next = claim_one(t, "q");
    check_int(taken(t, next), ==, 0);
}

TEST(control, a_pause_that_has_not_taken_hold_is_withdrawn_by_resume)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_control_result result;
    check_rc(t, tend_control(t, lease.id, "resume", NULL, NULL, NULL, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "no pause");
    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, NULL, NULL));
    check_ok(t, tend_control(t, lease.id, "resume", NULL, NULL, NULL, &result));
    check_int(result.open, ==, 0); /* no worker knew of the pause */
    check_int(taken(t, lease), ==, 0);

    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, NULL, NULL));
    check_int(taken(t, lease), ==, 1);
    check_ok(t, tend_control(t, lease.id, "resume", NULL, NULL, NULL, &result));
    check_int(result.open, ==, 1); /* its worker has to be told */
    struct tend_controls *controls = take(t, lease);
    check_int(controls->count, ==, 1);
    check_str(controls->items[0].action, "resume");
    tend_controls_free(controls);
    check_int(sql_int("SELECT count(*) FROM control WHERE outcome = 'withdrawn'"), ==, 2);
    check_int(state_of(t, lease.id), ==, TEND_RUNNING);
}

TEST(control, SH_12_cancel_wins_over_everything_that_is_open)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, NULL, NULL));
    check_ok(t, tend_control(t, lease.id, "takeover", NULL, NULL, NULL, NULL));
    check_ok(t, tend_control(t, lease.id, "cancel", NULL, "enough", "ann", NULL));
    check_int(state_of(t, lease.id), ==, TEND_CANCELLED);
    check_int(sql_int("SELECT count(*) FROM control WHERE done_at IS NULL"), ==, 0);
    check_str(sql_rows("SELECT outcome FROM control ORDER BY id"),
              "overtaken by cancel\novertaken by cancel\ndone\n");
    check_rc(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL), TEND_ELEASELOST);
    check_str(last_event_of(t, lease.id)->what, "job.cancelled");
    check_str(last_event_of(t, lease.id)->who, "ann");
    check_str(last_event_of(t, lease.id)->why, "enough");
}

static void ask_later(struct helper *parent, void *arg)
{
    tend *t = store_open_real("operator");
    helper_hear(parent);
    check_ok(t, tend_control(t, *(int64_t *)arg, "takeover", NULL, NULL, NULL, NULL));
    store_close(t);
}

/* A worker that sleeps is woken: delivery does not wait for a heartbeat. */
TEST(control, a_control_wakes_who_waits)
{
    tend *t = store_open_real("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct helper operator= helper_start(ask_later, &lease.id);
    wait_until(tend_wait(t, 1) == 0, PATIENCE_MS);
    helper_say(&operator, 1);
    int woken = 1;
    while (woken == 1 && taken(t, lease) == 0)
        woken = tend_wait(t, PATIENCE_MS);
    check_int(woken, ==, 1);
    helper_join(&operator);
}

enum { REQUESTS = 200 };

struct withdrawal {
    tend *t;
    int64_t job_id;
    bool quiet[4 * REQUESTS]; /* by id of the pause: taken back before a worker knew of it */
    int over;
};

static void *pause_and_resume(void *arg)
{
    struct withdrawal *all = arg;
    for (int i = 0; i < REQUESTS; i++) {
        struct tend_control_result pause;
        struct tend_control_result resume;
        check_ok(all->t, tend_control(all->t, all->job_id, "pause", NULL, NULL, NULL, &pause));
        check_ok(all->t, tend_control(all->t, all->job_id, "resume", NULL, NULL, NULL, &resume));
        check_int(pause.control_id, <, 4 * REQUESTS);
        all->quiet[pause.control_id] = !resume.open;
    }
    __atomic_store_n(&all->over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Otherwise a worker would pause for one whose resume it is never told of. */
TEST(control, a_pause_withdrawn_in_silence_was_never_delivered)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    static struct withdrawal all;
    static bool seen[4 * REQUESTS];
    pthread_t thread;
    all.t = store_open("operator");
    all.job_id = lease.id;
    check_int(pthread_create(&thread, NULL, pause_and_resume, &all), ==, 0);
    while (!__atomic_load_n(&all.over, __ATOMIC_SEQ_CST)) {
        struct tend_controls *controls = take(t, lease);
        for (size_t i = 0; i < controls->count; i++) {
            seen[controls->items[i].id] = true;
            if (strcmp(controls->items[i].action, "resume") == 0)
                check_ok(t, tend_control_done(t, lease, controls->items[i].id, NULL));
        }
        tend_controls_free(controls);
    }
    pthread_join(thread, NULL);
    int delivered = 0;
    for (size_t i = 0; i < 4 * REQUESTS; i++) {
        check(!(all.quiet[i] && seen[i]));
        delivered += seen[i];
    }
    check_int(delivered, >, 0);
}
