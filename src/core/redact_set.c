/* Inside core/redact: makes a redactor. See redact_set.h for how it is laid out. */
#include "core/redact_set.h"

#include "base/err.h"

#include <stdlib.h>
#include <tend.h>

static void filter_add(uint64_t *words, unsigned slot)
{
    words[slot >> 6] |= UINT64_C(1) << (slot & 63);
}

static void add_beginning(struct redactor *set, const unsigned char gram[REDACT_GRAM_BYTES])
{
    filter_add(set->near, redact_slot(redact_gram(gram)));
    filter_add(set->grams, redact_slot(redact_gram(gram)));
    for (size_t len = 1; len < REDACT_GRAM_BYTES; len++)
        filter_add(set->prefixes, redact_prefix_slot(gram, len));
}

/*
 * The text is looked at in every second place only. So that no beginning is passed over, the
 * filter `near` also knows the four bytes from the second one on or, where a pattern has only
 * three bytes of its own, those from the byte before.
 */
static void filter_pattern(struct redactor *set, const struct redact_pattern *pattern,
                           bool (*follows)(int))
{
    unsigned char five[REDACT_GRAM_BYTES + 1] = {0};
    bool is_short = pattern->len < REDACT_GRAM_BYTES;
    size_t given = pattern->len < sizeof five ? pattern->len : sizeof five;
    memcpy(five, pattern->text, given);
    if (!is_short)
        add_beginning(set, five);
    if (given == sizeof five) {
        filter_add(set->near, redact_slot(redact_gram(five + 1)));
        return;
    }
    for (int byte = 0; byte < 256; byte++) {
        five[given] = (unsigned char)byte;
        if (follows(byte) && is_short)
            add_beginning(set, five);
        else if (follows(byte))
            filter_add(set->near, redact_slot(redact_gram(five + 1)));
        unsigned char led[REDACT_GRAM_BYTES] = {(unsigned char)byte, five[0], five[1], five[2]};
        if (is_short)
            filter_add(set->near, redact_slot(redact_gram(led)));
    }
}

void redact_set_add(struct redactor *set, struct redact_pattern pattern, bool (*follows)(int))
{
    if (set->count == set->room) {
        size_t room = set->room > 0 ? set->room * 2 : 256;
        struct redact_pattern *patterns = realloc(set->patterns, room * sizeof *patterns);
        if (!patterns) {
            set->failed = true;
            return;
        }
        set->patterns = patterns;
        set->room = room;
    }
    unsigned char gram[REDACT_GRAM_BYTES] = {0}, mask[REDACT_GRAM_BYTES] = {0};
    size_t given = pattern.len < REDACT_GRAM_BYTES ? pattern.len : REDACT_GRAM_BYTES;
    memcpy(gram, pattern.text, given);
    memset(mask, 0xFF, given);
    pattern.gram = redact_gram(gram);
    memcpy(&pattern.gram_mask, mask, sizeof mask);
    set->patterns[set->count++] = pattern;
    filter_pattern(set, &pattern, follows);
}

/* Patterns of three bytes have no place in the groups and come before them. */
static int group_of(const struct redact_pattern *pattern)
{
    return pattern->len < REDACT_GRAM_BYTES ? -1 : (int)redact_group(pattern->gram);
}

static int compare_patterns(const void *left, const void *right)
{
    const struct redact_pattern *a = left, *b = right;
    if (group_of(a) != group_of(b))
        return group_of(a) < group_of(b) ? -1 : 1;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    int order = memcmp(a->text, b->text, a->len);
    /* Functions have no order, but patterns of one text must be neighbours all the same. */
    return order != 0 ? order : (a->option > b->option) - (a->option < b->option);
}

static bool same_pattern(const struct redact_pattern *a, const struct redact_pattern *b)
{
    return compare_patterns(a, b) == 0 && a->matcher == b->matcher;
}

/* Sorts into groups and drops what is there twice: most secrets look the same in most forms. */
static void finish(struct redactor *set)
{
    qsort(set->patterns, set->count, sizeof *set->patterns, compare_patterns);
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (kept == 0 || !same_pattern(&set->patterns[kept - 1], &set->patterns[i]))
            set->patterns[kept++] = set->patterns[i];
    }
    set->count = kept;
    for (size_t i = 0; i < kept; i++)
        set->group[group_of(&set->patterns[i]) + 1]++;
    for (size_t i = 0; i < REDACT_GROUPS; i++)
        set->group[i + 1] += set->group[i];
}

/* The password in a URL is one whatever the variable is called: DATABASE_URL. */
static void add_url_password(struct redactor *set, const char *value)
{
    const char *authority = strstr(value, "://");
    if (!authority)
        return;
    authority += 3;
    size_t len = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', len);
    const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (!colon)
        return;
    char *password = arena_strndup(&set->arena, colon + 1, (size_t)(at - colon - 1));
    if (!password)
        set->failed = true;
    else if (redact_value_is_secret(password))
        redact_add_value(set, password, strlen(password));
}

int redactor_new(const struct redact_variable *variables, size_t count, struct redactor **ret,
                 struct err *err)
{
    struct redactor *set = calloc(1, sizeof *set);
    if (!set)
        return err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
    arena_init(&set->arena);
    set->lookahead_bytes = REDACT_SHAPE_LOOKAHEAD_BYTES;
    redact_add_shapes(set);
    redact_add_assignments(set);
    for (size_t i = 0; i < count; i++) {
        const char *value = variables[i].value;
        if (redact_name_is_secret(variables[i].name) && redact_value_is_secret(value))
            redact_add_value(set, value, strlen(value));
        add_url_password(set, value);
    }
    if (set->failed) {
        redactor_free(set);
        return err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
    }
    finish(set);
    *ret = set;
    return 0;
}

void redactor_free(struct redactor *redactor)
{
    if (!redactor)
        return;
    arena_done(&redactor->arena);
    free(redactor->patterns);
    free(redactor);
}
