/*
 * Inside core/redact: the forms in which a known secret may be printed.
 *
 *   - as it is;
 *   - in base64 and base32 at each alignment, of which only the characters that the secret alone
 *     decides are looked for, also broken into lines;
 *   - in hex, of either case, with anything that dumps put between bytes: 6162 61:62 \x61\x62, and
 *     with the bytes of each word exchanged, as by od -x and hexdump: 6261;
 *   - escaped as in JSON, a URL, HTML, C, and by a shell; any byte in any of these ways.
 *
 * Each form is a pattern for each way in which it may begin; the rest is compared byte by byte.
 *
 * A secret of several lines is looked for line by line, a long one in overlapping pieces: so what
 * is held back stays bounded, and a part that is printed alone is found too.
 */
#include "base/text.h"
#include "core/redact_set.h"

enum {
    LINE_MIN_BYTES = 8,      /* a shorter line of a longer secret says nothing */
    PIECE_OVERLAP_BYTES = 8, /* so that base64 has no seam */
    CODED_MIN_BYTES = 6,     /* of base64 and the like */
    HEX_MIN_BYTES = 6,       /* of a secret in hex: 12 digits */
    WORDS_MIN_BYTES = 4,     /* ... in words whose bytes are exchanged, all of which are its own */
    TAIL_FROM_BYTES = 16,
    BREAK_BYTES = 2,       /* between two characters of base64: \r\n */
    GAP_BYTES = 4,         /* between two bytes in hex: blanks, a line end, 0x */
    OFFSET_MIN_DIGITS = 4, /* of the place that begins a line of a dump */
    OFFSET_MAX_DIGITS = 16,
    DUMP_BYTES = 48, /* ... and the end of one line of a dump and the beginning of the next */
    BACKSLASHES_MAX = 4,
    ESCAPED_BYTES = 10, /* the longest way to write one byte */
    LEAD_BYTES = REDACT_GRAM_BYTES + 1,
};

/* How a form begins: bytes by which it is found, and what may follow where these are only four. */
struct lead {
    char text[LEAD_BYTES + 1];
    size_t len;
    bool (*after)(int);
    bool (*before)(int);
};

/* Adds a pattern for a form that begins so; the secret follows the lead in the pattern's text. */
static void add_form(struct redactor *set, redact_matcher *matcher, const struct lead *lead,
                     const char *secret, size_t len, size_t looks_at_bytes)
{
    struct buf both;
    buf_init(&both);
    buf_append(&both, lead->text, lead->len);
    buf_append(&both, secret, len);
    const char *kept = both.failed ? NULL : redact_set_keep(set, both.data, both.len);
    set->failed = set->failed || both.failed;
    buf_done(&both);
    if (!kept)
        return;
    if (looks_at_bytes > set->lookahead_bytes)
        set->lookahead_bytes = looks_at_bytes;
    const struct redact_neighbours neighbours = {.after = lead->after, .before = lead->before};
    const struct redact_pattern pattern = {
        .matcher = matcher, .text = kept, .len = (uint32_t)lead->len, .option = (uint32_t)len};
    redact_set_add(set, pattern, &neighbours);
}

/* ---- as it is ---- */

static enum redact_verdict match_literal(const struct redactor *redactor,
                                         const struct redact_pattern *pattern,
                                         const struct redact_view *view,
                                         struct redact_find *ret_find)
{
    (void)redactor;
    size_t both = pattern->len < view->len ? pattern->len : view->len;
    if (memcmp(view->text, pattern->text, both) != 0)
        return REDACT_NO;
    if (both < pattern->len)
        return view->at_end ? REDACT_NO : REDACT_MORE;
    ret_find->to = pattern->len;
    return REDACT_YES;
}

static void add_text(struct redactor *set, redact_matcher *matcher, const char *text, size_t len,
                     size_t looks_at_bytes)
{
    const char *kept = redact_set_keep(set, text, len);
    if (!kept)
        return;
    if (looks_at_bytes > set->lookahead_bytes)
        set->lookahead_bytes = looks_at_bytes;
    redact_set_add(
        set, (struct redact_pattern){.matcher = matcher, .text = kept, .len = (uint32_t)len}, NULL);
}

/* ---- base64 and base32 ---- */

/* As it is, but broken into lines. */
static enum redact_verdict match_broken(const struct redactor *redactor,
                                        const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    size_t at = 0;
    (void)redactor;
    for (size_t i = 0; i < pattern->len; i++) {
        if (i > 0 && redact_peek(view, at) == '\r')
            at++;
        if (i > 0 && redact_peek(view, at) == '\n')
            at++;
        int byte = redact_peek(view, at);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte != (unsigned char)pattern->text[i])
            return REDACT_NO;
        at++;
    }
    ret_find->to = at;
    return REDACT_YES;
}

struct code {
    const char *alphabet;
    unsigned bits;       /* of a character */
    unsigned alignments; /* bytes after which it begins anew */
};

static const struct code codes[] = {
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 6, 3},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", 6, 3},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 5, 5},
    {"abcdefghijklmnopqrstuvwxyz234567", 5, 5},
    {"0123456789ABCDEFGHIJKLMNOPQRSTUV", 5, 5},
    {"0123456789abcdefghijklmnopqrstuv", 5, 5},
};

/* Byte i of the secret with `shift` unknown bytes before it. */
static unsigned shifted_byte(const char *value, size_t len, size_t shift, size_t i)
{
    return i >= shift && i - shift < len ? (unsigned char)value[i - shift] : 0;
}

static void put_code(struct buf *form, const char *value, size_t len, size_t shift,
                     const struct code *code)
{
    size_t bits = code->bits;
    size_t first = (shift * 8 + bits - 1) / bits; /* characters before have bits of others */
    size_t end = (shift + len) * 8 / bits;        /* and those from here on too */
    buf_clear(form);
    for (size_t i = first; i < end; i++) {
        size_t byte = i * bits / 8;
        unsigned two =
            shifted_byte(value, len, shift, byte) << 8 | shifted_byte(value, len, shift, byte + 1);
        buf_putc(form, code->alphabet[two >> (16 - bits - i * bits % 8) & ((1u << bits) - 1)]);
    }
}

static void add_codes(struct redactor *set, struct buf *form, const char *value, size_t len)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        for (size_t shift = 0; shift < codes[i].alignments; shift++) {
            put_code(form, value, len, shift, &codes[i]);
            if (form->len < CODED_MIN_BYTES || form->failed)
                continue;
            size_t looks_at = form->len * (1 + BREAK_BYTES);
            add_text(set, match_broken, form->data, form->len, looks_at);
            /* A line may break within the first four, where the filter does not see through. */
            if (form->len >= TAIL_FROM_BYTES)
                add_text(set, match_broken, form->data + REDACT_GRAM_BYTES,
                         form->len - REDACT_GRAM_BYTES, looks_at);
        }
    }
}

/* ---- hex ---- */

static int hex_value(int byte)
{
    if (redact_is_digit(byte))
        return byte - '0';
    byte = redact_to_lower(byte);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The byte that two digits at `at` are; negative: none, or REDACT_PEEK_MORE. */
static int hex_byte(const struct redact_view *view, size_t at)
{
    int high = redact_peek(view, at), low = redact_peek(view, at + 1);
    if (high == REDACT_PEEK_MORE || (hex_value(high) >= 0 && low == REDACT_PEEK_MORE))
        return REDACT_PEEK_MORE;
    return hex_value(high) < 0 || hex_value(low) < 0 ? REDACT_PEEK_END
                                                     : hex_value(high) << 4 | hex_value(low);
}

static bool is_hex_gap(int byte)
{
    return redact_is_blank(byte) || redact_is_line_end(byte) || byte == ':' || byte == '-' ||
           byte == ',';
}

/* Blanks, a line end, a sign; then 0x or \x. */
static size_t pass_hex_gap(const struct redact_view *view, size_t at)
{
    size_t end = at + GAP_BYTES;
    while (at < end && is_hex_gap(redact_peek(view, at)))
        at++;
    int first = redact_peek(view, at), second = redact_peek(view, at + 1);
    if ((first == '0' || first == '\\') && (second == 'x' || second == 'X'))
        at += 2;
    return at;
}

/*
 * From the last byte of one line of a dump to the first of the next: the text beside it, the line
 * end, the offset. 0: this is no dump; or REDACT_PEEK_MORE of it.
 */
static size_t pass_dump_line(const struct redact_view *view, size_t at, bool *ret_more)
{
    size_t end = at + DUMP_BYTES;
    int byte = 0;
    while (at < end && (byte = redact_peek(view, at)) >= 0 && byte != '\n')
        at++;
    *ret_more = at < end && byte == REDACT_PEEK_MORE;
    if (byte != '\n')
        return 0;
    size_t digits = 0;
    while (hex_value(byte = redact_peek(view, ++at)) >= 0 && digits < OFFSET_MAX_DIGITS)
        digits++;
    *ret_more = byte == REDACT_PEEK_MORE;
    if (digits < OFFSET_MIN_DIGITS || (byte != ':' && byte != ' '))
        return 0;
    for (at += byte == ':', digits = 0;
         redact_is_blank(byte = redact_peek(view, at)) && digits < GAP_BYTES; digits++)
        at++;
    *ret_more = byte == REDACT_PEEK_MORE;
    return digits > 0 ? at : 0;
}

/* To the end of the line of a dump, whose text shows the rest of the secret. */
static enum redact_verdict end_dump(const struct redact_view *view, size_t at,
                                    struct redact_find *ret_find)
{
    size_t end = at + 2 * DUMP_BYTES;
    int byte = 0;
    while (at < end && (byte = redact_peek(view, at)) >= 0 && byte != '\n')
        at++;
    ret_find->to = at;
    return at < end && byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

static enum redact_verdict match_hex(const struct redactor *redactor,
                                     const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    const unsigned char *secret = (const unsigned char *)pattern->text + pattern->len;
    size_t at = pass_hex_gap(view, 0);
    bool dump = false, more = false;
    (void)redactor;
    for (size_t i = 0; i < pattern->option; i++) {
        size_t next = i == 0 ? at : pass_hex_gap(view, at);
        int byte = hex_byte(view, next);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte != secret[i] && i > 0) {
            next = pass_dump_line(view, at, &more);
            byte = next == 0 ? REDACT_PEEK_END : hex_byte(view, next);
            if (more || byte == REDACT_PEEK_MORE)
                return REDACT_MORE;
            dump = true;
        }
        if (byte != secret[i])
            return REDACT_NO;
        at = next + 2;
    }
    ret_find->to = at;
    return dump ? end_dump(view, at, ret_find) : REDACT_YES;
}

/* Before the last byte of a line in a dump: the byte before it, or a blank. */
static bool is_before_last(int byte)
{
    return hex_value(byte) >= 0 || byte == ' ';
}

/* Dumps write bytes in groups, and a line may end after the first or the second byte. */
static void add_dumps(struct redactor *set, const char hex[LEAD_BYTES], const char *value,
                      size_t len, size_t looks_at)
{
    const struct lead leads[] = {
        {.text = {hex[0], hex[1], hex[2], hex[3], ' '}, .len = LEAD_BYTES},
        {.text = {hex[0], hex[1], '\n', '0', '0'}, .len = LEAD_BYTES},
        {.text = {hex[0], hex[1], '\n', ' ', hex[2]}, .len = LEAD_BYTES},
        {.text = {hex[0], hex[1], ' ', ' '}, .len = REDACT_GRAM_BYTES, .before = is_before_last},
    };
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
        add_form(set, match_hex, &leads[i], value, len, looks_at);
}

/* The last word has one byte of the secret, behind one that is not; where it shows none, the rest
 * was the whole. */
static enum redact_verdict end_words(const struct redact_view *view, unsigned char last,
                                     struct redact_find *ret_find)
{
    size_t at = pass_hex_gap(view, ret_find->to);
    int other = hex_byte(view, at), byte = hex_byte(view, at + 2);
    if (other == REDACT_PEEK_MORE || (other >= 0 && byte == REDACT_PEEK_MORE))
        return REDACT_MORE;
    if (other >= 0 && byte == last)
        ret_find->to = at + 4;
    return REDACT_YES;
}

/* The secret in the pattern has the bytes of each word exchanged; one may be left over. */
static enum redact_verdict match_words(const struct redactor *redactor,
                                       const struct redact_pattern *pattern,
                                       const struct redact_view *view, struct redact_find *ret_find)
{
    struct redact_pattern words = *pattern;
    words.option &= ~1u;
    enum redact_verdict verdict = match_hex(redactor, &words, view, ret_find);
    if (verdict != REDACT_YES || words.option == pattern->option)
        return verdict;
    return end_words(view, (unsigned char)pattern->text[pattern->len + words.option], ret_find);
}

static char hex_digit(const char *value, size_t i)
{
    return "0123456789abcdef"[(unsigned char)value[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
}

/* 6261 6463…: words as the machine has them, by od -x and hexdump. A line may end after a word. */
static void add_words(struct redactor *set, const char *value, size_t len)
{
    char words[REDACT_PIECE_BYTES];
    static const char ends[] = " \n";
    if (len < WORDS_MIN_BYTES || len > sizeof words)
        return;
    for (size_t i = 0; i < len; i++)
        words[i] = value[(i ^ 1) < len ? i ^ 1 : i];
    size_t looks_at = len * (2 + GAP_BYTES + 2) + (len / 16 + 2) * 2 * DUMP_BYTES;
    for (const char *end = ends; *end; end++) {
        struct lead lead = {.len = LEAD_BYTES};
        for (size_t i = 0; i < REDACT_GRAM_BYTES; i++)
            lead.text[i] = hex_digit(words, i);
        lead.text[REDACT_GRAM_BYTES] = *end;
        add_form(set, match_words, &lead, words, len, looks_at);
    }
}

/* 6162…, 61 62…, 61:62…, 0x61, … and \x61… */
static void add_hex(struct redactor *set, const char *value, size_t len)
{
    static const char signs[] = " :-,\n\t";
    if (len < HEX_MIN_BYTES)
        return;
    size_t looks_at = len * (2 + GAP_BYTES + 2) + (len / 16 + 2) * 2 * DUMP_BYTES;
    char hex[LEAD_BYTES + 1];
    for (size_t i = 0; i < LEAD_BYTES; i++)
        hex[i] = hex_digit(value, i);
    struct lead plain = {.len = LEAD_BYTES};
    memcpy(plain.text, hex, LEAD_BYTES);
    add_form(set, match_hex, &plain, value, len, looks_at);
    for (const char *sign = signs; *sign; sign++) {
        struct lead pair = {.text = {hex[0], hex[1], *sign, hex[2], hex[3]}, .len = LEAD_BYTES};
        add_form(set, match_hex, &pair, value, len, looks_at);
    }
    add_dumps(set, hex, value, len, looks_at);
    struct lead c_number = {
        .text = {'0', 'x', hex[0], hex[1]}, .len = REDACT_GRAM_BYTES, .after = is_hex_gap};
    struct lead c_escape = {.text = {'\\', 'x', hex[0], hex[1], '\\'}, .len = LEAD_BYTES};
    add_form(set, match_hex, &c_number, value, len, looks_at);
    add_form(set, match_hex, &c_escape, value, len, looks_at);
    add_words(set, value, len);
    add_words(set, value + 1, len - 1); /* its first byte is in a word with one before it */
}

/* ---- escaped ---- */

/* One or more bytes of the secret, written at a place of the text. */
struct written {
    size_t secret_bytes, text_bytes; /* 0: something else is there */
    bool more;                       /* that cannot be said yet */
};

static const struct written nothing = {0};
static const struct written unknown = {.more = true};

/* A number of so many hex digits; negative: none, or REDACT_PEEK_MORE. */
static int64_t hex_number(const struct redact_view *view, size_t at, size_t count)
{
    int64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_PEEK_MORE;
        if (hex_value(byte) < 0)
            return REDACT_PEEK_END;
        number = number << 4 | hex_value(byte);
    }
    return number;
}

/* Whether the secret goes on with this character, in text_bytes of the text. */
static struct written is_point(const unsigned char *secret, size_t len, int64_t point,
                               size_t text_bytes)
{
    if (point == REDACT_PEEK_MORE)
        return unknown;
    if (point == secret[0] && point < 0x80)
        return (struct written){1, text_bytes, false};
    size_t sequence = utf8_sequence((const char *)secret, len);
    bool same = sequence > 1 && utf8_decode((const char *)secret, sequence) == (uint32_t)point;
    return same ? (struct written){sequence, text_bytes, false} : nothing;
}

/* \u0041, or two of them for what is beyond U+FFFF; at is after the u. */
static struct written is_unicode(const struct redact_view *view, size_t at, size_t before,
                                 const unsigned char *secret, size_t len)
{
    int64_t point = hex_number(view, at, 4);
    size_t text_bytes = before + 4;
    if (point >= 0xD800 && point < 0xDC00) {
        int first = redact_peek(view, at + 4), second = redact_peek(view, at + 5);
        int64_t low =
            first == '\\' && second == 'u'
                ? hex_number(view, at + 6, 4)
                : (first == REDACT_PEEK_MORE || second == REDACT_PEEK_MORE ? REDACT_PEEK_MORE
                                                                           : REDACT_PEEK_END);
        point = low < 0 ? low : 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        text_bytes += 6;
    }
    return is_point(secret, len, point, text_bytes);
}

static struct written is_octal(const struct redact_view *view, size_t at, size_t before,
                               unsigned char secret)
{
    int number = 0;
    for (size_t i = 0; i < 3; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return unknown;
        if (byte < '0' || byte > '7')
            return nothing;
        number = number << 3 | (byte - '0');
    }
    return number == secret ? (struct written){1, before + 3, false} : nothing;
}

/* After a backslash, or several where what was escaped is escaped again. */
static struct written is_backslashed(const struct redact_view *view, size_t at,
                                     const unsigned char *secret, size_t len)
{
    static const char named[] = "n\nt\tr\rb\bf\f";
    size_t before = 1;
    while (before < BACKSLASHES_MAX && redact_peek(view, at + before) == '\\' && secret[0] != '\\')
        before++;
    int byte = redact_peek(view, at + before);
    if (byte == REDACT_PEEK_MORE)
        return unknown;
    if (byte == secret[0] && !redact_is_alnum(byte))
        return (struct written){1, before + 1, false};
    for (size_t i = 0; named[i]; i += 2)
        if (byte == named[i] && secret[0] == (unsigned char)named[i + 1])
            return (struct written){1, before + 1, false};
    if (byte == 'u')
        return is_unicode(view, at + before + 1, before + 1, secret, len);
    if (byte == 'x' || byte == 'X') {
        int64_t number = hex_number(view, at + before + 1, 2);
        return number == REDACT_PEEK_MORE ? unknown
               : number == secret[0]      ? (struct written){1, before + 3, false}
                                          : nothing;
    }
    return is_octal(view, at + before, before, secret[0]);
}

/* &lt; &#39; &#x27; and, by a shell, '\'' and '"'"' for a quote. */
static struct written is_entity(const struct redact_view *view, size_t at, unsigned char secret)
{
    static const struct {
        char byte;
        const char *text;
    } entities[] = {
        {'&', "&amp;"},   {'<', "&lt;"},   {'>', "&gt;"},    {'"', "&quot;"}, {'"', "&#34;"},
        {'\'', "&apos;"}, {'\'', "&#39;"}, {'\'', "&#x27;"}, {'\'', "'\\''"}, {'\'', "'\"'\"'"},
    };
    struct written found = nothing;
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        if ((unsigned char)entities[i].byte != secret)
            continue;
        enum redact_verdict verdict = redact_bytes_at(view, at, entities[i].text);
        if (verdict == REDACT_YES)
            return (struct written){1, strlen(entities[i].text), false};
        found.more = found.more || verdict == REDACT_MORE;
    }
    return found;
}

static struct written is_percent(const struct redact_view *view, size_t at, unsigned char secret)
{
    int64_t number = hex_number(view, at + 1, 2);
    size_t text_bytes = 3;
    if (number == '%' && secret != '%') { /* %252F: what was encoded is encoded again */
        number = hex_number(view, at + 3, 2);
        text_bytes = 5;
    }
    if (number == REDACT_PEEK_MORE)
        return unknown;
    return number == secret ? (struct written){1, text_bytes, false} : nothing;
}

static struct written is_written(const struct redact_view *view, size_t at,
                                 const unsigned char *secret, size_t len)
{
    int byte = redact_peek(view, at);
    if (byte == REDACT_PEEK_MORE)
        return unknown;
    struct written found = nothing;
    if (byte == '\\')
        found = is_backslashed(view, at, secret, len);
    else if (byte == '%')
        found = is_percent(view, at, secret[0]);
    else if (byte == '&' || byte == '\'')
        found = is_entity(view, at, secret[0]);
    if (found.secret_bytes > 0 || found.more)
        return found;
    bool same = byte == secret[0] || (byte == '+' && secret[0] == ' ');
    return same ? (struct written){1, 1, false} : nothing;
}

static enum redact_verdict match_escaped(const struct redactor *redactor,
                                         const struct redact_pattern *pattern,
                                         const struct redact_view *view,
                                         struct redact_find *ret_find)
{
    const unsigned char *secret = (const unsigned char *)pattern->text + pattern->len;
    size_t left = pattern->option, at = 0;
    (void)redactor;
    while (left > 0) {
        struct written written = is_written(view, at, secret, left);
        if (written.more)
            return REDACT_MORE;
        if (written.secret_bytes == 0)
            return REDACT_NO;
        secret += written.secret_bytes;
        left -= written.secret_bytes;
        at += written.text_bytes;
    }
    ret_find->to = at;
    return REDACT_YES;
}

/*
 * How programs begin to write a secret: they differ in which bytes they leave as they are, and in
 * how they write the others.
 */
enum style { PERCENT, PERCENT_TWICE, BACKSLASH, C_HEX, UNICODE, OCTAL, ENTITY, SHELL_QUOTE };

static const struct {
    const char *kept; /* beside letters and digits; NULL: nothing is kept, not even these */
    enum style style;
} styles[] = {
    {"-._~", PERCENT},      /* a part of a URL */
    {"-._~/", PERCENT},     /* a path */
    {"-._~!*'()", PERCENT}, /* as browsers do it */
    {"-._*", PERCENT},      /* a form */
    {NULL, PERCENT},
    {"-._~", PERCENT_TWICE},
    {"-._~/", PERCENT_TWICE},
    {"%+,-./:=@_", BACKSLASH},                        /* bash */
    {" !#$%&'()*+,-./:;<=>?@[]^_`{|}~", BACKSLASH},   /* JSON, C */
    {" !#$%&'()*+,-.:;<=>?@[]^_`{|}~", BACKSLASH},    /* ... that escapes / */
    {" !#$%()*+,-./:;=?@[]^_`{|}~\"\\", UNICODE},     /* JSON for HTML */
    {" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", UNICODE}, /* JSON in ASCII */
    {NULL, UNICODE},
    {" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", C_HEX},
    {NULL, C_HEX},
    {" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", OCTAL},
    {" !\"#$%&()*+,-./:;<=>?@[]^_`{|}~", OCTAL}, /* between $' and ' */
    {" !#$%()*+,-./:;=?@[\\]^_`{|}~", ENTITY},
    {" !\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~", SHELL_QUOTE},
};

static void put_styled(struct buf *form, const char *secret, size_t len, enum style style)
{
    unsigned char byte = (unsigned char)secret[0];
    size_t sequence = utf8_sequence(secret, len);
    switch (style) {
    case PERCENT:
        buf_printf(form, "%%%02x", byte);
        break;
    case PERCENT_TWICE:
        buf_printf(form, "%%25%02x", byte);
        break;
    case BACKSLASH:
        buf_printf(form, "\\%c", byte);
        break;
    case C_HEX:
        buf_printf(form, "\\x%02x", byte);
        break;
    case UNICODE:
        buf_printf(form, "\\u%04x", sequence > 0 ? utf8_decode(secret, sequence) : byte);
        break;
    case OCTAL:
        buf_printf(form, "\\%03o", byte);
        break;
    case ENTITY:
        buf_puts(form, byte == '&'    ? "&amp;"
                       : byte == '<'  ? "&lt;"
                       : byte == '>'  ? "&gt;"
                       : byte == '"'  ? "&quot"
                       : byte == '\'' ? "&#39;"
                                      : "&#");
        break;
    case SHELL_QUOTE:
        buf_puts(form, "'\\''");
        break;
    }
}

/* The first bytes of the secret in a style; false: they are too few. */
static bool lead_in(const char *secret, size_t len, const char *kept, enum style style,
                    struct lead *lead)
{
    struct buf form;
    buf_init(&form);
    for (size_t at = 0; at < len && form.len < LEAD_BYTES; at++) {
        unsigned char byte = (unsigned char)secret[at];
        bool as_it_is = kept && byte < 0x80 && (redact_is_alnum(byte) || strchr(kept, byte));
        if (as_it_is)
            buf_putc(&form, (char)byte);
        else
            put_styled(&form, secret + at, len - at, style);
    }
    bool fits = form.len >= LEAD_BYTES && !form.failed;
    if (fits)
        memcpy(lead->text, form.data, LEAD_BYTES);
    lead->len = LEAD_BYTES;
    buf_done(&form);
    return fits;
}

static void add_escaped(struct redactor *set, const char *value, size_t len)
{
    enum { STYLES = sizeof styles / sizeof *styles };
    struct lead leads[STYLES + 1] = {{.len = LEAD_BYTES}};
    size_t count = 0;
    if (len < LEAD_BYTES)
        return;
    memcpy(leads[count++].text, value, LEAD_BYTES);
    for (size_t i = 0; i < STYLES; i++) {
        struct lead *lead = &leads[count];
        if (!lead_in(value, len, styles[i].kept, styles[i].style, lead))
            continue;
        size_t known = 0;
        while (known < count && memcmp(leads[known].text, lead->text, LEAD_BYTES) != 0)
            known++;
        count += known == count;
    }
    for (size_t i = 0; i < count; i++)
        add_form(set, match_escaped, &leads[i], value, len, len * ESCAPED_BYTES);
}

/* ---- pieces ---- */

static void add_piece(struct redactor *set, const char *value, size_t len)
{
    struct buf form;
    buf_init(&form);
    add_text(set, match_literal, value, len, len);
    add_escaped(set, value, len);
    add_codes(set, &form, value, len);
    add_hex(set, value, len);
    set->failed = set->failed || form.failed;
    buf_done(&form);
}

static void add_pieces(struct redactor *set, const char *value, size_t len)
{
    while (len > REDACT_PIECE_BYTES) {
        add_piece(set, value, REDACT_PIECE_BYTES);
        /* The last piece is never a short remnant. */
        size_t step = REDACT_PIECE_BYTES - PIECE_OVERLAP_BYTES;
        if (step > len - REDACT_PIECE_BYTES)
            step = len - REDACT_PIECE_BYTES;
        value += step;
        len -= step;
    }
    add_piece(set, value, len);
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Its length without the blanks around it, which begins at *value then. */
static size_t trim(const char **value, size_t len)
{
    while (len > 0 && is_space((*value)[0])) {
        (*value)++;
        len--;
    }
    while (len > 0 && is_space((*value)[len - 1]))
        len--;
    return len;
}

bool redact_finds(const char *value, size_t bytes)
{
    return trim(&value, bytes) >= REDACT_NAMED_MIN_BYTES;
}

void redact_add_value(struct redactor *set, const char *value, size_t len)
{
    if (!redact_finds(value, len))
        return;
    size_t line = 0;
    len = trim(&value, len);
    for (size_t at = 0; at <= len; at++) {
        if (at < len && value[at] != '\n' && value[at] != '\r')
            continue;
        bool only_line = line == 0 && at == len;
        if (only_line || at - line >= LINE_MIN_BYTES)
            add_pieces(set, value + line, at - line);
        line = at + 1;
    }
}
