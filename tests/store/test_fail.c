/* Failing: attempts, backoff, retry times, for good, dead letters; and what a repeated call is
 * told. */
#include "support/store.h"

#include <string.h>

static struct tend_failure failure_of(const char *class, const char *text)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.error_class = class;
    failure.text = text;
    return failure;
}

TEST(fail, a_failed_attempt_is_tried_again_after_a_backoff_in_range)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of("transient_runtime", "no network");
    struct tend_job_spec spec = spec_for("q");
    spec.max_attempts = 6;
    spec.backoff_ms = 1000;
    spec.backoff_max_ms = 5000;
    int64_t id = add_spec(t, &spec);
    const int64_t base_ms[] = {1000, 2000, 4000, 5000, 5000};
    for (int i = 0; i < 5; i++) {
        int64_t due_ms = 0;
        struct tend_lease lease = claim_one(t, "q");
        check_ok(t, tend_fail(t, lease, &failure, &due_ms));
        const struct tend_job *job = job_of(t, id);
        check_int(job->state, ==, TEND_SCHEDULED);
        check_int(job->attempts, ==, i + 1);
        check_int(job->due_at_ms, ==, due_ms);
        check_int(due_ms - clock_now(), >=, base_ms[i] * 8 / 10);
        check_int(due_ms - clock_now(), <=, base_ms[i] * 12 / 10);
        check_int(due_ms - clock_now(), <=, 5000);
        check_str(job->error_class, "transient_runtime");
        check_str(job->error_text, "no network");
        clock_set(due_ms);
    }
    int64_t due_ms = 0;
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, &due_ms));
    check_int(due_ms, ==, TEND_UNSET);
    check_int(state_of(t, id), ==, TEND_FAILED);
}

TEST(fail, attempts_used_up_fail_for_good_and_say_why)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of("deterministic_repo", "tests are red");
    int64_t id = add_one(t, "q");
    for (int i = 0; i < 3; i++) { /* the default */
        struct tend_lease lease = claim_as(t, "q", "tester");
        check_ok(t, tend_fail(t, lease, &failure, NULL));
        clock_advance(HOUR_MS);
    }
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_FAILED);
    check_int(job->attempts, ==, 3);
    check_int(job->crashes, ==, 0);
    check_int(job->finished_at_ms, ==, clock_now() - HOUR_MS);
    check_str(job->error_class, "deterministic_repo");
    check_str(job->error_text, "tests are red");
    check_str(events_of(t, id), "job.added job.claimed job.retry_scheduled job.due job.claimed "
                                "job.retry_scheduled job.due job.claimed job.failed");
    const struct tend_event *event = last_event_of(t, id);
    check_str(event->who, "tester");
    check_str(event->why, "tests are red");
}

TEST(fail, the_queue_sets_the_budgets_where_the_job_does_not)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, NULL);
    const struct tend_setting settings[] = {
        {"max-attempts", "2"}, {"backoff", "100s"}, {"backoff-max", "1000s"}};
    int64_t due_ms;
    check_ok(t, tend_queue_set(t, "q", settings, 3, NULL));
    int64_t id = add_one(t, "q");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, &due_ms));
    check_int(due_ms - clock_now(), >=, 80 * SECOND_MS);
    check_int(due_ms - clock_now(), <=, 120 * SECOND_MS);
    check_str(job_of(t, id)->error_class, "transient_runtime");
    clock_set(due_ms);
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, &due_ms));
    check_int(state_of(t, id), ==, TEND_FAILED);
}

TEST(fail, the_time_asked_for_is_honoured)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, "429");
    int64_t due_ms;
    int64_t id = add_one(t, "q");
    failure.retry_in_ms = 123456;
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, &due_ms));
    check_int(due_ms, ==, clock_now() + 123456);
    clock_set(due_ms - 1);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_advance(1);
    failure.retry_in_ms = 0;
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, &due_ms));
    check_int(due_ms, ==, clock_now());
    check_int(claim_one(t, "q").id, ==, id);
}

TEST(fail, final_means_no_retry_whatever_is_left)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of("deterministic_policy", "forbidden");
    int64_t due_ms = 0;
    int64_t id = add_one(t, "q");
    failure.final = 1;
    failure.retry_in_ms = 1000;
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, &due_ms));
    check_int(due_ms, ==, TEND_UNSET);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_int(job_of(t, id)->attempts, ==, 1);
}

/* The answer to the first call got lost on its way: the owner asks again. */
TEST(fail, a_repeated_fail_is_answered_as_the_first)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, "once");
    int64_t due_ms = 0;
    int64_t again_ms = 0;
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, &due_ms));
    const char *before = store_snapshot();
    check_ok(t, tend_fail(t, lease, &failure, &again_ms));
    check_int(again_ms, ==, due_ms);
    check_str(store_snapshot(), before);
    check_int(job_of(t, id)->attempts, ==, 1);
    /* Also when it has become due meanwhile. */
    clock_set(due_ms);
    recover_now(t);
    before = store_snapshot();
    again_ms = 0;
    check_ok(t, tend_fail(t, lease, &failure, &again_ms));
    check_int(again_ms, ==, due_ms);
    check_str(store_snapshot(), before);
    /* But once another has the job, the lease is lost. */
    claim_one(t, "q");
    check_rc(t, tend_fail(t, lease, &failure, NULL), TEND_ELEASELOST);
}

TEST(fail, a_repeated_fail_for_good_is_answered_as_the_first)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, "once");
    int64_t due_ms = 0;
    failure.final = 1;
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    const char *before = store_snapshot();
    check_ok(t, tend_fail(t, lease, &failure, &due_ms));
    check_int(due_ms, ==, TEND_UNSET);
    check_str(store_snapshot(), before);
}

static void conflicts(tend *t, struct tend_lease lease, const struct tend_failure *failure,
                      const char *says)
{
    const char *before = store_snapshot();
    check_rc(t, tend_fail(t, lease, failure, NULL), TEND_ECONFLICT);
    check_contains(tend_errmsg(t), says);
    check_str(store_snapshot(), before);
}

/* "fail --final" after a fail was answered "tried again in 17s" and dropped. */
TEST(fail, a_repeated_fail_that_asks_for_something_else_says_what_stands)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, "once");
    struct tend_failure other = failure;
    failure.retry_in_ms = 30 * SECOND_MS;
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    check_ok(t, tend_fail(t, lease, &other, NULL)); /* says nothing about when */
    other.final = 1;
    conflicts(t, lease, &other, "otherwise than asked now: once; it is scheduled, due ");
    other = failure;
    other.retry_in_ms = 31 * SECOND_MS;
    conflicts(t, lease, &other, "it is scheduled");
    other = failure_of(NULL, "twice");
    conflicts(t, lease, &other, ": once;");
    other = failure_of("auth", "once");
    conflicts(t, lease, &other, ": once;");
    clock_advance(MINUTE_MS);
    recover_now(t);
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    other = failure;
    other.retry_in_ms = 0;
    conflicts(t, lease, &other, "it is pending");
}

TEST(fail, a_fail_for_good_is_not_repeated_by_one_that_asks_for_another_attempt)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, "once");
    struct tend_job_spec spec = spec_for("q");
    failure.final = 1;
    add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    failure.final = 0;
    failure.retry_in_ms = SECOND_MS;
    conflicts(t, lease, &failure, "it is failed;");
    /* But one whose last attempt it was has failed for good by the same call. */
    spec.max_attempts = 1;
    add_spec(t, &spec);
    lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    check_ok(t, tend_fail(t, lease, &failure, NULL));
}

/* "release --delay 1h" after a release was answered as if that were so. */
TEST(fail, a_repeated_release_that_asks_for_something_else_says_what_stands)
{
    tend *t = store_open("w");
    int each = 0;
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, "tired", NULL));
    check_ok(t, tend_release(t, &lease, 1, 0, "tired", NULL));
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    const char *before = store_snapshot();
    check_rc(t, tend_release(t, &lease, 1, HOUR_MS, "tired", &each), TEND_ECONFLICT);
    check_int(each, ==, TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "released under lease");
    check_contains(tend_errmsg(t), ": tired; it is pending");
    check_rc(t, tend_release(t, &lease, 1, 0, "hungry", NULL), TEND_ECONFLICT);
    check_str(store_snapshot(), before);

    lease = claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, HOUR_MS, NULL, NULL));
    check_ok(t, tend_release(t, &lease, 1, HOUR_MS, NULL, NULL));
    check_rc(t, tend_release(t, &lease, 1, 0, NULL, NULL), TEND_ECONFLICT);
    check_rc(t, tend_release(t, &lease, 1, 2 * HOUR_MS, NULL, NULL), TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "it is scheduled, due ");
    clock_advance(HOUR_MS);
    recover_now(t);
    check_ok(t, tend_release(t, &lease, 1, HOUR_MS, NULL, NULL));
}

/* What a tool printed before it died is rarely clean text; the failure must be told all the same.
 */
TEST(fail, a_text_that_is_no_utf8_does_not_keep_a_job_from_failing)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of(NULL, "caf\xe9 \xff\xfe end");
    int64_t id = add_one(t, "q");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    check_contains(job_of(t, id)->error_text, "caf\xef\xbf\xbd ");
    check_contains(job_of(t, id)->error_text, " end");
    check_contains(last_event_of(t, id)->why, "caf\xef\xbf\xbd ");
}

/* BY-4: dead letters. */
TEST(fail, a_dead_letter_is_kept_with_its_history_and_can_be_redriven)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of("deterministic_repo", "red");
    struct tend_job_spec spec = spec_for("q");
    spec.max_attempts = 2;
    spec.payload = "{\"n\":1}";
    int64_t id = add_spec(t, &spec);
    for (int i = 0; i < 2; i++) {
        check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
        clock_advance(HOUR_MS);
    }
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "op", "fixed"));
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->attempts, ==, 0); /* full budgets */
    check_int(job->crashes, ==, 0);
    check_int(job->due_at_ms, ==, clock_now());
    check_int(job->finished_at_ms, ==, TEND_UNSET);
    check_str(job->payload, "{\"n\":1}");
    check_str(job->error_text, "red"); /* what it failed of can still be read */
    check_contains(events_of(t, id), "job.failed job.redriven");
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
}

/* A done job showed the error of the attempt before. */
TEST(fail, a_job_that_is_completed_has_no_error_any_more)
{
    tend *t = store_open("w");
    struct tend_failure failure = failure_of("deterministic_policy", "no right to do so");
    enum { JOBS = 40 }; /* one by one, and many at once */
    struct tend_lease leases[JOBS];
    add_number(t, "q", JOBS);
    check_int(claim_many(t, "q", JOBS, leases), ==, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        check_ok(t, tend_fail(t, leases[i], &failure, NULL));
    clock_advance(HOUR_MS);
    recover_now(t); /* all are due */
    check_int(claim_many(t, "q", JOBS, leases), ==, JOBS);
    check_str(job_of(t, leases[0].id)->error_class, "deterministic_policy");
    const char *const results[] = {"{\"ok\":true}"};
    check_ok(t, tend_complete(t, &leases[0], 1, results, NULL));
    check_ok(t, tend_complete(t, &leases[1], 1, NULL, NULL));
    check_ok(t, tend_complete(t, &leases[2], JOBS - 2, NULL, NULL));
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, JOBS);
    check_int(sql_int("SELECT count(*) FROM job WHERE error_class IS NOT NULL OR error_text IS NOT "
                      "NULL"),
              ==, 0);
    check_contains(sql_rows("SELECT why FROM event WHERE what = 'job.retry_scheduled'"),
                   "no right to do so");
}
