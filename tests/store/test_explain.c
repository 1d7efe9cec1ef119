/* BY-1: why a job is not running, what it waits for, who holds it, until when; for every state and
 * reason. */
#include "base/text.h"
#include "steps.h"
#include <signal.h>
#include <sys/wait.h>

#include <string.h>

static struct tend_explanation explain(tend *t, int64_t id)
{
    struct tend_explanation explanation;
    const char *before = store_snapshot();
    memset(&explanation, 0, sizeof explanation);
    check_ok(t, tend_explain(t, id, &explanation));
    check_str(store_snapshot(), before); /* asking changes nothing */
    check_int(strlen(explanation.text), >, 10);
    return explanation;
}

TEST(explain, a_job_that_is_due_later)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = 5 * MINUTE_MS;
    int64_t id = add_spec(t, &spec);
    struct tend_explanation why = explain(t, id);
    check_int(why.state, ==, TEND_SCHEDULED);
    check_int(why.waiting, ==, 1);
    check_str(why.reason, "due_later");
    check_int(why.until_ms, ==, clock_now() + 5 * MINUTE_MS);
    check_contains(why.text, "5m");
}

TEST(explain, a_job_that_waits_for_its_next_attempt)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.text = "network is down";
    failure.retry_in_ms = 90 * SECOND_MS;
    int64_t id = add_one(t, "q");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "due_later");
    check_contains(why.text, "network is down");
}

/* Symptom: "Its last attempt failed: ." and "It has failed … after 1 attempt and 0 crashes: ",
 * where nobody knew whether attempts of a step or of the job were meant. */
TEST(explain, a_failure_without_a_text_leaves_no_colon)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    int64_t id = add_one(t, "q");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    check_contains(explain(t, id).text, "Its last attempt failed (transient_runtime).");
    failure.final = 1;
    id = add_one(t, "q");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    check_str(explain(t, id).text,
              "It has failed (transient_runtime); the queue has tried the job 1 time.");
}

/* With no worker left, a job was "due in 0s" for as long as nobody asked for jobs. */
TEST(explain, a_job_that_has_been_due_while_nobody_asked_is_explained_as_a_pending_one)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = MINUTE_MS;
    int64_t id = add_spec(t, &spec);
    int64_t second = add_spec(t, &spec);
    clock_advance(4 * MINUTE_MS);
    struct tend_explanation why = explain(t, id);
    check_int(why.state, ==, TEND_SCHEDULED);
    check_int(why.waiting, ==, 1);
    check_str(why.reason, "ready");
    check_int(why.until_ms, ==, TEND_UNSET);
    check_contains(why.text, "It has been due for 3m. It is ready and first in its queue");
    check_contains(why.text, "No worker is there.");
    check_contains(why.hint, "tend work -q q");
    why = explain(t, second);
    check_str(why.reason, "behind");
    check_int(why.ahead, ==, 1);
    int64_t pending = add_one(t, "q");
    check_int(explain(t, pending).ahead, ==, 2);
    set_queue(t, "q", "paused", "on");
    why = explain(t, id);
    check_str(why.reason, "paused");
    check_contains(why.text, "It has been due for 3m. Its queue is paused");
}

/* Workers that cannot run a job give it back, again and again; explain named only the next time. */
TEST(explain, a_job_that_was_given_back_says_why)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    int64_t id = add_one(t, "q");
    tend_failure_init(&failure);
    failure.text = "network is down";
    failure.retry_in_ms = 0;
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    check_str(explain(t, id).given_back, "");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 30 * SECOND_MS, "no handler for kind k", NULL));
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "due_later");
    check_str(why.given_back, "no handler for kind k");
    check_str(why.text, "It is due in 30s. w gave it back: no handler for kind k.");

    clock_advance(40 * SECOND_MS);
    why = explain(t, id);
    check_contains(why.text, "w gave it back: no handler for kind k.");
    /* Symptom: "no worker has asked for it yet. w gave it back". */
    check_contains(why.text, "no worker has asked for it again yet.");
    check_int(claim_many(t, "other", 1, NULL), ==, 0); /* makes it pending */
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_str(explain(t, id).given_back, "no handler for kind k");
    claim_one(t, "q");
    check_str(explain(t, id).given_back, "");
}

static int64_t give_back_unhandled(tend *t, const char *kind, const char *payload)
{
    struct tend_job_spec spec = spec_for("q");
    spec.kind = kind;
    spec.payload = payload;
    int64_t id = add_spec(t, &spec);
    struct tend_lease lease = claim_as(t, "q", "worker-1");
    check_ok(t, tend_release(t, &lease, 1, 30 * SECOND_MS,
                             "it has no handler for kind 'k', and the payload is no plan", NULL));
    return id;
}

/* BY-1: a kind without a handler, or a plan that is misspelt, was "due in 214ms". */
TEST(explain, BY_1_a_job_that_its_worker_cannot_run_says_so_and_what_to_do)
{
    tend *t = store_open("w");
    int64_t id = give_back_unhandled(t, "k", "{}");
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "no_handler");
    check_str(why.by, "worker-1");
    check_int(why.until_ms, ==, clock_now() + 30 * SECOND_MS);
    check_str(why.text, "Worker worker-1 cannot run it: it has no handler for kind 'k', and the "
                        "payload is no plan. It is offered again in 30s.");
    check_str(why.hint,
              "'tend claim -q q' takes it, or 'tend work -q q --handler k=COMMAND' runs it.");
    id = give_back_unhandled(t, "", "{\"command\":\"make\"}");
    check_contains(explain(t, id).hint, "Its payload has \"command\"; a plan has \"run\"");
    id = give_back_unhandled(t, "", "{\"to\":\"ann\"}");
    check_contains(explain(t, id).hint, "runs plans (run, exec, http, sleep or steps)");
    /* Once it is offered again: nobody has it, and it is still true. */
    clock_advance(40 * SECOND_MS);
    check_str(explain(t, id).reason, "no_handler");
    check_int(explain(t, id).until_ms, ==, TEND_UNSET);
    /* What keeps all jobs of the queue waiting comes first. */
    set_queue(t, "q", "paused", "on");
    why = explain(t, id);
    check_str(why.reason, "paused");
    check_contains(why.text, "worker-1 gave it back: it has no handler");
}

/* BY-1: only that it was being worked on was told. */
TEST(explain, BY_1_a_running_job_says_step_attempt_time_progress_and_last_line)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_explanation why = explain(t, lease.id);
    check_str(why.step_id, "");
    check_int(why.attempt, ==, TEND_UNSET);
    pass_step(t, lease, 1, "build");
    const struct tend_attempt_begin begun = begin_at(2, "step-2", 3, "soft_reset");
    const struct tend_step_change change = {.begun = &begun};
    int64_t number;
    check_ok(t, tend_step_next(t, lease, &change, &number));
    clock_advance(12 * SECOND_MS);
    check_contains(explain(t, lease.id).text,
                   " Step 2 (step-2), attempt 3, has been running for 12s.");
    static const char *const texts[] = {"first\nsecond \033[31m", "red\033[0m\r\n", "\n \n"};
    for (int i = 0; i < 3; i++) {
        const struct tend_output piece = {.seq = i + 1,
                                          .at_ms = TEND_UNSET,
                                          .stream = 1,
                                          .text = texts[i],
                                          .text_bytes = strlen(texts[i])};
        check_ok(t, tend_output_append(t, lease, number, &piece, 1));
    }
    check_ok(t, tend_progress(t, lease, number, 40, "compiling"));
    why = explain(t, lease.id);
    check_contains(why.text, " Step 2 (step-2), attempt 3, has been running for 12s, 40% "
                             "compiling; its last line: \"second red\".");
    check_str(why.step_id, "step-2");
    check_int(why.step_index, ==, 2);
    check_int(why.attempt, ==, 3);
    check_int(why.attempt_ms, ==, 12 * SECOND_MS);
    check_int(why.percent, ==, 40);
    check_str(why.progress, "compiling");
    check_str(why.line, "second red");
    end_step(t, lease, number, TEND_ATTEMPT_FAILED);
    check_str(explain(t, lease.id).step_id, "");
}

/* BY-1: between two attempts nothing was told of the step. */
TEST(explain, BY_1_a_step_that_waits_says_with_what_it_failed_and_when_it_is_tried_again)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempts *waiting;
    int64_t number = begin_step(t, lease, 1, "build");
    const struct tend_output piece = {
        .seq = 1, .at_ms = TEND_UNSET, .stream = 1, .text = "no route\n", .text_bytes = 9};
    check_ok(t, tend_output_append(t, lease, number, &piece, 1));
    check_ok(t, tend_attempts_waiting(t, 0, &waiting));
    check_int(waiting->count, ==, 0);
    tend_attempts_free(waiting);
    struct tend_attempt_end ended = end_of(number, TEND_ATTEMPT_FAILED);
    ended.failure_class = "transient_network";
    ended.evidence = "no route";
    ended.next_in_ms = 5 * SECOND_MS;
    const struct tend_step_change change = {.ended = &ended};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    struct tend_explanation why = explain(t, lease.id);
    check_contains(why.text, " Step 1 (build) failed with attempt 1 (transient_network): no route; "
                             "attempt 2 begins in 5.0s.");
    check_str(why.reason, "leased");
    check_str(why.step_id, "build");
    check_int(why.attempt, ==, 1);
    check_int(why.attempt_ms, ==, TEND_UNSET);
    check_str(why.line, "no route");
    check_int(why.next_at_ms, ==, clock_now() + 5 * SECOND_MS);
    check_ok(t, tend_attempts_waiting(t, 0, &waiting));
    check_int(waiting->count, ==, 1);
    check_int(waiting->items[0].next_at_ms, ==, clock_now() + 5 * SECOND_MS);
    tend_attempts_free(waiting);
    clock_advance(5 * SECOND_MS);
    check_str(explain(t, lease.id).step_id, "");
    check_ok(t, tend_attempts_waiting(t, 0, &waiting));
    check_int(waiting->count, ==, 0);
    tend_attempts_free(waiting);
}

TEST(explain, a_job_that_is_first_and_one_that_is_behind)
{
    tend *t = store_open("w");
    int64_t first = add_one(t, "q");
    add_one(t, "q");
    int64_t third = add_one(t, "q");
    add_one(t, "other");
    struct tend_explanation why = explain(t, first);
    check_str(why.reason, "ready");
    check_int(why.ahead, ==, 0);
    check_int(why.waiting, ==, 1);
    why = explain(t, third);
    check_str(why.reason, "behind");
    check_int(why.ahead, ==, 2);
}

TEST(explain, a_job_that_runs_says_by_whom_and_until_when)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    claim_as(t, "q", "builder");
    struct tend_explanation why = explain(t, id);
    check_int(why.state, ==, TEND_RUNNING);
    check_int(why.waiting, ==, 0);
    check_str(why.reason, "leased");
    check_str(why.by, "builder");
    check_int(why.until_ms, ==, clock_now() + MINUTE_MS);
    check_contains(why.text, "builder");
    clock_advance(MINUTE_MS);
    why = explain(t, id);
    check_contains(why.text, "expired");
    check_contains(why.hint, "heal");
}

/* --- who works on it, or could --- */

static void hold_a_job(struct helper *parent, void *arg)
{
    (void)arg;
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = 10 * MINUTE_MS;
    helper_say(parent, claim_with(store_open("doomed"), &claim).id);
    helper_hear(parent);
}

TEST(explain, a_job_whose_worker_is_dead)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    check_int(helper_hear(&worker), ==, id);
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "leased");
    check(strstr(why.text, "dead") == NULL);
    helper_kill(&worker);
    why = explain(t, id);
    check_int(why.state, ==, TEND_RUNNING);
    check_str(why.reason, "worker_dead");
    check_str(why.by, "doomed");
    check_int(why.until_ms, ==, clock_now() + 10 * MINUTE_MS);
    /* Symptom: "It is being worked on by doomed; …" came first. */
    check_int(strncmp(why.text, keep_text("Its worker (pid %d on ", (int)worker.pid),
                      strlen(keep_text("Its worker (pid %d on ", (int)worker.pid))),
              ==, 0);
    check_contains(why.text, ") is dead; the next claim takes the job back.");
    check(strstr(why.text, "worked on") == NULL);
    check_contains(why.hint, "heal");
}

/* A worker ends its steps before the lease ends: it was said to run for as long as nobody took the
 * job back. */
TEST(explain, the_step_under_an_expired_lease_has_been_ended)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    clock_advance(61 * SECOND_MS);
    check_contains(explain(t, lease.id).text,
                   " Step 1 (build), attempt 1, began 1m 1s ago; its lease has expired, so its "
                   "step has been ended.");
}

/* It was "leased" for ever, as a stopped process looks alive. */
TEST(explain, a_job_whose_worker_is_stopped)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct helper worker = helper_start(hold_a_job, NULL);
    struct tend_workers *workers;
    check_int(helper_hear(&worker), ==, id);
    check_int(kill(worker.pid, SIGSTOP), ==, 0);
    check_int(waitpid(worker.pid, NULL, WUNTRACED), ==, worker.pid);
    struct tend_explanation why = explain(t, id);
    check_int(why.state, ==, TEND_RUNNING);
    check_str(why.reason, "worker_stopped");
    check_str(why.by, "doomed");
    check_contains(why.text, keep_text("(pid %d) is stopped", (int)worker.pid));
    check_str(why.hint, keep_text("'kill -CONT %d' continues it.", (int)worker.pid));
    check_ok(t, tend_worker_list(t, &workers));
    check_int(workers->count, ==, 1);
    check_int(workers->items[0].alive, ==, 1);
    check_int(workers->items[0].stopped, ==, 1);
    tend_workers_free(workers);
    check_int(kill(worker.pid, SIGCONT), ==, 0);
    wait_until(strcmp(explain(t, id).reason, "leased") == 0, PATIENCE_MS);
    helper_kill(&worker);
}

/* The worker runs on another machine: only the server knows, and gives it time to come back. On one
 * machine another boot means an earlier one. */
TEST(explain, a_job_whose_worker_has_lost_its_session)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    claim_as(t, "q", "far");
    sql_exec("INSERT INTO worker (id, name, host, boot_id, pid, pid_ns, start_ticks, session, "
             "since, registration) VALUES (1000, 'far', 'there', 'another', 7, 1, 1, 1, %lld, 77)",
             (long long)clock_now() - MINUTE_MS);
    sql_exec("UPDATE job SET worker_id = 1000 WHERE id = %lld", (long long)id);
    struct tend_explanation why = explain(t, id);
    if (store_is_postgres()) {
        check_str(why.reason, "worker_silent");
        check_str(why.by, "far");
        check_int(why.until_ms, ==, clock_now() + 2 * SECOND_MS);
        sql_exec("UPDATE worker SET lost_at = %lld WHERE id = 1000", (long long)clock_now());
        clock_advance(SECOND_MS);
        why = explain(t, id);
        check_str(why.reason, "worker_silent");
        check_contains(why.text, "gone for 1.0s");
        check_int(why.until_ms, ==, clock_now() + SECOND_MS);
        clock_advance(SECOND_MS);
        why = explain(t, id);
    }
    check_str(why.reason, "worker_dead");
    check_contains(why.text, "pid 7 on there");
}

TEST(explain, a_job_of_whose_owner_nothing_is_heard)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    clock_advance(29 * SECOND_MS);
    check(strstr(explain(t, id).text, "Nothing was heard") == NULL);
    clock_advance(SECOND_MS);
    check_contains(explain(t, id).text, "Nothing was heard of it for 30s");
    check_ok(t, tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL));
    check(strstr(explain(t, id).text, "Nothing was heard") == NULL);
}

TEST(explain, a_job_for_which_there_is_no_worker)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "ready");
    check_contains(why.text, "No worker is there.");
    check_contains(why.hint, "tend work -q q");
    check_int(why.no_worker, ==, 1);
    /* Symptom: "'tend work -q q' starts one", which could not run it. */
    struct tend_job_spec data = spec_for("data");
    data.kind = "mail";
    check_str(explain(t, add_spec(t, &data)).hint,
              "'tend claim -q data' takes it, or 'tend work -q data --handler mail=COMMAND' runs "
              "it.");
    data.payload = "{\"run\":\"true\"}";
    data.queue = "plans";
    check_str(explain(t, add_spec(t, &data)).hint,
              "'tend work -q plans' in another terminal runs it.");
    add_one(t, "other");
    struct helper worker = helper_start(hold_a_job, NULL);
    helper_hear(&worker);
    id = add_one(t, "q");
    why = explain(t, id);
    check_contains(why.text, "1 worker is alive");
    check_int(why.no_worker, ==, 0);
    helper_kill(&worker);
    why = explain(t, id);
    check_contains(why.text, "all that were are dead");
    check_contains(why.hint, "tend work -q q");
}

/* SH-12 */
TEST(explain, what_was_asked_of_a_job_and_is_not_done_yet)
{
    tend *t = store_open("w");
    struct tend_control_result asked;
    struct tend_controls *taken;
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_control(t, id, "pause", NULL, "disk is full", "ann", &asked));
    check_int(asked.open, ==, 1);
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "leased");
    check_contains(why.text, "ann has asked for pause: disk is full");
    check_contains(why.text, "is told with its next heartbeat and may not act on it");
    check_int(asked.has_step, ==, 0);
    int64_t number = begin_step(t, lease, 1, "build");
    check_contains(explain(t, id).text, "has yet to hear of it");
    check_ok(t, tend_control(t, id, "pause", NULL, NULL, "ann", &asked));
    check_int(asked.has_step, ==, 1);
    check_ok(t, tend_controls_take(t, &lease, 1, &taken));
    tend_controls_free(taken);
    check_contains(explain(t, id).text, "its worker knows");
    end_step(t, lease, number, TEND_ATTEMPT_STOPPED);
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_contains(explain(t, id).text, "who takes the job next does it");
}

TEST(explain, a_lease_that_has_not_begun)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    int64_t id = add_one(t, "q");
    claim.flags = TEND_CLAIM_UNSTARTED;
    claim_with(t, &claim);
    check_contains(explain(t, id).text, "not yet started");
}

TEST(explain, a_paused_queue)
{
    tend *t = store_open("w");
    const struct tend_setting settings[] = {{"paused", "on"}, {"why", "night"}};
    int64_t id = add_one(t, "q");
    check_ok(t, tend_queue_set(t, "q", settings, 2, NULL));
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "paused");
    check_str(why.by, "night");
    check_contains(why.hint, "--paused off");
}

TEST(explain, a_serial_queue_whose_lock_is_held)
{
    tend *t = store_open("w");
    set_queue(t, "q", "serial", "on");
    add_one(t, "q");
    claim_as(t, "q", "merger");
    int64_t id = add_one(t, "q");
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "lock");
    check_str(why.by, "merger");
    check_int(why.until_ms, ==, clock_now() + MINUTE_MS);
}

TEST(explain, a_limit_on_concurrency)
{
    tend *t = store_open("w");
    set_queue(t, "q", "concurrency", "1");
    add_one(t, "q");
    claim_one(t, "q");
    int64_t id = add_one(t, "q");
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "concurrency");
    check_int(why.until_ms, ==, clock_now() + MINUTE_MS);
    check_contains(why.hint, "concurrency");
    /* Symptom: until when was told to machines alone. */
    check_contains(why.text, "the first lease ends in 1m unless it is renewed.");
    clock_advance(MINUTE_MS);
    check_contains(explain(t, id).text, "A lease has expired; the next claim takes that job back.");
}

TEST(explain, a_limit_on_its_key)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    set_queue(t, "q", "key-concurrency", "1");
    spec.concurrency_key = "host-a";
    add_spec(t, &spec);
    claim_one(t, "q");
    int64_t blocked = add_spec(t, &spec);
    spec.concurrency_key = "host-b";
    int64_t other = add_spec(t, &spec);
    struct tend_explanation why = explain(t, blocked);
    check_str(why.reason, "key_concurrency");
    check_contains(why.text, "host-a");
    check_contains(why.text, "the first lease ends in 1m unless it is renewed.");
    check_int(why.until_ms, ==, clock_now() + MINUTE_MS);
    check_str(explain(t, other).reason, "behind");
}

TEST(explain, a_rate_that_is_used_up)
{
    tend *t = store_open("w");
    set_queue(t, "q", "rate", "1/60s");
    add_one(t, "q");
    claim_one(t, "q");
    int64_t id = add_one(t, "q");
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "rate");
    check_int(why.until_ms, ==, clock_now() + MINUTE_MS);
    clock_advance(MINUTE_MS);
    check_str(explain(t, id).reason, "ready");
}

/* Symptom: "It is held by ann: taken over by ann: I do it", and nothing of --keep-edits. */
TEST(explain, SH_12_a_job_that_was_taken_over_says_so_once_and_how_the_changes_are_kept)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check_ok(t,
             tend_act(t, TEND_HOLD, id, "ann", "taken over by ann: I do it; its workspace is /w"));
    struct tend_explanation why = explain(t, id);
    check_str(why.text, "It is held: taken over by ann: I do it; its workspace is /w.");
    check_contains(why.hint,
                   "--keep-edits' keeps your changes; without it the step begins afresh.");
}

TEST(explain, a_held_job_says_who_and_why)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check_ok(t, tend_act(t, TEND_HOLD, id, "anna", "waits for the audit"));
    struct tend_explanation why = explain(t, id);
    check_str(why.reason, "held");
    check_str(why.by, "anna");
    check_int(why.waiting, ==, 1);
    check_contains(why.text, "waits for the audit");
    check_contains(why.hint, "resume");
}

TEST(explain, what_has_finished)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    failure.error_class = "deterministic_repo";
    failure.text = "tests are red";
    int64_t done = add_one(t, "q");
    struct tend_lease lease = claim_as(t, "q", "builder");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    struct tend_explanation why = explain(t, done);
    check_str(why.reason, "finished");
    check_int(why.waiting, ==, 0);
    check_contains(why.text, "builder");
    int64_t failed = add_one(t, "q");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    why = explain(t, failed);
    check_str(why.reason, "finished");
    check_contains(why.text, "deterministic_repo");
    check_contains(why.text, "tests are red");
    check_contains(why.hint, "retry");
    int64_t cancelled = add_one(t, "q");
    check_ok(t, tend_act(t, TEND_CANCEL, cancelled, "anna", "not needed"));
    why = explain(t, cancelled);
    check_contains(why.text, "anna");
    check_contains(why.text, "not needed");
}

TEST(explain, a_job_that_is_not_there)
{
    tend *t = store_open("w");
    struct tend_explanation why;
    check_rc(t, tend_explain(t, 99, &why), TEND_ENOTFOUND);
    check_contains(tend_errmsg(t), "99");
}

/* Words of people may be long and full of anything; the answer stays whole text. */
TEST(explain, long_texts_are_cut_between_characters)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    for (int lead = 0; lead < 2; lead++) {
        char text[1200] = "x";
        for (size_t i = (size_t)lead; i + 2 < sizeof text; i += 2)
            memcpy(&text[i], "\xc3\xbc", 3);
        failure.text = text;
        int64_t id = add_one(t, "q");
        check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
        check_str(job_of(t, id)->error_text, text);
        check(utf8_valid(explain(t, id).text, strlen(explain(t, id).text)));
        id = add_one(t, "q");
        check_ok(t, tend_act(t, TEND_HOLD, id, NULL, text));
        check(utf8_valid(explain(t, id).text, strlen(explain(t, id).text)));
    }
}
