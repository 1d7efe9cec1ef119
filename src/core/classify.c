/* See classify.h. */
#include "core/classify.h"

#include "core/classify_rules.h"
#include "core/signature_lines.h"

#include <stdio.h>
#include <string.h>

/* Further up than this the built-in rules do not look: healthy output uses their words too. The
 * user's rules were written for this very output and see all of it. */
enum { BUILTIN_LINES = 40 };

static const char *const class_names[CLASS_COUNT] = {
    [CLASS_NONE] = "",
    [CLASS_TRANSIENT_RUNTIME] = "transient_runtime",
    [CLASS_STUCK_NO_PROGRESS] = "stuck_no_progress",
    [CLASS_DETERMINISTIC_CONTRACT] = "deterministic_contract",
    [CLASS_DETERMINISTIC_POLICY] = "deterministic_policy",
    [CLASS_DETERMINISTIC_REPO] = "deterministic_repo",
};

const char *failure_class_name(enum failure_class class)
{
    return class_names[class];
}

enum failure_class failure_class_parse(const char *name)
{
    for (int i = CLASS_NONE + 1; i < CLASS_COUNT; i++)
        if (strcmp(class_names[i], name) == 0)
            return (enum failure_class)i;
    return CLASS_NONE;
}

bool failure_class_retryable(enum failure_class class)
{
    return class == CLASS_TRANSIENT_RUNTIME || class == CLASS_STUCK_NO_PROGRESS;
}

static void set_rule(struct classification *ret, enum failure_class class, const char *rule,
                     const char *meaning)
{
    ret->class = class;
    ret->meaning = meaning;
    snprintf(ret->rule, sizeof ret->rule, "%s", rule);
}

static bool by_user_rules(const struct classifier *rules, const char *prefix,
                          const struct evidence *evidence, struct classification *ret)
{
    int found = rules ? classifier_search(rules, evidence->tail, evidence->tail_bytes, TAIL_LINES,
                                          ret->line)
                      : -1;
    if (found < 0)
        return false;
    set_rule(ret, classifier_class(rules, found), "", "a rule of the job says so");
    snprintf(ret->rule, sizeof ret->rule, "%s.%d", prefix, found + 1);
    return true;
}

static bool by_builtin_rules(const struct classifier *rules, const struct evidence *evidence,
                             struct classification *ret)
{
    int found = rules ? classifier_search(rules, evidence->tail, evidence->tail_bytes,
                                          BUILTIN_LINES, ret->line)
                      : -1;
    if (found < 0)
        return false;
    size_t count;
    const struct text_rule *row = &text_rule_table(&count)[found];
    set_rule(ret, row->class, row->id, row->meaning);
    return true;
}

void classify_no_progress(struct classification *class)
{
    set_rule(class, CLASS_STUCK_NO_PROGRESS, "no_progress", "the attempts failed alike");
    class->retryable = failure_class_retryable(class->class);
}

void classify(const struct classifier *builtin, const struct evidence *evidence,
              struct classification *ret)
{
    *ret = (struct classification){0};
    if (evidence->declared != CLASS_NONE) {
        set_rule(ret, evidence->declared, "declared", "the step said so itself");
    } else if (!classify_ending(evidence->ending, ret) &&
               !by_user_rules(evidence->step_rules, "user.step", evidence, ret) &&
               !by_user_rules(evidence->job_rules, "user", evidence, ret) &&
               !by_builtin_rules(builtin, evidence, ret)) {
        ret->unknown = true;
        if (evidence->unknown_before == 0)
            set_rule(ret, CLASS_TRANSIENT_RUNTIME, "unknown",
                     "nothing is known about it; it may pass");
        else
            set_rule(ret, CLASS_STUCK_NO_PROGRESS, "unknown.again",
                     "nothing is known about it, and it came back");
    }
    ret->retryable = failure_class_retryable(ret->class);
}
