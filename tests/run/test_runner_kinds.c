/* WF-7: a kind that is full in a worker never keeps jobs of another from running. */
#include "runner_case.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t add_kind(tend *t, const char *kind, const char *payload)
{
    struct tend_job_spec spec = spec_for("q");
    spec.kind = kind;
    spec.payload = payload;
    return add_spec(t, &spec);
}

/* Runs until the file "gate" is there; says that it has begun. */
#define GATED "echo x >> begun; until test -e gate; do sleep 0.02; done"

static int64_t lines_of(const char *name)
{
    FILE *file = fopen(name, "re");
    int64_t lines = 0;
    for (int c; file != NULL && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file != NULL)
        fclose(file);
    return lines;
}

static void open_gate(void)
{
    check_int(system("touch gate"), ==, 0);
}

static void stop(struct running_runner *running)
{
    tend_runner_stop(running->runner, 0);
    runner_join(running);
}

/* Jobs whose next step is of another kind than they said, and that kind is full. */
TEST(runner_kinds, WF_7_jobs_that_wait_for_another_kind_do_not_keep_the_worker_from_claiming)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    options.limit_others = 2;
    for (int i = 0; i < 20; i++)
        add_kind(t, "sleep", "{\"steps\":[{\"sleep\":\"0s\"},{\"run\":\"" GATED "\"}]}");
    struct running_runner running = runner_start(t, &options);
    wait_until(sql_int("SELECT count(*) FROM checkpoint WHERE step_index = 1") == 20, PATIENCE_MS);
    int64_t other = add_kind(t, "sleep", "{\"sleep\":\"0s\"}");
    wait_until(state_of(t, other) == TEND_DONE, PATIENCE_MS);
    wait_until(lines_of("begun") == 2, PATIENCE_MS);
    open_gate();
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 4") == 21, PATIENCE_MS);
    stop(&running);
}

/* ... and when there are more of them than can wait in a worker, they wait in the queue. */
TEST(runner_kinds, WF_7_those_too_many_to_wait_are_given_back_free_of_charge)
{
    enum { JOBS = 130 };
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    options.limit_others = 2;
    for (int i = 0; i < JOBS; i++)
        add_kind(t, "sleep", "{\"steps\":[{\"sleep\":\"0s\"},{\"run\":\"" GATED "\"}]}");
    struct running_runner running = runner_start(t, &options);
    wait_until(sql_int("SELECT count(*) FROM checkpoint WHERE step_index = 1") == JOBS,
               PATIENCE_MS);
    int64_t other = add_kind(t, "sleep", "{\"sleep\":\"0s\"}");
    wait_until(state_of(t, other) == TEND_DONE, PATIENCE_MS);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), <=, 102);
    check_int(sql_int("SELECT count(*) FROM job WHERE attempts + crashes > 0 AND state <> 4"), ==,
              0);
    check_int(count_events("job.released"), >=, JOBS - 102);
    open_gate();
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 2") == 0, PATIENCE_MS);
    stop(&running);
}

/* The shortest and the longest wait of the jobs that were given back. */
static void check_waits(int64_t least_ms, int64_t most_ms)
{
    static const char waits[] =
        "SELECT %s(due_at - changed_at) FROM job WHERE changed_what = 'job.released'";
    check_int(sql_int(waits, "min"), >=, least_ms);
    check_int(sql_int(waits, "max"), <=, most_ms);
}

/*
 * 15 seconds, doubling, 20 % more or less. Symptom: from 8 to 10 minutes at once, as the token of
 * the lease was taken for the number of waits.
 */
TEST(runner_kinds, WF_7_those_too_many_to_wait_come_back_after_15_seconds_then_30_then_60)
{
    enum { SLOTS = 2, WAITING = 100, BACK = 3 };
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    options.limit_others = SLOTS;
    for (int i = 0; i < SLOTS + WAITING + BACK; i++)
        add_kind(t, "sleep", "{\"steps\":[{\"sleep\":\"0s\"},{\"run\":\"" GATED "\"}]}");
    struct running_runner running = runner_start(t, &options);
    for (int waits = 1; waits <= 3; waits++) {
        int64_t base_ms = 15 * SECOND_MS << (waits - 1);
        wait_until(count_events("job.released") == (int64_t)BACK * waits, PATIENCE_MS);
        check_waits(base_ms * 8 / 10, base_ms * 12 / 10);
        sql_exec("UPDATE job SET due_at = 1, alarm_at = 1 WHERE state = 0");
    }
    open_gate();
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 2") == 0, PATIENCE_MS);
    stop(&running);
}

TEST(runner_kinds, WF_7_any_number_of_full_kinds_leaves_room_for_another)
{
    enum { KINDS = 40 };
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    struct tend_handler handlers[KINDS];
    options.limit_others = 1;
    for (int i = 0; i < KINDS; i++) {
        handlers[i] = (struct tend_handler){.kind = keep_text("kind-%d", i), .command = GATED};
        add_kind(t, handlers[i].kind, "{}");
        add_kind(t, handlers[i].kind, "{}");
    }
    options.handlers = handlers;
    options.handler_count = KINDS;
    struct running_runner running = runner_start(t, &options);
    wait_until(lines_of("begun") == KINDS, PATIENCE_MS);
    int64_t other = add_kind(t, "sleep", "{\"sleep\":\"0s\"}");
    wait_until(state_of(t, other) == TEND_DONE, PATIENCE_MS);
    check_int(lines_of("begun"), ==, KINDS);
    open_gate();
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 4") == 2 * KINDS + 1, PATIENCE_MS);
    stop(&running);
}

TEST(runner_kinds, WF_7_a_long_queue_of_a_full_kind_hides_no_other)
{
    enum { JOBS = 3000 };
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    options.limit_others = 1;
    struct tend_job_spec *specs = calloc(JOBS, sizeof *specs);
    struct tend_added *added = calloc(JOBS, sizeof *added);
    for (int i = 0; i < JOBS; i++) {
        specs[i] = spec_for("q");
        specs[i].kind = "shell";
        specs[i].payload = "{\"run\":\"" GATED "\"}";
    }
    check_ok(t, tend_add_many(t, specs, JOBS, added));
    free(specs);
    free(added);
    int64_t other = add_kind(t, "sleep", "{\"sleep\":\"0s\"}");
    struct running_runner running = runner_start(t, &options);
    wait_until(state_of(t, other) == TEND_DONE, PATIENCE_MS);
    wait_until(lines_of("begun") == 1, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    open_gate();
    runner_join(&running);
}
