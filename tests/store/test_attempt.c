/*
 * Attempts of steps (SH-1, SH-13): one transaction per step, numbers over the job's life, events
 * with their exact fields, live progress.
 */
#include "steps.h"

#include "base/proc.h"

#include <stdio.h>

/* --- an attempt from begin to end --- */

TEST(attempt, SH_1_a_step_is_recorded_from_begin_to_end)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_begin begun = begin_at(1, "build", 1, NULL);
    begun.pid = 77;
    begun.start_ticks = 99;
    const struct tend_step_change change = {.begun = &begun};
    int64_t number = -1;
    clock_advance(5);
    check_ok(t, tend_step_next(t, lease, &change, &number));
    check_int(number, ==, 1);
    const struct tend_attempt *one = &attempts_of(t, lease.id)->items[0];
    check_int(one->state, ==, TEND_ATTEMPT_RUNNING);
    check_int(one->started_at_ms, ==, clock_now());
    check_int(one->ended_at_ms, ==, TEND_UNSET);

    struct tend_attempt_end end = end_of(1, TEND_ATTEMPT_FAILED);
    end.exit_code = 75;
    end.signal = 9;
    end.failure_class = "transient_runtime";
    end.rule = "exit-75";
    end.evidence = "temporary failure \xff";
    end.summary = "it broke";
    end.signature = "sig-1";
    end.diff_hash = "d1";
    end.output_bytes = 1000;
    end.output_dropped_bytes = 10;
    clock_advance(7);
    const struct tend_step_change last = {.ended = &end};
    check_ok(t, tend_step_next(t, lease, &last, NULL));

    const struct tend_attempts *attempts = attempts_of(t, lease.id);
    check_int(attempts->count, ==, 1);
    one = &attempts->items[0];
    check_int(one->job_id, ==, lease.id);
    check_int(one->number, ==, 1);
    check_int(one->step_index, ==, 1);
    check_str(one->step_id, "build");
    check_int(one->attempt, ==, 1);
    check_str(one->strategy, "first");
    check_int(one->token, ==, lease.token);
    check_int(one->worker_id, ==, job_of(t, lease.id)->worker_id);
    check_int(one->pid, ==, 77);
    check_int(one->start_ticks, ==, 99);
    check_str(one->marker, begun.marker);
    struct proc_id self;
    char host[128];
    proc_self(&self);
    proc_host(host, sizeof host);
    check_str(one->boot_id, self.boot_id);
    check_str(one->host, host);
    check_int(one->state, ==, TEND_ATTEMPT_FAILED);
    check_int(one->ended_at_ms, ==, clock_now());
    check_int(one->started_at_ms, ==, clock_now() - 7);
    check_int(one->exit_code, ==, 75);
    check_int(one->signal, ==, 9);
    check_str(one->failure_class, "transient_runtime");
    check_str(one->rule, "exit-75");
    check_str(one->evidence, "temporary failure \xef\xbf\xbd");
    check_str(one->summary, "it broke");
    check_str(one->signature, "sig-1");
    check_str(one->diff_hash, "d1");
    check_int(one->output_bytes, ==, 1000);
    check_int(one->output_dropped_bytes, ==, 10);
}

/* SH-13: seven fields, these names, no others. */
TEST(attempt, SH_13_events_have_exactly_their_fields)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_attempt_begin first = begin_at(1, "bu\"ild", 1, NULL);
    const struct tend_attempt_begin second = begin_at(1, "bu\"ild", 2, "soft_reset");
    struct tend_attempt_end failed = end_of(1, TEND_ATTEMPT_FAILED);
    failed.failure_class = "transient_runtime";
    failed.signature = "sig";
    failed.diff_hash = "d";
    failed.summary = "no luck";
    const struct tend_step_event healing = {.what = "task.self_heal.triggered",
                                            .step_index = 1,
                                            .step_id = "bu\"ild",
                                            .attempt = 1,
                                            .failure_class = "transient_runtime",
                                            .signature = "sig",
                                            .diff_hash = "d",
                                            .strategy = "soft_reset",
                                            .why = "one more time"};
    const struct tend_step_change changes[] = {
        {.begun = &first},
        {.ended = &failed, .events = &healing, .event_count = 1, .begun = &second},
    };
    for (size_t i = 0; i < 2; i++)
        check_ok(t, tend_step_next(t, lease, &changes[i], NULL));
    end_step(t, lease, 2, TEND_ATTEMPT_SUCCEEDED);

    check_str(events_of(t, lease.id),
              "job.added job.claimed task.step.attempt.started task.step.attempt.failed "
              "task.self_heal.triggered task.step.attempt.started task.step.attempt.finished");
    const char *told = sql_rows("SELECT who, owner, token, from_state, to_state, queue, why, data "
                                "FROM event WHERE what LIKE 'task.%%' ORDER BY id");
    const char *head = keep_text("owner|owner|%lld|2|2|q|", (long long)lease.token);
    const char *id = "{\"stepId\":\"bu\\\"ild\",\"stepIndex\":1,";
    check_str(told,
              keep_text("%sNULL|%s\"attempt\":1,\"failureClass\":null,\"failureSignature\":null,"
                        "\"diffHash\":null,\"strategy\":\"first\"}\n"
                        "%sno luck|%s\"attempt\":1,\"failureClass\":\"transient_runtime\","
                        "\"failureSignature\":\"sig\",\"diffHash\":\"d\",\"strategy\":\"first\"}\n"
                        "%sone more time|%s\"attempt\":1,\"failureClass\":\"transient_runtime\","
                        "\"failureSignature\":\"sig\",\"diffHash\":\"d\","
                        "\"strategy\":\"soft_reset\"}\n"
                        "%sNULL|%s\"attempt\":2,\"failureClass\":null,\"failureSignature\":null,"
                        "\"diffHash\":null,\"strategy\":\"soft_reset\"}\n"
                        "%sNULL|%s\"attempt\":2,\"failureClass\":null,\"failureSignature\":null,"
                        "\"diffHash\":null,\"strategy\":\"soft_reset\"}\n",
                        head, id, head, id, head, id, head, id, head, id));
}

TEST(attempt, all_events_about_healing_can_be_told_alone_and_no_other)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const char *const names[] = {"task.self_heal.triggered", "task.self_heal.escalated",
                                 "task.self_heal.exhausted", "task.resume.from_step",
                                 "task.step.warning"};
    struct tend_step_event event = {.step_index = 2, .step_id = "s", .attempt = TEND_UNSET};
    const struct tend_step_change change = {.events = &event, .event_count = 1};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool gives_up = strcmp(names[i], "task.self_heal.exhausted") == 0;
        event.what = names[i];
        event.retryable = 1; /* told only where the step is given up */
        check_ok(t, tend_step_next(t, lease, &change, NULL));
        check_str(data_of(lease.id, names[i]),
                  keep_text("{\"stepId\":\"s\",\"stepIndex\":2,\"attempt\":null,"
                            "\"failureClass\":null,\"failureSignature\":null,\"diffHash\":null,"
                            "\"strategy\":null%s}",
                            gives_up ? ",\"retryable\":true" : ""));
    }
    const char *before = store_snapshot();
    event.what = "job.completed";
    check_rc(t, tend_step_next(t, lease, &change, NULL), TEND_EINVAL);
    event.what = NULL;
    check_rc(t, tend_step_next(t, lease, &change, NULL), TEND_EINVAL);
    check_str(store_snapshot(), before);
}

/* A report is a sign of life, and the job has begun. */
TEST(attempt, the_first_attempt_starts_the_job_and_each_report_is_a_sign_of_life)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    add_one(t, "q");
    claim.flags = TEND_CLAIM_UNSTARTED;
    struct tend_lease lease = claim_with(t, &claim);
    clock_advance(10);
    int64_t number = begin_step(t, lease, 1, "a");
    check_int(job_of(t, lease.id)->started_at_ms, ==, clock_now());
    clock_advance(10);
    end_step(t, lease, number, TEND_ATTEMPT_SUCCEEDED);
    check_int(job_of(t, lease.id)->seen_at_ms, ==, clock_now());
    check_int(job_of(t, lease.id)->started_at_ms, ==, clock_now() - 10);
}

/* One commit per step: what the hot path of a worker is. */
static void run_steps(tend *t, struct tend_lease lease, int64_t count)
{
    struct tend_attempt_end ended = end_of(0, TEND_ATTEMPT_SUCCEEDED);
    int64_t number = 0;
    for (int64_t i = 1; i <= count + 1; i++) {
        char step[32];
        char marker[64];
        snprintf(step, sizeof step, "step-%lld", (long long)i);
        snprintf(marker, sizeof marker, "m-%lld-%lld", (long long)lease.id, (long long)i);
        struct tend_attempt_begin begun = {.step_index = i,
                                           .step_id = step,
                                           .attempt = 1,
                                           .marker = marker,
                                           .pid = TEND_UNSET,
                                           .start_ticks = TEND_UNSET};
        const struct tend_step_change change = {.ended = i > 1 ? &ended : NULL,
                                                .begun = i <= count ? &begun : NULL};
        ended.number = number;
        if (i <= count) {
            check_ok(t, tend_step_next(t, lease, &change, &number));
            check_int(number, ==, i);
            continue;
        }
        const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE, .result = "7"};
        check_ok(t, tend_step_finish(t, lease, &change, &close, NULL));
    }
}

TEST_WITHIN(attempt, ten_thousand_steps, 240)
{
    enum { STEPS = 10000 };
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, "[]");
    run_steps(t, lease, STEPS);
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    check_str(job_of(t, lease.id)->result, "7");
    check_int(attempts_of(t, lease.id)->count, ==, STEPS);
    struct tend_checkpoints *checkpoints;
    check_ok(t, tend_checkpoints(t, lease.id, &checkpoints));
    check_int(checkpoints->count, ==, STEPS);
    check_str(checkpoints->items[STEPS - 1].step_id, "step-10000");
    tend_checkpoints_free(checkpoints);
    struct tend_events *events;
    check_ok(t, tend_job_events(t, lease.id, &events));
    check_int(events->count, ==, 2 * STEPS + 3);
    tend_events_free(events);
}

/* --- order --- */

TEST(attempt, one_attempt_at_a_time_and_only_the_running_one_can_be_ended)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    const char *before = store_snapshot();
    const struct tend_attempt_begin again = begin_at(1, "build", 2, "soft_reset");
    const struct tend_step_change second = {.begun = &again};
    check_rc(t, tend_step_next(t, lease, &second, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "still running");
    const struct tend_attempt_end other = end_of(2, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change wrong = {.ended = &other};
    check_rc(t, tend_step_next(t, lease, &wrong, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "the newest attempt is 1");
    const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE};
    check_rc(t, tend_step_finish(t, lease, NULL, &close, NULL), TEND_ESTATE);
    check_str(store_snapshot(), before);
    end_step(t, lease, 1, TEND_ATTEMPT_FAILED);
    before = store_snapshot();
    const struct tend_attempt_end late = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_change changed_mind = {.ended = &late};
    check_rc(t, tend_step_next(t, lease, &changed_mind, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "failed already");
    check_str(store_snapshot(), before);
}

TEST(attempt, bad_input_is_refused_with_a_sentence_and_changes_nothing)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_begin begin[6];
    for (size_t i = 0; i < 6; i++)
        begin[i] = begin_at(1, "build", 1, NULL);
    begin[0].step_index = 0;
    begin[1].attempt = 0;
    begin[2].step_id = "";
    begin[3].marker = NULL;
    begin[4].strategy = "wild";
    begin[5].step_id = "no\ntext";
    struct tend_attempt_end end[5];
    for (size_t i = 0; i < 5; i++)
        end[i] = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    end[0].number = 0;
    end[1].state = TEND_ATTEMPT_RUNNING;
    end[2].state = TEND_ATTEMPT_LOST;
    end[3].outputs = "{";
    end[4].changed_files = "nothing";
    const char *before = store_snapshot();
    for (size_t i = 0; i < 6; i++) {
        const struct tend_step_change change = {.begun = &begin[i]};
        check_rc(t, tend_step_next(t, lease, &change, NULL), TEND_EINVAL);
        check(tend_errmsg(t)[0] != '\0');
    }
    for (size_t i = 0; i < 5; i++) {
        const struct tend_step_change change = {.ended = &end[i]};
        check_rc(t, tend_step_next(t, lease, &change, NULL), TEND_EINVAL);
        check(tend_errmsg(t)[0] != '\0');
    }
    const struct tend_step_change nothing = {0};
    check_rc(t, tend_step_next(t, lease, &nothing, NULL), TEND_EINVAL);
    const struct tend_step_change back = {.drop_from_step = -1};
    check_rc(t, tend_step_next(t, lease, &back, NULL), TEND_EINVAL);
    const struct tend_step_close bad = {.how = TEND_STEPS_COMPLETE, .result = "{"};
    check_rc(t, tend_step_finish(t, lease, NULL, &bad, NULL), TEND_EINVAL);
    const struct tend_step_close no_failure = {.how = TEND_STEPS_FAIL};
    check_rc(t, tend_step_finish(t, lease, NULL, &no_failure, NULL), TEND_EINVAL);
    const struct tend_attempt_begin fine = begin_at(1, "build", 1, NULL);
    const struct tend_step_change goes_on = {.begun = &fine};
    const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE};
    check_rc(t, tend_step_finish(t, lease, &goes_on, &close, NULL), TEND_EINVAL);
    check_str(store_snapshot(), before);
}

/* --- while it runs --- */

TEST(attempt, the_process_and_the_progress_of_a_running_attempt_are_told_without_an_event)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    const char *events = events_of(t, lease.id);
    check_ok(t, tend_attempt_started(t, lease, number, 4711, 815));
    check_ok(t, tend_progress(t, lease, number, 40, "compiling \xff"));
    struct tend_attempts *running;
    check_ok(t, tend_attempts_running(t, 0, &running));
    check_int(running->count, ==, 1);
    check_int(running->items[0].pid, ==, 4711);
    check_int(running->items[0].start_ticks, ==, 815);
    check_int(running->items[0].progress_percent, ==, 40);
    check_str(running->items[0].progress_text, "compiling \xef\xbf\xbd");
    tend_attempts_free(running);
    check_ok(t, tend_progress(t, lease, number, TEND_UNSET, NULL));
    check_int(attempts_of(t, lease.id)->items[0].progress_percent, ==, TEND_UNSET);
    check_rc(t, tend_progress(t, lease, number, 101, NULL), TEND_EINVAL);
    check_rc(t, tend_progress(t, lease, number, -1, NULL), TEND_EINVAL);
    check_str(events_of(t, lease.id), events);
    end_step(t, lease, number, TEND_ATTEMPT_SUCCEEDED);
    const char *before = store_snapshot();
    check_ok(t, tend_progress(t, lease, number, 50, "too late")); /* it ended a moment ago */
    check_str(store_snapshot(), before);
    check_ok(t, tend_attempts_running(t, 0, &running));
    check_int(running->count, ==, 0);
    tend_attempts_free(running);
}
