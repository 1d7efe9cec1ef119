/* base/json: is it JSON? */
#include "base/json.h"
#include "unit/case.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

TEST(json, accepts_what_rfc_8259_allows)
{
    static const char *const documents[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "10",
        "1.5",
        "1e5",
        "1E+5",
        "-1.5e-10",
        "123456789012345678901234567890",
        "1e400",
        "0.1",
        "0e0",
        "\"\"",
        "\"a\"",
        "[]",
        "{}",
        " [ ] ",
        "\t{ }\r\n",
        "[1,2,3]",
        "[[],[[]],{}]",
        "{\"a\":1}",
        "{\"a\":1,\"a\":2}",
        "{\"\":0}",
        "{\"a\":{\"b\":[1,{\"c\":null}]}}",
        "[null,true,false,0,\"\",[],{}]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0000\"",
        "\"\\u00e9\\u20AC\"",
        "\"\\ud83d\\ude00\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\uDBFF\\uDFFF\"",
        "\"\x7F\"",
        "\"\xC3\xA9\"",
        "\"\xF0\x9F\x98\x80\"",
        "\"\xEF\xBB\xBF\"",
        "\"\xF4\x8F\xBF\xBF\"",
        "\"12345678\"",
        "\"1234567\xC3\xA9\"",
        "\"\xE2\x80\xA8\"",
        "[\"a\" , \"b\"]",
        "{\"a\" : 1 , \"b\" : 2}",
        "\"/* no comment */\"",
        "[-0.0]",
    };
    for (size_t i = 0; i < CASES(documents); i++)
        check_case_int(json_check(documents[i], strlen(documents[i]), NULL), 0, documents[i]);
}

TEST(json, refuses_everything_else)
{
    static const char *const documents[] = {
        "",
        " ",
        "nul",
        "nulll",
        "NULL",
        "True",
        "tru",
        "truee",
        "+1",
        "01",
        "-01",
        "00",
        "-",
        "--1",
        "1.",
        ".5",
        "-.5",
        "1.e5",
        "1e",
        "1e+",
        "1E-",
        "1e5.5",
        "0x10",
        "1_000",
        "1 2",
        "Infinity",
        "NaN",
        "-Infinity",
        "'a'",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"\\a\"",
        "\"\\x41\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u123g\"",
        "\"\\U0041\"",
        "\"\n\"",
        "\"\t\"",
        "\"\x01\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[,]",
        "[1,,2]",
        "[1 2]",
        "[1}",
        "[1:2]",
        "[\"a\":1]",
        "{",
        "}",
        "{1:2}",
        "{a:1}",
        "{'a':1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,,\"b\":2}",
        "{\"a\":1]",
        "{\"a\",1}",
        "{\"a\":1}}",
        "{\"a\":1}{",
        "[] []",
        "[]x",
        "null null",
        "// c\n1",
        "/* c */ 1",
        "[1] # c",
        "\xEF\xBB\xBF{}",
        "\xFF",
        "\"\xFF\"",
        "\"\xC3\"",
        "\"\xC3",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"\xF5\x80\x80\x80\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83d\\ud83d\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\n\"",
        "\"\\ude00\\ud83d\"",
        "\"\\ud83d\\u12\"",
        "\v1",
        "\f1",
        "\xC2\xA0"
        "1",
        "{\"a\":1",
        "{\"a\":",
        "{\"a\"",
        "{\"",
        "[\"a",
        "[\"a\"",
        "[{",
        "{\"a\":[",
        "{[]:1}",
        "{null:1}",
        "[1]]",
        "*",
        "{*}",
        "\\",
        "[\\]",
        "\"a\" \"b\"",
        "<null>",
        "[<null>]",
        "${1}",
        "1]",
        "1,",
        ":",
        ",",
        "{\"a\"::1}",
    };
    for (size_t i = 0; i < CASES(documents); i++) {
        struct json_fault fault = {0};
        check_case_int(json_check(documents[i], strlen(documents[i]), &fault), TEND_EINVAL,
                       documents[i]);
        check_case(fault.reason != NULL, documents[i]);
        check_case(fault.offset <= strlen(documents[i]), documents[i]);
    }
}

TEST(json, nul_bytes_are_not_the_end_of_the_text)
{
    check_int(json_check("1\0", 2, NULL), ==, TEND_EINVAL);
    check_int(json_check("\"a\0b\"", 5, NULL), ==, TEND_EINVAL);
    check_int(json_check("\"\\\0\"", 4, NULL), ==, TEND_EINVAL);
    check_int(json_check("[\0]", 3, NULL), ==, TEND_EINVAL);
    check_int(json_check("true", 3, NULL), ==, TEND_EINVAL);
    check_int(json_check("truex", 4, NULL), ==, 0);
    check_int(json_check(NULL, 0, NULL), ==, TEND_EINVAL);
}

TEST(json, says_where_and_why)
{
    static const struct {
        const char *text;
        size_t offset, line, column;
        const char *reason;
    } cases[] = {
        {"", 0, 1, 1, "ends where a value"},
        {"{\n  \"a\": 1,\n  b: 2\n}", 14, 3, 3, "key in double quotes"},
        {"[1,\n2,\n]", 7, 3, 1, "value is expected"},
        {"{\"\xC3\xA4\xC3\xB6\": x}", 9, 1, 8, "value is expected"},
        {"\"ab\ncd\"", 3, 1, 4, "control character"},
        {"[\"abc]", 6, 1, 7, "not closed"},
        {"[\"abc\"", 6, 1, 7, "array is not closed"},
        {"{\"a\":1", 6, 1, 7, "object is not closed"},
        {"{\"a\" 1}", 5, 1, 6, "colon"},
        {"[1 2]", 3, 1, 4, "comma or ]"},
        {"{\"a\":1 2}", 7, 1, 8, "comma or }"},
        {"1 2", 2, 1, 3, "after the end"},
        {"\"abcdefghij\xFF\"", 11, 1, 12, "UTF-8"},
        {"[01]", 1, 1, 2, "start with a zero"},
        {"\"\\q\"", 1, 1, 2, "unknown escape"},
        {"\"\\ud83d\"", 1, 1, 2, "surrogate"},
        {"\xEF\xBB\xBF{}", 0, 1, 1, "byte order mark"},
        {"[nil]", 1, 1, 2, "unknown word"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct json_fault fault = {0};
        check_case(json_check(cases[i].text, strlen(cases[i].text), &fault) < 0, cases[i].text);
        check_contains(fault.reason, cases[i].reason);
        check_case_int(fault.offset, cases[i].offset, cases[i].text);
        check_case_int(fault.line, cases[i].line, cases[i].text);
        check_case_int(fault.column, cases[i].column, cases[i].text);
    }
}

/* n opening brackets, then n closing ones. */
static char *nested(size_t depth, const char *opening, char closing)
{
    size_t each = strlen(opening);
    char *text = malloc(depth * (each + 1) + 2);
    char *at = text;
    for (size_t i = 0; i < depth; i++, at += each)
        memcpy(at, opening, each);
    if (each > 1)
        *at++ = '1';
    memset(at, closing, depth);
    at[depth] = '\0';
    return text;
}

TEST(json, depth_512_is_allowed_and_513_is_not)
{
    for (int objects = 0; objects < 2; objects++) {
        const char *opening = objects ? "{\"a\":" : "[";
        char closing = objects ? '}' : ']';
        char *deepest = nested(JSON_DEPTH_MAX, opening, closing);
        char *deeper = nested(JSON_DEPTH_MAX + 1, opening, closing);
        struct json_fault fault = {0};
        check_int(json_check(deepest, strlen(deepest), NULL), ==, 0);
        check_int(json_check(deeper, strlen(deeper), &fault), ==, TEND_EINVAL);
        check_contains(fault.reason, "512");
        free(deepest);
        free(deeper);
    }
}

TEST(json, a_million_opening_brackets_are_refused_early)
{
    char *text = malloc(1000000);
    memset(text, '[', 1000000);
    struct json_fault fault = {0};
    check_int(json_check(text, 1000000, &fault), ==, TEND_EINVAL);
    check_int(fault.offset, ==, JSON_DEPTH_MAX);
    free(text);
}

TEST(json, special_bytes_are_seen_at_every_position_of_a_word)
{
    for (size_t at = 1; at < 40; at++) {
        char text[48];
        memset(text, 'x', sizeof text);
        text[0] = '"';
        text[41] = '"';
        check_int(json_check(text, 42, NULL), ==, 0);
        static const char bad[] = {'\n', '\0', '\x1F', '\x80', '\xFF', '"', '\\'};
        for (size_t i = 0; i < sizeof bad; i++) {
            text[at] = bad[i];
            check_int(json_check(text, 42, NULL), ==, TEND_EINVAL);
        }
        text[at] = '\x7F';
        check_int(json_check(text, 42, NULL), ==, 0);
    }
}

/* Whatever one of the two refuses the other does, but for what is known to differ. */
TEST(json, agrees_with_jansson_on_mutated_documents)
{
    static const char seed_text[] = "{\"a\":[1,-2.5e3,\"x\\n\\u00e9\xC3\xA9\",true,null],\"b\":{}}";
    static const char alphabet[] = "{}[]:,\"\\0123.eE+-tfn u\xC3\xA9 \n";
    unsigned seed = 99;
    for (int round = 0; round < 30000; round++) {
        char text[sizeof seed_text];
        memcpy(text, seed_text, sizeof text);
        for (int change = 0; change < 1 + round % 3; change++) {
            seed = seed * 1103515245 + 12345;
            size_t at = (seed >> 8) % (sizeof seed_text - 1);
            seed = seed * 1103515245 + 12345;
            text[at] = alphabet[(seed >> 8) % (sizeof alphabet - 1)];
        }
        json_error_t error;
        json_t *parsed = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        bool ours = json_check(text, strlen(text), NULL) == 0;
        /* jansson refuses numbers it cannot hold. */
        bool too_large = !parsed && (json_error_code(&error) == json_error_numeric_overflow);
        check_case(ours == (parsed != NULL) || too_large, text);
        json_decref(parsed);
    }
}
