/*
 * When a failed, crashed or contended thing is tried again: the only retry policy there is.
 *
 * Not the doing: the answers are moves of the state table and delays. Chance comes in as a number
 * `random` in [0, 1), so that the same input always gives the same answer.
 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "core/state.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

struct retry_policy {
    int max_attempts;       /* attempts in all, the first included; at least 1 */
    int64_t backoff_ms;     /* wait after the first failed attempt, before jitter */
    int64_t backoff_max_ms; /* no wait is longer, jitter included */
    double factor;          /* each wait is this many times the one before; at least 1 */
    int max_crashes;        /* the crash with this number quarantines the job; at least 1 */
};

/* 3 attempts, 15 s doubling up to 600 s, quarantine at the third crash (SH-11, RC-12). */
struct retry_policy policy_default(void);

/* 0, or TEND_EINVAL with a sentence that names the field and its range (SH-17). */
int policy_check(const struct retry_policy *policy, struct err *err);

/*
 * Milliseconds to wait after `attempts` attempts have failed (1, 2, …), with 20 % jitter either
 * way. Near the maximum the upper half of the jitter is folded down, so that waits neither exceed
 * the maximum nor gather on it.
 */
int64_t policy_backoff(const struct retry_policy *policy, int attempts, double random);

struct failure_verdict {
    enum job_move verb; /* MOVE_FAIL or MOVE_RETRY_LATER */
    int64_t delay_ms;   /* from now to the next attempt; 0 with MOVE_FAIL */
};

/*
 * What becomes of a job whose attempt has just failed. attempts_before counts the attempts ended
 * before this one; retry_in_ms is what the step asked for, honoured as it is (WF-11), or -1.
 */
struct failure_verdict policy_after_failure(const struct retry_policy *policy, int attempts_before,
                                            bool retryable, int64_t retry_in_ms, double random);

struct crash_verdict {
    enum job_move verb; /* MOVE_RECOVER or MOVE_QUARANTINE */
    int crashes;        /* the job's new count */
};

/*
 * What becomes of a job whose owner has gone. A job that was leased but never started is charged
 * nothing (LS-1).
 */
struct crash_verdict policy_after_crash(const struct retry_policy *policy, int crashes_before,
                                        bool started);

/*
 * Milliseconds to wait after `tries` tries have met contention in the store (1, 2, …): 50 ms
 * doubling with jitter; -1 when the five tries are used up (CL-5).
 */
int64_t policy_contention_delay(int tries, double random);

#endif
