/* Settings of a queue: every row of the table, ranges, defaults, taking back; and the figures. */
#include "support/store.h"

#include <pthread.h>
#include <string.h>

static struct tend_queue queue_of(tend *t, const char *name)
{
    struct tend_queue queue;
    check_ok(t, tend_queue_get(t, name, &queue));
    return queue;
}

TEST(settings, a_queue_without_settings_answers_with_the_defaults)
{
    tend *t = store_open("w");
    struct tend_queue queue = queue_of(t, "nowhere");
    check_str(queue.name, "nowhere");
    check_int(queue.exists, ==, 0);
    check_int(queue.paused, ==, 0);
    check_int(queue.serial, ==, 0);
    check_int(queue.concurrency, ==, TEND_UNSET);
    check_int(queue.key_concurrency, ==, TEND_UNSET);
    check_int(queue.rate_count, ==, TEND_UNSET);
    check_int(queue.lease_ms, ==, MINUTE_MS);
    check_int(queue.max_attempts, ==, 3);
    check_int(queue.max_crashes, ==, 3);
    check_int(queue.backoff_ms, ==, 15 * SECOND_MS);
    check_int(queue.backoff_max_ms, ==, 600 * SECOND_MS);
    check_int(queue.keep_done_ms, ==, 7 * DAY_MS);
    check_int(queue.keep_failed_ms, ==, TEND_UNSET);
    check_int(queue.step_max_attempts, ==,
              TEND_UNSET); /* as the environment says, or the default */
    check_int(queue.step_timeout_ms, ==, TEND_UNSET);
}

TEST(settings, every_setting_can_be_set_and_taken_back)
{
    tend *t = store_open("w");
    const struct tend_setting settings[] = {
        {"paused", "on"},
        {"why", "because"},
        {"serial", "on"},
        {"concurrency", "4"},
        {"key-concurrency", "2"},
        {"rate", "20/60s"},
        {"rate-strict", "on"},
        {"lease", "5m"},
        {"max-attempts", "9"},
        {"max-crashes", "8"},
        {"backoff", "1s"},
        {"backoff-max", "2h"},
        {"keep-done", "none"},
        {"keep-failed", "30d"},
        {"step-max-attempts", "5"},
        {"step-timeout", "20m"},
        {"step-idle-timeout", "none"},
        {"step-no-progress-limit", "4"},
        {"job-self-heal-max-resets", "0"},
        {"step-grace", "3s"},
        {"step-pause", "2s"},
        {"step-pause-max", "1m"},
        {"retry-classes", "transient_runtime,deterministic_repo"},
        {"keep-workspace", "none"},
    };
    enum { COUNT = sizeof settings / sizeof *settings };
    size_t rows;
    tend_setting_table(&rows);
    check_int(rows, ==, COUNT); /* this test knows them all */
    check_ok(t, tend_queue_set(t, "q", settings, COUNT, "op"));
    struct tend_queue queue = queue_of(t, "q");
    check_int(queue.exists, ==, 1);
    check_int(queue.paused, ==, 1);
    check_str(queue.paused_why, "because");
    check_int(queue.serial, ==, 1);
    check_int(queue.concurrency, ==, 4);
    check_int(queue.key_concurrency, ==, 2);
    check_int(queue.rate_count, ==, 20);
    check_int(queue.rate_period_ms, ==, MINUTE_MS);
    check_int(queue.rate_strict, ==, 1);
    check_int(queue.lease_ms, ==, 5 * MINUTE_MS);
    check_int(queue.max_attempts, ==, 9);
    check_int(queue.max_crashes, ==, 8);
    check_int(queue.backoff_ms, ==, SECOND_MS);
    check_int(queue.backoff_max_ms, ==, 2 * HOUR_MS);
    check_int(queue.keep_done_ms, ==, TEND_UNSET);
    check_int(queue.keep_failed_ms, ==, 30 * DAY_MS);
    check_int(queue.step_max_attempts, ==, 5);
    check_int(queue.step_timeout_ms, ==, 20 * MINUTE_MS);
    check_int(queue.step_idle_timeout_ms, ==, 0);
    check_int(queue.step_no_progress_limit, ==, 4);
    check_int(queue.job_self_heal_max_resets, ==, 0);
    check_int(queue.step_grace_ms, ==, 3 * SECOND_MS);
    check_int(queue.step_pause_ms, ==, 2 * SECOND_MS);
    check_int(queue.step_pause_max_ms, ==, MINUTE_MS);
    check_str(queue.retry_classes, "transient_runtime,deterministic_repo");
    check_int(queue.keep_workspace_ms, ==, TEND_UNSET);

    struct tend_setting defaults[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        defaults[i] = (struct tend_setting){settings[i].name, "default"};
    check_ok(t, tend_queue_set(t, "q", defaults, COUNT, "op"));
    struct tend_queue again = queue_of(t, "q");
    struct tend_queue fresh = queue_of(t, "other");
    check_int(again.version, >, queue.version);
    check_int(again.paused, ==, fresh.paused);
    check_str(again.paused_why, fresh.paused_why);
    check_int(again.serial, ==, fresh.serial);
    check_int(again.concurrency, ==, fresh.concurrency);
    check_int(again.key_concurrency, ==, fresh.key_concurrency);
    check_int(again.rate_count, ==, fresh.rate_count);
    check_int(again.rate_strict, ==, fresh.rate_strict);
    check_int(again.rate_period_ms, ==, fresh.rate_period_ms);
    check_int(again.lease_ms, ==, fresh.lease_ms);
    check_int(again.max_attempts, ==, fresh.max_attempts);
    check_int(again.max_crashes, ==, fresh.max_crashes);
    check_int(again.backoff_ms, ==, fresh.backoff_ms);
    check_int(again.backoff_max_ms, ==, fresh.backoff_max_ms);
    check_int(again.keep_done_ms, ==, fresh.keep_done_ms);
    check_int(again.keep_failed_ms, ==, fresh.keep_failed_ms);
    check_int(again.step_max_attempts, ==, TEND_UNSET);
    check_int(again.step_timeout_ms, ==, TEND_UNSET);
    check_int(again.step_idle_timeout_ms, ==, TEND_UNSET);
    check_int(again.step_no_progress_limit, ==, TEND_UNSET);
    check_int(again.job_self_heal_max_resets, ==, TEND_UNSET);
    check_int(again.step_grace_ms, ==, TEND_UNSET);
    check_int(again.step_pause_ms, ==, TEND_UNSET);
    check_int(again.step_pause_max_ms, ==, TEND_UNSET);
    check_str(again.retry_classes, "transient_runtime,stuck_no_progress");
    check_int(again.keep_workspace_ms, ==, DAY_MS);
}

TEST(settings, one_setting_leaves_the_others_alone)
{
    tend *t = store_open("w");
    set_queue(t, "q", "concurrency", "4");
    set_queue(t, "q", "lease", "10s");
    set_queue(t, "q", "paused", "on");
    struct tend_queue queue = queue_of(t, "q");
    check_int(queue.concurrency, ==, 4);
    check_int(queue.lease_ms, ==, 10 * SECOND_MS);
    check_int(queue.paused, ==, 1);
}

struct setter {
    tend *t;
    const char *queue;
    struct tend_setting setting;
};

static void *set_it(void *arg)
{
    const struct setter *setter = arg;
    check_ok(setter->t, tend_queue_set(setter->t, setter->queue, &setter->setting, 1, NULL));
    return NULL;
}

/* Of two settings of a new queue that came together one was lost, and both were acknowledged. */
TEST_WITHIN(settings, two_settings_of_a_new_queue_that_come_together_are_both_kept, 120)
{
    tend *t = store_open("w");
    tend *other = store_open("other");
    for (int i = 0; i < 40; i++) {
        const char *queue = keep_text("new-%d", i);
        pthread_t threads[2];
        struct setter setters[2] = {{t, queue, {"concurrency", "1"}},
                                    {other, queue, {"paused", "on"}}};
        struct tend_queue settings;
        for (int k = 0; k < 2; k++)
            pthread_create(&threads[k], NULL, set_it, &setters[k]);
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        check_ok(t, tend_queue_get(t, queue, &settings));
        check_int(settings.concurrency, ==, 1);
        check_int(settings.paused, ==, 1);
    }
}

TEST(settings, a_bad_value_is_refused_with_the_name_and_the_range_and_nothing_is_set)
{
    tend *t = store_open("w");
    const struct {
        const char *name, *value, *told;
    } cases[] = {
        {"paused", "maybe", "on or off"},
        {"paused", "", "on or off"},
        {"serial", "1", "on or off"},
        {"concurrency", "0", "from 1"},
        {"concurrency", "-1", "from 1"},
        {"concurrency", "many", "number"},
        {"concurrency", "1.5", "number"},
        {"concurrency", "99999999999999999999", "number"},
        {"concurrency", "", "number"},
        {"key-concurrency", "0", "from 1"},
        {"rate", "20", "20/60s"},
        {"rate", "0/60s", "20/60s"},
        {"rate", "-1/60s", "20/60s"},
        {"rate", "20/0s", "20/60s"},
        {"rate", "x/y", "20/60s"},
        {"lease", "1ms", "duration"},
        {"lease", "-5s", "duration"},
        {"lease", "none", "duration"},
        {"lease", "99999d", "duration"},
        {"max-attempts", "0", "from 1"},
        {"max-attempts", "none", "from 1"},
        {"max-crashes", "0", "from 1"},
        {"backoff", "soon", "duration"},
        {"backoff-max", "-1s", "duration"},
        {"step-max-attempts", "0", "1 to 1000"},
        {"step-max-attempts", "1001", "1 to 1000"},
        {"step-timeout", "31d", "or none"},
        {"step-idle-timeout", "-1s", "or none"},
        {"step-no-progress-limit", "0", "1 to 1000"},
        {"job-self-heal-max-resets", "101", "0 to 100"},
        {"step-grace", "2h", "to 1h"},
        {"keep-done", "x", "duration"},
        {"why", "bytes that are \xff no text", "UTF-8"},
    };
    set_queue(t, "q", "concurrency", "4");
    const char *before = store_snapshot();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tend_setting both[] = {{"max-attempts", "7"}, {cases[i].name, cases[i].value}};
        check_rc(t, tend_queue_set(t, "q", both, 2, "op"), TEND_EINVAL);
        check_contains(tend_errmsg(t), cases[i].name);
        check_contains(tend_errmsg(t), cases[i].told);
    }
    const struct tend_setting unknown[] = {{"colour", "red"}};
    check_rc(t, tend_queue_set(t, "q", unknown, 1, "op"), TEND_EINVAL);
    check_contains(tend_errmsg(t), "colour");
    check_str(store_snapshot(), before);
}

TEST(settings, a_reason_that_is_too_long_is_refused)
{
    tend *t = store_open("w");
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const struct tend_setting settings[] = {{"paused", "on"}, {"why", text}};
    check_rc(t, tend_queue_set(t, "q", settings, 2, NULL), TEND_EINVAL);
    text[255] = '\0';
    check_ok(t, tend_queue_set(t, "q", settings, 2, NULL));
    struct tend_queue queue = queue_of(t, "q");
    check_str(queue.paused_why, text);
    /* The reason goes with the pause. */
    set_queue(t, "q", "paused", "off");
    queue = queue_of(t, "q");
    check_str(queue.paused_why, "");
}

/* It was accepted, shown nowhere and forgotten. */
TEST(settings, a_reason_without_a_pause_is_refused)
{
    tend *t = store_open("w");
    const struct tend_setting why[] = {{"why", "deploy"}};
    const char *before = store_snapshot();
    check_rc(t, tend_queue_set(t, "q", why, 1, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), "queue \"q\" is not paused");
    check_str(store_snapshot(), before);
    const struct tend_setting off[] = {{"paused", "off"}, {"why", "deployed"}};
    check_ok(t, tend_queue_set(t, "q", off, 2, NULL));
    set_queue(t, "q", "paused", "on");
    check_ok(t, tend_queue_set(t, "q", why, 1, NULL));
    struct tend_queue queue = queue_of(t, "q");
    check_str(queue.paused_why, "deploy");
}

TEST(settings, the_table_has_a_form_and_a_text_for_each)
{
    size_t count;
    const struct tend_setting_info *infos = tend_setting_table(&count);
    check_int(count, >, 5);
    for (size_t i = 0; i < count; i++) {
        check_int(strlen(infos[i].name), >, 0);
        check_int(strlen(infos[i].value_form), >, 0);
        check_int(strlen(infos[i].text), >, 0);
    }
}

/* --- figures --- */

TEST(settings, stats_count_jobs_per_queue_and_state)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    struct tend_job_spec spec = spec_for("b");
    struct tend_lock_request request;
    struct tend_stats *stats;
    tend_failure_init(&failure);
    failure.final = 1;
    add_number(t, "b", 6);
    spec.delay_ms = HOUR_MS;
    add_spec(t, &spec);
    claim_one(t, "b");
    struct tend_lease lease = claim_one(t, "b");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    check_ok(t, tend_fail(t, claim_one(t, "b"), &failure, NULL));
    lease = claim_one(t, "b");
    check_ok(t, tend_act(t, TEND_CANCEL, lease.id, NULL, NULL));
    lease = claim_one(t, "b");
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, NULL, NULL));
    set_queue(t, "a", "paused", "on");
    tend_lock_request_init(&request);
    request.name = "l";
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    int64_t due_ms = clock_now();
    clock_advance(5000);

    check_ok(t, tend_stats(t, &stats));
    check_int(stats->count, ==, 2);
    check_str(stats->items[0].settings.name, "a");
    check_int(stats->items[0].settings.paused, ==, 1);
    check_int(stats->items[0].oldest_pending_ms, ==, TEND_UNSET);
    const struct tend_queue_stats *b = &stats->items[1];
    check_str(b->settings.name, "b");
    for (int state = 0; state < TEND_STATE_COUNT; state++)
        check_int(b->jobs[state], ==, 1);
    check_int(b->oldest_pending_ms, ==, due_ms);
    check_int(stats->workers, ==, 1);
    check_int(stats->locks, ==, 1);
    check_int(stats->schedules, ==, 0);
    check_int(stats->now_ms, ==, clock_now());
    tend_stats_free(stats);
}

TEST(settings, an_empty_store_has_empty_stats)
{
    tend *t = store_open("w");
    struct tend_stats *stats;
    check_ok(t, tend_stats(t, &stats));
    check_int(stats->count, ==, 0);
    check_int(stats->workers, ==, 0);
    tend_stats_free(stats);
}

/* With all workers gone, jobs that fell due were in no figure, and no alert fired. */
TEST(settings, stats_count_a_scheduled_job_that_is_due_as_pending)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_stats *stats;
    spec.delay_ms = MINUTE_MS;
    int64_t first_ms = clock_now() + MINUTE_MS;
    add_spec(t, &spec);
    add_spec(t, &spec);
    spec.delay_ms = HOUR_MS;
    int64_t later = add_spec(t, &spec);
    clock_advance(2 * MINUTE_MS);
    add_one(t, "q");
    check_ok(t, tend_stats(t, &stats));
    check_int(stats->count, ==, 1);
    check_int(stats->items[0].jobs[TEND_PENDING], ==, 3);
    check_int(stats->items[0].jobs[TEND_SCHEDULED], ==, 1);
    check_int(stats->items[0].oldest_pending_ms, ==, first_ms);
    tend_stats_free(stats);
    check_int(claim_many(t, "q", 10, NULL), ==, 3);
    check_ok(t, tend_stats(t, &stats));
    check_int(stats->items[0].jobs[TEND_PENDING], ==, 0);
    check_int(stats->items[0].oldest_pending_ms, ==, TEND_UNSET);
    tend_stats_free(stats);
    check_int(state_of(t, later), ==, TEND_SCHEDULED);
}
