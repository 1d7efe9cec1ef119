/* See heal.h. */
#include "core/heal.h"

#include "core/policy.h"
#include "core/signature.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *heal_strategy_name(enum heal_action action)
{
    return action == HEAL_SOFT ? "soft_reset" : action == HEAL_HARD ? "hard_reset" : "";
}

static const char *const verdict_names[] = {[HEAL_SOFT] = "soft_reset",
                                            [HEAL_HARD] = "hard_reset",
                                            [HEAL_FAIL] = "failed",
                                            [HEAL_EXHAUSTED] = "exhausted"};

const char *heal_verdict_name(enum heal_action action)
{
    return verdict_names[action];
}

enum heal_action heal_verdict_parse(const char *name)
{
    for (int i = HEAL_SOFT; name != NULL && i <= HEAL_EXHAUSTED; i++)
        if (strcmp(name, verdict_names[i]) == 0)
            return (enum heal_action)i;
    return HEAL_SOFT;
}

bool retry_classes_parse(const char *text, unsigned *ret)
{
    enum { NAME_BYTES = 32 };
    unsigned set = 0;
    for (const char *at = text; strcmp(text, "none") != 0;) {
        char name[NAME_BYTES];
        size_t len = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", len < sizeof name ? (int)len : 0, at);
        enum failure_class class = failure_class_parse(name);
        if (class == CLASS_NONE)
            return false;
        set |= 1u << class;
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    *ret = set;
    return true;
}

bool retry_classes_has(unsigned classes, enum failure_class class)
{
    return (classes & 1u << class) != 0;
}

void heal_begin_job(struct heal *heal, int64_t resets_used, bool has_workspace,
                    unsigned retry_classes)
{
    *heal = (struct heal){
        .resets_used = resets_used, .has_workspace = has_workspace, .retry_classes = retry_classes};
}

void heal_begin_step(struct heal *heal, const struct budgets *budgets)
{
    *heal = (struct heal){.budgets = *budgets,
                          .resets_used = heal->resets_used,
                          .has_workspace = heal->has_workspace,
                          .retry_classes = heal->retry_classes};
}

void heal_count_reset(struct heal *heal)
{
    heal->resets_used++;
}

static uint64_t hash_text(const char *text)
{
    return text ? signature_hash(text, strlen(text)) : signature_hash("", 0);
}

/* One number for signature and diff together. */
static uint64_t attempt_identity(const struct heal_attempt *attempt)
{
    uint64_t both[] = {hash_text(attempt->signature), hash_text(attempt->diff_hash)};
    return signature_hash(both, sizeof both);
}

/* What has changed is not known: it may be something else each time. */
static bool is_alone(const struct heal_attempt *attempt)
{
    return attempt->diff_hash && strcmp(attempt->diff_hash, HEAL_DIFF_UNKNOWN) == 0;
}

/* Fewer than in an attempt before, where both outputs have a count. */
static bool is_fewer(int64_t failures, const struct heal_trace *before)
{
    return failures >= 0 && before->failures >= 0 && failures < before->failures;
}

int heal_unknown_before(const struct heal *heal, const struct heal_attempt *attempt)
{
    uint64_t wanted = attempt_identity(attempt);
    int found = 0;
    if (is_alone(attempt) || (heal->row >= 1 && is_fewer(attempt->failures, &heal->before[0])))
        return 0;
    for (int64_t i = 0; i < heal->unknown_count && i < HEAL_UNKNOWN_KEPT; i++)
        found += heal->unknown[i] == wanted;
    return found;
}

static bool repeats(const struct heal_trace *now, const struct heal_trace *before)
{
    return !now->alone && !before->alone && now->identity == before->identity &&
           !is_fewer(now->failures, before);
}

static void add_to_row(struct heal *heal, const struct heal_attempt *attempt)
{
    const struct heal_trace now = {.alone = is_alone(attempt),
                                   .identity = attempt_identity(attempt),
                                   .failures = attempt->failures};
    bool fewer = heal->row >= 1 && is_fewer(now.failures, &heal->before[0]);
    bool like_last = heal->row >= 1 && repeats(&now, &heal->before[0]);
    bool like_second = !fewer && heal->row >= 2 && repeats(&now, &heal->before[1]);
    heal->repeats = like_last ? heal->repeats + 1 : 0;
    heal->swings = like_second ? heal->swings + 1 : 0;
    heal->before[1] = heal->before[0];
    heal->before[0] = now;
    heal->row++;
}

void heal_remember(struct heal *heal, const struct heal_attempt *attempt)
{
    heal->attempts++;
    if (!attempt->outside)
        add_to_row(heal, attempt);
    if (attempt->unknown && !is_alone(attempt))
        heal->unknown[heal->unknown_count++ % HEAL_UNKNOWN_KEPT] = attempt_identity(attempt);
}

/* Says why in the verdict's reason; the caller completes the sentence. */
static bool is_stuck(const struct heal *heal, const struct heal_attempt *attempt,
                     struct heal_verdict *verdict)
{
    enum { LEAST_SWINGS = 2 };
    int64_t limit = heal->budgets.step_no_progress_limit;
    int64_t swings_limit = limit < LEAST_SWINGS ? LEAST_SWINGS : limit;
    size_t size = sizeof verdict->reason;
    if (attempt->outside)
        return false;
    if (heal->repeats >= limit) {
        verdict->no_progress = true;
        snprintf(verdict->reason, size, "%" PRId64 " attempts in a row failed alike",
                 heal->repeats + 1);
        return true;
    }
    if (heal->swings >= swings_limit) {
        verdict->no_progress = true;
        snprintf(verdict->reason, size,
                 "%" PRId64 " attempts in a row went back and forth between "
                 "the same two failures",
                 heal->swings + 2); /* with the two that began it */
        return true;
    }
    if (attempt->class != CLASS_STUCK_NO_PROGRESS)
        return false;
    snprintf(verdict->reason, size, "%s",
             attempt->unknown ? "the same unknown failure came twice"
                              : "the step makes no progress");
    return true;
}

static void complete_reason(struct heal_verdict *verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void complete_reason(struct heal_verdict *verdict, const char *format, ...)
{
    size_t len = strlen(verdict->reason);
    va_list args;
    va_start(args, format);
    if (len > 0)
        len += (size_t)snprintf(verdict->reason + len, sizeof verdict->reason - len, "; ");
    vsnprintf(verdict->reason + len, sizeof verdict->reason - len, format, args);
    va_end(args);
}

static bool has_reset_left(const struct heal *heal)
{
    return heal->has_workspace && heal->resets_used < heal->budgets.job_self_heal_max_resets;
}

static void reset_hard(struct heal *heal, struct heal_verdict *verdict)
{
    heal->resets_used++;
    verdict->action = HEAL_HARD;
    verdict->class = CLASS_STUCK_NO_PROGRESS;
    complete_reason(verdict, "hard reset %" PRId64 " of %" PRId64, heal->resets_used,
                    heal->budgets.job_self_heal_max_resets);
}

static void give_up(const struct heal *heal, struct heal_verdict *verdict, bool stuck)
{
    int64_t most = heal->budgets.step_max_attempts;
    verdict->action = HEAL_EXHAUSTED;
    verdict->class = stuck ? CLASS_STUCK_NO_PROGRESS : CLASS_TRANSIENT_RUNTIME;
    verdict->retryable = retry_classes_has(heal->retry_classes, verdict->class);
    if (heal->attempts > most)
        complete_reason(verdict, "the attempt after the hard reset failed too");
    else if (heal->attempts == most)
        complete_reason(verdict, "the step's attempts (%" PRId64 ") are used up", most);
    else if (!heal->has_workspace)
        complete_reason(verdict, "there is no workspace to reset");
    else
        complete_reason(verdict, "the job's hard resets (%" PRId64 ") are used up",
                        heal->budgets.job_self_heal_max_resets);
}

void heal_after_failure(struct heal *heal, const struct heal_attempt *attempt,
                        struct heal_verdict *ret)
{
    int64_t most = heal->budgets.step_max_attempts;
    heal_remember(heal, attempt);
    *ret = (struct heal_verdict){.class = attempt->class, .attempt = heal->attempts};
    if (attempt->class != CLASS_NONE && !failure_class_retryable(attempt->class)) {
        ret->action = HEAL_FAIL;
        ret->retryable = retry_classes_has(heal->retry_classes, attempt->class);
        complete_reason(ret, ret->retryable ? "only the queue tries this class again"
                                            : "this class is not tried again");
        return;
    }
    bool stuck = is_stuck(heal, attempt, ret);
    if (stuck && has_reset_left(heal)) {
        reset_hard(heal, ret);
    } else if (stuck || heal->attempts >= most) {
        give_up(heal, ret, stuck);
    } else {
        ret->action = HEAL_SOFT;
        ret->class = CLASS_TRANSIENT_RUNTIME;
        complete_reason(ret, "attempt %" PRId64 " of %" PRId64 " follows", heal->attempts + 1,
                        most);
    }
}

int64_t heal_pause_ms(const struct heal *heal, const struct heal_verdict *verdict, int64_t asked_ms,
                      double random)
{
    const struct retry_policy growing = {.backoff_ms = heal->budgets.step_pause_ms,
                                         .backoff_max_ms = heal->budgets.step_pause_max_ms,
                                         .factor = 2.0};
    int64_t own_ms =
        verdict->action == HEAL_SOFT ? policy_backoff(&growing, (int)verdict->attempt, random) : 0;
    return asked_ms > own_ms ? asked_ms : own_ms;
}
