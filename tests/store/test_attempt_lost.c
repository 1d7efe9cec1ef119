/*
 * What can get lost: answers, so that a report comes twice; leases, whose former owner is told and
 * changes nothing (RC-11); workers, which leave attempts and processes behind (RC-14).
 */
#include "steps.h"

#include <pthread.h>

/* --- lost answers --- */

TEST(attempt, a_repeated_report_is_answered_as_the_first_and_changes_nothing)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_attempt_begin first = begin_at(1, "build", 1, NULL);
    const struct tend_attempt_begin second = begin_at(2, "step-2", 1, NULL);
    const struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_attempt_end stopped = end_of(2, TEND_ATTEMPT_STOPPED);
    const struct tend_step_event event = {
        .what = "task.self_heal.exhausted", .step_index = 1, .step_id = "build"};
    const struct tend_step_change changes[] = {
        {.begun = &first},
        {.ended = &ended, .events = &event, .event_count = 1, .begun = &second},
        {.ended = &stopped, .events = &event, .event_count = 1},
    };
    for (size_t i = 0; i < 3; i++) {
        int64_t number = -1;
        int64_t again = -2;
        check_ok(t, tend_step_next(t, lease, &changes[i], &number));
        clock_advance(10);
        const char *before = store_snapshot();
        check_ok(t, tend_step_next(t, lease, &changes[i], &again));
        check_int(again, ==, number);
        check_str(store_snapshot(), before);
    }
}

struct racer {
    tend *t;
    struct tend_lease lease;
    struct tend_step_change change;
    int rc;
    int64_t number;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    racer->rc = tend_step_next(racer->t, racer->lease, &racer->change, &racer->number);
    return NULL;
}

/* The second comes while the first is still on its way. */
TEST(attempt, the_same_report_twice_at_once_begins_one_attempt)
{
    enum { ROUNDS = 30, RACERS = 4 };
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end ended = end_of(0, TEND_ATTEMPT_FAILED);
    for (int64_t round = 1; round <= ROUNDS; round++) {
        const struct tend_attempt_begin begun = begin_at(1, "build", round, NULL);
        struct racer racers[RACERS];
        pthread_t threads[RACERS];
        ended.number = round - 1;
        for (size_t i = 0; i < RACERS; i++) {
            racers[i] =
                (struct racer){.t = t,
                               .lease = lease,
                               .change = {.ended = round > 1 ? &ended : NULL, .begun = &begun}};
            check_int(pthread_create(&threads[i], NULL, race, &racers[i]), ==, 0);
        }
        for (size_t i = 0; i < RACERS; i++) {
            pthread_join(threads[i], NULL);
            check_int(racers[i].rc, ==, 0);
            check_int(racers[i].number, ==, round);
        }
    }
    check_int(count_events("task.step.attempt.started"), ==, ROUNDS);
    check_int(count_events("task.step.attempt.failed"), ==, ROUNDS - 1);
    struct tend_events *events;
    check_ok(t, tend_job_events(t, lease.id, &events));
    check_int(events->count, ==, 2 * ROUNDS + 1);
    tend_events_free(events);
}

/* --- zombies (RC-11) --- */

static int zombie_next(tend *t, struct tend_lease lease)
{
    const struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_attempt_begin begun = begin_at(2, "step-2", 1, NULL);
    const struct tend_step_change change = {
        .ended = &ended, .begun = &begun, .drop_from_step = 1, .baseline_commit = "c"};
    return tend_step_next(t, lease, &change, NULL);
}

static int zombie_close(tend *t, struct tend_lease lease, enum tend_step_how how)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    const struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change change = {.ended = &ended};
    const struct tend_step_close close = {.how = how, .failure = &failure};
    return tend_step_finish(t, lease, &change, &close, NULL);
}

static int zombie_started(tend *t, struct tend_lease lease)
{
    return tend_attempt_started(t, lease, 1, 1, 1);
}

static int zombie_progress(tend *t, struct tend_lease lease)
{
    return tend_progress(t, lease, 1, 50, "half");
}

static int zombie_output(tend *t, struct tend_lease lease)
{
    const struct tend_output piece = {.seq = 9, .stream = 1, .text = "boo", .text_bytes = 3};
    return tend_output_append(t, lease, 1, &piece, 1);
}

static int zombie_control_done(tend *t, struct tend_lease lease)
{
    return tend_control_done(t, lease, 1, "boo");
}

static void check_zombie_is_told(tend *t, struct tend_lease lost)
{
    static int (*const calls[])(tend *, struct tend_lease) = {
        zombie_next, zombie_started, zombie_progress, zombie_output, zombie_control_done};
    const char *before = store_snapshot();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        check_rc(t, calls[i](t, lost), TEND_ELEASELOST);
        check_contains(tend_errmsg(t),
                       keep_text("%lld:%lld", (long long)lost.id, (long long)lost.token));
        check_str(store_snapshot(), before);
    }
    for (int how = TEND_STEPS_COMPLETE; how <= TEND_STEPS_HOLD; how++) {
        check_rc(t, zombie_close(t, lost, (enum tend_step_how)how), TEND_ELEASELOST);
        check_str(store_snapshot(), before);
    }
    struct tend_controls *controls;
    check_ok(t, tend_controls_take(t, &lost, 1, &controls));
    check_int(controls->count, ==, 0);
    tend_controls_free(controls);
    check_str(store_snapshot(), before);
}

static struct tend_lease zombie_with_attempt(tend *t)
{
    struct tend_lease lost = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lost, 1, "build");
    check_ok(t, tend_control(t, lost.id, "takeover", NULL, NULL, "ann", NULL));
    return lost;
}

TEST(attempt, RC_11_a_zombie_after_recovery_is_told_and_nothing_it_reports_lands)
{
    tend *t = store_open("w");
    struct tend_lease lost = zombie_with_attempt(t);
    clock_advance(HOUR_MS);
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_zombie_is_told(t, lost);
}

TEST(attempt, RC_11_a_zombie_after_a_takeover_is_told_whatever_the_successor_does)
{
    tend *t = store_open("w");
    struct tend_lease lost = zombie_with_attempt(t);
    clock_advance(HOUR_MS);
    struct tend_lease taken = claim_as(t, "q", "successor");
    check_int(taken.id, ==, lost.id);
    check_zombie_is_told(t, lost);
    int64_t number = begin_step(t, taken, 1, "build");
    check_int(number, ==, 2);
    check_zombie_is_told(t, lost);
    end_step(t, taken, number, TEND_ATTEMPT_SUCCEEDED);
    check_zombie_is_told(t, lost);
    complete_job(t, taken);
    check_zombie_is_told(t, lost);
}

TEST(attempt, RC_11_a_zombie_after_cancel_or_hold_is_told)
{
    tend *t = store_open("w");
    struct tend_lease cancelled = zombie_with_attempt(t);
    check_ok(t, tend_act(t, TEND_CANCEL, cancelled.id, NULL, NULL));
    end_step(t, cancelled, 1, TEND_ATTEMPT_STOPPED);
    check_zombie_is_told(t, cancelled);
    struct tend_lease wrong = {.id = cancelled.id, .token = cancelled.token + 5};
    check_zombie_is_told(t, wrong);
    wrong.id = 987654;
    check_zombie_is_told(t, wrong);
}

/* --- a cancelled job, whose attempt is still being stopped --- */

static struct tend_lease cancelled_with_attempt(tend *t)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    check_ok(t, tend_control(t, lease.id, "cancel", NULL, "enough", "ann", NULL));
    return lease;
}

/* SH-12, SH-16: cancel wins at once; what its attempt still says is not lost. */
TEST(attempt, after_a_cancel_the_last_owner_tells_how_the_attempt_ended)
{
    tend *t = store_open("w");
    struct tend_lease lease = cancelled_with_attempt(t);
    check_ok(t, zombie_output(t, lease));
    check_int(sql_int("SELECT count(*) FROM output"), ==, 1);
    struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_STOPPED);
    ended.summary = "cancelled by ann: enough";
    const struct tend_step_change change = {.ended = &ended};
    clock_advance(7);
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    const struct tend_attempt *attempt = &attempts_of(t, lease.id)->items[0];
    check_int(attempt->state, ==, TEND_ATTEMPT_STOPPED);
    check_int(attempt->ended_at_ms, ==, clock_now());
    check_str(attempt->summary, "cancelled by ann: enough");
    check_int(sql_int("SELECT may_live FROM attempt"), ==, 0);
    check_contains(events_of(t, lease.id), "job.cancelled task.step.attempt.failed");
    check_int(state_of(t, lease.id), ==, TEND_CANCELLED);
    const char *before = store_snapshot();
    check_ok(t, tend_step_next(t, lease, &change, NULL)); /* the answer had got lost */
    check_str(store_snapshot(), before);
    check_rc(t, zombie_output(t, lease), TEND_ELEASELOST);
    check_zombie_is_told(t, lease);
}

/* SH-12: an attempt that a hold had ended was told as lost once the job was resumed, its worker as
 * dead. */
TEST(attempt, after_a_hold_the_last_owner_tells_how_the_attempt_ended)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, "ann", "later"));
    check_ok(t, zombie_output(t, lease));
    check_int(sql_int("SELECT count(*) FROM output"), ==, 1);
    struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_STOPPED);
    ended.summary = "held by ann: later";
    const struct tend_step_change change = {.ended = &ended};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    check_contains(events_of(t, lease.id), "job.held task.step.attempt.failed");
    check_int(state_of(t, lease.id), ==, TEND_HELD);
    const char *before = store_snapshot();
    check_ok(t, tend_step_next(t, lease, &change, NULL)); /* the answer had got lost */
    check_str(store_snapshot(), before);
    check_rc(t, zombie_output(t, lease), TEND_ELEASELOST);
    check_ok(t, tend_act(t, TEND_RESUME, lease.id, "ann", NULL));
    check_zombie_is_told(t, lease);
    check_int(begin_step(t, claim_as(t, "q", "successor"), 1, "build"), ==, 2);
    const struct tend_attempt *attempt = &attempts_of(t, lease.id)->items[0];
    check_int(attempt->state, ==, TEND_ATTEMPT_STOPPED);
    check_str(attempt->summary, "held by ann: later");
}

/* Work that was done in the same moment is not thrown away: a redriven job goes on behind it. */
TEST(attempt, SH_10_a_step_that_succeeded_before_the_cancel_was_seen_keeps_its_checkpoint)
{
    tend *t = store_open("w");
    struct tend_lease lease = cancelled_with_attempt(t);
    end_step(t, lease, 1, TEND_ATTEMPT_SUCCEEDED);
    check_str(steps_done(lease.id), "1 ");
    check_int(state_of(t, lease.id), ==, TEND_CANCELLED);
}

/* RC-11: from the moment on that the job may run elsewhere, nothing lands. */
TEST(attempt, RC_11_after_a_cancel_and_a_redrive_the_last_owner_is_a_zombie)
{
    tend *t = store_open("w");
    struct tend_lease lost = cancelled_with_attempt(t);
    check_ok(t, tend_act(t, TEND_REDRIVE, lost.id, NULL, NULL));
    const struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_STOPPED);
    const struct tend_step_change change = {.ended = &ended};
    check_rc(t, tend_step_next(t, lost, &change, NULL), TEND_ELEASELOST);
    check_zombie_is_told(t, lost);
    struct tend_lease taken = claim_as(t, "q", "successor");
    check_zombie_is_told(t, lost);
    check_ok(t, tend_act(t, TEND_CANCEL, taken.id, NULL, NULL));
    check_rc(t, tend_step_next(t, lost, &change, NULL), TEND_ELEASELOST);
    check_zombie_is_told(t, lost);
}

/*
 * A recovery makes the same token as a cancel or a hold does. What the stale owner reported after
 * the recovered job had been cancelled or held while it waited was accepted, checkpoint and all.
 */
TEST(attempt, RC_11_a_zombie_after_recovery_is_told_also_when_the_job_was_cancelled_or_held_since)
{
    const enum tend_action actions[] = {TEND_CANCEL, TEND_HOLD};
    const struct tend_attempt_end succeeded = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change change = {.ended = &succeeded};
    const struct tend_step_close hold = {.how = TEND_STEPS_HOLD};
    tend *t = store_open("w");
    for (size_t i = 0; i < 2; i++) {
        struct tend_lease lost = lease_with_steps(t, THREE_STEPS);
        begin_step(t, lost, 1, "build");
        clock_advance(HOUR_MS);
        check_int(recover_now(t).entries_reclaimed, ==, 1);
        check_ok(t, tend_act(t, actions[i], lost.id, "op", NULL));
        check_zombie_is_told(t, lost);
        check_rc(t, tend_step_next(t, lost, &change, NULL), TEND_ELEASELOST);
        check_rc(t, tend_step_finish(t, lost, &change, &hold, NULL), TEND_ELEASELOST);
        check_rc(t, zombie_output(t, lost), TEND_ELEASELOST);
        check_str(steps_done(lost.id), "");
        check_int(job_of(t, lost.id)->stopped_token, ==, TEND_UNSET);
    }
}

TEST(attempt, RC_11_a_cancel_of_a_redriven_job_is_no_cancel_of_the_old_lease)
{
    tend *t = store_open("w");
    struct tend_lease lost = cancelled_with_attempt(t);
    check_int(job_of(t, lost.id)->stopped_token, ==, lost.token);
    check_ok(t, tend_act(t, TEND_REDRIVE, lost.id, NULL, NULL));
    check_ok(t, tend_act(t, TEND_CANCEL, lost.id, NULL, NULL));
    const struct tend_attempt_end ended = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change change = {.ended = &ended};
    check_rc(t, tend_step_next(t, lost, &change, NULL), TEND_ELEASELOST);
    check_zombie_is_told(t, lost);
}

/* Nothing but the end: neither a beginning nor an end of the job, nor a checkpoint dropped. */
TEST(attempt, RC_11_after_a_cancel_nothing_else_is_taken)
{
    tend *t = store_open("w");
    struct tend_lease lease = cancelled_with_attempt(t);
    const char *before = store_snapshot();
    check_rc(t, zombie_next(t, lease), TEND_ELEASELOST);
    check_rc(t, zombie_started(t, lease), TEND_ELEASELOST);
    check_rc(t, zombie_progress(t, lease), TEND_ELEASELOST);
    for (int how = TEND_STEPS_COMPLETE; how <= TEND_STEPS_HOLD; how++)
        check_rc(t, zombie_close(t, lease, (enum tend_step_how)how), TEND_ELEASELOST);
    check_str(store_snapshot(), before);
}

/* --- what a dead worker leaves --- */

TEST(attempt, an_attempt_left_running_is_marked_lost_by_who_begins_the_next)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lost, 1, "build");
    clock_advance(HOUR_MS);
    struct tend_lease taken = claim_as(t, "q", "successor");
    /* Nobody has written it down yet, but it runs no more. */
    check_int(attempts_of(t, lost.id)->items[0].state, ==, TEND_ATTEMPT_LOST);
    check_int(sql_int("SELECT state FROM attempt"), ==, 0);
    begin_step(t, taken, 1, "build");
    check_int(sql_int("SELECT state FROM attempt WHERE number = 1"), ==, TEND_ATTEMPT_LOST);
    const struct tend_attempt *first = &attempts_of(t, lost.id)->items[0];
    check_int(first->ended_at_ms, ==, clock_now());
    check_str(first->failure_class, "transient_runtime");
    check_str(first->rule, "lease_lost");
    check_str(data_of(lost.id, "task.step.attempt.failed"),
              "{\"stepId\":\"build\",\"stepIndex\":1,\"attempt\":1,"
              "\"failureClass\":\"transient_runtime\",\"failureSignature\":null,\"diffHash\":null,"
              "\"strategy\":\"first\"}");
    check_int(attempts_of(t, lost.id)->items[1].state, ==, TEND_ATTEMPT_RUNNING);
}

TEST(attempt, an_attempt_of_a_cancelled_job_is_told_as_stopped)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    check_ok(t, tend_control(t, lease.id, "cancel", NULL, NULL, NULL, NULL));
    check_int(attempts_of(t, lease.id)->items[0].state, ==, TEND_ATTEMPT_STOPPED);
}

static size_t left_behind(tend *t, const char **ret_marker)
{
    struct tend_attempts *attempts;
    check_ok(t, tend_attempts_left_behind(t, 0, NULL, 0, &attempts));
    size_t count = attempts->count;
    if (count > 0)
        *ret_marker = keep_text("%s", attempts->items[0].marker);
    tend_attempts_free(attempts);
    return count;
}

/* RC-14: found until somebody has looked, also after the work runs elsewhere. */
TEST(attempt, RC_14_what_a_lost_lease_left_on_this_machine_is_found_until_it_is_swept)
{
    tend *t = store_open("w");
    const char *marker = NULL;
    struct tend_lease lost = lease_with_steps(t, THREE_STEPS);
    const struct tend_attempt_begin begun = begin_at(1, "build", 1, NULL);
    const struct tend_step_change change = {.begun = &begun};
    check_ok(t, tend_step_next(t, lost, &change, NULL));
    check_int(left_behind(t, &marker), ==, 0); /* its lease is held */
    check_ok(t, tend_attempt_swept(t, lost.id, 1));
    clock_advance(HOUR_MS);
    recover_now(t);
    check_int(left_behind(t, &marker), ==, 1);
    check_str(marker, begun.marker);
    struct tend_lease taken = claim_as(t, "q", "successor");
    int64_t number = begin_step(t, taken, 1, "build");
    check_int(left_behind(t, &marker), ==, 1);
    check_str(marker, begun.marker);
    sql_exec("UPDATE attempt SET boot_id = 'elsewhere' WHERE number = 1");
    check_int(left_behind(t, &marker), ==, 0);
    sql_exec("UPDATE attempt SET boot_id = (SELECT boot_id FROM attempt WHERE number = 2)");
    check_ok(t, tend_attempt_swept(t, lost.id, 1));
    check_int(left_behind(t, &marker), ==, 0);
    end_step(t, taken, number, TEND_ATTEMPT_SUCCEEDED);
    complete_job(t, taken);
    check_int(left_behind(t, &marker), ==, 0); /* one that ended in order left nothing */
}

/* RC-14. Symptom: an attempt whose processes could not be ended was told as if nothing were left.
 */
TEST(attempt, RC_14_what_outlives_an_attempt_that_has_ended_is_found_until_it_is_swept)
{
    tend *t = store_open("w");
    const char *marker = NULL;
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end ended =
        end_of(begin_step(t, lease, 1, "build"), TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change change = {.ended = &ended};
    ended.may_live = 1;
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    check_int(left_behind(t, &marker), ==, 0); /* its lease is held: its owner knows */
    complete_job(t, lease);
    check_int(left_behind(t, &marker), ==, 1);
    check_ok(t, tend_attempt_swept(t, lease.id, ended.number));
    check_int(left_behind(t, &marker), ==, 0);
}

/* RC-14: however many there are, of other hosts of the same machine (containers) too. */
TEST(attempt, RC_14_what_was_left_is_found_behind_any_number_of_others)
{
    enum { OTHERS = 1500 };
    tend *t = store_open("w");
    struct tend_attempts *page;
    struct tend_lease many = lease_with_steps(t, THREE_STEPS);
    begin_step(t, many, 1, "build");
    for (int i = 2; i <= OTHERS; i++)
        sql_exec("INSERT INTO attempt (job_id, number, step_index, step_id, attempt, token, host, "
                 "boot_id, marker, strategy, state, may_live, started_at, ended_at) SELECT job_id, "
                 "%d, 1, step_id, %d, -%d, %s, boot_id, 'm%d', strategy, 2, 1, 0, 1 FROM attempt "
                 "WHERE number = 1",
                 i, i, i, i % 2 == 0 ? "'container'" : "host", i);
    struct tend_lease one = lease_with_steps(t, THREE_STEPS);
    begin_step(t, one, 1, "build");
    clock_advance(HOUR_MS);
    recover_now(t);
    check_ok(t, tend_attempts_left_behind(t, one.id, NULL, 10, &page));
    check_int(page->count, ==, 1);
    check_int(page->items[0].job_id, ==, one.id);
    tend_attempts_free(page);
    struct tend_attempt last = {0};
    int found = 0;
    for (size_t count = 100; count == 100;) {
        check_ok(t, tend_attempts_left_behind(t, 0, &last, 100, &page));
        count = page->count;
        for (size_t i = 0; i < count; i++) {
            check_str(page->items[i].host, page->items[0].host);
            check(page->items[i].job_id > last.job_id || page->items[i].number > last.number);
            last = page->items[i];
            found++;
        }
        tend_attempts_free(page);
    }
    check_int(found, ==, OTHERS / 2 + 1);
    check_int(last.job_id, ==, one.id);
}
