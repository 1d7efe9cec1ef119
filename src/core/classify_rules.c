/* See classify_rules.h. */
#include "core/classify_rules.h"

#include "base/err.h"
#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    MATCH_LIMIT = 20000,  /* steps of the matcher on one line */
    DEPTH_LIMIT = 2000,   /* of its backtracking */
    HEAP_LIMIT_KIB = 256, /* that it may take */
};

struct compiled_rule {
    enum failure_class class;
    pcre2_code *code;
};

struct classifier {
    size_t count;      /* of all expressions */
    size_t rule_count; /* the first of them; then kinds of lines, then the prefix */
    pcre2_match_context *limits;
    struct compiled_rule rules[];
};

void classifier_free(struct classifier *classifier)
{
    if (!classifier)
        return;
    for (size_t i = 0; i < classifier->count; i++)
        pcre2_code_free(classifier->rules[i].code);
    pcre2_match_context_free(classifier->limits);
    free(classifier);
}

static struct classifier *alloc_rules(size_t count)
{
    struct classifier *made = calloc(1, sizeof *made + count * sizeof *made->rules);
    if (!made)
        return NULL;
    made->limits = pcre2_match_context_create(NULL);
    if (!made->limits) {
        free(made);
        return NULL;
    }
    pcre2_set_match_limit(made->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(made->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(made->limits, HEAP_LIMIT_KIB);
    return made;
}

/* The sentence begins with the rule's place, as the caller's list has it. */
static int compile(struct classifier *classifier, const char *match, enum failure_class class,
                   uint32_t options, struct err *err)
{
    int code;
    size_t offset;
    size_t len = strlen(match);
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)match, len,
                      options | PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C,
                      &code, &offset, NULL);
    if (!compiled) {
        char reason[200];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        return err_set(err, TEND_EINVAL,
                       "[%zu].match: \"%.100s\" is no regular expression: %s (at character %zu)",
                       classifier->count, match, reason, offset + 1);
    }
    classifier->rules[classifier->count++] =
        (struct compiled_rule){.class = class, .code = compiled};
    return 0;
}

/* Built-in expressions are asked about every line, and machine code answers about twenty times as
 * fast. Where it cannot be made they are interpreted. */
static int compile_builtin(struct classifier *classifier, const char *match,
                           enum failure_class class, uint32_t options, struct err *err)
{
    int code = compile(classifier, match, class, options, err);
    if (code == 0)
        pcre2_jit_compile(classifier->rules[classifier->count - 1].code, PCRE2_JIT_COMPLETE);
    return code;
}

static int compile_all(struct classifier *made, struct err *err)
{
    size_t rules;
    size_t kinds;
    const struct text_rule *rule = text_rule_table(&rules);
    const struct kind_row *kind = line_kind_table(&kinds);
    int code = 0;
    for (size_t i = 0; i < rules && code == 0; i++)
        code = compile_builtin(made, rule[i].match, rule[i].class, PCRE2_CASELESS, err);
    made->rule_count = made->count;
    for (size_t i = 0; i < kinds && code == 0; i++)
        code = compile_builtin(made, kind[i].match, CLASS_NONE, 0, err);
    if (code == 0)
        code = compile_builtin(made, line_prefix_expression, CLASS_NONE, 0, err);
    return code;
}

int classifier_new(struct classifier **ret, struct err *err)
{
    size_t rules;
    size_t kinds;
    text_rule_table(&rules);
    line_kind_table(&kinds);
    struct classifier *made = alloc_rules(rules + kinds + 1);
    if (!made)
        return err_set(err, TEND_ENOMEM, "out of memory while compiling text rules");
    int code = compile_all(made, err);
    if (code < 0) {
        classifier_free(made);
        return code;
    }
    *ret = made;
    return 0;
}

int classifier_new_user(const struct class_rule *rules, size_t count, struct classifier **ret,
                        struct err *err)
{
    struct classifier *made = alloc_rules(count);
    if (!made)
        return err_set(err, TEND_ENOMEM, "out of memory while compiling text rules");
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(rules[i].match);
        int code = len >= 1 && len <= CLASS_MATCH_BYTES
                       ? compile(made, rules[i].match, rules[i].class, 0, err)
                       : err_set(err, TEND_EINVAL,
                                 "[%zu].match: the expression has %zu bytes; it must have 1 to %d",
                                 i, len, CLASS_MATCH_BYTES);
        if (code < 0) {
            classifier_free(made);
            return code;
        }
    }
    made->rule_count = made->count;
    *ret = made;
    return 0;
}

size_t classifier_rule_count(const struct classifier *classifier)
{
    return classifier->rule_count;
}

enum failure_class classifier_class(const struct classifier *classifier, size_t rule)
{
    return classifier->rules[rule].class;
}

/* ---- matching ---- */

bool matcher_init(struct matcher *matcher, const struct classifier *classifier)
{
    *matcher = (struct matcher){
        .classifier = classifier,
        .match_data = pcre2_match_data_create(1, NULL),
        .tired = calloc(classifier->count + 1, sizeof *matcher->tired),
    };
    return matcher->match_data && matcher->tired;
}

void matcher_done(struct matcher *matcher)
{
    pcre2_match_data_free(matcher->match_data);
    free(matcher->tired);
}

static bool match(struct matcher *matcher, size_t index, struct line_part part)
{
    if (matcher->tired[index])
        return false;
    const struct classifier *classifier = matcher->classifier;
    uint32_t options = (part.first ? 0 : PCRE2_NOTBOL) | (part.last ? 0 : PCRE2_NOTEOL);
    int code = pcre2_match(classifier->rules[index].code, (PCRE2_SPTR)part.text, part.len, 0,
                           options, matcher->match_data, classifier->limits);
    if (code < 0) {
        matcher->tired[index] = code != PCRE2_ERROR_NOMATCH;
        return false;
    }
    const size_t *range = pcre2_get_ovector_pointer(matcher->match_data);
    matcher->start = range[0];
    matcher->end = range[1];
    return true;
}

bool matcher_rule(struct matcher *matcher, size_t rule, struct line_part part)
{
    return match(matcher, rule, part);
}

enum line_kind matcher_kind(struct matcher *matcher, struct line_part part)
{
    size_t count;
    const struct kind_row *rows = line_kind_table(&count);
    for (size_t i = 0; i < count; i++)
        if (match(matcher, matcher->classifier->rule_count + i, part))
            return rows[i].kind;
    return LINE_PLAIN;
}

size_t matcher_prefix(struct matcher *matcher, struct line_part part)
{
    return match(matcher, matcher->classifier->count - 1, part) ? matcher->end : 0;
}

void classify_show_line(const struct matcher *matcher, struct line_part part,
                        char ret_line[RULE_LINE_BYTES + 1])
{
    static const char cut[] = "\xE2\x80\xA6";
    enum { BEFORE = 60 };
    size_t from = 0;
    size_t room = RULE_LINE_BYTES;
    char *out = ret_line;
    if (matcher->end > RULE_LINE_BYTES) {
        from =
            utf8_floor(part.text, part.len, matcher->start > BEFORE ? matcher->start - BEFORE : 0);
        memcpy(out, cut, strlen(cut));
        out += strlen(cut);
        room -= strlen(cut);
    }
    size_t keep = utf8_floor(part.text + from, part.len - from, room);
    memcpy(out, part.text + from, keep);
    out[keep] = '\0';
}
