/* base/buf: the growing string. */
#include "base/buf.h"
#include "base/json.h"
#include "unit/case.h"

#include <stdlib.h>
#include <string.h>

TEST(buf, new_one_is_an_empty_string)
{
    struct buf buf;
    buf_init(&buf);
    check_str(buf.data, "");
    check_int(buf.len, ==, 0);
    buf_done(&buf);
    check_str(buf.data, "");
}

TEST(buf, appends_in_order_and_stays_terminated_while_it_grows)
{
    struct buf buf;
    buf_init(&buf);
    for (int i = 0; i < 10000; i++) {
        buf_putc(&buf, (char)('a' + i % 26));
        check(buf.data[buf.len] == '\0');
    }
    check_int(buf.len, ==, 10000);
    for (int i = 0; i < 10000; i++)
        check(buf.data[i] == 'a' + i % 26);
    buf_clear(&buf);
    check_str(buf.data, "");
    buf_puts(&buf, "one ");
    buf_append(&buf, "two three", 3);
    buf_append(&buf, "", 0);
    buf_printf(&buf, " %s %d", "three", 4);
    check_str(buf.data, "one two three 4");
    buf_done(&buf);
}

TEST(buf, keeps_nul_bytes)
{
    struct buf buf;
    buf_init(&buf);
    buf_append(&buf, "a\0b", 3);
    check_int(buf.len, ==, 3);
    check(memcmp(buf.data, "a\0b", 4) == 0);
    buf_done(&buf);
}

TEST(buf, printf_works_whatever_room_is_left)
{
    for (size_t filled = 0; filled < 200; filled++) {
        struct buf buf;
        buf_init(&buf);
        for (size_t i = 0; i < filled; i++)
            buf_putc(&buf, 'x');
        buf_printf(&buf, "%s", "0123456789");
        check_int(buf.len, ==, filled + 10);
        check_str(buf.data + filled, "0123456789");
        buf_done(&buf);
    }
}

TEST(buf, prints_integers_to_the_ends_of_their_range)
{
    static const struct {
        int64_t number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {7, "7"},
        {-1, "-1"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct buf buf;
        buf_init(&buf);
        buf_int(&buf, cases[i].number);
        check_str(buf.data, cases[i].text);
        buf_done(&buf);
    }
}

TEST(buf, out_of_memory_sticks_until_cleared)
{
    volatile size_t too_much = SIZE_MAX;
    struct buf buf;
    buf_init(&buf);
    buf_puts(&buf, "kept");
    buf_append(&buf, "x", too_much);
    check(buf.failed);
    buf_puts(&buf, " not appended");
    buf_printf(&buf, "%d", 1);
    check_str(buf.data, "kept");
    check(buf_take(&buf) == NULL);
    check(!buf.failed);
    buf_append(&buf, "x", too_much);
    check(buf.failed);
    check_str(buf.data, "");
    buf_clear(&buf);
    buf_puts(&buf, "again");
    check(!buf.failed);
    check_str(buf.data, "again");
    buf_done(&buf);
}

TEST(buf, take_hands_over_a_string_to_free_even_when_empty)
{
    struct buf buf;
    buf_init(&buf);
    char *empty = buf_take(&buf);
    check_str(empty, "");
    free(empty);
    buf_puts(&buf, "text");
    char *text = buf_take(&buf);
    check_str(text, "text");
    free(text);
    check_str(buf.data, "");
    buf_done(&buf);
}

TEST(buf, json_strings_are_escaped)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"a\"b\\c/d", "\"a\\\"b\\\\c/d\""},
        {"\n\r\t\b\x01\x1f\x7f", "\"\\n\\r\\t\\u0008\\u0001\\u001f\x7f\""},
        {"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80", "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80\""},
        {"\xFF", "\"\xEF\xBF\xBD\""},
        {"a\xC3", "\"a\xEF\xBF\xBD\""},
        {"\xC0\x80z", "\"\xEF\xBF\xBD\xEF\xBF\xBDz\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct buf buf;
        buf_init(&buf);
        buf_json_string(&buf, cases[i].text, strlen(cases[i].text));
        check_str(buf.data, cases[i].json);
        buf_done(&buf);
    }
    struct buf buf;
    buf_init(&buf);
    buf_json_string(&buf, "a\0b", 3);
    check_str(buf.data, "\"a\\u0000b\"");
    buf_done(&buf);
}

TEST(buf, json_string_of_any_bytes_is_valid_json)
{
    struct buf buf;
    buf_init(&buf);
    unsigned seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char bytes[12];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1103515245 + 12345;
            bytes[i] = (char)(seed >> 16);
        }
        buf_clear(&buf);
        buf_json_string(&buf, bytes, (size_t)round % (sizeof bytes + 1));
        check_int(json_check(buf.data, buf.len, NULL), ==, 0);
    }
    buf_done(&buf);
}
