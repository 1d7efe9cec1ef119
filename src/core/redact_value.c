/*
 * Inside core/redact: whether a value is a secret, given what its name says. A variable's value is
 * known as a whole; in text there is only its beginning, and all kinds of things follow a name.
 */
#include "core/redact_set.h"

#include <strings.h>

enum {
    NUMBER_MAX_DIGITS = 7, /* a longer number may be a secret, a shorter one is a limit or a port */
    PIN_MIN_DIGITS = 4,
    PIN_MAX_DIGITS = 12,
    MIXED_MIN_BYTES = 6,
    TOKEN_MIN_BYTES = 8,
    TOKEN_SURE_BYTES = 16, /* no word of a language is that long */
    COOKIE_NAME_BYTES = 32,
    PHRASE_MIN_BLANKS = 3,
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* ---- of a variable ---- */

static const char *const plain_values[] = {
    "false",    "disabled", "enabled",   "default", "password", "secret",
    "optional", "required", "undefined", "unknown", "changeme",
};

static const char *const path_roots[] = {
    "/bin/", "/dev/",       "/etc/",  "/home/",  "/lib/", "/mnt/", "/nix/",
    "/opt/", "/proc/",      "/root/", "/run/",   "/srv/", "/sys/", "/tmp/",
    "/usr/", "/workspace/", "/var/",  "/Users/", "./",    "../",   "~/",
};

static bool is_small_number(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    return digits <= NUMBER_MAX_DIGITS && value[digits] == '\0';
}

static bool is_usual_path(const char *value)
{
    for (size_t i = 0; i < COUNT(path_roots); i++)
        if (strncmp(value, path_roots[i], strlen(path_roots[i])) == 0)
            return true;
    return false;
}

bool redact_value_is_secret(const char *value)
{
    if (strlen(value) < REDACT_SECRET_MIN_BYTES || is_small_number(value) || is_usual_path(value))
        return false;
    for (size_t i = 0; i < COUNT(plain_values); i++)
        if (strcasecmp(value, plain_values[i]) == 0)
            return false;
    return value[strspn(value, " \t\r\n")] != '\0';
}

/* ---- in text ---- */

/* Said about a secret, not the secret. */
static const char *const plain_words[] = {
    "null",
    "nil",
    "none",
    "true",
    "false",
    "undefined",
    "empty",
    "missing",
    "required",
    "invalid",
    "incorrect",
    "expired",
    "not",
    "is",
    "must",
    "yes",
    "no",
    "on",
    "off",
    "string",
    "str",
    "text",
    "char",
    "bool",
    "boolean",
    "int",
    "integer",
    "number",
    "any",
    "object",
    "function",
    "var",
    "const",
    "self",
    "this",
    "nullptr",
    "unset",
    "prompt",
    "optional",
    "default",
    "the",
    "a",
    "an",
    "and",
    "or",
    "for",
    "to",
    "of",
    "in",
    "from",
    "with",
    "by",
    "was",
    "were",
    "are",
    "be",
    "has",
    "have",
    "will",
    "cannot",
    "can",
    "if",
    "when",
    "that",
    "which",
    "it",
    "its",
    "should",
    "option",
    "options",
    "flag",
    "argument",
    "value",
    "field",
    "file",
    "changed",
    "set",
    "ok",
    "failed",
    "error",
    "stdin",
    "enabled",
    "disabled",
    "unknown",
    "hidden",
    "masked",
    "redacted",
    "removed",
    "redacted_value",
    "unexpected",
    "denied",
    "rejected",
    "accepted",
    "found",
    "mismatch",
    "too",
    "does",
    "doesn't",
    "isn't",
    "wrong",
    "bytes",
    "void",
    "static",
    "return",
    "async",
    "example",
    "placeholder",
    "correct",
    "valid",
    "await",
    "new",
    "yield",
    "lambda",
    "amd64",
    "arm64",
    "armhf",
    "i386",
    "all",

};

/* Names of variables in programs hold these: password = user.password. */
static const char *const name_parts[] = {
    "password", "passwd", "passphrase", "secret",     "token",       "apikey",
    "api_key",  "pwd",    "credential", "privatekey", "private_key", "authkey",
};

static bool holds_any(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasestr(text, parts[i]))
            return true;
    return false;
}

struct kinds {
    size_t digits, lower, upper, others;
};

static struct kinds kinds_of(const char *text, size_t len)
{
    struct kinds kinds = {0};
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (redact_is_digit(byte))
            kinds.digits++;
        else if (redact_is_lower(byte))
            kinds.lower++;
        else if (redact_is_upper(byte))
            kinds.upper++;
        else
            kinds.others++;
    }
    return kinds;
}

static size_t count_of(const struct redact_sample *sample, char byte)
{
    size_t count = 0;
    for (size_t i = 0; i < sample->len; i++)
        count += sample->text[i] == byte;
    return count;
}

static bool is_identifier(const struct redact_sample *sample)
{
    for (size_t i = 0; i < sample->len; i++) {
        unsigned char byte = (unsigned char)sample->text[i];
        if (!redact_is_upper(byte) && !redact_is_lower(byte) && byte != '_' && byte != '.' &&
            byte != '-' && byte != '[' && byte != ']' && byte != '*' && byte != ':')
            return false;
    }
    return true;
}

/* $NAME, $name, $user->name, $1, ${…}, $(…): names of variables have digits only with capitals. */
static bool is_expansion(const struct redact_sample *sample)
{
    static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *text = sample->text + 1;
    if (sample->text[0] != '$')
        return false;
    if (*text == '\0' || strchr("({[.", *text) || strspn(text, capitals) == sample->len - 1)
        return true;
    return strcspn(text, "0123456789!@#$%^&*+=~\\/") == sample->len - 1;
}

/* <value>, also when it is made of several words. */
static bool is_bracketed(const struct redact_sample *sample)
{
    bool word = sample->len > 1;
    for (size_t i = 1; i < sample->len; i++)
        word = word &&
               (redact_is_lower((unsigned char)sample->text[i]) ||
                redact_is_upper((unsigned char)sample->text[i]) || strchr("-_ ", sample->text[i]));
    return sample->text[0] == '<' && (word || strchr(sample->text, '>'));
}

/* %s, {{ value }}, ***, xxxx and the above: where a secret would stand. */
static bool is_placeholder(const struct redact_sample *sample)
{
    const char *text = sample->text;
    char first = text[0];
    if (is_expansion(sample) || is_bracketed(sample))
        return true;
    if (first == '%' && (strchr("({s", text[1]) || text[sample->len - 1] == '%'))
        return true;
    if (strncmp(text, "{{", 2) == 0)
        return true;
    if (first == '[' && is_identifier(sample))
        return true;
    size_t same = strspn(text, (char[]){first, '\0'});
    return same == sample->len && same > 2 && strchr("*.xX-_?#", first);
}

static bool begins_with(const struct redact_sample *sample, const char *text)
{
    return strncmp(sample->text, text, strlen(text)) == 0;
}

/* Keyword.Type, self._key, typing.Optional: a name of a program with its module or object. */
static bool is_member(const struct redact_sample *sample)
{
    if (begins_with(sample, "self.") || begins_with(sample, "this."))
        return true;
    const char *dot = strchr(sample->text, '.');
    if (!sample->spaced || !dot || dot == sample->text || !is_identifier(sample))
        return false;
    for (const char *byte = sample->text; *byte; byte++)
        if (*byte == '_' ||
            (byte > dot && redact_is_upper((unsigned char)*byte) && byte[-1] == '.'))
            return true;
    return false;
}

/* Optional[bytes], key[:16], config['password']. */
static bool is_element(const struct redact_sample *sample)
{
    const char *bracket = strchr(sample->text, '[');
    if (!bracket || bracket - sample->text < 3)
        return false;
    for (const char *byte = sample->text; byte < bracket; byte++)
        if (!redact_is_upper((unsigned char)*byte) && !redact_is_lower((unsigned char)*byte) &&
            *byte != '_' && *byte != '.')
            return false;
    char last = sample->text[sample->len - 1];
    return last == ']' || last == '[' || redact_is_quote(sample->next) || sample->next == ',';
}

/* The quote before it was the closing one: prompt="Password: ", echo=False */
static bool is_after_quote(const struct redact_sample *sample)
{
    return !sample->plain && strchr(",)", sample->text[0]) && strchr(" :;,", sample->text[1]);
}

/* getenv(…), Config{…}, (sensitive value): up to the bracket there is a name, or nothing. */
static bool is_call(const struct redact_sample *sample)
{
    size_t name = strcspn(sample->text, "({");
    struct redact_sample before = *sample;
    before.len = name;
    bool opens = name < sample->len || sample->next == '(' || sample->next == '{';
    if (!sample->plain || sample->cut || !opens)
        return false;
    if (name == 0)
        return kinds_of(sample->text, sample->len).digits == 0;
    return is_identifier(&before) || (sample->spaced && kinds_of(sample->text, name).others > 0);
}

/* 0x55d0c8a1b2f0 in a stack trace. */
static bool is_address(const struct redact_sample *sample)
{
    enum { ADDRESS_MAX_BYTES = 18 };
    return strncmp(sample->text, "0x", 2) == 0 && sample->len <= ADDRESS_MAX_BYTES &&
           strspn(sample->text + 2, "0123456789abcdef") == sample->len - 2;
}

/* Something that stands for a value in a program: a call, a member, a variable of the same name. */
static bool is_code(const struct redact_sample *sample)
{
    if (is_call(sample))
        return true;
    if (sample->stated)
        return false;
    if (sample->plain && is_address(sample))
        return true;
    if (is_after_quote(sample) || (sample->plain && (is_member(sample) || is_element(sample))))
        return true;
    if (strncmp(sample->text, "process.env", 11) == 0 || strncmp(sample->text, "os.", 3) == 0 ||
        strncmp(sample->text, "env.", 4) == 0 || strncmp(sample->text, "&str", 4) == 0)
        return true;
    struct kinds kinds = kinds_of(sample->text, sample->len);
    if (sample->plain && kinds.digits + kinds.lower == 0 && is_identifier(sample))
        return true; /* --password PASSWORD */
    if (sample->code && kinds.digits == 0)
        return true;
    if (kinds.digits + kinds.lower + kinds.upper == 0)
        return !sample->cut;
    return is_identifier(sample) && holds_any(sample->text, name_parts, COUNT(name_parts));
}

static bool is_plain_word(const struct redact_sample *sample)
{
    char word[REDACT_SAMPLE_BYTES + 1];
    size_t len = sample->len;
    /* A full stop or a colon at the end belongs to the sentence. */
    while (len > 0 && strchr(".:!?)]", sample->text[len - 1]))
        len--;
    memcpy(word, sample->text, len);
    word[len] = '\0';
    for (size_t i = 0; i < COUNT(plain_words); i++)
        if (strcasecmp(word, plain_words[i]) == 0)
            return true;
    return len == 0;
}

/* Not a word, a number, a path: letters and digits, or signs that words do not have. */
static bool is_mixed(const struct redact_sample *sample, size_t min_bytes)
{
    struct kinds kinds = kinds_of(sample->text, sample->len);
    if (sample->len < min_bytes || is_usual_path(sample->text) || sample->text[0] == '/')
        return false;
    if (kinds.digits > 0 && kinds.lower + kinds.upper > 0)
        return true;
    return strpbrk(sample->text, "!@#$^&*+=~\\") != NULL && kinds.lower + kinds.upper > 2;
}

/* Where only a value can stand, it may also be a word; but not a number or a path. */
static bool is_setting_of(const struct redact_sample *sample, size_t min_bytes)
{
    struct kinds kinds = kinds_of(sample->text, sample->len);
    return sample->setting && kinds.lower + kinds.upper > 0 && !is_usual_path(sample->text) &&
           (sample->len >= min_bytes || strchr(sample->text, ':'));
}

/* One word that is longer than any word of a language. */
static bool is_long_word(const struct redact_sample *sample)
{
    return sample->setting && sample->len >= TOKEN_SURE_BYTES &&
           kinds_of(sample->text, sample->len).others == 0;
}

/* ParseResults: capitals begin its words, and there is nothing but words. */
static bool is_type_name(const struct redact_sample *sample)
{
    size_t lower = 2; /* in the word so far; the first may be small */
    for (size_t i = 0; i < sample->len; i++) {
        unsigned char byte = (unsigned char)sample->text[i];
        if (!redact_is_upper(byte) && !redact_is_lower(byte))
            return false;
        if (redact_is_upper(byte) && lower < 2)
            return false;
        lower = redact_is_upper(byte) ? 0 : lower + 1;
    }
    return lower >= 2 && !sample->cut;
}

/* tIDENTIFIER: a token of a grammar. */
static bool is_symbol(const struct redact_sample *sample)
{
    size_t lower = strspn(sample->text, "abcdefghijklmnopqrstuvwxyz");
    return lower <= 2 &&
           lower + strspn(sample->text + lower, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == sample->len;
}

/* Digits or capitals inside, or longer than any word. */
static bool is_token(const struct redact_sample *sample)
{
    bool mixed = false;
    struct kinds kinds = kinds_of(sample->text, sample->len);
    if (is_setting_of(sample, TOKEN_MIN_BYTES))
        return true;
    if (sample->plain && (is_type_name(sample) || is_symbol(sample)))
        return false;
    if (strspn(sample->text, "0123456789.") == sample->len && strchr(sample->text, '.'))
        return false; /* a version, an address, the name of an object in ASN.1 */
    if (sample->plain && kinds.digits + kinds.upper == 0 && is_identifier(sample))
        return false;
    if (sample->plain && strchr(sample->text, '[') && sample->text[0] != '[')
        return false; /* tokens[-1] */
    if (sample->cut || sample->len >= TOKEN_SURE_BYTES)
        return true;
    for (size_t i = 0; i < sample->len; i++) {
        unsigned char byte = (unsigned char)sample->text[i];
        mixed = mixed || redact_is_digit(byte) || (i > 0 && redact_is_upper(byte));
    }
    return mixed && sample->len >= TOKEN_MIN_BYTES;
}

static bool is_number(const struct redact_sample *sample)
{
    return kinds_of(sample->text, sample->len).digits == sample->len;
}

static bool is_pin(const struct redact_sample *sample)
{
    return is_number(sample) && !sample->cut && sample->len >= PIN_MIN_DIGITS &&
           sample->len <= PIN_MAX_DIGITS;
}

/* name=value */
static bool is_cookie(const struct redact_sample *sample)
{
    size_t name = 0;
    while (name < sample->len && redact_is_value((unsigned char)sample->text[name]) &&
           sample->text[name] != '=')
        name++;
    return name > 0 && name <= COOKIE_NAME_BYTES && sample->text[name] == '=' &&
           (sample->len > name + 1 || sample->cut);
}

/* Long words are names of something unless there are digits or capitals in them. */
static bool is_random(const struct redact_sample *sample, size_t min_bytes)
{
    struct kinds kinds = kinds_of(sample->text, sample->len);
    return is_mixed(sample, min_bytes) && kinds.digits > 0 && kinds.lower + kinds.upper > 2 &&
           (kinds.digits + kinds.upper > 3 || sample->cut);
}

/* SESSION_COOKIE=x: the value alone. */
static bool is_session(const struct redact_sample *sample)
{
    return count_of(sample, ' ') == 0 &&
           (is_random(sample, TOKEN_SURE_BYTES) || is_long_word(sample));
}

/* "get_secret: Add a test", "secret: my-app created" */
static bool is_first_word(const struct redact_sample *sample)
{
    struct kinds kinds = kinds_of(sample->text, sample->len);
    bool apostrophe = sample->plain && sample->next == '\''; /* don't */
    return (sample->sentence || apostrophe) && kinds.digits == 0 &&
           kinds.others == count_of(sample, '-') &&
           kinds.upper <= (redact_is_upper((unsigned char)sample->text[0]) ? 1u : 0u);
}

bool redact_sample_is_secret(enum redact_name_class class, const struct redact_sample *sample)
{
    if (class == REDACT_NAME_COOKIE)
        return is_cookie(sample) || is_session(sample);
    if (is_plain_word(sample) || is_placeholder(sample) || is_code(sample) || is_first_word(sample))
        return false;
    switch (class) {
    case REDACT_NAME_PLAIN:
    case REDACT_NAME_QUIET:
    case REDACT_NAME_COOKIE:
        return false;
    case REDACT_NAME_PHRASE:
        return count_of(sample, ' ') >= PHRASE_MIN_BLANKS;
    case REDACT_NAME_SEED:
        return is_random(sample, TOKEN_MIN_BYTES);
    case REDACT_NAME_KEY:
        return is_random(sample, TOKEN_MIN_BYTES) || is_long_word(sample);
    case REDACT_NAME_PASS:
        return is_mixed(sample, MIXED_MIN_BYTES) || is_setting_of(sample, MIXED_MIN_BYTES);
    case REDACT_NAME_PIN:
        return is_pin(sample) || is_random(sample, TOKEN_MIN_BYTES);
    case REDACT_NAME_PWD:
        return sample->text[0] != '/' && !is_usual_path(sample->text);
    case REDACT_NAME_TOKENS:
        return is_token(sample) && !is_number(sample);
    case REDACT_NAME_TOKEN:
    case REDACT_NAME_HEADER:
        return is_token(sample);
    case REDACT_NAME_STRONG:
        return !is_number(sample) || sample->len >= PIN_MIN_DIGITS; /* HAVE_PASSWD=1 */
    case REDACT_NAME_COLUMN:
        return is_random(sample, TOKEN_MIN_BYTES) && !strpbrk(sample->text, ".:");
    }
    return false;
}

/* ---- of a JSON member ---- */

static struct redact_sample sample_of(const char *value)
{
    struct redact_sample sample = {.next = REDACT_PEEK_END};
    size_t len = strlen(value);
    sample.cut = len > REDACT_SAMPLE_BYTES;
    sample.len = sample.cut ? REDACT_SAMPLE_BYTES : len;
    memcpy(sample.text, value, sample.len);
    return sample;
}

static bool is_secret_number(enum redact_name_class class, const struct redact_sample *sample)
{
    struct kinds kinds = kinds_of(sample->text, sample->len);
    bool may_be = class == REDACT_NAME_PIN || class == REDACT_NAME_PWD ||
                  class == REDACT_NAME_TOKEN || class == REDACT_NAME_STRONG;
    return may_be && kinds.digits >= PIN_MIN_DIGITS;
}

/* A name that looks secret is enough here, for a member has nothing but its value; but for words
 * that say something about it. Tokens that are counted are none. */
bool redact_member_is_secret(const struct redactor *redactor, const char *name, const char *value,
                             bool is_number)
{
    enum redact_name_class class = redact_name_class(redactor, name);
    struct redact_sample sample = sample_of(value);
    if (!redact_name_is_secret(redactor, name) || sample.len == 0)
        return false;
    if (is_number)
        return is_secret_number(class, &sample);
    return !is_plain_word(&sample);
}
