/* core/redact over many texts: secrets as they are printed are found (SH-15). */
#include "base/buf.h"
#include "unit/redact_case.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 4, HEART_BYTES = 6 };

/* \n, \t, \a, \e and \\ as in C, in place. */
static void unescape(char *text)
{
    char *out = text;
    for (; *text; text++) {
        static const char names[] = "nt\\ea", bytes[] = "\n\t\\\x1B\a";
        const char *name = *text == '\\' && text[1] ? strchr(names, text[1]) : NULL;
        if (name) {
            *out++ = bytes[name - names];
            text++;
        } else
            *out++ = *text;
    }
    *out = '\0';
}

/* A line of the file, cut at tabs; false at its end. Comments are passed over. */
static bool next_row(FILE *file, char *columns[COLUMNS])
{
    static char line[16384];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        char *rest = line;
        for (size_t i = 0; i < COLUMNS; i++) {
            columns[i] = rest ? strsep(&rest, "\t") : "";
            unescape(columns[i]);
        }
        return true;
    }
    return false;
}

/* The line with the secret in place of {}. */
static const char *fill(const char *line, const char *secret)
{
    const char *hole = strstr(line, "{}");
    return hole ? arena_printf(&arena, "%.*s%s%s", (int)(hole - line), line, secret, hole + 2)
                : line;
}

/* Cut into pieces, it comes out the same. */
static void check_cutting(const struct redactor *redactor, const char *text, const char *expected)
{
    struct redact_stream stream;
    struct buf out;
    redact_init(&stream, redactor);
    buf_init(&out);
    size_t len = strlen(text);
    for (size_t step = 1; step <= 17; step += 4) {
        buf_clear(&out);
        for (size_t at = 0; at < len; at += step)
            redact_feed(&stream, text + at, len - at < step ? len - at : step, &out);
        redact_end(&stream, &out);
        check_str(out.data, expected);
    }
    buf_done(&out);
    redact_done(&stream);
}

/* How many of how many; says which were not. */
struct score {
    int found, all;
};

static void plant(const struct redactor *redactor, const char *kind, const char *text,
                  const char *secret, const char *heart, struct score *score)
{
    const char *clean = redact_text(redactor, &arena, text);
    bool found = !strstr(clean, secret) && !strstr(clean, heart);
    score->all++;
    score->found += found;
    if (!found)
        printf("# %s is kept: %.300s\n", kind, text);
    check_cutting(redactor, text, clean);
}

static void check_score(const struct score *score, int least_percent)
{
    printf("# %d of %d secrets were found\n", score->found, score->all);
    check_int(score->found * 100, >=, score->all * least_percent);
}

/* Nobody has told the redactor about these: they are known by shape, by name or by format. */
TEST(redact_corpus, SH_15_planted_secrets_are_found)
{
    struct redactor *redactor = plain_redactor();
    struct score score = {0};
    char *columns[COLUMNS];
    static const char *const names[] = {"secrets/planted.tsv", "secrets/planted_forms.tsv"};
    for (size_t i = 0; i < CASES(names); i++) {
        FILE *file = open_data(names[i]);
        while (next_row(file, columns)) {
            const char *secret = arena_printf(&arena, "%s%s", columns[2], columns[3]);
            const char *heart = strlen(columns[3]) >= HEART_BYTES ? columns[3] : secret;
            plant(redactor, columns[0], fill(columns[1], secret), secret, heart, &score);
        }
        fclose(file);
    }
    check_int(score.all, >=, 945);
    check_score(&score, 99);
    redactor_free(redactor);
    arena_done(&arena);
}

/* ---- values that are known, in every form ---- */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base32[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/* With `shift` bytes before it and some after, so many bits a character. */
static void put_bits(struct buf *out, const char *value, size_t shift, size_t bits,
                     const char *alphabet)
{
    const char *text = arena_printf(&arena, "%.*s%s==", (int)shift, "....", value);
    size_t len = strlen(text);
    for (size_t bit = 0; bit + bits <= len * 8; bit += bits) {
        unsigned number = 0;
        for (size_t i = 0; i < bits; i++)
            number = number << 1 | ((unsigned char)text[(bit + i) / 8] >> (7 - (bit + i) % 8) & 1);
        buf_putc(out, alphabet[number]);
    }
}

static void form_base64(struct buf *out, const char *value)
{
    put_bits(out, value, 0, 6, base64);
}

static void form_base64_second(struct buf *out, const char *value)
{
    put_bits(out, value, 1, 6, base64);
}

static void form_base64_third(struct buf *out, const char *value)
{
    put_bits(out, value, 2, 6, base64);
}

static void form_base32(struct buf *out, const char *value)
{
    put_bits(out, value, 0, 5, base32);
}

static void form_base32_third(struct buf *out, const char *value)
{
    put_bits(out, value, 3, 5, base32);
}

static void form_base32_small(struct buf *out, const char *value)
{
    put_bits(out, value, 0, 5, "abcdefghijklmnopqrstuvwxyz234567");
}

static void form_base32_hex(struct buf *out, const char *value)
{
    put_bits(out, value, 1, 5, "0123456789ABCDEFGHIJKLMNOPQRSTUV");
}

static void put_hex(struct buf *out, const char *value, const char *before, const char *between,
                    bool capitals)
{
    for (size_t i = 0; value[i]; i++)
        buf_printf(out, capitals ? "%s%s%02X" : "%s%s%02x", i > 0 ? between : "", before,
                   (unsigned char)value[i]);
}

static void form_hex(struct buf *out, const char *value)
{
    put_hex(out, value, "", "", false);
}

static void form_hex_capitals(struct buf *out, const char *value)
{
    put_hex(out, value, "", "", true);
}

static void form_hex_blanks(struct buf *out, const char *value)
{
    put_hex(out, value, "", " ", false);
}

static void form_hex_colons(struct buf *out, const char *value)
{
    put_hex(out, value, "", ":", true);
}

static void form_c_bytes(struct buf *out, const char *value)
{
    put_hex(out, value, "\\x", "", false);
}

static void form_c_numbers(struct buf *out, const char *value)
{
    put_hex(out, value, "0x", ", ", false);
}

/* xxd -p: 30 bytes a line. */
static void form_xxd_plain(struct buf *out, const char *value)
{
    for (size_t i = 0; value[i]; i++)
        buf_printf(out, "%02x%s", (unsigned char)value[i], i % 30 == 29 ? "\n" : "");
}

/* od -An -tx1 */
static void form_od(struct buf *out, const char *value)
{
    for (size_t i = 0; value[i]; i++)
        buf_printf(out, "%s %02x", i > 0 && i % 16 == 0 ? "\n" : "", (unsigned char)value[i]);
}

static void put_dump(struct buf *out, const char *value, char after_offset, size_t group,
                     const char *left, const char *right)
{
    size_t len = strlen(value);
    for (size_t line = 0; line < len; line += 16) {
        buf_printf(out, "%08zx%c", line, after_offset);
        for (size_t i = line; i < line + 16; i++) {
            buf_puts(out, i % group == 0 ? " " : "");
            if (i < len)
                buf_printf(out, "%02x", (unsigned char)value[i]);
            else
                buf_puts(out, "  ");
        }
        buf_puts(out, left);
        for (size_t i = line; i < line + 16 && i < len; i++)
            buf_putc(out, value[i] >= ' ' && value[i] < 0x7F ? value[i] : '.');
        buf_printf(out, "%s\n", right);
    }
}

static void form_xxd(struct buf *out, const char *value)
{
    put_dump(out, value, ':', 2, "  ", "");
}

static void form_hexdump(struct buf *out, const char *value)
{
    put_dump(out, value, ' ', 1, "  |", "|");
}

/* The bytes of `escaped`, or all of them where it is NULL: as a number or as they are, after
 * `before`.
 */
static void put_escaped(struct buf *out, const char *value, const char *escaped, const char *before,
                        char kind)
{
    for (; *value; value++) {
        unsigned char byte = (unsigned char)*value;
        if (escaped && !strchr(escaped, byte) && byte < 0x80) {
            buf_putc(out, *value);
            continue;
        }
        buf_puts(out, before);
        if (kind == 'X')
            buf_printf(out, "%02X", byte);
        else if (kind == 'x')
            buf_printf(out, "%02x", byte);
        else if (kind == 'o')
            buf_printf(out, "%03o", byte);
        else
            buf_putc(out, *value);
    }
}

static const char signs[] = " \"'\\<>&?=+/%$!*()#@:;,|{}[]^`~";

static void form_percent(struct buf *out, const char *value)
{
    put_escaped(out, value, signs, "%", 'X');
}

static void form_percent_small(struct buf *out, const char *value)
{
    put_escaped(out, value, signs, "%", 'x');
}

static void form_percent_all(struct buf *out, const char *value)
{
    put_escaped(out, value, NULL, "%", 'X');
}

static void form_percent_twice(struct buf *out, const char *value)
{
    put_escaped(out, value, signs, "%25", 'X');
}

static void form_json(struct buf *out, const char *value)
{
    put_escaped(out, value, "\"\\", "\\", 'c');
}

static void form_json_twice(struct buf *out, const char *value)
{
    put_escaped(out, value, "\"", "\\\\\\", 'c');
}

static void form_json_html(struct buf *out, const char *value)
{
    for (; *value; value++) {
        if (strchr("\"\\", *value))
            buf_printf(out, "\\%c", *value);
        else if (strchr("<>&'", *value))
            buf_printf(out, "\\u%04X", (unsigned char)*value);
        else
            buf_putc(out, *value);
    }
}

static void form_unicode(struct buf *out, const char *value)
{
    put_escaped(out, value, NULL, "\\u00", 'x');
}

static void form_shell(struct buf *out, const char *value)
{
    put_escaped(out, value, " \"'\\<>&?*()|;$!#`{}[]~^", "\\", 'c');
}

static void form_single_quotes(struct buf *out, const char *value)
{
    buf_putc(out, '\'');
    for (; *value; value++)
        buf_printf(out, *value == '\'' ? "'\\''" : "%c", *value);
    buf_putc(out, '\'');
}

static void form_octal(struct buf *out, const char *value)
{
    buf_puts(out, "$'");
    put_escaped(out, value, "'\\", "\\", 'o');
    buf_puts(out, "'");
}

static void form_html(struct buf *out, const char *value)
{
    for (; *value; value++)
        buf_printf(out,
                   *value == '&'    ? "&amp;"
                   : *value == '<'  ? "&lt;"
                   : *value == '"'  ? "&quot;"
                   : *value == '\'' ? "&#39;"
                                    : "%c",
                   *value);
}

static void form_plain(struct buf *out, const char *value)
{
    buf_puts(out, value);
}

static const struct {
    const char *name;
    void (*put)(struct buf *out, const char *value);
} forms[] = {
    {"plain", form_plain},
    {"base64", form_base64},
    {"base64, second", form_base64_second},
    {"base64, third", form_base64_third},
    {"base32", form_base32},
    {"base32, third", form_base32_third},
    {"base32, small", form_base32_small},
    {"base32 of hex", form_base32_hex},
    {"hex", form_hex},
    {"hex in capitals", form_hex_capitals},
    {"hex with blanks", form_hex_blanks},
    {"hex with colons", form_hex_colons},
    {"C bytes", form_c_bytes},
    {"C numbers", form_c_numbers},
    {"xxd -p", form_xxd_plain},
    {"od -An -tx1", form_od},
    {"xxd", form_xxd},
    {"hexdump -C", form_hexdump},
    {"percent", form_percent},
    {"percent, small", form_percent_small},
    {"percent, all", form_percent_all},
    {"percent, twice", form_percent_twice},
    {"JSON", form_json},
    {"JSON, twice", form_json_twice},
    {"JSON for HTML", form_json_html},
    {"unicode", form_unicode},
    {"shell", form_shell},
    {"single quotes", form_single_quotes},
    {"octal", form_octal},
    {"HTML", form_html},
};

/* The worker's own variables, however a program prints them. */
TEST(redact_corpus, SH_15_known_values_are_found_in_every_form)
{
    static const struct redact_variable variables[] = {
        {"STRIPE_KEY", "abcdEFGH12345678"},
        {"PIN_TOKEN", "5436849455334"},
        {"DB_PASS", "hunter2"},
        {"LONG_SECRET", "a-longer-secret-of-more-than-thirty-bytes-42"},
        {"SENTRY_DSN", "https://0123abcd@o1.ingest.example.org/7"},
        {"SESSION_COOKIE", "sid=Zm9vYmFy; theme=dark"},
        {"OTP_SEED", "JBSWY3DPEHPK3PXP"},
        {"PASSWORD_SALT", "x9!Q w&e<r>t"},
        {"QUOTED_TOKEN", "it's \"quoted\" \\ and/more"},
        {"dbPass", "pa$$w0rd&1"},
        {"DEPLOY_CREDENTIALS", "ada:S3cret-9"},
        {"APP_KEY", "base64:Y2hhbmdlbWUxMjM0"},
    };
    struct redactor *redactor = NULL;
    const struct redact_known known = {.variables = variables, .variable_count = CASES(variables)};
    struct score score = {0};
    struct buf out;
    buf_init(&out);
    check_int(redactor_new(&known, &redactor, NULL), ==, 0);
    for (size_t i = 0; i < CASES(variables); i++) {
        for (size_t j = 0; j < CASES(forms); j++) {
            buf_clear(&out);
            forms[j].put(&out, variables[i].value);
            /* What the value alone decides, so that a part of it cannot be mistaken for it. */
            size_t heart = out.len > 8 ? out.len - 4 : out.len;
            const char *form = arena_strndup(&arena, out.data, out.len);
            plant(redactor, forms[j].name, arena_printf(&arena, "it is %s here\n", form), form,
                  arena_strndup(&arena, form, heart), &score);
        }
    }
    check_score(&score, 99);
    buf_done(&out);
    redactor_free(redactor);
    arena_done(&arena);
}

/* ---- dumps ---- */

/* One line of a dump: where its bytes are, how they are grouped, and the text beside them. */
struct dump {
    const char *name;
    enum { NO_OFFSET, HEX_OFFSET, OCTAL_OFFSET } offset;
    const char *after_offset;
    const char *before; /* each group of bytes */
    size_t group, half; /* bytes in a group; a second blank before this byte, 0: none */
    const char *left, *right;
    bool exchanged; /* the bytes of each group of two */
};

static const struct dump dumps[] = {
    {"xxd", HEX_OFFSET, ":", " ", 2, 0, "  ", "", false},
    {"xxd -g1", HEX_OFFSET, ":", " ", 1, 0, "  ", "", false},
    {"xxd -g4", HEX_OFFSET, ":", " ", 4, 0, "  ", "", false},
    {"hexdump -C", HEX_OFFSET, " ", " ", 1, 8, "  |", "|", false},
    {"od -An -tx1", NO_OFFSET, "", " ", 1, 0, NULL, "", false},
    {"od -tx1", OCTAL_OFFSET, "", " ", 1, 0, NULL, "", false},
    {"od -tx1z", OCTAL_OFFSET, "", " ", 1, 0, "  >", "<", false},
    {"hexdump", HEX_OFFSET, "", " ", 2, 0, NULL, "", true},
    {"od -x", OCTAL_OFFSET, "", " ", 2, 0, NULL, "", true},
    {"od -An -x", NO_OFFSET, "", " ", 2, 0, NULL, "", true},
};

static void put_dump_line(struct buf *out, const struct dump *dump, const char *text, size_t len,
                          size_t line)
{
    if (dump->offset == HEX_OFFSET)
        buf_printf(out, "%08zx", line);
    if (dump->offset == OCTAL_OFFSET)
        buf_printf(out, "%07zo", line);
    buf_puts(out, dump->after_offset);
    for (size_t i = line; i < line + 16; i++) {
        buf_puts(out, i % dump->group == 0 ? dump->before : "");
        buf_puts(out, dump->half > 0 && i % 16 == dump->half ? " " : "");
        size_t from = dump->exchanged ? i ^ 1 : i;
        if (from < len)
            buf_printf(out, "%02x", (unsigned char)text[from]);
        else if (dump->exchanged && i < len)
            buf_puts(out, "00");
        else if (dump->left)
            buf_puts(out, "  ");
    }
    buf_puts(out, dump->left ? dump->left : "");
    for (size_t i = line; dump->left && i < line + 16 && i < len; i++)
        buf_putc(out, text[i] >= ' ' && text[i] < 0x7F ? text[i] : '.');
    buf_printf(out, "%s\n", dump->right);
}

/* However many bytes stand before it in the dump, and wherever the dump stands in the output. */
TEST(redact_corpus, SH_15_a_known_value_is_found_at_every_place_of_a_dump)
{
    static const char secret[] = "q8ZtR4mWx0Lp6Nd3Vb1K";
    static const struct redact_variable variables[] = {{"API_TOKEN", secret}};
    const struct redact_known known = {.variables = variables, .variable_count = 1};
    struct redactor *redactor = NULL;
    struct buf out;
    buf_init(&out);
    check_int(redactor_new(&known, &redactor, NULL), ==, 0);
    for (size_t i = 0; i < CASES(dumps) * 16 * 4; i++) {
        const struct dump *dump = &dumps[i / 64];
        size_t before = i / 4 % 16;
        const char *text = arena_printf(&arena, "%.*s%s and more after it", (int)before,
                                        "it is the value:", secret);
        buf_clear(&out);
        buf_printf(&out, "%.*s", (int)(i % 4), "\n\n\n");
        for (size_t line = 0; line < strlen(text); line += 16)
            put_dump_line(&out, dump, text, strlen(text), line);
        const char *clean = redact_text(redactor, &arena, out.data);
        check_contains(clean, REDACT_MARK);
        /* Its second half, in hex or beside it. */
        if (strstr(clean, "b1K") || strstr(clean, "31 4b") || strstr(clean, "314b") ||
            strstr(clean, "4b31") || strstr(clean, "3162"))
            test_fail(__FILE__, __LINE__, "%s with %zu before: %s", dump->name, before, clean);
        check_cutting(redactor, out.data, clean);
    }
    buf_done(&out);
    redactor_free(redactor);
    arena_done(&arena);
}
