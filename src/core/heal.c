/* See heal.h. */
#include "core/heal.h"

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

void heal_begin_job(struct heal *heal, int64_t resets_used, bool has_workspace)
{
    *heal = (struct heal){.resets_used = resets_used, .has_workspace = has_workspace};
}

void heal_begin_step(struct heal *heal, const struct budgets *budgets)
{
    *heal = (struct heal){.budgets = *budgets,
                          .resets_used = heal->resets_used,
                          .has_workspace = heal->has_workspace};
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

int heal_unknown_before(const struct heal *heal, const char *signature)
{
    uint64_t wanted = hash_text(signature);
    int found = 0;
    for (int64_t i = 0; i < heal->unknown_count && i < HEAL_UNKNOWN_KEPT; i++)
        found += heal->unknown[i] == wanted;
    return found;
}

void heal_remember(struct heal *heal, const struct heal_attempt *attempt)
{
    uint64_t now = attempt_identity(attempt);
    bool like_last = heal->attempts >= 1 && now == heal->before[0];
    bool like_second = heal->attempts >= 2 && now == heal->before[1];
    heal->same_as_last = like_last ? heal->same_as_last + 1 : 1;
    /* A B A is a row of three: the two before began it. */
    heal->same_as_second = !like_second               ? 0
                           : heal->same_as_second > 0 ? heal->same_as_second + 1
                                                      : 3;
    heal->before[1] = heal->before[0];
    heal->before[0] = now;
    heal->attempts++;
    if (attempt->unknown)
        heal->unknown[heal->unknown_count++ % HEAL_UNKNOWN_KEPT] = hash_text(attempt->signature);
}

/* Says why in the verdict's reason; the caller completes the sentence. */
static bool is_stuck(const struct heal *heal, const struct heal_attempt *attempt,
                     struct heal_verdict *verdict)
{
    int64_t limit = heal->budgets.step_no_progress_limit;
    limit = limit < 2 ? 2 : limit;
    size_t size = sizeof verdict->reason;
    if (heal->same_as_last >= limit) {
        verdict->no_progress = true;
        snprintf(verdict->reason, size, "%" PRId64 " attempts in a row failed alike",
                 heal->same_as_last);
        return true;
    }
    if (heal->same_as_second >= 2 * limit) {
        verdict->no_progress = true;
        snprintf(verdict->reason, size,
                 "%" PRId64 " attempts in a row went back and forth between "
                 "the same two failures",
                 heal->same_as_second);
        return true;
    }
    if (attempt->class != CLASS_STUCK_NO_PROGRESS)
        return false;
    snprintf(verdict->reason, size, "%s",
             attempt->unknown ? "a failure that nobody knows came back"
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

static void give_up(struct heal_verdict *verdict, bool stuck)
{
    verdict->action = HEAL_EXHAUSTED;
    verdict->class = stuck ? CLASS_STUCK_NO_PROGRESS : CLASS_TRANSIENT_RUNTIME;
    verdict->retryable = true;
}

static void decide_stuck(struct heal *heal, struct heal_verdict *verdict)
{
    int64_t most = heal->budgets.job_self_heal_max_resets;
    verdict->class = CLASS_STUCK_NO_PROGRESS;
    if (heal->has_workspace && heal->resets_used < most) {
        heal->resets_used++;
        verdict->action = HEAL_HARD;
        complete_reason(verdict, "hard reset %" PRId64 " of %" PRId64, heal->resets_used, most);
        return;
    }
    give_up(verdict, true);
    if (!heal->has_workspace)
        complete_reason(verdict, "there is no workspace to reset");
    else
        complete_reason(verdict, "the job's hard resets (%" PRId64 ") are used up", most);
}

void heal_after_failure(struct heal *heal, const struct heal_attempt *attempt,
                        struct heal_verdict *ret)
{
    int64_t most = heal->budgets.step_max_attempts;
    heal_remember(heal, attempt);
    *ret = (struct heal_verdict){.class = attempt->class, .attempt = heal->attempts};
    if (attempt->class != CLASS_NONE && !failure_class_retryable(attempt->class)) {
        ret->action = HEAL_FAIL;
        complete_reason(ret, "this class is not tried again");
        return;
    }
    bool stuck = is_stuck(heal, attempt, ret);
    if (heal->attempts >= most) {
        give_up(ret, stuck);
        complete_reason(ret, "the step's attempts (%" PRId64 ") are used up", most);
    } else if (stuck) {
        decide_stuck(heal, ret);
    } else {
        ret->action = HEAL_SOFT;
        ret->class = CLASS_TRANSIENT_RUNTIME;
        complete_reason(ret, "attempt %" PRId64 " of %" PRId64 " follows", heal->attempts + 1,
                        most);
    }
}
