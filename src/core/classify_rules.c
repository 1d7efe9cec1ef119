/* See classify_rules.h. */
#include "core/classify_rules.h"

#include "base/err.h"
#include "base/text.h"
#include "core/signature_lines.h"

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
    size_t count;
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
    if (len == 0 || len > CLASS_MATCH_BYTES)
        return err_set(err, TEND_EINVAL,
                       "[%zu].match: the expression has %zu bytes; it must have 1 to %d",
                       classifier->count, len, CLASS_MATCH_BYTES);
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

int classifier_new(struct classifier **ret, struct err *err)
{
    size_t count;
    const struct text_rule *table = text_rule_table(&count);
    struct classifier *made = alloc_rules(count);
    if (!made)
        return err_set(err, TEND_ENOMEM, "out of memory while compiling text rules");
    for (size_t i = 0; i < count; i++) {
        int code = compile(made, table[i].match, table[i].class, PCRE2_CASELESS, err);
        if (code < 0) {
            classifier_free(made);
            return code;
        }
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
        int code = compile(made, rules[i].match, rules[i].class, 0, err);
        if (code < 0) {
            classifier_free(made);
            return code;
        }
    }
    *ret = made;
    return 0;
}

enum failure_class classifier_class(const struct classifier *classifier, int rule)
{
    return classifier->rules[rule].class;
}

struct search {
    const struct classifier *classifier;
    pcre2_match_data *found;
    bool *tired; /* per rule: reached its limit on this output */
};

/* The first rule that matches the line; -1: none. */
static int search_line(struct search *search, const char *line, size_t len)
{
    const struct classifier *classifier = search->classifier;
    for (size_t i = 0; i < classifier->count; i++) {
        if (search->tired[i])
            continue;
        int code = pcre2_match(classifier->rules[i].code, (PCRE2_SPTR)line, len, 0, 0,
                               search->found, classifier->limits);
        if (code >= 0)
            return (int)i;
        search->tired[i] = code != PCRE2_ERROR_NOMATCH;
    }
    return -1;
}

int classifier_search(const struct classifier *classifier, const char *tail, size_t tail_bytes,
                      size_t lines, char ret_line[RULE_LINE_BYTES + 1])
{
    struct tail_line found[TAIL_LINES];
    char plain[LINE_BYTES + 1];
    struct search search = {.classifier = classifier,
                            .found = pcre2_match_data_create(1, NULL),
                            .tired = calloc(classifier->count + 1, sizeof *search.tired)};
    size_t count = tail_lines(tail, tail_bytes, found);
    int rule = -1;
    if (!search.found || !search.tired)
        count = 0; /* without memory no text rule knows anything */
    for (size_t i = 0; i < count && i < lines && rule < 0; i++) {
        size_t len = tail_line_plain(found[i], plain);
        rule = search_line(&search, plain, len);
        if (rule < 0)
            continue;
        size_t keep = utf8_floor(plain, len, RULE_LINE_BYTES);
        memcpy(ret_line, plain, keep);
        ret_line[keep] = '\0';
    }
    pcre2_match_data_free(search.found);
    free(search.tired);
    return rule;
}
