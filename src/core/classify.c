/* See classify.h. */
#include "core/classify.h"

#include "core/classify_rules.h"
#include "core/signature_lines.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

/* The first rule that matches this line, in any of its pieces. */
static bool search_line(struct matcher *matcher, struct tail_line line, size_t *ret_rule,
                        char ret_line[RULE_LINE_BYTES + 1])
{
    char plain[LINE_BYTES + 1];
    size_t count = classifier_rule_count(matcher->classifier);
    for (size_t number = 0; number < tail_line_parts(line); number++) {
        struct line_part part = tail_line_part(line, number, plain);
        for (size_t rule = 0; rule < count; rule++) {
            if (!matcher_rule(matcher, rule, part))
                continue;
            *ret_rule = rule;
            classify_show_line(matcher, part, ret_line);
            return true;
        }
    }
    return false;
}

/* The last line that any rule matches decides: users write rules for this very output. */
static bool by_user_rules(const struct classifier *rules, const char *prefix,
                          const struct evidence *evidence, struct classification *ret)
{
    struct tail_line lines[TAIL_LINES];
    struct matcher matcher;
    size_t found = 0;
    bool decided = false;
    if (!rules)
        return false;
    size_t count = tail_lines(evidence->tail, evidence->tail_bytes, lines);
    if (!matcher_init(&matcher, rules))
        count = 0; /* without memory no text rule knows anything */
    for (size_t i = 0; i < count && !decided; i++)
        decided = search_line(&matcher, lines[i], &found, ret->line);
    matcher_done(&matcher);
    if (!decided)
        return false;
    set_rule(ret, classifier_class(rules, found), "", "a rule of the job says so");
    snprintf(ret->rule, sizeof ret->rule, "%s.%zu", prefix, found + 1);
    return true;
}

/* Some test runners exit with the number of tests that failed. Where the output says so, the code
 * means nothing else. */
static bool by_ending(const struct classifier *builtin, const struct evidence *evidence,
                      struct classification *ret)
{
    struct ending ending = evidence->ending;
    if (!classify_ending(ending, ret))
        return false;
    if (ending.kind != ENDED_EXIT || !builtin ||
        !classify_text_counts(builtin, evidence->tail, evidence->tail_bytes, ending.number))
        return true;
    *ret = (struct classification){0};
    return false;
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
    } else if (!by_ending(builtin, evidence, ret) &&
               !by_user_rules(evidence->step_rules, "user.step", evidence, ret) &&
               !by_user_rules(evidence->job_rules, "user", evidence, ret) &&
               !(builtin && classify_text(builtin, evidence->tail, evidence->tail_bytes, ret))) {
        ret->unknown = true;
        if (evidence->unknown_before == 0)
            set_rule(ret, CLASS_TRANSIENT_RUNTIME, "unknown",
                     "nothing is known about it; it may pass");
        else
            set_rule(ret, CLASS_STUCK_NO_PROGRESS, "unknown.again",
                     "nothing is known about it, and it came back with the same changes");
    }
    ret->retryable = failure_class_retryable(ret->class);
}

static bool has_word(struct tail_line line, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= line.len; i++) {
        const char *at = line.text + i;
        bool begins = i == 0 || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
        bool ends = i + len == line.len || (!isalnum((unsigned char)at[len]) && at[len] != '_');
        if (begins && ends && memcmp(at, word, len) == 0)
            return true;
    }
    return false;
}

bool output_says_killed(const char *tail, size_t tail_bytes)
{
    enum { LAST_LINES = 10 };
    struct tail_line lines[TAIL_LINES];
    size_t count = tail_lines(tail, tail_bytes, lines);
    for (size_t i = 0; i < count && i < LAST_LINES; i++)
        if (has_word(lines[i], "Killed"))
            return true;
    return false;
}
