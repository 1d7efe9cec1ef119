/*
 * Text rules, compiled: the parts of the classifier that the other classify_*.c files work with.
 *
 * Expressions run under limits, so that no expression and no output can hold up a worker: one that
 * reaches its limit on some line counts as not matching there and is not asked again about this
 * output. Lines are matched one by one, as plain text of signature_lines.h.
 */
#ifndef CORE_CLASSIFY_RULES_H
#define CORE_CLASSIFY_RULES_H

#include "core/classify.h"
#include "core/signature_lines.h"

/* How sure a rule makes us. */
enum rule_weight {
    HINT = 1,     /* words that people use for other things, too */
    EVIDENCE = 2, /* a phrase of errors */
    PROOF = 3,    /* a code or a phrase that means nothing else */
    VERDICT = 5,  /* … also on a line that does not look like an error */
};

/* Of a rule. */
enum {
    OUTSIDE = 1u << 0,     /* of the workspace: see classify.h */
    IN_WARNINGS = 1u << 1, /* counts also on a line that is only a warning */
    NO_RIVAL = 1u << 2,    /* speaks for a retry, but not against a line that ends the job */
};

/* A row of the built-in table. Several rows can have the same id. */
struct text_rule {
    const char *id; /* "text.auth" */
    enum failure_class class;
    enum rule_weight weight;
    unsigned flags;
    const char *match;   /* letter case does not matter */
    const char *meaning; /* in words */
};

const struct text_rule *text_rule_table(size_t *ret_count);

/* What a line is, before anybody asks what it says. The first kind that fits counts. */
enum line_kind {
    LINE_PLAIN,
    LINE_TEST_PASSED, /* of the report of a test runner: no evidence */
    LINE_TEST_FAILED, /* … one that failed */
    LINE_CROSSED,     /* begins with a cross: such a test where others passed, else an error */
    LINE_SUITE_RED,   /* … its summary, which counts failures */
    LINE_SUITE_GREEN, /* … and one that counts none */
    LINE_QUOTED,      /* source, a stack frame, an echoed command, a comment, an item of a list */
    LINE_CARET,       /* points at a place in the line above it */
    LINE_EXCERPT,     /* the head of a hunk of a diff, of a commit in a log, of an item of a list */
    LINE_HEALTHY,     /* progress, information */
    LINE_WARNING,     /* also notes and hints */
    LINE_AFTERMATH,   /* says only that something before it failed: make: *** [all] Error 2 */
    LINE_DIAGNOSTIC,  /* an error of a compiler or linter about a place in the source */
    LINE_REMARK,      /* anything else about such a place: a warning, a line of a log */
    LINE_DEFECT,      /* an assertion, or an exception that only a mistake in a program raises */
    LINE_CAUSE,       /* says that what stands before it is the cause of what follows */
    LINE_USAGE,       /* "usage: tool [options]" */
    LINE_OUTCOME,     /* a sentence of somebody who tells what was not reached */
    LINE_LOOKED,      /* the same of a tool that only looks around: "find: message" */
    LINE_TOLD,        /* "tool: message" */
    LINE_ERROR,       /* begins as errors do */
    LINE_KIND_COUNT,
};

struct kind_row {
    enum line_kind kind;
    const char *match; /* letter case matters */
};

const struct kind_row *line_kind_table(size_t *ret_count);

/* A line of an output and what it is. */
struct judged {
    struct tail_line line;
    enum line_kind kind;
    bool indented;
};

/* Corrects the kinds of lines by what is around them. The last line comes first. */
void classify_settle(struct judged *lines, size_t count);

/* What tools put before a line of another program: times, frames, step numbers. */
extern const char line_prefix_expression[];

/* ---- compiled ---- */

/* One output under the rules of one classifier. */
struct matcher {
    const struct classifier *classifier;
    void *match_data;
    bool *tired;       /* per expression: reached its limit on this output */
    size_t start, end; /* of the last match, in bytes */
};

/* false: no memory; matcher_done in either case. */
bool matcher_init(struct matcher *matcher, const struct classifier *classifier);
void matcher_done(struct matcher *matcher);

/* Rules are numbered from 0. */
size_t classifier_rule_count(const struct classifier *classifier);
enum failure_class classifier_class(const struct classifier *classifier, size_t rule);
bool matcher_rule(struct matcher *matcher, size_t rule, struct line_part part);

/* Only for built-in rules. */
enum line_kind matcher_kind(struct matcher *matcher, struct line_part part);
/* How many bytes at the beginning of the line belong to its prefix. */
size_t matcher_prefix(struct matcher *matcher, struct line_part part);

/* ---- verdicts ---- */

/* How it ended alone, without a text: fills ret and returns true when that decides. */
bool classify_ending(struct ending ending, struct classification *ret);

/*
 * The built-in rules on the tail of an output: fills class, rule, meaning, outside and line of ret
 * and returns true when the text is evidence enough. See classify_text.c.
 */
bool classify_text(const struct classifier *builtin, const char *tail, size_t tail_bytes,
                   struct classification *ret);

/* Whether a test runner's red summary in the output counts this many failures. */
bool classify_text_counts(const struct classifier *builtin, const char *tail, size_t tail_bytes,
                          int failures);

/* Copies the part of a line that people should see: the match and what stands around it. */
void classify_show_line(const struct matcher *matcher, struct line_part part,
                        char ret_line[RULE_LINE_BYTES + 1]);

#endif
