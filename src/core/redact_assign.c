/*
 * Inside core/redact: NAME=value in all the ways it is written. The name stays, the value goes.
 *
 *     DB_PASSWORD=x    "apiKey": "x"    conf['secret'] = 'x'    --token x    <password>x</password>
 *     {"name": "DB_PASSWORD", "value": "x"}                     Authorization: Bearer x
 *
 * A name is found by letters in the middle of its secret word, or, where the word is short, by its
 * last letters and what follows. Then the whole name is read, backwards and on, and redact_names.c
 * says what it is.
 */
#include "core/redact_assign.h"

#include <strings.h>

enum {
    INNER_BYTES = 5,
    END_BYTES = 3,
    BLANKS_AFTER_MAX = 32,
    CHANGE_MAX_BYTES = 256,
    REVERSED_MAX_BYTES = 256,
};

/* Of password, passwd, passphrase, passcode, secret, token, credential, cookie, authorization,
 * pepper. */
static const char *const inner_letters[] = {
    "sswor", "asswd", "phras", "sscod", "ecret", "token",
    "edent", "ookie", "rizat", "pass_", "-pass", "epper",
};

/* Words of three letters, and what may follow: a separator, or more of the name. */
static const char *const short_words[] = {"key", "eys", "pwd", "_pw", "dsn",
                                          "jwt", "pin", "pat", "psk"};
static const char after_short[] = "=: \"'`]>\\\t\r\n,_-+<0123456789";
static const char after_name[] = "=: \"'`]>\\\t\r\n,+<";

/* Words of four letters; they are common, so that only what joins name and value may follow. */
static const char *const common_words[] = {"pass", "auth", "seed", "salt", "cred", "reds"};

static const char *const schemes[] = {
    "basic ",     "bearer ",   "token ",     "digest ",
    "negotiate ", "ntlm ",     "apikey ",    "api-key ",
    "key ",       "ssws ",     "bot ",       "oauth ",
    "sso-key ",   "splunk ",   "hawk ",      "aws4-hmac-sha256 ",
    "genie ",     "geniekey ", "sharedkey ",
};

/* What stands before the letters of a short word; what is no text is not looked for. */
static bool is_text(int byte)
{
    return (byte >= ' ' && byte < 0x7F) || byte == '\t' || redact_is_line_end(byte);
}

/* ---- the name ---- */

/* Where the name around the place ends, and whether anything follows that a name can have. */
static enum redact_verdict find_end(const struct redact_view *view, size_t *ret_end)
{
    int byte = 0;
    size_t end = 0;
    while (end <= REDACT_NAME_ON_BYTES && redact_is_name_byte(byte = redact_peek(view, end)))
        end++;
    *ret_end = end;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    return end <= REDACT_NAME_ON_BYTES && byte > 0 && strchr(after_name, byte) ? REDACT_YES
                                                                               : REDACT_NO;
}

/* secret.c, and "--password." at the end of a sentence. */
static bool is_file(const struct redactor *redactor, const struct redact_name *name)
{
    enum { EXTENSION_MAX_BYTES = 4 };
    const char *dot = strrchr(name->text, '.');
    return dot && strlen(dot + 1) <= EXTENSION_MAX_BYTES &&
           redact_name_class(redactor, dot + 1) == REDACT_NAME_PLAIN && strcmp(dot, ".key") != 0;
}

/* pass and pwd by themselves. */
static bool is_common_word(const struct redact_name *name)
{
    return strcasecmp(name->text, "pass") == 0 || strcasecmp(name->text, "pwd") == 0;
}

/* ---- the value ---- */

/* *at moves behind a scheme and its blanks, when one of them is there. */
static enum redact_verdict pass_scheme(const struct redact_view *view, size_t *at)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        enum redact_verdict verdict = redact_word_at(view, *at, schemes[i]);
        if (verdict == REDACT_NO)
            continue;
        if (verdict == REDACT_YES)
            *at = redact_pass_blanks(view, *at + strlen(schemes[i]), BLANKS_AFTER_MAX);
        return verdict;
    }
    return REDACT_NO;
}

static bool ends_value(enum redact_run run, int byte)
{
    if (byte < 0 || redact_is_line_end(byte))
        return true;
    switch (run) {
    case REDACT_RUN_DOUBLE:
        return byte == '"';
    case REDACT_RUN_SINGLE:
        return byte == '\'';
    case REDACT_RUN_BACK:
        return byte == '`';
    case REDACT_RUN_ESCAPED:
        return byte == '"';
    case REDACT_RUN_TAG:
        return byte == '<';
    case REDACT_RUN_LINE:
        return redact_is_quote(byte);
    case REDACT_RUN_BARE:
        return byte <= ' ';
    case REDACT_RUN_REST:
        return false;
    default:
        return !redact_is_value(byte);
    }
}

static enum redact_verdict take_sample(const struct redact_view *view, size_t at,
                                       enum redact_run run, struct redact_sample *sample)
{
    int byte;
    sample->len = 0;
    while (!ends_value(run, byte = redact_peek(view, at + sample->len))) {
        if (sample->len == REDACT_SAMPLE_BYTES)
            break;
        sample->text[sample->len++] = (char)byte;
    }
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    sample->cut = sample->len == REDACT_SAMPLE_BYTES && !ends_value(run, byte);
    while (run == REDACT_RUN_ESCAPED && sample->len > 0 && sample->text[sample->len - 1] == '\\')
        sample->len--;
    sample->text[sample->len] = '\0';
    sample->plain = run == REDACT_RUN_VALUE;
    sample->next = byte;
    return REDACT_YES;
}

/* More words follow, or the name is one of a function rather than of a setting. */
static bool is_sentence(const struct redact_view *view, const struct redact_name *name, size_t at)
{
    enum { WORDS_OF_A_SETTING = 3 };
    size_t end = at, joints = 0;
    if (view->text[name->end] != ':')
        return false;
    if (at == name->end + 1)
        return true; /* input-password:focus, of a style sheet */
    for (const char *byte = name->text; *byte; byte++)
        joints += *byte == '_';
    while (redact_is_value(redact_peek(view, end)) && end - at < REDACT_SAMPLE_BYTES)
        end++;
    return joints >= WORDS_OF_A_SETTING ||
           (redact_is_blank(redact_peek(view, end)) && redact_is_alnum(redact_peek(view, end + 1)));
}

/* The byte after the value at `at`, or after the blank that follows it. */
static int after_value(const struct redact_view *view, size_t at)
{
    size_t end = at;
    while (redact_is_value(redact_peek(view, end)) && end - at < REDACT_SAMPLE_BYTES)
        end++;
    int byte = redact_peek(view, end);
    return redact_is_blank(byte) ? redact_peek(view, end + 1) : byte;
}

/* The sign between name and value, which has blanks around it; 0: it has none. */
static int spaced_sign(const struct redact_view *view, const struct redact_name *name, size_t at)
{
    size_t sign = at;
    while (sign > name->end && redact_is_blank(view->text[sign - 1]))
        sign--;
    if (sign == at || sign == name->end)
        return 0;
    int byte = view->text[sign - 1];
    bool before = redact_is_blank(view->text[name->end]);
    return byte == ':' || (byte == '=' && before) ? byte : 0;
}

/* What the text around a plain value says about it. */
static void look_around(const struct redact_view *view, const struct redact_name *name, size_t at,
                        struct redact_sample *sample)
{
    int sign = spaced_sign(view, name, at), after = after_value(view, at);
    bool own = strncmp(name->text, "self.", 5) == 0 || strncmp(name->text, "this.", 5) == 0;
    sample->sentence = is_sentence(view, name, at);
    /* name = value; or name = value ? … */
    sample->code = sign == '=' && (own || (after > 0 && strchr(";?)<>|&+*=", after)));
    sample->spaced = sign == '=' || (sign == ':' && after > 0 && strchr(",)]=", after));
}

/* DB_PASSWORD, as variables of a shell are named. */
static bool is_variable(const struct redact_name *name)
{
    return strspn(name->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(name->text);
}

static bool is_alone(int before)
{
    return redact_is_blank(before) || redact_is_line_end(before);
}

/* NAME=value, or name=value that fills its line: the sample is then the whole value. */
static enum redact_verdict take_setting(const struct redact_view *view,
                                        const struct redact_name *name, size_t at,
                                        enum redact_run run, struct redact_sample *sample)
{
    size_t value = name->end + 1;
    bool quoted = at == value + 1 && strchr("\"'", view->text[value]); /* `…` is a command */
    if (view->text[name->end] != '=' || (at != value && !quoted) ||
        (!is_alone(name->before) && !redact_is_quote(name->before)))
        return REDACT_NO;
    enum redact_verdict verdict =
        take_sample(view, at, run == REDACT_RUN_VALUE ? REDACT_RUN_BARE : run, sample);
    if (verdict != REDACT_YES)
        return verdict;
    char *closing = strchr(sample->text, name->before);
    if (run == REDACT_RUN_VALUE && redact_is_quote(name->before) && closing) {
        sample->len = (size_t)(closing - sample->text);
        sample->cut = false;
        *closing = '\0';
    }
    bool fills = redact_is_line_end(name->before) && !sample->cut &&
                 (quoted || sample->next < 0 || redact_is_line_end(sample->next));
    sample->plain = run == REDACT_RUN_VALUE;
    sample->setting = is_variable(name);
    sample->stated = sample->setting || fills;
    return sample->stated ? REDACT_YES : REDACT_NO;
}

/* The beginning of the value, and what the text around it says about it. */
static enum redact_verdict take_value(const struct redact_view *view,
                                      const struct redact_name *name, enum redact_name_class class,
                                      size_t at, enum redact_run *run, struct redact_sample *sample)
{
    bool many_words = class == REDACT_NAME_COOKIE || class == REDACT_NAME_PHRASE;
    enum redact_verdict verdict = take_setting(view, name, at, *run, sample);
    bool setting = verdict == REDACT_YES && class != REDACT_NAME_PHRASE;
    if (!setting && verdict != REDACT_MORE) {
        *sample = (struct redact_sample){0};
        *run = many_words && *run == REDACT_RUN_VALUE ? REDACT_RUN_LINE : *run;
        verdict = take_sample(view, at, *run, sample);
    }
    if (verdict == REDACT_YES && !view->at_end && at + sample->len + 2 > view->len)
        verdict = REDACT_MORE; /* the sentence may go on */
    if (verdict != REDACT_YES)
        return verdict;
    if (*run == REDACT_RUN_VALUE && !setting)
        look_around(view, name, at, sample);
    if (many_words && setting && *run == REDACT_RUN_VALUE && strchr(sample->text, '='))
        *run = REDACT_RUN_LINE; /* name=value; name=value */
    bool member = name->before == '"' && view->text[name->end] == '"';
    sample->stated = sample->stated || (member && *run == REDACT_RUN_DOUBLE);
    return verdict;
}

/* What is left out: a value without quotes that is not one of a list goes on to the next blank. */
static enum redact_verdict cover(const struct redact_view *view, const struct redact_name *name,
                                 size_t at, enum redact_run run, struct redact_find *ret_find)
{
    bool direct = view->text[name->end] == '=';
    bool enclosed = direct && (redact_is_quote(name->before) || name->before == ';');
    if (run == REDACT_RUN_VALUE && (enclosed || is_alone(name->before)))
        return redact_cover_bare(view, at, enclosed ? name->before : 0, ret_find);
    if (run == REDACT_RUN_ESCAPED)
        return redact_cover_escaped(view, at, ret_find);
    *ret_find = (struct redact_find){.from = at, .to = at, .run = run};
    return REDACT_YES;
}

/* The new value of name = "old" -> "new", as plans of Terraform have it; *ret_new is behind its
 * quote. */
static enum redact_verdict find_change(const struct redact_view *view,
                                       const struct redact_name *name, size_t at,
                                       enum redact_run run, size_t *ret_new)
{
    static const char arrow[] = " -> \"";
    size_t value = run == REDACT_RUN_DOUBLE ? at - 1 : at, i = at, end = at + CHANGE_MAX_BYTES;
    int byte = redact_peek(view, value);
    if ((byte != '"' && byte != '(' && byte != 'n') || spaced_sign(view, name, value) != '=')
        return REDACT_NO;
    for (; i < end && (byte = redact_peek(view, i)) >= 0 && !redact_is_line_end(byte); i++) {
        if (byte != ' ' || !strchr("\")l", view->text[i - 1]))
            continue;
        enum redact_verdict verdict = redact_bytes_at(view, i, arrow);
        *ret_new = i + strlen(arrow);
        if (verdict != REDACT_NO)
            return verdict;
    }
    return i < end && byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
}

/* Leaves out both values of a change when the new one is a secret. */
static enum redact_verdict judge_change(const struct redact_view *view,
                                        const struct redact_name *name,
                                        enum redact_name_class class, size_t at,
                                        enum redact_run run, struct redact_find *ret_find)
{
    struct redact_sample sample = {0};
    size_t changed = 0;
    enum redact_run quoted = REDACT_RUN_DOUBLE;
    enum redact_verdict verdict = find_change(view, name, at, run, &changed);
    if (verdict == REDACT_YES)
        verdict = take_value(view, name, class, changed, &quoted, &sample);
    if (verdict != REDACT_YES)
        return verdict;
    *ret_find = (struct redact_find){.from = at, .to = changed, .run = quoted};
    return sample.len > 0 && redact_sample_is_secret(class, &sample) ? REDACT_YES : REDACT_NO;
}

/* Whether the value at `at` is a secret for this class, and what leaves it out. */
static enum redact_verdict judge(const struct redact_view *view, const struct redact_name *name,
                                 enum redact_name_class class, size_t at, enum redact_run run,
                                 struct redact_find *ret_find)
{
    struct redact_sample sample = {0};
    if (class == REDACT_NAME_HEADER) {
        enum redact_verdict scheme = pass_scheme(view, &at);
        if (scheme == REDACT_MORE)
            return scheme;
        if (scheme == REDACT_YES)
            class = REDACT_NAME_STRONG;
    }
    enum redact_verdict verdict = judge_change(view, name, class, at, run, ret_find);
    if (verdict != REDACT_NO)
        return verdict;
    verdict = take_value(view, name, class, at, &run, &sample);
    if (verdict != REDACT_YES)
        return verdict;
    if (name->column)
        class = REDACT_NAME_COLUMN;
    bool words = run == REDACT_RUN_REST && strchr(sample.text, ' ');
    /* <password>  the password to use: no element, but a placeholder. */
    bool usage = run == REDACT_RUN_TAG && redact_is_blank(sample.text[0]);
    /* undefined method `password=' */
    bool method = name->before == '`' && run == REDACT_RUN_SINGLE;
    if (sample.len == 0 || words || usage || method || !redact_sample_is_secret(class, &sample))
        return REDACT_NO;
    return cover(view, name, at, run, ret_find);
}

static enum redact_verdict match_assignment(const struct redactor *redactor,
                                            const struct redact_pattern *pattern,
                                            const struct redact_view *view,
                                            struct redact_find *ret_find)
{
    struct redact_name name;
    enum redact_run run = REDACT_RUN_NONE;
    int before = redact_back(view, 1);
    if (pattern->lead ? redact_to_lower(before) != pattern->lead
                      : pattern->len < INNER_BYTES && !is_text(before))
        return REDACT_NO;
    size_t at = 0, end;
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict == REDACT_YES)
        verdict = find_end(view, &end);
    if (verdict == REDACT_YES)
        verdict = redact_find_value(view, end, &name, &at, &run);
    if (verdict != REDACT_YES)
        return verdict;
    /* "pass: test_2" and "pwd: not found" are no secrets. "pass = x" is one in a configuration. */
    if (run == REDACT_RUN_VALUE && view->text[at - 1] != '=' && is_common_word(&name)) {
        if (spaced_sign(view, &name, at) != '=' || !redact_is_line_end(name.before))
            return REDACT_NO;
        name.column = true;
    }
    enum redact_name_class class = redact_name_class(redactor, name.text);
    if (is_file(redactor, &name))
        return REDACT_NO;
    return class <= REDACT_NAME_QUIET ? REDACT_NO : judge(view, &name, class, at, run, ret_find);
}

/* ---- "value": "x", "name": "API_KEY" ---- */

/* The string that begins at `at`, behind its quote, up to the quote that ends it. */
static enum redact_verdict pass_string(const struct redact_view *view, size_t *at)
{
    size_t end = *at + REVERSED_MAX_BYTES;
    int byte;
    while ((byte = redact_peek(view, *at)) != '"' && byte >= ' ' && *at < end)
        *at += byte == '\\' ? 2 : 1;
    return byte == '"' && *at < end   ? REDACT_YES
           : byte == REDACT_PEEK_MORE ? REDACT_MORE
                                      : REDACT_NO;
}

/* From the end of the value to the beginning of the name, behind its quote. */
static enum redact_verdict pass_to_name(const struct redact_view *view, size_t *at)
{
    size_t i = redact_pass_white(view, *at);
    int byte = redact_peek(view, i);
    if (byte != ',')
        return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    i = redact_pass_white(view, i + 1);
    enum redact_verdict verdict = redact_word_at(view, i, "\"name\"");
    *at = i + strlen("\"name\"");
    if (verdict == REDACT_YES)
        verdict = redact_pass_equals(view, at);
    if (verdict != REDACT_YES)
        return verdict;
    return redact_peek(view, (*at)++) == '"' ? REDACT_YES : REDACT_NO;
}

/* A pair whose second half is the name. */
static enum redact_verdict match_reversed(const struct redactor *redactor,
                                          const struct redact_pattern *pattern,
                                          const struct redact_view *view,
                                          struct redact_find *ret_find)
{
    struct redact_sample sample = {0};
    char name[REDACT_NAME_BACK_BYTES + 1];
    size_t at = pattern->len;
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict == REDACT_YES)
        verdict = redact_pass_equals(view, &at);
    if (verdict == REDACT_YES && redact_peek(view, at) != '"')
        verdict = REDACT_NO;
    size_t value = at + 1, end = value;
    if (verdict == REDACT_YES)
        verdict = pass_string(view, &end);
    at = end + 1;
    if (verdict == REDACT_YES)
        verdict = pass_to_name(view, &at);
    size_t from = at;
    if (verdict == REDACT_YES)
        verdict = pass_string(view, &at);
    if (verdict == REDACT_YES)
        verdict = take_sample(view, value, REDACT_RUN_DOUBLE, &sample);
    if (verdict != REDACT_YES || at - from > REDACT_NAME_BACK_BYTES)
        return verdict == REDACT_YES ? REDACT_NO : verdict;
    memcpy(name, view->text + from, at - from);
    name[at - from] = '\0';
    sample.stated = true;
    enum redact_name_class class = redact_name_class(redactor, name);
    *ret_find = (struct redact_find){.from = value, .to = end};
    return class > REDACT_NAME_QUIET && end > value && redact_sample_is_secret(class, &sample)
               ? REDACT_YES
               : REDACT_NO;
}

/* ---- making ---- */

static void add(struct redactor *set, const char *text, size_t len, char lead,
                const struct redact_neighbours *neighbours)
{
    const struct redact_pattern pattern = {.matcher = match_assignment,
                                           .text = redact_set_keep(set, text, len),
                                           .len = (uint32_t)len,
                                           .lead = (unsigned char)lead};
    if (pattern.text)
        redact_set_add(set, pattern, neighbours);
}

/* A word of three letters with each byte that may follow. */
static void add_short(struct redactor *set, const char *word)
{
    struct redact_neighbours neighbours = {.before = is_text};
    char text[END_BYTES + 1];
    memcpy(text, word, END_BYTES);
    for (const char *after = after_short; *after; after++) {
        text[END_BYTES] = *after;
        add(set, text, sizeof text, '\0', &neighbours);
        neighbours.is_before = true;
    }
}

static bool may_follow_equals(int byte)
{
    return redact_is_value(byte) || redact_is_quote(byte);
}

/*
 * The last three letters of a word, its first as the byte before, and the two bytes that may
 * follow. So the word itself, which is common, is in no filter.
 */
static void add_common(struct redactor *set, const char *word)
{
    static const char *const pairs[] = {
        "\":", "\" ", "\"=", "\"]", "\",", "':",  "' ",  "'=",  "']",   "',",
        ": ",  ":\"", ":'",  ":\t", ":=",  "=>",  "] ",  "]=",  "\\\"", "\\'",
        "]:",  " =",  "\n ", "\n-", "  ",  " \t", "\t=", "\t ", "+=",
    };
    const struct redact_neighbours of_equals = {.after = may_follow_equals};
    char text[END_BYTES + 2];
    memcpy(text, word + 1, END_BYTES);
    text[END_BYTES] = '=';
    add(set, text, END_BYTES + 1, word[0], &of_equals);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        memcpy(text + END_BYTES, pairs[i], 2);
        add(set, text, sizeof text, word[0], NULL);
    }
}

/* A name that was set is found by its last letters, if it ends with some. */
static void add_setting(struct redactor *set, const char *glob)
{
    char end[INNER_BYTES + 1] = "";
    size_t len = strlen(glob), kept = 0;
    while (kept < INNER_BYTES && kept < len &&
           redact_is_name_byte((unsigned char)glob[len - 1 - kept]))
        kept++;
    for (size_t i = 0; i < kept; i++)
        end[i] = (char)redact_to_lower((unsigned char)glob[len - kept + i]);
    if (kept == INNER_BYTES)
        add(set, end, kept, '\0', NULL);
    else if (kept >= END_BYTES)
        add_short(set, end + kept - END_BYTES);
}

void redact_add_assignments(struct redactor *set)
{
    for (size_t i = 0; i < sizeof inner_letters / sizeof *inner_letters; i++)
        add(set, inner_letters[i], INNER_BYTES, '\0', NULL);
    for (size_t i = 0; i < sizeof short_words / sizeof *short_words; i++)
        add_short(set, short_words[i]);
    for (size_t i = 0; i < sizeof common_words / sizeof *common_words; i++)
        add_common(set, common_words[i]);
    redact_set_add(set,
                   (struct redact_pattern){.matcher = match_reversed,
                                           .text = "\"value\"",
                                           .len = (uint32_t)strlen("\"value\"")},
                   NULL);
    const char *glob;
    for (size_t i = 0; (glob = redact_names_secret(set, i)) != NULL; i++)
        add_setting(set, glob);
}
