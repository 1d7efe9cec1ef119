/*
 * See json.h. One pass without recursion: what is open is one bit per level, and the scanner is
 * always in one of three states. Runs of plain characters in strings are skipped eight bytes at a
 * time, since that is what payloads consist of.
 */
#include "base/json.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tend.h>

enum expectation {
    EXPECT_VALUE,
    EXPECT_KEY,
    EXPECT_MORE, /* a value has ended: comma, closing bracket, or the end of the text */
    EXPECT_NOTHING,
};

struct scanner {
    const char *at; /* on a fault: where it is */
    const char *end;
    const char *reason; /* set by the first fault */
    int depth;
    uint64_t is_object[JSON_DEPTH_MAX / 64]; /* one bit per open level: object or array */
};

static bool fault(struct scanner *scanner, const char *at, const char *reason)
{
    scanner->at = at;
    scanner->reason = reason;
    return false;
}

static void skip_space(struct scanner *scanner)
{
    const char *at = scanner->at;
    while (at < scanner->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    scanner->at = at;
}

static bool in_object(const struct scanner *scanner)
{
    int level = scanner->depth - 1;
    return level >= 0 && scanner->is_object[level / 64] >> (level % 64) & 1;
}

static bool is_digit(const struct scanner *scanner, const char *at)
{
    return at < scanner->end && *at >= '0' && *at <= '9';
}

/* First byte that is not plain: a control character, quote, backslash or not ASCII. */
static const char *skip_plain(const char *at, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = UINT64_C(0x8080808080808080);
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        uint64_t quotes = word ^ (ones * '"');
        uint64_t backslashes = word ^ (ones * '\\');
        /* A high bit stays where a byte is below 0x20, equals a quote or backslash, or is high. */
        uint64_t special = (word - ones * 0x20) | (quotes - ones) | (backslashes - ones) | word;
        if (special & highs)
            break;
        at += 8;
    }
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' &&
           *at != '\\')
        at++;
    return at;
}

static int hex_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* The unit of a \uXXXX that starts at `at`; -1 when there is none. */
static int escaped_unit(const struct scanner *scanner, const char *at)
{
    if (scanner->end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    int unit = 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_value(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* at is on the backslash; leaves scanner->at behind the escape. */
static bool scan_escape(struct scanner *scanner, const char *at)
{
    if (scanner->end - at < 2)
        return fault(scanner, scanner->end, "the string is not closed");
    if (at[1] == '\0' || !strchr("\"\\/bfnrtu", at[1]))
        return fault(scanner, at, "unknown escape in a string");
    if (at[1] != 'u') {
        scanner->at = at + 2;
        return true;
    }
    int unit = escaped_unit(scanner, at);
    if (unit < 0)
        return fault(scanner, at, "\\u must be followed by four hexadecimal digits");
    scanner->at = at + 6;
    if (unit < 0xD800 || unit > 0xDFFF)
        return true;
    int partner = unit < 0xDC00 ? escaped_unit(scanner, at + 6) : -1;
    if (partner < 0xDC00 || partner > 0xDFFF)
        return fault(scanner, at, "half of a surrogate pair");
    scanner->at = at + 12;
    return true;
}

/* scanner->at is on the opening quote. */
static bool scan_string(struct scanner *scanner)
{
    const char *at = scanner->at + 1;
    for (;;) {
        at = skip_plain(at, scanner->end);
        if (at == scanner->end)
            return fault(scanner, at, "the string is not closed");
        if (*at == '"') {
            scanner->at = at + 1;
            return true;
        }
        if (*at == '\\') {
            if (!scan_escape(scanner, at))
                return false;
            at = scanner->at;
            continue;
        }
        if ((unsigned char)*at < 0x20)
            return fault(scanner, at, "a control character in a string must be escaped");
        size_t sequence = utf8_sequence(at, (size_t)(scanner->end - at));
        if (sequence == 0)
            return fault(scanner, at, "not valid UTF-8");
        at += sequence;
    }
}

static const char *skip_digits(const struct scanner *scanner, const char *at)
{
    while (is_digit(scanner, at))
        at++;
    return at;
}

/* scanner->at is on a minus sign or a digit. */
static bool scan_number(struct scanner *scanner)
{
    const char *at = scanner->at;
    if (*at == '-')
        at++;
    if (!is_digit(scanner, at))
        return fault(scanner, at, "a minus sign must be followed by a digit");
    if (*at == '0' && is_digit(scanner, at + 1))
        return fault(scanner, at, "a number must not start with a zero");
    at = skip_digits(scanner, at);
    if (at < scanner->end && *at == '.') {
        if (!is_digit(scanner, at + 1))
            return fault(scanner, at + 1, "a decimal point must be followed by a digit");
        at = skip_digits(scanner, at + 1);
    }
    if (at < scanner->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < scanner->end && (*at == '+' || *at == '-'))
            at++;
        if (!is_digit(scanner, at))
            return fault(scanner, at, "an exponent needs a digit");
        at = skip_digits(scanner, at);
    }
    scanner->at = at;
    return true;
}

static bool scan_word(struct scanner *scanner, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(scanner->end - scanner->at) < len || memcmp(scanner->at, word, len) != 0)
        return fault(scanner, scanner->at, "unknown word: only true, false and null are known");
    scanner->at += len;
    return true;
}

static bool open_level(struct scanner *scanner, bool object)
{
    if (scanner->depth == JSON_DEPTH_MAX)
        return fault(scanner, scanner->at, "nested deeper than 512 levels");
    int level = scanner->depth++;
    uint64_t bit = UINT64_C(1) << (level % 64);
    if (object)
        scanner->is_object[level / 64] |= bit;
    else
        scanner->is_object[level / 64] &= ~bit;
    scanner->at++;
    skip_space(scanner);
    return true;
}

/* After an opening bracket: an empty object or array ends at once. */
static bool close_if_empty(struct scanner *scanner, char closing)
{
    if (scanner->at == scanner->end || *scanner->at != closing)
        return false;
    scanner->at++;
    scanner->depth--;
    return true;
}

static bool scan_value(struct scanner *scanner, enum expectation *next)
{
    if (scanner->at == scanner->end)
        return fault(scanner, scanner->at, "the text ends where a value is expected");
    *next = EXPECT_MORE;
    switch (*scanner->at) {
    case '{':
        if (!open_level(scanner, true))
            return false;
        if (!close_if_empty(scanner, '}'))
            *next = EXPECT_KEY;
        return true;
    case '[':
        if (!open_level(scanner, false))
            return false;
        if (!close_if_empty(scanner, ']'))
            *next = EXPECT_VALUE;
        return true;
    case '"':
        return scan_string(scanner);
    case 't':
        return scan_word(scanner, "true");
    case 'f':
        return scan_word(scanner, "false");
    case 'n':
        return scan_word(scanner, "null");
    default:
        if (*scanner->at == '-' || is_digit(scanner, scanner->at))
            return scan_number(scanner);
        return fault(scanner, scanner->at, "a value is expected here");
    }
}

static bool scan_key(struct scanner *scanner)
{
    if (scanner->at == scanner->end)
        return fault(scanner, scanner->at, "the object is not closed");
    if (*scanner->at != '"')
        return fault(scanner, scanner->at, "a key in double quotes is expected here");
    if (!scan_string(scanner))
        return false;
    skip_space(scanner);
    if (scanner->at == scanner->end || *scanner->at != ':')
        return fault(scanner, scanner->at, "a colon is expected after a key");
    scanner->at++;
    return true;
}

static bool scan_after_value(struct scanner *scanner, enum expectation *next)
{
    bool at_end = scanner->at == scanner->end;
    if (scanner->depth == 0) {
        *next = EXPECT_NOTHING;
        return at_end || fault(scanner, scanner->at, "more text after the end of the document");
    }
    bool object = in_object(scanner);
    if (at_end)
        return fault(scanner, scanner->at,
                     object ? "the object is not closed" : "the array is not closed");
    char byte = *scanner->at;
    if (byte == ',') {
        *next = object ? EXPECT_KEY : EXPECT_VALUE;
    } else if (byte == (object ? '}' : ']')) {
        scanner->depth--;
        *next = EXPECT_MORE;
    } else {
        return fault(scanner, scanner->at,
                     object ? "a comma or } is expected here" : "a comma or ] is expected here");
    }
    scanner->at++;
    return true;
}

static bool scan_document(struct scanner *scanner)
{
    enum expectation next = EXPECT_VALUE;
    while (next != EXPECT_NOTHING) {
        skip_space(scanner);
        bool fine;
        if (next == EXPECT_VALUE) {
            fine = scan_value(scanner, &next);
        } else if (next == EXPECT_KEY) {
            fine = scan_key(scanner);
            next = EXPECT_VALUE;
        } else {
            fine = scan_after_value(scanner, &next);
        }
        if (!fine)
            return false;
    }
    return true;
}

static void locate(const char *text, const struct scanner *scanner, struct json_fault *found)
{
    *found = (struct json_fault){
        .offset = (size_t)(scanner->at - text), .line = 1, .column = 1, .reason = scanner->reason};
    for (const char *at = text; at < scanner->at; at++) {
        if (*at == '\n') {
            found->line++;
            found->column = 1;
        } else if (((unsigned char)*at & 0xC0) != 0x80) {
            found->column++;
        }
    }
}

int json_check(const char *text, size_t len, struct json_fault *ret_fault)
{
    struct scanner scanner = {.at = text, .end = text + len};
    bool fine = len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0
                    ? fault(&scanner, text, "the text starts with a byte order mark")
                    : scan_document(&scanner);
    if (fine)
        return 0;
    if (ret_fault)
        locate(text, &scanner, ret_fault);
    return TEND_EINVAL;
}

/* Without a reason: there was no memory to begin with. */
bool json_no_memory(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    return code == json_error_out_of_memory || code == json_error_invalid_syntax ||
           error->text[0] == '\0';
}
