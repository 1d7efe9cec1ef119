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
    redact_near_add(set, gram);
    filter_add(set->grams, redact_slot(redact_gram(gram)));
    for (size_t len = 1; len < REDACT_GRAM_BYTES; len++)
        filter_add(set->prefixes, redact_prefix_slot(gram, len));
}

/*
 * The text is looked at in every second place only. So that no beginning is passed over, the
 * filter `near` also knows the four bytes from the second one on or, where a pattern has too few
 * bytes of its own, those from the byte before on.
 */
static void filter_pattern(struct redactor *set, const struct redact_pattern *pattern,
                           const struct redact_neighbours *neighbours)
{
    unsigned char seen[REDACT_GRAM_BYTES + 2] = {0}; /* the byte before, then the text */
    unsigned char *text = seen + 1;
    bool is_short = pattern->len < REDACT_GRAM_BYTES;
    bool by_before = is_short || neighbours->before;
    size_t given = pattern->len <= REDACT_GRAM_BYTES ? pattern->len : REDACT_GRAM_BYTES + 1;
    memcpy(text, pattern->text, given);
    if (!is_short)
        add_beginning(set, text);
    if (given > REDACT_GRAM_BYTES)
        redact_near_add(set, text + 1);
    if (given > REDACT_GRAM_BYTES || neighbours->is_before)
        return;
    for (int byte = 0; byte < 256; byte++) {
        text[given] = (unsigned char)byte;
        bool follows = !neighbours->after || neighbours->after(byte);
        if (is_short && follows)
            add_beginning(set, text);
        if (!by_before && follows)
            redact_near_add(set, text + 1);
        seen[0] = (unsigned char)byte;
        if (by_before && (!neighbours->before || neighbours->before(byte)))
            redact_near_add(set, seen);
    }
}

void redact_set_add(struct redactor *set, struct redact_pattern pattern,
                    const struct redact_neighbours *neighbours)
{
    static const struct redact_neighbours any = {0};
    if (set->failed)
        return;
    if (set->count == set->room) {
        size_t room = set->room > 0 ? set->room * 2 : 1024;
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
    filter_pattern(set, &pattern, neighbours ? neighbours : &any);
}

const char *redact_set_keep(struct redactor *set, const char *text, size_t len)
{
    const char *kept = set->failed ? NULL : arena_strndup(&set->arena, text, len);
    set->failed = kept == NULL;
    return kept;
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
    const char *password = redact_set_keep(set, colon + 1, (size_t)(at - colon - 1));
    if (password && redact_value_is_secret(password))
        redact_add_value(set, password, strlen(password));
}

static void add_variable(struct redactor *set, const struct redact_variable *variable)
{
    const char *value = variable->value;
    if (redact_variable_is_secret(set, variable->name) && redact_value_is_secret(value))
        redact_add_value(set, value, strlen(value));
    add_url_password(set, value);
}

static void fill(struct redactor *set, const struct redact_known *known)
{
    redact_add_shapes(set);
    redact_add_assignments(set);
    redact_add_formats(set);
    redact_add_phrases(set);
    for (size_t i = 0; i < known->variable_count; i++)
        add_variable(set, &known->variables[i]);
    for (size_t i = 0; i < known->secret_count; i++)
        redact_add_value(set, known->secrets[i].value, known->secrets[i].bytes);
    finish(set);
    redact_near_finish(set);
}

int redactor_new(const struct redact_known *known, struct redactor **ret, struct err *err)
{
    struct redactor *set = calloc(1, sizeof *set);
    if (!set)
        return err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
    arena_init(&set->arena);
    buf_init(&set->near_grams);
    set->lookahead_bytes = REDACT_SHAPE_LOOKAHEAD_BYTES;
    int code = redact_names_read(set, known, err);
    if (code == 0)
        fill(set, known);
    if (code == 0 && set->failed)
        code = err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
    if (code < 0) {
        redactor_free(set);
        return code;
    }
    *ret = set;
    return 0;
}

void redactor_free(struct redactor *redactor)
{
    if (!redactor)
        return;
    arena_done(&redactor->arena);
    buf_done(&redactor->near_grams);
    free(redactor->patterns);
    free(redactor);
}
