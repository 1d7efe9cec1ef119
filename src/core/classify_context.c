/*
 * What a line is because of the lines around it.
 *
 * classify_kinds.c knows a line by itself. Its neighbours correct that: a cross is a test that
 * failed only in the report of a test runner. The lines of a diff, a commit, an item of a list,
 * below a diagnostic and above a caret are quoted. Lines are numbered from the end: below line i is
 * i - 1.
 */
#include "core/classify_rules.h"

/* A cross is a test that failed when the output has the report of a test runner, else an error. */
static void settle_crosses(struct judged *lines, size_t count)
{
    bool report = false;
    for (size_t i = 0; i < count; i++) {
        enum line_kind kind = lines[i].kind;
        report = report || kind == LINE_TEST_PASSED || kind == LINE_SUITE_RED;
    }
    for (size_t i = 0; i < count; i++)
        if (lines[i].kind == LINE_CROSSED)
            lines[i].kind = report ? LINE_TEST_FAILED : LINE_ERROR;
}

/* A program that was called wrongly explains at length how to call it. The explanation is one
 * line of evidence, not fifty. */
static void fold_usage(struct judged *lines, size_t count)
{
    size_t start = 0;
    while (start < count && lines[start].kind != LINE_USAGE)
        start++;
    if (start == count)
        return;
    for (size_t i = 0; i < start; i++)
        if (lines[i].kind == LINE_PLAIN || lines[i].kind == LINE_OUTCOME || lines[i].indented)
            lines[i].kind = LINE_QUOTED;
}

/* Below the head of a hunk, a commit or an item, lines begin so. */
static bool in_excerpt(const struct judged *line)
{
    char first = line->line.text[0];
    return first == ' ' || first == '+' || first == '-' || first == '\\';
}

static void quote_excerpts(struct judged *lines, size_t count)
{
    bool excerpt = false;
    for (size_t i = count; i > 0; i--) {
        struct judged *line = &lines[i - 1];
        excerpt = line->kind == LINE_EXCERPT || (excerpt && in_excerpt(line));
        if (excerpt)
            line->kind = LINE_QUOTED;
    }
}

/* The indented lines below a diagnostic, and the line above a caret, are source or explain it. */
static void quote_source(struct judged *lines, size_t count)
{
    bool diagnostic = false;
    for (size_t i = count; i > 0; i--) {
        struct judged *line = &lines[i - 1];
        bool head = line->kind == LINE_DIAGNOSTIC || line->kind == LINE_REMARK;
        diagnostic = head || (diagnostic && line->indented);
        bool above_caret = i > 1 && lines[i - 2].kind == LINE_CARET;
        if (!head && (diagnostic || above_caret))
            line->kind = LINE_QUOTED;
    }
}

void classify_settle(struct judged *lines, size_t count)
{
    settle_crosses(lines, count);
    fold_usage(lines, count);
    quote_excerpts(lines, count);
    quote_source(lines, count);
}
