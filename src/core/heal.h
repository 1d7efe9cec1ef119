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
 *     │    ├─ class is deterministic ────────▶ HEAL_FAIL        the job fails
 *     │    └─ attempts used up, or
 *     │       stuck with no reset left ──────▶ HEAL_EXHAUSTED   the job fails
 *     └─ (controls are the caller's)
 *
 * In the last two cases the queue tries the job again later if the class is one of the job's
 * retry_classes: by default transient_runtime and stuck_no_progress, so not after HEAL_FAIL.
 *
 * After each failed attempt, in this order:
 *     deterministic class                                  -> HEAL_FAIL
 *     stuck, a workspace, and resets left in the job       -> HEAL_HARD
 *     step_max_attempts made, or stuck                     -> HEAL_EXHAUSTED, stuck_no_progress
 *                                                             when stuck, else transient_runtime
 *     else                                                 -> HEAL_SOFT
 * A hard reset brings its own attempt: where the attempts are used up, the one after it is one
 * more.
 *
 * step_no_progress_limit: how many attempts in a row may repeat the failure before them (same
 * signature, same diff) until the step counts as stuck. So 1 acts at the first repeat (2 attempts
 * that are alike), 2 after the second (3 alike), 3 after the third (4 alike). No diff is like no
 * diff; one that could not be taken (HEAL_DIFF_UNKNOWN) is like nothing. What else counts:
 *   - Back and forth. An attempt that repeats the failure two before it (A B A B) counts in the
 *     same way, but at least two such attempts are needed: A B A alone shows no pattern. So limits
 *     1 and 2 act at A B A B, 3 at A B A B A.
 *   - Fewer failures are progress. An attempt whose output counts fewer failing tests or errors
 *     than the one before it repeats nothing, whatever signature and diff say.
 *   - A cause outside the workspace (network, service, rate limit) says nothing about the step.
 *     Such an attempt is left out of the row: it neither repeats nor ends anything. So it never
 *     leads to a hard reset, which could not help. The step is tried until its attempts are used.
 *   - A hard reset does not end a row: the same failure in a fresh workspace is no progress.
 *   - An unknown failure has a rule of its own, which the limit does not change: it is transient
 *     once per signature and diff, and stuck when both come back, in whatever attempt (classify.h:
 *     "unknown", then "unknown.again"); unless there are fewer failures. A step may also declare
 *     itself stuck.
 *
 * Before a soft reset the step pauses (heal_pause_ms): time helps against what is transient.
 *
 * Not the doing, and no clock: the caller runs attempts and says how they ended. A step that goes
 * on under another lease (after a pause, a stop, a crash) is brought up to date by feeding its
 * recorded failures again (heal_remember). Attempts that were interrupted are not fed: they count
 * for nothing. Invariants: attempts exceed their budget only by hard resets, resets never theirs;
 * a deterministic class is never tried again in the step.
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

/* Stands for the hash of a diff that could not be taken, also where attempts are stored. */
#define HEAL_DIFF_UNKNOWN "unknown"

/* One job. The fields are heal.c's. */
struct heal {
    struct budgets budgets; /* of the present step */
    int64_t resets_used;    /* in the job; the caller keeps it over workers and queue attempts */
    bool has_workspace;
    unsigned retry_classes; /* of the job: a set of classes, see retry_classes_parse */
    int64_t attempts;       /* of the present step that have failed */
    /* The row of attempts in the step; those that failed outside the workspace are left out. */
    struct heal_trace {
        bool alone;        /* its diff is not known: it is like no other */
        uint64_t identity; /* of signature and diff */
        int64_t failures;  /* that the output counts; -1: it has no count */
    } before[2];           /* [0] the last, [1] the one before it */
    int64_t row;           /* attempts in the row */
    int64_t repeats;       /* A A A: attempts in a row that repeat the one before them */
    int64_t swings;        /* A B A B: ... that repeat the one two before them */
    /* Signature and diff of unknown failures in the step; the oldest are forgotten first. */
    uint64_t unknown[HEAL_UNKNOWN_KEPT];
    int64_t unknown_count;
};

/* A failed attempt. */
struct heal_attempt {
    enum failure_class class; /* as classified */
    bool unknown;             /* decided by nothing: see classify.h */
    const char *signature;    /* hash; NULL or "": none */
    const char *diff_hash;    /* NULL or "": nothing changed, or no workspace; HEAL_DIFF_UNKNOWN */
    bool outside;             /* the cause lies outside the workspace */
    int64_t failures;         /* that the output counts; -1: it has no count */
};

struct heal_verdict {
    enum heal_action action;
    enum failure_class class; /* of the failure as a whole; stuck_no_progress when stuck */
    bool retryable;           /* by the queue; only when the step is given up */
    bool no_progress;         /* attempts were alike: for task.step.no_progress_total */
    int64_t attempt;          /* number of the one that failed, from 1 */
    char reason[240];
};

#define RETRY_CLASSES_DEFAULT "transient_runtime,stuck_no_progress"

/*
 * Reads a list of classes such as RETRY_CLASSES_DEFAULT, or "none", into a set: bit 1 << class.
 * False: the text is no such list, and *ret is as it was.
 */
bool retry_classes_parse(const char *text, unsigned *ret);
bool retry_classes_has(unsigned classes, enum failure_class class);

/* resets_used: before, in the job's whole life. */
void heal_begin_job(struct heal *heal, int64_t resets_used, bool has_workspace,
                    unsigned retry_classes);

/* Also for an operator's retry_step: the step begins anew, the job's resets stay used. */
void heal_begin_step(struct heal *heal, const struct budgets *budgets);

/* An operator's hard reset is one of the job's. */
void heal_count_reset(struct heal *heal);

/* How many unknown failures of this signature and diff the step has seen: for
 * evidence.unknown_before. None when the output counts fewer failures than the last. Of the attempt
 * signature, diff_hash and failures are read. */
int heal_unknown_before(const struct heal *heal, const struct heal_attempt *attempt);

/* A failure recorded under an earlier lease, in their order. What followed it is known: nothing is
 * decided, and no reset counted. */
void heal_remember(struct heal *heal, const struct heal_attempt *attempt);

void heal_after_failure(struct heal *heal, const struct heal_attempt *attempt,
                        struct heal_verdict *ret);

/*
 * How long the step waits before the attempt that the verdict asks for. Before a soft reset:
 * step_pause_ms after the first failure, doubling with each to step_pause_max_ms, 20 % more or less
 * by chance (random: in [0, 1)). asked_ms: what the step or a server asked for, -1: nothing; the
 * longer of the two counts.
 */
int64_t heal_pause_ms(const struct heal *heal, const struct heal_verdict *verdict, int64_t asked_ms,
                      double random);

#endif
