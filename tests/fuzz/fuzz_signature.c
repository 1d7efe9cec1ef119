/*
 * core/signature and core/classify on any output: bounded valid text, always a class, and other
 * numbers in it make no other signature.
 */
#include "base/text.h"
#include "core/classify.h"
#include "core/signature.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "error: cannot open /tmp/x.Ab3/a.c:12:5 (0x7ffe12)\nmake: *** [all] Error 2\n",
    "\x1b[31mfatal\x1b[0m: could not read Username for 'https://x': terminal prompts disabled\n",
    "Sun, Nov 15 13:57:02 2026 worker-12 f47ac10b-58cc-4372-a567-0e02b2c3d479 Connection refused",
    "10%\r20%\r99%\rTS2304 fe80::1:2 1,234.5ms \xE2\xA0\x8B caf\xC3\xA9",
    "HTTP/1.1 503 Service Unavailable\nvalidation error: missing required field 'x'\n",
    "ok 1 - permission denied\nnot ok 2 - adds\n# fail 1\n--- FAIL: TestX (0.00s)\nFAIL\tx\t0.1s\n",
    "=== 2 failed, 213 passed, 1 error in 4.18s ===\n\xE2\x9C\x97 x\n12/12 Test #12: x ***Failed\n",
    "usage: x [-a]\n  -a  all\n#9 1.2 E: no\n\xE2\x94\x82 Error: web-7d9f8b6c5-x2x4q aKdQzXwB\n",
    NULL,
};

static void look_at(const struct signature *signature)
{
    size_t len = strlen(signature->text);
    must(len <= SIGNATURE_TEXT_BYTES && utf8_valid(signature->text, len));
    must(strspn(signature->hash, "0123456789abcdef") == 16);
    must(signature->failures >= -1);
    for (size_t i = 0; i < len; i++)
        must((unsigned char)signature->text[i] >= 0x20 && signature->text[i] != 0x7F);
}

/* Every digit 2 to 9 becomes another; what they are part of stays of the same kind. */
static void check_digits(struct ending ending, const uint8_t *data, size_t size)
{
    struct signature one = {0};
    struct signature two = {0};
    char *text = fuzz_text(data, size);
    char *other = fuzz_text(data, size);
    for (size_t i = 0; i < size; i++)
        if (other[i] >= '2' && other[i] <= '9')
            other[i] = (char)('2' + (other[i] - '2' + 3) % 8);
    /* Codes such as TS2304, digits that belong to a name such as step2, and a status after its word
     * are not masked, and escape sequences hold numbers of their own. */
    bool codes = memchr(text, 0x1B, size) != NULL;
    for (size_t i = 0; i < size; i++)
        codes = codes || (text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= 'a' && text[i] <= 'z') ||
                (text[i] & 0x80) != 0;
    signature_make(ending, text, size, &one);
    signature_make(ending, other, size, &two);
    must(codes || strcmp(one.hash, two.hash) == 0);
    free(text);
    free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct classifier *rules; /* made once: compiling takes longer than all the rest */
    if (!rules)
        must(classifier_new(&rules, NULL) == 0);
    struct ending ending = {ENDED_EXIT, 1};
    struct signature signature;
    signature_make(ending, (const char *)data, size, &signature);
    look_at(&signature);
    check_digits(ending, data, size);
    struct evidence evidence = {.ending = ending, .tail = (const char *)data, .tail_bytes = size};
    struct classification class;
    classify(rules, &evidence, &class);
    must(class.class != CLASS_NONE && strlen(class.rule) > 0);
    /* Whoever decides by text shows the text. */
    must((strncmp(class.rule, "text.", 5) == 0) == (strlen(class.line) > 0));
    must(strlen(class.line) <= RULE_LINE_BYTES && class.meaning);
    must(utf8_valid(class.line, strlen(class.line)));
    must(class.retryable == failure_class_retryable(class.class));
    return 0;
}
