/* base/text: UTF-8, names, columns. */
#include "base/buf.h"
#include "base/text.h"
#include "unit/case.h"

#include <string.h>

TEST(text, tells_utf8_from_what_only_looks_like_it)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"ascii", true},
        {"\xC2\x80 \xDF\xBF", true},
        {"\xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF", true},
        {"\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF", true},
        {"\x80", false},
        {"\xBF", false},
        {"\xC0\xAF", false},         /* overlong slash */
        {"\xC1\xBF", false},         /* overlong */
        {"\xC2", false},             /* cut off */
        {"\xC2 ", false},            /* no continuation */
        {"\xE0\x9F\xBF", false},     /* overlong */
        {"\xE2\x82", false},         /* cut off */
        {"\xED\xA0\x80", false},     /* surrogate */
        {"\xF0\x8F\xBF\xBF", false}, /* overlong */
        {"\xF0\x9F\x98", false},     /* cut off */
        {"\xF4\x90\x80\x80", false}, /* beyond U+10FFFF */
        {"\xF5\x80\x80\x80", false},
        {"\xFE", false},
        {"\xFF", false},
    };
    for (size_t i = 0; i < CASES(cases); i++)
        check_int(utf8_valid(cases[i].text, strlen(cases[i].text)), ==, cases[i].valid);
}

TEST(text, every_code_point_is_valid_and_no_surrogate_is)
{
    for (unsigned point = 0x80; point <= 0x110FFF; point++) {
        char bytes[4];
        size_t len = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        for (size_t i = len - 1; i > 0; i--)
            bytes[i] = (char)(0x80 | (point >> (6 * (len - 1 - i)) & 0x3F));
        static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
        bytes[0] = (char)(first[len] | point >> (6 * (len - 1)));
        bool valid = point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
        check_int(utf8_sequence(bytes, len), ==, valid ? len : 0);
        check_int(utf8_sequence(bytes, len - 1), ==, 0);
    }
}

TEST(text, a_cut_never_splits_a_character)
{
    const char *text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";
    static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};
    for (size_t at = 0; at < CASES(cuts); at++)
        check_int(utf8_floor(text, strlen(text), at), ==, cuts[at]);
    check_int(utf8_floor("\x80\x80\x80\x80\x80\x80", 6, 5), ==, 5);
}

TEST(text, names_are_printable_and_not_too_long)
{
    char longest[NAME_MAX_BYTES + 2];
    memset(longest, 'n', sizeof longest);
    longest[NAME_MAX_BYTES] = '\0';
    check(name_ok(longest));
    longest[NAME_MAX_BYTES] = 'n';
    longest[NAME_MAX_BYTES + 1] = '\0';
    check(!name_ok(longest));

    check(name_ok("default"));
    check(name_ok("a b/c:d.e"));
    check(name_ok("b\xC3\xBC"
                  "cher \xF0\x9F\x93\x9A"));
    check(!name_ok(NULL));
    check(!name_ok(""));
    check(!name_ok("a\nb"));
    check(!name_ok("tab\t"));
    check(!name_ok("\x7F"));
    check(!name_ok("\x1B[31m"));
    check(!name_ok("\xC2\x85"));
    check(!name_ok("\xFF"));
}

TEST(text, width_counts_columns_not_bytes)
{
    static const struct {
        const char *text;
        size_t columns;
    } cases[] = {
        {"", 0},
        {"abc", 3},
        {"\xC3\xA4\xC3\xB6", 2},
        {"e\xCC\x81", 1},                /* e with a combining accent */
        {"\xE6\xBC\xA2\xE5\xAD\x97", 4}, /* two wide characters */
        {"\xF0\x9F\x98\x80", 2},         /* emoji */
        {"\xFF\xFF", 2},
    };
    for (size_t i = 0; i < CASES(cases); i++)
        check_case_int(text_width(cases[i].text, strlen(cases[i].text)), cases[i].columns,
                       cases[i].text);
}

TEST(text, fit_cuts_and_pads_to_the_column)
{
    static const struct {
        const char *text;
        size_t columns;
        bool pad;
        const char *expected;
    } cases[] = {
        {"abc", 5, true, "abc  "},
        {"abc", 5, false, "abc"},
        {"abcde", 5, true, "abcde"},
        {"abcdef", 5, true, "abcd\xE2\x80\xA6"},
        {"abc", 1, true, "\xE2\x80\xA6"},
        {"abc", 0, true, ""},
        {"", 2, true, "  "},
        {"\xE6\xBC\xA2\xE5\xAD\x97", 4, true, "\xE6\xBC\xA2\xE5\xAD\x97"},
        /* A wide character that does not fit leaves a blank behind the ellipsis. */
        {"\xE6\xBC\xA2\xE5\xAD\x97x", 4, true, "\xE6\xBC\xA2\xE2\x80\xA6 "},
        {"a\nb\x1B", 5, false, "a b "},
        {"\xFFz", 5, false, "\xEF\xBF\xBDz"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct buf buf;
        buf_init(&buf);
        text_fit(&buf, cases[i].text, strlen(cases[i].text), cases[i].columns, cases[i].pad);
        check_str(buf.data, cases[i].expected);
        if (cases[i].pad)
            check_int(text_width(buf.data, buf.len), ==, cases[i].columns);
        buf_done(&buf);
    }
}

TEST(text, cleaning_replaces_what_is_no_utf8_and_waits_for_the_rest_of_a_character)
{
    static const struct {
        const char *text;
        size_t len;
        size_t used; /* while more may come */
        const char *clean;
    } cases[] = {
        {"", 0, 0, ""},
        {"plain text, long enough", 23, 23, "plain text, long enough"},
        {"a\0b", 3, 3,
         "a\xEF\xBF\xBD"
         "b"},
        {"12345678\xFF", 9, 9, "12345678\xEF\xBF\xBD"},
        {"x\xC3", 2, 1, "x"},
        {"x\xE2\x82", 3, 1, "x"},
        {"x\xF0\x9F\x98", 4, 1, "x"},
        {"x\xF0\x9F\x98\x80", 5, 5, "x\xF0\x9F\x98\x80"},
        {"\xE0\x80", 2, 2, "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0", 2, 2, "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF5", 1, 1, "\xEF\xBF\xBD"},
        {"\xC3"
         "a",
         2, 2,
         "\xEF\xBF\xBD"
         "a"},
    };
    struct buf buf;
    buf_init(&buf);
    for (size_t i = 0; i < CASES(cases); i++) {
        buf_clear(&buf);
        check_int(utf8_clean(&buf, cases[i].text, cases[i].len, false), ==, cases[i].used);
        check_str(buf.data, cases[i].clean);
        check_int(utf8_clean(&buf, cases[i].text, cases[i].len, true), ==, cases[i].len);
        check(utf8_valid(buf.data, buf.len));
    }
    buf_done(&buf);
}

TEST(text, plural_is_the_ending_of_a_counted_noun)
{
    check_str(plural(0), "s");
    check_str(plural(1), "");
    check_str(plural(2), "s");
}

TEST(text, plain_is_what_a_person_reads_of_a_line)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {
        {"", ""},
        {"as it is", "as it is"},
        {"  between blanks \t", "between blanks"},
        {"\033[31mred\033[0m text", "red text"},
        {"\033[38;5;208;1mmany\033[K", "many"},
        {"\033]0;title\007after", "after"},
        {"\033]8;;http://x\033\\link\033]8;;\033\\", "link"},
        {"\033(Bshort", "Bshort"},
        {"cut off \033[3", "cut off"},
        {"cut off \033", "cut off"},
        {"tab\tbell\007", "tab bell"},
        {"stray \xFF byte", "stray ? byte"},
        {"\xC2\x9B"
         "C1",
         "C1"},
        {"\xC3\xA4\xE2\x82\xAC", "\xC3\xA4\xE2\x82\xAC"},
    };
    char out[64];
    for (size_t i = 0; i < CASES(cases); i++) {
        size_t len = text_plain(cases[i].text, strlen(cases[i].text), out, sizeof out);
        check_str(out, cases[i].plain);
        check_int(len, ==, strlen(cases[i].plain));
    }
    check_int(text_plain("\xC3\xA4\xC3\xA4", 4, out, 4), ==, 2); /* between characters */
    check_str(out, "\xC3\xA4");
}
