/*
 * Inside core/redact: `password=…`, `"api_key": "…"`, `Authorization: Basic …`. The name stays, the
 * value goes.
 */
#include "core/redact_set.h"

enum {
    TAIL_MAX_BYTES = 12,
    BLANKS_BEFORE_MAX = 3,
    BLANKS_AFTER_MAX = 8,
    PLAIN_WORD_MAX_BYTES = 12,
};

enum strength {
    STRONG, /* whatever follows is the secret */
    WEAK,   /* a common word ("unexpected token: end"): the value must look like a token */
    HEADER, /* as WEAK, and a scheme may stand before the secret */
};

struct keyword {
    const char *word;
    enum strength strength;
};

static const struct keyword keywords[] = {
    {"password", STRONG},   {"passwd", STRONG},      {"passphrase", STRONG},
    {"secret", STRONG},     {"api_key", STRONG},     {"api-key", STRONG},
    {"apikey", STRONG},     {"access_key", STRONG},  {"access-key", STRONG},
    {"accesskey", STRONG},  {"private_key", STRONG}, {"private-key", STRONG},
    {"privatekey", STRONG}, {"token", WEAK},         {"authorization", HEADER},
};

/* What may stand between the keyword and the separator: SECRET_KEY, passwordBase64. */
static const char *const tails[] = {
    "_key", "-key", "key", "_key_base", "_value", "_base64", "base64", "_b64",
};

static const char *const schemes[] = {
    "basic ", "bearer ", "token ", "digest ", "negotiate ", "ntlm ", "apikey ", "api-key ", "key ",
};

/* Said about a secret, not the secret. */
static const char *const plain_words[] = {
    "null",     "nil",     "none",      "true",    "false", "undefined", "empty", "missing",
    "required", "invalid", "incorrect", "expired", "not",   "is",        "must",
};

static bool is_quote(int byte)
{
    return byte == '"' || byte == '\'' || byte == '`';
}

/* What follows the keyword within its name is known; *at moves behind it. */
static enum redact_verdict pass_tail(const struct redact_view *view, size_t *at)
{
    char tail[TAIL_MAX_BYTES + 1];
    size_t len = 0;
    int byte;
    while (redact_is_word(byte = redact_peek(view, *at + len))) {
        if (len == TAIL_MAX_BYTES)
            return REDACT_NO;
        tail[len++] = (char)(redact_is_upper(byte) ? byte + 0x20 : byte);
    }
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (len == 0)
        return REDACT_YES;
    tail[len] = '\0';
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        if (strcmp(tail, tails[i]) == 0) {
            *at += len;
            return REDACT_YES;
        }
    }
    return REDACT_NO;
}

static size_t pass_blanks(const struct redact_view *view, size_t at, size_t most)
{
    size_t end = at + most;
    int byte;
    while (at < end && ((byte = redact_peek(view, at)) == ' ' || byte == '\t'))
        at++;
    return at;
}

/* = : := => and what is around them; not == or ::, which are code, nor a URL's ://. */
static enum redact_verdict pass_separator(const struct redact_view *view, size_t *at)
{
    size_t i = *at;
    if (redact_peek(view, i) == '\\' && is_quote(redact_peek(view, i + 1)))
        i++;
    if (is_quote(redact_peek(view, i)))
        i++;
    if (redact_peek(view, i) == ']')
        i++;
    i = pass_blanks(view, i, BLANKS_BEFORE_MAX);
    int first = redact_peek(view, i);
    int second = redact_peek(view, i + 1);
    if (first == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (first == '\\')
        return second == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    if (first != '=' && first != ':')
        return REDACT_NO;
    if (second == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (second == first || (first == ':' && second == '/'))
        return REDACT_NO;
    bool two = first == ':' ? second == '=' : second == '>';
    *at = pass_blanks(view, i + (two ? 2 : 1), BLANKS_AFTER_MAX);
    return redact_peek(view, *at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/* An opening quote decides where the value will end. */
static enum redact_verdict pass_quote(const struct redact_view *view, size_t *at,
                                      enum redact_run *ret_run)
{
    int byte = redact_peek(view, *at);
    *ret_run = REDACT_RUN_VALUE;
    if (byte == '\\') {
        int next = redact_peek(view, *at + 1);
        if (next == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (next == '"') {
            *at += 2;
            *ret_run = REDACT_RUN_ESCAPED;
        }
    } else if (is_quote(byte)) {
        *at += 1;
        *ret_run = byte == '"'    ? REDACT_RUN_DOUBLE
                   : byte == '\'' ? REDACT_RUN_SINGLE
                                  : REDACT_RUN_BACK;
    }
    return redact_peek(view, *at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/* *at moves behind a scheme and its blanks, when one of them is there. */
static enum redact_verdict pass_scheme(const struct redact_view *view, size_t *at)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        enum redact_verdict verdict = redact_word_at(view, *at, schemes[i]);
        if (verdict == REDACT_NO)
            continue;
        if (verdict == REDACT_YES)
            *at = pass_blanks(view, *at + strlen(schemes[i]), BLANKS_AFTER_MAX);
        return verdict;
    }
    return REDACT_NO;
}

/* There is a value, and it is more than a plain word. */
static enum redact_verdict is_strong_value(const struct redact_view *view, size_t at)
{
    char word[PLAIN_WORD_MAX_BYTES + 1];
    size_t len = 0;
    int byte;
    while (redact_is_value(byte = redact_peek(view, at + len))) {
        if (len == PLAIN_WORD_MAX_BYTES)
            return REDACT_YES;
        word[len++] = (char)(redact_is_upper(byte) ? byte + 0x20 : byte);
    }
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    word[len] = '\0';
    for (size_t i = 0; i < sizeof plain_words / sizeof *plain_words; i++) {
        if (strcmp(word, plain_words[i]) == 0)
            return REDACT_NO;
    }
    return len > 0 ? REDACT_YES : REDACT_NO;
}

/* In quotes anything but the closing quote is a value, also one that begins with a bracket. */
static enum redact_verdict is_quoted_value(const struct redact_view *view, size_t at)
{
    int byte = redact_peek(view, at);
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (byte == REDACT_PEEK_END || is_quote(byte) || byte == '\n' || byte == '\r')
        return REDACT_NO;
    return redact_is_value(byte) ? is_strong_value(view, at) : REDACT_YES;
}

static enum redact_verdict match_assignment(const struct redact_pattern *pattern,
                                            const struct redact_view *view,
                                            struct redact_find *ret_find)
{
    enum strength strength = keywords[pattern->option].strength;
    size_t at = pattern->len;
    enum redact_run run = REDACT_RUN_VALUE;
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict == REDACT_YES)
        verdict = pass_tail(view, &at);
    if (verdict == REDACT_YES)
        verdict = pass_separator(view, &at);
    if (verdict == REDACT_YES)
        verdict = pass_quote(view, &at, &run);
    if (verdict != REDACT_YES)
        return verdict;

    if (strength == HEADER) {
        verdict = pass_scheme(view, &at);
        if (verdict == REDACT_MORE)
            return verdict;
        if (verdict == REDACT_YES)
            strength = STRONG;
    }
    if (strength != STRONG)
        verdict = redact_token_like(view, at, redact_is_value);
    else if (run == REDACT_RUN_VALUE)
        verdict = is_strong_value(view, at);
    else
        verdict = is_quoted_value(view, at);
    *ret_find = (struct redact_find){.from = at, .to = at, .run = run};
    return verdict;
}

void redact_add_assignments(struct redactor *set)
{
    for (uint32_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        struct redact_pattern pattern = {.matcher = match_assignment,
                                         .text = keywords[i].word,
                                         .len = (uint32_t)strlen(keywords[i].word),
                                         .option = i};
        redact_set_add(set, pattern, NULL);
    }
}
