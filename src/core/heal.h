/*
 * What to do after a failed attempt: the state machine of self-healing (SH-1, 3, 6, 7, 11).
 *
 *      begin_step
 *          │
 *          ▼          attempt succeeds
 *     ┌─ TRYING ────────────────────────────▶ next step
 *     │    │ ▲ ▲
 *     │    │ │ └── HEAL_SOFT   a fresh process in the same workspace
 *     │    │ └──── HEAL_HARD   a fresh workspace: start ref + patches of the steps before
 *     │    │
 *     │    ├─ class is deterministic ────────▶ HEAL_FAIL        the job fails for good
 *     │    └─ attempts used up, or
 *     │       stuck with no reset left ──────▶ HEAL_EXHAUSTED   the job fails, and the queue may
 *     └─ (controls are the caller's)                            try it again later
 *
 * After each failed attempt, in this order:
 *     deterministic class                                  -> HEAL_FAIL
 *     step_max_attempts made                               -> HEAL_EXHAUSTED, the class as it is,
 *                                                             or stuck_no_progress when stuck
 *     stuck, a workspace, and resets left in the job       -> HEAL_HARD
 *     stuck                                                -> HEAL_EXHAUSTED, stuck_no_progress
 *     else                                                 -> HEAL_SOFT
 *
 * Stuck is: the class says so (the step declared it, or an unknown failure came back), or the last
 * step_no_progress_limit attempts were alike, or went A B A B … that many times. Alike are attempts
 * of the same signature and the same diff hash; no diff is like no diff. It takes two to be alike,
 * so a limit of 1 acts as 2. A hard reset does not end a row: the same failure in a fresh
 * workspace is no progress either.
 *
 * Not the doing, and no clock: the caller runs attempts and says how they ended. A step that goes
 * on under another lease (after a pause, a stop, a crash) is brought up to date by feeding its
 * recorded failures again (heal_remember). Attempts that were interrupted from outside are not fed:
 * they count for nothing. Invariants: attempts never exceed their budget, resets never theirs, a
 * deterministic class is never tried again.
 */
#ifndef CORE_HEAL_H
#define CORE_HEAL_H

#include "core/budget.h"
#include "core/classify.h"

#include <stdbool.h>
#include <stdint.h>

enum heal_action { HEAL_SOFT, HEAL_HARD, HEAL_FAIL, HEAL_EXHAUSTED };

/* "soft_reset" and "hard_reset", as events call them; "" for the other two. */
const char *heal_strategy_name(enum heal_action action);
/* "soft_reset", "hard_reset", "failed", "exhausted": as attempts are stored. */
const char *heal_verdict_name(enum heal_action action);
/* ... and back; HEAL_SOFT where nothing is known. */
enum heal_action heal_verdict_parse(const char *name);

enum { HEAL_UNKNOWN_KEPT = 64 };

/* One job. The fields are heal.c's. */
struct heal {
    struct budgets budgets; /* of the present step */
    int64_t resets_used;    /* in the job; the caller keeps it over workers and queue attempts */
    bool has_workspace;
    int64_t attempts;       /* of the present step that have failed */
    uint64_t before[2];     /* the last attempts: [0] the last, [1] the one before */
    int64_t same_as_last;   /* length of the row A A A */
    int64_t same_as_second; /* length of the row A B A B */
    /* Signatures of unknown failures in the step; the oldest are forgotten first. */
    uint64_t unknown[HEAL_UNKNOWN_KEPT];
    int64_t unknown_count;
};

/* A failed attempt. */
struct heal_attempt {
    enum failure_class class; /* as classified */
    bool unknown;             /* decided by nothing: see classify.h */
    const char *signature;    /* hash; NULL or "": none */
    const char *diff_hash;    /* NULL or "": nothing changed, or no workspace */
};

struct heal_verdict {
    enum heal_action action;
    enum failure_class class; /* of the failure as a whole; stuck_no_progress when stuck */
    bool retryable;           /* by the queue, when the step is given up */
    bool no_progress;         /* attempts were alike: for task.step.no_progress_total */
    int64_t attempt;          /* number of the one that failed, from 1 */
    char reason[240];
};

void heal_begin_job(struct heal *heal, int64_t resets_used, bool has_workspace);

/* Also for an operator's retry_step: the step begins anew, the job's resets stay used. */
void heal_begin_step(struct heal *heal, const struct budgets *budgets);

/* An operator's hard reset is one of the job's. */
void heal_count_reset(struct heal *heal);

/* How many unknown failures of this signature the step has seen: for evidence.unknown_before. */
int heal_unknown_before(const struct heal *heal, const char *signature);

/* A failure recorded under an earlier lease, in their order. What followed it is known: nothing is
 * decided, and no reset counted. */
void heal_remember(struct heal *heal, const struct heal_attempt *attempt);

void heal_after_failure(struct heal *heal, const struct heal_attempt *attempt,
                        struct heal_verdict *ret);

#endif
