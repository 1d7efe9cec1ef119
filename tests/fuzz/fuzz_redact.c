/* core/redact: any text, cut anywhere, comes out the same, and without what is known as secret. */
#include "core/redact.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "\x05plain text with hunter2-and-more inside",
    "\x01password=abc token: abcdefgh1234 \"secret\": \"a b\"",
    "\x03"
    "aHVudGVyMi1hbmQtbW9yZQ== hunter2%2dand-more",
    "\x07-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END RSA "
    "PRIVATE KEY-----\n",
    "\x02https://user:pass@host/ Bearer abc123def456 Authorization: Basic dXNlcjpwYXNz",
    "\x04ghp_0123456789abcdefABCD sk-ant-api03-abcdefghijklmnop eyJhbGciOiJ9.eyJzdWIiOiIx.c2ln",
    "\x09{\\\"api_key\\\":\\\"x\\\"} AKIAIOSFODNN7EXAMPLE \xC3\xA4",
    NULL,
};

static const char secret[] = "hunter2-and-more";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct redactor *redactor;
    struct redact_variable variable = {"A_PASSWORD", secret};
    const struct redact_known known = {.variables = &variable, .variable_count = 1};
    must(redactor_new(&known, &redactor, NULL) == 0);
    size_t step = size > 0 ? 1 + data[0] % 16 : 1;
    struct redact_stream stream;
    struct buf whole, pieces;
    buf_init(&whole);
    buf_init(&pieces);
    redact_init(&stream, redactor);
    redact_feed(&stream, data, size, &whole);
    redact_end(&stream, &whole);
    for (size_t at = 0; at < size; at += step)
        redact_feed(&stream, data + at, size - at < step ? size - at : step, &pieces);
    redact_end(&stream, &pieces);
    must(!whole.failed && !pieces.failed);
    must(whole.len == pieces.len && memcmp(whole.data, pieces.data, whole.len) == 0);
    must(!memmem(whole.data, whole.len, secret, strlen(secret)));
    redact_done(&stream);
    buf_done(&whole);
    buf_done(&pieces);
    redactor_free(redactor);
    return 0;
}
