/* JSON that is stored, without its secrets (SH-15). */
#include "run/json_redact.h"

#include "base/err.h"
#include "base/json.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <tend.h>

static struct redactor *redactor(void)
{
    struct redactor *made;
    struct err err;
    const struct redact_known known = {0};
    check_int(redactor_new(&known, &made, &err), ==, 0);
    return made;
}

static void check_redacted(const char *text, const char *wanted)
{
    struct redactor *clean = redactor();
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    check(value != NULL);
    char *got = json_redacted(clean, value);
    check_str(got, wanted);
    free(got);
    json_decref(value);
    redactor_free(clean);
}

/* {"token": {"value": …}} was stored as it was: only a string or a number right at the name was
 * judged by it. */
TEST(json_redact, SH_15_what_lies_below_a_secret_name_is_secret_at_any_depth)
{
    check_redacted(
        "{\"token\":{\"value\":\"RESobj77Kx9Lm2\"},"
        "\"passwords\":{\"db\":\"RESnest77Kx9Lm2\",\"all\":[[\"ab1\"],{\"x\":\"cd2\"}]}}",
        "{\"token\":{\"value\":\"[redacted]\"},"
        "\"passwords\":{\"db\":\"[redacted]\",\"all\":[[\"[redacted]\"],{\"x\":\"["
        "redacted]\"}]}}");
    check_redacted("{\"pin\":[99887766,[4711]],\"password\":{\"digits\":12345678}}",
                   "{\"pin\":[\"[redacted]\",[\"[redacted]\"]],"
                   "\"password\":{\"digits\":\"[redacted]\"}}");
}

TEST(json_redact, what_is_harmless_below_a_secret_name_stays)
{
    check_redacted("{\"password\":{\"set\":true,\"length\":12,\"expires\":null}}",
                   "{\"password\":{\"set\":true,\"length\":12,\"expires\":null}}");
    check_redacted("{\"tokens\":{\"prompt\":120345,\"completion\":[1,20000]}}",
                   "{\"tokens\":{\"prompt\":120345,\"completion\":[1,20000]}}");
    check_redacted("{\"user\":{\"name\":\"Ann 12345678\"}}",
                   "{\"user\":{\"name\":\"Ann 12345678\"}}");
}

static int result_of(const char *bytes, size_t len, char **ret)
{
    struct redactor *clean = redactor();
    struct buf output;
    buf_init(&output);
    buf_append(&output, bytes, len);
    int rc = result_of_output(clean, &output, ret);
    buf_done(&output);
    redactor_free(clean);
    return rc;
}

/* The text of a command in Latin-1 was dropped without a word. */
TEST(json_redact, output_that_is_no_UTF_8_is_a_result)
{
    char *result;
    check_int(result_of("caf\xe9\n", 5, &result), ==, 0);
    check_str(result, "\"caf\xef\xbf\xbd\"");
    free(result);
    check_int(result_of("a\0b \n", 5, &result), ==, 0);
    check_str(result, "\"a\xef\xbf\xbd"
                      "b\"");
    free(result);
    check_int(result_of(" \n", 2, &result), ==, 0);
    check(result == NULL);
}

TEST(json_redact, a_result_is_as_long_and_as_deep_as_the_store_takes)
{
    char *result;
    char deep[2 * JSON_DEPTH_MAX + 2];
    memset(deep, '[', JSON_DEPTH_MAX);
    deep[JSON_DEPTH_MAX] = '1';
    memset(deep + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX);
    deep[sizeof deep - 1] = '\0';
    check_int(result_of(deep, sizeof deep - 1, &result), ==, 0);
    check_str(result, deep);
    free(result);
    char *large = malloc(RESULT_BYTES + 1);
    check(large != NULL);
    memset(large, ' ', RESULT_BYTES + 1);
    check_int(result_of(large, RESULT_BYTES + 1, &result), ==, TEND_EINVAL);
    free(large);
}
