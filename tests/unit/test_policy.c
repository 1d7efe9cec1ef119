/* core/policy: when something is tried again. */
#include "base/err.h"
#include "base/rng.h"
#include "core/policy.h"
#include "unit/case.h"

#include <math.h>
#include <tend.h>

static const double no_jitter = 0.5;

TEST(policy, defaults_are_those_of_the_contract)
{
    struct retry_policy policy = policy_default();
    check_int(policy.max_attempts, ==, 3);
    check_int(policy.backoff_ms, ==, 15000);
    check_int(policy.backoff_max_ms, ==, 600000);
    check(policy.factor == 2.0);
    check_int(policy.max_crashes, ==, 3);
    check_int(policy_check(&policy, NULL), ==, 0);
}

TEST(policy, backoff_doubles_up_to_its_maximum)
{
    /* SH-11 */
    static const int64_t waits_ms[] = {15000, 30000, 60000, 120000, 240000, 480000, 600000, 600000};
    struct retry_policy policy = policy_default();
    for (int i = 0; i < (int)CASES(waits_ms); i++)
        check_int(policy_backoff(&policy, i + 1, no_jitter), ==, waits_ms[i]);
    check_int(policy_backoff(&policy, 0, no_jitter), ==, 15000);
    check_int(policy_backoff(&policy, 1000000, no_jitter), ==, 600000);
}

TEST(policy, jitter_is_20_percent_either_way_and_never_above_the_maximum)
{
    struct retry_policy policy = policy_default();
    check_int(policy_backoff(&policy, 1, 0.0), ==, 12000);
    check_int(policy_backoff(&policy, 1, 1.0), ==, 18000);
    struct rng rng;
    rng_seed(&rng, 3);
    int64_t lowest = INT64_MAX, highest = 0;
    int at_maximum = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t wait_ms = policy_backoff(&policy, 10, rng_double(&rng));
        lowest = wait_ms < lowest ? wait_ms : lowest;
        highest = wait_ms > highest ? wait_ms : highest;
        at_maximum += wait_ms == 600000;
    }
    check_int(highest, <=, 600000);
    check_int(highest, >, 599000);
    check_int(lowest, >=, 480000);
    check_int(lowest, <, 481000);
    /* They spread instead of gathering at the end. */
    check_int(at_maximum, <, 10);
}

TEST(policy, odd_policies_give_sensible_waits)
{
    struct retry_policy policy = policy_default();
    policy.backoff_ms = 0;
    check_int(policy_backoff(&policy, 1000000000, no_jitter), ==, 0);
    policy.backoff_ms = 10;
    policy.factor = 1.0;
    check_int(policy_backoff(&policy, 1000000000, no_jitter), ==, 10);
    policy.factor = 1000.0;
    policy.backoff_max_ms = INT64_C(365) * 86400000;
    check_int(policy_backoff(&policy, 1000000000, no_jitter), ==, policy.backoff_max_ms);
}

TEST(policy, a_failure_is_retried_until_the_attempts_are_used_up)
{
    struct retry_policy policy = policy_default();
    struct failure_verdict verdict = policy_after_failure(&policy, 0, true, -1, no_jitter);
    check_int(verdict.verb, ==, MOVE_RETRY_LATER);
    check_int(verdict.delay_ms, ==, 15000);
    verdict = policy_after_failure(&policy, 1, true, -1, no_jitter);
    check_int(verdict.verb, ==, MOVE_RETRY_LATER);
    check_int(verdict.delay_ms, ==, 30000);
    verdict = policy_after_failure(&policy, 2, true, -1, no_jitter);
    check_int(verdict.verb, ==, MOVE_FAIL);
    check_int(verdict.delay_ms, ==, 0);
    verdict = policy_after_failure(&policy, 100, true, 5, no_jitter);
    check_int(verdict.verb, ==, MOVE_FAIL);
    policy.max_attempts = 1;
    check_int(policy_after_failure(&policy, 0, true, -1, no_jitter).verb, ==, MOVE_FAIL);
}

TEST(policy, what_cannot_be_retried_fails_at_once)
{
    struct retry_policy policy = policy_default();
    struct failure_verdict verdict = policy_after_failure(&policy, 0, false, 1000, no_jitter);
    check_int(verdict.verb, ==, MOVE_FAIL);
    check_int(verdict.delay_ms, ==, 0);
}

TEST(policy, retry_in_is_honoured_as_it_is)
{
    /* WF-11 */
    struct retry_policy policy = policy_default();
    check_int(policy_after_failure(&policy, 0, true, 0, 0.9).delay_ms, ==, 0);
    check_int(policy_after_failure(&policy, 0, true, 7777777, 0.9).delay_ms, ==, 7777777);
}

TEST(policy, the_third_crash_quarantines)
{
    /* RC-12 */
    struct retry_policy policy = policy_default();
    struct crash_verdict verdict = policy_after_crash(&policy, 0, true);
    check_int(verdict.verb, ==, MOVE_RECOVER);
    check_int(verdict.crashes, ==, 1);
    verdict = policy_after_crash(&policy, 1, true);
    check_int(verdict.verb, ==, MOVE_RECOVER);
    verdict = policy_after_crash(&policy, 2, true);
    check_int(verdict.verb, ==, MOVE_QUARANTINE);
    check_int(verdict.crashes, ==, 3);
    policy.max_crashes = 1;
    check_int(policy_after_crash(&policy, 0, true).verb, ==, MOVE_QUARANTINE);
}

TEST(policy, a_job_never_started_is_charged_no_crash)
{
    /* LS-1 */
    struct retry_policy policy = policy_default();
    for (int before = 0; before < 5; before++) {
        struct crash_verdict verdict = policy_after_crash(&policy, before, false);
        check_int(verdict.verb, ==, MOVE_RECOVER);
        check_int(verdict.crashes, ==, before);
    }
}

TEST(policy, contention_is_tried_five_times)
{
    /* CL-5 */
    static const int64_t waits_ms[] = {50, 100, 200, 400, -1, -1};
    for (int i = 0; i < (int)CASES(waits_ms); i++)
        check_int(policy_contention_delay(i + 1, no_jitter), ==, waits_ms[i]);
    check_int(policy_contention_delay(1, 0.0), ==, 40);
    check_int(policy_contention_delay(1, 1.0), ==, 60);
    check_int(policy_contention_delay(0, no_jitter), ==, 50);
    check_int(policy_contention_delay(-100, no_jitter), ==, 50);
}

TEST(policy, bad_values_are_refused_with_their_name)
{
    /* SH-17 */
    struct err err;
    struct retry_policy policy = policy_default();
    policy.max_attempts = 0;
    check_int(policy_check(&policy, &err), ==, TEND_EINVAL);
    check_contains(err.text, "max_attempts");
    policy = policy_default();
    policy.max_crashes = 0;
    check_int(policy_check(&policy, &err), ==, TEND_EINVAL);
    check_contains(err.text, "max_crashes");
    policy = policy_default();
    policy.backoff_ms = -1;
    check_int(policy_check(&policy, &err), ==, TEND_EINVAL);
    check_contains(err.text, "backoff is -1ms");
    policy = policy_default();
    policy.backoff_max_ms = 100;
    check_int(policy_check(&policy, &err), ==, TEND_EINVAL);
    check_contains(err.text, "longest backoff");
    policy = policy_default();
    policy.factor = 0.5;
    check_int(policy_check(&policy, &err), ==, TEND_EINVAL);
    check_contains(err.text, "factor");
    policy.factor = NAN;
    check_int(policy_check(&policy, &err), ==, TEND_EINVAL);
}
