/* See signature_mask.h. */
#include "core/signature_mask.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

enum {
    UUID_BYTES = 36,
    HEX_ID_BYTES = 6,      /* shorter runs of hexadecimal digits may be words */
    RANDOM_ID_BYTES = 16,  /* letters and digits mixed: nobody types such names */
    COLON_SPAN_BYTES = 48, /* longer than any address: what bounds looking ahead */
};

struct masker {
    const char *line;
    size_t len;
    size_t at;
    char *out;
    size_t out_len;
    size_t last_mask; /* out_len behind the last #; 0: there is none */
    bool full;
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_upper(char byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static bool is_word(char byte)
{
    return is_digit(byte) || is_upper(byte) || (byte >= 'a' && byte <= 'z');
}

static bool is_hex(char byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* The byte at a place; NUL before and behind the line, which has none inside. */
static char peek(const struct masker *masker, size_t at)
{
    return at < masker->len ? masker->line[at] : '\0';
}

static void emit(struct masker *masker, const char *bytes, size_t count)
{
    if (masker->full || masker->out_len + count > MASKED_BYTES) {
        masker->full = true;
        return;
    }
    memcpy(masker->out + masker->out_len, bytes, count);
    masker->out_len += count;
}

/* A mask. One that follows another with nothing but punctuation between joins it: lists and dates
 * of any length look alike. */
static void emit_mask(struct masker *masker)
{
    size_t back = masker->out_len;
    while (back > masker->last_mask && strchr(" ,:.;/+-", masker->out[back - 1]))
        back--;
    if (masker->last_mask > 0 && back == masker->last_mask) {
        masker->out_len = back;
        return;
    }
    emit(masker, "#", 1);
    masker->last_mask = masker->out_len;
}

/* ---- spans: how many bytes from `at` on are a thing to be masked; 0: none ---- */

static size_t uuid_span(const struct masker *masker, size_t at)
{
    if (masker->len - at < UUID_BYTES || is_word(peek(masker, at + UUID_BYTES)))
        return 0;
    for (size_t i = 0; i < UUID_BYTES; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        char byte = masker->line[at + i];
        if (dash ? byte != '-' : !is_hex(byte))
            return 0;
    }
    return UUID_BYTES;
}

/* fe80::1ff:fe23, 00:1a:2b:3c:4d:5e, and times, which look the same. */
static size_t colon_span(const struct masker *masker, size_t at)
{
    size_t end = at;
    size_t colons = 0;
    bool digit = false;
    for (; (is_hex(peek(masker, end)) || peek(masker, end) == ':') && end - at <= COLON_SPAN_BYTES;
         end++) {
        colons += peek(masker, end) == ':';
        digit = digit || is_digit(peek(masker, end));
    }
    if (is_word(peek(masker, end)) || end - at > COLON_SPAN_BYTES)
        return 0;
    if (peek(masker, at + 1) == ':' && !is_digit(masker->line[at]))
        return 0; /* the last letter of main.c:12:5 */
    for (; end > at && masker->line[end - 1] == ':'; end--)
        colons--;
    return digit && colons >= 2 ? end - at : 0;
}

/* A number and what hangs on it: 1,234  12.5ms  1m5s  10:00:01.250  2026-01-31T10:00Z  10.0.0.1:80
 * 0x7ffe. */
static size_t number_span(const struct masker *masker, size_t at)
{
    if (!is_digit(peek(masker, at)))
        return 0;
    size_t end = at;
    for (;; end++) {
        char byte = peek(masker, end);
        if (is_word(byte) || byte == '_')
            continue;
        if (byte == '\0' || !strchr(".,:-/+", byte) || !is_digit(peek(masker, end + 1)))
            break;
    }
    return end - at;
}

static bool is_calendar_word(const struct masker *masker, size_t at)
{
    static const char names[] = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec "
                                "Mon Tue Wed Thu Fri Sat Sun ";
    if (masker->len - at < 3 || is_word(peek(masker, at + 3)))
        return false;
    for (const char *name = names; *name; name += 4)
        if (memcmp(name, masker->line + at, 3) == 0)
            return true;
    return false;
}

/* "Sun" and "Nov" in "Sun, Nov 15"; not in "Sun is shining". */
static bool is_date_word(const struct masker *masker, size_t at)
{
    if (!is_calendar_word(masker, at))
        return false;
    size_t next = at + 3;
    while (peek(masker, next) == ' ' || peek(masker, next) == ',')
        next++;
    return next > at + 3 && next < masker->len &&
           (is_digit(masker->line[next]) || is_calendar_word(masker, next));
}

/* ---- words ---- */

/* E0425, TS2304, SC2086: what a compiler calls a mistake tells failures apart. */
static bool is_error_code(const char *word, size_t len)
{
    size_t letters = 0;
    while (letters < len && is_upper(word[letters]))
        letters++;
    size_t digits = len - letters;
    for (size_t i = letters; i < len; i++)
        if (!is_digit(word[i]))
            return false;
    return letters >= 1 && letters <= 3 && digits >= 3 && digits <= 5;
}

static bool is_generated(const char *word, size_t len)
{
    size_t hexes = 0;
    size_t digits = 0;
    for (size_t i = 0; i < len; i++) {
        hexes += is_hex(word[i]);
        digits += is_digit(word[i]);
    }
    if (hexes == len && (len == 32 || len == 40 || len == 64))
        return true;
    return (hexes == len && len >= HEX_ID_BYTES && digits >= 1) ||
           (len >= RANDOM_ID_BYTES && digits >= 2);
}

/* A word that starts with a letter. */
static void mask_word(struct masker *masker)
{
    const char *word = masker->line + masker->at;
    size_t len = 0;
    while (is_word(peek(masker, masker->at + len)))
        len++;
    bool date = is_date_word(masker, masker->at);
    masker->at += len;
    if (date || (is_generated(word, len) && !is_error_code(word, len))) {
        emit_mask(masker);
        return;
    }
    if (is_error_code(word, len)) {
        emit(masker, word, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(word[i]))
            emit(masker, word + i, 1);
        else if (!is_digit(word[i - 1]))
            emit_mask(masker);
    }
}

/* ---- paths ---- */

static const char *const temporary_folders[] = {"/tmp/", "/var/tmp/", "/dev/shm/", "/run/user/",
                                                "/var/folders/"};

static bool mask_temporary_path(struct masker *masker)
{
    if (masker->at > 0 &&
        (is_word(masker->line[masker->at - 1]) || strchr("._-", masker->line[masker->at - 1])))
        return false;
    for (size_t i = 0; i < sizeof temporary_folders / sizeof *temporary_folders; i++) {
        size_t len = strlen(temporary_folders[i]);
        if (masker->len - masker->at <= len ||
            memcmp(masker->line + masker->at, temporary_folders[i], len) != 0)
            continue;
        emit(masker, temporary_folders[i], len);
        masker->last_mask = 0; /* a path is not a list of numbers */
        masker->at += len;
        while (masker->at < masker->len && !strchr("/ '\"`:;,()[]<>", masker->line[masker->at]))
            masker->at++;
        emit_mask(masker);
        return true;
    }
    return false;
}

/* ---- the line ---- */

static bool is_sign(const struct masker *masker)
{
    char byte = masker->line[masker->at];
    return (byte == '-' || byte == '+') && is_digit(peek(masker, masker->at + 1)) &&
           (masker->at == 0 || !is_word(masker->line[masker->at - 1]));
}

static void mask_other(struct masker *masker)
{
    char byte = masker->line[masker->at];
    size_t sequence = utf8_sequence(masker->line + masker->at, masker->len - masker->at);
    sequence = sequence == 0 ? 1 : sequence;
    /* Braille patterns, U+2800 to U+28FF: the frames of a spinner. */
    bool spinner = sequence == 3 && byte == '\xE2' &&
                   ((unsigned char)masker->line[masker->at + 1] & 0xFC) == 0xA0;
    bool blank_again =
        byte == ' ' && masker->out_len > 0 && masker->out[masker->out_len - 1] == ' ';
    if (!spinner && !blank_again && !is_sign(masker))
        emit(masker, masker->line + masker->at, sequence);
    masker->at += sequence;
}

size_t mask_line(const char *line, size_t len, char out[MASKED_BYTES + 1])
{
    struct masker masker = {.line = line, .len = len, .out = out};
    while (masker.at < len && !masker.full) {
        char byte = line[masker.at];
        if (is_word(byte)) {
            size_t span = uuid_span(&masker, masker.at);
            span = span > 0 ? span : colon_span(&masker, masker.at);
            span = span > 0 ? span : number_span(&masker, masker.at);
            if (span > 0) {
                emit_mask(&masker);
                masker.at += span;
            } else {
                mask_word(&masker);
            }
        } else if (byte != '/' || !mask_temporary_path(&masker)) {
            mask_other(&masker);
        }
    }
    while (masker.out_len > 0 && out[masker.out_len - 1] == ' ')
        masker.out_len--;
    out[masker.out_len] = '\0';
    return masker.out_len;
}
