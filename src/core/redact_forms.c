/*
 * Inside core/redact: the forms in which a known secret may be printed. As it is; in base64 at
 * each of the three alignments, of which only the characters that the secret alone decides are
 * looked for; percent-encoded; escaped as in JSON. Each of the two latter is done somewhat
 * differently by different programs, hence the variants.
 *
 * A secret of several lines is looked for line by line, a long one in overlapping pieces: so what
 * is held back stays bounded, and a part that is printed alone is found too.
 */
#include "base/text.h"
#include "core/redact_set.h"

enum {
    LINE_MIN_BYTES = 8,      /* a shorter line of a longer secret says nothing */
    PIECE_OVERLAP_BYTES = 8, /* so that base64 has no seam */
    BREAK_BYTES = 2,         /* between two characters of base64: \r\n */
    TAIL_FROM_BYTES = 16,
};

static enum redact_verdict match_literal(const struct redact_pattern *pattern,
                                         const struct redact_view *view,
                                         struct redact_find *ret_find)
{
    size_t both = pattern->len < view->len ? pattern->len : view->len;
    if (memcmp(view->text, pattern->text, both) != 0)
        return REDACT_NO;
    if (both < pattern->len)
        return view->at_end ? REDACT_NO : REDACT_MORE;
    ret_find->to = pattern->len;
    return REDACT_YES;
}

/* The same for base64, which may be broken into lines. */
static enum redact_verdict match_base64(const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    size_t at = 0;
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

static void add_form(struct redactor *set, const struct buf *form, redact_matcher *matcher)
{
    if (form->failed) {
        set->failed = true;
        return;
    }
    if (form->len < REDACT_SECRET_MIN_BYTES)
        return;
    char *text = arena_strndup(&set->arena, form->data, form->len);
    if (!text) {
        set->failed = true;
        return;
    }
    size_t longest = matcher == match_base64 ? form->len * (1 + BREAK_BYTES) : form->len;
    if (longest > set->lookahead_bytes)
        set->lookahead_bytes = longest;
    struct redact_pattern pattern = {.matcher = matcher, .text = text, .len = (uint32_t)form->len};
    redact_set_add(set, pattern, NULL);
    /* A line may break within the first four characters, where the filter does not see through. */
    if (matcher == match_base64 && form->len >= TAIL_FROM_BYTES) {
        pattern.text += REDACT_GRAM_BYTES;
        pattern.len -= REDACT_GRAM_BYTES;
        redact_set_add(set, pattern, NULL);
    }
}

/* ---- base64 ---- */

/* Byte i of the secret with `shift` unknown bytes before it. */
static unsigned shifted_byte(const char *value, size_t len, size_t shift, size_t i)
{
    return i >= shift && i - shift < len ? (unsigned char)value[i - shift] : 0;
}

static void put_base64(struct buf *form, const char *value, size_t len, size_t shift,
                       const char *alphabet)
{
    size_t first = (shift * 8 + 5) / 6; /* characters before have bits of others */
    size_t end = (shift + len) * 8 / 6; /* and those from here on too */
    buf_clear(form);
    for (size_t i = first; i < end; i++) {
        size_t byte = i * 6 / 8;
        unsigned two =
            shifted_byte(value, len, shift, byte) << 8 | shifted_byte(value, len, shift, byte + 1);
        buf_putc(form, alphabet[two >> (10 - i * 6 % 8) & 63]);
    }
}

static void add_base64(struct redactor *set, struct buf *form, const char *value, size_t len)
{
    static const char *const alphabets[] = {
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    };
    for (size_t alphabet = 0; alphabet < 2; alphabet++) {
        for (size_t shift = 0; shift < 3; shift++) {
            put_base64(form, value, len, shift, alphabets[alphabet]);
            add_form(set, form, match_base64);
        }
    }
}

/* ---- percent-encoding ---- */

struct url_style {
    const char *kept; /* beside letters, digits and - . _ */
    bool plus;        /* a blank becomes + */
};

static void put_url(struct buf *form, const char *value, size_t len, const struct url_style *style,
                    const char *hex_digits)
{
    buf_clear(form);
    for (size_t at = 0; at < len; at++) {
        unsigned char byte = (unsigned char)value[at];
        if (redact_is_word(byte) || byte == '.' || (byte && strchr(style->kept, byte))) {
            buf_putc(form, (char)byte);
        } else if (byte == ' ' && style->plus) {
            buf_putc(form, '+');
        } else {
            buf_putc(form, '%');
            buf_putc(form, hex_digits[byte >> 4]);
            buf_putc(form, hex_digits[byte & 15]);
        }
    }
}

static void add_url_forms(struct redactor *set, struct buf *form, const char *value, size_t len)
{
    static const struct url_style styles[] = {
        {"~", false},      /* RFC 3986 */
        {"~/", false},     /* a path */
        {"~!*'()", false}, /* encodeURIComponent */
        {"*", true},       /* a form */
        {"", true},        /* the same, by others */
    };
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        put_url(form, value, len, &styles[i], "0123456789ABCDEF");
        add_form(set, form, match_literal);
        put_url(form, value, len, &styles[i], "0123456789abcdef");
        add_form(set, form, match_literal);
    }
}

/* ---- JSON ---- */

enum json_style {
    JSON_PLAIN,
    JSON_SLASH = 1, /* / as \/ */
    JSON_HTML = 2,  /* < > & ' as \u00.. */
    JSON_ASCII = 4, /* everything beyond ASCII as \u.... */
    JSON_STYLES = 8,
};

static void put_json_escape(struct buf *form, uint32_t point)
{
    if (point >= 0x10000) {
        buf_printf(form, "\\u%04x", 0xD800 + ((point - 0x10000) >> 10));
        buf_printf(form, "\\u%04x", 0xDC00 + ((point - 0x10000) & 0x3FF));
    } else {
        buf_printf(form, "\\u%04x", point);
    }
}

/* Appends the character at text; returns its bytes. */
static size_t put_json(struct buf *form, const char *text, size_t len, unsigned style)
{
    size_t sequence = utf8_sequence(text, len);
    if (sequence == 0)
        sequence = 1;
    unsigned char byte = (unsigned char)text[0];
    if (byte == '"' || byte == '\\' || (byte == '/' && style & JSON_SLASH))
        buf_printf(form, "\\%c", byte);
    else if (byte == '\t')
        buf_puts(form, "\\t");
    else if (byte < 0x20 || (style & JSON_HTML && strchr("<>&'", byte)) ||
             (style & JSON_ASCII && sequence > 1))
        put_json_escape(form, utf8_decode(text, sequence));
    else
        buf_append(form, text, sequence);
    return sequence;
}

static void add_json_forms(struct redactor *set, struct buf *form, const char *value, size_t len)
{
    for (unsigned style = 0; style < JSON_STYLES; style++) {
        buf_clear(form);
        for (size_t at = 0; at < len;)
            at += put_json(form, value + at, len - at, style);
        add_form(set, form, match_literal);
    }
}

/* ---- pieces ---- */

static void add_piece(struct redactor *set, const char *value, size_t len)
{
    struct buf form;
    buf_init(&form);
    buf_append(&form, value, len);
    add_form(set, &form, match_literal);
    add_base64(set, &form, value, len);
    add_url_forms(set, &form, value, len);
    add_json_forms(set, &form, value, len);
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

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

void redact_add_value(struct redactor *set, const char *value, size_t len)
{
    while (len > 0 && is_blank(value[0])) {
        value++;
        len--;
    }
    while (len > 0 && is_blank(value[len - 1]))
        len--;
    if (len < REDACT_SECRET_MIN_BYTES)
        return;
    size_t line = 0;
    for (size_t at = 0; at <= len; at++) {
        if (at < len && value[at] != '\n' && value[at] != '\r')
            continue;
        bool only_line = line == 0 && at == len;
        if (only_line || at - line >= LINE_MIN_BYTES)
            add_pieces(set, value + line, at - line);
        line = at + 1;
    }
}
