/*
 * Inside core/redact: secrets nobody told us, known by their shape: tokens of well-known services,
 * JWT, Bearer, the password in a URL, private keys in PEM.
 */
#include "core/redact_set.h"

enum {
    MIXED_WITHIN_BYTES = 64,
    JWT_HEADER_MIN_BYTES = 8,
    JWT_HEADER_MAX_BYTES = 1024,
    JWT_REST_MIN_BYTES = 8,
    URL_AUTHORITY_MAX_BYTES = 1024,
    URL_BARE_TOKEN_MIN_BYTES = 20, /* user part of a URL that is a token, not a name */
    KEY_LABEL_MAX_BYTES = 48,
    TOKEN_MIN_BYTES = 8,
    TOKEN_SURE_BYTES = 16, /* no word of a language is that long */
    BLANKS_MAX = 8,
};

/* ---- tokens with a prefix ---- */

enum alphabet { ALNUM, WORD, CAPITALS };

struct shape {
    const char *prefix;
    unsigned min_bytes; /* after the prefix */
    enum alphabet alphabet;
    bool mixed; /* there must be a digit or a capital: the prefix alone is weak */
};

static const struct shape shapes[] = {
    {"ghp_", 20, ALNUM, false},     {"gho_", 20, ALNUM, false},
    {"ghu_", 20, ALNUM, false},     {"ghs_", 20, ALNUM, false},
    {"ghr_", 20, ALNUM, false},     {"github_pat_", 20, WORD, false},
    {"glpat-", 16, WORD, false},    {"glptt-", 16, WORD, false},
    {"gldt-", 16, WORD, false},     {"glrt-", 16, WORD, false},
    {"AKIA", 16, CAPITALS, false},  {"ASIA", 16, CAPITALS, false},
    {"xoxa-", 10, WORD, false},     {"xoxb-", 10, WORD, false},
    {"xoxe-", 10, WORD, false},     {"xoxo-", 10, WORD, false},
    {"xoxp-", 10, WORD, false},     {"xoxr-", 10, WORD, false},
    {"xoxs-", 10, WORD, false},     {"xapp-", 10, WORD, false},
    {"sk-", 20, WORD, true},        {"sk_live_", 16, ALNUM, false},
    {"sk_test_", 16, ALNUM, false}, {"rk_live_", 16, ALNUM, false},
    {"rk_test_", 16, ALNUM, false}, {"whsec_", 16, ALNUM, false},
    {"npm_", 30, ALNUM, false},     {"pypi-", 32, WORD, true},
    {"AIza", 30, WORD, false},      {"hf_", 30, ALNUM, false},
    {"dop_v1_", 32, ALNUM, false},
};

static bool in_alphabet(enum alphabet alphabet, int byte)
{
    switch (alphabet) {
    case ALNUM:
        return redact_is_alnum(byte);
    case CAPITALS:
        return redact_is_upper(byte) || redact_is_digit(byte);
    case WORD:
        break;
    }
    return redact_is_word(byte);
}

/* The bytes are there as they stand. */
static enum redact_verdict bytes_at(const struct redact_view *view, size_t at, const char *bytes,
                                    size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte != (unsigned char)bytes[i])
            return REDACT_NO;
    }
    return REDACT_YES;
}

enum redact_verdict redact_word_at(const struct redact_view *view, size_t at, const char *word)
{
    for (size_t i = 0; word[i]; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if ((redact_is_upper(byte) ? byte + 0x20 : byte) != (unsigned char)word[i])
            return REDACT_NO;
    }
    return REDACT_YES;
}

static enum redact_verdict match_shape(const struct redact_pattern *pattern,
                                       const struct redact_view *view, struct redact_find *ret_find)
{
    const struct shape *shape = &shapes[pattern->option];
    if (redact_is_alnum(view->before))
        return REDACT_NO;
    enum redact_verdict verdict = bytes_at(view, 0, pattern->text, pattern->len);
    if (verdict != REDACT_YES)
        return verdict;
    bool mixed = !shape->mixed;
    for (size_t i = 0; i < shape->min_bytes || !mixed; i++) {
        int byte = redact_peek(view, pattern->len + i);
        if (byte == REDACT_PEEK_MORE && i < MIXED_WITHIN_BYTES)
            return REDACT_MORE;
        if (!in_alphabet(shape->alphabet, byte) || i >= MIXED_WITHIN_BYTES)
            return REDACT_NO;
        mixed = mixed || redact_is_digit(byte) || redact_is_upper(byte);
    }
    *ret_find = (struct redact_find){.run = REDACT_RUN_WORD};
    return REDACT_YES;
}

/* A header that begins with {" in base64, a dot, and more. */
static enum redact_verdict match_jwt(const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    if (redact_is_alnum(view->before))
        return REDACT_NO;
    enum redact_verdict verdict = bytes_at(view, 0, pattern->text, pattern->len);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = pattern->len;
    int byte;
    while (redact_is_word(byte = redact_peek(view, at)) && at <= JWT_HEADER_MAX_BYTES)
        at++;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (byte != '.' || at < JWT_HEADER_MIN_BYTES)
        return REDACT_NO;
    for (size_t end = at + 1 + JWT_REST_MIN_BYTES; at < end; at++) {
        byte = redact_peek(view, at);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (!redact_is_word(byte) && byte != '.')
            return REDACT_NO;
    }
    *ret_find = (struct redact_find){.run = REDACT_RUN_TOKEN};
    return REDACT_YES;
}

enum redact_verdict redact_token_like(const struct redact_view *view, size_t at,
                                      bool (*belongs)(int))
{
    bool mixed = false;
    for (size_t i = 0; i < TOKEN_SURE_BYTES; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte == REDACT_PEEK_END || !belongs(byte))
            return i >= TOKEN_MIN_BYTES && mixed ? REDACT_YES : REDACT_NO;
        mixed = mixed || redact_is_digit(byte) || (i > 0 && redact_is_upper(byte));
    }
    return REDACT_YES;
}

static enum redact_verdict match_bearer(const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = pattern->len;
    while (redact_peek(view, at) == ' ' && at < pattern->len + BLANKS_MAX)
        at++;
    verdict = redact_token_like(view, at, redact_is_token);
    *ret_find = (struct redact_find){.from = at, .to = at, .run = REDACT_RUN_TOKEN};
    return verdict;
}

/* ---- ://user:password@host ---- */

static bool in_authority(int byte)
{
    switch (byte) {
    case '/':
    case '?':
    case '#':
    case '"':
    case '\'':
    case '`':
    case '<':
    case '>':
    case '\\':
    case 0x7F:
        return false;
    default:
        return byte > ' ';
    }
}

/* user:password up to the last @ of the authority; or a long user alone, which is then a token. */
static enum redact_verdict match_url(const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    enum redact_verdict verdict = bytes_at(view, 0, pattern->text, pattern->len);
    if (verdict != REDACT_YES)
        return verdict;
    size_t start = pattern->len;
    size_t colon = 0, host = 0; /* just after the first ':' and the last '@' */
    size_t at = start;
    int byte;
    bool has_digit = false;
    while (in_authority(byte = redact_peek(view, at)) && at < URL_AUTHORITY_MAX_BYTES) {
        if (byte == ':' && colon == 0 && host == 0)
            colon = at + 1;
        if (byte == '@')
            host = at + 1;
        has_digit = has_digit || (redact_is_digit(byte) && host == 0);
        at++;
    }
    if (byte == REDACT_PEEK_MORE && at < URL_AUTHORITY_MAX_BYTES)
        return REDACT_MORE;
    if (host == 0)
        return REDACT_NO;
    bool bare_token = colon == 0 && has_digit && host - 1 - start >= URL_BARE_TOKEN_MIN_BYTES;
    size_t from = bare_token ? start : colon;
    if (from == 0 || from == host - 1)
        return REDACT_NO;
    *ret_find = (struct redact_find){.from = from, .to = host - 1};
    return REDACT_YES;
}

/* ---- private keys ---- */

/*
 * -----BEGIN RSA PRIVATE KEY----- or the END of it, PGP's "PRIVATE KEY BLOCK" included. Looked for
 * from its last two dashes on, for a filter on dashes alone would stop at every ruled line.
 */
static enum redact_verdict match_key(const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    static const char private_key[] = "PRIVATE KEY";
    if (view->before != '-')
        return REDACT_NO;
    enum redact_verdict verdict = bytes_at(view, 0, pattern->text, pattern->len);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = pattern->len;
    size_t end = at + KEY_LABEL_MAX_BYTES;
    bool is_private = false;
    int byte;
    while (redact_is_upper(byte = redact_peek(view, at)) || redact_is_digit(byte) || byte == ' ') {
        if (at++ == end)
            return REDACT_NO;
        is_private = is_private ||
                     (at >= sizeof private_key && memcmp(view->text + at - (sizeof private_key - 1),
                                                         private_key, sizeof private_key - 1) == 0);
    }
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    verdict = bytes_at(view, at, "-----", 5);
    if (verdict != REDACT_YES || !is_private)
        return is_private ? verdict : REDACT_NO;
    *ret_find = (struct redact_find){.to = at + 5};
    if (pattern->option)
        ret_find->ends_key = true;
    else
        ret_find->run = REDACT_RUN_KEY;
    return REDACT_YES;
}

static bool any_printable(int byte)
{
    return byte > ' ' && byte != '/';
}

static struct redact_pattern pattern_of(const char *text, redact_matcher *matcher, uint32_t option)
{
    return (struct redact_pattern){
        .matcher = matcher, .text = text, .len = (uint32_t)strlen(text), .option = option};
}

void redact_add_shapes(struct redactor *set)
{
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        redact_set_add(set, pattern_of(shapes[i].prefix, match_shape, i), redact_is_word);
    redact_set_add(set, pattern_of("eyJ", match_jwt, 0), redact_is_word);
    redact_set_add(set, pattern_of("bearer ", match_bearer, 0), NULL);
    redact_set_add(set, pattern_of("://", match_url, 0), any_printable);
    redact_set_add(set, pattern_of("--BEGIN ", match_key, 0), NULL);
    redact_set_add(set, pattern_of("--END ", match_key, 1), NULL);
}
