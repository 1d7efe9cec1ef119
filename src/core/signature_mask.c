/* See signature_mask.h. */
#include "core/signature_mask.h"

#include "base/text.h"
#include "core/signature_word.h"

#include <stdbool.h>
#include <string.h>

enum {
    UUID_BYTES = 36,
    COLON_SPAN_BYTES = 48, /* longer than any address: what bounds looking ahead */
    NAME_LETTERS = 3,      /* step2 is a name, a3 may be a part of an id */
    NAME_DIGITS = 2,       /* ... step12 is one, and build1234 counts */
    STATUS_DIGITS = 3,
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

/* A mask stands right before, with nothing but these bytes between. */
static bool follows_mask(const struct masker *masker, const char *between)
{
    size_t back = masker->out_len;
    while (back > masker->last_mask && strchr(between, masker->out[back - 1]))
        back--;
    return masker->last_mask > 0 && back == masker->last_mask;
}

/* A mask. One that follows another with nothing but punctuation between joins it: lists and dates
 * of any length look alike. */
static void emit_mask(struct masker *masker)
{
    if (follows_mask(masker, " ,:.;/+-")) {
        masker->out_len = masker->last_mask;
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

/* ---- numbers that are no chance ---- */

static size_t digits_span(const struct masker *masker, size_t at)
{
    size_t len = 0;
    while (is_digit(peek(masker, at + len)))
        len++;
    return len;
}

/* The letters that end before `at`. */
static size_t letters_before(const struct masker *masker, size_t at)
{
    size_t start = at;
    while (start > 0 && is_word(masker->line[start - 1]) && !is_digit(masker->line[start - 1]))
        start--;
    return at - start;
}

/* The word is one of these, in any case; names end with a blank each. */
static bool is_any_case_of(const char *names, const char *word, size_t len)
{
    for (const char *name = names; *name; name += strcspn(name, " ") + 1)
        if (strcspn(name, " ") == len && strncasecmp(name, word, len) == 0)
            return true;
    return false;
}

/* The 2 of step2 and the 7 of test_case_7 belong to a name. Which worker or machine it was is
 * chance. */
static bool is_numbered_name(const struct masker *masker, size_t letters_end, size_t letters)
{
    static const char chance[] =
        "worker thread pool node host runner agent process proc pid cpu gpu core slot shard pod "
        "attempt try retry run build job tmp temp port container instance session request req ";
    return letters >= NAME_LETTERS &&
           !is_any_case_of(chance, masker->line + letters_end - letters, letters);
}

/* The digits after the underscore of a name. 0: they are a number. */
static size_t name_digits_span(const struct masker *masker, size_t at)
{
    size_t len = digits_span(masker, at);
    char next = peek(masker, at + len);
    if (len == 0 || len > NAME_DIGITS || at == 0 || masker->line[at - 1] != '_' || is_word(next))
        return 0;
    return is_numbered_name(masker, at - 1, letters_before(masker, at - 1)) ? len : 0;
}

/* "status 404", "HTTP 500", "exit code: 2": another one is another failure. */
static size_t status_span(const struct masker *masker, size_t at)
{
    size_t len = digits_span(masker, at);
    char next = peek(masker, at + len);
    size_t back = at;
    if (len == 0 || len > STATUS_DIGITS || is_word(next) || next == '_' ||
        (next != '\0' && strchr(".,:-/+", next) && is_digit(peek(masker, at + len + 1))))
        return 0;
    while (back > 0 && strchr(" :=(\"", masker->line[back - 1]))
        back--;
    size_t letters = letters_before(masker, back);
    return back < at && is_any_case_of("status code statuscode exit http ",
                                       masker->line + back - letters, letters)
               ? len
               : 0;
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

/* The word at a place is one of these; names end with a blank each. */
static bool is_one_of(const char *names, const char *word, size_t len)
{
    for (const char *name = names; *name; name += strcspn(name, " ") + 1)
        if (strcspn(name, " ") == len && memcmp(name, word, len) == 0)
            return true;
    return false;
}

static size_t word_span(const struct masker *masker, size_t at)
{
    size_t len = 0;
    while (is_word(peek(masker, at + len)))
        len++;
    return len;
}

static bool is_calendar_word(const struct masker *masker, size_t at, size_t len)
{
    static const char names[] = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec Sept March April "
                                "June July Mon Tue Wed Thu Fri Sat Sun ";
    return is_one_of(names, masker->line + at, len);
}

/* "Sun" and "Nov" in "Sun, Nov 15", "Mar" in "12/Mar"; not in "Sun is shining". Longer names are
 * always dates. */
static bool is_date_word(const struct masker *masker, size_t at, size_t len)
{
    static const char always[] = "January February August September October November December "
                                 "Monday Tuesday Wednesday Thursday Friday Saturday Sunday ";
    if (is_one_of(always, masker->line + at, len))
        return true;
    if (!is_calendar_word(masker, at, len))
        return false;
    if (follows_mask(masker, " /-.,"))
        return true;
    size_t next = at + len;
    while (peek(masker, next) == ' ' || peek(masker, next) == ',')
        next++;
    return next > at + len && next < masker->len &&
           (is_digit(masker->line[next]) ||
            is_calendar_word(masker, next, word_span(masker, next)));
}

/* What a number is a number of: the minutes of "# minutes", the PM of "# PM". */
static bool is_unit(const struct masker *masker, size_t at, size_t len)
{
    static const char units[] =
        "ms msec sec secs second seconds min mins minute minutes hour hours day days week weeks "
        "milliseconds millisecond microseconds nanoseconds AM PM am pm UTC GMT ";
    return follows_mask(masker, " ") && is_one_of(units, masker->line + at, len);
}

/* ---- words ---- */

/* "# tests failed" and "# test failed" are the same: 2 became 1. */
static size_t without_plural(const struct masker *masker, const char *word, size_t len)
{
    bool plural = len >= 4 && word[len - 1] == 's' && word[len - 2] != 's' &&
                  memcmp(word + len - 3, "ies", 3) != 0;
    return plural && follows_mask(masker, " ") ? len - 1 : len;
}

/* /var/cache/build-qzkfmw/: what follows a dash in the name of a folder. */
static bool is_folder_part(const struct masker *masker, const char *word, size_t len)
{
    enum { FOLDER_BYTES = 64 };
    size_t at = masker->at, least = at > FOLDER_BYTES ? at - FOLDER_BYTES : 0;
    if (at == 0 || !strchr("-_.", masker->line[at - 1]) || peek(masker, at + len) != '/')
        return false;
    while (at > least && masker->line[at - 1] != '/' && masker->line[at - 1] != ' ')
        at--;
    return at > least && masker->line[at - 1] == '/' && word_is_folder_part(word, len);
}

static bool is_masked_word(const struct masker *masker, const char *word, size_t len)
{
    if (word_is_error_code(word, len))
        return false;
    bool pod = masker->at > 0 && masker->line[masker->at - 1] == '-' && word_is_pod_part(word, len);
    return pod || is_folder_part(masker, word, len) || word_is_generated(word, len) ||
           is_date_word(masker, masker->at, len) || is_unit(masker, masker->at, len);
}

/* A word that starts with a letter. */
static void mask_word(struct masker *masker)
{
    const char *word = masker->line + masker->at;
    size_t len = word_span(masker, masker->at);
    bool masked = is_masked_word(masker, word, len);
    masker->at += len;
    if (masked) {
        emit_mask(masker);
        return;
    }
    size_t letters = 0;
    while (letters < len && !is_digit(word[letters]))
        letters++;
    size_t digits = digits_span(masker, masker->at - len + letters);
    bool named = digits > 0 && digits <= NAME_DIGITS && letters + digits == len &&
                 is_numbered_name(masker, masker->at - digits, letters);
    if (named || word_is_error_code(word, len)) {
        emit(masker, word, len);
        return;
    }
    len = without_plural(masker, word, len);
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
            size_t kept = name_digits_span(&masker, masker.at);
            kept = kept > 0 ? kept : status_span(&masker, masker.at);
            size_t span = uuid_span(&masker, masker.at);
            span = span > 0 ? span : colon_span(&masker, masker.at);
            span = span > 0 ? span : number_span(&masker, masker.at);
            if (kept > 0) {
                emit(&masker, line + masker.at, kept);
                masker.at += kept;
            } else if (span > 0) {
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
