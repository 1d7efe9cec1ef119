/* See policy.h. */
#include "core/policy.h"

#include "base/err.h"
#include "base/timetext.h"

#include <tend.h>

enum {
    DEFAULT_MAX_ATTEMPTS = 3,
    DEFAULT_MAX_CRASHES = 3,
    DEFAULT_BACKOFF_MS = 15 * 1000,
    DEFAULT_BACKOFF_MAX_MS = 600 * 1000,
    CONTENTION_TRIES = 5,
    CONTENTION_FIRST_DELAY_MS = 50,
    MOST_ATTEMPTS = 1000000,
};

static const double jitter_share = 0.2;
static const double largest_factor = 1000.0;
static const int64_t longest_backoff_ms = INT64_C(365) * 24 * 3600 * 1000;

struct retry_policy policy_default(void)
{
    return (struct retry_policy){
        .max_attempts = DEFAULT_MAX_ATTEMPTS,
        .backoff_ms = DEFAULT_BACKOFF_MS,
        .backoff_max_ms = DEFAULT_BACKOFF_MAX_MS,
        .factor = 2.0,
        .max_crashes = DEFAULT_MAX_CRASHES,
    };
}

int policy_check(const struct retry_policy *policy, struct err *err)
{
    char first[DURATION_TEXT_BYTES];
    char longest[DURATION_TEXT_BYTES];
    if (policy->max_attempts < 1 || policy->max_attempts > MOST_ATTEMPTS)
        return err_set(err, TEND_EINVAL, "max_attempts is %d, must be 1 to %d",
                       policy->max_attempts, MOST_ATTEMPTS);
    if (policy->max_crashes < 1 || policy->max_crashes > MOST_ATTEMPTS)
        return err_set(err, TEND_EINVAL, "max_crashes is %d, must be 1 to %d", policy->max_crashes,
                       MOST_ATTEMPTS);
    if (policy->backoff_ms < 0 || policy->backoff_ms > longest_backoff_ms)
        return err_set(err, TEND_EINVAL, "backoff is %s, must be 0 to 365 days",
                       duration_text(policy->backoff_ms, first));
    if (policy->backoff_max_ms < policy->backoff_ms || policy->backoff_max_ms > longest_backoff_ms)
        return err_set(err, TEND_EINVAL,
                       "the longest backoff is %s, must be from the first one (%s) to 365 days",
                       duration_text(policy->backoff_max_ms, longest),
                       duration_text(policy->backoff_ms, first));
    /* Written so that NaN is refused too. */
    if (!(policy->factor >= 1.0 && policy->factor <= largest_factor))
        return err_set(err, TEND_EINVAL, "the backoff factor is %g, must be 1 to %g",
                       policy->factor, largest_factor);
    return 0;
}

/* From base - 20 % to base + 20 %, evenly. */
static double jittered(double base, double random)
{
    return base * (1.0 - jitter_share + 2.0 * jitter_share * random);
}

int64_t policy_backoff(const struct retry_policy *policy, int attempts, double random)
{
    double longest = (double)policy->backoff_max_ms;
    double base = (double)policy->backoff_ms;
    /* A factor of 1 changes nothing however often it is applied; others reach the end soon. */
    for (int i = 1; i < attempts && base < longest && base > 0.0 && policy->factor > 1.0; i++)
        base *= policy->factor;
    if (base > longest)
        base = longest;
    double delay = jittered(base, random);
    if (delay > longest)
        delay = longest - (delay - longest);
    return (int64_t)(delay + 0.5);
}

struct failure_verdict policy_after_failure(const struct retry_policy *policy, int attempts_before,
                                            bool retryable, int64_t retry_in_ms, double random)
{
    struct failure_verdict verdict = {.verb = MOVE_FAIL};
    if (!retryable || attempts_before >= policy->max_attempts - 1)
        return verdict;
    verdict.verb = MOVE_RETRY_LATER;
    verdict.delay_ms =
        retry_in_ms >= 0 ? retry_in_ms : policy_backoff(policy, attempts_before + 1, random);
    return verdict;
}

struct crash_verdict policy_after_crash(const struct retry_policy *policy, int crashes_before,
                                        bool started)
{
    struct crash_verdict verdict = {.verb = MOVE_RECOVER, .crashes = crashes_before};
    if (!started)
        return verdict;
    verdict.crashes++;
    if (verdict.crashes >= policy->max_crashes)
        verdict.verb = MOVE_QUARANTINE;
    return verdict;
}

int64_t policy_contention_delay(int tries, double random)
{
    if (tries >= CONTENTION_TRIES)
        return -1;
    int doublings = tries > 1 ? tries - 1 : 0;
    return (int64_t)(jittered((double)(CONTENTION_FIRST_DELAY_MS << doublings), random) + 0.5);
}
