/* Which failures the queue tries again is a setting, and is told with the failure (SH-4, SH-11). */
#include "runner_case.h"

static void set_classes(tend *t, const char *classes)
{
    const struct tend_setting setting = {.name = "retry-classes", .value = classes};
    check_ok(t, tend_queue_set(t, "q", &setting, 1, "me"));
}

/* "state, class, retryable of the last attempt, events that say so". */
static void check_end(tend *t, int64_t id, int state, const char *class, bool retryable)
{
    struct tend_attempts *attempts;
    check_int(state_of(t, id), ==, state);
    check_str(job_of(t, id)->error_class, class);
    check_ok(t, tend_attempts(t, id, &attempts));
    check_int(attempts->items[attempts->count - 1].retryable, ==, retryable);
    for (size_t i = 0; i + 1 < attempts->count; i++)
        check_int(attempts->items[i].retryable, ==, TEND_UNSET);
    tend_attempts_free(attempts);
    check_int(sql_int("SELECT count(*) FROM event WHERE job_id = %lld AND what = "
                      "'task.step.attempt.failed' AND data LIKE '%%\"retryable\":%s%%'",
                      (long long)id, retryable ? "true" : "false"),
              ==, 1);
}

static int64_t count_exhausted(bool retryable)
{
    return sql_int("SELECT count(*) FROM event WHERE what = 'task.self_heal.exhausted' AND data "
                   "LIKE '%%\"retryable\":%s%%'",
                   retryable ? "true" : "false");
}

TEST(runner_classes, SH_11_by_default_what_is_transient_or_stuck_is_tried_again_by_the_queue)
{
    tend *t = store_open_real("w");
    int64_t transient = add_plan(t, "{\"run\":\"exit 75\",\"attempts\":1}");
    int64_t stuck =
        add_plan(t, "{\"run\":\"echo class=stuck_no_progress >> $TEND_OUTPUT; exit 1\"}");
    int64_t policy = add_plan(t, "{\"run\":\"exit 77\"}");
    run_until_drained(t);
    check_end(t, transient, TEND_SCHEDULED, "transient_runtime", true);
    check_end(t, stuck, TEND_SCHEDULED, "stuck_no_progress", true);
    check_end(t, policy, TEND_FAILED, "deterministic_policy", false);
    check_int(count_exhausted(true), ==, 2);
}

/* Symptom: which classes are tried again was fixed, and no event said it. */
TEST(runner_classes, SH_11_a_class_that_the_queue_does_not_list_is_not_tried_again)
{
    tend *t = store_open_real("w");
    set_classes(t, "stuck_no_progress");
    int64_t transient = add_plan(t, "{\"run\":\"exit 75\",\"attempts\":2,\"pause\":\"0s\"}");
    run_until_drained(t);
    check_end(t, transient, TEND_FAILED, "transient_runtime", false);
    check_int(count_exhausted(false), ==, 1);
}

TEST(runner_classes, SH_11_a_deterministic_class_that_the_queue_lists_is_tried_again_by_it)
{
    tend *t = store_open_real("w");
    set_classes(t, "deterministic_policy,deterministic_repo");
    int64_t policy = add_plan(t, "{\"run\":\"exit 77\"}");
    int64_t repo = add_plan(
        t, keep_text("{\"workspace\":{\"repo\":\"%s/none\"},\"run\":\"true\"}", test_folder()));
    run_until_drained(t);
    check_end(t, policy, TEND_SCHEDULED, "deterministic_policy", true);
    check_str(attempts_of(t, policy), "1:failed:deterministic_policy:exit.77");
    /* Before a step could be tried, too. */
    check_int(state_of(t, repo), ==, TEND_SCHEDULED);
    check_str(job_of(t, repo)->error_class, "deterministic_repo");
}

TEST(runner_classes, SH_11_the_plan_overrules_the_queue)
{
    tend *t = store_open_real("w");
    set_classes(t, "none");
    int64_t again = add_plan(
        t, "{\"run\":\"exit 77\",\"retry_classes\":\"deterministic_policy,transient_runtime\"}");
    int64_t never = add_plan(t, "{\"run\":\"exit 75\",\"attempts\":1,\"retry_classes\":\"none\"}");
    run_until_drained(t);
    check_end(t, again, TEND_SCHEDULED, "deterministic_policy", true);
    check_end(t, never, TEND_FAILED, "transient_runtime", false);
}

TEST(runner_classes, a_list_of_classes_in_a_plan_that_is_none_is_refused_with_its_place)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"true\",\"retry_classes\":\"transient\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_contains(job_of(t, id)->error_text, "retry_classes: must be failure classes");
}
