/*
 * Text rules, compiled: the parts of the classifier that classify.c works with.
 *
 * Expressions run under limits, so that no expression and no output can hold up a worker: one that
 * reaches its limit on some line counts as not matching there and is not asked again about this
 * output. Lines are matched one by one, as plain text of signature_lines.h.
 */
#ifndef CORE_CLASSIFY_RULES_H
#define CORE_CLASSIFY_RULES_H

#include "core/classify.h"

/* A row of the built-in table. */
struct text_rule {
    const char *id; /* "text.auth" */
    enum failure_class class;
    const char *match;   /* letter case does not matter */
    const char *meaning; /* in words */
};

const struct text_rule *text_rule_table(size_t *ret_count);

/*
 * The last of the newest `lines` lines of the tail that any rule matches; of several rules that
 * match it, the first. Returns the number of the rule from 0 and copies the line; -1: none.
 */
int classifier_search(const struct classifier *classifier, const char *tail, size_t tail_bytes,
                      size_t lines, char ret_line[RULE_LINE_BYTES + 1]);

enum failure_class classifier_class(const struct classifier *classifier, int rule);

/* How it ended alone, without a text: fills ret and returns true when that decides. */
bool classify_ending(struct ending ending, struct classification *ret);

#endif
